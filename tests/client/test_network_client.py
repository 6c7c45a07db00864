import random
import struct
from typing import Any

import pytest
from twisted.internet.defer import CancelledError
from twisted.internet.error import ConnectError as NobodyThere
from twisted.internet.error import ConnectionDone

from tests.support.budget import share_of
from tests.support.cases import case
from tests.support.client_harness import NODE, Harness, Outcome, versions
from twisted_kafka.client.errors import (
    ClientClosedError,
    ConnectError,
    DisconnectedError,
    InvalidResponseError,
    ResponseTimeoutError,
    TooManyRequestsError,
)
from twisted_kafka.client.node_connection_state import (
    EVENT_NAMES,
    STATE_NAMES,
    TRANSITIONS,
    next_state,
)
from twisted_kafka.network.state_table import ILLEGAL, IllegalTransitionError
from twisted_kafka.protocol.errors import UnsupportedVersionError
from twisted_kafka.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from twisted_kafka.protocol.messages.coordinators.groups import HeartbeatRequest, HeartbeatResponse

HEARTBEAT = 12


def heartbeat() -> HeartbeatRequest:
    return HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def ready(**settings: object) -> tuple[Harness, Outcome]:
    harness = Harness(**settings)
    outcome = harness.send(heartbeat())
    harness.attempts[0].succeed()
    return harness, outcome


def test_the_table() -> None:
    assert [len(row) for row in TRANSITIONS] == [len(EVENT_NAMES)] * len(STATE_NAMES)
    for state, row in enumerate(TRANSITIONS):
        for event, following in enumerate(row):
            if following == ILLEGAL:
                with pytest.raises(IllegalTransitionError, match=STATE_NAMES[state]):
                    next_state(state, event)
            else:
                assert next_state(state, event) == following


def test_it_connects_when_something_is_to_be_sent() -> None:
    harness = Harness()
    assert not harness.attempts
    outcome = harness.send(heartbeat(), latest_version=3)
    assert harness.client.state_of(1) == "CONNECTING"
    attempt = harness.attempts[0].succeed()
    assert harness.client.is_ready(1)
    assert attempt.transport.has_no_delay
    assert attempt.transport.is_kept_alive
    (request,) = attempt.requests()
    assert request[:2] == (HEARTBEAT, 3)
    assert request[3] == "me"
    assert harness.client.in_flight(1) == 1
    attempt.answer(request, HeartbeatResponse(error_code=27))
    assert outcome.response.error_code == 27
    assert harness.client.in_flight(1) == 0
    harness.send(heartbeat())
    assert len(harness.attempts) == 1


def test_it_asks_for_the_versions_first() -> None:
    harness, outcome = ready(discover_versions=True)
    attempt = harness.attempts[0]
    assert harness.client.state_of(1) == "CHECKING_API_VERSIONS"
    (asked,) = attempt.requests()
    assert asked[:2] == (18, 4)
    attempt.answer(asked, versions(HEARTBEAT=(1, 2)))
    (request,) = attempt.requests()
    assert request[:2] == (HEARTBEAT, 2)
    attempt.answer(request, HeartbeatResponse())
    assert outcome.response.error_code == 0


@pytest.mark.parametrize(("known", "then"), [([ApiVersion(api_key=18, min_version=0, max_version=2)], 2), ([], 0)])
def test_an_old_node_is_asked_again(known: list[ApiVersion], then: int) -> None:
    harness, _ = ready(discover_versions=True)
    attempt = harness.attempts[0]
    attempt.answer(attempt.requests()[0], ApiVersionsResponse(error_code=35, api_keys=known), version=0)
    (again,) = attempt.requests()
    assert again[:2] == (18, then)
    attempt.answer(again, versions(HEARTBEAT=(0, 1)))
    assert harness.client.is_ready(1)


def test_a_request_that_the_node_does_not_know_fails_alone() -> None:
    harness, first = ready(discover_versions=True)
    attempt = harness.attempts[0]
    second = harness.send(heartbeat(), latest_version=1)
    third = harness.send(heartbeat())
    attempt.answer(attempt.requests()[0], versions(HEARTBEAT=(2, 3)))
    assert isinstance(second.error, UnsupportedVersionError)
    for request in attempt.requests():
        attempt.answer(request, HeartbeatResponse())
    assert (first.response.error_code, third.response.error_code) == (0, 0)


