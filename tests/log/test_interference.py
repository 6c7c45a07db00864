"""Readers, checkpoints and flushes beside what renames, removes and cuts the files: nothing is lost, and no disk is blamed for it.

The other thread is begun in the middle of the operation, and given a moment in which it may do harm if nothing keeps it from that.
"""

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.logs import NOW_MS, Bench, abort, append, batch, contents, data_of
from twisted_kafka.log.directories.log_directories import is_out_of_descriptors
from twisted_kafka.log.directories.log_directory import LogDirectory
from twisted_kafka.log.results import AbortedTransaction, FetchDataInfo, FetchIsolation
from twisted_kafka.log.segment import log_segment
from twisted_kafka.log.segment.transaction_index import TransactionIndex
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.log.validation.log_validator import AppendOrigin
from twisted_kafka.protocol.errors import KafkaStorageError, OffsetOutOfRangeError
from twisted_kafka.protocol.records.builder import build_batch, end_transaction_marker
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.system.files import disk

A_MOMENT_S = 0.2


class Beside:
    """Something that another thread does; ``begin`` waits for its end for a moment only."""

    def __init__(self, action: Callable[..., Any]) -> None:
        self._action = action
        self._thread: threading.Thread | None = None
        self.result: Any = None
        self.error: Any = None

    def begin(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run)
            self._thread.start()
            self._thread.join(A_MOMENT_S)

    def _run(self) -> None:
        try:
            self.result = self._action()
        except Exception as error:  # noqa: BLE001 it is looked at
            self.error = error

    def end(self) -> FetchDataInfo | bytes | int | list[AbortedTransaction] | None:
        assert self._thread is not None, "it was never begun"
        self._thread.join(30)
        assert not self._thread.is_alive()
        return self.result


def of_closed_segments(bench: Bench, count: int = 4, *, with_aborted: bool = False) -> UnifiedLog:
    """Return a log whose closed segments are not open; the first may have an aborted transaction."""
    log = bench.open()
    if with_aborted:
        append(log, b"aborted", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
        abort(log, 1)
    for number in range(count):
        append(log, b"%d" % number)
        log.roll()
    log = bench.reopen_clean(log)
    log.update_high_watermark(log.log_end_offset)
    return log


def hooked(monkeypatch: pytest.MonkeyPatch, name: str, beside: Beside, concerns: Callable[..., Any] = lambda *_: True) -> None:
    """Have ``beside`` begin after ``os.name`` was called."""
    real = getattr(os, name)

    def call(*arguments: Any, **options: Any) -> Any:
        result = real(*arguments, **options)
        if concerns(*arguments):
            beside.begin()
        return result

    monkeypatch.setattr(os, name, call)


@pytest.mark.medium
@pytest.mark.parametrize("by_time", [False, True])
def test_a_reader_beside_a_full_truncation_blames_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_time: bool) -> None:
    bench = Bench(tmp_path / "topic-0")
    log = of_closed_segments(bench)
    read = (lambda: log.offset_for_timestamp(NOW_MS)) if by_time else (lambda: log.read(0, 1000))
    reader = Beside(read)
    hooked(monkeypatch, "unlink", reader, lambda path, **_: str(path).endswith("00.log"))
    log.truncate_fully_and_start_at(100)
    assert reader.end() is None
    assert by_time or isinstance(reader.error, OffsetOutOfRangeError)
    assert bench.failures == []


@pytest.mark.medium
@pytest.mark.parametrize("by_time", [False, True])
def test_a_reader_beside_a_move_finds_the_files_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_time: bool
) -> None:
    bench = Bench(tmp_path / "topic-0")
    log = of_closed_segments(bench)
    read = (lambda: log.offset_for_timestamp(NOW_MS)[1]) if by_time else (lambda: data_of(log.read(1, 1000).records))
    reader = Beside(read)
    hooked(monkeypatch, "rename", reader)
    log.move_to(tmp_path / "topic-0.0123456789abcdef-delete")
    expected = reader.end()
    assert reader.error is None
    assert expected == read()
    assert bench.failures == []


@pytest.mark.parametrize("by_time", [False, True])
def test_a_file_that_is_missing_for_good_is_a_failure_of_the_disk(tmp_path: Path, by_time: bool) -> None:
    bench = Bench(tmp_path / "topic-0")
    log = of_closed_segments(bench)
    log.segments.first.path.unlink()
    with pytest.raises(KafkaStorageError):
        _ = log.offset_for_timestamp(NOW_MS) if by_time else log.read(0, 1000)
    assert [type(failure) for failure in bench.failures] == [FileNotFoundError]


