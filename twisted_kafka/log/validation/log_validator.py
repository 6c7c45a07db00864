"""Validates records before an append, and assigns offsets (Kafka: UnifiedLog.analyzeAndValidateRecords and LogValidator).

A batch of format 2 whose codec suits the topic is patched in place. Anything else (formats 0 and 1, another codec, offset
deltas that are not 0, 1, 2...) is rewritten. Records that a consumer could not parse are always rejected. A follower keeps the
offsets and epochs of its leader's batches (``check_replicated``).
"""

import struct
from typing import NoReturn

from twisted_kafka.log.batch_headers import BatchHeader, batches_in, crc_matches
from twisted_kafka.log.results import Conversion, LogAppendInfo
from twisted_kafka.log.validation.convert import (
    check_rewritten_count,
    check_size,
    decompression_limit,
    ensure_checksum,
    target_compression,
    target_level,
    validate_message_set,
)
from twisted_kafka.log.validation.records import LOG_APPEND_TIME, check_record_sizes, check_records, may_break_rules
from twisted_kafka.log.validation.types import (
    AppendOrigin,
    BatchInfo,
    InvalidChecksumError,
    InvalidOffsetOrSequenceError,
    InvalidRecordsError,
    InvalidTimestampsError,
    RecordValidationError,
    ValidationContext,
)
from twisted_kafka.protocol.errors import (
    CorruptRecordError,
    InvalidProducerEpochError,
    InvalidRecordError,
    RecordTooLargeError,
    UnsupportedCompressionTypeError,
)
from twisted_kafka.protocol.records.batch import (
    batch_size,
    batches,
    parse_records,
)
from twisted_kafka.protocol.records.builder import assemble_batch, encode_records
from twisted_kafka.protocol.records.checksums import crc32c
from twisted_kafka.protocol.records.compression import CODECS, Compression, compress, decompress_to_read
from twisted_kafka.protocol.records.layout import (
    CRC_AT,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    INT64,
    LATEST_MAGIC,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    PREFIX,
    UINT32,
)
from twisted_kafka.protocol.records.record import COMPRESSION_MASK, CONTROL_FLAG, TIMESTAMP_TYPE_MASK, TRANSACTIONAL_FLAG
from twisted_kafka.protocol.records.scan import scan_records
from twisted_kafka.protocol.records.scan_python import RecordScan
from twisted_kafka.protocol.regions import Buffer
from twisted_kafka.system import machine
from twisted_kafka.system.buffers import to_bytes, to_read

__all__ = [
    "AppendOrigin",
    "BatchInfo",
    "InvalidRecordsError",
    "InvalidTimestampsError",
    "RecordValidationError",
    "ValidationContext",
    "validate_and_assign_offsets",
]

_LARGE_PAYLOADS = machine.Lock()
"""Held while a batch is validated whose records are large."""
_CODEC_COUNT = len(CODECS)
_CLIENT = AppendOrigin.CLIENT
_RAFT_LEADER = AppendOrigin.RAFT_LEADER
_unpack_header = HEADER.unpack_from
_COVERED_HEAD = struct.Struct(">Ih")
_INT64_MAX = (1 << 63) - 1


def validate_and_assign_offsets(records: Buffer, context: ValidationContext) -> LogAppendInfo:
    """Validate the records of one partition, and return them with offsets from ``context.offset`` on.

    Where possible the bytes are patched: in place if they are writable, else in one copy. An incomplete batch at the end is left
    out.

    Raises CorruptRecordError (size, magic, CRC), InvalidRecordError (malformed records, wrong counts and offsets, control batches
    from clients, more than one batch), InvalidRecordsError and InvalidTimestampsError (for single records, which are listed),
    RecordTooLargeError, UnsupportedCompressionTypeError, InvalidProducerEpochError.
    """
    view = records if type(records) is memoryview else memoryview(records)
    try:
        if len(view) >= HEADER_SIZE:
            header = _unpack_header(view)
            if header[1] == len(view) - LOG_OVERHEAD and header[3] == LATEST_MAGIC:
                return _validate_batch(view, header, context)  # exactly one batch of format 2, the usual case
        return _validate_batches(view, context)
    except RecordTooLargeError:
        if context.takes_large:
            raise
    # The records may be allowed, but their memory must not add up: a few kilobytes become 64 MiB.
    with _LARGE_PAYLOADS:
        context.takes_large = True
        return _validate_batches(view, context)


