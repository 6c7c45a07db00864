"""Convert batches to older formats, for consumers that ask with old versions of Fetch."""

import sys
from collections.abc import Iterator

from twisted_kafka.protocol.errors import UnsupportedCompressionTypeError
from twisted_kafka.protocol.records.batch import Record, RecordBatch, TimestampType, batches
from twisted_kafka.protocol.records.builder import MessageSetWriter
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.protocol.regions import Buffer


def down_convert(data: Buffer, to_magic: int, first_offset: int = 0, *, limit_bytes: int | None = None) -> bytes:
    """Return the batches in a format of at most ``to_magic`` (Kafka: RecordsUtil.downConvert).

    Control batches and headers are dropped. Batches that are old enough stay as they are. Of an uncompressed batch that becomes
    messages of their own, those before ``first_offset`` are left out, for the consumer did not ask for them. No further batch is
    looked at once there are ``limit_bytes``: what grows takes no more memory than that and one batch. Formats 0
    and 1 don't know zstd: what comes before the first batch that has it is returned; raises UnsupportedCompressionTypeError if that
    is nothing.
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
    """Write records one after the other, as they are read: there may be millions of small ones in a batch."""
    append_time_ms = batch.max_timestamp_ms if batch.timestamp_type == TimestampType.LOG_APPEND_TIME else None
    # Inner offsets of a compressed message count from the batch's first offset, which may belong to a record that was compacted
    # away.
    base = batch.base_offset if batch.compression and magic else 0
    writer = MessageSetWriter(magic, batch.compression, append_time_ms)
    for record in records:
        writer.add(record.offset - base, record)
    return writer.finish(base)
