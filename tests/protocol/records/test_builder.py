"""Other implementations read what the builder writes, and the other way round."""

import random
from typing import Any

import pytest

from twisted_kafka.protocol.errors import CorruptRecordError, InvalidRecordError, KafkaError, UnsupportedCompressionTypeError
from twisted_kafka.protocol.records.batch import (
    ControlRecordType,
    SimpleRecord,
    TimestampType,
    batches,
    control_record_type,
    parse_batch,
)
from twisted_kafka.protocol.records.builder import (
    BatchOptions,
    build_batch,
    control_batch,
    end_transaction_coordinator_epoch,
    end_transaction_marker,
)
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.protocol.records.conversion import down_convert
from twisted_kafka.system.interpreter import HAS_CODEC_EXTENSIONS

MS = 1_700_000_000_000
RECORDS = [
    SimpleRecord(MS, b"key", b"value"),
    SimpleRecord(MS + 5, None, b"x" * 300),
    SimpleRecord(MS - 3, b"", None),
    SimpleRecord(MS + 1, b"k", b"", [("h", b"v"), ("h", None), ("\u00e4", b"")]),
]
PLAIN = [record._replace(headers=()) for record in RECORDS]
# kafka-python's snappy needs a separate package; aiokafka's does not. Its lz4 and zstd need those that have no wheel for PyPy.
WITHOUT_SNAPPY = (
    [codec for codec in Compression if codec != Compression.SNAPPY]
    if HAS_CODEC_EXTENSIONS
    else [Compression.NONE, Compression.GZIP]
)
LEGACY_CODECS = [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4]


def content(data: bytes) -> list[tuple[Any, ...]]:
    return [
        (record.offset, record.timestamp_ms, record.key, record.value, record.headers)
        for batch in batches(data)
        for record in batch.records()
    ]


def expected(records: list[SimpleRecord], first: int = 0) -> list[tuple[Any, ...]]:
    return [(first + i, r.timestamp_ms, r.key, r.value, tuple(r.headers)) for i, r in enumerate(records)]


@pytest.mark.parametrize("codec", list(Compression))
def test_round_trip_of_format_2(codec: Compression) -> None:
    data = build_batch(RECORDS, base_offset=70, compression=codec, producer_id=4, producer_epoch=2, base_sequence=2147483646)
    assert content(data) == expected(RECORDS, 70)
    (batch,) = batches(data)
    assert batch.is_valid()
    assert (batch.base_offset, batch.last_offset, batch.next_offset, batch.count, batch.size_bytes) == (70, 73, 74, 4, len(data))
    assert (batch.compression, batch.max_timestamp_ms, batch.base_timestamp_ms) == (codec, MS + 5, MS)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence) == (4, 2, 2147483646, 1)
    assert [record.sequence for record in batch.records()] == [2147483646, 2147483647, 0, 1]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", LEGACY_CODECS)
def test_round_trip_of_formats_0_and_1(magic: int, codec: Compression) -> None:
    data = build_batch(RECORDS, magic=magic, base_offset=70, compression=codec)
    plain = [record._replace(timestamp_ms=-1) for record in PLAIN] if magic == 0 else PLAIN
    assert content(data) == expected(plain, 70)
    read = list(batches(data))
    assert all(batch.is_valid() for batch in read)
    assert len(read) == (1 if codec else 4)
    assert (read[0].base_offset, read[-1].last_offset) == (70, 73)


@pytest.mark.parametrize("magic", [1, 2])
@pytest.mark.parametrize("codec", LEGACY_CODECS)
def test_append_time_is_the_timestamp_of_every_record(magic: int, codec: Compression) -> None:
    data = build_batch(
        PLAIN, magic=magic, compression=codec, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=MS + 99
    )
    assert {found[1] for found in content(data)} == {MS + 99}
    assert {batch.timestamp_type for batch in batches(data)} == {TimestampType.LOG_APPEND_TIME}


