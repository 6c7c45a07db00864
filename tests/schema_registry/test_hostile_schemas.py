"""Schemas and settings that nobody should write: each has an answer of one line, soon, and later requests are served."""

import base64
import json
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from tests.schema_registry.memory_log import MemoryLog, MemoryTopic
from twisted_kafka.schema_registry import errors
from twisted_kafka.schema_registry.api import find, form_of, read_body
from twisted_kafka.schema_registry.errors import RegistryError
from twisted_kafka.schema_registry.registry import Registry

DRAFT_4 = "http://json-schema.org/draft-04/schema#"
HALF = r"\ud800"
"""Half of a surrogate pair, as JSON writes it."""
TEXT = {"type": "string"}
RECORD = {"type": "record", "name": "R", "fields": [{"name": "q", "type": "int", "default": 1}]}
OBJECT = {"type": "object", "properties": {"a": TEXT}}


class Client:
    def __init__(self) -> None:
        self.topic = MemoryTopic()
        self.registry = Registry(MemoryLog(self.topic))

    def send(self, method: str, uri: str, body: bytes) -> Any:
        asked = find(method, uri)
        call = type(asked.call)(asked.call.names, asked.call.query, read_body(body, "application/json"))
        return form_of(self.registry, asked._replace(call=call))

    def __call__(self, method: str, uri: str, **body: Any) -> Any:
        return self.send(method, uri, json.dumps(body).encode() if body else b"")

    def register(self, schema: Any, kind: str = "AVRO", **more: Any) -> Any:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        return self("POST", "/subjects/a/versions", schema=text, schemaType=kind, **more)

    def refused(self, *call: Any, **body: Any) -> tuple[int, str]:
        with pytest.raises(RegistryError) as caught:
            (self if call[0] in ("GET", "PUT", "POST") else self.register)(*call, **body)
        assert "\n" not in str(caught.value)
        return caught.value.code, str(caught.value)


@pytest.fixture
def client() -> Client:
    return Client()


def nested(depth: int) -> Any:
    value: Any = 5
    for _ in range(depth):
        value = {"n": value}
    return value


