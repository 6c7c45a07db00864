"""Moves of replicas between log directories, a piece at a time."""

import errno
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from twisted.logger import capturedLogs, formatEvent

from tests.support.eventually import eventually
from tests.support.logs import contents
from tests.support.no_threads import no_threads
from tests.support.replication_harness import TOPIC, TP, Harness, in_thread
from twisted_kafka.log.directories.log_directory import LogDirectory
from twisted_kafka.log.results import FetchIsolation
from twisted_kafka.metrics.instruments import Meter
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.log_dirs.alter_log_dirs_copy import LAST_PIECES, ReplicaCopier, align
from twisted_kafka.replication.log_dirs.alter_log_dirs_manager import RETRY_MS, ReplicaMover
from twisted_kafka.replication.log_dirs.replication_quota import ReplicationQuota
from twisted_kafka.timing.clock import ManualClock

PIECE = 1000
VALUE = b"x" * 300


class Moving(Harness):
    """A harness with two directories, whose moves happen when told."""

    def __init__(self, path: Any, dirs: tuple[str, ...] = ("a", "b"), **properties: Any) -> None:
        self.path = path
        super().__init__([path / name for name in dirs], replica_fetch_max_bytes=PIECE, **properties)
        self.moves = self.replicas.moves

    def elsewhere(self, topic_partition: TopicPartition = TP) -> LogDirectory:
        """The directory that the partition does not lie in."""
        log = self.logs.get_log(topic_partition)
        return next(directory for directory in self.logs.directories if directory.path != log.parent)

    def alter(self, directory: LogDirectory | str, topic_partition: TopicPartition = TP) -> ErrorCode:
        path = directory if isinstance(directory, str) else str(directory.path)
        return self.moves.alter({topic_partition: path})[topic_partition]

    def move_on(self) -> int:
        return self.moves.manager.pump()

    @staticmethod
    def fail() -> Any:
        raise AssertionError("the log must not be replaced")

    def described(self) -> dict[str, list[tuple[int, int, bool]] | list[Any | tuple[int, int, bool]]]:
        return {
            directory.path: [(log.topic_partition.partition, log.offset_lag, log.is_future) for log in directory.logs]
            for directory in self.moves.describe(None)
        }

    def again(self, dirs: tuple[str, ...] = ("a", "b")) -> Any:
        """Restart."""
        self.close()
        return Moving(self.path, dirs)


@pytest.fixture
def h(tmp_path: Path) -> Moving:
    return Moving(tmp_path)


def fill(h: Moving, count: int = 10, *, epoch: int = 0) -> None:
    for number in range(count):
        assert h.append(b"%d " % number + VALUE).error == 0


def test_a_replica_is_copied_piece_by_piece_and_then_takes_the_place(h: Moving) -> None:
    partition = h.lead()
    fill(h)
    source, target = partition.log, h.elsewhere()
    before = contents(source)
    assert h.alter(target) == 0
    assert h.alter(target) == 0  # it is on its way already
    assert source.parent == partition.log.parent
    assert h.described()[str(target.path)] == [(0, 10, True)]
    assert h.metrics.value("ReplicaAlterLogDirsManager", "MaxLag", clientId="ReplicaAlterLogDirs") == 10
    assert 0 < h.move_on() <= PIECE
    assert h.described()[str(target.path)] == [(0, 8, True)]
    fill(h, 2)  # it serves meanwhile
    while h.move_on():
        pass
    assert partition.log is not source
    assert partition.log.parent == target.path
    assert contents(partition.log)[:10] == before
    assert (partition.log.high_watermark, partition.log.log_end_offset) == (12, 12)
    assert partition.log.topic_id == partition.topic_id
    assert partition.future_log is None
    assert h.described() == {str(target.path): [(0, 0, False)], str(source.parent): []}
    assert h.append(b"after").base_offset == 12
    h = h.again()
    assert h.lead().log.parent == target.path
    assert len(contents(h.logs.get_log(TP))) == 13