@pytest.mark.parametrize("group_id", ["\ud800", 7])
def test_a_request_that_cannot_be_encoded_fails_alone(group_id: Any) -> None:
    harness, first = ready()
    second = harness.send(HeartbeatRequest(group_id=group_id, generation_id=1, member_id="m"))
    third = harness.send(heartbeat())
    assert isinstance(second.error, Exception)
    attempt = harness.attempts[0]
    for request in attempt.requests():
        attempt.answer(request, HeartbeatResponse())
    assert (first.response.error_code, third.response.error_code) == (0, 0)


def test_versions_that_were_not_asked_for_end_the_connection() -> None:
    harness, outcome = ready(discover_versions=True)
    attempt = harness.attempts[0]
    (asked,) = attempt.requests()
    attempt.answer(asked, versions(HEARTBEAT=(0, 4)), correlation_id=asked[2] + 1)
    assert isinstance(outcome.error, InvalidResponseError)
    assert attempt.transport.is_aborted


def test_only_so_many_are_in_flight_and_answers_come_in_order() -> None:
    harness, first = ready(max_in_flight_requests_per_connection=2)
    attempt = harness.attempts[0]
    others = [harness.send(heartbeat()) for _ in range(3)]
    sent = attempt.requests()
    assert len(sent) == 2
    attempt.answer(sent[0], HeartbeatResponse(error_code=1))
    assert first.response.error_code == 1
    sent += attempt.requests()
    assert len(sent) == 3
    for number in (1, 2):
        attempt.answer(sent[number], HeartbeatResponse(error_code=number + 1))
    assert [other.response.error_code for other in others[:2]] == [2, 3]
    assert not others[2].results


def test_only_so_many_wait() -> None:
    harness = Harness(max_queued_requests=2)
    for _ in range(2):
        harness.send(heartbeat())
    assert isinstance(harness.send(heartbeat()).error, TooManyRequestsError)


def test_a_node_that_refuses_is_tried_again_after_a_pause_that_grows() -> None:
    harness = Harness(reconnect_backoff_ms=125, reconnect_backoff_max_ms=375)
    pauses = []
    for number in range(5):
        outcome = harness.send(heartbeat())
        began = harness.clock.seconds()
        while len(harness.attempts) <= number:
            assert harness.client.state_of(1) == "BACKOFF"
            harness.clock.advance(1 / 64)
        pauses.append(harness.clock.seconds() - began)
        harness.attempts[-1].fail(NobodyThere())  # type: ignore[no-untyped-call]
        assert isinstance(outcome.error, ConnectError)
        assert "broker 1 at kafka.example:9092" in str(outcome.error)
    assert pauses == [0, 0.125, 0.25, 0.375, 0.375]
    harness.send(heartbeat())
    harness.clock.advance(0.4)
    harness.attempts[-1].succeed().lose(ConnectionDone())
    harness.send(heartbeat())
    harness.clock.advance(0.4)
    assert len(harness.attempts) == 7
    assert not harness.attempts[-1].is_cancelled


def test_a_connection_that_is_not_made_in_time() -> None:
    harness = Harness(connection_setup_timeout_ms=1000, connection_setup_timeout_max_ms=3000)
    timeouts = []
    for _ in range(3):
        outcome = harness.send(heartbeat())
        harness.clock.advance(1)
        timeouts.append(harness.attempts[-1].timeout_s)
        harness.clock.advance(3)
        assert isinstance(outcome.error, ConnectError)
        assert harness.attempts[-1].is_cancelled
    assert timeouts == [1, 2, 3]


def test_a_node_that_is_connected_but_never_says_its_versions() -> None:
    harness, outcome = ready(discover_versions=True, connection_setup_timeout_ms=1000)
    harness.clock.advance(1)
    assert isinstance(outcome.error, ConnectError)
    assert harness.attempts[0].transport.is_aborted


def test_a_response_that_does_not_come_ends_the_connection() -> None:
    harness, first = ready(request_timeout_ms=1000)
    second = harness.send(heartbeat(), timeout_ms=5000)
    harness.clock.advance(1)
    assert isinstance(first.error, ResponseTimeoutError)
    assert isinstance(second.error, DisconnectedError)
    assert harness.attempts[0].transport.is_aborted
    third = harness.send(heartbeat())
    harness.clock.advance(0.1)
    attempt = harness.attempts[1].succeed()
    attempt.answer(attempt.requests()[0], HeartbeatResponse())
    assert third.response.error_code == 0


