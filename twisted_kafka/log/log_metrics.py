"""Kafka's metrics of logs and log directories (group ``kafka.log``, without those of the cleaner)."""

from collections.abc import Callable

from twisted_kafka.log.directories.log_directories import LogDirectories
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.metrics.instruments import Histogram
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.topic_partition import INTERNAL_TOPICS

_LOG = "Log"
_GAUGES = ("NumLogSegments", "LogStartOffset", "LogEndOffset", "Size")


class LogMetrics:
    """Registers the metrics of each log and directory; does nothing without a registry."""

    def __init__(self, registry: MetricsRegistry | None, directories: LogDirectories) -> None:
        self._registry = registry
        self._flushes: Histogram | None = None
        if registry is None:
            return
        self._flushes = registry.histogram("LogFlushStats", "LogFlushRateAndTimeMs")
        registry.gauge("LogManager", "OfflineLogDirectoryCount", lambda: len(directories.offline))
        for directory in directories.all:
            # Kafka quotes the path, as an MBean's name requires.
            registry.gauge(
                "LogManager",
                "LogDirectoryOffline",
                lambda directory=directory: int(not directory.is_online),  # type: ignore[misc]
                logDirectory=f'"{directory.path}"',
            )

    def flushed(self, took_ms: float) -> None:
        """Record the duration of a flush."""
        if self._flushes is not None:
            self._flushes.update(took_ms)

    def log_added(self, log: UnifiedLog) -> None:
        """Register a log's gauges.

        They have no value while a partition of an internal topic has no records: ``__consumer_offsets`` alone has 50 partitions,
        which would be a tenth of a small broker's page.
        """
        if self._registry is None:
            return
        values = (lambda: len(log.segments), lambda: log.log_start_offset, lambda: log.log_end_offset, lambda: log.size_bytes)
        tags = _tags(log)
        is_internal = log.topic_partition.topic in INTERNAL_TOPICS
        for name, value in zip(_GAUGES, values, strict=True):
            self._registry.gauge(_LOG, name, _if_written(log, value) if is_internal else value, **tags)

    def log_removed(self, log: UnifiedLog) -> None:
        """Remove a log's gauges."""
        if self._registry is None:
            return
        tags = _tags(log)
        for name in _GAUGES:
            self._registry.remove(_LOG, name, **tags)


def _if_written(log: UnifiedLog, value: Callable[[], int]) -> Callable[[], int | None]:
    return lambda: value() if log.log_end_offset else None


def _tags(log: UnifiedLog) -> dict[str, object]:
    tags: dict[str, object] = {"topic": log.topic_partition.topic, "partition": log.topic_partition.partition}
    if log.is_future:
        tags["is-future"] = "true"
    return tags
