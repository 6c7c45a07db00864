"""What is accepted, refused and changed on append; the codes are those that Kafka 3.9's validator answered to the same bytes."""

import contextlib
import itertools
import random
import struct
import threading
import zlib
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.budget import share_of
from tests.support.fake import Fake
from tests.support.traced_memory import traced_peak_bytes
from twisted_kafka.config.keys.kafka_4 import MAX_ARRAY_BYTES
from twisted_kafka.log.results import LogAppendInfo
from twisted_kafka.log.validation import convert as validation_convert
from twisted_kafka.log.validation.log_validator import (
    AppendOrigin,
    InvalidRecordsError,
    InvalidTimestampsError,
    ValidationContext,
    validate_and_assign_offsets,
)
from twisted_kafka.log.validation.produced import the_batch
from twisted_kafka.protocol.errors import (
    CorruptRecordError,
    ErrorCode,
    InvalidProducerEpochError,
    InvalidRecordError,
    KafkaError,
    RecordTooLargeError,
    UnsupportedCompressionTypeError,
)
from twisted_kafka.protocol.records.batch import DefaultBatch, SimpleRecord, TimestampType, batches
from twisted_kafka.protocol.records.builder import assemble_batch, build_batch, end_transaction_marker
from twisted_kafka.protocol.records.checksums import crc32c
from twisted_kafka.protocol.records.compression import Compression, compress
from twisted_kafka.protocol.regions import Buffer
from twisted_kafka.protocol.topic_partition import TopicPartition

NOW = 1_700_000_000_000
FOREVER = (1 << 63) - 1
RECORDS = [SimpleRecord(NOW + i, b"k%d" % i, b"value %d" % i, [("h", None)] * (i % 2)) for i in range(5)]
PLAIN = [record._replace(headers=()) for record in RECORDS]
TICK_NS = 70
"""So much time passes whenever somebody looks."""

CODECS = list(Compression)
LEGACY_CODECS = CODECS[:4]


@dataclass
class Rules(Fake):
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = FOREVER
    message_timestamp_after_max_ms: int = FOREVER
    max_message_bytes: int = 1_048_588
    max_decompressed_message_bytes: int = MAX_ARRAY_BYTES
    compact: bool = False


def validate(data: Buffer, origin: AppendOrigin = AppendOrigin.CLIENT, **rules: Any) -> LogAppendInfo:
    now_ns = itertools.count(0, TICK_NS).__next__
    context = ValidationContext(TopicPartition("topic", 0), 1000, 7, NOW, origin, Rules(**rules), now_ns)
    return validate_and_assign_offsets(data, context)


def patched(data: bytes, position: int, form: str, *values: int) -> bytes:
    """The batch with other header fields and a checksum that is right."""
    out = bytearray(data)
    struct.pack_into(form, out, position, *values)
    struct.pack_into(">I", out, 17, crc32c(bytes(out[21:])))
    return bytes(out)


def one_batch(result: LogAppendInfo) -> DefaultBatch:
    (batch,) = batches(result.records)
    assert isinstance(batch, DefaultBatch)
    assert batch.is_valid()
    (info,) = result.batches
    assert (
        (info.base_offset, info.last_offset) == (batch.base_offset, batch.last_offset) == (result.first_offset, result.last_offset)
    )
    assert (info.max_timestamp_ms, info.size_bytes, info.position) == (batch.max_timestamp_ms, batch.size_bytes, 0)
    assert (info.producer_id, info.producer_epoch) == (batch.producer_id, batch.producer_epoch)
    assert (info.base_sequence, info.last_sequence) == (batch.base_sequence, batch.last_sequence)
    assert (info.is_transactional, info.is_control) == (batch.is_transactional, batch.is_control)
    assert batch.partition_leader_epoch == 7
    assert result.record_count == batch.count == len(list(batch.records()))
    assert result.max_timestamp_ms == batch.max_timestamp_ms
    return batch


