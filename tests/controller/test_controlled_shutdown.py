from concurrent.futures import Future
from typing import Any

import pytest

from tests.support.controller_cluster import Cluster
from twisted_kafka.controller.controller_metrics import ControllerState
from twisted_kafka.metadata.znodes import PartitionStateNode
from twisted_kafka.protocol.errors import BrokerNotAvailableError, StaleBrokerEpochError
from twisted_kafka.protocol.messages.inter_broker import LeaderAndIsrRequest, StopReplicaRequest
from twisted_kafka.protocol.topic_partition import TopicPartition


def begin(cluster: Cluster, broker: int, epoch: int = -1) -> Future[Any]:
    future = cluster.controller.run(
        lambda: cluster.controller.controlled_shutdown.begin(broker, epoch), ControllerState.CONTROLLED_SHUTDOWN
    )
    cluster.pump()
    return future


def test_leaderships_move_and_followers_leave_the_isr(cluster: Cluster) -> None:
    cluster.start(1, 2)
    cluster.make_topic("t", [2, 1], [1, 2])
    cluster.brokers.sent.clear()
    assert begin(cluster, 2, cluster.store.exists("/brokers/ids/2").czxid).result(0) == []
    assert cluster.state("t") == PartitionStateNode(leader=1, leader_epoch=1, isr=[1], controller_epoch=1)
    assert cluster.state("t", 1) == PartitionStateNode(leader=1, leader_epoch=1, isr=[1], controller_epoch=1)
    told = [broker for broker, _ in cluster.brokers.take(LeaderAndIsrRequest)]
    assert 2 in told, "the broker itself hears that it leads no more"
    assert 2 in [broker for broker, _ in cluster.brokers.take(StopReplicaRequest)]


def test_what_nobody_else_can_lead_remains(cluster: Cluster) -> None:
    cluster.start(1, 2)
    cluster.make_topic("t", [2, 1], [2])
    context = cluster.controller.context
    context.offline_replicas.add((TopicPartition("t", 0), 1))
    assert begin(cluster, 2).result(0) == [TopicPartition("t", 0)]


def test_new_topics_keep_away_from_a_broker_that_is_about_to_stop(cluster: Cluster) -> None:
    cluster.start(1, 2)
    begin(cluster, 2).result(0)
    cluster.make_topic("t", [2, 1])
    assert cluster.state("t").leader == 1


def test_unknown_and_restarted_brokers_are_refused(cluster: Cluster) -> None:
    cluster.start(1)
    with pytest.raises(BrokerNotAvailableError):
        begin(cluster, 9).result(0)
    with pytest.raises(StaleBrokerEpochError):
        begin(cluster, 1, 0).result(0)
    assert not cluster.controller.context.shutting_down
