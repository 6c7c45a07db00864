"""The registry of instruments by name: Kafka's group, type, name and tags."""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from typing_extensions import override

from twisted_kafka.metrics.instruments import Counter, Gauge, Histogram, HistogramSnapshot, Instrument, Meter
from twisted_kafka.metrics.windows import Windowed
from twisted_kafka.system import machine
from twisted_kafka.system.client_text import bounded_text
from twisted_kafka.timing.clock import IClock

DEFAULT_GROUP = "kafka.server"

MAX_SERIES: Final = 10_000
"""The most series of one type and name: clients choose some labels. Series of partitions are not limited."""

OTHER: Final = "other"
"""The value of all labels of the series for values beyond ``MAX_SERIES``."""

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
"""Kafka's group, the part of an MBean's name before the colon, for each type outside ``DEFAULT_GROUP``."""


class MetricName(NamedTuple):
    """A metric's full name; ``str()`` gives the name of Kafka's MBean."""

    group: str
    type: str
    name: str
    tags: tuple[tuple[str, str], ...]

    @override
    def __str__(self) -> str:
        tags = "".join(f",{key}={value}" for key, value in self.tags)
        return f"{self.group}:type={self.type},name={self.name}{tags}"


def metric_name(type_: str, name: str, tags: dict[str, object]) -> MetricName:
    """Make a name. ``type_`` may include the group, as in ``kafka.server:app-info``."""
    group, _, bare_type = type_.rpartition(":")
    texts = tuple([(bounded_text(key), bounded_text(str(value))) for key, value in tags.items()]) if tags else ()
    return MetricName(group or GROUP_OF_TYPE.get(type_, DEFAULT_GROUP), bare_type, bounded_text(name), texts)


_I = TypeVar("_I", bound=Instrument)

Collector = Callable[[], Iterable[tuple[dict[str, object], object]]]
"""Returns tags and values for a varying set of gauges."""


class Reading:
    """Reads instruments that are up to date: cheaper than the registry for many of them, since it brings none up to date again."""

    def __init__(self, instruments: Mapping[MetricName, Instrument]) -> None:
        self._instruments = instruments

    def value(self, type_: str, name: str, /, **tags: object) -> object:
        """Read a gauge's value, or the count of another instrument; None for an unknown name."""
        instrument = self._instruments.get(metric_name(type_, name, tags))
        if instrument is None:
            return None
        return instrument.value if isinstance(instrument, Gauge) else instrument.count

    def histogram_snapshot(self, type_: str, name: str, /, **tags: object) -> HistogramSnapshot | None:
        """Read a histogram; None if no histogram has this name."""
        instrument = self._instruments.get(metric_name(type_, name, tags))
        return instrument.snapshot() if isinstance(instrument, Histogram) else None


