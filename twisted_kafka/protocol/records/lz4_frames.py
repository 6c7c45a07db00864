"""LZ4 frames in Kafka's dialect.

Kafka reads one frame with independent blocks and without a dictionary; data after the frame is ignored. In format 0 the header
checksum incorrectly covers the frame's magic number too, and is not verified (KIP-57).
"""

import struct

from twisted_kafka.protocol.errors import CorruptRecordError, RecordTooLargeError
from twisted_kafka.protocol.regions import Buffer
from twisted_kafka.system import machine
from twisted_kafka.system.buffers import copy_into, to_bytes
from twisted_kafka.system.interpreter import HAS_CODEC_EXTENSIONS

_MAGIC = b"\x04\x22\x4d\x18"
_FLAGS_AT = 4
_BLOCK_SIZE_AT = 5
_VERSION_MASK, _VERSION_ONE = 0xC0, 0x40
_INDEPENDENT_BLOCKS = 0x20
_BLOCK_CHECKSUM = 0x10
_CONTENT_SIZE = 0x08
_CONTENT_CHECKSUM = 0x04
_RESERVED_FLAGS = 0x03
_BLOCK_SIZE_64_KIB = 4
_BLOCK_SIZE_4_MIB = 7
_BLOCK_BYTES = 65_536
_BLOCK_SIZE = struct.Struct("<I")
_STORED_FLAG = 0x80000000
"""Set in the size of a block that is not compressed."""
_END_MARK = bytes(4)
_MAX_RATIO = 255
"""No byte of a block yields more than this many bytes."""
_IS_FULL = "write whole buffer"
"""In cramjam's error when the content exceeds the memory it was given."""

DEFAULT_LEVEL = 9
"""Kafka's level for the fast compressor; all others select the high compressor."""
_HIGHEST_LEVEL = 12
_LOWEST_HIGH_LEVEL = 3

_PRIME_1, _PRIME_2, _PRIME_3, _PRIME_4, _PRIME_5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
_MASK = 0xFFFFFFFF


def _rotate(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (32 - bits))) & _MASK


def header_checksum(data: Buffer) -> int:
    """Return the second byte of the xxHash-32 of fewer than 16 bytes: the checksum of a frame's header."""
    if len(data) >= 16:
        raise ValueError("a frame's header is shorter than 16 bytes")
    value = (_PRIME_5 + len(data)) & _MASK
    words = len(data) // 4
    for (word,) in struct.iter_unpack("<I", data[: words * 4]):
        value = _rotate((value + word * _PRIME_3) & _MASK, 17) * _PRIME_4 & _MASK
    for byte in data[words * 4 :]:
        value = _rotate((value + byte * _PRIME_5) & _MASK, 11) * _PRIME_1 & _MASK
    value = (value ^ (value >> 15)) * _PRIME_2 & _MASK
    value = (value ^ (value >> 13)) * _PRIME_3 & _MASK
    return ((value ^ (value >> 16)) >> 8) & 0xFF


def _header_size(flags: int) -> int:
    """Return the bytes of the header before its checksum, including the magic number."""
    return 14 if flags & _CONTENT_SIZE else 6


def compress(data: Buffer, level: int = DEFAULT_LEVEL, *, broken_checksum: bool = False) -> bytes:
    """Return ``data`` as a frame of blocks of 64 KiB; ``broken_checksum`` is for format 0."""
    native = 0 if level == DEFAULT_LEVEL else max(_LOWEST_HIGH_LEVEL, min(level, _HIGHEST_LEVEL))
    frame = _compress(data, native) if HAS_CODEC_EXTENSIONS else compress_blocks(data, native)
    if not broken_checksum:
        return frame
    end = _header_size(frame[_FLAGS_AT])
    return frame[:end] + bytes((header_checksum(frame[:end]),)) + frame[end + 1 :]


def _compress(data: Buffer, level: int) -> bytes:
    import lz4.frame

    frame: bytes = lz4.frame.compress(
        data, compression_level=level, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False
    )
    return frame


def compress_blocks(data: Buffer, level: int) -> bytes:
    """Return a frame of blocks that cramjam has compressed; ``level`` 0 is the fast compressor."""
    from cramjam import lz4

    options = {"mode": "high_compression", "compression": level} if level else {"mode": "default"}
    head = bytes((_VERSION_ONE | _INDEPENDENT_BLOCKS, _BLOCK_SIZE_64_KIB << 4))
    parts = [_MAGIC, head, bytes((header_checksum(head),))]
    for start in range(0, len(data), _BLOCK_BYTES):
        plain = bytes(data[start : start + _BLOCK_BYTES])
        packed = bytes(lz4.compress_block(plain, store_size=False, **options))
        if len(packed) < len(plain):
            parts += (_BLOCK_SIZE.pack(len(packed)), packed)
        else:
            parts += (_BLOCK_SIZE.pack(len(plain) | _STORED_FLAG), plain)
    parts.append(_END_MARK)
    return b"".join(parts)


def decompress(data: Buffer, limit_bytes: int, *, check_header: bool = True) -> bytes:
    """Decompress the first frame; ``check_header`` is false for format 0.

    Raises CorruptRecordError for frames that Kafka's reader rejects, RecordTooLargeError for more than ``limit_bytes``, after which
    decompression stops.
    """
    return to_bytes(decompress_to_read(data, limit_bytes, check_header=check_header))


