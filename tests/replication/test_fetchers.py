"""What the fetchers of replicas are told as this broker's roles change, and when it stops."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.support.replication_harness import BROKER, OTHER, TOPIC, TP, Harness
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.partition.partition import Partition

BOTH = (BROKER, OTHER)
THIRD = 3
ALL = (BROKER, OTHER, THIRD)


class Fetchers:
    """Fetchers that know which leader each partition is fetched from."""

    def __init__(self) -> None:
        self.leaders: dict[TopicPartition, int] = {}
        self.started = 0
        self.is_shut_down = False

    def follow(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            assert partition.topic_partition not in self.leaders, "it is still fetched from the old leader"
            assert partition.leader_id != BROKER
            self.leaders[partition.topic_partition] = partition.leader_id
            self.started += 1

    def stop_following(self, topic_partitions: Iterable[TopicPartition]) -> None:
        for topic_partition in topic_partitions:
            self.leaders.pop(topic_partition, None)

    def shutdown(self) -> None:
        self.is_shut_down = True


@pytest.fixture
def h(tmp_path: Path) -> Harness:
    return Harness(tmp_path)


@pytest.fixture
def fetchers(h: Harness) -> Fetchers:
    fetchers = Fetchers()
    h.replicas.set_fetchers(fetchers)
    return fetchers


def test_a_followed_partition_is_fetched_from_its_leader(h: Harness, fetchers: Fetchers) -> None:
    h.order(leader=OTHER, replicas=ALL)
    h.order(partition=1, replicas=ALL)
    assert fetchers.leaders == {TP: OTHER}
    h.order(leader=THIRD, epoch=1, replicas=ALL, version=1)
    assert fetchers.leaders == {TP: THIRD}


def test_a_new_epoch_of_the_same_leader_starts_the_fetcher_again(h: Harness, fetchers: Fetchers) -> None:
    h.order(leader=OTHER, replicas=BOTH)
    h.order(leader=OTHER, epoch=1, replicas=BOTH, version=1)
    assert (fetchers.leaders, fetchers.started) == ({TP: OTHER}, 2)


def test_an_order_that_changes_neither_leader_nor_epoch_leaves_the_fetcher_alone(h: Harness, fetchers: Fetchers) -> None:
    h.order(leader=OTHER, replicas=BOTH)
    h.order(leader=OTHER, replicas=BOTH)
    h.order(leader=OTHER, replicas=ALL, version=1)
    assert (fetchers.leaders, fetchers.started) == ({TP: OTHER}, 1)


def test_the_leader_fetches_from_nobody(h: Harness, fetchers: Fetchers) -> None:
    h.order(leader=OTHER, replicas=BOTH)
    h.order(epoch=1, replicas=BOTH, version=1)
    assert fetchers.leaders == {}
    h.order(leader=OTHER, epoch=2, replicas=BOTH, version=2)
    assert fetchers.leaders == {TP: OTHER}


def test_a_broker_that_is_about_to_stop_follows_no_further_leader(h: Harness, fetchers: Fetchers) -> None:
    h.order(replicas=BOTH)
    h.order(leader=OTHER, partition=1, replicas=BOTH)
    h.replicas.state.leave()
    assert h.order(leader=OTHER, epoch=1, replicas=BOTH, isr=(OTHER,), version=1) == ErrorCode.NONE
    assert fetchers.leaders == {TopicPartition(TOPIC, 1): OTHER}


@pytest.mark.parametrize("delete", [True, False])
def test_a_stopped_replica_is_not_fetched(h: Harness, fetchers: Fetchers, delete: bool) -> None:
    h.order(leader=OTHER, replicas=BOTH)
    h.order(leader=OTHER, partition=1, replicas=BOTH)
    assert h.stop_replica(delete=delete) == ErrorCode.NONE
    assert fetchers.leaders == {TopicPartition(TOPIC, 1): OTHER}


def test_the_partitions_of_a_failed_directory_are_not_fetched(tmp_path: Path) -> None:
    h = Harness([tmp_path / "a", tmp_path / "b"])
    fetchers = Fetchers()
    h.replicas.set_fetchers(fetchers)
    for partition in range(2):
        h.order(leader=OTHER, partition=partition, replicas=BOTH)
    lost = h.replicas.partitions.get_or_raise(TP).log.parent
    h.replicas.directory_failed(lost)
    assert fetchers.leaders == {TopicPartition(TOPIC, 1): OTHER}


def test_the_fetchers_stop_with_the_broker(h: Harness, fetchers: Fetchers) -> None:
    h.order(leader=OTHER, replicas=BOTH)
    h.replicas.shutdown()
    assert fetchers.is_shut_down
