"""The segments of a log, in order."""

import bisect
from collections.abc import Iterable, Iterator

from twisted_kafka.log.segment import LogSegment


class Segments:
    """An immutable sequence of segments with ascending base offsets: a reader goes on with the one that it has.

    There is always at least one; the last is the active one.
    """

    __slots__ = ("_base_offsets", "_segments", "active", "first")

    def __init__(self, segments: Iterable[LogSegment]) -> None:
        self._segments = tuple(segments)
        self._base_offsets = [segment.base_offset for segment in self._segments]
        self.first = self._segments[0]
        self.active = self._segments[-1]

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self._segments)

    def floor(self, offset: int) -> LogSegment:
        """Return the segment that ``offset`` belongs to: the first one for an offset before it."""
        if offset >= self.active.base_offset:
            return self.active
        return self._segments[max(0, bisect.bisect_right(self._base_offsets, offset) - 1)]

    def after(self, segment: LogSegment) -> LogSegment | None:
        """Return the one that follows ``segment``, or None."""
        at = bisect.bisect_right(self._base_offsets, segment.base_offset)
        return self._segments[at] if at < len(self._segments) else None

    def starting_before(self, offset: int) -> list[LogSegment]:
        """Return the segments whose base offset is below ``offset``."""
        return list(self._segments[: bisect.bisect_left(self._base_offsets, offset)])

    def since(self, offset: int) -> list[LogSegment]:
        """Return the segment with ``offset`` and all after it."""
        return list(self._segments[max(0, bisect.bisect_right(self._base_offsets, offset) - 1) :])
