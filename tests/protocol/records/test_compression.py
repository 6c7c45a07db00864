import contextlib
import gzip
import random
import struct
import sys
import zlib

import cramjam
import pytest

from tests.support.traced_memory import traced_peak_bytes
from twisted_kafka.protocol.errors import CorruptRecordError, RecordTooLargeError, UnsupportedCompressionTypeError
from twisted_kafka.protocol.records import lz4_frames, snappy, zstd_frames
from twisted_kafka.protocol.records.compression import Compression, compress, decompress, decompress_to_read
from twisted_kafka.system.interpreter import HAS_CODEC_EXTENSIONS

CODECS = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
TEXT = b"".join(b"line %d of a log that repeats itself\n" % (number % 97) for number in range(5000))
LIMIT = 1 << 20


@pytest.fixture(autouse=True, params=["extensions", "cramjam"] if HAS_CODEC_EXTENSIONS else ["cramjam"])
def libraries(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use what decompresses lz4 and zstd on CPython, and what does so on PyPy."""
    for module in (lz4_frames, zstd_frames):
        monkeypatch.setattr(module, "HAS_CODEC_EXTENSIONS", request.param == "extensions")


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize(
    "data", [b"", b"x", TEXT, bytes(random.Random(1).randbytes(200_000))], ids=["empty", "one", "text", "random"]
)
def test_round_trip(codec: Compression, data: bytes) -> None:
    assert decompress(codec, compress(codec, data), limit_bytes=len(data)) == data
    assert decompress(codec, memoryview(bytearray(compress(codec, data))), limit_bytes=LIMIT) == data


@pytest.mark.parametrize("codec", CODECS)
def test_truncated_data_is_corrupt(codec: Compression) -> None:
    packed = compress(codec, TEXT)
    for end in [0, 1, 5, 10, 20, len(packed) // 2, len(packed) - 1]:
        if codec == Compression.ZSTD and end == 0:
            continue
        with pytest.raises(CorruptRecordError):
            decompress(codec, packed[:end], limit_bytes=LIMIT)


@pytest.mark.parametrize("codec", CODECS)
def test_mutated_data_raises_one_of_two_errors(codec: Compression) -> None:
    generator = random.Random(2)
    packed = compress(codec, TEXT[:3000])
    for _ in range(1500):
        broken = bytearray(packed)
        for _ in range(generator.choice([1, 1, 3])):
            broken[generator.randrange(len(broken))] = generator.randrange(256)
        with contextlib.suppress(CorruptRecordError, RecordTooLargeError):
            decompress(codec, bytes(broken), limit_bytes=LIMIT)


@pytest.mark.medium
@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_is_refused_within_the_limit(codec: Compression) -> None:
    bomb = compress(codec, bytes(16 << 20))
    decompress(codec, compress(codec, b"load the library"), limit_bytes=100)

    def refuse() -> None:
        with pytest.raises(RecordTooLargeError):
            decompress(codec, bomb, limit_bytes=LIMIT)

    refuse()
    assert traced_peak_bytes(refuse) < 3 * LIMIT


@pytest.mark.parametrize("codec", CODECS)
def test_exactly_the_limit_is_allowed(codec: Compression) -> None:
    packed = compress(codec, TEXT)
    assert decompress(codec, packed, limit_bytes=len(TEXT)) == TEXT
    with pytest.raises(RecordTooLargeError):
        decompress(codec, packed, limit_bytes=len(TEXT) - 1)


def test_concatenated_gzip_members_are_read_and_other_bytes_after_them_ignored() -> None:
    packed = compress(Compression.GZIP, b"one ") + compress(Compression.GZIP, b"two") + b"\x00garbage"
    assert decompress(Compression.GZIP, packed, limit_bytes=7) == b"one two"
    with pytest.raises(RecordTooLargeError):
        decompress(Compression.GZIP, packed, limit_bytes=6)


def test_very_many_gzip_members_are_refused() -> None:
    with pytest.raises(CorruptRecordError, match="members"):
        decompress(Compression.GZIP, compress(Compression.GZIP, b"") * 100_000, limit_bytes=LIMIT)


def test_gzip_checks_its_checksum() -> None:
    packed = bytearray(compress(Compression.GZIP, TEXT))
    packed[-8] ^= 1
    with pytest.raises(CorruptRecordError):
        decompress(Compression.GZIP, packed, limit_bytes=LIMIT)


def test_raw_snappy_is_read() -> None:
    raw = bytes(cramjam.snappy.compress_raw(TEXT))
    assert decompress(Compression.SNAPPY, raw, limit_bytes=LIMIT) == TEXT


def test_concatenated_snappy_streams_are_read() -> None:
    packed = snappy.compress(b"one ") + snappy.compress(b"two")
    assert decompress(Compression.SNAPPY, packed, limit_bytes=LIMIT) == b"one two"


def test_snappy_is_written_in_blocks_of_32_kib() -> None:
    packed = snappy.compress(bytes(70_000))
    lengths = []
    position = len(snappy.HEADER)
    while position < len(packed):
        (length,) = struct.unpack_from(">i", packed, position)
        lengths.append(length)
        position += 4 + length
    assert len(lengths) == 3


@pytest.mark.parametrize("length", [-1, 1 << 30, 0x7FFFFFFF])
def test_a_wrong_snappy_block_length_is_corrupt(length: int) -> None:
    with pytest.raises(CorruptRecordError):
        snappy.decompress(snappy.HEADER + struct.pack(">i", length) + b"\x01\x00a", LIMIT)


def test_a_snappy_block_that_declares_more_than_it_can_hold_is_corrupt() -> None:
    with pytest.raises(CorruptRecordError, match="cannot decompress to the declared"):
        snappy.decompress(b"\xff\xff\xff\x0f" + bytes(20), 1 << 31)


def test_the_old_lz4_header_checksum_is_written_and_read_for_magic_0_only() -> None:
    old, new = compress(Compression.LZ4, TEXT, magic=0), compress(Compression.LZ4, TEXT)
    assert old != new
    assert decompress(Compression.LZ4, old, limit_bytes=LIMIT, magic=0) == TEXT
    assert decompress(Compression.LZ4, new, limit_bytes=LIMIT, magic=0) == TEXT
    with pytest.raises(CorruptRecordError, match="checksum"):
        decompress(Compression.LZ4, old, limit_bytes=LIMIT, magic=1)


def test_lz4_headers_equal_those_of_kafka() -> None:
    assert compress(Compression.LZ4, TEXT, magic=0)[:7].hex() == "04224d1860401a"
    assert compress(Compression.LZ4, TEXT, magic=1)[:7].hex() == "04224d18604082"


def test_data_after_an_lz4_frame_is_ignored() -> None:
    packed = compress(Compression.LZ4, b"one") + compress(Compression.LZ4, b"two")
    assert decompress(Compression.LZ4, packed, limit_bytes=LIMIT) == b"one"


def test_dependent_lz4_blocks_are_refused_as_in_kafka() -> None:
    with pytest.raises(CorruptRecordError, match="depend"):
        decompress(Compression.LZ4, pytest.importorskip("lz4.frame").compress(TEXT, block_linked=True), limit_bytes=LIMIT)


@pytest.mark.parametrize("store_size", [False, True])
@pytest.mark.parametrize("checksums", [False, True])
def test_lz4_frames_with_any_option_are_read(store_size: bool, checksums: bool) -> None:
    packed = pytest.importorskip("lz4.frame").compress(
        TEXT, block_linked=False, store_size=store_size, content_checksum=checksums, block_checksum=checksums
    )
    assert decompress(Compression.LZ4, packed, limit_bytes=LIMIT) == TEXT


def test_large_lz4_frames_share_memory_but_not_content() -> None:
    generator = random.Random(1)
    texts = [generator.randbytes(size // 4) * 4 for size in (1_500_000, 100_000, 400, 800_000, 3_000_000)]
    frames = [compress(Compression.LZ4, text) for text in texts]
    assert [decompress(Compression.LZ4, frame, limit_bytes=LIMIT * 10) for frame in frames] == texts
    for text, frame in zip(texts, frames, strict=True):
        assert decompress_to_read(Compression.LZ4, frame, limit_bytes=len(text)) == text
        with pytest.raises(RecordTooLargeError):
            decompress_to_read(Compression.LZ4, frame, limit_bytes=len(text) - 1)


def test_a_false_content_size_allocates_nothing() -> None:
    packed = bytearray(pytest.importorskip("lz4.frame").compress(b"abc", block_linked=False, store_size=True))
    struct.pack_into("<Q", packed, 6, 1 << 60)
    packed[14] = lz4_frames.header_checksum(packed[4:14])
    with pytest.raises(CorruptRecordError):
        decompress(Compression.LZ4, packed, limit_bytes=LIMIT)


def test_zstd_frames_of_unknown_size_and_several_of_them_are_read() -> None:
    zstandard = pytest.importorskip("zstandard")
    stream = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    unknown = stream.compress(TEXT) + stream.flush()
    skippable = struct.pack("<II", 0x184D2A53, 3) + b"abc"
    packed = (
        compress(Compression.ZSTD, b"first ") + skippable + unknown + zstandard.ZstdCompressor(write_checksum=True).compress(b"x")
    )
    assert decompress(Compression.ZSTD, packed, limit_bytes=LIMIT) == b"first " + TEXT + b"x"
    with pytest.raises(RecordTooLargeError):
        decompress(Compression.ZSTD, packed, limit_bytes=len(TEXT))


def test_zstd_data_without_frames_is_empty() -> None:
    assert decompress(Compression.ZSTD, b"", limit_bytes=LIMIT) == b""


@pytest.mark.parametrize("level", [None, 1, 9])
@pytest.mark.parametrize("codec", CODECS)
def test_levels(codec: Compression, level: int | None) -> None:
    assert decompress(codec, compress(codec, TEXT, level), limit_bytes=LIMIT) == TEXT


def test_gzip_is_read_by_zlib() -> None:
    assert zlib.decompress(compress(Compression.GZIP, TEXT, 9), 31) == TEXT


@pytest.mark.parametrize("codec", [Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_a_missing_library_is_named(codec: Compression, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cramjam", "lz4.frame", "zstandard"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UnsupportedCompressionTypeError, match=f"{codec.text} cannot be loaded"):
        compress(codec, TEXT)
    valid_head = bytes.fromhex("04224d18604082") if codec == Compression.LZ4 else b""
    packed = bytes.fromhex("28b52ffd2001090000") + b"x" if codec == Compression.ZSTD else valid_head + bytes(20)
    with pytest.raises(UnsupportedCompressionTypeError, match=f"{codec.text} cannot be loaded"):
        decompress(codec, packed, limit_bytes=LIMIT)


@pytest.mark.medium
def test_large_gzip_content_is_in_memory_once() -> None:
    size = 16 << 20
    packed = gzip.compress(bytes(size))
    assert traced_peak_bytes(lambda: decompress_to_read(Compression.GZIP, packed, limit_bytes=size)) < 1.4 * size
    assert decompress(Compression.GZIP, packed, limit_bytes=size) == bytes(size)
    with pytest.raises(RecordTooLargeError):
        decompress(Compression.GZIP, packed, limit_bytes=size - 1)
    with pytest.raises(CorruptRecordError, match="truncated"):
        decompress(Compression.GZIP, packed[:-9], limit_bytes=size)
