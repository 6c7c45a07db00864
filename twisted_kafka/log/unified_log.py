"""UnifiedLog: one partition's log."""

import errno
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import cast

from twisted.logger import Logger
from typing_extensions import override

from twisted_kafka.config.topic_config import LogConfig
from twisted_kafka.log.batch_headers import BatchLike
from twisted_kafka.log.environment import LogEnvironment
from twisted_kafka.log.files import FUTURE_DIRECTORY_SUFFIX, SWAP_SUFFIX, remove_if_there, sync_directory, sync_file
from twisted_kafka.log.loading.log_loader import (
    CLEAN_STOP,
    UNKNOWN_STOP,
    LastStop,
    LoadedLog,
    LogLoader,
    SegmentListener,
    ignore_progress,
    reload_producers,
)
from twisted_kafka.log.partition_metadata import PARTITION_METADATA, read_topic_id, write_topic_id
from twisted_kafka.log.producer_state.producer_state_manager import (
    NO_PRODUCER_ID,
    ProducerBatch,
    ProducerEntry,
    VerificationGuard,
)
from twisted_kafka.log.read_limits import ReadLimits, exceeds_retention, make_limits, read_limits_of, with_segments
from twisted_kafka.log.results import (
    UNKNOWN_POSITION,
    AbortedTransaction,
    EpochEndOffset,
    FetchDataInfo,
    FetchIsolation,
    LogAppendInfo,
    LogOffsetMetadata,
    TimestampAndOffset,
    info_of_batch,
    log_offset_metadata_of,
)
from twisted_kafka.log.segment.log_segment import MAX_RELATIVE_OFFSET, LogSegment
from twisted_kafka.log.segment.log_segments import LogSegments
from twisted_kafka.log.timestamps import find_max_timestamp, find_timestamp
from twisted_kafka.log.validation.log_validator import (
    AppendOrigin,
    BatchInfo,
    ValidationContext,
    check_replicated,
    validate_and_assign_offsets,
)
from twisted_kafka.log.validation.usual_batch import usual_header
from twisted_kafka.protocol.errors import (
    CorruptRecordError,
    InconsistentTopicIdError,
    KafkaError,
    KafkaStorageError,
    OffsetOutOfRangeError,
    RecordBatchTooLargeError,
)
from twisted_kafka.protocol.records.layout import HEADER_SIZE, INT64, PREFIX, PRODUCER_ID_AT
from twisted_kafka.protocol.regions import Buffer, FileRegion
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.system import machine
from twisted_kafka.system.buffers import join
from twisted_kafka.system.files.file_io import ShortFileError
from twisted_kafka.system.files.names import rename

MAX_JOINED_BYTES = 1 << 20
"""Joined batches with this many bytes take no further batch: joining copies them."""


_HIGH_WATERMARK = int(FetchIsolation.HIGH_WATERMARK)
_TXN_COMMITTED = int(FetchIsolation.TXN_COMMITTED)

_log = Logger()


