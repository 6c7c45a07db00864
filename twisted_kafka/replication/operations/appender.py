"""Appends to the logs of led partitions, answered at once or when the in-sync replicas have them."""

from collections.abc import Mapping, Sequence
from typing import Final

from twisted.logger import Logger
from twisted.python.failure import Failure

from twisted_kafka.log.producer_state.producer_state_manager import VerificationGuard
from twisted_kafka.log.validation.log_validator import AppendOrigin
from twisted_kafka.log.validation.types import (
    InvalidChecksumError,
    InvalidMagicError,
    InvalidOffsetOrSequenceError,
    RecordValidationError,
)
from twisted_kafka.protocol.compiler.types import NO_UUID
from twisted_kafka.protocol.errors import (
    CorruptRecordError,
    ErrorCode,
    InvalidTopicError,
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
    RecordBatchTooLargeError,
    RecordTooLargeError,
    UnknownLeaderEpochError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from twisted_kafka.protocol.regions import Buffer
from twisted_kafka.protocol.topic_partition import INTERNAL_TOPICS, TopicPartition
from twisted_kafka.replication.operations.append_result import PartitionResult
from twisted_kafka.replication.operations.delayed_produce import DelayedProduce, PendingResults
from twisted_kafka.replication.operations.purgatories import Purgatories
from twisted_kafka.replication.partition.partition import ACKS_ALL, Partition
from twisted_kafka.replication.partition.partition_table import PartitionTable
from twisted_kafka.replication.partition.topic_stats import (
    BYTES_REJECTED,
    FAILED_PRODUCES,
    INVALID_MAGIC_NUMBER,
    INVALID_MESSAGE_CRC,
    INVALID_OFFSET_OR_SEQUENCE,
    NO_KEY_COMPACTED_TOPIC,
    PRODUCE_REQUESTS,
    BrokerTopicStats,
)

Guards = Mapping[TopicPartition, VerificationGuard]
NO_GUARDS: Final[Guards] = {}
TopicIds = Mapping[str, bytes]
"""The ids of topics by name, as a client gave them."""
NO_TOPIC_IDS: Final[TopicIds] = {}
VALID_ACKS: Final = (-1, 0, 1)

AppendResults = dict[TopicPartition, PartitionResult]

# Errors that clients recover from by themselves are no failures of the broker: Kafka neither counts nor logs them.
_EXPECTED = (
    UnknownTopicOrPartitionError,
    UnknownTopicIdError,
    NotLeaderOrFollowerError,
    RecordTooLargeError,
    RecordBatchTooLargeError,
    CorruptRecordError,
    KafkaStorageError,
    UnknownLeaderEpochError,
    InvalidTopicError,
)

_log = Logger(__name__)


class RecordAppender:
    """Appends to the hosted partitions (Kafka: ``ReplicaManager.appendRecords``)."""

    __slots__ = ("_partitions", "_purgatories", "_stats")

    def __init__(self, partitions: PartitionTable, purgatories: Purgatories, stats: BrokerTopicStats) -> None:
        self._partitions = partitions
        self._purgatories = purgatories
        self._stats = stats

    def append(
        self,
        timeout_ms: int,
        required_acks: int,
        entries: Mapping[TopicPartition, Buffer],
        origin: AppendOrigin = AppendOrigin.CLIENT,
        *,
        internal_topics_allowed: bool = False,
        guards: Guards = NO_GUARDS,
        topic_ids: TopicIds = NO_TOPIC_IDS,
    ) -> AppendResults | PendingResults:
        """Append to each partition; a future only where acks=all has replicas to wait for, ``timeout_ms`` at most.

        ``guards`` are those of the partitions in which a transaction begins and was verified. ``topic_ids`` are the ids by which
        the client named the topics, if it did: UNKNOWN_TOPIC_ID for a partition of a topic that was created again.

        A failure is a value in the results. Operations that wait for these partitions complete on this thread: the caller holds no
        lock that they need.
        """
        if required_acks not in VALID_ACKS:
            return {topic_partition: self._invalid_acks(topic_partition) for topic_partition in entries}
        results: AppendResults = {}
        appended: list[tuple[Partition, PartitionResult]] = []
        has_moved = waits = False
        for topic_partition, records in entries.items():
            try:
                partition = self._partitions.online.get(topic_partition)
                if partition is None or (topic_partition[0] in INTERNAL_TOPICS and not internal_topics_allowed):
                    partition = self._checked(topic_partition, internal_topics_allowed)
                if topic_ids:
                    _check_topic_id(partition, topic_ids[topic_partition[0]])
                leader_since = partition.leader_since
                info, moved = partition.append_as_leader(records, origin, required_acks, guards.get(topic_partition))
            except Exception as error:  # noqa: BLE001 one partition's failure does not fail the others
                results[topic_partition] = self._failed(topic_partition, error, len(records))
                continue
            result = results[topic_partition] = PartitionResult(0, info=info, size_bytes=len(records))
            appended.append((partition, result))
            has_moved = has_moved or moved
            if required_acks == ACKS_ALL and not (partition.is_alone or partition.has_committed(info.last_offset, leader_since)):
                result.wait_for(info.last_offset + 1, leader_since)
                waits = True
        if appended:
            self._appended(appended, has_moved)
        if not waits:
            return results
        operation = DelayedProduce(timeout_ms, self._partitions, results)
        self._purgatories.produce.try_complete_else_watch(operation, operation.pending)
        return operation.future

    def append_each(
        self,
        topic_partition: TopicPartition,
        required_acks: int,
        each: Sequence[tuple[Buffer, int]],
        topic_id: bytes = NO_UUID,
    ) -> list[PartitionResult | PendingResults]:
        """Append the records of several clients to one partition with one write: the records and ``timeout_ms`` of each.

        ``topic_id`` is the id by which they named the topic, if they did.

        Returns for each the result that ``append`` would have, or its future.
        """
        if required_acks not in VALID_ACKS:
            return [self._invalid_acks(topic_partition) for _ in each]
        try:
            partition = self._checked(topic_partition, internal_topics_allowed=False)
            if topic_id != NO_UUID:
                _check_topic_id(partition, topic_id)
            leader_since = partition.leader_since
            infos, moved = partition.append_each_as_leader([records for records, _ in each], required_acks)
        except Exception as error:  # noqa: BLE001 a partition's failure is a value
            return [self._failed(topic_partition, error, len(records)) for records, _ in each]
        results: list[PartitionResult | PendingResults] = []
        appended: list[tuple[Partition, PartitionResult]] = []
        waiting: list[tuple[int, PartitionResult]] = []
        for index, (info, (records, _)) in enumerate(zip(infos, each, strict=True)):
            size_bytes = len(records)
            if isinstance(info, Exception):
                results.append(self._failed(topic_partition, info, size_bytes))
                continue
            result = PartitionResult(0, info=info, size_bytes=size_bytes)
            results.append(result)
            appended.append((partition, result))
            if required_acks == ACKS_ALL and not partition.has_committed(info.last_offset, leader_since):
                result.wait_for(info.last_offset + 1, leader_since)
                waiting.append((index, result))
        if appended:
            self._appended(appended, moved)
        for index, result in waiting:
            operation = DelayedProduce(each[index][1], self._partitions, {topic_partition: result})
            self._purgatories.produce.try_complete_else_watch(operation, operation.pending)
            results[index] = operation.future
        return results

    def _checked(self, topic_partition: TopicPartition, internal_topics_allowed: bool) -> Partition:
        """Return a partition that accepts appends; raises InvalidTopicError, the errors of ``PartitionTable.get_or_raise``."""
        if topic_partition[0] in INTERNAL_TOPICS and not internal_topics_allowed:
            self._partitions.ensure_known(topic_partition)
            raise InvalidTopicError(f"Cannot append to internal topic {topic_partition[0]}")
        return self._partitions.get_or_raise(topic_partition)

    def _appended(self, appended: list[tuple[Partition, PartitionResult]], has_moved: bool) -> None:
        """Count the appends of a request, and complete requests that wait for their partitions.

        ``has_moved``: whether a high watermark moved.
        """
        last = appended[0][0]
        changed = [last.topic_partition]
        requests = size_bytes = records = 0
        for partition, result in appended:
            if partition is not last:
                changed.append(partition.topic_partition)
                if partition.stats is not last.stats:
                    self._stats.count_appends(last.stats, requests, size_bytes, records)
                    requests = size_bytes = records = 0
                last = partition
            requests += 1
            size_bytes += result.size_bytes
            records += result.record_count
        self._stats.count_appends(last.stats, requests, size_bytes, records)
        if has_moved:
            self._purgatories.check_all(*changed)
        else:
            self._purgatories.check_fetches(*changed)  # followers wait for the log end offset

    def _invalid_acks(self, topic_partition: TopicPartition) -> PartitionResult:
        # As in Kafka, a partition that does not exist is reported first.
        try:
            self._partitions.ensure_known(topic_partition)
        except UnknownTopicOrPartitionError as error:
            return PartitionResult(error.code)
        return PartitionResult(ErrorCode.INVALID_REQUIRED_ACKS)

    def _count_invalid(self, error: Exception) -> None:
        everything = self._stats.all_topics
        if isinstance(error, RecordValidationError) and error.keyless:
            everything.mark(NO_KEY_COMPACTED_TOPIC, error.keyless)
        elif isinstance(error, InvalidMagicError):
            everything.mark(INVALID_MAGIC_NUMBER, 1)
        elif isinstance(error, InvalidChecksumError):
            everything.mark(INVALID_MESSAGE_CRC, 1)
        elif isinstance(error, InvalidOffsetOrSequenceError):
            everything.mark(INVALID_OFFSET_OR_SEQUENCE, 1)

    def _failed(self, topic_partition: TopicPartition, error: Exception, size_bytes: int) -> PartitionResult:
        topic = topic_partition.topic
        self._stats.mark(topic, PRODUCE_REQUESTS, 1)
        if isinstance(error, OSError):
            _log.error("Cannot append to {partition}: {error}", partition=topic_partition, error=error)
            return PartitionResult(ErrorCode.KAFKA_STORAGE_ERROR)
        if isinstance(error, RecordTooLargeError | RecordBatchTooLargeError):
            self._stats.mark(topic, BYTES_REJECTED, size_bytes)
        self._count_invalid(error)
        if isinstance(error, _EXPECTED):
            return PartitionResult(error.code)
        self._stats.mark(topic, FAILED_PRODUCES, 1)
        partition = self._partitions.get(topic_partition)
        log_start_offset = -1 if partition is None else partition.log.log_start_offset
        if not isinstance(error, KafkaError):
            _log.failure("Cannot append to {partition}", Failure(error), partition=topic_partition)  # type: ignore[no-untyped-call]
            return PartitionResult(ErrorCode.UNKNOWN_SERVER_ERROR, log_start_offset)
        _log.info("Refused to append to {partition}: {error}", partition=topic_partition, error=error)
        result = PartitionResult(error.code, log_start_offset)
        record_errors = getattr(error, "record_errors", None)
        if record_errors is not None:
            result.record_errors = record_errors
            result.error_message = str(error)
        return result


def _check_topic_id(partition: Partition, topic_id: bytes) -> None:
    """Raise UnknownTopicIdError if the partition is another topic's, of the same name."""
    if partition.topic_id not in (topic_id, NO_UUID):
        raise UnknownTopicIdError(f"{partition.topic_partition} is not of the topic with this id")
