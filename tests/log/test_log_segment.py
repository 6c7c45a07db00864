"""One segment: what it finds by offset and by time, in memory and in its files, and when it begins anew."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.logs import NOW_MS, batch
from twisted_kafka.log.batch_headers import batches_in
from twisted_kafka.log.results import AbortedTransaction
from twisted_kafka.log.segment.index_check import BatchFile, indexes_fit
from twisted_kafka.log.segment.log_segment import LogSegment
from twisted_kafka.system.files import disk

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
    assert old.path.stat().st_size == 0
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


@pytest.mark.parametrize("reserve_bytes", [0, 4096])
def test_what_was_reserved_is_cut_durably(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reserve_bytes: int) -> None:
    segment = create(tmp_path, reserve_bytes=reserve_bytes)
    append(segment, 1)
    synced: list[int] = []
    monkeypatch.setattr(disk, "sync_data", lambda fd: synced.append(os.fstat(fd).st_size))
    segment.close()
    assert synced == ([segment.size_bytes] if reserve_bytes else [])


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


@pytest.mark.parametrize("offset", [BASE, BASE + 2**31 - 1, BASE - 1, BASE + 2**31])
def test_offsets_fit_a_segment_whose_indexes_can_have_them(tmp_path: Path, offset: int) -> None:
    assert create(tmp_path).fits(offset) is (offset in (BASE, BASE + 2**31 - 1))


@pytest.mark.parametrize("same_time", [1, 3])
@pytest.mark.parametrize(("more_bytes", "entries"), [(-1, 9), (0, 4), (1, 4)])
def test_an_entry_is_made_when_more_bytes_than_the_interval_came_after_the_last_one(
    tmp_path: Path, more_bytes: int, entries: int, same_time: int
) -> None:
    interval_bytes = len(batch(b"x", timestamp_ms=1, base_offset=BASE)) + more_bytes
    segment = create(tmp_path, index_interval_bytes=interval_bytes)
    append(segment, *[number // same_time for number in range(10)])
    assert segment.offset_index.entries == entries
    assert (segment.time_index.entries == entries) is (same_time == 1)
    segment.close()
    indexes = {path.name: path.read_bytes() for path in tmp_path.glob("*index")}
    size_bytes = segment.size_bytes
    for path in tmp_path.glob("*index"):
        path.write_bytes(bytes(8))
    again = LogSegment(tmp_path, BASE, size_bytes=size_bytes, max_index_bytes=1200, index_interval_bytes=interval_bytes)
    assert again.locate(BASE + 5) == (BASE + 5, size_bytes // 2, size_bytes // 10 * 6, BASE + 5)
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*index")} == indexes, "they are built as they were written"
    again = LogSegment(tmp_path, BASE, size_bytes=size_bytes, max_index_bytes=1200, index_interval_bytes=interval_bytes)
    again.truncate_to(BASE + 7)
    for number in range(7, 10):
        records = bytes(batch(b"x", timestamp_ms=number // same_time, base_offset=BASE + number))
        again.append(records, list(batches_in(records)))
    again.close()
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*index")} == indexes


@pytest.mark.parametrize(
    ("entries", "times", "expected"),
    [
        ([(102, 2)], [(3, 102)], True),
        ([(103, 2)], [(3, 102)], True),
        ([], [(3, 102)], True),
        ([], [(1, 100)], True),
        ([], [(0, 100)], False),
        ([], [], False),
        ([(101, 2)], [(3, 102)], False),
        ([(102, 2.5)], [(3, 102)], False),
        ([(102, 3)], [(3, 102)], False),
        ([(102, 4)], [(3, 102)], False),
    ],
)
def test_indexes_that_do_not_fit_their_batches(
    tmp_path: Path, entries: list[tuple[int, float]], times: list[tuple[int, int]], expected: bool
) -> None:
    """Of the entries, the last ones are looked at: their positions are given in batches."""
    segment = create(tmp_path)
    append(segment, 1, 2, 3)
    segment.seal()
    batches = BatchFile(segment.file, BASE, segment.size_bytes)
    segment.reset_indexes()
    for offset, position in entries:
        segment.offset_index.append(offset, int(position * segment.size_bytes / 3))
    for time_ms, offset in times:
        segment.time_index.maybe_append(time_ms, offset)
    assert indexes_fit(batches, segment.offset_index, segment.time_index) is expected
    with open(segment.path, "r+b") as file:  # the size of the first batch
        file.seek(8)
        file.write(bytes(4))
    assert not indexes_fit(batches, segment.offset_index, segment.time_index)


def test_indexes_of_batches_without_times_and_of_none(tmp_path: Path) -> None:
    segment = create(tmp_path)
    file = segment.file
    assert indexes_fit(BatchFile(file, BASE, 0), segment.offset_index, segment.time_index)
    append(segment, -1)
    assert indexes_fit(BatchFile(file, BASE, segment.size_bytes), segment.offset_index, segment.time_index)
    assert not indexes_fit(BatchFile(file, BASE + 1, segment.size_bytes), segment.offset_index, segment.time_index)
    segment.offset_index.append(BASE, 0)
    assert not indexes_fit(BatchFile(file, BASE, 0), segment.offset_index, segment.time_index)