@pytest.mark.medium
def test_aborted_transactions_are_told_of_beside_a_move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path / "topic-0")
    log = bench.open()
    producer: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    log.append_as_leader(bytearray(build_batch([SimpleRecord(NOW_MS, None, b"x")], **producer)), 0)
    marker = end_transaction_marker(producer_id=7, producer_epoch=0, commit=False, coordinator_epoch=0, timestamp_ms=NOW_MS)
    log.append_as_leader(bytearray(marker), 0, AppendOrigin.COORDINATOR)
    log.roll()
    append(log, b"y")
    log = bench.reopen_clean(log)
    log.update_high_watermark(log.log_end_offset)
    reader = Beside(lambda: log.read(0, 1000, FetchIsolation.TXN_COMMITTED).aborted_transactions)
    assert log.segments.first.file
    hooked(monkeypatch, "rename", reader)
    log.move_to(tmp_path / "topic-0.0123456789abcdef-future")
    assert reader.end() == [AbortedTransaction(7, 0, 1, 2)]
    assert reader.error is None


def test_an_entry_that_is_added_while_others_are_read_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "0.txnindex"
    first, second = AbortedTransaction(1, 0, 5, 6), AbortedTransaction(2, 3, 9, 10)
    TransactionIndex(path).append(first)
    index = TransactionIndex(path)
    appender = Beside(lambda: index.append(second))
    hooked(monkeypatch, "stat", appender, lambda found, *_: found == path)
    assert index.entries
    appender.end()
    assert index.entries == TransactionIndex(path).entries == (first, second)


@pytest.mark.medium
def test_two_readers_do_not_build_the_same_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path / "topic-0", index_interval_bytes=0)
    log = bench.open()
    for number in range(5):
        append(log, b"%d" % number)
    log.roll()
    log = bench.reopen_clean(log)
    index = log.segments.first.offset_index.path
    index.write_bytes(index.read_bytes()[:-4] + b"\x7f\xff\xff\xff")
    other = Beside(lambda: data_of(log.read(3, 1000, FetchIsolation.LOG_END).records))
    real, built = log_segment.rebuild_indexes, []  # type: ignore[attr-defined]

    def rebuild(batches: Any, *arguments: Any) -> None:
        built.append(batches)
        other.begin()
        real(batches, *arguments)

    monkeypatch.setattr(log_segment, "rebuild_indexes", rebuild)
    assert data_of(log.read(3, 1000, FetchIsolation.LOG_END).records) == other.end()
    assert other.error is None
    assert len(built) == 1


class FakeLog:
    """A recovery point, and what happens while it is asked for."""

    topic_partition = TopicPartition("topic", 0)

    def __init__(self, recovery_point: int) -> None:
        self.value = recovery_point
        self.meanwhile = None

    @property
    def recovery_point(self) -> int:
        value, meanwhile = self.value, self.meanwhile
        if meanwhile is not None:
            self.meanwhile = None
            meanwhile.begin()
        return value


def transactions_of(fd: int) -> str:
    """Return the path of an open transaction index; of another file nothing."""
    path = os.readlink(f"/proc/self/fd/{fd}")
    return path if path.endswith(".txnindex") else ""


@pytest.mark.medium
@pytest.mark.parametrize("step", ["open", "check", "transactions"])
def test_a_disk_that_hangs_keeps_no_reader_of_another_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    logs = []
    for name in ("hung", "sound"):
        (tmp_path / name).mkdir()
        logs.append(of_closed_segments(Bench(tmp_path / name / "topic-0"), with_aborted=step == "transactions"))
    hung, sound = logs
    begun, mended = threading.Event(), threading.Event()

    def hang(path: Any) -> None:
        if "hung" in str(path):
            begun.set()
            assert mended.wait(30)

    if step == "open":
        real = log_segment.SegmentFile
        monkeypatch.setattr(log_segment, "SegmentFile", lambda path, mode: hang(path) or real(path, mode))
    elif step == "check":
        pread = os.pread
        monkeypatch.setattr(os, "pread", lambda fd, *where: hang(os.readlink(f"/proc/self/fd/{fd}")) or pread(fd, *where))
    else:
        pread = os.pread
        monkeypatch.setattr(os, "pread", lambda fd, *where: hang(transactions_of(fd)) or pread(fd, *where))
    readers = [Beside(lambda log=log: log.read(0, 1000, FetchIsolation.TXN_COMMITTED)) for log in (hung, sound)]
    try:
        readers[0].begin()
        assert begun.wait(30)
        readers[1].begin()
        assert data_of(readers[1].end().records)
    finally:
        mended.set()
    assert data_of(readers[0].end().records)


