"""One segment: a file of batches with its indexes.

Appends and truncations happen under the log's lock; reads need no lock. The caller says up to where a reader may read. A file
region keeps the file open, so it stays readable after the segment is deleted.
"""

import bisect
import errno
import io
import os
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final
from weakref import ReferenceType, ref

from twisted.logger import Logger
from typing_extensions import override

from twisted_kafka.log.batch_headers import BatchHeader, IndexedBatch, find_batch, scan_headers
from twisted_kafka.log.segment.index_check import BatchFile, indexes_fit, rebuild_indexes
from twisted_kafka.log.segment.indexes import TimestampOffset, timestamp_offset_of
from twisted_kafka.log.segment.segment_files import SegmentFiles
from twisted_kafka.protocol.regions import Buffer
from twisted_kafka.system import machine
from twisted_kafka.system.files.disk import reserve
from twisted_kafka.system.files.durability import fdatasync
from twisted_kafka.system.files.file_io import write_at
from twisted_kafka.system.platform import KEEPS_OPEN_FILES

_log = Logger()

RECENT_BATCHES = 128
"""The positions of this many last batches, at most twice as many, stay in memory: a reader at the end does not search the file."""

MAX_RELATIVE_OFFSET = 2**31 - 1

MAX_OPEN_OLD_SEGMENTS: Final = 256
"""Most segments with open files in the process, not counting the last segment of each log."""

Located = tuple[int, int, int, int]
"""A batch as (last offset, position, end position, base offset)."""


class SegmentGoneError(FileNotFoundError):
    """The log has removed a segment that somebody wants to read, on a platform where removed files are not readable."""


class SegmentFile(io.FileIO):
    """Closes itself when nothing refers to it any more, neither the segment nor a file region."""

    @override
    def __del__(self) -> None:
        self.close()


