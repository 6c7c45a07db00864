import threading

from tests.network.network_fakes import Layer, frame
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.idle import IdleRatio
from twisted_kafka.network.request import Request
from twisted_kafka.network.request_metrics import TIMES, RequestMetrics
from twisted_kafka.network.request_names import Names
from twisted_kafka.timing.clock import ManualClock


def make_request(layer: Layer, error: int = 0) -> Request:
    channel, _ = layer.connect()
    channel.dataReceived(frame(1, b"x" * 10, version=3, api_key=1))
    layer.clock.advance_ms(2)
    request = layer.take()
    assert request is not None
    request.context.note_error(error)
    layer.clock.advance_ms(3)
    layer.answer(request)
    return request


def test_counts_are_exact_among_threads() -> None:
    layer = Layer()
    registry = MetricsRegistry(layer.clock)
    metrics = RequestMetrics(registry, Names(lambda key: "Fetch", lambda code: f"E{code}"))
    requests = [make_request(layer), make_request(layer, 6)]

    def work() -> None:
        for _ in range(5000):
            for request in requests:
                metrics.request_completed(request)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert registry.value("RequestMetrics", "RequestsPerSec", request="Fetch", version=3) == 30_000
    assert registry.value("RequestMetrics", "ErrorsPerSec", request="Fetch", error="E0") == 15_000
    assert registry.value("RequestMetrics", "ErrorsPerSec", request="Fetch", error="E6") == 15_000
    assert metrics.count(1) == 30_000
    assert metrics.count(2) == 0
    for name in (*TIMES, "RequestBytes"):
        assert registry.value("RequestMetrics", name, request="Fetch") == 30_000
    total = registry.histogram_snapshot("RequestMetrics", "TotalTimeMs", request="Fetch")
    assert total is not None
    assert (round(total.mean, 6), round(total.max, 6)) == (5, 5)
    queue = registry.histogram_snapshot("RequestMetrics", "RequestQueueTimeMs", request="Fetch")
    assert queue is not None
    assert round(queue.sum, 3) == 60_000


def test_idle_ratio() -> None:
    clock = ManualClock()
    waited = [0]
    ratio = IdleRatio(clock, lambda: waited[0], lambda: 2)
    assert ratio() == 1.0
    clock.advance_ms(2000)
    waited[0] = 1_000_000_000
    assert ratio() == 0.25
    clock.advance_ms(100)
    assert ratio() == 0.25
