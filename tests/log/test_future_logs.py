import errno
import os
import shutil
from pathlib import Path

import pytest

from tests.log.log_managers import ONE, Broker
from tests.support.logs import append, batch, contents, data_of, fill
from twisted_kafka.log.directories import log_directories
from twisted_kafka.log.results import FetchIsolation
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.errors import KafkaStorageError, LogDirNotFoundError
from twisted_kafka.protocol.topic_partition import TopicPartition


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


def test_a_preferred_directory_gets_the_next_log(broker: Broker) -> None:
    manager = broker.start(("a", "b"))
    second = manager.directory_named(str(broker.path / "b"))
    manager.prefer(ONE, second)
    assert manager.get_or_create_log(ONE).parent == second.path
    for wrong in ("", "b", str(broker.path / "c"), f"{broker.path}/b/"):
        with pytest.raises(LogDirNotFoundError):
            manager.directory_named(wrong)


def test_only_so_many_preferred_directories_are_remembered(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_directories, "MAX_PREFERRED_DIRECTORIES", 2)
    manager = broker.start(("a", "b"))
    second = manager.directories[1]
    partitions = [TopicPartition("t", number) for number in range(4)]
    for number in (0, 1, 0, 2):  # the one that was named again is not the oldest any more
        manager.prefer(partitions[number], second)
    parents = [manager.get_or_create_log(partition).parent.name for partition in partitions]
    assert parents == ["b", "a", "b", "a"]


def sizes(metrics: MetricsRegistry, **tags: object) -> object:
    """What the metrics of the partition's log say, or those of its future log."""
    if tags:
        tags = {"is-future": "true"}
    return metrics.value("Log", "Size", topic="one", partition=0, **tags)


