"""New connections of which too many are pending: who makes room for the others.

A flood of connections that send nothing displaces itself. A client that comes back with thousands of others after a restart, and
has to wait for its turn, is not closed: it has sent something.
"""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

SILENT_S: Final = 10.0
"""How long a new connection has to send its first byte, while there are too many. One of thousands takes seconds."""


class Newcomers(Generic[T]):
    """Connections that may have sent nothing yet, oldest first. Used on the thread of their processor."""

    def __init__(self, seconds: Callable[[], float], is_silent: Callable[[T], bool]) -> None:
        """``is_silent`` says whether nothing has come over a connection that is open."""
        self._seconds = seconds
        self._is_silent = is_silent
        self._since: dict[T, float] = {}

    def add(self, newcomer: T) -> None:
        """Add a connection that was opened now."""
        self._since[newcomer] = self._seconds()

    def forget(self, newcomer: T) -> None:
        """Forget a connection that is closed or not new any more."""
        self._since.pop(newcomer, None)

    def take_silent(self) -> T | None:
        """Return a connection that has been silent for ``SILENT_S``, and forget it; None if no connection has.

        A connection that has sent something is examined only once, however often this is called.
        """
        limit_s = self._seconds() - SILENT_S
        while self._since:
            newcomer, since_s = next(iter(self._since.items()))
            if since_s > limit_s:
                return None
            del self._since[newcomer]
            if self._is_silent(newcomer):
                return newcomer
        return None
