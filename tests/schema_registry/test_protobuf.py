"""Protobuf schemas: texts and descriptors, what is rejected, and what breaks readers."""

import base64
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from twisted_kafka.schema_registry.formats.parsed import SERIALIZED, SchemaError
from twisted_kafka.schema_registry.formats.protobuf import ProtobufSchema

LINE = 'syntax = "proto3"; package other; message Line { string sku = 1; }'
ORDER = """// An order.
syntax = "proto3";
package shop.v1;
import "google/protobuf/timestamp.proto";
import "line.proto";
option java_package = "com.shop";
message Order {
  option deprecated = true;
  reserved 8, 10 to 12, 100 to max;
  reserved "old";
  string id = 1 [json_name = "ID"];
  optional int32 count = 2;
  repeated Price prices = 3;
  map<string, Kind> kinds = 4;
  google.protobuf.Timestamp at = 5;
  other.Line line = 9 [deprecated = true];
  oneof payment { Cash cash = 6; string card = 7; }
  message Cash { bool exact = 1; Order order = 2; }
  enum Kind { NONE = 0; SOME = 1; }
}
message Price { int64 cents = 1 [packed = false]; }
service Shop { rpc Buy (Order) returns (stream Price); }
"""


def proto(body: Any, head: Any = 'syntax = "proto3";') -> Any:
    return ProtobufSchema(f"{head}\n{body}", {})


def message(fields: Any, more: Any = "", head: Any = 'syntax = "proto3";') -> Any:
    return proto(f"message M {{ {fields} }} {more}", head)


def kinds(found: Any) -> Any:
    return [line.split('"')[1] for line in found]


def test_a_text_and_its_descriptor_are_the_same_schema() -> None:
    text = ProtobufSchema(ORDER, {"line.proto": LINE})
    serialized = text.formatted(SERIALIZED)
    assert ProtobufSchema(serialized, {"line.proto": LINE}).text == text.text
    assert ProtobufSchema(text.text, {"line.proto": LINE}).text == text.text
    described = FileDescriptorProto.FromString(base64.b64decode(serialized))
    order = described.message_type[0]
    assert [field.name for field in order.field] == ["id", "count", "prices", "kinds", "at", "line", "cash", "card"]
    assert order.field[1].proto3_optional
    assert order.field[6].type_name == ".shop.v1.Order.Cash"
    assert order.nested_type[0].options.map_entry


def test_the_text_is_without_comments_and_with_short_names() -> None:
    text = ProtobufSchema(ORDER, {"line.proto": LINE}).text
    assert text.startswith('syntax = "proto3";\npackage shop.v1;\n\nimport "google/protobuf/timestamp.proto";\n')
    for line in ("  repeated Price prices = 3;", "  map<string, Kind> kinds = 4;", "  other.Line line = 9 [deprecated = true];"):
        assert f"{line}\n" in text
    assert "//" not in text


def test_proto2_with_groups_and_extensions_keeps_its_form() -> None:
    fields = 'required string a = 1 [default = "q\\"x"]; optional group G = 2 { optional int32 z = 1; } extensions 100 to 199;'
    schema = message(fields, "extend M { optional int32 ext = 100; }", 'syntax = "proto2";')
    assert 'required string a = 1 [default = "q\\"x"];' in schema.text
    assert ProtobufSchema(schema.text, {}).text == ProtobufSchema(schema.formatted(SERIALIZED), {}).text == schema.text


def test_options_of_other_files_stay_in_the_text() -> None:
    schema = proto('import "confluent/meta.proto"; message M { string a = 1 [(confluent.field_meta) = { tags: ["PII"] }]; }')
    assert '[(confluent.field_meta) = {tags: ["PII"]}]' in schema.text
    assert ProtobufSchema(schema.text, {}).text == schema.text
    assert ProtobufSchema(schema.formatted(SERIALIZED), {}).text


