"""The state of one partition's log: segments, start and end offsets, rolling and flushing.

Changes need the log's lock. Reads do not: they use the log's ``limits``, an immutable value that each change replaces.
"""

import errno
import random
import threading
from pathlib import Path

from typing_extensions import override

from twisted_kafka.config.topic_config import LogConfig
from twisted_kafka.log.environment import LogEnvironment
from twisted_kafka.log.files import FUTURE_DIRECTORY_SUFFIX, sync_directory, sync_file
from twisted_kafka.log.loading.log_loader import LoadedLog
from twisted_kafka.log.partition_metadata import PARTITION_METADATA
from twisted_kafka.log.producer_state.producer_state_manager import ProducerEntry, VerificationGuard
from twisted_kafka.log.read_limits import make_limits, read_limits_of
from twisted_kafka.log.results import LogOffsetMetadata
from twisted_kafka.log.segment.log_segment import LogSegment
from twisted_kafka.log.segment.log_segments import LogSegments
from twisted_kafka.protocol.errors import KafkaStorageError, OffsetOutOfRangeError
from twisted_kafka.protocol.topic_partition import TopicPartition


class LogState:
    """The base of ``LogMaintenance`` and ``UnifiedLog``."""

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
        self._lock = threading.Lock()
        self._flush_lock = threading.Lock()
        self._is_closed = False
        self._has_new_files = True
        """Whether files in the log's directory were created or removed and their names may not be durable."""
        self._has_new_name = True
        """Whether the name of this log's directory may not be durable yet."""
        self.truncations = self.checkpointed_truncations = 0
        """See TruncatedLog."""
        self._active.jitter_ms = self._draw_jitter_ms()

    @override
    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.topic_partition} {self.log_start_offset}..{self.log_end_offset}>"

    # Start and end.

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read."""
        return self.limits[3]

    @property
    def start_in_checkpoint(self) -> int:
        start = self.log_start_offset
        return start if start > self.segments.first.base_offset else 0

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record to be appended."""
        return self.limits[0][0]

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
        return self.limits[1][0]

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which all transactions are complete; at most the high watermark."""
        return self.limits[2][0]

    @property
    def size_bytes(self) -> int:
        """The size of all segments, without their indexes."""
        return sum([segment.size_bytes for segment in self.limits.segments])

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
        mark = LogOffsetMetadata(offset)
        end, _, _, start, segments, unstable = self.limits
        if mark[0] >= end[0]:
            mark = end
        elif mark[0] < start:
            mark = LogOffsetMetadata(start)
        if unstable is None:
            self.limits = read_limits_of((end, mark, mark, start, segments, None))
        else:
            self.producer_state.on_high_watermark(mark[0])
            self.limits = make_limits(end, mark, start, segments, self._first_unstable(start, unstable))
        return mark[0]

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
        return known if known is not None and known[0] == offset else LogOffsetMetadata(offset)

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
        return random.randrange(longest_ms) if longest_ms > 0 else 0

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