def _validate_batches(view: memoryview, context: ValidationContext) -> LogAppendInfo:
    size = batch_size(view)
    if size is None or size > len(view):
        return LogAppendInfo(b"", (), 0)
    if view[MAGIC_AT] != LATEST_MAGIC:
        return validate_message_set(view, context)
    if size != len(view):
        _check_all(view, context)
        view = view[:size]
    return _validate_batch(view, _unpack_header(view), context)


def _check_all(view: memoryview, context: ValidationContext) -> None:
    """Check every batch's header, and reject a second batch. As in Kafka, errors of single batches come first."""
    count = 0
    for batch in batches(view):
        if context.origin is _CLIENT and batch.magic == LATEST_MAGIC and batch.base_offset:
            _refuse_base_offset(batch.base_offset)
        check_size(batch.size_bytes, context)
        ensure_checksum(batch)
        count += 1
    if count > 1:
        raise InvalidRecordError(f"{count} record batches for {context.topic_partition}, only one is allowed")


def _refuse_base_offset(base_offset: int) -> NoReturn:
    raise InvalidRecordError(f"the base offset of a batch from a client must be 0, not {base_offset}")


def _validate_batch(view: memoryview, header: tuple[int, ...], context: ValidationContext) -> LogAppendInfo:
    base_offset, _, leader_epoch, _, crc, attributes, last_delta, base_timestamp, max_timestamp, producer, _, sequence, count = (
        header
    )
    from_client = context.origin is _CLIENT
    if from_client:
        if base_offset:
            _refuse_base_offset(base_offset)
    elif context.origin is _RAFT_LEADER and leader_epoch != context.leader_epoch:
        raise InvalidRecordError(f"the leader epoch of the batch is {leader_epoch}, that of the append {context.leader_epoch}")
    size = len(view)
    if size > context.config.max_message_bytes:
        check_size(size, context)
    if crc32c(view[CRC_START:]) != crc:
        raise InvalidChecksumError(
            f"the record batch for {context.topic_partition} is corrupt: its CRC {crc} does not match its content"
        )
    if from_client:
        if attributes & CONTROL_FLAG:
            raise InvalidRecordError("clients are not allowed to write control records")
        if producer >= 0 and sequence < 0:
            raise InvalidOffsetOrSequenceError(f"invalid sequence number {sequence} in a batch of producer {producer}")
    number = attributes & COMPRESSION_MASK
    if number >= _CODEC_COUNT:
        raise UnsupportedCompressionTypeError(f"unknown compression type {number}")
    if count <= 0 or last_delta != count - 1:
        raise InvalidOffsetOrSequenceError(f"the batch has {count} records, but a last offset delta of {last_delta}")
    payload = to_read(view[HEADER_SIZE:]) if not number else _decompressed(CODECS[number], view[HEADER_SIZE:], context)
    scan = scan_records(payload, count)
    if number and len(payload) > context.config.max_decompressed_message_bytes:
        check_record_sizes(payload, count, context)
    sent_append_time = max_timestamp if attributes & TIMESTAMP_TYPE_MASK else None
    if may_break_rules(scan, base_timestamp, sent_append_time, context):
        parsed = parse_records(to_bytes(payload), count, 0, base_timestamp, sent_append_time)
        check_records(parsed, context, sent_append_time=sent_append_time is not None)
    return _assign(view, header, payload, scan, context)


def _decompressed(codec: Compression, data: memoryview, context: ValidationContext) -> bytes | memoryview:
    try:
        return decompress_to_read(codec, data, limit_bytes=decompression_limit(context))
    except CorruptRecordError as error:
        # The checksum is right, so a retry would not help: use an error code that clients do not retry.
        raise InvalidRecordError(str(error)) from None


