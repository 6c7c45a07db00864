import re
from collections import Counter

import pytest
from prometheus_client.parser import text_string_to_metric_families

from twisted_kafka.metrics.instruments import Counter as MetricCounter
from twisted_kafka.metrics.instruments import Meter
from twisted_kafka.metrics.prometheus import render, render_process
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


def test_a_reading_brings_instruments_up_to_date_once() -> None:
    registry = MetricsRegistry(ManualClock())
    counter, histogram = registry.counter("Type", "Count"), registry.histogram("Type", "Sizes")

    def flush() -> None:
        counter.inc()
        histogram.update(7)

    registry.flush_before_reading(flush)
    reading = registry.reading()
    assert [reading.value("Type", "Count"), reading.value("Type", "Count"), reading.value("Type", "Other")] == [1, 1, None]
    snapshot = reading.histogram_snapshot("Type", "Sizes")
    assert snapshot is not None
    assert (snapshot.count, snapshot.mean) == (1, 7)
    assert registry.value("Type", "Count") == 2


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
        for family in text_string_to_metric_families(render(registry).decode())
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
    assert render(MetricsRegistry(ManualClock())) == b""


NAMES = ("name", "type_", "function", "self", "instrument", "quantile", "le", "__name__", "client.id", "client_id")
HOSTILE = (*NAMES, "", "a.b", "a_b", "A_B", "1a", "_", "__", "x" * 900_000, "\u00e9", "\ud800", "a b", "\n")


@pytest.mark.medium
def test_whatever_clients_choose_can_be_parsed() -> None:
    registry = MetricsRegistry(ManualClock())
    texts = [*HOSTILE, "\r", "\x1b[2J", "\u2028", '"', "\\", "\x00"]
    for text in texts:
        for name in (text, "fixed"):
            registry.gauge("kafka.client:telemetry", name, lambda: 1, **dict.fromkeys(HOSTILE, text))
            registry.meter("T", f"{name}PerSec", **dict.fromkeys(HOSTILE, text)).mark()
            registry.histogram("T", name, **dict.fromkeys(HOSTILE, text)).update(1)
    page = render(registry).decode()
    page.encode()
    assert max(map(len, page.splitlines())) < 20_000
    series: set[object] = set()
    for line in page.splitlines():
        assert line.isprintable()
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in series
            series.add(key)
            assert len(sample.labels) >= len(HOSTILE)
            assert all(re.fullmatch("[a-zA-Z_][a-zA-Z0-9_]*", label) and not label.startswith("__") for label in sample.labels)
    assert sum("fixed" in str(each) for each in series) > len(texts)


def test_series_beyond_the_limit_are_one() -> None:
    registry = MetricsRegistry(ManualClock(), max_series=3)
    for number in range(10):
        registry.meter("BrokerTopicMetrics", "BytesInPerSec", topic=f"t{number}").mark()
        registry.meter("BrokerTopicMetrics", "BytesInPerSec", topic=f"t{number}").mark()
    shown = {name.tags: instrument.count for name, instrument in registry.items() if isinstance(instrument, Meter)}
    assert shown == {(("topic", "t0"),): 2, (("topic", "t1"),): 2, (("topic", "t2"),): 2, (("topic", "other"),): 14}


def test_a_series_that_goes_makes_room() -> None:
    registry = MetricsRegistry(ManualClock(), max_series=3)
    for number in range(10):
        registry.meter("T", "M", topic=f"t{number}").mark()
        registry.remove("T", "M", topic=f"t{number}")
        registry.remove("T", "M", topic=f"t{number}")
    assert registry.items() == []
    registry.gauge("T", "G", lambda: 1, topic="a")
    registry.gauge("T", "G", lambda: 2, topic="a")
    assert registry.value("T", "G", topic="a") == 2


