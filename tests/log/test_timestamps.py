"""Finding records by time, and by offset where batches are large, against looking at all of them."""

import contextlib
import os
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.budget import share_of
from tests.support.logs import NOW_MS, Bench, append, batch, batch_file
from twisted_kafka.log.batch_headers import LARGE_BATCH_BYTES, find_batch, scan_headers
from twisted_kafka.log.segment import log_segment as segment_module
from twisted_kafka.log.segment.log_segment import SegmentFile
from twisted_kafka.protocol.errors import CorruptRecordError, InvalidRecordError
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.checksums import crc32c
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.protocol.records.record import SimpleRecord

SIZES = st.sampled_from([10, 100, 3000, LARGE_BATCH_BYTES + 1000])
BATCHES = st.lists(st.tuples(SIZES, st.lists(st.integers(-5, 300), min_size=1, max_size=6)), min_size=1, max_size=14)


@settings(max_examples=share_of(80))
@given(BATCHES, st.data(), st.sampled_from([Compression.NONE, Compression.GZIP]), st.booleans(), st.booleans())
def test_the_first_record_that_is_not_older_is_found(batches: Any, data: Any, codec: Any, append_time: Any, reopened: Any) -> None:
    with tempfile.TemporaryDirectory() as directory:
        stamped = {"message_timestamp_type": "LogAppendTime"} if append_time else {}
        bench = Bench(Path(directory) / "topic-0", segment_bytes=40_000, index_interval_bytes=data.draw(SIZES), **stamped)
        log = bench.open()
        records = []
        for size, times in batches:
            if append_time:
                bench.clock.advance_ms(times[0] + 5)
            new = [SimpleRecord(NOW_MS + time, None, os.urandom(size // len(times))) for time in times]
            log.append_as_leader(bytearray(build_batch(new, compression=codec)), 3)
            records += [bench.clock.wall_ms() if append_time else NOW_MS + time for time in times]
            if data.draw(st.integers(0, 4)) == 0:
                log.roll()
        if reopened:
            log = bench.reopen_clean(log)
        log.update_high_watermark(log.log_end_offset)
        for wanted in [*set(records), NOW_MS - 6, max(records) + 1, *(time + 1 for time in records)]:
            expected = next(((time, offset) for offset, time in enumerate(records) if time >= wanted), None)
            assert (found := log.offset_for_timestamp(wanted)) is None or found.leader_epoch == 3
            assert (found and found[:2]) == expected
        latest = max(records)
        assert log.max_timestamp_offset()[:2] == (latest, records.index(latest))
        start = data.draw(st.integers(0, len(records)))
        log.increment_log_start_offset(start)
        for wanted in set(records):
            expected = next(((time, offset) for offset, time in enumerate(records) if time >= wanted and offset >= start), None)
            found = log.offset_for_timestamp(wanted)
            assert (found and found[:2]) == expected


def test_records_of_any_size_are_found(tmp_path: Path) -> None:
    """Their sizes take one, two or three bytes, of which some are zero but for the sign that more follow."""
    log = Bench(tmp_path / "topic-0").open()
    sizes = [*range(48, 80), *range(8180, 8210), 20_000, 0]
    records = [SimpleRecord(NOW_MS + number, None, bytes(size)) for number, size in enumerate(sizes)]
    log.append_as_leader(bytearray(build_batch(records)), 0)
    for offset in range(len(sizes)):
        assert log.offset_for_timestamp(NOW_MS + offset) == (NOW_MS + offset, offset, 0)


def test_the_first_moment_of_time_is_found(tmp_path: Path) -> None:
    log = Bench(tmp_path / "topic-0").open()
    append(log, b"a", timestamp_ms=-1)
    assert log.max_timestamp_offset() is None
    append(log, b"b", timestamp_ms=0)
    assert log.offset_for_timestamp(0) == log.max_timestamp_offset() == (0, 1, 0)


def test_a_largest_timestamp_that_no_record_has_is_that_of_its_batch(tmp_path: Path) -> None:
    """As after a compaction by an old broker; the leader epoch is not known then."""
    log = Bench(tmp_path / "topic-0").open()
    records = bytearray(batch(b"a", b"b", base_offset=0, partition_leader_epoch=5))
    records[35:43] = (NOW_MS + 10).to_bytes(8, "big")
    records[17:21] = crc32c(bytes(records[21:])).to_bytes(4, "big")
    log.append_as_follower(records)
    assert log.max_timestamp_offset() == (NOW_MS + 10, 1, -1)


@settings(max_examples=share_of(100))
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5), SIZES), min_size=1, max_size=12))
def test_a_batch_is_found_from_wherever_an_index_points(shapes: Any) -> None:
    """Whatever later batch is tried first, it is taken only when it is the one."""
    data, base = b"", 0
    for gap, count, size in shapes:
        base += gap
        data += build_batch([SimpleRecord(number, None, bytes(size)) for number in range(count)], base_offset=base)
        base += count
    with batch_file(data) as file:
        starts = [header.position for header in scan_headers(file, 0, len(data))]
        for offset in range(base + 1):
            expected = find_batch(file, 0, len(data), offset)
            assert {find_batch(file, 0, len(data), offset, following) for following in starts} == {expected}


