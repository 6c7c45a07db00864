"""Requests with many elements: one at a time, with their frames, and none above the limit."""

import gc
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from tests.server.queued_requests import QueuedRequests
from tests.support.network_fakes import FakeTransport, lines_of
from tests.support.traced_memory import traced_peak_bytes
from twisted_kafka.network.requests.memory_pool import MemoryPool
from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.messages.coordinators.groups import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
)
from twisted_kafka.protocol.messages.inter_broker import UpdateMetadataBroker, UpdateMetadataRequest, UpdateMetadataResponse
from twisted_kafka.server.dispatch import ApiRegistry, Result, api
from twisted_kafka.server.kafka_apis import KafkaApis
from twisted_kafka.server.large_requests import (
    ABANDONED_NS,
    MOST_AT_ONCE,
    MOST_BROKER_ELEMENTS,
    MOST_ELEMENTS,
    SMALL_ELEMENTS,
    STUCK_NS,
)
from twisted_kafka.timing.clock import ManualClock


class Family:
    """Answers each request with what ``answer`` returns, and remembers which ones it has."""

    def __init__(self) -> None:
        self.handled: list[int] = []
        self.answer: Callable[[], Result] = FindCoordinatorResponse
        self.during: Callable[[], object] = lambda: None
        self.gives_up = False

    @api(FindCoordinatorRequest, FindCoordinatorResponse, versions=(0, 4))
    def find(self, context: RequestContext, request: FindCoordinatorRequest) -> Result:
        self.handled.append(context.correlation_id)
        self.during()
        if self.gives_up:
            context.give_up = lambda: None
        return self.answer()

    @api(HeartbeatRequest, HeartbeatResponse, versions=(0, 3))
    def heartbeat(self, context: RequestContext, request: HeartbeatRequest) -> Result:
        self.handled.append(context.correlation_id)
        return HeartbeatResponse()

    @api(UpdateMetadataRequest, UpdateMetadataResponse, versions=(8, 8))
    def update(self, context: RequestContext, request: UpdateMetadataRequest) -> Result:
        self.handled.append(context.correlation_id)
        return UpdateMetadataResponse()


class Stage:
    def __init__(self, pool: MemoryPool | None = None, clock: ManualClock | None = None) -> None:
        self.family = Family()
        self.registry = ApiRegistry([self.family])
        self.queued = QueuedRequests(self.registry, clock or ManualClock(), pool=pool)
        self.layer = self.queued.layer

    def ask(self, number: int, keys: int) -> FakeTransport:
        """Send a request with so many keys over a connection of its own."""
        channel, transport = self.layer.connect()
        self.queued.send(channel, number, FindCoordinatorRequest(coordinator_keys=["k"] * keys), 4)
        return transport

    def step(self, times: int = 1) -> None:
        for _ in range(times):
            self.queued.handler.step(self.layer.parker, 60 if self.layer.channel.has_large_next else 0)
        self.layer.reactor.run_asked()


def test_while_a_large_request_is_handled_others_wait_and_small_ones_do_not() -> None:
    stage = Stage()
    asked = [stage.ask(1, SMALL_ELEMENTS + 1), stage.ask(2, SMALL_ELEMENTS + 1), stage.ask(3, SMALL_ELEMENTS)]
    seen: list[list[int]] = []

    def another_handler_goes_on() -> None:
        stage.family.during = lambda: None
        stage.step(2)
        seen.append(list(stage.family.handled))

    stage.family.during = another_handler_goes_on
    stage.step()
    assert seen == [[1, 3]]
    assert [bool(transport.written) for transport in asked] == [True, False, True]
    stage.step()
    assert stage.family.handled == [1, 3, 2]
    assert asked[1].written


def test_a_large_request_that_fails_lets_the_next_one_in() -> None:
    stage = Stage()

    def fail() -> Result:
        stage.family.answer = FindCoordinatorResponse
        raise SystemError("a bug")

    first, second = stage.ask(1, SMALL_ELEMENTS + 1), stage.ask(2, SMALL_ELEMENTS + 1)
    stage.family.answer = fail
    assert any("FindCoordinator" in line for line in lines_of(lambda: stage.step(3)))
    assert first.written
    assert second.written
    assert stage.family.handled == [1, 2]


