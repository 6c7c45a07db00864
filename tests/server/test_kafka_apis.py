from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, cast

import pytest
from twisted.logger import ILogObserver, capturedLogs, globalLogPublisher

from tests.support.network_fakes import FakeTransport, Layer
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.metadata.features import SUPPORTED, FeatureCache
from twisted_kafka.network.log_rate_limit import LINES
from twisted_kafka.network.requests.memory_pool import MemoryPool
from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.errors import ErrorCode, GroupAuthorizationError
from twisted_kafka.protocol.headers import encode_request_header
from twisted_kafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from twisted_kafka.protocol.messages.coordinators.groups import HeartbeatRequest, HeartbeatResponse
from twisted_kafka.protocol.messages.coordinators.offsets import OffsetCommitRequest, OffsetCommitResponse
from twisted_kafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from twisted_kafka.protocol.messages.produce import ProduceRequest, ProduceResponse
from twisted_kafka.protocol.regions import Buffer
from twisted_kafka.server.apis.brokers.api_versions import VersionsApis
from twisted_kafka.server.dispatch import CLOSE_CONNECTION, NO_RESPONSE, ApiRegistry, Result, api
from twisted_kafka.server.kafka_apis import KafkaApis
from twisted_kafka.server.request_handler import KafkaRequestHandler
from twisted_kafka.timing.clock import ManualClock


class Heartbeats:
    """A family whose answer the test chooses."""

    def __init__(self) -> None:
        self.answer: Callable[[RequestContext], Result] = lambda context: HeartbeatResponse()

    @api(HeartbeatRequest, HeartbeatResponse, versions=(0, 3))
    def heartbeat(self, context: RequestContext, request: HeartbeatRequest) -> Result:
        assert request.group_id == "g"
        return self.answer(context)


class Produces:
    @api(ProduceRequest, ProduceResponse, versions=(0, 11))
    def produce(self, context: RequestContext, request: ProduceRequest) -> Result:
        raise GroupAuthorizationError("no")


class Fetches:
    """Answers fetches without decoding them, by a future."""

    def __init__(self) -> None:
        self.answer: Future[FetchResponse] = Future()

    @api(FetchRequest, FetchResponse, versions=(4, 12))
    def fetch(self, context: RequestContext, request: FetchRequest) -> Result:
        raise AssertionError("decoded")

    @fetch.undecoded
    def fetch_one(self, context: RequestContext, frame: Buffer, offset: int) -> Result:
        return self.answer


class Commits:
    """Takes commits together; their items are their groups."""

    def __init__(self) -> None:
        self.handled: list[list[str]] = []

    @api(OffsetCommitRequest, OffsetCommitResponse, versions=(2, 5))
    def commit_one(self, context: RequestContext, request: OffsetCommitRequest) -> Result:
        self.handled.append([f"{request.group_id} alone"])
        return OffsetCommitResponse()

    @commit_one.read_together
    def read(self, context: RequestContext, frame: Buffer, offset: int) -> tuple[str, str] | None:
        group = OffsetCommitRequest.decode(frame, context.api_version, offset).group_id
        if group == "unreadable":
            raise ValueError(group)
        return None if group == "alone" else (group[0], group)

    @commit_one.handle_together
    def commit(self, common: str, groups: Sequence[str]) -> list[str]:
        self.handled.append(list(groups))
        if common == "x":
            raise GroupAuthorizationError("no")
        return [group.upper() for group in groups]

    @commit_one.answer_together
    def respond(self, context: RequestContext, group: str, result: str) -> Result:
        assert result == group.upper()
        if group.endswith("!"):
            raise ZeroDivisionError
        return OffsetCommitResponse(throttle_time_ms=len(group))


class Broker:
    def __init__(self, pool_bytes: int = 0) -> None:
        clock = ManualClock()
        self.layer = Layer(pool=MemoryPool(pool_bytes, clock) if pool_bytes else None, clock=clock)
        self.fetches = Fetches()
        self.heartbeats = Heartbeats()
        self.commits = Commits()
        self.registry = ApiRegistry(
            [
                VersionsApis(lambda: self.registry.supported, FeatureCache(store=None), MetadataCache(1, "cluster")),
                self.heartbeats,
                Produces(),
                self.fetches,
                self.commits,
            ]
        )
        self.apis = KafkaApis(self.registry, self.layer.channel, self.layer.clock)
        self.layer.channel.bundled = self.apis.bundled
        self.handler = KafkaRequestHandler(self.layer.channel, self.apis.handle, "handler", bundles=self.apis)

    def send(self, key: ApiKey, version: int, body: bytes, correlation_id: int = 77) -> FakeTransport:
        channel, transport = self.layer.connect()
        data = encode_request_header(key, version, correlation_id, "test") + body
        channel.dataReceived(len(data).to_bytes(4, "big") + data)
        self.handler.step(self.layer.parker, 0)
        self.handler.step(self.layer.parker, 0)
        self.layer.reactor.run_asked()
        return transport

    def heartbeat(self, version: int = 0) -> FakeTransport:
        return self.send(ApiKey.HEARTBEAT, version, HeartbeatRequest(group_id="g").encode(version))


