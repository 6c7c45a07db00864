import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.logs import NOW_MS, Bench, abort, append, batch, contents, fill
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.protocol.errors import (
    OffsetOutOfRangeError,
)

SMALL = 1024
HOUR_MS = 3_600_000


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "topic-0", segment_bytes=SMALL, index_interval_bytes=200)


@pytest.fixture
def log(bench: Bench) -> UnifiedLog:
    return bench.open()


# Truncation.


@pytest.mark.parametrize("offset", [1, 2, 9, 10, 11, 20, 39])
def test_truncation_keeps_what_was_before(log: UnifiedLog, bench: Bench, offset: int) -> None:
    fill(log, 40)
    log.update_high_watermark(40)
    assert log.truncate_to(offset)
    assert log.log_end_offset == log.high_watermark == offset
    append(log, b"new", epoch=1)
    wanted = [(number, b"value-%d" % number) for number in range(offset)] + [(offset, b"new")]
    assert contents(log) == wanted
    assert contents(bench.reopen_clean(log)) == wanted
    assert contents(bench.open()) == wanted


def test_no_file_of_a_segment_that_is_cut_off_is_left(log: UnifiedLog) -> None:
    fill(log, 100)
    log.flush()
    assert len(log.segments) > 3
    log.truncate_to(list(log.segments)[1].base_offset + 1)
    bases = {segment.base_offset for segment in log.segments}
    assert {int(path.name[:20]) for path in log.dir.iterdir() if path.name[0] == "0"} == bases
    assert len(bases) == 2


def test_truncation_takes_whole_batches(log: UnifiedLog) -> None:
    append(log, b"a", b"b", b"c")
    append(log, b"d", b"e", b"f")
    log.truncate_to(4)
    assert log.log_end_offset == 3
    assert not log.truncate_to(3)


def test_truncation_forgets_epochs_and_times(log: UnifiedLog) -> None:
    for epoch in range(4):
        append(log, b"a", epoch=epoch, timestamp_ms=NOW_MS + epoch)
    log.truncate_to(2)
    assert log.latest_epoch == 1
    assert log.max_timestamp_offset().timestamp_ms == NOW_MS + 1