def content(batch: DefaultBatch) -> list[tuple[Any, ...]]:
    return [(r.offset, r.timestamp_ms, r.key, r.value, r.headers) for r in batch.records()]


def expected(records: list[SimpleRecord], timestamp_ms: int | None = None) -> list[tuple[Any, ...]]:
    return [
        (1000 + i, r.timestamp_ms if timestamp_ms is None else timestamp_ms, r.key, r.value, tuple(r.headers))
        for i, r in enumerate(records)
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_a_good_batch_is_patched_where_it_lies(codec: Compression) -> None:
    sent = build_batch(RECORDS, compression=codec, producer_id=5, producer_epoch=1, base_sequence=3, is_transactional=True)
    memory = bytearray(b"frame" + sent)
    result = validate(memoryview(memory)[5:])
    batch = one_batch(result)
    assert content(batch) == expected(RECORDS)
    assert memory[5:] == result.records
    assert result.records[12 + 4 :] == sent[12 + 4 :]
    assert (result.record_count, result.source_compression, result.log_append_time_ms) == (5, codec, -1)
    assert (result.max_timestamp_ms, result.last_offset) == (NOW + 4, 1004)


def test_bytes_that_cannot_be_written_are_copied() -> None:
    sent = build_batch(RECORDS)
    before = bytes(sent)
    one_batch(validate(sent))
    assert sent == before


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("wanted", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_a_topic_s_codec(codec: Compression, wanted: str) -> None:
    levels: dict[str, Any] = {"compression_gzip_level": 9, "compression_lz4_level": 12, "compression_zstd_level": 1}
    batch = one_batch(validate(build_batch(RECORDS, compression=codec), compression_type=wanted, **levels))
    assert batch.compression.text == ("none" if wanted == "uncompressed" else wanted)
    assert content(batch) == expected(RECORDS)


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_a_producer_without_an_epoch_is_refused_where_its_batch_is_built_anew(codec: Compression) -> None:
    sent = build_batch(RECORDS, compression=codec, producer_id=5, base_sequence=0)
    assert one_batch(validate(sent)).producer_epoch == -1
    with pytest.raises(InvalidProducerEpochError, match="producer 5 has epoch -1"):
        validate(sent, compression_type="lz4")
    one_batch(validate(build_batch(RECORDS, producer_id=5, producer_epoch=0, base_sequence=0), compression_type="lz4"))
    validate(build_batch(RECORDS, compression=codec), compression_type="lz4")


def test_levels_count() -> None:
    text = b"".join(b"GET /page/%d HTTP/1.1 %d\n" % (number % 83, number * 7919 % 1009) for number in range(3000))
    sizes = [
        len(validate(build_batch([SimpleRecord(NOW, b"", text)]), compression_type="gzip", compression_gzip_level=level).records)
        for level in (1, 9)
    ]
    assert sizes[0] > sizes[1]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("wanted", ["producer", "gzip"])
def test_append_time(codec: Compression, wanted: str) -> None:
    result = validate(build_batch(RECORDS, compression=codec), message_timestamp_type="LogAppendTime", compression_type=wanted)
    batch = one_batch(result)
    assert content(batch) == expected(RECORDS, NOW)
    assert batch.timestamp_type == TimestampType.LOG_APPEND_TIME
    assert result.log_append_time_ms == result.max_timestamp_ms == NOW


def test_append_time_allows_any_timestamp_of_the_producer() -> None:
    sent = build_batch([SimpleRecord(0, b"", b"")])
    one_batch(validate(sent, message_timestamp_type="LogAppendTime", message_timestamp_before_max_ms=10))


def test_a_largest_timestamp_that_lies_is_put_right() -> None:
    batch = one_batch(validate(patched(build_batch(RECORDS), 35, ">q", NOW + 999)))
    assert batch.max_timestamp_ms == NOW + 4


@pytest.mark.parametrize("wanted", ["producer", "zstd"])
def test_append_time_claimed_by_the_producer_on_a_topic_of_create_time(wanted: str) -> None:
    sent = build_batch(RECORDS, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=NOW + 50)
    batch = one_batch(validate(sent, compression_type=wanted))
    assert (batch.timestamp_type, batch.max_timestamp_ms) == (TimestampType.CREATE_TIME, NOW + 50)
    # Records that are written anew get the time that consumers would have seen.
    assert content(batch) == (expected(RECORDS) if wanted == "producer" else expected(RECORDS, NOW + 50))


@pytest.mark.parametrize(("base_ms", "delta_ms", "is_refused"), [(FOREVER, 0, False), (FOREVER, 1, True), (-FOREVER - 1, -1, True)])
def test_timestamps_of_more_than_64_bits(base_ms: int, delta_ms: int, is_refused: bool) -> None:
    sent = patched(build_batch([SimpleRecord(5, b"", b""), SimpleRecord(5 + delta_ms, b"", b"")]), 27, ">q", base_ms)
    if is_refused:
        with pytest.raises(KafkaError, match="64 bits" if delta_ms > 0 else "invalid timestamps"):
            validate(sent)
    else:
        assert one_batch(validate(sent)).max_timestamp_ms == base_ms


@pytest.mark.parametrize("claimed", [NOW, -1])
def test_append_time_claimed_by_the_producer_is_refused(claimed: int) -> None:
    sent = build_batch(RECORDS, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=claimed)
    with pytest.raises(InvalidTimestampsError) as caught:
        validate(sent, message_timestamp_type="LogAppendTime" if claimed >= 0 else "CreateTime")
    assert [index for index, _ in caught.value.record_errors] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    ("times", "refused"),
    [
        ([NOW - 100, NOW, NOW + 50], []),
        ([NOW - 101, NOW, NOW + 51], [0, 2]),
        ([NOW - 101, NOW - 100, NOW + 50], [0]),
        ([-1, NOW, -1], []),
        ([-2, NOW, NOW], [0]),
    ],
)
def test_timestamps_out_of_range(codec: Compression, times: list[int], refused: list[int]) -> None:
    sent = build_batch([SimpleRecord(time, b"k", b"v") for time in times], compression=codec)
    limits: dict[str, Any] = {"message_timestamp_before_max_ms": 100, "message_timestamp_after_max_ms": 50}
    if not refused:
        one_batch(validate(sent, **limits))
        return
    with pytest.raises(InvalidTimestampsError) as caught:
        validate(sent, **limits)
    assert [index for index, _ in caught.value.record_errors] == refused


@pytest.mark.parametrize("codec", CODECS)
def test_keys_are_required_on_compacted_topics(codec: Compression) -> None:
    sent = build_batch([SimpleRecord(NOW, key, b"v") for key in (b"k", None, b"", None)], compression=codec)
    one_batch(validate(sent))
    with pytest.raises(InvalidRecordsError) as caught:
        validate(sent, compact=True)
    assert [index for index, _ in caught.value.record_errors] == [1, 3]
    assert caught.value.keyless == 2


def test_control_batches_come_from_coordinators_only() -> None:
    marker = end_transaction_marker(commit=True, producer_id=1, producer_epoch=0, coordinator_epoch=2, timestamp_ms=NOW)
    with pytest.raises(InvalidRecordError, match="control"):
        validate(marker)
    batch = one_batch(validate(marker, AppendOrigin.COORDINATOR, compression_type="gzip", compact=True))
    assert batch.is_control
    assert batch.compression == Compression.NONE


def test_sizes() -> None:
    sent = build_batch(RECORDS)
    one_batch(validate(sent, max_message_bytes=len(sent)))
    with pytest.raises(RecordTooLargeError):
        validate(sent, max_message_bytes=len(sent) - 1)


def test_a_batch_that_grows_too_large_on_the_way_is_refused() -> None:
    sent = build_batch([SimpleRecord(NOW, b"", bytes(5000))], compression=Compression.ZSTD)
    with pytest.raises(RecordTooLargeError):
        validate(sent, max_message_bytes=1000, compression_type="uncompressed")


@pytest.mark.parametrize("position", [17, 21, 30, 60, 70, -1])
def test_a_wrong_checksum(position: int) -> None:
    sent = bytearray(build_batch(RECORDS))
    sent[position] ^= 0x10
    with pytest.raises(CorruptRecordError):
        validate(sent)


@pytest.mark.parametrize(
    ("position", "form", "values", "error"),
    [
        pytest.param(0, ">q", (1,), InvalidRecordError, id="base offset"),
        pytest.param(23, ">i", (5,), InvalidRecordError, id="last offset delta too large"),
        pytest.param(23, ">i", (3,), InvalidRecordError, id="last offset delta too small"),
        pytest.param(23, ">i", (-1,), InvalidRecordError, id="last offset delta negative"),
        pytest.param(57, ">i", (4,), InvalidRecordError, id="count too small"),
        pytest.param(57, ">i", (6,), InvalidRecordError, id="count too large"),
        pytest.param(57, ">i", (0,), InvalidRecordError, id="count zero"),
        pytest.param(57, ">i", (-1,), InvalidRecordError, id="count negative"),
        pytest.param(57, ">i", (0x7FFFFFFF,), InvalidRecordError, id="count huge"),
        pytest.param(21, ">h", (5,), UnsupportedCompressionTypeError, id="codec 5"),
        pytest.param(21, ">h", (7,), UnsupportedCompressionTypeError, id="codec 7"),
        pytest.param(21, ">h", (1,), InvalidRecordError, id="not gzip"),
        pytest.param(21, ">h", (2,), InvalidRecordError, id="not snappy"),
        pytest.param(21, ">h", (3,), InvalidRecordError, id="not lz4"),
        pytest.param(21, ">h", (4,), InvalidRecordError, id="not zstd"),
        pytest.param(43, ">qhi", (5, 0, -1), InvalidRecordError, id="producer without sequence"),
        pytest.param(16, ">b", (3,), CorruptRecordError, id="magic"),
        pytest.param(16, ">b", (-1,), CorruptRecordError, id="magic negative"),
        pytest.param(8, ">i", (13,), CorruptRecordError, id="size too small"),
        pytest.param(8, ">i", (-1,), CorruptRecordError, id="size negative"),
        pytest.param(8, ">i", (40,), CorruptRecordError, id="size smaller than the header"),
    ],
)
def test_headers_that_lie(position: int, form: str, values: tuple[int, ...], error: type[KafkaError]) -> None:
    with pytest.raises(error):
        validate(patched(build_batch(RECORDS), position, form, *values))


@pytest.mark.parametrize(("count", "delta"), [(4, 3), (6, 5), (300, 299), (0, -1)])
@pytest.mark.parametrize("codec", CODECS)
def test_count_and_last_offset_that_lie_together(codec: Compression, count: int, delta: int) -> None:
    sent = build_batch(RECORDS, compression=codec)
    with pytest.raises(InvalidRecordError):
        validate(patched(patched(sent, 57, ">i", count), 23, ">i", delta))


@pytest.mark.parametrize("codec", CODECS)
def test_offset_deltas_are_put_in_order(codec: Compression) -> None:
    sent = build_batch(RECORDS, compression=codec, offset_deltas=[4, 0, 0, 9, 2], last_offset_delta=4)
    assert content(one_batch(validate(sent))) == expected(RECORDS)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [1, 1000])
