"""Busy polling: polling for a moment without sleeping, where that has paid lately. (docs/adr/0020.)

A client that was just answered often sends its next request within some ten microseconds. Going to sleep and being woken takes
longer than that, and more CPU time, above all on a virtual machine. Where no request comes soon, busy polling is wasted: so each
failure makes it rarer, and one success makes it the rule again. And when other threads want the CPU, a sleeping thread is not woken
slowly, while a busy one loses its time slice just when there is something to do.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from twisted_kafka.network.loop.placement import ThreadPlacement

FIRST_PASSES: Final = 2
MAX_PASSES: Final = 64
"""How many waits pass without busy polling after a failure. The number doubles with each failure, up to ``MAX_PASSES``."""

Poll = Callable[[float, int], Iterable[tuple[int, Any]]]
"""Takes a timeout in seconds (-1: none) and a maximum of events."""


class BusyPollRule(NamedTuple):
    """How long to poll busily (key ``network.busy.poll.us``), and whether the CPU is otherwise idle."""

    window_ns: int
    is_calm: Callable[[], bool]


class BusyPoll:
    """Wraps a poll function: polls repeatedly for a moment before it sleeps."""

    __slots__ = ("_next_passes", "_now_ns", "_passes", "_poll", "_rule")

    def __init__(self, poll: Poll, now_ns: Callable[[], int], rule: BusyPollRule) -> None:
        self._poll = poll
        self._now_ns = now_ns
        self._rule = rule
        self._passes = 0
        self._next_passes = FIRST_PASSES

    def __call__(self, timeout: float, max_events: int) -> Iterable[tuple[int, Any]]:
        """Return events, waiting at most ``timeout`` seconds (-1: no limit) for them."""
        window_ns, is_calm = self._rule
        if timeout and is_calm():
            if self._passes:
                self._passes -= 1
            else:
                events = self._poll_busily(window_ns if timeout < 0 else min(window_ns, int(timeout * 1e9)), max_events)
                if events:
                    return events
        return self._poll(timeout, max_events)

    def _poll_busily(self, window_ns: int, max_events: int) -> Iterable[tuple[int, Any]]:
        poll, now_ns = self._poll, self._now_ns
        until_ns = now_ns() + window_ns
        events = poll(0, max_events)
        if events:
            return events  # an ordinary poll would have found them
        while now_ns() < until_ns:
            events = poll(0, max_events)
            if events:
                self._next_passes = FIRST_PASSES
                return events
        self._passes = self._next_passes
        self._next_passes = min(2 * self._next_passes, MAX_PASSES)
        return ()


def busy_poll_rule(window_us: int, placement: ThreadPlacement | None) -> BusyPollRule | None:
    """Return the rule for threads that ``placement`` places; None for no busy polling."""
    if not window_us or placement is None:
        return None
    return BusyPollRule(window_us * 1_000, lambda: placement.is_calm)
