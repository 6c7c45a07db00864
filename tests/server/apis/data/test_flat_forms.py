"""The flat forms of requests and responses say what their messages say, in every version that is handled with them."""

import itertools
from collections.abc import Iterator
from typing import Any

from tests.support.cases import case
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.compiler.flat import FlatForm
from twisted_kafka.protocol.compiler.schema import Field, ListOf, Struct, StructType
from twisted_kafka.protocol.compiler.types import Wire
from twisted_kafka.protocol.messages.fetch import FetchRequest
from twisted_kafka.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from twisted_kafka.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from twisted_kafka.server.apis.data.flat_forms import AppendedResponse, FoundResponse, OneBatch, OneFetch, OneQuestion

FORMS: list[tuple[type[FlatForm], range]] = [(OneBatch, range(3, 14)), (OneFetch, range(4, 19)), (OneQuestion, range(1, 12))]
HEAD = b"head"
ID = b"i" * 16


def fields_at(struct: StructType, version: int) -> Iterator[Field]:
    return (each for each in struct.FIELDS if each.at(version))


def element_of(each: Field) -> StructType | None:
    kind = each.type
    return kind.element if isinstance(kind, ListOf) and isinstance(kind.element, StructType) else None


def other_value(each: Field) -> Any:
    """Return a value that is not the field's default."""
    kind = each.type
    if isinstance(kind, ListOf):
        return [kind.element() if isinstance(kind.element, StructType) else 1]
    if isinstance(kind, StructType):
        return kind(**{inner.name: other_value(inner) for inner in kind.FIELDS[:1]})
    assert isinstance(kind, Wire)
    if kind.kind == "fixed":
        return b"u" * 16 if kind.code == "16s" else (each.default or 0) ^ (1 + len(each.name) % 100)
    return "größe" if kind.kind == "string" else b"r" * 200


ONE_OF_EACH = {"topic_data", "partition_data", "topics", "partitions"}
"""The arrays on the way to a partition."""


def filled(struct: StructType, version: int, form: type[FlatForm]) -> Any:
    """Return a message of the form, with a value of its own in each field that the form names."""
    made = struct()
    for each in fields_at(struct, version):
        inner = element_of(each)
        if inner is not None and each.name in ONE_OF_EACH:
            setattr(made, each.name, [filled(inner, version, form)])
        elif form.FIELDS.get(each.name) is each:
            setattr(made, each.name, other_value(each))
    return made


def structs(struct: Struct) -> Iterator[Struct]:
    yield struct
    for each in type(struct).FIELDS:
        value = getattr(struct, each.name)
        for inner in value if isinstance(value, list) else []:
            if isinstance(inner, Struct):
                yield from structs(inner)


def values_of(message: Message, form: type[FlatForm]) -> dict[str, Any]:
    """Return the message's values of the form's fields; the count of an array that is a field of it."""
    found: dict[str, Any] = {}
    for struct in structs(message):
        for each in type(struct).FIELDS:
            if form.FIELDS.get(each.name) is each:
                value = getattr(struct, each.name)
                found[each.name] = len(value) if isinstance(value, list) else value
    return found


def read_values(one: FlatForm | None, form: type[FlatForm]) -> dict[str, Any]:
    assert one is not None
    return {name: getattr(one, name) for name in form.FIELDS}


def test_a_form_has_the_values_of_its_message() -> None:
    for form, versions in FORMS:
        for version, kind in itertools.product(versions, [bytes, bytearray, memoryview]):
            with case(form=form.__name__, version=version, kind=kind):
                frame = kind(HEAD + filled(form.MESSAGE, version, form).encode(version))
                message = form.MESSAGE.decode(frame, version, len(HEAD))
                read = read_values(form.read(frame, version, len(HEAD)), form)
                assert read == values_of(message, form)


def test_long_names_and_records_of_each_length_are_read() -> None:
    for version, name, size in itertools.product(
        range(3, 13), ["", "n" * 126, "n" * 127, "n" * 249], [0, 1, 126, 127, 128, 20_000]
    ):
        with case(version=version, name=len(name), size=size):
            topic = TopicProduceData(name=name, partition_data=[PartitionProduceData(index=7, records=b"x" * size)])
            frame = HEAD + ProduceRequest(acks=1, timeout_ms=1234, topic_data=[topic]).encode(version)
            one = OneBatch.read(frame, version, len(HEAD))
            assert one is not None
            assert (one.name, bytes(one.records)) == (name, b"x" * size)


