"""As much of DER as distinguished names and Java key stores need."""

from collections.abc import Iterator
from typing import Final

SEQUENCE: Final = 0x30
SET: Final = 0x31
OBJECT_IDENTIFIER: Final = 0x06
OCTET_STRING: Final = 0x04


class DerError(ValueError):
    """Invalid or unexpected DER."""


def element(data: bytes, position: int = 0) -> tuple[int, bytes, int]:
    """Return tag and contents of the element at ``position``, and the position after it; raises DerError."""
    try:
        tag, length = data[position], data[position + 1]
        start = position + 2
        if length & 0x80:
            size = length & 0x7F
            if not 1 <= size <= 4:
                raise DerError("an invalid length")
            length = int.from_bytes(data[start : start + size], "big")
            start += size
    except IndexError:
        raise DerError("a truncated element") from None
    if start + length > len(data):
        raise DerError("a truncated element")
    return tag, data[start : start + length], start + length


def expect(data: bytes, tag: int, position: int = 0) -> tuple[bytes, int]:
    """Return the contents of the element at ``position``, which must have this tag, and the position after it; raises DerError."""
    found, contents, end = element(data, position)
    if found != tag:
        raise DerError(f"an element with tag {found:#x} instead of {tag:#x}")
    return contents, end


def elements(contents: bytes, tag: int) -> Iterator[bytes]:
    """Yield the contents of each element in ``contents``. All must have this tag; raises DerError."""
    position = 0
    while position < len(contents):
        item, position = expect(contents, tag, position)
        yield item


def encoded(tag: int, contents: bytes) -> bytes:
    """Return an element."""
    size = len(contents)
    if size < 0x80:
        return bytes((tag, size)) + contents
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + contents


def dotted(identifier: bytes) -> str:
    """Return an object identifier in dotted notation."""
    numbers: list[int] = []
    value = 0
    for byte in identifier:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    if not numbers:
        raise DerError("an empty object identifier")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
