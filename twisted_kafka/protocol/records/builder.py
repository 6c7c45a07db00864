"""Build record batches: format 2, control batches, and message sets of the formats 0 and 1."""

import struct
import zlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, Protocol, TypedDict, Unpack

from twisted_kafka.protocol.errors import UnsupportedCompressionTypeError
from twisted_kafka.protocol.records.checksums import crc32c
from twisted_kafka.protocol.records.compression import Compression, compress
from twisted_kafka.protocol.records.layout import CRC_AT, CRC_START, HEADER, HEADER_SIZE, LATEST_MAGIC, LOG_OVERHEAD, UINT32
from twisted_kafka.protocol.records.record import (
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_FLAG,
    ControlRecordType,
    Header,
    SimpleRecord,
    TimestampType,
)
from twisted_kafka.protocol.records.varint import append_varint, encode_varint
from twisted_kafka.protocol.regions import Buffer

_CONTROL_KEY = struct.Struct(">hh")
_END_TRANSACTION_VALUE = struct.Struct(">hi")
_CONTROL_VERSION = 0
_LEGACY_PREFIX = struct.Struct(">qiI")
_LENGTH = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_NULL_LENGTH = _LENGTH.pack(-1)
_NO_FIELD = b"\x01"
_EMPTY_HEADERS = b"\x00"
_MARKERS_KEPT: Final = 128
"""Two for each coordinator epoch that is in use: the partitions of ``__transaction_state`` have few different ones."""


class WritableRecord(Protocol):
    """A record that the builder accepts: SimpleRecord, and Record as it was read."""

    @property
    def timestamp_ms(self) -> int:
        """Milliseconds since the epoch, or -1."""

    @property
    def key(self) -> bytes | None:
        """The key."""

    @property
    def value(self) -> bytes | None:
        """The value."""

    @property
    def headers(self) -> Sequence[Header]:
        """The headers; formats 0 and 1 have none and drop them."""


class BatchOptions(TypedDict, total=False):
    """The properties of a batch apart from its records; a missing one gets Kafka's value for none."""

    base_offset: int
    magic: int
    compression: Compression
    level: int | None
    timestamp_type: TimestampType
    log_append_time_ms: int
    """The timestamp of all records with LOG_APPEND_TIME; by default the largest of the records' timestamps."""
    producer_id: int
    producer_epoch: int
    base_sequence: int
    partition_leader_epoch: int
    is_transactional: bool
    is_control: bool
    delete_horizon_ms: int | None
    offset_deltas: Sequence[int]
    """The records' offsets relative to the base offset, for compacted batches; by default 0, 1, 2..."""
    last_offset_delta: int
    """For a compacted batch whose last record was removed."""


def build_batch(records: Sequence[WritableRecord], **options: Unpack[BatchOptions]) -> bytes:
    """Return a batch of format 2, or with ``magic`` 0 or 1 a message set with the same records."""
    if options.get("magic", 2) < 2:
        return build_message_set(records, **options)
    horizon = options.get("delete_horizon_ms")
    base_timestamp = horizon if horizon is not None else (records[0].timestamp_ms if records else NO_TIMESTAMP)
    payload = encode_records(records, base_timestamp, options.get("offset_deltas"))
    attributes = (
        (TRANSACTIONAL_FLAG if options.get("is_transactional") else 0)
        | (CONTROL_FLAG if options.get("is_control") else 0)
        | (DELETE_HORIZON_FLAG if horizon is not None else 0)
    )
    codec = options.get("compression", Compression.NONE)
    batch = assemble_batch(
        compress(codec, payload, options.get("level")) if codec else payload,
        (
            options.get("base_offset", 0),
            options.get("partition_leader_epoch", NO_PARTITION_LEADER_EPOCH),
            attributes | codec | (TIMESTAMP_TYPE_MASK if _is_append_time(options) else 0),
            options.get("last_offset_delta", _last_delta(records, options)),
            base_timestamp,
            _max_timestamp(records, options),
            options.get("producer_id", NO_PRODUCER_ID),
            options.get("producer_epoch", NO_PRODUCER_EPOCH),
            options.get("base_sequence", NO_SEQUENCE),
            len(records),
        ),
    )
    return bytes(batch)


