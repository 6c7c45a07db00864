import random
import struct
import threading
from collections.abc import Callable, Sequence
from unittest.mock import patch

import pytest
from twisted.logger import capturedLogs

from tests.support.budget import patient
from tests.support.eventually import eventually
from tests.support.network_fakes import FakeTransport, Layer, frame
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.connection import framing
from twisted_kafka.network.connection.framing import FrameBuffers
from twisted_kafka.network.request_plane import DATA_PLANE, METRIC_PREFIXES, RequestPlane
from twisted_kafka.network.requests.memory_pool import MemoryPool
from twisted_kafka.network.requests.request import Request
from twisted_kafka.network.requests.request_channel import RequestBundle, RequestChannel
from twisted_kafka.protocol.errors import FatalExitError
from twisted_kafka.server import request_handler
from twisted_kafka.server.request_handler import KafkaRequestHandler, KafkaRequestHandlerPool
from twisted_kafka.timing.clock import ManualClock, SystemClock


def test_failure_of_the_handler_closes_that_connection_only() -> None:
    layer = Layer()

    def fail(request: Request) -> None:
        raise RuntimeError("broken")

    handler = KafkaRequestHandler(layer.channel, fail, "handler")
    bad, bad_transport = layer.connect()
    bad.dataReceived(frame(1))
    assert handler.step(layer.parker, 0)
    layer.reactor.run_asked()
    assert bad_transport.is_closed
    assert not handler.step(layer.parker, 0)
    assert len(layer.observer.completed) == 1


def test_failure_after_the_answer_changes_nothing() -> None:
    layer = Layer()

    def answer_and_fail(request: Request) -> None:
        layer.channel.send_response(request, [b"ok"], 2)
        raise RuntimeError("late")

    handler = KafkaRequestHandler(layer.channel, answer_and_fail, "handler")
    channel, transport = layer.connect()
    channel.dataReceived(frame(1))
    handler.step(layer.parker, 0)
    layer.reactor.run_asked()
    assert (transport.written, transport.is_closed) == (b"ok", False)


def test_pool_handles_what_is_queued_before_it_ends() -> None:
    layer = Layer()
    clock = SystemClock()
    channel = RequestChannel(500, clock)
    layer.processor._request_channel = channel
    handled: list[int] = []
    lock = threading.Lock()

    def handle(request: Request) -> None:
        with lock:
            handled.append(request.context.correlation_id)

    registry = MetricsRegistry(clock)
    pool = KafkaRequestHandlerPool(RequestPlane(DATA_PLANE, channel, clock, registry), handle, 3, clock, registry)
    pool.start()
    for number in range(100):
        layer.connect()[0].dataReceived(frame(number))
    pool.shutdown()
    assert sorted(handled) == list(range(100))
    assert not [t for t in threading.enumerate() if "request-handler" in t.name]
    assert registry.value("KafkaRequestHandlerPool", "RequestHandlerAvgIdlePercent") is not None


def test_callback_runs_on_a_handler_before_the_requests_that_wait_and_tells_who_waits_for_room() -> None:
    layer = Layer(queue_size=1)
    first, _ = layer.connect()
    second, second_transport = layer.connect()
    first.dataReceived(frame(1))
    request = layer.take()
    assert request is not None
    done: list[str] = []

    def handle(each: Request) -> None:
        done.append("request")
        layer.channel.send_response(each, [b"ok"], 2)

    handler = KafkaRequestHandler(layer.channel, handle, "handler")
    second.dataReceived(frame(2))
    layer.channel.send_callback(lambda: done.append("callback"), request)
    second_transport.read(frame(3))
    assert handler.step(layer.parker, 0)
    assert handler.step(layer.parker, 0)
    assert done == ["callback", "request"]
    layer.reactor.run_asked()
    assert handler.step(layer.parker, 0)
    assert done == ["callback", "request", "request"]


