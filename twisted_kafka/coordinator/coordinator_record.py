"""Records of the coordinators' internal topics, in Kafka's formats.

A key begins with an int16 that identifies the record type (keys have no versions), a value with an int16 version. A record
without a value (a tombstone) removes the key.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from typing_extensions import override

from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.records.builder import assemble_batch, build_batch, encode_records
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.protocol.regions import Buffer

_INT16 = struct.Struct(">h")

RecordKinds = Mapping[int, tuple[type[Message], type[Message]]]
"""The classes of key and value by record type."""


class Producer(NamedTuple):
    """The producer in whose transaction records are written."""

    producer_id: int
    epoch: int


class UnknownRecordKindError(ValueError):
    """The record's type is unknown, or its key or value has no type or version."""


class CoordinatorRecord:
    """A key with its record type, and a value with its version; value None is a tombstone."""

    __slots__ = ("key", "kind", "value", "value_version")

    def __init__(self, key: Any, kind: int, value: Any | None, value_version: int = 0) -> None:
        self.key = key
        self.kind = kind
        self.value = value
        self.value_version = value_version

    @override
    def __repr__(self) -> str:
        return f"CoordinatorRecord({self.key!r}, {self.value!r})"

    def encode_key(self) -> bytes:
        """Return the record type followed by the encoded key."""
        return _INT16.pack(self.kind) + self.key.encode(0)  # type: ignore[no-any-return]

    def encode_value(self) -> bytes | None:
        """Return the version followed by the encoded value, or None for a tombstone."""
        if self.value is None:
            return None
        return _INT16.pack(self.value_version) + self.value.encode(self.value_version)  # type: ignore[no-any-return]

    def simple(self, timestamp_ms: int) -> SimpleRecord:
        """Return the record in the form that batches are built from."""
        return SimpleRecord(timestamp_ms, self.encode_key(), self.encode_value())


def encode_batch(
    records: Sequence[CoordinatorRecord], now_ms: int, compression: Compression, producer: Producer | None = None
) -> Buffer:
    """Return a batch of format 2 with the records, all with timestamp ``now_ms``; in writable memory if that costs no copy."""
    simple = [record.simple(now_ms) for record in records]
    if producer is not None:
        return build_batch(
            simple,
            compression=compression,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=0,
            is_transactional=True,
        )
    if compression:
        return build_batch(simple, compression=compression)
    # Every offset commit takes this path: without the builder's options it takes half the time.
    last = len(simple) - 1
    return assemble_batch(encode_records(simple, now_ms), (0, -1, 0, last, now_ms, now_ms, -1, -1, -1, last + 1))


def decode_record(kinds: RecordKinds, key: Buffer | None, value: Buffer | None) -> CoordinatorRecord:
    """Decode a record of an internal topic.

    Raises UnknownRecordKindError for a record type that is not in ``kinds``, and MalformedMessageError.
    """
    if key is None or len(key) < _INT16.size:
        raise UnknownRecordKindError("no key")
    kind: int = _INT16.unpack_from(key)[0]
    classes = kinds.get(kind)
    if classes is None:
        raise UnknownRecordKindError(f"type {kind}")
    key_class, value_class = classes
    decoded_key = key_class.decode(key, 0, _INT16.size)
    if value is None:
        return CoordinatorRecord(decoded_key, kind, None)
    if len(value) < _INT16.size:
        raise UnknownRecordKindError(f"type {kind} with a value of {len(value)} bytes")
    value_version: int = _INT16.unpack_from(value)[0]
    return CoordinatorRecord(decoded_key, kind, value_class.decode(value, value_version, _INT16.size), value_version)