def test_what_waits_too_long_fails_without_harm_to_the_others() -> None:
    harness, first = ready(max_in_flight_requests_per_connection=1)
    second = harness.send(heartbeat(), timeout_ms=500)
    harness.clock.advance(0.5)
    assert isinstance(second.error, ResponseTimeoutError)
    attempt = harness.attempts[0]
    (request,) = attempt.requests()
    attempt.answer(request, HeartbeatResponse())
    assert first.response.error_code == 0
    assert attempt.requests() == []


def test_half_an_answer_is_none() -> None:
    harness, outcome = ready()
    attempt = harness.attempts[0]
    (request,) = attempt.requests()
    frame = struct.pack(">i", request[2]) + b"\0" + HeartbeatResponse(error_code=5).encode(4)
    attempt.connection.dataReceived(struct.pack(">i", len(frame)) + frame[:6])
    assert not outcome.results
    attempt.lose(ConnectionDone())
    assert isinstance(outcome.error, DisconnectedError)


@pytest.mark.parametrize(
    "frame", [b"", b"\0\0", b"\0\0\0\1", b"\0\0\0\1\xff\xff\xff\xff\xff\xff", b"\0\0\0\1\0\0", b"\0\0\0\2" + bytes(20)]
)
def test_what_is_no_response_ends_the_connection(frame: bytes) -> None:
    harness, outcome = ready()
    attempt = harness.attempts[0]
    assert attempt.requests()[0][2] == 1
    attempt.raw(frame)
    assert isinstance(outcome.error, InvalidResponseError)
    assert attempt.transport.is_aborted
    assert harness.client.state_of(1) == "DISCONNECTED"


def test_an_answer_that_nobody_asked_for_and_one_without_end() -> None:
    harness, outcome = ready(max_response_bytes=1000)
    attempt = harness.attempts[0]
    attempt.answer(attempt.requests()[0], HeartbeatResponse())
    assert outcome.response.error_code == 0
    attempt.raw(b"\0\0\0\2" + bytes(10))
    assert attempt.transport.is_aborted
    outcome = harness.send(heartbeat())
    harness.clock.advance(1)
    attempt = harness.attempts[1].succeed()
    attempt.connection.dataReceived(struct.pack(">i", 1001))
    assert isinstance(outcome.error, DisconnectedError)
    assert attempt.transport.is_aborted


def test_cancelled_requests() -> None:
    harness, first = ready(request_timeout_ms=1000)
    attempt = harness.attempts[0]
    second, third = harness.send(heartbeat()), harness.send(heartbeat())
    first.deferred.cancel()
    assert isinstance(first.error, CancelledError)
    sent = attempt.requests()
    for request in sent[:2]:
        attempt.answer(request, HeartbeatResponse(error_code=2))
    assert second.response.error_code == 2
    third.deferred.cancel()
    # Its response is awaited all the same: a node that never answers is not kept.
    harness.clock.advance(1)
    assert attempt.transport.is_aborted


def test_a_node_with_another_address_is_connected_to_anew() -> None:
    harness, first = ready()
    moved = Outcome(harness.client.send(NODE._replace(port=9093), heartbeat()))
    assert isinstance(first.error, DisconnectedError)
    assert harness.attempts[0].transport.is_aborted
    assert harness.attempts[1].node.port == 9093
    assert not moved.results


def test_closing_fails_everything_and_leaves_nothing() -> None:
    harness, first = ready(max_in_flight_requests_per_connection=1)
    second = harness.send(heartbeat())
    other = Outcome(harness.client.send(NODE._replace(id=2), heartbeat()))
    harness.client.close()
    assert all(isinstance(each.error, ClientClosedError) for each in (first, second, other))
    assert harness.attempts[0].transport.is_aborted
    assert harness.attempts[1].is_cancelled
    assert isinstance(harness.send(heartbeat()).error, ClientClosedError)
    assert harness.clock.getDelayedCalls() == []
    assert len(harness.attempts) == 2


