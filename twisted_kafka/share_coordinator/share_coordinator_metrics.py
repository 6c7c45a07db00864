"""The share coordinator's metrics, under Kafka's names (ShareCoordinatorMetrics, ShareCoordinatorRuntimeMetrics)."""

from collections.abc import Callable
from typing import Final

from twisted_kafka.coordinator.load_times import LoadTimes
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.metrics.windows import WindowedIdleRatio, WindowedMax, WindowedMean, WindowedRate
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock

COORDINATOR_TYPE: Final = "kafka.server:share-coordinator-metrics"


class ShareCoordinatorMetrics:
    """The coordinator's sensors and gauges; gauges are computed when they are read."""

    def __init__(self, registry: MetricsRegistry, clock: IClock) -> None:
        self._registry = registry
        self._clock = clock
        self._loads = LoadTimes(registry, COORDINATOR_TYPE)
        self._writes = writes = registry.counter(COORDINATOR_TYPE, "write-total")
        registry.add(WindowedRate(clock, lambda: writes.count), COORDINATOR_TYPE, "write-rate")
        self._lock = machine.Lock()
        self._answered = 0
        self._total_ms = self._greatest_ms = 0.0
        registry.add(WindowedMean(lambda: self._total_ms, lambda: self._answered), COORDINATOR_TYPE, "write-latency-avg")
        registry.add(WindowedMax(self._take_greatest), COORDINATOR_TYPE, "write-latency-max")

    def partition_loaded(self, took_ms: float) -> None:
        """Record the load time of a partition of ``__share_group_state``, in milliseconds."""
        self._loads.update(took_ms)

    def write_began(self) -> None:
        """Count a write of one share partition's state."""
        self._writes.inc()

    def write_answered(self, took_ms: float) -> None:
        """Record how long a write took until replicas had it."""
        with self._lock:
            self._answered += 1
            self._total_ms += took_ms
            self._greatest_ms = max(self._greatest_ms, took_ms)

    def _take_greatest(self) -> float:
        with self._lock:
            greatest_ms, self._greatest_ms = self._greatest_ms, 0.0
        return greatest_ms

    def expose(self, partitions: Callable[[], dict[str, int]], waiting: Callable[[], int], busy_ns: Callable[[], int]) -> None:
        """Register gauges of partitions by state (``loading``, ``active``, ``failed``), of the queue size and the idle ratio."""

        def count(state: str) -> Callable[[], int]:
            return lambda: partitions()[state]

        for state in ("loading", "active", "failed"):
            self._registry.gauge(COORDINATOR_TYPE, "num-partitions", count(state), state=state)
        self._registry.gauge(COORDINATOR_TYPE, "event-queue-size", waiting)
        self._registry.add(WindowedIdleRatio(self._clock, busy_ns), COORDINATOR_TYPE, "thread-idle-ratio-avg")
