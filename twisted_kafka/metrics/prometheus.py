"""The registry in Prometheus' text format, made by ``prometheus_client``.

Names follow the usual JMX exporter rules for Kafka, so that existing dashboards work:
``kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec,topic=t`` is ``kafka_server_brokertopicmetrics_bytesin_total{topic="t"}``.
The help text of a family is the name of Kafka's MBean. Times are in milliseconds, as in Kafka. A histogram becomes a summary once
it has a value above 0.

Where Kafka's name breaks a rule of ``promtool check metrics``, the rule wins: what ends in ``-total`` is a counter,
``connection-count`` is ``num_connections``, and ``-ms`` and ``-ns`` become seconds.
"""

import re
from collections.abc import Iterator
from typing import Final

from prometheus_client import GC_COLLECTOR, PLATFORM_COLLECTOR, PROCESS_COLLECTOR, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample
from twisted.logger import Logger
from typing_extensions import override

from twisted_kafka.metrics.instruments import Counter, Gauge, Histogram, Instrument, Meter
from twisted_kafka.metrics.registry import MetricName, MetricsRegistry
from twisted_kafka.system.client_text import printable
from twisted_kafka.system.installation import installed_version

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
QUANTILES: Final = (0.5, 0.95, 0.99)
"""Fewer than Kafka's percentiles: nearly all of the page are quantiles."""

_log = Logger()
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_]+")
_NAME_CHARACTERS = 128
_RESERVED = frozenset(("quantile", "le"))
_SECONDS: Final = {"ms": 1e-3, "ns": 1e-9}
"""Units that are words of a name, and their part of a second."""
_DIGITS: Final = ".6g"

_Sample = tuple[str, dict[str, str], float]
"""A suffix of the family's name, labels and a value."""


class BrokerCollector(Collector):
    """Collects a broker's metrics. A gauge that fails or is not a number is omitted."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._registry = registry

    @override
    def collect(self) -> Iterator[Metric]:
        """Return the families, each with all of its samples."""
        families: dict[str, Metric] = {}
        series: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
        for name, instrument in self._registry.items():
            try:
                kind, family, samples = _family(name, instrument)
            except Exception:  # noqa: BLE001 one failing gauge must not hide the others
                _log.failure("Cannot read the metric {name}", name=str(name))
                continue
            if not samples:
                continue
            metric = families.get(family)
            if metric is None:
                bean = f"{name.group}:type={name.type},name={name.name}"
                metric = families[family] = Metric(family, printable(bean), kind)
            if metric.type != kind:  # two names of clients may become one
                continue
            for suffix, labels, value in samples:
                key = family + suffix, tuple(labels.items())
                if key not in series:  # no series may be there twice
                    series.add(key)
                    metric.samples.append(Sample(family + suffix, labels, value))
        return iter(families.values())


class _ProcessCollector(Collector):
    """Collects the metrics of the process: memory, processor time, descriptors, garbage collection and versions."""

    @override
    def collect(self) -> Iterator[Metric]:
        for collector in (PROCESS_COLLECTOR, PLATFORM_COLLECTOR, GC_COLLECTOR):
            yield from collector.collect()
        build = Metric("twisted_kafka_build", "The version of twisted_kafka", "info")
        build.add_sample("twisted_kafka_build_info", {"version": installed_version()}, 1)
        yield build


def render(registry: MetricsRegistry) -> bytes:
    """Render a broker's metrics."""
    return generate_latest(BrokerCollector(registry))


def render_process() -> bytes:
    """Render the metrics of the process."""
    return generate_latest(_ProcessCollector())


def _family(name: MetricName, instrument: Instrument) -> tuple[str, str, list[_Sample]]:
    """Return the family's kind, its name without the suffix of a counter, and the samples of this instrument."""
    labels = _labels(name) if name.tags else {}
    prefix = f"{_identifier(name.group)}_{_identifier(name.type)}"
    bare = _identifier(name.name)
    if isinstance(instrument, Meter) and name.name.endswith("Percent"):
        # A meter of nanoseconds (Kafka's AcceptorBlockedPercent): its rate is the ratio.
        return "gauge", f"{prefix}_{bare}", [("", labels, _rounded(instrument.one_minute_rate() / 1e9))]
    if isinstance(instrument, Counter):
        return "counter", f"{prefix}_{bare.removesuffix('persec')}", [("_total", labels, instrument.count)]
    if isinstance(instrument, Gauge):
        value = instrument.value
        if not isinstance(value, int | float):
            return "gauge", f"{prefix}_{bare}", []
        kind, bare, unit = _conventional(bare)
        suffix = "_total" if kind == "counter" else ""
        return kind, f"{prefix}_{bare}", [(suffix, labels, _rounded(value * unit) if unit != 1 else _rounded(value))]
    return "summary", f"{prefix}_{bare}", list(_summary(labels, instrument))


def _conventional(name: str) -> tuple[str, str, float]:
    """Return the kind of a gauge with this name, the name by Prometheus' conventions, and the unit to multiply its values with."""
    unit = 1.0
    words = name.split("_")
    for number, word in enumerate(words):
        if number and word in _SECONDS:
            unit, words[number] = _SECONDS[word], "seconds"
    if words[-1] == "total" and len(words) > 1:
        return "counter", "_".join(words[:-1]), unit
    if words[-1] == "count" and len(words) > 1:
        words = ["num", *words[:-1]]
        if not words[-1].endswith(("s", "ed")):
            words[-1] += "s"
    return "gauge", "_".join(words), unit


def _summary(labels: dict[str, str], histogram: Histogram) -> Iterator[_Sample]:
    snapshot = histogram.snapshot()
    if not snapshot.max:  # without values or with zeros only, such as throttle times: there are a thousand of these
        return
    for quantile in QUANTILES:
        yield "", {**labels, "quantile": str(quantile)}, _rounded(snapshot.percentile(quantile))
    yield "_sum", labels, _rounded(snapshot.sum)
    yield "_count", labels, snapshot.count


def _rounded(value: float) -> float:
    return value if isinstance(value, int) or value.is_integer() else float(format(value, _DIGITS))


def _labels(name: MetricName) -> dict[str, str]:
    """Return the labels. Their names are valid and different from each other, even if clients chose them."""
    labels: dict[str, str] = {}
    for key, value in name.tags:
        label = _identifier(key)[:_NAME_CHARACTERS].lstrip("_") or "label"
        if label[0].isdigit():
            label = f"_{label}"
        while label in labels or label in _RESERVED:
            label += "_"
        labels[label] = "\n".join(map(printable, value.split("\n")))
    return labels


def _identifier(text: str) -> str:
    return _NOT_IN_NAMES.sub("_", text).lower()
