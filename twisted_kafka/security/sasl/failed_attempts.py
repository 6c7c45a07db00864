"""Logs failed authentications: at once, but at most one line a second for each address, with the number of those left out."""

from collections.abc import Callable
from typing import Final

from twisted.logger import Logger

from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock

INTERVAL_NS: Final = 1_000_000_000
MAX_ADDRESSES: Final = 1_000
"""Most addresses with lines of their own at a time. All others share one line a second."""

OTHERS: Final = "other addresses"

_log = Logger()


class FailedAttempts:
    """The attempts at all listeners of a broker. Thread-safe."""

    def __init__(self, clock: IClock, call_later: Callable[[Callable[[], None], int], object]) -> None:
        """``call_later`` calls a function on any thread after that many milliseconds."""
        self._now_ns = clock.monotonic_ns
        self._call_later = call_later
        self._lock = machine.Lock()
        self._recent: dict[str, tuple[int, int]] = {}  # by address: when its last line was logged, and how many attempts since
        self._is_scheduled = False

    def record(self, address: str, connection_id: str, listener_name: str, why: str) -> None:
        """Log or count an attempt from ``address``. ``why`` must not contain secrets."""
        now_ns = self._now_ns()
        with self._lock:
            if address not in self._recent and len(self._recent) >= MAX_ADDRESSES:
                self._forget_quiet(now_ns)
                if len(self._recent) >= MAX_ADDRESSES:
                    address = OTHERS
            logged_ns, left_out = self._recent.get(address, (now_ns - INTERVAL_NS, 0))
            is_logged = now_ns - logged_ns >= INTERVAL_NS
            self._recent[address] = (now_ns, 0) if is_logged else (logged_ns, left_out + 1)
            must_schedule = not is_logged and not self._is_scheduled
            self._is_scheduled |= must_schedule
        if is_logged:
            _log.info(
                "Failed authentication with {id} of {listener} ({why}){more}",
                id=connection_id,
                listener=listener_name,
                why=why,
                more=_more(left_out),
            )
        if must_schedule:
            self._call_later(self.log_left_out, INTERVAL_NS // 1_000_000)

    def log_left_out(self) -> None:
        """Say how many attempts were left out, for each address whose last line is a second old."""
        now_ns = self._now_ns()
        lines = []
        with self._lock:
            for address, (logged_ns, left_out) in self._recent.items():
                if left_out and now_ns - logged_ns >= INTERVAL_NS:
                    lines.append((address, left_out))
            for address, _ in lines:
                self._recent[address] = (now_ns, 0)
            self._forget_quiet(now_ns)
            again = self._is_scheduled = any(left_out for _, left_out in self._recent.values())
        for address, left_out in lines:
            _log.info("{count} more failed authentications from {address}", count=left_out, address=address)
        if again:
            self._call_later(self.log_left_out, INTERVAL_NS // 1_000_000)

    def _forget_quiet(self, now_ns: int) -> None:
        for address, (logged_ns, left_out) in list(self._recent.items()):
            if not left_out and now_ns - logged_ns >= INTERVAL_NS:
                del self._recent[address]


def _more(left_out: int) -> str:
    return f"; {left_out} more from this address before" if left_out else ""
