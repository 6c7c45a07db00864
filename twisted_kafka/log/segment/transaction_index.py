"""The ``.txnindex`` of a segment: the aborted transactions whose marker is in the segment.

An entry is version 0 (16 bits), producer id, first offset, last offset and the last stable offset at that time (64 bits each). The
last offset is that of the marker, so it ascends. The last entries stay in memory, where readers at the end of the log find them;
older ones are looked up in the file, whose content is cached if it is small.
"""

import os
import struct
from bisect import bisect_left
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Final

from twisted_kafka.log.files import remove_if_there, sync_file
from twisted_kafka.log.results import AbortedTransaction
from twisted_kafka.system import machine
from twisted_kafka.system.bounded import LARGEST_SHARE, BoundedCache
from twisted_kafka.system.files.file_io import read_at, read_whole, write_at
from twisted_kafka.system.files.names import open_descriptor

_ENTRY = struct.Struct(">hqqqq")
ENTRY_BYTES = _ENTRY.size
_VERSION = 0
_LAST_OFFSET = struct.Struct(">18xq8x")

RECENT_ENTRIES: Final = 512
"""A segment keeps at least this many of its last entries in memory, and at most twice as many."""
READ_ENTRIES: Final = 1024
"""Entries read at once from a file that is not cached."""
MAX_CACHED_BYTES: Final = 8 << 20
"""The most content of transaction indexes that is cached in memory, of all logs together."""

_NO_ENTRIES: Final[tuple[int, list[AbortedTransaction]]] = (0, [])
_publishing = machine.Lock()
"""Held to publish the size of a file: an older size must not overwrite that of a concurrent append.

Never held during I/O: a disk that hangs must not block readers of other disks.
"""


