"""Appends to and reads from the coordinators' internal topics, through the replica manager."""

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

from twisted_kafka.coordinator.damage import REFUSE_DAMAGE, DamagePolicy
from twisted_kafka.coordinator.interfaces import Appended
from twisted_kafka.log.producer_state.producer_state_manager import VerificationGuard
from twisted_kafka.log.results import FetchIsolation
from twisted_kafka.log.validation.log_validator import AppendOrigin
from twisted_kafka.protocol.errors import CorruptRecordError, ErrorCode, KafkaError
from twisted_kafka.protocol.records.batch import batches
from twisted_kafka.protocol.regions import Buffer
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.operations.appender import NO_GUARDS
from twisted_kafka.replication.operations.delayed_delete_records import DeleteRecordsResult
from twisted_kafka.replication.operations.delayed_produce import PendingResults
from twisted_kafka.replication.replica_manager import ReplicaManager
from twisted_kafka.waiting.futures import completed, then, when_done


class ReplicaWriter:
    """Appends to the partitions that this broker leads."""

    def __init__(self, replica_manager: ReplicaManager, timeout_ms: int, required_acks: int = -1) -> None:
        self._replica_manager = replica_manager
        self._timeout_ms = timeout_ms
        self._required_acks = required_acks

    def append(self, partition: TopicPartition, batch: Buffer, guard: VerificationGuard | None) -> Appended | ErrorCode:
        """Append a batch; return the error if nothing was appended. ``guard`` is required if it starts a verified transaction."""
        results = self._replica_manager.appender.append(
            self._timeout_ms,
            self._required_acks,
            {partition: batch},
            AppendOrigin.COORDINATOR,
            internal_topics_allowed=True,
            guards=NO_GUARDS if guard is None else {partition: guard},
        )
        if isinstance(results, PendingResults):
            return Appended(results.appended[partition].base_offset, then(results, lambda done: ErrorCode(done[partition].error)))
        result = results[partition]
        return ErrorCode(result.error) if result.error else Appended(result.base_offset)

    def delete_records(self, partition: TopicPartition, before: int) -> "Future[ErrorCode]":
        """Delete the partition's records before an offset; the future has the outcome once all replicas have done so."""

        def outcome(results: dict[TopicPartition, DeleteRecordsResult]) -> ErrorCode:
            return ErrorCode(results[partition].error)

        offsets = self._replica_manager.offsets
        answer = when_done(offsets.delete_records(self._timeout_ms, {partition: before}, internal_topics_allowed=True), outcome)
        return answer if isinstance(answer, Future) else completed(answer)

    def is_committed(self, partition: TopicPartition, offset: int) -> bool:
        """Return whether this broker leads the partition and its high watermark is above ``offset``."""
        try:
            led = self._replica_manager.get_partition_or_error(partition)
        except KafkaError:
            return False
        return led.is_leader and led.log.high_watermark > offset


class ReplicaReader:
    """Reads the partitions' local logs."""

    def __init__(self, replica_manager: ReplicaManager, damage: DamagePolicy = REFUSE_DAMAGE) -> None:
        self._replica_manager = replica_manager
        self._damage = damage

    def directory(self, partition: TopicPartition) -> Path | None:
        """Return the log directory of a partition; None if this broker does not have it."""
        found = self._replica_manager.get_partition(partition)
        return None if found is None else found.log.parent

    def read_all(self, partition: TopicPartition, buffer_size: int) -> Iterator[Buffer]:
        """Yield the log's batches from its start to its current end, about ``buffer_size`` bytes at a time.

        Raises KafkaError if this broker does not have the log.
        """
        log = self._replica_manager.get_partition_or_error(partition).log
        position, end = log.log_start_offset, log.log_end_offset
        while position < end:
            whole = _Whole(position)
            try:
                chunk = log.content(log.read(position, buffer_size, FetchIsolation.LOG_END, True).records)
                if not chunk:
                    return
                whole.look(chunk)
            except CorruptRecordError as error:
                if whole.size:
                    yield memoryview(chunk)[: whole.size]
                self._damage.found(partition, whole.end, error)
                # Where a batch is not known to end, the next one is found at the begin of a segment.
                position = min((each.base_offset for each in log.segments if each.base_offset > whole.end), default=end)
            else:
                yield chunk
                position = whole.end


class _Whole:
    """The whole batches at the begin of a chunk: their size, and the offset after the last one."""

    __slots__ = ("end", "size")

    def __init__(self, position: int) -> None:
        self.end = position
        self.size = 0

    def look(self, chunk: Buffer) -> None:
        """Look at a chunk. Raises CorruptRecordError after the last batch before the damage."""
        for batch in batches(chunk):
            self.end = batch.last_offset + 1
            self.size += batch.size_bytes
