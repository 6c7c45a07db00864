"""Indexes against plain lists: in memory, in their files, cached or too large for that, and as Kafka leaves them."""

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.budget import share_of
from tests.support.traced_memory import traced_peak_bytes
from twisted_kafka.log.results import AbortedTransaction
from twisted_kafka.log.segment import indexes, transaction_index
from twisted_kafka.log.segment.indexes import OffsetIndex, TimeIndex
from twisted_kafka.log.segment.transaction_index import ENTRY_BYTES, MAX_CACHED_BYTES, TransactionIndex

BASE = 1000
LARGE = 1 << 16

# Offsets and positions, or times and offsets, as steps from entry to entry.
columns = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5)), max_size=8)
modes = st.sampled_from(["memory", "file", "reopened", "loaded"])


@contextmanager
def cached_up_to(size_bytes: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(indexes, "MAX_CACHED_FILE_BYTES", size_bytes)
        yield


def summed(steps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    entries, first, second = [], 0, 0
    for one, other in steps:
        first, second = first + one, second + other
        entries.append((first, second))
    return entries


def brought_into(mode: str, index: Any) -> Any:
    """The index as it is found while it is appended to, when it is closed, after a start, and when that appends to it."""
    if mode == "memory":
        return index
    index.release()
    if mode in ("reopened", "loaded"):
        index = type(index)(index.path, BASE, LARGE)
    if mode == "loaded":
        index.load()
    assert index.in_memory == (mode == "loaded")
    return index


@settings(max_examples=share_of(60))
@given(columns, modes, st.sampled_from([0, 20, LARGE]), st.integers(-2, 45), modes)
def test_positions_by_offset(steps: list[tuple[int, int]], mode: str, cached: int, cut: int, then: str) -> None:
    with TemporaryDirectory() as directory, cached_up_to(cached):
        entries = summed(steps)
        index = OffsetIndex(Path(directory) / "x.index", BASE, LARGE)
        index.reset()
        for offset, position in entries:
            index.append(BASE + offset, position)
        for each in (mode, then):
            index = brought_into(each, index)
            check_positions(index, entries, is_cached=index.in_memory or 8 * len(entries) <= cached)
            index.truncate_to(BASE + cut)
            entries = [entry for entry in entries if entry[0] < cut]
            check_positions(index, entries)
            assert index.path.exists() == (each != "memory" or index.path.exists())
        index.append(BASE + 100, 200)
        index.release()
        check_positions(index, [*entries, (100, 200)], is_cached=8 * len(entries) + 8 <= cached)
        assert index.path.read_bytes() == b"".join(struct.pack(">II", *entry) for entry in [*entries, (100, 200)])


def check_positions(index: OffsetIndex, entries: list[tuple[int, int]], *, is_cached: bool = True) -> None:
    assert index.entries == len(entries)
    assert index.last_entry() == ((BASE + entries[-1][0], entries[-1][1]) if entries else (BASE, 0))
    for offset in range(-1, 45):
        before = [position for at, position in entries if at <= offset]
        after = [position for at, position in entries if at > offset]
        found = index.positions_around(BASE + offset)
        assert found[0] == (before[-1] if before else 0)
        assert found[1] == (after[0] if after and is_cached else -1)


@settings(max_examples=share_of(60))
@given(columns, modes, st.sampled_from([0, 20, LARGE]), st.integers(-2, 45), modes)
def test_offsets_by_time(steps: list[tuple[int, int]], mode: str, cached: int, cut: int, then: str) -> None:
    with TemporaryDirectory() as directory, cached_up_to(cached):
        entries = summed(steps)
        index = TimeIndex(Path(directory) / "x.timeindex", BASE, LARGE)
        index.reset()
        for timestamp, offset in entries:
            index.maybe_append(timestamp, BASE + offset)
            index.maybe_append(timestamp, BASE + offset + 1)  # it is not later
            index.maybe_append(timestamp - 1, BASE + offset + 2)
        for each in (mode, then):
            index = brought_into(each, index)
            check_times(index, entries)
            index.truncate_to(BASE + cut)
            entries = [entry for entry in entries if entry[1] < cut]
            check_times(index, entries)
        index.maybe_append(2**40, BASE + 100)
        index.release()
        check_times(index, [*entries, (2**40, 100)])
        assert index.path.read_bytes() == b"".join(struct.pack(">qI", *entry) for entry in [*entries, (2**40, 100)])


def check_times(index: TimeIndex, entries: list[tuple[int, int]]) -> None:
    assert index.entries == len(entries)
    assert index.last_entry() == ((entries[-1][0], BASE + entries[-1][1]) if entries else (-1, BASE))
    for timestamp in range(-1, 45):
        before = [entry for entry in entries if entry[0] <= timestamp]
        assert index.lookup(timestamp) == ((before[-1][0], BASE + before[-1][1]) if before else (-1, BASE))


@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("zeros", [0, 1, 5])
def test_what_kafka_preallocated_is_cut_off(tmp_path: Path, count: int, zeros: int) -> None:
    path = tmp_path / "x.index"
    entries = [(10 * number, 100 * number) for number in range(1, count + 1)]
    data = b"".join(struct.pack(">II", *entry) for entry in entries)
    path.write_bytes(data + bytes(8 * zeros))
    index = OffsetIndex(path, BASE, LARGE)
    index.load()
    check_positions(index, entries)
    index.write()
    index.sync()
    assert path.read_bytes() == data
    index.append(BASE + 40, 400)
    index.write()
    assert path.read_bytes() == data + struct.pack(">II", 40, 400)


def test_an_entry_of_a_file_that_does_not_ascend_is_cut_off_with_all_after_it(tmp_path: Path) -> None:
    path = tmp_path / "x.index"
    for bad in ((20, 250), (19, 300), (30, 199)):
        path.write_bytes(b"".join(struct.pack(">II", *entry) for entry in [(10, 100), (20, 200), bad, (40, 400)]) + b"xyz")
        index = OffsetIndex(path, BASE, LARGE)
        index.load()
        check_positions(index, [(10, 100), (20, 200)])
        index.write()
        assert path.stat().st_size == 16


@pytest.mark.parametrize("kind", [OffsetIndex, TimeIndex])
def test_the_size_in_a_listing_saves_looking(tmp_path: Path, kind: Any) -> None:
    index = kind(tmp_path / "missing", BASE, LARGE)
    size = index.entry.size
    assert [kind(tmp_path / "missing", BASE, LARGE).set_file_size(each) for each in (0, size - 1, size, size + 1)] == [
        True,
        False,
        True,
        False,
    ]
    assert index.set_file_size(0)
    index.load()
    assert (index.in_memory, index.entries) == (True, 0)
    index.set_file_size(3 * size)
    index.release()
    assert not (tmp_path / "missing").exists()


@pytest.mark.parametrize(("kind", "fit"), [(OffsetIndex, 3), (TimeIndex, 2)])
def test_a_time_index_leaves_room_for_the_last_entry(tmp_path: Path, kind: Any, fit: int) -> None:
    index = kind(tmp_path / "x", BASE, 3 * kind.entry.size + 1)
    index.reset()
    add = index.append if kind is OffsetIndex else lambda offset, position: index.maybe_append(position, offset)
    for number in range(1, fit + 1):
        assert not index.is_full
        add(BASE + number, number)
    assert index.is_full
    index.release()
    assert not index.is_full, "nothing is added to it any more"


def synced(index: Any) -> bool:
    """Sync the index; return whether it touched the disk."""
    calls: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", calls.append)
        index.sync()
    return bool(calls)


@pytest.mark.parametrize("written", [True, False])
def test_entries_are_synced_once(tmp_path: Path, written: bool) -> None:
    index = OffsetIndex(tmp_path / "x.index", BASE, LARGE)
    index.reset()
    index.create()
    assert not synced(index), "an empty index may get lost"
    index.append(BASE + 1, 10)
    assert not synced(index), "nothing is written yet"
    index.write()
    assert (synced(index), synced(index)) == (True, False)
    index.append(BASE + 2, 20)
    if written:
        index.write()
    index.truncate_to(BASE + 2)
    assert (synced(index), synced(index)) == (True, False), "else the entry could come back"
    index.truncate_to(BASE + 1)
    assert (synced(index), synced(index)) == (True, False)
    assert index.path.read_bytes() == b""


def test_an_index_that_was_read_is_durable_already(tmp_path: Path) -> None:
    path = tmp_path / "x.index"
    path.write_bytes(struct.pack(">II", 1, 10))
    index = OffsetIndex(path, BASE, LARGE)
    index.load()
    assert not synced(index)
    index.append(BASE + 2, 20)
    index.release()
    assert synced(index)
    index.load()
    assert not synced(index)


def test_a_new_index_replaces_the_file_of_an_old_one(tmp_path: Path) -> None:
    (tmp_path / "x.index").write_bytes(struct.pack(">II", 1, 10) * 3)
    index = OffsetIndex(tmp_path / "x.index", BASE, LARGE)
    assert index.positions_around(BASE + 1)[0] == 10
    built = OffsetIndex(tmp_path / "x.index.tmp", BASE, LARGE)
    built.reset()
    built.append(BASE + 1, 11)
    built.append(BASE + 2, 12)
    index.replace_file(built)
    check_positions(index, [(1, 11), (2, 12)])
    assert os.listdir(tmp_path) == ["x.index"]
    again = OffsetIndex(tmp_path / "x.index.tmp", BASE, LARGE)
    again.reset()
    index.replace_file(again)
    check_positions(index, [])


aborted_transactions = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 20), st.integers(1, 6), st.integers(0, 6)), max_size=6)