def decompress_to_read(data: Buffer, limit_bytes: int, *, check_header: bool = True) -> bytes | memoryview:
    """Decompress like ``decompress``; the result is valid until the thread's next call."""
    view = memoryview(data)
    head = _checked_header(view, check_header=check_header)
    return (_decompress if HAS_CODEC_EXTENSIONS else decompress_blocks)(view, head, limit_bytes)


def _decompress(view: memoryview, head: bytes, limit_bytes: int) -> bytes:
    import lz4.frame

    decompressor = lz4.frame.LZ4FrameDecompressor()
    try:
        out: bytes = decompressor.decompress(head, 0)
        out = decompressor.decompress(view[len(head) :], limit_bytes + 1)
    except RuntimeError as error:
        raise CorruptRecordError(f"invalid lz4 data: {error}") from None
    if len(out) > limit_bytes:
        raise RecordTooLargeError(f"lz4 data of {len(view)} bytes holds more than {limit_bytes} bytes")
    if not decompressor.eof:
        raise CorruptRecordError("lz4 data is truncated")
    return out


class _Reused(machine.local):
    """A thread's memory for frames, or for their content: on PyPy new memory for each would cost page faults and collections."""

    def __init__(self) -> None:
        self._memory = bytearray()

    def take(self, size: int) -> bytearray:
        """Return at least ``size`` bytes, to be used until the next call."""
        if not _LEAST_REUSED_BYTES <= size <= _MAX_REUSED_BYTES:
            return bytearray(size)
        if len(self._memory) < size:
            self._memory = bytearray(size)
        return self._memory


_LEAST_REUSED_BYTES = 65_536
_MAX_REUSED_BYTES = 2 * 1024 * 1024
_frame, _content = _Reused(), _Reused()


def decompress_blocks(view: memoryview, head: bytes, limit_bytes: int) -> bytes | memoryview:
    """Decompress the frame, whose verified header is ``head``, with cramjam; raises as ``decompress_to_read`` does.

    cramjam needs memory for all of the content. The blocks are walked first, to know the most that it can be.
    """
    from cramjam import DecompressionError, lz4

    end, most = _walk(view, len(head))
    frame = _frame.take(end)
    copy_into(frame, head, 0)
    copy_into(frame, view[len(head) : end], len(head))
    out = _content.take(min(most, limit_bytes) + 1)
    try:
        size = lz4.decompress_into(memoryview(frame)[:end] if end >= _LEAST_REUSED_BYTES else bytes(frame), out)
    except DecompressionError as error:
        if _IS_FULL not in str(error):
            raise CorruptRecordError(f"invalid lz4 data: {error}") from None
        size = len(out)
    if size > limit_bytes:
        raise RecordTooLargeError(f"lz4 data of {len(view)} bytes holds more than {limit_bytes} bytes")
    return memoryview(out)[:size]


def _walk(view: memoryview, position: int) -> tuple[int, int]:
    """Return the end of the frame whose blocks begin at ``position``, and the most bytes that they can hold."""
    flags = view[_FLAGS_AT]
    block_bytes = _BLOCK_BYTES << 2 * ((view[_BLOCK_SIZE_AT] >> 4) - _BLOCK_SIZE_64_KIB)
    checksum_bytes = 4 if flags & _BLOCK_CHECKSUM else 0
    most = 0
    try:
        while True:
            (size,) = _BLOCK_SIZE.unpack_from(view, position)
            position += 4
            if not size:
                break
            length = size & ~_STORED_FLAG
            if length > block_bytes:
                raise CorruptRecordError(f"a block of {length} bytes in an lz4 frame with blocks of {block_bytes}")
            most += length if size & _STORED_FLAG else min(block_bytes, length * _MAX_RATIO)
            position += length + checksum_bytes
    except struct.error:
        raise CorruptRecordError("lz4 data is truncated") from None
    position += 4 if flags & _CONTENT_CHECKSUM else 0
    if position > len(view):
        raise CorruptRecordError("lz4 data is truncated")
    return position, most


def _checked_header(view: memoryview, *, check_header: bool) -> bytes:
    """Verify that the header is one that Kafka reads; return it with the checksum that liblz4 expects."""
    if len(view) < 7 or view[:4] != _MAGIC:
        raise CorruptRecordError("not an lz4 frame")
    flags, block_size = view[_FLAGS_AT], view[_BLOCK_SIZE_AT]
    if flags & _VERSION_MASK != _VERSION_ONE or flags & _RESERVED_FLAGS:
        raise CorruptRecordError(f"unsupported flags {flags:#x} in an lz4 frame")
    if not flags & _INDEPENDENT_BLOCKS:
        raise CorruptRecordError("lz4 blocks that depend on each other are not supported")
    if block_size & 0x8F or not _BLOCK_SIZE_64_KIB <= block_size >> 4 <= _BLOCK_SIZE_4_MIB:
        raise CorruptRecordError(f"invalid block size {block_size:#x} in an lz4 frame")
    end = _header_size(flags)
    if len(view) <= end:
        raise CorruptRecordError("lz4 data ends within its header")
    if check_header and view[end] != header_checksum(view[4:end]):
        raise CorruptRecordError("invalid checksum in an lz4 header")
    return bytes(view[:end]) + bytes((header_checksum(view[4:end]),))