def test_records_that_do_not_parse(codec: Compression, size: int) -> None:
    records = [SimpleRecord(NOW, b"k", b"v")] * size
    (good,) = batches(build_batch(records))
    assert isinstance(good, DefaultBatch)
    payload = good.payload()
    fields = (0, -1, int(codec), size - 1, NOW, NOW, -1, -1, -1, size)
    one_batch(validate(assemble_batch(compress(codec, payload), fields)))
    for broken in (payload + b"\0", payload[:-1], payload[:-1] + b"\1", b"\x01" + payload[1:], b""):
        with pytest.raises(InvalidRecordError):
            validate(assemble_batch(compress(codec, broken), fields))


@pytest.mark.medium
@pytest.mark.parametrize("codec", CODECS[1:])
def test_decompression_bombs(codec: Compression) -> None:
    bomb = compress(codec, bytes(80 << 20))
    with pytest.raises(RecordTooLargeError):
        validate(assemble_batch(bomb, (0, -1, int(codec), 0, NOW, NOW, -1, -1, -1, 1)), max_message_bytes=16 << 20)


@pytest.mark.parametrize("codec", CODECS)
def test_records_that_are_too_large_when_they_are_decompressed(codec: Compression) -> None:
    """Apache Kafka 4.4 accepts 1,993 bytes of value with this limit, and not one more."""
    for sizes, is_valid in (([1993], True), ([1994], False), ([1990, 1990], True), ([9, 1994], False), ([1994, 9], False)):
        sent = build_batch([SimpleRecord(NOW, None, bytes(size)) for size in sizes], compression=codec)
        if is_valid or codec is Compression.NONE:
            validate(sent, max_decompressed_message_bytes=2000)
        else:
            with pytest.raises(InvalidRecordError, match=r"max\.decompressed"):
                validate(sent, max_decompressed_message_bytes=2000)


