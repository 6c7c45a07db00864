"""The compression codecs of record batches. Their libraries are loaded on first use, which saves start-up time and memory."""

import zlib
from enum import IntEnum

from twisted_kafka.protocol.errors import CorruptRecordError, RecordTooLargeError, UnsupportedCompressionTypeError
from twisted_kafka.protocol.regions import Buffer
from twisted_kafka.system.buffers import to_bytes


class Compression(IntEnum):
    """A compression codec: the lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def text(self) -> str:
        """The name in configurations: ``none``, ``gzip``, ``snappy``, ``lz4``, ``zstd``."""
        return self.name.lower()


CODECS: tuple[Compression, ...] = tuple(Compression)
"""The codecs by number: indexing this tuple is cheaper than calling the enum."""

_GZIP_FORMAT = 31
_GZIP_DEFAULT_LEVEL = -1
_GZIP_MAGIC = b"\x1f\x8b"
_MAX_GZIP_MEMBERS = 256
"""More members than any producer writes. The data after each member is copied, so a hostile number of them would take long."""
_LARGE_BYTES = 1 << 20
"""Larger content is decompressed in steps of this size."""


def compress(codec: Compression, data: Buffer, level: int | None = None, *, magic: int = 2) -> bytes:
    """Compress as Kafka's producer does.

    ``level`` None is the codec's default level; with ``magic`` 0 the header of lz4 gets the incorrect checksum of that format.
    Raises UnsupportedCompressionTypeError when the codec's library is not installed.
    """
    try:
        return _compress(codec, data, level, magic)
    except ImportError as error:
        raise _unsupported(codec, error) from error


def _unsupported(codec: Compression, error: ImportError) -> UnsupportedCompressionTypeError:
    return UnsupportedCompressionTypeError(f"the library of the codec {codec.text} cannot be loaded: {error}")


def _compress(codec: Compression, data: Buffer, level: int | None, magic: int) -> bytes:
    if codec == Compression.GZIP:
        compressor = zlib.compressobj(_GZIP_DEFAULT_LEVEL if level is None else level, zlib.DEFLATED, _GZIP_FORMAT)
        return compressor.compress(data) + compressor.flush()
    if codec == Compression.SNAPPY:
        from twisted_kafka.protocol.records import snappy

        return snappy.compress(data)
    if codec == Compression.LZ4:
        from twisted_kafka.protocol.records import lz4_frames

        return lz4_frames.compress(data, lz4_frames.DEFAULT_LEVEL if level is None else level, broken_checksum=magic == 0)
    if codec == Compression.ZSTD:
        from twisted_kafka.protocol.records import zstd_frames

        return zstd_frames.compress(data, zstd_frames.DEFAULT_LEVEL if level is None else level)
    return bytes(data)


def decompress(codec: Compression, data: Buffer, *, limit_bytes: int, magic: int = 2) -> bytes:
    """Decompress the records of a batch.

    Raises CorruptRecordError when the data is invalid or truncated, RecordTooLargeError when it decompresses to more than
    ``limit_bytes``, which is also the most that is ever allocated, UnsupportedCompressionTypeError when the codec's library is not
    installed. With ``magic`` 0 the checksum of lz4's header is not verified.
    """
    return to_bytes(decompress_to_read(codec, data, limit_bytes=limit_bytes, magic=magic))


def decompress_to_read(codec: Compression, data: Buffer, *, limit_bytes: int, magic: int = 2) -> bytes | memoryview:
    """Decompress like ``decompress``; the result is valid until the thread's next call."""
    try:
        return _decompress(codec, data, limit_bytes, magic)
    except ImportError as error:
        raise _unsupported(codec, error) from error


def _decompress(codec: Compression, data: Buffer, limit_bytes: int, magic: int) -> bytes | memoryview:
    if codec == Compression.GZIP:
        return _gunzip(data, limit_bytes)
    if codec == Compression.SNAPPY:
        from twisted_kafka.protocol.records import snappy

        return snappy.decompress(data, limit_bytes)
    if codec == Compression.LZ4:
        from twisted_kafka.protocol.records import lz4_frames

        return lz4_frames.decompress_to_read(data, limit_bytes, check_header=magic > 0)
    if codec == Compression.ZSTD:
        from twisted_kafka.protocol.records import zstd_frames

        return zstd_frames.decompress(data, limit_bytes)
    if len(data) > limit_bytes:
        raise RecordTooLargeError(f"{len(data)} bytes of records, more than {limit_bytes}")
    return bytes(data)


def _gunzip(data: Buffer, limit_bytes: int) -> bytes | memoryview:
    """Decompress all gzip members; other data after them is ignored, as Java does."""
    parts: list[bytes | bytearray] = []
    left = limit_bytes
    rest: Buffer = data
    for _ in range(_MAX_GZIP_MEMBERS):
        member = zlib.decompressobj(_GZIP_FORMAT)
        try:
            part: bytes | bytearray = member.decompress(rest, min(left, _LARGE_BYTES) + 1)
            if len(part) > _LARGE_BYTES:
                part = _continued(member, part, left)
        except zlib.error as error:
            raise CorruptRecordError(f"invalid gzip data: {error}") from None
        if len(part) > left:
            raise RecordTooLargeError(f"gzip data of {len(data)} bytes holds more than {limit_bytes} bytes")
        if not member.eof:
            raise CorruptRecordError("gzip data is truncated")
        parts.append(part)
        left -= len(part)
        rest = member.unused_data
        if rest[:2] != _GZIP_MAGIC:
            return b"".join(parts) if len(parts) > 1 else parts[0] if type(parts[0]) is bytes else memoryview(parts[0])
    raise CorruptRecordError(f"gzip data has more than {_MAX_GZIP_MEMBERS} members")


def _continued(member: "zlib._Decompress", beginning: bytes | bytearray, limit_bytes: int) -> bytearray:
    """Return the content of a large member, at most ``limit_bytes`` and one more.

    ``member.decompress`` would collect blocks and join them: the content would be in memory twice.
    """
    content = bytearray(beginning)
    while not member.eof and len(content) <= limit_bytes:
        more = member.decompress(member.unconsumed_tail, min(_LARGE_BYTES, limit_bytes + 1 - len(content)))
        if not more:
            break
        content += more
    return content
