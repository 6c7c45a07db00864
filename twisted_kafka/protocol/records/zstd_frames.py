"""Zstandard frames in Kafka's dialect: any number of concatenated frames, with or without a declared content size.

The frames are walked block by block before anything is decompressed. The walk finds each frame's end, truncated data, and the
maximum size of the content.
"""

import struct
from typing import TYPE_CHECKING, NamedTuple

from twisted_kafka.protocol.errors import CorruptRecordError, RecordTooLargeError
from twisted_kafka.protocol.regions import Buffer
from twisted_kafka.system import machine
from twisted_kafka.system.interpreter import HAS_CODEC_EXTENSIONS

if TYPE_CHECKING:
    from zstandard import ZstdDecompressor

DEFAULT_LEVEL = 3

_MAGIC = 0xFD2FB528
_SKIPPABLE_MAGIC, _SKIPPABLE_MASK = 0x184D2A50, 0xFFFFFFF0
_MAX_BLOCK_BYTES = 128 * 1024
_MAX_WINDOW_BYTES = 128 * 1024 * 1024
"""Consumers that use the reference library reject frames with a larger window."""
_MAX_FRAMES = 4096
"""Frames in one batch, far more than producers write; the bound keeps tiny frames from occupying a thread for long."""
_RAW_BLOCK, _RLE_BLOCK, _COMPRESSED_BLOCK = 0, 1, 2
_CHECKSUM_FLAG = 0x04
_SINGLE_SEGMENT_FLAG = 0x20
_DICTIONARY_ID_SIZES = (0, 1, 2, 4)
_CONTENT_SIZE_SIZES = (0, 2, 4, 8)
_SHORT_CONTENT_SIZE_SIZE, _SHORT_CONTENT_SIZE_OFFSET = 2, 256
_WORD = struct.Struct("<I")

# Contexts are expensive to create and must not be shared between threads.
_local = machine.local()


def compress(data: Buffer, level: int = DEFAULT_LEVEL) -> bytes:
    """Return ``data`` as one frame."""
    if HAS_CODEC_EXTENSIONS:
        import zstandard

        return zstandard.ZstdCompressor(level=level).compress(data)
    from cramjam import zstd

    return bytes(zstd.compress(bytes(data), level=level))


def decompress(data: Buffer, limit_bytes: int) -> bytes:
    """Decompress all frames.

    Raises CorruptRecordError for invalid or truncated data, RecordTooLargeError for more than ``limit_bytes``, which is also the
    most that is allocated.
    """
    view = memoryview(data)
    parts: list[bytes] = []
    left = limit_bytes
    position = 0
    while position < len(view):
        if len(parts) == _MAX_FRAMES:
            raise CorruptRecordError(f"zstd data has more than {_MAX_FRAMES} frames")
        frame = _walk_frame(view, position)
        if frame.most >= 0:
            part = _decompress_frame(view, position, frame, left, limit_bytes)
            left -= len(part)
            parts.append(part)
        position = frame.end
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _decompress_frame(view: memoryview, start: int, frame: "_Frame", left: int, limit_bytes: int) -> bytes:
    most, declared = frame.most, frame.declared
    if frame.window_bytes > _MAX_WINDOW_BYTES:
        raise CorruptRecordError(f"the window of a zstd frame, {frame.window_bytes} bytes, exceeds {_MAX_WINDOW_BYTES}")
    if declared is not None:
        if declared > most:
            raise CorruptRecordError(f"a zstd frame declares {declared} bytes, but can hold at most {most}")
        if declared > left:
            raise RecordTooLargeError(f"zstd data holds more than {limit_bytes} bytes")
        if not declared:
            if most:
                raise CorruptRecordError("a zstd frame declares no content, but has some")
            return b""
        most = declared
    try:
        decode = _decode if HAS_CODEC_EXTENSIONS else _decode_with_cramjam
        return decode(view[start : frame.end], max(1, min(most, left)))
    except _NoRoomError:
        # The walk found all blocks, so a frame that does not decompress in full exceeds the limit.
        if left < most:
            raise RecordTooLargeError(f"zstd data holds more than {limit_bytes} bytes") from None
        raise CorruptRecordError("a zstd frame holds more than its blocks can") from None


