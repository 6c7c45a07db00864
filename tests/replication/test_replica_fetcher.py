"""Followers that copy their leaders' logs, byte for byte, and truncate what their leaders do not have."""

import errno
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.replication.several import BACKOFF_MS, LIMITS, Cluster, PartitionTableEntry
from twisted_kafka.protocol.errors import ErrorCode, KafkaStorageError
from twisted_kafka.protocol.messages.fetch import FetchResponse
from twisted_kafka.replication.fetching.leader_requests import PeerVersions
from twisted_kafka.replication.fetching.replica_fetcher import FIRST_BACKOFF_MS, FetchState, Pause
from twisted_kafka.replication.partition.partition import Partition
from twisted_kafka.replication.partition.topic_stats import (
    REASSIGNMENT_BYTES_IN,
    REASSIGNMENT_BYTES_OUT,
    REPLICATION_BYTES_IN,
    REPLICATION_BYTES_OUT,
    TYPE,
)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.close()


def test_a_follower_has_what_its_leader_has(cluster: Cluster) -> None:
    cluster.create()
    leader, follower = cluster.members.values()
    leader.write(b"a", b"b")
    leader.write(b"c")
    cluster.run()
    assert cluster.agree()
    assert follower.partition().log.log_end_offset == 3
    assert follower.partition().log.leader_epochs.entries == ((0, 0),)


def test_acks_all_waits_for_the_follower(cluster: Cluster) -> None:
    cluster.create()
    leader = cluster.members[1]
    answer = leader.write(b"a", acks=-1)
    assert not answer.done()
    cluster.run(3)
    assert next(iter(answer.result(0).values())).error == 0


def test_what_a_reassignment_moves_is_counted_apart(cluster: Cluster) -> None:
    cluster.create()
    leader, follower = cluster.members.values()

    def counted() -> list[object]:
        gauge = leader.metrics.value("ReplicaManager", "ReassigningPartitions")
        out = [leader.metrics.value(TYPE, each) for each in (REPLICATION_BYTES_OUT, REASSIGNMENT_BYTES_OUT)]
        into = [follower.metrics.value(TYPE, each) for each in (REPLICATION_BYTES_IN, REASSIGNMENT_BYTES_IN)]
        assert out == into
        return [gauge, *out]

    leader.write(b"a")
    cluster.run(4)
    size = len(follower.content())
    assert counted() == [0, size, 0]
    cluster.table[0].adding = (2,)
    cluster.elect(1, isr=[1])
    leader.write(b"b")
    cluster.run(4)
    assert counted() == [1, 2 * size, size]
    cluster.table[0].adding = ()
    cluster.elect(1)
    leader.write(b"c")
    cluster.run(4)
    assert counted() == [0, 3 * size, size]


@pytest.mark.parametrize("versions", [PeerVersions(), PeerVersions(fetch=12, list_offsets=6)])
def test_what_a_deposed_leader_alone_has_goes(tmp_path: Path, versions: PeerVersions) -> None:
    cluster = Cluster(tmp_path, versions=versions)
    cluster.create()
    first, second = cluster.members.values()
    first.write(b"both")
    cluster.run(4)
    cluster.is_reachable = lambda _from, _to: False
    first.write(b"only the first", b"and more")
    first.write(b"and more")
    cluster.tell_one(second)
    cluster.elect(2)
    cluster.is_reachable = lambda _from, _to: True
    second.write(b"only the second")
    cluster.advance_ms(BACKOFF_MS)
    cluster.run()
    assert cluster.agree()
    assert b"only the first" not in first.content(committed=False)
    assert first.partition().log.leader_epochs.entries == second.partition().log.leader_epochs.entries == ((0, 0), (1, 1))
    cluster.close()


def test_an_epoch_without_records_goes_too(cluster: Cluster) -> None:
    cluster.create()
    first, second = cluster.members.values()
    first.write(b"a")
    cluster.run(4)
    cluster.is_reachable = lambda _from, _to: False
    cluster.elect(1)  # the first one begins an epoch, and appends nothing in it that anybody gets
    cluster.tell_one(second)
    first.write(b"lost")
    cluster.elect(2)
    cluster.is_reachable = lambda _from, _to: True
    second.write(b"b")
    cluster.advance_ms(BACKOFF_MS)
    cluster.run()
    assert cluster.agree()
    assert first.partition().log.leader_epochs.entries == second.partition().log.leader_epochs.entries