@settings(max_examples=share_of(80))
@given(aborted_transactions, st.integers(0, 40), st.booleans(), st.booleans(), st.integers(1, 6), st.booleans())
def test_aborted_transactions(
    drawn: list[tuple[int, int, int, int]], cut: int, reopened: bool, cut_reopened: bool, in_memory: int, is_cached: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transaction_index, "RECENT_ENTRIES", in_memory)
        patch.setattr(transaction_index, "READ_ENTRIES", in_memory)
        if not is_cached:
            patch.setattr(transaction_index, "MAX_CACHED_BYTES", 0)
        check_aborted_transactions(drawn, cut, reopened, cut_reopened)


def check_aborted_transactions(drawn: list[tuple[int, int, int, int]], cut: int, reopened: bool, cut_reopened: bool) -> None:
    entries, last = [], 0
    for producer_id, back, more, unstable in drawn:
        last += more
        entries.append(AbortedTransaction(producer_id, max(0, last - back), last, max(0, last + 1 - unstable)))
    with TemporaryDirectory() as directory:
        path = Path(directory) / "x.txnindex"
        index = TransactionIndex(path)
        for entry in entries:
            index.append(entry)
        assert path.exists() == bool(entries)
        for is_reopened in (reopened, cut_reopened):
            if is_reopened:
                index = TransactionIndex(path)
            assert index.entries == tuple(entries)
            if entries:
                assert path.read_bytes() == b"".join(struct.pack(">hqqqq", 0, *entry) for entry in entries)
            for start in range(0, 42, 3):
                for end in range(start + 1, 42, 3):
                    check_collected(index, entries, start, end)
            index.truncate_to(cut)
            entries = [entry for entry in entries if entry.last_offset < cut]
            index.sync()
        index.append(AbortedTransaction(9, 50, 60, 61))
        assert TransactionIndex(path).entries == (*entries, (9, 50, 60, 61))
        index.reset()
        assert (index.entries, path.exists()) == ((), False)


