"""A deletion of records that waits until all replicas have moved their log start offset (Kafka: ``DelayedDeleteRecords``)."""

from collections.abc import Mapping
from concurrent.futures import Future

from typing_extensions import override

from twisted_kafka.protocol.errors import ErrorCode, KafkaError, NotLeaderOrFollowerError
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.partition.partition_table import PartitionTable
from twisted_kafka.waiting.purgatory import DelayedOperation


class DeleteRecordsResult:
    """The result for one partition: the low watermark (-1 when unknown) and an error."""

    __slots__ = ("error", "low_watermark")

    def __init__(self, error: int, low_watermark: int = -1) -> None:
        self.error = error
        self.low_watermark = low_watermark


class DelayedDeleteRecords(DelayedOperation):
    """Waits for each partition's low watermark to reach the requested offset."""

    __slots__ = ("_partitions", "_pending_offsets", "_results", "future")

    def __init__(
        self,
        timeout_ms: int,
        partitions: PartitionTable,
        results: dict[TopicPartition, DeleteRecordsResult],
        wanted_offsets: Mapping[TopicPartition, int],
    ) -> None:
        super().__init__(timeout_ms)
        self._partitions = partitions
        self._results = results
        self._pending_offsets = dict(wanted_offsets)
        self.future: Future[dict[TopicPartition, DeleteRecordsResult]] = Future()

    @override
    def try_complete(self) -> bool:
        """Complete when no partition waits any more."""
        for topic_partition, wanted in list(self._pending_offsets.items()):
            try:
                low_watermark = self._low_watermark(topic_partition)
            except KafkaError as failure:
                self._results[topic_partition] = DeleteRecordsResult(failure.code)
            else:
                if low_watermark < wanted:
                    continue
                self._results[topic_partition] = DeleteRecordsResult(0, low_watermark)
            del self._pending_offsets[topic_partition]
        return not self._pending_offsets and self.force_complete()

    def _low_watermark(self, topic_partition: TopicPartition) -> int:
        partition = self._partitions.get_or_raise(topic_partition)
        if not partition.is_leader:
            raise NotLeaderOrFollowerError(f"{topic_partition} got another leader meanwhile")
        return partition.low_watermark()

    @override
    def on_complete(self) -> None:
        """Resolve the future; partitions that still wait get REQUEST_TIMED_OUT."""
        with self._lock:  # when time runs out another thread may be in the middle of try_complete
            for topic_partition in self._pending_offsets:
                self._results[topic_partition].error = ErrorCode.REQUEST_TIMED_OUT
        self.future.set_result(self._results)
