"""The runtime of the generated codecs, for parts that they do not inline: long varints, tags, arrays of numbers, file regions."""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from struct import Struct as Packer
from typing import Any

from twisted_kafka.protocol.compiler.types import UUID_BYTES
from twisted_kafka.protocol.regions import Buffer, FileRegion, Part

MAX_VARINT_BYTES = 5
MAX_STRING_BYTES = 0x7FFF
# Buffers of this size and above stay separate parts: sendmsg gathers them, which costs less than copying.
SEPARATE_PART_BYTES = 8192
CACHED_ARRAY_LENGTHS = 64

NO_LIMIT = 1 << 62
"""More elements than a message can have."""

NUMBERS_PER_ELEMENT_SHIFT = 3
"""Of an array of numbers, eight count as one element: they are not objects of a class."""

ELEMENT_BYTES_SHIFT = 8
"""Of a string or bytes, which are copied, 256 bytes count as one element."""


@cache
def packer(layout: str) -> Packer:
    """Return the packer for a run of big-endian ``struct`` codes."""
    return Packer(">" + layout)


BYTE = [bytes((i,)) for i in range(128)]


class MalformedMessageError(ValueError):
    """The bytes are not a message of the given type and version; decoding raises no other error."""


class TooManyElementsError(MalformedMessageError):
    """The message has more elements, in all of its arrays, than the caller takes."""


class EncodeError(ValueError):
    """A value cannot be encoded: null where null is not allowed, a number out of range, a string too long."""


def unsigned_varint(data: Buffer, position: int) -> tuple[int, int]:
    """Decode an unsigned varint of at most 5 bytes; return it and the position after it."""
    value = shift = 0
    for index in range(position, position + MAX_VARINT_BYTES):
        byte = data[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, index + 1
        shift += 7
    raise MalformedMessageError(f"the varint at byte {position} is longer than {MAX_VARINT_BYTES} bytes")


def varint_bytes(value: int) -> bytes:
    """Encode a non-negative number as an unsigned varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_tags(
    data: Buffer, position: int, end: int, count: int, known: Callable[[int, int, int], int] | None
) -> tuple[dict[int, bytes] | None, int]:
    """Decode ``count`` tagged fields; return the unknown ones and the position after all of them.

    ``known(tag, position, stop)`` decodes a field of the struct and returns its end, or -1 for an unknown tag.
    """
    unknown: dict[int, bytes] | None = None
    last = -1
    for _ in range(count):
        tag, position = unsigned_varint(data, position)
        size, position = unsigned_varint(data, position)
        stop = position + size
        if tag <= last:
            raise MalformedMessageError(f"tag {tag} at byte {position} follows tag {last}: tags must be in ascending order")
        if stop > end:
            raise MalformedMessageError(f"tag {tag} at byte {position} has {size} bytes, but only {end - position} remain")
        last = tag
        ended = known(tag, position, stop) if known else -1
        if ended < 0:
            if unknown is None:
                unknown = {}
            unknown[tag] = bytes(data[position:stop])
        elif ended != stop:
            raise MalformedMessageError(f"tag {tag} at byte {position} has {size} bytes, but its value has {ended - position}")
        position = stop
    return unknown, position


def tag_section(known: dict[int, bytes], unknown: dict[int, bytes] | None) -> bytes:
    """Encode the tagged fields of a struct: their count, then the fields in the order of their tags."""
    if unknown:
        both = known.keys() & unknown.keys()
        if both:
            raise EncodeError(f"the unknown tagged fields {sorted(both)} have tags of known fields")
        known = known | unknown
    out = [varint_bytes(len(known))]
    for tag in sorted(known):
        value = known[tag]
        out += (varint_bytes(tag), varint_bytes(len(value)), value)
    return b"".join(out)


class ArrayCodec:
    """Decodes and encodes arrays of one fixed-width number type."""

    __slots__ = ("_code", "_packers")

    def __init__(self, code: str) -> None:
        self._code = code
        self._packers = [Packer(f">{n}{code}") for n in range(CACHED_ARRAY_LENGTHS)]

    def read(self, data: Buffer, position: int, count: int) -> list[Any]:
        """Decode ``count`` numbers; the caller has checked that the bytes suffice."""
        if count < CACHED_ARRAY_LENGTHS:
            return list(self._packers[count].unpack_from(data, position))
        return list(Packer(f">{count}{self._code}").unpack_from(data, position))

    def pack(self, values: Sequence[Any]) -> bytes:
        """Encode the numbers without their count."""
        count = len(values)
        if count < CACHED_ARRAY_LENGTHS:
            return self._packers[count].pack(*values)
        return Packer(f">{count}{self._code}").pack(*values)


def join_uuids(values: Sequence[bytes]) -> bytes:
    """Encode UUIDs without their count; raises EncodeError when one does not have 16 bytes."""
    joined = b"".join(values)
    if len(joined) != len(values) * UUID_BYTES or any(len(value) != UUID_BYTES for value in values):
        raise EncodeError(f"one of {len(values)} UUIDs does not have {UUID_BYTES} bytes")
    return joined


def records_size(records: list[Part]) -> int:
    """Return the total size in bytes of records in several parts."""
    return sum(len(part) for part in records)


def join(parts: Iterable[Part]) -> bytes:
    """Return all parts as one byte string; file regions are read."""
    return b"".join(part.read() if type(part) is FileRegion else part for part in parts)  # type: ignore[misc]


def coalesce(out: list[Part]) -> list[Part]:
    """Join adjacent small buffers; keep file regions and large buffers as they are, drop empty ones."""
    parts: list[Part] = []
    first = 0
    for at, part in enumerate(out):
        size = part.size_bytes if type(part) is FileRegion else len(part)
        if size < SEPARATE_PART_BYTES and type(part) is not FileRegion:
            continue
        if first < at:
            parts.append(b"".join(out[first:at]))  # type: ignore[arg-type]
        if size:
            parts.append(part)
        first = at + 1
    if first < len(out):
        parts.append(b"".join(out[first:]))  # type: ignore[arg-type]
    return parts
