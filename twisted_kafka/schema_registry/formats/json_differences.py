"""The differences between two JSON Schemas that break readers, by the rules of Confluent's registry.

An object is open if it takes properties that its schema does not name, closed if it takes none, and partly open if it takes some.
A property may be added to a closed object, and removed from an open one.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple

from twisted_kafka.schema_registry.formats.differences import Difference
from twisted_kafka.schema_registry.formats.json_model import Node, node_of
from twisted_kafka.system.regular_expressions import most_ways

_SUMS: Final = ("anyOf", "oneOf")
_ALL: Final = "allOf"
MAX_PAIRS: Final = 10_000
"""A comparison that looks at more pairs of schemas ends as incompatible."""


class _Limit(NamedTuple):
    """A keyword with a number that bounds values."""

    keyword: str
    name: str
    """How the kinds of difference begin."""
    is_upper: bool


_LIMITS: Final[Mapping[str, tuple[_Limit, ...]]] = {
    "string": (_Limit("maxLength", "MAX_LENGTH", True), _Limit("minLength", "MIN_LENGTH", False)),
    "number": (
        _Limit("maximum", "MAXIMUM", True),
        _Limit("minimum", "MINIMUM", False),
        _Limit("exclusiveMaximum", "EXCLUSIVE_MAXIMUM", True),
        _Limit("exclusiveMinimum", "EXCLUSIVE_MINIMUM", False),
    ),
    "object": (_Limit("maxProperties", "MAX_PROPERTIES", True), _Limit("minProperties", "MIN_PROPERTIES", False)),
    "array": (
        _Limit("maxItems", "MAX_ITEMS", True),
        _Limit("minItems", "MIN_ITEMS", False),
        _Limit("maxContains", "MAX_CONTAINS", True),
        _Limit("minContains", "MIN_CONTAINS", False),
    ),
}

WAYS_PER_PAIR: Final = 1_000
"""A pair takes as long as this many ways to match a regular expression."""
CHARACTERS_PER_PAIR: Final = 2_000
"""A pair takes as long as this many characters of a combined schema."""
Found = Iterator[Difference]


class _TooMuchError(Exception):
    """A comparison has looked at ``MAX_PAIRS``."""


class Comparison:
    """One comparison. It knows the pairs under way, because schemas may contain themselves."""

    def __init__(self) -> None:
        self._under_way: set[tuple[object, object]] = set()
        self._left: float = MAX_PAIRS
        self._by_kind: Mapping[str, Callable[[Node, Node, str], Found]] = {
            "string": self._string,
            "number": self._number,
            "const": self._const,
            "enum": self._enum,
            "combined": self._combined,
            "not": self._not,
            "object": self._object,
            "array": self._array,
        }

    def differences(self, old: Node, new: Node, path: str) -> Found:
        """Yield the differences that prevent a reader with the schema ``new`` from reading data of ``old``."""
        pair = old.place, new.place
        if pair in self._under_way:
            return
        self._spend(1)
        self._under_way.add(pair)
        try:
            yield from self._compared(old, new, path)
        finally:
            self._under_way.discard(pair)

    def all_differences(self, old: Node, new: Node) -> list[Difference]:
        """Return the differences of two whole schemas; those found so far, and one more, if there is too much to compare."""
        found: list[Difference] = []
        try:
            found.extend(self.differences(old, new, "#"))
        except _TooMuchError:
            found.append(Difference("COMBINED_TYPE_SUBSCHEMAS_CHANGED", "#"))
        return found

    def _spend(self, pairs: float) -> None:
        self._left -= pairs
        if self._left < 0:
            raise _TooMuchError

    def is_readable(self, old: Node, new: Node, path: str) -> bool:
        """Whether there are no differences."""
        return next(self.differences(old, new, path), None) is None

    def _compared(self, old: Node, new: Node, path: str) -> Found:
        if self._is_part(old, new, path):
            return
        if old.kind != new.kind:
            if old.kind != "false" and new.kind not in ("empty", "true") and not _are_bytes(old, new):
                yield Difference("TYPE_CHANGED", path)
            return
        for limit in _LIMITS.get(old.kind, ()):
            yield from _limited(limit, old, new, path)
        compare = self._by_kind.get(old.kind)
        if compare is not None:
            yield from compare(old, new, path)

    def _is_part(self, old: Node, new: Node, path: str) -> bool:
        """Whether one of the two is readable as a part of the other, which is combined."""
        if old.kind != "combined" and new.kind == "combined":
            parts = new.parts if len(new.parts) == 1 or new.criterion in _SUMS else ()
            return any(self.is_readable(old, part, path) for part in parts)
        if old.kind == "combined" and new.kind != "combined":
            parts = old.parts if len(old.parts) == 1 or old.criterion == _ALL else ()
            return any(self.is_readable(part, new, path) for part in parts)
        return False

    def _string(self, old: Node, new: Node, path: str) -> Found:
        before, after = old.get("pattern"), new.get("pattern")
        if after is not None and before != after:
            yield Difference("PATTERN_ADDED" if before is None else "PATTERN_CHANGED", f"{path}/pattern")

    def _number(self, old: Node, new: Node, path: str) -> Found:
        before, after = _decimal(old.get("multipleOf")), _decimal(new.get("multipleOf"))
        if after is not None and before != after:
            if before is None:
                yield Difference("MULTIPLE_OF_ADDED", f"{path}/multipleOf")
            elif before and after % before == 0:
                yield Difference("MULTIPLE_OF_EXPANDED", f"{path}/multipleOf")
            elif not after or before % after:
                yield Difference("MULTIPLE_OF_CHANGED", f"{path}/multipleOf")
        if new.get("type") == "integer" and old.get("type") != "integer":
            yield Difference("TYPE_NARROWED", path)

    def _const(self, old: Node, new: Node, path: str) -> Found:
        if _text(old.get("const")) != _text(new.get("const")):
            yield Difference("ENUM_ARRAY_CHANGED", f"{path}/const")

    def _enum(self, old: Node, new: Node, path: str) -> Found:
        before, after = set(map(_text, old.get("enum"))), set(map(_text, new.get("enum")))
        if not before <= after:
            yield Difference("ENUM_ARRAY_NARROWED" if after <= before else "ENUM_ARRAY_CHANGED", f"{path}/enum")

    def _not(self, old: Node, new: Node, path: str) -> Found:
        before, after = old.inner("not"), new.inner("not")
        if before is not None and after is not None and not self.is_readable(after, before, f"{path}/not"):
            yield Difference("NOT_TYPE_EXTENDED", f"{path}/not")

    def _combined(self, old: Node, new: Node, path: str) -> Found:
        if old.criterion != new.criterion and not _is_wider(old, new):
            yield Difference("COMBINED_TYPE_CHANGED", path)
            return
        before, after = self._distinct(old.parts), self._distinct(new.parts)
        if len(before) < len(after) and new.criterion == _ALL:
            yield Difference("PRODUCT_TYPE_EXTENDED", path)
        if len(before) > len(after) and old.criterion in _SUMS:
            yield Difference("SUM_TYPE_NARROWED", path)
        readable = [
            [number for number, part in enumerate(after) if self.is_readable(each, part, f"{path}/{old.criterion}/{index}")]
            for index, each in enumerate(before)
        ]
        if _matched(readable) < min(len(before), len(after)):
            yield Difference("COMBINED_TYPE_SUBSCHEMAS_CHANGED", path)

    def _distinct(self, parts: tuple[Node, ...]) -> list[Node]:
        found: dict[tuple[str, str], Node] = {}
        for part in parts:
            text = _text(part.form)
            self._spend(len(text) / CHARACTERS_PER_PAIR)
            found[part.kind, text] = part
        return list(found.values())

    # Objects

    def _object(self, old: Node, new: Node, path: str) -> Found:
        before, after = old.named("properties"), new.named("properties")
        needed, needs = set(old.get("required") or ()), set(new.get("required") or ())
        for name in sorted((before.keys() & after.keys()) & (needs - needed)):
            if not _has_default(after[name]):
                yield Difference("REQUIRED_ATTRIBUTE_ADDED", f"{path}/required/{name}")
        for name in dict.fromkeys((*before, *after)):
            where = f"{path}/properties/{name}"
            if name not in after:
                yield from self._removed_property(name, before[name], new, where)
            elif name not in before:
                yield from self._added_property(name, old, after[name], name in needs, where)
            else:
                yield from self.differences(before[name], after[name], where)
        yield from self._dependencies(old, new, f"{path}/dependencies")
        yield from self._additional("additionalProperties", "ADDITIONAL_PROPERTIES", old, new, path)
        yield from self._unevaluated("unevaluatedProperties", "UNEVALUATED_PROPERTIES", old, new, path)

    def _removed_property(self, name: str, old: Node, whole: Node, where: str) -> Found:
        if _is_open(whole, "Properties"):
            return
        covering = self._covering(whole, name)
        if covering is not None:
            found = list(self.differences(old, covering, where))
            yield from found
            if found:
                yield Difference("PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", where)
        elif old.kind != "false":
            yield Difference("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", where)

    def _added_property(self, name: str, whole: Node, new: Node, is_required: bool, where: str) -> Found:
        if _is_open(whole, "Properties"):
            if new.kind in ("empty", "true"):
                return
            what = "OPTIONAL_PROPERTY" if not is_required else "REQUIRED_PROPERTY"
            with_default = "_WITH_DEFAULT" if is_required and _has_default(new) else ""
            yield Difference(f"{what}{with_default}_ADDED_TO_OPEN_CONTENT_MODEL", where)
            return
        covering = self._covering(whole, name)
        if covering is not None:
            found = list(self.differences(covering, new, where))
            yield from found
            if found:
                yield Difference("PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", where)
        if is_required and not _has_default(new):
            yield Difference("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", where)

    def _covering(self, node: Node, name: str) -> Node | None:
        """Return the schema that a partly open object has for a property that it does not name."""
        for pattern, form in (node.get("patternProperties") or {}).items():
            try:
                self._spend(1 + most_ways(pattern, len(name)) * len(name) / WAYS_PER_PAIR)
                if re.search(pattern, name):
                    return node_of(form, node.resolver)
            except (re.error, OverflowError):  # of ECMA's syntax
                continue
        return _beyond(node, "Properties")

    def _dependencies(self, old: Node, new: Node, path: str) -> Found:
        before, after = _dependent(old), _dependent(new)
        for name, needs in after.items():
            had, where = before.get(name), f"{path}/{name}"
            if isinstance(needs, Node):
                if not isinstance(had, Node):
                    yield Difference("DEPENDENCY_SCHEMA_ADDED", where)
                else:
                    yield from self.differences(had, needs, where)
            elif had is None or isinstance(had, Node):
                yield Difference("DEPENDENCY_ARRAY_ADDED", where)
            elif not needs <= had:
                yield Difference("DEPENDENCY_ARRAY_EXTENDED" if had <= needs else "DEPENDENCY_ARRAY_CHANGED", where)

    # Arrays

    def _array(self, old: Node, new: Node, path: str) -> Found:
        if new.get("uniqueItems") and not old.get("uniqueItems"):
            yield Difference("UNIQUE_ITEMS_ADDED", f"{path}/uniqueItems")
        yield from self._maybe(_each_item(old), _each_item(new), f"{path}/items")
        before, after = _first_items(old), _first_items(new)
        for index in range(max(len(before), len(after))):
            where = f"{path}/items/{index}"
            if index < min(len(before), len(after)):
                yield from self.differences(before[index], after[index], where)
            elif index < len(before):
                yield from self._removed_item(before[index], new, where)
            else:
                yield from self._added_item(old, after[index], where)
        yield from self._additional("additionalItems", "ADDITIONAL_ITEMS", old, new, path)
        yield from self._unevaluated("unevaluatedItems", "UNEVALUATED_ITEMS", old, new, path)

    def _removed_item(self, old: Node, whole: Node, where: str) -> Found:
        if _is_open(whole, "Items"):
            return
        covering = _beyond(whole, "Items")
        if covering is not None:
            found = list(self.differences(old, covering, where))
            yield from found
            if found:
                yield Difference("ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", where)
        elif old.kind != "false":
            yield Difference("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL", where)

    def _added_item(self, whole: Node, new: Node, where: str) -> Found:
        if _is_open(whole, "Items"):
            if new.kind not in ("empty", "true"):
                yield Difference("ITEM_ADDED_TO_OPEN_CONTENT_MODEL", where)
            return
        covering = _beyond(whole, "Items")
        if covering is not None:
            found = list(self.differences(covering, new, where))
            yield from found
            if found:
                yield Difference("ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", where)

    # What both have

    def _maybe(self, old: Node | None, new: Node | None, where: str) -> Found:
        if new is None:
            return
        if old is None:
            yield Difference("SCHEMA_ADDED", where)
        else:
            yield from self.differences(old, new, where)

    def _additional(self, keyword: str, name: str, old: Node, new: Node, path: str) -> Found:
        before, after, where = _rest(old, keyword), _rest(new, keyword), f"{path}/{keyword}"
        if _permits(before) != _permits(after):
            if not _permits(after):
                yield Difference(f"{name}_REMOVED", where)
        elif before is None and after is not None:
            yield Difference(f"{name}_NARROWED", where)
        elif before is not None and after is not None and _permits(before):
            yield from self.differences(before, after, where)

    def _unevaluated(self, keyword: str, name: str, old: Node, new: Node, path: str) -> Found:
        before, after, where = old.inner(keyword), new.inner(keyword), f"{path}/{keyword}"
        if after is None or (before is not None and before.kind == "false"):
            return
        if after.kind == "false":
            yield Difference(f"{name}_REMOVED", where)
        elif before is None or (before.kind in ("empty", "true") and after.kind not in ("empty", "true")):
            yield Difference(f"{name}_NARROWED", where)
        elif after.kind not in ("empty", "true"):
            yield from self.differences(before, after, where)


def _limited(limit: _Limit, old: Node, new: Node, path: str) -> Found:
    before, after = _bound(old, limit), _bound(new, limit)
    if after is None or before == after:
        return
    if before is None:
        yield Difference(f"{limit.name}_ADDED", f"{path}/{limit.keyword}")
    elif (after < before) is limit.is_upper:
        word = "DECREASED" if limit.is_upper else "INCREASED"
        yield Difference(f"{limit.name}_{word}", f"{path}/{limit.keyword}")


def _bound(node: Node, limit: _Limit) -> Decimal | None:
    value = node.get(limit.keyword)
    if isinstance(value, bool):  # draft 4: whether the other keyword's limit is exclusive
        return _decimal(node.get("maximum" if limit.is_upper else "minimum")) if value else None
    if limit.keyword in ("maximum", "minimum") and node.get("exclusiveM" + limit.keyword[1:]) is True:
        return None
    return _decimal(value)


def _decimal(value: Any) -> Decimal | None:
    if value is None or isinstance(value, bool):
        return None
    try:
        return Decimal(str(value))
    except InvalidOperation:
        return None


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _are_bytes(old: Node, new: Node) -> bool:
    """Whether both are bytes of Kafka Connect, which has written them as texts and as numbers."""
    return bool(old.get("connect.type") == new.get("connect.type") == "bytes")


def _has_default(node: Node) -> bool:
    return isinstance(node.form, Mapping) and "default" in node.form


def _is_wider(old: Node, new: Node) -> bool:
    """Whether a change of the criterion keeps all values valid."""
    is_one, becomes_one = len(old.parts) == 1, len(new.parts) == 1
    return (
        new.criterion == "anyOf"
        or (is_one and (becomes_one or new.criterion == "oneOf"))
        or (becomes_one and old.criterion == _ALL)
    )


def _matched(readable: list[list[int]]) -> int:
    """Return how many can be matched at once, each with another one: the largest matching of a bipartite graph."""
    taken: dict[int, int] = {}

    def find(index: int, seen: set[int]) -> bool:
        for number in readable[index]:
            if number not in seen:
                seen.add(number)
                if number not in taken or find(taken[number], seen):
                    taken[number] = index
                    return True
        return False

    return sum(find(index, set()) for index in range(len(readable)))


def _rest(node: Node, keyword: str) -> Node | None:
    """Return the schema of unnamed properties or items; None if everything is permitted."""
    if keyword == "additionalItems" and "prefixItems" in node.form:
        keyword = "items"
    rest = node.inner(keyword)
    return None if rest is not None and rest.kind == "true" else rest


def _permits(rest: Node | None) -> bool:
    return rest is None or rest.kind != "false"


def _is_open(node: Node, what: str) -> bool:
    if _rest(node, f"additional{what}") is not None or (what == "Properties" and node.get("patternProperties")):
        return False
    unevaluated = node.inner(f"unevaluated{what}")
    return unevaluated is None or unevaluated.kind in ("empty", "true")


def _beyond(node: Node, what: str) -> Node | None:
    """Return the schema that a partly open object or array has for unnamed properties or items."""
    rest = _rest(node, f"additional{what}")
    if rest is not None:
        return rest if rest.kind != "false" else None
    unevaluated = node.inner(f"unevaluated{what}")
    return unevaluated if unevaluated is not None and unevaluated.kind not in ("false", "empty", "true") else None


def _dependent(node: Node) -> dict[str, Any]:
    """Return what each property needs: a schema, or the names of other properties."""
    found: dict[str, Any] = {}
    for keyword in ("dependencies", "dependentRequired", "dependentSchemas"):
        for name, needs in (node.get(keyword) or {}).items():
            found[name] = frozenset(needs) if isinstance(needs, list) else node.named(keyword)[name]
    return found


def _each_item(node: Node) -> Node | None:
    """Return the schema of all items."""
    return None if isinstance(node.get("items"), list) or "prefixItems" in node.form else node.inner("items")


def _first_items(node: Node) -> list[Node]:
    """Return the schemas of the first items."""
    if "prefixItems" in node.form:
        return node.listed("prefixItems")
    return node.listed("items") if isinstance(node.get("items"), list) else []
