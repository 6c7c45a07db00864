"""Validates message sets of formats 0 and 1, and converts them to one batch of format 2, the format of the log."""

from collections.abc import Sequence

from twisted_kafka.config.keys.kafka_4 import MAX_ARRAY_BYTES
from twisted_kafka.log.results import Conversion, LogAppendInfo
from twisted_kafka.log.validation.records import LOG_APPEND_TIME, check_records
from twisted_kafka.log.validation.types import (
    AppendOrigin,
    BatchInfo,
    InvalidChecksumError,
    InvalidMagicError,
    ValidationContext,
)
from twisted_kafka.protocol.errors import CorruptRecordError, InvalidRecordError, RecordTooLargeError
from twisted_kafka.protocol.records.batch import DefaultBatch, Record, RecordBatch, TimestampType, batches
from twisted_kafka.protocol.records.builder import BatchOptions, build_batch
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.protocol.records.legacy import LegacyBatch

_CODECS = {codec.text: codec for codec in Compression} | {"uncompressed": Compression.NONE}
_PRODUCER = "producer"

DECOMPRESSION_LIMIT_BYTES = 64 * 1024 * 1024
"""The limit for the decompressed records of one batch; higher for a topic whose ``max.message.bytes`` is above a quarter of it, or
whose ``max.decompressed.message.bytes`` is set above it."""
_DECOMPRESSION_RATIO = 4

MAX_REWRITTEN_RECORDS = 200_000
"""The most records that are rewritten for one append. Each takes some microseconds, during which the partition is blocked, and a
compressed request of a few KB can have millions."""
SMALL_PAYLOAD_BYTES = 4 * 1024 * 1024
"""Batches of larger records are decompressed one at a time (``validate_and_assign_offsets``)."""


def decompression_limit(context: ValidationContext) -> int:
    """Return the limit for the decompressed bytes of a batch, so that a small request cannot use much memory."""
    if not context.takes_large:
        return SMALL_PAYLOAD_BYTES
    message_bytes = context.config.max_decompressed_message_bytes
    if message_bytes == MAX_ARRAY_BYTES:
        message_bytes = 0  # nobody has set it
    return max(DECOMPRESSION_LIMIT_BYTES, _DECOMPRESSION_RATIO * context.config.max_message_bytes, message_bytes)


def target_compression(source: Compression, context: ValidationContext) -> Compression:
    """Return the codec that the topic sets (``compression.type``) for records that were sent with ``source``."""
    name = context.config.compression_type
    return source if name == _PRODUCER else _CODECS[name]


def target_level(codec: Compression, context: ValidationContext) -> int | None:
    """Return the level that the topic sets for a codec (``compression.gzip.level`` and siblings).

    With ``compression.type=producer`` it is None, the default.
    """
    config = context.config
    if config.compression_type == _PRODUCER:
        return None
    if codec == Compression.GZIP:
        return config.compression_gzip_level
    if codec == Compression.LZ4:
        return config.compression_lz4_level
    if codec == Compression.ZSTD:
        return config.compression_zstd_level
    return None


def check_size(size_bytes: int, context: ValidationContext) -> None:
    """Raise RecordTooLargeError for a batch above ``max.message.bytes``."""
    limit = context.config.max_message_bytes
    if size_bytes > limit and context.origin != AppendOrigin.RAFT_LEADER:
        raise RecordTooLargeError(
            f"the record batch for {context.topic_partition} has {size_bytes} bytes, more than the topic's maximum, {limit}"
        )


def ensure_checksum(batch: RecordBatch) -> None:
    """Raise InvalidChecksumError if the checksum is wrong."""
    if not batch.is_valid():
        raise InvalidChecksumError(f"the record batch is corrupt: its checksum {batch.crc} does not match its content")


def check_rewritten_count(count: int) -> None:
    """Raise RecordTooLargeError if there are too many records to rewrite."""
    if count > MAX_REWRITTEN_RECORDS:
        raise RecordTooLargeError(f"{count} records would have to be rewritten, more than the maximum, {MAX_REWRITTEN_RECORDS}")