@pytest.fixture
def broker() -> Broker:
    return Broker()


def body_of(transport: FakeTransport) -> bytes:
    data = transport.written
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    assert int.from_bytes(data[4:8], "big") == 77
    return data[8:]


def lines_while(action: Callable[[], object]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    observer = cast(ILogObserver, events.append)
    globalLogPublisher.addObserver(observer)
    try:
        action()
    finally:
        globalLogPublisher.removeObserver(observer)
    return [event for event in events if event["log_level"].name != "debug"]


@pytest.mark.parametrize("version", range(4))
def test_answer(broker: Broker, version: int) -> None:
    broker.heartbeats.answer = lambda context: HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION)
    transport = broker.heartbeat(version)
    assert HeartbeatResponse.decode(body_of(transport), version).error_code == ErrorCode.ILLEGAL_GENERATION
    (done,) = broker.layer.observer.completed
    assert done.context.error == ErrorCode.ILLEGAL_GENERATION
    assert done.response_bytes == len(transport.written)


def test_future_is_answered_when_done(broker: Broker) -> None:
    future: Future[HeartbeatResponse] = Future()
    broker.heartbeats.answer = lambda context: future
    transport = broker.heartbeat()
    assert transport.written == b""
    broker.layer.clock.advance_ms(5)
    future.set_result(HeartbeatResponse(error_code=27))
    broker.layer.reactor.run_asked()
    assert HeartbeatResponse.decode(body_of(transport), 0).error_code == 27
    (done,) = broker.layer.observer.completed
    assert done.phases_ns()[2] == 5_000_000


def test_failed_and_cancelled_futures_are_answered(broker: Broker) -> None:
    fails: tuple[Callable[[Future[Any]], object], ...] = (
        lambda future: future.set_exception(GroupAuthorizationError("no")),
        lambda future: future.cancel(),
    )
    for fail in fails:
        future: Future[HeartbeatResponse] = Future()
        broker.heartbeats.answer = lambda context, future=future: future  # type: ignore[misc]
        transport = broker.heartbeat()
        fail(future)
        broker.layer.reactor.run_asked()
        assert HeartbeatResponse.decode(body_of(transport), 0).error_code in (30, -1)


def test_a_future_with_an_impossible_result_is_answered(broker: Broker) -> None:
    future: Future[Any] = Future()
    broker.heartbeats.answer = lambda context: future
    transport = broker.heartbeat()
    (line,) = lines_while(lambda: future.set_result(object()))
    assert line["api"] == "Heartbeat"
    broker.layer.reactor.run_asked()
    assert HeartbeatResponse.decode(body_of(transport), 0).error_code == -1


@pytest.mark.parametrize("pool_bytes", [0, 1000])
def test_a_direct_request_that_fails_after_waiting_gets_an_error_response(pool_bytes: int) -> None:
    broker = Broker(pool_bytes)
    transport = broker.send(
        ApiKey.FETCH, 12, FetchRequest(topics=[FetchTopic(topic="t", partitions=[FetchPartition()])]).encode(12)
    )
    broker.fetches.answer.set_exception(GroupAuthorizationError("no"))
    broker.layer.reactor.run_asked()
    body = body_of(transport)
    assert FetchResponse.decode(body, 12, 1).responses[0].partitions[0].error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_kafka_error_becomes_the_response(broker: Broker) -> None:
    def refuse(context: RequestContext) -> Result:
        raise GroupAuthorizationError("no")

    broker.heartbeats.answer = refuse
    assert not lines_while(lambda: setattr(broker, "seen", broker.heartbeat()))
    assert HeartbeatResponse.decode(body_of(broker.seen), 0).error_code == 30  # type: ignore[attr-defined]


def test_a_produce_without_acks_that_fails_closes_the_connection(broker: Broker) -> None:
    silent, answered = (broker.send(ApiKey.PRODUCE, 9, ProduceRequest(acks=acks).encode(9)) for acks in (0, 1))
    assert (silent.written, silent.is_closed, answered.is_closed) == (b"", True, False)


