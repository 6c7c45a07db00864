"""Which logs get cleaned and when, how far, by whom; what keeps cleaners away."""

import errno
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.log.log_managers import ONE, TWO, Broker
from tests.support.compaction import last_values
from tests.support.eventually import WAIT_S, eventually, join
from tests.support.logs import NOW_MS
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.log.cleaner.cleaner import LogCleaningAbortedError
from twisted_kafka.log.cleaner.log_cleaner import MAX_DELAY_S, CleanerThrottle, LogCleaner
from twisted_kafka.log.cleaner.offset_map import PLAIN_ENTRY_BYTES
from twisted_kafka.log.log_manager import LogManager
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.errors import KafkaStorageError
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import ManualClock

BY_HAND = {"log.cleaner.threads": 0, "log.segment.bytes": 1000, "log.cleaner.backoff.ms": 5}
COMPACT = {"cleanup.policy": "compact", "segment.bytes": "1000"}


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    broker = Broker(tmp_path)
    broker.topic_configs["one"] = dict(COMPACT)
    return broker


def start(broker: Broker, dirs: tuple[str, ...] = ("a",), metrics: MetricsRegistry | None = None, **settings: Any) -> LogManager:
    manager = broker.manager(dirs, metrics=metrics, **{**BY_HAND, **settings})
    manager.startup(lambda topic: broker.topic_configs.get(topic, {}))
    return manager


def write(log: UnifiedLog, batches: int = 30, keys: int = 3, timestamp_ms: int = NOW_MS) -> None:
    for number in range(batches):
        record = SimpleRecord(timestamp_ms, b"%d" % (number % keys), b"x" * 50 + b"%d" % number)
        log.append_as_leader(bytearray(build_batch([record])), 0)
    log.update_high_watermark(log.log_end_offset)


def checkpoint(broker: Broker, directory: str = "a") -> str:
    return (broker.path / directory / "cleaner-offset-checkpoint").read_text()


def wait_for_abort(manager: LogManager, topic_partition: TopicPartition) -> None:
    """Return when somebody waits for the cleaner to let go of a partition."""

    def is_aborted() -> Any:
        try:
            manager.cleaner.manager.check_not_aborted(topic_partition)
        except LogCleaningAbortedError:
            return True
        return False

    eventually(is_aborted)


def test_a_dirty_log_is_cleaned_up_to_its_active_segment_and_that_is_noted(broker: Broker) -> None:
    manager = start(broker)
    log = manager.get_or_create_log(ONE)
    write(log)
    before = last_values(log)
    assert manager.cleaner.clean_filthiest()
    assert last_values(log) == before
    active = log.segments.active.base_offset
    assert checkpoint(broker) == f"0\n1\none 0 {active}\n"
    assert not manager.cleaner.clean_filthiest()
    manager.shutdown()
    manager = start(broker)
    log = manager.get_log(ONE)
    log.update_high_watermark(log.log_end_offset)
    assert not manager.cleaner.clean_filthiest()
    assert last_values(log) == before


def test_the_dirtiest_comes_first_and_clean_enough_ones_wait(broker: Broker) -> None:
    broker.topic_configs["two"] = COMPACT | {"min.cleanable.dirty.ratio": "0.9"}
    manager = start(broker)
    one, two = manager.get_or_create_log(ONE), manager.get_or_create_log(TWO)
    write(one, keys=1000)
    write(two, keys=1000)
    assert manager.cleaner.clean_filthiest()
    assert manager.cleaner.clean_filthiest()
    assert not manager.cleaner.clean_filthiest()
    write(one, batches=60, keys=1000)
    write(two, batches=60, keys=1000)
    assert manager.cleaner.clean_filthiest()
    assert not manager.cleaner.clean_filthiest()
    assert manager.cleaner.manager.cleaned_up_to(one) == one.segments.active.base_offset
    assert manager.cleaner.manager.cleaned_up_to(two) < two.segments.active.base_offset


def test_what_is_newer_than_the_smallest_lag_waits(broker: Broker) -> None:
    broker.topic_configs["one"]["min.compaction.lag.ms"] = "1000"
    manager = start(broker)
    log = manager.get_or_create_log(ONE)
    write(log, timestamp_ms=NOW_MS - 5000)
    log.roll()
    new = log.log_end_offset
    write(log)
    log.roll()
    assert manager.cleaner.clean_filthiest()
    assert manager.cleaner.manager.cleaned_up_to(log) == new
    broker.clock.advance_ms(999)
    assert not manager.cleaner.clean_filthiest()
    broker.clock.advance_ms(1)
    assert manager.cleaner.clean_filthiest()
    assert manager.cleaner.manager.cleaned_up_to(log) == log.segments.active.base_offset