def test_a_follower_that_was_away_for_long_begins_where_the_leader_does(cluster: Cluster) -> None:
    cluster.create()
    leader, follower = cluster.members.values()
    leader.write(b"a", b"b", b"c")
    cluster.run(4)
    cluster.is_reachable = lambda _from, _to: False
    leader.write(*[b"%d" % number for number in range(5)])
    for _ in range(4):
        cluster.advance_ms(5_000)
    assert leader.partition().isr == frozenset({1})
    assert cluster.table[0].isr == [1]
    leader.partition().delete_records(8)
    leader.write(b"new")
    cluster.is_reachable = lambda _from, _to: True
    cluster.advance_ms(BACKOFF_MS)
    cluster.run()
    log = follower.partition().log
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (8, 9, 9)
    assert cluster.table[0].isr == [1, 2], "it is in sync again"


def test_a_leaders_log_that_begins_inside_a_batch_is_copied_from_that_batch_on(cluster: Cluster) -> None:
    cluster.create(replicas=(1,))
    leader = cluster.members[1]
    leader.write(b"a", b"b", b"c", b"d")
    leader.partition().delete_records(2)
    entry = cluster.table[0]
    entry.replicas = (1, 2)
    cluster.elect(1)
    cluster.run()
    follower = cluster.members[2]
    log = follower.partition().log
    assert (log.log_start_offset, log.log_end_offset) == (2, 4)
    assert follower.content() == leader.content()


def test_an_unclean_leader_that_has_less_makes_the_follower_give_up_what_it_has(cluster: Cluster) -> None:
    cluster.create()
    first, second = cluster.members.values()
    first.write(b"a")
    cluster.run(4)
    cluster.is_reachable = lambda _from, _to: False
    first.write(b"b", b"c", b"d")
    for _ in range(4):
        cluster.advance_ms(5_000)
    assert first.partition().log.high_watermark == 4
    cluster.elect(2, isr=(2,))
    cluster.is_reachable = lambda _from, _to: True
    cluster.advance_ms(BACKOFF_MS)
    cluster.run()
    assert cluster.agree()
    assert first.partition().log.log_end_offset == 1
    second.write(b"e")
    cluster.run()
    assert cluster.agree()


def test_the_log_start_of_the_leader_is_taken_over(cluster: Cluster) -> None:
    cluster.create()
    leader, follower = cluster.members.values()
    leader.write(b"a")
    leader.write(b"b")
    cluster.run(4)
    answer = leader.replicas.offsets.delete_records(60_000, {follower.partition().topic_partition: 1})
    assert not isinstance(answer, dict)
    cluster.run(4)
    assert follower.partition().log.log_start_offset == 1
    assert next(iter(answer.result(0).values())).low_watermark == 1


