"""Gauges of the groups that this broker coordinates: their committed offsets, and how far they are behind.

The names and labels are those of kafka_exporter, the usual exporter of consumer lag, so that its dashboards work:
``kafka_consumergroup_current_offset`` and ``kafka_consumergroup_lag``. Nothing is computed before the metrics are read, and no
shard's lock is taken.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from twisted_kafka.group_coordinator.state.group_store import GroupStore
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.topic_partition import TopicPartition

TYPE: Final = "kafka:consumergroup"

Series = Iterator[tuple[dict[str, object], object]]


class ConsumerLag:
    """Reads the offsets that groups committed, and compares them with the partitions' high watermarks."""

    def __init__(self, stores: Callable[[], Iterable[GroupStore]], high_watermark: Callable[[TopicPartition], int | None]) -> None:
        """``high_watermark`` returns None for a partition of which this broker has no replica; its lag is left out then."""
        self._stores = stores
        self._high_watermark = high_watermark

    def register(self, registry: MetricsRegistry) -> None:
        """Add both gauges to the registry, which reads at most its limit of series."""
        registry.collector(TYPE, "current_offset", self.current_offsets)
        registry.collector(TYPE, "lag", self.lags)

    def current_offsets(self) -> Series:
        """Yield the labels and the committed offset of each group and partition."""
        for group_id, partition, offset in self._committed():
            yield _labels(group_id, partition), offset

    def lags(self) -> Series:
        """Yield the labels and the number of records after the committed offset, at least 0."""
        ends: dict[TopicPartition, int | None] = {}
        for group_id, partition, offset in self._committed():
            if partition not in ends:
                ends[partition] = self._high_watermark(partition)
            end = ends[partition]
            if end is not None:
                yield _labels(group_id, partition), max(end - offset, 0)

    def _committed(self) -> Iterator[tuple[str, TopicPartition, int]]:
        for store in self._stores():
            yield from store.offsets.committed()


def _labels(group_id: str, partition: TopicPartition) -> dict[str, object]:
    return {"consumergroup": group_id, "topic": partition.topic, "partition": partition.partition}
