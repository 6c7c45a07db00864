"""Opens a log's directory: quickly after a clean shutdown; after a crash, reading all segments from the recovery point on.

Recovery reads these segments batch by batch, checks every CRC, rebuilds the indexes, the producer state and the leader epochs, and
cuts the log at the first torn or corrupt batch; later segments are removed. A segment that overlaps its predecessor is removed with
all later ones. In a log that was never compacted this also applies to a segment that follows a gap: the unflushed end of its
predecessor was lost in a power failure.
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from twisted.logger import Logger

from twisted_kafka.config.topic_config import LogConfig
from twisted_kafka.log.batch_headers import crc_matches, scan_batches
from twisted_kafka.log.environment import LogEnvironment
from twisted_kafka.log.files import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    TEMPORARY_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    is_foreign,
    offset_of_name,
    sync_directory,
)
from twisted_kafka.log.leader_epoch import LeaderEpochCache
from twisted_kafka.log.loading.segment_overflow import OverflowedSegmentError, find_valid_end, split, split_closed
from twisted_kafka.log.loading.swap_files import complete_swaps
from twisted_kafka.log.producer_state.producer_snapshot import CorruptSnapshotError, SnapshotFiles
from twisted_kafka.log.producer_state.producer_state_manager import NO_PRODUCER_ID, ProducerStateManager
from twisted_kafka.log.segment.log_segment import LogSegment
from twisted_kafka.log.segment.log_segments import LogSegments
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.system.files.file_io import read_at
from twisted_kafka.system.files.names import remove

SegmentListener = Callable[[int, int], None]
"""Called during recovery with the number of segments left, and the size in bytes of the one that was read."""

_log = Logger()


def ignore_progress(remaining: int, size_bytes: int) -> None:
    pass  # the default listener


class LastStop(NamedTuple):
    """The state of a log at the broker's last shutdown: its offsets in the checkpoints, and whether the shutdown was clean."""

    recovery_point: int = 0
    """The offset up to which the log is flushed and valid."""
    log_start_offset: int = 0
    was_clean: bool = False
    was_compacted: bool = True
    """Whether offsets may be missing between segments."""


UNKNOWN_STOP = LastStop()
"""Nothing is known: the whole log is recovered."""
CLEAN_STOP = LastStop(was_clean=True)
"""Nothing needs recovery, as for a new log."""


class LoadedLog:
    """The content of a log's directory."""

    __slots__ = ("epochs", "log_end_offset", "log_start_offset", "producers", "recovery_point", "segments", "snapshots")

    def __init__(
        self, segments: LogSegments, epochs: LeaderEpochCache, producers: ProducerStateManager, snapshots: SnapshotFiles
    ) -> None:
        self.segments = segments
        self.epochs = epochs
        self.producers = producers
        self.snapshots = snapshots
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.recovery_point = 0