class Failing:
    """Replaces a follower's append: it raises the error some times, and then appends."""

    def __init__(self, partition: Partition, error: Exception, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = times
        real = type(partition).append_as_follower

        def append(appended_to: Partition, *args: Any) -> Any:
            if appended_to is partition and self.left:
                self.left -= 1
                raise error
            return real(appended_to, *args)

        monkeypatch.setattr(type(partition), "append_as_follower", append)


def no_descriptor() -> KafkaStorageError:
    error = KafkaStorageError("no segment could be made")
    error.__cause__ = OSError(errno.EMFILE, "Too many open files")
    return error


@pytest.mark.parametrize("error", [no_descriptor(), MemoryError(), ZeroDivisionError("a mistake of ours")])
def test_whatever_fails_in_the_follower_is_tried_again(cluster: Cluster, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    for index in range(2):
        cluster.create(index)
    leader, follower = cluster.members.values()
    cluster.run(4)
    failing = Failing(follower.partition(1), error, 2, monkeypatch)
    leader.write(b"a", index=0)
    leader.write(b"b", index=1)
    cluster.run(2)
    assert follower.partition(0).log.log_end_offset == 1
    assert follower.fetchers.failed == {follower.partition(1).topic_partition}
    assert failing.left == 1, "not before replica.fetch.backoff.ms is over"
    cluster.advance_ms(BACKOFF_MS)
    cluster.run(8)
    assert cluster.agree(0)
    assert cluster.agree(1)
    assert follower.fetchers.failed == set()


def test_an_append_that_stalls_delays_neither_gauges_nor_partitions_that_are_not_fetched(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create()
    leader, follower = cluster.members.values()
    cluster.run(4)
    real = Partition.append_as_follower
    ended = []

    def others() -> None:
        assert (follower.fetchers.max_lag, follower.fetchers.failed) == (0, set())
        cluster.create(1, replicas=(2,))
        ended.append(True)

    def append(partition: Partition, *args: Any) -> Any:
        thread = threading.Thread(target=others, daemon=True)
        thread.start()
        thread.join(30)
        return real(partition, *args)

    monkeypatch.setattr(Partition, "append_as_follower", append)
    leader.write(b"a")
    cluster.run(2)
    assert ended
    assert follower.partition(1).is_leader


def test_a_truncation_that_fails_is_tried_again(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.create()
    first, second = cluster.members.values()
    first.write(b"both")
    cluster.run(4)
    cluster.is_reachable = lambda _from, _to: False
    first.write(b"only the first")
    cluster.elect(2)
    cluster.is_reachable = lambda _from, _to: True
    second.write(b"only the second")
    real, failures = first.logs.truncate_to, [OSError(errno.EMFILE, "Too many open files")]

    def truncate(*args: Any) -> Any:
        if failures:
            raise failures.pop()
        return real(*args)

    monkeypatch.setattr(first.logs, "truncate_to", truncate)
    cluster.run(4)
    assert failures == []
    cluster.advance_ms(BACKOFF_MS)
    cluster.run(8)
    assert cluster.agree()


def test_a_partition_on_a_failed_disk_is_not_fetched_any_more(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.create()
    leader, follower = cluster.members.values()
    cluster.run(2)
    partition = follower.partition()
    failing = Failing(partition, KafkaStorageError("the disk is gone"), 100, monkeypatch)
    leader.write(b"a")
    cluster.run(2)
    assert follower.fetchers.failed == {partition.topic_partition}
    follower.replicas.directory_failed(partition.log.parent)
    left = failing.left
    cluster.advance_ms(BACKOFF_MS)
    cluster.run(4)
    assert (failing.left, follower.fetchers.failed) == (left, set())


@pytest.mark.parametrize("partitions", [5, 25])
def test_a_fetch_costs_the_follower_what_has_changed(tmp_path: Path, partitions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(tmp_path, log_preallocate="false")
    for index in range(partitions):
        cluster.create(index)
    cluster.run(4)
    looks: list[FetchState] = []
    real = FetchState.wanted

    def wanted(state: FetchState) -> Any:
        looks.append(state)
        return real(state)

    monkeypatch.setattr(FetchState, "wanted", wanted)
    leader, follower = cluster.members.values()
    (thread,) = follower.threads
    leader.write(b"a", index=3)
    if thread.request is None:
        thread.step()
    thread.step(cluster.deliver(thread).result(0))
    assert thread.request is not None
    message: Any = thread.request.message
    assert [[each.partition for each in topic.partitions] for topic in message.topics] == [[3]]
    assert len(looks) == 2, "after the answer, and for the next request"
    cluster.close()


@pytest.mark.medium
@pytest.mark.parametrize(
    "error",
    [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR],
)
def test_a_leader_that_refuses_every_session_is_asked_again_after_a_pause(cluster: Cluster, error: ErrorCode) -> None:
    cluster.create()
    cluster.run(4)
    (thread,) = cluster.members[2].threads
    if thread.request is None:
        thread.step()
    thread.step(FetchResponse(error_code=error))
    assert thread.request is not None, "a session may be lost, and another one begins at once"
    thread.step(FetchResponse(error_code=error))
    assert (thread.request, thread.pause) == (None, Pause(BACKOFF_MS))
    cluster.advance_ms(BACKOFF_MS)
    cluster.members[1].write(b"a")
    cluster.run(4)
    assert cluster.agree()


def test_a_log_start_that_has_moved_is_reported_to_the_leader(cluster: Cluster) -> None:
    cluster.create()
    leader, follower = cluster.members.values()
    leader.write(b"a")
    leader.write(b"b")
    cluster.run(4)
    follower.partition().log.increment_log_start_offset(1, "retention")
    answer = leader.replicas.offsets.delete_records(60_000, {follower.partition().topic_partition: 1})
    assert not isinstance(answer, dict)
    cluster.run(4)
    assert answer.done()


def test_a_waiting_fetch_is_overtaken_by_one_with_another_partition(cluster: Cluster) -> None:
    for index in range(2):
        cluster.create(index)
    leader, follower = cluster.members.values()
    cluster.run(4)
    (thread,) = follower.threads
    if thread.request is None:
        thread.step()
    waiting = cluster.deliver(thread)
    assert not waiting.done()
    cluster.create(2)
    assert thread.fetcher.has_changes
    thread.overtake()
    assert thread.request is not None
    message: Any = thread.request.message
    assert [each.partition for topic in message.topics for each in topic.partitions] == [2]
    overtaking = cluster.deliver(thread)
    produced = leader.write(b"a", acks=-1, index=2)
    thread.step(overtaking.result(0))
    cluster.deliver(thread)
    assert produced.done(), "without the time for which a fetch waits"
    cluster.advance_ms(LIMITS.max_wait_ms)
    late = waiting.result(0)
    assert late.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    thread.fetcher.answered_late(late)
    assert not thread.fetcher._is_out_of_step, "the session lasts"


def test_a_follower_that_is_told_of_a_topic_before_its_leader_does_not_wait_for_others(cluster: Cluster) -> None:
    cluster.create()
    leader, follower = cluster.members.values()
    cluster.run(4)
    (thread,) = follower.threads
    if thread.request is None:
        thread.step()
    cluster.deliver(thread)
    cluster.table[1] = PartitionTableEntry((1, 2))
    cluster.tell_one(follower, 1)
    thread.overtake()
    thread.step(cluster.deliver(thread).result(0))  # at once: the leader does not know of it
    assert thread.request is not None
    message: Any = thread.request.message
    assert message.max_wait_ms == FIRST_BACKOFF_MS, "then it is to be asked again"
    waiting = cluster.deliver(thread)
    cluster.tell_one(leader, 1)
    produced = leader.write(b"a", acks=-1, index=1)
    cluster.advance_ms(FIRST_BACKOFF_MS)
    thread.step(waiting.result(0))
    thread.step(cluster.deliver(thread).result(0))
    cluster.deliver(thread)
    assert produced.done()


def test_a_leader_that_answers_while_it_is_overtaken_says_it_again(cluster: Cluster) -> None:
    cluster.create()
    leader, follower = cluster.members.values()
    cluster.run(4)
    (thread,) = follower.threads
    if thread.request is None:
        thread.step()
    leader.write(b"a")
    answered = cluster.deliver(thread).result(0)
    assert answered.responses
    thread.overtake()
    overtaking = cluster.deliver(thread)
    thread.fetcher.answered_late(answered)
    cluster.advance_ms(LIMITS.max_wait_ms)
    thread.step(overtaking.result(0))
    assert thread.request is not None
    message: Any = thread.request.message
    assert message.session_epoch == 0, "another session"
    cluster.run(4)
    assert cluster.agree()


def test_a_leader_of_a_later_epoch_makes_the_follower_wait_for_the_controller(cluster: Cluster) -> None:
    cluster.create()
    leader, follower = cluster.members.values()
    cluster.run(2)
    entry = cluster.table[0]
    entry.epoch += 1
    entry.version += 1
    cluster.tell_one(leader)
    leader.write(b"a")
    cluster.run(4)
    assert follower.fetchers.failed == {follower.partition().topic_partition}
    cluster.tell_one(follower)
    cluster.run()
    assert follower.fetchers.failed == set()
    assert cluster.agree()


def test_a_leader_that_does_not_know_of_it_yet_is_asked_again(cluster: Cluster) -> None:
    cluster.create()
    leader, follower = cluster.members.values()
    cluster.run(2)
    entry = cluster.table[0]
    entry.epoch += 1
    entry.version += 1
    cluster.tell_one(follower)
    cluster.run(2)
    cluster.tell_one(leader)
    leader.write(b"a")
    cluster.advance_ms(BACKOFF_MS)
    cluster.run()
    assert cluster.agree()


def test_a_throttled_follower_gets_nothing_until_it_may(cluster: Cluster) -> None:
    cluster.create(replicas=(1,))
    leader = cluster.members[1]
    for _ in range(3):
        leader.write(b"x" * 1000)
    follower = cluster.members[2]
    follower.replicas.follower_quota.configure({"follower.replication.throttled.rate": "100"})
    follower.replicas.follower_quota.configure_topic("orders", {"follower.replication.throttled.replicas": "*"})
    follower.replicas.follower_quota.record(10**6)
    cluster.table[0].replicas = (1, 2)
    cluster.elect(1)
    cluster.run(3)
    assert follower.partition().log.log_end_offset == 0
    for _ in range(40):
        cluster.advance_ms(1_000)
    cluster.run(20)
    assert cluster.agree()


def test_a_lost_session_is_replaced(cluster: Cluster) -> None:
    cluster.create()
    leader, _ = cluster.members.values()
    leader.write(b"a")
    cluster.run(4)
    assert len(leader.sessions) == 1
    leader.sessions.remove(next(iter(leader.sessions._sessions)))
    leader.write(b"b")
    cluster.run(6)
    assert cluster.agree()
    assert len(leader.sessions) == 1


def test_a_damaged_batch_is_fetched_again(cluster: Cluster) -> None:
    cluster.create()
    leader, follower = cluster.members.values()
    leader.write(b"abcdefgh")
    path = leader.partition().log.segments.active.path
    intact = path.read_bytes()
    path.write_bytes(intact[:-1] + bytes([intact[-1] ^ 1]))
    cluster.run(3)
    assert (follower.partition().log.log_end_offset, follower.fetchers.failed) == (0, set())
    path.write_bytes(intact)
    cluster.advance_ms(BACKOFF_MS)
    cluster.run()
    assert cluster.agree()


def test_transactions_are_copied_with_their_state(cluster: Cluster) -> None:
    cluster.create()
    leader, follower = cluster.members.values()
    leader.begin_transaction(b"a")
    cluster.run(4)
    assert follower.partition().log.last_stable_offset == 0
    leader.end_transaction(commit=False)
    cluster.run(4)
    assert cluster.agree()
    log = follower.partition().log
    assert log.last_stable_offset == 2
    assert log.aborted_transactions(0, 2) == leader.partition().log.aborted_transactions(0, 2) != []


@pytest.mark.parametrize("versions", [PeerVersions(), PeerVersions(fetch=12, list_offsets=6)])
def test_a_follower_that_is_told_before_its_leader_asks_again_soon(tmp_path: Path, versions: PeerVersions) -> None:
    cluster = Cluster(tmp_path, versions=versions)
    cluster.create()
    follower, leader = cluster.members.values()
    follower.write(b"a")
    cluster.run(4)
    entry = cluster.table[0]
    entry.leader, entry.epoch, entry.version = leader.broker_id, 1, 1
    cluster.tell_one(follower)
    [thread] = follower.threads
    pauses_ms = []
    for _ in range(10):
        thread.step()
        while thread.pause is None:  # it has its session forget the partition
            thread.step(cluster.deliver(thread).result(0))
        pauses_ms.append(thread.pause.ms)
        cluster.clock.advance_ms(thread.pause.ms or 0)
    assert pauses_ms == [10, 20, 40, 80, 160, 320, 640, BACKOFF_MS, BACKOFF_MS, BACKOFF_MS]
    cluster.tell_one(leader)
    leader.write(b"b")
    cluster.run(4)
    assert cluster.agree()
    cluster.close()
