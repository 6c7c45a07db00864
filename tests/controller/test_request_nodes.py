"""Nodes below /admin with which tools older than Kafka 2.4 ask for reassignments and preferred leaders."""

import json
from typing import Any

import pytest

from tests.support.cases import case
from tests.support.controller_cluster import Cluster
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.znodes import PartitionStateNode, TopicNode
from twisted_kafka.protocol.topic_partition import TopicPartition

REASSIGN = znodes.REASSIGN_PARTITIONS
PREFERRED = znodes.PREFERRED_ELECTION


def reassignment(**replicas: list[int]) -> bytes:
    """Return a node as kafka-reassign-partitions of Kafka 2.3 makes it, for partition 0 of each topic."""
    partitions = [{"topic": topic, "partition": 0, "replicas": each} for topic, each in replicas.items()]
    return json.dumps({"version": 1, "partitions": partitions}).encode()


def set_isr(cluster: Cluster, topic: str, isr: list[int]) -> None:
    """Change the in-sync replicas as a leader before Kafka 2.7 does."""
    state = cluster.state(topic)._replace(isr=isr)
    cluster.store.set(znodes.state_path(TopicPartition(topic, 0)), state.encode())
    notice = json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0}]}).encode()
    cluster.store.create(znodes.ISR_CHANGE_PREFIX, notice, sequence=True)
    cluster.pump()


def replicas(cluster: Cluster, topic: str) -> list[int]:
    return TopicNode.decode(cluster.store.get(znodes.topic_path(topic))[0]).partitions[0]


def requested(cluster: Cluster) -> Any:
    found = cluster.store.get(REASSIGN)
    return found and {each["topic"]: each["replicas"] for each in json.loads(found[0])["partitions"]}


def two_topics(cluster: Cluster) -> None:
    cluster.start(1, 2, 3)
    cluster.make_topic("a", [1, 2], topic_id=b"a" * 16)
    cluster.make_topic("b", [2], topic_id=b"b" * 16)


@pytest.mark.medium
def test_reassignments_in_a_node_are_made_and_removed_one_by_one(cluster: Cluster) -> None:
    two_topics(cluster)
    cluster.store.create(REASSIGN, reassignment(a=[3, 2], b=[3], none=[1]))
    cluster.pump()
    assert replicas(cluster, "a") == [3, 2, 1]
    assert requested(cluster) == {"a": [3, 2], "b": [3]}, "a topic that does not exist does not hold up the others"
    set_isr(cluster, "b", [2, 3])
    assert replicas(cluster, "b") == [3]
    assert requested(cluster) == {"a": [3, 2]}
    set_isr(cluster, "a", [1, 2, 3])
    assert replicas(cluster, "a") == [3, 2]
    assert cluster.store.exists(REASSIGN) is None
    cluster.store.create(REASSIGN, reassignment(a=[3, 2]))
    cluster.pump()
    assert cluster.store.exists(REASSIGN) is None, "there was nothing to do"


def test_a_new_controller_takes_up_what_nodes_ask_for(cluster: Cluster) -> None:
    two_topics(cluster)
    cluster.store.create(REASSIGN, reassignment(a=[3]))
    cluster.pump()
    cluster.restart()
    cluster.store.create(PREFERRED, b'{"version":1,"partitions":[]}')
    cluster.start(1, 2, 3)
    assert requested(cluster) == {"a": [3]}
    assert cluster.store.exists(PREFERRED) is None
    set_isr(cluster, "a", [1, 2, 3])
    assert (replicas(cluster, "a"), requested(cluster)) == ([3], None)


def test_a_reassignment_in_a_node_that_is_overtaken_leaves_it(cluster: Cluster) -> None:
    two_topics(cluster)
    cluster.store.create(REASSIGN, reassignment(a=[3], b=[3]))
    cluster.pump()
    (partition,) = [each for each in cluster.controller.context.all_partitions() if each.topic == "a"]
    assert cluster.controller.reassignments.alter({partition: None}) == {partition: None}
    assert requested(cluster) == {"b": [3]}
    cluster.store.create(znodes.delete_topic_path("b"))
    cluster.pump()
    assert requested(cluster) is None


def test_preferred_leaders_are_elected_as_a_node_asks(cluster: Cluster) -> None:
    two_topics(cluster)
    cluster.store.set(
        znodes.state_path(TopicPartition("a", 0)),
        PartitionStateNode(leader=2, leader_epoch=5, isr=[2, 1], controller_epoch=1).encode(),
    )
    set_isr(cluster, "a", [2, 1])
    partitions = [{"topic": topic, "partition": 0} for topic in ("a", "b", "none")]
    cluster.store.create(PREFERRED, json.dumps({"version": 1, "partitions": partitions}).encode())
    cluster.pump()
    assert (cluster.state("a").leader, cluster.state("a").leader_epoch) == (1, 6)
    assert cluster.store.exists(PREFERRED) is None


@pytest.mark.parametrize("data", [b"", b"{", b'{"version":1}', b'{"version":1,"partitions":[{"topic":"a"}]}'])
def test_a_node_that_cannot_be_read_harms_nobody(cluster: Cluster, data: bytes) -> None:
    two_topics(cluster)
    for path in (REASSIGN, PREFERRED):
        with case(path=path):
            cluster.store.create(path, data)
            cluster.pump()
            assert replicas(cluster, "a") == [1, 2]
    assert requested_data(cluster) == data, "whoever made it may want to read it"
    assert cluster.store.exists(PREFERRED) is None
    cluster.restart()
    cluster.start(1, 2, 3)
    assert cluster.controller.is_active


def requested_data(cluster: Cluster) -> bytes:
    data: bytes = cluster.store.get(REASSIGN)[0]
    return data
