"""Compaction of one log: what stays, what goes, in which files, and what a crash or a full disk in between does."""

import errno
import itertools
import os
import random
import shutil
import struct
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

from tests.log.crash_disk import CrashDisk, MachineDied, deaths
from tests.support.budget import STRIDE, share_of
from tests.support.compaction import LIMITS, RETENTION_MS, Writer, clean, committed, last_values, run, unhindered
from tests.support.logs import NOW_MS, Bench, contents, data_of
from twisted_kafka.config.topic_config import LogConfig
from twisted_kafka.log.cleaner import offset_map as cleaner_offset_map
from twisted_kafka.log.cleaner.blocks import DataBatch, read_blocks
from twisted_kafka.log.cleaner.cleaner import Cleaner, LogCleaningAbortedError, group_by_size
from twisted_kafka.log.cleaner.filter import BlockFilter, Rules
from twisted_kafka.log.cleaner.plain_offset_map import PlainOffsetMap
from twisted_kafka.log.cleaner.transactions import CleanedTransactions
from twisted_kafka.log.results import AbortedTransaction, FetchIsolation
from twisted_kafka.log.segment.log_segment import LogSegment
from twisted_kafka.log.segment.transaction_index import TransactionIndex
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.log.validation.log_validator import AppendOrigin
from twisted_kafka.protocol.errors import CorruptRecordError
from twisted_kafka.protocol.records.batch import DefaultBatch, batches
from twisted_kafka.protocol.records.builder import build_batch, encode_records, end_transaction_marker
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.protocol.records.legacy import LegacyBatch
from twisted_kafka.protocol.records.record import SimpleRecord, TimestampType
from twisted_kafka.system import machine
from twisted_kafka.system.interpreter import NUMPY_PAYS

VECTORISED = "twisted_kafka.log.cleaner.vector_offset_map"
VALUE_OF_FIRST_RECORD = 61 + 7
PARTS = 20
"""So that what the crashes of one part leave open is closed before the next."""
SEEDS = share_of(15)


@pytest.fixture(params=["arrays", "dictionary"] if NUMPY_PAYS else ["dictionary"])
def table(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaner_offset_map, "VECTORISED_FROM_BYTES", 0 if request.param == "arrays" else 1 << 60)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "topic-0", segment_bytes=2000, cleanup_policy=("compact",), delete_retention_ms=RETENTION_MS)


def keyed(*pairs: Any, timestamp_ms: int = NOW_MS, **options: Any) -> bytearray:
    return bytearray(build_batch([SimpleRecord(timestamp_ms, key, value) for key, value in pairs], **options))


def put(log: UnifiedLog, *pairs: Any, **options: Any) -> int:
    info = log.append_as_leader(keyed(*pairs, **options), 0)
    log.update_high_watermark(log.log_end_offset)
    return info.first_offset


def mark(log: UnifiedLog, *, commit: Any, producer_id: int = 7) -> None:
    marker = end_transaction_marker(
        commit=commit, coordinator_epoch=0, timestamp_ms=NOW_MS, producer_id=producer_id, producer_epoch=0
    )
    log.append_as_leader(bytearray(marker), 0, AppendOrigin.COORDINATOR)
    log.update_high_watermark(log.log_end_offset)


def raw(log: UnifiedLog) -> list[LegacyBatch | DefaultBatch]:
    """Every batch of the log."""
    return [each for segment in log.segments for each in batches(segment.path.read_bytes())]  # type: ignore[misc]


@pytest.mark.medium
@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_is_written_the_last_of_each_key_stays(tmp_path: Path, seed: int) -> None:
    run(tmp_path / "topic-0", seed)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(PARTS))
def test_whatever_is_written_thousands_of_times(tmp_path: Path, part: int) -> None:
    for seed in range(1000 + part, 3000, PARTS):
        try:
            run(tmp_path / f"topic-{seed}", seed, 40)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
        shutil.rmtree(tmp_path / f"topic-{seed}")


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("codec", Compression)
def test_the_last_value_stays_at_its_offset(bench: Bench, codec: Compression) -> None:
    log = bench.open()
    for number in range(40):
        put(log, (b"a", b"%d" % number), (b"b%d" % (number % 7), b"x" * number), compression=codec)
    log.roll()
    before = last_values(log)
    was = log.size_bytes
    clean(log, bench)
    assert last_values(log) == before
    assert log.size_bytes < was / 2
    assert log.log_end_offset == 80
    assert [record.offset for record in committed(log)] == sorted(record.offset for record in committed(log))
    log = bench.reopen_clean(log)
    log.update_high_watermark(log.log_end_offset)
    assert last_values(log) == before


def test_few_compressed_batches_are_decompressed_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    value = bytes(4 << 20)
    sizes: list[int] = []
    checks: list[int] = []

    def counted(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: PlainOffsetMap, some: list[DataBatch], *rest: Any) -> Any:
            sizes.append(sum(len(each.payload) for each in some))
            return method(self, some, *rest)

        return call

    for name in ("put", "survivors"):
        monkeypatch.setattr(PlainOffsetMap, name, counted(getattr(PlainOffsetMap, name)))
    monkeypatch.setattr(cleaner_offset_map, "VECTORISED_FROM_BYTES", 1 << 60)
    bench.config = LogConfig(cleanup_policy=("compact",))
    log = bench.open()
    for number in range(6):
        put(log, (b"k%d" % (number % 2), value), compression=Compression.GZIP)
    log.roll()
    Cleaner(bench.clock, LIMITS).clean(log, 0, log.log_end_offset, checks.append)
    assert [record.offset for record in committed(log)] == [4, 5]
    assert max(sizes) < 3 * len(value)
    assert sum(sizes) > 12 * len(value)
    assert checks.count(0) > len(sizes)  # between them, a cleaning can be aborted


