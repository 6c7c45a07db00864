"""What is said of a client's mistakes, and how often."""

from typing import Any

import pytest

from tests.support.network_fakes import lines_of
from twisted_kafka.config.endpoints import EndPoint
from twisted_kafka.network.log_rate_limit import INTERVAL_NS, LINES
from twisted_kafka.network.requests.request_context import ConnectionInfo, RequestContext
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.server.diagnoses import (
    MAX_REMEMBERED,
    SYMPTOMS,
    WINDOW_NS,
    AdvertisedAddresses,
    Diagnoses,
    advertised_to_others,
)
from twisted_kafka.timing.clock import ManualClock


class Completed:
    """What an observer reads of a request."""

    def __init__(self, context: RequestContext) -> None:
        self.context = context


class Clients:
    """Requests that are answered errors."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.diagnoses = Diagnoses(self.clock, "kit")

    def fail(
        self,
        error: ErrorCode,
        api: ApiKey = ApiKey.PRODUCE,
        client_id: str = "shop",
        topic: str = "orders",
        connection_id: str = "c",
    ) -> list[str]:
        context = RequestContext(api, 3, 1, client_id, ConnectionInfo(connection_id, "PLAINTEXT", "PLAINTEXT", "10.0.0.5"))
        context.note_topic(topic, (0,), 0, 0, error)
        request: Any = Completed(context)
        self.diagnoses.request_completed(request)
        return self.diagnoses.lines


def test_a_mistake_is_told_once_in_its_window() -> None:
    clients = Clients()
    (line,) = clients.fail(ErrorCode.MESSAGE_TOO_LARGE)
    assert line.startswith("Client 'shop' at 10.0.0.5 sends a batch that is larger than max.message.bytes of topic orders: raise")
    clients.clock.advance_ms(WINDOW_NS / 1e6 - 1)
    assert clients.fail(ErrorCode.MESSAGE_TOO_LARGE) == [line]
    clients.clock.advance_ms(1)
    assert clients.fail(ErrorCode.MESSAGE_TOO_LARGE) == [line, line]


def test_mistakes_about_others_and_of_others_are_told_apart() -> None:
    clients = Clients()
    clients.fail(ErrorCode.MESSAGE_TOO_LARGE)
    assert len(clients.fail(ErrorCode.MESSAGE_TOO_LARGE, topic="bills")) == 2
    assert len(clients.fail(ErrorCode.MESSAGE_TOO_LARGE, client_id="till")) == 3
    assert len(clients.fail(ErrorCode.INVALID_TIMESTAMP)) == 4


def test_what_is_usual_is_a_mistake_when_it_is_often() -> None:
    clients = Clients()
    for _ in range(9):
        assert clients.fail(ErrorCode.REBALANCE_IN_PROGRESS, ApiKey.HEARTBEAT) == []
    assert "rebalances again and again" in clients.fail(ErrorCode.REBALANCE_IN_PROGRESS, ApiKey.HEARTBEAT)[0]


def test_what_is_usual_is_none_of_several_clients_of_one_name() -> None:
    clients = Clients()
    for _ in range(9):
        for number in range(20):
            assert clients.fail(ErrorCode.REBALANCE_IN_PROGRESS, ApiKey.HEARTBEAT, connection_id=str(number)) == []
    for number in range(20):
        assert len(clients.fail(ErrorCode.REBALANCE_IN_PROGRESS, ApiKey.HEARTBEAT, connection_id=str(number))) == 1


def test_what_clients_live_with_is_not_told() -> None:
    clients = Clients()
    for error in (ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.UNSUPPORTED_VERSION):
        assert clients.fail(error) == []
    assert clients.fail(ErrorCode.MESSAGE_TOO_LARGE, ApiKey.METADATA) == []
    assert clients.fail(ErrorCode.MESSAGE_TOO_LARGE, client_id="kit") == []


def test_many_clients_take_no_more_memory() -> None:
    clients = Clients()
    for number in range(MAX_REMEMBERED + 1):
        clients.fail(ErrorCode.MESSAGE_TOO_LARGE, client_id=str(number))
    assert len(clients.fail(ErrorCode.MESSAGE_TOO_LARGE, client_id="1")) == 100
    assert "'1000'" in clients.diagnoses.lines[-1]
    assert "'0'" in clients.fail(ErrorCode.MESSAGE_TOO_LARGE, client_id="0")[-1]


def test_names_are_told_shortened_and_on_one_line() -> None:
    clients = Clients()
    (line,) = clients.fail(ErrorCode.TOPIC_AUTHORIZATION_FAILED, client_id="c" * 32_767, topic="t" * 32_767)
    assert f"'{'c' * 249}...' at" in line
    assert f"topic {'t' * 249}... as" in line
    line = clients.fail(ErrorCode.TOPIC_AUTHORIZATION_FAILED, topic="a\nb\x1b[31m")[-1]
    assert line.isprintable()
    assert r"topic 'a\nb\x1b[31m' as" in line


def test_whoever_takes_a_new_name_each_time_does_not_fill_the_log() -> None:
    clients = Clients()

    def fail_often() -> None:
        for number in range(50):
            clients.fail(ErrorCode.MESSAGE_TOO_LARGE, client_id=str(number))

    assert len(lines_of(fail_often)) == LINES
    assert len(clients.diagnoses.lines) == 50
    clients.clock.advance_ms(INTERVAL_NS / 1e6)
    (line,) = lines_of(lambda: clients.fail(ErrorCode.MESSAGE_TOO_LARGE, client_id="50"))
    assert line.endswith("(40 similar lines were suppressed before this one)")


@pytest.mark.parametrize("codes", [None, {}, {0: 3}])
def test_answers_without_an_error_are_not_looked_at(codes: Any) -> None:
    clients = Clients()
    context = RequestContext(ApiKey.FETCH, 12, 1, "shop", ConnectionInfo("c", "PLAINTEXT", "PLAINTEXT", "10.0.0.5"))
    context.error_counts, context.refusal = codes, "it would be told"
    request: Any = Completed(context)
    clients.diagnoses.request_completed(request)
    assert clients.diagnoses.lines == []


@pytest.mark.parametrize("symptom", SYMPTOMS, ids=lambda each: each.error.name)
def test_each_symptom_has_its_line(symptom: Any) -> None:
    clients = Clients()
    for _ in range(symptom.after):
        clients.fail(symptom.error, *symptom.apis[:1])
    (line,) = clients.diagnoses.lines
    assert "{" not in line


def test_an_address_of_this_machine_is_no_use_to_others() -> None:
    clients = Clients()
    everywhere = EndPoint("0.0.0.0", 9092, "PLAINTEXT", "PLAINTEXT")
    local = everywhere._replace(host="localhost")
    assert advertised_to_others([local], [local]) == {}
    assert advertised_to_others([everywhere], [local._replace(host="kafka.example")]) == {}
    watch = AdvertisedAddresses(clients.diagnoses, advertised_to_others([everywhere], [local]))
    for address in ("127.0.0.1", "10.0.0.1", "10.0.0.5"):
        connection = ConnectionInfo(f"10.0.0.1:9092-{address}:50000-0", "PLAINTEXT", "PLAINTEXT", address)
        request: Any = Completed(RequestContext(ApiKey.METADATA, 9, 1, "shop", connection))
        watch.request_completed(request)
    (line,) = clients.diagnoses.lines
    assert "10.0.0.5 comes from elsewhere, and is sent to localhost:9092" in line