class _NoRoomError(Exception):
    """The content of a frame exceeds the size that it may have."""


def _decode(frame: memoryview, size_bytes: int) -> bytes:
    import zstandard

    decompressor: ZstdDecompressor | None = getattr(_local, "decompressor", None)
    if decompressor is None:
        decompressor = _local.decompressor = zstandard.ZstdDecompressor()
    try:
        return decompressor.decompress(frame, max_output_size=size_bytes)
    except zstandard.ZstdError as error:
        if "full frame" in str(error):
            raise _NoRoomError from None
        raise CorruptRecordError(f"invalid zstd data: {error}") from None


def _decode_with_cramjam(frame: memoryview, size_bytes: int) -> bytes:
    from cramjam import DecompressionError, zstd

    out = bytearray(size_bytes)
    try:
        size = zstd.decompress_into(bytes(frame), out)
    except DecompressionError as error:
        if "write whole buffer" in str(error):
            raise _NoRoomError from None
        raise CorruptRecordError(f"invalid zstd data: {error}") from None
    return bytes(memoryview(out)[:size])


class _Frame(NamedTuple):
    end: int
    """The position after the frame."""
    most: int
    """The most bytes that its blocks can hold; -1 for a skippable frame."""
    window_bytes: int = 0
    declared: int | None = None
    """The declared size of the content, if there is one."""


def _walk_frame(view: memoryview, start: int) -> _Frame:
    """Return the contents of the headers of the frame at ``start`` and of its blocks; raises CorruptRecordError."""
    try:
        (magic,) = _WORD.unpack_from(view, start)
        position = start + 4
        if magic & _SKIPPABLE_MASK == _SKIPPABLE_MAGIC:
            return _Frame(_within(view, position + 4 + _WORD.unpack_from(view, position)[0]), -1)
        if magic != _MAGIC:
            raise CorruptRecordError("not a zstd frame")
        flags = view[position]
        single_segment = bool(flags & _SINGLE_SEGMENT_FLAG)
        content_size_size = _CONTENT_SIZE_SIZES[flags >> 6] or int(single_segment)
        position += 1
        window_bytes = 0 if single_segment else _window_bytes(view[position])
        position += (not single_segment) + _DICTIONARY_ID_SIZES[flags & 3]
        declared = None
        if content_size_size:
            _within(view, position + content_size_size)
            declared = int.from_bytes(view[position : position + content_size_size], "little")
            declared += _SHORT_CONTENT_SIZE_OFFSET if content_size_size == _SHORT_CONTENT_SIZE_SIZE else 0
        position += content_size_size
        most = 0
        last = False
        while not last:
            header = view[position] | view[position + 1] << 8 | view[position + 2] << 16
            last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
            if kind > _COMPRESSED_BLOCK or size > _MAX_BLOCK_BYTES:
                raise CorruptRecordError("invalid block in a zstd frame")
            most += _MAX_BLOCK_BYTES if kind == _COMPRESSED_BLOCK else size
            position += 3 + (1 if kind == _RLE_BLOCK else size)
    except (IndexError, struct.error):
        raise CorruptRecordError("zstd data ends within a frame") from None
    end = _within(view, position + (4 if flags & _CHECKSUM_FLAG else 0))
    return _Frame(end, most, declared if single_segment and declared is not None else window_bytes, declared)


def _window_bytes(descriptor: int) -> int:
    """Return the window size that the descriptor in a frame's header stands for (RFC 8878, 3.1.1.1.2)."""
    base: int = 1 << (10 + (descriptor >> 3))
    return base + (base >> 3) * (descriptor & 7)


def _within(view: memoryview, position: int) -> int:
    if position > len(view):
        raise CorruptRecordError("zstd data ends within a frame")
    return position