@pytest.mark.usefixtures("table")
def test_a_tombstone_stays_for_the_retention_after_its_first_cleaning(bench: Bench) -> None:
    log = bench.open()
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", None), (b"c", b"2"), timestamp_ms=NOW_MS + 5)
    log.roll()
    put(log, (b"d", b"3"))
    log.roll()
    clean(log, bench)
    with_tombstone = raw(log)[1]
    assert with_tombstone.delete_horizon_ms == bench.clock.wall_ms() + RETENTION_MS
    assert [(record.key, record.value, record.timestamp_ms) for record in with_tombstone.records()] == [
        (b"a", None, NOW_MS + 5),
        (b"c", b"2", NOW_MS + 5),
    ]
    assert with_tombstone.max_timestamp_ms == NOW_MS + 5
    bench.clock.advance_ms(RETENTION_MS - 1)
    clean(log, bench)
    assert raw(log)[1].data == with_tombstone.data
    bench.clock.advance_ms(1)
    clean(log, bench)
    assert [(record.key, record.value) for record in committed(log)] == [(b"b", b"1"), (b"c", b"2"), (b"d", b"3")]


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_a_batch_that_is_rewritten_has_the_largest_time_of_what_is_left(bench: Bench, codec: Compression) -> None:
    log = bench.open()
    records = [SimpleRecord(NOW_MS + late, key, b"1") for late, key in ((10, b"a"), (3, b"b"), (0, b"c"))]
    log.append_as_leader(bytearray(build_batch(records, compression=codec)), 0)
    put(log, (b"a", b"2"), timestamp_ms=NOW_MS + 20)
    log.roll()
    clean(log, bench)
    first, second = raw(log)
    assert (first.max_timestamp_ms, second.max_timestamp_ms) == (NOW_MS + 3, NOW_MS + 20)
    assert (first.delete_horizon_ms, first.count, first.last_offset) == (None, 2, 2)
    assert [(record.offset, record.timestamp_ms) for record in first.records()] == [(1, NOW_MS + 3), (2, NOW_MS)]
    assert log.offset_for_timestamp(NOW_MS + 4).offset == 3


@pytest.mark.usefixtures("table")
def test_a_batch_that_is_rewritten_again_keeps_the_end_of_its_tombstones(bench: Bench) -> None:
    log = bench.open()
    put(log, (b"a", None), (b"b", b"1"), timestamp_ms=NOW_MS + 5)
    log.roll()
    clean(log, bench)
    horizon_ms = bench.clock.wall_ms() + RETENTION_MS
    assert raw(log)[0].delete_horizon_ms == horizon_ms
    bench.clock.advance_ms(10)
    put(log, (b"b", b"2"))
    log.roll()
    clean(log, bench)
    assert raw(log)[0].delete_horizon_ms == horizon_ms
    assert [(record.key, record.timestamp_ms) for record in raw(log)[0].records()] == [(b"a", NOW_MS + 5)]


def test_append_times_survive_a_rewrite(bench: Bench) -> None:
    bench.config = bench.config.__class__(
        segment_bytes=2000, cleanup_policy=("compact",), message_timestamp_type="LogAppendTime", delete_retention_ms=RETENTION_MS
    )
    log = bench.open()
    put(log, (b"a", b"1"), (b"b", b"1"), timestamp_ms=NOW_MS - 500)
    put(log, (b"a", None), timestamp_ms=NOW_MS - 500)
    log.roll()
    clean(log, bench)
    assert {record.timestamp_ms for each in raw(log) for record in each.records()} == {NOW_MS}
    assert [each.max_timestamp_ms for each in raw(log)] == [NOW_MS, NOW_MS]
    assert {each.timestamp_type for each in raw(log)} == {TimestampType.LOG_APPEND_TIME}


