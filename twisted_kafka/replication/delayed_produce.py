"""A produce with acks=all that waits until the in-sync replicas have it (Kafka: ``DelayedProduce``)."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Generic, TypeVar

from twisted_kafka.protocol.errors import ErrorCode, KafkaError
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.append_result import PartitionResult
from twisted_kafka.replication.partition_table import PartitionTable
from twisted_kafka.waiting.completion import resolve
from twisted_kafka.waiting.purgatory import DelayedOperation

Response = TypeVar("Response")


class DelayedProduce(DelayedOperation, Generic[Response]):
    """Waits for each partition's ``required offset``; a partition that isn't there in time answers REQUEST_TIMED_OUT."""

    __slots__ = ("_partitions", "_pending_offsets", "_respond", "_results", "future")

    def __init__(
        self,
        timeout_ms: int,
        partitions: PartitionTable,
        results: dict[TopicPartition, PartitionResult],
        required_offsets: Mapping[TopicPartition, int],
        respond: Callable[[dict[TopicPartition, PartitionResult]], Response],
    ) -> None:
        super().__init__(timeout_ms)
        self._partitions = partitions
        self._results = results
        self._pending_offsets = dict(required_offsets)
        self._respond = respond
        self.future: Future[Response] = Future()

    def try_complete(self) -> bool:
        """Complete when no partition waits any more: each was replicated or can no longer be."""
        for topic_partition, required_offset in list(self._pending_offsets.items()):
            try:
                error = self._partitions.get_or_raise(topic_partition).replicated(required_offset)
            except KafkaError as failure:
                error = failure.code
            if error is not None:
                self._results[topic_partition].fail_after_append(error)
                del self._pending_offsets[topic_partition]
        return not self._pending_offsets and self.force_complete()

    def on_complete(self) -> None:
        """Answer with what each partition came to."""
        with self._lock:  # when time runs out another thread may be in the middle of try_complete
            for topic_partition in self._pending_offsets:
                self._results[topic_partition].fail_after_append(ErrorCode.REQUEST_TIMED_OUT)
        resolve(self.future, self._respond, self._results)
