"""Exposes client metrics among the broker's own: each client's last values, as gauges of ``kafka.client:type=telemetry``."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.system import machine
from twisted_kafka.telemetry.otlp import MAX_LABELS, MAX_TEXT_LENGTH, Sample

TYPE: Final = "kafka.client:telemetry"
DROPPED: Final = "DroppedSamples"

MAX_SERIES: Final = 20_000
"""Maximum number of series of all clients; samples beyond it are counted in ``DroppedSamples``, as are those with more than
``MAX_LABELS`` labels."""

MAX_BYTES: Final = 16 << 20
"""The most bytes of the texts of all series, with ``SERIES_BYTES`` for each; samples beyond the limit are counted, too."""

SERIES_BYTES: Final = 1024
"""The memory of a series besides its texts."""

_Series = tuple[str, tuple[tuple[str, str], ...]]


class ExposedMetrics:
    """The last value of each client's series; deltas are added up."""

    def __init__(self, registry: MetricsRegistry, max_series: int = MAX_SERIES) -> None:
        self._registry = registry
        self._max_series = max_series
        self._lock = machine.Lock()
        self._values: dict[bytes, dict[_Series, float]] = {}
        self._count = 0
        self._bytes = 0
        self._dropped = registry.counter(TYPE, DROPPED)

    def take(self, client: bytes, labels: Mapping[str, str], samples: Iterable[Sample]) -> None:
        """Expose the samples of a client, which is identified by its instance id."""
        with self._lock:
            values = self._values.setdefault(client, {})
            for sample in samples:
                labels_of_it = sample.labels[:MAX_LABELS]
                series = (
                    sample.name[:MAX_TEXT_LENGTH],
                    tuple((key[:MAX_TEXT_LENGTH], text[:MAX_TEXT_LENGTH]) for key, text in labels_of_it),
                )
                if series not in values:
                    size_bytes = _size_bytes(series)
                    is_full = self._count >= self._max_series or self._bytes + size_bytes > MAX_BYTES
                    if is_full or len(sample.labels) > MAX_LABELS:
                        self._dropped.inc()
                        continue
                    self._count += 1
                    self._bytes += size_bytes
                    values[series] = 0.0
                    self._registry.gauge(TYPE, series[0], partial(values.get, series), **_tags(labels, series))
                values[series] = values[series] + sample.value if sample.is_delta else sample.value

    def forget(self, client: bytes, labels: Mapping[str, str]) -> None:
        """Remove the client's metrics."""
        with self._lock:
            for series in self._values.pop(client, {}):
                self._count -= 1
                self._bytes -= _size_bytes(series)
                self._registry.remove(TYPE, series[0], **_tags(labels, series))


def _size_bytes(series: _Series) -> int:
    """Return the most that the texts of a series may take."""
    name, labels = series
    return SERIES_BYTES + 4 * (len(name) + sum(len(key) + len(text) for key, text in labels))


def _tags(labels: Mapping[str, str], series: _Series) -> dict[str, object]:
    """Return the labels, the broker's own first: no client can take the place of one."""
    return {**labels, **{key: text for key, text in series[1] if key not in labels}}