def test_closing_in_a_pause_between_two_attempts_fails_what_waits() -> None:
    harness = Harness()
    harness.send(heartbeat())
    harness.attempts[0].fail(NobodyThere())  # type: ignore[no-untyped-call]
    outcome = harness.send(heartbeat())
    assert harness.client.state_of(1) == "BACKOFF"
    harness.client.close()
    assert isinstance(outcome.error, ClientClosedError)
    assert harness.clock.getDelayedCalls() == []
    assert len(harness.attempts) == 1


def test_what_waits_when_a_connection_is_lost_is_sent_on_the_next_one() -> None:
    harness, first = ready(max_in_flight_requests_per_connection=1)
    second = harness.send(heartbeat())
    harness.attempts[0].lose(ConnectionDone())
    assert isinstance(first.error, DisconnectedError)
    harness.clock.advance(1)
    attempt = harness.attempts[1].succeed()
    attempt.answer(attempt.requests()[0], HeartbeatResponse())
    assert second.response.error_code == 0


def test_a_connection_that_was_lost_is_not_aborted() -> None:
    harness, first = ready()
    attempt = harness.attempts[0]
    attempt.lose(ConnectionDone())
    assert isinstance(first.error, DisconnectedError)
    attempt.connection.close(ValueError("too late"))
    assert not attempt.transport.is_aborted


def test_who_is_told_of_a_failure_may_send_again_at_once() -> None:
    harness = Harness()
    again: list[Outcome] = []
    harness.client.send(NODE, heartbeat()).addErrback(lambda _: again.append(harness.send(heartbeat())))
    harness.attempts[0].fail(NobodyThere())  # type: ignore[no-untyped-call]
    assert len(again) == 1
    assert not again[0].results
    harness.clock.advance(1)
    attempt = harness.attempts[1].succeed()
    attempt.answer(attempt.requests()[0], HeartbeatResponse())
    assert again[0].response.error_code == 0


def test_whatever_happens_every_request_ends_once() -> None:
    for seed in range(share_of(60)):
        with case(seed=seed):
            do_anything(seed)


def do_anything(seed: int) -> None:
    dice = random.Random(seed)
    harness = Harness(
        discover_versions=dice.random() < 0.5, request_timeout_ms=2000, connection_setup_timeout_ms=500, max_queued_requests=20
    )
    outcomes: list[Outcome] = []
    unanswered: dict[int, list[tuple[int, int, int, str | None, bytes]]] = {}
    open_ones: list[int] = []

    def act(what: str) -> None:
        pending = [
            number for number, attempt in enumerate(harness.attempts) if not attempt.deferred.called and not attempt.is_cancelled
        ]
        alive = [number for number in open_ones if not harness.attempts[number].transport.is_aborted]
        if what == "send":
            outcomes.append(harness.send(heartbeat(), timeout_ms=dice.choice((None, 300, 5000))))
        elif what == "cancel" and outcomes:
            dice.choice(outcomes).deferred.cancel()
        elif what == "wait":
            harness.clock.advance(dice.choice((0.01, 0.1, 0.6)))
        elif what == "connect" and pending:
            harness.attempts[pending[0]].succeed()
            open_ones.append(pending[0])
        elif what == "refuse" and pending:
            harness.attempts[pending[0]].fail(NobodyThere())  # type: ignore[no-untyped-call]
        elif what in ("answer", "wrong", "lose") and alive:
            number = dice.choice(alive)
            attempt = harness.attempts[number]
            queue = unanswered.setdefault(number, [])
            queue += attempt.requests()
            if what == "lose":
                open_ones.remove(number)
                attempt.lose(ConnectionDone())
            elif queue:
                request = queue.pop(0)
                response = versions(HEARTBEAT=(0, 4)) if request[0] == 18 else HeartbeatResponse()
                attempt.answer(request, response, correlation_id=request[2] + (what == "wrong"))

    for _ in range(300):
        act(dice.choice(("send", "send", "answer", "answer", "answer", "connect", "wait", "cancel", "refuse", "wrong", "lose")))
    harness.clock.advance(10)
    assert outcomes
    assert all(len(outcome.results) == 1 for outcome in outcomes)
    harness.client.close()
    assert harness.clock.getDelayedCalls() == []


