"""Records as text, as JSON and in hexadecimal, read from lines and written to them."""

import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from twisted_kafka.console.cluster.offsets import time_text
from twisted_kafka.protocol.records.record import NO_TIMESTAMP, Header, RecordBatch
from twisted_kafka.system.numbers import INT32_MAX, INT64_MAX

TEXT: Final = "text"
JSON: Final = "json"
HEX: Final = "hex"
FORMS: Final = (TEXT, JSON, HEX)
FIELDS: Final = ("topic", "partition", "offset", "timestamp", "key", "headers", "value")

_JSON_FIELDS: Final = {"key", "key_hex", "value", "value_hex", "headers", "timestamp", "partition", "topic", "offset"}


class Written(NamedTuple):
    """A record to produce. The partition is None if the key decides it."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()
    timestamp_ms: int = NO_TIMESTAMP
    partition: int | None = None


class Seen(NamedTuple):
    """A record that was consumed."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]
    batch: RecordBatch | None = None
    """The batch that it was in."""


def reader(form: str, key_separator: str | None) -> Callable[[bytes], Written]:
    """Return a function that makes a record of a line without its end; it raises ValueError."""
    if form == JSON:
        return _read_json
    decode = _from_hex if form == HEX else bytes
    separator = None if key_separator is None else key_separator.encode()

    def read(line: bytes) -> Written:
        if separator is None:
            return Written(None, decode(line))
        key, found, value = line.partition(separator)
        if not found:
            raise ValueError(f"the line {_short(line)} has no key separator {key_separator!r}")
        return Written(decode(key), decode(value))

    return read


def writer(form: str, fields: Sequence[str], separator: str) -> Callable[[Seen], bytes]:
    """Return a function that makes a line of a record: these fields in text and hexadecimal, all fields in JSON."""
    if form == JSON:
        return lambda record: json.dumps(to_json(record), ensure_ascii=False, separators=(",", ":")).encode(
            "utf-8", "surrogateescape"
        )
    show = bytes.hex if form == HEX else _text
    between = separator.encode()
    return lambda record: between.join(_field(record, field, show) for field in fields)


def to_json(record: Seen) -> dict[str, Any]:
    """Return the record's fields. Bytes that are not UTF-8 are in hexadecimal, in ``key_hex`` or ``value_hex``."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        **_named("key", record.key),
        **_named("value", record.value),
        "headers": [
            {"key": key.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), **_named("value", value)}
            for key, value in record.headers
        ],
    }


def parse_header(text: str) -> Header:
    """Return the header of KEY=VALUE; raise ValueError."""
    key, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--header {text}: expected KEY=VALUE")
    return key, value.encode()


def _read_json(line: bytes) -> Written:
    try:
        return _from_json(line)
    except RecursionError:
        raise ValueError(f"the line {_short(line)} is nested too deeply") from None


def _from_json(line: bytes) -> Written:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise ValueError(f"the line {_short(line)} is not JSON ({error})") from None
    if not isinstance(found, dict):
        raise ValueError(f'the line {_short(line)} is not a record: expected an object such as {{"key":"k","value":"v"}}')
    unknown = sorted(set(found) - _JSON_FIELDS)
    if unknown:
        raise ValueError(f"unknown field {unknown[0]!r} in a record: expected {', '.join(sorted(_JSON_FIELDS))}")
    headers = found.get("headers") or []
    if isinstance(headers, dict):
        headers = [{"key": key, "value": value} for key, value in headers.items()]
    if not isinstance(headers, list) or not all(isinstance(each, dict) and "key" in each for each in headers):
        raise ValueError('headers must be an object, or a list such as [{"key":"k","value":"v"}]')
    timestamp_ms = found.get("timestamp", NO_TIMESTAMP)
    partition = found.get("partition")
    if not _is_number(timestamp_ms, INT64_MAX) or not (partition is None or _is_number(partition, INT32_MAX)):
        raise ValueError("timestamp (in milliseconds) and partition of a record must be numbers")
    return Written(
        _bytes_of(found, "key"),
        _bytes_of(found, "value"),
        [(str(each["key"]), _bytes_of(each, "value")) for each in headers],
        timestamp_ms,
        partition,
    )


def _is_number(value: object, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= most


def _bytes_of(found: Mapping[str, Any], name: str) -> bytes | None:
    if f"{name}_hex" in found:
        return _from_hex(str(found[f"{name}_hex"]).encode())
    value = found.get(name)
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogateescape")


def _from_hex(text: bytes) -> bytes:
    try:
        return binascii.unhexlify(text.strip().replace(b" ", b""))
    except binascii.Error as error:
        raise ValueError(f"{_short(text)} is not hexadecimal ({error})") from None


def _named(name: str, value: bytes | None) -> dict[str, str | None]:
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_hex": value.hex()}


def _field(record: Seen, field: str, show: Callable[[bytes], Any]) -> bytes:
    match field:
        case "key" | "value":
            value = record.key if field == "key" else record.value
            return b"null" if value is None else _as_bytes(show(value))
        case "headers":
            headers = (
                key.encode("utf-8", "surrogateescape") + b"=" + (b"null" if value is None else _as_bytes(show(value)))
                for key, value in record.headers
            )
            return b",".join(headers)
        case "timestamp":
            return (time_text(record.timestamp_ms) or "-").encode()
        case "topic":
            return record.topic.encode()
        case _:
            return str(record.partition if field == "partition" else record.offset).encode()


def _text(value: bytes) -> bytes:
    return value


def _as_bytes(shown: bytes | str) -> bytes:
    return shown.encode() if isinstance(shown, str) else shown


def _short(line: bytes) -> str:
    text = line.decode("utf-8", "replace")
    return repr(text if len(text) <= 40 else f"{text[:40]}...")
