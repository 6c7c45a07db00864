"""What a push of few bytes may ask of the broker."""

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData

from tests.support.traced_memory import traced_peak_bytes
from twisted_kafka.protocol.errors import InvalidRecordError
from twisted_kafka.telemetry.otlp import MAX_LABELS, MAX_POINTS, MAX_TEXT_LENGTH, read_metrics

pytestmark = pytest.mark.medium


@pytest.fixture
def data() -> MetricsData:
    return MetricsData()


@pytest.fixture
def metric(data: MetricsData) -> Metric:
    return data.resource_metrics.add().scope_metrics.add().metrics.add()


def test_a_long_name_is_held_once(data: MetricsData, metric: Metric) -> None:
    metric.name = "n" * 1_000_000
    for _ in range(100):
        metric.gauge.data_points.add()
    content = data.SerializeToString()
    read_metrics(b"")  # imports
    assert traced_peak_bytes(lambda: read_metrics(content)) < 5_000_000


@pytest.mark.parametrize("kind", ["gauge", "sum", "histogram", "exponential_histogram", "summary"])
def test_values_are_bounded(data: MetricsData, metric: Metric, kind: str) -> None:
    points = getattr(metric, kind).data_points
    for _ in range(MAX_POINTS):
        points.add()
    assert read_metrics(data.SerializeToString())
    points.add()
    with pytest.raises(InvalidRecordError, match="more than 20000 values"):
        read_metrics(data.SerializeToString())


def test_metrics_without_values_are_bounded(data: MetricsData, metric: Metric) -> None:
    metrics = data.resource_metrics[0].scope_metrics[0].metrics
    for _ in range(MAX_POINTS):
        metrics.add()
    with pytest.raises(InvalidRecordError, match="more than 20000 values"):
        read_metrics(data.SerializeToString())


def test_labels_are_bounded(data: MetricsData, metric: Metric) -> None:
    point = metric.gauge.data_points.add()
    for number in range(1000):
        attribute = point.attributes.add()
        attribute.key = f"{number:03}" + "k" * 1000
        attribute.value.string_value = "v" * 1000
    nested = point.attributes[0].value
    for _ in range(40):
        nested.array_value.values.add().string_value = "several"
        nested = nested.array_value.values.add()
    point.attributes[1].value.bytes_value = bytes(1000)
    (sample,) = read_metrics(data.SerializeToString())
    assert len(sample.labels) == MAX_LABELS + 1
    assert {len(text) for label in sample.labels[1:] for text in label} == {MAX_TEXT_LENGTH}
    assert sample.labels[0][1] == "(array_value)"