def validate_message_set(view: memoryview, context: ValidationContext) -> LogAppendInfo:
    """Validate messages of format 0 or 1, and return them as one batch of format 2 with offsets from the log end on."""
    started_ns = context.now_ns()
    messages = _checked_messages(view, context)
    if not messages:
        return LogAppendInfo(b"", (), 0)
    source = next((message.compression for message in messages if message.compression), Compression.NONE)
    if source and len(messages) > 1:
        raise InvalidRecordError("a compressed message must be the only one of a message set")
    limit = decompression_limit(context)
    records: list[Record] = []
    temporary_bytes = 0
    for message in messages:
        inner, decompressed_bytes = _records(message, context, limit)
        records += inner
        temporary_bytes += decompressed_bytes
    target = target_compression(source, context)
    options = BatchOptions(
        base_offset=context.offset,
        compression=target,
        level=target_level(target, context),
        partition_leader_epoch=context.leader_epoch,
    )
    append_time = context.config.message_timestamp_type == LOG_APPEND_TIME
    if append_time:
        options["timestamp_type"] = TimestampType.LOG_APPEND_TIME
        options["log_append_time_ms"] = context.now_ms
    batch = build_batch(records, **options)
    check_size(len(batch), context)
    result = LogAppendInfo(batch, (batch_info(DefaultBatch(memoryview(batch))),), len(records))
    result.source_compression = source
    result.conversion = Conversion(len(records), context.now_ns() - started_ns, temporary_bytes + len(batch))
    if append_time:
        result.log_append_time_ms = context.now_ms
    return result


def batch_info(batch: DefaultBatch) -> BatchInfo:
    """Return the properties of a batch that the log uses."""
    info = BatchInfo()
    info.base_offset = batch.base_offset
    info.last_offset = batch.last_offset
    info.max_timestamp_ms = batch.max_timestamp_ms
    info.position = batch.position
    info.size_bytes = batch.size_bytes
    info.producer_id = batch.producer_id
    info.producer_epoch = batch.producer_epoch
    info.base_sequence = batch.base_sequence
    info.is_transactional = batch.is_transactional
    info.is_control = batch.is_control
    return info


def _checked_messages(view: memoryview, context: ValidationContext) -> Sequence[LegacyBatch]:
    messages: list[RecordBatch] = []
    for message in batches(view):
        check_size(message.size_bytes, context)
        ensure_checksum(message)
        messages.append(message)
        check_rewritten_count(len(messages))
    legacy = [message for message in messages if isinstance(message, LegacyBatch) and message.magic == messages[0].magic]
    if len(legacy) != len(messages):
        raise InvalidMagicError(f"all batches must have the same magic as the first one, {messages[0].magic}")
    return legacy


def _inner_messages(message: LegacyBatch, limit_bytes: int) -> list[LegacyBatch]:
    try:
        return message.inner_messages(limit_bytes, MAX_REWRITTEN_RECORDS)
    except CorruptRecordError as error:
        # The outer checksum is right, so a retry would not help: use an error code that clients do not retry.
        raise InvalidRecordError(str(error)) from None


def _records(message: LegacyBatch, context: ValidationContext, limit_bytes: int) -> tuple[list[Record], int]:
    """Return a message's records, checked, and their decompressed size in bytes, 0 if they were not compressed."""
    decompressed_bytes = 0
    if message.compression:
        for index, inner in enumerate(_inner_messages(message, limit_bytes)):
            if inner.compression:
                raise InvalidRecordError(f"record {index} in a compressed message is compressed itself")
            if not inner.is_valid():
                raise InvalidChecksumError(f"record {index} in a compressed message has a wrong checksum")
            decompressed_bytes += inner.size_bytes
    records = list(message.records(limit_bytes))
    check_records(records, context, sent_append_time=message.timestamp_type == TimestampType.LOG_APPEND_TIME)
    return records, decompressed_bytes
