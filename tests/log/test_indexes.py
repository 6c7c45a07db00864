import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.logs import batch_file
from twisted_kafka.log.batch_headers import batches_in, crc_matches, find_batch, is_plausible, scan_batches, scan_headers
from twisted_kafka.log.cleaner.blocks import read_blocks
from twisted_kafka.log.segment import indexes
from twisted_kafka.log.segment.indexes import OffsetIndex, TimeIndex
from twisted_kafka.protocol.errors import CorruptRecordError
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.layout import HEADER_SIZE
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.system.files.file_io import ShortFileError

BASE = 1000


@pytest.fixture
def index(tmp_path: Path) -> OffsetIndex:
    index = OffsetIndex(tmp_path / "x.index", BASE, 10 * 8)
    index.reset()
    for number in range(1, 6):
        index.append(BASE + 10 * number, 100 * number)
    return index


@pytest.fixture
def times(tmp_path: Path) -> TimeIndex:
    times = TimeIndex(tmp_path / "x.timeindex", BASE, 5 * 12)
    times.reset()
    for number in range(1, 4):
        times.maybe_append(100 * number, BASE + 10 * number)
    return times


@pytest.mark.parametrize("where", ["memory", "file", "large file"])
def test_positions_are_found(index: OffsetIndex, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if where == "large file":
        monkeypatch.setattr(indexes, "MAX_CACHED_FILE_BYTES", 39)
    if where != "memory":
        index.release()
        assert not index.in_memory
    assert [index.positions_around(BASE + offset)[0] for offset in (0, 9, 10, 11, 50, 999)] == [0, 0, 100, 100, 500, 500]
    after = [index.positions_around(BASE + offset)[1] for offset in (0, 10, 49, 50)]
    assert after == ([-1] * 4 if where == "large file" else [100, 200, 500, -1])
    assert index.entries == 5
    assert index.last_entry() == (BASE + 50, 500)


@pytest.mark.parametrize(("limit", "is_cached"), [(39, False), (40, True)])
def test_a_file_is_read_once_unless_it_is_too_large(
    index: OffsetIndex, limit: int, is_cached: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexes, "MAX_CACHED_FILE_BYTES", limit)
    index.release()
    assert index.positions_around(BASE + 25)[0] == 200
    index.path.rename(index.path.with_name("elsewhere"))
    if is_cached:
        assert index.positions_around(BASE + 35)[0] == 300
    else:
        with pytest.raises(FileNotFoundError):
            index.positions_around(BASE + 35)


def test_a_file_that_is_shorter_than_listed_has_only_its_whole_entries(index: OffsetIndex) -> None:
    index.release()
    os.truncate(index.path, 20)
    assert index.positions_around(BASE + 999) == (200, -1)


@pytest.mark.parametrize("where", ["memory", "file"])
def test_times_are_found(times: TimeIndex, where: str) -> None:
    if where == "file":
        times.release()
    assert [times.lookup(time) for time in (99, 100, 250, 999)] == [
        (-1, BASE),
        (100, BASE + 10),
        (200, BASE + 20),
        (300, BASE + 30),
    ]


def test_what_is_kept_of_index_files_is_bounded_and_follows_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexes, "MAX_CACHED_BYTES", 80)
    monkeypatch.setattr(indexes, "_content_cache", type(indexes._content_cache)())
    many = []
    for number in range(5):
        index = OffsetIndex(tmp_path / f"{number}.index", BASE, 1000)
        index.reset()
        for entry in range(1, 6):
            index.append(BASE + 10 * entry, 100 * entry)
        index.release()
        many.append(index)
        assert index.positions_around(BASE + 25)[0] == 200
    assert [index._content is not None for index in many] == [False, False, False, True, True]
    index = many[-1]
    index.truncate_to(BASE + 20)
    index.append(BASE + 20, 777)
    index.release()
    assert index.positions_around(BASE + 25)[0] == 777


def test_the_earliest_time_has_an_entry_and_none_has_not(times: TimeIndex) -> None:
    times.reset()
    for time, entries in ((-1, 0), (0, 1)):
        times.maybe_append(time, BASE + 1)
        assert times.entries == entries


def test_a_time_that_is_not_later_adds_nothing(times: TimeIndex) -> None:
    times.maybe_append(300, BASE + 40)
    times.maybe_append(20, BASE + 50)
    times.maybe_append(-1, BASE + 60)
    assert times.entries == 3


def test_files_are_written_in_pieces(index: OffsetIndex) -> None:
    index.write()
    assert index.path.stat().st_size == 40
    index.append(BASE + 60, 600)
    index.write()
    assert index.path.read_bytes()[40:] == bytes.fromhex("0000003c00000258")


@pytest.mark.parametrize("written", [True, False])
def test_cutting(index: OffsetIndex, times: TimeIndex, written: bool) -> None:
    if written:
        index.release()
        times.release()
    index.truncate_to(BASE + 30)
    times.truncate_to(BASE + 30)
    assert index.last_entry() == (BASE + 20, 200)
    assert times.last_entry() == (200, BASE + 20)
    assert index.path.stat().st_size == 16
    for each in (index, times):
        each.sync()
        before = each.path.read_bytes()
        each.truncate_to(BASE + 30)
        assert (each.is_cut, each.path.read_bytes()) == (False, before), "there is nothing to cut"
    index.truncate_to(BASE)
    assert index.entries == 0
    index.write()
    assert index.path.stat().st_size == 0
    index.append(BASE, 0)
    index.truncate_to(BASE - 1)
    assert index.entries == 0