def test_a_log_is_overdue_from_the_first_millisecond_on(broker: Broker) -> None:
    broker.topic_configs["one"] |= {"max.compaction.lag.ms": "1000", "min.cleanable.dirty.ratio": "1"}
    manager = start(broker)
    log = manager.get_or_create_log(ONE)
    write(log)
    log.roll()
    broker.clock.advance_ms(1000)
    assert manager.cleaner.manager.grab_filthiest() is None
    assert manager.cleaner.manager.max_compaction_delay_ms == 0
    broker.clock.advance_ms(1)
    assert manager.cleaner.manager.grab_filthiest().delay_ms == manager.cleaner.manager.max_compaction_delay_ms == 1
    manager.cleaner.manager.done_cleaning(log, log.log_end_offset)
    assert manager.cleaner.manager.grab_filthiest() is None
    assert manager.cleaner.manager.max_compaction_delay_ms == 0


def test_half_of_a_log_may_be_clean(broker: Broker) -> None:
    broker.topic_configs["one"]["min.cleanable.dirty.ratio"] = "0.5"
    manager = start(broker)
    log = manager.get_or_create_log(ONE)
    for _ in range(2):
        assert (manager.cleaner.manager.max_dirty_percent, manager.cleaner.manager.max_compaction_delay_ms) == (0, 0)
        assert manager.cleaner.manager.grab_filthiest() is None
    sizes: list[int] = []
    for _ in range(3):
        write(log, 3)
        log.roll()
        sizes.append(log.size_bytes - sum(sizes))
    manager.cleaner.manager.done_cleaning(manager.cleaner.manager.grab_filthiest().log, 3)
    chosen = manager.cleaner.manager.grab_filthiest()
    assert chosen[1:] == (3, 9, sizes[0], sizes[1] + sizes[2], 0)
    assert manager.cleaner.manager.max_dirty_percent == 66
    manager.cleaner.manager.done_cleaning(log, 6)
    assert sizes[0] + sizes[1] == 2 * sizes[2]
    write(log, 3)
    log.roll()
    assert manager.cleaner.manager.grab_filthiest() is None  # exactly half is not above the ratio
    assert manager.cleaner.manager.max_dirty_percent == 50
    broker.topic_configs["one"]["min.cleanable.dirty.ratio"] = "0.49"
    manager.update_topic_config("one")
    assert manager.cleaner.manager.grab_filthiest()[1:] == (6, 12, 2 * sizes[0], 2 * sizes[0], 0)


@pytest.mark.parametrize(("timestamp_ms", "is_overdue"), [(-1, False), (0, False), (1, True)])
def test_a_log_without_times_is_not_overdue(broker: Broker, timestamp_ms: int, is_overdue: bool) -> None:
    broker.topic_configs["one"] |= {"max.compaction.lag.ms": "1000", "min.cleanable.dirty.ratio": "1"}
    manager = start(broker)
    log = manager.get_or_create_log(ONE)
    write(log, timestamp_ms=timestamp_ms)
    assert (manager.cleaner.manager.grab_filthiest() is not None) is is_overdue


def test_a_checkpoint_outside_the_log_is_put_right(broker: Broker) -> None:
    manager = start(broker)
    log = manager.get_or_create_log(ONE)
    write(log)
    manager.cleaner.clean_filthiest()
    manager.shutdown()
    for wrong in (0, 1000):
        (broker.path / "a" / "cleaner-offset-checkpoint").write_text(f"0\n1\none 0 {wrong}\n")
        manager = start(broker)
        log = manager.get_log(ONE)
        log.update_high_watermark(log.log_end_offset)
        log.increment_log_start_offset(2)
        chosen = manager.cleaner.manager.grab_filthiest()
        assert chosen.first_dirty_offset == 2
        assert checkpoint(broker) == "0\n1\none 0 2\n"
        manager.shutdown()


def test_what_is_older_than_the_largest_lag_is_cleaned_however_little(broker: Broker) -> None:
    broker.topic_configs["one"] |= {"max.compaction.lag.ms": "1000", "min.cleanable.dirty.ratio": "1", "segment.ms": "100000"}
    metrics = MetricsRegistry(broker.clock)
    manager = start(broker, metrics=metrics)
    log = manager.get_or_create_log(ONE)
    write(log, 5)
    broker.clock.advance_ms(999)
    write(log, 1, timestamp_ms=NOW_MS + 999)
    assert len(log.segments) == 1
    broker.clock.advance_ms(4001)
    write(log, 1, timestamp_ms=NOW_MS + 5000)
    assert len(log.segments) == 2  # the segment is rolled, so that it can be cleaned
    assert manager.cleaner.clean_filthiest()
    assert metrics.value("LogCleaner", "max-compaction-delay-secs") == 4


