"""The clock of one process: the world's time, with a wall clock that may be wrong."""

import threading
from collections.abc import Callable
from typing import Final

from twisted_kafka.world.machine.scheduler import FIRST_NS, Scheduler

EPOCH_NS: Final = 1_750_000_000_000_000_000
"""The wall clock at the beginning of each world: 15 June 2025."""


class WorldClock:
    """``IClock``. Time stands still while a thread computes."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.error_ns = 0
        """How much the wall clock is ahead."""

    def wall_ns(self) -> int:
        """Return nanoseconds since the epoch."""
        return self._scheduler.now_ns - FIRST_NS + EPOCH_NS + self.error_ns

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return self.wall_ns() // 1_000_000

    def monotonic_ns(self) -> int:
        """Return nanoseconds of virtual time."""
        return self._scheduler.now_ns

    steady_ns = monotonic_ns

    def cpu_ns(self) -> int:
        """Return 0: computing takes no time."""
        return 0

    def wait_until(self, condition: threading.Condition, due_ns: int) -> None:
        """Wait until the condition is notified or the time has come."""
        condition.wait(max(0, due_ns - self._scheduler.now_ns) / 1e9)

    def follow(self, wake: Callable[[], object]) -> None:
        pass  # monotonic time never jumps
