"""Segments whose offsets do not fit their indexes, as compactions of old brokers left them, are split when a log is opened."""

import itertools
import os
import random
from pathlib import Path
from typing import Any

import pytest

from tests.log.crash_disk import CrashDisk, MachineDied, deaths
from tests.support.budget import STRIDE
from tests.support.logs import NOW_MS, Bench, append, batch, contents
from twisted_kafka.log.results import AbortedTransaction, FetchIsolation
from twisted_kafka.log.segment.log_segment import LogSegment
from twisted_kafka.log.segment.transaction_index import TransactionIndex
from twisted_kafka.protocol.records.builder import build_message_set
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.system.files.file_io import read_at

FAR = 2**31
OFFSETS = [0, 10, FAR - 2, FAR + 5, FAR + 6, 3 * FAR, 3 * FAR + 1, 5 * FAR + 9]
BASES = [0, FAR + 5, 3 * FAR, 5 * FAR + 9]
END = 6 * FAR
FIRST_RENAME = 20
"""The step from which on the pieces of a segment in two are renamed."""


def name(offset: int, suffix: str = ".log") -> str:
    return f"{offset:020d}{suffix}"


def old_log(directory: Path, *, after: bytes = b"", closed: bool = True) -> None:
    """Write a segment with all of OFFSETS and, if it is ``closed``, one after it."""
    directory.mkdir(parents=True, exist_ok=True)
    data = b"".join([bytes(batch(b"%d" % offset, base_offset=offset)) for offset in OFFSETS])
    (directory / name(0)).write_bytes(data + after)
    index = TransactionIndex(directory / name(0, ".txnindex"))
    for first, last in ((0, 10), (FAR - 2, FAR + 6), (3 * FAR, 5 * FAR + 9)):
        index.append(AbortedTransaction(7, first, last, last + 1))
    if closed:
        (directory / name(END)).write_bytes(bytes(batch(b"end", base_offset=END)))


def wanted(closed: bool = True) -> list[tuple[int, bytes]]:
    return [(offset, b"%d" % offset) for offset in OFFSETS] + ([(END, b"end")] if closed else [])


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "topic-0", index_interval_bytes=0)


@pytest.mark.parametrize("was_clean", [True, False])
@pytest.mark.parametrize("closed", [True, False])
def test_every_record_is_in_a_segment_that_it_fits(bench: Bench, was_clean: bool, closed: bool) -> None:
    old_log(bench.directory, closed=closed)
    # Recovery does not find transactions that nobody began: it is to see segments that were flushed.
    log = bench.open(was_clean=was_clean, recovery_point=END)
    assert contents(log) == wanted(closed)
    assert [segment.base_offset for segment in log.segments] == [*BASES, END][: 5 if closed else 4]
    for segment in log.segments:
        assert all(segment.fits(header.last_offset) for header in segment.headers())
    assert not [path for path in os.listdir(bench.directory) if path.endswith((".cleaned", ".swap", ".deleted"))]
    for offset in OFFSETS:
        assert log.read(offset, 1, FetchIsolation.LOG_END).fetch_offset.segment_base_offset == max(
            base for base in BASES if base <= offset
        )
    assert append(log, b"new") == (END if closed else OFFSETS[-1]) + 1
    again = bench.reopen_clean(log)
    assert contents(again) == [*wanted(closed), (again.log_end_offset - 1, b"new")]


def test_pieces_are_as_old_as_their_segment(bench: Bench) -> None:
    """Retention of records without timestamps goes by it."""
    old_log(bench.directory)
    os.utime(bench.directory / name(0), (1_000_000, 1_000_000))
    log = bench.open(was_clean=True)
    assert [segment.last_modified_ms() for segment in log.segments][:4] == [1_000_000_000] * 4


def test_aborted_transactions_stay_with_their_markers(bench: Bench) -> None:
    old_log(bench.directory)
    log = bench.open(was_clean=True)
    assert [entry.last_offset for entry in log.aborted_transactions(0, END)] == [10, FAR + 6, 5 * FAR + 9]
    assert [len(segment.transaction_index.entries) for segment in log.segments] == [1, 1, 0, 1, 0]


def test_what_is_torn_is_cut_before_the_splitting(bench: Bench) -> None:
    old_log(bench.directory, after=b"torn", closed=False)
    log = bench.open()
    assert contents(log) == wanted(closed=False)


def test_what_follows_a_damaged_batch_goes_as_in_any_recovery(bench: Bench) -> None:
    damaged = bytearray(batch(b"damaged", base_offset=5 * FAR + 10))
    damaged[-3] ^= 1
    old_log(bench.directory, after=bytes(damaged))
    assert contents(bench.open()) == wanted(closed=False)