class UnifiedLog:
    """The records of one partition, in the directory ``dir``. Use ``open`` or ``create`` to get one.

    Changes take the log's lock. Reads do not: they use ``limits``, an immutable value that each change replaces. After an I/O error
    methods call the environment's ``on_storage_failure``, and raise KafkaStorageError.
    """

    def __init__(
        self, directory: Path, topic_partition: TopicPartition, loaded: LoadedLog, config: LogConfig, environment: LogEnvironment
    ) -> None:
        self.dir = directory
        self.parent = directory.parent
        self.is_future = directory.name.endswith(FUTURE_DIRECTORY_SUFFIX)
        """Whether this is the future log of a replica that is being moved to another log directory (KIP-113)."""
        self.topic_partition = topic_partition
        self.config = config
        self.topic_id: bytes | None = None
        self._has_new_topic_id = False
        self.recovery_point = loaded.recovery_point
        self.last_flush_ms = environment.clock.wall_ms()
        self.producer_state = loaded.producers
        self.leader_epochs = loaded.epochs
        self._environment = environment
        self._clock = environment.clock
        self._snapshots = loaded.snapshots
        self._active = loaded.segments.active
        start = loaded.log_start_offset
        self.limits = make_limits(
            LogOffsetMetadata(loaded.log_end_offset, self._active.base_offset, self._active.size_bytes),
            LogOffsetMetadata(start),
            start,
            loaded.segments,
            self._first_unstable(start),
        )
        """The limits of readers; replaced under the lock only."""
        self._lock = machine.Lock()
        self._flush_lock = machine.Lock()
        self._is_closed = False
        self._has_new_files = True
        """Whether files in the log's directory were created or removed and their names may not be durable."""
        self._has_new_name = True
        """Whether the name of this log's directory may not be durable yet."""
        self.truncations = 0
        """How often the log was truncated."""
        self.checkpointed_truncations = 0
        """How many of these truncations the checkpoints reflect: until they all do, the log may be below its offsets in them."""
        self._active.jitter_ms = self._draw_jitter_ms()

    @override
    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.topic_partition} {self.log_start_offset}..{self.log_end_offset}>"

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

    # Start and end.

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read."""
        return self.limits.log_start_offset

    @property
    def start_in_checkpoint(self) -> int:
        """The log start offset as it is in the checkpoint; 0 if the name of the first segment says it."""
        start = self.log_start_offset
        return start if start > self.segments.first.base_offset else 0

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record to be appended."""
        return self.limits.log_end.message_offset

    def active_producers(self) -> list[ProducerEntry]:
        """Return the state of the producers of this log."""
        with self._lock:
            return list(self.producer_state.producers.values())

    def start_verification(
        self, producer_id: int, producer_epoch: int, sequence: int, bumps_epoch: bool = False
    ) -> VerificationGuard | None:
        """Return the guard that ``append_as_leader`` needs to begin the producer's transaction here; None if it needs none.

        Call this before the request to the transaction coordinator: a marker after that invalidates the guard. With
        ``bumps_epoch``, which says that each of the producer's transactions has an epoch of its own, it raises
        InvalidProducerEpochError for a fenced producer.
        """
        with self._lock:
            return self.producer_state.start_verification(producer_id, producer_epoch, sequence, self._clock.wall_ms(), bumps_epoch)

    @property
    def high_watermark(self) -> int:
        """The offset up to which consumers may read."""
        return self.limits.high_watermark.message_offset

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which all transactions are complete; at most the high watermark."""
        return self.limits.last_stable.message_offset

    @property
    def size_bytes(self) -> int:
        """The size of all segments, without their indexes."""
        return self.limits.segments.size_bytes

    @property
    def segments(self) -> LogSegments:
        """The current segments."""
        return self.limits.segments

    @property
    def latest_epoch(self) -> int:
        """The latest leader epoch, -1 in a log without epochs."""
        return self.leader_epochs.latest_epoch

    def update_high_watermark(self, offset: int) -> int:
        """Set the high watermark, bounded by log start and log end offset; returns the result."""
        with self._lock:
            return self._set_high_watermark(offset)

    def _set_high_watermark(self, offset: int) -> int:
        end, _, _, start, segments, unstable = self.limits
        end_offset = end.message_offset
        if offset >= end_offset:
            offset, mark = end_offset, end
        else:
            offset = max(offset, start)
            mark = LogOffsetMetadata(offset)
        if unstable is None:
            self.limits = read_limits_of((end, mark, mark, start, segments, None))
        else:
            self.producer_state.on_high_watermark(offset)
            self.limits = make_limits(end, mark, start, segments, self._first_unstable(start, unstable))
        return offset

    def _set_limits(
        self,
        *,
        log_end: LogOffsetMetadata | None = None,
        high_watermark: LogOffsetMetadata | None = None,
        log_start_offset: int | None = None,
        segments: LogSegments | None = None,
    ) -> None:
        """Replace the given limits, and recompute the first unstable offset; under the lock."""
        old = self.limits
        start = old.log_start_offset if log_start_offset is None else log_start_offset
        self.limits = make_limits(
            log_end or old.log_end,
            high_watermark or old.high_watermark,
            start,
            segments or old.segments,
            self._first_unstable(start, old.first_unstable),
        )

    def _first_unstable(self, log_start_offset: int, known: LogOffsetMetadata | None = None) -> LogOffsetMetadata | None:
        """Return the first unstable offset of the producer state; ``known`` may have its position."""
        offset = self.producer_state.first_unstable_offset
        if offset is None:
            return None
        offset = max(offset, log_start_offset)
        return known if known is not None and known.message_offset == offset else LogOffsetMetadata(offset)

    def increment_log_start_offset(self, new_offset: int, reason: str = "") -> bool:
        """Raise the log start offset to ``new_offset``; returns whether it was raised.

        The caller writes the checkpoint; ``delete_old_segments`` removes the segments before the offset.
        Raises OffsetOutOfRangeError if the offset is above the high watermark.
        """
        with self._lock:
            mark = self.high_watermark
            if new_offset > mark:
                what = f" ({reason})" if reason else ""
                raise OffsetOutOfRangeError(
                    f"the log start offset of {self.topic_partition} cannot be {new_offset}: the high watermark is {mark}{what}"
                )
            if new_offset <= self.log_start_offset:
                return False
            self._set_log_start(new_offset)
            return True

    def _set_log_start(self, offset: int, segments: LogSegments | None = None) -> None:
        """Set the log start offset, which is not above the high watermark."""
        self._set_limits(log_start_offset=offset, segments=segments)
        try:
            self.leader_epochs.truncate_from_start(offset)
        except OSError as error:
            raise self._storage_error("write the leader epochs of", error) from error

    def assign_epoch_start_offset(self, epoch: int, offset: int) -> None:
        """Set the start offset of ``epoch``; a new leader sets it to its log end offset."""
        with self._lock:
            self._assign_epoch(epoch, offset)

    def _assign_epoch(self, epoch: int, offset: int) -> None:
        try:
            self.leader_epochs.assign(epoch, offset)
        except OSError as error:
            raise self._storage_error("write the leader epochs of", error) from error

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
            is_plain = origin is AppendOrigin.CLIENT and guard is None
            usual = self._append_usual(records, leader_epoch, is_alone) if is_plain else None
            if usual is not None:
                info = usual
            else:
                info = self._validate(records, self._validation(leader_epoch, origin), guard)
                if not info.batches:
                    return info
                if leader_epoch > self.leader_epochs.latest_epoch:
                    self._assign_epoch(leader_epoch, info.first_offset)
                self._append(info, is_alone)
        if info.last_offset + 1 - self.recovery_point >= self.config.flush_messages:
            self.flush()
        return info

    def _append_usual(self, records: Buffer, leader_epoch: int, is_alone: bool) -> LogAppendInfo | None:
        """Append a usual batch of a client with the outcome of ``_validate`` and ``_append``, in half the time.

        Returns None, and changes nothing, if anything about the batch or the log is special.
        """
        view = records if type(records) is memoryview else memoryview(records)
        config, active, state = self.config, self._active, self.producer_state
        if (
            leader_epoch > self.leader_epochs.latest_epoch
            or self.truncations != self.checkpointed_truncations
            or active.size_bytes + len(view) > config.segment_bytes
        ):
            return None
        header = usual_header(view, config, self._clock.wall_ms)
        if header is None:
            return None
        _, stated, _, _, _, flags, last_delta, _, max_ms, producer_id, epoch, sequence, count = header
        producer = None
        if producer_id >= 0 and (producer := state.expecting(producer_id, epoch, sequence, flags != 0)) is None:
            return None
        limits = self.limits
        offset = limits.log_end.message_offset
        last_offset = offset + last_delta
        if self._should_roll(active, max_ms, last_offset):
            return None
        if view.readonly:
            view = memoryview(bytearray(view))
        PREFIX.pack_into(view, 0, offset, stated, leader_epoch)
        try:
            active.append_batch(view, offset, last_offset, max_ms)
        except OSError as error:
            raise self._storage_error("append to", error) from error
        if producer is not None:
            producer.add(sequence + last_delta, last_offset, last_delta, max_ms)
        self._publish(last_offset + 1, is_alone, limits.first_unstable)
        return info_of_batch(count, len(view), offset, last_offset, max_ms, limits.log_start_offset)

    def append_each_as_leader(
        self, each: Sequence[Buffer], leader_epoch: int, *, is_alone: bool = False
    ) -> list[LogAppendInfo | Exception]:
        """Append the records of several clients, like ``append_as_leader`` for each in turn, but with one write.

        Returns the result or the exception of each. If the disk fails, all appends of that write fail.
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
            self.topic_partition,
            self.limits.log_end.message_offset,
            leader_epoch,
            clock.wall_ms(),
            origin,
            self.config,
            clock.monotonic_ns,
        )

    def _validate(self, records: Buffer, context: ValidationContext, guard: VerificationGuard | None) -> LogAppendInfo:
        """Return the append; without batches if the records are empty or a duplicate of the producer."""
        info = validate_and_assign_offsets(records, context)
        info.log_start_offset = self.limits.log_start_offset
        batches = info.batches
        if not batches:
            return info
        segment_bytes = self.config.segment_bytes
        if info.size_bytes > segment_bytes:
            raise RecordBatchTooLargeError(
                f"{info.size_bytes} bytes for {self.topic_partition} are larger than segment.bytes, {segment_bytes}"
            )
        batch = batches[0]
        if batch.producer_id != NO_PRODUCER_ID:  # then it is the only one
            if batch.is_control:
                self.producer_state.check_marker(batch, info.records, guard)
                return info
            duplicate = self.producer_state.check(batch, guard, is_client=context.origin is AppendOrigin.CLIENT)
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
        limits = self.limits
        unstable = limits.first_unstable
        if batches[0].producer_id != NO_PRODUCER_ID or len(batches) > 1:
            self._update_producers(records, batches, active)
            if self.producer_state.has_transactions:
                unstable = self._first_unstable(limits.log_start_offset, unstable)
        end_offset = last_offset + 1
        self._publish(end_offset, is_alone, unstable)
        return end_offset

    def _publish(self, end_offset: int, is_alone: bool, unstable: LogOffsetMetadata | None) -> None:
        """Let readers see the records before ``end_offset``. ``unstable`` is the first unstable offset, with the append."""
        _, mark, _, start, segments, _ = self.limits
        active = self._active
        end = log_offset_metadata_of((end_offset, active.base_offset, active.size_bytes))
        if is_alone:
            mark = end
            if unstable is not None:
                self.producer_state.on_high_watermark(end_offset)
                unstable = self._first_unstable(start, unstable)
        if unstable is None:
            self.limits = read_limits_of((end, mark, mark, start, segments, None))
        else:
            self.limits = make_limits(end, mark, start, segments, unstable)

    def _should_roll(self, active: LogSegment, max_timestamp_ms: int, last_offset: int) -> bool:
        if active.is_index_full or last_offset - active.base_offset > MAX_RELATIVE_OFFSET:
            return True
        if not active.size_bytes:
            return False
        first_ms = active.first_timestamp_ms
        if first_ms is None:
            try:
                first_ms = active.find_first_timestamp_ms()
            except OSError as error:
                raise self._storage_error("append to", error) from error
        age_ms = (
            max_timestamp_ms - first_ms if first_ms >= 0 and max_timestamp_ms >= 0 else self._clock.wall_ms() - active.created_ms
        )
        config = self.config
        if age_ms > config.max_compaction_lag_ms - active.jitter_ms and config.compact:
            return True  # so that it can be compacted in time
        return age_ms > config.segment_ms - active.jitter_ms

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

    # Rolling and flushing.

    def roll(self) -> None:
        """Roll a new segment; does nothing if the active one is empty."""
        with self._lock:
            if self._active.size_bytes:
                self._roll(self.log_end_offset)

    def _roll(self, base_offset: int) -> LogSegment:
        old = self._active
        kept = list(self.segments)
        is_kept = bool(old.size_bytes) and base_offset > old.base_offset
        try:
            active = self._new_segment(base_offset)
            try:
                if is_kept:
                    self._snapshots.write(base_offset, self.producer_state.producers.values())
                    old.seal()
                elif base_offset != old.base_offset:
                    old.remove()
            except OSError:
                # The old segment is unchanged and stays active.
                if base_offset != old.base_offset:
                    active.remove()
                raise
        except OSError as error:
            raise self._storage_error("roll", error) from error
        if not is_kept:
            # The old segment was empty and was replaced: the next offsets do not fit its base offset.
            kept.pop()
        self._active = active
        # The log end is in the new segment from now on: a position in the old one becomes wrong when that is compacted.
        end = LogOffsetMetadata(self.log_end_offset, active.base_offset, active.size_bytes)
        self._set_limits(log_end=end, segments=LogSegments([*kept, active]))
        self._environment.scheduler.schedule_once("flush-log", self._flush_rolled)
        return active

    def _new_segment(self, base_offset: int) -> LogSegment:
        config = self.config
        segment = LogSegment.create(
            self.dir,
            base_offset,
            max_index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            now_ms=self._clock.wall_ms(),
            reserve_bytes=config.segment_bytes if config.preallocate else 0,
        )
        self._has_new_files = True
        segment.jitter_ms = self._draw_jitter_ms()
        return segment

    def _draw_jitter_ms(self) -> int:
        longest_ms = min(self.config.segment_jitter_ms, self.config.segment_ms)
        return machine.chance.randrange(longest_ms) if longest_ms > 0 else 0

    def flush(self) -> None:
        """Make all records appended so far durable, and raise the recovery point to the log end offset."""
        self._flush(self.log_end_offset)

    def flush_before(self, offset: int) -> None:
        """Make all records before ``offset`` durable."""
        self._flush(offset)

    def _flush_rolled(self) -> None:
        self._flush(self._active.base_offset)

    def _flush(self, target: int) -> None:
        with self._flush_lock:
            began_ns = self._clock.monotonic_ns()
            try:
                has_new_names = self._sync_topic_id()
                with self._lock:
                    # The log may have been truncated before the flush: records that are appended during it are not flushed.
                    target = min(target, self.log_end_offset)
                    unflushed = self._begin_flush(target)
                    if unflushed:
                        has_new_names |= self._has_new_files
                        self._has_new_files = False
                for segment in unflushed:
                    has_new_names |= segment.sync()
                if unflushed:
                    has_new_names |= self.leader_epochs.sync()
                    has_new_names |= self._snapshots.sync()
                if has_new_names:
                    sync_directory(self.dir)
                if not unflushed:
                    return
                if self._has_new_name:
                    self._environment.sync_names(self.parent)
                    self._has_new_name = False
            except OSError as error:
                # The directory may stay online, as after a lack of file descriptors: the next flush must repeat everything.
                self._has_new_files = True
                raise self._storage_error("flush", error) from error
            with self._lock:
                self.recovery_point = max(self.recovery_point, target)
                self.last_flush_ms = self._clock.wall_ms()
            self._environment.on_flush_ms((self._clock.monotonic_ns() - began_ns) / 1e6)

    def _begin_flush(self, target: int) -> list[LogSegment]:
        """Write pending index entries; return the segments with unflushed records before ``target``."""
        if target <= self.recovery_point or self._is_closed:
            return []
        self._active.write_indexes()
        return [segment for segment in self.segments.since(self.recovery_point) if segment.base_offset < target]

    def _sync_topic_id(self) -> bool:
        if not self._has_new_topic_id or self._is_closed:
            return False
        sync_file(self.dir / PARTITION_METADATA)
        self._has_new_topic_id = False
        return True

    def _checkpoint_truncation(self) -> None:
        """Lower the checkpoints before records are appended; raises KafkaStorageError."""
        if not self._environment.checkpoints.checkpoint_truncated(self):
            raise KafkaStorageError(f"cannot append to {self.topic_partition}: the checkpoints of {self.parent} cannot be written")
        self.checkpointed_truncations = self.truncations

    # Reading.

    def _located(self, limit: LogOffsetMetadata, limits: ReadLimits) -> LogOffsetMetadata:
        """Return one of the limits with its position, which is found on first use."""
        found = self.offset_metadata(limit.message_offset, limits)
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

        ``min_one_message``: the first batch is returned whole even if it is larger. ``limits`` replaces the current limits of
        readers; ``is_retry`` ends a repetition after a missing file. Raises OffsetOutOfRangeError, CorruptRecordError.
        """
        if limits is None:
            limits = self.limits
        end, mark, stable, log_start_offset, segments, _ = limits
        if start_offset < log_start_offset or start_offset > end.message_offset:
            raise OffsetOutOfRangeError(
                f"offset {start_offset} of {self.topic_partition} is out of range: the log has {log_start_offset} to "
                f"{end.message_offset}"
            )
        is_committed = isolation == _TXN_COMMITTED
        limit = stable if is_committed else mark if isolation == _HIGH_WATERMARK else end
        if limit.relative_position == UNKNOWN_POSITION:
            limit = self._located(limit, limits)
        limit_offset = limit.message_offset
        if start_offset >= limit_offset:
            at = limit if start_offset == limit_offset else self.offset_metadata(start_offset, limits)
            return FetchDataInfo(at, b"", False, [] if is_committed else None)
        try:
            return segments.read(start_offset, max_bytes, limit, min_one_message, is_committed)
        except OSError as error:
            # The segment's file may have been removed or renamed before it was opened.
            if self._segments_changed(segments):
                return self.read(start_offset, max_bytes, isolation, min_one_message)
            if isinstance(error, FileNotFoundError) and not is_retry:
                return self.read(start_offset, max_bytes, isolation, min_one_message, is_retry=True)
            raise self._read_error("read", error) from error

    def content(self, records: Buffer | FileRegion) -> Buffer:
        """Return the bytes that ``read`` found; raises KafkaStorageError, CorruptRecordError if a truncation removed them."""
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

    def aborted_transactions(self, fetch_offset: int, upper_bound: int) -> list[AbortedTransaction]:
        """Return the aborted transactions with records between ``fetch_offset`` and ``upper_bound``."""
        return self.segments.aborted_transactions(fetch_offset, upper_bound)

    def offset_metadata(self, offset: int, limits: ReadLimits | None = None) -> LogOffsetMetadata:
        """Return ``offset`` with its position; raises OffsetOutOfRangeError if the log does not have it."""
        if limits is None:
            limits = self.limits
        end = limits.log_end
        if offset == end.message_offset:
            return end
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

    # Truncation.

    def truncate_to(self, offset: int) -> bool:
        """Remove all batches with ``offset`` or higher ones; returns whether there were any.

        Leader epochs that begin there or later are removed even if there are no such batches: a leader that appended nothing has
        an epoch that begins at the end (KIP-101).
        """
        if offset >= self.log_end_offset:
            with self._lock:
                try:
                    self.leader_epochs.truncate_from_end(offset)
                except OSError as error:
                    raise self._storage_error("write the leader epochs of", error) from error
            return False
        if offset < self.segments.first.base_offset:
            self.truncate_fully_and_start_at(offset)
            return True
        with self._flush_lock, self._lock:
            try:
                self._truncate(offset)
            except OSError as error:
                raise self._half_done("truncate", error) from error
        self._environment.checkpoints.checkpoint_start(self)
        return True

    def _truncate(self, offset: int) -> None:
        # The first segment stays, if only empty: its name says where the log begins.
        kept = self.segments.starting_before(offset) or [self.segments.first]
        dropped = list(self.segments)[len(kept) :]
        self._active = kept[-1]
        self._set_limits(segments=LogSegments(kept))
        # Each durably, the last one first: neither a crash in between nor later appends may leave records after a gap.
        for segment in reversed(dropped):
            segment.remove_durably()
        end = self._active.truncate_to(offset)
        self.recovery_point = min(self.recovery_point, end)
        # The next flush syncs the directory: snapshots that are removed here must not come back behind its recovery point.
        self._has_new_files = True
        start = min(self.log_start_offset, end)
        self.leader_epochs.truncate_from_end(end)
        loaded = LoadedLog(self.segments, self.leader_epochs, self.producer_state, self._snapshots)
        loaded.log_start_offset = start
        reload_producers(loaded, end)
        new_end = LogOffsetMetadata(end, self._active.base_offset, self._active.size_bytes)
        mark = new_end if self.high_watermark >= end else None
        self.producer_state.on_high_watermark(min(self.high_watermark, end))
        self._set_limits(log_end=new_end, high_watermark=mark, log_start_offset=start)
        self.truncations += 1  # last: a checkpoint that counts this one has the new offsets

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Remove all records, and continue at ``offset``; the log start offset may be lower."""
        with self._flush_lock, self._lock:
            try:
                for segment in reversed(list(self.segments)):
                    segment.remove_durably()
                for snapshot in self._snapshots.offsets():
                    self._snapshots.remove(snapshot)
                self._active = self._new_segment(offset)
                self.leader_epochs.clear()
                sync_directory(self.dir)
            except OSError as error:
                raise self._half_done("truncate", error) from error
            self.producer_state.reset([], offset)
            end = LogOffsetMetadata(offset, offset, 0)
            start = offset if log_start_offset is None else log_start_offset
            self._set_limits(log_end=end, high_watermark=end, log_start_offset=start, segments=LogSegments([self._active]))
            self.recovery_point = offset
            self.truncations += 1

    def skip_to(self, offset: int) -> None:
        """Continue at ``offset``, beyond the end, with no records between: a compaction removed them."""
        with self._flush_lock, self._lock:
            if offset <= self.log_end_offset:
                return
            active = self._roll(offset)
            self._set_limits(log_end=LogOffsetMetadata(offset, active.base_offset, 0))

    # Retention.

    def delete_old_segments(self) -> int:
        """Delete the segments that exceed retention or are below the log start offset; returns how many.

        ``retention.ms`` and ``retention.bytes`` apply only if cleanup.policy includes delete. Records above the high watermark are
        kept. The oldest segment is deleted first, and each deletion is durable before the next: a power failure leaves no hole.
        """
        count = 0
        deleted: list[Path] = []
        try:
            while paths := self._delete_oldest_segment():
                deleted += paths
                count += 1
        finally:
            if deleted:
                self._remove_later(deleted)
        return count

    def _delete_oldest_segment(self) -> list[Path]:
        """Delete the oldest segment durably if it exceeds retention, and return its renamed files."""
        with self._flush_lock:
            try:
                with self._lock:
                    segment = self.segments.first
                    if self._is_closed or not exceeds_retention(self.limits, self.config, self._clock.wall_ms()):
                        return []
                    if segment is self._active:
                        self._roll(self.log_end_offset)
                        sync_directory(self.dir)  # only the new segment's name still holds the log's end
                    paths = self._remove_first(segment)
                sync_directory(self.dir)  # appends go on meanwhile
            except OSError as error:
                raise self._storage_error("delete segments of", error) from error
        return paths

    def _remove_first(self, segment: LogSegment) -> list[Path]:
        kept = LogSegments([each for each in self.segments if each is not segment])
        first = kept.first.base_offset
        self._set_log_start(max(self.log_start_offset, first), kept)
        self.recovery_point = max(self.recovery_point, first)
        paths = segment.mark_deleted()
        self._snapshots.remove(segment.base_offset)
        return paths

    def _remove_later(self, paths: Iterable[Path]) -> None:
        names = [path.name for path in paths]

        def remove() -> None:
            _remove_files([self.dir / name for name in names])  # the log may have moved

        self._environment.scheduler.schedule_once("delete-file", remove, self.config.file_delete_delay_ms)

    # Compaction.

    def replace_segments(self, cleaned: LogSegment, old: Sequence[LogSegment]) -> bool:
        """Replace segments by a compacted one, whose files end with ``.cleaned`` and have durable content.

        After a crash at any point, the next start finds either the old segments or the new one complete (Kafka:
        LocalLog.replaceSegments). Unsynced renames may be lost for some files only, so each step is synced before the next.
        Returns False, and does nothing, if the log no longer has all of the old segments.
        """
        try:
            for segment in old:
                segment.preload()
        except OSError as error:
            raise self._storage_error("replace segments of", error) from error
        try:
            with self._flush_lock, self._lock:
                present = list(self.segments)
                if self._is_closed or not all(segment in present for segment in old) or self._active in old:
                    return False
                cleaned.change_suffix(SWAP_SUFFIX)
                sync_directory(self.dir)
                doomed = [path for segment in old for path in segment.mark_deleted()]
                sync_directory(self.dir)
                cleaned.change_suffix("")
                at = present.index(old[0])
                present[at : at + len(old)] = [cleaned]
                replaced = {segment.base_offset for segment in old}
                self.limits = with_segments(self.limits, LogSegments(present), replaced)
                for segment in old[1:]:
                    self._snapshots.remove(segment.base_offset)
        except OSError as error:
            raise self._half_done("replace segments of", error) from error
        self._remove_later(doomed)
        return True

    def last_records_of_producers(self) -> dict[int, tuple[int, int]]:
        """Return the epoch and the last offset of each producer, by its id; the offset is -1 for a producer without batches."""
        with self._lock:
            return {
                entry.producer_id: (entry.epoch, entry.batches[-1].last_offset if entry.batches else -1)
                for entry in self.producer_state.producers.values()
            }

    def remove_expired_producers(self, now_ms: int) -> int:
        """Remove the state of producers that wrote nothing for ``producer.id.expiration.ms``; returns how many."""
        with self._lock:
            return self.producer_state.remove_expired(now_ms, self._environment.producers.expiration_ms)

    # Topic id and config.

    def assign_topic_id(self, topic_id: bytes) -> None:
        """Write the topic's id to partition.metadata; raises InconsistentTopicIdError if the log has another one."""
        if self.topic_id == topic_id:
            return
        if self.topic_id is not None:
            raise InconsistentTopicIdError(f"{self.topic_partition} has topic id {self.topic_id.hex()}, not {topic_id.hex()}")
        try:
            write_topic_id(self.dir, topic_id)
            self._has_new_topic_id = True
        except OSError as error:
            raise self._storage_error("write the topic id of", error) from error
        self.topic_id = topic_id

    def update_config(self, config: LogConfig) -> None:
        """Apply a new config."""
        with self._lock:
            self.config = config
            self._active.index_interval_bytes = config.index_interval_bytes

    # Closing.

    def move_to(self, directory: Path) -> None:
        """Rename the log's directory within its log directory; raises OSError."""
        with self._flush_lock, self._lock:
            rename(self.dir, directory, self._release_files)
            self.dir = directory
            self.is_future = directory.name.endswith(FUTURE_DIRECTORY_SUFFIX)
            self._snapshots.directory = directory
            self.leader_epochs.path = directory / self.leader_epochs.path.name
            for segment in self.segments:
                segment.move_to(directory)

    def _release_files(self) -> None:
        for segment in self.segments:
            segment.release_file()

    def write_out(self) -> None:
        """Write a producer snapshot and the index entries that are only in memory; they are not durable yet."""
        with self._lock:
            if self._is_closed:
                return
            try:
                self._write_snapshot()
                self._active.write_indexes(closing=True)
            except OSError as error:
                raise self._storage_error("write out", error) from error

    def flush_and_close(self) -> None:
        """Make everything durable and close the log, so that the next start does not have to recover it."""
        self.write_out()  # first, to be flushed with the rest
        self.flush()
        self.close()

    def _write_snapshot(self) -> None:
        if not self._is_closed and self.log_end_offset not in (0, self._snapshots.last_written):
            self._snapshots.write(self.log_end_offset, self.producer_state.producers.values())

    def close(self) -> None:
        """Write indexes and a producer snapshot durably. The log must be flushed first."""
        with self._flush_lock, self._lock:
            if self._is_closed:
                return
            try:
                self._write_snapshot()
                self._is_closed = True
                for segment in self.segments:
                    segment.close()
                if self._snapshots.sync():
                    sync_directory(self.dir)
            except OSError as error:
                raise self._storage_error("close", error) from error

    def close_handles(self) -> None:
        """Release the files and write nothing: the disk failed, or the log is being deleted."""
        with self._lock:
            self._is_closed = True
            self._release_files()

    def delete(self) -> None:
        """Delete the directory with all files; raises OSError."""
        self.close_handles()
        _remove_files(list(self.dir.iterdir()))
        self.dir.rmdir()

    # Errors.

    def _ensure_open(self) -> None:
        if self._is_closed:
            raise KafkaStorageError(f"the log of {self.topic_partition} in {self.dir} is closed")

    def _segments_changed(self, segments: LogSegments) -> bool:
        """Return whether the log's segments have changed, after waiting for a change in progress."""
        with self._lock:
            return segments is not self.limits.segments

    def _half_done(self, action: str, error: OSError) -> KafkaStorageError:
        """Return the error of an operation that left files and memory inconsistent: any such error takes the directory offline."""
        return self._storage_error(action, OSError(errno.EIO, f"half done after {error}"))

    def _storage_error(self, action: str, error: OSError) -> KafkaStorageError:
        if not self._is_closed:
            # An error of a closed or deleted log is not a failure of the disk.
            self._environment.on_storage_failure(self.parent, error)
        return KafkaStorageError(f"cannot {action} {self.topic_partition} in {self.dir}: {error}")


def _producer_of(records: Buffer) -> int:
    """Return the producer id of the first batch; NO_PRODUCER_ID if it is incomplete."""
    return INT64.unpack_from(records, PRODUCER_ID_AT)[0] if len(records) >= HEADER_SIZE else NO_PRODUCER_ID


def _joined(infos: list[LogAppendInfo]) -> LogAppendInfo:
    """Return one append with the batches of several."""
    if len(infos) == 1:
        return infos[0]
    batches: list[BatchLike] = []
    position = 0
    for info in infos:
        for batch in cast("Sequence[BatchInfo]", info.batches):  # quoted, so that the type is not built for each
            batch.position += position
        batches += info.batches
        position += info.size_bytes
    whole = LogAppendInfo(join([info.records for info in infos]), batches, sum([info.record_count for info in infos]))
    whole.max_timestamp_ms = max([info.max_timestamp_ms for info in infos])
    return whole


def _duplicate_info(batch: ProducerBatch, log_start_offset: int) -> LogAppendInfo:
    """Return the result of an append that repeats ``batch``."""
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


def _remove_files(paths: Iterable[Path]) -> None:
    for path in paths:
        remove_if_there(path)
