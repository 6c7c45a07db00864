"""JSON Schema as a tree of kinds, the view in which Confluent's registry compares two schemas.

A JSON Schema may constrain several types at once. The view splits such a schema into parts that are joined by allOf, anyOf or
oneOf, each with one kind: string, number, boolean, null, array, object, enum, const, not, empty, true or false.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import referencing.exceptions
from referencing.jsonschema import DRAFT3, DRAFT4, DRAFT6, DRAFT7

from twisted_kafka.schema_registry.formats.parsed import SchemaError

MAX_REFERENCES: Final = 100
"""A chain of references may have this length."""
CRITERIA: Final = ("allOf", "anyOf", "oneOf")
_ALONE: Final = (DRAFT3, DRAFT4, DRAFT6, DRAFT7)
"""In these drafts, a $ref hides the keywords beside it."""
_KINDS: Final[Mapping[str, str]] = {"integer": "number"}
_KEYWORDS: Final[Mapping[str, frozenset[str]]] = {
    "string": frozenset(("minLength", "maxLength", "pattern", "format")),
    "number": frozenset(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")),
    "array": frozenset(
        ("items", "additionalItems", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains", "unevaluatedItems")
    ),
    "object": frozenset(
        (
            *("properties", "required", "minProperties", "maxProperties", "additionalProperties", "patternProperties"),
            *("dependencies", "dependentRequired", "dependentSchemas", "propertyNames", "unevaluatedProperties"),
        )
    ),
}


class Resolver:
    """Finds what references mean, from a place in a document."""

    def __init__(self, resolver: Any, specification: Any) -> None:
        self._resolver = resolver
        self.specification = specification

    def lookup(self, reference: str) -> tuple[Any, "Resolver"]:
        """Return the schema with its resolver. Raises SchemaError."""
        try:
            found = self._resolver.lookup(reference)
        except (referencing.exceptions.Unresolvable, ValueError):
            raise SchemaError(f"nothing is known at {reference!r:.200}: add a reference with that name") from None
        return found.contents, Resolver(found.resolver, self.specification)

    def inside(self, form: Mapping[str, Any]) -> "Resolver":
        """Return the resolver for places within a schema that has an ``$id`` of its own."""
        resource = self.specification.create_resource(form)
        return Resolver(self._resolver.in_subresource(resource), self.specification)


@dataclass(frozen=True, eq=False)
class Node:
    """A schema with one kind."""

    kind: str
    form: Any
    """Its keywords."""
    resolver: Resolver
    criterion: str = ""
    """Of the kind ``combined``: how many of the parts have to match."""
    split: tuple["Node", ...] = ()
    """The parts of a schema that was split; otherwise the criterion's keyword lists them."""

    @property
    def place(self) -> object:
        """Differs from that of every other node of a comparison."""
        return self.kind, self.criterion, bool(self.split), id(self.form)

    @property
    def parts(self) -> tuple["Node", ...]:
        """The parts of the kind ``combined``. They are read when they are needed: a part may contain the whole."""
        return self.split or tuple(self.listed(self.criterion))

    def get(self, keyword: str) -> Any:
        """Return the value of a keyword; None if it is absent."""
        return self.form.get(keyword) if isinstance(self.form, Mapping) else None

    def inner(self, keyword: str) -> "Node | None":
        """Return the schema that is a keyword's value; None if it is absent."""
        form = self.get(keyword)
        return None if form is None else node_of(form, self.resolver)

    def named(self, keyword: str) -> dict[str, "Node"]:
        """Return the schemas that a keyword has by name."""
        return {name: node_of(form, self.resolver) for name, form in (self.get(keyword) or {}).items()}

    def listed(self, keyword: str) -> list["Node"]:
        """Return the list of schemas that is a keyword's value."""
        return [node_of(form, self.resolver) for form in self.get(keyword) or ()]


def node_of(form: Any, resolver: Resolver) -> Node:
    """Return the view of a schema. Raises SchemaError for a reference to nothing, and for a chain of references without an end."""
    for _ in range(MAX_REFERENCES):
        if not isinstance(form, Mapping):
            return _split(form, resolver)
        if "$id" in form:
            resolver = resolver.inside(form)
        if "$ref" not in form:
            return _split(form, resolver)
        beside = {name: value for name, value in form.items() if name != "$ref"}
        found, inner = resolver.lookup(form["$ref"])
        if resolver.specification not in _ALONE and (rest := _split(beside, resolver)).kind != "empty":
            return Node("combined", form, resolver, "allOf", (node_of(found, inner), rest))
        form, resolver = found, inner
    raise SchemaError(f"{form['$ref']!r:.80} refers to itself")


def references(form: Any) -> Iterator[str]:
    """Yield each ``$ref`` in a schema."""
    pending = [form]
    while pending:
        each = pending.pop()
        if isinstance(each, Mapping):
            if isinstance(each.get("$ref"), str):
                yield each["$ref"]
            pending += [value for name, value in each.items() if name not in ("enum", "const", "default", "examples")]
        elif isinstance(each, list):
            pending += each


def _split(form: Any, resolver: Resolver) -> Node:
    if isinstance(form, bool):
        return Node("true" if form else "false", form, resolver)
    found = list(_parts(form, resolver))
    if not found:
        return Node("empty", form, resolver)
    return found[0] if len(found) == 1 else Node("combined", form, resolver, "allOf", tuple(found))


def _parts(form: Mapping[str, Any], resolver: Resolver) -> Iterator[Node]:
    if "enum" in form:
        yield Node("enum", form, resolver)
    for criterion in CRITERIA:
        if criterion in form:
            yield Node("combined", form, resolver, criterion)
    if "not" in form:
        yield Node("not", form, resolver)
    if "const" in form:
        yield Node("const", form, resolver)
    kinds = form.get("type", [])
    if isinstance(kinds, str):
        yield _typed(kinds, form, resolver)
    elif kinds:
        yield Node("combined", form, resolver, "anyOf", tuple(_typed(kind, form, resolver) for kind in kinds))
    else:
        yield from (Node(kind, form, resolver) for kind, keywords in _KEYWORDS.items() if not keywords.isdisjoint(form))


def _typed(kind: str, form: Mapping[str, Any], resolver: Resolver) -> Node:
    """Return the part of a schema that is about one type."""
    return Node(_KINDS.get(kind, kind), {**form, "type": kind}, resolver)
