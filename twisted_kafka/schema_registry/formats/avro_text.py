"""Avro schemas as JSON: the canonical order of attributes, and definitions in the place of references.

The order is the one in which Avro's Java library prints a schema, so that texts in the topic equal Confluent's.
"""

from collections.abc import Mapping
from typing import Any, Final

from twisted_kafka.schema_registry.formats.parsed import SchemaError

PRIMITIVES: Final = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
_NAMED: Final = ("record", "error", "enum", "fixed")
_OWN: Final[Mapping[str, tuple[str, ...]]] = {
    "record": ("doc", "fields"),
    "error": ("doc", "fields"),
    "enum": ("doc", "symbols", "default"),
    "fixed": ("doc", "size"),
    "array": ("items",),
    "map": ("values",),
}
"""The attributes of each type, in the printed order, after its name."""
_OF_FIELD: Final = ("name", "type", "doc", "default", "order", "aliases")
_OF_NAME: Final = ("type", "name", "namespace", "aliases")
MAX_DEPTH: Final = 100
"""Deeper schemas are rejected."""
MAX_FIELDS: Final = 5_000
"""Schemas with more fields are rejected: the library compares each with all others."""


class AvroText:
    """Rewrites one schema: each use once, because it learns the names that the schema defines."""

    def __init__(self, external: Mapping[str, Any], *, inlines: bool = False, sorts: bool = False) -> None:
        """``external`` has the schemas of other texts by their full names.

        With ``inlines``, their definitions replace their names. With ``sorts``, attributes that Avro does not know are sorted.
        """
        self._external = external
        self._inlines = inlines
        self._sorts = sorts
        self._fields = 0
        self.defined: dict[str, Any] = {}
        """The types that the schema defines, by their full names."""

    def rewritten(self, schema: Any, space: str = "", depth: int = 0) -> Any:
        """Return the schema in canonical order, within a namespace. Raises SchemaError."""
        if depth > MAX_DEPTH:
            raise SchemaError(f"the schema is nested more than {MAX_DEPTH} deep")
        if isinstance(schema, list):
            return [self.rewritten(each, space, depth + 1) for each in schema]
        if isinstance(schema, str):
            return self._reference(schema, space, depth)
        if not isinstance(schema, dict) or "type" not in schema:
            raise SchemaError(f"{schema!r:.80} is no Avro type: expected a name, a list, or an object with a type")
        kind = schema["type"]
        if isinstance(kind, dict | list) or (kind not in PRIMITIVES and kind not in _OWN):
            return self.rewritten(kind, space, depth + 1)
        if kind in PRIMITIVES:
            rest = self._rest(schema, ("type",))
            return {"type": kind, **rest} if rest else kind
        made: dict[str, Any] = {"type": kind}
        if kind in _NAMED:
            space = self._name(schema, space, made)
        for attribute in _OWN[kind]:
            if attribute not in schema:
                continue
            value = schema[attribute]
            if attribute in ("items", "values"):
                value = self.rewritten(value, space, depth + 1)
            elif attribute == "fields":
                value = [self._field(field, space, depth + 1) for field in self._list(value, "fields")]
            made[attribute] = value
        made.update(self._rest(schema, (*_OF_NAME, *_OWN[kind]) if kind in _NAMED else ("type", *_OWN[kind])))
        if kind in _NAMED and schema.get("aliases"):
            made["aliases"] = self._aliases(schema)
        return made

    def _reference(self, name: str, space: str, depth: int) -> Any:
        if name in PRIMITIVES:
            return name
        full = name if "." in name or not space else f"{space}.{name}"
        if full not in self.defined and full not in self._external and "." not in name:
            full = name  # of no namespace
        if self._inlines and full in self._external and full not in self.defined:
            return self.rewritten(self._external[full], space, depth + 1)
        return _short(full, space)

    def _name(self, schema: Mapping[str, Any], space: str, made: dict[str, Any]) -> str:
        """Add the name of a type, and its namespace if it has another one than its surroundings; return the namespace."""
        name = schema.get("name")
        if not isinstance(name, str) or not name:
            raise SchemaError(f"a type {schema['type']!r} has no name")
        own = schema.get("namespace", space)
        if not isinstance(own, str):
            raise SchemaError(f"the namespace of {name!r} is {own!r:.80}: expected a text")
        if "." in name:
            own, _, name = name.rpartition(".")
        made["name"] = name
        if own != space:
            made["namespace"] = own
        full = f"{own}.{name}" if own else name
        if full in self.defined:
            raise SchemaError(f"Can't redefine: {full}")
        self.defined[full] = {**schema, "name": name, "namespace": own}
        return own

    def _field(self, field: Any, space: str, depth: int) -> dict[str, Any]:
        if not isinstance(field, dict) or not isinstance(field.get("name"), str) or "type" not in field:
            raise SchemaError(f"{field!r:.80} is no field: expected a name and a type")
        self._fields += 1
        if self._fields > MAX_FIELDS:
            raise SchemaError(f"the schema has more than {MAX_FIELDS} fields")
        made = {"name": field["name"], "type": self.rewritten(field["type"], space, depth + 1)}
        for attribute in ("doc", "default"):
            if attribute in field:
                made[attribute] = field[attribute]
        if field.get("order", "ascending") != "ascending":
            made["order"] = field["order"]
        if field.get("aliases"):
            made["aliases"] = self._aliases(field)
        return {**made, **self._rest(field, _OF_FIELD)}

    def _aliases(self, schema: Mapping[str, Any]) -> list[Any]:
        aliases = self._list(schema["aliases"], "aliases")
        return sorted(aliases) if self._sorts else aliases

    def _rest(self, schema: Mapping[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
        rest = {name: value for name, value in schema.items() if name not in known}
        return dict(sorted(rest.items())) if self._sorts else rest

    @staticmethod
    def _list(value: Any, what: str) -> list[Any]:
        if not isinstance(value, list):
            raise SchemaError(f"{what} is {value!r:.80}: expected a list")
        return value


def _short(full: str, space: str) -> str:
    """Return a name as it is written within a namespace."""
    own, _, name = full.rpartition(".")
    return name if own == space and name not in PRIMITIVES else full
