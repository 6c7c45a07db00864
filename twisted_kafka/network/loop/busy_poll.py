"""Polling for a moment before a network thread sleeps. (docs/adr/0034.)

To put a processor to sleep and to wake it takes longer than a client that waits for its response needs to send the next request. So
the thread polls its sockets for up to ``BUSY_POLL_NS`` before it sleeps, if its last wait was that short. If it has done so in
vain, it waits for a growing number of short waits before it does so again: it may have kept the client from its processor.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

BUSY_POLL_NS: Final = 100_000
"""Longest time that a thread polls before it sleeps."""

MAX_PAUSE: Final = 64
"""After polls in vain, at most this many short waits pass without one."""


class BusyPoll:
    """Decides before each wait of one loop whether to poll first."""

    __slots__ = ("_left", "_now_ns", "_pause", "_was_busy")

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._pause = 1
        self._left = 1  # short waits until it may poll again
        self._was_busy = False

    @property
    def is_due(self) -> bool:
        """Whether the next wait is expected to be short."""
        return not self._left

    def poll(self, poll: Callable[[float, int], Iterable[tuple[int, Any]]], max_events: int) -> Iterable[tuple[int, Any]]:
        """Call ``poll`` with a timeout of 0 until there are events or ``BUSY_POLL_NS`` have passed; return the events."""
        self._was_busy = True
        until_ns = self._now_ns() + BUSY_POLL_NS
        while True:
            events = poll(0, max_events)
            if events or self._now_ns() >= until_ns:
                return events

    def note_wait(self, waited_ns: int) -> None:
        """Learn how long a wait has taken, including the time in ``poll``."""
        was_busy, self._was_busy = self._was_busy, False
        if waited_ns >= BUSY_POLL_NS:
            if was_busy:
                self._pause = min(2 * self._pause, MAX_PAUSE)
            self._left = self._pause
        elif was_busy:
            self._pause = max(1, self._pause // 2)
        elif self._left:
            self._left -= 1