def test_a_replacement_needs_both_logs_and_a_disk(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = MetricsRegistry(broker.clock)
    manager = broker.manager(("a", "b"), metrics=metrics)
    manager.startup()
    with pytest.raises(KafkaStorageError, match="went offline"):
        manager.replace_by_future_log(ONE)
    source = manager.get_or_create_log(ONE)
    with pytest.raises(KafkaStorageError, match="went offline"):
        manager.replace_by_future_log(ONE)
    target = next(directory for directory in manager.directories if directory.path != source.parent)
    manager.prefer(ONE, target)
    future = manager.get_or_create_future_log(ONE, None)
    append(future, b"x")

    def broken(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", broken)
        with pytest.raises(KafkaStorageError, match="cannot replace one-0"):
            manager.replace_by_future_log(ONE)
    assert (manager.get_log(ONE), manager.get_future_log(ONE)) == (source, future)
    assert broker.failed == [target]
    assert (sizes(metrics), sizes(metrics, is_future=True)) == (0, future.size_bytes)
    manager.forget_directory(target)
    assert (sizes(metrics), sizes(metrics, is_future=True)) == (0, None)


@pytest.mark.parametrize(
    ("copied_id", "wanted_id", "is_adopted"),
    [(b"a", b"a", True), (None, b"a", True), (b"a", None, True), (None, None, True), (b"a", b"b", False)],
)
def test_a_copy_takes_the_place_of_a_log_that_is_lost(
    broker: Broker, copied_id: bytes | None, wanted_id: bytes | None, is_adopted: bool
) -> None:
    """Else the move would go on with a new log, and truncate the copy to nothing."""
    copied_id, wanted_id = copied_id and copied_id * 16, wanted_id and wanted_id * 16
    broker.topic_configs["one"] = {"cleanup.policy": "compact"}
    manager = broker.start(("a", "b"))
    lost = manager.get_or_create_log(ONE)
    manager.prefer(ONE, next(directory for directory in manager.directories if directory.path != lost.parent))
    manager.get_or_create_future_log(ONE, copied_id).append_as_follower(batch(b"x"))
    manager.shutdown()
    shutil.rmtree(lost.dir)
    metrics = MetricsRegistry(broker.clock)
    manager = broker.manager(("a", "b"), metrics=metrics)
    manager.startup(lambda _topic: {"cleanup.policy": "compact"})
    future = manager.get_future_log(ONE)
    log = manager.get_or_create_log(ONE, wanted_id, is_new=False)
    assert (log is future) is is_adopted
    assert log.topic_id == (wanted_id or copied_id)
    assert (log.dir.name, log.is_future) == ("one-0", False)
    assert contents(log) == ([(0, b"x")] if is_adopted else [])
    assert (manager.get_log(ONE), manager.get_future_log(ONE)) == (log, None if is_adopted else future)
    assert (sizes(metrics), sizes(metrics, is_future=True)) == (
        log.size_bytes,
        None if is_adopted else future.size_bytes,
    )
    # The cleaner stays away from a partition that is being moved, and from no other.
    assert manager.cleaner.manager.deletable_logs() == ([log] if is_adopted else [])


def test_a_future_log_replaces_the_log(broker: Broker) -> None:
    metrics = MetricsRegistry(broker.clock)
    manager = broker.manager(("a", "b"), metrics=metrics)
    manager.startup()
    source = manager.get_or_create_log(ONE, bytes(range(16)))
    append(source, b"x")
    source.update_high_watermark(1)
    with pytest.raises(KafkaStorageError, match="no target directory"):
        manager.get_or_create_future_log(ONE, source.topic_id)
    target = next(directory for directory in manager.directories if directory.path != source.parent)
    manager.prefer(ONE, target)
    future = manager.get_or_create_future_log(ONE, source.topic_id)
    assert future.is_future
    assert future.dir.name.startswith("one-0.")
    assert future.dir.name.endswith("-future")
    assert manager.get_log(ONE) is source
    assert set(manager.all_logs()) == {source, future}
    assert (sizes(metrics), sizes(metrics, is_future=True)) == (source.size_bytes, 0)
    source.flush()
    future.append_as_follower(data_of(source.read(0, 1000, FetchIsolation.LOG_END).records))
    assert future.recovery_point == 0
    assert manager.replace_by_future_log(ONE) is future is manager.get_log(ONE)
    assert future.recovery_point == 1, "what was durable still is"
    assert (sizes(metrics), sizes(metrics, is_future=True)) == (future.size_bytes, None)
    assert manager.get_future_log(ONE) is None
    assert (future.is_future, future.high_watermark, future.topic_id) == (False, 1, bytes(range(16)))
    assert future.dir == target.path / "one-0"
    assert (target.path / "recovery-point-offset-checkpoint").read_text() == "0\n1\none 0 1\n"
    broker.later(60_000)
    assert not [name for name in broker.names(source.parent.name) if name.startswith("one-0")]
    manager.shutdown()
    assert contents(broker.start(("a", "b")).get_log(ONE)) == [(0, b"x")]


def test_a_future_log_is_there_again_after_a_restart_and_can_be_given_up(broker: Broker) -> None:
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


def test_of_a_copy_only_what_was_flushed_is_left_after_a_crash(broker: Broker) -> None:
    manager = broker.start(("a", "b"))
    fill(manager.get_or_create_log(ONE), 5)
    manager.prefer(ONE, manager.directories[1])
    future = manager.get_or_create_future_log(ONE, None)
    fill(future, 2)
    broker.crash(manager)
    manager = broker.start(("a", "b"))
    assert manager.get_future_log(ONE).log_end_offset == 0
    fill(manager.get_future_log(ONE), 2)
    manager.get_future_log(ONE).flush()
    manager.directories[1].checkpoint_recovery_points()
    fill(manager.get_future_log(ONE), 2)
    broker.crash(manager)
    assert broker.start(("a", "b")).get_future_log(ONE).log_end_offset == 2


@pytest.mark.parametrize("is_broken", [False, True])
def test_of_several_copies_only_those_that_must_start_anew(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, is_broken: bool
) -> None:
    """A disk that fails meanwhile takes its own logs with it, and no others."""
    partitions = [TopicPartition("t", number) for number in range(3)]
    manager = broker.start(("a", "b"))
    for partition in partitions:
        manager.prefer(partition, manager.directories[0])
        fill(manager.get_or_create_log(partition), 5)
        manager.prefer(partition, manager.directories[1])
        future = manager.get_or_create_future_log(partition, None)
        future.truncate_fully_and_start_at(0 if partition.partition == 1 else 2)
        future.append_as_follower(batch(b"x", base_offset=future.log_end_offset))
    for log in manager.all_logs():
        log.flush()
    for directory in manager.directories:
        directory.checkpoint_recovery_points()
    broker.crash(manager)
    unlink = os.unlink

    def broken(path: str | Path, **options: int) -> None:
        if "-future" in str(path):
            raise OSError(errno.EIO, "Input/output error")
        unlink(path, **options)

    with monkeypatch.context() as patched:
        if is_broken:
            patched.setattr(os, "unlink", broken)
        manager = broker.start(("a", "b"))
    assert broker.failed == (manager.directories[1:] if is_broken else [])
    assert [manager.get_log(partition).log_end_offset for partition in partitions] == [5, 5, 5]
    if not is_broken:
        found = [(future.log_start_offset, future.log_end_offset) for future in map(manager.get_future_log, partitions)]
        assert found == [(0, 0), (0, 1), (0, 0)]


@pytest.mark.parametrize(
    ("copy_start", "is_clean", "expected"),
    [
        (1, False, [1, 2, 3, 4]),
        (2, False, [2, 3, 4]),
        (3, False, []),  # a crash may have taken back the deletion of what came before
        (3, True, [3, 4]),
    ],
)
def test_a_copy_that_begins_after_its_log_starts_anew_after_a_crash(
    broker: Broker, copy_start: int, is_clean: bool, expected: list[int]
) -> None:
    manager = broker.start(("a", "b"))
    log = manager.get_or_create_log(ONE)
    fill(log, 5)
    log.update_high_watermark(5)
    manager.prefer(ONE, next(directory for directory in manager.directories if directory.path != log.parent))
    future = manager.get_or_create_future_log(ONE, None)
    future.truncate_fully_and_start_at(copy_start)
    future.append_as_follower(data_of(log.read(copy_start, 1000, FetchIsolation.LOG_END).records))
    log.increment_log_start_offset(2)
    if is_clean:
        manager.shutdown()
    else:
        for each in (log, future):
            each.flush()
        for directory in manager.directories:
            directory.checkpoint_recovery_points()
            directory.checkpoint_log_start_offsets()
        broker.crash(manager)
    manager = broker.start(("a", "b"))
    log, future = manager.get_log(ONE), manager.get_future_log(ONE)
    assert [offset for offset, _ in contents(log)] == [2, 3, 4]
    assert [offset for offset, _ in contents(future)] == expected
    assert future.log_end_offset == (5 if expected else 2)