SMALLEST = b"\x0c\x00\x00\x00\x01\x01\x00"
"""A record without key and value, its length in front; its offset delta is 0."""


def many(records: int) -> bytes:
    payload = compress(Compression.GZIP, SMALLEST * records)
    return bytes(assemble_batch(payload, (0, -1, 1, records - 1, NOW, NOW, -1, -1, -1, records)))


@pytest.mark.medium
@pytest.mark.parametrize("records", [9_000_000, 300_000])
def test_a_small_request_cannot_keep_a_partition_waiting_for_minutes(records: int) -> None:
    """Nine million records, which all had to get another offset, came in 92 KB and took three minutes and 1.4 GB."""
    with pytest.raises(RecordTooLargeError, match="records"):
        validate(bytearray(many(records)))


def test_messages_of_old_formats_cannot_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation_convert, "MAX_REWRITTEN_RECORDS", 1000)
    message = build_batch([SimpleRecord(NOW, None, b"")], magic=1)
    inner = b"".join([struct.pack(">q", offset) + message[8:] for offset in range(1001)])
    value = compress(Compression.GZIP, inner)
    body = struct.pack(">bbqii", 1, 1, NOW, -1, len(value)) + value
    data = struct.pack(">qiI", 1000, len(body) + 4, zlib.crc32(body)) + body
    with pytest.raises(RecordTooLargeError, match="messages"):
        validate(data, max_message_bytes=len(data))
    with pytest.raises(RecordTooLargeError, match="records"):
        validate(message * 1001)


