"""Subscriptions to clients' metrics, and what clients push, with the clock held."""

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from typing_extensions import override

from tests.support.traced_memory import traced_peak_bytes
from twisted_kafka.metrics.prometheus import render
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.compiler.types import NO_UUID
from twisted_kafka.protocol.errors import (
    CorruptRecordError,
    InvalidRecordError,
    InvalidRequestError,
    TelemetryTooLargeError,
    ThrottlingQuotaExceededError,
    UnknownSubscriptionIdError,
    UnsupportedCompressionTypeError,
)
from twisted_kafka.protocol.records.compression import Compression, compress
from twisted_kafka.telemetry.client_metrics_manager import DEFAULT_INTERVAL_MS, ClientMetricsManager, Subscription
from twisted_kafka.telemetry.exposed_metrics import DROPPED, TYPE, ExposedMetrics
from twisted_kafka.telemetry.otlp import MAX_LABELS, Sample
from twisted_kafka.timing.clock import ManualClock

CLIENT = {
    "client_id": "shop",
    "client_software_name": "apache-kafka-java",
    "client_software_version": "3.9.0",
    "client_source_address": "10.0.0.1",
    "client_source_port": "50000",
}
NAME = "org.apache.kafka.producer.record.send"
SERIES = "kafka_client_telemetry_org_apache_kafka_producer_record_send"


class Exposed(ExposedMetrics):
    """Calls ``before`` first: what another thread does while a push is read."""

    before: Callable[[], object] = staticmethod(lambda: None)

    @override
    def take(self, client: bytes, labels: Mapping[str, str], samples: Iterable[Sample]) -> None:
        self.before()
        super().take(client, labels, samples)


class Telemetry:
    def __init__(self, max_series: int = 100, max_instances: int = 10) -> None:
        self.clock = ManualClock()
        self.registry = MetricsRegistry(self.clock)
        self.exposed = exposed = Exposed(self.registry, max_series)
        self.manager = ClientMetricsManager(self.clock, exposed, max_bytes=10_000, max_instances=max_instances)
        self.manager.update("all", {"interval.ms": "1000", "metrics": "*"})

    def ask(self, instance_id: bytes = NO_UUID, **client: Any) -> tuple[bytes, Subscription]:
        return self.manager.subscribe(instance_id, {**CLIENT, **client})

    def push(
        self, instance_id: bytes, subscription_id: int, data: bytes, codec: Compression | int = 0, *, is_last: bool = False
    ) -> None:
        self.manager.push(instance_id, subscription_id, codec, data, CLIENT, is_last=is_last)

    def shown(self) -> set[str]:
        return {line for line in render(self.registry).decode().splitlines() if "client_instance_id" in line}


@pytest.fixture
def telemetry() -> Telemetry:
    return Telemetry()


def sums(value: float, *, is_delta: bool = True, name: str = NAME) -> bytes:
    data = MetricsData()
    metric = data.resource_metrics.add().scope_metrics.add().metrics.add()
    metric.name = name
    metric.sum.aggregation_temporality = 1 if is_delta else 2
    point = metric.sum.data_points.add()
    point.as_double = value
    attribute = point.attributes.add()
    attribute.key = "topic"
    attribute.value.string_value = "orders"
    return data.SerializeToString()


def test_a_client_is_told_what_all_subscriptions_that_fit_it_want(telemetry: Telemetry) -> None:
    telemetry.manager.update("all", {})
    telemetry.manager.update("a", {"interval.ms": "5000", "metrics": "producer.,consumer.", "match": "client_id=shop.*"})
    telemetry.manager.update("b", {"interval.ms": "2000", "metrics": "producer.", "match": "client_source_address=10[.].*"})
    telemetry.manager.update("c", {"interval.ms": "100", "metrics": "other.", "match": "client_id=shop,client_source_port=1"})
    instance_id, subscription = telemetry.ask()
    assert instance_id != NO_UUID
    assert (subscription.interval_ms, subscription.metrics) == (2000, ("consumer.", "producer."))
    assert telemetry.ask(client_id="else", client_source_address="::1")[1][1:] == (DEFAULT_INTERVAL_MS, ())


def test_one_subscription_for_everything_is_all_there_is_to_want(telemetry: Telemetry) -> None:
    telemetry.manager.update("a", {"metrics": "producer."})
    assert telemetry.ask()[1].metrics == ("*",)


