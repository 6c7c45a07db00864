import io
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import avro.io
import avro.schema
import pytest

from tests.support.console import make_topic, write
from twisted_kafka.console.cluster.record_forms import Written
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.queries.records import schemas
from twisted_kafka.console.queries.records.avro_values import MOST_VALUES, AvroError, AvroReader, as_json
from twisted_kafka.console.queries.records.messages import MessagesAsked, message, messages
from twisted_kafka.console.queries.records.schemas import Schemas, decoder_of
from twisted_kafka.timing.clock import ManualClock

CLOCK = ManualClock()
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "paid", "type": "boolean"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "others", "type": {"type": "array", "items": "Kind"}},
        {"name": "labels", "type": {"type": "map", "values": "double"}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "parent", "type": ["null", "shop.Order"]},
        {"name": "ratio", "type": "float"},
    ],
}
PROTO = """
syntax = "proto3";
package shop;
message Order { int64 id = 1; string note = 2; Customer customer = 3; message Item { string name = 1; } }
message Customer { string name = 1; }
"""


def order(number: int, parent: Any = None) -> dict[str, Any]:
    return {
        "id": number,
        "paid": True,
        "note": "Grüße",
        "price": b"\x00\xff",
        "kind": "B",
        "others": ["A", "B"],
        "labels": {"x": 0.5},
        "hash": b"\x01\x02",
        "at": 1_700_000_000_123,
        "parent": parent,
        "ratio": 1.5,
    }


def written(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    text = json.loads(json.dumps(schema).replace('"logicalType"', '"was"'))  # the library wants dates and decimals of Python
    avro.io.DatumWriter(avro.schema.parse(json.dumps(text))).write(value, avro.io.BinaryEncoder(out))
    return out.getvalue()


def test_avro_is_read_as_another_library_writes_it() -> None:
    found = as_json(AvroReader(ORDER).read(written(ORDER, order(-7, order(1 << 40)))))
    assert found == {
        **order(-7),
        "price": "2.55",
        "hash": "0102",
        "at": "2023-11-14T22:13:20.123+00:00",
        "parent": {**order(1 << 40), "price": "2.55", "hash": "0102", "at": "2023-11-14T22:13:20.123+00:00"},
    }
    assert Decimal(found["price"]) == Decimal("2.55")


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        ("long", b"\x80" * 11),
        ("bytes", b"\xfe\xff\xff\xff\x0f"),
        ("string", b"\x01"),
        ("int", b"\x02\x02"),
        (["null", "int"], b"\x06"),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, b"\x02"),
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\x00"),
        ({"type": "record", "name": "r", "fields": [{"name": "r", "type": "r"}]}, b""),
        ("nothing", b""),
        ({"type": "record", "name": "r", "fields": [{"name": "n", "type": ["null", "r"]}]}, b"\x02" * 500),
    ],
)
def test_hostile_data_ends(schema: Any, data: bytes) -> None:
    with pytest.raises(AvroError):
        AvroReader(schema).read(data)


def test_the_values_of_a_record_are_bounded() -> None:
    with pytest.raises(AvroError, match=f"more than {MOST_VALUES:,}"):
        AvroReader({"type": "array", "items": "null"}).read(b"\x80\x80\x80\x80\x10\x00")


@pytest.mark.medium
def test_values_of_a_registry(session: Session, name: Callable[[str], str]) -> None:
    make_topic(session, "_schemas")
    topic = make_topic(session, name("orders"))
    forms = [
        {"subject": "o", "version": 1, "id": 7, "schema": json.dumps(ORDER)},
        {"subject": "p", "version": 1, "id": 8, "schemaType": "PROTOBUF", "schema": PROTO},
        {"subject": "j", "version": 1, "id": 9, "schemaType": "JSON", "schema": "{}"},
        {
            "subject": "k",
            "version": 1,
            "id": 10,
            "schema": '"Money"',
            "references": [{"name": "Money", "subject": "m", "version": 1}],
        },
        {"subject": "m", "version": 1, "id": 11, "schema": '{"type":"enum","name":"Money","symbols":["EUR","USD"]}'},
    ]
    write(session, "_schemas", [Written(b"k", json.dumps(each).encode()) for each in forms] + [Written(b"k", b"not json")])
    customer = b"\x08\x05\x12\x02hi\x1a\x05\n\x03Eve"
    values = [
        b"\0\0\0\0\x07" + written(ORDER, order(5)),
        b"\0\0\0\0\x08\0" + customer,
        b"\0\0\0\0\x08\x04\0\0" + b"\n\x01x",  # the message Order.Item: path 0, 0
        b'\0\0\0\0\x09{"a":1}',
        b"\0\0\0\0\x0a\x02",
        b"\0\0\0\0\x63no such id",
        b"\0\0\0\0\x07broken",
    ]
    write(session, topic, [Written(None, each) for each in values])
    found = [each.value for each in messages(session, CLOCK, MessagesAsked(topic, start="earliest")).items]
    assert [each.form for each in found] == ["avro", "protobuf", "protobuf", "json", "avro", "hex", "hex"]
    assert json.loads(found[0].text)["note"] == "Grüße"
    assert json.loads(found[1].text) == {"id": "5", "note": "hi", "customer": {"name": "Eve"}}
    assert json.loads(found[2].text) == {"name": "x"}
    assert found[4].text == '"USD"'
    (one,) = messages(session, CLOCK, MessagesAsked(topic, where=("value.customer.name=Eve",))).items
    assert one.offset == 1
    assert message(session, topic, 0, 0).value.form == "avro"
    assert message(session, topic, 0, 0, "hex").value.form == "hex"


