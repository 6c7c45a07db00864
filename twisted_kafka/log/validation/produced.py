"""Checks of a produced batch without parsing its records: whether it is one batch of the right format, and its producer.

The handler of Produce checks these before the append, which validates everything else (``log_validator``).
"""

import struct
from typing import Final

from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.protocol.records.layout import (
    ATTRIBUTES_AT,
    HEADER_SIZE,
    INT16,
    INT32,
    INT64,
    LATEST_MAGIC,
    LOG_OVERHEAD,
    MAGIC_AT,
    PRODUCER_EPOCH_AT,
    PRODUCER_ID_AT,
    SEQUENCE_AT,
    SIZE_AT,
    SMALLEST_SIZE,
)
from twisted_kafka.protocol.records.record import COMPRESSION_MASK, TRANSACTIONAL_FLAG
from twisted_kafka.protocol.regions import Buffer

_FIRST_VERSION_WITH_ZSTD: Final = 7
_TO_MAGIC: Final = MAGIC_AT + 1
_ZSTD: Final = int(Compression.ZSTD)
_SPECIAL: Final = TRANSACTIONAL_FLAG | COMPRESSION_MASK
_size_of = INT32.unpack_from
_read_head = struct.Struct(">8xi4xb4xh").unpack_from
"""Reads the stated size, the magic and the attributes of a batch of format 2."""


def the_batch(records: Buffer | None, version: int, transactional_id: str | None) -> tuple[Buffer | None, int]:
    """Return the only batch without trailing bytes, and 0, or an error code unless there is exactly one batch, of format 2.

    The checks, their order and the error codes are those of Kafka's ``ProduceRequest.validateRecords``.
    """
    if records is None or (size := len(records)) < _TO_MAGIC:
        return records, ErrorCode.INVALID_RECORD
    if size >= HEADER_SIZE:
        stated, magic, attributes = _read_head(records)
        if stated + LOG_OVERHEAD == size and magic == LATEST_MAGIC and not attributes & _SPECIAL:
            return records, 0  # most batches
    return _special_batch(records, size, version, transactional_id)


def _special_batch(records: Buffer, size: int, version: int, transactional_id: str | None) -> tuple[Buffer | None, int]:
    stated: int = _size_of(records, SIZE_AT)[0]
    magic = records[MAGIC_AT]
    if stated < SMALLEST_SIZE or magic > LATEST_MAGIC:
        return records, ErrorCode.CORRUPT_MESSAGE
    end = stated + LOG_OVERHEAD
    if end > size or magic != LATEST_MAGIC:
        return records, ErrorCode.INVALID_RECORD
    attributes = records[ATTRIBUTES_AT]
    if attributes & TRANSACTIONAL_FLAG and transactional_id is None:
        return records, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if version < _FIRST_VERSION_WITH_ZSTD and attributes & COMPRESSION_MASK == _ZSTD:
        return records, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    if end < size:
        return records[:end], _trailing_error(records[end:])
    return records, 0


def _trailing_error(rest: Buffer) -> int:
    """Return the error code for the bytes after the batch: another batch is an error, a truncated one is ignored."""
    stated: int = _size_of(rest, SIZE_AT)[0] if len(rest) >= LOG_OVERHEAD else SMALLEST_SIZE
    if stated < SMALLEST_SIZE:
        return ErrorCode.CORRUPT_MESSAGE
    if len(rest) < _TO_MAGIC:
        return 0
    if rest[MAGIC_AT] > LATEST_MAGIC:
        return ErrorCode.CORRUPT_MESSAGE
    return ErrorCode.INVALID_RECORD if stated + LOG_OVERHEAD <= len(rest) else 0


def transactional_producer(records: Buffer) -> tuple[int, int] | None:
    """Return the producer's id and epoch of a transactional batch; None for other batches, and for bytes shorter than a header."""
    if len(records) < HEADER_SIZE or not records[ATTRIBUTES_AT] & TRANSACTIONAL_FLAG:
        return None
    producer_id: int = INT64.unpack_from(records, PRODUCER_ID_AT)[0]
    return (producer_id, INT16.unpack_from(records, PRODUCER_EPOCH_AT)[0]) if producer_id >= 0 else None


def is_transactional(records: Buffer | None) -> bool:
    """Return whether it is a transactional batch of format 2."""
    return (
        records is not None
        and len(records) > ATTRIBUTES_AT
        and records[MAGIC_AT] == LATEST_MAGIC
        and records[ATTRIBUTES_AT] & TRANSACTIONAL_FLAG != 0
    )


def base_sequence(records: Buffer) -> int:
    """Return the sequence number of the batch's first record."""
    sequence: int = INT32.unpack_from(records, SEQUENCE_AT)[0]
    return sequence
