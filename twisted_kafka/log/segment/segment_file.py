"""The open file of a segment, and the limit of open files."""

import io
from collections import OrderedDict
from typing import TYPE_CHECKING, Final
from weakref import ReferenceType, ref

from typing_extensions import override

from twisted_kafka.system import machine

if TYPE_CHECKING:
    from twisted_kafka.log.segment.log_segment import LogSegment

MAX_OPEN_OLD_SEGMENTS: Final = 256
"""Most segments with open files in the process, not counting the last segment of each log."""


class SegmentGoneError(FileNotFoundError):
    """The log has removed a segment that somebody wants to read, on a platform where removed files are not readable."""


class SegmentFile(io.FileIO):
    """Closes itself when nothing refers to it any more, neither the segment nor a file region."""

    @override
    def __del__(self) -> None:
        self.close()


class OpenSegments:
    """Segments that keep their files open until others need the descriptors; the ones that are not used go first.

    A segment that is used is passed over once (second chance), so that a use costs an assignment and no lock. Threads that use a
    file hold a reference to it, which keeps it open.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = machine.Lock()
        self._segments: OrderedDict[ReferenceType[LogSegment], None] = OrderedDict()

    def add(self, segment: "LogSegment") -> None:
        """Note that a segment has opened its file; others may be released."""
        with self._lock:
            segments = self._segments
            segments[ref(segment)] = None
            while len(segments) > self._limit:
                each, _ = segments.popitem(last=False)
                oldest = each()
                if oldest is None or not oldest.is_old:
                    continue
                if oldest.was_used:
                    oldest.was_used = False
                    segments[each] = None
                else:
                    oldest.release_file()

    def keep(self, segment: "LogSegment") -> None:
        """Leave a segment's file open from now on."""
        with self._lock:
            self._segments.pop(ref(segment), None)


old_segments: Final = OpenSegments(MAX_OPEN_OLD_SEGMENTS)
