"""How long the partitions of a coordinator's topic take to load, as Kafka's sensors show it."""

from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.metrics.windows import WindowedMax, WindowedMean


class LoadTimes:
    """``partition-load-time-avg`` and ``partition-load-time-max``, in milliseconds; only one partition loads at a time."""

    __slots__ = ("_count", "_greatest_ms", "_total_ms")

    def __init__(self, registry: MetricsRegistry, coordinator_type: str) -> None:
        """``coordinator_type`` is the metrics' type, such as ``kafka.server:group-coordinator-metrics``."""
        self._count = 0
        self._total_ms = self._greatest_ms = 0.0
        mean = WindowedMean(lambda: self._total_ms, lambda: self._count)
        registry.add(mean, coordinator_type, "partition-load-time-avg")
        registry.add(WindowedMax(self._take), coordinator_type, "partition-load-time-max")

    def update(self, took_ms: float) -> None:
        """Record the load time of a partition."""
        self._count += 1
        self._total_ms += took_ms
        self._greatest_ms = max(self._greatest_ms, took_ms)

    def _take(self) -> float:
        greatest_ms, self._greatest_ms = self._greatest_ms, 0.0
        return greatest_ms
