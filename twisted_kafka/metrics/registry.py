"""Where instruments are found by name: Kafka's group, type, name and tags."""

import threading
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from twisted_kafka.metrics.instruments import Counter, Gauge, Histogram, HistogramSnapshot, Instrument, Meter
from twisted_kafka.metrics.windows import Windowed
from twisted_kafka.timing.clock import IClock

DEFAULT_GROUP = "kafka.server"

GROUP_OF_TYPE = {
    "Partition": "kafka.cluster",
    "ControllerChannelManager": "kafka.controller",
    "ControllerEventManager": "kafka.controller",
    "ControllerStats": "kafka.controller",
    "KafkaController": "kafka.controller",
    "GroupMetadataManager": "kafka.coordinator.group",
    "TransactionMarkerChannelManager": "kafka.coordinator.transaction",
    "Log": "kafka.log",
    "LogCleaner": "kafka.log",
    "LogCleanerManager": "kafka.log",
    "LogFlushStats": "kafka.log",
    "LogManager": "kafka.log",
    "Acceptor": "kafka.network",
    "Processor": "kafka.network",
    "RequestChannel": "kafka.network",
    "RequestMetrics": "kafka.network",
    "SocketServer": "kafka.network",
}
"""Kafka's group (the part of an MBean's name before the colon) of each type that is not in ``DEFAULT_GROUP``."""


class MetricName(NamedTuple):
    """A metric's full name; ``str`` of it is the MBean's name in Kafka."""

    group: str
    type: str
    name: str
    tags: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        tags = "".join(f",{key}={value}" for key, value in self.tags)
        return f"{self.group}:type={self.type},name={self.name}{tags}"


def metric_name(type_: str, name: str, tags: dict[str, object]) -> MetricName:
    """Make the name; ``type_`` may name its group too, as in ``kafka.server:app-info``."""
    group, _, bare_type = type_.rpartition(":")
    return MetricName(
        group or GROUP_OF_TYPE.get(type_, DEFAULT_GROUP), bare_type, name, tuple((key, str(value)) for key, value in tags.items())
    )


_I = TypeVar("_I", bound=Instrument)

Collector = Callable[[], Iterable[tuple[dict[str, object], object]]]
"""Returns the tags and values of gauges that come and go."""


class MetricsRegistry:
    """Gets an instrument by its name, making it at the first time.

    Looking one up costs more than updating it: keep the instrument where updates are frequent.
    """

    def __init__(self, clock: IClock) -> None:
        self.clock = clock
        self._lock = threading.Lock()
        self._instruments: dict[MetricName, Instrument] = {}
        self._collectors: dict[MetricName, Collector] = {}

    def counter(self, type_: str, name: str, **tags: object) -> Counter:
        """Get the counter of this name. Raises TypeError when the name is another kind of instrument's."""
        return self._get(Counter, metric_name(type_, name, tags), Counter)

    def meter(self, type_: str, name: str, **tags: object) -> Meter:
        """Get the meter of this name. Raises TypeError when the name is another kind of instrument's."""
        return self._get(Meter, metric_name(type_, name, tags), lambda: Meter(self.clock))

    def histogram(self, type_: str, name: str, **tags: object) -> Histogram:
        """Get the histogram of this name. Raises TypeError when the name is another kind of instrument's."""
        return self._get(Histogram, metric_name(type_, name, tags), Histogram)

    def gauge(self, type_: str, name: str, function: Callable[[], object], **tags: object) -> Gauge:
        """Set the gauge of this name to ``function``, in place of an earlier one."""
        gauge = Gauge(function)
        with self._lock:
            self._instruments[metric_name(type_, name, tags)] = gauge
        return gauge

    def add(self, instrument: _I, type_: str, name: str, **tags: object) -> _I:
        """Put an instrument that somebody else made under this name, in place of an earlier one."""
        with self._lock:
            self._instruments[metric_name(type_, name, tags)] = instrument
        return instrument

    def collector(self, type_: str, name: str, function: Collector, **tags: object) -> None:
        """Have ``function`` say which gauges of this type and name there are whenever all metrics are read."""
        with self._lock:
            self._collectors[metric_name(type_, name, tags)] = function

    def remove(self, type_: str, name: str, **tags: object) -> None:
        """Forget the instrument or collector of this name, if there is one."""
        full_name = metric_name(type_, name, tags)
        with self._lock:
            self._instruments.pop(full_name, None)
            self._collectors.pop(full_name, None)

    def value(self, type_: str, name: str, **tags: object) -> object:
        """Read a gauge's value, or the count of another instrument; None when there is no such name."""
        instrument = self._instruments.get(metric_name(type_, name, tags))
        if instrument is None:
            return None
        return instrument.value if isinstance(instrument, Gauge) else instrument.count

    def histogram_snapshot(self, type_: str, name: str, **tags: object) -> HistogramSnapshot | None:
        """Read a histogram; None when there is none of this name."""
        instrument = self._instruments.get(metric_name(type_, name, tags))
        return instrument.snapshot() if isinstance(instrument, Histogram) else None

    def items(self) -> list[tuple[MetricName, Instrument]]:
        """All instruments, by name."""
        with self._lock:
            found = dict(self._instruments)
            collectors = list(self._collectors.items())
        for (group, type_, name, _), function in collectors:
            for tags, value in function():
                found[metric_name(f"{group}:{type_}", name, tags)] = _constant(value)
        return sorted(found.items(), key=lambda item: item[0])

    def tick(self) -> None:
        """Move all meters' averages and windows on; to be called every few seconds."""
        with self._lock:
            meters = [instrument for instrument in self._instruments.values() if isinstance(instrument, Meter | Windowed)]
        for meter in meters:
            meter.tick()

    def _get(self, kind: type[_I], name: MetricName, make: Callable[[], _I]) -> _I:
        instrument = self._instruments.get(name)
        if instrument is None:
            with self._lock:
                instrument = self._instruments.setdefault(name, make())
        if type(instrument) is not kind:
            raise TypeError(f"{name} is a {type(instrument).__name__}, not a {kind.__name__}")
        return instrument


def _constant(value: object) -> Gauge:
    return Gauge(lambda: value)
