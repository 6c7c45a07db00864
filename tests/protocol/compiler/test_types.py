"""UUIDs and declarations."""

import subprocess
import sys
from typing import Any

import pytest

from twisted_kafka.protocol.compiler.message import Message, field
from twisted_kafka.protocol.compiler.types import NO_UUID, Int32, random_uuid, uuid_from_text, uuid_text


def test_uuid_text() -> None:
    assert uuid_text(NO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    for _ in range(200):
        value = random_uuid()
        assert uuid_from_text(uuid_text(value)) == value
        assert len(uuid_text(value)) == 22
        assert not uuid_text(value).startswith("-")


@pytest.mark.parametrize("text", ["", "abc", "AAAAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAA+/", "ä" * 22])
def test_invalid_uuid_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a UUID"):
        uuid_from_text(text)


make: Any = type(Message)


def test_invalid_declarations_are_refused() -> None:
    with pytest.raises(TypeError, match="has no default"):
        make("Bad", (Message,), {"__annotations__": {"x": Int32}})
    with pytest.raises(TypeError, match="not a protocol type"):
        make("Bad", (Message,), {"__annotations__": {"x": complex}, "x": 0})
    with pytest.raises(TypeError, match="arrays of arrays"):
        make("Bad", (Message,), {"__annotations__": {"x": list[list[Int32]]}, "x": field(factory=list)})


@pytest.mark.medium
def test_importing_the_api_imports_no_messages() -> None:
    program = "import sys, twisted_kafka.protocol.api; print([m for m in sys.modules if '.messages.' in m])"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
