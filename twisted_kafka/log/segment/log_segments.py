"""The segments of a log, in order."""

import bisect
from collections.abc import Iterable, Iterator

from twisted_kafka.log.results import AbortedTransaction, FetchDataInfo, LogOffsetMetadata, log_offset_metadata_of
from twisted_kafka.log.segment.log_segment import LogSegment
from twisted_kafka.protocol.regions import FileRegion
from twisted_kafka.system.platform import KEEPS_OPEN_FILES


class LogSegments:
    """An immutable sequence of segments with ascending base offsets, so a reader can keep using the one that it got.

    It is never empty; the last segment is the active one.
    """

    __slots__ = ("_base_offsets", "_latest_known", "_latest_ms", "_segments", "active", "first")

    def __init__(self, segments: Iterable[LogSegment]) -> None:
        self._segments = tuple(segments)
        self._base_offsets = [segment.base_offset for segment in self._segments]
        self.first = self._segments[0]
        self.active = self._segments[-1]
        # The largest timestamp up to each closed segment, computed on demand. Concurrent threads write the same values.
        self._latest_ms = [0] * (len(self._segments) - 1)
        self._latest_known = 0

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self._segments)

    @property
    def size_bytes(self) -> int:
        """The size of all segments, without their indexes."""
        return sum([segment.size_bytes for segment in self._segments])

    def floor(self, offset: int) -> LogSegment:
        """Return the segment that ``offset`` belongs to; the first one for lower offsets."""
        if offset >= self.active.base_offset:
            return self.active
        return self._segments[max(0, bisect.bisect_right(self._base_offsets, offset) - 1)]

    def after(self, segment: LogSegment) -> LogSegment | None:
        """Return the segment after ``segment``, or None."""
        at = bisect.bisect_right(self._base_offsets, segment.base_offset)
        return self._segments[at] if at < len(self._segments) else None

    def reaching(self, timestamp_ms: int, offset: int) -> Iterator[LogSegment]:
        """Yield the segments, from the one with ``offset`` on, with a record not older than ``timestamp_ms``; raises OSError."""
        at = max(bisect.bisect_right(self._base_offsets, offset) - 1, self._first_reaching(timestamp_ms))
        while at < len(self._segments):
            segment = self._segments[at]
            if segment.max_timestamp[0] >= timestamp_ms:
                yield segment
            at += 1

    def _first_reaching(self, timestamp_ms: int) -> int:
        """Return the index of the first closed segment with such a record; otherwise that of the active segment."""
        latest, known = self._latest_ms, self._latest_known
        closed = len(latest)
        largest_ms = latest[known - 1] if known else -1
        while known < closed and largest_ms < timestamp_ms:
            largest_ms = latest[known] = max(largest_ms, self._segments[known].max_timestamp[0])
            known += 1
            self._latest_known = known
        return bisect.bisect_left(latest, timestamp_ms, 0, known)

    def starting_before(self, offset: int) -> list[LogSegment]:
        """Return the segments with a base offset below ``offset``."""
        return list(self._segments[: bisect.bisect_left(self._base_offsets, offset)])

    def since(self, offset: int) -> list[LogSegment]:
        """Return the segment with ``offset`` and all after it."""
        return list(self._segments[max(0, bisect.bisect_right(self._base_offsets, offset) - 1) :])

    def read(
        self,
        start_offset: int,
        max_bytes: int,
        limit: LogOffsetMetadata,
        min_one_message: bool,
        with_aborted: bool,
    ) -> FetchDataInfo:
        """Return batches of one segment, from the one with ``start_offset`` on, before ``limit``; raises OSError."""
        limit_offset, limit_base, limit_position = limit
        aborted: list[AbortedTransaction] | None = [] if with_aborted else None
        segment: LogSegment | None = self.floor(start_offset)
        while segment is not None:
            found = segment.locate(start_offset)
            if found is None:
                segment = self.after(segment)
                continue
            _, position, batch_end, _ = found
            base = segment.base_offset
            if base > limit_base:
                break
            end = segment.size_bytes
            if base == limit_base and limit_position < end:
                end = limit_position
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
            if size <= 0:
                return FetchDataInfo(at, b"", incomplete, aborted)
            if aborted is not None:
                aborted = self.aborted_transactions(start_offset, self._upper_bound(segment, position + size, limit_offset))
            records = FileRegion(segment.file, position, size)
            if not KEEPS_OPEN_FILES:
                return FetchDataInfo(at, records.read(), incomplete, aborted)
            if position + size < segment.size_bytes or segment is not self.active:
                records.load()  # here a slow disk stops one handler, and a network thread with all its connections otherwise
            return FetchDataInfo(at, records, incomplete, aborted)
        return FetchDataInfo(limit, b"", False, aborted)

    def _upper_bound(self, segment: LogSegment, end: int, limit_offset: int) -> int:
        """Return an offset above those of the batches of a segment that end at ``end`` or before; at most the limit.

        The rest of the segment may have very many aborted transactions.
        """
        bound = segment.offset_index.offset_behind(end)
        if bound is None:
            after = self.after(segment)
            bound = limit_offset if after is None else after.base_offset
        return min(bound, limit_offset)

    def aborted_transactions(self, fetch_offset: int, upper_bound: int) -> list[AbortedTransaction]:
        """Return the aborted transactions with records between the offsets."""
        found = []
        for segment in self.since(fetch_offset):
            entries, is_complete = segment.transaction_index.collect(fetch_offset, upper_bound)
            found += entries
            if is_complete:
                break
        return found
