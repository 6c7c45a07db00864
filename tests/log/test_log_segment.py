"""One segment: what it finds by offset and by time, in memory and in its files, and when it begins anew."""

from pathlib import Path
from typing import Any

from tests.log.support import NOW_MS, batch
from twisted_kafka.log.batch_headers import batches_in
from twisted_kafka.log.results import AbortedTransaction
from twisted_kafka.log.segment.log_segment import LogSegment

BASE = 100


def create(directory: Path, **options: Any) -> LogSegment:
    settings = {"max_index_bytes": 1200, "index_interval_bytes": 0, "now_ms": NOW_MS} | options
    return LogSegment.create(directory, BASE, **settings)


def opened(segment: LogSegment) -> LogSegment:
    """The segment as the next start finds it."""
    segment.close()
    size_bytes = segment.path.stat().st_size
    return LogSegment(segment.directory, BASE, size_bytes=size_bytes, max_index_bytes=1200, index_interval_bytes=0)


def append(segment: LogSegment, *times_ms: int) -> None:
    """Append a batch of one record for each time, from the base offset on."""
    for number, time_ms in enumerate(times_ms):
        records = bytes(batch(b"x", timestamp_ms=time_ms, base_offset=BASE + number))
        segment.append(records, list(batches_in(records)))


def test_a_segment_begins_anew_where_another_was_left(tmp_path: Path) -> None:
    old = create(tmp_path)
    append(old, 1, 2, 3)
    old.transaction_index.append(AbortedTransaction(7, BASE, BASE + 1, BASE + 2))
    old.close()
    sizes = {path.suffix: path.stat().st_size for path in tmp_path.iterdir()}
    assert min(sizes.values()) > 0
    assert len(sizes) == 4
    for reserve_bytes in (0, 4096):
        new = create(tmp_path, reserve_bytes=reserve_bytes)
        sizes = {path.suffix: path.stat().st_size for path in tmp_path.iterdir()}
        assert sizes == {".log": reserve_bytes, ".index": 0, ".timeindex": 0}
        assert (new.size_bytes, new.transaction_index.entries, new.locate(BASE)) == (0, (), None)
        append(new, 1, 2, 3)
        assert new.locate(BASE + 2) is not None
        new.close()
        assert new.path.stat().st_size == new.size_bytes


def test_the_first_moment_of_time_is_a_time(tmp_path: Path) -> None:
    segment = create(tmp_path)
    assert segment.first_later(0) == BASE
    append(segment, 0, 0)
    for each in (segment, opened(segment)):
        assert each.first_later(0) == BASE + 1  # of records of the same time the index has the first
        assert each.largest_timestamp_ms() == 0
        assert each.find_first_timestamp_ms() == 0


def test_records_without_times_are_as_old_as_their_file(tmp_path: Path) -> None:
    segment = create(tmp_path)
    append(segment, -1, -1)
    for each in (segment, opened(segment)):
        assert each.first_later(0) == BASE
        assert each.largest_timestamp_ms() == each.last_modified_ms() > 0
        assert each.find_first_timestamp_ms() == -1


def test_a_file_without_a_batch_has_no_first_time(tmp_path: Path) -> None:
    segment = create(tmp_path)
    assert segment.find_first_timestamp_ms() == -1
    segment.path.write_bytes(bytes(100))
    assert opened(segment).find_first_timestamp_ms() == -1


def test_the_index_by_time_is_checked_when_it_is_used_first(tmp_path: Path) -> None:
    segment = create(tmp_path)
    append(segment, 10, 20, 30)
    assert [segment.first_later(time_ms) for time_ms in (9, 10, 20, 30)] == [BASE, BASE, BASE + 2, BASE + 3]
    again = opened(segment)
    again.time_index.path.write_bytes(b"")
    assert [again.first_later(time_ms) for time_ms in (9, 10, 20, 30)] == [BASE, BASE, BASE + 2, BASE + 3]
