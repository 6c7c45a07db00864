"""The primitive types of Kafka's protocol: annotations that mypy reads as Python types and the codec as wire formats."""

import base64
import re
import uuid
from typing import Annotated, NamedTuple

from twisted_kafka.protocol.regions import Buffer, Part
from twisted_kafka.system import machine


class Wire(NamedTuple):
    """The wire format of a primitive type.

    ``kind`` is "fixed", "string", "bytes" or "records"; ``code`` is the ``struct`` code of a fixed-width type and ``size`` its
    bytes. ``zero`` is Kafka's value of a field without a declared default.
    """

    kind: str
    code: str
    size: int
    zero: object


NO_UUID = bytes(16)
UUID_BYTES = 16
_UUID_TEXT_LENGTH = 22
_UUID_TEXT = re.compile(r"[A-Za-z0-9_-]{22}(==)?")

Bool = Annotated[bool, Wire("fixed", "?", 1, False)]
Int8 = Annotated[int, Wire("fixed", "b", 1, 0)]
Int16 = Annotated[int, Wire("fixed", "h", 2, 0)]
Int32 = Annotated[int, Wire("fixed", "i", 4, 0)]
Int64 = Annotated[int, Wire("fixed", "q", 8, 0)]
Uint16 = Annotated[int, Wire("fixed", "H", 2, 0)]
Uint32 = Annotated[int, Wire("fixed", "I", 4, 0)]
Float64 = Annotated[float, Wire("fixed", "d", 8, 0.0)]
Uuid = Annotated[bytes, Wire("fixed", "16s", UUID_BYTES, NO_UUID)]
String = Annotated[str, Wire("string", "", 0, "")]
Bytes = Annotated[bytes, Wire("bytes", "", 0, b"")]

# Record batches. Those received from a client are one buffer; those sent may be in several parts, some of them still in a file.
RecordBuffer = Annotated[Buffer, Wire("records", "", 0, None)]
Records = Annotated[Part | list[Part], Wire("records", "", 0, None)]


def uuid_text(value: bytes) -> str:
    """Return Kafka's text form of a UUID: base64 with the URL alphabet, no padding, 22 characters."""
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def uuid_from_text(text: str) -> bytes:
    """Return the 16 bytes of a UUID in Kafka's text form; raises ValueError when ``text`` is not one."""
    if not _UUID_TEXT.fullmatch(text):
        raise ValueError(f"{text!r} is not a UUID: it must be 22 characters of the URL-safe base64 alphabet")
    return base64.urlsafe_b64decode(text[:_UUID_TEXT_LENGTH] + "==")


def random_uuid() -> bytes:
    """Return a random UUID whose text form does not begin with a dash, so that a command line cannot take it for an option."""
    while True:
        value = uuid.UUID(bytes=machine.random_bytes(16), version=4).bytes
        if not uuid_text(value).startswith("-"):
            return value