@pytest.mark.parametrize("is_sent", [True, False])
def test_who_is_told_of_a_timeout_may_close_the_connection(is_sent: bool) -> None:
    harness = Harness(max_in_flight_requests_per_connection=1)
    first = harness.send(heartbeat(), timeout_ms=500 if is_sent else 5000)
    harness.attempts[0].succeed()
    second = harness.send(heartbeat(), timeout_ms=5000 if is_sent else 500)
    told, other = (first, second) if is_sent else (second, first)
    told.deferred.addCallback(lambda _: harness.client.disconnect(1))
    harness.clock.advance(0.5)  # raises what goes wrong in a timer's call
    assert isinstance(told.error, ResponseTimeoutError)
    assert isinstance(other.error, DisconnectedError)
    assert harness.clock.getDelayedCalls() == []


def test_an_address_that_makes_no_sense_fails_like_a_node_that_is_not_there() -> None:
    harness = Harness()

    def connect(*_: object) -> object:
        raise UnicodeError("label empty or too long")

    harness.connector.connect = connect  # type: ignore[assignment]
    outcome = harness.send(heartbeat())
    assert isinstance(outcome.error, ConnectError)
    assert "label empty" in str(outcome.error)
    assert harness.client.state_of(1) == "DISCONNECTED"


def test_an_idle_connection_is_closed_and_made_anew_when_needed() -> None:
    harness, first = ready(connections_max_idle_ms=10_000)
    attempt = harness.attempts[0]
    attempt.answer(attempt.requests()[0], HeartbeatResponse())
    harness.clock.advance(6)
    second = harness.send(heartbeat(), timeout_ms=60_000)
    harness.clock.advance(6)  # it was used 6 s ago
    assert harness.client.is_ready(1)
    harness.clock.advance(30)  # no answer is no idleness
    assert harness.client.is_ready(1)
    attempt.answer(attempt.requests()[0], HeartbeatResponse())
    assert second.response.error_code == first.response.error_code == 0
    harness.clock.advance(9.9)
    assert harness.client.is_ready(1)
    harness.clock.pump([1] * 10)
    assert harness.client.state_of(1) == "DISCONNECTED"
    assert attempt.transport.is_aborted
    assert harness.clock.getDelayedCalls() == []
    third = harness.send(heartbeat())
    harness.attempts[1].succeed()
    assert harness.client.is_ready(1)
    assert not third.results


@pytest.mark.parametrize("idle_ms", [-1, 0])
def test_connections_stay_when_there_is_no_limit_to_idleness(idle_ms: int) -> None:
    harness, _ = ready(connections_max_idle_ms=idle_ms)
    attempt = harness.attempts[0]
    attempt.answer(attempt.requests()[0], HeartbeatResponse())
    harness.clock.advance(1e6)
    assert harness.client.is_ready(1)
    assert harness.clock.getDelayedCalls() == []


def test_a_node_that_nobody_has_asked_anything() -> None:
    harness = Harness()
    assert (harness.client.state_of(9), harness.client.in_flight(9), harness.client.is_ready(9)) == ("DISCONNECTED", 0, False)
    harness.client.disconnect(9)


def test_the_newest_version_is_used_where_versions_are_not_asked_for() -> None:
    harness, _ = ready()
    attempt = harness.attempts[0]
    harness.send(heartbeat(), latest_version=2)
    harness.send(heartbeat(), latest_version=99)
    first, last = HeartbeatRequest.VERSIONS
    assert [request[:2] for request in attempt.requests()] == [(HEARTBEAT, last), (HEARTBEAT, 2), (HEARTBEAT, last)]
    assert first < 2 < last


def test_correlation_ids_are_never_negative_and_never_twice_at_once() -> None:
    harness, _ = ready(max_in_flight_requests_per_connection=5)
    attempt = harness.attempts[0]
    others = [harness.send(heartbeat()) for _ in range(4)]
    ids = [request[2] for request in attempt.requests()]
    assert len(set(ids)) == 5
    assert min(ids) >= 0
    assert not any(other.results for other in others)


def test_a_failed_node_is_tried_again_with_the_first_pause_once_it_was_reached() -> None:
    harness = Harness(reconnect_backoff_ms=100, reconnect_backoff_max_ms=10_000)
    for number in range(4):
        harness.send(heartbeat())
        harness.clock.advance(2)
        harness.attempts[number].fail(NobodyThere())  # type: ignore[no-untyped-call]
    harness.send(heartbeat())
    harness.clock.advance(2)
    harness.attempts[4].succeed().lose(ConnectionDone())
    harness.clock.advance(2)
    harness.send(heartbeat())
    assert len(harness.attempts) == 6
    harness.attempts[5].fail(NobodyThere())  # type: ignore[no-untyped-call]
    harness.send(heartbeat())
    assert harness.client.state_of(1) == "BACKOFF"
    harness.clock.advance(0.099)
    assert len(harness.attempts) == 6
    harness.clock.advance(0.002)
    assert len(harness.attempts) == 7


