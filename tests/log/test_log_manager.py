import errno
import io
import os
import re
import subprocess
import sys

import pytest

from tests.log.support import NOW_MS, append, contents, data_of
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.log import log_directories
from twisted_kafka.log.broker_metadata import (
    MetaProperties,
    MetaPropertiesError,
    claim_directories,
    load_meta_properties,
    read_meta_properties,
    write_meta_properties,
)
from twisted_kafka.log.files import sync_file_system
from twisted_kafka.log.log_directory import LogDirectory, LogDirectoryError
from twisted_kafka.log.log_manager import LogManager
from twisted_kafka.log.recovery import LoadingInterruptedError
from twisted_kafka.log.results import FetchIsolation
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.errors import KafkaStorageError, LogDirNotFoundError
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.timing.clock import ManualClock
from twisted_kafka.timing.scheduler import ManualScheduler

ONE = TopicPartition("one", 0)
TWO = TopicPartition("two", 0)


class Broker:
    """Log managers over the same directories, one after the other."""

    def __init__(self, path):
        self.path = path
        self.clock = ManualClock(NOW_MS)
        self.failed = []
        self.topic_configs = {}

    def manager(self, dirs=("a",), terminal=None, metrics=None, **settings):
        self.scheduler = ManualScheduler(self.clock)
        properties = {key.replace("_", "."): str(value) for key, value in settings.items()}
        properties["log.dirs"] = ",".join(str(self.path / name) for name in dirs)
        return LogManager(
            KafkaConfig.from_properties(properties),
            self.scheduler,
            self.clock,
            on_directory_failure=self.failed.append,
            terminal=terminal,
            metrics=metrics,
        )

    def start(self, dirs=("a",), **settings):
        manager = self.manager(dirs, **settings)
        manager.startup(lambda topic: self.topic_configs.get(topic, {}))
        return manager

    def crash(self, manager):
        for directory in manager.directories:
            directory.release()

    def later(self, ms):
        self.clock.advance_ms(ms)
        self.scheduler.run_due()

    def names(self, directory="a"):
        return sorted(os.listdir(self.path / directory))


@pytest.fixture
def broker(tmp_path):
    return Broker(tmp_path)


def test_logs_are_there_after_a_clean_stop(broker):
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


def test_logs_are_recovered_after_a_crash(broker):
    manager = broker.start(num_recovery_threads_per_data_dir=3)
    for partition in range(10):
        append(manager.get_or_create_log(TopicPartition("t", partition)), b"x")
    broker.crash(manager)
    torn = manager.get_log(TopicPartition("t", 4)).segments.active.path
    os.truncate(torn, torn.stat().st_size - 1)
    manager = broker.start(num_recovery_threads_per_data_dir=3)
    assert not manager.directories[0].was_clean
    assert [manager.get_log(TopicPartition("t", number)).log_end_offset for number in range(10)] == [1, 1, 1, 1, 0, 1, 1, 1, 1, 1]


def test_a_directory_is_used_by_one_broker_only(broker):
    broker.start()
    with pytest.raises(LogDirectoryError, match="in use") as caught:
        broker.start()
    assert "\n" not in str(caught.value)


def test_another_process_keeps_its_directory(broker, tmp_path):
    program = (
        "import sys, pathlib; from twisted_kafka.log.log_directory import *\n"
        "LogDirectory(pathlib.Path(sys.argv[1])).acquire(); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "a")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(LogDirectoryError, match="in use"):
            broker.start(("b", "a"))
        other.stdin.close()
    broker.start(("b", "a"))


def test_a_directory_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LogDirectoryError, match="Cannot use the log directory"):
        LogDirectory(tmp_path / "file" / "x").acquire()


def test_new_logs_go_where_the_fewest_are(broker):
    manager = broker.start(("a", "b"))
    for partition in range(6):
        manager.get_or_create_log(TopicPartition("t", partition))
    assert [len(manager.logs_in(directory)) for directory in manager.directories] == [3, 3]
    assert manager.directory_of(TopicPartition("t", 0)) is manager.directories[0]


def test_a_deleted_log_is_gone_at_once_and_its_files_later(broker):
    manager = broker.start()
    append(manager.get_or_create_log(ONE), b"x")
    assert manager.delete_log(ONE)
    assert not manager.delete_log(ONE)
    assert manager.get_log(ONE) is None
    assert [name for name in broker.names() if name.startswith("one-0.") and name.endswith("-delete")]
    assert manager.get_or_create_log(ONE).log_end_offset == 0
    broker.later(60_000)
    assert [name for name in broker.names() if name.startswith("one")] == ["one-0"]


