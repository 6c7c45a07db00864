"""Avro schemas, by Apache's own library."""

import json
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, Self

import avro.errors
import avro.schema
from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityResult, SchemaCompatibilityType
from typing_extensions import override

from twisted_kafka.schema_registry.formats.avro_text import PRIMITIVES, AvroText
from twisted_kafka.schema_registry.formats.parsed import RESOLVED, Dependencies, ParsedSchema, SchemaError

_BYTES: Final = ("bytes", "fixed")
MAX_PAIRS: Final = 100_000
"""A comparison that looks at more pairs of types ends as incompatible."""


class AvroSchema(ParsedSchema):
    """An Avro schema. Its references name types that other schemas define."""

    schema_type: ClassVar[str] = "AVRO"

    def __init__(self, text: str, dependencies: Dependencies) -> None:
        """Raises SchemaError, one line."""
        self._form = _read(text)
        self._dependencies = dependencies
        self._external: dict[str, Any] = {}
        for other in dependencies.values():
            walk = AvroText(self._external)
            walk.rewritten(_read(other))
            self._external.update(walk.defined)
        self.text = _written(AvroText(self._external).rewritten(self._form))
        self._resolved = _written(AvroText(self._external, inlines=True).rewritten(self._form))
        try:
            self._schema = avro.schema.parse(_written(_without_logical_types(json.loads(self._resolved))))
        except (avro.errors.AvroException, TypeError, ValueError) as error:
            raise SchemaError(" ".join(str(error).split()) or type(error).__name__) from None
        _check_defaults(self._schema, set())

    @override
    def normalized(self) -> Self:
        text = _written(AvroText(self._external, sorts=True).rewritten(self._form))
        return type(self)(text, self._dependencies)

    @override
    def formatted(self, form: str) -> str:
        return self._resolved if form == RESOLVED else self.text

    @override
    def resolved(self) -> str:
        return self._resolved

    @override
    def cannot_read(self, written: "AvroSchema") -> Sequence[str]:
        result = _Checker().get_compatibility(self._schema, written._schema)
        if result.compatibility is SchemaCompatibilityType.compatible:
            return ()
        return _told(result)


class _Checker(ReaderWriterCompatibilityChecker):
    """Compares two schemas in a bounded time. The library adds up the differences of a type for each of its uses."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._left = MAX_PAIRS

    @override
    def get_compatibility(self, *args: Any, **more: Any) -> SchemaCompatibilityResult:
        self._left -= 1
        if self._left < 0:
            raise SchemaError(f"they have more than {MAX_PAIRS} pairs of types")
        result = super().get_compatibility(*args, **more)
        result.incompatibilities = list(dict.fromkeys(result.incompatibilities))
        return result


def _told(result: SchemaCompatibilityResult) -> list[str]:
    """Return a line for each kind of difference. The library keeps places and messages of several kinds together."""
    kinds = list(dict.fromkeys(kind.value.upper() for kind in result.incompatibilities))
    where, why = ", ".join(sorted(result.locations)), ", ".join(sorted(result.messages))
    return [f"{{errorType:'{kind}', description:'{_DESCRIBED[kind]} (path {where})', additionalInfo:'{why}'}}" for kind in kinds]


_DESCRIBED: Final = {
    "NAME_MISMATCH": "the name of a type has changed",
    "FIXED_SIZE_MISMATCH": "the size of a fixed type has changed",
    "MISSING_ENUM_SYMBOLS": "the reader lacks symbols of an enum, and the enum has no default",
    "READER_FIELD_MISSING_DEFAULT_VALUE": "a field of the reader has no default value and is missing in the written schema",
    "TYPE_MISMATCH": "the type of a field has changed to one that cannot be read",
    "MISSING_UNION_BRANCH": "the reader lacks a type of a union",
}


def _read(text: str) -> Any:
    """Read JSON, or the bare name of a primitive type, which Avro's Java library reads, too."""
    try:
        return json.loads(text)
    except RecursionError:
        raise SchemaError("the schema is nested too deep") from None
    except ValueError as error:
        if text.strip() in PRIMITIVES:
            return text.strip()
        raise SchemaError(f"no JSON: {error}") from None


def _without_logical_types(form: Any) -> Any:
    """Return a schema without logical types, which change nothing about what can be read; the library warns of unknown ones."""
    if isinstance(form, list):
        return [_without_logical_types(each) for each in form]
    if isinstance(form, dict):
        is_type = isinstance(form.get("type"), str)
        return {name: _without_logical_types(each) for name, each in form.items() if not (is_type and name == "logicalType")}
    return form


def _written(form: Any) -> str:
    return json.dumps(form, separators=(",", ":"), ensure_ascii=False)


def _check_defaults(schema: Any, seen: set[int]) -> None:
    """Raise SchemaError for a field whose default is not of its type; a union's default is of any of its types."""
    if id(schema) in seen:
        return
    seen.add(id(schema))
    for field in getattr(schema, "fields", ()):
        if field.has_default and not _is_default(field.type, field.default, {}):
            raise SchemaError(f"Invalid default for field {field.name}: {json.dumps(field.default)[:80]} not a {field.type}")
        _check_defaults(field.type, seen)
    for inner in (getattr(schema, "items", None), getattr(schema, "values", None), *getattr(schema, "schemas", ())):
        if inner is not None:
            _check_defaults(inner, seen)


def _is_default(schema: Any, value: Any, known: dict[tuple[int, int], bool]) -> bool:
    """Whether a value is one of a type. ``known`` has the results: each branch of a union looks at the same values."""
    pair = id(schema), id(value)
    if pair not in known:
        known[pair] = _is_value(schema, value, lambda inner, part: _is_default(inner, part, known))
    return known[pair]


def _is_value(schema: Any, value: Any, is_part: Callable[[Any, Any], bool]) -> bool:
    kind = schema.type
    if kind == "union":
        return any(is_part(each, value) for each in schema.schemas)
    if kind in _BYTES:
        return isinstance(value, str) and (kind == "bytes" or len(value) == schema.size)
    if kind == "array":
        return isinstance(value, list) and all(is_part(schema.items, each) for each in value)
    if kind == "map":
        return isinstance(value, dict) and all(is_part(schema.values, each) for each in value.values())
    if kind in ("record", "error"):
        return isinstance(value, dict) and all(
            field.has_default if field.name not in value else is_part(field.type, value[field.name]) for field in schema.fields
        )
    if kind == "enum":
        return value in schema.symbols
    if kind in ("float", "double"):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind in ("int", "long"):
        limit = 1 << (31 if kind == "int" else 63)
        return isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit
    return isinstance(value, {"null": type(None), "boolean": bool, "string": str}[kind])