def test_queue_emptied_by_a_callback_has_room_again() -> None:
    layer = Layer(queue_size=1)
    first, _ = layer.connect()
    first.dataReceived(frame(1))
    request = layer.take()
    assert request is not None
    layer.channel.send_callback(lambda: None, request)
    other, _ = layer.connect()
    other.dataReceived(frame(2))
    assert layer.processor.is_full, "a callback is not refused, but it takes a place"
    assert KafkaRequestHandler(layer.channel, lambda _: None, "handler").step(layer.parker, 0)
    layer.reactor.run_asked()
    assert not layer.processor.is_full
    assert layer.take() is not None


@pytest.mark.parametrize("is_free", [True, False])
@pytest.mark.parametrize("size", [70_000, 6_000])
def test_a_frame_is_used_again_when_its_handler_says_so(is_free: bool, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    buffers = FrameBuffers(1_000_000, 1)
    monkeypatch.setattr(framing.FrameReader.__init__, "__defaults__", (buffers, None))
    monkeypatch.setattr(request_handler, "FRAME_BUFFERS", buffers)
    layer = Layer()
    channel, _ = layer.connect()
    data = frame(1) + bytes(size)
    channel.dataReceived(struct.pack(">i", len(data) - 4) + data[4:3_000])
    channel.dataReceived(data[3_000:])
    kept_meanwhile = []

    def handle(request: Request) -> None:
        request.context.is_frame_free = is_free
        kept_meanwhile.append(buffers.kept_bytes)

    KafkaRequestHandler(layer.channel, handle, "handler").step(layer.parker)
    assert kept_meanwhile == [0]
    assert buffers.kept_bytes == (buffers.size_for(len(data) - 4) if is_free else 0)


def test_callback_that_fails_closes_its_connection() -> None:
    layer = Layer()
    channel, transport = layer.connect()
    channel.dataReceived(frame(1))
    request = layer.take()
    assert request is not None
    layer.channel.send_callback(lambda: 1 / 0, request)
    assert KafkaRequestHandler(layer.channel, lambda _: None, "handler").step(layer.parker, 0)
    layer.reactor.run_asked()
    assert transport.is_closed


def test_fatal_error_in_a_callback_ends_the_handler_and_not_the_thread_in_its_place() -> None:
    layer = Layer()
    told: list[str] = []

    def fail() -> None:
        raise FatalExitError("the log cannot be trusted")

    layer.connect()[0].dataReceived(frame(1))
    request = layer.take()
    assert request is not None
    layer.channel.send_callback(fail, request)
    handler = KafkaRequestHandler(layer.channel, lambda _: None, "handler", told.append)
    assert handler.step(layer.parker, 0)
    assert told == ["Fatal error in handler: FatalExitError: the log cannot be trusted"]
    assert handler.has_ended


def test_what_is_no_requests_failure_ends_the_handler_with_one_message() -> None:
    layer = Layer()
    told: list[str] = []

    def fail(request: Request) -> None:
        raise FatalExitError("the log cannot be trusted")

    handler = KafkaRequestHandler(layer.channel, fail, "data-plane-kafka-request-handler-0", told.append)
    layer.connect()[0].dataReceived(frame(1))
    thread = threading.Thread(target=handler.run, args=(layer.parker,))
    thread.start()
    thread.join(30)
    assert told == ["Fatal error in data-plane-kafka-request-handler-0: FatalExitError: the log cannot be trusted"]
    assert handler.has_ended
    assert layer.channel._parkers == []


def names_of_handlers() -> list[str]:
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("resized-"))


@pytest.mark.medium
def test_pool_is_resized_under_load_and_loses_no_request() -> None:
    layer = Layer()
    clock = SystemClock()
    channel = RequestChannel(100_000, clock)
    layer.processor._request_channel = channel
    handled: list[int] = []
    METRIC_PREFIXES["resized"] = "Resized"
    registry = MetricsRegistry(clock)
    plane = RequestPlane("resized", channel, clock, registry)
    pool = KafkaRequestHandlerPool(plane, lambda request: handled.append(request.context.correlation_id), 2, clock, registry)
    pool.start()
    rng = random.Random(5)
    sent = 0
    for _ in range(40):
        size = rng.randrange(1, 9)
        for _ in range(50):
            layer.connect()[0].dataReceived(frame(sent))
            sent += 1
        pool.resize(size)
        assert pool.size == size
    pool.resize(3)
    eventually(lambda: len(handled) == sent and len(names_of_handlers()) == 3, lambda: (len(handled), names_of_handlers()))
    assert sorted(handled) == list(range(sent))
    assert len(names_of_handlers()) == 3
    assert len(set(names_of_handlers())) == 3
    with pytest.raises(ValueError, match="number of request handlers: 0"):
        pool.resize(0)
    pool.shutdown()
    pool.resize(5)
    assert names_of_handlers() == []
    del METRIC_PREFIXES["resized"]


