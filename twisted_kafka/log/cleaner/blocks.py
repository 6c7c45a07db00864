"""Reads a segment for the cleaner, in blocks of complete batches of one format."""

import struct
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, cast

from twisted_kafka.log.batch_headers import is_plausible
from twisted_kafka.protocol.errors import CorruptRecordError
from twisted_kafka.protocol.records.batch import DefaultBatch
from twisted_kafka.protocol.records.compression import CODECS, Compression, decompress
from twisted_kafka.protocol.records.layout import HEADER, HEADER_SIZE, LATEST_MAGIC, LOG_OVERHEAD, MAGIC_AT, stated_end
from twisted_kafka.protocol.records.legacy import LegacyBatch
from twisted_kafka.protocol.records.record import (
    COMPRESSION_MASK,
    CONTROL_FLAG,
    DEFAULT_DECOMPRESSION_LIMIT_BYTES,
    DELETE_HORIZON_FLAG,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_FLAG,
)
from twisted_kafka.system.files.file_io import OpenFile, read_at

SMALLEST_READ_BYTES = 4096
LARGEST_READ_BYTES = 4 << 20
"""The most that is read between two checks of whether the cleaning was aborted."""


MAX_DECOMPRESSED_BYTES = 8 << 20
"""Batches are decompressed until their records have this size: the cleaner handles these before it decompresses more.

A client can write batches of two kilobytes whose records have 64 MiB.
"""


class Batch(NamedTuple):
    """The header of a format 2 batch, its fields in their order, and its place in the block."""

    base_offset: int
    size: int
    """The size as written, without the first 12 bytes."""
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    position: int
    end: int
    """The position in the block where the batch ends."""
    last_offset: int
    """The offset of the last record, even if the record was removed."""

    @property
    def is_control(self) -> bool:
        """Whether it holds control records."""
        return self.attributes & CONTROL_FLAG != 0

    @property
    def is_transactional(self) -> bool:
        """Whether it belongs to a transaction."""
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_append_time(self) -> bool:
        """Whether the broker set its timestamps."""
        return self.attributes & TIMESTAMP_TYPE_MASK != 0

    @property
    def codec(self) -> Compression:
        """Its codec; raises CorruptRecordError for one that does not exist."""
        number = self.attributes & COMPRESSION_MASK
        if number >= len(CODECS):
            raise CorruptRecordError(f"unknown compression type {number} in the batch at offset {self.base_offset}")
        return CODECS[number]

    @property
    def delete_horizon_ms(self) -> int | None:
        """When its tombstones or marker can be removed; None if not set yet (KIP-534)."""
        return self.base_timestamp_ms if self.attributes & DELETE_HORIZON_FLAG else None


_NOT_PLAIN = TRANSACTIONAL_FLAG | CONTROL_FLAG | DELETE_HORIZON_FLAG | COMPRESSION_MASK
_GLANCE = struct.Struct(">8xi4xb4xh34xi")
"""Size, magic, attributes and record count of a header."""
_batch_of = cast(Callable[[tuple[int, ...]], Batch], partial(tuple.__new__, Batch))


class DataBatch(NamedTuple):
    """A format 2 batch for the offset map; ``payload`` are its decompressed records."""

    base_offset: int
    last_offset: int
    record_count: int
    payload: bytes
    keeps_tombstones: bool = True