@pytest.mark.usefixtures("table")
def test_aborted_records_go_first_and_their_marker_later(bench: Bench) -> None:
    log = bench.open()
    put(log, (b"a", b"aborted"), producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    mark(log, commit=False)
    put(log, (b"a", b"committed"), producer_id=7, producer_epoch=0, base_sequence=1, is_transactional=True)
    mark(log, commit=True)
    put(log, (b"z", b""))
    log.roll()
    assert clean(log, bench) == 5
    # The marker is needed no more, but by readers that are between: it gets its time.
    assert [each.is_control for each in raw(log)] == [True, False, True, False]
    assert log.aborted_transactions(0, 5) != []
    assert [record.value for record in committed(log)] == [b"committed", b""]
    clean(log, bench)
    assert raw(log)[0].delete_horizon_ms == bench.clock.wall_ms() + RETENTION_MS
    assert log.aborted_transactions(0, 5) == []
    bench.clock.advance_ms(RETENTION_MS - 1)
    clean(log, bench)
    assert [each.is_control for each in raw(log)] == [True, False, True, False]
    bench.clock.advance_ms(1)
    clean(log, bench)
    assert [each.is_control for each in raw(log)] == [False, True, False]
    assert [record.value for record in committed(log)] == [b"committed", b""]


def test_an_open_transaction_stops_the_cleaner(bench: Bench) -> None:
    log = bench.open()
    put(log, (b"a", b"1"))
    log.roll()
    put(log, (b"a", b"2"), producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    log.roll()
    put(log, (b"a", b"3"))
    log.roll()
    assert clean(log, bench) == 1
    assert len(contents(log)) == 3


def test_the_last_batch_of_a_producer_stays_without_records(bench: Bench) -> None:
    log = bench.open()
    put(log, (b"a", b"1"), (b"b", b"1"), producer_id=7, producer_epoch=3, base_sequence=10)
    put(log, (b"a", b"2"), (b"b", b"2"))
    log.roll()
    put(log, (b"c", b"3"))
    clean(log, bench)
    first = raw(log)[0]
    assert (first.producer_id, first.producer_epoch, first.base_sequence, first.last_sequence, first.count) == (7, 3, 10, 11, 0)
    assert (first.base_offset, first.last_offset) == (0, 1)
    assert first.is_valid()
    log.close_handles()
    for snapshot in bench.directory.glob("*.snapshot"):
        snapshot.unlink()
    log = bench.open(recovery_point=0)
    assert log.producer_state.producers[7].last_sequence == 11
    assert log.append_as_leader(
        keyed((b"a", b"1"), (b"b", b"1"), producer_id=7, producer_epoch=3, base_sequence=10), 0
    ).is_duplicate


def test_segments_are_joined_up_to_the_size_of_one(bench: Bench) -> None:
    log = bench.open()
    for number in range(200):
        put(log, (b"%d" % (number % 5), b"x" * 50))
    before = len(log.segments)
    log.roll()
    clean(log, bench)
    assert before > 5
    assert max(segment.size_bytes for segment in log.segments) <= 2000
    again = clean(log, bench)
    assert again == log.segments.active.base_offset
    assert len(log.segments) == 2
    assert log.segments.first.base_offset == 0
    names = {path.name for path in bench.directory.iterdir()}
    assert not any(name.endswith((".cleaned", ".swap")) for name in names)
    bench.clock.advance_ms(60_000)
    bench.scheduler.run_due()
    assert not any(path.name.endswith(".deleted") for path in bench.directory.iterdir())
    # The snapshots of segments that are gone are gone as well.
    bases = {segment.base_offset for segment in log.segments}
    assert {int(path.name[:20]) for path in bench.directory.glob("*.snapshot")} <= bases


def test_segments_that_together_are_larger_than_one_stay_apart(bench: Bench) -> None:
    log = bench.open()
    for number in range(60):
        put(log, (b"%d" % number, b"x" * 200))
    log.roll()
    before = [segment.size_bytes for segment in log.segments]
    clean(log, bench)
    assert [segment.size_bytes for segment in log.segments] == before


@pytest.mark.parametrize(("step_ms", "is_joined"), [(1, False), (0, True)])
def test_segments_whose_time_indexes_do_not_fit_one_stay_apart(tmp_path: Path, step_ms: int, is_joined: bool) -> None:
    """An entry of a time index takes 12 bytes, one of an offset index 8: there is room for five and for seven."""
    bench = Bench(tmp_path / "topic-0", segment_index_bytes=60, index_interval_bytes=0, cleanup_policy=("compact",))
    log = bench.open()
    for number in range(8):
        put(log, (b"%d" % number, b"x"), timestamp_ms=NOW_MS + number * step_ms)
        if number % 4 == 3:
            log.roll()
    clean(log, bench)
    assert [segment.base_offset for segment in log.segments] == ([0, 8] if is_joined else [0, 4, 8])


def test_which_segments_fit_one(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "topic-0", index_interval_bytes=0, cleanup_policy=("compact",))
    log = bench.open()
    for _ in range(3):
        for _ in range(5):
            put(log, (b"k", b""))
        log.roll()
    segments = list(log.segments)[:3]
    size_bytes = segments[0].size_bytes
    assert [(each.offset_index.entries, each.time_index.entries) for each in segments] == [(4, 1)] * 3

    def sizes_of_groups(end_offset: int = 15, **settings: Any) -> list[int]:
        log.update_config(LogConfig(**settings))
        return [len(group) for group in group_by_size(log, segments, end_offset)]

    assert sizes_of_groups(segment_bytes=3 * size_bytes) == [3]
    assert sizes_of_groups(segment_bytes=3 * size_bytes - 1) == [2, 1]
    assert sizes_of_groups(segment_bytes=2 * size_bytes - 1) == [1, 1, 1]
    assert sizes_of_groups(segment_index_bytes=3 * 4 * 8) == [3]
    assert sizes_of_groups(segment_index_bytes=3 * 4 * 8 - 1) == [2, 1]
    assert sizes_of_groups(2**31) == [3]
    assert sizes_of_groups(2**31 + 1) == [2, 1]


def test_a_segment_that_stands_for_too_many_offsets_fits_no_other_unless_it_is_empty(tmp_path: Path) -> None:
    log = Bench(tmp_path / "topic-0", cleanup_policy=("compact",)).open()
    for _ in range(2):
        put(log, (b"k", b""))
        log.roll()
    log.skip_to(2**32)
    put(log, (b"k", b""))
    log.roll()
    first, second, far = list(log.segments)[:3]
    empty = LogSegment.create(tmp_path, 1, max_index_bytes=100, index_interval_bytes=0, now_ms=NOW_MS)
    assert [len(group) for group in group_by_size(log, [first, second, far], 2**32 + 1)] == [1, 1, 1]
    assert [len(group) for group in group_by_size(log, [first, empty, far], 2**32 + 1)] == [2, 1]


def test_a_cleaning_tells_what_it_read_and_wrote_and_how_long_it_took(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "topic-0", segment_bytes=20_000, cleanup_policy=("compact",))
    log = bench.open()
    asked: list[int] = []

    def proceed(size_bytes: int) -> None:
        asked.append(size_bytes)
        bench.clock.advance_ms(7)

    for number in range(300):
        put(log, (b"%d" % (number % 40), b"x" * 100))
    log.roll()
    whole_bytes = log.size_bytes
    assert len(log.segments) > 3
    end_offset, stats = Cleaner(bench.clock, LIMITS._replace(block_bytes=4096)).clean(log, 100, 300, proceed)
    assert end_offset == 300
    assert (stats.keys, stats.bytes_written) == (40, log.size_bytes)
    # A batch that is not whole in one block is read again for the next one.
    assert whole_bytes < stats.bytes_read < 1.1 * whole_bytes
    assert 2 / 3 * whole_bytes < stats.map_bytes_read < 0.8 * whole_bytes
    assert sum(asked) == stats.map_bytes_read + stats.bytes_read + stats.bytes_written
    assert stats.elapsed_s == pytest.approx(len(asked) * 0.007)
    of_map = next(count for count in range(len(asked)) if sum(asked[:count]) == stats.map_bytes_read)
    assert of_map > 3
    assert stats.map_elapsed_s == pytest.approx(of_map * 0.007)


def test_a_cleaned_segment_is_as_old_as_the_last_that_it_replaces(bench: Bench) -> None:
    log = bench.open()
    for number in range(3):
        put(log, (b"%d" % number, b""), timestamp_ms=NOW_MS + number)
        log.roll()
    for number, segment in enumerate(log.segments):
        os.utime(segment.path, (1_000_000 + number, 1_000_000 + number))
    clean(log, bench)
    assert len(log.segments) == 2
    assert log.segments.first.last_modified_ms() == 1_000_002_000
    assert (bench.directory / f"{0:020d}.timeindex").read_bytes() == struct.pack(">qI", NOW_MS + 2, 2)


@pytest.mark.parametrize("younger_ms", [0, 1])
def test_tombstones_of_old_formats_go_by_the_age_of_their_file(tmp_path: Path, younger_ms: int) -> None:
    """Those go whose file is older, by the retention time, than the last one that was cleaned before."""
    record_bytes = len(keyed((b"0", None), magic=1))
    bench = Bench(
        tmp_path / "topic-0", segment_bytes=record_bytes + 1, cleanup_policy=("compact",), delete_retention_ms=RETENTION_MS
    )
    log = bench.open()
    for number, value in enumerate((None, b"")):
        log.append_as_follower(keyed((b"%d" % number, value), base_offset=number, magic=1))
    log.roll()
    log.update_high_watermark(2)
    assert clean(log, bench) == 2
    assert [record.offset for record in committed(log)] == [0, 1]
    modified_ms = 2_000_000_000
    for segment, age_ms in zip(log.segments, (RETENTION_MS - younger_ms, 0, 0), strict=True):
        os.utime(segment.path, ns=(0, (modified_ms - age_ms) * 1_000_000))
    log.append_as_follower(keyed((b"2", b""), base_offset=2, magic=1))
    log.roll()
    log.update_high_watermark(3)
    assert clean(log, bench, 2) == 3
    assert [record.offset for record in committed(log)] == ([0, 1, 2] if younger_ms else [1, 2])


def filtered(tmp_path: Path, data: bytes, rules: Rules) -> list[DefaultBatch]:
    """What is left of a segment in which the key a comes again later."""
    path = tmp_path / "segment"
    path.write_bytes(data)
    with open(path, "rb") as file:
        (block,) = read_blocks(file, 0, len(data), len(data))
    table = PlainOffsetMap(10)
    table.put([DataBatch(99, 99, 1, bytes(encode_records([SimpleRecord(0, b"a", b"")], 0)))], 0)
    found = []
    for is_plain in {block.is_plain, False}:
        block.is_plain = is_plain
        parts = BlockFilter(table, CleanedTransactions(), rules).filter(block).parts
        found.append([each for each in batches(b"".join(parts)) if isinstance(each, DefaultBatch)])
    assert [each.base_offset for each in found[0]] == [each.base_offset for each in found[-1]]
    return found[0]


def test_of_a_producer_the_last_batch_is_left_and_of_others_none(tmp_path: Path) -> None:
    data = bytes(keyed((b"a", b"")))
    for offset in range(1, 6):
        data += keyed((b"a", b""), base_offset=offset, producer_id=offset, producer_epoch=0, base_sequence=0)
    left = filtered(tmp_path, data, Rules(NOW_MS, RETENTION_MS, 99, {2: (0, 2), 3: (0, 9), 4: (0, -1)}))
    assert [(each.base_offset, each.count) for each in left] == [(2, 0)]
    first = keyed((b"a", b""), producer_id=1, producer_epoch=0, base_sequence=0)
    assert len(filtered(tmp_path, bytes(first), Rules(NOW_MS, RETENTION_MS, 99, {1: (0, 0)}))) == 1
    assert len(filtered(tmp_path, bytes(first), Rules(NOW_MS, RETENTION_MS, 99, {1: (0, 1)}))) == 0
    assert len(filtered(tmp_path, bytes(first), Rules(NOW_MS, RETENTION_MS, 1, {}))) == 1, "the end of the log stays known"


@pytest.mark.parametrize(
    ("epoch", "last_offset", "is_left"), [(0, -1, True), (1, -1, False), (0, 0, True), (0, 1, False), (None, -1, False)]
)
def test_a_marker_that_is_all_of_its_producer_is_left_without_its_record(
    tmp_path: Path, epoch: int | None, last_offset: int, is_left: bool
) -> None:
    producers = {} if epoch is None else {7: (epoch, last_offset)}
    data = bytes(end_transaction_marker(commit=True, coordinator_epoch=0, timestamp_ms=NOW_MS, producer_id=7, producer_epoch=0))
    (with_horizon,) = filtered(tmp_path, data, Rules(NOW_MS, RETENTION_MS, 99, producers))
    assert with_horizon.delete_horizon_ms == NOW_MS + RETENTION_MS
    data = bytes(with_horizon.data)
    for now_ms, count in ((NOW_MS + RETENTION_MS - 1, 1), (NOW_MS + RETENTION_MS, 0)):
        left = filtered(tmp_path, data, Rules(now_ms, RETENTION_MS, 99, producers))
        assert [each.count for each in left] == ([count] if count or is_left else [])
    if is_left:
        data = bytes(left[0].data)
        assert [each.count for each in filtered(tmp_path, data, Rules(now_ms, RETENTION_MS, 99, producers))] == [0]
        assert filtered(tmp_path, data, Rules(now_ms, RETENTION_MS, 99, {})) == []


def test_the_indexes_of_a_cleaned_segment_are_those_of_its_batches(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "topic-0", segment_bytes=2000, index_interval_bytes=0, cleanup_policy=("compact",))
    log = bench.open()
    for number in range(60):
        put(log, (b"%d" % (number % 17), b"x" * number), timestamp_ms=NOW_MS + number)
    log.roll()
    clean(log, bench)
    for segment in log.segments:
        for header in list(segment.headers())[1:]:
            assert segment.offset_index.positions_around(header.last_offset)[0] == header.position
            assert segment.time_index.lookup(header.max_timestamp_ms).offset == header.last_offset


def test_offsets_that_are_missing_at_the_end_of_a_segment_are_clean_too(bench: Bench) -> None:
    log = bench.open()
    put(log, (b"a", b""))
    log.roll()
    log.skip_to(10)
    put(log, (b"a", b""))
    segments = log.segments
    log.skip_to(11)
    assert log.segments is segments, "it is there already"
    assert Cleaner(bench.clock, LIMITS).clean(log, 0, 10, unhindered)[0] == 10
    assert clean(log, bench, 10) == 10


def test_readers_of_replaced_segments_go_on(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "topic-0", segment_bytes=2000, index_interval_bytes=0, cleanup_policy=("compact",))
    log = bench.open()
    for number in range(60):
        put(log, (b"%d" % (number % 5), b"x" * 50))
    log.roll()
    old = log.segments
    region = log.read(0, 1 << 20, FetchIsolation.LOG_END, True).records
    expected = [batch.data.tobytes() for batch in batches(region.read())]
    clean(log, bench)
    assert [batch.data.tobytes() for batch in batches(region.read())] == expected
    for segment in old:
        if segment is not old.active:
            for header in segment.headers():
                assert segment.locate(header.base_offset)[:2] == (header.last_offset, header.position)


def test_the_end_of_a_replaced_segment_is_looked_up_again(bench: Bench) -> None:
    log = bench.open()
    for number in range(10):
        put(log, (b"a", b"%d" % number))
    log.roll()
    clean(log, bench)
    read = log.read(0, 1 << 20, FetchIsolation.HIGH_WATERMARK, True)
    assert [each.last_offset for each in batches(data_of(read.records))] == [9]
    assert log.read(10, 1 << 20).fetch_offset.segment_base_offset == 10


def test_a_log_that_changed_meanwhile_stays_as_it_is(bench: Bench) -> None:
    log = bench.open()
    for number in range(60):
        put(log, (b"%d" % (number % 5), b"x" * 50))
    log.roll()

    def proceed(size_bytes: int) -> None:
        if size_bytes:  # something was read
            log.truncate_to(3)

    with pytest.raises(LogCleaningAbortedError):
        Cleaner(bench.clock, LIMITS).clean(log, 0, log.segments.active.base_offset, proceed)
    assert [offset for offset, _ in contents(log)] == [0, 1, 2]
    assert not list(bench.directory.glob("*.cleaned"))


def test_damaged_batches_are_not_given_a_new_checksum(bench: Bench) -> None:
    log = bench.open()
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", b"2"))
    log.roll()
    with open(log.segments.first.path, "r+b") as file:
        file.seek(VALUE_OF_FIRST_RECORD)
        assert file.read(1) == b"1"
        file.seek(VALUE_OF_FIRST_RECORD)
        file.write(b"2")
    with pytest.raises(CorruptRecordError):
        clean(log, bench)
    assert not list(bench.directory.glob("*.cleaned"))


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
@pytest.mark.parametrize("timestamp_type", [TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME])
@pytest.mark.usefixtures("table")
def test_old_formats_are_compacted_in_their_format(
    bench: Bench, magic: int, codec: Compression, timestamp_type: TimestampType
) -> None:
    path = bench.directory
    path.mkdir()
    offset, data = 0, b""
    for number in range(20):
        records = [SimpleRecord(NOW_MS + number, b"%d" % (number % 3), b"%d" % number), SimpleRecord(NOW_MS, b"x", b"%d" % number)]
        stamped: dict[str, Any] = {"timestamp_type": timestamp_type, "log_append_time_ms": NOW_MS + 1000 + number}
        data += build_batch(records, magic=magic, compression=codec, base_offset=offset, **(stamped if magic else {}))
        offset += 2
    (path / "00000000000000000000.log").write_bytes(data)
    log = bench.open()
    log.update_high_watermark(log.log_end_offset)
    log.roll()
    put(log, (b"last", b""))
    kinds = [TimestampType.NO_TIMESTAMP_TYPE, timestamp_type]
    before, records_before = last_values(log), set(records_of(log))
    clean(log, bench)
    assert last_values(log) == before
    assert set(records_of(log)) < records_before
    assert {(each.magic, each.timestamp_type) for each in raw(log)[:-1]} == {(magic, kinds[magic])}
    assert len(contents(log)) == 5


def records_of(log: UnifiedLog) -> list[tuple[object, ...]]:
    return [(each.offset, each.timestamp_ms, each.key, each.value) for batch in raw(log) for each in batch.records()]


@pytest.mark.parametrize("seed", range(share_of(30)))
@pytest.mark.parametrize("makes_arrays", [False, True])
def test_plain_batches_are_filtered_like_all_others(tmp_path: Path, seed: int, makes_arrays: bool) -> None:
    draw = random.Random(seed)
    data, offset = b"", 0
    for _ in range(draw.randint(1, 12)):
        pairs = [(draw.choice([b"a", b"b", b"c", None]), draw.choice([b"1", b"2", None])) for _ in range(draw.randint(1, 4))]
        producer = {"producer_id": draw.randrange(3), "producer_epoch": 0, "base_sequence": 0} if draw.random() < 0.5 else {}
        data += keyed(*pairs, base_offset=offset, **producer)
        offset += len(pairs)
    path = tmp_path / "segment"
    path.write_bytes(data)
    with open(path, "rb") as file:
        (block,) = read_blocks(file, 0, len(data), len(data))
    assert block.is_plain
    table = pytest.importorskip(VECTORISED).VectorOffsetMap(4001, 1) if makes_arrays else PlainOffsetMap(1000)
    assert table.put_plain(block, 0)
    assert table.latest_offset == offset - 1
    ends = [batch.last_offset + 1 for batch in block.batches]
    producers = {batch.producer_id: (0, batch.last_offset) for batch in block.batches if draw.random() < 0.7}
    rules = Rules(NOW_MS, RETENTION_MS, ends[-1] + draw.choice([0, 0, 1]), producers)
    found = []
    for block.is_plain in (True, False):
        out = BlockFilter(table, CleanedTransactions(), rules).filter(block)
        found.append((b"".join(out.parts), out.batches))
    assert found[0] == found[1]
    assert (ends[-1] in [batch.last_offset + 1 for batch in found[0][1]]) >= (rules.end_offset == ends[-1])


# The table.


def blocks(draw: random.Random, number: int) -> list[DataBatch]:
    found, offset = [], 0
    for _ in range(number):
        records = []
        for _ in range(draw.randint(1, 30)):
            size = draw.choice([0, 1, 7, 8, 9, 16, 100, 128, 129, 500])
            key = None if draw.random() < 0.1 else bytes([draw.randrange(4)]) * size
            records.append(SimpleRecord(draw.randrange(100), key, None if draw.random() < 0.3 else b"v"))
        payload = bytes(encode_records(records, 0))
        found.append(DataBatch(offset, offset + len(records) - 1, len(records), payload, draw.random() < 0.5))
        offset += len(records)
    return found


@pytest.mark.parametrize("seed", range(share_of(20)))
@pytest.mark.parametrize(("slots", "entries"), [(4001, 3), (4001, 1000), (41, 41)])
def test_both_tables_do_the_same(seed: int, slots: int, entries: int) -> None:
    """There are up to 37 keys, for which many slots have to be tried if there are hardly more."""
    data = blocks(random.Random(seed), 20)
    VectorOffsetMap = pytest.importorskip(VECTORISED).VectorOffsetMap
    arrays, plain = VectorOffsetMap(slots, 1), PlainOffsetMap(entries)
    arrays.max_entries = entries
    at = 0
    while at < len(data):
        block = data[at : at + 4]
        at += 4
        fits = arrays.put(block, 5), plain.put(block, 5)
        assert fits[0] == fits[1]
        assert (len(arrays), arrays.latest_offset) == (len(plain), plain.latest_offset)
        if not fits[0]:
            break
    for some in (data, *(data[at : at + 3] for at in range(len(data)))):
        kept, expected = arrays.survivors(some), plain.survivors(some)
        assert list(kept.counts) == list(expected.counts)
        assert list(kept.has_tombstones) == list(expected.has_tombstones)
        for number in range(len(some)):
            assert kept.indexes(number) == expected.indexes(number)
            assert kept.payload(number) == expected.payload(number)
            if kept.counts[number]:
                assert kept.largest_timestamp_delta(number) == expected.largest_timestamp_delta(number)


def test_a_dictionary_takes_a_key_at_least() -> None:
    assert [PlainOffsetMap(entries).max_entries for entries in (0, 1, 2)] == [1, 1, 2]


def test_both_tables_take_the_smallest_of_records() -> None:
    data = [DataBatch(0, 0, 1, bytes(encode_records([SimpleRecord(0, b"", None)], 0)))]
    assert len(data[0].payload) == 7
    for table in (pytest.importorskip(VECTORISED).VectorOffsetMap(100, 1), PlainOffsetMap(100)):
        assert table.put(data, 0)
        assert len(table) == 1
        assert table.survivors(data).indexes(0) == [0]
        assert table.survivors([data[0]._replace(base_offset=-1, last_offset=-1)]).indexes(0) == []


def data_batch(base_offset: int, keys: bytes) -> DataBatch:
    """A record for each byte of ``keys``."""
    payload = bytes(encode_records([SimpleRecord(0, bytes([key]), b"") for key in keys], 0))
    return DataBatch(base_offset, base_offset + len(keys) - 1, len(keys), payload)


def test_a_search_in_full_arrays_ends() -> None:
    """A load factor of 1 left no slot empty, and the search for a key that was not there went on for ever."""
    for _ in range(20):  # each has other hashes
        table = pytest.importorskip(VECTORISED).VectorOffsetMap(7, 1)
        assert table.put([data_batch(0, b"abcdef")], 0)
        assert (len(table), table.latest_offset) == (6, 5)
        assert table.survivors([data_batch(0, b"abcdef")]).counts == [6]
        assert table.survivors([data_batch(-1, b"abcdef")]).counts == [0]
        assert not table.put([data_batch(6, b"h")], 0)
        assert (len(table), table.latest_offset) == (6, 5)
        assert table.survivors([data_batch(0, b"ghijkl")]).counts == [6]


def test_a_search_in_arrays_that_are_about_to_grow_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    module = pytest.importorskip(VECTORISED)
    monkeypatch.setattr(module, "_SMALLEST_TABLE", 7)
    for count in (6, 7):
        table = module.VectorOffsetMap(101, 1)
        assert table.put([data_batch(0, bytes(range(count)))], 0)
        assert table.survivors([data_batch(0, bytes(range(100)))]).counts == [100]


def test_both_tables_are_full_with_the_last_key_that_fits() -> None:
    for table in (pytest.importorskip(VECTORISED).VectorOffsetMap(5, 0.7), PlainOffsetMap(3)):
        assert (len(table), table.latest_offset, table.max_entries) == (0, -1, 3)
        assert table.put([data_batch(0, b"aab"), data_batch(3, b"c")], 0)
        assert (len(table), table.latest_offset) == (3, 3)
        assert table.survivors([data_batch(0, b"aabc")]).indexes(0) == [1, 2, 3]
        assert not table.put([data_batch(4, b"d")], 0)
        assert (len(table), table.latest_offset) == (3, 3)
    for table in (pytest.importorskip(VECTORISED).VectorOffsetMap(5, 0.7), PlainOffsetMap(3)):
        assert not table.put([data_batch(10, b"abaa"), data_batch(20, b"bcde")], 12)
        assert (len(table), table.latest_offset) == (3, 21)
        # What comes after the last record that was added is kept.
        assert table.survivors([data_batch(10, b"abaa"), data_batch(20, b"bcde")]).counts == [1, 4]


@pytest.mark.parametrize(
    ("slots", "load_factor", "entries"),
    [(0, 1, 2), (3, 0.3, 1), (3, 0.4, 1), (4, 1, 2), (8, 1, 6), (9, 0.75, 5), (25, 1, 22), (49, 1, 46), (4001, 0.9, 3600)],
)
def test_the_arrays_have_a_prime_number_of_slots(slots: int, load_factor: float, entries: int) -> None:
    assert pytest.importorskip(VECTORISED).VectorOffsetMap(slots, load_factor).max_entries == entries


@pytest.mark.parametrize("sizes", [[8], [128], [3, 13], [0, 1, 7, 8, 9, 16, 17, 127, 128], [5, 129, 16, 500]])
def test_hashes_of_keys_are_multilinear(monkeypatch: pytest.MonkeyPatch, sizes: list[int]) -> None:
    """A weaker hash would do in all other tests: they have no attacker."""
    module = pytest.importorskip(VECTORISED)
    with monkeypatch.context() as patched:
        patched.setattr(machine, "random_bytes", random.Random(1).randbytes)
        hashes = module._KeyHash()
    draw = random.Random(1)
    random_bytes = draw.randbytes(4 * 35 * 8)
    coefficients = [struct.unpack_from("=35Q", random_bytes, 280 * lane) for lane in range(4)]
    secret = draw.randbytes(32)
    keys = [draw.randbytes(size) for size in sizes]
    payload = bytes(encode_records([SimpleRecord(0, key, None) for key in keys], 0))
    chosen = range(len(keys))
    first, second = hashes.of(payload, module.record_columns(payload, len(keys)), module.np.array(chosen))
    for number, key in enumerate(keys):
        text, length = (key, len(key)) if len(key) <= 128 else (blake2b(key, digest_size=16, key=secret).digest(), 2**32 + 16)
        terms = (1, length % 2**32, length >> 32, *struct.unpack("<32I", text.ljust(128, b"\0")))
        lanes = [sum(one * other for one, other in zip(row, terms, strict=True)) % 2**64 >> 32 for row in coefficients]
        assert (int(first[number]), int(second[number])) == (lanes[0] << 32 | lanes[1], lanes[2] << 32 | lanes[3])


@pytest.mark.medium
@pytest.mark.parametrize(("load_factor", "count", "at_once"), [(0.9, 50_000, 1000), (0.2, 10_000, 10_000)])
def test_the_arrays_grow_with_the_keys(load_factor: float, count: int, at_once: int) -> None:
    table = pytest.importorskip(VECTORISED).VectorOffsetMap(1 << 18, load_factor)
    keys = [b"%d" % number for number in range(count)]
    for start in range(0, len(keys), at_once):
        records = [SimpleRecord(0, key, b"") for key in keys[start : start + at_once]]
        assert table.put([DataBatch(start, start + at_once - 1, at_once, bytes(encode_records(records, 0)))], 0)
    assert len(table) == len(keys)
    again = [SimpleRecord(0, key, b"") for key in keys]
    assert table.survivors([DataBatch(0, count - 1, count, bytes(encode_records(again, 0)))]).counts == [count]
    assert table.survivors([DataBatch(-1, count - 2, count, bytes(encode_records(again, 0)))]).counts == [0]


def test_a_block_has_batches_or_messages_of_old_formats(tmp_path: Path) -> None:
    data = b""
    for offset, magic in enumerate((2, 2, 1, 1, 2, 0, 2)):
        data += keyed((b"k", b"%d" % offset), base_offset=offset, magic=magic)
    path = tmp_path / "segment"
    path.write_bytes(data)
    with open(path, "rb") as file:
        blocks = list(read_blocks(file, 0, len(data), len(data)))
    assert [(len(block.positions), len(block.messages)) for block in blocks] == [(2, 0), (0, 2), (1, 0), (0, 1), (1, 0)]
    assert [block.is_plain for block in blocks] == [True, False, True, False, True]


def test_batches_that_do_not_fit_a_block_are_in_the_next(tmp_path: Path) -> None:
    whole = [bytes(keyed((b"k", b"x" * (40 * number)))) for number in [*range(60), 300, 1, 200, 250]]
    path = tmp_path / "segment"
    path.write_bytes(b"".join(whole))
    with open(path, "rb") as file:
        blocks = list(read_blocks(file, 0, path.stat().st_size, 1000))
    assert len(blocks) > 5
    assert [block.data[start:end] for block in blocks for start, end in zip(block.positions, block.ends, strict=True)] == whole
    too_small = whole[0][:8] + (5).to_bytes(4) + whole[0][12:]
    for more in (whole[0][:-1], bytes(20), b"\xff" * 61, too_small, too_small * 2):
        damaged = b"".join(whole) + more
        path.write_bytes(damaged)
        with open(path, "rb") as file, pytest.raises(CorruptRecordError):
            list(read_blocks(file, 0, len(damaged), 1000))


# Crashes.


@pytest.mark.medium
@pytest.mark.parametrize("loses_power", [False, True])
def test_nothing_is_lost_wherever_the_cleaner_dies(tmp_path: Path, loses_power: Any) -> None:
    crash_everywhere(tmp_path, loses_power, writes=25, stride=STRIDE)


@pytest.mark.slow
@pytest.mark.timeout(600)  # some 40 s on an idle machine
@pytest.mark.parametrize("loses_power", [False, True])
def test_nothing_is_lost_wherever_the_cleaner_dies_with_more_segments(tmp_path: Path, loses_power: Any) -> None:
    crash_everywhere(tmp_path, loses_power, writes=80, stride=1)


def crash_everywhere(tmp_path: Path, loses_power: Any, writes: Any, stride: Any) -> None:
    """The next start takes the log for flushed, or recovers all of it."""
    template = Writer(tmp_path / "template", 3)
    for _ in range(writes):
        template.write()
    template.log.roll()
    end, expected = template.log.log_end_offset, last_values(template.log)
    producers = {id_: entry.last_sequence for id_, entry in template.log.producer_state.producers.items()}
    template.log.flush_and_close()
    for step in range(1, 3000, stride):
        directory = tmp_path / f"crash-{step}" / "topic-0"
        shutil.copytree(template.bench.directory, directory)
        bench = Bench(directory, segment_bytes=template.bench.config.segment_bytes, cleanup_policy=("compact",))
        disk = CrashDisk(directory.parent, random.Random(step))
        try:
            with disk.watched(step):
                log = bench.open(was_clean=True, recovery_point=end)
                log.update_high_watermark(end)
                clean(log, bench)
            died = False
        except MachineDied:
            died = True
        if loses_power:
            disk.lose_power()
        log = bench.open(recovery_point=end if step % 2 else 0)
        log.update_high_watermark(log.log_end_offset)
        assert last_values(log) == expected, step
        assert log.log_end_offset == end
        assert {id_: entry.last_sequence for id_, entry in log.producer_state.producers.items()} == producers
        assert not [path for path in directory.iterdir() if path.name.endswith((".cleaned", ".swap", ".deleted"))]
        assert_in_one_place(log)
        clean(log, bench)
        assert last_values(log) == expected, step
        if not died:
            assert step > 20
            return
    pytest.fail("it never came to an end")


def assert_in_one_place(log: Any) -> None:
    offsets = [record.offset for batch in raw(log) for record in batch.records()]
    assert offsets == sorted(set(offsets))


@pytest.mark.medium
@pytest.mark.whole_transfers
def test_a_record_goes_only_when_the_one_that_replaces_it_is_on_disk(tmp_path: Path) -> None:
    """Even if that one lies in a segment whose turn comes later, and the machine stops before."""
    for step in itertools.count(1, STRIDE):
        directory = tmp_path / str(step) / "topic-0"
        directory.parent.mkdir()
        bench = Bench(directory, segment_bytes=200, cleanup_policy=("compact",))
        log = bench.open()
        put(log, (b"key", b"old"))
        log.roll()
        log.flush()
        disk = CrashDisk(directory.parent, random.Random(step))
        try:
            with disk.watched(step):
                for number in range(3):
                    put(log, (b"other", b"%d" % number * 100))
                put(log, (b"key", b"new"))
                log.roll()
                clean(log, bench)
            died = False
        except MachineDied:
            died = True
        disk.lose_power(loses_all=True)
        log = bench.open(recovery_point=1)
        log.update_high_watermark(log.log_end_offset)
        assert last_values(log).get(b"key", (-1, None))[1] in (b"old", b"new"), step
        if not died:
            assert step > 20
            return


@pytest.mark.medium
@pytest.mark.whole_transfers
def test_merged_segments_are_replaced_by_one_or_not_at_all(tmp_path: Path) -> None:
    """Wherever the machine stops, and whatever of the renames since the last sync is on the disk."""

    def bench_in(root: Any, segment_bytes: Any) -> Any:
        return Bench(root / "disk" / "topic-0", segment_bytes=segment_bytes, cleanup_policy=("compact",))

    def prepare(root: Any) -> None:
        log = bench_in(root, 200).open()
        for number in range(8):
            put(log, (b"%d" % (number % 5), b"%d" % number * 20))
        assert len(log.segments) == 4
        log.roll()
        log.flush_and_close()

    def compact(root: Any) -> None:
        bench = bench_in(root, 100_000)
        log = bench.open(was_clean=True)
        log.update_high_watermark(log.log_end_offset)
        clean(log, bench)
        assert len(log.segments) == 2

    for root in deaths(tmp_path, prepare, compact, seeds=12):
        log = bench_in(root, 100_000).open(recovery_point=8)
        log.update_high_watermark(8)
        assert {key: offset for key, (offset, _) in last_values(log).items()} == {
            b"%d" % (number % 5): number for number in range(8)
        }, root
        assert_in_one_place(log)


@pytest.mark.long
@pytest.mark.whole_transfers
def test_a_start_that_completes_a_replacement_may_die_itself(tmp_path: Path) -> None:
    def prepare(root: Any) -> None:
        directory = root / "disk" / "topic-0"
        log = Bench(directory).open()
        for number in range(4):
            put(log, (b"%d" % number, b""))
            log.roll()
        log.flush_and_close()
        # One segment that replaces all of them.
        data = b"".join([(directory / f"{number:020d}.log").read_bytes() for number in range(4)])
        (directory / f"{0:020d}.log.swap").write_bytes(data)
        TransactionIndex(directory / f"{0:020d}.txnindex.swap").append(aborted)

    aborted = AbortedTransaction(7, 0, 1, 2)

    def start(root: Any) -> None:
        Bench(root / "disk" / "topic-0").open(recovery_point=4)

    for root in deaths(tmp_path, prepare, start, seeds=1, loses_each=True):
        log = Bench(root / "disk" / "topic-0").open(recovery_point=4)
        assert [segment.base_offset for segment in log.segments] == [0, 4], root
        assert log.aborted_transactions(0, 4) == [aborted], root
        assert_in_one_place(log)
        assert [offset for offset, _ in contents(log)] == [0, 1, 2, 3]


def test_a_start_completes_a_replacement(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "topic-0", index_interval_bytes=0)
    log = bench.open()
    for number in range(5):
        put(log, (b"%d" % number, b""))
        log.roll()
    log.flush_and_close()
    # One segment that replaces the second, third and fourth; of its records, one is left.
    second = (bench.directory / f"{1:020d}.log").read_bytes()
    (bench.directory / f"{1:020d}.log.swap").write_bytes(second + (bench.directory / f"{3:020d}.log").read_bytes())
    (bench.directory / f"{1:020d}.index.swap").write_bytes(struct.pack(">II", 2, len(second)))
    (bench.directory / f"{1:020d}.timeindex.swap").write_bytes(struct.pack(">qI", NOW_MS, 0))
    log = bench.open(was_clean=True)
    assert [segment.base_offset for segment in log.segments] == [0, 1, 4, 5]
    assert [offset for offset, _ in contents(log)] == [0, 1, 3, 4]
    assert (bench.directory / f"{1:020d}.index").read_bytes() == struct.pack(">II", 2, len(second))
    assert {int(path.name[:20]) for path in bench.directory.glob("*index")} == {0, 1, 4, 5}
    assert not list(bench.directory.glob("*.swap"))


def test_a_replacement_without_records_takes_the_place_of_its_own_segment_only(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "topic-0")
    log = bench.open()
    for number in range(3):
        put(log, (b"%d" % number, b""))
        log.roll()
    log.flush_and_close()
    (bench.directory / f"{0:020d}.log.swap").write_bytes(b"")
    assert [offset for offset, _ in contents(bench.open(recovery_point=3), 1)] == [1, 2]


@pytest.mark.whole_transfers
def test_a_start_that_undoes_a_replacement_may_die_itself(tmp_path: Path) -> None:
    def prepare(root: Any) -> None:
        directory = root / "disk" / "topic-0"
        log = Bench(directory).open()
        sizes = []
        for number in range(4):
            put(log, (b"%d" % number, b""))
            sizes.append(log.size_bytes)
        log.flush_and_close()
        # Two segments that replace one: of the first one, the renaming to .swap was not complete.
        data = (directory / f"{0:020d}.log").read_bytes()
        (directory / f"{0:020d}.log.cleaned").write_bytes(data[: sizes[1]])
        (directory / f"{0:020d}.timeindex.swap").write_bytes(b"")
        (directory / f"{2:020d}.log.swap").write_bytes(data[sizes[1] :])

    def start(root: Any) -> None:
        Bench(root / "disk" / "topic-0").open(recovery_point=4)

    for root in deaths(tmp_path, prepare, start, seeds=1, loses_each=True):
        log = Bench(root / "disk" / "topic-0").open(recovery_point=4)
        assert [segment.base_offset for segment in log.segments] == [0], root
        assert [offset for offset, _ in contents(log)] == [0, 1, 2, 3]


def test_a_full_disk_leaves_the_log_as_it_was(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    log = bench.open()
    put(log, (b"once", b"x"))  # it stays, so the first segment has to be written anew
    for number in range(60):
        put(log, (b"%d" % (number % 5), b"x" * 50))
    log.roll()
    before = contents(log)
    whole = os.pwrite

    def full(fd: Any, data: Any, position: Any) -> Any:
        if os.readlink(f"/proc/self/fd/{fd}").endswith(".cleaned"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return whole(fd, data, position)

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="No space"):
        Cleaner(bench.clock, LIMITS).clean(log, 0, log.segments.active.base_offset, unhindered)
    assert contents(log) == before
    assert not list(bench.directory.glob("*.cleaned"))
    assert bench.failures == []
    put(log, (b"more", b""))