def test_a_schema_by_its_text(session: Session, name: Callable[[str], str]) -> None:
    topic = make_topic(session, name("raw"))
    write(session, topic, [Written(b"k", written(ORDER, order(3)))])
    (found,) = messages(session, CLOCK, MessagesAsked(topic, schema=json.dumps(ORDER), where=("value.id=3",))).items
    assert found.value.form == "avro"
    assert decoder_of(PROTO).decode(b"\x08\x05", is_registered=False) == ("protobuf", {"id": "5"})
    (other,) = messages(session, CLOCK, MessagesAsked(topic, schema='"long"')).items
    assert other.value.form == "hex"
    for text in ("{", "message", '{"type":"record","name":"r","fields":[{}]', 'syntax = "proto3";'):
        with pytest.raises(ValueError, match="the schema cannot be read"):
            messages(session, CLOCK, MessagesAsked(topic, schema=text))


def test_a_registry_is_not_needed(session: Session) -> None:
    broken = Schemas()
    for value in (None, b"[]", b'{"schema":1,"id":2}', b'{"schema":"x","id":3,"references":[1]}', b"{" * 100_000):
        broken.add(value)
    assert broken.decode(b"\0\0\0\0\x03x") is None


def test_a_decimal_number_of_a_million_bytes_stays_bytes() -> None:
    """As a number it would stop the whole process for minutes."""
    number = b"\x7f" * 1_000_000
    length = bytearray()
    left = len(number) << 1
    while left:
        length.append(left & 0x7F | (0x80 if left > 0x7F else 0))
        left >>= 7
    assert AvroReader({"type": "bytes", "logicalType": "decimal"}).read(bytes(length) + number) == number


def test_each_reference_is_followed_once() -> None:
    registry = Schemas()
    for version in (1, 2):
        references = [{"name": f"n{version}", "subject": "s", "version": each} for each in (1, 2)] * 10
        value = {"id": version, "subject": "s", "version": version, "schema": '"string"', "references": references}
        registry.add(json.dumps(value).encode())
    assert registry.decode(b"\0\0\0\0\x01\x02a") == ("avro", "a")


def test_a_broker_that_answers_without_records_is_not_asked_for_ever(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    class Silent:
        positions = (1,)

        def __init__(self, *arguments: object) -> None: ...

        def fetch(self) -> list[object]:
            asked.append(self)
            return []

    monkeypatch.setattr(schemas, "offsets_at", lambda *arguments: {})
    monkeypatch.setattr(schemas, "Reader", Silent)
    assert Schemas.of(session).decode(b"\0\0\0\0\x01\x02a") is None
    assert len(asked) == schemas.MOST_FETCHES


def test_a_schema_that_cannot_be_read_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[object] = []

    def failing(*arguments: object) -> AvroReader:
        tried.append(arguments)
        raise ValueError("no schema")

    registry = Schemas()
    registry.add(json.dumps({"id": 1, "subject": "s", "version": 1, "schema": '"string"'}).encode())
    monkeypatch.setattr(schemas, "AvroReader", failing)
    for _ in range(3):
        assert registry.decode(b"\0\0\0\0\x01\x02a") is None
    assert len(tried) == 1


def test_deletions_count_among_the_bytes_of_schemas(
    session: Session, name: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic(session, name("schemas"))
    last = {"subject": "o", "version": 1, "id": 7, "schema": '"string"'}
    write(session, topic, [Written(b"k" * 100, None) for _ in range(50)] + [Written(b"k", json.dumps(last).encode())])
    monkeypatch.setattr(schemas, "TOPIC", topic)
    assert Schemas.of(session).decode(b"\0\0\0\0\x07\x02a") == ("avro", "a")
    monkeypatch.setattr(schemas, "MOST_BYTES", 8_000)
    assert Schemas.of(session).decode(b"\0\0\0\0\x07\x02a") is None
