import threading

from tests.network.network_fakes import Layer, frame
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.request import Request
from twisted_kafka.network.request_channel import RequestChannel
from twisted_kafka.server.request_handler import KafkaRequestHandler, KafkaRequestHandlerPool
from twisted_kafka.timing.clock import SystemClock


def test_failure_of_the_handler_closes_that_connection_only() -> None:
    layer = Layer()

    def fail(request: Request) -> None:
        raise RuntimeError("broken")

    handler = KafkaRequestHandler(layer.channel, fail, layer.parker)
    bad, bad_transport = layer.connect()
    bad.dataReceived(frame(1))
    assert handler.step(0)
    layer.reactor.run_asked()
    assert bad_transport.is_closed
    assert not handler.step(0)
    assert len(layer.observer.completed) == 1


def test_failure_after_the_answer_changes_nothing() -> None:
    layer = Layer()

    def answer_and_fail(request: Request) -> None:
        layer.channel.send_response(request, [b"ok"], 2)
        raise RuntimeError("late")

    handler = KafkaRequestHandler(layer.channel, answer_and_fail, layer.parker)
    channel, transport = layer.connect()
    channel.dataReceived(frame(1))
    handler.step(0)
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
    pool = KafkaRequestHandlerPool(channel, handle, 3, clock, registry)
    pool.start()
    for number in range(100):
        layer.connect()[0].dataReceived(frame(number))
    pool.shutdown()
    assert sorted(handled) == list(range(100))
    assert not [t for t in threading.enumerate() if "request-handler" in t.name]
    assert registry.value("KafkaRequestHandlerPool", "RequestHandlerAvgIdlePercent") is not None
