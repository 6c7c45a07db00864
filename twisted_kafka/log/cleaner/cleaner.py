"""Cleaning of one log: builds the map of the latest offset of each key, then rewrites the segments without obsolete records.

Kafka: Cleaner.doClean.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from twisted.logger import Logger

from twisted_kafka.log.cleaner.blocks import MAX_DECOMPRESSED_BYTES, Block, DataBatch, data_of, read_blocks
from twisted_kafka.log.cleaner.filter import BlockFilter, Rules, legacy_data
from twisted_kafka.log.cleaner.offset_map import OffsetMap, make_offset_map
from twisted_kafka.log.cleaner.transactions import CleanedTransactions
from twisted_kafka.log.files import CLEANED_SUFFIX
from twisted_kafka.log.segment.log_segment import MAX_RELATIVE_OFFSET, LogSegment, SegmentGoneError
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.timing.clock import IClock

_log = Logger()


class LogCleaningAbortedError(Exception):
    """The log is being truncated, moved or deleted, or the broker stops: its records are unchanged."""


Proceed = Callable[[int], None]
"""Waits as the I/O rate limit requires for this many bytes; raises LogCleaningAbortedError if the cleaning is to end."""


class CleanerLimits(NamedTuple):
    """Memory limits of a cleaning: ``log.cleaner.dedupe.buffer.size``, ``.io.buffer.load.factor`` and ``.io.buffer.size``."""

    map_bytes: int
    load_factor: float
    block_bytes: int


class CleanerStats:
    """Statistics of a cleaning, for metrics and the log. Bytes are those of the second pass unless named for the map."""

    def __init__(self) -> None:
        self.map_bytes_read = 0
        self.bytes_read = 0
        self.bytes_written = 0
        self.keys = 0
        self.map_utilization = 0.0
        self.elapsed_s = 0.0
        self.map_elapsed_s = 0.0


class Cleaner:
    """Cleans logs on the calling thread."""

    def __init__(self, clock: IClock, limits: CleanerLimits) -> None:
        self._clock = clock
        self._limits = limits

    def clean(
        self, log: UnifiedLog, first_dirty_offset: int, first_uncleanable_offset: int, proceed: Proceed
    ) -> tuple[int, CleanerStats]:
        """Compact ``log`` below ``first_uncleanable_offset``; returns the offset up to which it is clean now, and statistics.

        Raises LogCleaningAbortedError, OSError, KafkaStorageError; CorruptRecordError and InvalidRecordError for malformed records.
        Some segments may be compacted then, which leaves the log valid and complete.
        """
        try:
            return self._clean(log, first_dirty_offset, first_uncleanable_offset, proceed)
        except SegmentGoneError as error:
            raise LogCleaningAbortedError(f"{log.topic_partition} has removed a segment meanwhile") from error

    def _clean(
        self, log: UnifiedLog, first_dirty_offset: int, first_uncleanable_offset: int, proceed: Proceed
    ) -> tuple[int, CleanerStats]:
        stats = CleanerStats()
        begun_ns = self._clock.monotonic_ns()
        dirty = _between(log, first_dirty_offset, first_uncleanable_offset)
        offset_map = make_offset_map(
            self._limits.map_bytes, self._limits.load_factor, sum([segment.size_bytes for segment in dirty])
        )
        self._fill(offset_map, log, dirty, first_dirty_offset, proceed, stats)
        end_offset = max(first_dirty_offset, offset_map.latest_offset + 1)
        indexed_ns = self._clock.monotonic_ns()
        rules = Rules(
            self._clock.wall_ms(), log.config.delete_retention_ms, first_uncleanable_offset, log.last_records_of_producers()
        )
        transactions = CleanedTransactions()
        block_filter = BlockFilter(offset_map, transactions, rules, partial(proceed, 0))
        clean_before = _between(log, 0, first_dirty_offset)
        old_horizon_ms = clean_before[-1].last_modified_ms() - rules.delete_retention_ms if clean_before else 0
        work = _Work(log, proceed, stats, block_filter, transactions, old_horizon_ms)
        # Before any record is discarded: the later record of its key must survive a power failure.
        log.flush_before(end_offset)
        for group in group_by_size(log, _between(log, 0, end_offset), first_uncleanable_offset):
            self._clean_group(work, group)
        stats.keys = len(offset_map)
        stats.map_utilization = len(offset_map) / offset_map.max_entries * self._limits.load_factor
        stats.map_elapsed_s = (indexed_ns - begun_ns) / 1e9
        stats.elapsed_s = (self._clock.monotonic_ns() - begun_ns) / 1e9
        return end_offset, stats

    # The first pass.

    def _fill(
        self,
        offset_map: OffsetMap,
        log: UnifiedLog,
        dirty: Sequence[LogSegment],
        start_offset: int,
        proceed: Proceed,
        stats: CleanerStats,
    ) -> None:
        transactions = CleanedTransactions()
        for number, segment in enumerate(dirty):
            end_offset = _end_of(log, segment)
            if not number:
                transactions.add_aborted(log.aborted_transactions(start_offset, _end_of(log, dirty[-1])))
            found = segment.locate(max(start_offset, segment.base_offset))
            if found is not None:
                for block in self._blocks(segment, found[1], proceed):
                    stats.map_bytes_read += len(block.data)
                    if not _put(offset_map, block, transactions, start_offset, partial(proceed, 0)):
                        return
            # Offsets that are missing at the end of the segment count as clean too.
            offset_map.latest_offset = max(offset_map.latest_offset, end_offset - 1)

    def _blocks(self, segment: LogSegment, position: int, proceed: Proceed) -> Iterator[Block]:
        for block in read_blocks(segment.file, position, segment.size_bytes, self._limits.block_bytes, partial(proceed, 0)):
            proceed(len(block.data))
            yield block

    # The second pass.

    def _clean_group(self, work: "_Work", group: Sequence[LogSegment]) -> None:
        log, config = work.log, work.log.config
        cleaned = LogSegment.create(
            log.dir,
            group[0].base_offset,
            max_index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            now_ms=self._clock.wall_ms(),
            suffix=CLEANED_SUFFIX,
        )
        try:
            work.transactions.index = cleaned.transaction_index
            for segment in group:
                self._clean_into(cleaned, segment, work)
            cleaned.seal()
            cleaned.sync()
            modified_ms = group[-1].last_modified_ms()
            os.utime(cleaned.path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))
        except BaseException:
            cleaned.remove()
            raise
        if not log.replace_segments(cleaned, group):
            cleaned.remove()
            raise LogCleaningAbortedError(f"the cleaning of {log.topic_partition} was aborted: its segments have changed")

    def _clean_into(self, cleaned: LogSegment, segment: LogSegment, work: "_Work") -> None:
        log = work.log
        work.transactions.add_aborted(log.aborted_transactions(segment.base_offset, _end_of(log, segment)))
        work.filter.keeps_old_tombstones = segment.last_modified_ms() > work.old_horizon_ms
        for block in self._blocks(segment, 0, work.proceed):
            out = work.filter.filter(block)
            if out.batches:
                cleaned.append(b"".join(out.parts), out.batches)
                work.proceed(out.size_bytes)
            work.stats.bytes_read += len(block.data)
            work.stats.bytes_written += out.size_bytes


class _Work(NamedTuple):
    """The state of the second pass."""

    log: UnifiedLog
    proceed: Proceed
    stats: CleanerStats
    filter: BlockFilter
    transactions: CleanedTransactions
    old_horizon_ms: int


def _between(log: UnifiedLog, start_offset: int, end_offset: int) -> list[LogSegment]:
    """Return the segments with offsets from ``start_offset`` on that begin below ``end_offset``."""
    return [segment for segment in log.segments.since(start_offset) if segment.base_offset < end_offset]


def _end_of(log: UnifiedLog, segment: LogSegment) -> int:
    """Return the end offset of a segment."""
    after = log.segments.after(segment)
    return after.base_offset if after is not None else log.log_end_offset


def _put(
    offset_map: OffsetMap, block: Block, transactions: CleanedTransactions, start_offset: int, check: Callable[[], None]
) -> bool:
    """Add the keys of a block, without markers and aborted records; returns False if the map is full.

    ``check`` is called between groups of decompressed batches.
    """
    if block.is_plain:
        return offset_map.put_plain(block, start_offset)
    if block.messages:
        return offset_map.put(legacy_data(block.messages), start_offset)
    data: list[DataBatch] = []
    size_bytes = 0
    for batch in block.batches:
        if batch.is_control:
            transactions.is_marker_discardable(batch, block)
        elif not (batch.is_transactional and transactions.is_batch_aborted(batch)) and batch.record_count > 0:
            data.append(data_of(block, batch))
            size_bytes += len(data[-1].payload)
            if size_bytes >= MAX_DECOMPRESSED_BYTES:
                if not offset_map.put(data, start_offset):
                    return False
                data, size_bytes = [], 0
                check()
    return not data or offset_map.put(data, start_offset)


def group_by_size(log: UnifiedLog, segments: Sequence[LogSegment], first_uncleanable_offset: int) -> list[list[LogSegment]]:
    """Group the segments: each group fits the size, the indexes and the offset range of the one segment that replaces it."""
    config = log.config
    groups: list[list[LogSegment]] = []
    room = room_in_index = room_in_times = 0
    for number, segment in enumerate(segments):
        following = segments[number + 1].base_offset if number + 1 < len(segments) else first_uncleanable_offset
        size = segment.size_bytes
        index_bytes = segment.offset_index.entries * segment.offset_index.entry.size
        times_bytes = segment.time_index.entries * segment.time_index.entry.size
        fits = bool(groups) and size <= room and index_bytes <= room_in_index and times_bytes <= room_in_times
        if fits and (not size or following - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET):
            groups[-1].append(segment)
        else:
            groups.append([segment])
            room, room_in_index, room_in_times = config.segment_bytes, config.segment_index_bytes, config.segment_index_bytes
        room -= size
        room_in_index -= index_bytes
        room_in_times -= times_bytes
    return groups