def test_unexpected_exception_is_logged_and_answered(broker: Broker) -> None:
    def fail(context: RequestContext) -> Result:
        raise ValueError("secret")

    broker.heartbeats.answer = fail
    (line,) = lines_while(lambda: setattr(broker, "seen", broker.heartbeat()))
    assert line["api"] == "Heartbeat"
    transport: FakeTransport = broker.seen  # type: ignore[attr-defined]
    assert HeartbeatResponse.decode(body_of(transport), 0).error_code == -1
    assert not transport.is_closed


def test_response_that_cannot_be_written_is_answered(broker: Broker) -> None:
    broker.heartbeats.answer = lambda context: HeartbeatResponse(error_code=1 << 20)
    assert HeartbeatResponse.decode(body_of(broker.heartbeat()), 0).error_code == -1


def test_no_response_and_close(broker: Broker) -> None:
    broker.heartbeats.answer = lambda context: NO_RESPONSE
    quiet = broker.heartbeat()
    assert (quiet.written, quiet.is_closed) == (b"", False)
    broker.heartbeats.answer = lambda context: CLOSE_CONNECTION
    assert broker.heartbeat().is_closed
    assert len(broker.layer.observer.completed) == 2


@pytest.mark.parametrize(
    ("key", "version", "body"),
    [
        (ApiKey.HEARTBEAT, 4, HeartbeatRequest(group_id="g").encode(4)),
        (ApiKey.HEARTBEAT, 99, b""),
        (ApiKey.HEARTBEAT, -1, b""),
        (ApiKey.VOTE, 0, b""),
        (ApiKey.HEARTBEAT, 0, b"\0\x09short"),
        (ApiKey.HEARTBEAT, 0, b""),
    ],
)
def test_what_cannot_be_understood_closes_with_one_line(broker: Broker, key: ApiKey, version: int, body: bytes) -> None:
    lines = lines_while(lambda: setattr(broker, "seen", broker.send(key, version, body)))
    assert broker.seen.is_closed  # type: ignore[attr-defined]
    assert len(lines) == 1
    assert "Closing connection" in lines[0]["log_format"]


def test_api_versions_tells_what_is_registered(broker: Broker) -> None:
    for version in range(5 + 1):
        request = ApiVersionsRequest(client_software_name="lib", client_software_version="1.2.3")
        answer = ApiVersionsResponse.decode(body_of(broker.send(ApiKey.API_VERSIONS, version, request.encode(version))), version)
        assert answer.error_code == 0
        assert {k.api_key: (k.min_version, k.max_version) for k in answer.api_keys} == {
            0: (0, 11),
            1: (4, 12),
            8: (2, 5),
            12: (0, 3),
            18: (0, 5),
        }
        assert answer.finalized_features_epoch == (0 if version >= 3 else -1)
        told = {each.name: (each.min_version, each.max_version) for each in answer.supported_features}
        assert told == (SUPPORTED if version >= 4 else {})
        assert answer.finalized_features == []
    context = broker.layer.observer.completed[-1].context
    assert (context.software_name, context.software_version) == ("lib", "1.2.3")


def test_api_versions_of_an_unknown_version_is_answered_in_v0(broker: Broker) -> None:
    transport = broker.send(ApiKey.API_VERSIONS, 99, b"whatever")
    answer = ApiVersionsResponse.decode(body_of(transport), 0)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(k.api_key, k.min_version, k.max_version) for k in answer.api_keys] == [(18, 0, 5)]
    assert not transport.is_closed


@pytest.mark.parametrize("name", ["", "-a", "a-", "a b", "ü", "a\n"])
def test_invalid_software_name(broker: Broker, name: str) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
    answer = ApiVersionsResponse.decode(body_of(broker.send(ApiKey.API_VERSIONS, 3, request.encode(3))), 3)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert not answer.api_keys


def test_registry_refuses_what_cannot_be() -> None:
    with pytest.raises(ValueError, match="Heartbeat has two handlers"):
        ApiRegistry([Heartbeats(), Heartbeats()])
    with pytest.raises(ValueError, match="versions"):
        api(HeartbeatRequest, HeartbeatResponse, versions=(0, 9))
    with pytest.raises(TypeError):
        api(HeartbeatRequest, ApiVersionsResponse, versions=(0, 1))


def test_requests_that_nobody_understands_do_not_flood_the_log() -> None:
    broker = Broker()
    with capturedLogs() as lines:
        for _ in range(2 * LINES):
            assert broker.send(ApiKey.HEARTBEAT, 0, b"\x7f").is_closed
            assert broker.send(ApiKey.HEARTBEAT, 99, b"\0").is_closed
    assert len(lines) == LINES