def check_collected(index: TransactionIndex, entries: list[AbortedTransaction], start: int, end: int) -> None:
    found, is_complete = index.collect(start, end)
    read = entries
    for number, entry in enumerate(entries):
        if entry.last_stable_offset >= end:  # a later marker belongs to a transaction that began after that
            read = entries[: number + 1]
            break
    assert found == [entry for entry in read if entry.last_offset >= start and entry.first_offset < end]
    assert is_complete == any(entry.last_stable_offset >= end for entry in entries if entry.last_offset >= start)


@pytest.mark.medium
@pytest.mark.whole_transfers
def test_one_more_aborted_transaction_costs_what_the_first_one_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = TransactionIndex(tmp_path / "x.txnindex")
    pwrite, pread = os.pwrite, os.pread
    written: list[int] = []
    read: list[int] = []
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: (written.append(len(data)), pwrite(fd, data, at))[1])
    monkeypatch.setattr(os, "pread", lambda fd, size, at: (read.append(size), pread(fd, size, at))[1])

    def abort_many() -> None:
        for number in range(5_000):
            index.append(AbortedTransaction(1, 2 * number, 2 * number + 1, 2 * number + 2))

    assert traced_peak_bytes(abort_many) < 250_000
    assert written == [ENTRY_BYTES] * 5_000
    # A reader at the end needs nothing from the file, another one only what it looks for.
    assert index.collect(9_998, 10_000) == ([AbortedTransaction(1, 9_998, 9_999, 10_000)], True)
    assert read == []
    assert index.collect(2, 5) == ([AbortedTransaction(1, 2, 3, 4), AbortedTransaction(1, 4, 5, 6)], True)
    assert sum(read) < 5_000 * ENTRY_BYTES < MAX_CACHED_BYTES


def test_a_torn_entry_does_not_count_and_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "x.txnindex"
    TransactionIndex(path).append(AbortedTransaction(1, 0, 3, 4))
    with path.open("ab") as file:
        file.write(b"torn")
    index = TransactionIndex(path)
    assert index.entries == ((1, 0, 3, 4),)
    index.append(AbortedTransaction(2, 5, 6, 7))
    assert TransactionIndex(path).entries == ((1, 0, 3, 4), (2, 5, 6, 7))


def test_an_entry_that_could_not_be_written_is_written_by_the_sync(tmp_path: Path) -> None:
    directory = tmp_path / "gone"
    index = TransactionIndex(directory / "x.txnindex")
    index.set_file_size(0)
    with pytest.raises(FileNotFoundError):
        index.append(AbortedTransaction(1, 0, 3, 4))
    assert index.entries == ((1, 0, 3, 4),)
    directory.mkdir()
    index.sync()
    assert TransactionIndex(index.path).entries == index.entries


def test_a_log_that_is_being_moved_is_not_one_without_aborted_transactions(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        _ = TransactionIndex(tmp_path / "moved" / "x.txnindex").entries
    assert TransactionIndex(tmp_path / "x.txnindex").entries == ()