def test_a_log_is_not_cleaned_for_its_age_while_a_transaction_keeps_all_that_is_dirty(broker: Broker) -> None:
    broker.topic_configs["one"] |= {"max.compaction.lag.ms": "1000"}
    manager = start(broker, transaction_partition_verification_enable="false")
    log = manager.get_or_create_log(ONE)
    write(log)
    log.roll()
    assert manager.cleaner.clean_filthiest()
    records = [SimpleRecord(NOW_MS, b"key", b"value")]
    log.append_as_leader(
        bytearray(build_batch(records, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)), 0
    )
    write(log)
    broker.clock.advance_ms(5000)
    assert not manager.cleaner.clean_filthiest()


def test_a_log_that_cannot_be_read_is_left_alone_and_counted(broker: Broker) -> None:
    metrics = MetricsRegistry(broker.clock)
    manager = start(broker, metrics=metrics)
    log = manager.get_or_create_log(ONE)
    write(log)
    log.flush()
    with open(log.segments.first.path, "r+b") as file:
        file.seek(16)
        file.write(b"\x09")
    broker.topic_configs["two"] = COMPACT
    other = manager.get_or_create_log(TWO)
    manager.cleaner.manager.mark_uncleanable(other, ValueError("damaged"))
    assert manager.cleaner.clean_filthiest()
    assert not manager.cleaner.clean_filthiest()
    tags = {"logDirectory": f'"{broker.path / "a"}"'}
    assert metrics.value("LogCleanerManager", "uncleanable-partitions-count", **tags) == 2
    size_bytes = log.size_bytes - log.segments.active.size_bytes
    assert metrics.value("LogCleanerManager", "uncleanable-bytes", **tags) == size_bytes
    write(other)
    size_bytes += other.size_bytes - other.segments.active.size_bytes
    assert metrics.value("LogCleanerManager", "uncleanable-bytes", **tags) == size_bytes
    assert manager.directories[0].is_online
    for partition in (ONE, TWO):
        manager.delete_log(partition)
    assert metrics.value("LogCleanerManager", "uncleanable-bytes", **tags) == 0
    manager.forget_deleted()
    assert metrics.value("LogCleanerManager", "uncleanable-partitions-count", **tags) == 0


def test_what_cannot_be_cleaned_is_counted_where_it_moves_to(broker: Broker) -> None:
    metrics = MetricsRegistry(broker.clock)
    manager = start(broker, ("a", "b"), metrics=metrics)

    def counted() -> list[Any]:
        tags = [{"logDirectory": f'"{directory.path}"'} for directory in (source, target)]
        return [metrics.value("LogCleanerManager", "uncleanable-partitions-count", **each) for each in tags]

    log = manager.get_or_create_log(ONE)
    source, target = sorted(manager.directories, key=lambda directory: directory.path != log.parent)
    manager.cleaner.manager.mark_uncleanable(log, ValueError("damaged"))
    assert counted() == [1, 0]
    manager.prefer(ONE, target)
    manager.get_or_create_future_log(ONE, None)
    moved = manager.replace_by_future_log(ONE)
    assert counted() == [0, 1]
    write(moved)
    assert not manager.cleaner.clean_filthiest()


def test_a_checkpoint_that_cannot_be_written_takes_the_directory_offline(broker: Broker) -> None:
    manager = start(broker)
    write(manager.get_or_create_log(ONE))
    (broker.path / "a" / "cleaner-offset-checkpoint.tmp").mkdir()
    assert manager.cleaner.clean_filthiest()
    assert broker.failed == manager.directories
    assert manager.cleaner.manager.grab_filthiest() is None


def test_what_was_clean_in_a_directory_that_failed_is_forgotten_and_its_lock_released(broker: Broker) -> None:
    manager = start(broker)
    log = manager.get_or_create_log(ONE)
    write(log)
    manager.cleaner.clean_filthiest()
    assert manager.cleaner.manager.cleaned_up_to(log)
    (directory,) = manager.directories
    manager.directory_failed(directory, OSError(errno.EIO, "broken"))
    manager.forget_directory(directory)
    assert manager.cleaner.manager.cleaned_up_to(log) is None
    assert not directory.is_held


