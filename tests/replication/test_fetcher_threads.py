"""Which fetcher copies a partition, and the threads that fetchers work on."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from tests.replication.several import BACKOFF_MS, Cluster, Member
from tests.support.cases import case
from tests.support.replication_harness import TOPIC
from twisted_kafka.metadata.cache import Node
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.fetching.replica_fetcher_manager import IDLE_MS, fetcher_id
from twisted_kafka.replication.fetching.replica_fetcher_thread import Leader, ReplicaFetcherThread

TIMEOUT_MS = 30_000


class Client:
    """A client whose thread is this one: what is to run waits until the test runs it."""

    def __init__(self) -> None:
        self.actions: list[Callable[[], object]] = []
        self.sent: list[tuple[Node, Any, Future[Any]]] = []
        self.lines: list[int] = []
        self.is_broken = False
        self.is_stopped = False

    def send(
        self, node: Node, request: Any, latest_version: int | None = None, timeout_ms: int | None = None, line: int = 0
    ) -> "Future[Any]":
        assert timeout_ms == TIMEOUT_MS
        self.lines.append(line)
        request.encode(latest_version)
        future: Future[Any] = Future()
        self.sent.append((node, request, future))
        return future

    def run(self, action: Callable[[], object]) -> None:
        if self.is_broken:
            raise ValueError("there is no certificate")
        self.actions.append(action)

    def refresh(self) -> None: ...

    def stop(self) -> None:
        self.is_stopped = True

    def pump(self) -> None:
        while self.actions:
            self.actions.pop(0)()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.close()


@pytest.fixture
def follower(cluster: Cluster) -> Member:
    cluster.create()
    return cluster.members[2]


def test_partitions_are_spread_as_apache_kafka_does() -> None:
    for topic, partition, count, expected in (
        ("a", 0, 2, 1),  # 31 * 97
        ("a", 1, 2, 0),
        ("ab", 0, 7, 31 * 3105 % 7),
        ("polygenelubricants", 0, 5, 0),  # the smallest integer, which has no absolute value
        ("polygenelubricants", 1, 5, 2147483647 % 5),
    ):
        with case(topic=topic, partition=partition, count=count):
            assert fetcher_id(TopicPartition(topic, partition), count) == expected


def test_other_numbers_of_fetchers_share_the_partitions_anew(cluster: Cluster) -> None:
    for index in range(4):
        cluster.create(index)
    leader, follower = cluster.members.values()
    assert len(follower.threads) == 1
    follower.fetchers.resize(2)
    assert sorted(thread.fetcher.count for thread in follower.threads) == [2, 2]
    for index in range(4):
        leader.write(b"a", index=index)
    cluster.run(6)
    assert all(cluster.agree(index) for index in range(4))
    follower.fetchers.resize(1)
    assert [thread.fetcher.count for thread in follower.threads] == [4]


def test_a_fetcher_without_partitions_ends(cluster: Cluster, follower: Member) -> None:
    assert [thread.leader_id for thread in follower.threads] == [1]
    cluster.elect(2)
    cluster.advance_ms(IDLE_MS)
    assert follower.threads == []
    cluster.elect(1)
    assert [thread.leader_id for thread in follower.threads] == [1]


def test_the_end_of_an_idle_fetcher_is_scheduled_once(cluster: Cluster, follower: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when many partitions are stopped, one by one."""
    scheduled: list[str] = []
    real = follower.scheduler.schedule_once

    def schedule_once(name: str, *rest: Any) -> Any:
        scheduled.append(name)
        return real(name, *rest)

    monkeypatch.setattr(follower.scheduler, "schedule_once", schedule_once)
    for _ in range(2):
        cluster.elect(2)
        for index in range(5):
            follower.fetchers.stop_following([TopicPartition(TOPIC, index)])
        assert scheduled.count("shutdown-idle-fetchers") == 1
        cluster.advance_ms(IDLE_MS)
        assert follower.threads == []
        cluster.elect(1)
        scheduled.clear()


def test_the_lag_of_a_partition_is_a_metric_while_it_is_followed(cluster: Cluster, follower: Member) -> None:
    tags: dict[str, Any] = {"clientId": "ReplicaFetcherThread-0-1", "topic": TOPIC, "partition": 0}
    cluster.members[1].write(b"a", b"b")
    cluster.run(2)
    assert follower.metrics.value("FetcherLagMetrics", "ConsumerLag", **tags) == 0
    assert follower.fetchers.max_lag == 0
    assert "ConsumerLag" in {name.name for name, _ in follower.metrics.items()}
    cluster.elect(2)
    assert "ConsumerLag" not in {name.name for name, _ in follower.metrics.items()}


