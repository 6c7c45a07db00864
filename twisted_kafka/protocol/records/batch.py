"""Read record batches of every format."""

import struct
from collections.abc import Iterator

from twisted_kafka.protocol.errors import CorruptRecordError, InvalidRecordError
from twisted_kafka.protocol.records.checksums import crc32c
from twisted_kafka.protocol.records.compression import Compression, decompress
from twisted_kafka.protocol.records.legacy import LegacyBatch
from twisted_kafka.protocol.records.record import (
    CONTROL_FLAG,
    DEFAULT_DECOMPRESSION_LIMIT_BYTES,
    DELETE_HORIZON_FLAG,
    NO_SEQUENCE,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_FLAG,
    ControlRecordType,
    Header,
    Record,
    RecordBatch,
    SimpleRecord,
    TimestampType,
    control_record_type,
    increment_sequence,
)
from twisted_kafka.protocol.records.varint import read_varint, read_varlong
from twisted_kafka.protocol.regions import Buffer

__all__ = [
    "ControlRecordType",
    "DefaultBatch",
    "Header",
    "Record",
    "RecordBatch",
    "SimpleRecord",
    "TimestampType",
    "batch_size",
    "batches",
    "control_record_type",
    "parse_batch",
    "parse_records",
]

LOG_OVERHEAD = 12
"""Offset and size in front of every batch; the size doesn't count them."""
HEADER_SIZE = 61
"""Bytes of a batch of format 2 before its records."""
HEADER = struct.Struct(">qiibIhiqqqhii")
"""The fields of :class:`DefaultBatch` in its order, the size without the first 12 bytes."""
CRC_START = 21
"""The CRC covers a batch of format 2 from its attributes on."""
MAGIC_AT = 16

_SIZE_AT = 8
_SMALLEST_SIZE = 14
_LATEST_MAGIC = 2
_INT64_RANGE = 1 << 64
_INT64_MAX = (1 << 63) - 1
_read_size = struct.Struct(">i").unpack_from


class DefaultBatch(RecordBatch):
    """A batch of format 2."""

    __slots__ = ("_base_offset", "_count", "last_offset_delta")

    _base_offset: int
    _count: int
    last_offset_delta: int

    def __init__(self, data: memoryview, position: int = 0) -> None:
        """Parse the header of the batch that ``data`` holds, no less and no more."""
        self.data = data
        self.position = position
        (
            self._base_offset,
            size,
            self.partition_leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp_ms,
            self.max_timestamp_ms,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self._count,
        ) = HEADER.unpack_from(data)
        self.size_bytes = size + LOG_OVERHEAD
        self.last_offset = self._base_offset + self.last_offset_delta

    @property
    def base_offset(self) -> int:
        """The first record's offset (also when the cleaner has removed that record)."""
        return self._base_offset

    @property
    def count(self) -> int:
        """How many records it says it has."""
        return self._count

    @property
    def last_sequence(self) -> int:
        """The last record's sequence number, -1 without an idempotent producer."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def is_transactional(self) -> bool:
        """Whether the records belong to a transaction."""
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        """Whether it holds control records, which consumers never see."""
        return bool(self.attributes & CONTROL_FLAG)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When the cleaner may drop its tombstones and markers, None while that isn't set."""
        return self.base_timestamp_ms if self.attributes & DELETE_HORIZON_FLAG else None

    def is_valid(self) -> bool:
        """Whether the CRC-32C is right."""
        return crc32c(self.data[CRC_START:]) == self.crc

    def payload(self, limit_bytes: int = DEFAULT_DECOMPRESSION_LIMIT_BYTES) -> bytes:
        """Return the bytes of the records, decompressed."""
        codec = self.compression
        if codec == Compression.NONE:
            return bytes(self.data[HEADER_SIZE:])
        return decompress(codec, self.data[HEADER_SIZE:], limit_bytes=limit_bytes)

    def records(self, limit_bytes: int = DEFAULT_DECOMPRESSION_LIMIT_BYTES) -> Iterator[Record]:
        """Parse the records one after the other; raises as the base class says."""
        append_time = self.max_timestamp_ms if self.attributes & TIMESTAMP_TYPE_MASK else None
        return parse_records(
            self.payload(limit_bytes), self._count, self._base_offset, self.base_timestamp_ms, append_time, self.base_sequence
        )