def test_metrics_tell_of_the_last_cleaning(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = MetricsRegistry(broker.clock)
    manager = start(broker, metrics=metrics)
    manager.cleaner.settings = manager.cleaner.settings._replace(dedupe_buffer_bytes=12_000)
    log = manager.get_or_create_log(ONE)
    write(log, keys=40)
    real, written = os.utime, []

    def slow(*arguments: Any, **options: Any) -> None:
        broker.clock.advance_ms(1700)
        written.append(arguments)
        real(*arguments, **options)

    monkeypatch.setattr(os, "utime", slow)

    def value(name: Any, kind: str = "LogCleaner") -> Any:
        return metrics.value(kind, name)

    assert value("max-clean-time-secs") == value("cleaner-recopy-percent") == value("max-buffer-utilization-percent") == 0
    assert manager.cleaner.clean_filthiest()
    took_ms = len(written) * 1700
    assert value("max-dirty-percent", "LogCleanerManager") == 100
    assert value("max-clean-time-secs") == took_ms // 1000 > 0
    assert value("time-since-last-run-ms", "LogCleanerManager") == took_ms
    assert value("cleaner-recopy-percent") == 100  # every key was written once
    keys = log.segments.active.base_offset  # a new one in each record
    assert value("max-buffer-utilization-percent") == int(100 * keys / int(12_000 // PLAIN_ENTRY_BYTES * 0.9) * 0.9)
    write(log, keys=1)
    assert manager.cleaner.clean_filthiest()
    assert 0 < value("cleaner-recopy-percent") < 100
    assert not manager.cleaner.clean_filthiest()
    assert value("time-since-last-run-ms", "LogCleanerManager") == 0
    manager.cleaner.shutdown()
    assert value("max-clean-time-secs") == value("cleaner-recopy-percent") == value("max-buffer-utilization-percent") == 0


def test_metrics_have_kafkas_names(broker: Broker) -> None:
    metrics = MetricsRegistry(broker.clock)
    manager = start(broker, metrics=metrics)
    write(manager.get_or_create_log(ONE))
    broker.clock.advance_ms(70)
    assert metrics.value("LogCleanerManager", "time-since-last-run-ms") == 70
    manager.cleaner.clean_filthiest()
    assert metrics.value("LogCleanerManager", "max-dirty-percent") == 100
    assert metrics.value("LogCleanerManager", "time-since-last-run-ms") == 0
    assert 0 < metrics.value("LogCleaner", "cleaner-recopy-percent") < 100  # type: ignore[operator]
    assert metrics.value("LogCleaner", "max-clean-time-secs") == 0
    assert metrics.value("LogCleaner", "max-buffer-utilization-percent") == 0
    assert metrics.value("LogCleaner", "DeadThreadCount") == 0
    assert str(next(name for name, _ in metrics.items() if name.name == "DeadThreadCount")) == (
        "kafka.log:type=LogCleaner,name=DeadThreadCount"
    )


def test_old_segments_of_compacted_logs_are_the_cleaners_to_delete(broker: Broker) -> None:
    broker.topic_configs["one"] |= {"cleanup.policy": "compact,delete", "retention.ms": "1000"}
    manager = start(broker)
    log = manager.get_or_create_log(ONE)
    write(log, keys=1000)
    broker.clock.advance_ms(2000)
    manager._tasks.delete_old_segments()
    assert log.log_start_offset == 0
    manager.cleaner.clean_filthiest()
    assert log.log_start_offset == log.log_end_offset


def test_a_topic_that_is_compacted_no_more_keeps_what_it_has(broker: Broker) -> None:
    manager = start(broker)
    log = manager.get_or_create_log(ONE)
    write(log)
    broker.topic_configs["one"]["cleanup.policy"] = "delete"
    manager.update_topic_config("one")
    assert not manager.cleaner.clean_filthiest()
    broker.topic_configs["one"]["cleanup.policy"] = "compact"
    manager.update_topic_config("one")
    assert manager.cleaner.clean_filthiest()


def test_what_is_written_after_a_truncation_is_dirty(broker: Broker) -> None:
    manager = start(broker)
    log = manager.get_or_create_log(ONE)
    write(log)
    manager.cleaner.clean_filthiest()
    manager.truncate_to(ONE, 5)
    cut = log.log_end_offset
    assert manager.cleaner.manager.cleaned_up_to(log) == cut <= 5
    manager.truncate_fully_and_start_at(ONE, 3)
    assert manager.cleaner.manager.cleaned_up_to(log) == 3


def test_a_new_log_of_an_old_name_is_dirty_from_the_start(broker: Broker) -> None:
    manager = start(broker)
    write(manager.get_or_create_log(ONE))
    manager.cleaner.clean_filthiest()
    manager.delete_log(ONE)
    manager.forget_deleted()
    assert checkpoint(broker) == "0\n0\n"
    log = manager.get_or_create_log(ONE)
    write(log)
    assert manager.cleaner.clean_filthiest()


def test_the_checkpoint_goes_with_a_log_that_moves(broker: Broker) -> None:
    manager = start(broker, ("a", "b"))
    log = manager.get_or_create_log(ONE)
    write(log)
    manager.cleaner.clean_filthiest()
    offset = manager.cleaner.manager.cleaned_up_to(log)
    source, target = sorted(manager.directories, key=lambda directory: directory.path != log.parent)
    manager.prefer(ONE, target)
    future = manager.get_or_create_future_log(ONE, None)
    write(log)
    assert not manager.cleaner.clean_filthiest()  # not while it is copied
    future.append_as_follower(b"".join(segment.path.read_bytes() for segment in log.segments))
    manager.replace_by_future_log(ONE)
    assert checkpoint(broker, target.path.name) == f"0\n1\none 0 {offset}\n"
    assert checkpoint(broker, source.path.name) == "0\n0\n"
    future.update_high_watermark(future.log_end_offset)
    future.roll()
    assert manager.cleaner.clean_filthiest()


def test_a_cleaning_under_way_ends_before_the_log_is_cut(broker: Broker) -> None:
    manager = start(broker)
    log = manager.get_or_create_log(ONE)
    write(log)
    chosen = manager.cleaner.manager.grab_filthiest()
    assert chosen.log is log
    assert manager.cleaner.manager.grab_filthiest() is None
    cutting = threading.Thread(target=manager.truncate_to, args=(ONE, 2))
    cutting.start()
    wait_for_abort(manager, ONE)
    assert log.log_end_offset == 30
    manager.cleaner.manager.done_cleaning(log, 30)
    cutting.join(WAIT_S)
    assert log.log_end_offset <= 2
    assert (manager.cleaner.manager.cleaned_up_to(log) or 0) <= 2
    with pytest.raises(ValueError, match="not paused"):
        manager.cleaner.manager.resume([ONE])


def test_two_who_wait_for_the_same_cleaning_may_both_go_on(broker: Broker) -> None:
    manager = start(broker)
    write(manager.get_or_create_log(ONE))
    cleaner = manager.cleaner.manager
    chosen = cleaner.grab_filthiest()
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(cleaner.abort_and_pause, ONE) for _ in range(2)]
        wait_for_abort(manager, ONE)
        assert not any(each.done() for each in waiting)
        cleaner.done_cleaning(chosen.log, 0)
        for each in waiting:
            each.result(WAIT_S)
    cleaner.abort_and_pause(ONE)
    for _ in range(3):
        assert cleaner.grab_filthiest() is None
        cleaner.resume([ONE])
    assert cleaner.grab_filthiest() is not None


def test_a_move_that_waits_for_the_cleaner_keeps_no_other_topic_waiting(broker: Broker) -> None:
    """The cleaner may be throttled for many seconds, in which topics are made and deleted."""
    manager = start(broker, ("a", "b"))
    log = manager.get_or_create_log(ONE)
    write(log)
    assert manager.cleaner.manager.grab_filthiest().log is log
    manager.prefer(ONE, next(directory for directory in manager.directories if directory.path != log.parent))
    with ThreadPoolExecutor(2) as pool:
        move = pool.submit(manager.get_or_create_future_log, ONE, None)
        try:
            wait_for_abort(manager, ONE)
            assert pool.submit(manager.get_or_create_log, TWO).result(WAIT_S)
            assert pool.submit(manager.delete_log, TWO).result(WAIT_S)
        finally:
            manager.cleaner.manager.done_cleaning(log, 0)
        assert move.result(WAIT_S) is manager.get_future_log(ONE)
    assert manager.cleaner.manager.grab_filthiest() is None
    assert manager.delete_future_log(ONE)
    assert manager.cleaner.manager.grab_filthiest().log is log


def test_a_move_that_cannot_begin_lets_the_cleaner_go_on(broker: Broker) -> None:
    manager = start(broker, ("a", "b"))
    log = manager.get_or_create_log(ONE)
    write(log)
    with pytest.raises(KafkaStorageError):
        manager.get_or_create_future_log(ONE, None)
    assert manager.cleaner.clean_filthiest()


def test_retention_leaves_a_log_alone_that_is_still_being_compacted(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its policy may have changed meanwhile: files that are renamed under the cleaner would take a sound directory offline."""
    manager = start(broker)
    write(manager.get_or_create_log(ONE), keys=1000)
    manager.shutdown()
    manager = start(broker)  # with all files closed
    log = manager.get_log(ONE)
    log.update_high_watermark(log.log_end_offset)

    def change_policy() -> None:
        broker.topic_configs["one"] |= {"cleanup.policy": "delete", "retention.bytes": "0", "retention.ms": "-1"}
        manager.update_topic_config("one")

    changes: list[Any] = []
    with ThreadPoolExecutor(1) as pool:

        def proceed(*_: Any, **__: Any) -> None:
            if not changes:
                changes.append(pool.submit(change_policy))
                wait_for_abort(manager, ONE)
                broker.later(300_000)  # retention runs

        monkeypatch.setattr(manager.cleaner, "proceed", proceed)
        manager.cleaner.clean_filthiest()
        changes[0].result(WAIT_S)
    assert broker.failed == []
    assert log.log_start_offset == 0
    assert manager.cleaner.manager.cleaned_up_to(log) is None  # the cleaning was aborted
    broker.later(300_000)
    assert log.log_start_offset == log.log_end_offset


def test_no_cleaning_begins_while_retention_is_at_work(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = start(broker)
    for partition in (ONE, TWO):
        broker.topic_configs[partition.topic] = {"retention.ms": "1000", "segment.bytes": "1000"}
        write(manager.get_or_create_log(partition))
    chosen: list[Any] = []
    real = os.rename

    def rename(*paths: Any) -> Any:
        if not chosen:  # retention deletes segments of the first log
            broker.topic_configs["two"] = COMPACT
            manager.update_topic_config("two")
            chosen.append(manager.cleaner.manager.grab_filthiest())
        return real(*paths)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", rename)
        broker.later(300_000)
    assert chosen == [None]
    write(manager.get_log(TWO))
    assert manager.cleaner.manager.grab_filthiest().log is manager.get_log(TWO)


def test_a_full_disk_is_no_failed_disk(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = start(broker)
    log = manager.get_or_create_log(ONE)
    write(log)
    whole = os.pwrite

    def full(fd: Any, data: Any, position: Any) -> Any:
        if os.readlink(f"/proc/self/fd/{fd}").endswith(".cleaned"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return whole(fd, data, position)

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        manager.cleaner.clean_filthiest()
    assert manager.directories[0].is_online
    assert manager.cleaner.manager.cleaned_up_to(log) in (None, 0)
    assert manager.cleaner.clean_filthiest()
    assert manager.cleaner.manager.cleaned_up_to(log) > 0


def test_a_failed_disk_takes_the_directory_offline(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = start(broker)
    write(manager.get_or_create_log(ONE))

    def failing(fd: Any, data: Any, position: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "pwrite", failing)
    manager.cleaner.clean_filthiest()
    assert [directory.is_online for directory in manager.directories] == [False]
    assert broker.failed == manager.directories


def test_threads_clean_and_are_made_anew_when_settings_change(broker: Broker) -> None:
    manager = start(broker, **{"log.cleaner.threads": 1})  # type: ignore[arg-type]
    log = manager.get_or_create_log(ONE)
    write(log)
    old, new = KafkaConfig.from_properties({}), KafkaConfig.from_properties({"log.cleaner.threads": "2"})
    LogCleaner.validate(old, new)
    manager.cleaner.reconfigure(new)
    names = {thread.name for thread in threading.enumerate()}
    assert {"kafka-log-cleaner-thread-0", "kafka-log-cleaner-thread-1"} <= names
    assert all(thread.daemon for thread in threading.enumerate() if "cleaner" in thread.name)
    eventually(lambda: manager.cleaner.manager.cleaned_up_to(log))
    assert manager.cleaner.manager.cleaned_up_to(log) == log.segments.active.base_offset
    manager.shutdown()
    assert manager.cleaner.dead_threads == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"log.cleaner.threads": "3"},
        {"log.cleaner.threads": "0"},
        {"log.cleaner.io.buffer.load.factor": "0"},
        {"log.cleaner.io.buffer.load.factor": "1.01"},
    ],
)
def test_changes_that_kafka_refuses(changes: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        LogCleaner.validate(KafkaConfig.from_properties({}), KafkaConfig.from_properties(changes))


def test_all_of_the_table_may_be_used() -> None:
    LogCleaner.validate(KafkaConfig.from_properties({}), KafkaConfig.from_properties({"log.cleaner.io.buffer.load.factor": "1"}))


def test_threads_may_become_half_or_twice_as_many() -> None:
    def with_threads(count: int) -> KafkaConfig:
        return KafkaConfig.from_properties({"log.cleaner.threads": str(count)})

    for count in (2, 8):
        LogCleaner.validate(with_threads(4), with_threads(count))
    for count in (1, 9):
        with pytest.raises(ConfigError, match="between half of and twice the current value, 4"):
            LogCleaner.validate(with_threads(4), with_threads(count))
    LogCleaner.validate(with_threads(5), with_threads(2))  # half of it, rounded down


def test_a_thread_looks_again_at_once_after_a_cleaning_and_else_after_the_backoff(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = start(broker, **{"log.cleaner.backoff.ms": 250})  # type: ignore[arg-type]
    happened: list[Any] = []
    script = [True, False, True, True, False]
    is_over = threading.Event()

    class Stopping(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            if timeout is None:  # others wait for the start of a thread
                return super().wait()
            happened.append(timeout)
            if script:
                return False
            is_over.set()
            return super().wait()

    def clean_filthiest() -> bool:
        happened.append(script.pop(0))
        return bool(happened[-1])

    manager.cleaner.settings = manager.cleaner.settings._replace(threads=1)
    with monkeypatch.context() as patched:
        patched.setattr(manager.cleaner, "clean_filthiest", clean_filthiest)
        patched.setattr(machine, "Event", Stopping)
        manager.cleaner.startup()
    assert is_over.wait(WAIT_S)
    manager.cleaner.shutdown()
    assert happened == [True, False, 0.25, True, True, False, 0.25]
    assert "kafka-log-cleaner-thread-0" not in {thread.name for thread in threading.enumerate()}


def test_settings_that_change_while_the_cleaner_stops_start_no_threads(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = start(broker, **{"log.cleaner.threads": 1})  # type: ignore[arg-type]
    cleaner = manager.cleaner
    cleaner.shutdown()
    is_cleaning, may_end = threading.Event(), threading.Event()

    def clean() -> bool:
        is_cleaning.set()
        return not may_end.wait(WAIT_S)

    monkeypatch.setattr(cleaner, "clean_filthiest", clean)
    cleaner.startup()
    assert is_cleaning.wait(WAIT_S)
    new = KafkaConfig.from_properties({"log.cleaner.threads": "2"})
    changing = threading.Thread(target=cleaner.reconfigure, args=(new,))
    stopping = threading.Thread(target=cleaner.shutdown)
    for thread, function in ((changing, "reconfigure"), (stopping, "shutdown")):
        thread.start()
        eventually(lambda thread=thread, function=function: is_in(thread, function))  # type: ignore[misc]
    may_end.set()
    join([changing, stopping])
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("kafka-log-cleaner-thread")]
    manager.shutdown()


def is_in(thread: threading.Thread, function: str) -> bool:
    """Whether a thread is in a function of this name, or in one that mutmut has made of it, whose name contains it."""
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None:
        if function in frame.f_code.co_name:
            return True
        frame = frame.f_back
    return False


def test_a_truncation_within_the_active_segment_and_new_settings_wait_for_no_cleaner(broker: Broker) -> None:
    manager = start(broker)
    log = manager.get_or_create_log(ONE)
    write(log)
    manager.cleaner.manager.grab_filthiest()
    active = log.segments.active.base_offset

    def act() -> None:
        manager.truncate_to(ONE, active + 1)
        manager.truncate_to(ONE, active)
        broker.topic_configs["one"]["retention.ms"] = "1000"
        manager.update_topic_config("one")
        broker.topic_configs["two"] = COMPACT
        manager.get_or_create_log(TWO)
        broker.topic_configs["two"] = {}
        manager.update_topic_config("two")

    acting = threading.Thread(target=act, daemon=True)
    acting.start()
    acting.join(WAIT_S)
    assert not acting.is_alive()
    assert (log.log_end_offset, log.config.retention_ms) == (active, 1000)
    manager.cleaner.manager.check_not_aborted(ONE)
    manager.cleaner.manager.done_cleaning(log, 3)
    assert manager.cleaner.manager.cleaned_up_to(log) == 3


def test_a_truncation_of_a_log_that_was_never_cleaned_notes_nothing(broker: Broker) -> None:
    manager = start(broker)
    write(manager.get_or_create_log(ONE))
    manager.truncate_to(ONE, 0)
    assert manager.cleaner.manager.cleaned_up_to(manager.get_log(ONE)) is None


def test_without_the_cleaner_nothing_is_compacted(broker: Broker) -> None:
    manager = start(broker, **{"log.cleaner.enable": False})  # type: ignore[arg-type]
    assert manager.cleaner is None
    broker.topic_configs["one"] |= {"retention.ms": "1000", "cleanup.policy": "compact,delete"}
    broker.topic_configs["two"] = {"retention.ms": "1000"}
    log, other = manager.get_or_create_log(ONE), manager.get_or_create_log(TWO)
    write(log)
    write(other)
    broker.later(300_000)
    assert (log.log_start_offset, other.log_start_offset) == (0, 30)
    assert manager.delete_log(ONE)
    manager.shutdown()


def test_a_cleaner_waits_as_the_rate_requires_and_ends_when_it_is_stopped(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = start(broker, **{"log.cleaner.io.max.bytes.per.second": 1000})  # type: ignore[arg-type]
    write(manager.get_or_create_log(ONE))
    assert manager.cleaner.manager.grab_filthiest()
    waits: list[float] = []
    condition = manager.cleaner.manager._condition
    monkeypatch.setattr(condition, "wait_for", lambda _ends, timeout_s: waits.append(timeout_s))
    stopping = threading.Event()
    manager.cleaner.proceed(ONE, 500, stopping)
    assert waits == [0.5]
    broker.clock.advance_ms(1000)
    manager.cleaner.proceed(ONE, 0, stopping)
    assert waits == [0.5], "nothing to wait for"
    stopping.set()
    for size_bytes in (0, 500):
        with pytest.raises(LogCleaningAbortedError, match="stopping"):
            manager.cleaner.proceed(ONE, size_bytes, stopping)


@pytest.mark.parametrize("ends", ["stop", "abort"])
def test_a_cleaner_that_waits_for_its_rate_can_be_ended(broker: Broker, monkeypatch: pytest.MonkeyPatch, ends: str) -> None:
    manager = start(broker)
    write(manager.get_or_create_log(ONE))
    assert manager.cleaner.manager.grab_filthiest()
    monkeypatch.setattr(manager.cleaner._throttle, "delay_s", lambda _size_bytes: 1e6)
    stopping = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        cleaning = pool.submit(manager.cleaner.proceed, ONE, 1, stopping)
        if ends == "stop":
            stopping.set()
            manager.cleaner.manager.wake()
        else:
            manager.cleaner.manager.abort_cleaning(ONE)
        with pytest.raises(LogCleaningAbortedError):
            cleaning.result(WAIT_S)


def test_nobody_waits_without_end_for_a_cleaning_on_a_disk_that_hangs(broker: Broker) -> None:
    manager = start(broker)
    log = manager.get_or_create_log(ONE)
    write(log)
    cleaner = manager.cleaner.manager
    assert cleaner.grab_filthiest()
    with pytest.raises(KafkaStorageError, match="the cleaning of one-0 does not end"):
        cleaner.abort_and_pause(ONE, timeout_s=0)
    with pytest.raises(ValueError, match="not paused"):
        cleaner.resume([ONE])
    with pytest.raises(LogCleaningAbortedError):
        cleaner.check_not_aborted(ONE)
    cleaner.done_cleaning(log, 10)  # the disk answers again
    assert cleaner.cleaned_up_to(log) is None
    assert cleaner.grab_filthiest()


def test_a_disk_that_hangs_in_the_cleaner_delays_no_other_partition(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = start(broker, ("a", "b"))
    logs = []
    for partition, directory in zip((ONE, TWO), manager.directories, strict=True):
        broker.topic_configs[partition.topic] = COMPACT
        manager.prefer(partition, directory)
        logs.append(manager.get_or_create_log(partition))
        write(logs[-1])
    cleaner = manager.cleaner.manager
    begun, mended = threading.Event(), threading.Event()
    replace = os.replace

    def hang(source: Any, target: Any) -> None:
        if str(source).startswith(str(logs[0].parent)):
            begun.set()
            assert mended.wait(WAIT_S)
        replace(source, target)

    monkeypatch.setattr(os, "replace", hang)
    assert cleaner.begin_deleting(logs[0])
    with ThreadPoolExecutor(1) as pool:
        ending = pool.submit(cleaner.done_cleaning, logs[0], 20)
        try:
            assert begun.wait(WAIT_S)
            cleaner.abort_and_pause(TWO)
            cleaner.resume([TWO])
            cleaner.truncated(logs[1])
            cleaner.forget_deleted()
            assert cleaner.grab_filthiest().log is logs[1]
            assert cleaner.uncleanable_bytes(manager.directories[0]) == 0
        finally:
            mended.set()
        ending.result(WAIT_S)
    assert cleaner.cleaned_up_to(logs[0]) == 20


def test_the_rate_is_kept_in_the_long_run() -> None:
    clock = ManualClock()
    throttle = CleanerThrottle(clock, 1000)
    assert throttle.delay_s(500) == 0.5
    clock.advance_ms(200)
    assert throttle.delay_s(100) == pytest.approx(0.4)
    clock.advance_ms(10_000)
    assert throttle.delay_s(1000) == 1
    throttle.bytes_per_second = 1.8e308
    clock.advance_ms(10_000)
    assert throttle.delay_s(1 << 40) == 0
    for rate in (1, 0.5):  # less than a byte per second is taken for one
        assert CleanerThrottle(clock, rate).delay_s(2) == 2
    slow = CleanerThrottle(clock, 1)
    assert slow.delay_s(1000) == slow.delay_s(0) == MAX_DELAY_S
    clock.advance_ms(4000)
    assert slow.delay_s(1) == MAX_DELAY_S - 3


def test_the_cleaner_works_with_the_threads_that_the_system_gives(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    cleaner = start(broker).cleaner
    cleaner.settings = cleaner.settings._replace(threads=3)
    real, asked = machine.Thread.start, []

    def only_one(thread: machine.Thread) -> None:
        asked.append(thread)
        if len(asked) > 1:
            raise RuntimeError("can't start new thread")
        real(thread)

    monkeypatch.setattr(machine.Thread, "start", only_one)
    cleaner.startup()
    assert len(asked) == 2
    cleaner.shutdown()
    assert not asked[0].is_alive()
    with pytest.raises(RuntimeError):
        cleaner.startup()
    cleaner.shutdown()