@pytest.mark.parametrize("codec", WITHOUT_SNAPPY)
def test_kafka_python_reads_what_is_written(codec: Compression) -> None:
    memory = pytest.importorskip("kafka.record.memory_records")
    data = build_batch(RECORDS, compression=codec, base_offset=9)
    batch = memory.MemoryRecords(data).next_batch()
    assert batch.validate_crc()
    found = [(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in batch]
    assert found == expected(RECORDS, 9)


@pytest.mark.parametrize("codec", WITHOUT_SNAPPY)
def test_what_kafka_python_writes_is_read(codec: Compression) -> None:
    module = pytest.importorskip("kafka.record.default_records")
    builder = module.DefaultRecordBatchBuilder(
        magic=2, compression_type=int(codec), is_transactional=1, producer_id=3, producer_epoch=4, base_sequence=5, batch_size=99999
    )
    for offset, record in enumerate(RECORDS):
        builder.append(offset, record.timestamp_ms, record.key, record.value, list(record.headers))
    data = bytes(builder.build())
    assert content(data) == expected(RECORDS)
    (batch,) = batches(data)
    assert batch.is_valid()
    assert batch.is_transactional
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (3, 4, 5)


def test_uncompressed_batches_equal_those_of_kafka_python() -> None:
    module = pytest.importorskip("kafka.record.default_records")
    builder = module.DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 99999)
    for offset, record in enumerate(RECORDS):
        builder.append(offset, record.timestamp_ms, record.key, record.value, list(record.headers))
    assert bytes(builder.build())[:12] == build_batch(RECORDS)[:12]
    assert bytes(builder.build())[16:] == build_batch(RECORDS)[16:]  # kafka-python's leader epoch is 0


@pytest.mark.parametrize("codec", list(Compression))
def test_aiokafka_reads_what_is_written(codec: Compression) -> None:
    memory = pytest.importorskip("aiokafka.record.memory_records")
    batch = memory.MemoryRecords(build_batch(RECORDS, compression=codec)).next_batch()
    assert batch.validate_crc()
    assert [(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in batch] == expected(RECORDS)


@pytest.mark.parametrize("codec", list(Compression))
def test_what_aiokafka_writes_is_read(codec: Compression) -> None:
    module = pytest.importorskip("aiokafka.record.default_records")
    builder = module.DefaultRecordBatchBuilder(2, int(codec), 0, -1, -1, -1, 99999)
    for offset, record in enumerate(RECORDS):
        builder.append(offset, record.timestamp_ms, record.key, record.value, list(record.headers))
    data = bytes(builder.build())
    assert content(data) == expected(RECORDS)
    assert all(batch.is_valid() for batch in batches(data))


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_formats_0_and_1_of_kafka_python(magic: int, codec: Compression) -> None:
    module = pytest.importorskip("kafka.record.legacy_records")
    builder = module.LegacyRecordBatchBuilder(magic, int(codec), 99999)
    for offset, record in enumerate(PLAIN):
        builder.append(offset, record.timestamp_ms, record.key, record.value)
    plain = [record._replace(timestamp_ms=-1) for record in PLAIN] if magic == 0 else PLAIN
    theirs = bytes(builder.build())
    ours = build_batch(PLAIN, magic=magic, compression=codec)
    assert content(ours) == expected(plain)
    # kafka-python leaves the outer offset 0; the inner offsets are then absolute.
    assert content(theirs) == expected(plain)
    if not codec:
        assert ours == theirs


def test_control_batches() -> None:
    for commit, kind in ((True, ControlRecordType.COMMIT), (False, ControlRecordType.ABORT)):
        data = end_transaction_marker(
            commit=commit, producer_id=7, producer_epoch=3, coordinator_epoch=11, timestamp_ms=MS, base_offset=5
        )
        (batch,) = batches(data)
        (record,) = batch.records()
        assert batch.is_control
        assert batch.is_transactional
        assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, record.offset) == (7, 3, -1, 5)
        assert control_record_type(record.key) is kind
        assert end_transaction_coordinator_epoch(record.value) == 11
    (batch,) = batches(control_batch(ControlRecordType.LEADER_CHANGE, b"", timestamp_ms=MS))
    assert batch.is_control
    assert control_record_type(b"\0\0\0\x63") is ControlRecordType.UNKNOWN
    assert control_record_type(None) is ControlRecordType.UNKNOWN
    with pytest.raises(ValueError):
        end_transaction_coordinator_epoch(b"\0\0")


def test_compacted_batches_keep_offsets_and_delete_horizon() -> None:
    data = build_batch(RECORDS[:2], base_offset=10, offset_deltas=[2, 5], last_offset_delta=9, delete_horizon_ms=MS + 1000)
    (batch,) = batches(data)
    assert [record.offset for record in batch.records()] == [12, 15]
    assert [record.timestamp_ms for record in batch.records()] == [MS, MS + 5]
    assert (batch.base_offset, batch.last_offset, batch.delete_horizon_ms) == (10, 19, MS + 1000)


def test_an_empty_batch_keeps_its_offsets() -> None:
    (batch,) = batches(build_batch([], base_offset=10, last_offset_delta=3))
    assert (list(batch.records()), batch.last_offset, batch.count) == ([], 13, 0)


def test_formats_0_and_1_do_not_support_zstd() -> None:
    with pytest.raises(UnsupportedCompressionTypeError):
        build_batch(RECORDS, magic=1, compression=Compression.ZSTD)
    with pytest.raises(UnsupportedCompressionTypeError):
        down_convert(build_batch(RECORDS, compression=Compression.ZSTD), 1)