def commit_all(broker: Broker, *groups: str, versions: Sequence[int] = (5,)) -> list[FakeTransport]:
    """Send a commit for each over a connection of its own, and handle them."""
    transports = []
    for number, group in enumerate(groups):
        channel, transport = broker.layer.connect()
        transports.append(transport)
        version = versions[number % len(versions)]
        request = OffsetCommitRequest(group_id=group, topics=[])
        data = encode_request_header(ApiKey.OFFSET_COMMIT, version, number, "test") + request.encode(2 if version > 5 else version)
        channel.dataReceived(len(data).to_bytes(4, "big") + data)
    while broker.handler.step(broker.layer.parker, 0):
        pass
    broker.layer.reactor.run_asked()
    return transports


def times_of(transports: list[FakeTransport]) -> list[int]:
    return [OffsetCommitResponse.decode(each.written[8:], 5).throttle_time_ms for each in transports]


def test_requests_with_something_in_common_are_handled_together_in_order(broker: Broker) -> None:
    answers = commit_all(broker, "a", "b", "aa", "alone", "aaa", "bb")
    assert broker.commits.handled == [["a", "aa"], ["b"], ["alone alone"], ["aaa"], ["bb"]], "none gets before one that is alone"
    assert times_of(answers) == [1, 1, 2, 0, 3, 2]
    assert [int.from_bytes(each.written[4:8], "big") for each in answers] == list(range(6))


def test_if_they_fail_together_each_gets_the_error(broker: Broker) -> None:
    with capturedLogs() as lines:
        answers = commit_all(broker, "x1", "a", "x2")
    assert [each.is_closed for each in answers] == [False] * 3
    assert times_of(answers) == [0, 1, 0]
    assert [request.context.error for request in broker.layer.observer.completed] == [
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        0,
    ]
    assert not lines, "it is no failure of the broker"


def test_an_answer_that_fails_is_that_requests_own(broker: Broker) -> None:
    answers = commit_all(broker, "a", "a!", "aaa")
    assert times_of(answers) == [1, 0, 3]
    errors = [request.context.error for request in broker.layer.observer.completed]
    assert errors == [0, ErrorCode.UNKNOWN_SERVER_ERROR, 0]


def test_what_cannot_be_read_is_handled_alone(broker: Broker) -> None:
    commit_all(broker, "a", "unreadable", "aa")
    assert broker.commits.handled == [["a"], ["unreadable alone"], ["aa"]]


def test_a_version_that_is_not_served_does_not_close_the_others(broker: Broker) -> None:
    answers = commit_all(broker, "a", "a", "aa", versions=(5, 8, 5))
    assert [each.is_closed for each in answers] == [False, True, False]
    assert broker.commits.handled == [["a"], ["aa"]]


@pytest.mark.parametrize("is_gone_first", [False, True])
def test_a_request_whose_client_has_gone_gives_up_waiting(broker: Broker, is_gone_first: bool) -> None:
    future: Future[HeartbeatResponse] = Future()
    channel, transport = broker.layer.connect()

    def answer(context: RequestContext) -> Future[HeartbeatResponse]:
        if is_gone_first:
            channel.close()
        context.give_up = lambda: future.set_result(HeartbeatResponse())
        return future

    broker.heartbeats.answer = answer
    data = encode_request_header(ApiKey.HEARTBEAT, 0, 77, "test") + HeartbeatRequest(group_id="g").encode(0)
    channel.dataReceived(len(data).to_bytes(4, "big") + data)
    broker.handler.step(broker.layer.parker, 0)
    channel.close()
    assert not future.done(), "not on the network thread"
    broker.handler.step(broker.layer.parker, 0)
    assert future.done()
    broker.layer.reactor.run_asked()
    (done,) = broker.layer.observer.completed
    assert done.context.give_up is None
    assert transport.written == b""


def test_a_request_that_waits_is_answered_when_its_client_sends_no_more(broker: Broker) -> None:
    future: Future[HeartbeatResponse] = Future()
    channel, transport = broker.layer.connect()

    def answer(context: RequestContext) -> Future[HeartbeatResponse]:
        context.give_up = lambda: future.set_result(HeartbeatResponse())
        return future

    broker.heartbeats.answer = answer
    data = encode_request_header(ApiKey.HEARTBEAT, 0, 77, "test") + HeartbeatRequest(group_id="g").encode(0)
    channel.dataReceived(len(data).to_bytes(4, "big") + data)
    broker.handler.step(broker.layer.parker, 0)
    assert channel.eof_received()
    broker.handler.step(broker.layer.parker, 0)
    broker.layer.reactor.run_asked()
    assert transport.written[4:8] == (77).to_bytes(4, "big")
