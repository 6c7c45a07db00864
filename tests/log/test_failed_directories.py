import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from twisted.logger import capturedLogs, formatEvent

from tests.log.log_managers import ONE, TWO, Broker
from tests.support.eventually import WAIT_S
from tests.support.logs import append, batch, contents
from tests.support.no_threads import no_threads
from twisted_kafka.log.directories.log_dir_failure_handler import RETRY_MS, LogDirFailureHandler
from twisted_kafka.log.directories.log_directory import LogDirectory, LogDirectoryError
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.errors import KafkaStorageError
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.system import threads


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


def test_a_failed_directory_goes_offline_and_the_others_serve(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = broker.start(("a", "b"))
    one, two = manager.get_or_create_log(ONE), manager.get_or_create_log(TWO)
    assert one.dir.parent != two.dir.parent

    def broken(*_: Any) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "pwrite", broken)
    with pytest.raises(KafkaStorageError):
        append(one, b"x")
    monkeypatch.undo()
    assert broker.failed == [manager.directories[0]]
    append(two, b"x")
    assert manager.get_or_create_log(TopicPartition("three", 0)).dir.parent == manager.directories[1].path
    manager.shutdown()
    assert ".kafka_cleanshutdown" not in broker.names("a")
    assert ".kafka_cleanshutdown" in broker.names("b")