@pytest.mark.parametrize("codec", LEGACY_CODECS)
def test_down_conversion(codec: Compression) -> None:
    options = BatchOptions(base_offset=70, compression=codec)
    marker = end_transaction_marker(
        commit=True, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=MS, base_offset=74
    )
    data = build_batch(RECORDS, **options) + marker
    version_1 = down_convert(data, 1)
    assert content(version_1) == expected(PLAIN, 70)
    assert {batch.magic for batch in batches(version_1)} == {1}
    version_0 = down_convert(data, 0)
    assert content(version_0) == expected([record._replace(timestamp_ms=-1) for record in PLAIN], 70)
    assert content(down_convert(version_1, 0)) == content(version_0)
    assert down_convert(version_0, 1) == version_0
    assert down_convert(data, 2) == data


def test_down_conversion_stops_before_a_batch_with_zstd() -> None:
    readable, unknown = build_batch(RECORDS), build_batch(RECORDS, base_offset=4, compression=Compression.ZSTD)
    assert content(down_convert(readable + unknown, 1)) == content(down_convert(readable, 1))


def test_down_conversion_omits_records_before_the_first_offset() -> None:
    assert [found[0] for found in content(down_convert(build_batch(RECORDS, base_offset=70), 1, first_offset=72))] == [72, 73]
    compressed = build_batch(RECORDS, base_offset=70, compression=Compression.GZIP)
    assert [found[0] for found in content(down_convert(compressed, 1, first_offset=72))] == [70, 71, 72, 73]


def test_down_conversion_stops_after_the_batch_that_makes_it_large_enough() -> None:
    data = b"".join(build_batch(RECORDS, base_offset=offset) for offset in (0, 10, 20))
    one = len(down_convert(build_batch(RECORDS), 1))
    assert down_convert(data, 1, limit_bytes=1) == down_convert(data, 1)[:one]
    assert down_convert(data, 1, limit_bytes=one + 1) == down_convert(data, 1)[: 2 * one]
    assert down_convert(data, 1, limit_bytes=3 * one) == down_convert(data, 1)


def test_conversion_keeps_the_gaps_of_compacted_batches() -> None:
    data = build_batch(PLAIN, base_offset=70, offset_deltas=[1, 4, 5, 9], last_offset_delta=12, compression=Compression.GZIP)
    for magic in (0, 1):
        assert [found[0] for found in content(down_convert(data, magic))] == [71, 74, 75, 79]


def test_an_incomplete_last_batch_is_omitted() -> None:
    data = build_batch(RECORDS)
    for end in range(len(data)):
        assert list(batches(data[:end])) == []
        assert len(list(batches(data + data[:end]))) == 1


@pytest.mark.parametrize(("at", "value"), [(16, 3), (16, 255), (8, 0x80), (10, 0)])
def test_invalid_sizes_and_magics_are_corrupt(at: int, value: int) -> None:
    data = bytearray(build_batch(RECORDS[:1]))
    data[11] = 13 if at == 10 else data[11]
    data[at] = value
    with pytest.raises(CorruptRecordError):
        parse_batch(memoryview(data))


def test_header_keys_that_are_not_utf_8_survive() -> None:
    raw = bytes([0, 0, 0, 1, 1, 2, 4, 0xFF, 0xFE, 1])
    from twisted_kafka.protocol.records.batch import parse_records
    from twisted_kafka.protocol.records.builder import encode_records

    payload = bytes([len(raw) << 1]) + raw
    (record,) = parse_records(payload, 1, 0, 0)
    assert bytes(encode_records([record], 0)) == payload


@pytest.mark.medium
@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", list(Compression))
def test_mutations_raise_kafka_errors_and_end(magic: int, codec: Compression) -> None:
    if magic < 2 and codec == Compression.ZSTD:
        return
    generator = random.Random(magic * 10 + codec)
    data = build_batch(RECORDS * 3, magic=magic, compression=codec)
    for _ in range(700):
        broken = bytearray(data)
        for _ in range(generator.choice([1, 2, 8])):
            broken[generator.randrange(len(broken))] = generator.randrange(256)
        try:
            for batch in batches(bytes(broken[: generator.choice([len(broken), generator.randrange(len(broken))])])):
                batch.is_valid()
                list(batch.records(1 << 20))
                down_convert(batch.data, 0)
        except KafkaError:
            pass


def test_malformed_records_are_invalid() -> None:
    data = bytearray(build_batch(RECORDS))
    data[60] += 1
    (batch,) = batches(data)
    with pytest.raises(InvalidRecordError):
        list(batch.records())
    assert not batch.is_valid()
