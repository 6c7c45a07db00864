"""What generated codecs call when the fast path written into them does not do: long varints, tags, arrays of numbers, regions."""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from struct import Struct as Packer
from typing import Any

from twisted_kafka.protocol.regions import Buffer, FileRegion, Part
from twisted_kafka.protocol.types import UUID_BYTES

MAX_VARINT_BYTES = 5
MAX_STRING_BYTES = 0x7FFF
LONGEST_COMPACT_TEXT = 126
"""The length of a longer compact string takes two bytes; so its readers for one byte leave it to the codecs."""
# Buffers from here on stay parts of their own: sendmsg gathers them, which costs less than copying.
SEPARATE_PART_BYTES = 8192
CACHED_ARRAY_LENGTHS = 64


@cache
def packer(layout: str) -> Packer:
    """Return the packer for a run of big-endian ``struct`` codes."""
    return Packer(">" + layout)


BYTE = [bytes((i,)) for i in range(128)]


class MalformedMessageError(ValueError):
    """The bytes are not a message of the given kind and version: the one error of decoding."""


class EncodeError(ValueError):
    """The values cannot be written: null where null is not allowed, a number out of range, a string too long."""


def unsigned_varint(data: Buffer, position: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 5 bytes; return it and the position after it."""
    value = shift = 0
    for index in range(position, position + MAX_VARINT_BYTES):
        byte = data[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, index + 1
        shift += 7
    raise MalformedMessageError(f"the varint at byte {position} is longer than {MAX_VARINT_BYTES} bytes")


def varint_bytes(value: int) -> bytes:
    """Return the unsigned varint of a number that is not negative."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_tags(
    data: Buffer, position: int, end: int, count: int, known: Callable[[int, int, int], int] | None
) -> tuple[dict[int, bytes] | None, int]:
    """Read ``count`` tagged fields; return the unknown ones and the position after all.

    ``known(tag, position, stop)`` decodes a field that the struct has and returns where it ended, or -1 when it has not got it.
    """
    unknown: dict[int, bytes] | None = None
    last = -1
    for _ in range(count):
        tag, position = unsigned_varint(data, position)
        size, position = unsigned_varint(data, position)
        stop = position + size
        if tag <= last:
            raise MalformedMessageError(f"tag {tag} at byte {position} comes after tag {last}")
        if stop > end:
            raise MalformedMessageError(f"tag {tag} at byte {position} has {size} bytes, but {end - position} are left")
        last = tag
        ended = known(tag, position, stop) if known else -1
        if ended < 0:
            if unknown is None:
                unknown = {}
            unknown[tag] = bytes(data[position:stop])
        elif ended != stop:
            raise MalformedMessageError(f"tag {tag} at byte {position} has {size} bytes, but its value {ended - position}")
        position = stop
    return unknown, position


def tag_section(known: dict[int, bytes], unknown: dict[int, bytes] | None) -> bytes:
    """Return the tagged fields of a struct, their count in front, in the order of their tags."""
    if unknown:
        both = known.keys() & unknown.keys()
        if both:
            raise EncodeError(f"the unknown tags {sorted(both)} are known ones")
        known = known | unknown
    out = [varint_bytes(len(known))]
    for tag in sorted(known):
        value = known[tag]
        out += (varint_bytes(tag), varint_bytes(len(value)), value)
    return b"".join(out)


class ArrayCodec:
    """Arrays of one fixed-width number."""

    __slots__ = ("_code", "_packers")

    def __init__(self, code: str) -> None:
        self._code = code
        self._packers = [Packer(f">{n}{code}") for n in range(CACHED_ARRAY_LENGTHS)]

    def read(self, data: Buffer, position: int, count: int) -> list[Any]:
        """Return ``count`` numbers; the caller has checked that they are there."""
        if count < CACHED_ARRAY_LENGTHS:
            return list(self._packers[count].unpack_from(data, position))
        return list(Packer(f">{count}{self._code}").unpack_from(data, position))

    def pack(self, values: Sequence[Any]) -> bytes:
        """Return the numbers without a count."""
        count = len(values)
        if count < CACHED_ARRAY_LENGTHS:
            return self._packers[count].pack(*values)
        return Packer(f">{count}{self._code}").pack(*values)


def join_uuids(values: Sequence[bytes]) -> bytes:
    """Return the UUIDs without a count; raises EncodeError when one has not got 16 bytes."""
    joined = b"".join(values)
    if len(joined) != len(values) * UUID_BYTES or any(len(value) != UUID_BYTES for value in values):
        raise EncodeError(f"one of {len(values)} UUIDs has not got {UUID_BYTES} bytes")
    return joined


def records_size(records: list[Part]) -> int:
    """Return the bytes that records in several pieces take."""
    return sum(len(part) for part in records)


def join(parts: Iterable[Part]) -> bytes:
    """Return everything as one byte string; file regions are read."""
    return b"".join(part.read() if type(part) is FileRegion else part for part in parts)  # type: ignore[misc]


def coalesce(out: list[Part]) -> list[Part]:
    """Join neighbouring small buffers; keep file regions and big buffers as they are, drop empty ones."""
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