@pytest.mark.parametrize("has_records", [True, False])
def test_a_log_that_ends_with_a_gap_is_moved(h: Moving, has_records: bool) -> None:
    """A compaction removed its last records, and nothing was written since."""
    partition = h.lead()
    fill(h, 3 if has_records else 0)
    partition.log.skip_to(8)
    target = h.elsewhere()
    before = contents(partition.log)
    assert h.alter(target) == 0
    for _ in range(10):
        h.move_on()
    assert partition.log.parent == target.path
    assert partition.log.log_end_offset == 8
    assert contents(partition.log) == before
    fill(h, 1)
    assert partition.log.log_end_offset == 9
    again = h.again()
    assert again.lead(epoch=1).log.log_end_offset == 9
    again.close()


def test_a_batch_larger_than_a_piece_is_moved_whole(h: Moving) -> None:
    partition = h.lead()
    h.append(b"x" * 3 * PIECE)
    h.alter(h.elsewhere())
    assert h.move_on() > 3 * PIECE
    assert partition.future_log is None
    assert len(contents(partition.log)) == 1


def test_the_last_pieces_are_copied_at_once_but_not_more_than_appends_can_wait_for(h: Moving) -> None:
    partition = h.lead(config={"segment.bytes": "100"})
    for _ in range(8):
        h.append(b"x" * 20)
    size_bytes = partition.log.size_bytes // 8
    assert len(partition.log.segments) == 8
    target = h.elsewhere()
    h.alter(target)
    assert h.move_on() == (1 + LAST_PIECES) * size_bytes
    assert h.described()[str(target.path)] == [(0, 7 - LAST_PIECES, True)]
    assert h.move_on() == (7 - LAST_PIECES) * size_bytes
    assert (partition.log.parent, len(contents(partition.log))) == (target.path, 8)


def test_what_was_durable_is_durable_afterwards(h: Moving) -> None:
    partition = h.lead()
    fill(h, 3)
    partition.log.flush()
    h.alter(h.elsewhere())
    while h.move_on():
        pass
    assert partition.log.recovery_point == 3


def test_records_that_are_deleted_meanwhile_are_deleted_there_too(h: Moving) -> None:
    partition = h.lead()
    fill(h, 6)
    h.alter(h.elsewhere())
    h.move_on()
    partition.delete_records(1)
    while h.move_on():
        pass
    assert partition.future_log is None
    assert partition.log.log_start_offset == 1


def test_two_replicas_are_moved_in_turn(h: Moving) -> None:
    partitions = [h.lead(partition=number) for number in range(2)]
    for number in range(2):
        for _ in range(3):
            h.append(VALUE, topic_partition=TopicPartition(TOPIC, number))
    h.moves.alter({each.topic_partition: str(h.elsewhere(each.topic_partition).path) for each in partitions})
    assert h.move_on() == 2 * PIECE
    while h.move_on():
        pass
    assert [each.future_log for each in partitions] == [None, None]


def test_a_stopped_replica_is_moved_on_when_it_is_ordered_again(h: Moving) -> None:
    partition = h.lead()
    fill(h)
    h.alter(h.elsewhere())
    h.move_on()
    copied = partition.future_log.log_end_offset
    assert h.stop_replica(delete=False) == 0
    assert (h.move_on(), partition.future_log.log_end_offset) == (0, copied)
    h.order()
    assert h.move_on() > 0
    assert partition.future_log.log_end_offset > copied


def test_a_mover_reports_each_move_once(h: Moving) -> None:
    partition = h.lead()
    fill(h, 3)
    h.alter(h.elsewhere())
    moved: list[TopicPartition] = []
    requests = Meter(h.clock)
    mover = ReplicaMover(ReplicaCopier(h.logs, PIECE), ReplicationQuota(h.clock, 3, 1000), requests, moved.append)
    mover.add(partition)
    sizes = [mover.run_once() for _ in range(5)]
    assert moved == [TP]
    assert sizes[2:] == [0, 0, 0]
    assert requests.count == 2


def test_a_mover_that_sleeps_is_woken_by_what_is_to_be_moved(h: Moving) -> None:
    partition = h.lead()
    mover = ReplicaMover(ReplicaCopier(h.logs, PIECE), ReplicationQuota(h.clock, 3, 1000), Meter(h.clock), print)
    mover.failed.add(TP)
    woken: list[bool] = []
    sleeps = threading.Event()

    def sleep() -> None:
        with mover.changed:
            sleeps.set()
            woken.append(mover.changed.wait(30))

    thread = threading.Thread(target=sleep)
    thread.start()
    assert sleeps.wait(30)
    mover.add(partition)
    thread.join(30)
    assert woken == [True]
    assert mover.failed == set(), "it is tried again"


