"""The ``.txnindex`` of a segment: the aborted transactions whose marker is in the segment.

An entry is version 0 (16 bits), producer id, first offset, last offset and the last stable offset at that time (64 bits each).
"""

import os
import struct
import threading
from pathlib import Path

from twisted_kafka.file_io import read_whole, write_at
from twisted_kafka.log.files import remove_if_there, sync_file
from twisted_kafka.log.results import AbortedTransaction

_ENTRY = struct.Struct(">hqqqq")
ENTRY_BYTES = _ENTRY.size
_VERSION = 0
_publishing = threading.Lock()
"""Held to publish the entries of a file: a concurrent append must not be overwritten by what was read before it.

Never held during I/O: a disk that hangs must not block readers of other disks.
"""


class TransactionIndex:
    """The entries of one segment, read on first use and kept. The file exists only if there are any."""

    __slots__ = ("_entries", "_has_new_name", "_written", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self._entries: tuple[AbortedTransaction, ...] | None = None
        self._written = 0
        self._has_new_name = False
        """Whether the file was created and its name may not be durable."""

    @property
    def entries(self) -> tuple[AbortedTransaction, ...]:
        """The entries in the order of their markers; raises OSError."""
        entries = self._entries
        if entries is None:
            found, written = self._read()
            with _publishing:
                entries = self._entries
                if entries is None:
                    self._written = written
                    entries = self._entries = found
        return entries

    def append(self, aborted: AbortedTransaction) -> None:
        """Add an entry and write it. It is added even if the write raises OSError: the next call or ``sync`` writes it."""
        self._entries = (*self.entries, aborted)
        self._write()

    def _write(self) -> None:
        entries = self._entries or ()
        if self._written == len(entries):
            return
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            if not self._written:
                self._has_new_name = True
            data = b"".join([_ENTRY.pack(_VERSION, *entry) for entry in entries[self._written :]])
            write_at(fd, data, self._written * _ENTRY.size)
        finally:
            os.close(fd)
        self._written = len(entries)

    def collect(self, fetch_offset: int, upper_bound: int) -> tuple[list[AbortedTransaction], bool]:
        """Return the transactions aborted between the offsets, and whether the result is complete: no later segment has more."""
        found = []
        for entry in self.entries:
            if entry.last_offset >= fetch_offset and entry.first_offset < upper_bound:
                found.append(entry)
            if entry.last_stable_offset >= upper_bound:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Remove the entries whose marker is at ``offset`` or above; raises OSError."""
        kept = tuple([entry for entry in self.entries if entry.last_offset < offset])
        if len(kept) < self._written:
            self._cut_file(len(kept) * _ENTRY.size)
            self._written = len(kept)
        self._entries = kept

    def expect_no_file(self) -> None:
        """Begin without entries: the segment is new."""
        self._entries = ()

    def reset(self) -> None:
        """Remove all entries; raises OSError."""
        if self.path.exists():
            self._cut_file(0)
        self.remove()
        self._entries = ()
        self._written = 0

    def _cut_file(self, size_bytes: int) -> None:
        # Durably: after a power failure, entries of transactions that the log no longer has must not come back.
        os.truncate(self.path, size_bytes)
        sync_file(self.path)

    def remove(self) -> None:
        """Remove the file."""
        remove_if_there(self.path)

    def sync(self) -> bool:
        """Make the file's content durable, but not its name; returns whether the name is new. Raises OSError."""
        if not self._entries:
            return False
        self._write()
        sync_file(self.path)
        if not self._has_new_name:
            return False
        self._has_new_name = False
        return True

    def _read(self) -> tuple[tuple[AbortedTransaction, ...], int]:
        """Return the entries of the file, and their number."""
        try:
            data = read_whole(self.path)
        except FileNotFoundError:
            if not self.path.parent.exists():
                raise  # the log is being moved: the file may exist
            return (), 0
        whole = len(data) // _ENTRY.size * _ENTRY.size
        found = tuple([AbortedTransaction(*fields[1:]) for fields in _ENTRY.iter_unpack(data[:whole])])
        return found, len(found)