def test_a_deletion_that_was_not_finished_is_finished_at_the_next_start(broker):
    manager = broker.start()
    manager.get_or_create_log(ONE)
    manager.delete_log(ONE)
    manager.shutdown()
    manager = broker.start()
    broker.later(0)
    assert manager.all_logs() == []
    assert not [name for name in broker.names() if name.startswith("one")]


@pytest.mark.parametrize("crashes_at_once", [False, True])
def test_a_new_log_has_nothing_of_a_deleted_one_of_its_name(broker, crashes_at_once):
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


def test_a_long_name_fits_when_marked(broker):
    manager = broker.start()
    partition = TopicPartition("x" * 249, 11)
    manager.get_or_create_log(partition)
    assert manager.delete_log(partition)


def test_checkpoints_are_written_from_time_to_time(broker):
    manager = broker.start(log_segment_bytes=200)
    log = manager.get_or_create_log(ONE)
    for _ in range(3):
        append(log, b"x" * 20)
    log.update_high_watermark(3)
    log.increment_log_start_offset(1)
    broker.later(60_000)
    assert (broker.path / "a" / "recovery-point-offset-checkpoint").read_text() == "0\n1\none 0 2\n"
    assert (broker.path / "a" / "log-start-offset-checkpoint").read_text() == "0\n1\none 0 1\n"
    broker.crash(manager)
    assert broker.start(log_segment_bytes=200).get_log(ONE).log_start_offset == 1


def test_damaged_checkpoints_only_cost_time(broker):
    manager = broker.start()
    append(manager.get_or_create_log(ONE), b"x")
    manager.shutdown()
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint"):
        (broker.path / "a" / name).write_bytes(b"\0\0\0")
    assert contents(broker.start().get_log(ONE)) == [(0, b"x")]


def test_retention_runs_from_time_to_time(broker):
    broker.topic_configs["one"] = {"retention.ms": "1000"}
    manager = broker.start()
    for partition in (ONE, TWO):
        log = manager.get_or_create_log(partition)
        append(log, b"x")
        log.update_high_watermark(1)
    broker.later(300_000)
    assert [manager.get_log(partition).log_start_offset for partition in (ONE, TWO)] == [1, 0]


def test_flush_by_time(broker):
    manager = broker.start(log_flush_scheduler_interval_ms=500, log_flush_interval_ms=2000)
    log = manager.get_or_create_log(ONE)
    append(log, b"x")
    broker.later(1500)
    assert log.recovery_point == 0
    broker.later(500)
    assert log.recovery_point == 1


def test_topic_settings_can_change(broker):
    manager = broker.start()
    log = manager.get_or_create_log(ONE)
    assert log.config.retention_ms == 604_800_000
    broker.topic_configs["one"] = {"retention.ms": "5"}
    manager.update_topic_config("one")
    assert log.config.retention_ms == 5
    manager.reconfigure(KafkaConfig.from_properties({"log.segment.bytes": "12345", "log.dirs": "x"}))
    assert (log.config.retention_ms, log.config.segment_bytes) == (5, 12345)


@pytest.mark.pure
def test_a_failed_directory_goes_offline_and_the_others_serve(broker, monkeypatch):
    manager = broker.start(("a", "b"))
    one, two = manager.get_or_create_log(ONE), manager.get_or_create_log(TWO)
    assert one.dir.parent != two.dir.parent

    def broken(*_):
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


def test_running_out_of_file_descriptors_is_no_failed_disk(broker, monkeypatch):
    """Too many connections are enough for it: twistd with ``ulimit -Hn 256``, 400 connections, one new topic."""
    manager = broker.start()

    def no_room(*_args, **_options):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patched:
        patched.setattr("twisted_kafka.log.segment.SegmentFile", no_room)
        with pytest.raises(KafkaStorageError):
            manager.get_or_create_log(ONE)
    assert manager.directories[0].is_online
    assert not broker.failed


def test_other_directories_are_left_alone(broker):
    for name in ("lost+found", "notes", "one-0.abc-stray"):
        (broker.path / "a" / name).mkdir(parents=True)
    (broker.path / "a" / "metadata.sqlite").write_text("")
    assert broker.start().all_logs() == []
    assert {"lost+found", "notes", "one-0.abc-stray"} < set(broker.names())


