"""Producer state in ``.snapshot`` files, named after the offset up to which they cover the log.

Version 1 (16 bits), CRC-32C of the rest (32), count (32), and per producer: id (64), epoch (16), last sequence (32), last offset
(64), offset delta (32), timestamp (64), coordinator epoch (32), first offset of its open transaction or -1 (64).
"""

import os
import struct
from collections.abc import Iterable
from pathlib import Path

from twisted_kafka.log.files import (
    SNAPSHOT_SUFFIX,
    is_foreign,
    offset_name,
    offset_of_name,
    remove_if_there,
    sync_file,
    write_atomically,
)
from twisted_kafka.log.producer_state.producer_state_manager import NO_SEQUENCE, ProducerBatch, ProducerEntry
from twisted_kafka.protocol.records.checksums import crc32c
from twisted_kafka.system.files.file_io import read_whole

_VERSION = 1
_HEADER = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")
_CRC_START = 6


class CorruptSnapshotError(ValueError):
    """A snapshot file is damaged."""


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """Return a snapshot file's content."""
    rows = []
    for entry in entries:
        last = entry.batches[-1] if entry.batches else ProducerBatch(NO_SEQUENCE, -1, 0, entry.last_timestamp_ms)
        rows.append(
            _ENTRY.pack(
                entry.producer_id,
                entry.epoch,
                last.last_sequence,
                last.last_offset,
                last.offset_delta,
                entry.last_timestamp_ms,
                entry.coordinator_epoch,
                entry.transaction_first_offset,
            )
        )
    body = struct.pack(">i", len(rows)) + b"".join(rows)
    return struct.pack(">hI", _VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """Return the entries of a snapshot file's content; raises CorruptSnapshotError."""
    if len(data) < _HEADER.size:
        raise CorruptSnapshotError(f"a snapshot must have at least {_HEADER.size} bytes, not {len(data)}")
    version, crc, count = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise CorruptSnapshotError(f"version {version} is unknown, expected {_VERSION}")
    if crc32c(data[_CRC_START:]) != crc:
        raise CorruptSnapshotError("the CRC does not match")
    if len(data) != _HEADER.size + count * _ENTRY.size:
        raise CorruptSnapshotError(f"the size of {len(data)} bytes does not match the {count} entries")
    return [_entry(fields) for fields in _ENTRY.iter_unpack(data[_HEADER.size :])]


def _entry(fields: tuple[int, ...]) -> ProducerEntry:
    producer_id, epoch, sequence, offset, delta, timestamp_ms, coordinator_epoch, first_offset = fields
    entry = ProducerEntry(producer_id, epoch)
    entry.last_timestamp_ms = timestamp_ms
    entry.coordinator_epoch = coordinator_epoch
    entry.transaction_first_offset = first_offset
    if offset >= 0:
        entry.batches.append(ProducerBatch(sequence, offset, delta, timestamp_ms))
    return entry


class SnapshotFiles:
    """The snapshots in a log's directory."""

    __slots__ = ("_known", "_unsynced", "directory", "last_written")

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._unsynced: list[int] = []
        self._known: set[int] | None = None
        self.last_written = -1

    def path(self, offset: int) -> Path:
        """Return the file of the snapshot at ``offset``."""
        return self.directory / (offset_name(offset) + SNAPSHOT_SUFFIX)

    def set_names(self, names: Iterable[str]) -> None:
        """Set the snapshots from a listing of the directory."""
        self._known = {offset_of_name(name) for name in names if name.endswith(SNAPSHOT_SUFFIX) and not is_foreign(name)}

    def offsets(self) -> list[int]:
        """Return the offsets of all snapshots, ascending; raises OSError."""
        if self._known is None:
            self.set_names(os.listdir(self.directory))
        return sorted(self._known or ())

    def write(self, offset: int, entries: Iterable[ProducerEntry]) -> None:
        """Write the snapshot at ``offset``; ``sync`` makes it durable if it has entries. Raises OSError.

        A snapshot without entries may be lost in a power failure: the state is rebuilt from the batches.
        """
        data = encode_snapshot(entries)
        write_atomically(self.path(offset), data, sync=False)
        if len(data) > _HEADER.size:
            self._unsynced.append(offset)
        if self._known is not None:
            self._known.add(offset)
        self.last_written = offset

    def read(self, offset: int) -> list[ProducerEntry]:
        """Read the snapshot at ``offset``; raises CorruptSnapshotError, OSError."""
        entries = decode_snapshot(read_whole(self.path(offset)))
        self.last_written = offset
        return entries

    def remove(self, offset: int) -> None:
        """Remove the snapshot at ``offset``, if it exists; raises OSError."""
        remove_if_there(self.path(offset))
        if self._known is not None:
            self._known.discard(offset)
        if self.last_written == offset:
            self.last_written = -1

    def sync(self) -> bool:
        """Make the content of the snapshots written so far durable, but not their names; returns whether there were any.

        Raises OSError.
        """
        unsynced = list(self._unsynced)
        for offset in unsynced:
            sync_file(self.path(offset))
        del self._unsynced[: len(unsynced)]  # a concurrent roll may have added one
        return bool(unsynced)
