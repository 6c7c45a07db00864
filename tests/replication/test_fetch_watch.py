"""What a leader reads for a follower's session: only what has changed."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from tests.replication.several import LIMITS, Cluster, HandThread
from twisted_kafka.log.results import FetchIsolation
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.operations.delayed_fetch import DelayedFetch
from twisted_kafka.replication.partition.fetch_data import FetchParams, PartitionFetch
from twisted_kafka.replication.partition.fetch_watch import READ_IN_TURN, FetchWatch, FetchWatches
from twisted_kafka.replication.partition.partition import Partition


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path, log_preallocate="false")
    yield cluster
    cluster.close()


class Reads:
    """Notes which partitions are read, and which waiting fetches look at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.read: list[int] = []
        self.looked_at: list[int] = []
        real_read, real_look = Partition.read, DelayedFetch._available

        def read(partition: Partition, fetch: PartitionFetch, params: FetchParams, *args: Any) -> Any:
            self.read.append(fetch.partition)
            return real_read(partition, fetch, params, *args)

        def look(operation: DelayedFetch, waiting: Any) -> int:
            self.looked_at.append(waiting.fetch.partition)
            return real_look(operation, waiting)

        monkeypatch.setattr(Partition, "read", read)
        monkeypatch.setattr(DelayedFetch, "_available", look)

    def take(self) -> tuple[list[int], list[int]]:
        taken = sorted(set(self.read)), self.looked_at
        self.read, self.looked_at = [], []
        return taken


def waiting(cluster: Cluster, partitions: int) -> tuple[HandThread, "Future[Any]"]:
    """Return a follower whose fetch of all partitions waits, after some that had nothing to say."""
    for index in range(partitions):
        cluster.create(index)
    cluster.run(6)
    (thread,) = cluster.members[2].threads
    if thread.request is None:
        thread.step()
    done = cluster.deliver(thread)
    assert not done.done()
    return thread, done


