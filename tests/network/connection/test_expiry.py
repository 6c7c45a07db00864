"""Which connections are closed because nothing happens on them, and when."""

from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.task import Clock

from tests.support.network_fakes import lines_of
from twisted_kafka.network.connection.expiry import (
    HALF_CLOSED_S,
    close_after_last_response,
    idle_channels,
    idle_check_s,
    least_recently_used,
    slow_holders,
    start_check,
)


def channel(last_active_ns: int, **fields: Any) -> Any:
    known = {"in_flight": None, "holds_memory": False, "is_open": True, "has_waiting_requests": False}
    made = SimpleNamespace(last_active_ns=last_active_ns, is_closed=False, **known | fields)
    made.close = lambda: setattr(made, "is_closed", True)
    return made


def request(response_dequeued_ns: int = 0) -> Any:
    return SimpleNamespace(response_dequeued_ns=response_dequeued_ns)


def test_idle_ones_come_oldest_first() -> None:
    channels = [channel(7), channel(5), channel(6), channel(3)]
    assert [each.last_active_ns for each in idle_channels(channels, 6)] == [3, 5, 6]
    assert idle_channels(channels, 2) == []
    assert least_recently_used(channels) is channels[3]


def test_whose_request_is_being_handled_is_not_idle_but_who_does_not_read_its_response_is() -> None:
    handled, unread = channel(1, in_flight=request()), channel(1, in_flight=request(2))
    assert idle_channels([handled, unread], 5) == [unread]


def test_slow_holders_are_below_the_rate_after_the_time_of_grace() -> None:
    asked: list[tuple[int, ...]] = []
    holders = [channel(1, is_slower_than=lambda *limits, slow=slow: asked.append(limits) or slow) for slow in (True, False)]
    assert slow_holders(holders) == holders[:1]
    assert asked == [(16 * 1024, 60, 10_000_000_000)] * 2


@pytest.mark.parametrize(("idle_ms", "check_s"), [(600_000, 60), (599_000, 59.9), (10_000, 1), (10_000_000, 60)])
def test_there_are_ten_checks_in_that_time_and_one_a_minute_at_least(idle_ms: int, check_s: float) -> None:
    assert idle_check_s(idle_ms) == check_s


def test_a_check_that_fails_does_not_end_the_checks() -> None:
    clock, calls = Clock(), []

    def check() -> None:
        calls.append(clock.seconds())
        raise ValueError("broken")

    call = start_check(check, 2, clock)
    assert calls == []
    lines = lines_of(lambda: clock.pump([1] * 6))
    assert calls == [2, 4, 6]
    assert lines == ["Checking connections failed"] * 3
    call.stop()
    clock.advance(5)
    assert len(calls) == 3


def test_a_half_closed_connection_is_closed_when_nothing_more_is_answered() -> None:
    clock = Clock()
    made = channel(0, in_flight=request())
    close_after_last_response(made, clock)
    clock.advance(HALF_CLOSED_S - 0.01)
    made.in_flight = request()  # the next one, so the first has been answered
    clock.advance(0.01)
    assert not made.is_closed
    clock.advance(HALF_CLOSED_S)
    assert made.is_closed
    assert clock.getDelayedCalls() == []


def test_a_half_closed_connection_with_waiting_requests_stays() -> None:
    clock = Clock()
    made = channel(0, in_flight=request(), has_waiting_requests=True)
    close_after_last_response(made, clock)
    clock.pump([HALF_CLOSED_S] * 3)
    assert not made.is_closed
    made.has_waiting_requests = False
    clock.advance(HALF_CLOSED_S)
    assert made.is_closed


def test_a_half_closed_connection_that_is_gone_is_left_alone() -> None:
    clock = Clock()
    made = channel(0)
    close_after_last_response(made, clock)
    made.is_open = False
    clock.advance(HALF_CLOSED_S)
    assert not made.is_closed
    assert clock.getDelayedCalls() == []
