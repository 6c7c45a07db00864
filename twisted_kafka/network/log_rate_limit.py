"""Keeps what strangers can cause from filling the log."""

from collections.abc import Callable
from typing import Final

LINES: Final = 10
"""So many lines are let through ..."""

INTERVAL_NS: Final = 10_000_000_000
"""... in so much time; how many were not is told with the first line after it."""


class LogRateLimit:
    """Counts the lines of one kind. Threads that ask at once may get a line more than there are."""

    __slots__ = ("_left", "_now_ns", "_since_ns", "suppressed")

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._since_ns = now_ns()
        self._left = LINES
        self.suppressed = 0

    def allow(self) -> bool:
        """Return whether a line may be written now."""
        now_ns = self._now_ns()
        if now_ns - self._since_ns >= INTERVAL_NS:
            self._since_ns = now_ns
            self._left = LINES
        if self._left > 0:
            self._left -= 1
            return True
        self.suppressed += 1
        return False

    def take_suppressed(self) -> str:
        """Return what to add to a line about those that were not written; empty when there are none."""
        count, self.suppressed = self.suppressed, 0
        return f" ({count} lines like this were left out before)" if count else ""
