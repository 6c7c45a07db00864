import errno
import gc
import io
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from twisted.logger import capturedLogs, formatEvent

from tests.log.log_managers import ONE, TWO, Broker
from tests.support.eventually import WAIT_S
from tests.support.logs import abort, append, batch, contents, fill
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.log.directories import directory_loader, log_directories, log_directory
from twisted_kafka.log.directories.loading_progress import LoadingInterruptedError
from twisted_kafka.log.directories.log_directory import LogDirectory, LogDirectoryError
from twisted_kafka.log.files import sync_file_system
from twisted_kafka.log.log_manager import LogManager
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.errors import KafkaStorageError
from twisted_kafka.protocol.topic_partition import TopicPartition


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


def test_logs_are_there_after_a_clean_stop(broker: Broker) -> None:
    manager = broker.start()
    log = manager.get_or_create_log(ONE, bytes(range(16)))
    assert manager.get_or_create_log(ONE) is log is manager.get_log(ONE)
    assert manager.get_log(TWO) is None
    append(log, b"x")
    manager.shutdown()
    assert (broker.path / "a" / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":-1}'
    assert (broker.path / "a" / "recovery-point-offset-checkpoint").read_text() == "0\n1\none 0 1\n"
    manager = broker.start()
    log = manager.get_log(ONE)
    assert contents(log) == [(0, b"x")]
    assert log.topic_id == bytes(range(16))
    assert ".kafka_cleanshutdown" not in broker.names()
    assert manager.directories[0].was_clean


def test_logs_are_recovered_after_a_crash(broker: Broker) -> None:
    manager = broker.start(num_recovery_threads_per_data_dir=3)
    for partition in range(10):
        append(manager.get_or_create_log(TopicPartition("t", partition)), b"x")
    broker.crash(manager)
    torn = manager.get_log(TopicPartition("t", 4)).segments.active.path
    os.truncate(torn, torn.stat().st_size - 1)
    manager = broker.start(num_recovery_threads_per_data_dir=3)
    assert not manager.directories[0].was_clean
    assert [manager.get_log(TopicPartition("t", number)).log_end_offset for number in range(10)] == [1, 1, 1, 1, 0, 1, 1, 1, 1, 1]


def test_a_directory_is_used_by_one_broker_only(broker: Broker) -> None:
    broker.start()
    with pytest.raises(LogDirectoryError, match="in use") as caught:
        broker.start()
    assert "\n" not in str(caught.value)


def test_a_start_that_finds_a_directory_in_use_leaves_it_as_it_was(broker: Broker) -> None:
    manager = broker.start()
    append(manager.get_or_create_log(ONE), b"x")
    manager.get_log(ONE).flush()
    manager.directories[0].checkpoint_recovery_points()
    before = {path: path.read_bytes() for path in (broker.path / "a").rglob("*") if path.is_file()}
    second = broker.manager()
    with pytest.raises(LogDirectoryError, match="in use"):
        second.startup()
    second.shutdown()
    assert {path: path.read_bytes() for path in (broker.path / "a").rglob("*") if path.is_file()} == before
    assert append(manager.get_log(ONE), b"y") == 1


@pytest.mark.medium
def test_another_process_keeps_its_directory(broker: Broker, tmp_path: Path) -> None:
    program = (
        "import sys, pathlib; from twisted_kafka.log.directories.log_directory import *\n"
        "LogDirectory(pathlib.Path(sys.argv[1])).acquire(); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "a")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(LogDirectoryError, match="in use"):
            broker.start(("b", "a"))
        assert not [path for path in Path("/proc/self/fd").iterdir() if os.path.realpath(path).startswith(str(tmp_path))]
        other.stdin.close()
    broker.start(("b", "a"))


def test_a_directory_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LogDirectoryError, match="Cannot use the log directory"):
        LogDirectory(tmp_path / "file" / "x").acquire()


def test_a_directory_with_the_copy_of_a_log_gets_no_new_log_of_it(broker: Broker) -> None:
    manager = broker.start(("a", "b"))
    first, second = manager.directories
    for topic in ("x", "y"):
        manager.prefer(TopicPartition(topic, 0), second)
        manager.get_or_create_log(TopicPartition(topic, 0))
    manager.prefer(ONE, first)
    manager.get_or_create_future_log(ONE, None)
    assert manager.get_or_create_log(ONE).parent == second.path
    assert manager.directory_of(ONE) is second
    assert manager.directory_of(TWO) is None
    manager = broker.manager(("c",))
    manager.startup()
    manager.prefer(ONE, manager.directories[0])
    manager.get_or_create_future_log(ONE, None)
    with pytest.raises(KafkaStorageError, match=r"cannot create one-0: .*/c already has a log of it"):
        manager.get_or_create_log(ONE)


def test_new_logs_go_where_the_fewest_are(broker: Broker) -> None:
    manager = broker.start(("a", "b"))
    for partition in range(6):
        manager.get_or_create_log(TopicPartition("t", partition))
    assert [len(manager.logs_in(directory)) for directory in manager.directories] == [3, 3]
    assert manager.directory_of(TopicPartition("t", 0)) is manager.directories[0]


def test_a_deleted_log_is_gone_at_once_and_its_files_later(broker: Broker) -> None:
    manager = broker.start()
    append(manager.get_or_create_log(ONE), b"x")
    assert manager.delete_log(ONE)
    assert not manager.delete_log(ONE)
    assert manager.get_log(ONE) is None
    assert [name for name in broker.names() if name.startswith("one-0.") and name.endswith("-delete")]
    assert manager.get_or_create_log(ONE).log_end_offset == 0
    broker.later(60_000)
    assert [name for name in broker.names() if name.startswith("one")] == ["one-0"]


def test_a_deletion_that_was_not_finished_is_finished_at_the_next_start(broker: Broker) -> None:
    manager = broker.start()
    manager.get_or_create_log(ONE)
    manager.delete_log(ONE)
    manager.shutdown()
    manager = broker.start()
    broker.later(0)
    assert manager.all_logs() == []
    assert not [name for name in broker.names() if name.startswith("one")]


def test_a_folder_of_somebody_else_goes_with_a_deleted_log(broker: Broker) -> None:
    manager = broker.start()
    log = manager.get_or_create_log(ONE)
    (log.dir / "backup").mkdir()
    (log.dir / "backup" / "copy").write_bytes(b"x")
    manager.delete_log(ONE)
    broker.later(60_000)
    assert not [name for name in broker.names() if name.startswith("one")]


def test_a_disk_that_fails_while_a_deleted_log_goes_takes_its_directory_offline(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = broker.start()
    manager.get_or_create_log(ONE)
    manager.delete_log(ONE)

    def fail(path: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "rmdir", fail)
    broker.later(60_000)
    assert [each.is_online for each in manager.directories].count(False) == 1


@pytest.mark.parametrize("crashes_at_once", [False, True])
def test_a_new_log_has_nothing_of_a_deleted_one_of_its_name(broker: Broker, crashes_at_once: bool) -> None:
    """The checkpoints of a log that is gone must not cut the one that came after it."""
    manager = broker.start()
    log = manager.get_or_create_log(ONE, bytes(16))
    for _ in range(100):
        append(log, b"old")
    log.update_high_watermark(100)
    log.increment_log_start_offset(100)
    manager.shutdown()
    manager = broker.start()
    manager.delete_log(ONE)
    if crashes_at_once:
        broker.crash(manager)
        manager = broker.start()
    else:
        manager.forget_deleted()
    append(manager.get_or_create_log(ONE, bytes(range(16))), b"new")
    broker.crash(manager)
    log = broker.start().get_log(ONE)
    assert contents(log) == [(0, b"new")]
    assert log.recovery_point == 0


@pytest.mark.parametrize(
    ("checkpoint", "may_have_gaps"), [(None, False), ("0\n0\n", False), ("0\n1\none 0 1\n", True), ("rubbish", True)]
)
def test_only_a_log_that_was_never_compacted_is_cut_at_a_gap(broker: Broker, checkpoint: str | None, may_have_gaps: bool) -> None:
    manager = broker.start(log_segment_bytes=200)
    log = manager.get_or_create_log(ONE)
    fill(log, 9)
    first, second, *_ = log.segments
    broker.crash(manager)
    os.truncate(first.path, 0)
    if checkpoint is not None:
        (broker.path / "a" / "cleaner-offset-checkpoint").write_text(checkpoint)
    offsets = [offset for offset, _ in contents(broker.start(log_segment_bytes=200).get_log(ONE))]
    assert offsets == (list(range(second.base_offset, 9)) if may_have_gaps else [])


def test_a_long_name_fits_when_marked(broker: Broker) -> None:
    manager = broker.start()
    partition = TopicPartition("x" * 249, 11)
    manager.get_or_create_log(partition)
    assert manager.delete_log(partition)


def test_checkpoints_are_written_from_time_to_time(broker: Broker) -> None:
    manager = broker.start(log_segment_bytes=200)
    log = manager.get_or_create_log(ONE)
    for _ in range(3):
        append(log, b"x" * 20)
    log.update_high_watermark(3)
    log.increment_log_start_offset(1)
    broker.later(60_000)
    assert (broker.path / "a" / "recovery-point-offset-checkpoint").read_text() == "0\n1\none 0 2\n"
    assert (broker.path / "a" / "log-start-offset-checkpoint").read_text() == "0\n1\none 0 1\n"
    manager.get_or_create_log(TWO)
    broker.later(60_000)
    assert (broker.path / "a" / "recovery-point-offset-checkpoint").read_text() == "0\n2\none 0 2\ntwo 0 0\n"
    assert (broker.path / "a" / "log-start-offset-checkpoint").read_text() == "0\n1\none 0 1\n"
    broker.crash(manager)
    assert broker.start(log_segment_bytes=200).get_log(ONE).log_start_offset == 1


def test_damaged_checkpoints_only_cost_time(broker: Broker) -> None:
    manager = broker.start()
    append(manager.get_or_create_log(ONE), b"x")
    manager.shutdown()
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint"):
        (broker.path / "a" / name).write_bytes(b"\0\0\0")
    assert contents(broker.start().get_log(ONE)) == [(0, b"x")]


def test_retention_runs_from_time_to_time(broker: Broker) -> None:
    broker.topic_configs["one"] = {"retention.ms": "1000"}
    manager = broker.start()
    for partition in (ONE, TWO):
        log = manager.get_or_create_log(partition)
        append(log, b"x")
        log.update_high_watermark(1)
    broker.later(300_000)
    assert [manager.get_log(partition).log_start_offset for partition in (ONE, TWO)] == [1, 0]


def test_flush_by_time(broker: Broker) -> None:
    manager = broker.start(log_flush_scheduler_interval_ms=500, log_flush_interval_ms=2000)
    log = manager.get_or_create_log(ONE)
    append(log, b"x")
    broker.later(1500)
    assert log.recovery_point == 0
    broker.later(500)
    assert log.recovery_point == 1


def test_topic_settings_can_change(broker: Broker) -> None:
    manager = broker.start()
    log = manager.get_or_create_log(ONE)
    assert log.config.retention_ms == 604_800_000
    broker.topic_configs["one"] = {"retention.ms": "5"}
    manager.update_topic_config("one")
    assert log.config.retention_ms == 5
    manager.reconfigure(KafkaConfig.from_properties({"log.segment.bytes": "12345", "log.dirs": "x"}))
    assert (log.config.retention_ms, log.config.segment_bytes) == (5, 12345)


def test_settings_of_a_topic_change_without_a_look_at_all_logs(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """One request may change the settings of thousands of topics."""
    manager = broker.start()
    logs = [manager.get_or_create_log(partition) for partition in (ONE, TWO)]
    broker.topic_configs["one"] = {"retention.ms": "5"}
    monkeypatch.setattr(manager, "all_logs", lambda: pytest.fail("there may be very many"))
    manager.update_topic_config("one")
    assert [log.config.retention_ms for log in logs] == [5, 604_800_000]


def test_other_directories_are_left_alone(broker: Broker) -> None:
    for name in ("lost+found", "notes", "one-0.abc-stray"):
        (broker.path / "a" / name).mkdir(parents=True)
    (broker.path / "a" / "metadata.sqlite").write_text("")
    assert broker.start().all_logs() == []
    assert {"lost+found", "notes", "one-0.abc-stray"} < set(broker.names())


def test_of_two_directories_of_one_partition_the_longer_one_counts(broker: Broker) -> None:
    """As a broker leaves them that dies while it replaces a replica by the one in another directory."""
    for name, count in (("a", 1), ("b", 2)):
        manager = broker.start((name,))
        for number in range(count):
            append(manager.get_or_create_log(ONE, bytes(range(16))), b"%d" % number)
        manager.shutdown()
    manager = broker.start(("a", "b"))
    assert contents(manager.get_log(ONE)) == [(0, b"0"), (1, b"1")]
    assert manager.directory_of(ONE) is manager.directories[1]
    assert [len(manager.logs_in(directory)) for directory in manager.directories] == [0, 1]
    (stray,) = [name for name in broker.names("a") if name.startswith("one-0")]
    assert stray.endswith("-stray")
    manager.shutdown()
    assert len(broker.start(("a", "b")).all_logs()) == 1
    assert stray in broker.names("a")


def test_of_two_that_are_as_long_the_first_counts(broker: Broker) -> None:
    for name in ("a", "b"):
        manager = broker.start((name,))
        append(manager.get_or_create_log(ONE, bytes(range(16))), b"x")
        manager.shutdown()
    manager = broker.start(("a", "b"))
    assert manager.directory_of(ONE) is manager.directories[0]


def test_two_topics_logs_of_one_partition_stop_the_start(broker: Broker) -> None:
    for name in ("a", "b"):
        manager = broker.start((name,))
        manager.get_or_create_log(ONE, name.encode() * 16)
        manager.shutdown()
    with pytest.raises(ValueError, match="two log directories with different topic ids"):
        broker.start(("a", "b"))


def test_a_topic_id_that_a_crash_took_does_not_make_two_topics_of_one_partition(broker: Broker) -> None:
    for name, count in (("a", 2), ("b", 1)):
        manager = broker.start((name,))
        for _ in range(count):
            append(manager.get_or_create_log(ONE, bytes(range(16))), b"x")
        broker.crash(manager)
    (broker.path / "a" / "one-0" / "partition.metadata").write_bytes(bytes(40))
    manager = broker.start(("a", "b"))
    assert manager.get_log(ONE).log_end_offset == 2
    assert manager.get_or_create_log(ONE, bytes(range(16))).topic_id == bytes(range(16))


@pytest.mark.parametrize("clean", [True, False])
def test_an_interrupted_start_leaves_what_was_clean_clean(broker: Broker, clean: bool) -> None:
    manager = broker.start()
    for partition in range(3):
        append(manager.get_or_create_log(TopicPartition("t", partition)), b"x")
    if clean:
        manager.shutdown()
    else:
        broker.crash(manager)
    manager = broker.manager()
    manager.progress.interrupt()
    with pytest.raises(LoadingInterruptedError):
        manager.startup()
    manager.shutdown()
    manager = broker.start()
    assert manager.directories[0].was_clean is clean
    assert [log.log_end_offset for log in manager.all_logs()] == [1, 1, 1]


def test_an_interrupted_start_leaves_a_checkpoint_that_it_cannot_read(broker: Broker) -> None:
    broker.start().shutdown()
    path = broker.path / "a" / "recovery-point-offset-checkpoint"
    path.write_text("rubbish")
    (broker.path / "a" / "one-0").mkdir()
    manager = broker.manager()
    manager.progress.interrupt()
    with pytest.raises(LoadingInterruptedError):
        manager.startup()
    manager.shutdown()
    assert path.read_text() == "rubbish"


def test_no_file_of_a_log_may_be_run_as_a_program(broker: Broker) -> None:
    before = os.umask(0)
    try:
        manager = broker.start(log_segment_bytes=200)
        log = manager.get_or_create_log(ONE, bytes(16))
        transaction = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
        log.append_as_leader(batch(b"x", **transaction), 0, guard=log.start_verification(7, 0, 0))
        abort(log, 7)
        fill(log, 5)
        manager.shutdown()
        modes = {path.name: path.stat().st_mode & 0o777 for path in (broker.path / "a").rglob("*") if path.is_file()}
    finally:
        os.umask(before)
    assert {name.rpartition(".")[2] for name in modes} >= {"log", "index", "timeindex", "txnindex", "snapshot", "lock"}
    assert set(modes.values()) == {0o644, 0o666}


def test_the_names_of_new_logs_are_made_durable_once(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    manager = broker.start()
    one, two = manager.get_or_create_log(ONE), manager.get_or_create_log(TWO)
    monkeypatch.setattr(log_directory, "sync_directory", synced.append)
    for log in (one, two):
        append(log, b"x")
        log.flush()
    assert synced == [broker.path / "a"]
    log = manager.get_or_create_log(TopicPartition("three", 0))
    append(log, b"x")
    log.flush()
    assert synced == [broker.path / "a"] * 2


@pytest.mark.parametrize("stop", ["clean", "crash"])
@pytest.mark.parametrize("end", ["interrupted", "failed", "failed at once"])
def test_a_start_that_does_not_load_all_logs_keeps_the_checkpoints_of_the_others(broker: Broker, stop: str, end: str) -> None:
    """Else offsets that DeleteRecords removed come back, and every log is read whole after a crash."""
    partitions = [TopicPartition(topic, 0) for topic in ("a", "b", "c")]
    manager = broker.start()
    for partition in partitions:
        log = manager.get_or_create_log(partition)
        fill(log, 3)
        log.update_high_watermark(3)
        log.increment_log_start_offset(2)
        log.flush()
    for directory in manager.directories:
        directory.checkpoint_recovery_points()
        directory.checkpoint_log_start_offsets()
    if stop == "clean":
        manager.shutdown()
    else:
        broker.crash(manager)
    manager = broker.manager()

    def lookup(topic: Any) -> Any:
        if topic == "b" or end == "failed at once":
            manager.progress.interrupt()
            if end != "interrupted":
                raise ValueError("no such setting")
        return {}

    with pytest.raises((LoadingInterruptedError, ValueError)):
        manager.startup(lookup)
    manager.shutdown()
    for name, offset in (("recovery-point", 3), ("log-start", 2)):
        lines = (broker.path / "a" / f"{name}-offset-checkpoint").read_text().splitlines()
        assert sorted(lines[2:]) == [f"{topic} 0 {offset}" for topic in "abc"]
    assert [log.log_start_offset for log in broker.start().all_logs()] == [2, 2, 2]


def test_loading_is_told_and_drawn(broker: Broker) -> None:
    manager = broker.start(log_segment_bytes=100)
    for partition in range(20):
        append(manager.get_or_create_log(TopicPartition("t", partition)), b"x" * 30)
    broker.crash(manager)
    drawn, metrics = io.StringIO(), MetricsRegistry(broker.clock)
    left = []

    def tick(topic: Any) -> Any:
        broker.clock.advance_ms(1000)
        left.append(metrics.value("LogManager", "remainingLogsToRecover", dir=str(broker.path / "a")))
        return {}

    manager = broker.manager(terminal=drawn, metrics=metrics)
    for number in range(3):
        (broker.path / "a" / f"u{number}-0").mkdir()
    manager.startup(tick)
    assert re.search(r"loading logs \[#+\.*\] \d+/23, 0 MB read for recovery", drawn.getvalue())
    assert drawn.getvalue().endswith("\r")
    assert left == [23, 3, 2, 1]
    assert metrics.value("LogManager", "remainingLogsToRecover", dir=str(broker.path / "a")) is None
    assert metrics.value("Log", "LogEndOffset", topic="t", partition=3) == 1


def test_a_short_loading_is_not_drawn(broker: Broker) -> None:
    drawn = io.StringIO()
    broker.manager(terminal=drawn).startup()
    assert not drawn.getvalue()


def test_a_stopped_manager_has_no_file_open_and_nothing_to_do(broker: Broker) -> None:
    manager = broker.start()
    append(manager.get_or_create_log(ONE), b"x")
    manager.shutdown()
    gc.collect()  # on PyPy, what has closed the files
    opened = [os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    assert not [name for name in opened if name.startswith(str(broker.path))]
    broker.clock.advance_ms(3_600_000)
    assert broker.scheduler.run_due() == 0


def test_directories_in_metrics(broker: Broker) -> None:
    metrics = MetricsRegistry(broker.clock)
    manager = broker.manager(("a", "b"), metrics=metrics)
    manager.startup()
    log = manager.get_or_create_log(ONE)
    append(log, b"x")
    log.flush()
    names = {str(name) for name, _ in metrics.items()}
    directory = f'"{broker.path / "a"}"'
    assert f"kafka.log:type=LogManager,name=LogDirectoryOffline,logDirectory={directory}" in names
    for name, value in (("NumLogSegments", 1), ("LogStartOffset", 0), ("LogEndOffset", 1), ("Size", log.size_bytes)):
        assert metrics.value("Log", name, topic="one", partition=0) == value
    assert metrics.value("LogFlushStats", "LogFlushRateAndTimeMs") == 1
    assert metrics.value("LogManager", "OfflineLogDirectoryCount") == 0
    manager.directory_failed(manager.directories[0], OSError(errno.EIO, "broken"))
    assert metrics.value("LogManager", "OfflineLogDirectoryCount") == 1
    assert metrics.value("LogManager", "LogDirectoryOffline", logDirectory=directory) == 1
    manager.delete_log(ONE)
    assert metrics.value("Log", "Size", topic="one", partition=0) is None


def test_a_start_says_that_it_recovers_logs_and_in_which_directory(broker: Broker) -> None:
    def said() -> list[str]:
        with capturedLogs() as events:
            manager = broker.start()
        append(manager.get_or_create_log(ONE), b"x")
        managers.append(manager)
        texts = [formatEvent(event) for event in events]
        assert [text.split(" loaded")[0] for text in texts if "logs loaded" in text] == loaded
        return [text for text in texts if "not clean" in text]

    managers: list[LogManager] = []
    loaded: list[str] = []
    assert said() == [], "there is nothing to recover"
    loaded.append("1 of 1 logs")
    broker.crash(managers[-1])
    assert [str(broker.path / "a") in text for text in said()] == [True]
    managers[-1].shutdown()
    assert said() == []


def recovery_points(broker: Broker) -> list[str]:
    return (broker.path / "a" / "recovery-point-offset-checkpoint").read_text().splitlines()[2:]


def with_four_flushed_records(broker: Broker) -> tuple[LogManager, UnifiedLog]:
    manager = broker.start()
    log = manager.get_or_create_log(ONE)
    for _ in range(4):
        append(log, b"x")
    log.flush()
    manager.directories[0].checkpoint_recovery_points()
    return manager, log


def test_recovery_points_follow_truncations_before_the_next_record(broker: Broker) -> None:
    manager, log = with_four_flushed_records(broker)
    assert recovery_points(broker) == ["one 0 4"]
    manager.truncate_to(ONE, 2)
    append(log, b"x")
    assert recovery_points(broker) == ["one 0 2"]
    manager.truncate_fully_and_start_at(ONE, 1)
    append(log, b"x")
    assert recovery_points(broker) == ["one 0 1"]


def test_a_start_offset_follows_a_truncation_before_the_next_record(broker: Broker) -> None:
    manager = broker.start()
    log = manager.get_or_create_log(ONE)
    for _ in range(4):
        append(log, b"x")
    log.update_high_watermark(4)
    log.increment_log_start_offset(3)
    manager.directories[0].checkpoint_log_start_offsets()
    manager.truncate_fully_and_start_at(ONE, 1)
    append(log, b"y")
    broker.crash(manager)
    assert contents(broker.start().get_log(ONE)) == [(1, b"y")]


def test_a_truncation_makes_the_start_durable_from_which_it_rebuilds_the_producers(broker: Broker) -> None:
    """A start that a crash took back would come with a state that does not know of its transactions."""
    unverified: dict[str, Any] = {"transaction_partition_verification_enable": "false"}
    manager = broker.start(**unverified)
    log = manager.get_or_create_log(ONE)
    for number in range(4):
        append(log, b"x", producer_id=7, producer_epoch=0, base_sequence=number, is_transactional=True)
    log.update_high_watermark(4)
    log.increment_log_start_offset(2)
    manager.truncate_to(ONE, 3)
    log.flush()
    broker.crash(manager)
    log = broker.start(**unverified).get_log(ONE)
    assert (log.log_start_offset, log.limits.first_unstable.message_offset) == (2, 2)


def test_many_truncations_need_one_checkpoint(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = broker.start()
    partitions = [TopicPartition("many", number) for number in range(20)]
    logs = [manager.get_or_create_log(partition) for partition in partitions]
    for log in logs:
        for _ in range(4):
            append(log, b"x")
        log.flush()
    manager.directories[0].checkpoint_recovery_points()
    replaced: list[str] = []
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda source, target: (replaced.append(os.path.basename(target)), replace(source, target)))
    for partition in partitions:
        manager.truncate_to(partition, 2)
    assert "recovery-point-offset-checkpoint" not in replaced
    for log in logs:
        append(log, b"y")
    assert replaced.count("recovery-point-offset-checkpoint") == 1
    assert recovery_points(broker) == [f"many {number} 2" for number in range(20)]
    # What was never flushed needs no checkpoint.
    replaced.clear()
    for log in logs:
        log.truncate_to(2)
        append(log, b"z")
    assert "recovery-point-offset-checkpoint" not in replaced


def test_records_are_refused_if_the_checkpoints_cannot_be_lowered(broker: Broker) -> None:
    manager, log = with_four_flushed_records(broker)
    manager.truncate_to(ONE, 2)
    (broker.path / "a" / "recovery-point-offset-checkpoint.tmp").mkdir()
    with pytest.raises(KafkaStorageError, match=r"the checkpoints of .* cannot be written"):
        append(log, b"y")
    assert log.log_end_offset == 2
    assert broker.failed == manager.directories


def test_recovery_points_follow_what_recovery_cut_at_once(broker: Broker) -> None:
    manager, log = with_four_flushed_records(broker)
    path, position = log.segments.active.path, log.offset_metadata(3).relative_position
    broker.crash(manager)
    os.truncate(path, position)
    assert broker.start().get_log(ONE).log_end_offset == 3
    # The indexes were built anew, so all of the segment is to be flushed.
    assert recovery_points(broker) == ["one 0 0"]


@pytest.mark.parametrize(("was_clean", "per_thread", "count"), [(True, 1, 4), (True, 2, 3), (True, 5, 1), (False, 1, 1)])
def test_many_logs_that_were_closed_cleanly_are_opened_by_several_threads(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, was_clean: bool, per_thread: int, count: int
) -> None:
    """They wait for the disk, while recovery reads whole segments: its threads are configured."""
    monkeypatch.setattr(directory_loader, "LOGS_PER_LOADING_THREAD", per_thread)
    manager = broker.start()
    partitions = [TopicPartition(f"topic{number}", 0) for number in range(directory_loader.MIN_LOADING_THREADS)]
    for partition in partitions:
        append(manager.get_or_create_log(partition), b"x")
    if was_clean:
        manager.shutdown()
    else:
        broker.crash(manager)
    threads = set()
    all_there = threading.Barrier(count)

    def config(topic: str) -> dict[str, str]:
        if threading.get_ident() not in threads:
            threads.add(threading.get_ident())
            all_there.wait(WAIT_S)
        return {}

    manager = broker.manager()
    manager.startup(config)
    assert len(threads) == count
    assert (threading.get_ident() in threads) == (count == 1)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("log-recovery")]
    assert [contents(manager.get_log(partition)) for partition in partitions] == [[(0, b"x")]] * len(partitions)
    manager.shutdown()


def test_a_log_without_records_opens_its_file_when_it_gets_some(broker: Broker) -> None:
    manager = broker.start()
    append(manager.get_or_create_log(TWO), b"x")
    manager.get_or_create_log(ONE)
    manager.shutdown()
    manager = broker.start()
    gc.collect()  # on PyPy, what has closed the files of the first manager
    opened = {os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()}
    assert [str(manager.get_log(each).segments.active.path) in opened for each in (ONE, TWO)] == [False, True]
    append(manager.get_log(ONE), b"y")
    manager.shutdown()
    assert contents(broker.start().get_log(ONE)) == [(0, b"y")]


@pytest.mark.parametrize("fails", [False, True])
def test_many_logs_go_to_disk_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    """Each is flushed all the same; what cannot be written is not called clean."""
    synced = []

    def sync(path: Any) -> None:
        synced.append((path, [log.recovery_point for log in logs]))
        if fails:
            raise OSError(errno.EIO, "no disk")

    monkeypatch.setattr(log_directories, "MIN_LOGS_FOR_SYNCFS", 2)
    monkeypatch.setattr(log_directories, "sync_file_system", sync)
    broker = Broker(tmp_path)
    manager = broker.start()
    logs = [manager.get_or_create_log(partition) for partition in (ONE, TWO)]
    append(logs[0], b"a")
    manager.shutdown()
    assert synced == []
    manager = broker.start()
    logs = [manager.get_or_create_log(partition) for partition in (ONE, TWO)]
    for log in logs:
        append(log, b"b")
    manager.shutdown()
    assert synced == [(tmp_path / "a", [1, 0])]
    assert [log.recovery_point for log in logs] == ([1, 0] if fails else [2, 1])
    manager = broker.start()
    assert manager.directories[0].was_clean is not fails
    assert contents(manager.get_log(ONE)) == [(0, b"a"), (1, b"b")]
    manager.shutdown()


def test_a_file_system_is_written_to_disk(tmp_path: Path) -> None:
    sync_file_system(tmp_path)
    with pytest.raises(OSError, match="not-there"):
        sync_file_system(tmp_path / "not-there")
