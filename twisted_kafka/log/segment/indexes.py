"""The sparse indexes of a segment: by offset and by time.

An ``.index`` entry is (offset - base offset, position), two 32-bit numbers; a ``.timeindex`` entry is (timestamp in ms, 64
bits; offset - base offset, 32 bits); all big-endian and ascending. The files exist from the segment's creation, empty at first:
Kafka's DumpLogSegments fails on a missing one. The index of the active segment is kept in memory; its new entries are written
when the log is flushed, rolled or closed. After a crash, recovery rebuilds the indexes of all segments from the recovery point on.
(Kafka preallocates the file and maps it; the unused zeros at the end of such files are recognised and cut.) The index of an older
segment is read when it is searched, and its content is cached for the next search.
"""

import bisect
import contextlib
import operator
import os
import struct
import sys
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from io import FileIO
from itertools import islice
from pathlib import Path
from typing import ClassVar, NamedTuple, Self, TypeAlias, cast

from typing_extensions import override

from twisted_kafka.log.files import sync_file
from twisted_kafka.system import machine
from twisted_kafka.system.files.file_io import read_at, read_whole, write_at
from twisted_kafka.system.files.names import open_descriptor, replace
from twisted_kafka.system.interpreter import ARRAYS_ARE_SHARED

_OFFSET_ENTRY = struct.Struct(">II")
_TIME_ENTRY = struct.Struct(">qI")
_NOTHING_YET = -1
"""In place of the number of entries in the file: the whole file must be written."""
_MUST_SWAP = sys.byteorder == "little"

Column: TypeAlias = "array[int] | list[int]"
Columns = tuple[Column, Column]
"""Keys and values."""

MAX_CACHED_FILE_BYTES = 1 << 20
"""Larger index files are not cached; a search reads single entries."""
MAX_CACHED_BYTES = 16 << 20
"""The most content of index files that is cached in memory, of all logs together."""


class TimestampOffset(NamedTuple):
    """A time index entry: up to and including ``offset`` no record is later than ``timestamp_ms``."""

    timestamp_ms: int
    offset: int


timestamp_offset_of = cast(Callable[[tuple[int, int]], TimestampOffset], partial(tuple.__new__, TimestampOffset))
"""Makes a TimestampOffset of a plain pair, in half the time of the class; for appends."""


class _ContentCache:
    """The indexes whose file content is cached in memory. Above MAX_CACHED_BYTES the oldest contents are dropped."""

    def __init__(self) -> None:
        self._lock = machine.Lock()
        self._indexes: deque[tuple[_Index, int]] = deque()
        self._bytes = 0

    def add(self, index: "_Index", size_bytes: int) -> None:
        with self._lock:
            self._indexes.append((index, size_bytes))
            self._bytes += size_bytes
            while self._bytes > MAX_CACHED_BYTES:
                oldest, size = self._indexes.popleft()
                oldest._content = None
                self._bytes -= size


_content_cache = _ContentCache()


_new_column: Callable[[str], Column] = array if ARRAYS_ARE_SHARED else lambda _: []
"""Makes an empty column for a type code of ``array``."""


