"""Appends to and reads from the coordinators' internal topics, through the replica manager."""

from collections.abc import Iterator, Mapping
from concurrent.futures import Future

from zope.interface import implementer

from twisted_kafka.coordinator.interfaces import IPartitionReader, IPartitionWriter
from twisted_kafka.log.producer_state.producer_state_manager import VerificationGuard
from twisted_kafka.log.results import FetchIsolation
from twisted_kafka.log.validation.log_validator import AppendOrigin
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.records.batch import batches
from twisted_kafka.protocol.regions import Buffer
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.operations.append_result import PartitionResult
from twisted_kafka.replication.operations.appender import NO_GUARDS
from twisted_kafka.replication.replica_manager import ReplicaManager
from twisted_kafka.waiting.futures import when_done


@implementer(IPartitionWriter)
class ReplicaWriter:
    """Appends to the partitions that this broker leads."""

    def __init__(self, replica_manager: ReplicaManager, timeout_ms: int, required_acks: int = -1) -> None:
        self._replica_manager = replica_manager
        self._timeout_ms = timeout_ms
        self._required_acks = required_acks

    def append(self, partition: TopicPartition, batch: Buffer, guard: VerificationGuard | None) -> "ErrorCode | Future[ErrorCode]":
        """Append a batch; see IPartitionWriter."""

        def error_in(results: Mapping[TopicPartition, PartitionResult]) -> ErrorCode:
            error = results[partition].error
            return ErrorCode(error) if error else ErrorCode.NONE

        results = self._replica_manager.appender.append(
            self._timeout_ms,
            self._required_acks,
            {partition: batch},
            AppendOrigin.COORDINATOR,
            internal_topics_allowed=True,
            guards=NO_GUARDS if guard is None else {partition: guard},
        )
        return when_done(results, error_in)


@implementer(IPartitionReader)
class ReplicaReader:
    """Reads the partitions' local logs."""

    def __init__(self, replica_manager: ReplicaManager) -> None:
        self._replica_manager = replica_manager

    def read_all(self, partition: TopicPartition, buffer_size: int) -> Iterator[Buffer]:
        """Yield the whole log in chunks; see IPartitionReader."""
        log = self._replica_manager.get_partition_or_error(partition).log
        position, end = log.log_start_offset, log.log_end_offset
        while position < end:
            chunk = log.content(log.read(position, buffer_size, FetchIsolation.LOG_END, True).records)
            if not chunk:
                return
            following = _end_offset(chunk, position)
            yield chunk
            position = following


def _end_offset(chunk: Buffer, position: int) -> int:
    """Return the offset after the last whole batch of a chunk."""
    end = position
    for batch in batches(chunk):
        end = batch.last_offset + 1
    return end
