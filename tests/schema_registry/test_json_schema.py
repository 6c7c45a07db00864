"""JSON Schemas: what is rejected, references, and what breaks readers."""

import json
from typing import Any

import pytest

from twisted_kafka.schema_registry.formats.json_schema import JsonSchema
from twisted_kafka.schema_registry.formats.parsed import SchemaError


def schema(form: Any, **dependencies: Any) -> Any:
    return JsonSchema(json.dumps(form), {f"{name}.json": json.dumps(other) for name, other in dependencies.items()})


def kinds(found: Any) -> Any:
    return [line.split('"')[1] for line in found]


def closed(properties: Any, **more: Any) -> Any:
    return {"type": "object", "properties": properties, "additionalProperties": False, **more}


def opened(properties: Any, **more: Any) -> Any:
    return {"type": "object", "properties": properties, **more}


A, B = {"type": "string"}, {"type": "integer"}
TREE: dict[str, Any] = {
    "$id": "tree.json",
    "type": "object",
    "properties": {"child": {"anyOf": [{"type": "null"}, {"$ref": "#"}]}, "v": A},
}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "no JSON"),
        ("[]", "no JSON Schema"),
        ('{"type": "strin"}', r"at \$.type: 'strin'"),
        ('{"$ref": "x.json"}', "nothing is known at 'x.json'"),
        ('{"properties": {"a": {"$ref": "#/definitions/b"}}}', "nothing is known at '#/definitions/b'"),
        ('{"$schema": 7}', "expected a text"),
        ('{"$id": "http://[x", "type": "object"}', "invalid [$]id"),
        ('{"pattern": "("}', "regex"),
        ("[" * 3000, "too deep|no JSON"),
    ],
)
def test_what_is_no_schema_is_rejected_in_one_line(text: str, why: str) -> None:
    with pytest.raises(SchemaError, match=why) as caught:
        JsonSchema(text, {})
    assert "\n" not in str(caught.value)


def test_the_text_keeps_the_order_and_loses_the_space() -> None:
    one = JsonSchema('{"type": "object",\n "title": "a"}', {})
    assert one.text == '{"type":"object","title":"a"}'
    assert one.normalized().text == '{"title":"a","type":"object"}'


@pytest.mark.parametrize(
    "draft",
    [f"http://json-schema.org/draft-0{number}/schema#" for number in (3, 4, 6, 7)]
    + ["https://json-schema.org/draft/2020-12/schema"],
)
def test_every_draft_is_known(draft: str) -> None:
    new = schema({"$schema": draft, **opened({"a": A})})
    assert kinds(new.cannot_read(schema({"$schema": draft, **opened({"a": B})}))) == ["TYPE_CHANGED"]


