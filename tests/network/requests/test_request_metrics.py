import threading

from tests.support.network_fakes import Layer, frame
from twisted_kafka.metrics.idle_ratio import IdleRatio
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.requests.request import Request
from twisted_kafka.network.requests.request_metric_names import RequestMetricNames
from twisted_kafka.network.requests.request_metrics import MAX_DEPRECATED, MAX_VERSION, TIMES, RequestMetrics
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
    metrics = RequestMetrics(registry, RequestMetricNames(lambda key: "Fetch", lambda code: f"E{code}"))
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
    size = registry.histogram_snapshot("RequestMetrics", "RequestBytes", request="Fetch")
    assert size is not None
    assert (size.min, size.max) == (requests[0].request_bytes, requests[1].request_bytes)
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


def test_versions_that_clients_invent_count_as_one() -> None:
    layer = Layer()
    registry = MetricsRegistry(layer.clock)
    metrics = RequestMetrics(registry, RequestMetricNames(lambda _: "Api", str, last_deprecated=lambda _: 3))
    for version in (0, MAX_VERSION, MAX_VERSION + 1, 32767, -1, -32768):
        request = make_request(layer)
        request.context.api_version = version
        metrics.request_completed(request)
    assert metrics.count(1) == 6
    counts = {dict(name.tags)["version"] for name, _ in registry.items() if name.name == "RequestsPerSec"}
    assert counts == {"0", str(MAX_VERSION), "other"}
    assert registry.value("RequestMetrics", "RequestsPerSec", request="Api", version="other") == 4
    assert [dict(name.tags)["version"] for name, _ in registry.items() if name.name == "DeprecatedRequestsPerSec"] == ["0"]


def test_mixed_requests_count_under_their_names_and_software_is_bounded() -> None:
    layer = Layer()
    registry = MetricsRegistry(layer.clock)
    names = RequestMetricNames(
        lambda _: "", str, {1: ((None, "Fetch"), (True, "FetchFollower"), (False, "FetchConsumer"))}, last_deprecated=lambda _: 3
    )
    metrics = RequestMetrics(registry, names)
    for number in range(700):
        request = make_request(layer)
        request.context.is_special = number % 3 == 0
        request.context.connection.software_name = f"software-{number % 150}"
        metrics.request_completed(request)
    for name, count in (("Fetch", 700), ("FetchFollower", 234), ("FetchConsumer", 466)):
        assert registry.value("RequestMetrics", "RequestsPerSec", request=name, version=3) == count
        assert registry.value("RequestMetrics", "LocalTimeMs", request=name) == count
    assert metrics.count(1) == 700
    software = [dict(name.tags)["clientSoftwareName"] for name, _ in registry.items() if name.name == "DeprecatedRequestsPerSec"]
    assert len(software) == (MAX_DEPRECATED + 1) + MAX_DEPRECATED + 50  # every third is a follower's, of 50 kinds of software
    other = {"clientSoftwareName": "other", "clientSoftwareVersion": "other"}
    seen = registry.value("RequestMetrics", "DeprecatedRequestsPerSec", request="Fetch", version=3, **other)
    assert seen == 700 - sum(number % 150 < MAX_DEPRECATED for number in range(700))
    for name, number, count in (("FetchFollower", 3, 5), ("FetchConsumer", 4, 5), ("FetchFollower", 4, None)):
        tags = {"clientSoftwareName": f"software-{number}", "clientSoftwareVersion": "unknown"}
        assert registry.value("RequestMetrics", "DeprecatedRequestsPerSec", request=name, version=3, **tags) == count


def test_errors_count_under_the_name_of_all_requests_or_of_those_that_are_not_special() -> None:
    layer = Layer()
    registry = MetricsRegistry(layer.clock)
    metrics = RequestMetrics(registry, RequestMetricNames(lambda _: "", str, {1: ((True, "Verification"), (False, "Add"))}))
    metrics.request_completed(make_request(layer, 6))
    assert registry.value("RequestMetrics", "ErrorsPerSec", request="Add", error="6") == 1
    assert registry.value("RequestMetrics", "ErrorsPerSec", request="Verification", error="6") is None


def test_every_error_of_a_response_counts_under_the_name_of_its_api() -> None:
    layer = Layer()
    registry = MetricsRegistry(layer.clock)
    names = RequestMetricNames(
        lambda _: "", lambda code: f"E{code}", {1: ((None, "Fetch"), (True, "FetchFollower"), (False, "FetchConsumer"))}
    )
    metrics = RequestMetrics(registry, names)

    def complete(counts: dict[int, int] | None, error: int = 0, is_special: bool = False) -> None:
        request = make_request(layer, error)
        request.context.error_counts = counts
        request.context.is_special = is_special
        metrics.request_completed(request)

    complete(None)
    complete({6: 3, 0: 1}, error=6)
    complete({0: 2}, is_special=True)
    complete({})  # nothing was answered
    for _ in range(1000):
        complete({0: 5})
    complete(None, error=3)
    seen = {
        tuple(value for _, value in name.tags): registry.value("RequestMetrics", "ErrorsPerSec", **dict(name.tags))
        for name, _ in registry.items()
        if name.name == "ErrorsPerSec"
    }
    assert seen == {("Fetch", "E0"): 5_004, ("Fetch", "E6"): 3, ("Fetch", "E3"): 1}
    assert metrics.count(1) == 1005


def test_conversions_are_measured_for_the_apis_that_convert() -> None:
    layer = Layer()
    registry = MetricsRegistry(layer.clock)
    metrics = RequestMetrics(registry, RequestMetricNames(lambda key: f"Api{key}", str, converting=(1,)))
    metrics.register([1, 2])
    for number in range(1000):
        request = make_request(layer)
        if number % 10 == 0:
            request.context.note_conversion(1_000_000, 50)
            request.context.note_conversion(2_000_000, 150)  # of another partition
        metrics.request_completed(request)
    took = registry.histogram_snapshot("RequestMetrics", "MessageConversionsTimeMs", request="Api1")
    used = registry.histogram_snapshot("RequestMetrics", "TemporaryMemoryBytes", request="Api1")
    assert took is not None
    assert used is not None
    assert (took.count, round(took.sum, 6), round(took.max, 6), took.min) == (1000, 300, 3, 0)
    assert (used.count, used.sum, used.max, used.min) == (1000, 20_000, 200, 0)
    assert registry.histogram_snapshot("RequestMetrics", "TemporaryMemoryBytes", request="Api2") is None


def test_reading_an_instrument_changes_nothing_and_the_registry_flushes_before_it_reads() -> None:
    layer = Layer()
    registry = MetricsRegistry(layer.clock)
    metrics = RequestMetrics(registry, RequestMetricNames(lambda key: "Fetch", lambda code: f"E{code}"))
    request = make_request(layer)
    metrics.request_completed(request)
    meter = registry.meter("RequestMetrics", "RequestsPerSec", request="Fetch", version=3)
    metrics.request_completed(request)
    assert [meter.count, meter.count] == [1, 1]
    assert registry.value("RequestMetrics", "RequestsPerSec", request="Fetch", version=3) == 2
    metrics.request_completed(request)
    metrics.flush()
    assert meter.count == 3
