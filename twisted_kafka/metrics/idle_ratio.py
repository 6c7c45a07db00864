"""The part of the time that threads are idle, computed from the nanoseconds that they have waited."""

from collections.abc import Callable

from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock

WINDOW_NS = 1_000_000_000
"""The ratio covers at least this long; more frequent calls return the same value."""


class IdleRatio:
    """The part (0 to 1) of the time since the last call that ``threads`` threads have waited on average."""

    def __init__(self, clock: IClock, waited_ns: Callable[[], int], threads: Callable[[], int]) -> None:
        self._now_ns = clock.steady_ns
        self._waited_ns = waited_ns
        self._threads = threads
        self._lock = machine.Lock()
        self._since_ns = self._now_ns()
        self._waited_before_ns = waited_ns()
        self._ratio = 1.0

    def __call__(self) -> float:
        """Return the ratio."""
        with self._lock:
            now_ns = self._now_ns()
            passed_ns = now_ns - self._since_ns
            if passed_ns >= WINDOW_NS:
                waited_ns = self._waited_ns()
                ratio = (waited_ns - self._waited_before_ns) / passed_ns / max(1, self._threads())
                self._ratio = min(1.0, max(0.0, ratio))
                self._since_ns, self._waited_before_ns = now_ns, waited_ns
            return self._ratio
