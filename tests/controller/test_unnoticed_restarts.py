"""A broker restarts and is back before any controller has noticed: it may have lost records with the power."""

from tests.support.controller_cluster import Cluster
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.znodes import PartitionStateNode
from twisted_kafka.protocol.messages.inter_broker import LeaderAndIsrRequest


def restart_unnoticed(cluster: Cluster, *brokers: int) -> None:
    """End the controller's term, restart brokers, and let the next term begin."""
    cluster.store.delete(znodes.CONTROLLER)
    for each in brokers:
        cluster.kill(each)
        cluster.register(each)
    cluster.brokers.sent.clear()
    cluster.pump()
    assert cluster.controller.epoch == 2


def leaders_sent(cluster: Cluster, broker: int) -> list[tuple[int, int]]:
    """Return the leaders, with their epochs, that a broker has heard of."""
    return [
        (state.leader, state.leader_epoch)
        for to, request in cluster.brokers.take(LeaderAndIsrRequest)
        if to == broker
        for topic in request.topic_states
        for state in topic.partition_states
    ]


def test_a_leader_that_has_restarted_gives_way_before_anybody_hears_of_it(cluster: Cluster) -> None:
    cluster.start(1, 2, 3)
    cluster.make_topic("t", [2, 3, 1])
    restart_unnoticed(cluster, 2)
    assert cluster.state("t") == PartitionStateNode(leader=3, leader_epoch=1, isr=[3, 1], controller_epoch=2)
    assert set(leaders_sent(cluster, 2)) == {(3, 1)}


def test_a_follower_that_has_restarted_is_not_in_sync(cluster: Cluster) -> None:
    cluster.start(1, 2, 3)
    cluster.make_topic("t", [2, 3, 1])
    restart_unnoticed(cluster, 3)
    assert cluster.state("t") == PartitionStateNode(leader=2, leader_epoch=1, isr=[2, 1], controller_epoch=2)


def test_the_next_leader_is_one_that_has_not_restarted(cluster: Cluster) -> None:
    cluster.start(1, 2, 3)
    cluster.make_topic("t", [2, 3, 1])
    cluster.store.delete(znodes.CONTROLLER)
    cluster.kill(2)
    cluster.kill(3)
    cluster.register(3)
    cluster.pump()
    assert cluster.state("t") == PartitionStateNode(leader=1, leader_epoch=1, isr=[1], controller_epoch=2)


def test_a_leader_leads_in_a_new_epoch_if_all_have_restarted(cluster: Cluster) -> None:
    cluster.start(1, 2, 3)
    cluster.make_topic("t", [2, 3, 1])
    restart_unnoticed(cluster, 1, 2, 3)
    assert cluster.state("t") == PartitionStateNode(leader=2, leader_epoch=1, isr=[2, 3, 1], controller_epoch=2)
    assert set(leaders_sent(cluster, 3)) == {(2, 1)}


def test_the_only_replica_leads_in_the_same_epoch(cluster: Cluster) -> None:
    cluster.start(1, 2)
    cluster.make_topic("t", [2])
    restart_unnoticed(cluster, 2)
    assert cluster.state("t") == PartitionStateNode(leader=2, leader_epoch=0, isr=[2], controller_epoch=1)


def test_a_restart_that_a_controller_has_noticed_does_not_count_again(cluster: Cluster) -> None:
    cluster.start(1, 2, 3)
    cluster.make_topic("t", [2, 3, 1])
    cluster.kill(2)
    cluster.register(2)
    cluster.pump()
    noticed = cluster.state("t")
    assert (noticed.leader, noticed.isr) == (3, [3, 1])
    restart_unnoticed(cluster)
    assert cluster.state("t") == noticed


def test_a_topic_that_is_being_deleted_gets_no_leader(cluster: Cluster) -> None:
    cluster.start(1, 2, 3)
    cluster.make_topic("t", [2, 1])
    cluster.store.create(znodes.delete_topic_path("t"))
    restart_unnoticed(cluster, 2)
    assert cluster.store.get(znodes.topic_path("t")) is None
