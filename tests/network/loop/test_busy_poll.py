from collections.abc import Sequence

import pytest

from twisted_kafka.network.loop.busy_poll import BUSY_POLL_NS, MAX_PAUSE, BusyPoll
from twisted_kafka.timing.clock import ManualClock

EVENT = (5, 1)
SHORT_NS = BUSY_POLL_NS - 1


class Stage:
    """A loop whose sockets have an event after so many polls."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.busy_poll = BusyPoll(self.clock.monotonic_ns)
        self.empty_polls = 0
        self.timeouts: list[float] = []

    def poll(self, timeout_s: float, max_events: int) -> Sequence[tuple[int, int]]:
        assert max_events == 7
        self.timeouts.append(timeout_s)
        self.clock.advance_ms(0.03)
        return [EVENT] if len(self.timeouts) > self.empty_polls else []

    def wait(self, waited_ns: int) -> bool:
        """Wait; return whether the thread polled first."""
        is_due = self.busy_poll.is_due
        if is_due:
            self.busy_poll.poll(lambda timeout_s, max_events: [EVENT], 7)
        self.busy_poll.note_wait(waited_ns)
        return is_due


@pytest.mark.parametrize(("empty_polls", "polls", "events"), [(0, 1, [EVENT]), (2, 3, [EVENT]), (9, 4, [])])
def test_it_polls_without_waiting_until_there_are_events_or_the_time_is_over(
    empty_polls: int, polls: int, events: list[tuple[int, int]]
) -> None:
    stage = Stage()
    stage.empty_polls = empty_polls
    assert stage.busy_poll.poll(stage.poll, 7) == events
    assert stage.timeouts == [0] * polls


def test_it_is_due_after_a_short_wait_and_as_long_as_waits_are_short() -> None:
    stage = Stage()
    assert [stage.wait(SHORT_NS) for _ in range(4)] == [False, True, True, True]
    assert [stage.wait(ns) for ns in (BUSY_POLL_NS, 10**9, 10**9)] == [True, False, False]


def test_after_each_time_in_vain_twice_as_many_short_waits_pass_without_it() -> None:
    stage = Stage()
    pauses = []
    for _ in range(8):
        pause = 0
        while not stage.busy_poll.is_due:
            stage.wait(SHORT_NS)
            pause += 1
        pauses.append(pause)
        assert stage.wait(BUSY_POLL_NS)
    assert pauses == [1, 2, 4, 8, 16, 32, MAX_PAUSE, MAX_PAUSE]
    while not stage.busy_poll.is_due:
        stage.wait(SHORT_NS)
    assert stage.wait(SHORT_NS), "not in vain: half as many next time"
    assert stage.wait(BUSY_POLL_NS)
    assert [stage.wait(SHORT_NS) for _ in range(MAX_PAUSE + 1)] == [False] * MAX_PAUSE + [True]