def parse_records(
    payload: bytes,
    count: int,
    base_offset: int,
    base_timestamp_ms: int,
    append_time_ms: int | None = None,
    base_sequence: int = NO_SEQUENCE,
) -> Iterator[Record]:
    """Parse ``count`` records of format 2, decompressed.

    Raises InvalidRecordError where they don't parse or when bytes are left over.
    """
    if count < 0:
        raise InvalidRecordError(f"a record batch says that it has {count} records")
    position = 0
    try:
        for _ in range(count):
            size, position = read_varint(payload, position)
            end = position + size
            if size < 0 or end > len(payload):
                raise InvalidRecordError(f"a record says that it has {size} bytes, {len(payload) - position} are left")
            delta, position = read_varlong(payload, position + 1)
            offset_delta, position = read_varint(payload, position)
            key, position = _read_bytes(payload, position)
            value, position = _read_bytes(payload, position)
            headers: tuple[Header, ...] = ()
            number, position = read_varint(payload, position)
            if number:
                headers, position = _read_headers(payload, position, number)
            if position != end:
                raise InvalidRecordError(f"a record of {size} bytes ends {position - end} bytes off")
            timestamp = base_timestamp_ms + delta if append_time_ms is None else append_time_ms
            if not -_INT64_MAX <= timestamp <= _INT64_MAX:
                timestamp = (timestamp + _INT64_MAX + 1) % _INT64_RANGE - _INT64_MAX - 1
            sequence = base_sequence if base_sequence < 0 else increment_sequence(base_sequence, offset_delta)
            yield Record(base_offset + offset_delta, timestamp, key, value, headers, sequence)
    except (IndexError, ValueError) as error:
        raise InvalidRecordError(f"a record is malformed: {error}") from None
    if position != len(payload):
        raise InvalidRecordError(f"{len(payload) - position} bytes are left after the {count} records of a batch")


def _read_bytes(payload: bytes, position: int) -> tuple[bytes | None, int]:
    size, position = read_varint(payload, position)
    if size < 0:
        return None, position
    end = position + size
    if end > len(payload):
        raise InvalidRecordError(f"a field says that it has {size} bytes, {len(payload) - position} are left")
    return payload[position:end], end


def _read_headers(payload: bytes, position: int, number: int) -> tuple[tuple[Header, ...], int]:
    if not 0 <= number <= len(payload) - position:
        raise InvalidRecordError(f"a record says that it has {number} headers")
    headers = []
    for _ in range(number):
        key, position = _read_bytes(payload, position)
        if key is None:
            raise InvalidRecordError("a header's key has a negative length")
        value, position = _read_bytes(payload, position)
        headers.append((key.decode("utf-8", "surrogateescape"), value))
    return tuple(headers), position


def batch_size(data: Buffer, position: int = 0) -> int | None:
    """Return the bytes of the batch at ``position``, None when too few bytes are left to tell.

    Raises CorruptRecordError for a size or magic that cannot be (Kafka: ByteBufferLogInputStream).
    """
    left = len(data) - position
    if left < LOG_OVERHEAD:
        return None
    size: int = _read_size(data, position + _SIZE_AT)[0]
    if size < _SMALLEST_SIZE:
        raise CorruptRecordError(f"a record batch of {size} bytes is smaller than the least possible, {_SMALLEST_SIZE}")
    if left <= MAGIC_AT:
        return None
    magic = data[position + MAGIC_AT]
    if magic > _LATEST_MAGIC:
        raise CorruptRecordError(f"unknown magic {magic} in a record batch")
    size += LOG_OVERHEAD
    if magic == _LATEST_MAGIC and size < HEADER_SIZE:
        raise CorruptRecordError(f"a record batch of {size} bytes is smaller than its header, {HEADER_SIZE}")
    return size


def parse_batch(data: memoryview, position: int = 0) -> RecordBatch | None:
    """Return the batch at ``position``, None when it isn't there in full.

    Raises CorruptRecordError for an impossible size or magic.
    """
    size = batch_size(data, position)
    if size is None or size > len(data) - position:
        return None
    whole = data[position : position + size]
    return DefaultBatch(whole, position) if data[position + MAGIC_AT] == _LATEST_MAGIC else LegacyBatch(whole, position)


def batches(data: Buffer, position: int = 0) -> Iterator[RecordBatch]:
    """Iterate over the batches from ``position`` on; a last one that isn't there in full is left out.

    Checksums aren't checked. Raises CorruptRecordError for an impossible size or magic.
    """
    view = memoryview(data)
    while (batch := parse_batch(view, position)) is not None:
        yield batch
        position += batch.size_bytes