def test_not_more_faults_are_told_than_anybody_reads() -> None:
    with pytest.raises(InvalidRecordsError) as caught:
        validate(many(20_000), compact=True)
    assert len(caught.value.record_errors) == 10_000


def test_one_batch_only() -> None:
    sent = build_batch(RECORDS)
    with pytest.raises(InvalidRecordError):
        validate(sent + sent)
    with pytest.raises(CorruptRecordError):
        validate(sent + sent[:-1] + b"\xff")


def test_of_several_batches_the_errors_of_each_come_first() -> None:
    sent, later = build_batch(RECORDS), build_batch(RECORDS, base_offset=5)
    with pytest.raises(InvalidRecordError, match="the base offset of a batch from a client must be 0, not 5"):
        validate(sent + later)
    for more, origin in ((later, AppendOrigin.COORDINATOR), (build_batch(PLAIN, magic=1, base_offset=5), AppendOrigin.CLIENT)):
        with pytest.raises(InvalidRecordError, match=r"\d record batches"):
            validate(sent + sent + more, origin)
    with pytest.raises(InvalidRecordError, match="3 record batches"):
        validate(sent * 3)
    with pytest.raises(RecordTooLargeError):
        validate(sent + build_batch([*RECORDS, *RECORDS]), max_message_bytes=len(sent))