def test_a_log_that_cannot_be_created_anywhere_tells_why_for_each_directory(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = broker.start(("a", "b"))

    def broken(path: Any, *_: Any) -> None:
        raise OSError(5, f"broken {Path(path).parent.name}")

    with monkeypatch.context() as patched:
        patched.setattr(os, "mkdir", broken)
        with pytest.raises(KafkaStorageError, match=r"cannot create one-0: .*/a: .*broken a; .*/b: .*broken b"):
            manager.get_or_create_log(ONE)
    with pytest.raises(KafkaStorageError, match="cannot create one-0: no log directory is online"):
        manager.get_or_create_log(ONE, is_new=True)


def test_each_failure_is_handled_on_a_thread_of_its_own_until_the_stop(broker: Broker) -> None:
    handled = []

    def handle(directory: LogDirectory) -> None:
        handled.append((directory, threading.current_thread().name))
        raise OSError("the handler fails")

    directories = broker.start(("a", "b")).directories
    handler = LogDirFailureHandler(handle, broker.scheduler)
    with capturedLogs() as events:
        handler.directory_failed(directories[0])
        handler.shutdown()
    assert handled == [(directories[0], f"LogDirFailureHandler-{broker.path / 'a'}")]
    assert ["Uncaught exception in thread LogDirFailureHandler-" in formatEvent(event) for event in events] == [True]
    handler.directory_failed(directories[1])
    handler.shutdown()
    assert len(handled) == 1


def test_who_handles_a_failure_may_end_the_handling(broker: Broker) -> None:
    """As a broker does that stops because all of its directories have failed."""
    directories = broker.start().directories
    ended = threading.Event()

    def handle(directory: LogDirectory) -> None:
        handler.shutdown()
        ended.set()

    handler = LogDirFailureHandler(handle, broker.scheduler)
    with capturedLogs() as events:
        handler.directory_failed(directories[0])
        assert ended.wait(WAIT_S)
        handler.shutdown()
    assert events == []


def test_a_checkpoint_that_cannot_be_written_takes_only_its_directory_offline(broker: Broker) -> None:
    manager = broker.start(("a", "b"))
    for directory, partition in zip(manager.directories, (ONE, TWO), strict=True):
        manager.prefer(partition, directory)
        log = manager.get_or_create_log(partition)
        append(log, b"x")
        log.flush()
    (broker.path / "a" / "recovery-point-offset-checkpoint.tmp").mkdir()
    broker.later(60_000)
    assert broker.failed == manager.directories[:1]
    assert (broker.path / "b" / "recovery-point-offset-checkpoint").read_text() == "0\n1\ntwo 0 1\n"
    (broker.path / "b" / "recovery-point-offset-checkpoint.tmp").mkdir()
    manager.truncate_to(TWO, 0)
    with pytest.raises(KafkaStorageError):
        append(log, b"x")
    assert broker.failed == manager.directories
    (broker.path / "a" / "recovery-point-offset-checkpoint.tmp").rmdir()
    broker.later(60_000)
    assert not (broker.path / "a" / "recovery-point-offset-checkpoint").exists(), "it is not used again"


def test_retention_goes_on_when_it_fails_in_one_log(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    for topic in ("one", "two"):
        broker.topic_configs[topic] = {"retention.ms": "1000"}
    manager = broker.start(("a", "b"))
    for directory, partition in zip(manager.directories, (ONE, TWO), strict=True):
        manager.prefer(partition, directory)
        log = manager.get_or_create_log(partition)
        append(log, b"x")
        log.update_high_watermark(1)
    rename = os.rename

    def broken(source: Any, target: Any) -> None:
        if "/a/" in str(source):
            raise OSError(errno.EIO, "Input/output error")
        rename(source, target)

    monkeypatch.setattr(os, "rename", broken)
    broker.later(300_000)
    assert broker.failed == manager.directories[:1]
    assert manager.get_log(TWO).log_start_offset == 1


@pytest.mark.parametrize("task", ["delete_old_segments", "flush", "remove_expired_producers"])
def test_periodic_work_goes_on_after_an_error_of_our_own_in_one_log(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    manager = broker.start(producer_id_expiration_check_interval_ms=300_000, log_flush_scheduler_interval_ms=300_000)
    done = []
    for partition in (ONE, TWO):
        broker.topic_configs[partition.topic] = {"flush.ms": "1000"}
        append(manager.get_or_create_log(partition), b"x")
    broken = manager.get_log(ONE)

    def act(log: UnifiedLog, *_: int) -> int:
        done.append(log.topic_partition)
        if log is broken:
            raise ValueError("a fault of ours")
        return 0

    monkeypatch.setattr(UnifiedLog, task, act)
    with capturedLogs() as events:
        broker.later(300_000)
    assert TWO in done
    assert any("log_failure" in event for event in events)


def test_a_log_that_cannot_be_renamed_is_not_deleted_and_its_directory_fails(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = broker.start()
    log = manager.get_or_create_log(ONE)
    append(log, b"x")

    def broken(*_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", broken)
        with pytest.raises(KafkaStorageError, match="cannot delete one-0"):
            manager.delete_log(ONE)
    assert broker.failed == manager.directories
    broker.later(60_000)
    assert (broker.path / "a" / "one-0").is_dir()
    with pytest.raises(KafkaStorageError, match="is closed"):
        append(log, b"y")


def test_running_out_of_file_descriptors_is_no_failed_disk(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many connections are enough for it: twistd with ``ulimit -Hn 256``, 400 connections, one new topic."""
    manager = broker.start()

    def no_room(*_args: Any, **_options: Any) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patched:
        patched.setattr("twisted_kafka.log.segment.log_segment.SegmentFile", no_room)
        with pytest.raises(KafkaStorageError):
            manager.get_or_create_log(ONE)
    assert manager.directories[0].is_online
    assert not broker.failed


def test_a_directory_whose_checkpoint_cannot_be_read_is_left_out(broker: Broker) -> None:
    manager = broker.start(("a", "b"))
    for directory, partition in zip(manager.directories, (ONE, TWO), strict=True):
        manager.prefer(partition, directory)
        append(manager.get_or_create_log(partition), b"x")
    manager.shutdown()
    path = broker.path / "a" / "recovery-point-offset-checkpoint"
    path.unlink()
    path.mkdir()
    manager = broker.start(("a", "b"))
    assert broker.failed == manager.directories[:1]
    assert [directory.is_online for directory in manager.directories] == [False, True]
    assert manager.get_log(ONE) is None
    assert contents(manager.get_log(TWO)) == [(0, b"x")]


def test_a_start_without_file_descriptors_is_refused_and_forgets_no_log(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = broker.start()
    append(manager.get_or_create_log(ONE), b"x")
    manager.shutdown()
    manager = broker.manager()
    manager.acquire_directories()

    def no_room(*_args: Any) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", no_room)
        with pytest.raises(OSError, match="Too many open files"):
            manager.startup()
    manager.shutdown()
    assert (broker.path / "a" / "recovery-point-offset-checkpoint").read_text() == "0\n1\none 0 1\n"
    assert contents(broker.start().get_log(ONE)) == [(0, b"x")]


def break_directory(path: Path) -> None:
    """What is left of a disk that is gone: a file where the directory was."""
    path.rename(path.with_name(f"{path.name}-gone"))
    path.write_text("")


def mend_directory(path: Path) -> None:
    path.unlink()
    path.with_name(f"{path.name}-gone").rename(path)


def test_a_directory_that_cannot_be_used_is_left_out(broker: Broker) -> None:
    manager = broker.start(("a", "b"))
    manager.get_or_create_log(ONE)
    lost = manager.directory_of(ONE).path
    manager.shutdown()
    break_directory(lost)
    manager = broker.start(("a", "b"))
    assert [directory.is_online for directory in manager.directories] == [
        directory.path != lost for directory in manager.directories
    ]
    assert manager.get_log(ONE) is None
    with pytest.raises(KafkaStorageError, match="which is offline"):
        manager.get_or_create_log(ONE, is_new=False)
    assert manager.get_or_create_log(TWO, is_new=True).parent != lost
    manager.shutdown()
    mend_directory(lost)
    assert broker.start(("a", "b")).get_log(ONE).parent == lost


def test_without_any_usable_directory_the_start_is_refused_in_one_line(broker: Broker) -> None:
    for name in ("a", "b"):
        (broker.path / name).write_text("")
    with pytest.raises(LogDirectoryError, match=r"Cannot use the log directory .*a.*; Cannot use the log directory .*b") as caught:
        broker.start(("a", "b"))
    assert "\n" not in str(caught.value)


def test_logs_of_a_directory_that_fails_are_forgotten_and_the_others_stay(broker: Broker) -> None:
    manager = broker.start(("a", "b"))
    logs = [manager.get_or_create_log(tp) for tp in (ONE, TWO)]
    assert logs[0].parent != logs[1].parent
    append(logs[0], b"x")
    break_directory(logs[0].parent)
    with pytest.raises(KafkaStorageError):
        logs[0].flush()
    (failed,) = broker.failed
    manager.forget_directory(failed)
    assert (manager.get_log(ONE), manager.get_log(TWO)) == (None, logs[1])
    with pytest.raises(KafkaStorageError):
        append(logs[0], b"y")
    with pytest.raises(KafkaStorageError, match="which is offline"):
        manager.get_or_create_log(ONE, is_new=False)
    manager.shutdown()
    assert ".kafka_cleanshutdown" in broker.names(logs[1].parent.name)
    mend_directory(failed.path)
    manager = broker.start(("a", "b"))
    assert contents(manager.get_log(ONE)) == [(0, b"x")]


def test_a_move_to_a_directory_that_fails_is_over_and_the_log_is_cleaned_again(broker: Broker) -> None:
    manager = broker.manager(("a", "b"))
    manager.startup(lambda _topic: {"cleanup.policy": "compact"})
    first, second = manager.directories
    manager.prefer(ONE, first)
    manager.prefer(TWO, second)
    log = manager.get_or_create_log(ONE)
    other = manager.get_or_create_log(TWO)
    manager.prefer(ONE, second)
    future = manager.get_or_create_future_log(ONE, None)
    future.append_as_follower(batch(b"x"))
    cleaner = manager.cleaner.manager
    assert cleaner.deletable_logs() == [other]
    break_directory(second.path)
    with pytest.raises(KafkaStorageError):
        future.flush()
    manager.forget_directory(second)
    assert (manager.get_log(ONE), manager.get_future_log(ONE), manager.all_logs()) == (log, None, [log])
    assert cleaner.deletable_logs() == [log]


def break_log(path: Path) -> None:
    """Let the disk fail where the log at ``path`` is opened: a directory lies in the place of its batches."""
    (batches,) = path.glob("*.log")
    batches.unlink()
    batches.mkdir()


@pytest.mark.parametrize("is_handled_at_once", [False, True])
def test_a_disk_that_fails_while_its_logs_load_leaves_none_of_them(broker: Broker, is_handled_at_once: bool) -> None:
    manager = broker.start(("a", "b"))
    moving = TopicPartition("three", 0)
    for partition in (ONE, TWO, moving):
        manager.prefer(partition, manager.directories[0])
    append(manager.get_or_create_log(ONE), b"x")
    append(manager.get_or_create_log(TWO), b"x")
    manager.get_or_create_future_log(moving, None)
    sound = TopicPartition("zero", 0)
    manager.prefer(sound, manager.directories[1])
    append(manager.get_or_create_log(sound), b"x")
    manager.shutdown()
    break_log(broker.path / "a" / "two-0")  # after the others of its directory, which are loaded in the order of their names
    failed = []

    def handle(directory: Any) -> None:
        failed.append(directory)
        if is_handled_at_once:
            manager.forget_directory(directory)

    metrics = MetricsRegistry(broker.clock)
    manager = broker.manager(("a", "b"), metrics=metrics, failed=handle)
    manager.startup(lambda _topic: {"cleanup.policy": "compact"})
    assert failed == [manager.directories[0]]
    assert (manager.get_log(ONE), manager.get_future_log(moving)) == (None, None)
    assert manager.all_logs() == [manager.get_log(sound)]
    assert contents(manager.get_log(sound)) == [(0, b"x")]
    assert metrics.value("Log", "Size", topic="one", partition=0) is None
    if not is_handled_at_once:
        manager.forget_directory(failed[0])
    log = manager.get_or_create_log(moving)
    assert log.parent == broker.path / "b"
    # The move that was lost keeps no cleaner away from the partition.
    assert manager.cleaner.manager.deletable_logs() == [manager.get_log(sound), log]
    manager.shutdown()


def test_a_failure_is_handled_once_the_system_has_a_thread_for_it(broker: Broker) -> None:
    directories = broker.start().directories
    handled: list[LogDirectory] = []
    handler = LogDirFailureHandler(handled.append, broker.scheduler)
    with no_threads():
        handler.directory_failed(directories[0])
        broker.clock.advance_ms(RETRY_MS)
        broker.scheduler.run_due()
    broker.clock.advance_ms(RETRY_MS)
    broker.scheduler.run_due()
    handler.shutdown()
    assert handled == [directories[0]]


def test_a_stop_without_threads_closes_the_logs(broker: Broker) -> None:
    manager = broker.start()
    log = manager.get_or_create_log(ONE)
    append(log, b"x")
    with no_threads():
        manager.shutdown()
    assert ".kafka_cleanshutdown" in broker.names("a")
    again = broker.start()
    assert contents(again.get_or_create_log(ONE)) == contents(log)
    again.shutdown()


def test_a_failure_that_cannot_be_handled_is_handled_again(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "FIRST_PAUSE_S", 0.001)
    directories, handled, done = broker.start().directories, [], threading.Event()

    def handle(directory: LogDirectory) -> None:
        handled.append(directory)
        if len(handled) < 3:
            raise ValueError("something else is wrong, too")
        done.set()

    handler = LogDirFailureHandler(handle, broker.scheduler)
    handler.directory_failed(directories[0])
    assert done.wait(WAIT_S)
    handler.shutdown()
    assert handled == [directories[0]] * 3
