"""Validate the records of a batch of format 2 in plain Python.

The loop takes almost a microsecond per record. It decodes integers of two bytes inline: a call would double their time. Consecutive
records of the same length, as of measurements and fixed-size rows, are checked many at a time.
"""

import sys
from array import array
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, NoReturn, cast

from twisted_kafka.protocol.errors import InvalidRecordError
from twisted_kafka.system.interpreter import COLUMNS_PAY


class RecordScan(NamedTuple):
    """The facts about a batch's records that validation needs."""

    sequential: bool
    """Whether the offset deltas are 0, 1, 2..."""
    first_timestamp_delta: int
    smallest_timestamp_delta: int
    largest_timestamp_delta: int
    lacks_keys: bool
    """Whether a record has no key."""


_record_scan = cast(Callable[[tuple[bool, int, int, int, bool]], RecordScan], partial(tuple.__new__, RecordScan))
"""Make a RecordScan of a tuple in half the time that the class takes."""


def scan_in_python(payload: bytes | memoryview, count: int) -> RecordScan:
    """Check as ``scan.scan_records`` does, record by record, or several at once where they have the layout of the previous one."""
    scan = scan_in_steps(payload, count, count)
    assert scan is not None
    return scan


def scan_in_steps(payload: bytes | memoryview, count: int, max_steps: int) -> RecordScan | None:
    """Check as :func:`scan_in_python` does; return None if records remain after ``max_steps`` steps."""
    position = index = last_size = retry_at = 0
    sequential, lacks_keys = True, False
    deltas: list[int] = []
    try:
        for _ in range(max_steps):
            start, size, position = position, payload[position], position + 1
            if size >= 0x80:
                byte = payload[position]
                size, position = (size & 0x7F | byte << 7, position + 1) if byte < 0x80 else _integer(payload, position - 1, 32)
            end, delta, offset_at = position + (size >> 1), payload[position + 1], position + 2
            if delta >= 0x80:
                byte = payload[offset_at]
                delta, offset_at = (delta & 0x7F | byte << 7, offset_at + 1) if byte < 0x80 else _integer(payload, position + 1, 64)
            deltas.append(delta)
            offset, key_at = payload[offset_at], offset_at + 1
            if offset >= 0x80:
                byte = payload[key_at]
                offset, key_at = (offset & 0x7F | byte << 7, key_at + 1) if byte < 0x80 else _integer(payload, offset_at, 32)
            sequential = sequential and offset == index + index
            key_size, value_at = payload[key_at], key_at + 1
            if key_size >= 0x80:
                key_size, value_at = _integer(payload, key_at, 32)
            if key_size & 1:
                lacks_keys = True
            else:
                value_at += key_size >> 1
            field, headers_at = payload[value_at], value_at + 1
            if field >= 0x80:
                byte = payload[headers_at]
                field, headers_at = (field & 0x7F | byte << 7, headers_at + 1) if byte < 0x80 else _integer(payload, value_at, 32)
            if not field & 1:
                headers_at += field >> 1
            index += 1
            if payload[headers_at]:
                headers_at = skip_headers(payload, headers_at, end) - 1
            elif COLUMNS_PAY and size == last_size and index >= retry_at and headers_at + 1 == end and sequential:
                shape = start, position, offset_at, key_at, value_at, headers_at
                number = _same_layout(cast("bytes", payload), shape, index, count, deltas)
                index, headers_at = index + number, headers_at + number * (end - start)
                end = headers_at + 1
                if not number:
                    retry_at = index + _RETRY_AFTER
            last_size, position = size, headers_at + 1
            if position != end or size & 1:  # a negative length is odd
                _reject("a record's fields do not fit its length")
            if index == count:
                break
        else:
            return None
    except IndexError:
        _reject("the records are truncated")
    if position != len(payload):
        _reject(f"{len(payload) - position} bytes remain after the {count} records")
    first = (deltas[0] >> 1) ^ -(deltas[0] & 1)
    if count == 1:
        return _record_scan((sequential, first, first, first, lacks_keys))
    signed = [(delta >> 1) ^ -(delta & 1) for delta in _distinct(deltas)]
    return RecordScan(sequential, first, min(signed), max(signed), lacks_keys)