class LogLoader:
    """Loads one log."""

    def __init__(
        self,
        directory: Path,
        topic_partition: TopicPartition,
        config: LogConfig,
        environment: LogEnvironment,
        on_segment: SegmentListener = ignore_progress,
    ) -> None:
        self._directory = directory
        self._topic_partition = topic_partition
        self._config = config
        self._clock = environment.clock
        self._are_transactions_verified = environment.producers.are_transactions_verified
        self._on_segment = on_segment
        self._snapshots = SnapshotFiles(directory)
        self._damaged: list[LogSegment] = []
        self._may_have_gaps = True

    def create(self) -> LoadedLog:
        """Create the files of a new log in its empty directory; raises OSError."""
        return self._loaded([self._new_segment(0)])

    def load(self, last_stop: LastStop) -> LoadedLog:
        """Open the directory, which is created if missing, and recover the log if needed; raises OSError."""
        self._may_have_gaps = last_stop.was_compacted or self._config.compact
        recovery_point = last_stop.recovery_point
        while True:
            try:
                return self._load(recovery_point, last_stop.log_start_offset, last_stop.was_clean)
            except OverflowedSegmentError as found:
                self._split(found.segment)
                recovery_point = min(recovery_point, found.segment.base_offset)

    def _load(self, recovery_point: int, log_start_offset: int, was_clean: bool) -> LoadedLog:
        segments = self._open_segments() or [self._begin_at(log_start_offset)]
        loaded = self._loaded(segments)
        epochs, snapshots = loaded.epochs, loaded.snapshots
        epochs.load()
        loaded.log_start_offset = max(log_start_offset, segments[0].base_offset)
        end = self._opened_end(loaded) if was_clean else None
        if end is None:
            # Rebuilt indexes are not flushed, even if they were before.
            checked_from = loaded.segments.floor(recovery_point).base_offset
            self._rebuild_damaged(loaded, [segment for segment in self._damaged if segment.base_offset < checked_from])
            end = self._recover(loaded, recovery_point)
            recovery_point = min(checked_from, end)
        else:
            recovery_point = end
        if end < loaded.log_start_offset:
            # The records in between were lost, for example in a power failure: no readable record is left.
            _log.warn(
                "{log} ends at {end}, before its start offset {start}: all segments are removed, and it begins at the start offset",
                log=self._topic_partition,
                end=end,
                start=loaded.log_start_offset,
            )
            for segment in loaded.segments:
                segment.remove()
            loaded.segments = LogSegments([self._begin_at(loaded.log_start_offset)])
            end = recovery_point = loaded.log_start_offset
        loaded.log_end_offset = end
        loaded.recovery_point = recovery_point
        epochs.opened(end)
        epochs.truncate_from_start(loaded.log_start_offset)
        self._remove_stray_snapshots(loaded)
        for offset in snapshots.offsets():
            if offset > end:
                snapshots.remove(offset)
        rebuild_producers(loaded, end)
        return loaded

    def _loaded(self, segments: list[LogSegment]) -> LoadedLog:
        epochs = LeaderEpochCache(self._directory, lambda error: _log.warn("{error}", error=error))
        producers = ProducerStateManager(self._topic_partition, self._are_transactions_verified)
        return LoadedLog(LogSegments(segments), epochs, producers, self._snapshots)

    def _opened_end(self, loaded: LoadedLog) -> int | None:
        """Return the end offset of a log that was closed cleanly; None if its last segment contradicts that."""
        active = loaded.segments.active
        end = active.open_for_append()
        if active.indexed_end != active.size_bytes or active.offset_index.last_entry()[1] >= max(active.size_bytes, 1):
            _log.warn("{path} was changed since its clean shutdown: the log is recovered", path=str(active.path))
            return None
        if not active.fits(end - 1) and active.size_bytes:
            raise OverflowedSegmentError(active)
        if loaded.epochs.is_damaged:
            _find_epochs(loaded.epochs, list(loaded.segments))
        self._rebuild_damaged(loaded, self._damaged)
        return end

    def _rebuild_damaged(self, loaded: LoadedLog, damaged: Iterable[LogSegment]) -> None:
        """Read segments again whose aborted transactions are damaged."""
        for segment in damaged:
            _log.warn("{path} is corrupt and is rebuilt", path=str(segment.transaction_index.path))
            rebuild_producers(loaded, segment.base_offset)
            _, valid_end = self._recover_segment(loaded, segment)
            if valid_end < segment.size_bytes:
                segment.truncate_file(valid_end)
            if segment is not loaded.segments.active:
                segment.seal()
            if segment.sync():
                sync_directory(self._directory)

    def _begin_at(self, log_start_offset: int) -> LogSegment:
        """Create the only segment, durably. The checkpoint of log start offsets omits an offset that the segment's name gives."""
        segment = self._new_segment(log_start_offset)
        if log_start_offset:
            sync_directory(self._directory)
        return segment

    def _new_piece(self, base_offset: int) -> LogSegment:
        return self._new_segment(base_offset, suffix=CLEANED_SUFFIX)

    def _new_segment(self, base_offset: int, *, suffix: str = "") -> LogSegment:
        """Create an empty segment. A piece of another one, which has a ``suffix``, needs no reserved room."""
        config = self._config
        return LogSegment.create(
            self._directory,
            base_offset,
            max_index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            now_ms=self._clock.wall_ms(),
            suffix=suffix,
            reserve_bytes=config.segment_bytes if config.preallocate and not suffix else 0,
        )

    def _split(self, segment: LogSegment) -> None:
        end = find_valid_end(segment)
        if end < segment.size_bytes:
            # As recovery would do, but it runs after the split.
            _log.warn("{path} is torn or corrupt at byte {end} and is truncated there", path=str(segment.path), end=end)
            self._drop([later for later in self._open_segments() if later.base_offset > segment.base_offset])
            segment.truncate_file(end)
        split(segment, self._new_piece)

    def _open_segments(self) -> list[LogSegment]:
        found = self._scan()
        if any(name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX)) for name in found):
            complete_swaps(self._directory)
            found = self._scan()
        self._snapshots.set_names(found)
        self._damaged = []
        segments = []
        for name, entry in found.items():
            if name.endswith((DELETED_SUFFIX, TEMPORARY_SUFFIX)):
                remove(entry.path)
            elif name.endswith((INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)):
                if name[: name.rindex(".")] + LOG_SUFFIX not in found:
                    remove(entry.path)
            elif name.endswith(LOG_SUFFIX):
                segments.append(self._open_segment(name, found))
        return split_closed(sorted(segments, key=lambda segment: segment.base_offset), self._new_piece)

    def _scan(self) -> "dict[str, os.DirEntry[str]]":
        """Return the files of the directory whose names a broker may have written. The directory is created if it is missing."""
        try:
            with os.scandir(self._directory) as entries:
                found = {entry.name: entry for entry in entries if entry.is_file()}
        except FileNotFoundError:
            self._directory.mkdir()
            return {}
        for name in [name for name in found if is_foreign(name)]:
            _log.warn("Ignoring {path}: it is not named after an offset", path=found.pop(name).path)
        return found

    def _open_segment(self, name: str, found: "dict[str, os.DirEntry[str]]") -> LogSegment:
        status = found[name].stat()
        segment = LogSegment(
            self._directory,
            offset_of_name(name),
            size_bytes=status.st_size,
            max_index_bytes=self._config.segment_index_bytes,
            index_interval_bytes=self._config.index_interval_bytes,
        )
        segment.created_ms = status.st_mtime_ns // 1_000_000
        for index in (segment.offset_index, segment.time_index):
            index_file = found.get(index.path.name)
            if index_file is None or not index.set_file_size(index_file.stat().st_size):
                self._rebuild_indexes(segment)
                break
        transactions = found.get(segment.transaction_index.path.name)
        transaction_bytes = 0 if transactions is None else transactions.stat().st_size
        segment.transaction_index.set_file_size(transaction_bytes)
        if transaction_bytes and not segment.transaction_index.is_sound(segment.base_offset):
            self._damaged.append(segment)
        return segment

    def _rebuild_indexes(self, segment: LogSegment) -> None:
        _log.info("An index of {path} is missing or corrupt: the indexes are rebuilt", path=str(segment.path))
        segment.reset_indexes()
        next_offset = segment.base_offset
        for header in segment.headers():
            if header.base_offset < next_offset or header.last_offset < header.base_offset or not segment.fits(header.last_offset):
                break  # garbage that a crash left: recovery removes it
            segment.index_batch(header, header.position)
            next_offset = header.last_offset + 1
        segment.seal()

    def _recover(self, loaded: LoadedLog, recovery_point: int) -> int:
        """Check the segments from the recovery point on; returns the offset after the last valid batch."""
        unchecked = loaded.segments.since(recovery_point)
        self._on_segment(len(unchecked), 0)
        checked = [segment for segment in loaded.segments if segment.base_offset < unchecked[0].base_offset]
        if loaded.epochs.is_damaged:
            _find_epochs(loaded.epochs, checked)
        self._remove_stray_snapshots(loaded)
        rebuild_producers(loaded, unchecked[0].base_offset)
        end = unchecked[0].base_offset
        for number, segment in enumerate(unchecked):
            if number and not self._follows(segment, end, loaded.log_start_offset):
                self._drop(unchecked[number:])
                break
            size_bytes = segment.size_bytes
            end, valid_end = self._recover_segment(loaded, segment)
            self._on_segment(len(unchecked) - number - 1, size_bytes)
            checked.append(segment)
            if valid_end < size_bytes:
                _log.warn(
                    "{path}: {cut} bytes from offset {end} on are torn or corrupt and are removed",
                    path=str(segment.path),
                    cut=size_bytes - valid_end,
                    end=end,
                )
                # Before the cut: after a crash in between, the next start still sees why they must be removed.
                self._drop(unchecked[number + 1 :])
                segment.truncate_file(valid_end)
                break
            if segment is not unchecked[-1]:
                segment.seal()
                loaded.snapshots.write(end, loaded.producers.producers.values())
        loaded.segments = LogSegments(checked)
        active = loaded.segments.active
        if not active.offset_index.in_memory:
            active.open_for_append()
        active.write_indexes()
        # A killed process may have truncated the file without a sync: the removed bytes must not reappear behind new batches.
        active.sync_batches()
        return end

    def _follows(self, segment: LogSegment, end: int, log_start_offset: int) -> bool:
        """Return whether a segment can follow the one that ends at ``end``."""
        base = segment.base_offset
        if base < end:
            _log.warn("{path} overlaps the segment before it, which ends at {end}", path=str(segment.path), end=end)
            return False
        if base > max(end, log_start_offset) and not self._may_have_gaps:
            _log.warn("{path} does not follow the segment before it, which ends at {end}", path=str(segment.path), end=end)
            return False
        return True

    def _drop(self, segments: list[LogSegment]) -> None:
        # The last one first: after a crash in between, the log still ends with the damaged segment.
        for segment in reversed(segments):
            _log.warn("{path} follows a corrupt or missing part of the log and is removed", path=str(segment.path))
            segment.remove_durably()
            self._snapshots.remove(segment.base_offset)

    def _recover_segment(self, loaded: LoadedLog, segment: LogSegment) -> tuple[int, int]:
        """Check one segment; returns the offset after its last valid batch, and the position where that batch ends."""
        segment.reset_indexes()
        segment.transaction_index.reset()
        producers, epochs = loaded.producers, loaded.epochs
        next_offset, valid_end = segment.base_offset, 0
        for header, batch in scan_batches(segment.file, 0, segment.size_bytes):
            if header.base_offset < next_offset or header.last_offset < header.base_offset or not crc_matches(batch):
                break
            if not segment.fits(header.last_offset):
                raise OverflowedSegmentError(segment)
            segment.index_batch(header, header.position)
            epochs.recovered(header.leader_epoch, header.base_offset)
            if header.producer_id != NO_PRODUCER_ID:
                position, header.position = header.position, 0
                aborted = producers.update(header, batch)
                header.position = position
                if aborted:
                    segment.transaction_index.append(aborted)
            next_offset, valid_end = header.last_offset + 1, header.position + header.size_bytes
        producers.map_end_offset = next_offset
        return next_offset, valid_end

    def _remove_stray_snapshots(self, loaded: LoadedLog) -> None:
        """Remove snapshots at offsets where no segment begins, except the newest: a clean shutdown writes one at the log end."""
        bases = {segment.base_offset for segment in loaded.segments}
        offsets = loaded.snapshots.offsets()
        for offset in offsets:
            if offset not in bases and offset != offsets[-1]:
                loaded.snapshots.remove(offset)