def test_the_records_are_a_part_of_the_frame() -> None:
    for version in range(3, 14):
        with case(version=version):
            frame = bytearray(HEAD + filled(ProduceRequest, version, OneBatch).encode(version))
            one = OneBatch.read(frame, version, len(HEAD))
            assert one is not None
            one.records[0] = ord("!")
            assert ProduceRequest.decode(frame, version, 4).topic_data[0].partition_data[0].records[:2] == b"!r"


def test_a_fetch_may_name_no_partition() -> None:
    for version in range(4, 19):
        with case(version=version):
            message = FetchRequest(max_wait_ms=500, session_id=77 if version >= 7 else 0)
            one = OneFetch.read(HEAD + message.encode(version), version, len(HEAD))
            assert one is not None
            assert (one.topics, one.max_wait_ms, one.session_id) == (0, 500, message.session_id)
            assert (one.topic, one.fetch_offset, one.current_leader_epoch) == ("", 0, -1)


def others_of(form: type[FlatForm], version: int) -> Iterator[tuple[str, Any]]:
    """Yield messages that are not of the form, each for one reason."""
    count = len(list(structs(filled(form.MESSAGE, version, form))))
    for index in range(count):
        struct_of = type(list(structs(filled(form.MESSAGE, version, form)))[index])
        for each in fields_at(struct_of, version):
            message = filled(form.MESSAGE, version, form)
            struct = list(structs(message))[index]
            value = getattr(struct, each.name)
            if isinstance(value, list) and value:
                setattr(struct, each.name, value * 2)
                yield f"two {each.name}", message
                if each.name not in form.FIELDS:
                    message = filled(form.MESSAGE, version, form)
                    setattr(list(structs(message))[index], each.name, [])
                    yield f"no {each.name}", message
            elif form.FIELDS.get(each.name) is not each:
                setattr(struct, each.name, other_value(each))
                yield f"a {each.name}", message
            elif each.nullable_at(version):
                setattr(struct, each.name, None)
                yield f"null {each.name}", message
        if version >= form.MESSAGE.FLEXIBLE:
            message = filled(form.MESSAGE, version, form)
            list(structs(message))[index].unknown_tagged_fields = {99: b"x"}
            yield "tagged fields", message


def test_other_messages_are_not_of_the_form() -> None:
    for form, versions in FORMS:
        seen = 0
        for version in versions:
            for reason, message in others_of(form, version):
                with case(form=form.__name__, version=version, reason=reason):
                    assert form.read(HEAD + message.encode(version), version, len(HEAD)) is None
                    seen += 1
        assert seen > 2 * len(versions)


def test_malformed_messages_are_not_of_the_form() -> None:
    for form, versions in FORMS:
        for version in versions:
            with case(form=form.__name__, version=version):
                frame = HEAD + filled(form.MESSAGE, version, form).encode(version)
                assert [form.read(frame[:end], version, len(HEAD)) for end in range(len(frame))] == [None] * len(frame)
                assert form.read(frame + b"\0", version, len(HEAD)) is None
                broken = frame.replace("ö".encode(), b"\xff\xff")
                assert broken == frame or form.read(broken, version, len(HEAD)) is None


def test_an_append_is_answered_as_the_message_would() -> None:
    for version, name in itertools.product(range(3, 14), ["größe", "n" * 249]):
        with case(version=version, name=name):
            start = 17 if version >= 5 else -1
            partition = PartitionProduceResponse(index=3, base_offset=1 << 40, log_append_time_ms=99, log_start_offset=start)
            message = ProduceResponse(responses=[TopicProduceResponse(name=name, topic_id=ID, partition_responses=[partition])])
            response = AppendedResponse(name, 3, 1 << 40, 99, 17, ID)
            assert response.encode_parts(version, HEAD) == message.encode_parts(version, HEAD)
            message.throttle_time_ms = 1 << 30
            assert response.throttled(1 << 30).encode_parts(version, HEAD) == message.encode_parts(version, HEAD)


def test_an_offset_is_answered_as_the_message_would() -> None:
    for version, name in itertools.product(range(1, 12), ["größe", "n" * 249]):
        with case(version=version, name=name):
            epoch = 5 if version >= 4 else -1
            partition = ListOffsetsPartitionResponse(partition_index=3, timestamp=99, offset=1 << 40, leader_epoch=epoch)
            message = ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=name, partitions=[partition])])
            response = FoundResponse(name, 3, 99, 1 << 40, 5)
            assert response.encode_parts(version, HEAD) == message.encode_parts(version, HEAD)
            message.throttle_time_ms = 1 << 30 if version >= 2 else 0
            assert response.throttled(1 << 30).encode_parts(version, HEAD) == message.encode_parts(version, HEAD)