def test_there_is_nothing_to_copy_without_a_move(h: Moving) -> None:
    partition = h.lead()
    assert ReplicaCopier(h.logs, PIECE).step(partition) == (0, True)
    assert partition.replace_log(lambda: False, h.fail)


def test_the_log_is_replaced_only_by_a_complete_copy(h: Moving) -> None:
    partition = h.lead()
    fill(h)
    h.alter(h.elsewhere())
    future = partition.future_log
    assert not partition.replace_log(lambda: False, h.fail)
    assert partition.future_log is future
    assert partition.replace_log(lambda: True, lambda: future)
    assert (partition.log, partition.future_log) == (future, None)


@pytest.mark.medium
def test_threads_move_replicas_until_they_are_stopped(h: Moving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twisted_kafka.replication.log_dirs.alter_log_dirs_manager.IDLE_WAIT_S", 60.0)
    h.moves.manager.is_threaded = True
    partition = h.lead()
    fill(h, 20)
    paths: list[Path] = []

    def has_moved() -> bool:
        return partition.log.parent == paths[-1]

    for _ in range(2):  # the second move finds the threads waiting
        paths.append(h.elsewhere().path)
        assert h.alter(str(paths[-1])) == 0
        eventually(has_moved, wait_s=10)
    assert h.metrics.value("ReplicaAlterLogDirsManager", "DeadThreadCount", clientId="ReplicaAlterLogDirs") == 0
    h.clock.advance_ms(100_000)
    h.moves.configure({"replica.alter.log.dirs.io.max.bytes.per.second": "1"})
    paths.append(h.elsewhere().path)
    h.alter(str(paths[-1]))
    eventually(lambda: partition.future_log.log_end_offset > 0, wait_s=10)
    h.moves.configure({})  # the thread finds out by itself
    eventually(has_moved, wait_s=10)
    assert len(contents(partition.log)) == 20
    in_thread(h.replicas.shutdown)
    assert not [each for each in threading.enumerate() if each.name.startswith("ReplicaAlterLogDirsThread")]


def test_a_move_waits_until_the_system_has_a_thread_for_it(h: Moving) -> None:
    h.moves.manager.is_threaded = True
    partition = h.lead()
    fill(h)
    path = h.elsewhere().path
    with no_threads():
        assert h.alter(str(path)) == 0
        h.advance_ms(RETRY_MS)
    assert h.metrics.value("ReplicaAlterLogDirsManager", "DeadThreadCount", clientId="ReplicaAlterLogDirs") == 0
    h.advance_ms(RETRY_MS)
    eventually(lambda: partition.log.parent == path)
    in_thread(h.replicas.shutdown)


def test_a_description_of_some_partitions(h: Moving) -> None:
    for number in range(2):
        h.lead(partition=number)
    [first, second] = h.moves.describe([TP])
    assert [log.topic_partition for log in first.logs + second.logs] == [TP]
    disk = shutil.disk_usage(h.path)
    assert first.total_bytes == disk.total
    assert disk.free / 2 < first.usable_bytes < disk.free * 2


def test_a_move_goes_on_after_a_restart(h: Moving) -> None:
    h.lead()
    fill(h)
    target = h.elsewhere().path
    h.alter(str(target))
    h.move_on()
    h = h.again()
    partition = h.lead()
    assert partition.future_log.log_end_offset == 2
    while h.move_on():
        pass
    assert partition.log.parent == target
    assert len(contents(partition.log)) == 10


def test_a_move_to_where_it_lies_gives_the_other_move_up(h: Moving) -> None:
    partition = h.lead()
    fill(h)
    h.alter(h.elsewhere())
    h.move_on()
    assert h.alter(str(partition.log.parent)) == 0
    assert partition.future_log is None
    assert h.move_on() == 0
    assert list(h.described().values()).count([]) == 1
    h.advance_ms(60_000)
    assert sorted(path.name for path in h.path.glob("?/orders*")) == ["orders-0"]


def test_what_cannot_be_moved(h: Moving) -> None:
    h.lead()
    target = str(h.elsewhere().path)
    assert h.alter("/nowhere") == ErrorCode.LOG_DIR_NOT_FOUND
    assert h.alter("b") == ErrorCode.LOG_DIR_NOT_FOUND
    long = TopicPartition("t" * 214, 0)
    assert h.alter(target, long) == ErrorCode.INVALID_TOPIC_EXCEPTION
    unknown = TopicPartition("unknown", 0)
    assert h.alter(target, unknown) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elsewhere = TopicPartition("elsewhere", 0)
    h.announce("elsewhere", replicas=(2,))
    assert h.alter(target, elsewhere) == ErrorCode.REPLICA_NOT_AVAILABLE
    assert h.alter(str(h.logs.get_log(TP).parent)) == 0  # nothing to do


def test_many_partitions_that_cannot_be_moved_are_one_short_line(h: Moving) -> None:
    path = "/nowhere\x1b[2J" * 1000
    partitions = [TopicPartition("t" * 200, number) for number in range(100)]
    with capturedLogs() as events:
        found = h.moves.alter(dict.fromkeys(partitions, path))
    assert found == dict.fromkeys(partitions, ErrorCode.LOG_DIR_NOT_FOUND)
    (line,) = [str(formatEvent(event)) for event in events]
    assert "100 partitions" in line
    assert len(line) < 1000
    assert line.isprintable()


def test_a_wish_for_a_partition_that_is_not_there_yet_is_remembered(h: Moving) -> None:
    for partition in range(4):
        assert h.alter(str(h.path / "b"), TopicPartition(TOPIC, partition)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for partition in range(4):
        assert h.lead(partition=partition).log.parent == h.path / "b"


def test_an_offline_directory_takes_no_replica(h: Moving) -> None:
    partition = h.lead()
    other = h.elsewhere()
    h.logs.directory_failed(other, OSError(errno.EIO, "broken"))
    assert h.alter(other) == ErrorCode.KAFKA_STORAGE_ERROR
    described = {directory.path: directory for directory in h.moves.describe(None)}
    assert described[str(other.path)].error == ErrorCode.KAFKA_STORAGE_ERROR
    assert (described[str(other.path)].total_bytes, described[str(other.path)].usable_bytes) == (-1, -1)
    good = described[str(partition.log.parent)]
    assert (good.error, good.total_bytes > good.usable_bytes > 0) == (0, True)
    h.replicas.directory_failed(partition.log.parent)
    assert h.alter(str(partition.log.parent)) == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("which", ["source", "target"])
def test_a_directory_that_fails_ends_the_move(h: Moving, which: str) -> None:
    partition = h.lead()
    fill(h)
    source, target = partition.log.parent, h.elsewhere()
    h.alter(target)
    h.move_on()
    failed = target if which == "target" else next(each for each in h.logs.directories if each.path == source)
    h.logs.directory_failed(failed, OSError(errno.EIO, "broken"))
    h.replicas.directory_failed(failed.path)
    h.logs.forget_directory(failed)
    assert h.move_on() == 0
    if which == "target":
        assert h.append(b"on").error == 0
        assert h.logs.get_future_log(TP) is None
    else:
        assert h.append(b"on").error == ErrorCode.KAFKA_STORAGE_ERROR
        assert h.order() == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("dirs", [("b",), ("b", "c")])
def test_a_copy_whose_source_is_lost_becomes_the_log(h: Moving, dirs: Any) -> None:
    """Else it would be cut to what the new, empty log has: nothing."""
    h.alter(str(h.path / "a"))
    partition = h.lead()
    assert partition.log.parent == h.path / "a"
    fill(h)
    h.alter(str(h.path / "b"))
    h.move_on()
    h.move_on()
    copied = contents(partition.future_log)
    assert 0 < len(copied) < 10
    assert partition.future_log.high_watermark == len(copied)
    h = h.again(dirs)  # without the disk, which is lost
    partition = h.lead(epoch=1)
    assert (partition.log.parent, partition.log.dir.name, partition.future_log) == (h.path / "b", "orders-0", None)
    assert h.move_on() == 0
    assert contents(partition.log) == copied
    assert h.described()[str(h.path / "b")] == [(0, 0, False)]
    assert h.append(b"on").base_offset == len(copied)
    # It can be cleaned, moved and deleted like any other.
    with pytest.raises(ValueError, match="not paused"):
        h.logs.cleaner.manager.resume([TP])
    # Should the disk be found again: what it alone has is set aside, not lost.
    h = h.again(("a", *dirs))
    assert h.lead(epoch=2).log.parent == h.path / "b"
    assert len(contents(h.logs.get_log(TP))) == len(copied) + 1
    assert [path.name.endswith("-stray") for path in (h.path / "a").glob("orders-0*")] == [True]


def test_a_copy_whose_source_may_come_back_stays_a_copy(h: Moving) -> None:
    partition = h.lead()
    fill(h)
    source = partition.log.parent
    h.alter(h.elsewhere())
    h.move_on()
    h.close()
    source.rename(source.with_name("gone"))
    source.write_text("")  # a disk that cannot be used
    h = Moving(h.path)
    assert h.order(epoch=1) == ErrorCode.KAFKA_STORAGE_ERROR
    assert h.logs.get_future_log(TP).log_end_offset == 2
    h.close()
    source.unlink()
    source.with_name("gone").rename(source)
    h = Moving(h.path)
    assert len(contents(h.lead(epoch=1).log)) == 10


def test_a_copy_of_another_topics_log_does_not_become_the_log(h: Moving) -> None:
    h.lead()
    fill(h)
    h.alter(str(h.elsewhere().path))
    h.move_on()
    target = h.logs.get_future_log(TP).parent.name
    h = h.again((target, "c"))
    assert h.lead(topic_uuid=bytes(range(16)), epoch=1).log.log_end_offset == 0


def test_a_deleted_partition_takes_its_future_log_along(h: Moving) -> None:
    h.lead()
    fill(h)
    h.alter(h.elsewhere())
    h.move_on()
    h.replicas.state.stop(1, [(TP, -2, True)])
    assert (h.logs.get_log(TP), h.logs.get_future_log(TP), h.move_on()) == (None, None, 0)
    h.advance_ms(60_000)
    assert not list(h.path.glob("?/orders*"))


def test_what_the_log_cut_off_is_cut_off_there_too(h: Moving) -> None:
    partition = h.lead()
    fill(h, 8)
    h.alter(h.elsewhere())
    h.move_on()
    h.move_on()
    future = partition.future_log
    assert future.log_end_offset == 4
    partition.log.truncate_to(2)
    partition.log.assign_epoch_start_offset(3, 2)
    partition.leader_epoch = 3
    fill(h, 5)
    while h.move_on():
        pass
    assert partition.log is future
    assert [epoch for epoch, _ in future.leader_epochs.entries] == [0, 3]
    assert [offset for offset, _ in contents(future)] == list(range(7))
    assert contents(future)[2][1].startswith(b"0 ")


def test_alignment_by_leader_epochs(h: Moving) -> None:
    partition = h.lead()
    fill(h, 6)
    h.alter(h.elsewhere())
    future = partition.future_log
    records: Any = partition.log.read(0, 10_000, FetchIsolation.LOG_END).records
    data = records.read()
    future.append_as_follower(bytearray(data))
    align(partition.log, future)
    assert future.log_end_offset == 6
    future.assign_epoch_start_offset(2, 5)  # of which the log knows nothing
    align(partition.log, future)
    assert future.log_end_offset == 5
    assert future.latest_epoch == 0


def test_the_start_of_the_log_follows(h: Moving) -> None:
    partition = h.lead(config={"segment.bytes": "1000", "file.delete.delay.ms": "0"})
    h.append(*[b"%d" % number for number in range(5)])
    fill(h, 8)
    partition.delete_records(3)
    h.alter(h.elsewhere())
    while h.move_on():
        pass
    assert partition.log.log_start_offset == 3
    assert partition.log.segments.first.base_offset == 0  # its first batch has it in the middle
    assert [offset for offset, _ in contents(partition.log)] == list(range(3, 13))
    target = h.elsewhere()
    h.alter(target)
    h.move_on()
    partition.delete_records(12)
    partition.log.delete_old_segments()
    while h.move_on():
        pass
    assert partition.log.parent == target.path
    assert [offset for offset, _ in contents(partition.log)] == [12]


def test_the_quota_bounds_the_speed(h: Moving) -> None:
    h.lead()
    fill(h)
    h.moves.configure({"replica.alter.log.dirs.io.max.bytes.per.second": "100"})
    h.alter(h.elsewhere())
    assert h.metrics.value("kafka.server:AlterLogDirsReplication", "byte-rate") == 0
    assert h.move_on() > 0
    assert h.metrics.value("kafka.server:AlterLogDirsReplication", "byte-rate") != 0
    assert h.move_on() == 0
    h.clock.advance_ms(12_000)
    assert h.move_on() > 0
    h.moves.configure({"replica.alter.log.dirs.io.max.bytes.per.second": "lots"})  # is passed over
    assert h.move_on() == 0
    h.moves.configure({})
    assert h.move_on() > 0


def test_a_rate_over_windows() -> None:
    clock = ManualClock()
    quota = ReplicationQuota(clock, 3, 1000)
    assert (quota.rate, quota.is_exceeded) == (0.0, False)
    quota.record(500)
    quota.update(400)
    assert (quota.rate, quota.is_exceeded, quota.bound) == (500, True, 400)
    clock.advance_ms(2000)
    quota.record(500)
    assert (quota.rate, quota.is_exceeded) == (500, True)
    clock.advance_ms(999)
    assert (round(quota.rate), quota.is_exceeded) == (333, False)
    clock.advance_ms(1)
    assert quota.rate == 500


def test_bytes_count_for_the_window_that_they_were_copied_in() -> None:
    clock = ManualClock()
    quota = ReplicationQuota(clock, 3, 1000)
    quota.record(100)
    clock.advance_ms(999)
    quota.record(200)
    assert quota.rate == 300
    clock.advance_ms(1)
    quota.record(400)
    clock.advance_ms(1999)
    assert round(quota.rate * 2.999) == 700
    clock.advance_ms(1)
    assert quota.rate == 200, "only the second window is left, of the last two seconds"
    clock.advance_ms(1000)
    assert quota.rate == 0


def test_a_rate_of_exactly_the_bound_is_allowed() -> None:
    quota = ReplicationQuota(ManualClock(), 3, 1000)
    quota.update(500)
    quota.record(500)
    assert not quota.is_exceeded
    quota.record(1)
    assert quota.is_exceeded


def test_a_failing_copy_is_counted_and_tried_again(h: Moving) -> None:
    partition = h.lead()
    fill(h)
    h.alter(h.elsewhere())
    path = partition.log.segments.active.path
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    while h.move_on():
        pass
    tags = {"clientId": "ReplicaAlterLogDirs"}
    assert h.metrics.value("ReplicaAlterLogDirsManager", "FailedPartitionsCount", **tags) == 1
    copied = partition.future_log.log_end_offset
    assert copied < 10
    assert partition.log.log_end_offset == 10
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    while h.move_on():
        pass
    assert (partition.future_log, partition.log.log_end_offset) == (None, 10), "it was moved"
    assert h.metrics.value("ReplicaAlterLogDirsManager", "FailedPartitionsCount", **tags) == 0


def test_a_source_that_fails_in_the_last_moment_does_not_keep_the_replica(h: Moving) -> None:
    partition = h.lead()
    fill(h, 3)
    source = partition.log.parent
    h.alter(h.elsewhere())
    source.rename(h.path / "gone")
    source.write_text("")
    while h.move_on():
        pass
    assert partition.log.parent != source
    assert h.append(b"on").base_offset == 3
    h.replicas.directory_failed(source)
    assert h.append(b"and on").base_offset == 4


def test_wishes_are_bounded(h: Moving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twisted_kafka.log.directories.log_directories.MAX_PREFERRED_DIRECTORIES", 3)
    for partition in range(4):
        h.alter(str(h.path / "b"), TopicPartition(TOPIC, partition))
    assert h.lead(partition=3).log.parent == h.path / "b"
    assert h.lead(partition=0).log.parent == h.path / "a"