def test_a_handler_for_which_there_is_no_thread_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = Layer()
    clock = SystemClock()
    channel = RequestChannel(500, clock)
    layer.processor._request_channel = channel
    handled = threading.Event()
    registry = MetricsRegistry(clock)
    plane = RequestPlane(DATA_PLANE, channel, clock, registry)
    pool = KafkaRequestHandlerPool(plane, lambda request: handled.set(), 1, clock, registry)
    pool.start()

    def fail(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as exhausted:
        exhausted.setattr(threading.Thread, "start", fail)
        with pytest.raises(RuntimeError, match="new thread"):
            pool.resize(2)
    assert pool.size == 1
    eventually(lambda: not channel.is_busy)
    layer.connect()[0].dataReceived(frame(1))
    assert handled.wait(30)
    pool.resize(2)
    assert pool.size == 2
    pool.shutdown()


def test_a_start_that_lacks_threads_leaves_nothing_to_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SystemClock()
    registry = MetricsRegistry(clock)
    plane = RequestPlane(DATA_PLANE, RequestChannel(500, clock), clock, registry)
    pool = KafkaRequestHandlerPool(plane, lambda request: None, 4, clock, registry)
    start, left = threading.Thread.start, [None]

    def fail(self: threading.Thread) -> None:
        if not left:
            raise RuntimeError("can't start new thread")
        left.pop()
        start(self)

    with monkeypatch.context() as exhausted:
        exhausted.setattr(threading.Thread, "start", fail)
        with pytest.raises(RuntimeError, match="new thread"):
            pool.start()
    assert pool.size == 1
    with capturedLogs() as events:
        pool.shutdown(patient(1))
    assert events == []


def test_idle_time_counts_that_of_handlers_that_have_ended() -> None:
    layer = Layer()
    layer.channel.add_handler().parked_ns = 5
    layer.parker.parked_ns = 7
    layer.channel.remove_handler(layer.parker)
    assert layer.channel.idle_ns() == 12


class Bundles:
    """Sorts by the bodies' first bytes; what it does with a bundle is the test's."""

    def __init__(self, layer: Layer, act: Callable[[RequestBundle], None]) -> None:
        self.bundled = {18}
        layer.channel.bundled = self.bundled
        self.act = act

    def handle(self, request: Request) -> None:
        raise AssertionError("the handler has a function for a request alone")

    def handle_bundle(self, bundle: RequestBundle) -> None:
        self.act(bundle)

    def sort(self, requests: Sequence[Request]) -> list[RequestBundle]:
        bundles: dict[int, RequestBundle] = {}
        for request in requests:
            key = request.frame[request.body_offset]
            bundles.setdefault(key, RequestBundle([], key or None, [])).requests.append(request)
        return list(bundles.values())


def send_each(layer: Layer, *keys: int) -> list[FakeTransport]:
    transports = []
    for key in keys:
        channel, transport = layer.connect()
        transports.append(transport)
        channel.dataReceived(frame(1, bytes([key])))
    return transports


def answer_all(layer: Layer, bundle: RequestBundle) -> None:
    for request in bundle.requests:
        layer.channel.send_response(request, [b"ok"], 2)


def test_what_has_nothing_in_common_is_handled_later_and_alone() -> None:
    layer = Layer()
    together: list[int] = []
    alone: list[Request] = []

    def act(bundle: RequestBundle) -> None:
        together.append(len(bundle.requests))
        answer_all(layer, bundle)

    handler = KafkaRequestHandler(layer.channel, alone.append, "handler", bundles=Bundles(layer, act))
    send_each(layer, 1, 2, 1, 0, 2, 1)
    assert handler.step(layer.parker, 0) == 3
    assert (layer.channel.size, together) == (2, [3])
    assert handler.step(layer.parker, 0) == 2
    assert handler.step(layer.parker, 0) == 1
    assert handler.step(layer.parker, 0) == 0
    assert (together, len(alone)) == ([3, 2], 1)


def test_if_handling_some_together_fails_those_that_are_not_answered_are_closed() -> None:
    layer = Layer()

    def answer_one_and_fail(bundle: RequestBundle) -> None:
        layer.channel.send_response(bundle.requests[0], [b"ok"], 2)
        raise RuntimeError("broken")

    handler = KafkaRequestHandler(layer.channel, lambda _: None, "handler", bundles=Bundles(layer, answer_one_and_fail))
    first, other, second = send_each(layer, 1, 2, 1)
    handler.step(layer.parker, 0)
    layer.reactor.run_asked()
    assert [each.is_closed for each in (first, second, other)] == [False, True, False]
    assert first.written == b"ok"
    assert layer.channel.size == 1, "the other one was put back before"


def test_if_sorting_fails_all_are_closed() -> None:
    layer = Layer()
    bundles = Bundles(layer, lambda _: None)
    handler = KafkaRequestHandler(layer.channel, lambda _: None, "handler", bundles=bundles)
    transports = send_each(layer, 1, 1)
    with patch.object(Bundles, "sort", side_effect=RuntimeError("broken")):
        handler.step(layer.parker, 0)
    layer.reactor.run_asked()
    assert [each.is_closed for each in transports] == [True, True]


def test_a_fatal_error_in_a_bundle_ends_the_handler() -> None:
    layer = Layer()
    told: list[str] = []

    def fail(bundle: RequestBundle) -> None:
        raise FatalExitError(1)

    handler = KafkaRequestHandler(layer.channel, lambda _: None, "handler", told.append, Bundles(layer, fail))
    send_each(layer, 1, 1)
    handler.step(layer.parker, 0)
    assert handler.has_ended
    assert len(told) == 1


def test_bundled_requests_give_back_their_memory_when_they_were_handled() -> None:
    pool = MemoryPool(1000, ManualClock())
    layer = Layer(pool=pool)
    left: list[int] = []

    def act(bundle: RequestBundle) -> None:
        left.append(pool.available_bytes)
        answer_all(layer, bundle)

    handler = KafkaRequestHandler(layer.channel, lambda _: None, "handler", bundles=Bundles(layer, act))
    send_each(layer, 1, 2, 1, 2, 2)
    size = (1000 - pool.available_bytes) // 5
    while handler.step(layer.parker, 0):
        pass
    assert left == [1000 - 5 * size, 1000 - 3 * size]
    assert pool.available_bytes == 1000
    assert not layer.observer.completed or all(not each.frame for each in layer.observer.completed)


@pytest.mark.medium
@pytest.mark.parametrize("is_started_before", [True, False])
def test_pool_handles_all_parts_of_bundles_before_it_ends(is_started_before: bool) -> None:
    layer = Layer()
    clock = SystemClock()
    memory = MemoryPool(1_000_000, clock)
    channel = layer.channel = RequestChannel(500, clock)
    layer.processor._request_channel = channel
    layer.processor.memory_pool = memory
    handled: list[Request] = []

    def handle(request: Request) -> None:
        handled.append(request)
        layer.channel.send_response(request, [b"ok"], 2)

    def act(bundle: RequestBundle) -> None:
        for request in bundle.requests:
            handle(request)

    registry = MetricsRegistry(clock)
    plane = RequestPlane(DATA_PLANE, channel, clock, registry)
    pool = KafkaRequestHandlerPool(plane, handle, 3, clock, registry, bundles=Bundles(layer, act))
    if is_started_before:
        pool.start()
    transports = send_each(layer, *[1 + number * 7 % 11 for number in range(200)])
    if not is_started_before:
        pool.start()
    pool.shutdown()
    layer.reactor.run_asked()
    assert all(each.written == b"ok" for each in transports)
    assert len(set(map(id, handled))) == len(handled) == len(layer.observer.completed) == 200
    assert (channel.size, memory.available_bytes) == (0, 1_000_000)
