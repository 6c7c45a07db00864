"""What the cleaner reads: a segment in blocks of whole batches, each block of one format."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, cast

from twisted_kafka.log.batch_headers import is_plausible
from twisted_kafka.protocol.errors import CorruptRecordError
from twisted_kafka.protocol.records.batch import HEADER, HEADER_SIZE, LOG_OVERHEAD, MAGIC_AT, DefaultBatch
from twisted_kafka.protocol.records.compression import CODECS, Compression, decompress
from twisted_kafka.protocol.records.legacy import LegacyBatch
from twisted_kafka.protocol.records.record import (
    COMPRESSION_MASK,
    CONTROL_FLAG,
    DEFAULT_DECOMPRESSION_LIMIT_BYTES,
    DELETE_HORIZON_FLAG,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_FLAG,
)

SMALLEST_READ_BYTES = 4096
_LATEST_MAGIC = 2


class Batch(NamedTuple):
    """The header of a batch of format 2, with its fields in their order, and where in its block it lies."""

    base_offset: int
    size: int
    """Without the first 12 bytes, as it is written."""
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
    """Where in its block it ends."""
    last_offset: int
    """The offset of its last record, whether or not that is still there."""

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
        """When its tombstones or marker may go, None while that isn't set (KIP-534)."""
        return self.base_timestamp_ms if self.attributes & DELETE_HORIZON_FLAG else None


_batch_of = cast(Callable[[tuple[int, ...]], Batch], partial(tuple.__new__, Batch))


class Block:
    """Whole batches of a segment: either ``batches`` of format 2 or ``messages`` of the formats 0 and 1."""

    __slots__ = ("batches", "data", "messages")

    def __init__(self, data: bytes, batches: list[Batch], messages: list[LegacyBatch]) -> None:
        self.data = data
        self.batches = batches
        self.messages = messages

    def payload(self, batch: Batch) -> bytes:
        """Return a batch's records, decompressed; raises CorruptRecordError."""
        data = self.data[batch.position + HEADER_SIZE : batch.end]
        if not batch.attributes & COMPRESSION_MASK:
            return data
        return decompress(batch.codec, data, limit_bytes=DEFAULT_DECOMPRESSION_LIMIT_BYTES)

    def parsed(self, batch: Batch) -> DefaultBatch:
        """Return a batch to read its records from."""
        return DefaultBatch(memoryview(self.data)[batch.position : batch.end])


def read_blocks(fd: int, position: int, end: int, block_bytes: int) -> Iterator[Block]:
    """Yield the batches of a file from ``position`` on, in blocks of about ``block_bytes``, larger for larger batches.

    Raises CorruptRecordError for what is no batch, OSError.
    """
    wanted = max(block_bytes, SMALLEST_READ_BYTES)
    while position < end:
        data = os.pread(fd, min(wanted, end - position), position)
        block, used, missing = _parse(data)
        if missing > end - position:
            raise CorruptRecordError(f"the batch at position {position} needs {missing} bytes, {end - position} are left")
        if not used:
            if missing <= len(data):
                raise CorruptRecordError(f"there is no batch at position {position}")
            wanted = missing
            continue
        wanted = max(block_bytes, SMALLEST_READ_BYTES)
        position += used
        yield block


def _parse(data: bytes) -> tuple[Block, int, int]:
    """Return the batches at the front of ``data``, their bytes, and how many bytes a first one needs that is not there in full."""
    block = Block(data, [], [])
    batches, messages = block.batches, block.messages
    unpack, append = HEADER.unpack_from, batches.append
    position, length = 0, len(data)
    while length - position >= HEADER_SIZE and not messages:
        # By far the most are whole and of format 2: this is the loop that logs of small batches take their time in.
        fields = unpack(data, position)
        end = position + fields[1] + LOG_OVERHEAD
        if fields[3] != _LATEST_MAGIC or end - position < HEADER_SIZE or end > length:
            break
        append(_batch_of((*fields, position, end, fields[0] + fields[6])))
        position = end
    while length - position > MAGIC_AT:
        size = int.from_bytes(data[position + 8 : position + 12], signed=True) + LOG_OVERHEAD
        magic = data[position + MAGIC_AT]
        if not is_plausible(size, magic):
            raise CorruptRecordError(f"a batch of {size} bytes with magic {magic} cannot be")
        if size > length - position:
            return block, position, 0 if position else size
        if magic == _LATEST_MAGIC or batches:
            break
        messages.append(LegacyBatch(memoryview(data)[position : position + size], position))
        position += size
    return block, position, 0 if position else MAGIC_AT + 1
