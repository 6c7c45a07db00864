import errno
import os
import struct
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.logs import NOW_MS, Bench, append, batch, contents, data_of, fill
from twisted_kafka.log.results import EpochEndOffset, FetchIsolation
from twisted_kafka.log.segment.log_segment import RECENT_BATCHES
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.protocol.errors import (
    CorruptRecordError,
    InconsistentTopicIdError,
    KafkaStorageError,
    OffsetOutOfRangeError,
    RecordBatchTooLargeError,
)
from twisted_kafka.protocol.records.batch import batches
from twisted_kafka.system.files import disk

SMALL = 1024


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "topic-0", segment_bytes=SMALL, index_interval_bytes=200)


@pytest.fixture
def log(bench: Bench) -> UnifiedLog:
    return bench.open()


def test_a_new_log_is_empty(log: UnifiedLog) -> None:
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset, log.size_bytes, log.latest_epoch) == (0, 0, 0, 0, -1)
    assert log.read(0, 100).records == b""
    assert log.max_timestamp_offset() is None
    assert log.offset_for_timestamp(0) is None


def suffixes_by_segment(directory: Path) -> dict[str, set[str]]:
    """The suffixes of the files beside each segment's batches, by the segment's name."""
    names = sorted(os.listdir(directory))
    return {
        name[:20]: {each[20:] for each in names if each.startswith(name[:20])} & {".index", ".timeindex"}
        for name in names
        if name.endswith(".log")
    }


def test_index_files_lie_beside_each_segment_from_its_creation(bench: Bench) -> None:
    """Backup and inspection tools expect them: Kafka's DumpLogSegments fails where they are missing."""
    both = {".index", ".timeindex"}
    log = bench.open(was_clean=True)
    assert suffixes_by_segment(bench.directory) == {"0" * 20: both}
    fill(log, 40)
    assert len(log.segments) > 2
    assert set(map(frozenset, suffixes_by_segment(bench.directory).values())) == {frozenset(both)}
    log.truncate_fully_and_start_at(7)
    assert suffixes_by_segment(bench.directory) == {f"{7:020}": both}