_distinct = set if COLUMNS_PAY else iter
_RETRY_AFTER = 16
"""Records to check one by one after an attempt to check several at once failed."""
_MIN_SAME_LAYOUT = 4
_LOW_BYTE = int(sys.byteorder == "big")
"""The index of the low byte of a 16-bit number in memory."""
_OFFSETS = bytes(range(0, 0x80, 2))
"""Offset deltas of one byte. The low bytes of longer ones repeat this sequence, with the highest bit set."""
_PERIOD = 8192
"""The number of consecutive offset deltas whose third byte is the same."""
_LONGER_FROM = 128 * _PERIOD
"""The first offset delta of four bytes."""
_LOW_OFFSETS = bytes(byte | 0x80 for byte in _OFFSETS) * 128
_HIGH_OFFSETS = bytes(high for high in range(0x80) for _ in range(64))
_OFFSET_COLUMNS = ((_OFFSETS,), (_LOW_OFFSETS, _HIGH_OFFSETS), (_LOW_OFFSETS, bytes(byte | 0x80 for byte in _HIGH_OFFSETS)))
"""The sequence of each byte, for offset deltas of one, two and three bytes; the third byte is constant for a period."""


def _same_layout(payload: bytes, shape: tuple[int, ...], index: int, count: int, deltas: list[int]) -> int:
    """Return how many of the records after one without headers have exactly its lengths, and sequential offset deltas.

    ``shape`` holds the positions of that record and its fields, ``index`` is the next record's index. The bytes at the same place
    of all these records are compared at once, as a strided slice.
    """
    start, body, offset_at, key_at, value_at, headers_at = shape
    step = headers_at + 1 - start
    offset_bytes, delta_bytes = key_at - offset_at, offset_at - body - 1
    last = min(count, 64 if offset_bytes == 1 else (index // _PERIOD + 1) * _PERIOD)
    number = min(last - index, (len(payload) - headers_at - 1) // step)
    if number < _MIN_SAME_LAYOUT or offset_bytes > 3 or delta_bytes > 2 or index >= _LONGER_FROM:
        return 0
    lengths = [*range(start, body), *_length_bytes(payload, key_at), *_length_bytes(payload, value_at), headers_at]
    for at in lengths:
        byte = payload[at : at + 1]
        column = payload[at + step : at + number * step + 1 : step]
        if column != byte * number:
            number -= len(column.lstrip(byte))
            if number < _MIN_SAME_LAYOUT:
                return 0
    reach = number * step + 1
    within = index % _PERIOD
    for at, expected in enumerate(_OFFSET_COLUMNS[offset_bytes - 1], offset_at):
        if payload[at + step : at + reach : step] != expected[within : within + number]:
            return 0
    if offset_bytes == 3 and payload[offset_at + 2 + step : offset_at + 2 + reach : step] != bytes([index // _PERIOD]) * number:
        return 0
    low = payload[body + 1 + step : body + 1 + reach : step]
    if delta_bytes == 1:
        if not low.isascii():
            return 0
        deltas.extend(set(low))
        return number
    high = payload[body + 2 + step : body + 2 + reach : step]
    if min(low) < 0x80 or not high.isascii():
        return 0
    both = bytearray(2 * number)
    both[_LOW_BYTE::2], both[1 - _LOW_BYTE :: 2] = low, high
    deltas.extend([pair & 0x7F | (pair & 0xFF00) >> 1 for pair in set(array("H", bytes(both)))])
    return number


def _length_bytes(payload: bytes | memoryview, position: int) -> range:
    """Return the positions of the bytes of a length."""
    end = position + 1
    while payload[end - 1] >= 0x80:
        end += 1
    return range(position, end)


def skip_headers(payload: bytes | memoryview, position: int, end: int) -> int:
    """Return the position after the headers, whose number is at ``position``, of a record that ends at ``end``.

    Raises InvalidRecordError when they are malformed, IndexError when they are truncated.
    """
    number, position = _integer(payload, position, 32)
    if number & 1 or number >> 1 > end - position:
        _reject("a record has an invalid number of headers")
    for _ in range(number >> 1):
        size = payload[position]
        position += 1
        if size >= 0x80:
            size, position = _integer(payload, position - 1, 32)
        if size & 1:
            _reject("a header's key has a negative length")
        position += size >> 1
        size = payload[position]
        position += 1
        if size >= 0x80:
            size, position = _integer(payload, position - 1, 32)
        if not size & 1:
            position += size >> 1
        if position > end:
            _reject("a record's headers do not fit its length")
    return position


def _reject(why: str) -> NoReturn:
    raise InvalidRecordError(why)


def _integer(payload: bytes | memoryview, position: int, bits: int) -> tuple[int, int]:
    """Read a zigzag-encoded integer of variable length; return it, not decoded, and the position after it."""
    value = shift = 0
    while True:
        byte = payload[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & ((1 << bits) - 1), position
        shift += 7
        if shift >= bits:
            _reject(f"an integer of {bits} bits has more than {shift // 7} bytes")