def _find_epochs(epochs: LeaderEpochCache, segments: Iterable[LogSegment]) -> None:
    """Rebuild the epochs from the batches, as a crash damaged their file."""
    found: dict[int, int] = {}
    latest = -1
    for segment in segments:
        for header in segment.headers():
            if header.leader_epoch > latest:
                latest = header.leader_epoch
                found[latest] = header.base_offset
    epochs.rebuild(found)


def rebuild_producers(loaded: LoadedLog, end_offset: int) -> None:
    """Build the producer state of the log up to ``end_offset``, unless it is that already."""
    if loaded.producers.map_end_offset != end_offset:
        reload_producers(loaded, end_offset)


def reload_producers(loaded: LoadedLog, end_offset: int) -> None:
    """Build the producer state of the log up to ``end_offset`` from the newest valid snapshot and the batches after it.

    Snapshots above ``end_offset`` are removed. Raises OSError.
    """
    producers, snapshots = loaded.producers, loaded.snapshots
    start = loaded.log_start_offset
    producers.reset([], start)
    for offset in reversed(snapshots.offsets()):
        if offset > end_offset or offset < start:
            snapshots.remove(offset)
            continue
        try:
            producers.reset(snapshots.read(offset), offset)
        except CorruptSnapshotError as error:
            _log.warn("{path} is corrupt and is removed: {error}", path=str(snapshots.path(offset)), error=error)
            snapshots.remove(offset)
            continue
        break
    replay_producers(producers, loaded.segments, end_offset)


def replay_producers(producers: ProducerStateManager, segments: LogSegments, end_offset: int) -> None:
    """Update the state with the batches from its end up to ``end_offset``."""
    start = producers.map_end_offset
    for segment in segments.since(start):
        if segment.base_offset >= end_offset or start >= end_offset:
            break
        found = segment.locate(start)
        if found is None:
            continue
        file = segment.file
        for header in segment.headers(found[1]):
            if header.base_offset >= end_offset:
                break
            if header.producer_id == NO_PRODUCER_ID or header.last_offset < start:
                continue
            body = read_at(file, header.size_bytes, header.position) if header.is_control else b""
            header.position = 0
            producers.update(header, body)
    producers.map_end_offset = end_offset
