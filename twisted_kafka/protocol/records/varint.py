"""Variable-length integers of record batches: zigzag-encoded, seven bits per byte, least significant first."""

from twisted_kafka.protocol.regions import Buffer

_ONE_BYTE = 64
"""The smallest positive number that takes more than one byte."""
_VARINT_MAX_SHIFT = 28
_VARLONG_MAX_SHIFT = 63


def append_varint(out: bytearray, value: int) -> None:
    """Append ``value``, a signed integer of at most 64 bits; 32-bit and 64-bit integers have the same encoding."""
    if 0 <= value < _ONE_BYTE:
        out.append(value << 1)
        return
    value = (value << 1) ^ (value >> 63)
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)


def encode_varint(value: int) -> bytes:
    """Encode ``value`` as a variable-length integer."""
    out = bytearray()
    append_varint(out, value)
    return bytes(out)


def _read(data: Buffer, position: int, max_shift: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > max_shift:
            raise ValueError("a variable-length integer is too long")


def read_varint(data: Buffer, position: int) -> tuple[int, int]:
    """Decode a 32-bit integer; return it and the position after it.

    Raises ValueError when it has more than five bytes, IndexError when it is truncated. Bits beyond the 32nd are dropped, as in
    Kafka.
    """
    value, position = _read(data, position, _VARINT_MAX_SHIFT)
    value &= 0xFFFFFFFF
    return (value >> 1) ^ -(value & 1), position


def read_varlong(data: Buffer, position: int) -> tuple[int, int]:
    """Decode a 64-bit integer of at most ten bytes, as :func:`read_varint` does a 32-bit one."""
    value, position = _read(data, position, _VARLONG_MAX_SHIFT)
    value &= 0xFFFFFFFFFFFFFFFF
    return (value >> 1) ^ -(value & 1), position