def test_fullness(index: OffsetIndex, times: TimeIndex) -> None:
    assert not index.is_full
    for number in range(6, 11):
        index.append(BASE + 10 * number, 100 * number)
    assert index.is_full
    assert not times.is_full
    times.maybe_append(1000, BASE + 100)
    assert times.is_full


def test_an_empty_file_is_found_empty(tmp_path: Path) -> None:
    (tmp_path / "x.index").write_bytes(b"")
    index = OffsetIndex(tmp_path / "x.index", BASE, 80)
    assert index.positions_around(BASE + 5) == (0, -1)
    assert index.last_entry() == (BASE, 0)
    assert OffsetIndex(tmp_path / "missing.index", BASE, 80).positions_around(BASE) == (0, -1)


# Batch headers.


def one(number: int, size: int = 10) -> bytes:
    return build_batch([SimpleRecord(number, None, b"x" * size)], base_offset=number)


@given(st.lists(st.integers(0, 6000), max_size=12), st.binary(max_size=80))
def test_walking_a_file(sizes: Any, junk: Any) -> None:
    data = b"".join(one(number, size) for number, size in enumerate(sizes))
    with batch_file(data + junk[:HEADER_SIZE]) as file:
        end = len(data) + len(junk[:HEADER_SIZE])
        whole = [(header.position, header.size_bytes, header.base_offset) for header in scan_headers(file, 0, end)][: len(sizes)]
        assert [offset for _, _, offset in whole] == list(range(len(sizes)))
        bodies = [(header.position, bytes(body)) for header, body in scan_batches(file, 0, len(data))]
        assert [body for _, body in bodies] == [one(number, size) for number, size in enumerate(sizes)]
        assert all(crc_matches(memoryview(body)) for _, body in bodies)
        for position, size, offset in whole:
            assert find_batch(file, 0, len(data), offset) == (offset, position, position + size, offset)
        assert find_batch(file, 0, len(data), len(sizes)) is None


@pytest.mark.parametrize(
    ("size_bytes", "magic", "expected"),
    [(61, 2, True), (60, 2, False), (26, 0, True), (25, 0, False), (26, 1, True), (25, 1, False), (61, 3, False), (-1, 2, False)],
)
def test_what_may_be_a_batch(size_bytes: int, magic: int, expected: bool) -> None:
    assert is_plausible(size_bytes, magic) is expected


@pytest.mark.parametrize("wrong", [0x0100_0000, 0x8000_0000])
def test_a_size_that_lies_ends_the_walk(wrong: int) -> None:
    first, second = one(0), bytearray(one(1))
    size = int.from_bytes(second[8:12])
    second[8:12] = (size | wrong).to_bytes(4)
    data = first + bytes(second)
    assert [header.base_offset for header in batches_in(data)] == [0]
    with batch_file(data) as file:
        assert [header.base_offset for header in scan_headers(file, 0, len(data))] == [0]
        assert [header.base_offset for header, _ in scan_batches(file, 0, len(data))] == [0]
        with pytest.raises(CorruptRecordError, match=f"invalid batch at byte {len(first)}"):
            find_batch(file, 0, len(data), 1)


@pytest.mark.parametrize("magic", [0, 1])
def test_the_smallest_of_messages_are_found(magic: int) -> None:
    data = b"".join([build_batch([SimpleRecord(7, None, None)], base_offset=number, magic=magic) for number in range(200)])
    assert len(data) == 200 * (26 if magic == 0 else 34)
    with batch_file(data) as file:
        assert [header.base_offset for header in batches_in(data)] == list(range(200))
        assert [header.base_offset for header in scan_headers(file, 0, len(data))] == list(range(200))
        assert [header.base_offset for header, _ in scan_batches(file, 0, len(data))] == list(range(200))
        for number in range(200):
            size = len(data) // 200
            assert find_batch(file, 0, len(data), number) == (number, number * size, (number + 1) * size, number)


def test_a_file_that_is_shorter_than_it_should_be_is_not_an_end() -> None:
    size = len(one(0))
    with batch_file(one(0) + one(1)[:-1]) as file:
        for read in (
            lambda: list(scan_batches(file, 0, 2 * size)),
            lambda: list(scan_headers(file, 0, 2 * size)),
            lambda: find_batch(file, 0, 2 * size, 1),
            lambda: list(read_blocks(file, 0, 2 * size, 2 * size)),
        ):
            with pytest.raises(ShortFileError, match=f"the file ends at byte {2 * size - 1}, before byte {2 * size}"):
                read()


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats(magic: int) -> None:
    data = build_batch([SimpleRecord(5, None, None), SimpleRecord(9, b"k", b"v")], base_offset=3, magic=magic)
    headers = list(batches_in(data))
    assert [(header.base_offset, header.last_offset, header.magic) for header in headers] == [(3, 3, magic), (4, 4, magic)]
    assert [header.max_timestamp_ms for header in headers] == ([5, 9] if magic else [-1, -1])
    view = memoryview(data)
    assert all(crc_matches(view[header.position : header.position + header.size_bytes]) for header in headers)
    with batch_file(data) as file:
        assert [header.base_offset for header, _ in scan_batches(file, 0, len(data))] == [3, 4]
        assert find_batch(file, 0, len(data), 4)[:2] == (4, headers[1].position)
