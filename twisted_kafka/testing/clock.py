"""The clock of a broker under test. A test can hold it, advance it, and set it wrong.

clock = Clock()
with twisted_kafka.Broker(clock=clock) as broker:
    ...
    clock.advance(minutes=5)  # sessions expire, delayed requests time out, old segments go
"""

import contextlib
import datetime
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Final

from typing_extensions import override

from twisted_kafka.system import machine
from twisted_kafka.testing.arguments import check_number
from twisted_kafka.timing.clock import SystemClock

_SYSTEM: Final = SystemClock()
_HELD_WAIT_S: Final = 60.0
"""The longest real time that a thread waits before it checks a held clock again."""
_LAST_NS: Final = 2**63 - 1
"""The wall clock goes from 1970 to this time in 2262: nanoseconds in 64 bits."""


class Clock:
    """Starts at the present and runs like the system's clock until a test changes it, from any thread.

    Two times start together: the monotonic time, for durations and deadlines, and the wall clock, for timestamps.
    """

    cpu_ns = staticmethod(_SYSTEM.cpu_ns)
    steady_ns = staticmethod(_SYSTEM.steady_ns)

    def __init__(self, at: datetime.datetime | None = None) -> None:
        """The wall clock starts ``at`` this moment, by default at the present. Raises ValueError without a time zone."""
        if at is not None and at.tzinfo is None:
            raise ValueError(f"{at.isoformat()} needs a time zone, as in {at.isoformat()}+00:00")
        wall_ns = _SYSTEM.wall_ms() * 1_000_000 if at is None else int(at.timestamp() * 1000) * 1_000_000
        self._offset_ns = 0
        self._held_ns: int | None = None
        self._wall_offset_ns = self._first_wall_offset_ns = wall_ns - _SYSTEM.monotonic_ns()
        self._lock = machine.Lock()
        self._conditions: weakref.WeakSet[machine.Condition] = weakref.WeakSet()
        self._followers: list[weakref.WeakMethod[Callable[[], object]]] = []

    def monotonic_ns(self) -> int:
        """Return nanoseconds of the time that never goes back."""
        held_ns = self._held_ns
        return _SYSTEM.monotonic_ns() + self._offset_ns if held_ns is None else held_ns

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return (self.monotonic_ns() + self._wall_offset_ns) // 1_000_000

    @property
    def now(self) -> datetime.datetime:
        """The wall clock, in UTC."""
        return datetime.datetime.fromtimestamp(self.wall_ms() / 1000, datetime.UTC)

    @property
    def is_held(self) -> bool:
        """Whether time stands still."""
        return self._held_ns is not None

    @override
    def __repr__(self) -> str:
        return f"<Clock {self.now.isoformat(timespec='milliseconds')}{', held' if self.is_held else ''}>"

    def hold(self) -> None:
        """Let time stand still until ``release``; it moves only by ``advance``.

        A fetch that waits for records waits as well, and what its client sends after it: release the time before a client closes.
        """
        with self._lock:
            # A whole millisecond, like the ticks of timers: an event due in 60 s must happen when 60 s have passed.
            self._held_ns = -(-self.monotonic_ns() // 1_000_000) * 1_000_000

    def release(self) -> None:
        """Let time pass again, from where it stands."""
        with self._lock:
            if self._held_ns is not None:
                self._offset_ns = self._held_ns - _SYSTEM.monotonic_ns()
                self._held_ns = None
        self._wake()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the time in a ``with`` block."""
        self.hold()
        try:
            yield
        finally:
            self.release()

    def advance(self, *, ms: float = 0, seconds: float = 0, minutes: float = 0, hours: float = 0, days: float = 0) -> None:
        """Let this much time pass at once, on both clocks. Events that are due happen soon, on the broker's threads.

        Raises ValueError for a negative time: deadlines never go back. ``jump`` sets the wall clock back. Raises it, too, if the
        wall clock would leave the years 1970 to 2262.
        """
        by_ns = _nanoseconds(ms, seconds, minutes, hours, days)
        with self._lock:
            self._check(by_ns)
            if by_ns < 0:
                raise ValueError(f"time cannot go back by {-by_ns / 1e9:g} s: use jump(), which moves the wall clock alone")
            if self._held_ns is not None:
                self._held_ns += by_ns
            else:
                self._offset_ns += by_ns
        self._wake()

    def jump(self, *, ms: float = 0, seconds: float = 0, minutes: float = 0, hours: float = 0, days: float = 0) -> None:
        """Set the wall clock forward or back, as an administrator or NTP does. Deadlines stay where they are.

        Raises ValueError if the wall clock would leave the years 1970 to 2262.
        """
        by_ns = _nanoseconds(ms, seconds, minutes, hours, days)
        with self._lock:
            self._check(by_ns)
            self._wall_offset_ns += by_ns
        self._wake()

    def _check(self, by_ns: int) -> None:
        if not 0 <= self.monotonic_ns() + self._wall_offset_ns + by_ns <= _LAST_NS:
            raise ValueError("the wall clock would leave the years 1970 to 2262")

    def reset(self) -> None:
        """Let time pass, and set the wall clock as if no test had changed it. Deadlines stay where they are."""
        self.release()
        with self._lock:
            self._wall_offset_ns = self._first_wall_offset_ns - self._offset_ns
        self._wake()

    def wait_until(self, condition: threading.Condition, due_ns: int) -> None:
        """Wait, with the condition locked, until it is notified, ``monotonic_ns`` has reached ``due_ns``, or time has jumped."""
        # Under the lock: a jump either sees the condition, and notifies it, or is seen here.
        with self._lock:
            self._conditions.add(condition)
            wait_ns = due_ns - self.monotonic_ns()
            is_held = self.is_held
        if wait_ns > 0:
            condition.wait(_HELD_WAIT_S if is_held else wait_ns / 1e9)

    def follow(self, wake: Callable[[], object]) -> None:
        """Call ``wake``, a bound method, whenever time jumps, until its object is garbage."""
        with self._lock:
            self._followers = [each for each in self._followers if each() is not None]
            self._followers.append(weakref.WeakMethod(wake))

    def _wake(self) -> None:
        with self._lock:
            conditions, followers = list(self._conditions), list(self._followers)
        for condition in conditions:
            with condition:
                condition.notify_all()
        for follower in followers:
            wake = follower()
            if wake is not None:
                wake()


def _nanoseconds(ms: float, seconds: float, minutes: float, hours: float, days: float) -> int:
    for name, value in (("ms", ms), ("seconds", seconds), ("minutes", minutes), ("hours", hours), ("days", days)):
        check_number(name, value)
    try:
        return round((ms + 1000 * (seconds + 60 * (minutes + 60 * (hours + 24 * days)))) * 1_000_000)
    except (OverflowError, ValueError):  # infinite, or no number
        raise ValueError("the wall clock would leave the years 1970 to 2262") from None
