"""Avro schemas: their canonical text, what is rejected, and what can be read."""

import json
import warnings
from typing import Any

import pytest

from twisted_kafka.schema_registry.formats.avro import AvroSchema
from twisted_kafka.schema_registry.formats.parsed import RESOLVED, SchemaError

LINE = '{"type": "record", "name": "Line", "namespace": "shop", "fields": [{"name": "n", "type": "int"}]}'


def field(name: Any, kind: Any, **more: Any) -> Any:
    return {"name": name, "type": kind, **more}


def record(*fields: Any, name: Any = "R", **more: Any) -> Any:
    return AvroSchema(json.dumps({"type": "record", "name": name, "fields": fields, **more}), {})


def kinds(found: Any) -> Any:
    return [line.split("'")[1] for line in found]


def test_the_text_has_the_order_of_avros_java_library() -> None:
    given = {
        "fields": [
            {"type": {"type": "string"}, "name": "id", "doc": "d"},
            {"name": "kind", "order": "ignore", "type": {"symbols": ["A"], "type": "enum", "name": "shop.Kind"}},
            {"default": None, "name": "next", "order": "ascending", "type": ["null", "shop.Order"]},
        ],
        "owner": "billing",
        "aliases": ["Old"],
        "name": "Order",
        "namespace": "shop",
        "type": "record",
    }
    assert AvroSchema(json.dumps(given, indent=2), {}).text == (
        '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"string","doc":"d"},'
        '{"name":"kind","type":{"type":"enum","name":"Kind","symbols":["A"]},"order":"ignore"},'
        '{"name":"next","type":["null","Order"],"default":null}],"owner":"billing","aliases":["Old"]}'
    )


def test_normalizing_sorts_what_avro_does_not_know() -> None:
    one, other = record(zone=1, area=2), record(area=2, zone=1)
    assert one.text != other.text
    assert one.normalized().text == other.normalized().text


def test_a_reference_is_a_type_of_another_schema() -> None:
    schema = AvroSchema('{"type": "record", "name": "shop.Order", "fields": [{"name": "line", "type": "shop.Line"}]}', {"a": LINE})
    assert '"type":"Line"' in schema.text
    resolved = schema.formatted(RESOLVED)
    assert '"fields":[{"name":"n","type":"int"}]' in resolved
    assert AvroSchema(resolved, {}).resolved() == schema.resolved()


@pytest.mark.parametrize("text", ['"string"', "string", '{"type": "string"}'])
def test_a_primitive_type_is_a_schema(text: str) -> None:
    assert AvroSchema(text, {}).text == '"string"'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "no JSON"),
        ("7", "no Avro type"),
        ('{"type": "nope"}', "nope"),
        ('{"type": "record", "name": "1R", "fields": []}', "1R is not a valid Avro name"),
        ('{"type": "record", "fields": []}', "has no name"),
        ('{"type": "record", "name": "R"}', "fields"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "shop.Line"}]}', "shop.Line"),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "default": "x"}]}',
            "Invalid default for field a",
        ),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "enum", "name": "R", "symbols": []}}]}',
            "redefine",
        ),
        ('["null", "null"]', "already in Union"),
        ("[" * 2000, "too deep|no JSON"),
        ('{"type": "array", "items": ' * 150 + '"int"' + "}" * 150, "nested more than 100 deep"),
    ],
)
def test_what_is_no_schema_is_rejected_in_one_line(text: str, why: str) -> None:
    with pytest.raises(SchemaError, match=why) as caught:
        AvroSchema(text, {})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "default",
    [
        field("a", ["null", "int"], default=3),
        field("a", {"type": "array", "items": "long"}, default=[1]),
        field("a", {"type": "map", "values": "double"}, default={"x": 1}),
        field("a", "bytes", default="\u00ff"),
        field("a", {"type": "enum", "name": "E", "symbols": ["A"]}, default="A"),
        field("a", {"type": "record", "name": "I", "fields": [field("b", "boolean", default=True)]}, default={}),
    ],
)
def test_defaults_of_each_type_are_accepted(default: dict[str, Any]) -> None:
    assert record(default).text


@pytest.mark.parametrize(
    "default", [field("a", "int", default=2**31), field("a", "boolean", default=1), field("a", "float", default="1")]
)
def test_defaults_of_other_types_are_rejected(default: dict[str, Any]) -> None:
    with pytest.raises(SchemaError, match="Invalid default"):
        record(default)


def test_an_unknown_logical_type_is_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "bogus" in record(field("a", {"type": "int", "logicalType": "bogus"})).text


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        (record(field("a", "int"), field("b", "int")), record(field("a", "int")), ["READER_FIELD_MISSING_DEFAULT_VALUE"]),
        (record(field("a", "int"), field("b", "int", default=1)), record(field("a", "int")), []),
        (record(), record(field("a", "int")), []),
        (record(field("a", "string")), record(field("a", "int")), ["TYPE_MISMATCH"]),
        (record(field("a", "long")), record(field("a", "int")), []),
        (record(field("a", "int")), record(field("a", "long")), ["TYPE_MISMATCH"]),
        (record(field("a", ["null", "int"])), record(field("a", "int")), []),
        (record(field("a", ["null", "int"])), record(field("a", ["null", "string"])), ["MISSING_UNION_BRANCH"]),
        (record(name="S"), record(), ["NAME_MISMATCH"]),
        (record(name="S", aliases=["R"]), record(), []),
        (record(field("b", "int", aliases=["a"])), record(field("a", "int")), []),
        (
            record(field("a", {"type": "enum", "name": "E", "symbols": ["A"]})),
            record(field("a", {"type": "enum", "name": "E", "symbols": ["A", "B"]})),
            ["MISSING_ENUM_SYMBOLS"],
        ),
        (
            record(field("a", {"type": "enum", "name": "E", "symbols": ["A"], "default": "A"})),
            record(field("a", {"type": "enum", "name": "E", "symbols": ["A", "B"]})),
            [],
        ),
        (
            record(field("a", {"type": "fixed", "name": "F", "size": 4})),
            record(field("a", {"type": "fixed", "name": "F", "size": 8})),
            ["FIXED_SIZE_MISMATCH"],
        ),
        (record(field("n", ["null", "R"])), record(field("n", ["null", "R"])), []),
    ],
)
def test_what_a_new_schema_cannot_read(new: Any, old: Any, expected: list[str]) -> None:
    assert kinds(new.cannot_read(old)) == expected