def test_what_is_pushed_is_among_the_brokers_metrics_and_differences_are_added_up(telemetry: Telemetry) -> None:
    instance_id, subscription = telemetry.ask()
    telemetry.push(instance_id, subscription.subscription_id, sums(2.0))
    telemetry.clock.advance_ms(1000)
    packed = compress(Compression.ZSTD, sums(3.5))
    telemetry.push(instance_id, subscription.subscription_id, packed, Compression.ZSTD)
    (line,) = telemetry.shown()
    assert line.startswith(SERIES)
    assert line.endswith(" 5.5")
    for label in ('topic="orders"', 'client_id="shop"', 'client_software_name="apache-kafka-java"'):
        assert label in line
    telemetry.clock.advance_ms(1000)
    telemetry.push(instance_id, subscription.subscription_id, sums(7.0, is_delta=False))
    assert next(iter(telemetry.shown())).endswith(" 7.0")


def test_a_client_that_is_forgotten_while_its_push_is_read_leaves_nothing() -> None:
    telemetry = Telemetry(max_series=1, max_instances=1)
    instance_id, subscription = telemetry.ask()
    telemetry.exposed.before = telemetry.ask
    telemetry.push(instance_id, subscription.subscription_id, sums(1.0))
    assert telemetry.shown() == set()
    telemetry.exposed.before = lambda: None
    other_id, other = telemetry.ask()
    telemetry.push(other_id, other.subscription_id, sums(2.0))
    assert len(telemetry.shown()) == 1, "there is room for it"


def test_gauges_and_distributions(telemetry: Telemetry) -> None:
    data = MetricsData()
    metrics = data.resource_metrics.add().scope_metrics.add().metrics
    gauge = metrics.add()
    gauge.name = "g"
    gauge.gauge.data_points.add().as_int = 4
    histogram = metrics.add()
    histogram.name = "h"
    point = histogram.histogram.data_points.add()
    point.count, point.sum = 3, 1.5
    metrics.add().name = "empty"
    instance_id, subscription = telemetry.ask()
    telemetry.push(instance_id, subscription.subscription_id, data.SerializeToString())
    assert {line.partition("{")[0].rpartition("telemetry_")[2]: line.rpartition(" ")[2] for line in telemetry.shown()} == {
        "g": "4.0",
        "h_observations": "3.0",
        "h_sum": "1.5",
    }


def test_a_client_waits_for_its_interval(telemetry: Telemetry) -> None:
    instance_id, subscription = telemetry.ask()
    with pytest.raises(ThrottlingQuotaExceededError):
        telemetry.ask(instance_id)
    telemetry.push(instance_id, subscription.subscription_id, b"")
    with pytest.raises(ThrottlingQuotaExceededError):
        telemetry.push(instance_id, subscription.subscription_id, b"")
    telemetry.clock.advance_ms(1000)
    assert telemetry.ask(instance_id) == (instance_id, subscription)
    telemetry.push(instance_id, subscription.subscription_id, b"")


def test_a_changed_subscription_has_another_id_and_may_be_asked_for_at_once(telemetry: Telemetry) -> None:
    instance_id, old = telemetry.ask()
    telemetry.manager.update("all", {"interval.ms": "2000", "metrics": "producer."})
    with pytest.raises(UnknownSubscriptionIdError):
        telemetry.push(instance_id, old.subscription_id, sums(1.0))
    _, new = telemetry.ask(instance_id)
    assert new.subscription_id != old.subscription_id
    telemetry.clock.advance_ms(2000)
    telemetry.push(instance_id, new.subscription_id, sums(1.0))
    assert len(telemetry.shown()) == 1


def test_a_client_that_goes_pushes_once_more_and_then_never_again(telemetry: Telemetry) -> None:
    instance_id, subscription = telemetry.ask()
    telemetry.push(instance_id, subscription.subscription_id, b"")
    telemetry.push(instance_id, subscription.subscription_id, sums(1.0), is_last=True)
    telemetry.clock.advance_ms(1000)
    with pytest.raises(InvalidRequestError):
        telemetry.push(instance_id, subscription.subscription_id, b"")


@pytest.mark.parametrize(
    ("data", "codec", "error"),
    [
        (b"x" * 10_001, 0, TelemetryTooLargeError),
        (b"x", 9, UnsupportedCompressionTypeError),
        (b"\xff\xff\xff", 0, InvalidRecordError),
        (b"not zstd", Compression.ZSTD, (InvalidRecordError, CorruptRecordError)),
    ],
)
def test_bad_pushes_have_their_errors(
    telemetry: Telemetry,
    data: bytes,
    codec: Compression | int,
    error: type[UnsupportedCompressionTypeError]
    | tuple[type[InvalidRecordError], type[CorruptRecordError]]
    | type[InvalidRecordError]
    | type[TelemetryTooLargeError],
) -> None:
    instance_id, subscription = telemetry.ask()
    with pytest.raises(error):
        telemetry.push(instance_id, subscription.subscription_id, data, codec)
    assert telemetry.shown() == set()


