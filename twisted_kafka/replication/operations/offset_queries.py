"""Questions about offsets, and deleting records by offset."""

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Final

from twisted.logger import Logger

from twisted_kafka.log.results import EpochEndOffset, TimestampAndOffset
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.protocol.errors import ErrorCode, InvalidTopicError, KafkaError, OffsetNotAvailableError
from twisted_kafka.protocol.topic_partition import INTERNAL_TOPICS, TopicPartition
from twisted_kafka.replication.operations.delayed_delete_records import DelayedDeleteRecords, DeleteRecordsResult
from twisted_kafka.replication.operations.purgatories import Purgatories
from twisted_kafka.replication.partition.fetch_data import CONSUMER_REPLICA_ID, DEBUGGING_REPLICA_ID
from twisted_kafka.replication.partition.partition import Partition
from twisted_kafka.replication.partition.partition_table import PartitionTable
from twisted_kafka.timing.clock import IClock

LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL_TIMESTAMP: Final = -4
LATEST_TIERED_TIMESTAMP: Final = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP: Final = -6
NO_TIMESTAMP: Final = -1
READ_COMMITTED: Final = 1

_log = Logger()


class OffsetQueries:
    """ListOffsets, OffsetForLeaderEpoch and DeleteRecords over the hosted partitions."""

    __slots__ = ("_clock", "_partitions", "_purgatories")

    def __init__(self, partitions: PartitionTable, purgatories: Purgatories, clock: IClock) -> None:
        self._partitions = partitions
        self._purgatories = purgatories
        self._clock = clock

    def list_offset(
        self, topic_partition: TopicPartition, timestamp: int, replica_id: int, isolation_level: int, current_leader_epoch: int
    ) -> TimestampAndOffset | None:
        """Find the offset for a timestamp or a special value (-1 to -6); None if no offset matches (KIP-79, 734, 405, 1023).

        A consumer sees up to the high watermark or the last stable offset, others to the log's end.
        Raises KafkaError of the partition's state, OffsetNotAvailableError (just elected: the high watermark may still go back).
        """
        partition = self._partitions.get_or_raise(topic_partition)
        log = partition.log_for(current_leader_epoch, leader_only=replica_id != DEBUGGING_REPLICA_ID)
        if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
            return TimestampAndOffset(NO_TIMESTAMP, log.log_start_offset, _earliest_epoch(log))
        if replica_id != CONSUMER_REPLICA_ID:
            end = log.log_end_offset
        else:
            end = log.last_stable_offset if isolation_level == READ_COMMITTED else log.high_watermark
        if timestamp == LATEST_TIMESTAMP:
            _ensure_settled(partition, replica_id)
            return TimestampAndOffset(NO_TIMESTAMP, end, partition.leader_epoch)
        if timestamp in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
            return TimestampAndOffset(NO_TIMESTAMP, -1, -1)  # there is no remote tier
        found = log.max_timestamp_offset() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
        if found is not None and found.offset < end:
            return found
        _ensure_settled(partition, replica_id)
        return None

    def list_offsets_before(
        self, topic_partition: TopicPartition, timestamp: int, max_num_offsets: int, replica_id: int
    ) -> list[int]:
        """Return the starts of segments that were last changed at ``timestamp`` or before, latest first (ListOffsets version 0)."""
        partition = self._partitions.get_or_raise(topic_partition)
        log = partition.log_for(-1, leader_only=replica_id != DEBUGGING_REPLICA_ID)
        candidates = _segment_offsets(log, self._clock.wall_ms())
        if timestamp == EARLIEST_TIMESTAMP:
            candidates = candidates[:1]
        elif timestamp != LATEST_TIMESTAMP:
            last = max((at for at, (_, changed_ms) in enumerate(candidates) if changed_ms <= timestamp), default=-1)
            candidates = candidates[: last + 1]
        offsets = sorted([offset for offset, _ in candidates], reverse=True)[: max(0, max_num_offsets)]
        high_watermark = log.high_watermark
        if replica_id == CONSUMER_REPLICA_ID and any(offset > high_watermark for offset in offsets):
            offsets = [high_watermark, *[offset for offset in offsets if offset <= high_watermark]]
        return offsets

    def end_offset_for_epoch(self, topic_partition: TopicPartition, current_leader_epoch: int, leader_epoch: int) -> EpochEndOffset:
        """Return where a leader epoch ended, (-1, -1) when unknown (KIP-101); raises KafkaError of the partition's state."""
        return self._partitions.get_or_raise(topic_partition).end_offset_for_epoch(current_leader_epoch, leader_epoch)

    def delete_records(
        self, timeout_ms: int, offsets: Mapping[TopicPartition, int], internal_topics_allowed: bool = False
    ) -> "dict[TopicPartition, DeleteRecordsResult] | Future[dict[TopicPartition, DeleteRecordsResult]]":
        """Delete the records before each offset; a future while replicas lag behind (KIP-107). Errors are values in the results.

        Only a coordinator may delete records of internal topics.
        """
        results = {}
        waiting = {}
        for topic_partition, offset in offsets.items():
            results[topic_partition], wanted = self._delete_locally(topic_partition, offset, internal_topics_allowed)
            if not results[topic_partition].error and results[topic_partition].low_watermark < wanted:
                waiting[topic_partition] = wanted
        if not waiting:
            return results
        operation = DelayedDeleteRecords(timeout_ms, self._partitions, results, waiting)
        self._purgatories.delete_records.try_complete_else_watch(operation, list(waiting))
        return operation.future

    def _delete_locally(
        self, topic_partition: TopicPartition, offset: int, internal_topics_allowed: bool
    ) -> tuple[DeleteRecordsResult, int]:
        try:
            if topic_partition.topic in INTERNAL_TOPICS and not internal_topics_allowed:
                self._partitions.ensure_known(topic_partition)
                raise InvalidTopicError(f"Cannot delete records of internal topic {topic_partition.topic}")
            wanted, low_watermark = self._partitions.get_or_raise(topic_partition).delete_records(offset)
            self._purgatories.watches.changed([topic_partition])  # followers delete what their leader has deleted
        except KafkaError as error:
            return DeleteRecordsResult(error.code), offset
        except OSError as error:
            _log.error("Cannot delete records of {partition}: {error}", partition=topic_partition, error=error)
            return DeleteRecordsResult(ErrorCode.KAFKA_STORAGE_ERROR), offset
        return DeleteRecordsResult(0, low_watermark), wanted


def _earliest_epoch(log: UnifiedLog) -> int:
    epoch = log.epoch_for_offset(log.log_start_offset)
    return -1 if epoch is None else epoch


def _ensure_settled(partition: Partition, replica_id: int) -> None:
    """Raise OffsetNotAvailableError while a new leader's high watermark is behind where its epoch began (KIP-207)."""
    if replica_id == CONSUMER_REPLICA_ID and partition.leader_epoch_start_offset > partition.log.high_watermark:
        raise OffsetNotAvailableError(
            f"the high watermark of {partition.topic_partition}, {partition.log.high_watermark}, has not reached "
            f"{partition.leader_epoch_start_offset}, where the leader epoch began"
        )


def _segment_offsets(log: UnifiedLog, now_ms: int) -> list[tuple[int, int]]:
    """Return (first offset, time of the last change) of each segment, and of the log's end when its last segment has data."""
    start = log.log_start_offset
    segments = log.segments
    found = [(max(segment.base_offset, start), segment.last_modified_ms()) for segment in segments]
    if segments.active.size_bytes > 0:
        found.append((log.log_end_offset, now_ms))
    return found
