"""Check that the records of a batch of format 2 parse, without making objects of them.

Every length must fit, every record end where it says, the count be as declared and no byte be left. A loop in Python takes most
of a microsecond a record; larger batches are checked with numpy when it is there (the extra ``fast``), imported with the first
such batch.
"""

from collections.abc import Callable
from typing import NamedTuple, NoReturn

from twisted_kafka.protocol.errors import InvalidRecordError

NUMPY_THRESHOLD = 256
"""Batches of more records than this are worth numpy's overhead."""

SMALLEST_RECORD = 7
"""Bytes of a record without key, value and headers, its length included."""


class RecordScan(NamedTuple):
    """What validation wants to know of a batch's records."""

    sequential: bool
    """Whether the offset deltas are 0, 1, 2..."""
    first_timestamp_delta: int
    smallest_timestamp_delta: int
    largest_timestamp_delta: int
    lacks_keys: bool
    """Whether a record has no key."""


def scan_records(payload: bytes, count: int) -> RecordScan:
    """Check the ``count`` (at least one) records in ``payload``, which is decompressed.

    Raises InvalidRecordError where they don't parse.
    """
    if count * SMALLEST_RECORD > len(payload):
        raise InvalidRecordError(f"{count} records cannot be in {len(payload)} bytes")
    if count > NUMPY_THRESHOLD:
        vectorised = _vectorised()
        if vectorised is not None:
            return vectorised(payload, count)
    return scan_in_python(payload, count)


_Scanner = Callable[[bytes, int], RecordScan]
_choice: list[_Scanner | None] = []


def _vectorised() -> _Scanner | None:
    if not _choice:
        try:
            from twisted_kafka.protocol.records.scan_numpy import scan_with_numpy
        except ImportError:
            _choice.append(None)
        else:
            _choice.append(scan_with_numpy)
    return _choice[0]


def scan_in_python(payload: bytes, count: int) -> RecordScan:
    """Check as :func:`scan_records` does, record by record."""
    position = 0
    sequential = True
    lacks_keys = False
    first = smallest = largest = last = -1  # zigzag: -1 is none
    try:
        for index in range(count):
            size = payload[position]
            position += 1
            if size >= 0x80:
                byte = payload[position]
                if byte < 0x80:
                    size = (size & 0x7F) | byte << 7
                    position += 1
                else:
                    size, position = _varint(payload, position - 1)
            if size & 1:
                _refuse("a record has a negative length")
            end = position + (size >> 1)
            delta = payload[position + 1]
            position += 2
            if delta >= 0x80:
                byte = payload[position]
                if byte < 0x80:
                    delta = (delta & 0x7F) | byte << 7
                    position += 1
                else:
                    delta, position = _varlong(payload, position - 1)
            if delta != last:
                last = delta
                signed = (delta >> 1) ^ -(delta & 1)
                if first < 0:
                    first = delta
                    smallest = largest = signed
                elif signed > largest:
                    largest = signed
                elif signed < smallest:
                    smallest = signed
            offset = payload[position]
            position += 1
            if offset >= 0x80:
                offset, position = _varint(payload, position - 1)
            if offset != index + index:
                sequential = False
            size = payload[position]
            position += 1
            if size >= 0x80:
                size, position = _varint(payload, position - 1)
            if size & 1:
                lacks_keys = True
            else:
                position += size >> 1
            size = payload[position]
            position += 1
            if size >= 0x80:
                byte = payload[position]
                if byte < 0x80:
                    size = (size & 0x7F) | byte << 7
                    position += 1
                else:
                    size, position = _varint(payload, position - 1)
            if not size & 1:
                position += size >> 1
            size = payload[position]
            position += 1
            if size:
                position = skip_headers(payload, position - 1, end)
            if position != end:
                _refuse("a record's fields do not fit its length")
    except IndexError:
        _refuse("the records stop short")
    if position != len(payload):
        _refuse(f"{len(payload) - position} bytes are left after the {count} records")
    return RecordScan(sequential, (first >> 1) ^ -(first & 1), smallest, largest, lacks_keys)


def skip_headers(payload: bytes, position: int, end: int) -> int:
    """Return the position after the headers whose number is at ``position`` of a record that ends at ``end``.

    Raises as the others.
    """
    number, position = _varint(payload, position)
    if number & 1 or number >> 1 > end - position:
        _refuse("a record has an impossible number of headers")
    for _ in range(number >> 1):
        size = payload[position]
        position += 1
        if size >= 0x80:
            size, position = _varint(payload, position - 1)
        if size & 1:
            _refuse("a header's key has a negative length")
        position += size >> 1
        size = payload[position]
        position += 1
        if size >= 0x80:
            size, position = _varint(payload, position - 1)
        if not size & 1:
            position += size >> 1
        if position > end:
            _refuse("a record's headers do not fit its length")
    return position


def _refuse(why: str) -> NoReturn:
    raise InvalidRecordError(why)


def _varint(payload: bytes, position: int) -> tuple[int, int]:
    """Read an integer of 32 bits, still zigzag."""
    value = shift = 0
    while True:
        byte = payload[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFF, position
        shift += 7
        if shift > 28:
            _refuse("an integer of 32 bits has more than five bytes")


def _varlong(payload: bytes, position: int) -> tuple[int, int]:
    """Read an integer of 64 bits, still zigzag."""
    value = shift = 0
    while True:
        byte = payload[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, position
        shift += 7
        if shift > 63:
            _refuse("an integer of 64 bits has more than ten bytes")