def test_an_incomplete_batch_is_left_out() -> None:
    sent = build_batch(RECORDS)
    result = validate(sent[:-1])
    assert (result.record_count, result.first_offset, result.last_offset, len(result.records)) == (0, -1, -1, 0)
    assert validate(b"").record_count == 0
    assert one_batch(validate(sent + sent[:-1])).size_bytes == len(sent)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", LEGACY_CODECS)
@pytest.mark.parametrize("wanted", ["producer", "zstd"])
@pytest.mark.parametrize("append_time", [False, True])
def test_formats_0_and_1_become_one_batch(magic: int, codec: Compression, wanted: str, append_time: bool) -> None:
    sent = build_batch(PLAIN, magic=magic, compression=codec)
    rules: dict[str, Any] = {"message_timestamp_type": "LogAppendTime"} if append_time else {}
    result = validate(sent, compression_type=wanted, **rules)
    batch = one_batch(result)
    times = NOW if append_time else -1 if magic == 0 else None
    assert content(batch) == expected(PLAIN, times)
    assert batch.compression.text == (codec.text if wanted == "producer" else wanted)
    assert result.conversion is not None
    assert (result.conversion.records, result.source_compression) == (5, codec)
    assert result.conversion.time_ns == TICK_NS
    decompressed_bytes = len(build_batch(PLAIN, magic=magic)) if codec else 0
    assert result.conversion.temporary_bytes == decompressed_bytes + len(result.records)
    assert result.log_append_time_ms == (NOW if append_time else -1)


@pytest.mark.parametrize("codec", LEGACY_CODECS)
def test_formats_0_and_1_obey_the_topic_s_rules(codec: Compression) -> None:
    records = [SimpleRecord(NOW - 50 * i, key, b"v") for i, key in enumerate((b"k", None))]
    sent = build_batch(records, magic=1, compression=codec)
    with pytest.raises(InvalidTimestampsError) as caught:
        validate(sent, message_timestamp_before_max_ms=49)
    assert [index for index, _ in caught.value.record_errors] == [1 if codec else 0]
    with pytest.raises(InvalidRecordsError):
        validate(sent, compact=True)
    with pytest.raises(RecordTooLargeError):
        validate(sent, max_message_bytes=10)


def test_formats_0_and_1_are_not_mixed() -> None:
    first, second = (bytes(build_batch(PLAIN[:1], magic=magic)) for magic in (1, 0))
    assert validate(first + first).record_count == 2
    with pytest.raises(InvalidRecordError, match="must have the same magic as the first one, 1"):
        validate(first + second)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", LEGACY_CODECS)
def test_wrong_checksums_in_formats_0_and_1(magic: int, codec: Compression) -> None:
    sent = bytearray(build_batch(PLAIN, magic=magic, compression=codec))
    sent[-1] ^= 1
    with pytest.raises(CorruptRecordError):
        validate(sent)


