"""Convert batches to older formats, for consumers that use old versions of Fetch."""

import sys
from collections.abc import Iterator

from twisted_kafka.protocol.errors import UnsupportedCompressionTypeError
from twisted_kafka.protocol.records.batch import Record, RecordBatch, TimestampType, batches
from twisted_kafka.protocol.records.builder import MessageSetWriter
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.protocol.regions import Buffer


def down_convert(data: Buffer, to_magic: int, first_offset: int = 0, *, limit_bytes: int | None = None) -> bytes:
    """Return the batches in a format of at most ``to_magic`` (Kafka: RecordsUtil.downConvert).

    Control batches and headers are dropped. Batches that are old enough stay as they are. An uncompressed batch becomes separate
    messages; those before ``first_offset``, for which the consumer did not ask, are omitted. Conversion stops after the batch that
    reaches ``limit_bytes``, so the result takes at most that and one batch. Formats 0 and 1 do not support zstd: the batches before
    the first one with zstd are returned; raises UnsupportedCompressionTypeError if zstd comes first.
    """
    parts: list[Buffer] = []
    left = sys.maxsize if limit_bytes is None else limit_bytes
    for batch in batches(data):
        if left <= 0 or (parts and to_magic < 2 and batch.compression == Compression.ZSTD):
            break
        converted = _down_converted(batch, to_magic, first_offset)
        if len(converted):
            parts.append(converted)
            left -= len(converted)
    return b"".join(parts)


def _down_converted(batch: RecordBatch, to_magic: int, first_offset: int) -> Buffer:
    if to_magic < 2:
        if batch.is_control:
            return b""
        if batch.compression == Compression.ZSTD:
            raise UnsupportedCompressionTypeError("down-conversion of zstd-compressed batches is not supported")
    if batch.magic <= to_magic:
        return batch.data
    compressed = batch.compression != Compression.NONE
    records = (record for record in batch.records() if compressed or record.offset >= first_offset)
    return _messages(batch, records, to_magic)


def _messages(batch: RecordBatch, records: Iterator[Record], magic: int) -> bytes:
    """Write records one by one as they are read: a batch may hold millions of small ones."""
    append_time_ms = batch.max_timestamp_ms if batch.timestamp_type == TimestampType.LOG_APPEND_TIME else None
    # Inner offsets of a compressed message are relative to the batch's base offset, whose record may have been compacted away.
    base = batch.base_offset if batch.compression and magic else 0
    writer = MessageSetWriter(magic, batch.compression, append_time_ms)
    for record in records:
        writer.add(record.offset - base, record)
    return writer.finish(base)