def test_transactions_that_were_complete_before_a_truncation_stay_readable(log: UnifiedLog) -> None:
    append(log, b"aborted", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    abort(log, 7)
    append(log, b"a")
    append(log, b"b")
    log.update_high_watermark(4)
    log.truncate_to(3)
    assert log.last_stable_offset == 3


def test_transactions_whose_end_is_cut_off_are_not_aborted(log: UnifiedLog, bench: Bench) -> None:
    for sequence in range(2):
        append(log, b"x", producer_id=7, producer_epoch=0, base_sequence=sequence, is_transactional=True)
        abort(log, 7)
    first = log.aborted_transactions(0, 4)[0]
    log.truncate_to(3)
    for each in (log, bench.reopen_clean(log)):
        assert each.aborted_transactions(0, 4) == [first]
        each.update_high_watermark(3)
        assert each.last_stable_offset == 2
    log.truncate_fully_and_start_at(2)
    assert (log.aborted_transactions(0, 4), log.latest_epoch, log.active_producers()) == ([], -1, [])


def test_truncation_to_before_the_first_segment_begins_anew(log: UnifiedLog) -> None:
    log.truncate_fully_and_start_at(50)
    append(log, b"a")
    log.truncate_to(20)
    assert (log.log_start_offset, log.log_end_offset) == (20, 20)
    assert append(log, b"b") == 20


# The start of the log.


def test_the_log_start_moves_up_to_the_high_watermark(log: UnifiedLog) -> None:
    fill(log, 10)
    with pytest.raises(OffsetOutOfRangeError):
        log.increment_log_start_offset(5)
    log.update_high_watermark(5)
    assert log.increment_log_start_offset(5, "client delete records")
    assert not log.increment_log_start_offset(5)
    assert not log.increment_log_start_offset(4)
    with pytest.raises(OffsetOutOfRangeError):
        log.read(4, 100)
    assert log.leader_epochs.entries == ((0, 5),)


def test_segments_before_the_log_start_are_deleted(log: UnifiedLog) -> None:
    fill(log, 60)
    log.update_high_watermark(60)
    bases = [segment.base_offset for segment in log.segments]
    log.increment_log_start_offset(bases[2] + 1)
    assert log.delete_old_segments() == 2
    assert [segment.base_offset for segment in log.segments] == bases[2:]
    assert log.log_start_offset == bases[2] + 1


# Retention.


def test_retention_by_size(tmp_path: Path) -> None:
    log = Bench(tmp_path / "topic-0", segment_bytes=SMALL, retention_bytes=3 * SMALL).open()
    fill(log, 100)
    log.update_high_watermark(100)
    assert log.delete_old_segments() > 0
    assert 3 * SMALL <= log.size_bytes < 4 * SMALL
    assert log.log_start_offset == log.segments.first.base_offset > 0
    assert log.delete_old_segments() == 0


def test_retention_by_time_rolls_even_the_active_segment(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "topic-0", segment_bytes=SMALL, retention_ms=1000)
    log = bench.open()
    fill(log, 20)
    log.update_high_watermark(20)
    bench.clock.advance_ms(1000)
    assert log.delete_old_segments() == 0
    bench.clock.advance_ms(1)
    assert log.delete_old_segments() == 2
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (20, 20, 0)
    assert append(log, b"a") == 20
    again = bench.open()
    assert (again.log_start_offset, again.log_end_offset) == (20, 21)


def test_retention_leaves_what_is_above_the_high_watermark(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "topic-0", segment_bytes=SMALL, retention_ms=1000)
    log = bench.open()
    fill(log, 40)
    bench.clock.advance_ms(5000)
    assert log.delete_old_segments() == 0


def one_batch_segments(tmp_path: Path, count: int = 6, **settings: Any) -> tuple[Bench, UnifiedLog, int]:
    """A log of segments with one batch each, an hour apart, all replicated; also returns the size of a segment."""
    size = len(batch(b"x"))
    bench = Bench(tmp_path / "topic-0", segment_bytes=size, **settings)
    log = bench.open()
    for number in range(count):
        log.append_as_follower(batch(b"x", timestamp_ms=NOW_MS + number * HOUR_MS, base_offset=number, partition_leader_epoch=0))
    log.update_high_watermark(count)
    assert [segment.size_bytes for segment in log.segments] == [size] * count
    return bench, log, size


@pytest.mark.parametrize(("kept", "more", "deleted"), [(4, 0, 2), (4, 1, 1), (4, -1, 2), (6, 0, 0), (0, 0, 6), (None, 0, 0)])
def test_a_segment_goes_when_enough_bytes_are_left_without_it(tmp_path: Path, kept: int | None, more: int, deleted: int) -> None:
    size = len(batch(b"x"))
    retention = {"retention_bytes": -1 if kept is None else kept * size + more, "retention_ms": -1}
    _, log, _ = one_batch_segments(tmp_path, **retention)
    assert log.delete_old_segments() == deleted
    assert (log.log_start_offset, log.log_end_offset) == (deleted, 6)
    assert [offset for offset, _ in contents(log)] == list(range(deleted, 6))
    assert append(log, b"y") == 6


@pytest.mark.parametrize(("retention_ms", "age_ms", "deleted"), [(-1, 9 * HOUR_MS, 0), (HOUR_MS, 0, 0), (0, 0, 5), (0, 1, 6)])
@pytest.mark.parametrize("later_hours", [0, 2])
def test_a_segment_goes_when_its_latest_record_is_too_old(
    tmp_path: Path, retention_ms: int, age_ms: int, deleted: int, later_hours: int
) -> None:
    """``age_ms`` is that of the last record, ``later_hours`` are added to the retention and to the age."""
    retention_ms += later_hours * HOUR_MS if retention_ms >= 0 else 0
    bench, log, _ = one_batch_segments(tmp_path, retention_ms=retention_ms, retention_bytes=-1)
    bench.clock.advance_ms((5 + later_hours) * HOUR_MS + age_ms)
    expected = 4 if retention_ms == (1 + later_hours) * HOUR_MS else deleted
    assert log.delete_old_segments() == expected
    assert log.log_start_offset == expected


@pytest.mark.parametrize("mark", range(7))
def test_only_replicated_segments_go(tmp_path: Path, mark: int) -> None:
    _, log, _ = one_batch_segments(tmp_path, retention_bytes=0)
    log.update_high_watermark(mark)
    assert log.delete_old_segments() == mark
    assert (log.log_start_offset, log.high_watermark) == (mark, mark)
    assert len(log.segments) == max(6 - mark, 1)


def test_segments_before_the_start_of_the_log_go_whatever_the_policy(tmp_path: Path) -> None:
    _, log, _ = one_batch_segments(tmp_path, retention_ms=-1, retention_bytes=-1, cleanup_policy=("compact",))
    for start, deleted, left in ((0, 0, 6), (1, 1, 5), (3, 2, 3), (6, 2, 1)):
        log.increment_log_start_offset(start)
        assert log.delete_old_segments() == deleted
        assert (len(log.segments), log.log_start_offset) == (left, start)


def test_files_of_deleted_segments_are_removed_after_a_while(tmp_path: Path) -> None:
    bench, log, _ = one_batch_segments(tmp_path, retention_bytes=0, file_delete_delay_ms=1000)
    log.flush()
    bench.scheduler.run_due()
    log.delete_old_segments()

    def names(suffix: str) -> list[str]:
        return sorted(name for name in os.listdir(log.dir) if name.endswith(suffix))

    assert names(".log") == [f"{6:020}.log"]
    assert len(names(".log.deleted")) == 6
    assert names(".snapshot") == [f"{6:020}.snapshot"]
    bench.clock.advance_ms(999)
    bench.scheduler.run_due()
    assert len(names(".log.deleted")) == 6
    bench.clock.advance_ms(1)
    bench.scheduler.run_due()
    assert names(".deleted") == []
    assert log.recovery_point == 6


def test_a_closed_log_deletes_nothing(tmp_path: Path) -> None:
    _, log, _ = one_batch_segments(tmp_path, retention_bytes=0)
    log.flush()
    log.close()
    log.close()
    assert log.delete_old_segments() == 0
    assert len(log.segments) == 6


def test_compacted_topics_have_no_retention(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "topic-0", segment_bytes=SMALL, retention_ms=1, cleanup_policy=("compact",))
    log = bench.open()
    for number in range(20):
        log.append_as_follower(batch(b"x" * 100, base_offset=number))
    log.update_high_watermark(20)
    bench.clock.advance_ms(5000)
    assert log.delete_old_segments() == 0


def test_truncation_keeps_index_entries_that_were_only_in_memory(tmp_path: Path) -> None:
    log = Bench(tmp_path / "topic-0", index_interval_bytes=0).open()
    for times in ([0, 1], [0], [0, 1, 2], [0], [0]):
        append(log, *[b"value" for _ in times])
    log.truncate_to(log.log_end_offset - 1)
    found = log.offset_for_timestamp(NOW_MS + 1)
    assert found is not None
    assert found[:2] == (NOW_MS + 1, 1)