def test_a_damaged_segment_that_nobody_recovers_is_left_as_it_is(bench: Bench) -> None:
    damaged = bytearray(batch(b"damaged", base_offset=5 * FAR + 10))
    damaged[-3] ^= 1
    for after in (damaged, batch(b"its offset comes twice", base_offset=OFFSETS[-1])):
        old_log(bench.directory, after=bytes(after))
        log = bench.open(was_clean=True)
        assert [segment.base_offset for segment in log.segments] == [0, END]
        log.delete()


def test_messages_of_old_formats(bench: Bench) -> None:
    bench.directory.mkdir()
    data = b""
    for offset in (0, FAR + 9):
        records = [SimpleRecord(NOW_MS, b"k", b"%d" % (offset + number)) for number in range(3)]
        data += build_message_set(records, magic=1, compression=Compression.GZIP, base_offset=offset)
    (bench.directory / name(0)).write_bytes(data)
    log = bench.open()
    assert len(log.segments) == 2
    assert contents(log) == [(at + number, b"%d" % (at + number)) for at in (0, FAR + 9) for number in range(3)]
    assert log.segments.active.base_offset <= FAR + 9


@pytest.mark.long
def test_a_power_failure_while_a_segment_is_split_leaves_all_of_it_or_all_pieces(tmp_path: Path) -> None:
    """With whatever renames since the last sync are on the disk."""
    offsets, aborted = [0, 5, FAR + 9, FAR + 12], AbortedTransaction(7, FAR + 9, FAR + 12, FAR + 13)

    def prepare(root: Any) -> None:
        directory = root / "disk" / "topic-0"
        directory.mkdir()
        data = b"".join([bytes(batch(b"%d" % offset, base_offset=offset)) for offset in offsets])
        (directory / name(0)).write_bytes(data)
        TransactionIndex(directory / name(0, ".txnindex")).append(aborted)
        (directory / name(END)).write_bytes(bytes(batch(b"end", base_offset=END)))

    def start(root: Any) -> Any:
        return Bench(root / "disk" / "topic-0", index_interval_bytes=0).open(recovery_point=END)

    for root in deaths(tmp_path, prepare, start, seeds=1, first_step=FIRST_RENAME, loses_each=True):
        log = start(root)
        assert [offset for offset, _ in contents(log)] == [*offsets, END], root
        assert log.aborted_transactions(0, END) == [aborted], root
        assert [segment.base_offset for segment in log.segments] == [0, FAR + 9, END]


@pytest.mark.long
@pytest.mark.parametrize("loses_power", [False, True])
def test_a_death_at_any_step_of_the_splitting_loses_nothing(tmp_path: Path, loses_power: Any) -> None:
    """And however often it happens: the next start may die there, too."""
    for step in itertools.count(1, STRIDE):
        root = tmp_path / str(step)
        root.mkdir()
        bench = Bench(root / "topic-0", index_interval_bytes=0)
        old_log(bench.directory)
        disk = CrashDisk(root, random.Random(step))
        died = 0
        for _ in range(2):
            try:
                with disk.watched(step):
                    bench.open(recovery_point=END)
            except MachineDied:
                died += 1
            if loses_power:
                disk.lose_power()
            else:
                disk.keep_everything()
        log = bench.open(recovery_point=END)
        assert contents(log) == wanted(), step
        assert [entry.last_offset for entry in log.aborted_transactions(0, END)] == [10, FAR + 6, 5 * FAR + 9], step
        assert len(log.segments) == 5
        if not died:
            assert step > 20
            break


@pytest.mark.medium
def test_a_death_at_any_step_of_a_swap_keeps_the_aborted_transactions(tmp_path: Path) -> None:
    """A start that found them beside batches that still were to be swapped took them for those of a replaced segment."""
    aborted = AbortedTransaction(7, 0, 1, 2)
    for step in itertools.count(1):
        root = tmp_path / str(step)
        root.mkdir()
        bench = Bench(root / "topic-0", index_interval_bytes=0)
        log = bench.open()
        append(log, b"0", b"1")
        log.segments.active.transaction_index.append(aborted)
        log.roll()
        append(log, b"2")
        log.flush()
        cleaned = LogSegment.create(log.dir, 0, max_index_bytes=1000, index_interval_bytes=0, now_ms=NOW_MS, suffix=".cleaned")
        old = log.segments.first
        for header in old.headers():
            data = read_at(old.file, header.size_bytes, header.position)
            header.position = 0
            cleaned.append(data, [header])
        cleaned.transaction_index.append(aborted)
        cleaned.seal()
        cleaned.sync()
        disk = CrashDisk(root, random.Random(step))
        try:
            with disk.watched(step):
                log.replace_segments(cleaned, [old])
        except MachineDied:
            pass
        else:
            assert step > 8
            break
        disk.keep_everything()
        again = bench.open(recovery_point=3)
        assert [value for _, value in contents(again)] == [b"0", b"1", b"2"], step
        assert again.aborted_transactions(0, 3) == [aborted], step