class TransactionIndex:
    """The entries of one segment. The file exists only if there are any. Changes need the log's lock, reads do not."""

    __slots__ = ("_has_new_name", "_is_unsynced", "_pinned", "_recent", "_version", "_written", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self._recent: tuple[int, list[AbortedTransaction]] | None = None
        """The number of entries that are only in the file, and the entries after them; None until the file is read."""
        self._written = 0
        """How many entries are in the file."""
        self._version = 0
        """Counts removals of entries: content that was cached before is not used."""
        self._pinned: bytes | None = None
        self._is_unsynced = False
        self._has_new_name = False
        """Whether the file was created and its name may not be durable."""

    def set_file_size(self, size_bytes: int) -> None:
        """Set the file's size, taken from a listing of the directory; 0 if there is no file."""
        self._written = size_bytes // ENTRY_BYTES
        self._recent = (self._written, [])

    def is_sound(self, base_offset: int) -> bool:
        """Return whether the file has whole entries that a segment from ``base_offset`` on can have. Raises OSError.

        Readers would take the records of aborted transactions that are missing for committed ones.
        """
        data = read_whole(self.path)
        if len(data) % ENTRY_BYTES:
            return False
        previous = base_offset - 1
        for version, producer_id, first, last, stable in _ENTRY.iter_unpack(data):
            if version != _VERSION or producer_id < 0 or not 0 <= first <= last or last <= previous or not 0 <= stable <= last + 1:
                return False
            previous = last
        return True

    def _known(self) -> tuple[int, list[AbortedTransaction]]:
        recent = self._recent
        if recent is None:
            count = self._count_in_file()
            with _publishing:
                recent = self._recent
                if recent is None:
                    self._written = count
                    recent = self._recent = (count, [])
        return recent

    def _count_in_file(self) -> int:
        try:
            return os.stat(self.path).st_size // ENTRY_BYTES
        except FileNotFoundError:
            if not self.path.parent.exists():
                raise  # the log is being moved: the file may exist
            return 0

    @property
    def entries(self) -> tuple[AbortedTransaction, ...]:
        """All entries, in the order of their markers; raises OSError."""
        return tuple(self._since(0))

    def append(self, aborted: AbortedTransaction) -> None:
        """Add an entry and write it. It is added even if the write raises OSError: the next call or ``sync`` writes it."""
        first, recent = self._known()
        if len(recent) >= 2 * RECENT_ENTRIES and self._written == first + len(recent):
            # A new list, never a shorter one: a reader may be searching in the old one.
            first, recent = self._recent = (first + RECENT_ENTRIES, recent[RECENT_ENTRIES:])
        recent.append(aborted)
        self._write()

    def _write(self) -> None:
        first, recent = self._known()
        if self._written == first + len(recent):
            return
        fd = open_descriptor(self.path, os.O_WRONLY | os.O_CREAT)
        try:
            if not self._written:
                self._has_new_name = True
            self._is_unsynced = True
            data = b"".join([_ENTRY.pack(_VERSION, *entry) for entry in recent[self._written - first :]])
            write_at(fd, data, self._written * ENTRY_BYTES)
        finally:
            os.close(fd)
        self._written = first + len(recent)

    def collect(self, fetch_offset: int, upper_bound: int) -> tuple[list[AbortedTransaction], bool]:
        """Return the transactions aborted between the offsets, and whether the result is complete: no later segment has more."""
        if self._recent == _NO_ENTRIES:
            return [], False
        found = []
        for entry in self._since(fetch_offset):
            if entry.first_offset < upper_bound:
                found.append(entry)
            if entry.last_stable_offset >= upper_bound:
                return found, True
        return found, False

    def _since(self, offset: int) -> Iterator[AbortedTransaction]:
        """Yield the entries whose marker is at ``offset`` or above."""
        first, recent = self._known()
        if first and not (recent and recent[0].last_offset < offset):
            yield from self._older(offset, first)
        at = bisect_left(recent, offset, key=_last_offset)
        while at < len(recent):
            yield recent[at]
            at += 1

    def _older(self, offset: int, count: int) -> Iterator[AbortedTransaction]:
        """Yield the first ``count`` entries of the file that end at ``offset`` or later."""
        data = self._content(count)
        if data is not None:
            at = bisect_left(range(count), offset, key=lambda number: _LAST_OFFSET.unpack_from(data, number * ENTRY_BYTES)[0])
            for position in range(at * ENTRY_BYTES, count * ENTRY_BYTES, ENTRY_BYTES):
                yield AbortedTransaction(*_ENTRY.unpack_from(data, position)[1:])
            return
        with FileIO(self.path) as file:
            at = _find_in(file, offset, count)
            while at < count:
                number = min(READ_ENTRIES, count - at)
                for fields in _ENTRY.iter_unpack(read_at(file, number * ENTRY_BYTES, at * ENTRY_BYTES)):
                    yield AbortedTransaction(*fields[1:])
                at += number

    def _content(self, count: int) -> bytes | None:
        """Return the file's content with at least ``count`` entries; None if it is too large to be cached."""
        if self._pinned is not None:
            return self._pinned
        size_bytes, version = count * ENTRY_BYTES, self._version
        kept = _cache.get(self)
        if kept is not None and kept[0] == version and len(kept[1]) >= size_bytes:
            return kept[1]
        if size_bytes > MAX_CACHED_BYTES // (2 * LARGEST_SHARE):
            return None
        with FileIO(self.path) as file:
            data = read_at(file, size_bytes, 0)
        _cache.put(self, (version, data))
        return data

    def pin(self) -> None:
        """Keep the content in memory: the file is about to be renamed, and readers of the segment continue. Raises OSError."""
        if self._known()[0]:
            self._pinned = read_whole(self.path)

    def truncate_to(self, offset: int) -> None:
        """Remove the entries whose marker is at ``offset`` or above; raises OSError."""
        first, recent = self._known()
        if first and not (recent and recent[0].last_offset < offset):
            with FileIO(self.path) as file:
                kept = _find_in(file, offset, first)
        else:
            kept = first
        kept += bisect_left(recent, offset, key=_last_offset)
        if kept < self._written:
            self._cut_file(kept * ENTRY_BYTES)
            self._written = kept
        self._forget_content()
        self._recent = (first, recent[: kept - first]) if kept >= first else (kept, [])

    def _forget_content(self) -> None:
        self._version += 1
        _cache.discard(self)

    def reset(self) -> None:
        """Remove all entries; raises OSError."""
        if self.path.exists():
            self._cut_file(0)
        self.remove()
        self._forget_content()
        self._is_unsynced = False
        self.set_file_size(0)

    def _cut_file(self, size_bytes: int) -> None:
        # Durably: after a power failure, entries of transactions that the log no longer has must not come back.
        os.truncate(self.path, size_bytes)
        sync_file(self.path)

    def remove(self) -> None:
        """Remove the file."""
        remove_if_there(self.path)

    def sync(self) -> bool:
        """Make the file's content durable, but not its name; returns whether the name is new. Raises OSError."""
        if self._recent is None:
            return False
        self._write()
        if self._is_unsynced:
            self._is_unsynced = False  # first: a write during the sync is not durable
            try:
                sync_file(self.path)
            except OSError:
                self._is_unsynced = True
                raise
        has_new_name, self._has_new_name = self._has_new_name, False
        return has_new_name


_cache: BoundedCache[TransactionIndex, tuple[int, bytes]] = BoundedCache(MAX_CACHED_BYTES, lambda _, kept: len(kept[1]))


def _last_offset(entry: AbortedTransaction) -> int:
    return entry.last_offset


def _find_in(file: FileIO, offset: int, count: int) -> int:
    """Return how many of the first ``count`` entries of the file have their marker below ``offset``."""

    def last_offset(number: int) -> int:
        found: int = _LAST_OFFSET.unpack(read_at(file, ENTRY_BYTES, number * ENTRY_BYTES))[0]
        return found

    return bisect_left(range(count), offset, key=last_offset)
