"""UnifiedLog: one partition's log."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from twisted.logger import Logger

from twisted_kafka.config.topic_config import LogConfig
from twisted_kafka.log.batch_headers import BatchLike
from twisted_kafka.log.environment import LogEnvironment
from twisted_kafka.log.files import remove_if_there, sync_directory
from twisted_kafka.log.loading.log_loader import CLEAN_STOP, UNKNOWN_STOP, LastStop, LogLoader, SegmentListener, ignore_progress
from twisted_kafka.log.log_maintenance import LogMaintenance
from twisted_kafka.log.partition_metadata import PARTITION_METADATA, read_topic_id
from twisted_kafka.log.producer_state.producer_state_manager import NO_PRODUCER_ID, ProducerBatch, VerificationGuard
from twisted_kafka.log.read_limits import ReadLimits, make_limits, read_limits_of
from twisted_kafka.log.results import (
    UNKNOWN_POSITION,
    AbortedTransaction,
    EpochEndOffset,
    FetchDataInfo,
    FetchIsolation,
    LogAppendInfo,
    LogOffsetMetadata,
    TimestampAndOffset,
    log_offset_metadata_of,
)
from twisted_kafka.log.segment.log_segment import MAX_RELATIVE_OFFSET, LogSegment
from twisted_kafka.log.segment.log_segments import LogSegments
from twisted_kafka.log.timestamps import find_max_timestamp, find_timestamp
from twisted_kafka.log.validation.follower_append import check_replicated
from twisted_kafka.log.validation.log_validator import AppendOrigin, BatchInfo, ValidationContext, validate_and_assign_offsets
from twisted_kafka.protocol.errors import (
    CorruptRecordError,
    KafkaError,
    KafkaStorageError,
    OffsetOutOfRangeError,
    RecordBatchTooLargeError,
)
from twisted_kafka.protocol.records.layout import HEADER_SIZE, INT64, PRODUCER_ID_AT
from twisted_kafka.protocol.regions import Buffer, FileRegion
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.system.buffers import join
from twisted_kafka.system.file_io import ShortFileError

MAX_JOINED_BYTES = 1 << 20
"""Joined batches with this many bytes take no further batch: joining copies them."""


_HIGH_WATERMARK = int(FetchIsolation.HIGH_WATERMARK)
_TXN_COMMITTED = int(FetchIsolation.TXN_COMMITTED)

_log = Logger()


class UnifiedLog(LogMaintenance):
    """The records of one partition, in ``dir``; created by ``open``.

    Appends take the log's lock, reads do not. After an I/O error methods call the environment's ``on_storage_failure``, and raise
    KafkaStorageError.
    """

    @classmethod
    def create(
        cls, directory: Path, topic_partition: TopicPartition, config: LogConfig, environment: LogEnvironment
    ) -> "UnifiedLog":
        """Create a log in ``directory``; one that exists already is opened. Raises OSError."""
        try:
            directory.mkdir()
        except FileExistsError:
            return cls.open(directory, topic_partition, config, environment, CLEAN_STOP)
        loaded = LogLoader(directory, topic_partition, config, environment).create()
        return cls(directory, topic_partition, loaded, config, environment)

    @classmethod
    def open(
        cls,
        directory: Path,
        topic_partition: TopicPartition,
        config: LogConfig,
        environment: LogEnvironment,
        last_stop: LastStop = UNKNOWN_STOP,
        on_segment: SegmentListener = ignore_progress,
    ) -> "UnifiedLog":
        """Open the log in ``directory``, which is created if missing; recovers it after an unclean shutdown.

        Raises OSError, and ValueError for a malformed partition.metadata after a clean shutdown.
        """
        loaded = LogLoader(directory, topic_partition, config, environment, on_segment).load(last_stop)
        log = cls(directory, topic_partition, loaded, config, environment)
        if last_stop.was_clean:
            log.topic_id = read_topic_id(directory)
        else:
            log.topic_id = _topic_id_left_in(directory)
            log._has_new_topic_id = log.topic_id is not None
        return log

    # Appending.

    def append_as_leader(
        self,
        records: Buffer,
        leader_epoch: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: VerificationGuard | None = None,
        *,
        is_alone: bool = False,
    ) -> LogAppendInfo:
        """Validate ``records``, assign offsets and append them; writable memory is patched in place.

        ``is_alone``: there is no other in-sync replica, so the high watermark advances to the end at once. ``guard`` comes from
        ``start_verification``, for records that begin a transaction.

        Raises the errors of the validation, RecordBatchTooLargeError, OutOfOrderSequenceError, InvalidProducerEpochError,
        InvalidTxnStateError. A duplicate from an idempotent producer is not appended: the result has the offsets of the original.
        """
        with self._lock:
            if self._is_closed:
                self._ensure_open()
            info = self._validate(records, self._validation(leader_epoch, origin), guard)
            if not info.batches:
                return info
            if leader_epoch > self.leader_epochs.latest_epoch:
                self._assign_epoch(leader_epoch, info.first_offset)
            end_offset = self._append(info, is_alone)
        if end_offset - self.recovery_point >= self.config.flush_messages:
            self.flush()
        return info

    def append_each_as_leader(
        self, each: Sequence[Buffer], leader_epoch: int, *, is_alone: bool = False
    ) -> list[LogAppendInfo | Exception]:
        """Append what several clients sent, as ``append_as_leader`` does one after the other, but written together.

        Returns for each what that would have returned or raised. If the disk fails, all that were to be written with one fail.
        """
        results: list[LogAppendInfo | Exception] = []
        while len(results) < len(each):
            with self._lock:
                results += self._append_first(each[len(results) :], leader_epoch, is_alone)
        if self.log_end_offset - self.recovery_point >= self.config.flush_messages:
            try:
                self.flush()
            except KafkaStorageError as error:
                return [error if isinstance(result, LogAppendInfo) else result for result in results]
        return results

    def _append_first(self, each: Sequence[Buffer], leader_epoch: int, is_alone: bool) -> list[LogAppendInfo | Exception]:
        """Write the first of them, at least one, together; return their results."""
        if self._is_closed:
            try:
                self._ensure_open()
            except KafkaStorageError as error:
                return [error] * len(each)
        results: list[LogAppendInfo | Exception] = []
        valid: list[LogAppendInfo] = []
        producers: set[int] = set()
        context = self._validation(leader_epoch, AppendOrigin.CLIENT)
        room = MAX_JOINED_BYTES
        for records in each:
            producer_id = _producer_of(records)
            # A batch is validated after those before it from the same producer were written.
            if producer_id in producers or room <= 0:
                break
            try:
                info = self._validate(records, context, None)
            except Exception as error:  # noqa: BLE001 one client's records do not fail those of the others
                results.append(error)
                continue
            results.append(info)
            if info.batches:
                valid.append(info)
                context.offset = info.last_offset + 1
                room -= info.size_bytes
                if producer_id != NO_PRODUCER_ID:
                    producers.add(producer_id)
        try:
            if valid and leader_epoch > self.leader_epochs.latest_epoch:
                self._assign_epoch(leader_epoch, valid[0].first_offset)
            while valid:
                count = self._count_joined(valid)
                self._append(_joined(valid[:count]), is_alone)
                del valid[:count]
        except Exception as error:  # noqa: BLE001 the earlier writes have succeeded
            return [error if result in valid else result for result in results]
        return results

    def _count_joined(self, infos: list[LogAppendInfo]) -> int:
        """Return how many of the appends, at least one, would go to the same segment as the first if made one by one.

        Returns 1 if the first one begins the segment: the age of the others counts from it.
        """
        active = self._active
        size = active.size_bytes
        if len(infos) == 1 or not size:
            return 1
        most = min(len(infos), active.index_room)
        for count in range(most):
            info = infos[count]
            size += info.size_bytes
            if size > self.config.segment_bytes or self._should_roll(active, info.max_timestamp_ms, info.last_offset):
                return max(count, 1)
        return max(most, 1)

    def _validation(self, leader_epoch: int, origin: AppendOrigin) -> ValidationContext:
        clock = self._clock
        return ValidationContext(
            self.topic_partition, self.limits[0][0], leader_epoch, clock.wall_ms(), origin, self.config, clock.monotonic_ns
        )

    def _validate(self, records: Buffer, context: ValidationContext, guard: VerificationGuard | None) -> LogAppendInfo:
        """Return the append; without batches if the records are empty or a duplicate of the producer."""
        info = validate_and_assign_offsets(records, context)
        info.log_start_offset = self.limits[3]
        batches = info.batches
        if not batches:
            return info
        segment_bytes = self.config.segment_bytes
        if info.size_bytes > segment_bytes:
            raise RecordBatchTooLargeError(
                f"{info.size_bytes} bytes for {self.topic_partition} are larger than segment.bytes, {segment_bytes}"
            )
        if batches[0].producer_id != NO_PRODUCER_ID:
            duplicate = self._check_producers(info, context.origin, guard)
            if duplicate is not None:
                return _duplicate_info(duplicate, info.log_start_offset)
        return info

    def append_as_follower(self, records: Buffer) -> LogAppendInfo:
        """Append batches from the leader, with its offsets and epochs; an incomplete batch at the end is left out.

        Raises CorruptRecordError for wrong CRCs, and for offsets below the log end or out of order.
        """
        with self._lock:
            self._ensure_open()
            batches = check_replicated(records, self.log_end_offset, self.topic_partition)
            size_bytes = batches[-1].position + batches[-1].size_bytes if batches else 0
            whole = records if len(records) == size_bytes else memoryview(records)[:size_bytes]
            info = LogAppendInfo(whole, batches, sum([max(batch.count, 1) for batch in batches]))
            info.log_start_offset = self.log_start_offset
            if not batches:
                return info
            info.max_timestamp_ms = max([batch.max_timestamp_ms for batch in batches])
            for batch in batches:
                if batch.leader_epoch > self.leader_epochs.latest_epoch:
                    self._assign_epoch(batch.leader_epoch, batch.base_offset)
            end_offset = self._append(info, False)
        if end_offset - self.recovery_point >= self.config.flush_messages:
            self.flush()
        return info

    def _append(self, info: LogAppendInfo, is_alone: bool) -> int:
        """Write the batches and make them visible to readers; returns the new log end offset."""
        records, batches, last_offset = info.records, info.batches, info.last_offset
        if self.truncations != self.checkpointed_truncations:
            self._checkpoint_truncation()
        active = self._active
        if active.size_bytes + info.size_bytes > self.config.segment_bytes or self._should_roll(
            active, info.max_timestamp_ms, last_offset
        ):
            # The base offset is the log end, even if a follower's batches leave a gap: recovery takes such a gap for a loss.
            end_offset = self.log_end_offset
            active = self._roll(end_offset if last_offset - end_offset <= MAX_RELATIVE_OFFSET else batches[0].base_offset)
        try:
            active.append(records, batches)
        except OSError as error:
            raise self._storage_error("append to", error) from error
        _, mark, _, start, segments, unstable = self.limits
        state = self.producer_state
        if batches[0].producer_id != NO_PRODUCER_ID or len(batches) > 1:
            self._update_producers(records, batches, active)
            if state.has_transactions:
                unstable = self._first_unstable(start, unstable)
        end = log_offset_metadata_of((last_offset + 1, active.base_offset, active.size_bytes))
        if is_alone:
            mark = end
            if unstable is not None:
                state.on_high_watermark(end[0])
                unstable = self._first_unstable(start, unstable)
        if unstable is None:
            self.limits = read_limits_of((end, mark, mark, start, segments, None))
        else:
            self.limits = make_limits(end, mark, start, segments, unstable)
        return end[0]

    def _should_roll(self, active: LogSegment, max_timestamp_ms: int, last_offset: int) -> bool:
        if active.is_index_full or last_offset - active.base_offset > MAX_RELATIVE_OFFSET:
            return True
        if not active.size_bytes:
            return False
        first_ms = active.first_timestamp_ms
        if first_ms is None:
            first_ms = active.find_first_timestamp_ms()
        age_ms = (
            max_timestamp_ms - first_ms if first_ms >= 0 and max_timestamp_ms >= 0 else self._clock.wall_ms() - active.created_ms
        )
        config = self.config
        if age_ms > config.max_compaction_lag_ms - active.jitter_ms and config.compact:
            return True  # so that it can be compacted in time
        return age_ms > config.segment_ms - active.jitter_ms

    def _check_producers(self, info: LogAppendInfo, origin: AppendOrigin, guard: VerificationGuard | None) -> ProducerBatch | None:
        state = self.producer_state
        for batch in info.batches:
            if batch.producer_id == NO_PRODUCER_ID:
                continue
            if batch.is_control:
                state.check_marker(batch, info.records, guard)
            elif (duplicate := state.check(batch, guard, is_client=origin == AppendOrigin.CLIENT)) is not None:
                return duplicate
        return None

    def _update_producers(self, records: Buffer, batches: Sequence[BatchLike], active: LogSegment) -> None:
        state = self.producer_state
        for batch in batches:
            if batch.producer_id == NO_PRODUCER_ID:
                continue
            aborted = state.update(batch, records)
            if aborted is not None:
                try:
                    active.transaction_index.append(aborted)
                except OSError as error:
                    # The marker is in the log and is valid: only the file lacks the entry. So report the failure, and do not raise.
                    self._storage_error("write the transaction index of", error)

    # Reading.

    def _located(self, limit: LogOffsetMetadata, limits: ReadLimits) -> LogOffsetMetadata:
        """Return one of the limits with its position, which is looked up on first use."""
        if limit[2] != UNKNOWN_POSITION:
            return limit
        found = self.offset_metadata(limit[0], limits)
        with self._lock:
            if self.limits is limits:
                end, mark, _, start, segments, unstable = limits
                if unstable is limit:
                    unstable = found
                else:
                    mark = found
                self.limits = make_limits(end, mark, start, segments, unstable)
        return found

    def read(
        self,
        start_offset: int,
        max_bytes: int,
        isolation: FetchIsolation = FetchIsolation.HIGH_WATERMARK,
        min_one_message: bool = True,
        limits: ReadLimits | None = None,
        *,
        is_retry: bool = False,
    ) -> FetchDataInfo:
        """Return batches from the one with ``start_offset`` on: at most ``max_bytes``, of one segment, up to the isolation's limit.

        ``min_one_message``: the first batch is returned whole even if it is larger. ``limits`` are those to read with, by default
        the current ones. Raises OffsetOutOfRangeError, CorruptRecordError.
        """
        if limits is None:
            limits = self.limits
        if start_offset < limits[3] or start_offset > limits[0][0]:
            raise OffsetOutOfRangeError(
                f"offset {start_offset} of {self.topic_partition} is out of range: the log has {limits[3]} to {limits[0][0]}"
            )
        limit = limits[2] if isolation == _TXN_COMMITTED else limits[1] if isolation == _HIGH_WATERMARK else limits[0]
        if limit[2] == UNKNOWN_POSITION:
            limit = self._located(limit, limits)
        if start_offset >= limit[0]:
            at = limit if start_offset == limit[0] else self.offset_metadata(start_offset, limits)
            return FetchDataInfo(at, b"", False, [] if isolation == _TXN_COMMITTED else None)
        segments = limits[4]
        try:
            return self._read(segments, start_offset, max_bytes, limit, min_one_message, isolation == _TXN_COMMITTED)
        except OSError as error:
            # The segment's file may have been removed or renamed before it was opened.
            if self._segments_changed(segments):
                return self.read(start_offset, max_bytes, isolation, min_one_message)
            if isinstance(error, FileNotFoundError) and not is_retry:
                return self.read(start_offset, max_bytes, isolation, min_one_message, is_retry=True)
            raise self._read_error("read", error) from error

    def content(self, records: Buffer | FileRegion) -> Buffer:
        """Return the bytes of what ``read`` found; raises KafkaStorageError, CorruptRecordError if they were cut off meanwhile."""
        if not isinstance(records, FileRegion):
            return records
        try:
            return records.read()
        except OSError as error:
            raise self._read_error("read", error) from error

    def _read_error(self, action: str, error: OSError) -> KafkaError:
        """Return the error for a reader. A file that is too short fails its readers only, an unreadable one its directory."""
        if isinstance(error, ShortFileError):
            return CorruptRecordError(f"cannot {action} {self.topic_partition} in {self.dir}: {error}")
        return self._storage_error(action, error)

    def _read(
        self,
        segments: LogSegments,
        start_offset: int,
        max_bytes: int,
        limit: LogOffsetMetadata,
        min_one_message: bool,
        with_aborted: bool,
    ) -> FetchDataInfo:
        aborted: list[AbortedTransaction] | None = [] if with_aborted else None
        segment: LogSegment | None = segments.floor(start_offset)
        while segment is not None:
            found = segment.locate(start_offset)
            if found is None:
                segment = segments.after(segment)
                continue
            _, position, batch_end, _ = found
            base = segment.base_offset
            if base > limit[1]:
                break
            end = segment.size_bytes
            if base == limit[1] and limit[2] < end:
                end = limit[2]
            available = end - position
            if available <= 0:
                break
            size = max_bytes if max_bytes < available else available
            incomplete = False
            if position + size < batch_end:
                if min_one_message:
                    size = min(batch_end - position, available)
                else:
                    incomplete = True
            at = log_offset_metadata_of((start_offset, base, position))
            if aborted is not None:
                after = segments.after(segment)
                upper = limit[0] if after is None else min(limit[0], after.base_offset)
                aborted = _aborted_between(segments, start_offset, upper)
            if size <= 0:
                return FetchDataInfo(at, b"", incomplete, aborted)
            records = FileRegion(segment.file, position, size)
            if position + size < segment.size_bytes or segment is not segments.active:
                records.load()  # here a slow disk stops one handler, and a network thread with all its connections otherwise
            return FetchDataInfo(at, records, incomplete, aborted)
        return FetchDataInfo(limit, b"", False, aborted)

    def aborted_transactions(self, fetch_offset: int, upper_bound: int) -> list[AbortedTransaction]:
        """Return the aborted transactions with records between ``fetch_offset`` and ``upper_bound``."""
        return _aborted_between(self.segments, fetch_offset, upper_bound)

    def offset_metadata(self, offset: int, limits: ReadLimits | None = None) -> LogOffsetMetadata:
        """Return ``offset`` with its position; raises OffsetOutOfRangeError if the log does not have it."""
        if limits is None:
            limits = self.limits
        if offset == limits[0][0]:
            return limits[0]
        return self.read(offset, 1, FetchIsolation.LOG_END, False, limits).fetch_offset

    def offset_for_timestamp(self, timestamp_ms: int) -> TimestampAndOffset | None:
        """Return the first record that is not older than ``timestamp_ms``, or None."""
        return self._search(lambda limits: find_timestamp(limits.segments, timestamp_ms, limits.log_start_offset))

    def max_timestamp_offset(self) -> TimestampAndOffset | None:
        """Return the first record with the largest timestamp, or None if the log is empty (KIP-734)."""
        return self._search(lambda limits: find_max_timestamp(limits.segments))

    def _search(
        self, search: Callable[[ReadLimits], TimestampAndOffset | None], *, is_retry: bool = False
    ) -> TimestampAndOffset | None:
        limits = self.limits
        try:
            return search(limits)
        except OSError as error:
            if self._segments_changed(limits.segments):
                return self._search(search)
            if isinstance(error, FileNotFoundError) and not is_retry:
                return self._search(search, is_retry=True)
            raise self._read_error("search", error) from error

    # Leader epochs.

    def end_offset_for_epoch(self, epoch: int) -> EpochEndOffset:
        """Return the largest known epoch up to ``epoch``, and its end offset; both are -1 if unknown."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    def epoch_for_offset(self, offset: int) -> int | None:
        """Return the leader epoch of ``offset``, or None."""
        return self.leader_epochs.epoch_for_offset(offset)


