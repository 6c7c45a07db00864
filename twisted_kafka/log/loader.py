"""Opening a log's directory: quickly after a clean stop, by reading everything since the recovery point after a crash.

Recovery walks those segments batch by batch, checks every CRC, builds the indexes, the producer state and the leader epochs anew,
and cuts the log at the first batch that is torn or corrupt; later segments are removed.
"""

import os
from pathlib import Path

from twisted.logger import Logger

from twisted_kafka.config.topic_config import LogConfig
from twisted_kafka.log.batch_headers import crc_matches, scan_batches
from twisted_kafka.log.environment import LogEnvironment
from twisted_kafka.log.files import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TEMPORARY_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_of_name,
)
from twisted_kafka.log.leader_epoch import LeaderEpochCache
from twisted_kafka.log.producer_snapshot import CorruptSnapshotError, SnapshotFiles
from twisted_kafka.log.producer_state import NO_PRODUCER_ID, ProducerState
from twisted_kafka.log.segment import LogSegment
from twisted_kafka.log.segments import Segments
from twisted_kafka.log.swap_files import complete_swaps
from twisted_kafka.protocol.topic_partition import TopicPartition

_log = Logger()


class LoadedLog:
    """What was found in a log's directory."""

    __slots__ = ("epochs", "log_end_offset", "log_start_offset", "producers", "recovery_point", "segments", "snapshots")

    def __init__(self, segments: Segments, epochs: LeaderEpochCache, producers: ProducerState, snapshots: SnapshotFiles) -> None:
        self.segments = segments
        self.epochs = epochs
        self.producers = producers
        self.snapshots = snapshots
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.recovery_point = 0