class _Index:
    """The base of both indexes: two columns, of keys and values, while in memory; a file of entries otherwise."""

    __slots__ = (
        "_columns",
        "_content",
        "_file_entries",
        "_synced",
        "_version",
        "_written",
        "base_offset",
        "is_cut",
        "max_entries",
        "path",
    )

    entry: ClassVar[struct.Struct]
    key_type: ClassVar[str]

    def __init__(self, path: Path, base_offset: int, max_bytes: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self.max_entries = max_bytes // self.entry.size
        self._columns: Columns | None = None
        self._file_entries = -1
        self._content: tuple[int, Columns] | None = None
        self._version = 0
        """Counts changes of the file: content of an earlier version is not used."""
        self._written = self._synced = _NOTHING_YET
        self.is_cut = False
        """Whether entries were removed from the file, and that is not durable yet."""

    @property
    def entries(self) -> int:
        """The number of entries."""
        columns = self._columns
        if columns is not None:
            return len(columns[0])
        if self._file_entries < 0:
            try:
                self._file_entries = os.stat(self.path).st_size // self.entry.size
            except FileNotFoundError:
                self._file_entries = 0
        return self._file_entries

    @property
    def in_memory(self) -> bool:
        """Whether entries can be added."""
        return self._columns is not None

    def set_file_size(self, size_bytes: int) -> bool:
        """Set the file's size, taken from a listing of the directory; returns whether the size is valid for an index."""
        self._file_entries, rest = divmod(size_bytes, self.entry.size)
        return not rest

    def load(self) -> None:
        """Read the entries into memory, for appends; unused entries that Kafka preallocated are left out."""
        keys: array[int] = array(self.key_type)
        values: array[int] = array("I")
        is_first = self._written == _NOTHING_YET
        if self._file_entries == 0:
            self._columns, self._written = (_new_column(self.key_type), _new_column("I")), 0
            return
        size = self.entry.size
        try:
            data = read_whole(self.path)
            file_entries: float = len(data) / size
        except FileNotFoundError:
            data, file_entries = b"", float(_NOTHING_YET)
        found = self._columns_of(data[: len(data) // size * size])
        if _ascend(operator.lt, found[0]) and _ascend(operator.le, found[1]):
            keys, values = found
        else:
            for key, value in zip(*found, strict=True):
                if keys and (key <= keys[-1] or value < values[-1]):
                    break
                keys.append(key)
                values.append(value)
        if len(keys) == 1 and keys[0] == values[0] == 0:
            del keys[:], values[:]
        self._columns = _shared(keys, values)
        self._written = len(keys) if len(keys) == file_entries else _NOTHING_YET
        if is_first:
            self._synced = self._written  # recovery rebuilds what an unclean shutdown may have left unsynced

    def create(self) -> None:
        """Create the empty file of an index without entries; raises OSError."""
        os.close(open_descriptor(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
        self._written = 0

    def reset(self) -> None:
        """Remove all entries; the index is in memory then."""
        self._columns = (_new_column(self.key_type), _new_column("I"))
        self._written = self._synced = _NOTHING_YET

    def replace_file(self, built: Self) -> None:
        """Replace the file by that of ``built``, an index of the same batches. Searches of the old one continue. Raises OSError."""
        built.release()
        replace(built.path, self.path)
        self._file_entries = built.entries
        self._version += 1

    def release(self) -> None:
        """Write new entries to the file, and drop those in memory."""
        if self._columns is not None:
            self.write()
            self._file_entries = len(self._columns[0])
            self._version += 1
            self._columns = None

    def write(self) -> None:
        """Write the entries that are not in the file yet; raises OSError."""
        if self._columns is None:
            return
        keys, values = self._columns
        count = len(keys)
        if self._written == count:
            return
        pack, size = self.entry.pack, self.entry.size
        is_new = self._written == _NOTHING_YET
        start = 0 if is_new else self._written
        data = b"".join([pack(keys[i], values[i]) for i in range(start, count)])
        fd = open_descriptor(self.path, os.O_WRONLY | os.O_CREAT)
        try:
            if is_new and os.fstat(fd).st_size:
                os.ftruncate(fd, 0)
                self.is_cut = True
            write_at(fd, data, start * size)
        finally:
            os.close(fd)
        self._written = count

    def sync(self) -> None:
        """Make the written entries durable, if they are not yet; raises OSError."""
        written = self._written
        if self.is_cut or (written > 0 and written != self._synced):
            sync_file(self.path)
            self._synced = written
            self.is_cut = False

    def _append(self, key: int, value: int) -> None:
        assert self._columns is not None
        keys, values = self._columns
        values.append(value)
        keys.append(key)

    def _keep(self, count: int) -> None:
        """Cut to the first ``count`` entries, in memory. Readers may still use the old arrays."""
        assert self._columns is not None
        keys, values = self._columns
        if count < len(keys):
            self._columns = (keys[:count], values[:count])
            self._written = self._synced = _NOTHING_YET
            self.write()

    @classmethod
    def _columns_of(cls, data: bytes) -> "tuple[array[int], array[int]]":
        """Decode the entries of a file into columns."""
        raise NotImplementedError

    def _now(self) -> Columns | None:
        """Return the entries, reading them if needed; None if the file is too large to cache. Raises OSError."""
        columns = self._columns
        if columns is not None:
            return columns
        kept = self._content
        return kept[1] if kept is not None and kept[0] == self._version else self._read_content()

    def _floor(self, key: int) -> tuple[int, int] | None:
        """Return the last entry whose key is at most ``key``."""
        columns = self._now()
        if columns is None:
            return self._floor_by_entries(key)
        keys, values = columns
        at = bisect.bisect_right(keys, key) - 1
        return (keys[at], values[at]) if at >= 0 else None

    def _read_content(self) -> Columns | None:
        """Read the file and cache its content; None if it is too large."""
        version, count, size = self._version, self.entries, self.entry.size
        if not count:
            return self._columns_of(b"")
        if count * size > MAX_CACHED_FILE_BYTES:
            return None
        data = read_whole(self.path)
        columns = self._columns_of(data[: min(count, len(data) // size) * size])
        self._content = (version, columns)
        _content_cache.add(self, len(data))
        return columns

    def _floor_by_entries(self, key: int) -> tuple[int, int] | None:
        with self._entries_of_file() as (count, read):
            at = bisect.bisect_right(range(count), key, key=lambda number: read(number)[0]) - 1
            return read(at) if at >= 0 else None

    @contextlib.contextmanager
    def _entries_of_file(self) -> Iterator[tuple[int, Callable[[int], tuple[int, int]]]]:
        """Yield the number of entries in the file, and a function that reads one of them. Raises OSError."""
        entry, size = self.entry, self.entry.size
        with FileIO(self.path) as file:

            def read(number: int) -> tuple[int, int]:
                first, second = entry.unpack(read_at(file, size, number * size))
                return first, second

            yield self.entries, read

    def _at(self, number: int) -> tuple[int, int] | None:
        """Return entry ``number``; a negative one counts from the end."""
        count = self.entries
        number += count if number < 0 else 0
        if not 0 <= number < count:
            return None
        columns = self._columns
        if columns is not None:
            return columns[0][number], columns[1][number]
        with FileIO(self.path) as file:
            found = self.entry.unpack(read_at(file, self.entry.size, number * self.entry.size))
        return int(found[0]), int(found[1])


def _shared(keys: "array[int]", values: "array[int]") -> Columns:
    """Return columns that grow while other threads read them."""
    return (keys, values) if ARRAYS_ARE_SHARED else (keys.tolist(), values.tolist())


def _ascend(compare: Callable[[int, int], bool], column: "array[int]") -> bool:
    return all(map(compare, column, islice(column, 1, None)))


class OffsetIndex(_Index):
    """Maps offsets to positions of batches in the segment."""

    __slots__ = ()
    entry: ClassVar[struct.Struct] = _OFFSET_ENTRY
    key_type: ClassVar[str] = "I"

    @property
    def room(self) -> int:
        """For how many more entries there is room."""
        return self.max_entries - self.entries

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another entry, so the segment must be rolled."""
        return self.in_memory and self.room <= 0

    def append(self, offset: int, position: int) -> None:
        """Add an entry: the batch whose last offset is ``offset`` begins at ``position``."""
        self._append(offset - self.base_offset, position)

    @classmethod
    @override
    def _columns_of(cls, data: bytes) -> "tuple[array[int], array[int]]":
        numbers = array("I", data)
        if _MUST_SWAP:
            numbers.byteswap()
        return numbers[0::2], numbers[1::2]

    def positions_around(self, offset: int) -> tuple[int, int]:
        """Return the positions of the two indexed batches around ``offset``: at or before its batch, and the next one.

        The next one is -1 after the last entry. It may be the batch with ``offset``, as entries have the last offsets of batches.
        """
        relative = offset - self.base_offset
        columns = self._now()
        if columns is None:
            found = self._floor_by_entries(relative)
            return found[1] if found else 0, -1
        keys, values = columns
        after = bisect.bisect_right(keys, relative)
        return values[after - 1] if after else 0, values[after] if after < len(keys) else -1

    def offset_behind(self, position: int) -> int | None:
        """Return an offset above those of all batches that end at ``position`` or before; None after the last entry."""
        columns = self._now()
        if columns is None:
            found = self._ceiling_by_entries(position)
            return None if found is None else self.base_offset + found
        keys, values = columns
        at = bisect.bisect_left(values, position)
        return self.base_offset + keys[at] if at < len(keys) else None

    def _ceiling_by_entries(self, position: int) -> int | None:
        """Return the key of the first entry with this position or a higher one; None after the last entry."""
        with self._entries_of_file() as (count, read):
            at = bisect.bisect_left(range(count), position, key=lambda number: read(number)[1])
            return read(at)[0] if at < count else None

    def last_entry(self) -> tuple[int, int]:
        """Return (offset, position) of the last entry; of the segment's start if the index is empty."""
        found = self._at(-1)
        return (self.base_offset + found[0], found[1]) if found else (self.base_offset, 0)

    def truncate_to(self, offset: int) -> None:
        """Remove the entries from ``offset`` on."""
        if self._columns is None:
            self.load()
        assert self._columns is not None
        self._keep(bisect.bisect_left(self._columns[0], max(0, offset - self.base_offset)))


class TimeIndex(_Index):
    """Maps timestamps to the offsets up to which no record is later."""

    __slots__ = ()
    entry: ClassVar[struct.Struct] = _TIME_ENTRY
    key_type: ClassVar[str] = "q"

    @property
    def room(self) -> int:
        """How many more entries fit, besides the last one, which is written when the segment is closed."""
        return self.max_entries - 1 - self.entries

    @property
    def is_full(self) -> bool:
        """Whether there is room only for the entry that is written when the segment is closed."""
        return self.in_memory and self.room <= 0

    def maybe_append(self, timestamp_ms: int, offset: int) -> None:
        """Add an entry if it is later than the last one; the index must be in memory."""
        assert self._columns is not None
        keys, values = self._columns
        relative = offset - self.base_offset
        if (not keys or timestamp_ms > keys[-1]) and timestamp_ms >= 0 and (not values or relative >= values[-1]):
            self._append(timestamp_ms, relative)

    @classmethod
    @override
    def _columns_of(cls, data: bytes) -> "tuple[array[int], array[int]]":
        numbers = array("I", data)
        if _MUST_SWAP:
            numbers.byteswap()
        keys = array("q", bytes(len(numbers) // 3 * 8))
        halves = memoryview(keys).cast("B").cast("I")
        halves[_MUST_SWAP::2], halves[1 - _MUST_SWAP :: 2] = numbers[0::3], numbers[1::3]
        return keys, numbers[2::3]

    def lookup(self, timestamp_ms: int) -> TimestampOffset:
        """Return the last entry not later than ``timestamp_ms``; (-1, base offset) if all entries are later."""
        found = self._floor(timestamp_ms)
        return TimestampOffset(found[0], self.base_offset + found[1]) if found else TimestampOffset(-1, self.base_offset)

    def last_entry(self) -> TimestampOffset:
        """Return the last entry; (-1, base offset) if the index is empty."""
        found = self._at(-1)
        return TimestampOffset(found[0], self.base_offset + found[1]) if found else TimestampOffset(-1, self.base_offset)

    def truncate_to(self, offset: int) -> None:
        """Remove the entries whose offset is ``offset`` or higher."""
        if self._columns is None:
            self.load()
        assert self._columns is not None
        self._keep(bisect.bisect_left(self._columns[1], max(0, offset - self.base_offset)))
