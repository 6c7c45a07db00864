"""Leaderships go back to the replicas that are preferred, where too many are elsewhere."""

import pytest

from tests.support.controller_cluster import Cluster
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.znodes import PartitionStateNode
from twisted_kafka.protocol.topic_partition import TopicPartition


def led_elsewhere(cluster: Cluster, partitions: int = 10, moved: int = 2) -> None:
    """Broker 2 is preferred by all partitions; broker 1 leads some of them, where both are in sync."""
    cluster.start(1, 2)
    cluster.make_topic("t", *[[2, 1]] * partitions)
    for index in range(moved):
        state = PartitionStateNode(leader=1, leader_epoch=5, isr=[1, 2], controller_epoch=1)
        cluster.store.set(znodes.state_path(TopicPartition("t", index)), state.encode())
    cluster.controller.shutdown()
    cluster.store.delete(znodes.CONTROLLER)
    cluster.store.close()
    cluster.open()
    cluster.start(1, 2)


def balance(cluster: Cluster) -> None:
    cluster.controller.balance_leaders()
    cluster.pump()


def leaders(cluster: Cluster) -> list[int]:
    return [leadership.leader for _, leadership in sorted(cluster.controller.context.leaderships.items())]


def test_more_than_the_limit_are_given_back(cluster: Cluster) -> None:
    led_elsewhere(cluster)
    assert leaders(cluster) == [1, 1] + [2] * 8
    balance(cluster)
    assert leaders(cluster) == [2] * 10
    # Both have restarted, so the leader of epoch 5 began another one.
    assert cluster.state("t") == PartitionStateNode(leader=2, leader_epoch=7, isr=[1, 2], controller_epoch=cluster.controller.epoch)


def test_so_few_stay_where_they_are(cluster: Cluster) -> None:
    led_elsewhere(cluster, moved=1)
    balance(cluster)
    assert leaders(cluster) == [1] + [2] * 9


def test_it_can_be_switched_off(cluster: Cluster) -> None:
    led_elsewhere(cluster)
    cluster.restart(auto_leader_rebalance_enable="false")
    cluster.start(1, 2)
    balance(cluster)
    assert leaders(cluster) == [1, 1] + [2] * 8


@pytest.mark.parametrize("why", ["not in sync", "about to stop", "being reassigned"])
def test_what_the_preferred_replica_cannot_lead_stays(cluster: Cluster, why: str) -> None:
    led_elsewhere(cluster, 1, 1)
    context = cluster.controller.context
    partition = TopicPartition("t", 0)
    if why == "about to stop":
        context.shutting_down.add(2)
    elif why == "not in sync":
        context.leaderships[partition] = context.leaderships[partition]._replace(isr=[1])
    else:
        context.assignments["t"][0] = context.assignment(partition).reassigned_to([2, 3])
    balance(cluster)
    assert leaders(cluster) == [1]


def test_partitions_without_a_leader_are_tried_again(cluster: Cluster) -> None:
    cluster.start(1, 2)
    cluster.make_topic("t", [2])
    cluster.kill(2)
    cluster.pump()
    assert leaders(cluster) == [-1]
    cluster.register(2)
    cluster.controller.context.brokers, _ = cluster.controller._live_brokers()  # as if the election had failed then
    cluster.brokers.reachable.add(2)
    balance(cluster)
    assert leaders(cluster) == [2]


def test_a_controller_says_when_it_is_elected(cluster: Cluster) -> None:
    elected: list[int] = []
    cluster.controller.set_elected_listener(lambda: elected.append(cluster.controller.epoch))
    cluster.start()
    assert elected == [1]