@pytest.mark.medium
def test_what_has_not_changed_is_not_read(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    thread, done = waiting(cluster, 40)
    reads = Reads(monkeypatch)
    cluster.members[1].write(b"a", index=30)
    assert done.done()
    read, looked_at = reads.take()
    assert looked_at == [30], "the partition that was written to"
    assert 30 in read
    assert len(read) <= READ_IN_TURN + 1
    thread.step(done.result(0))
    done = cluster.deliver(thread)
    assert 30 in reads.take()[0], "the follower has it now"
    cluster.advance_ms(LIMITS.max_wait_ms)
    reads.take()
    thread.step(done.result(0))
    cluster.deliver(thread)
    assert len(reads.take()[0]) <= READ_IN_TURN
    assert cluster.agree(30)


def test_a_consumers_waiting_fetch_looks_at_what_has_changed(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    leader = cluster.members[1]
    for index in range(10):
        cluster.create(index, replicas=(1,))
    topic_partitions = [leader.partition(index).topic_partition for index in range(10)]
    fetches = [PartitionFetch(each, bytes(16), each.partition, 0, 1 << 20) for each in topic_partitions]
    batch_bytes = len(bytes(leader.write(b"x", index=0) and leader.content(0)))
    fetches[0].fetch_offset = 1
    params = FetchParams(-1, 500, 2 * batch_bytes, 1 << 20, FetchIsolation.HIGH_WATERMARK, 17)
    answer = leader.replicas.reader.fetch(params, fetches)
    assert isinstance(answer, Future)
    reads = Reads(monkeypatch)
    leader.write(b"x", index=7)
    assert not answer.done()
    leader.write(b"x", index=4)
    assert answer.done()
    assert reads.take()[1] == [7, 4]
    assert [read.size_bytes for read in answer.result(0)] == [batch_bytes if index in (4, 7) else 0 for index in range(10)]


def test_moves_of_a_logs_start_reach_the_follower_in_turn(cluster: Cluster) -> None:
    partitions = READ_IN_TURN + 4
    leader, follower = cluster.members.values()
    for index in range(partitions):
        cluster.create(index)
        leader.write(b"a", index=index)
    cluster.run(6)
    for index in range(partitions):  # as retention does
        leader.partition(index).log.increment_log_start_offset(1, "retention")
    cluster.run(6)
    assert [follower.partition(index).log.log_start_offset for index in range(partitions)] == [1] * partitions


@pytest.mark.medium
def test_deleted_records_reach_the_follower_with_its_next_fetch(cluster: Cluster) -> None:
    partitions = 20 * READ_IN_TURN
    leader, follower = cluster.members.values()
    for index in range(partitions):
        cluster.create(index)
    leader.write(b"a", index=partitions - 1)
    cluster.run(6)
    deleted = leader.replicas.offsets.delete_records(60_000, {leader.partition(partitions - 1).topic_partition: 1})
    assert isinstance(deleted, Future)
    cluster.run(6)
    assert deleted.done()
    assert follower.partition(partitions - 1).log.log_start_offset == 1


def test_a_partition_with_an_error_is_read_each_time(cluster: Cluster) -> None:
    thread, done = waiting(cluster, 12)
    leader = cluster.members[1]
    leader.replicas.state.stop(1, [(leader.partition(3).topic_partition, -2, True)])
    assert done.done()
    (topic,) = done.result(0).responses
    errors = {data.partition_index: data.error_code for data in topic.partitions}
    assert errors == {3: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    assert thread.fetcher.count == 12


@pytest.mark.medium
def test_a_follower_of_a_quiet_partition_stays_in_sync(cluster: Cluster) -> None:
    waiting(cluster, 1)
    leader = cluster.members[1]
    (thread,) = cluster.members[2].threads
    for _ in range(100):  # 50 s, five times replica.lag.time.max.ms
        cluster.run(1)
    leader.write(b"a")
    leader.due()
    leader.scheduler.run_due()
    assert leader.partition().isr == frozenset({1, 2})
    cluster.run(4)
    assert cluster.agree()
    assert cluster.table[0].isr == [1, 2]
    assert thread.fetcher.failed == set()


def test_a_follower_that_fetches_no_more_leaves_the_in_sync_replicas(cluster: Cluster) -> None:
    waiting(cluster, 1)
    for _ in range(20):
        cluster.advance_ms(1_000)
    cluster.members[1].write(b"a")
    cluster.advance_ms(5_000)
    assert cluster.members[1].partition().isr == frozenset({1})


def test_watches_end_with_their_session(cluster: Cluster) -> None:
    waiting(cluster, 5)
    leader = cluster.members[1]
    watches = leader.replicas.purgatories.watches
    assert len(watches) == 5
    leader.replicas.state.stop(1, [(leader.partition(3).topic_partition, -2, True)])
    cluster.members[2].replicas.state.stop(1, [(cluster.members[2].partition(3).topic_partition, -2, True)])
    cluster.advance_ms(LIMITS.max_wait_ms)
    leader.sessions.remove(next(iter(leader.sessions._sessions)))
    assert len(watches) == 0


def test_a_session_that_has_ended_watches_nothing_that_is_added(cluster: Cluster) -> None:
    waiting(cluster, 2)
    leader = cluster.members[1]
    (session,) = leader.sessions._sessions.values()
    leader.sessions.remove(session.id)
    cluster.create(2)
    added = leader.partition(2)
    fetch = PartitionFetch(added.topic_partition, added.topic_id, 2, 0, 1)
    session.update([fetch], ())  # by a request that found the session before
    assert len(leader.replicas.purgatories.watches) == 0


def test_a_partition_that_comes_back_in_a_newer_epoch_is_not_refused_for_its_old_one(cluster: Cluster) -> None:
    thread, first = waiting(cluster, 2)
    leader, follower = cluster.members.values()
    follower.fetchers.stop_following([follower.partition(0).topic_partition])
    thread.overtake()
    second = cluster.deliver(thread)
    cluster.elect(1)
    cluster.advance_ms(LIMITS.max_wait_ms)
    assert first.done(), "what it has read is not sent, and is read again for the next fetch"
    thread.step(second.result(0))
    leader.write(b"a", index=0)
    cluster.run(6)
    assert follower.fetchers.failed == set()
    assert cluster.agree(0)


def test_a_topic_that_was_made_again_is_watched() -> None:
    watches = FetchWatches()
    watch = FetchWatch(watches)
    topic_partition = TopicPartition("t", 0)
    old, new = (PartitionFetch(topic_partition, bytes([number] * 16), 0, 0, 1) for number in range(2))
    watch.add(old)
    watch.add(new)  # as a session does: it adds first
    watch.remove(old)
    assert watch.take() == [new]
    watches.changed([topic_partition])
    assert watch.take() == [new]


def test_a_partition_that_comes_and_goes_has_one_turn() -> None:
    watch = FetchWatch(FetchWatches())
    first, second = (PartitionFetch(TopicPartition("t", index), bytes(16), index, 0, 1) for index in range(2))
    watch.add(first)
    for _ in range(READ_IN_TURN):
        watch.add(second)
        watch.remove(second)
    watch.add(second)
    assert watch.take_in_turn(()) == [first, second]


class Stalled:
    """An append that holds a partition's lock, on a thread of its own, until it is let go."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._holds = threading.Event()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._hold)

    def _hold(self) -> None:
        with self._partition._lock:
            self._holds.set()
            self._is_over.wait(30)

    def __enter__(self) -> None:
        self._thread.start()
        assert self._holds.wait(30)

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(30)


def test_a_stalled_disk_delays_its_own_partitions_only(cluster: Cluster) -> None:
    thread, done = waiting(cluster, 3)
    leader = cluster.members[1]
    with Stalled(leader.partition(0)):
        leader.write(b"healthy", index=1)
        thread.step(done.result(0))
        done = cluster.deliver(thread)
        assert leader.partition(1).log.high_watermark == 1
        cluster.advance_ms(LIMITS.max_wait_ms)
        leader.scheduler.run_due()  # isr-expiration looks at all
        thread.step(done.result(0))
    cluster.run(4)
    leader.write(b"a", index=0)
    cluster.run(4)
    assert cluster.agree(0)
    assert cluster.agree(1)


def test_what_a_follower_says_while_the_disk_stalls_counts_afterwards(cluster: Cluster) -> None:
    thread, done = waiting(cluster, 2)
    leader = cluster.members[1]
    produced = leader.write(b"a", acks=-1, index=0)
    with Stalled(leader.partition(0)):
        thread.step(done.result(0))
        done = cluster.deliver(thread)
        assert not produced.done()
    cluster.advance_ms(LIMITS.max_wait_ms)
    thread.step(done.result(0))
    cluster.deliver(thread)
    assert produced.done()


def test_an_answered_fetch_does_not_end_the_wait_of_the_next_one() -> None:
    """The next one begins to wait while the end of the first is under way."""
    watches = FetchWatches()
    watch = FetchWatch(watches)
    changed = TopicPartition("t", 0)
    watch.add(PartitionFetch(changed, b"", 0, 0, 1))
    heard: list[TopicPartition] = []
    next_fetch = threading.Thread(target=lambda: watch.wait(heard.append))

    class First:
        def __call__(self, topic_partition: TopicPartition) -> None:
            raise AssertionError("it is answered")

        def __eq__(self, other: object) -> bool:
            next_fetch.start()
            next_fetch.join(0.05)  # it waits for the end, if it must
            return self is other

        def __hash__(self) -> int:
            return 0

    first = First()
    watch.wait(first)
    watch.wait_no_more(first)
    next_fetch.join(30)
    watches.changed([changed])
    assert heard == [changed]


def test_a_watch_may_come_and_go_while_a_change_is_told() -> None:
    partition = TopicPartition("a", 0)
    watches = FetchWatches()
    told: list[int] = []
    all_watches = [FetchWatch(watches) for _ in range(3)]

    def listen(number: int) -> None:
        def changed(_: TopicPartition) -> None:
            told.append(number)
            all_watches[2].close()

        watch = all_watches[number]
        watch.add(PartitionFetch(partition, bytes(16), 0, 0, 1))
        watch.wait(changed)

    for number in range(3):
        listen(number)
    watches.changed([partition])
    assert told == [0, 1]
    assert len(watches) == 1
    for watch in all_watches:
        watch.close()
    assert len(watches) == 0