def test_a_pause_lasts_as_long_as_it_should() -> None:
    harness = Harness(reconnect_backoff_ms=10_000, reconnect_backoff_max_ms=10_000, request_timeout_ms=60_000)
    harness.send(heartbeat())
    harness.attempts[0].fail(NobodyThere())  # type: ignore[no-untyped-call]
    harness.send(heartbeat())
    harness.clock.advance(10 - 1 / 128)
    assert len(harness.attempts) == 1
    harness.clock.advance(1 / 128)
    assert len(harness.attempts) == 2


def test_nobody_connects_for_requests_that_are_over() -> None:
    harness = Harness(reconnect_backoff_ms=1000, reconnect_backoff_max_ms=1000)
    harness.send(heartbeat())
    harness.attempts[0].fail(NobodyThere())  # type: ignore[no-untyped-call]
    outcome = harness.send(heartbeat(), timeout_ms=500)
    assert harness.client.state_of(1) == "BACKOFF"
    harness.clock.advance(0.5)
    assert isinstance(outcome.error, ResponseTimeoutError)
    harness.clock.advance(1)
    assert len(harness.attempts) == 1
    assert harness.client.state_of(1) == "DISCONNECTED"
    assert harness.clock.getDelayedCalls() == []


def test_a_connection_that_comes_too_late_is_closed() -> None:
    harness = Harness(connection_setup_timeout_ms=1000, connection_setup_timeout_max_ms=1000)
    harness.send(heartbeat())
    harness.clock.advance(1)
    late = harness.attempts[0]
    late.connection.makeConnection(late.transport)  # type: ignore[no-untyped-call]
    assert late.transport.is_aborted
    assert harness.client.state_of(1) == "DISCONNECTED"


def test_cancelled_requests_that_wait_are_not_sent() -> None:
    harness, first = ready(max_in_flight_requests_per_connection=1)
    attempt = harness.attempts[0]
    second, third = harness.send(heartbeat()), harness.send(heartbeat())
    second.deferred.cancel()
    attempt.answer(attempt.requests()[0], HeartbeatResponse(error_code=1))
    (request,) = attempt.requests()
    attempt.answer(request, HeartbeatResponse(error_code=3))
    assert (first.response.error_code, third.response.error_code) == (1, 3)
    assert attempt.requests() == []
    harness.client.close()
    assert harness.clock.getDelayedCalls() == []


def test_a_timeout_is_what_the_caller_says_or_the_client_s() -> None:
    harness, first = ready(request_timeout_ms=2000)
    harness.clock.advance(1.999)
    assert not first.results
    harness.clock.advance(0.001)
    assert isinstance(first.error, ResponseTimeoutError)
    assert "within 2000 ms" in str(first.error)
    second = harness.send(heartbeat(), timeout_ms=0)
    harness.clock.advance(0)
    assert isinstance(second.error, ResponseTimeoutError)


def test_an_idle_connection_is_closed_at_its_time() -> None:
    for limit_s, used_at_s in ((10, 5.0), (10, 0.5), (0.5, 0.25)):
        harness, _ = ready(connections_max_idle_ms=int(limit_s * 1000))
        attempt = harness.attempts[0]
        harness.clock.advance(used_at_s)
        attempt.answer(attempt.requests()[0], HeartbeatResponse())
        harness.clock.advance(limit_s - used_at_s)
        harness.clock.advance(used_at_s - 0.125)
        assert harness.client.is_ready(1)
        harness.clock.advance(0.125)
        assert harness.client.state_of(1) == "DISCONNECTED"


def test_frames_of_a_connection_that_was_closed_are_dropped() -> None:
    harness, first = ready()
    attempt = harness.attempts[0]
    request = attempt.requests()[0]
    harness.client.disconnect(1)
    assert isinstance(first.error, DisconnectedError)
    again = harness.send(heartbeat())
    attempt.answer(request, HeartbeatResponse())
    attempt.lose(ConnectionDone())
    assert not again.results
    assert harness.client.state_of(1) == "CONNECTING"
