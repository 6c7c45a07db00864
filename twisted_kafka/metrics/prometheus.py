"""The registry in Prometheus' text format (exposition format 0.0.4).

Names follow the usual JMX exporter rules for Kafka, so that existing dashboards work:
``kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec,topic=t`` is ``kafka_server_brokertopicmetrics_bytesin_total{topic="t"}``.
A histogram becomes a summary. Times are in milliseconds, as in Kafka.
"""

import re
from collections.abc import Iterator

from twisted.logger import Logger

from twisted_kafka.metrics.instruments import PERCENTILES, Counter, Gauge, Histogram, Instrument, Meter
from twisted_kafka.metrics.registry import MetricName, MetricsRegistry
from twisted_kafka.system.client_text import printable

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_log = Logger()
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_]+")
_NAME_CHARACTERS = 128
_RESERVED = frozenset(("quantile", "le"))
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def render(registry: MetricsRegistry) -> str:
    """Render all metrics of the registry. A gauge that fails or is not a number is omitted."""
    families: dict[str, tuple[str, dict[str, str]]] = {}
    for name, instrument in registry.items():
        try:
            family, kind, samples = _family(name, instrument)
        except Exception:  # noqa: BLE001 one failing gauge must not hide the others
            _log.failure("Cannot read the metric {name}", name=str(name))
            continue
        if not samples:
            continue
        known_kind, known = families.setdefault(family, (kind, {}))
        if kind == known_kind:  # two names of clients may become one, and no series may be there twice
            known.update(samples)
    lines = []
    for family, (kind, found) in families.items():
        lines.append(f"# TYPE {family} {kind}")
        lines.extend([f"{series} {value}" for series, value in found.items()])
    return "\n".join(lines) + "\n" if lines else ""


_Sample = tuple[str, str]
"""A series and its value."""


def _family(name: MetricName, instrument: Instrument) -> tuple[str, str, list[_Sample]]:
    labels = _labels(name) if name.tags else []
    bare = name.name
    if isinstance(instrument, Counter):
        bare = bare[: -len("PerSec")] if bare.endswith("PerSec") else bare
        family = f"{_prefix(name)}_{_identifier(bare)}_total"
        if isinstance(instrument, Meter) and name.name.endswith("Percent"):
            # A meter of nanoseconds (Kafka's AcceptorBlockedPercent): its rate is the ratio.
            family = f"{_prefix(name)}_{_identifier(name.name)}"
            return family, "gauge", [_sample(family, labels, instrument.one_minute_rate() / 1e9)]
        return family, "counter", [_sample(family, labels, instrument.count)]
    family = f"{_prefix(name)}_{_identifier(bare)}"
    if isinstance(instrument, Gauge):
        value = instrument.value
        return family, "gauge", [_sample(family, labels, float(value))] if isinstance(value, int | float) else []
    return family, "summary", list(_summary(family, labels, instrument))


def _summary(family: str, labels: list[str], histogram: Histogram) -> Iterator[_Sample]:
    snapshot = histogram.snapshot()
    for _, fraction in PERCENTILES:
        yield _sample(family, [*labels, f'quantile="{fraction}"'], snapshot.percentile(fraction))
    yield _sample(f"{family}_sum", labels, snapshot.sum)
    yield _sample(f"{family}_count", labels, snapshot.count)


def _sample(name: str, labels: list[str], value: float) -> _Sample:
    text = f"{value:.6g}" if isinstance(value, float) and not value.is_integer() else str(int(value))
    return (f"{name}{{{','.join(labels)}}}" if labels else name), text


def _labels(name: MetricName) -> list[str]:
    """Return the labels as text. Their names are valid and different from each other, even if clients chose them."""
    labels: dict[str, str] = {}
    for key, value in name.tags:
        label = _identifier(key)[:_NAME_CHARACTERS].lstrip("_") or "label"
        if label[0].isdigit():
            label = f"_{label}"
        while label in labels or label in _RESERVED:
            label += "_"
        labels[label] = "\n".join(map(printable, value.split("\n"))).translate(_ESCAPES)
    return [f'{label}="{text}"' for label, text in labels.items()]


def _prefix(name: MetricName) -> str:
    return f"{_identifier(name.group)}_{_identifier(name.type)}"


def _identifier(text: str) -> str:
    return _NOT_IN_NAMES.sub("_", text).lower()