class MetricsRegistry:
    """Returns instruments by name and makes them on first use.

    A lookup costs more than an update: keep a reference to an instrument that is updated often.

    A type and name has at most ``max_series`` series. Counters, meters and histograms beyond that share the series ``other``.
    Other instruments beyond it are not shown; the counter ``LeftOutSeries`` counts them.
    """

    def __init__(self, clock: IClock, max_series: int = MAX_SERIES) -> None:
        self.clock = clock
        self._max_series = max_series
        self._lock = machine.Lock()
        self._series: dict[tuple[str, str, str], int] = {}
        self._others: set[MetricName] = set()  # shared by names for which there is no room
        self._instruments: dict[MetricName, Instrument] = {}
        self._collectors: dict[MetricName, Collector] = {}
        self._flushes: list[Callable[[], object]] = []

    def counter(self, type_: str, name: str, /, **tags: object) -> Counter:
        """Get the counter of this name. Raises TypeError if the name belongs to another kind of instrument."""
        return self._get(Counter, metric_name(type_, name, tags), Counter)

    def meter(self, type_: str, name: str, /, **tags: object) -> Meter:
        """Get the meter of this name. Raises TypeError if the name belongs to another kind of instrument."""
        return self._get(Meter, metric_name(type_, name, tags), lambda: Meter(self.clock))

    def histogram(self, type_: str, name: str, /, **tags: object) -> Histogram:
        """Get the histogram of this name. Raises TypeError if the name belongs to another kind of instrument."""
        return self._get(Histogram, metric_name(type_, name, tags), Histogram)

    def gauge(self, type_: str, name: str, function: Callable[[], object], /, **tags: object) -> Gauge:
        """Register ``function`` as the gauge of this name, replacing an earlier instrument."""
        return self.add(Gauge(function), type_, name, **tags)

    def add(self, instrument: _I, type_: str, name: str, /, **tags: object) -> _I:
        """Register an instrument under this name, replacing an earlier one."""
        full_name = metric_name(type_, name, tags)
        with self._lock:
            if full_name in self._instruments or self._has_room(full_name):
                self._instruments[full_name] = instrument
                return instrument
        self.counter("Metrics", "LeftOutSeries").inc()
        return instrument

    def collector(self, type_: str, name: str, function: Collector, /, **tags: object) -> None:
        """Call ``function`` for the gauges of this type and name whenever all metrics are read."""
        with self._lock:
            self._collectors[metric_name(type_, name, tags)] = function

    def flush_before_reading(self, flush: Callable[[], object]) -> None:
        """Call ``flush`` before instruments are read, so that it can add counts which their owner keeps between readings."""
        self._flushes.append(flush)

    def flush(self) -> None:
        """Bring all instruments up to date. The methods of the registry that read instruments do this themselves."""
        for flush in self._flushes:
            flush()

    def remove(self, type_: str, name: str, /, **tags: object) -> None:
        """Remove the instrument or collector of this name, if there is one."""
        full_name = metric_name(type_, name, tags)
        with self._lock:
            # A client may name its own series ``other``: keep that one.
            if full_name not in self._others and self._instruments.pop(full_name, None) is not None:
                self._series[full_name[:3]] -= 1
            self._collectors.pop(full_name, None)

    def value(self, type_: str, name: str, /, **tags: object) -> object:
        """Read a gauge's value, or the count of another instrument; None for an unknown name."""
        return self.reading().value(type_, name, **tags)

    def reading(self) -> Reading:
        """Bring all instruments up to date, and return what reads them."""
        self.flush()
        return Reading(self._instruments)

    def gauges(self, type_: str, name: str) -> list[tuple[dict[str, str], object]]:
        """Read all gauges of this type and name: the tags and the value of each, without those of collectors."""
        wanted = metric_name(type_, name, {})[:3]
        with self._lock:  # there may be several for each partition
            named = [each for each in self._instruments.items() if each[0].name == name]
        found = [(dict(each.tags), gauge) for each, gauge in named if each[:3] == wanted]
        return [(tags, gauge.value) for tags, gauge in found if isinstance(gauge, Gauge)]

    def histogram_snapshot(self, type_: str, name: str, /, **tags: object) -> HistogramSnapshot | None:
        """Read a histogram; None if no histogram has this name."""
        return self.reading().histogram_snapshot(type_, name, **tags)

    def items(self) -> list[tuple[MetricName, Instrument]]:
        """Return all instruments, sorted by name."""
        self.flush()
        with self._lock:
            found = dict(self._instruments)
            collectors = list(self._collectors.items())
        for (group, type_, name, _), function in collectors:
            for tags, value in islice(function(), self._max_series):
                found[metric_name(f"{group}:{type_}", name, tags)] = _constant(value)
        return sorted(found.items(), key=lambda item: item[0])

    def tick(self) -> None:
        """Update the averages of all meters and windows. Call this every few seconds."""
        self.flush()
        with self._lock:
            meters = [instrument for instrument in self._instruments.values() if isinstance(instrument, Meter | Windowed)]
        for meter in meters:
            meter.tick()

    def _get(self, kind: type[_I], name: MetricName, make: Callable[[], _I]) -> _I:
        instrument = self._instruments.get(name)
        if instrument is None:
            with self._lock:
                instrument = self._instruments.get(name)
                if instrument is None and not self._has_room(name):
                    name = name._replace(tags=tuple([(key, OTHER) for key, _ in name.tags]))
                    instrument = self._instruments.get(name)
                    if instrument is None:
                        self._others.add(name)
                if instrument is None:
                    instrument = self._instruments[name] = make()
        if type(instrument) is not kind:
            raise TypeError(f"{name} is a {type(instrument).__name__}, not a {kind.__name__}")
        return instrument

    def _has_room(self, name: MetricName) -> bool:
        """Count a series of this name, unless there are too many. The lock is held."""
        count = self._series.get(name[:3], 0)
        if count >= self._max_series and not any(key == "partition" for key, _ in name.tags):
            return False
        self._series[name[:3]] = count + 1
        return True


def _constant(value: object) -> Gauge:
    return Gauge(lambda: value)