def test_a_controllers_request_does_not_wait_for_a_clients() -> None:
    stage = Stage()
    stage.ask(1, SMALL_ELEMENTS + 1)
    channel, transport = stage.layer.connect()
    stage.queued.send(channel, 2, UpdateMetadataRequest(live_brokers=[UpdateMetadataBroker()] * (SMALL_ELEMENTS + 1)), 8)
    seen: list[list[int]] = []

    def a_disk_hangs() -> None:
        stage.step()
        seen.append(list(stage.family.handled))

    stage.family.during = a_disk_hangs
    stage.step()
    assert seen == [[1, 2]]
    assert transport.written


def test_large_requests_do_not_wait_for_one_that_is_stuck() -> None:
    clock = ManualClock()
    stage = Stage(clock=clock)
    for number in range(1, MOST_AT_ONCE + 2):
        stage.ask(number, SMALL_ELEMENTS + 1)
    at_once: list[int] = []

    def a_disk_hangs() -> None:
        at_once.append(len(stage.family.handled))
        clock.advance_ms(STUCK_NS // 1_000_000)
        stage.step()  # not yet stuck: the next one waits
        assert stage.family.handled[-1] == at_once[-1]
        clock.advance_ms(1)
        stage.ask(10 + at_once[-1], SMALL_ELEMENTS + 1)
        stage.step()

    stage.family.during = a_disk_hangs
    stage.step()
    stage.family.during = lambda: None
    assert at_once == list(range(1, MOST_AT_ONCE + 1))
    stage.step(20)
    assert sorted(stage.family.handled) == [1, 2, 3, 4, 5, 11, 12, 13, 14]
    stage.ask(20, SMALL_ELEMENTS + 1)
    stage.step()
    assert stage.family.handled[-1] == 20


def test_the_next_large_request_waits_for_the_late_answer_to_the_last_one() -> None:
    clock = ManualClock()
    stage = Stage(clock=clock)
    futures: list[Future[FindCoordinatorResponse]] = [Future() for _ in range(3)]
    answers = iter(futures)
    stage.family.answer = lambda: next(answers)
    asked = [stage.ask(number, SMALL_ELEMENTS + 1) for number in range(3)]
    for number, future in enumerate(futures):
        stage.step(5)
        assert stage.family.handled == list(range(number + 1))
        future.set_result(FindCoordinatorResponse())
        stage.step(1)
        assert [bool(transport.written) for transport in asked] == [True] * (number + 1) + [False] * (2 - number)


def test_large_requests_that_are_never_answered_do_not_block_others_for_good() -> None:
    clock = ManualClock()
    stage = Stage(clock=clock)
    stage.family.answer = Future
    for number in range(MOST_AT_ONCE + 1):
        clock.advance_ms(STUCK_NS // 1_000_000 + 1)
        stage.ask(number, SMALL_ELEMENTS + 1)
        stage.step()
    assert stage.family.handled == list(range(MOST_AT_ONCE))
    clock.advance_ms(ABANDONED_NS // 1_000_000)
    stage.ask(100, SMALL_ELEMENTS + 1)
    stage.step()
    assert stage.family.handled == list(range(MOST_AT_ONCE + 1))


def test_others_do_not_wait_for_a_large_request_that_waits_for_something_to_happen() -> None:
    stage = Stage()
    stage.family.answer = Future
    stage.family.gives_up = True
    for number in range(3):
        stage.ask(number, SMALL_ELEMENTS + 1)
    stage.step(3)
    assert stage.family.handled == [0, 1, 2]


def test_the_interpreter_is_as_before_after_large_requests_of_two_brokers() -> None:
    def settings() -> tuple[float, tuple[int, int, int], bool]:
        return sys.getswitchinterval(), gc.get_threshold(), gc.isenabled()

    first, second = Stage(), Stage()
    before = settings()
    first.ask(1, SMALL_ELEMENTS + 1)
    second.ask(1, SMALL_ELEMENTS + 1)
    has_begun, has_ended = threading.Event(), threading.Event()

    def wait_for_the_second_to_begin() -> None:
        has_begun.wait(30)

    def wait_for_the_first_to_end() -> None:
        has_begun.set()
        has_ended.wait(30)

    first.family.during = wait_for_the_second_to_begin
    second.family.during = wait_for_the_first_to_end
    threads = [threading.Thread(target=first.step), threading.Thread(target=second.step)]
    threads[0].start()
    while not first.family.handled:
        threads[0].join(0.001)
    threads[1].start()
    threads[0].join(30)
    has_ended.set()
    threads[1].join(30)
    assert second.family.handled
    assert settings() == before


def test_a_late_answer_to_a_large_request_is_made_in_its_turn() -> None:
    stage = Stage()
    future: Future[FindCoordinatorResponse] = Future()
    stage.family.answer = lambda: future
    stage.family.gives_up = True
    late = stage.ask(1, SMALL_ELEMENTS + 1)
    stage.step()
    stage.family.answer = FindCoordinatorResponse
    written: list[bytes] = []

    def complete_meanwhile() -> None:
        future.set_result(FindCoordinatorResponse(error_code=15))
        stage.layer.reactor.run_asked()
        written.append(late.written)

    stage.family.during = complete_meanwhile
    stage.ask(2, SMALL_ELEMENTS + 1)
    stage.step(2)
    assert written == [b""]
    assert late.written


def test_a_large_request_that_waits_keeps_its_frame_and_its_memory() -> None:
    clock = ManualClock()
    pool = MemoryPool(1_000_000, clock)
    stage = Stage(pool, clock)
    stage.ask(1, SMALL_ELEMENTS + 1)
    stage.ask(2, SMALL_ELEMENTS + 1)
    used: list[int] = []

    def look() -> None:
        stage.family.during = lambda: None
        stage.step()
        used.append(pool.used_bytes)

    stage.family.during = look
    stage.step()
    assert used[0] > 2 * SMALL_ELEMENTS
    stage.step(2)
    assert stage.family.handled == [1, 2]
    assert pool.used_bytes == 0


@pytest.mark.medium
@pytest.mark.parametrize(("keys", "is_served"), [(MOST_ELEMENTS, True), (MOST_ELEMENTS + 1, False), (900_000, False)])
def test_a_request_with_too_many_elements_closes_its_connection_with_one_line(keys: int, is_served: bool) -> None:
    stage = Stage()
    body = b"\0" + _uvarint(keys + 1) + b"\1" * keys + b"\0"
    channel, transport = stage.layer.connect()
    header = bytes((0, ApiKey.FIND_COORDINATOR, 0, 4, 0, 0, 0, 1, 0, 0, 0))
    channel.dataReceived((len(header) + len(body)).to_bytes(4, "big") + header + body)
    lines: list[str] = []
    peak = traced_peak_bytes(lambda: lines.extend(lines_of(stage.step)))
    assert stage.family.handled == [1] * is_served
    assert transport.is_closed is not is_served
    assert sum("too many elements" in line for line in lines) == (not is_served)
    assert peak < 200 * MOST_ELEMENTS


@pytest.mark.medium
@pytest.mark.parametrize("most", [MOST_ELEMENTS, MOST_BROKER_ELEMENTS])
def test_a_controller_may_tell_a_broker_of_a_cluster_about_more_partitions(most: int) -> None:
    stage = Stage()
    apis = KafkaApis(stage.registry, stage.layer.channel, stage.layer.clock, most_broker_elements=most)
    channel, _ = stage.layer.connect()
    stage.queued.send(channel, 1, UpdateMetadataRequest(live_brokers=[UpdateMetadataBroker()] * (MOST_ELEMENTS + 1)), 8)
    request = stage.layer.take()
    assert request is not None
    lines_of(lambda: apis.handle(request))
    assert stage.family.handled == [1] * (most > MOST_ELEMENTS)


def _uvarint(value: int) -> bytes:
    data = b""
    while value > 127:
        data += bytes((value & 127 | 128,))
        value >>= 7
    return data + bytes((value,))
