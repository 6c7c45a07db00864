"""Quotas of requests, from the frame to the muted channel: request channel, processor and handlers on a clock held by hand."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from tests.support.cases import case
from tests.support.network_fakes import FakeTransport, Layer
from tests.support.quotas import Quotas
from twisted_kafka.network.connection.channel_state import MUTED_AND_THROTTLED, NOT_MUTED
from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.api import ApiKey, find_message, message_names, response_class
from twisted_kafka.protocol.errors import GroupAuthorizationError
from twisted_kafka.protocol.headers import encode_request_header
from twisted_kafka.protocol.messages.administration.topics import CreateTopicsRequest, CreateTopicsResponse
from twisted_kafka.protocol.messages.coordinators.groups import HeartbeatRequest, HeartbeatResponse
from twisted_kafka.protocol.messages.fetch import FetchRequest, FetchResponse
from twisted_kafka.protocol.messages.inter_broker import UpdateMetadataRequest, UpdateMetadataResponse
from twisted_kafka.protocol.messages.produce import ProduceRequest, ProduceResponse
from twisted_kafka.protocol.regions import Buffer
from twisted_kafka.server.dispatch import (
    CLOSE_CONNECTION,
    NO_RESPONSE,
    ApiRegistry,
    EncodedResponse,
    FrozenResponse,
    Limited,
    Measured,
    Result,
    api,
    with_throttle_time,
)
from twisted_kafka.server.kafka_apis import KafkaApis
from twisted_kafka.server.request_handler import KafkaRequestHandler
from twisted_kafka.server.request_throttler import RequestThrottler


class Family:
    """Handlers whose answers, and the time they take, the test chooses."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self.answer: Callable[[RequestContext], Result] = lambda context: HeartbeatResponse()
        self.takes_ms = 0

    def _handle(self, context: RequestContext) -> Result:
        self._broker.advance_ms(self.takes_ms)
        return self.answer(context)

    @api(HeartbeatRequest, HeartbeatResponse, versions=(0, 4))
    def heartbeat(self, context: RequestContext, request: HeartbeatRequest) -> Result:
        return self._handle(context)

    @api(ProduceRequest, ProduceResponse, versions=(0, 11))
    def produce(self, context: RequestContext, request: ProduceRequest) -> Result:
        return self._handle(context)

    @produce.read_together
    def read(self, context: RequestContext, frame: Buffer, offset: int) -> tuple[str, str]:
        return "key", "item"

    @produce.handle_together
    def together(self, key: str, items: list[str]) -> list[str]:
        self._broker.advance_ms(self.takes_ms)
        return items

    @produce.answer_together
    def one(self, context: RequestContext, item: str, result: str) -> Result:
        return self.answer(context)

    @api(FetchRequest, FetchResponse, versions=(4, 12))
    def fetch(self, context: RequestContext, request: FetchRequest) -> Result:
        context.is_special = request.replica_id >= 0
        return self._handle(context)

    @api(CreateTopicsRequest, CreateTopicsResponse, versions=(0, 7))
    def create_topics(self, context: RequestContext, request: CreateTopicsRequest) -> Result:
        return self._handle(context)

    @api(UpdateMetadataRequest, UpdateMetadataResponse, versions=(0, 7))
    def update_metadata(self, context: RequestContext, request: UpdateMetadataRequest) -> Result:
        return self._handle(context)


