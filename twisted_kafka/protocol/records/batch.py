"""Read record batches of every format."""

from collections.abc import Iterator

from typing_extensions import override

from twisted_kafka.protocol.errors import CorruptRecordError, InvalidRecordError
from twisted_kafka.protocol.records.checksums import crc32c
from twisted_kafka.protocol.records.compression import Compression, decompress
from twisted_kafka.protocol.records.layout import (
    CRC_START,
    HEADER,
    HEADER_SIZE,
    INT32,
    LATEST_MAGIC,
    LOG_OVERHEAD,
    MAGIC_AT,
    SIZE_AT,
    SMALLEST_SIZE,
)
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

_INT64_RANGE = 1 << 64
_INT64_MAX = (1 << 63) - 1
_read_size = INT32.unpack_from


class DefaultBatch(RecordBatch):
    """A batch of format 2."""

    __slots__ = ("_base_offset", "_count", "last_offset_delta")

    _base_offset: int
    _count: int
    last_offset_delta: int

    def __init__(self, data: memoryview, position: int = 0) -> None:
        """Parse the header of the batch in ``data``, which must hold exactly this batch."""
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
    @override
    def base_offset(self) -> int:
        """The first record's offset, also after the cleaner has removed that record."""
        return self._base_offset

    @property
    @override
    def count(self) -> int:
        """The declared number of records."""
        return self._count

    @property
    @override
    def last_sequence(self) -> int:
        """The last record's sequence number, -1 without an idempotent producer."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)

    @property
    @override
    def is_transactional(self) -> bool:
        """Whether the records belong to a transaction."""
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    @override
    def is_control(self) -> bool:
        """Whether it holds control records, which consumers never see."""
        return bool(self.attributes & CONTROL_FLAG)

    @property
    @override
    def delete_horizon_ms(self) -> int | None:
        """When the cleaner may remove its tombstones and markers; None until that is set."""
        return self.base_timestamp_ms if self.attributes & DELETE_HORIZON_FLAG else None

    @override
    def is_valid(self) -> bool:
        """Whether the CRC-32C is correct."""
        return crc32c(self.data[CRC_START:]) == self.crc

    def payload(self, limit_bytes: int = DEFAULT_DECOMPRESSION_LIMIT_BYTES) -> bytes:
        """Return the bytes of the records, decompressed."""
        codec = self.compression
        if codec == Compression.NONE:
            return bytes(self.data[HEADER_SIZE:])
        return decompress(codec, self.data[HEADER_SIZE:], limit_bytes=limit_bytes)

    @override
    def records(self, limit_bytes: int = DEFAULT_DECOMPRESSION_LIMIT_BYTES) -> Iterator[Record]:
        """Parse the records one by one; raises the errors of the base class."""
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
    """Parse ``count`` decompressed records of format 2.

    Raises InvalidRecordError when a record is malformed or bytes remain after the last one.
    """
    if count < 0:
        raise InvalidRecordError(f"invalid record count {count} in a record batch")
    position = 0
    try:
        for _ in range(count):
            size, position = read_varint(payload, position)
            end = position + size
            if size < 0 or end > len(payload):
                raise InvalidRecordError(f"a record declares a size of {size} bytes, but {len(payload) - position} remain")
            delta, position = read_varlong(payload, position + 1)
            offset_delta, position = read_varint(payload, position)
            key, position = _read_bytes(payload, position)
            value, position = _read_bytes(payload, position)
            headers: tuple[Header, ...] = ()
            number, position = read_varint(payload, position)
            if number:
                headers, position = _read_headers(payload, position, number)
            if position != end:
                raise InvalidRecordError(f"the fields of a record of {size} bytes take {size + position - end} bytes")
            timestamp = base_timestamp_ms + delta if append_time_ms is None else append_time_ms
            if not -_INT64_MAX <= timestamp <= _INT64_MAX:
                timestamp = (timestamp + _INT64_MAX + 1) % _INT64_RANGE - _INT64_MAX - 1
            sequence = base_sequence if base_sequence < 0 else increment_sequence(base_sequence, offset_delta)
            yield Record(base_offset + offset_delta, timestamp, key, value, headers, sequence)
    except (IndexError, ValueError) as error:
        raise InvalidRecordError(f"a record is malformed: {error}") from None
    if position != len(payload):
        raise InvalidRecordError(f"{len(payload) - position} bytes remain after the {count} records of a batch")


def _read_bytes(payload: bytes, position: int) -> tuple[bytes | None, int]:
    size, position = read_varint(payload, position)
    if size < 0:
        return None, position
    end = position + size
    if end > len(payload):
        raise InvalidRecordError(f"a field declares a size of {size} bytes, but {len(payload) - position} remain")
    return payload[position:end], end


def _read_headers(payload: bytes, position: int, number: int) -> tuple[tuple[Header, ...], int]:
    if not 0 <= number <= len(payload) - position:
        raise InvalidRecordError(f"invalid number of headers {number} in a record")
    headers = []
    for _ in range(number):
        key, position = _read_bytes(payload, position)
        if key is None:
            raise InvalidRecordError("a header's key has a negative length")
        value, position = _read_bytes(payload, position)
        headers.append((key.decode("utf-8", "surrogateescape"), value))
    return tuple(headers), position


def batch_size(data: Buffer, position: int = 0) -> int | None:
    """Return the size in bytes of the batch at ``position``, None when too few bytes remain to know it.

    Raises CorruptRecordError for an invalid size or magic (Kafka: ByteBufferLogInputStream).
    """
    left = len(data) - position
    if left < LOG_OVERHEAD:
        return None
    size: int = _read_size(data, position + SIZE_AT)[0]
    if size < SMALLEST_SIZE:
        raise CorruptRecordError(f"the record batch size {size} is less than the minimum of {SMALLEST_SIZE}")
    if left <= MAGIC_AT:
        return None
    magic = data[position + MAGIC_AT]
    if magic > LATEST_MAGIC:
        raise CorruptRecordError(f"unknown magic {magic} in a record batch")
    size += LOG_OVERHEAD
    if magic == LATEST_MAGIC and size < HEADER_SIZE:
        raise CorruptRecordError(f"the record batch size {size} is less than that of the header, {HEADER_SIZE}")
    return size


def parse_batch(data: memoryview, position: int = 0) -> RecordBatch | None:
    """Return the batch at ``position``, None when it is incomplete.

    Raises CorruptRecordError for an invalid size or magic.
    """
    size = batch_size(data, position)
    if size is None or size > len(data) - position:
        return None
    whole = data[position : position + size]
    return DefaultBatch(whole, position) if data[position + MAGIC_AT] == LATEST_MAGIC else LegacyBatch(whole, position)


def batches(data: Buffer, position: int = 0) -> Iterator[RecordBatch]:
    """Iterate over the batches from ``position`` on, without an incomplete one at the end.

    Checksums are not verified. Raises CorruptRecordError for an invalid size or magic.
    """
    view = memoryview(data)
    while (batch := parse_batch(view, position)) is not None:
        yield batch
        position += batch.size_bytes