def _is_append_time(options: BatchOptions) -> bool:
    return options.get("timestamp_type", TimestampType.CREATE_TIME) == TimestampType.LOG_APPEND_TIME


def _last_delta(records: Sequence[WritableRecord], options: BatchOptions) -> int:
    deltas = options.get("offset_deltas")
    return deltas[-1] if deltas else len(records) - 1


def _max_timestamp(records: Sequence[WritableRecord], options: BatchOptions) -> int:
    if _is_append_time(options) and "log_append_time_ms" in options:
        return options["log_append_time_ms"]
    return max((record.timestamp_ms for record in records), default=NO_TIMESTAMP)


HeaderFields = tuple[int, int, int, int, int, int, int, int, int, int]
"""Base offset, leader epoch, attributes, last offset delta, base and max timestamp, producer id and epoch, base sequence, count."""


def assemble_batch(payload: Buffer, fields: HeaderFields) -> bytearray:
    """Return the batch of format 2 with this header; ``payload`` holds the records, compressed as the attributes declare."""
    base_offset, leader_epoch, *covered = fields
    out = bytearray(HEADER_SIZE + len(payload))
    HEADER.pack_into(out, 0, base_offset, len(out) - LOG_OVERHEAD, leader_epoch, LATEST_MAGIC, 0, *covered)
    out[HEADER_SIZE:] = payload
    UINT32.pack_into(out, CRC_AT, crc32c(memoryview(out)[CRC_START:]))
    return out


def encode_records(
    records: Iterable[WritableRecord], base_timestamp_ms: int, offset_deltas: Sequence[int] | None = None
) -> bytearray:
    """Encode records in format 2, uncompressed; the offset deltas are 0, 1, 2... by default."""
    out = bytearray()
    body = bytearray()
    for index, record in enumerate(records):
        body.clear()
        body.append(0)
        append_varint(body, record.timestamp_ms - base_timestamp_ms)
        append_varint(body, index if offset_deltas is None else offset_deltas[index])
        for field in (record.key, record.value):
            if field is None:
                body += _NO_FIELD
            else:
                append_varint(body, len(field))
                body += field
        body += _encode_headers(record.headers) if record.headers else _EMPTY_HEADERS
        append_varint(out, len(body))
        out += body
    return out


def _encode_headers(headers: Sequence[Header]) -> bytearray:
    out = bytearray(encode_varint(len(headers)))
    for key, value in headers:
        raw = key.encode("utf-8", "surrogateescape")
        append_varint(out, len(raw))
        out += raw
        if value is None:
            out += _NO_FIELD
        else:
            append_varint(out, len(value))
            out += value
    return out


def control_batch(kind: ControlRecordType, value: bytes, *, timestamp_ms: int, **options: Unpack[BatchOptions]) -> bytes:
    """Return a batch with one control record; the schema of its value depends on its type."""
    record = SimpleRecord(timestamp_ms, _CONTROL_KEY.pack(_CONTROL_VERSION, kind), value)
    options["is_control"] = True
    return build_batch([record], **options)


def end_transaction_marker(
    *, commit: bool, coordinator_epoch: int, timestamp_ms: int, producer_id: int, producer_epoch: int, base_offset: int = 0
) -> bytearray:
    """Return the control batch that ends the transaction of the given producer id and epoch (Kafka: EndTransactionMarker)."""
    records = _marker_records(ControlRecordType.COMMIT if commit else ControlRecordType.ABORT, coordinator_epoch)
    attributes = TRANSACTIONAL_FLAG | CONTROL_FLAG
    producer = (producer_id, producer_epoch, NO_SEQUENCE)
    return assemble_batch(
        records, (base_offset, NO_PARTITION_LEADER_EPOCH, attributes, 0, timestamp_ms, timestamp_ms, *producer, 1)
    )