class Broker:
    def __init__(self, **nodes: dict[str, str]) -> None:
        self.quotas = Quotas({path.replace("__", "/"): config for path, config in nodes.items()})
        self.layer = Layer(clock=self.quotas.clock)
        self.family = Family(self)
        throttler = RequestThrottler(self.quotas.managers, self.quotas.clock)
        self.layer.processor.add_observer(throttler)
        self.apis = KafkaApis(ApiRegistry([self.family]), self.layer.channel, self.quotas.clock, throttler)
        self.handler = KafkaRequestHandler(self.layer.channel, self.apis.handle, "handler", bundles=self.apis)
        self.channel, self.transport = self.layer.connect()

    def send(self, request: Any, version: int) -> Any:
        """Send a request and handle it; return its response, None if there is none."""
        before = len(self.transport.written)
        self.send_only(request, version)
        self.handle()
        answer = self.transport.written[before + 4 :]
        if not answer:
            return None
        return response_class(request.KEY).decode(answer[4:], version)

    def send_only(self, request: Any, version: int, transport: FakeTransport | None = None) -> None:
        data = encode_request_header(ApiKey(request.KEY), version, 7, "app") + request.encode(version)
        (transport or self.transport).read(len(data).to_bytes(4, "big") + data)

    def handle(self) -> None:
        self.handler.step(self.layer.parker, 0)
        self.layer.reactor.run_asked()

    def advance_ms(self, ms: int) -> None:
        self.quotas.advance_ms(ms)
        self.layer.reactor.run_asked()

    @property
    def throttled_ms(self) -> list[int]:
        """The throttle times of the requests so far, as the access log and the metrics get them."""
        return [request.throttle_ns // 1_000_000 for request in self.layer.observer.completed]


HEARTBEAT = HeartbeatRequest(group_id="g")
PRODUCE = ProduceRequest(acks=1, transactional_id="x" * 950)
FETCH = FetchRequest(replica_id=-1)


def with_request_quota() -> Broker:
    return Broker(clients__app={"request_percentage": "1"})


def with_bytes(limit: float) -> Broker:
    return Broker(clients__app={"producer_byte_rate": str(limit), "consumer_byte_rate": str(limit)})


def test_the_response_is_sent_at_once_and_the_channel_muted_for_the_time_it_tells() -> None:
    broker = with_request_quota()
    broker.family.takes_ms = 150  # 15 % of a second, of which 1 % is allowed: 1.5 % over 10 windows
    assert broker.send(HEARTBEAT, 3).throttle_time_ms == 1000  # not more than a window
    assert broker.channel.state == MUTED_AND_THROTTLED
    broker.send_only(HEARTBEAT, 3)
    broker.advance_ms(999)
    assert broker.layer.take() is None
    assert broker.quotas.measured("Request", "queue-size") == {"": 1}
    broker.advance_ms(1)
    assert broker.layer.take() is not None
    assert broker.throttled_ms == [1000]
    assert broker.quotas.measured("Request", "queue-size") == {"": 0}
    assert broker.quotas.measured("Request", "throttle-time") == {"client-id:app": 1000}
    assert broker.quotas.measured("Request", "request-time")["client-id:app"] == pytest.approx(15 / 10)


def test_a_client_within_its_quota_is_not_throttled() -> None:
    broker = with_request_quota()
    broker.family.takes_ms = 99
    assert broker.send(HEARTBEAT, 3).throttle_time_ms == 0
    assert broker.channel.state == NOT_MUTED
    assert broker.throttled_ms == [0]


def test_versions_without_a_throttle_time_are_throttled_as_well() -> None:
    broker = with_request_quota()
    broker.family.takes_ms = 150
    assert broker.send(HEARTBEAT, 0).error_code == 0
    assert broker.channel.state == MUTED_AND_THROTTLED


def test_a_response_that_many_share_is_not_changed() -> None:
    broker = with_request_quota()
    shared = FrozenResponse(HeartbeatResponse())
    broker.family.answer = lambda context: shared
    broker.family.takes_ms = 150
    assert broker.send(HEARTBEAT, 3).throttle_time_ms == 1000
    assert shared.response.throttle_time_ms == 0  # type: ignore[attr-defined]


def test_a_response_of_which_only_the_bytes_are_kept_can_be_throttled() -> None:
    broker = with_request_quota()
    shared = EncodedResponse(HeartbeatResponse(error_code=27), 3, {27: 1})
    broker.family.answer = lambda context: shared
    assert broker.send(HEARTBEAT, 3).throttle_time_ms == 0
    broker.family.takes_ms = 150
    throttled = broker.send(HEARTBEAT, 3)
    assert (throttled.throttle_time_ms, throttled.error_code) == (1000, 27)
    assert HeartbeatResponse.decode(shared.body, 3).throttle_time_ms == 0


@pytest.mark.parametrize("is_late", [False, True])
def test_errors_are_throttled_too(is_late: bool) -> None:
    broker = with_request_quota()
    broker.family.takes_ms = 150

    def fail(context: RequestContext) -> Result:
        if not is_late:
            raise GroupAuthorizationError("no")
        future: Future[HeartbeatResponse] = Future()
        future.set_exception(GroupAuthorizationError("no"))
        return future

    broker.family.answer = fail
    answer = broker.send(HEARTBEAT, 3)
    assert (answer.error_code, answer.throttle_time_ms) == (GroupAuthorizationError.code, 1000)
    assert broker.channel.state == MUTED_AND_THROTTLED


def test_a_response_that_cannot_be_encoded_throttles_once() -> None:
    broker = with_request_quota()
    broker.family.takes_ms = 150
    broker.family.answer = lambda context: HeartbeatResponse(error_code="none")  # type: ignore[arg-type]
    assert broker.send(HEARTBEAT, 3).throttle_time_ms == 1000
    assert broker.quotas.measured("Request", "queue-size") == {"": 1}
    assert broker.channel.state == MUTED_AND_THROTTLED


def test_only_the_thread_s_time_counts_not_the_time_of_waiting() -> None:
    broker = with_request_quota()
    future: Future[HeartbeatResponse] = Future()
    broker.family.answer = lambda context: future
    broker.send(HEARTBEAT, 3)
    broker.advance_ms(150)
    future.set_result(HeartbeatResponse())
    broker.layer.reactor.run_asked()
    assert broker.throttled_ms == [0]


def test_sending_counts_when_the_next_request_is_answered() -> None:
    broker = with_request_quota()
    send = broker.transport.send
    broker.transport.send = lambda *of: broker.advance_ms(150) or send(*of)
    assert broker.send(HEARTBEAT, 3).throttle_time_ms == 0
    assert broker.send(HEARTBEAT, 3).throttle_time_ms == 1000


def test_what_the_client_takes_slowly_does_not_count() -> None:
    broker = with_request_quota()
    broker.transport.is_stuck = True
    broker.send(HEARTBEAT, 3)
    broker.advance_ms(150)
    broker.transport.unstick()
    assert broker.throttled_ms == [0]
    assert broker.send(HEARTBEAT, 3).throttle_time_ms == 0


def test_produced_bytes_are_those_of_the_request() -> None:
    broker = with_bytes(100)
    broker.family.answer = lambda context: ProduceResponse()
    size = len(encode_request_header(ApiKey.PRODUCE, 8, 7, "app") + PRODUCE.encode(8))
    assert 900 < size < 1000
    assert broker.send(PRODUCE, 8).throttle_time_ms == 0
    throttle_ms = broker.send(PRODUCE, 8).throttle_time_ms
    assert throttle_ms == pytest.approx((2 * size / 10 - 100) / 100 * 10_000, abs=1)
    assert broker.channel.state == MUTED_AND_THROTTLED
    assert broker.quotas.measured("Produce", "throttle-time") == {"client-id:app": throttle_ms}
    assert broker.quotas.measured("Produce", "byte-rate") == {"client-id:app": 2 * size / 10}
    assert broker.quotas.measured("Produce", "queue-size") == {"": 1}


def test_a_produce_without_an_answer_mutes_its_channel() -> None:
    broker = with_bytes(50)
    broker.family.answer = lambda context: NO_RESPONSE
    assert broker.send(PRODUCE, 8) is None
    assert broker.channel.state == MUTED_AND_THROTTLED
    broker.advance_ms(10_000)
    assert broker.channel.state == NOT_MUTED


def test_a_connection_that_closes_is_not_throttled() -> None:
    broker = with_bytes(50)
    broker.family.answer = lambda context: CLOSE_CONNECTION
    broker.send(PRODUCE, 8)
    assert broker.transport.is_closed
    assert broker.quotas.measured("Produce", "queue-size") == {"": 0}
    assert broker.quotas.measured("Produce", "byte-rate")["client-id:app"] > 90


def test_a_produce_without_an_answer_is_exempt_from_request_quotas() -> None:
    broker = with_request_quota()
    broker.family.answer = lambda context: NO_RESPONSE
    broker.family.takes_ms = 500
    broker.send(PRODUCE, 8)
    assert broker.channel.state == NOT_MUTED
    assert broker.quotas.measured("Request", "exempt-request-time") == {"": pytest.approx(5)}


class Fetched(Measured):
    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes

    def size_bytes(self) -> int:
        return self._size_bytes

    def answer(self) -> FetchResponse:
        return FetchResponse(session_id=1, responses=[])

    def throttled(self, throttle_time_ms: int) -> FetchResponse:
        return FetchResponse(session_id=2, responses=[], throttle_time_ms=throttle_time_ms)


def test_a_fetch_that_is_throttled_is_empty_and_costs_nothing() -> None:
    broker = with_bytes(100)
    broker.family.answer = lambda context: Fetched(800)
    answer = broker.send(FETCH, 11)
    assert (answer.session_id, answer.throttle_time_ms) == (1, 0)
    answer = broker.send(FETCH, 11)
    assert (answer.session_id, answer.throttle_time_ms) == (2, 6000)
    assert broker.quotas.measured("Fetch", "byte-rate") == {"client-id:app": 80}
    broker.advance_ms(6000)
    assert broker.channel.state == NOT_MUTED


def test_a_fetch_is_empty_because_of_a_request_quota_too() -> None:
    broker = Broker(clients__app={"request_percentage": "1", "consumer_byte_rate": "1000000"})
    broker.family.takes_ms = 150
    broker.family.answer = lambda context: Fetched(800)
    answer = broker.send(FETCH, 11)
    assert (answer.session_id, answer.throttle_time_ms) == (2, 1000)
    assert broker.quotas.measured("Fetch", "byte-rate") == {"client-id:app": 0}
    assert broker.quotas.measured("Request", "queue-size") == {"": 1}


def test_of_two_quotas_the_longer_time_counts() -> None:
    broker = Broker(clients__app={"request_percentage": "1", "producer_byte_rate": "50"})
    broker.family.takes_ms = 150
    broker.family.answer = lambda context: ProduceResponse()
    assert broker.send(PRODUCE, 8).throttle_time_ms > 8000
    assert broker.quotas.measured("Request", "queue-size") == {"": 0}
    assert broker.quotas.measured("Produce", "queue-size") == {"": 1}


@pytest.mark.parametrize(
    ("request_", "version", "answer"),
    [(UpdateMetadataRequest(), 5, UpdateMetadataResponse()), (FetchRequest(replica_id=2), 11, FetchResponse())],
)
def test_other_brokers_are_never_throttled(request_: Any, version: int, answer: Any) -> None:
    broker = Broker(clients__app={"request_percentage": "1", "consumer_byte_rate": "1"})
    broker.family.takes_ms = 150
    broker.family.answer = lambda context: answer
    broker.send(request_, version)
    assert broker.channel.state == NOT_MUTED
    assert broker.throttled_ms == [0]
    assert broker.quotas.measured("Request", "exempt-request-time") == {"": pytest.approx(1.5)}


def test_requests_that_are_handled_together_share_their_time() -> None:
    broker = with_request_quota()
    broker.layer.channel.bundled = broker.apis.bundled
    broker.family.takes_ms = 150
    broker.family.answer = lambda context: ProduceResponse()
    transports = [broker.layer.connect()[1] for _ in range(2)]
    for transport in transports:
        broker.send_only(PRODUCE, 8, transport)
    broker.handle()
    assert [ProduceResponse.decode(each.written[8:], 8).throttle_time_ms for each in transports] == [0, 1000]
    assert broker.quotas.measured("Request", "request-time")["client-id:app"] == pytest.approx(1.5)


class Waits:
    """A quota of controller mutations."""

    def __init__(self, wait_ms: int) -> None:
        self._wait_ms = wait_ms

    def throttle_ms(self) -> int:
        return self._wait_ms


def test_who_may_change_no_more_topics_waits() -> None:
    broker = Broker(clients__app={"controller_mutation_rate": "1"})
    broker.family.answer = lambda context: Limited(CreateTopicsResponse(), Waits(700))
    assert broker.send(CreateTopicsRequest(), 4).throttle_time_ms == 700
    assert broker.quotas.measured("ControllerMutation", "queue-size") == {"": 1}
    assert broker.quotas.measured("ControllerMutation", "throttle-time") == {"client-id:app": 700}
    broker.advance_ms(700)
    broker.family.answer = lambda context: Limited(CreateTopicsResponse(), Waits(0))
    assert broker.send(CreateTopicsRequest(), 4).throttle_time_ms == 0


def test_a_larger_quota_ends_throttling_early() -> None:
    broker = with_bytes(50)
    broker.family.answer = lambda context: ProduceResponse()
    assert broker.send(PRODUCE, 8).throttle_time_ms > 8000
    broker.quotas.configs.write("clients/app", {"producer_byte_rate": "80"})
    broker.advance_ms(1)
    assert broker.channel.state == MUTED_AND_THROTTLED
    broker.advance_ms(2500)
    assert broker.channel.state == NOT_MUTED
    broker.send(PRODUCE, 8)
    assert broker.channel.state == MUTED_AND_THROTTLED
    broker.quotas.configs.write("clients/app", {})
    broker.advance_ms(1)
    assert broker.channel.state == NOT_MUTED


def test_a_smaller_quota_does_not_prolong_it() -> None:
    broker = with_bytes(90)
    broker.family.answer = lambda context: ProduceResponse()
    throttle_ms = broker.send(PRODUCE, 8).throttle_time_ms
    assert throttle_ms > 500
    broker.quotas.configs.write("clients/app", {"producer_byte_rate": "10"})
    broker.advance_ms(throttle_ms)
    assert broker.channel.state == NOT_MUTED


def test_closed_connections_are_forgotten_before_their_time() -> None:
    broker = with_bytes(1)
    broker.family.answer = lambda context: ProduceResponse()
    assert broker.send(PRODUCE, 8).throttle_time_ms > 500_000
    broker.transport.abortConnection()
    assert broker.quotas.measured("Produce", "queue-size") == {"": 1}
    broker.quotas.clock.advance_ms(30_000)
    broker.quotas.scheduler.run_due()
    assert broker.quotas.measured("Produce", "queue-size") == {"": 0}
    assert len(broker.quotas.timer) == 0


def test_without_a_quota_nothing_is_measured() -> None:
    broker = Broker()
    broker.family.takes_ms = 500
    assert broker.send(HEARTBEAT, 3).throttle_time_ms == 0
    assert broker.quotas.observed == 0
    assert broker.quotas.measured("Request", "request-time") == {}


def test_a_client_has_no_metrics_of_what_it_does_not_use() -> None:
    broker = Broker(clients__app={"request_percentage": "1", "producer_byte_rate": "50", "consumer_byte_rate": "50"})
    broker.send(HEARTBEAT, 3)
    assert broker.quotas.measured("Request", "request-time").keys() == {"client-id:app"}
    assert broker.quotas.measured("Produce", "byte-rate") == broker.quotas.measured("Fetch", "byte-rate") == {}


@pytest.mark.medium
def test_every_response_can_tell_a_throttle_time_in_every_version() -> None:
    """Versions without one leave it out, instead of failing to encode."""
    for name in message_names():
        message: Any = find_message(name)
        if not name.endswith("Response"):
            continue
        low, high = message.VERSIONS
        for version in range(low, high + 1):
            with case(response=name, version=version):
                throttled = with_throttle_time(message(), 5)
                told = message.decode(throttled.encode(version), version)
                assert getattr(told, "throttle_time_ms", 0) in (0, 5)


def _raise(error: Exception) -> Result:
    raise error


class Authenticating:
    """The authenticator of a connection."""

    is_authenticated = False

    def admits(self, api_key: int, now_ns: int) -> bool:
        return True


def test_steps_of_the_authentication_cost_nothing() -> None:
    broker = with_request_quota()
    broker.family.takes_ms = 150
    authenticator = Authenticating()
    broker.channel.connection.authenticator = authenticator  # type: ignore[assignment]
    assert broker.send(HEARTBEAT, 3).throttle_time_ms == 0
    broker.family.answer = lambda context: _raise(GroupAuthorizationError("no"))
    assert broker.send(HEARTBEAT, 3).throttle_time_ms == 0
    assert broker.quotas.measured("Request", "request-time") == {}
    authenticator.is_authenticated = True
    assert broker.send(HEARTBEAT, 3).throttle_time_ms == 1000