def test_gauges_beyond_the_limit_are_counted() -> None:
    registry = MetricsRegistry(ManualClock(), max_series=3)
    for number in range(10):
        registry.gauge("T", "G", lambda: 1, client=f"c{number}")
        registry.gauge("T", "OfPartitions", lambda: 1, topic="t", partition=number)
    registry.collector("T", "Collected", lambda: (({"client": str(number)}, number) for number in range(10)))
    counts = Counter(name.name for name, _ in registry.items())
    assert counts == {"G": 3, "OfPartitions": 10, "Collected": 3, "LeftOutSeries": 1}
    assert registry.value("Metrics", "LeftOutSeries") == 7


def test_a_label_is_cut_and_still_distinguished() -> None:
    registry = MetricsRegistry(ManualClock())
    for end in "ab":
        registry.meter("T", "M", client="x" * 32_000 + end).mark()
    (one,), (other,) = (name.tags for name, _ in registry.items())
    assert one != other
    assert len(one[1]) < 300
    assert registry.value("T", "M", client="x" * 32_000 + "a") == 1


def test_a_name_that_a_client_calls_other_does_not_remove_the_series_of_all_others() -> None:
    registry = MetricsRegistry(ManualClock(), max_series=2)
    for topic in ("t0", "t1", "t2", "other", "t3"):
        registry.counter("BrokerTopicMetrics", "BytesIn", topic=topic).inc()
    for _ in range(5):
        registry.remove("BrokerTopicMetrics", "BytesIn", topic="other")
        registry.counter("BrokerTopicMetrics", "BytesIn", topic="other").inc()
    registry.counter("BrokerTopicMetrics", "BytesIn", topic="t4").inc()
    values = {name.tags[0][1]: instrument.count for name, instrument in registry.items() if isinstance(instrument, MetricCounter)}
    assert values == {"t0": 1, "t1": 1, "other": 9}


def test_kafkas_names_follow_prometheus_rules() -> None:
    registry = MetricsRegistry(ManualClock())
    for name in ("connection-count", "uncleanable-partitions-count", "expired-connections-killed-count", "request-total"):
        registry.gauge("socket-server-metrics", name, lambda: 3)
    registry.gauge("LogCleanerManager", "time-since-last-run-ms", lambda: 1500)
    registry.gauge("socket-server-metrics", "io-time-ns-total", lambda: 2_500_000_000)
    families = {family.name: family for family in text_string_to_metric_families(render(registry).decode())}
    prefix = "kafka_server_socket_server_metrics_"
    assert {name: family.type for name, family in families.items()} == {
        f"{prefix}num_connections": "gauge",
        f"{prefix}num_uncleanable_partitions": "gauge",
        f"{prefix}num_expired_connections_killed": "gauge",
        f"{prefix}request": "counter",
        f"{prefix}io_time_seconds": "counter",
        "kafka_log_logcleanermanager_time_since_last_run_seconds": "gauge",
    }
    values = {sample.name: sample.value for family in families.values() for sample in family.samples}
    assert values[f"{prefix}request_total"] == 3
    assert values[f"{prefix}io_time_seconds_total"] == 2.5
    assert values["kafka_log_logcleanermanager_time_since_last_run_seconds"] == 1.5
    assert families[f"{prefix}request"].documentation == "kafka.server:type=socket-server-metrics,name=request-total"


def test_a_histogram_shows_what_there_is() -> None:
    registry = MetricsRegistry(ManualClock())
    registry.histogram("RequestMetrics", "LocalTimeMs", request="Fetch")
    for value in (0, 1):
        registry.histogram("RequestMetrics", "RemoteTimeMs", request="Fetch" if value else "Produce").update(value)
    (family,) = text_string_to_metric_families(render(registry).decode())
    assert family.name == "kafka_network_requestmetrics_remotetimems"
    assert {sample.labels["request"] for sample in family.samples} == {"Fetch"}, "all values of Produce are 0"


def test_the_process_has_metrics() -> None:
    families = {family.name: family for family in text_string_to_metric_families(render_process().decode())}
    assert families["process_cpu_seconds"].samples[0].value > 0
    assert families["python_info"].samples[0].labels["version"]
    assert families["twisted_kafka_build_info"].samples[0].labels["version"]
