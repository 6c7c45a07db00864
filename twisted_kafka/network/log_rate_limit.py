"""Limits log lines that any client can cause, so that they cannot fill the log."""

from collections.abc import Callable
from typing import Final

LINES: Final = 10
"""How many lines are allowed ..."""

INTERVAL_NS: Final = 10_000_000_000
"""... per interval. The first line of the next interval says how many were suppressed."""


class LogRateLimit:
    """The limit of one kind of line. Without a lock: several threads at once may exceed it by a line."""

    __slots__ = ("_left", "_now_ns", "_since_ns", "suppressed")

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._since_ns = now_ns()
        self._left = LINES
        self.suppressed = 0

    def allow(self) -> bool:
        """Return whether a line may be logged now; count it if not."""
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
        """Return a suffix for a line that says how many were suppressed before it; empty for none."""
        count, self.suppressed = self.suppressed, 0
        return f" ({count} similar lines were suppressed before this one)" if count else ""