@pytest.mark.medium
def test_a_recovery_point_from_before_a_truncation_is_not_written_after_it(tmp_path: Path) -> None:
    directory = LogDirectory(tmp_path)
    directory.is_loaded = True
    directory.logs[FakeLog.topic_partition] = log = FakeLog(100)  # type: ignore[assignment]

    def truncate() -> None:
        log.value = 40
        directory.checkpoint_recovery_points()

    log.meanwhile = truncation = Beside(truncate)  # type: ignore[assignment]
    directory.checkpoint_recovery_points()
    truncation.end()
    assert directory.recovery_points.read() == {FakeLog.topic_partition: 40}


@pytest.mark.medium
def test_a_flush_beside_a_new_leader_epoch_blames_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both want the file of epochs to be written: the flush comes to it while the election is at it."""
    bench = Bench(tmp_path / "topic-0")
    log = bench.open()
    append(log, b"a")
    election = Beside(lambda: log.assign_epoch_start_offset(7, 1))
    flushed = threading.Event()
    sync_data = disk.sync_data

    def sync_and_elect(descriptor: int) -> None:
        sync_data(descriptor)
        election.begin()

    monkeypatch.setattr(disk, "sync_data", sync_and_elect)
    real = os.replace
    first: list[Any] = []

    def replace(source: Any, target: Any) -> None:
        if not first:
            first.append(target)
            flushed.wait(2 * A_MOMENT_S)
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    log.flush()
    flushed.set()
    election.end()
    assert election.error is None
    assert bench.failures == []
    assert (log.dir / "leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n7 1\n"


def test_an_epoch_that_begins_while_the_file_is_flushed_is_flushed_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Bench(tmp_path / "topic-0").open()
    append(log, b"a")
    election = Beside(lambda: log.assign_epoch_start_offset(7, 1))
    synced = []
    real = disk.sync
    epochs = log.dir / "leader-epoch-checkpoint"

    def sync(descriptor: int) -> None:
        real(descriptor)
        synced.append(os.path.samestat(os.fstat(descriptor), epochs.stat()))
        if synced[-1]:
            election.begin()

    monkeypatch.setattr(disk, "sync", sync)
    log.flush()
    election.end()
    append(log, b"b", epoch=7)
    synced.clear()
    log.flush()
    assert any(synced)


def test_files_that_are_to_be_removed_are_found_where_the_log_lies_by_then(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "topic-0.0123456789abcdef-future", retention_bytes=0)
    log = of_closed_segments(bench)
    log.delete_old_segments()
    log.move_to(tmp_path / "topic-0")
    assert list(log.dir.glob("*.deleted"))
    bench.clock.advance_ms(log.config.file_delete_delay_ms)
    bench.scheduler.run_due()
    assert not list(log.dir.glob("*.deleted"))
    assert contents(log) == []


class Descriptors:
    """Opening a file fails while ``are_used_up`` says that it does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.are_used_up = lambda path: False
        self.opened: list[Any] = []
        real = os.open

        def opened(path: Any, *rest: Any, **options: Any) -> Any:
            if self.are_used_up(os.fspath(path)):  # type: ignore[no-untyped-call]
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            self.opened.append(os.fspath(path))
            return real(path, *rest, **options)

        monkeypatch.setattr(os, "open", opened)


@pytest.mark.parametrize("what", ["topic-0", ".snapshot", "partition.metadata", "logs"])
def test_a_flush_that_had_no_descriptor_is_done_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: Any) -> None:
    (tmp_path / "logs").mkdir()
    bench = Bench(tmp_path / "logs" / "topic-0")
    log = bench.open()
    log.assign_topic_id(bytes(range(16)))
    log.append_as_leader(batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0), 0)
    log.roll()
    append(log, b"b")
    descriptors = Descriptors(monkeypatch)
    descriptors.are_used_up = lambda path: path.endswith(what)
    with pytest.raises(KafkaStorageError):
        log.flush()
    assert is_out_of_descriptors(bench.failures[-1])
    assert log.recovery_point == 0
    descriptors.are_used_up = lambda path: False
    descriptors.opened.clear()
    log.flush()
    assert log.recovery_point == 2
    assert [path for path in descriptors.opened if path.endswith(what)]
    assert descriptors.opened[-2:] == [str(bench.directory), str(bench.directory.parent)]


def test_a_truncation_that_had_no_descriptor_takes_the_directory_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The segments are gone, and the log's end is not what it was: nothing may be appended there."""
    bench = Bench(tmp_path / "topic-0")
    log = of_closed_segments(bench)
    descriptors = Descriptors(monkeypatch)
    descriptors.are_used_up = lambda path: path.endswith("topic-0")
    with pytest.raises(KafkaStorageError, match="half done"):
        log.truncate_to(2)
    assert not is_out_of_descriptors(bench.failures[-1])