def test_nobody_pushes_without_an_id(telemetry: Telemetry) -> None:
    with pytest.raises(InvalidRequestError):
        telemetry.push(NO_UUID, 1, b"")


def test_a_client_that_is_silent_for_long_is_forgotten_with_its_metrics(telemetry: Telemetry) -> None:
    instance_id, subscription = telemetry.ask()
    telemetry.push(instance_id, subscription.subscription_id, sums(1.0))
    telemetry.clock.advance_ms(2999)
    telemetry.ask()
    assert len(telemetry.shown()) == 1
    telemetry.clock.advance_ms(1)
    telemetry.ask()
    assert telemetry.shown() == set()


def test_the_number_of_clients_and_series_is_bounded() -> None:
    telemetry = Telemetry(max_series=2, max_instances=2)
    for _ in range(3):
        instance_id, subscription = telemetry.ask()
        telemetry.push(instance_id, subscription.subscription_id, sums(1.0))
    assert len(telemetry.shown()) == 2
    instance_id, subscription = telemetry.ask()
    telemetry.push(instance_id, subscription.subscription_id, sums(1.0) + sums(1.0, name="second"))
    assert len(telemetry.shown()) == 2
    assert telemetry.registry.value("kafka.client:telemetry", "DroppedSamples") == 1


def test_a_subscription_that_cannot_be_read_changes_nothing(telemetry: Telemetry) -> None:
    telemetry.manager.update("all", {"interval.ms": "soon"})
    assert telemetry.ask()[1].interval_ms == 1000


def test_without_the_package_that_reads_metrics_no_client_is_asked_for_any(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("opentelemetry")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    telemetry = Telemetry()
    instance_id, subscription = telemetry.ask()
    assert subscription.metrics == ()
    with pytest.raises(InvalidRecordError, match="without its extra client-metrics"):
        telemetry.push(instance_id, subscription.subscription_id, sums(1.0))


def test_what_was_not_asked_for_is_refused(telemetry: Telemetry) -> None:
    strange = bytes(range(16))
    other = Telemetry()
    known, subscription = other.ask(strange)
    assert known == strange
    with pytest.raises(UnknownSubscriptionIdError):  # as of a client of the broker's last run, which asks again
        telemetry.push(strange, subscription.subscription_id, sums(1.0))
    assert telemetry.shown() == set()
    telemetry.ask(strange)
    telemetry.clock.advance_ms(1000)
    telemetry.push(strange, subscription.subscription_id, sums(1.0))
    assert len(telemetry.shown()) == 1


def test_without_a_subscription_nothing_is_taken(telemetry: Telemetry) -> None:
    telemetry.manager.update("all", {})
    instance_id, subscription = telemetry.ask()
    assert subscription.metrics == ()
    with pytest.raises(UnknownSubscriptionIdError):
        telemetry.push(instance_id, subscription.subscription_id, sums(1.0))
    assert telemetry.shown() == set()


@pytest.mark.medium
def test_texts_of_series_are_bounded() -> None:
    registry = MetricsRegistry(ManualClock())
    exposed = ExposedMetrics(registry)
    many = tuple((f"label{number}", "x") for number in range(MAX_LABELS + 1))
    exposed.take(b"1", {}, [Sample("m", many, 1.0, is_delta=False)])
    assert registry.value(TYPE, DROPPED) == 1
    long = [Sample(f"m{number}", (("a" * 10_000, "b" * 10_000),), 1.0, is_delta=False) for number in range(10_000)]
    exposed.take(b"1", {}, long)
    kept = len(registry.items()) - 1
    assert 16 << 20 >= kept * (1024 + 4 * 2 * 255) > 15 << 20
    exposed.forget(b"1", {})
    exposed.take(b"2", {}, long[:100])
    assert len(registry.items()) == 101


@pytest.mark.medium
def test_what_is_kept_of_clients_is_bounded() -> None:
    telemetry = Telemetry(max_instances=1000)

    def ask() -> None:
        for number in range(1000):
            telemetry.ask(client_id=f"{number}" * 10_000)

    assert traced_peak_bytes(ask) < 5 << 20


def test_no_client_can_say_that_it_is_another() -> None:
    registry = MetricsRegistry(ManualClock())
    forged = (("client.id", "other"), ("client_id", "other"), ("CLIENT_ID", "other"))
    ExposedMetrics(registry).take(b"1", {"client_id": "me"}, [Sample("m", forged, 1.0, is_delta=False)])
    (line,) = [line for line in render(registry).decode().splitlines() if line.startswith("kafka_client_telemetry_m{")]
    assert line.startswith('kafka_client_telemetry_m{client_id="me",client_id_="other",client_id__="other"}')
