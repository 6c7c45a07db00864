"""Looking for events for a moment without sleeping, where that has paid lately. (docs/adr/0020.)

A client that was just answered often asks again within some ten microseconds. To sleep until then and be woken takes longer than
the wait itself, and more processor time, above all on a virtual machine. Where nobody asks again soon, looking is in vain: so each
time in vain makes it rarer, and one success makes it the rule again. And where others want the CPU, nothing wakes slowly, and
who looks has it taken away when there is something to do.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from twisted_kafka.network.loop.placement import ThreadPlacement

FIRST_PASSES: Final = 2
MAX_PASSES: Final = 64
"""So many waits pass without looking after it was in vain: twice as many each time, at most so many."""

Poll = Callable[[float, int], Iterable[tuple[int, Any]]]
"""Waits for so many seconds (-1: for ever), for so many events at most."""


class BusyPollRule(NamedTuple):
    """For how long to look (key ``network.busy.poll.us``), and whether nobody else wants the CPU meanwhile."""

    window_ns: int
    is_calm: Callable[[], bool]


class BusyPoll:
    """A poll function around another: it looks again and again for a moment before it sleeps."""

    __slots__ = ("_next_passes", "_now_ns", "_passes", "_poll", "_rule")

    def __init__(self, poll: Poll, now_ns: Callable[[], int], rule: BusyPollRule) -> None:
        self._poll = poll
        self._now_ns = now_ns
        self._rule = rule
        self._passes = 0
        self._next_passes = FIRST_PASSES

    def __call__(self, timeout: float, max_events: int) -> Iterable[tuple[int, Any]]:
        """Return events, waiting for them at most ``timeout`` seconds (-1: for ever)."""
        window_ns, is_calm = self._rule
        if timeout and is_calm():
            if self._passes:
                self._passes -= 1
            else:
                events = self._look(window_ns if timeout < 0 else min(window_ns, int(timeout * 1e9)), max_events)
                if events:
                    return events
        return self._poll(timeout, max_events)

    def _look(self, window_ns: int, max_events: int) -> Iterable[tuple[int, Any]]:
        poll, now_ns = self._poll, self._now_ns
        until_ns = now_ns() + window_ns
        events = poll(0, max_events)
        if events:
            return events  # they would have been found without looking for them
        while now_ns() < until_ns:
            events = poll(0, max_events)
            if events:
                self._next_passes = FIRST_PASSES
                return events
        self._passes = self._next_passes
        self._next_passes = min(2 * self._next_passes, MAX_PASSES)
        return ()


def busy_poll_rule(window_us: int, placement: ThreadPlacement | None) -> BusyPollRule | None:
    """Return the rule for threads that ``placement`` places; None when there is to be no busy polling."""
    if not window_us or placement is None:
        return None
    return BusyPollRule(window_us * 1_000, lambda: placement.is_calm)
