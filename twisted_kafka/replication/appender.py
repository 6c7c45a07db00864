"""Producing: appends to the leaders' logs, answered at once or when the in-sync replicas have them."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Final, TypeVar

from twisted.logger import Logger

from twisted_kafka.log.results import LogAppendInfo
from twisted_kafka.log.validation.log_validator import AppendOrigin
from twisted_kafka.log.validation.types import (
    InvalidChecksumError,
    InvalidMagicError,
    InvalidOffsetOrSequenceError,
    RecordValidationError,
)
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
    UnknownTopicOrPartitionError,
)
from twisted_kafka.protocol.regions import Buffer
from twisted_kafka.protocol.topic_partition import GROUP_METADATA_TOPIC, SHARE_TOPIC, TRANSACTION_TOPIC, TopicPartition
from twisted_kafka.replication.append_result import PartitionResult
from twisted_kafka.replication.delayed_produce import DelayedProduce
from twisted_kafka.replication.partition import ACKS_ALL, Partition
from twisted_kafka.replication.partition_table import PartitionTable
from twisted_kafka.replication.produce_meters import ProduceMeters
from twisted_kafka.replication.purgatories import Purgatories
from twisted_kafka.replication.topic_stats import BrokerTopicStats

_CLIENT: Final = AppendOrigin.CLIENT

INTERNAL_TOPICS: Final = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_TOPIC, SHARE_TOPIC})
"""What clients may not write to (Kafka: Topic.isInternal)."""
VALID_ACKS: Final = (-1, 0, 1)

Response = TypeVar("Response")

# What a client does about by itself is no failure of the broker (Kafka counts and logs the others).
_EXPECTED = (
    UnknownTopicOrPartitionError,
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

    __slots__ = ("_all_topics", "_partitions", "_purgatories", "_stats")

    def __init__(self, partitions: PartitionTable, purgatories: Purgatories, stats: BrokerTopicStats) -> None:
        self._partitions = partitions
        self._purgatories = purgatories
        self._stats = stats
        self._all_topics = stats.all_topics

    def append(
        self,
        timeout_ms: int,
        required_acks: int,
        entries: Mapping[TopicPartition, Buffer],
        origin: AppendOrigin,
        internal_topics_allowed: bool,
        respond: Callable[[dict[TopicPartition, PartitionResult]], Response],
    ) -> "Response | Future[Response]":
        """Append; return ``respond(results)``, or a future of it if acks=all has replicas to wait for, at most ``timeout_ms``.

        Operations that wait for these partitions are completed on this thread: the caller holds no lock that they need.
        """
        if required_acks not in VALID_ACKS:
            return respond({tp: PartitionResult(ErrorCode.INVALID_REQUIRED_ACKS) for tp in entries})
        results: dict[TopicPartition, PartitionResult] = {}
        waiting: dict[TopicPartition, int] | None = None
        find = self._partitions.get
        for topic_partition, records in entries.items():
            try:
                partition = find(topic_partition)
                if topic_partition[0] in INTERNAL_TOPICS and not internal_topics_allowed:
                    self._partitions.ensure_known(topic_partition)
                    raise InvalidTopicError(f"Cannot append to internal topic {topic_partition[0]}")
                if partition is None:
                    partition = self._partitions.get_or_raise(topic_partition)
                info, moved = partition.append_as_leader(records, origin, required_acks)
            except Exception as error:  # noqa: BLE001 one partition's failure is its own
                results[topic_partition] = self._failed(topic_partition, error, len(records))
                continue
            results[topic_partition] = PartitionResult.appended(info)
            self._appended(partition, len(records), info.record_count, moved)
            if required_acks == ACKS_ALL and partition.log.high_watermark <= info.last_offset:
                if waiting is None:
                    waiting = {}
                waiting[topic_partition] = info.last_offset + 1
        if waiting is None:
            return respond(results)
        operation = DelayedProduce(timeout_ms, self._partitions, results, waiting, respond)
        self._purgatories.produce.try_complete_else_watch(operation, list(waiting))
        return operation.future

    def append_one(
        self,
        timeout_ms: int,
        required_acks: int,
        topic_partition: TopicPartition,
        records: Buffer,
        respond: Callable[[dict[TopicPartition, PartitionResult]], Response],
    ) -> "LogAppendInfo | PartitionResult | Future[Response] | None":
        """Append a client's batch to one partition as ``append`` does: return what it came to, or a future of ``respond``'s answer.

        None, and nothing is done, when the partition is not here, its topic is internal or the acks are none of those. A
        PartitionResult is a failure.
        """
        partition = self._partitions.get(topic_partition)
        if partition is None or topic_partition[0] in INTERNAL_TOPICS or required_acks not in VALID_ACKS:
            return None
        try:
            info, moved = partition.append_as_leader(records, _CLIENT, required_acks)
        except Exception as error:  # noqa: BLE001 it is answered
            return self._failed(topic_partition, error, len(records))
        self._appended(partition, len(records), info.record_count, moved)
        if required_acks == ACKS_ALL and partition.log.high_watermark <= info.last_offset:
            results = {topic_partition: PartitionResult.appended(info)}
            waiting = {topic_partition: info.last_offset + 1}
            operation = DelayedProduce(timeout_ms, self._partitions, results, waiting, respond)
            self._purgatories.produce.try_complete_else_watch(operation, [topic_partition])
            return operation.future
        return info

    def _appended(self, partition: Partition, size_bytes: int, records: int, moved: bool) -> None:
        """Count it, and look at what waits for the partition."""
        meters = partition.produce_meters
        if meters is None:
            meters = partition.produce_meters = ProduceMeters(partition.stats, self._all_topics)
        meters.mark(size_bytes, records)
        if moved:
            self._purgatories.check_all(partition.topic_partition)
        else:
            self._purgatories.fetch.check_and_complete(partition.topic_partition)  # followers wait for the log's end

    def _count_invalid(self, error: Exception) -> None:
        everything = self._all_topics
        if isinstance(error, RecordValidationError) and error.keyless:
            everything.no_key_compacted_topic.mark(error.keyless)
        elif isinstance(error, InvalidMagicError):
            everything.invalid_magic_number.mark(1)
        elif isinstance(error, InvalidChecksumError):
            everything.invalid_message_crc.mark(1)
        elif isinstance(error, InvalidOffsetOrSequenceError):
            everything.invalid_offset_or_sequence.mark(1)

    def _failed(self, topic_partition: TopicPartition, error: Exception, size_bytes: int) -> PartitionResult:
        topic, everything = self._stats.topic(topic_partition.topic), self._all_topics
        topic.produce_requests.mark(1)
        everything.produce_requests.mark(1)
        if isinstance(error, OSError):
            _log.error("Cannot append to {partition}: {error}", partition=topic_partition, error=error)
            return PartitionResult(ErrorCode.KAFKA_STORAGE_ERROR)
        if isinstance(error, RecordTooLargeError | RecordBatchTooLargeError):
            topic.bytes_rejected.mark(size_bytes)
            everything.bytes_rejected.mark(size_bytes)
        self._count_invalid(error)
        if isinstance(error, _EXPECTED):
            return PartitionResult(error.code)
        topic.failed_produces.mark(1)
        everything.failed_produces.mark(1)
        partition = self._partitions.get(topic_partition)
        log_start_offset = -1 if partition is None else partition.log.log_start_offset
        if not isinstance(error, KafkaError):
            _log.failure("Cannot append to {partition}", partition=topic_partition)
            return PartitionResult(ErrorCode.UNKNOWN_SERVER_ERROR, log_start_offset)
        _log.info("Refused to append to {partition}: {error}", partition=topic_partition, error=error)
        result = PartitionResult(error.code, log_start_offset)
        record_errors = getattr(error, "record_errors", None)
        if record_errors is not None:
            result.record_errors = record_errors
            result.error_message = str(error)
        return result