@lru_cache(_MARKERS_KEPT)
def _marker_records(kind: ControlRecordType, coordinator_epoch: int) -> bytes:
    """Return the record of a marker: it is the same in each partition, as its time is in the batch's header."""
    value = _END_TRANSACTION_VALUE.pack(_CONTROL_VERSION, coordinator_epoch)
    return bytes(encode_records([SimpleRecord(0, _CONTROL_KEY.pack(_CONTROL_VERSION, kind), value)], 0))


def end_transaction_coordinator_epoch(value: bytes | None) -> int:
    """Return the coordinator epoch in the value of an end-of-transaction marker; raises ValueError when it is too short."""
    if value is None or len(value) < _END_TRANSACTION_VALUE.size:
        raise ValueError("the value of an end-of-transaction marker is too short")
    epoch: int = _END_TRANSACTION_VALUE.unpack_from(value)[1]
    return epoch


def build_message_set(records: Sequence[WritableRecord], **options: Unpack[BatchOptions]) -> bytes:
    """Return messages of format 0 or 1, or the one compressed message that contains them.

    Raises UnsupportedCompressionTypeError for zstd, which these formats do not support.
    """
    magic = options.get("magic", 1)
    codec = options.get("compression", Compression.NONE)
    writer = MessageSetWriter(magic, codec, _max_timestamp(records, options) if _is_append_time(options) else None)
    base_offset = options.get("base_offset", 0)
    first = 0 if codec and magic else base_offset
    for record, delta in zip(records, options.get("offset_deltas") or range(len(records)), strict=True):
        writer.add(first + delta, record)
    return writer.finish(base_offset - first, options.get("level"))


class MessageSetWriter:
    """Writes messages of format 0 or 1 record by record, without keeping the records.

    ``append_time_ms`` is the timestamp of all messages, if the broker sets it. Raises UnsupportedCompressionTypeError for zstd.
    """

    def __init__(self, magic: int, codec: Compression, append_time_ms: int | None = None) -> None:
        if codec == Compression.ZSTD:
            raise UnsupportedCompressionTypeError(f"zstd is not supported with magic {magic}")
        self._magic = magic
        self._codec = codec
        self._append_time_ms = append_time_ms
        self._attributes = TIMESTAMP_TYPE_MASK if magic and append_time_ms is not None else 0
        self._out = bytearray()
        self._last_offset = -1
        self._newest_ms = NO_TIMESTAMP

    def add(self, offset: int, record: WritableRecord) -> None:
        """Write a record; in a compressed message of format 1 its offset is relative to the base offset passed to ``finish``."""
        timestamp_ms = record.timestamp_ms if self._append_time_ms is None else self._append_time_ms
        self._out += _message(self._magic, offset, self._attributes, timestamp_ms, record.key, record.value)
        self._last_offset = offset
        if timestamp_ms > self._newest_ms:
            self._newest_ms = timestamp_ms

    def finish(self, base_offset: int = 0, level: int | None = None) -> bytes:
        """Return the messages, or the one compressed message that contains them."""
        if not self._codec or not self._out:
            return bytes(self._out)
        inner = compress(self._codec, self._out, level, magic=self._magic)
        return _message(self._magic, base_offset + self._last_offset, self._attributes | self._codec, self._newest_ms, None, inner)


def _message(magic: int, offset: int, attributes: int, timestamp_ms: int, key: bytes | None, value: bytes | None) -> bytes:
    body = b"".join(
        (
            bytes((magic, attributes)),
            _INT64.pack(timestamp_ms) if magic else b"",
            _NULL_LENGTH if key is None else _LENGTH.pack(len(key)) + key,
            _NULL_LENGTH if value is None else _LENGTH.pack(len(value)) + value,
        )
    )
    return _LEGACY_PREFIX.pack(offset, len(body) + UINT32.size, zlib.crc32(body)) + body
