"""Every golden vector of Apache Kafka decodes to its fields and encodes to its bytes."""

from typing import Any

import pytest

from tests.protocol import vectors
from tests.support.budget import STRIDE
from twisted_kafka.protocol.api import ApiKey, message_names, request_class, response_class
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.compiler.wire import join
from twisted_kafka.protocol.json_form import from_json, json_name, to_json


def unknown_tags(struct: Any, path: str = "") -> dict[str, dict[int, bytes]]:
    """Return the unknown tagged fields of all structs by path."""
    found: dict[str, dict[int, bytes]] = {}
    if struct.unknown_tagged_fields:
        found[path] = struct.unknown_tagged_fields
    for each in type(struct).FIELDS:
        value = getattr(struct, each.name)
        name = f"{path}.{json_name(each.name)}".lstrip(".")
        if isinstance(value, list):
            for index, item in enumerate(value):
                if hasattr(item, "unknown_tagged_fields"):
                    found |= unknown_tags(item, f"{name}[{index}]")
        elif hasattr(value, "unknown_tagged_fields"):
            found |= unknown_tags(value, name)
    return found


def without_nothing(paths: dict[str, dict[int, bytes]]) -> list[dict[int, bytes]]:
    return sorted(paths.values(), key=repr)


def without_records(form: Any) -> Any:
    """Return the form with empty records: Kafka's converter does not print their contents."""
    if isinstance(form, dict):
        return {
            key: "" if key in ("records", "unalignedRecords") and value is not None else without_records(value)
            for key, value in form.items()
        }
    return [without_records(item) for item in form] if isinstance(form, list) else form


def check(vector: dict[str, Any], *, from_any_buffer: bool) -> None:
    cls, version, form = vectors.resolve(vector)
    wire = bytes.fromhex(vector["hex"])
    expected: dict[str, dict[int, bytes]] = {}
    for tag in vector.get("unknownTags", ()):
        expected.setdefault(tag["path"], {})[tag["tag"]] = bytes.fromhex(tag["hex"])
    message = cls.decode(wire, version)
    assert without_records(to_json(message, version)) == form
    assert join(message.encode_parts(version)) == wire
    assert without_nothing(unknown_tags(message)) == without_nothing(expected)
    buffers = (wire, bytearray(wire), memoryview(wire), b"???" + wire, memoryview(b"???" + wire))
    for data in buffers if from_any_buffer else buffers[-1:]:
        again, end = cls.decode_prefix(data, version, len(data) - len(wire))
        assert end == len(data)
        assert again == message
        assert again.encode(version) == wire
    if not expected:
        made = from_json(cls, to_json(message, version), version)
        assert made == message
        assert made.encode(version) == wire


@pytest.mark.medium
def test_every_vector() -> None:
    failures = []
    for number, vector in enumerate(vectors.load()):
        try:
            check(vector, from_any_buffer=not number % STRIDE)
        except Exception as error:  # noqa: BLE001 - one bad vector must not hide the others
            failures.append(f"{vector['message']} v{vector['version']}: {type(error).__name__} {str(error)[:300]}")
    assert not failures, f"{len(failures)} vectors fail:\n" + "\n".join(failures[:20])


def test_vectors_cover_every_version_of_every_message() -> None:
    seen: dict[type[Message], set[int]] = {}
    for vector in vectors.load():
        cls, version, _ = vectors.resolve(vector)
        seen.setdefault(cls, set()).add(version)
    missing = [
        f"{cls.__name__} {set(range(cls.VERSIONS[0], cls.VERSIONS[1] + 1)) - got}"
        for cls, got in seen.items()
        if got != set(range(cls.VERSIONS[0], cls.VERSIONS[1] + 1))
    ]
    assert not missing
    assert {cls.__name__ for cls in seen} == set(message_names())


def test_keys_find_their_messages() -> None:
    for key in ApiKey:
        assert request_class(key).KEY == response_class(key).KEY == key
