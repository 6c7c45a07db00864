"""Headers of batches in a file or in memory, read without the records.

The offset of a compressed message of format 0 or 1 is that of the last record inside.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import Protocol

from twisted_kafka.protocol.errors import CorruptRecordError
from twisted_kafka.protocol.records.checksums import crc32c
from twisted_kafka.protocol.records.layout import (
    CRC_AT,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    INT64,
    LATEST_MAGIC,
    LEGACY_CRC_AT,
    LEGACY_CRC_START,
    LEGACY_HEADER,
    LOG_OVERHEAD,
    MAGIC_AT,
    stated_end,
)
from twisted_kafka.protocol.records.record import CONTROL_FLAG, TRANSACTIONAL_FLAG
from twisted_kafka.protocol.regions import Buffer
from twisted_kafka.system.files.file_io import OpenFile, read_at, read_into

SCAN_BYTES = 27
"""The part of a header with the size and the offsets, in any format."""
SMALLEST_LEGACY_BYTES = 26

CHUNK_BYTES = 1 << 20
PROBE_BYTES = 4096
LARGE_BATCH_BYTES = 8192
"""Batches of this size or more are looked up at the exact position of an index entry first."""

_MAX_SEQUENCE = 2**31 - 1
_SCAN = struct.Struct(">qiibIhi")


class IndexedBatch(Protocol):
    """The properties of a batch that a segment and its indexes use."""

    @property
    def base_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def max_timestamp_ms(self) -> int: ...
    @property
    def position(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...


class BatchLike(IndexedBatch, Protocol):
    """The properties of a batch that the log uses; ``validation.BatchInfo`` and ``BatchHeader`` have them."""

    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    @property
    def base_sequence(self) -> int: ...
    @property
    def last_sequence(self) -> int: ...
    @property
    def is_transactional(self) -> bool: ...
    @property
    def is_control(self) -> bool: ...


class BatchHeader:
    """The header of a batch, and its position."""

    __slots__ = (
        "base_offset",
        "base_sequence",
        "count",
        "is_control",
        "is_transactional",
        "last_offset",
        "last_sequence",
        "leader_epoch",
        "magic",
        "max_timestamp_ms",
        "position",
        "producer_epoch",
        "producer_id",
        "size_bytes",
    )

    def __init__(self, data: Buffer, at: int, position: int) -> None:
        """Read the header at ``at`` in ``data``, which must have HEADER_SIZE there; for a smaller batch, all of its bytes."""
        self.position = position
        self.magic = magic = data[at + MAGIC_AT]
        if magic < LATEST_MAGIC:
            self._read_legacy(data, at)
            return
        (
            base,
            size,
            self.leader_epoch,
            _,
            _,
            attributes,
            delta,
            _,
            self.max_timestamp_ms,
            producer_id,
            epoch,
            sequence,
            self.count,
        ) = HEADER.unpack_from(data, at)
        self.base_offset = base
        self.last_offset = base + delta
        self.size_bytes = size + LOG_OVERHEAD
        self.producer_id = producer_id
        self.producer_epoch = epoch
        self.base_sequence = sequence
        self.last_sequence = -1 if sequence < 0 else advance_sequence(sequence, delta)
        self.is_transactional = attributes & TRANSACTIONAL_FLAG != 0
        self.is_control = attributes & CONTROL_FLAG != 0

    def _read_legacy(self, data: Buffer, at: int) -> None:
        offset, size, _, magic, _ = LEGACY_HEADER.unpack_from(data, at)
        self.base_offset = self.last_offset = offset
        self.size_bytes = size + LOG_OVERHEAD
        self.max_timestamp_ms = INT64.unpack_from(data, at + LEGACY_HEADER.size)[0] if magic == 1 else -1
        self.leader_epoch = self.producer_id = self.producer_epoch = self.base_sequence = self.last_sequence = self.count = -1
        self.is_transactional = self.is_control = False


def advance_sequence(sequence: int, by: int) -> int:
    """Return the sequence number ``by`` steps later; the largest is followed by 0."""
    advanced = sequence + by
    return advanced if advanced <= _MAX_SEQUENCE else advanced - _MAX_SEQUENCE - 1


def retreat_sequence(sequence: int, by: int) -> int:
    """Return the sequence number ``by`` steps earlier."""
    return sequence - by if sequence >= by else _MAX_SEQUENCE - (by - sequence) + 1


def is_plausible(size_bytes: int, magic: int) -> bool:
    """Return whether a batch of this format can have this size."""
    return size_bytes >= (HEADER_SIZE if magic == LATEST_MAGIC else SMALLEST_LEGACY_BYTES) and magic <= LATEST_MAGIC


def crc_matches(batch: memoryview) -> bool:
    """Return whether the CRC of a complete batch is right."""
    if batch[MAGIC_AT] == LATEST_MAGIC:
        return crc32c(batch[CRC_START:]) == int.from_bytes(batch[CRC_AT:CRC_START])
    return zlib.crc32(batch[LEGACY_CRC_START:]) == int.from_bytes(batch[LEGACY_CRC_AT:LEGACY_CRC_START])


def batches_in(data: Buffer) -> Iterator[BatchHeader]:
    """Yield the headers of the complete batches in ``data``, up to the first incomplete or invalid one."""
    position, end = 0, len(data)
    while end - position >= SMALLEST_LEGACY_BYTES:
        following = stated_end(data, position)
        if following > end or not is_plausible(following - position, data[position + MAGIC_AT]):
            return
        yield BatchHeader(data, position, position)
        position = following


def find_batch(file: OpenFile, position: int, end: int, offset: int, following: int = -1) -> tuple[int, int, int, int] | None:
    """Return (last offset, position, end position, base offset) of the first batch with ``offset`` or a higher one, or None.

    Searches from ``position``, which must be the start of a batch, up to ``end``. ``following`` is the start of a later batch; if
    batches are large, it is tried first.

    Raises CorruptRecordError if a batch on the way is invalid or exceeds ``end``, and OSError.
    """
    unpack = _SCAN.unpack_from
    if position + LARGE_BATCH_BYTES < following <= end - HEADER_SIZE:
        base, size, _, magic, _, _, delta = unpack(read_at(file, SCAN_BYTES, following))
        if base <= offset <= base + delta and magic == LATEST_MAGIC and following + size + LOG_OVERHEAD <= end:
            return base + delta, following, following + size + LOG_OVERHEAD, base
    chunk = b""
    start = position
    while end - position >= SMALLEST_LEGACY_BYTES:
        at = position - start
        if at + SCAN_BYTES > len(chunk):
            chunk = read_at(file, min(PROBE_BYTES, end - position), position).ljust(SCAN_BYTES, b"\0")
            start, at = position, 0
        base, size, _, magic, _, _, delta = unpack(chunk, at)
        size += LOG_OVERHEAD
        if not is_plausible(size, magic) or position + size > end:
            raise CorruptRecordError(f"{file.name} has an invalid batch at byte {position}")
        last = base + delta if magic == LATEST_MAGIC else base
        if last >= offset:
            return last, position, position + size, base
        position += size
    if position < end:
        raise CorruptRecordError(f"{file.name} has an invalid batch at byte {position}")
    return None


def scan_headers(file: OpenFile, position: int, end: int) -> Iterator[BatchHeader]:
    """Yield the headers of the batches in a file from ``position`` on, up to the first that is invalid or exceeds ``end``.

    Raises OSError, also ShortFileError if the file ends before ``end``.
    """
    chunk = b""
    start = position
    while end - position >= SMALLEST_LEGACY_BYTES:
        at = position - start
        if at + HEADER_SIZE > len(chunk):
            chunk = read_at(file, min(PROBE_BYTES, end - position), position).ljust(HEADER_SIZE, b"\0")
            start, at = position, 0
        size = stated_end(chunk, at) - at
        if position + size > end or not is_plausible(size, chunk[at + MAGIC_AT]):
            return
        yield BatchHeader(chunk, at, position)
        position += size


def scan_batches(file: OpenFile, position: int, end: int) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield headers and complete batches of a file. The memory of a batch is reused for the next ones.

    Ends at the first batch that is invalid or exceeds ``end``. CRCs are not checked. Raises OSError, also ShortFileError if the
    file ends before ``end``: an unreadable block is not the end of a log.
    """
    window = _Window(file, position, end)
    while end - position >= SMALLEST_LEGACY_BYTES:
        window.reach(position, min(end - position, HEADER_SIZE))
        at = position - window.start
        size = stated_end(window.memory, at) - at
        if size > end - position or not is_plausible(size, window.memory[at + MAGIC_AT]):
            return
        window.reach(position, size)
        at = position - window.start
        yield BatchHeader(window.memory, at, position), window.memory[at : at + size]
        position += size


class _Window:
    """The part of a file that is in memory during a sequential read."""

    __slots__ = ("_end", "_file", "_filled", "memory", "start")

    def __init__(self, file: OpenFile, position: int, end: int) -> None:
        self._file = file
        self._end = end
        self._filled = 0
        self.start = position
        self.memory = memoryview(bytearray(min(CHUNK_BYTES, max(0, end - position)) + HEADER_SIZE))

    def reach(self, position: int, size_bytes: int) -> None:
        """Load ``size_bytes`` from ``position``; raises OSError."""
        if position + size_bytes <= self.start + self._filled:
            return
        if size_bytes + HEADER_SIZE > len(self.memory):
            self.memory = memoryview(bytearray(size_bytes + HEADER_SIZE))
        self.start = position
        wanted = min(len(self.memory) - HEADER_SIZE, self._end - position)
        self._filled = 0  # nothing, if the read fails
        read_into(self._file, self.memory[:wanted], position)
        self._filled = wanted
