"""The clock moves by hand: each look takes DECISION_INTERVAL_NS, and sleeping takes as long as it was asked to."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from twisted_kafka.network.loop.busy_poll import MAX_PASSES, BusyPoll, BusyPollRule
from twisted_kafka.timing.clock import ManualClock

DECISION_INTERVAL_NS = 10_000
WINDOW_NS = 50_000
EVENT = (7, 1)


class Sockets:
    """A poll function that has an event from ``due_ns`` on, and notes how it was called."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.due_ns: float = float("inf")
        self.looks = 0
        self.sleeps: list[float] = []

    def __call__(self, timeout: float, max_events: int) -> list[tuple[int, Any]]:
        assert max_events == 3
        if timeout:
            self.sleeps.append(timeout)
            if timeout > 0:
                self.clock.advance_ms(timeout * 1_000)
        else:
            self.looks += 1
            self.clock.advance_ms(DECISION_INTERVAL_NS / 1e6)
        return [EVENT] if self.clock.monotonic_ns() >= self.due_ns else []


@pytest.fixture
def sockets() -> Sockets:
    return Sockets(ManualClock())


@pytest.fixture
def poll(sockets: Sockets) -> Callable[[float], list[Any]]:
    busy = BusyPoll(sockets, sockets.clock.monotonic_ns, BusyPollRule(WINDOW_NS, lambda: True))
    return lambda timeout: list(busy(timeout, 3))


def due_in(sockets: Sockets, ns: float) -> None:
    sockets.due_ns = sockets.clock.monotonic_ns() + ns


def test_event_within_the_window_is_found_without_sleeping(sockets: Sockets, poll: Any) -> None:
    due_in(sockets, 3 * DECISION_INTERVAL_NS)
    assert poll(-1) == [EVENT]
    assert sockets.sleeps == []
    assert sockets.looks == 3


def test_it_sleeps_as_it_was_asked_to_when_the_window_is_over(sockets: Sockets, poll: Any) -> None:
    assert poll(2.5) == []
    assert sockets.sleeps == [2.5]
    assert sockets.looks == WINDOW_NS // DECISION_INTERVAL_NS


def test_who_does_not_want_to_wait_looks_once(sockets: Sockets, poll: Any) -> None:
    assert poll(0) == []
    assert (sockets.looks, sockets.sleeps) == (1, [])


def test_looks_for_no_longer_than_it_may_wait(sockets: Sockets, poll: Any) -> None:
    poll(2 * DECISION_INTERVAL_NS / 1e9)
    assert sockets.looks == 2


def looking_waits(sockets: Sockets, poll: Any, waits: int) -> list[int]:
    """Return which of so many waits looked before they slept."""
    looked = []
    for number in range(waits):
        before = sockets.looks
        poll(-1)
        if sockets.looks > before:
            looked.append(number)
    return looked


def test_it_looks_ever_more_rarely_while_that_is_in_vain(sockets: Sockets, poll: Any) -> None:
    looked = looking_waits(sockets, poll, 500)
    passes = [later - earlier - 1 for earlier, later in itertools.pairwise(looked)]
    assert passes == [2, 4, 8, 16, 32, *[64] * 6]
    assert passes[-1] == MAX_PASSES


def test_one_success_makes_it_the_rule_again(sockets: Sockets, poll: Any) -> None:
    looking_waits(sockets, poll, 3)  # the next one looks
    due_in(sockets, 2 * DECISION_INTERVAL_NS)
    assert poll(-1) == [EVENT]
    sockets.due_ns = float("inf")
    assert looking_waits(sockets, poll, 5) == [0, 3]


def test_what_was_there_already_says_nothing_about_looking(sockets: Sockets, poll: Any) -> None:
    looking_waits(sockets, poll, 3)  # the next one looks
    due_in(sockets, 0)
    assert poll(-1) == [EVENT]
    sockets.due_ns = float("inf")
    assert looking_waits(sockets, poll, 12) == [0, 5]


def test_it_does_not_look_where_others_want_the_cpu(sockets: Sockets) -> None:
    calm = [True]
    busy = BusyPoll(sockets, sockets.clock.monotonic_ns, BusyPollRule(WINDOW_NS, lambda: calm[0]))
    calm[0] = False
    busy(-1, 3)
    assert (sockets.looks, sockets.sleeps) == (0, [-1])
    calm[0] = True
    busy(-1, 3)
    assert sockets.looks > 0