@pytest.mark.whole_transfers
def test_a_large_batch_that_the_index_points_at_is_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [SimpleRecord(0, None, bytes(LARGE_BATCH_BYTES // 2)) for _ in range(3)]
    data = b"".join(build_batch(records, base_offset=at) for at in (0, 3, 6))
    size_bytes = len(data) // 3
    with batch_file(data) as file:
        read: list[int] = []
        pread = os.pread
        monkeypatch.setattr(os, "pread", lambda fd, size, at: (read.append(at), pread(fd, size, at))[1])
        for offset in (6, 7, 8):
            assert find_batch(file, 0, len(data), offset, 2 * size_bytes) == (8, 2 * size_bytes, 3 * size_bytes, 6)
        assert read == [2 * size_bytes] * 3


def test_a_batch_that_is_not_there_in_full_is_not_found_by_the_index_either() -> None:
    data = b"".join(build_batch([SimpleRecord(0, None, bytes(LARGE_BATCH_BYTES))], base_offset=at) for at in range(3))
    with batch_file(data) as file:
        position = len(data) // 3 * 2
        for end in (len(data) - 1, position + 40):
            with pytest.raises(CorruptRecordError):
                find_batch(file, 0, end, 2, position)


def test_of_two_readers_that_come_first_one_opens_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path / "topic-0")
    append(bench.open(), b"a")
    log = bench.open()
    segment = log.segments.active
    segment.release_file()
    both = threading.Barrier(2)

    def opened(*arguments: Any) -> Any:
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.2)
        return SegmentFile(*arguments)

    monkeypatch.setattr(segment_module, "SegmentFile", opened)
    files = []
    readers = [threading.Thread(target=lambda: files.append(segment.file)) for _ in range(2)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert files[0] is files[1]
    assert files[0] is segment.file


@pytest.mark.parametrize("damage", [b"\x01", b"\xff" * 12])
def test_records_that_do_not_parse_are_told_of(tmp_path: Path, damage: bytes) -> None:
    """What lies in the file is believed as far as its headers go: a client is told, and nothing loops."""
    log = Bench(tmp_path / "topic-0").open()
    append(log, b"a" * 50, b"b" * 50)
    with open(log.segments.active.path, "r+b") as file:
        file.seek(61)
        file.write(damage)
    with pytest.raises(InvalidRecordError, match="malformed"):
        log.offset_for_timestamp(NOW_MS + 1)


@pytest.mark.parametrize("size", [0, 10, 1 << 20])
def test_nothing_is_found_behind_a_batch_whose_size_is_wrong(tmp_path: Path, size: int) -> None:
    log = Bench(tmp_path / "topic-0").open()
    append(log, b"a")
    position = log.size_bytes
    append(log, b"b", timestamp_ms=NOW_MS + 1)
    with open(log.segments.active.path, "r+b") as file:
        file.seek(position + 8)
        file.write(size.to_bytes(4, "big"))
    assert log.offset_for_timestamp(NOW_MS + 1) is None
    assert log.offset_for_timestamp(NOW_MS) == (NOW_MS, 0, 0)


def test_segments_before_the_offset_are_not_searched(tmp_path: Path) -> None:
    log = Bench(tmp_path / "topic-0").open()
    for number in range(3):
        append(log, b"a", b"b", timestamp_ms=NOW_MS + number)
        log.roll()
    for offset, found in ((0, [0, 2, 4]), (1, [0, 2, 4]), (2, [2, 4]), (5, [4]), (6, [])):
        assert [segment.base_offset for segment in log.segments.reaching(NOW_MS, offset)] == found
    assert [segment.base_offset for segment in log.segments.reaching(NOW_MS + 2, 0)] == [2, 4]