class LogSegment(SegmentFiles):
    """The batches from ``base_offset`` up to the next segment.

    ``index_interval_bytes`` is the approximate number of bytes of batches per index entry.
    """

    __slots__ = (
        "__weakref__",
        "_bytes_since_index_entry",
        "_checking",
        "_file",
        "_is_gone",
        "_is_reserved",
        "_max_timestamp",
        "_recent",
        "created_ms",
        "first_timestamp_ms",
        "index_interval_bytes",
        "indexed_end",
        "is_checked",
        "is_index_full",
        "jitter_ms",
        "size_bytes",
        "was_used",
    )

    def __init__(
        self,
        directory: Path,
        base_offset: int,
        *,
        size_bytes: int,
        max_index_bytes: int,
        index_interval_bytes: int,
        suffix: str = "",
    ) -> None:
        super().__init__(directory, base_offset, max_index_bytes, suffix)
        self.size_bytes = size_bytes
        self.index_interval_bytes = index_interval_bytes
        self.created_ms = 0
        self.jitter_ms = 0
        self.is_index_full = False
        """Whether an index is full, so the segment must be rolled."""
        self.is_checked = False
        """Whether the index files were checked, which happens on first use."""
        self._checking = machine.Lock()
        """Held during the check: two readers would rebuild the same files."""
        self._file: SegmentFile | None = None
        self.was_used = False
        """Whether the file was used since ``old_segments`` last looked at it."""
        self._is_gone = False
        """Whether the files are removed, or about to be, where removed files are not readable."""
        self._is_reserved = False
        self._recent: list[Located] = []
        self._bytes_since_index_entry = 0
        self._max_timestamp: TimestampOffset | None = None
        self.indexed_end = 0
        """The end of the valid batches that ``open_for_append`` found."""
        self.first_timestamp_ms: int | None = None
        """The largest timestamp of the first batch, the base of the segment's age; None until ``find_first_timestamp_ms``."""

    @classmethod
    def create(
        cls,
        directory: Path,
        base_offset: int,
        *,
        max_index_bytes: int,
        index_interval_bytes: int,
        now_ms: int,
        suffix: str = "",
        reserve_bytes: int = 0,
    ) -> "LogSegment":
        """Create an empty segment, ready for appends; raises OSError and leaves no new file.

        ``suffix`` marks files that are not part of a log yet. ``reserve_bytes`` are allocated on disk at once; ``seal`` or
        recovery frees the unused rest.
        """
        segment = cls(
            directory,
            base_offset,
            size_bytes=0,
            max_index_bytes=max_index_bytes,
            index_interval_bytes=index_interval_bytes,
            suffix=suffix,
        )
        segment.created_ms = now_ms
        segment.is_checked = True
        segment.reset_indexes()
        try:
            segment._file = SegmentFile(segment.path, "x+")
        except FileExistsError:
            segment._recreate(reserve_bytes)
        else:
            segment._create_others(reserve_bytes)
        return segment

    @property
    def file(self) -> SegmentFile:
        """The file of batches, opened if need be; raises OSError. Its descriptor is valid while the caller has the file."""
        file = self._file
        if file is None:
            # Without a lock: a disk that hangs must not block readers of other disks. If two threads open the file, one wins; never
            # one that opened it after ``preload``, as the name may belong to another segment by then.
            if self._is_gone:
                raise SegmentGoneError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.path))
            opened = SegmentFile(self.path, "r+")
            file = self._file
            if file is None:
                file = self._file = opened
                if self.is_old:
                    old_segments.add(self)
        self.was_used = True
        return file

    @property
    def is_old(self) -> bool:
        """Whether it is neither the active segment nor replaced by another one: those have their indexes in memory."""
        return not self.offset_index.in_memory

    # Appending, under the log's lock.

    def append(self, records: Buffer, batches: Sequence[IndexedBatch]) -> None:
        """Write ``records``, which consist of ``batches``; raises OSError and leaves the segment unchanged."""
        start = self.size_bytes
        self._write(records, start)
        if start == 0 and batches:
            self.first_timestamp_ms = batches[0].max_timestamp_ms
        for batch in batches:
            self.index_batch(batch, start + batch.position)
        self.size_bytes = start + len(records)

    def append_batch(self, records: Buffer, base_offset: int, last_offset: int, max_timestamp_ms: int) -> None:
        """Write one batch; raises OSError and leaves the segment unchanged."""
        start = self.size_bytes
        self._write(records, start)
        if start == 0:
            self.first_timestamp_ms = max_timestamp_ms
        size = len(records)
        self._index(base_offset, last_offset, max_timestamp_ms, start, size)
        self.size_bytes = start + size

    def _write(self, records: Buffer, start: int) -> None:
        file = self.file
        fd = file.fileno()
        try:
            write_at(fd, records, start)
        except OSError:
            os.ftruncate(fd, start)
            raise

    def index_batch(self, batch: IndexedBatch, position: int) -> None:
        """Add the batch at ``position``, right after the last indexed one, to the indexes."""
        self._index(batch.base_offset, batch.last_offset, batch.max_timestamp_ms, position, batch.size_bytes)

    def _index(self, base_offset: int, last_offset: int, timestamp_ms: int, position: int, size: int) -> None:
        largest = self._max_timestamp or self.max_timestamp
        if timestamp_ms > largest[0]:
            self._max_timestamp = largest = timestamp_offset_of((timestamp_ms, last_offset))
        if self._bytes_since_index_entry > self.index_interval_bytes:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(largest[0], largest[1])
            self.is_index_full = self.offset_index.is_full or self.time_index.is_full
            self._bytes_since_index_entry = 0
        self._bytes_since_index_entry += size
        recent = self._recent
        if len(recent) >= 2 * RECENT_BATCHES:
            # A new list, never a shorter one: a reader may be searching in the old one.
            self._recent = recent = recent[RECENT_BATCHES:]
        recent.append((last_offset, position, position + size, base_offset))

    @property
    def index_room(self) -> int:
        """How many batches can be appended, at least, before an index is full; not positive if one is."""
        return min(self.offset_index.room, self.time_index.room)

    def fits(self, offset: int) -> bool:
        """Return whether ``offset`` relative to the base offset fits the indexes."""
        return 0 <= offset - self.base_offset <= MAX_RELATIVE_OFFSET

    def reserve(self, size_bytes: int) -> None:
        """Allocate ``size_bytes`` on disk (``preallocate``); raises OSError."""
        file = self.file
        reserve(file.fileno(), size_bytes)
        self._is_reserved = True

    # Reading, without a lock.

    def _check_indexes(self) -> None:
        with self._checking:
            if self.is_checked:
                return
            batches = BatchFile(self.file, self.base_offset, self.size_bytes)
            if not indexes_fit(batches, self.offset_index, self.time_index):
                _log.warn("The indexes of {path} do not match its batches and are rebuilt", path=str(self.path))
                rebuild_indexes(batches, self.offset_index, self.time_index, self.index_interval_bytes)
            self.is_checked = True

    def locate(self, offset: int) -> Located | None:
        """Return the first batch with ``offset`` or a higher one; None if this segment has none. Raises OSError."""
        recent = self._recent
        if recent:
            last = recent[-1]
            if offset > last[0]:
                return None
            if offset >= last[3]:
                return last
            if offset >= recent[0][3]:
                return recent[bisect.bisect_left(recent, (offset,))]
        if not self.is_checked:
            self._check_indexes()
        file, size = self.file, self.size_bytes
        start, following = self.offset_index.positions_around(offset)
        return find_batch(file, start if start < size else 0, size, offset, following)

    def headers(self, position: int = 0) -> Iterator[BatchHeader]:
        """Yield the headers of the batches from ``position`` on."""
        if position >= self.size_bytes:
            return  # without opening the file
        yield from scan_headers(self.file, position, self.size_bytes)

    def first_later(self, timestamp_ms: int) -> int:
        """Return the highest offset that the index has before which no record is later than ``timestamp_ms``; raises OSError."""
        if not self.is_checked:
            self._check_indexes()
        found = self.time_index.lookup(timestamp_ms)
        return found.offset + 1 if found.timestamp_ms >= 0 else self.base_offset

    def find_first_timestamp_ms(self) -> int:
        """Return ``first_timestamp_ms``, -1 if the segment is empty; raises OSError."""
        if self.first_timestamp_ms is None:
            if not self.size_bytes:
                return -1
            first = next(self.headers(), None)
            self.first_timestamp_ms = first.max_timestamp_ms if first else -1
        return self.first_timestamp_ms

    @property
    def max_timestamp(self) -> TimestampOffset:
        """The largest timestamp, and the last offset of its batch; (-1, base offset) if unknown."""
        if self._max_timestamp is None:
            if not self.is_checked:
                self._check_indexes()
            self._max_timestamp = self.time_index.last_entry()
        return self._max_timestamp

    def largest_timestamp_ms(self) -> int:
        """Return the timestamp that retention uses: the largest one, else the file's modification time."""
        largest = self.max_timestamp.timestamp_ms
        return largest if largest >= 0 else self.last_modified_ms()

    def last_modified_ms(self) -> int:
        """Return the file's modification time; raises OSError."""
        return os.stat(self.path).st_mtime_ns // 1_000_000

    # Opening and closing.

    def open_for_append(self) -> int:
        """Make this the active segment: load its indexes and return the offset after its last batch; raises OSError."""
        self._load_indexes()
        next_offset, position = self.base_offset, self.offset_index.last_entry()[1]
        largest = self.time_index.last_entry()
        valid_end = position
        for header in self.headers(position):
            next_offset = header.last_offset + 1
            valid_end = header.position + header.size_bytes
            if header.max_timestamp_ms > largest.timestamp_ms:
                largest = TimestampOffset(header.max_timestamp_ms, header.last_offset)
            self._remember_position(header)
        self.is_index_full = self.offset_index.is_full or self.time_index.is_full
        self._bytes_since_index_entry = valid_end - position
        self._max_timestamp = largest
        self.indexed_end = valid_end
        self.is_checked = True
        return next_offset

    def _load_indexes(self) -> None:
        """Load the indexes, and keep the file open from now on."""
        for index in (self.offset_index, self.time_index):
            # An index in memory may have entries that its file lacks.
            if not index.in_memory:
                index.load()
        old_segments.keep(self)

    def _remember_position(self, header: BatchHeader) -> None:
        self._recent.append((header.last_offset, header.position, header.position + header.size_bytes, header.base_offset))
        if len(self._recent) > 2 * RECENT_BATCHES:
            self._recent = self._recent[RECENT_BATCHES:]

    def seal(self) -> None:
        """Write the indexes, with a last entry for the largest timestamp, and free what only appends need; raises OSError."""
        if self._is_reserved:
            file = self.file
            os.ftruncate(file.fileno(), self.size_bytes)
            self._is_reserved = False
        self.write_indexes(closing=True)
        self.offset_index.release()
        self.time_index.release()
        self._recent = []
        if self._file is not None:
            old_segments.add(self)

    def write_indexes(self, *, closing: bool = False) -> None:
        """Write index entries that are only in memory; raises OSError."""
        if closing and self.time_index.in_memory:
            self.time_index.maybe_append(*self.max_timestamp)
        self.offset_index.write()
        self.time_index.write()

    def sync(self) -> bool:
        """Make everything written so far durable, but not the files' names; returns whether one is newer than the segment's.

        Raises OSError.
        """
        self.sync_batches()
        self._sync_indexes()
        return self.transaction_index.sync()

    def sync_batches(self) -> None:
        """Make only the file of batches durable; raises OSError."""
        file = self.file
        fdatasync(file.fileno(), self.directory)

    def _sync_indexes(self) -> None:
        self.offset_index.sync()
        if self.offset_index.entries or self.time_index.is_cut:
            # Without entries, all batches are read when the segment is opened or its indexes are checked.
            self.time_index.sync()

    def close(self) -> None:
        """Write the indexes durably, and release the file; regions in use stay readable. Raises OSError."""
        is_cut = self._is_reserved
        self.seal()
        if is_cut:
            self.sync_batches()
        self._sync_indexes()
        self.release_file()

    def release_file(self) -> None:
        """Release the file of batches, and write nothing."""
        self._file = None

    @override
    def change_suffix(self, suffix: str) -> None:
        """The file is opened again when it is used: its errors name it as it is called then."""
        if not KEEPS_OPEN_FILES:
            self.release_file()
        super().change_suffix(suffix)
        self.release_file()

    @override
    def mark_deleted(self) -> list[Path]:
        self._leave()
        return super().mark_deleted()

    @override
    def remove(self) -> None:
        self._leave()
        super().remove()

    @override
    def remove_durably(self) -> None:
        self._leave()
        super().remove_durably()

    def _leave(self) -> None:
        """Close the file before it is renamed or removed, if it cannot be open then. Readers look for their offset again."""
        if not KEEPS_OPEN_FILES:
            self._is_gone = True
            self.release_file()

    # Rebuilding and removing.

    def _create_others(self, reserve_bytes: int) -> None:
        try:
            # Empty, but tools expect the files.
            self.offset_index.create()
            self.time_index.create()
            self.transaction_index.set_file_size(0)
            if reserve_bytes:
                self.reserve(reserve_bytes)
        except OSError:
            self.remove()
            raise

    def _recreate(self, reserve_bytes: int) -> None:
        """Empty the files that another segment with this base offset left."""
        self._file = SegmentFile(self.path, "w+")
        self.write_indexes()
        self.transaction_index.reset()
        if reserve_bytes:
            self.reserve(reserve_bytes)

    def reset_indexes(self) -> None:
        """Clear the indexes, to index the batches again."""
        self.offset_index.reset()
        self.time_index.reset()
        self.is_index_full = False
        self._recent = []
        self._bytes_since_index_entry = 0
        self._max_timestamp = TimestampOffset(-1, self.base_offset)

    def truncate_file(self, size_bytes: int) -> None:
        """Cut only the file of batches, durably; raises OSError.

        The next append may reach the disk before a cut that was not synced: old batches would follow new ones.
        """
        file = self.file
        os.ftruncate(file.fileno(), size_bytes)
        fdatasync(file.fileno(), self.directory)
        self.size_bytes = size_bytes

    def truncate_to(self, offset: int) -> int:
        """Remove the batch with ``offset`` and all after it, durably, and become the active segment; raises OSError.

        Returns the new end offset, which is lower than ``offset`` if that is inside a batch.
        """
        found = self.locate(offset)
        self._recent = []
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        if found:
            self.truncate_file(found[1])
        if not self.size_bytes:
            self.first_timestamp_ms = None
        self.open_for_append()
        return min(offset, found[3]) if found else offset

    def preload(self) -> None:
        """Open the file and load the indexes, before the files are renamed; raises OSError.

        Readers of this segment can continue, and never open a new file of the same name.
        """
        if not self.is_checked:
            self._check_indexes()
        self.transaction_index.pin()
        self._load_indexes()
        _ = self.max_timestamp, self.file


class OpenSegments:
    """Segments that keep their files open until others need the descriptors; the ones that are not used go first.

    A segment that is used is passed over once (second chance), so that a use costs an assignment and no lock. Threads that use a
    file hold a reference to it, which keeps it open.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = machine.Lock()
        self._segments: OrderedDict[ReferenceType[LogSegment], None] = OrderedDict()

    def add(self, segment: LogSegment) -> None:
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

    def keep(self, segment: LogSegment) -> None:
        """Leave a segment's file open from now on."""
        with self._lock:
            self._segments.pop(ref(segment), None)


old_segments: Final = OpenSegments(MAX_OPEN_OLD_SEGMENTS)
