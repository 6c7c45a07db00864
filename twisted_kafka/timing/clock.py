"""The clock that is passed to everything that needs the time, so that a test can control it."""

import threading
import time
from collections.abc import Callable
from typing import Protocol


class IClock(Protocol):
    """A source of the current time."""

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch, for the timestamps of records and files."""

    def monotonic_ns(self) -> int:
        """Return nanoseconds of a clock that never goes backwards, for durations and deadlines."""

    def steady_ns(self) -> int:
        """Return nanoseconds of the machine's clock, which tests do not stop: to measure the machine, and for short polls."""

    def cpu_ns(self) -> int:
        """Return nanoseconds of processor time that all threads of the process have used."""

    def wait_until(self, condition: threading.Condition, due_ns: int) -> None:
        """Wait, with the condition locked, until it is notified or ``monotonic_ns`` has reached ``due_ns``."""

    def follow(self, wake: Callable[[], object]) -> None:
        """Call ``wake``, a bound method, whenever time jumps, until its object is garbage."""


class SystemClock:
    """The system's clock."""

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    monotonic_ns = staticmethod(time.monotonic_ns)
    steady_ns = staticmethod(time.monotonic_ns)
    cpu_ns = staticmethod(time.process_time_ns)

    def wait_until(self, condition: threading.Condition, due_ns: int) -> None:
        """Wait until the condition is notified or the time has come."""
        condition.wait(max(0, due_ns - time.monotonic_ns()) / 1e9)

    def follow(self, wake: Callable[[], object]) -> None:
        pass  # this time never jumps


class ManualClock:
    """A clock that only ``advance_ms`` moves: wall time and monotonic time together."""

    computing = 0.0
    """The number of threads that compute while time passes: ``cpu_ns`` advances this many times as fast."""

    def __init__(self, wall_ms: int = 1_700_000_000_000) -> None:
        self._wall_ns = wall_ms * 1_000_000
        self._monotonic_ns = 1_000_000_000
        self._cpu_ns = 0

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return self._wall_ns // 1_000_000

    def monotonic_ns(self) -> int:
        """Return nanoseconds since an arbitrary moment."""
        return self._monotonic_ns

    def steady_ns(self) -> int:
        """Return the same as ``monotonic_ns``."""
        return self._monotonic_ns

    def cpu_ns(self) -> int:
        """Return nanoseconds of processor time."""
        return self._cpu_ns

    def wait_until(self, condition: threading.Condition, due_ns: int) -> None:
        """Wait until the condition is notified, for at most ``due_ns - monotonic_ns()`` nanoseconds of real time."""
        condition.wait(max(0, due_ns - self._monotonic_ns) / 1e9)

    def follow(self, wake: Callable[[], object]) -> None:
        pass  # the caller that advances this clock runs due calls itself

    def advance_ms(self, ms: float) -> None:
        """Move the clock forward by ``ms`` milliseconds."""
        passed = int(ms * 1_000_000)
        self._wall_ns += passed
        self._monotonic_ns += passed
        self._cpu_ns += int(passed * self.computing)
