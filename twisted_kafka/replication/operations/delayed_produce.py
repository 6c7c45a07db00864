"""A produce with acks=all that waits until the in-sync replicas have it (Kafka: ``DelayedProduce``)."""

from concurrent.futures import Future

from typing_extensions import override

from twisted_kafka.protocol.errors import ErrorCode, KafkaError
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.operations.append_result import PartitionResult
from twisted_kafka.replication.partition.partition_table import PartitionTable
from twisted_kafka.waiting.purgatory import DelayedOperation


class PendingResults(Future[dict[TopicPartition, PartitionResult]]):
    """The results of an append once its replicas have it; ``appended`` has them before that: all but the errors are valid."""

    def __init__(self, appended: dict[TopicPartition, PartitionResult]) -> None:
        super().__init__()
        self.appended = appended


class DelayedProduce(DelayedOperation):
    """Waits for each result's ``required_offset``; a partition that is not there in time answers REQUEST_TIMED_OUT."""

    __slots__ = ("_partitions", "_results", "future", "pending")

    def __init__(self, timeout_ms: int, partitions: PartitionTable, results: dict[TopicPartition, PartitionResult]) -> None:
        super().__init__(timeout_ms)
        self._partitions = partitions
        self._results = results
        self.pending = [each for each, result in results.items() if result.required_offset >= 0]
        self.future = PendingResults(results)

    @override
    def try_complete(self) -> bool:
        """Complete when no partition waits any more: each is replicated, or no longer can be."""
        self.pending = [each for each in self.pending if not self._is_done(each)]
        return not self.pending and self.force_complete()

    def _is_done(self, topic_partition: TopicPartition) -> bool:
        result = self._results[topic_partition]
        try:
            error = self._partitions.get_or_raise(topic_partition).replicated(result.required_offset, result.leader_since)
        except KafkaError as failure:
            error = failure.code
        if error is None:
            return False
        result.fail_after_append(error)
        return True

    @override
    def on_complete(self) -> None:
        """Resolve the future with all results."""
        with self._lock:  # when time runs out another thread may be in the middle of try_complete
            for topic_partition in self.pending:
                self._results[topic_partition].fail_after_append(ErrorCode.REQUEST_TIMED_OUT)
        self.future.set_result(self._results)
