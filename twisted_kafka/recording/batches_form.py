"""Record batches as readable JSON from which the same bytes can be rebuilt.

A batch that may not be built again byte for byte has its bytes beside: compressed (by another library, perhaps), in an old format,
or damaged.
"""

import base64
import struct
from collections.abc import Mapping
from typing import Any, Final

from twisted_kafka.protocol.errors import KafkaError
from twisted_kafka.protocol.records.batch import DefaultBatch, parse_batch
from twisted_kafka.protocol.records.builder import assemble_batch, encode_records
from twisted_kafka.protocol.records.checksums import crc32c
from twisted_kafka.protocol.records.compression import Compression, compress
from twisted_kafka.protocol.records.layout import CRC_AT, CRC_START, HEADER, INT64, PRODUCER_ID_AT, UINT32
from twisted_kafka.protocol.records.record import (
    COMPRESSION_MASK,
    CONTROL_FLAG,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_FLAG,
    Record,
    RecordBatch,
    SimpleRecord,
)

_DECOMPRESSION_LIMIT_BYTES: Final = 64 * 1024 * 1024
"""A larger batch is written without its records."""
_FLAGS: Final = {"logAppendTime": TIMESTAMP_TYPE_MASK, "transactional": TRANSACTIONAL_FLAG, "control": CONTROL_FLAG}
_NONE: Final = {"partitionLeaderEpoch": -1, "producerId": -1, "producerEpoch": -1, "baseSequence": -1, "baseOffset": 0}
"""The default values of fields, which are left out."""


def write_value(value: Any) -> Any:
    """Return bytes as text if they are UTF-8, else as ``{"base64": ...}``; None is null."""
    if value is None:
        return None
    raw = bytes(value)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}


def read_value(form: Any) -> bytes | None:
    """Return the bytes that ``write_value`` was given; raises ValueError."""
    if form is None:
        return None
    if isinstance(form, str):
        return form.encode()
    if isinstance(form, dict) and isinstance(form.get("base64"), str):
        return base64.b64decode(form["base64"], validate=True)
    raise ValueError(f"{form!r} is no value: expected a text, null or {{'base64': ...}}")


def write_batches(data: bytes) -> list[dict[str, Any]]:
    """Return a dictionary for each batch in a records field, and one with the bytes after the last complete batch."""
    forms: list[dict[str, Any]] = []
    view, at = memoryview(data), 0
    while at < len(data):
        try:
            batch = parse_batch(view, at)
        except KafkaError:
            batch = None
        if batch is None:
            forms.append({"bytes": _base64(view[at:])})
            break
        forms.append(_write_batch(batch))
        at += batch.size_bytes
    return forms


def read_batches(forms: Any, producer_ids: Mapping[int, int] = {}) -> bytes:
    """Return the bytes that ``write_batches`` was given, with replaced producer ids if necessary. Raises ValueError."""
    out = []
    for form in forms:
        batch = base64.b64decode(form["bytes"], validate=True) if "bytes" in form else _build(form)
        producer_id = form.get("producerId")
        out.append(batch if producer_id not in producer_ids else _with_producer(batch, producer_ids[producer_id]))
    return b"".join(out)


def _base64(data: Any) -> str:
    return base64.b64encode(data).decode()


def _write_batch(batch: RecordBatch) -> dict[str, Any]:
    form: dict[str, Any] = {"magic": batch.magic, "baseOffset": batch.base_offset}
    if isinstance(batch, DefaultBatch):
        form = _header(batch)
    form["compression"] = batch.compression.text if batch.attributes & COMPRESSION_MASK <= max(Compression) else "unknown"
    try:
        first = batch.base_offset
        form["records"] = [_write_record(record, first) for record in batch.records(_DECOMPRESSION_LIMIT_BYTES)]
        if isinstance(batch, DefaultBatch) and not batch.compression and _build(form) == batch.data:
            return form
    except (KafkaError, ValueError, struct.error, OverflowError):  # its bytes are written instead
        form.pop("records", None)
    form["bytes"] = _base64(batch.data)
    return form


def _header(batch: DefaultBatch) -> dict[str, Any]:
    form: dict[str, Any] = {
        "baseOffset": batch.base_offset,
        "partitionLeaderEpoch": batch.partition_leader_epoch,
        "baseTimestamp": batch.base_timestamp_ms,
        "maxTimestamp": batch.max_timestamp_ms,
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "baseSequence": batch.base_sequence,
        "lastOffsetDelta": batch.last_offset_delta,
    }
    form = {name: value for name, value in form.items() if _NONE.get(name) != value}
    return form | {name: True for name, flag in _FLAGS.items() if batch.attributes & flag}


def _write_record(record: Record, first: int) -> dict[str, Any]:
    form: dict[str, Any] = {"offsetDelta": record.offset - first, "timestamp": record.timestamp_ms}
    form |= {"key": write_value(record.key), "value": write_value(record.value)}
    if record.headers:
        form["headers"] = [[key, write_value(value)] for key, value in record.headers]
    return form


def _build(form: dict[str, Any]) -> bytes:
    if "records" not in form:
        raise ValueError("a batch without records has to have its bytes")
    name = form["compression"].upper()
    if name not in Compression.__members__:
        raise ValueError(f"there is no compression {form['compression']!r}")
    codec = Compression[name]
    base = form["baseTimestamp"]
    records = [_read_record(each) for each in form["records"]]
    payload = encode_records(records, base, [each["offsetDelta"] for each in form["records"]])
    values = {**_NONE, **form}
    header = (
        values["baseOffset"],
        values["partitionLeaderEpoch"],
        sum(flag for name, flag in _FLAGS.items() if form.get(name)) | codec,
        form["lastOffsetDelta"],
        base,
        form["maxTimestamp"],
        values["producerId"],
        values["producerEpoch"],
        values["baseSequence"],
        len(records),
    )
    return bytes(assemble_batch(compress(codec, payload) if codec else payload, header))


def _read_record(form: dict[str, Any]) -> SimpleRecord:
    headers = [(key, read_value(value)) for key, value in form.get("headers", ())]
    return SimpleRecord(form["timestamp"], read_value(form["key"]), read_value(form["value"]), headers)


def _with_producer(batch: bytes, producer_id: int) -> bytes:
    if len(batch) < HEADER.size:
        return batch
    out = bytearray(batch)
    INT64.pack_into(out, PRODUCER_ID_AT, producer_id)
    UINT32.pack_into(out, CRC_AT, crc32c(memoryview(out)[CRC_START:]))
    return bytes(out)