def _aborted_between(segments: LogSegments, fetch_offset: int, upper_bound: int) -> list[AbortedTransaction]:
    found = []
    for segment in segments.since(fetch_offset):
        entries, is_complete = segment.transaction_index.collect(fetch_offset, upper_bound)
        found += entries
        if is_complete:
            break
    return found


def _producer_of(records: Buffer) -> int:
    return INT64.unpack_from(records, PRODUCER_ID_AT)[0] if len(records) >= HEADER_SIZE else NO_PRODUCER_ID


def _joined(infos: list[LogAppendInfo]) -> LogAppendInfo:
    """Return one append of all of them."""
    if len(infos) == 1:
        return infos[0]
    batches: list[BatchLike] = []
    position = 0
    for info in infos:
        for batch in cast("Sequence[BatchInfo]", info.batches):  # quoted, so that the type is not built for each
            batch.position += position
        batches += info.batches
        position += info.size_bytes
    joined = LogAppendInfo(join([info.records for info in infos]), batches, sum([info.record_count for info in infos]))
    joined.max_timestamp_ms = max([info.max_timestamp_ms for info in infos])
    return joined


def _duplicate_info(batch: ProducerBatch, log_start_offset: int) -> LogAppendInfo:
    info = LogAppendInfo(b"", (), batch.offset_delta + 1)
    info.first_offset, info.last_offset = batch.first_offset, batch.last_offset
    info.max_timestamp_ms, info.log_start_offset = batch.timestamp_ms, log_start_offset
    info.log_append_time_ms = batch.timestamp_ms  # for any timestamp type, as in Kafka
    info.is_duplicate = True
    return info


def _topic_id_left_in(directory: Path) -> bytes | None:
    """Return the topic id after a crash. An incomplete file is removed: the id will be assigned again."""
    try:
        return read_topic_id(directory)
    except ValueError as error:
        _log.warn("Removing a malformed file after a crash: {error}", error=error)
        remove_if_there(directory / PARTITION_METADATA)
        sync_directory(directory)  # a start after a clean stop must not find it again
        return None
