"""Exposes client metrics among the broker's own: each client's last values, as gauges of ``kafka.client:type=telemetry``."""

import threading
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.telemetry.otlp import Sample

TYPE: Final = "kafka.client:telemetry"
DROPPED: Final = "DroppedSamples"

MAX_SERIES: Final = 20_000
"""Maximum number of series of all clients; samples beyond it are counted in ``DroppedSamples``."""

MAX_TEXT_LENGTH: Final = 255
"""Maximum number of characters of a metric name and of a label value."""

_Series = tuple[str, tuple[tuple[str, str], ...]]


class ExposedMetrics:
    """The last value of each client's series; deltas are added up."""

    def __init__(self, registry: MetricsRegistry, max_series: int = MAX_SERIES) -> None:
        self._registry = registry
        self._max_series = max_series
        self._lock = threading.Lock()
        self._values: dict[bytes, dict[_Series, float]] = {}
        self._count = 0
        self._dropped = registry.counter(TYPE, DROPPED)

    def take(self, client: bytes, labels: Mapping[str, str], samples: Iterable[Sample]) -> None:
        """Expose the samples of a client, which is identified by its instance id."""
        with self._lock:
            values = self._values.setdefault(client, {})
            for sample in samples:
                series = (sample.name[:MAX_TEXT_LENGTH], tuple((key, text[:MAX_TEXT_LENGTH]) for key, text in sample.labels))
                if series not in values:
                    if self._count >= self._max_series:
                        self._dropped.inc()
                        continue
                    self._count += 1
                    values[series] = 0.0
                    self._registry.gauge(TYPE, series[0], partial(values.get, series), **_tags(labels, series))
                values[series] = values[series] + sample.value if sample.is_delta else sample.value

    def forget(self, client: bytes, labels: Mapping[str, str]) -> None:
        """Remove the client's metrics."""
        with self._lock:
            for series in self._values.pop(client, {}):
                self._count -= 1
                self._registry.remove(TYPE, series[0], **_tags(labels, series))


def _tags(labels: Mapping[str, str], series: _Series) -> dict[str, object]:
    return {**dict(series[1]), **labels}