def with_inner(inner: bytes, codec: Compression = Compression.GZIP, offset: int = 4) -> bytes:
    """A compressed message of format 1 around some bytes, with a checksum that is right."""
    packed = compress(codec, inner)
    body = struct.pack(">bbqi", 1, codec, NOW, -1) + struct.pack(">i", len(packed)) + packed
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def test_compressed_messages_that_lie() -> None:
    inner = build_batch(PLAIN, magic=1)
    one_batch(validate(with_inner(inner)))
    broken = bytearray(inner)
    broken[-1] ^= 1
    with pytest.raises(CorruptRecordError):
        validate(with_inner(bytes(broken)))
    for bad in (
        with_inner(build_batch(PLAIN, magic=0)),
        with_inner(b""),
        with_inner(inner[:-1]),
        with_inner(with_inner(inner)),
        with_inner(inner, offset=3),
        with_inner(inner) + with_inner(inner),
        with_inner(inner) + build_batch(PLAIN),
    ):
        with pytest.raises(InvalidRecordError):
            validate(bad)


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", CODECS)
def test_what_is_accepted_can_be_read_whatever_was_sent(magic: int, codec: Compression) -> None:
    if magic < 2 and codec == Compression.ZSTD:
        return
    generator = random.Random(100 * magic + codec)
    sent = build_batch(RECORDS * 2, magic=magic, compression=codec)
    for _ in range(share_of(2_000)):
        broken = bytearray(sent)
        for _ in range(generator.choice([1, 1, 2, 5])):
            broken[generator.randrange(12, len(broken))] = generator.randrange(256)
        if magic == 2:
            struct.pack_into(">I", broken, 17, crc32c(bytes(broken[21:])))
        else:
            struct.pack_into(">I", broken, 12, zlib.crc32(bytes(broken[16:])))
        rules: dict[str, Any] = {
            "compression_type": generator.choice(["producer", "producer", "gzip", "uncompressed"]),
            "message_timestamp_type": generator.choice(["CreateTime", "LogAppendTime"]),
        }
        with contextlib.suppress(KafkaError):
            result = validate(broken, **rules)
            if result.record_count:
                assert [offset for offset, *_ in content(one_batch(result))] == list(range(1000, 1000 + result.record_count))


def test_the_batch_of_a_produce() -> None:
    good = build_batch(RECORDS)
    zstd = build_batch(RECORDS, compression=Compression.ZSTD)
    transactional = build_batch(RECORDS, is_transactional=True, producer_id=7, producer_epoch=0, base_sequence=0)
    for records, version in ((good, 3), (good + good[:-1], 3), (zstd, 7)):
        batch, error = the_batch(records, version, None)
        assert error == 0
        assert batch in (good, zstd)
    assert the_batch(transactional, 9, "t")[1] == 0
    refused = {
        ErrorCode.INVALID_RECORD: [None, b"", good[:-1], good + good, build_batch(PLAIN, magic=1)],
        ErrorCode.CORRUPT_MESSAGE: [good[:16] + b"\x09" + good[17:], good[:8] + bytes(4) + good[12:], good + bytes(12)],
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: [transactional],
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: [zstd],
    }
    for expected, each in refused.items():
        for records in each:
            assert the_batch(records, 6, None)[1] == expected


def test_what_is_written_as_it_came_costs_nothing() -> None:
    assert validate(build_batch(PLAIN)).conversion is None


@pytest.mark.parametrize("codec", CODECS[1:])
def test_decompressing_takes_memory_for_a_while(codec: Compression) -> None:
    plain_bytes = len(build_batch(PLAIN)) - 61
    result = validate(build_batch(PLAIN, compression=codec))
    assert result.conversion == (0, 0, plain_bytes)
    anew = validate(build_batch(PLAIN, compression=codec), compression_type="uncompressed")
    assert anew.conversion == (5, TICK_NS, plain_bytes + len(anew.records))
    compressed = validate(build_batch(PLAIN), compression_type=codec.name.lower())
    assert compressed.conversion == (5, TICK_NS, len(compressed.records))


@pytest.mark.medium
@pytest.mark.parametrize("magic", [1, 2])
def test_batches_with_large_records_do_not_take_their_memory_at_once(magic: int) -> None:
    large_bytes = 12 << 20
    data = build_batch([SimpleRecord(NOW, None, bytes(large_bytes))], compression=Compression.GZIP, magic=magic)
    counts: list[int] = []
    threads = [threading.Thread(target=lambda: counts.append(validate(data).record_count)) for _ in range(4)]

    def run() -> None:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

    peak_bytes = traced_peak_bytes(run)
    assert counts == [1] * 4
    small_bytes = len(threads) * validation_convert.SMALL_PAYLOAD_BYTES
    assert peak_bytes < (2 if magic == 2 else 4) * large_bytes + 2 * small_bytes
