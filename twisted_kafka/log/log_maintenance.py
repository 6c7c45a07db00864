"""Maintenance of a log: truncation, retention, compaction, config changes, closing, deletion."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from twisted_kafka.config.topic_config import LogConfig
from twisted_kafka.log.files import FUTURE_DIRECTORY_SUFFIX, SWAP_SUFFIX, remove_if_there, sync_directory
from twisted_kafka.log.loading.log_loader import LoadedLog, reload_producers
from twisted_kafka.log.log_state import LogState
from twisted_kafka.log.partition_metadata import write_topic_id
from twisted_kafka.log.read_limits import make_limits
from twisted_kafka.log.results import LogOffsetMetadata
from twisted_kafka.log.segment.log_segment import LogSegment
from twisted_kafka.log.segment.log_segments import LogSegments
from twisted_kafka.protocol.errors import InconsistentTopicIdError


class LogMaintenance(LogState):
    """The maintenance operations of a log; each takes the lock."""

    # Truncation.

    def truncate_to(self, offset: int) -> bool:
        """Remove all batches with ``offset`` or higher ones; returns whether there were any.

        Leader epochs that begin there or later go in any case: a leader that appended nothing has one at the end (KIP-101).
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
                    if self._is_closed or not self._is_breaching(segment):
                        return []
                    if segment is self._active:
                        self._roll(self.log_end_offset)
                        sync_directory(self.dir)  # only the new segment's name still holds the log's end
                    paths = self._remove_first(segment)
                sync_directory(self.dir)  # appends go on meanwhile
            except OSError as error:
                raise self._storage_error("delete segments of", error) from error
        return paths

    def _is_breaching(self, oldest: LogSegment) -> bool:
        config = self.config
        following = self.segments.after(oldest)
        is_last = following is None
        end = self.log_end_offset if following is None else following.base_offset
        if end > self.high_watermark or (is_last and not oldest.size_bytes):
            return False
        if not is_last and end <= self.log_start_offset:
            return True
        if "delete" not in config.cleanup_policy:
            return False
        if 0 <= config.retention_bytes <= self.size_bytes - oldest.size_bytes:
            return True
        return config.retention_ms >= 0 and oldest.largest_timestamp_ms() < self._clock.wall_ms() - config.retention_ms

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
                self._install_segments(LogSegments(present), {segment.base_offset for segment in old})
                for segment in old[1:]:
                    self._snapshots.remove(segment.base_offset)
        except OSError as error:
            raise self._half_done("replace segments of", error) from error
        self._remove_later(doomed)
        return True

    def _install_segments(self, segments: LogSegments, base_offsets: set[int]) -> None:
        """Use ``segments`` from now on, and drop positions of limits that are in the replaced segments."""
        end, mark, _, start, _, unstable = self.limits
        if end.segment_base_offset in base_offsets:
            end = LogOffsetMetadata(end.message_offset, self._active.base_offset, self._active.size_bytes)
        if mark.segment_base_offset in base_offsets:
            mark = LogOffsetMetadata(mark.message_offset)
        if unstable is not None and unstable.segment_base_offset in base_offsets:
            unstable = LogOffsetMetadata(unstable.message_offset)
        self.limits = make_limits(end, mark, start, segments, unstable)

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
            return self.producer_state.remove_expired(now_ms, self._environment.producer_expiration_ms)

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
            os.rename(self.dir, directory)
            self.dir = directory
            self.is_future = directory.name.endswith(FUTURE_DIRECTORY_SUFFIX)
            self._snapshots.directory = directory
            self.leader_epochs.path = directory / self.leader_epochs.path.name
            for segment in self.segments:
                segment.move_to(directory)

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
            for segment in self.segments:
                segment.release_file()

    def delete(self) -> None:
        """Delete the directory with all files; raises OSError."""
        self.close_handles()
        _remove_files(list(self.dir.iterdir()))
        self.dir.rmdir()


def _remove_files(paths: Iterable[Path]) -> None:
    for path in paths:
        remove_if_there(path)
