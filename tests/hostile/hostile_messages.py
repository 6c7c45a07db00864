"""Requests with hostile values, counts and sizes for every API, made from the declarations of the messages."""

import random
import struct
from typing import Any

from twisted_kafka.protocol.api import ApiKey, request_class
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.compiler.layout import is_flexible, minimal_size, tagged, untagged
from twisted_kafka.protocol.compiler.schema import Field, ListOf
from twisted_kafka.protocol.compiler.types import Wire
from twisted_kafka.protocol.compiler.wire import varint_bytes
from twisted_kafka.protocol.headers import encode_request_header
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.record import SimpleRecord

TOPICS = ["t0", "t1"]
NAMES = ["", *TOPICS, "t2", "__consumer_offsets", "__transaction_state", "g0", "g1"]
TEXTS = [
    *NAMES, "User:ANONYMOUS", "*", "a//b", "..", "/", "a\0b", "\r\nx", "\x1b[2J", "é" * 200, "😀", "y" * 32000, "range", "consumer",
    "retention.ms", "cleanup.policy", "producer_byte_rate", "client-id", "user", "ip", "127.0.0.1", "0", "-1", "9" * 40, "1.5",
    "NaN", "true", "t.*", "(", "compact,delete", "root", "INFO", "metadata.version", "PLAIN", "10:20", "%00", "<default>",
]  # fmt: skip
NUMBERS = {
    "b": (-128, -1, 0, 1, 2, 3, 4, 8, 16, 32, 127),
    "h": (-(2**15), -1, 0, 1, 2, 5, 2**15 - 1),
    "i": (-(2**31), -2, -1, 0, 1, 2, 3, 100, 6000, 2**31 - 1),
    "q": (-(2**63), -5, -2, -1, 0, 1, 1000, 1_700_000_000_000, 2**63 - 1),
    "H": (0, 1, 65535),
    "I": (0, 1, 2**32 - 1),
    "?": (False, True),
}
WAITS_MS = (-1, 0, 1, 100, 2000)
CLIENT_IDS = ("f", "", None, "x" * 1000, "__admin_client", "\r\n\x1b")


class HostileMessages:
    """Draws requests from a seed; ``topic_ids`` are ids of topics that exist."""

    def __init__(self, rng: random.Random, topic_ids: list[bytes]) -> None:
        self.rng = rng
        self.topic_ids = [bytes(16), *topic_ids]

    def draw(self, key: int, version: int) -> Message:
        """Return a request with values that the version can encode."""
        message: Message = self._struct(request_class(key), version)
        return message

    def _struct(self, cls: Any, version: int) -> Any:
        values: dict[str, Any] = {}
        for each in untagged(cls, version) + tagged(cls, version):
            if each.tag is not None and self.rng.random() < 0.6:
                continue
            nothing = each.nullable_at(version) and self.rng.random() < 0.25
            values[each.name] = None if nothing else self._value(each.type, version, each.name)
        return cls(**values)

    def _value(self, kind: Any, version: int, name: str) -> Any:
        rng = self.rng
        if isinstance(kind, ListOf):
            return [self._value(kind.element, version, name) for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3)))]
        if not isinstance(kind, Wire):
            return self._struct(kind, version)
        if kind.kind == "string":
            return rng.choice(NAMES if rng.random() < 0.6 else TEXTS)
        if kind.kind == "bytes":
            return rng.choice((b"", b"\0", rng.randbytes(20), b"\0\0\0\0\0\1\0\2t0\xff\xff\xff\xff"))
        if kind.kind == "records":
            return self._records()
        if kind.code == "16s":
            return rng.choice(self.topic_ids) if rng.random() < 0.8 else rng.randbytes(16)
        if kind.code == "d":
            return rng.choice((0.0, -1.0, 1.0, float("nan"), float("inf"), -float("inf"), 1e308, 5e-324))
        if name == "timeout" or name.endswith(("timeout_ms", "wait_ms")):
            return rng.choice(WAITS_MS)
        return rng.choice(NUMBERS[kind.code])

    def _records(self) -> bytes:
        rng = self.rng
        kind = rng.random()
        if kind < 0.2:
            return rng.randbytes(rng.choice((0, 5, 61, 100)))
        records = [
            SimpleRecord(rng.choice((0, 1_700_000_000_000, -1)), rng.choice((None, b"", b"k")), rng.choice((None, b"", b"v" * 100)))
            for _ in range(rng.randrange(1, 4))
        ]
        data = bytearray(build_batch(records))
        if kind < 0.5:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        return bytes(data)


def frame(key: int, version: int, body: bytes, client_id: str | None = "f", correlation_id: int = 1) -> bytes:
    """Return the request as sent, with its length."""
    header = encode_request_header(key, version, correlation_id, client_id)
    return struct.pack(">i", len(header) + len(body)) + header + body


def crowded(key: int, version: int, body_bytes: int) -> bytes | None:
    """Return a body of about ``body_bytes`` whose first array has as many elements as fit, each as small as it can be.

    Returns None if the request has no array.
    """
    cls = request_class(key)
    flexible = is_flexible(cls, version)
    body = b""
    filled = False
    for each in untagged(cls, version):
        if isinstance(each.type, ListOf) and not filled:
            element = smallest(each.type.element, version, flexible)
            count = max(1, body_bytes // max(1, len(element)))
            body += (varint_bytes(count + 1) if flexible else struct.pack(">i", count)) + element * count
            filled = True
        else:
            body += _smallest_field(each, version, flexible)
    return body + b"\0" * flexible if filled else None


def smallest(kind: Any, version: int, flexible: bool) -> bytes:
    """Return the shortest encoding of a value; a name or another text has one character."""
    if isinstance(kind, ListOf):
        return b"\1" if flexible else struct.pack(">i", 0)
    if isinstance(kind, Wire):
        if kind.kind == "string":
            return b"\2a" if flexible else b"\0\1a"
        if kind.kind == "fixed":
            return bytes(minimal_size(kind, version, flexible))
        return b"\1" if flexible else struct.pack(">i", 0)
    fields = untagged(kind, version)
    return b"".join(_smallest_field(each, version, flexible) for each in fields) + b"\0" * flexible


def _smallest_field(field: Field, version: int, flexible: bool) -> bytes:
    is_struct = not isinstance(field.type, ListOf | Wire)
    if is_struct and field.nullable_at(version):
        return b"\xff"
    return smallest(field.type, version, flexible and field.compact)


def name_of(key: int) -> str:
    return ApiKey(key).title