def test_a_segment_that_cannot_be_created_whole_leaves_no_file(
    log: UnifiedLog, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start would take an empty one for part of the log."""
    append(log, b"a")
    names = sorted(os.listdir(bench.directory))
    opened = os.open

    def fail(path: Any, flags: Any, *mode: Any) -> Any:
        if str(path).endswith("1.timeindex") and flags & os.O_CREAT:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return opened(path, flags, *mode)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", fail)
        with pytest.raises(KafkaStorageError):
            log.roll()
    assert sorted(os.listdir(bench.directory)) == names
    log.roll()
    assert len(log.segments) == 2
    assert contents(log) == [(0, b"a")]


def test_an_append_answers_with_the_offsets_that_it_gave(log: UnifiedLog) -> None:
    append(log, b"a", b"b")
    info = log.append_as_leader(batch(b"c", b"d", b"e"), 4)
    assert (info.first_offset, info.last_offset, info.record_count, info.log_start_offset) == (2, 4, 3, 0)
    assert (info.max_timestamp_ms, info.log_append_time_ms, info.is_duplicate) == (NOW_MS + 2, -1, False)
    assert log.log_end_offset == 5
    assert log.latest_epoch == 4


def test_an_append_of_nothing_changes_nothing(log: UnifiedLog) -> None:
    append(log, b"a")
    info = log.append_as_leader(b"", 7)
    assert (info.first_offset, info.last_offset, info.record_count, info.log_start_offset) == (-1, -1, 0, 0)
    assert (log.log_end_offset, log.latest_epoch) == (1, log.leader_epochs.latest_epoch)
    assert log.latest_epoch < 7


def test_every_offset_can_be_read_across_segments(log: UnifiedLog) -> None:
    fill(log, 100)
    assert len(log.segments) > 5
    assert contents(log) == [(number, b"value-%d" % number) for number in range(100)]
    for offset in range(100):
        first = next(iter(batches(data_of(log.read(offset, 1, FetchIsolation.LOG_END).records))))
        assert first.base_offset == offset


def test_memory_that_cannot_be_written_is_copied(log: UnifiedLog) -> None:
    data = bytes(batch(b"a"))
    log.append_as_leader(data, 3)
    assert struct.unpack_from(">i", data, 12)[0] == -1
    assert next(iter(batches(data_of(log.read(0, 100, FetchIsolation.LOG_END).records)))).partition_leader_epoch == 3


def test_readers_see_what_is_below_the_high_watermark(log: UnifiedLog) -> None:
    fill(log, 10)
    assert log.read(0, 10_000).records == b""
    log.update_high_watermark(4)
    found = list(batches(data_of(log.read(2, 10_000).records)))
    assert [each.base_offset for each in found] == [2, 3]
    assert log.limits.high_watermark == log.offset_metadata(4), "where it is was looked up once, and is known now"
    assert log.read(4, 100).records == b""
    assert log.read(7, 100).records == b""
    log.update_high_watermark(10)
    assert len(list(batches(data_of(log.read(2, 10_000).records)))) == 8


def test_the_high_watermark_stays_within_the_log(log: UnifiedLog) -> None:
    fill(log, 10)
    assert log.update_high_watermark(99) == 10
    assert log.update_high_watermark(10) == 10
    assert log.limits.high_watermark == log.limits.log_end, "its position is known"
    assert log.update_high_watermark(-5) == 0
    assert log.update_high_watermark(5) == log.high_watermark == 5
    log.increment_log_start_offset(4)
    assert log.high_watermark == 5
    assert log.update_high_watermark(3) == log.high_watermark == 4


def test_sizes_of_a_read(log: UnifiedLog) -> None:
    fill(log, 3)
    one = len(data_of(log.read(0, 1, FetchIsolation.LOG_END, True).records))
    assert len(data_of(log.read(0, 2 * one + 5, FetchIsolation.LOG_END, True).records)) == 2 * one + 5
    cut = log.read(0, 10, FetchIsolation.LOG_END, False)
    assert (len(cut.records), cut.first_entry_incomplete) == (10, True)
    whole = log.read(0, 10, FetchIsolation.LOG_END, True)
    assert (len(whole.records), whole.first_entry_incomplete) == (one, False)
    for more in (-1, 0, 1):
        exact = log.read(0, one + more, FetchIsolation.LOG_END, False)
        assert (len(exact.records), exact.first_entry_incomplete) == (one + more, more < 0)
    last = log.read(2, one - 1, FetchIsolation.LOG_END, True)
    assert (len(last.records), last.first_entry_incomplete) == (one, False)
    nothing = log.read(0, 0, FetchIsolation.LOG_END, False)
    assert (nothing.records, nothing.first_entry_incomplete) == (b"", True)


def test_a_read_of_nothing_says_where_it_is(log: UnifiedLog) -> None:
    fill(log, 30)
    log.update_high_watermark(4)
    assert len(log.segments) > 2
    for offset in (4, 5, 20, 29, 30):
        for isolation in (FetchIsolation.HIGH_WATERMARK, FetchIsolation.TXN_COMMITTED):
            found = log.read(offset, 1000, isolation)
            assert (found.records, found.first_entry_incomplete) == (b"", False)
            assert found.aborted_transactions == ([] if isolation == FetchIsolation.TXN_COMMITTED else None)
            assert found.fetch_offset == log.offset_metadata(offset)
            assert found.fetch_offset.message_offset == offset


@pytest.mark.parametrize("offset", [-1, 11])
def test_offsets_outside_are_refused(log: UnifiedLog, offset: int) -> None:
    fill(log, 10)
    with pytest.raises(OffsetOutOfRangeError, match=f"offset {offset} of topic-0 is out of range: the log has 0 to 10"):
        log.read(offset, 100, FetchIsolation.LOG_END)
    with pytest.raises(OffsetOutOfRangeError):
        log.offset_metadata(offset)


def test_a_region_outlives_its_segment(log: UnifiedLog, bench: Bench) -> None:
    fill(log, 40)
    log.update_high_watermark(40)
    region = log.read(0, 200).records
    before = region.read()
    log.increment_log_start_offset(40)
    assert log.delete_old_segments() > 0
    bench.clock.advance_ms(bench.config.file_delete_delay_ms)
    bench.scheduler.run_due()
    assert not [name for name in os.listdir(log.dir) if name.endswith(".deleted")]
    assert region.read() == before


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Positions and sizes of what the system was asked to load; it loads at most 100 bytes at a time."""
    loaded: list[tuple[int, int]] = []
    sendfile = os.sendfile

    def observed(out: int, file: int, position: int, size: int) -> int:
        loaded.append((position, size))
        return sendfile(out, file, position, min(size, 100))

    monkeypatch.setattr(os, "sendfile", observed)
    return loaded


@pytest.mark.whole_transfers
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux loads files into its cache like this")
def test_a_read_loads_what_may_not_be_in_the_page_cache(log: UnifiedLog, loads: list[tuple[int, int]]) -> None:
    fill(log, 30)
    size = log.segments.floor(0).size_bytes
    assert log.read(0, 10_000, FetchIsolation.LOG_END).records.size_bytes == size
    assert loads == [(position, size - position) for position in range(0, size, 100)]
    loads.clear()
    active = log.segments.active
    rest = log.read(active.base_offset, 10_000, FetchIsolation.LOG_END).records
    assert (len(rest), loads) == (active.size_bytes, []), "the end of the log was just written"
    log.read(active.base_offset, active.size_bytes - 1, FetchIsolation.LOG_END)
    assert loads[0] == (0, active.size_bytes - 1)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux loads files into its cache like this")
def test_a_file_that_cannot_be_loaded_fails_its_directory(log: UnifiedLog, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(log, 30)

    def fail(*_: object) -> int:
        raise OSError(errno.EIO, "I/O error")

    monkeypatch.setattr(os, "sendfile", fail)
    with pytest.raises(KafkaStorageError):
        log.read(0, 1000, FetchIsolation.LOG_END)
    assert [error.errno for error in bench.failures] == [errno.EIO]


def test_offset_metadata_tells_segment_and_position(log: UnifiedLog) -> None:
    fill(log, 30)
    second = list(log.segments)[1]
    assert log.offset_metadata(second.base_offset) == (second.base_offset, second.base_offset, 0)
    assert log.offset_metadata(30) == log.limits.log_end


# Timestamps.


def test_records_are_found_by_time(log: UnifiedLog) -> None:
    for number in range(50):
        append(log, b"a", b"b", timestamp_ms=NOW_MS + 10 * number)
    assert log.offset_for_timestamp(0).offset == 0
    for number in range(50):
        assert log.offset_for_timestamp(NOW_MS + 10 * number) == (NOW_MS + 10 * number, 2 * number, 0)
        assert log.offset_for_timestamp(NOW_MS + 10 * number + 1).offset == 2 * number + 1
    assert log.offset_for_timestamp(NOW_MS + 10_000) is None


def test_times_out_of_order_find_the_first_that_is_late_enough(log: UnifiedLog) -> None:
    for late in (5, 1, 9, 2, 9, 3):
        append(log, b"x", timestamp_ms=NOW_MS + late)
    assert [log.offset_for_timestamp(NOW_MS + late).offset for late in (1, 5, 6, 9)] == [0, 0, 2, 2]
    assert log.max_timestamp_offset() == (NOW_MS + 9, 2, 0)


def test_times_before_the_log_start_do_not_count(log: UnifiedLog) -> None:
    for number in range(10):
        append(log, b"x", timestamp_ms=NOW_MS + number)
    log.update_high_watermark(10)
    log.increment_log_start_offset(4)
    assert log.offset_for_timestamp(NOW_MS).offset == 4


def test_the_largest_timestamp_is_known_after_a_restart(log: UnifiedLog, bench: Bench) -> None:
    for number in range(40):
        append(log, b"x" * 50, timestamp_ms=NOW_MS + (1000 if number == 7 else number))
    again = bench.reopen_clean(log)
    assert again.max_timestamp_offset() == (NOW_MS + 1000, 7, 0)
    assert again.offset_for_timestamp(NOW_MS + 9).offset == 7


# Rolling.


@pytest.mark.parametrize("first_ms", [NOW_MS, 0])
def test_a_segment_is_rolled_by_its_age_in_record_time(tmp_path: Path, first_ms: int) -> None:
    bench = Bench(tmp_path / "topic-0", segment_ms=1000)
    log = bench.open()
    append(log, b"a", timestamp_ms=first_ms)
    bench.clock.advance_ms(5000)
    append(log, b"a", timestamp_ms=first_ms)
    append(log, b"a", timestamp_ms=first_ms + 1000)
    assert len(log.segments) == 1
    append(log, b"a", timestamp_ms=first_ms + 1001)
    assert [segment.base_offset for segment in log.segments] == [0, 3]


@pytest.mark.parametrize(("segment_bytes", "segments"), [(2, 2), (3, 1), (1, 3)])
def test_a_segment_is_rolled_when_a_batch_does_not_fit(tmp_path: Path, segment_bytes: int, segments: int) -> None:
    size = len(batch(b"a"))
    log = Bench(tmp_path / "topic-0", segment_bytes=segment_bytes * size).open()
    for _ in range(3):
        append(log, b"a")
    assert len(log.segments) == segments
    with pytest.raises(RecordBatchTooLargeError):
        append(log, b"a" * (1 + (segment_bytes - 1) * size + 1))
    assert log.log_end_offset == 3


@pytest.mark.parametrize("age_ms", [1000, 1001])
@pytest.mark.parametrize("times", [(-1, -1), (NOW_MS, -1), (-1, NOW_MS)])
@pytest.mark.parametrize("settings", [{"segment_ms": 1000}, {"max_compaction_lag_ms": 1000, "cleanup_policy": ("compact",)}])
def test_the_age_of_records_without_timestamps_is_that_of_their_segment(
    tmp_path: Path, age_ms: int, times: tuple[int, int], settings: dict[str, Any]
) -> None:
    bench = Bench(tmp_path / "topic-0", **settings)
    log = bench.open()
    bench.clock.advance_ms(5000)
    log.append_as_follower(batch(b"a", timestamp_ms=-1, base_offset=0))
    assert len(log.segments) == 1, "an empty segment has no age"
    log.roll()
    log.append_as_follower(batch(b"a", timestamp_ms=times[0], base_offset=1))
    bench.clock.advance_ms(age_ms)
    log.append_as_follower(batch(b"a", timestamp_ms=times[1], base_offset=2))
    assert len(log.segments) == (3 if age_ms > 1000 else 2)


@pytest.mark.parametrize("settings", [{"segment_ms": 1000}, {"max_compaction_lag_ms": 1000, "cleanup_policy": ("compact",)}])
def test_a_segment_is_rolled_earlier_by_its_jitter(tmp_path: Path, settings: dict[str, Any]) -> None:
    log = Bench(tmp_path / "topic-0", **settings).open()
    log.segments.active.jitter_ms = 400
    for number, late in enumerate((0, 600, 601)):
        assert len(log.segments) == 1
        log.append_as_follower(batch(b"a", timestamp_ms=NOW_MS + late, base_offset=number))
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_the_largest_lag_of_a_compaction_rolls_only_compacted_logs(tmp_path: Path) -> None:
    for name, policy, segments in (("a-0", ("compact",), 2), ("b-0", ("delete",), 1)):
        log = Bench(tmp_path / name, max_compaction_lag_ms=1000, cleanup_policy=policy).open()
        for late in (0, 1000, 1001):
            log.append_as_follower(batch(b"a", timestamp_ms=NOW_MS + late, base_offset=log.log_end_offset))
        assert len(log.segments) == segments


def test_a_batch_of_many_segments_lies_where_it_says(tmp_path: Path) -> None:
    """The positions of the last batches are kept in memory, in two halves; those before them are looked up in the index."""
    bench = Bench(tmp_path / "topic-0", index_interval_bytes=500)
    log = bench.open()
    positions = {}
    for number in range(3 * RECENT_BATCHES):
        positions[2 * number] = log.size_bytes
        append(log, b"x" * (number % 7), b"y")
    for each in (log, bench.open(), bench.reopen_clean(log)):
        for offset in range(each.log_end_offset):
            assert each.offset_metadata(offset) == (offset, 0, positions[offset - offset % 2])


def test_room_that_is_not_preallocated_is_not_taken(log: UnifiedLog) -> None:
    append(log, b"a")
    log.roll()
    assert [segment.path.stat().st_size for segment in log.segments] == [log.size_bytes, 0]


def test_a_roll_that_cannot_write_its_snapshot_leaves_no_segment(log: UnifiedLog) -> None:
    append(log, b"a")
    names = sorted(os.listdir(log.dir))
    obstacle = log.dir / f"{1:020}.snapshot.tmp"
    obstacle.mkdir()
    with pytest.raises(KafkaStorageError):
        log.roll()
    obstacle.rmdir()
    assert sorted(os.listdir(log.dir)) == names
    log.roll()
    assert append(log, b"b") == 1
    assert contents(log) == [(0, b"a"), (1, b"b")]


def test_a_segment_is_rolled_when_an_index_is_full(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "topic-0", segment_index_bytes=3 * 12, index_interval_bytes=0)
    log = bench.open()
    for number in range(7):
        append(log, b"a", timestamp_ms=NOW_MS + number)
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6]


@pytest.mark.parametrize(("step_ms", "count"), [(0, 5), (1, 3)])
def test_an_index_that_is_full_is_so_after_a_restart(tmp_path: Path, step_ms: int, count: int) -> None:
    """There is room for four offsets and, besides the last entry, for two times."""
    bench = Bench(tmp_path / "topic-0", segment_index_bytes=3 * 12, index_interval_bytes=0)
    log = bench.open()
    for number in range(count):
        append(log, b"a", timestamp_ms=NOW_MS + number * step_ms)
    assert len(log.segments) == 1
    for again in (bench.open(), bench.reopen_clean(log)):
        assert again.segments.active.is_index_full
    append(again, b"a", timestamp_ms=NOW_MS + count * step_ms)
    assert [segment.base_offset for segment in again.segments] == [0, count]


def test_a_segment_is_rolled_when_relative_offsets_overflow(tmp_path: Path) -> None:
    log = Bench(tmp_path / "topic-0").open()
    log.append_as_follower(batch(b"a", base_offset=0))
    far = 2**31 + 1
    log.append_as_follower(batch(b"a", base_offset=far))
    assert [segment.base_offset for segment in log.segments] == [0, far]
    assert contents(log, 1) == [(far, b"a")]


@pytest.mark.parametrize("first", [0, 2**31, 2**40])
def test_a_segment_begins_at_the_end_of_the_log_also_before_a_gap(tmp_path: Path, first: int) -> None:
    log = Bench(tmp_path / "topic-0", segment_bytes=len(batch(b"a"))).open()
    for offset in (first, first + 1, first + 7):
        log.append_as_follower(batch(b"a", base_offset=offset))
    assert [segment.base_offset for segment in log.segments] == [first, first + 1, first + 2]
    assert contents(log, first) == [(first, b"a"), (first + 1, b"a"), (first + 7, b"a")]


def test_an_empty_segment_that_cannot_hold_an_offset_is_made_anew(tmp_path: Path) -> None:
    log = Bench(tmp_path / "topic-0").open()
    log.append_as_follower(batch(b"a", base_offset=2**33))
    assert [segment.base_offset for segment in log.segments] == [2**33]
    assert [name for name in os.listdir(log.dir) if name.endswith(".log")] == [f"{2**33:020}.log"]


def test_a_batch_larger_than_a_segment_is_refused(log: UnifiedLog) -> None:
    with pytest.raises(RecordBatchTooLargeError):
        append(log, b"x" * SMALL)
    assert log.log_end_offset == 0


def test_rolling_writes_a_snapshot_and_flushes_what_was_before(log: UnifiedLog, bench: Bench) -> None:
    append(log, b"a")
    log.roll()
    log.roll()
    bench.scheduler.run_due()
    assert log.recovery_point == 1
    assert sorted(name for name in os.listdir(log.dir) if name.endswith(".snapshot")) == ["00000000000000000001.snapshot"]


def test_flush_messages(tmp_path: Path) -> None:
    log = Bench(tmp_path / "topic-0", flush_messages=3).open()
    append(log, b"a", b"b")
    assert log.recovery_point == 0
    append(log, b"c")
    assert log.recovery_point == 3
    log.append_as_follower(batch(b"d", b"e", base_offset=3))
    assert log.recovery_point == 3
    log.append_as_follower(batch(b"f", base_offset=5))
    assert log.recovery_point == 6
    append(log, b"g", b"h")
    assert log.recovery_point == 6
    append(log, b"i")
    assert log.recovery_point == 9


def test_flushes_are_timed_and_only_what_is_new_is_flushed(log: UnifiedLog, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    took: list[float] = []
    bench.environment.on_flush_ms = took.append
    monkeypatch.setattr(disk, "sync_data", lambda _: bench.clock.advance_ms(5))
    append(log, b"a")
    bench.clock.advance_ms(100)
    log.flush()
    log.flush()
    assert took == [5.0]
    assert log.last_flush_ms == NOW_MS + 105
    for _ in range(2):
        append(log, b"b")
        log.roll()
    append(log, b"c")
    log.flush_before(2)
    assert (log.recovery_point, took) == (2, [5.0, 5.0])
    log.flush_before(1)
    log.flush_before(2)
    assert took == [5.0, 5.0]
    log.flush()
    assert (log.recovery_point, took) == (4, [5.0, 5.0, 10.0])
    append(log, b"d")
    log.close_handles()
    log.flush()
    assert (log.recovery_point, bench.failures, len(took)) == (4, [], 3)


def test_a_flush_syncs_the_directory_for_new_names_only(log: UnifiedLog, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(os.readlink(f"/proc/self/fd/{fd}")), fsync(fd)))

    def flushes() -> int:
        log.flush()
        count = synced.count(str(bench.directory))
        synced.clear()
        return count

    append(log, b"a")
    assert flushes() == 1
    append(log, b"b")
    assert flushes() == 0
    log.assign_topic_id(b"0123456789abcdef")
    append(log, b"c")
    assert (flushes(), flushes()) == (1, 0)
    again = bench.reopen_clean(log)
    names: list[Path] = []
    monkeypatch.setattr(bench.environment, "sync_names", names.append)
    for value in (b"d", b"e"):
        append(again, value)
        again.flush()
    assert names == [bench.directory.parent], "its own name is made durable once"


def test_a_flush_writes_the_indexes(tmp_path: Path) -> None:
    log = Bench(tmp_path / "topic-0", index_interval_bytes=0).open()
    fill(log, 4)
    index = log.dir / f"{0:020}.index"
    assert index.stat().st_size == 0
    log.flush()
    assert index.stat().st_size == 3 * 8
    fill(log, 1)
    log.write_out()
    assert index.stat().st_size == 4 * 8
    assert (log.dir / f"{5:020}.snapshot").exists()
    assert log.recovery_point == 4


# Followers.


def test_a_follower_takes_offsets_and_epochs_as_they_are(log: UnifiedLog) -> None:
    data = batch(b"a", b"b", base_offset=5, partition_leader_epoch=2) + batch(b"c", base_offset=9, partition_leader_epoch=3)
    info = log.append_as_follower(data)
    assert (info.first_offset, info.last_offset, log.log_end_offset, log.latest_epoch) == (5, 9, 10, 3)
    assert contents(log) == [(5, b"a"), (6, b"b"), (9, b"c")]
    assert log.end_offset_for_epoch(2) == EpochEndOffset(2, 9)
    assert [log.epoch_for_offset(offset) for offset in (4, 5, 8, 9)] == [None, 2, 2, 3]


def test_a_follower_counts_the_records_of_a_batch_and_one_for_an_old_message(log: UnifiedLog) -> None:
    assert log.append_as_follower(batch(b"a", base_offset=0)).record_count == 1
    assert log.append_as_follower(batch(b"b", b"c", b"d", base_offset=1)).record_count == 3
    assert log.append_as_follower(batch(b"e", b"f", base_offset=4, magic=1)).record_count == 2


def test_a_follower_knows_the_producer_of_any_batch(log: UnifiedLog) -> None:
    log.append_as_follower(
        batch(b"a", base_offset=0) + batch(b"b", base_offset=1, producer_id=7, producer_epoch=0, base_sequence=0)
    )
    assert [entry.producer_id for entry in log.active_producers()] == [7]


def test_a_follower_leaves_out_a_batch_that_was_cut(log: UnifiedLog) -> None:
    data = batch(b"a", base_offset=0) + batch(b"b", base_offset=1)[:-1]
    assert log.append_as_follower(data).last_offset == 0
    assert log.append_as_follower(data[:30]).last_offset == -1


def test_a_follower_refuses_corrupt_and_repeated_batches(log: UnifiedLog) -> None:
    log.append_as_follower(batch(b"a", base_offset=0))
    bad = batch(b"b", base_offset=1)
    bad[-1] ^= 1
    for data in (bad, batch(b"a", base_offset=0), batch(b"b", base_offset=2) + batch(b"c", base_offset=1)):
        with pytest.raises(CorruptRecordError):
            log.append_as_follower(data)
    assert log.log_end_offset == 1


# Identity, failure, end.


def test_a_topic_id_that_a_crash_cut_short_is_as_good_as_none(log: UnifiedLog, bench: Bench) -> None:
    path = bench.directory / "partition.metadata"
    path.write_text("version: 0\ntopic_")
    assert bench.open().topic_id is None
    path.write_text("version: 0\ntopic_")
    with pytest.raises(ValueError, match=r"partition\.metadata must have"):
        bench.open(was_clean=True)


def test_the_topic_id_is_kept(log: UnifiedLog, bench: Bench) -> None:
    log.assign_topic_id(bytes(range(16)))
    log.assign_topic_id(bytes(range(16)))
    with pytest.raises(InconsistentTopicIdError):
        log.assign_topic_id(bytes(16))
    again = bench.open()
    assert again.topic_id == bytes(range(16))


def test_a_failing_disk_is_told_and_leaves_the_log_as_it_was(
    log: UnifiedLog, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(log, b"a")

    real = os.pwrite
    written: list[Any] = []

    def full(fd: Any, data: Any, position: Any) -> Any:
        if written:
            raise OSError(28, "No space left on device")
        written.append(real(fd, data[:20], position))
        return 20

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(KafkaStorageError):
        append(log, b"b")
    monkeypatch.undo()
    assert len(bench.failures) == 1
    assert append(log, b"c") == 1
    assert contents(log) == [(0, b"a"), (1, b"c")]


def test_delete_removes_everything(log: UnifiedLog) -> None:
    fill(log, 30)
    log.delete()
    assert not log.dir.exists()


def test_a_closed_log_refuses_appends_and_blames_no_disk(log: UnifiedLog, bench: Bench) -> None:
    fill(log, 30)
    log.delete()
    for attempt in (lambda: append(log, b"late", epoch=9), lambda: log.append_as_follower(batch(b"late", base_offset=30))):
        with pytest.raises(KafkaStorageError, match="is closed"):  # the directory's name has the word, too
            attempt()
    with pytest.raises(KafkaStorageError):
        log.read(0, 100, FetchIsolation.LOG_END)
    assert bench.failures == []


@pytest.mark.parametrize("by_time", [True, False])
def test_a_segment_that_is_deleted_under_a_reader(
    tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch, by_time: bool
) -> None:
    fill(bench.open(), 40)
    log = bench.reopen_clean(bench.open())
    log.update_high_watermark(40)
    first = log.segments.first

    def delete_meanwhile(*arguments: Any) -> None:
        monkeypatch.undo()
        log.increment_log_start_offset(20)
        log.delete_old_segments()
        raise FileNotFoundError(first.path)

    monkeypatch.setattr("twisted_kafka.log.segment.log_segment.LogSegment.locate", delete_meanwhile)
    if by_time:
        assert log.offset_for_timestamp(0).offset == 20
    else:
        with pytest.raises(OffsetOutOfRangeError):
            log.read(3, 100)
    assert bench.failures == []


def test_the_directory_can_be_renamed_under_an_open_log(log: UnifiedLog, tmp_path: Path) -> None:
    fill(log, 30)
    log.move_to(tmp_path / "elsewhere-0")
    assert len(contents(log)) == 30
    append(log, b"more", epoch=5)
    log.flush()
    log.close()
    assert not (tmp_path / "topic-0").exists()
    assert isinstance(log, UnifiedLog)


@pytest.mark.parametrize("has_records", [True, False])
def test_roll_that_fails_leaves_the_log_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_records: bool) -> None:
    bench = Bench(tmp_path / "topic-0", segment_bytes=1000)
    log = bench.open()
    expected = []
    if has_records:
        append(log, b"before")
        expected.append((0, b"before"))

    def no_room(*_args: object, **_options: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patched:
        patched.setattr("twisted_kafka.log.segment.log_segment.SegmentFile", no_room)
        # An empty segment is replaced by what does not fit its base offset.
        far = partial(log.append_as_follower, batch(b"far", base_offset=3_000_000_000, partition_leader_epoch=0))
        with pytest.raises(KafkaStorageError):
            (log.roll if has_records else far)()
    append(log, b"after")
    expected.append((len(expected), b"after"))
    log.roll()
    append(log, b"last")
    expected.append((len(expected), b"last"))
    assert contents(log) == expected
    assert contents(bench.reopen_clean(log)) == expected


def test_jitter_is_drawn_for_a_log_that_is_opened_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "topic-0", segment_ms=1000, segment_jitter_ms=1_000_000)
    drawn = {bench.open().segments.active.jitter_ms for _ in range(20)}
    assert len(drawn) > 1
    assert max(drawn) < 1000
