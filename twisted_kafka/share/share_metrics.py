"""The metrics of share groups on the partitions' leaders, under Kafka's names (ShareGroupMetrics, DelayedShareFetchMetrics)."""

from collections.abc import Mapping
from typing import Final

from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.share.acknowledgements import TYPE_NAMES

TYPE: Final = "ShareGroupMetrics"


class ShareGroupMetrics:
    """Meters of acknowledgements and expirations, and histograms of fetches by group."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._registry = registry
        self._acknowledgements = {
            kind: registry.meter(TYPE, "RecordAcknowledgementsPerSec", ackType=name) for kind, name in TYPE_NAMES.items()
        }
        self._loads = registry.histogram(TYPE, "PartitionLoadTimeMs")
        self._expirations = registry.meter("DelayedShareFetchMetrics", "ExpiresPerSec")

    def acknowledged(self, counts: Mapping[int, int]) -> None:
        """Count acknowledged records by type; gaps do not count."""
        for kind, count in counts.items():
            meter = self._acknowledgements.get(kind)
            if meter is not None:
                meter.mark(count)

    def loaded(self, took_ms: float) -> None:
        """Record the time to read a share partition's state."""
        self._loads.update(int(took_ms))

    def expired(self) -> None:
        """Count a fetch that waited as long as it may."""
        self._expirations.mark(1)

    def fetched(self, group_id: str, acquired: int, asked: int) -> None:
        """Record of how many of the partitions of a fetch, in percent, records could be acquired."""
        self._registry.histogram(TYPE, "RequestTopicPartitionsFetchRatio", group=group_id).update(100 * acquired // max(asked, 1))

    def acquired(self, group_id: str, took_ms: float) -> None:
        """Record how long a fetch took to acquire the partitions that it could."""
        self._registry.histogram(TYPE, "TopicPartitionsAcquireTimeMs", group=group_id).update(int(took_ms))

    def forget(self, group_id: str) -> None:
        """Remove the metrics of a group that has no session on this broker any more."""
        for name in ("RequestTopicPartitionsFetchRatio", "TopicPartitionsAcquireTimeMs"):
            self._registry.remove(TYPE, name, group=group_id)