def test_of_two_directories_of_one_partition_the_longer_one_counts(broker):
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


def test_two_topics_logs_of_one_partition_stop_the_start(broker):
    for name in ("a", "b"):
        manager = broker.start((name,))
        manager.get_or_create_log(ONE, name.encode() * 16)
        manager.shutdown()
    with pytest.raises(ValueError, match="two log directories with two topic ids"):
        broker.start(("a", "b"))


def test_a_topic_id_that_a_crash_took_does_not_make_two_topics_of_one_partition(broker):
    for name, count in (("a", 2), ("b", 1)):
        manager = broker.start((name,))
        for _ in range(count):
            append(manager.get_or_create_log(ONE, bytes(range(16))), b"x")
        broker.crash(manager)
    (broker.path / "a" / "one-0" / "partition.metadata").write_bytes(bytes(40))
    manager = broker.start(("a", "b"))
    assert manager.get_log(ONE).log_end_offset == 2
    assert manager.get_or_create_log(ONE, bytes(range(16))).topic_id == bytes(range(16))


# meta.properties.


def test_meta_properties(tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    assert load_meta_properties([first, second]) == (None, None, None)
    claim_directories([first], "clusterclusterclusterC", 7)
    assert (first / "meta.properties").read_text() == "#\nversion=0\nbroker.id=7\ncluster.id=clusterclusterclusterC\n"
    assert load_meta_properties([first, second]) == ("clusterclusterclusterC", 7, None)
    claim_directories([first, second], "clusterclusterclusterC", 7)
    assert read_meta_properties(second) == read_meta_properties(first)


def test_directories_of_others_are_refused(tmp_path):
    claim_directories([tmp_path], "mine", 7)
    with pytest.raises(MetaPropertiesError, match="cluster mine"):
        claim_directories([tmp_path], "other", 7)
    with pytest.raises(MetaPropertiesError, match=r"broker\.id=8"):
        claim_directories([tmp_path], "mine", 8)
    (tmp_path / "b").mkdir()
    write_meta_properties(tmp_path / "b", MetaProperties("other", 7))
    with pytest.raises(MetaPropertiesError):
        load_meta_properties([tmp_path, tmp_path / "b"])


def test_the_directory_id_is_kept(tmp_path):
    (tmp_path / "meta.properties").write_text("version=1\ndirectory.id=abc\nnode.id=3\n")
    claim_directories([tmp_path], "c", 3)
    assert read_meta_properties(tmp_path) == ("c", 3, "abc")


@pytest.mark.parametrize("text", ["version=9\n", "broker.id=1\n", "version=0\nbroker.id=x\n"])
def test_meta_properties_that_cannot_be(tmp_path, text):
    (tmp_path / "meta.properties").write_text(text)
    with pytest.raises(MetaPropertiesError):
        read_meta_properties(tmp_path)


# Several directories.


def break_directory(path):
    """What is left of a disk that is gone: a file where the directory was."""
    path.rename(path.with_name(f"{path.name}-gone"))
    path.write_text("")


def mend_directory(path):
    path.unlink()
    path.with_name(f"{path.name}-gone").rename(path)


def test_a_directory_that_cannot_be_used_is_left_out(broker):
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


def test_without_any_usable_directory_the_start_is_refused_in_one_line(broker):
    for name in ("a", "b"):
        (broker.path / name).write_text("")
    with pytest.raises(LogDirectoryError, match=r"Cannot use the log directory .*a.*; Cannot use the log directory .*b") as caught:
        broker.start(("a", "b"))
    assert "\n" not in str(caught.value)


def test_logs_of_a_directory_that_fails_are_forgotten_and_the_others_stay(broker):
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


def test_a_preferred_directory_gets_the_next_log(broker):
    manager = broker.start(("a", "b"))
    second = manager.directory_named(str(broker.path / "b"))
    manager.prefer(ONE, second)
    assert manager.get_or_create_log(ONE).parent == second.path
    for wrong in ("", "b", str(broker.path / "c"), f"{broker.path}/b/"):
        with pytest.raises(LogDirNotFoundError):
            manager.directory_named(wrong)


def test_a_future_log_replaces_the_log(broker):
    manager = broker.start(("a", "b"))
    source = manager.get_or_create_log(ONE, bytes(range(16)))
    append(source, b"x")
    source.update_high_watermark(1)
    with pytest.raises(KafkaStorageError, match="nobody said"):
        manager.get_or_create_future_log(ONE, source.topic_id)
    target = next(directory for directory in manager.directories if directory.path != source.parent)
    manager.prefer(ONE, target)
    future = manager.get_or_create_future_log(ONE, source.topic_id)
    assert future.is_future
    assert future.dir.name.startswith("one-0.")
    assert future.dir.name.endswith("-future")
    assert manager.get_log(ONE) is source
    assert set(manager.all_logs()) == {source, future}
    future.append_as_follower(data_of(source.read(0, 1000, FetchIsolation.LOG_END).records))
    future.flush()
    assert manager.replace_by_future_log(ONE) is future is manager.get_log(ONE)
    assert manager.get_future_log(ONE) is None
    assert (future.is_future, future.high_watermark, future.topic_id) == (False, 1, bytes(range(16)))
    assert future.dir == target.path / "one-0"
    assert (target.path / "recovery-point-offset-checkpoint").read_text() == "0\n1\none 0 1\n"
    broker.later(60_000)
    assert not [name for name in broker.names(source.parent.name) if name.startswith("one-0")]
    manager.shutdown()
    assert contents(broker.start(("a", "b")).get_log(ONE)) == [(0, b"x")]


def test_a_future_log_is_there_again_after_a_restart_and_can_be_given_up(broker):
    manager = broker.start(("a", "b"))
    source = manager.get_or_create_log(ONE)
    target = next(directory for directory in manager.directories if directory.path != source.parent)
    manager.prefer(ONE, target)
    append(manager.get_or_create_future_log(ONE, None), b"x")
    manager.shutdown()
    manager = broker.start(("a", "b"))
    assert manager.get_log(ONE).log_end_offset == 0
    assert contents(manager.get_future_log(ONE)) == [(0, b"x")]
    assert manager.delete_future_log(ONE)
    assert not manager.delete_future_log(ONE)
    broker.later(60_000)
    assert [name for name in (*broker.names("a"), *broker.names("b")) if name.startswith("one")] == ["one-0"]


@pytest.mark.parametrize("clean", [True, False])
def test_an_interrupted_start_leaves_what_was_clean_clean(broker, clean):
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


def test_loading_is_told_and_drawn(broker):
    manager = broker.start(log_segment_bytes=100)
    for partition in range(20):
        append(manager.get_or_create_log(TopicPartition("t", partition)), b"x" * 30)
    broker.crash(manager)
    drawn, metrics = io.StringIO(), MetricsRegistry(broker.clock)
    left = []

    def tick(topic):
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


def test_directories_in_metrics(broker):
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


def recovery_points(broker):
    return (broker.path / "a" / "recovery-point-offset-checkpoint").read_text().splitlines()[2:]


def test_recovery_points_follow_truncations_at_once(broker):
    manager = broker.start()
    log = manager.get_or_create_log(ONE)
    for _ in range(4):
        append(log, b"x")
    log.flush()
    manager.directories[0].checkpoint_recovery_points()
    assert recovery_points(broker) == ["one 0 4"]
    manager.truncate_to(ONE, 2)
    assert recovery_points(broker) == ["one 0 2"]
    manager.truncate_fully_and_start_at(ONE, 1)
    assert recovery_points(broker) == ["one 0 1"]


def test_recovery_points_follow_what_recovery_cut_at_once(broker):
    manager = broker.start()
    log = manager.get_or_create_log(ONE)
    for _ in range(4):
        append(log, b"x")
    log.flush()
    manager.directories[0].checkpoint_recovery_points()
    path, position = log.segments.active.path, log.offset_metadata(3).relative_position
    broker.crash(manager)
    os.truncate(path, position)
    assert broker.start().get_log(ONE).log_end_offset == 3
    assert recovery_points(broker) == ["one 0 3"]


@pytest.mark.parametrize("fails", [False, True])
def test_many_logs_go_to_disk_at_once(tmp_path, monkeypatch, fails):
    """Each is flushed all the same; what cannot be written is not called clean."""
    synced = []

    def sync(path):
        synced.append((path, [log.recovery_point for log in logs]))
        if fails:
            raise OSError(errno.EIO, "no disk")

    monkeypatch.setattr(log_directories, "FEWEST_TO_SYNC_AT_ONCE", 2)
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


def test_a_file_system_is_written_to_disk(tmp_path):
    sync_file_system(tmp_path)
    with pytest.raises(OSError, match="not-there"):
        sync_file_system(tmp_path / "not-there")
