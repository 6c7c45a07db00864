import pytest
from prometheus_client.parser import text_string_to_metric_families

from twisted_kafka.metrics.prometheus import render
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.timing.clock import ManualClock


def test_get_or_create_by_name_and_tags() -> None:
    registry = MetricsRegistry(ManualClock())
    meter = registry.meter("RequestMetrics", "RequestsPerSec", request="Fetch", version=3)
    assert registry.meter("RequestMetrics", "RequestsPerSec", request="Fetch", version=3) is meter
    assert registry.meter("RequestMetrics", "RequestsPerSec", request="Fetch", version=4) is not meter
    meter.mark(2)
    assert registry.value("RequestMetrics", "RequestsPerSec", request="Fetch", version=3) == 2
    assert registry.value("RequestMetrics", "Unknown") is None
    assert str(registry.items()[0][0]) == "kafka.network:type=RequestMetrics,name=RequestsPerSec,request=Fetch,version=3"
    with pytest.raises(TypeError):
        registry.counter("RequestMetrics", "RequestsPerSec", request="Fetch", version=3)
    registry.remove("RequestMetrics", "RequestsPerSec", request="Fetch", version=3)
    assert registry.value("RequestMetrics", "RequestsPerSec", request="Fetch", version=3) is None


def test_gauges_and_groups() -> None:
    registry = MetricsRegistry(ManualClock())
    size = [4]
    registry.gauge("RequestChannel", "RequestQueueSize", lambda: size[0])
    registry.gauge("kafka.server:app-info", "version", lambda: "3.9")
    assert registry.value("RequestChannel", "RequestQueueSize") == 4
    assert registry.value("kafka.server:app-info", "version") == "3.9"


def test_prometheus_text_is_readable_by_prometheus() -> None:
    clock = ManualClock()
    registry = MetricsRegistry(clock)
    registry.meter("BrokerTopicMetrics", "BytesInPerSec", topic='od"d\\\n').mark(12)
    registry.meter("BrokerTopicMetrics", "BytesInPerSec").mark(13)
    histogram = registry.histogram("RequestMetrics", "TotalTimeMs", request="Fetch")
    histogram.update(1.5)
    histogram.update(2.5)
    registry.gauge("ReplicaManager", "LeaderCount", lambda: 3)
    registry.gauge("ReplicaManager", "Text", lambda: "not a number")
    registry.gauge("ReplicaManager", "Broken", lambda: 1 / 0)
    idle = registry.meter("KafkaRequestHandlerPool", "RequestHandlerAvgIdlePercent")
    idle.mark(5_000_000_000)
    clock.advance_ms(10_000)
    registry.tick()
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(render(registry))
        for sample in family.samples
    }
    assert samples["kafka_server_brokertopicmetrics_bytesin_total", (("topic", 'od"d\\\n'),)] == 12
    assert samples["kafka_server_brokertopicmetrics_bytesin_total", ()] == 13
    assert samples["kafka_network_requestmetrics_totaltimems_sum", (("request", "Fetch"),)] == 4
    assert samples["kafka_network_requestmetrics_totaltimems_count", (("request", "Fetch"),)] == 2
    assert samples["kafka_network_requestmetrics_totaltimems", (("quantile", "0.5"), ("request", "Fetch"))] == 2
    assert samples["kafka_server_replicamanager_leadercount", ()] == 3
    assert samples["kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent", ()] == 0.5
    assert not [name for name, _ in samples if "broken" in name or "text" in name]


def test_nothing_renders_as_nothing() -> None:
    assert render(MetricsRegistry(ManualClock())) == ""
