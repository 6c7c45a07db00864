"""Zstandard frames in Kafka's dialect: any number of concatenated frames, with or without a declared content size.

The frames are walked block by block before anything is decompressed. The walk finds each frame's end, truncated data, and the
maximum size of the content.
"""

import struct
import threading
from typing import TYPE_CHECKING

from twisted_kafka.protocol.errors import CorruptRecordError, RecordTooLargeError
from twisted_kafka.protocol.regions import Buffer

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
_WORD = struct.Struct("<I")

# Contexts are expensive to create and must not be shared between threads.
_local = threading.local()


def compress(data: Buffer, level: int = DEFAULT_LEVEL) -> bytes:
    """Return ``data`` as one frame."""
    import zstandard

    return zstandard.ZstdCompressor(level=level).compress(data)


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
        end, most = _walk_frame(view, position)
        if most >= 0:
            part = _decompress_frame(view[position:end], most, left, limit_bytes)
            left -= len(part)
            parts.append(part)
        position = end
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _decompressor() -> "ZstdDecompressor":
    decompressor: ZstdDecompressor | None = getattr(_local, "decompressor", None)
    if decompressor is None:
        import zstandard

        decompressor = _local.decompressor = zstandard.ZstdDecompressor()
    return decompressor


def _decompress_frame(frame: memoryview, most: int, left: int, limit_bytes: int) -> bytes:
    import zstandard

    try:
        parameters = zstandard.get_frame_parameters(frame)
        declared = parameters.content_size
        if parameters.window_size > _MAX_WINDOW_BYTES:
            raise CorruptRecordError(f"the window of a zstd frame, {parameters.window_size} bytes, exceeds {_MAX_WINDOW_BYTES}")
        if declared != zstandard.CONTENTSIZE_UNKNOWN:
            if declared > most:
                raise CorruptRecordError(f"a zstd frame declares {declared} bytes, but can hold at most {most}")
            if declared > left:
                raise RecordTooLargeError(f"zstd data holds more than {limit_bytes} bytes")
            if not declared:
                if most:
                    raise CorruptRecordError("a zstd frame declares no content, but has some")
                return b""
            return _decompressor().decompress(frame, max_output_size=declared)
        return _decompressor().decompress(frame, max_output_size=max(1, min(most, left)))
    except zstandard.ZstdError as error:
        # The walk found all blocks, so a frame that does not decompress in full exceeds the limit.
        if left < most and "full frame" in str(error):
            raise RecordTooLargeError(f"zstd data holds more than {limit_bytes} bytes") from None
        raise CorruptRecordError(f"invalid zstd data: {error}") from None


def _walk_frame(view: memoryview, start: int) -> tuple[int, int]:
    """Return the end of the frame at ``start`` and the maximum size of its content, -1 for a skippable frame."""
    try:
        (magic,) = _WORD.unpack_from(view, start)
        position = start + 4
        if magic & _SKIPPABLE_MASK == _SKIPPABLE_MAGIC:
            return _within(view, position + 4 + _WORD.unpack_from(view, position)[0]), -1
        if magic != _MAGIC:
            raise CorruptRecordError("not a zstd frame")
        flags = view[position]
        single_segment = bool(flags & _SINGLE_SEGMENT_FLAG)
        content_size_size = _CONTENT_SIZE_SIZES[flags >> 6] or int(single_segment)
        position += 1 + (not single_segment) + _DICTIONARY_ID_SIZES[flags & 3] + content_size_size
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
    return _within(view, position + (4 if flags & _CHECKSUM_FLAG else 0)), most


def _within(view: memoryview, position: int) -> int:
    if position > len(view):
        raise CorruptRecordError("zstd data ends within a frame")
    return position
