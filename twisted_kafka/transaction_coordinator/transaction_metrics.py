"""The transaction coordinator's metrics, under Kafka's names (TransactionStateManager, TransactionMarkerChannelManager)."""

from collections.abc import Callable
from typing import Final

from twisted_kafka.coordinator.load_times import LoadTimes
from twisted_kafka.metrics.registry import MetricsRegistry

COORDINATOR_TYPE: Final = "kafka.server:transaction-coordinator-metrics"
MARKERS_TYPE: Final = "TransactionMarkerChannelManager"


class TransactionMetrics:
    """The coordinator's sensors and gauges; gauges are computed when they are read."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._registry = registry
        self._loads = LoadTimes(registry, COORDINATOR_TYPE)

    def partition_loaded(self, took_ms: float) -> None:
        """Record the load time of a partition of ``__transaction_state``, in milliseconds."""
        self._loads.update(took_ms)

    def expose_destinations(self, unknown: Callable[[], int]) -> None:
        """Register a gauge of the markers that wait for a leader to be known."""
        self._registry.gauge(MARKERS_TYPE, "UnknownDestinationQueueSize", unknown)

    def expose(self, waiting_appends: Callable[[], int], fenced: Callable[[], int]) -> None:
        """Register gauges of records that have to be written again, and of transactions whose markers are refused as superseded."""
        self._registry.gauge(MARKERS_TYPE, "LogAppendRetryQueueSize", waiting_appends)
        self._registry.gauge(MARKERS_TYPE, "FencedTransactionsCount", fenced)
