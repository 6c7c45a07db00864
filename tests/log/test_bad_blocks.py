"""Disks with blocks that cannot be read, and files that somebody cut: neither is the end of a log."""

import os
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from twisted.logger import capturedLogs, formatEvent

from tests.log.bad_blocks import BLOCK_BYTES, BadBlocks
from tests.log.log_managers import ONE, TWO, Broker
from tests.support.compaction import LIMITS
from tests.support.logs import NOW_MS, Bench, append, contents, fill
from twisted_kafka.log.cleaner.cleaner import Cleaner
from twisted_kafka.log.log_manager import LogManager
from twisted_kafka.log.results import FetchIsolation, LogAppendInfo
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.errors import CorruptRecordError, KafkaStorageError
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.layout import INT64
from twisted_kafka.protocol.records.record import SimpleRecord

COMPACT = {"cleanup.policy": "compact", "segment.bytes": "2000", "min.cleanable.dirty.ratio": "0.01"}
TAGS = ("LogCleanerManager", "uncleanable-partitions-count")


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    broker = Broker(tmp_path)
    broker.topic_configs = {"one": COMPACT, "two": COMPACT}
    return broker


def keyed(manager: LogManager, count: int = 60) -> tuple[UnifiedLog, UnifiedLog]:
    """Return two compacted logs with records of ten keys; the first one is dirtier."""
    logs = []
    for partition, number in ((ONE, count), (TWO, count // 2)):
        log = manager.get_or_create_log(partition)
        for each in range(number):
            record = SimpleRecord(NOW_MS, b"%d" % (each % 10), b"x" * 100)
            log.append_as_leader(bytearray(build_batch([record])), 0, is_alone=True)
        logs.append(log)
    return logs[0], logs[1]


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.suffix == ".log"}


def error_of(action: Callable[[], object]) -> Exception | None:
    """Return the error of the disk that ``action`` raises, if it raises one."""
    try:
        action()
    except (OSError, KafkaStorageError) as error:
        return error
    return None


def read_all_of(log: UnifiedLog) -> None:
    log.read(1, 100, FetchIsolation.LOG_END)
    log.offset_for_timestamp(NOW_MS + 1)


@pytest.mark.parametrize("was_clean", [False, True])
def test_a_start_keeps_every_byte_of_a_log_with_a_bad_block(tmp_path: Path, was_clean: bool) -> None:
    bench = Bench(tmp_path / "topic-0", segment_bytes=3000, index_interval_bytes=500)
    log = bench.open()
    fill(log, 80)
    bench.reopen_clean(log).close()
    whole = files(bench.directory)
    reported = 0
    for name, data in whole.items():
        for position in range(0, len(data), BLOCK_BYTES):
            copy = Bench(tmp_path / "copy" / "topic-0", segment_bytes=3000, index_interval_bytes=500)
            shutil.copytree(bench.directory, copy.directory)
            with BadBlocks().watched() as bad:
                bad.add(copy.directory / name, position)
                failure = error_of(partial(copy.open, was_clean=was_clean, recovery_point=0))
            assert bool(failure) == bool(bad.errors)
            if failure:
                assert str(failure) == f"[Errno 5] Input/output error at byte {position}: '{copy.directory / name}'"
                reported += 1
            assert files(copy.directory) == whole
            shutil.rmtree(copy.directory)
    # A clean start reads only the end of the log.
    assert reported == 1 if was_clean else reported > 10


def test_a_bad_block_takes_the_directory_offline_and_is_named(broker: Broker) -> None:
    broker.topic_configs = {}
    manager = broker.start()
    log = manager.get_or_create_log(ONE)
    for number in range(50):
        append(log, b"%d" % number)
    log.flush()
    path, whole = log.segments.first.path, files(log.dir)
    broker.crash(manager)
    log.close_handles()
    with BadBlocks().watched() as bad, capturedLogs() as events:
        bad.add(path, 1024)
        manager = broker.start()
    assert manager.get_log(ONE) is None
    assert broker.failed == manager.directories
    told = f"{broker.path / 'a'} goes offline until the next start: [Errno 5] Input/output error at byte 1024: '{path}'"
    assert told in map(formatEvent, events)
    assert files(log.dir) == whole


def test_readers_meet_a_bad_block_and_no_end(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "topic-0", segment_bytes=3000)
    log = bench.open()
    fill(log, 80)
    log = bench.reopen_clean(log)
    path = log.segments.first.path
    whole = contents(log)
    with BadBlocks().watched() as bad:
        bad.add(path, 1024)
        for offset in range(80):
            before = bad.errors
            failure = error_of(partial(contents, log, offset))
            if bad.errors > before:
                assert f"at byte 1024: '{path}'" in str(failure)
            else:
                assert contents(log, offset) == whole[offset:]
        assert bad.errors
        assert all("at byte 1024" in str(error) for error in bench.failures)
        with pytest.raises(KafkaStorageError, match="at byte 1024"):
            log.offset_for_timestamp(NOW_MS)
    log.close()


def test_a_file_that_somebody_cut_fails_its_readers_only(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "topic-0", segment_bytes=3000)
    log = bench.open()
    fill(log, 80)
    log = bench.reopen_clean(log)
    cut = log.segments.first
    os.truncate(cut.path, cut.size_bytes - 50)
    with pytest.raises(CorruptRecordError, match=f"the file ends at byte {cut.size_bytes - 50}"):
        contents(log)
    following = log.segments.after(cut)
    assert following is not None
    assert contents(log, following.base_offset)
    assert bench.failures == []


def test_the_cleaner_leaves_a_cut_log_alone_and_says_so(broker: Broker) -> None:
    metrics = MetricsRegistry(broker.clock)
    manager = broker.start(metrics=metrics)
    one, two = keyed(manager)
    path = one.segments.first.path
    size_bytes = path.stat().st_size
    os.truncate(path, size_bytes - 50)
    with capturedLogs() as events:
        assert manager.cleaner.clean_filthiest()
    assert [formatEvent(each) for each in events if each["log_level"].name == "error"] == [
        f"one-0 in {one.dir} cannot be cleaned and is left as it is until the next start: [Errno 5] the file ends at byte "
        f"{size_bytes - 50}, before byte {size_bytes}: '{path}'"
    ]
    assert metrics.value(*TAGS, logDirectory=f'"{broker.path / "a"}"') == 1
    assert manager.directories[0].is_online
    assert manager.cleaner.clean_filthiest()
    assert manager.cleaner.manager.cleaned_up_to(two)
    assert not manager.cleaner.clean_filthiest()
    assert manager.delete_log(ONE)


@pytest.mark.parametrize("position", [0, 1024])
def test_the_cleaner_takes_a_directory_with_a_bad_block_offline(broker: Broker, position: int) -> None:
    manager = broker.start()
    one, _ = keyed(manager)
    whole = files(one.dir)
    with BadBlocks().watched() as bad:
        bad.add(one.segments.first.path, position)
        manager.cleaner.clean_filthiest()
        assert bad.errors
    assert broker.failed == manager.directories
    assert files(one.dir) == whole


def test_a_cleaning_can_be_aborted_within_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twisted_kafka.log.cleaner.blocks.LARGEST_READ_BYTES", 1000)
    bench = Bench(tmp_path / "topic-0", cleanup_policy=("compact",))
    log = bench.open()
    log.append_as_leader(bytearray(build_batch([SimpleRecord(NOW_MS, b"key", bytes(100_000))])), 0, is_alone=True)
    log.roll()
    log.update_high_watermark(log.log_end_offset)
    asked: list[int] = []

    def proceed(size_bytes: int) -> None:
        asked.append(size_bytes)
        if len(asked) > 50:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        Cleaner(bench.clock, LIMITS).clean(log, 0, log.log_end_offset, proceed)
    assert asked == [0] * 51


def index_files(log: UnifiedLog) -> list[Path]:
    return [path for path in log.dir.iterdir() if path.suffix in (".index", ".timeindex", ".txnindex", ".snapshot")]


def test_bad_blocks_of_the_other_files_are_errors_too(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "topic-0", segment_bytes=3000, index_interval_bytes=0)
    log = bench.open()
    for number in range(40):
        append(log, b"%d" % number, producer_id=1, producer_epoch=0, base_sequence=number)
    bench.reopen_clean(log).close()
    failed = set()
    for path in index_files(log):
        with BadBlocks().watched() as bad:
            bad.add(path, 0)
            failure = error_of(lambda: read_all_of(bench.open(was_clean=True, recovery_point=40)))
        if bad.errors:
            assert f"at byte 0: '{path}'" in str(failure)
            failed.add(path.suffix)
    assert failed == {".index", ".timeindex", ".snapshot"}


def test_a_damaged_header_is_an_error_for_readers(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "topic-0", segment_bytes=3000)
    log = bench.open()
    fill(log, 80)
    log = bench.reopen_clean(log)
    found: Any = log.segments.first.locate(5)
    with open(log.segments.first.path, "r+b") as file:
        file.seek(found[1] + 8)
        file.write(bytes(4))
    with pytest.raises(CorruptRecordError, match=f"invalid batch at byte {found[1]}"):
        log.read(6, 1000, FetchIsolation.LOG_END)


def test_a_segment_that_the_cleaner_made_is_named_as_it_is_called(broker: Broker) -> None:
    manager = broker.start()
    one, _ = keyed(manager, 58)
    manager.cleaner.clean_filthiest()
    made = next(segment for segment in one.segments if segment.size_bytes)
    path = made.path
    assert path.suffix == ".log"
    with BadBlocks().watched() as bad:
        bad.add(path, 0)
        with pytest.raises(KafkaStorageError, match=f"at byte 0: '{path}'"):
            contents(one, made.base_offset)


@pytest.mark.whole_transfers  # the block is met in one read
def test_an_append_that_cannot_read_its_segment_reports_the_disk(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "topic-0", index_interval_bytes=0)
    log = bench.open()
    fill(log, 30)
    records = bytes(build_batch([SimpleRecord(NOW_MS, None, b"later")]))
    replicated = bytearray(records)
    INT64.pack_into(replicated, 0, 30)
    ways: list[Callable[[UnifiedLog], Any]] = [
        lambda log: log.append_as_leader(records, 0),
        lambda log: raise_first(log.append_each_as_leader([records], 0)),
        lambda log: log.append_as_follower(replicated),
    ]
    for append_to in ways:
        log = bench.reopen_clean(log)
        del bench.failures[:]
        with BadBlocks().watched() as bad:
            bad.add(log.segments.active.path, 0)
            with pytest.raises(KafkaStorageError, match="at byte 0"):
                append_to(log)
        assert len(bench.failures) == 1
        assert log.log_end_offset == 30


def raise_first(results: Sequence[LogAppendInfo | Exception]) -> None:
    assert isinstance(results[0], Exception)
    raise results[0]