def test_normalizing_sorts_fields_and_imports() -> None:
    one, other = message("string a = 1; int32 b = 2;"), message("int32 b = 2; string a = 1;")
    assert one.text != other.text
    assert one.normalized().text == other.normalized().text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("message {", "Syntax error at 1:9"),
        ("not a schema", "Syntax error at 1:1"),
        ('syntax = "proto3"; message A { strin a = 1; }', '"strin" is not defined in "A"'),
        ('syntax = "proto3"; message A { string a = 1; string b = 1; }', "number"),
        ('syntax = "proto3"; message A { string a = 0; }', "number"),
        ('syntax = "proto3"; message A { string a = 99999999999; }', "out of range"),
        ('syntax = "proto3"; message A { string a = 1 [packed = maybe]; }', "option packed"),
        ('syntax = "proto3"; import "x.proto";', 'Import "x.proto" was not found'),
        ('syntax = "proto3"; enum E { A = 1; }', "expects 0"),
        ('edition = "2023"; message A {}', "edition 2023 is not supported"),
        ('syntax = "proto4"; message A {}', "proto4"),
        (base64.b64encode(FileDescriptorProto(name="a", dependency=["x.proto"]).SerializeToString()).decode(), "x.proto"),
    ],
)
def test_what_is_no_schema_is_rejected_in_one_line(text: str, why: str) -> None:
    with pytest.raises(SchemaError, match=why) as caught:
        ProtobufSchema(text, {})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (message("string a = 1;"), message("string a = 1; int32 b = 2;"), []),
        (message("string a = 1; int32 b = 2;"), message("string a = 1;"), []),
        (message("string a = 1;"), message("string renamed = 1;"), []),
        (message("string a = 1;"), message("bytes a = 1;"), []),
        (message("string a = 1;"), message("repeated string a = 1;"), []),
        (message("int32 a = 1;"), message("int64 a = 1;"), []),
        (message("int32 a = 1;"), message("sint32 a = 1;"), ["FIELD_SCALAR_KIND_CHANGED"]),
        (message("int32 a = 1;"), message("string a = 1;"), ["FIELD_SCALAR_KIND_CHANGED"]),
        (message("optional int32 a = 1;"), message("repeated int32 a = 1;"), ["FIELD_NUMERIC_LABEL_CHANGED"]),
        (message("E a = 1;", "enum E { X = 0; }"), message("int32 a = 1;"), []),
        (message("string a = 1;"), message("N a = 1;", "message N {}"), ["FIELD_KIND_CHANGED"]),
        (
            message("N a = 1;", "message N {} message O {}"),
            message("O a = 1;", "message N {} message O {}"),
            ["FIELD_NAMED_TYPE_CHANGED"],
        ),
        (message("map<string, int32> a = 1;"), message("map<string, string> a = 1;"), ["FIELD_SCALAR_KIND_CHANGED"]),
        (message("map<string, int32> a = 1;"), message("map<string, int64> a = 1;"), []),
        (message("", "message N {}"), message(""), ["MESSAGE_REMOVED"]),
        (message("", "enum E { X = 0; }"), message(""), []),
        (
            message("string a = 1; string b = 2;"),
            message("oneof o { string a = 1; string b = 2; }"),
            ["MULTIPLE_FIELDS_MOVED_TO_ONEOF"],
        ),
        (message("string a = 1;"), message("oneof o { string a = 1; string b = 2; }"), []),
        (message("oneof o { string a = 1; string b = 2; }"), message("oneof o { string a = 1; }"), ["ONEOF_FIELD_REMOVED"]),
        (message("oneof o { string a = 1; }"), message("string a = 1;"), []),
        (proto("package a;"), proto("package b;"), ["PACKAGE_CHANGED"]),
        (
            message("required int32 a = 1;", head='syntax = "proto2";'),
            message("", head='syntax = "proto2";'),
            ["REQUIRED_FIELD_REMOVED"],
        ),
        (message("M a = 1;"), message("M a = 1; int32 b = 2;"), []),
    ],
)
def test_what_breaks_readers(old: Any, new: Any, expected: list[str]) -> None:
    assert kinds(new.cannot_read(old)) == expected


def test_messages_of_imported_files_are_compared() -> None:
    text = 'syntax = "proto3"; package shop; import "line.proto"; message M { other.Line line = 1; }'
    old = ProtobufSchema(text, {"line.proto": LINE})
    new = ProtobufSchema(text, {"line.proto": LINE.replace("string", "int32")})
    assert kinds(new.cannot_read(old)) == ["FIELD_SCALAR_KIND_CHANGED", "FIELD_NAMED_TYPE_CHANGED"]
    assert new.cannot_read(new) == []