def test_what_failed_is_tried_at_once_when_the_metadata_say_more(cluster: Cluster, follower: Member) -> None:
    cluster.run(2)
    cluster.is_reachable = lambda _from, _to: False
    cluster.run(2)
    cluster.is_reachable = lambda _from, _to: True
    cluster.members[1].write(b"a")
    follower.fetchers.metadata_changed()
    (thread,) = follower.threads
    assert thread.is_ready
    thread.step()
    assert thread.request is not None


class TestThread:
    NODE = Node(1, "leader", 9092, None)

    @pytest.fixture
    def client(self) -> Client:
        return Client()

    @pytest.fixture
    def thread(self, cluster: Cluster, follower: Member, client: Client) -> ReplicaFetcherThread:
        self.node: Node | None = self.NODE
        leader = Leader(1, lambda: self.node)
        thread = ReplicaFetcherThread(
            leader, client, follower.timer, follower.scheduler, timeout_ms=TIMEOUT_MS, retry_ms=BACKOFF_MS
        )
        fetcher = follower.threads[0].fetcher
        fetcher._wake = thread.wake
        thread.run(fetcher)
        return thread

    def test_it_works_when_woken_and_goes_on_with_each_answer(
        self, thread: ReplicaFetcherThread, client: Client, cluster: Cluster
    ) -> None:
        client.pump()
        assert client.sent == []
        thread.wake()
        client.pump()
        ((node, request, answer),) = client.sent
        assert (node, request.session_epoch) == (self.NODE, 0)
        answer.set_exception(ConnectionError("gone"))
        assert len(client.sent) == 1
        cluster.advance_ms(BACKOFF_MS)
        client.pump()
        assert len(client.sent) == 2
        thread.wake()
        client.pump()
        assert len(client.sent) == 2, "one request at a time"

    def test_a_leader_without_an_address_is_tried_again(
        self, thread: ReplicaFetcherThread, client: Client, cluster: Cluster
    ) -> None:
        self.node = None
        thread.wake()
        client.pump()
        self.node = self.NODE
        assert client.sent == []
        cluster.advance_ms(BACKOFF_MS)
        client.pump()
        assert len(client.sent) == 1

    def test_a_client_that_cannot_be_made_is_tried_again(
        self, thread: ReplicaFetcherThread, client: Client, cluster: Cluster
    ) -> None:
        client.is_broken = True
        thread.wake()
        client.is_broken = False
        cluster.advance_ms(BACKOFF_MS)
        client.pump()
        assert len(client.sent) == 1

    def test_nothing_is_sent_once_it_is_stopped(self, thread: ReplicaFetcherThread, client: Client, cluster: Cluster) -> None:
        thread.wake()
        client.pump()
        thread.stop()
        client.sent[0][2].set_exception(ConnectionError("closed"))
        cluster.advance_ms(10 * BACKOFF_MS)
        thread.wake()
        client.pump()
        assert (len(client.sent), client.is_stopped) == (1, True)

    def test_a_fetch_that_waits_is_overtaken_over_another_connection(
        self, thread: ReplicaFetcherThread, client: Client, cluster: Cluster
    ) -> None:
        leader = cluster.members[1]
        thread.wake()
        client.pump()

        def answer(sent: int) -> Any:
            _, request, _ = client.sent[sent]
            return leader.decoded(type(request), leader.start(request, 17), 17)

        client.sent[0][2].set_result(answer(0))
        assert [request.session_epoch for _, request, _ in client.sent] == [0, 1]
        thread.wake()
        client.pump()
        assert len(client.sent) == 2, "there is nothing that it does not have"
        for index in (1, 2):
            cluster.create(index)
            thread.wake()
            client.pump()
        assert client.lines == [0, 0, 1], "the second one overtakes, the third one waits for the first one's end"
        leader.start(client.sent[1][1], 17)
        client.sent[1][2].set_exception(ConnectionError("gone"))
        assert client.lines == [0, 0, 1, 0], "now the third one overtakes"
        leader.start(client.sent[2][1], 17)
        leader.write(b"a", index=1)
        client.sent[3][2].set_result(answer(3))
        assert (client.lines, client.sent[4][1].session_epoch) == ([0, 0, 1, 0, 0], 4)