class Block:
    """Complete batches of a segment: ``batches`` of format 2, which begin at ``positions``, or ``messages`` of formats 0 and 1.

    ``is_plain``: all batches have records, are uncompressed, not transactional and without a delete horizon. Nearly all blocks of
    logs with small batches are plain, and need not be processed batch by batch.
    """

    __slots__ = ("_batches", "data", "ends", "is_plain", "messages", "positions")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.positions: list[int] = []
        self.ends: list[int] = []
        self.messages: list[LegacyBatch] = []
        self.is_plain = False
        self._batches: list[Batch] | None = None

    @property
    def batches(self) -> list[Batch]:
        """The batches of format 2."""
        if self._batches is None:
            self._batches = [self.batch(number) for number in range(len(self.positions))]
        return self._batches

    def batch(self, number: int) -> Batch:
        """Return the batch with this index."""
        position = self.positions[number]
        fields = HEADER.unpack_from(self.data, position)
        return _batch_of((*fields, position, self.ends[number], fields[0] + fields[6]))

    def payloads(self) -> list[bytes]:
        """Return the records of all batches of a plain block."""
        data = self.data
        return [data[at + HEADER_SIZE : end] for at, end in zip(self.positions, self.ends, strict=True)]

    def plain_data(self) -> list[DataBatch]:
        """Return all batches of a plain block for the offset map."""
        return [
            DataBatch(each.base_offset, each.last_offset, each.record_count, payload)
            for each, payload in zip(self.batches, self.payloads(), strict=True)
        ]

    def payload(self, batch: Batch) -> bytes:
        """Return a batch's records, decompressed; raises CorruptRecordError."""
        data = self.data[batch.position + HEADER_SIZE : batch.end]
        if not batch.attributes & COMPRESSION_MASK:
            return data
        return decompress(batch.codec, data, limit_bytes=DEFAULT_DECOMPRESSION_LIMIT_BYTES)

    def parsed(self, batch: Batch) -> DefaultBatch:
        """Return a batch as a DefaultBatch, to read its records."""
        return DefaultBatch(memoryview(self.data)[batch.position : batch.end])


def data_of(block: Block, batch: Batch) -> DataBatch:
    """Return a batch of a block for the offset map; raises CorruptRecordError."""
    return DataBatch(batch.base_offset, batch.last_offset, batch.record_count, block.payload(batch))


def go_on() -> None:
    pass  # the default check


def read_blocks(file: OpenFile, position: int, end: int, block_bytes: int, check: Callable[[], None] = go_on) -> Iterator[Block]:
    """Yield the batches of a file from ``position`` on, in blocks of about ``block_bytes``; larger if a batch is larger.

    ``check`` is called before each read, and stops the reading with its exception. A read is at most LARGEST_READ_BYTES. Raises
    OSError, also ShortFileError if the file ends before ``end``, and CorruptRecordError for an invalid batch.
    """
    wanted = max(block_bytes, SMALLEST_READ_BYTES)
    while position < end:
        data = _read(file, min(wanted, end - position), position, check)
        block, used, missing = _parse(data)
        if missing > end - position:
            raise CorruptRecordError(f"the batch at position {position} needs {missing} bytes, only {end - position} are left")
        if not used:
            if missing <= len(data):
                raise CorruptRecordError(f"there is no batch at position {position}")
            wanted = missing
            continue
        wanted = max(block_bytes, SMALLEST_READ_BYTES)
        position += used
        yield block


def _read(file: OpenFile, size_bytes: int, position: int, check: Callable[[], None]) -> bytes:
    parts = []
    for done in range(0, size_bytes, LARGEST_READ_BYTES):
        check()
        parts.append(read_at(file, min(LARGEST_READ_BYTES, size_bytes - done), position + done))
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _parse(data: bytes) -> tuple[Block, int, int]:
    """Return the complete batches of ``data``, their size, and the bytes that the first batch needs if none is complete."""
    block = Block(data)
    positions, ends, messages = block.positions, block.ends, block.messages
    unpack = _GLANCE.unpack_from
    position, length, flags = 0, len(data), 0
    while length - position >= HEADER_SIZE:
        # Nearly all batches are complete and of format 2: logs with small batches spend their time in this loop.
        size, magic, attributes, count = unpack(data, position)
        end = position + size + LOG_OVERHEAD
        if magic != LATEST_MAGIC or end - position < HEADER_SIZE or end > length:
            break
        flags |= attributes if count > 0 else _NOT_PLAIN
        positions.append(position)
        ends.append(end)
        position = end
    block.is_plain = not flags & _NOT_PLAIN and position > 0
    while length - position > MAGIC_AT:
        size = stated_end(data, position) - position
        magic = data[position + MAGIC_AT]
        if not is_plausible(size, magic):
            raise CorruptRecordError(f"invalid batch of {size} bytes with magic {magic}")
        if size > length - position:
            return block, position, 0 if position else size
        if magic == LATEST_MAGIC or positions:
            break
        messages.append(LegacyBatch(memoryview(data)[position : position + size], position))
        position += size
    return block, position, 0 if position else MAGIC_AT + 1