def record(name: str, *types: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": "n", "type": each} for each in types]}


def descriptor(make: Any) -> str:
    file = FileDescriptorProto(name="x.proto", syntax="proto3")
    make(file.message_type.add(name="M"))
    return base64.b64encode(file.SerializeToString()).decode()


def with_default(types: Any, default: Any) -> dict[str, Any]:
    return {**RECORD, "fields": [{"name": "n", "type": types, "default": default}]}


UNREADABLE = [
    # A default that fits none of two types which contain each other: 2 ** 60 ways to find that out.
    (with_default([record("A", ["null", "A", record("B", ["null", "A", "B"])])], nested(60)), "AVRO"),
    (with_default(["null", "R"], nested(400)), "AVRO"),
    ({"type": "string", "x": json.loads("[" * 500 + "]" * 500)}, "AVRO"),
    ({"type": "string", "x": "\ud800"}, "AVRO"),
    ({**RECORD, "fields": [{"name": f"f{number}", "type": "int"} for number in range(5001)]}, "AVRO"),
    ({"$schema": DRAFT_4, "enum": [None, *map(str, range(400))]}, "JSON"),
    ({"$schema": DRAFT_4, "enum": [{"a": number} for number in range(400)]}, "JSON"),
    ("/" * 200_001, "PROTOBUF"),
    (descriptor(lambda message: message.options.uninterpreted_option.add(string_value=b"\xff")), "PROTOBUF"),
]


@pytest.mark.parametrize(("schema", "kind"), UNREADABLE)
def test_a_schema_that_no_library_can_read_is_refused(client: Client, schema: Any, kind: str) -> None:
    assert client.refused(schema, kind)[0] == errors.INVALID_SCHEMA
    assert client.register(RECORD)["id"] == 1


@pytest.mark.parametrize("aliases", [[5, "x"], [[], "x"]])
def test_what_cannot_be_sorted_is_not_normalized(client: Client, aliases: Any) -> None:
    code, _ = client.refused("POST", "/subjects/a/versions?normalize=true", schema=json.dumps({**RECORD, "aliases": aliases}))
    assert code == errors.INVALID_SCHEMA


DIAMOND: Any = "TYPE"
for level in range(40):
    DIAMOND = {
        "type": "record",
        "name": f"L{level}",
        "fields": [{"name": "a", "type": DIAMOND}, {"name": "b", "type": f"L{level - 1}" if level else "int"}],
    }


def only_patterns(pattern: str, *names: str) -> dict[str, Any]:
    properties = dict.fromkeys(names, TEXT)
    return {"type": "object", "patternProperties": {pattern: TEXT}, "additionalProperties": False, "properties": properties}


INCOMPARABLE = [
    # Each level has the differences of the one below twice.
    (json.dumps(DIAMOND).replace("TYPE", "int"), json.dumps(DIAMOND).replace("TYPE", "string"), "AVRO"),
    (RECORD, {"type": "error", "name": "E", "fields": []}, "AVRO"),
    (only_patterns("^(a+)+$"), only_patterns("^(a+)+$", "a" * 60 + "!"), "JSON"),
    ({"anyOf": [{"const": each} for each in range(200)]}, {"anyOf": [{"const": -each} for each in range(1, 201)]}, "JSON"),
    ({"type": "number", "multipleOf": 1e308}, {"type": "number", "multipleOf": 1e-308}, "JSON"),
    ({"type": "number", "maximum": float("nan")}, {"type": "number", "maximum": 3}, "JSON"),
    (OBJECT, {"$schema": DRAFT_4, "$ref": 5}, "JSON"),
    (OBJECT, {"prefixItems": 5}, "JSON"),
    (OBJECT, {"$ref": "#/$schema", "$schema": DRAFT_4}, "JSON"),
    (OBJECT, {"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": "#", "minimum": 1}, "JSON"),
]


@pytest.mark.parametrize(("old", "new", "kind"), INCOMPARABLE)
def test_a_schema_that_cannot_be_compared_is_incompatible(client: Client, old: Any, new: Any, kind: str) -> None:
    client.register(old, kind)
    assert client.refused(new, kind)[0] == errors.CONFLICT
    assert client.register(old, kind)["version"] == 1


def test_fields_of_very_many_oneofs_are_written_once_each(client: Client) -> None:
    def fill(message: Any) -> None:
        for number in range(300):
            message.oneof_decl.add(name=f"o{number}")
            message.field.add(name=f"f{number}", number=number + 1, type=5, label=1, oneof_index=number)

    assert client.register(descriptor(fill), "PROTOBUF")["schema"].count("int32") == 300


def test_a_long_chain_of_references_is_refused(client: Client) -> None:
    client("POST", "/subjects/s0/versions", schema='"int"')
    for number in range(1, 102):
        references: Any = [{"name": "x", "subject": f"s{number - 1}", "version": 1}]
        references[0]["name"] = f"x{number}"
        call = "POST", f"/subjects/s{number}/versions"
        if number < 101:
            client(*call, schema='"int"', references=references)
    assert client.refused(*call, schema='"int"', references=references) == (
        errors.INVALID_SCHEMA,
        "the schema refers to others over more than 100 steps",
    )


WRONG_TEXTS: Any = (5, ["x"], {"a": 1})
SETTINGS: Any = [
    *(("alias", value) for value in WRONG_TEXTS),
    *(("compatibilityGroup", value) for value in WRONG_TEXTS),
    *((name, value) for name in ("defaultMetadata", "overrideMetadata") for value in ("x", [1], {"properties": 5})),
    *((name, value) for name in ("defaultRuleSet", "overrideRuleSet") for value in ("x", [1], 5)),
    ("normalize", "true"),
]


@pytest.mark.parametrize(("name", "value"), SETTINGS)
def test_a_setting_of_another_type_is_not_stored(client: Client, name: str, value: Any) -> None:
    assert client.refused("PUT", "/config/a", **{name: value})[0] == errors.UNPROCESSABLE
    assert client.topic.records == []


@pytest.mark.parametrize(("name", "value"), [*SETTINGS, ("compatibilityLevel", "SIDEWAYS")])
def test_a_setting_that_another_program_stored_does_no_harm(client: Client, name: str, value: Any) -> None:
    key = {"keytype": "CONFIG", "subject": "a", "magic": 0}
    client.topic.records.append((json.dumps(key).encode(), json.dumps({name: value}).encode()))
    client.register(RECORD)
    client.register({**RECORD, "doc": "x"})
    assert client("GET", "/subjects/a/versions") == [1, 2]


@pytest.mark.parametrize("metadata", [{"properties": 5}, {"properties": [1]}, {"properties": {"a": {}}}, []])
def test_metadata_are_texts_by_name(client: Client, metadata: Any) -> None:
    assert client.refused(RECORD, metadata=metadata)[0] == errors.UNPROCESSABLE


def test_half_a_surrogate_pair_is_no_json(client: Client) -> None:
    with pytest.raises(RegistryError) as caught:
        client.send("PUT", "/config/a", b'{"alias": "' + HALF.encode() + b'"}')
    assert caught.value.code == 400
    client.send("PUT", "/config/a", rb'{"alias": "\ud83d\ude00"}')


def test_a_record_whose_key_and_value_name_different_subjects_belongs_to_its_key(client: Client) -> None:
    key = {"keytype": "SCHEMA", "subject": "a", "version": 1, "magic": 1}
    value = {"subject": ":.x:b", "version": 7, "id": 1, "schema": '"int"'}
    client.topic.records += [(json.dumps(key).encode(), json.dumps(value).encode())] * 2
    assert client("GET", "/subjects/a/versions/1")["subject"] == "a"
    assert client("GET", "/subjects") == ["a"]