class LogLoader:
    """Loads one log; ``recovery_point`` and ``log_start_offset`` are what the checkpoints say, 0 when they say nothing."""

    def __init__(self, directory: Path, topic_partition: TopicPartition, config: LogConfig, environment: LogEnvironment) -> None:
        self._directory = directory
        self._topic_partition = topic_partition
        self._config = config
        self._clock = environment.clock

    def load(self, *, recovery_point: int, log_start_offset: int, was_clean: bool) -> LoadedLog:
        """Open the directory and recover what is not known to be whole; raises OSError."""
        segments = self._open_segments() or [self._new_segment(log_start_offset)]
        epochs = LeaderEpochCache(self._directory, lambda error: _log.warn("{error}", error=error))
        epochs.load()
        producers = ProducerState(self._topic_partition)
        snapshots = SnapshotFiles(self._directory)
        loaded = LoadedLog(Segments(segments), epochs, producers, snapshots)
        loaded.log_start_offset = max(log_start_offset, segments[0].base_offset)
        if was_clean:
            end = segments[-1].open_for_append()
            recovery_point = end
        else:
            end = self._recover(loaded, recovery_point)
            recovery_point = min(max(recovery_point, loaded.segments.first.base_offset), end)
        if end < loaded.log_start_offset:
            # The log lost what lay between, to a machine's crash say: nothing that a reader may see is left.
            _log.warn("{log} ends at {end}, before its start offset: it begins anew there", log=self._topic_partition, end=end)
            for segment in loaded.segments:
                segment.remove()
            loaded.segments = Segments([self._new_segment(loaded.log_start_offset)])
            end = recovery_point = loaded.log_start_offset
        loaded.log_end_offset = end
        loaded.recovery_point = recovery_point
        epochs.truncate_from_end(end)
        epochs.truncate_from_start(loaded.log_start_offset)
        self._remove_stray_snapshots(loaded)
        for offset in snapshots.offsets():
            if offset > end:
                snapshots.remove(offset)
        rebuild_producers(loaded, end)
        return loaded

    def _new_segment(self, base_offset: int) -> LogSegment:
        config = self._config
        return LogSegment.create(
            self._directory,
            base_offset,
            max_index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            now_ms=self._clock.wall_ms(),
        )

    def _open_segments(self) -> list[LogSegment]:
        segments = []
        config = self._config
        complete_swaps(self._directory)
        leftovers = (DELETED_SUFFIX, TEMPORARY_SUFFIX)
        with os.scandir(self._directory) as entries:
            found = {entry.name: entry for entry in entries}
        for name, entry in found.items():
            if name.endswith(leftovers):
                os.unlink(entry.path)
            elif name.endswith((INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)):
                if name[: name.rindex(".")] + LOG_SUFFIX not in found:
                    os.unlink(entry.path)
            elif name.endswith(LOG_SUFFIX):
                status = entry.stat()
                segment = LogSegment(
                    self._directory,
                    offset_of_name(name),
                    size_bytes=status.st_size,
                    max_index_bytes=config.segment_index_bytes,
                    index_interval_bytes=config.index_interval_bytes,
                )
                segment.created_ms = status.st_mtime_ns // 1_000_000
                segments.append(segment)
        for segment in segments:
            for index in (segment.offset_index, segment.time_index):
                index_file = found.get(index.path.name)
                if index_file is None or index_file.stat().st_size % index.entry.size:
                    self._rebuild_indexes(segment)
                    break
        return sorted(segments, key=lambda segment: segment.base_offset)

    def _rebuild_indexes(self, segment: LogSegment) -> None:
        _log.info("{path}: an index is missing or damaged and built anew", path=str(segment.path))
        segment.reset_indexes()
        for header in segment.headers():
            segment.note_batch(header, header.position)
        segment.seal()

    def _recover(self, loaded: LoadedLog, recovery_point: int) -> int:
        """Check the segments from the recovery point on; returns the offset after the last sound batch."""
        unchecked = loaded.segments.since(recovery_point)
        checked = [segment for segment in loaded.segments if segment.base_offset < unchecked[0].base_offset]
        self._remove_stray_snapshots(loaded)
        rebuild_producers(loaded, unchecked[0].base_offset)
        end = unchecked[0].base_offset
        for number, segment in enumerate(unchecked):
            if number and segment.base_offset < end:
                _log.warn("{path} overlaps the segment before it", path=str(segment.path))
            end = max(end, segment.base_offset)
            end, cut_bytes = self._recover_segment(loaded, segment)
            checked.append(segment)
            if cut_bytes:
                _log.warn(
                    "{path}: {cut} bytes after offset {end} are torn or corrupt and were cut off",
                    path=str(segment.path),
                    cut=cut_bytes,
                    end=end,
                )
                self._drop(loaded, unchecked[number + 1 :])
                break
            if segment is not unchecked[-1]:
                segment.seal()
                loaded.snapshots.write(end, loaded.producers.producers.values())
        loaded.segments = Segments(checked)
        loaded.segments.active.write_indexes()
        return end

    def _drop(self, loaded: LoadedLog, segments: list[LogSegment]) -> None:
        for segment in segments:
            _log.warn("{path} lies after a corrupt batch and is removed", path=str(segment.path))
            segment.remove()
            loaded.snapshots.remove(segment.base_offset)

    def _recover_segment(self, loaded: LoadedLog, segment: LogSegment) -> tuple[int, int]:
        """Check one segment; returns the offset after its last sound batch and how many bytes were cut off."""
        segment.reset_indexes()
        segment.transaction_index.reset()
        producers, epochs = loaded.producers, loaded.epochs
        next_offset, valid_end = segment.base_offset, 0
        for header, batch in scan_batches(segment.file.fileno(), 0, segment.size_bytes):
            if header.base_offset < next_offset or header.last_offset < header.base_offset or not segment.fits(header.last_offset):
                break
            if not crc_matches(batch):
                break
            segment.note_batch(header, header.position)
            if header.leader_epoch > epochs.latest_epoch:
                epochs.assign(header.leader_epoch, header.base_offset)
            if header.producer_id != NO_PRODUCER_ID:
                position, header.position = header.position, 0
                aborted = producers.update(header, batch)
                header.position = position
                if aborted:
                    segment.transaction_index.append(aborted)
            next_offset, valid_end = header.last_offset + 1, header.position + header.size_bytes
        producers.map_end_offset = next_offset
        cut = segment.size_bytes - valid_end
        if cut:
            segment.truncate_file(valid_end)
        return next_offset, cut

    def _remove_stray_snapshots(self, loaded: LoadedLog) -> None:
        """Remove the snapshots that no segment begins with, but for the newest, which a clean stop wrote at the end."""
        bases = {segment.base_offset for segment in loaded.segments}
        offsets = loaded.snapshots.offsets()
        for offset in offsets:
            if offset not in bases and offset != offsets[-1]:
                loaded.snapshots.remove(offset)


def rebuild_producers(loaded: LoadedLog, end_offset: int) -> None:
    """Have the producer state of exactly the log up to ``end_offset``, if it is not that already."""
    if loaded.producers.map_end_offset != end_offset:
        reload_producers(loaded, end_offset)


def reload_producers(loaded: LoadedLog, end_offset: int) -> None:
    """Build the producer state of the log up to ``end_offset`` from the newest usable snapshot and the batches after it.

    Snapshots beyond that are removed; raises OSError.
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
            _log.warn("{path}: {error}; it is removed", path=str(snapshots.path(offset)), error=error)
            snapshots.remove(offset)
            continue
        break
    replay_producers(producers, loaded.segments, end_offset)


def replay_producers(producers: ProducerState, segments: Segments, end_offset: int) -> None:
    """Update the state with the batches between what it covers and ``end_offset``."""
    start = producers.map_end_offset
    for segment in segments.since(start):
        if segment.base_offset >= end_offset or start >= end_offset:
            break
        found = segment.locate(start)
        if found is None:
            continue
        fd = segment.file.fileno()
        for header in segment.headers(found[1]):
            if header.base_offset >= end_offset:
                break
            if header.producer_id == NO_PRODUCER_ID or header.last_offset < start:
                continue
            body = os.pread(fd, header.size_bytes, header.position) if header.is_control else b""
            header.position = 0
            producers.update(header, body)
    producers.map_end_offset = end_offset