@pytest.mark.parametrize("base", [{}, {"$id": "http://shop.example/order.json"}])
def test_a_reference_is_a_document_that_a_ref_names(base: dict[str, Any]) -> None:
    order = {**base, **opened({"line": {"$ref": "line.json"}, "first": {"$ref": "#/properties/line"}})}
    old, new = schema(order, line=opened({"n": B})), schema(order, line=opened({"n": A}))
    assert set(kinds(new.cannot_read(old))) == {"TYPE_CHANGED"}
    assert new.cannot_read(new) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (opened({"a": A}), opened({"a": A}), []),
        (opened({"a": A}), opened({"a": A, "b": A}), ["OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"]),
        (opened({"a": A}), opened({"a": A, "b": {}}), []),
        (opened({"a": A, "b": A}), opened({"a": A}), []),
        (closed({"a": A}), closed({"a": A, "b": A}), []),
        (closed({"a": A, "b": A}), closed({"a": A}), ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"]),
        (closed({"a": A}), closed({"a": A, "b": A}, required=["b"]), ["REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"]),
        (closed({"a": A}), closed({"a": A, "b": {**A, "default": "x"}}, required=["b"]), []),
        (opened({"a": A}), opened({"a": A}, required=["a"]), ["REQUIRED_ATTRIBUTE_ADDED"]),
        (opened({"a": A}, required=["a"]), opened({"a": A}), []),
        (opened({}), closed({}), ["ADDITIONAL_PROPERTIES_REMOVED"]),
        (closed({}), opened({}), []),
        (closed({}), opened({}, additionalProperties=A), []),
        (opened({}), opened({}, additionalProperties=A), ["ADDITIONAL_PROPERTIES_NARROWED"]),
        (opened({}, additionalProperties=A), opened({"b": A}, additionalProperties=A), []),
        (
            opened({}, additionalProperties=A),
            opened({"b": B}, additionalProperties=A),
            ["TYPE_CHANGED", "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"],
        ),
        (closed({}, patternProperties={"^x": A}), closed({"xa": A}, patternProperties={"^x": A}), []),
        (B, {"type": "number"}, []),
        ({"type": "number"}, B, ["TYPE_NARROWED"]),
        ({**A, "maxLength": 5}, {**A, "maxLength": 4}, ["MAX_LENGTH_DECREASED"]),
        ({**A, "maxLength": 5}, A, []),
        (A, {**A, "minLength": 1}, ["MIN_LENGTH_ADDED"]),
        (A, {**A, "pattern": "x"}, ["PATTERN_ADDED"]),
        ({**B, "minimum": 1}, {**B, "minimum": 2}, ["MINIMUM_INCREASED"]),
        ({**B, "multipleOf": 2}, {**B, "multipleOf": 4}, ["MULTIPLE_OF_EXPANDED"]),
        ({**B, "multipleOf": 4}, {**B, "multipleOf": 2}, []),
        ({"enum": [1, 2]}, {"enum": [1]}, ["ENUM_ARRAY_NARROWED"]),
        ({"enum": [1]}, {"enum": [1, 2]}, []),
        ({"const": 1}, {"const": 2}, ["ENUM_ARRAY_CHANGED"]),
        (A, {"type": ["string", "null"]}, []),
        ({"type": ["string", "null"]}, A, ["TYPE_CHANGED"]),
        ({"oneOf": [A, B]}, {"oneOf": [A]}, ["SUM_TYPE_NARROWED"]),
        ({"oneOf": [A]}, {"anyOf": [A, B]}, []),
        ({"allOf": [A]}, {"allOf": [A, {"minLength": 1}]}, ["PRODUCT_TYPE_EXTENDED"]),
        ({"anyOf": [A, B]}, {"oneOf": [A, B]}, ["COMBINED_TYPE_CHANGED"]),
        ({"not": A}, {"not": {**A, "minLength": 2}}, []),
        ({"not": {**A, "minLength": 2}}, {"not": A}, ["NOT_TYPE_EXTENDED"]),
        ({"type": "array", "items": A}, {"type": "array", "items": B}, ["TYPE_CHANGED"]),
        ({"type": "array"}, {"type": "array", "uniqueItems": True}, ["UNIQUE_ITEMS_ADDED"]),
        ({"type": "array", "items": [A]}, {"type": "array", "items": [A, B]}, ["ITEM_ADDED_TO_OPEN_CONTENT_MODEL"]),
        ({"dependencies": {"a": ["b"]}}, {"dependencies": {"a": ["b", "c"]}}, ["DEPENDENCY_ARRAY_EXTENDED"]),
        (A, {}, []),
        (A, True, []),
        (False, A, []),
        ({}, A, ["TYPE_CHANGED"]),
        (TREE, TREE, []),
        (TREE, {**TREE, "properties": {**TREE["properties"], "v": B}}, ["COMBINED_TYPE_SUBSCHEMAS_CHANGED", "TYPE_CHANGED"]),
    ],
)
def test_what_breaks_readers(old: Any, new: Any, expected: list[str]) -> None:
    assert kinds(schema(new).cannot_read(schema(old))) == expected


@pytest.mark.medium
def test_a_comparison_of_very_many_parts_ends() -> None:
    parts = [opened({f"p{number}": A}, minProperties=number) for number in range(150)]
    assert schema({"anyOf": parts}).cannot_read(schema({"anyOf": parts[::-1]})) != []
