"""Avro's binary form as JSON values, by the schema that wrote it. Every count is compared with the bytes that are left."""

import struct
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

MOST_VALUES: Final = 20_000
"""Most values of one record: an array of nulls takes no bytes."""
MOST_DEPTH: Final = 64
MOST_DECIMAL_BYTES: Final = 256
"""A longer decimal number is shown in hexadecimal: reading it takes time that grows with the square of its length."""

_PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_VARINT_BYTES: Final = 10


class AvroError(ValueError):
    """The schema cannot be read, or the data is not written with it."""


class AvroReader:
    """Reads values of one schema, which is given as parsed JSON."""

    def __init__(self, schema: Any, others: Sequence[Any] = ()) -> None:
        """``others`` are schemas with types that this one names. Raises AvroError."""
        self._schema = schema
        self._named: dict[str, tuple[Any, str]] = {}
        for each in others:
            self._collect(each, "", 0)
        self._collect(schema, "", 0)

    def read(self, data: bytes) -> Any:
        """Return the value that takes up all of the data. Raises AvroError."""
        source = _Source(data)
        value = self._value(source, self._schema, "", 0)
        if source.left:
            raise AvroError(f"{source.left} bytes are left")
        return value

    def _collect(self, schema: Any, space: str, depth: int) -> None:
        """Note the named types of a schema."""
        if depth > MOST_DEPTH:
            raise AvroError("the schema is nested too deeply")
        match schema:
            case list():
                for each in schema:
                    self._collect(each, space, depth + 1)
            case {"type": "record" | "error" | "enum" | "fixed", "name": str(name)}:
                full, inner = _full(name, schema.get("namespace"), space)
                self._named[full] = schema, inner
                for each in schema.get("fields") or ():
                    self._collect(each.get("type"), inner, depth + 1)
            case {"type": kind}:
                for part in (schema.get("items"), schema.get("values"), kind if isinstance(kind, dict | list) else None):
                    if part is not None:
                        self._collect(part, space, depth + 1)
            case _:
                pass

    def _value(self, source: "_Source", schema: Any, space: str, depth: int) -> Any:
        source.count(depth)
        if isinstance(schema, list):
            return self._value(source, _at(schema, source.long(), "union"), space, depth + 1)
        kind = schema.get("type") if isinstance(schema, dict) else schema
        if isinstance(kind, dict | list):
            return self._value(source, kind, space, depth + 1)
        if kind in _PRIMITIVES:
            value = _primitive(source, str(kind))
            return _logical(value, schema) if isinstance(schema, dict) else value
        match kind:
            case "record" | "error":
                _, inner = _full(schema["name"], schema.get("namespace"), space)
                return {str(each["name"]): self._value(source, each["type"], inner, depth + 1) for each in schema["fields"]}
            case "enum":
                return _at(schema["symbols"], source.long(), "enum")
            case "fixed":
                return _logical(source.take(int(schema["size"])), schema)
            case "array":
                return [self._value(source, schema["items"], space, depth + 1) for _ in source.blocks()]
            case "map":
                return {source.text(): self._value(source, schema["values"], space, depth + 1) for _ in source.blocks()}
        found = self._named.get(_full(str(kind), None, space)[0]) or self._named.get(str(kind))
        if found is None:
            raise AvroError(f"the schema has no type {kind!r:.80}")
        return self._value(source, found[0], found[1], depth + 1)


def _full(name: str, namespace: str | None, space: str) -> tuple[str, str]:
    """Return the full name, and the namespace of names within."""
    if "." in name:
        return name, name.rpartition(".")[0]
    where = space if namespace is None else namespace
    return (f"{where}.{name}" if where else name), where


def _at(items: list[Any], index: int, what: str) -> Any:
    if not 0 <= index < len(items):
        raise AvroError(f"{what} has no branch {index}")
    return items[index]


def _primitive(source: "_Source", kind: str) -> Any:
    match kind:
        case "null":
            return None
        case "boolean":
            return source.take(1) != b"\0"
        case "int" | "long":
            return source.long()
        case "float":
            return struct.unpack("<f", source.take(4))[0]
        case "double":
            return struct.unpack("<d", source.take(8))[0]
        case "string":
            return source.text()
        case _:
            return source.take(source.long())


def _logical(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return a value by its logical type; bytes without one become hexadecimal."""
    try:
        match schema.get("logicalType"):
            case "decimal" if isinstance(value, bytes) and len(value) <= MOST_DECIMAL_BYTES:
                return str(Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-int(schema.get("scale", 0))))
            case "date" if isinstance(value, int):
                return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
            case "timestamp-millis" if isinstance(value, int):
                return datetime.fromtimestamp(value / 1e3, UTC).isoformat(timespec="milliseconds")
            case "timestamp-micros" if isinstance(value, int):
                return datetime.fromtimestamp(value / 1e6, UTC).isoformat(timespec="microseconds")
    except (OverflowError, ValueError, OSError, ArithmeticError):
        pass
    return value


class _Source:
    """The bytes of one record, and a limit of values."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0
        self._values = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._position

    def count(self, depth: int) -> None:
        self._values += 1
        if self._values > MOST_VALUES:
            raise AvroError(f"more than {MOST_VALUES:,} values")
        if depth > MOST_DEPTH:
            raise AvroError("nested too deeply")

    def take(self, size: int) -> bytes:
        if not 0 <= size <= self.left:
            raise AvroError(f"{size} bytes are wanted, {self.left} are left")
        self._position += size
        return self._data[self._position - size : self._position]

    def long(self) -> int:
        found = shift = 0
        for _ in range(_VARINT_BYTES):
            byte = self.take(1)[0]
            found |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return (found >> 1) ^ -(found & 1)
        raise AvroError("a number has more than ten bytes")

    def text(self) -> str:
        return self.take(self.long()).decode("utf-8", "replace")

    def blocks(self) -> Any:
        """Yield once for each item of an array or map."""
        while count := self.long():
            if count < 0:
                self.long()  # the block's size in bytes
                count = -count
            for _ in range(min(count, MOST_VALUES + 1)):
                yield


def as_json(value: Any) -> Any:
    """Return a value with bytes in hexadecimal."""
    match value:
        case bytes():
            return value.hex()
        case dict():
            return {key: as_json(each) for key, each in value.items()}
        case list():
            return [as_json(each) for each in value]
        case _:
            return value
