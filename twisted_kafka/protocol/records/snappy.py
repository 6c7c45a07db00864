"""Snappy in Kafka's dialect: the stream format of xerial's snappy-java, and raw blocks for reading.

A stream is a header of 16 bytes, then blocks, each preceded by its length (int32). Data that does not begin with the header is one
raw block. Streams can be concatenated: a header in place of a block's length begins another stream.
"""

import struct

from twisted_kafka.protocol.errors import CorruptRecordError, RecordTooLargeError
from twisted_kafka.protocol.regions import Buffer

HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
BLOCK_SIZE = 32 * 1024
"""Bytes of a block before compression, snappy-java's default."""

_MAGIC_SIZE = 8
_HEADER_START = HEADER[:4]
# A copy element of three bytes yields at most 64 bytes; no other element has a higher ratio.
_MAX_RATIO = 22
_SLACK_BYTES = 64
_LENGTH = struct.Struct(">i")


def compress(data: Buffer) -> bytes:
    """Return ``data`` as a stream of blocks of 32 KiB."""
    from cramjam import snappy

    parts = [HEADER]
    for start in range(0, len(data), BLOCK_SIZE):
        block = bytes(snappy.compress_raw(data[start : start + BLOCK_SIZE]))
        parts += (_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def decompress(data: Buffer, limit_bytes: int) -> bytes:
    """Decompress a stream or one raw block.

    Raises CorruptRecordError when the data is neither, RecordTooLargeError when it declares more than ``limit_bytes``, which is
    checked before memory is allocated.
    """
    view = memoryview(data)
    blocks = _blocks(view)
    sizes = [_declared_size(block) for block in blocks]
    total = sum(sizes)
    if total > limit_bytes:
        raise RecordTooLargeError(f"snappy data of {len(view)} bytes declares {total} bytes, more than {limit_bytes}")
    from cramjam import DecompressionError, snappy

    try:
        parts = [snappy.decompress_raw(block) for block in blocks]
    except DecompressionError as error:
        raise CorruptRecordError(f"invalid snappy data: {error}") from None
    out = b"".join(parts)
    if len(out) != total:
        raise CorruptRecordError("a snappy block is shorter than it declares")
    return out


def _blocks(view: memoryview) -> list[memoryview]:
    size = len(view)
    if size < len(HEADER) or view[:_MAGIC_SIZE] != HEADER[:_MAGIC_SIZE]:
        return [view]
    blocks = []
    position = len(HEADER)
    while position < size:
        if view[position : position + 4] == _HEADER_START:
            if view[position : position + _MAGIC_SIZE] != HEADER[:_MAGIC_SIZE] or position + len(HEADER) > size:
                raise CorruptRecordError("invalid header of a concatenated snappy stream")
            position += len(HEADER)
            continue
        if position + 4 > size:
            raise CorruptRecordError("snappy data ends within a block's length")
        (length,) = _LENGTH.unpack_from(view, position)
        position += 4
        if length < 0 or length > size - position:
            raise CorruptRecordError(f"a snappy block declares {length} bytes, but {size - position} remain")
        blocks.append(view[position : position + length])
        position += length
    return blocks


def _declared_size(block: memoryview) -> int:
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            if size > len(block) * _MAX_RATIO + _SLACK_BYTES:
                raise CorruptRecordError(f"a snappy block of {len(block)} bytes cannot decompress to the declared {size} bytes")
            return size
        shift += 7
    raise CorruptRecordError("a snappy block has no valid length")