def _assign(
    view: memoryview, header: tuple[int, ...], payload: bytes | memoryview, scan: RecordScan, context: ValidationContext
) -> LogAppendInfo:
    config = context.config
    _, size, _, _, _, sent_attributes, last_delta, base_timestamp, sent_max_ms, producer_id, epoch, sequence, count = header
    sequential, _, _, largest_delta, _ = scan
    attributes, max_ms = sent_attributes, base_timestamp + largest_delta
    is_append_time = config.message_timestamp_type == LOG_APPEND_TIME
    if is_append_time:
        attributes, max_ms = attributes | TIMESTAMP_TYPE_MASK, context.now_ms
    elif attributes & TIMESTAMP_TYPE_MASK:
        attributes, max_ms = attributes & ~TIMESTAMP_TYPE_MASK, sent_max_ms
    elif max_ms > _INT64_MAX:  # one that is too small was refused as too old
        raise InvalidRecordError("a record's timestamp needs more than 64 bits")
    source = target = CODECS[attributes & COMPRESSION_MASK]
    if config.compression_type != "producer" and (source or not attributes & CONTROL_FLAG):
        target = target_compression(source, context)
    conversion = None
    if source is target and sequential:
        records = view if not view.readonly else memoryview(bytearray(view))
        PREFIX.pack_into(records, 0, context.offset, size, context.leader_epoch)  # not covered by the CRC
        if attributes != sent_attributes or max_ms != sent_max_ms:
            _patch(records, attributes, max_ms)
        if source:
            conversion = Conversion(0, 0, len(payload))
    else:
        if producer_id >= 0 and epoch < 0:
            raise InvalidProducerEpochError(f"a batch of producer {producer_id} has epoch {epoch}")
        started_ns = context.now_ns()
        keeps_payload = sequential and attributes & TIMESTAMP_TYPE_MASK >= sent_attributes & TIMESTAMP_TYPE_MASK
        records = memoryview(_rewritten(header, to_bytes(payload), (attributes, max_ms, target), keeps_payload, context))
        temporary_bytes = len(records) + (len(payload) if source else 0)
        conversion = Conversion(count, context.now_ns() - started_ns, temporary_bytes)
        check_size(len(records), context)
    batch = BatchInfo()
    batch.base_offset = offset = context.offset
    batch.last_offset = offset + last_delta
    batch.max_timestamp_ms = max_ms
    batch.position = 0
    batch.size_bytes = len(records)
    batch.producer_id = producer_id
    batch.producer_epoch = epoch
    batch.base_sequence = sequence
    batch.is_transactional = attributes & TRANSACTIONAL_FLAG != 0
    batch.is_control = attributes & CONTROL_FLAG != 0
    info = LogAppendInfo(records, (batch,), count)
    if conversion is not None:
        info.source_compression = source
        info.conversion = conversion
    if is_append_time:
        info.log_append_time_ms = max_ms
    return info


def _patch(batch: memoryview, attributes: int, max_timestamp_ms: int) -> None:
    """Change what the CRC covers."""
    _COVERED_HEAD.pack_into(batch, CRC_AT, 0, attributes)
    INT64.pack_into(batch, MAX_TIMESTAMP_AT, max_timestamp_ms)
    UINT32.pack_into(batch, CRC_AT, crc32c(batch[CRC_START:]))


def _rewritten(
    header: tuple[int, ...], payload: bytes, fields: tuple[int, int, Compression], keeps_payload: bool, context: ValidationContext
) -> bytearray:
    """Return the batch with another codec; without ``keeps_payload``, also with deltas 0, 1, 2... and the parsed timestamps."""
    attributes, max_timestamp, target = fields
    base_timestamp, count = header[7], header[12]
    records: Buffer = payload
    if not keeps_payload:
        check_rewritten_count(count)
        append_time = header[8] if header[5] & TIMESTAMP_TYPE_MASK else None
        records = encode_records(list(parse_records(payload, count, 0, base_timestamp, append_time)), base_timestamp)
    if target:
        records = compress(target, records, target_level(target, context))
    attributes = (attributes & ~COMPRESSION_MASK) | target
    producer = (header[9], header[10], header[11])
    return assemble_batch(
        records, (context.offset, context.leader_epoch, attributes, count - 1, base_timestamp, max_timestamp, *producer, count)
    )


def check_replicated(records: Buffer, log_end_offset: int, topic_partition: object) -> list[BatchHeader]:
    """Return the complete batches in the records that a follower fetched; an incomplete one at the end is left to the next fetch.

    Raises CorruptRecordError for a wrong CRC, and for offsets below the log end or out of order.
    """
    view = memoryview(records)
    headers = []
    expected = log_end_offset
    for header in batches_in(view):
        if not crc_matches(view[header.position : header.position + header.size_bytes]):
            raise CorruptRecordError(f"{topic_partition}: the batch at offset {header.base_offset} has a wrong CRC")
        if header.last_offset < header.base_offset or header.base_offset < expected:
            raise CorruptRecordError(
                f"{topic_partition}: a batch with offsets {header.base_offset} to {header.last_offset} "
                f"is out of order: at least {expected} was expected"
            )
        expected = header.last_offset + 1
        headers.append(header)
    return headers
