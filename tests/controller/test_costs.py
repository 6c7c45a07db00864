"""What events of the controller cost: it follows what changed, not what exists."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.controller_cluster import Cluster
from twisted_kafka.controller.context.context import ReplicaAssignment
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.znodes import TopicNode
from twisted_kafka.protocol.errors import UnknownTopicOrPartitionError
from twisted_kafka.protocol.topic_partition import TopicPartition


class Counted:
    """A function that counts its calls."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.calls = 0

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        return self._function(*args)

    def take(self) -> int:
        calls, self.calls = self.calls, 0
        return calls


@pytest.mark.medium
@pytest.mark.parametrize("topics", [1, 3])
def test_all_partitions_without_a_leader_are_asked_for_together(cluster: Cluster, topics: int) -> None:
    cluster.start(1, 2)
    for topic in range(topics):
        cluster.make_topic(f"t{topic}", *[[2]] * 20)
    cluster.kill(2)
    cluster.pump()
    cluster.store.get_many = reads = Counted(cluster.store.get_many)
    cluster.controller.elect_for_offline()
    cluster.pump()
    assert reads.calls == 2, "their states, and whether their topics allow replicas that are not in sync"


def test_a_topic_allows_replicas_that_are_not_in_sync_for_itself_alone(cluster: Cluster) -> None:
    cluster.start(1, 2)
    for topic in ("safe", "available"):
        cluster.make_topic(topic, [2, 1], topic_id=topic.encode().ljust(16))
    cluster.configs.write("topics/available", {"unclean.leader.election.enable": "true"})
    cluster.kill(1)
    cluster.pump()
    cluster.kill(2)
    cluster.register(1)
    cluster.pump()
    assert (cluster.state("available").leader, cluster.state("safe").leader) == (1, -1)


def test_new_partitions_do_not_look_at_their_topic_one_by_one(cluster: Cluster) -> None:
    cluster.start(1)
    context = cluster.controller.context
    context.partitions = lists = Counted(context.partitions)  # type: ignore[assignment]
    cluster.make_topic("small", [1])
    few = lists.take()
    cluster.make_topic("large", *[[1]] * 50, topic_id=b"l" * 16)
    assert lists.take() == few
    assert cluster.state("large", 49).leader == 1


@pytest.mark.parametrize("count", [1, 20])
def test_the_nodes_of_new_partitions_are_written_once_and_together(cluster: Cluster, count: int) -> None:
    cluster.start(1)
    cluster.store.batch = writes = Counted(cluster.store.batch)
    cluster.make_topic("t", *[[1]] * count)
    assert writes.take() == 1
    found = cluster.store.get(znodes.topic_path("t"))
    assert found is not None
    node = TopicNode.decode(found[0])
    larger = node._replace(partitions={**node.partitions, count: [1]})
    cluster.store.set(znodes.topic_path("t"), larger.encode())
    cluster.pump()
    assert writes.take() == 1
    assert [cluster.state("t", partition).leader for partition in range(count + 1)] == [1] * (count + 1)


def test_reassignments_that_are_not_there_cost_nothing(cluster: Cluster) -> None:
    cluster.start(1, 2)
    cluster.make_topic("t", *[[1, 2]] * 30)
    context = cluster.controller.context
    context.assignment = looks = Counted(context.assignment)  # type: ignore[assignment]
    cluster.controller.reassignments.resume([TopicPartition("t", 0)])
    assert looks.calls == 0
    assert cluster.controller.reassignments.under_way() == {}


def test_a_reassignment_is_known_until_it_ends(cluster: Cluster) -> None:
    cluster.start(1, 2, 3)
    cluster.make_topic("t", [1, 2], [1, 2])
    reassignments = cluster.controller.reassignments
    partition = TopicPartition("t", 1)
    assert reassignments.alter({partition: [1, 3]}) == {partition: None}
    assert reassignments.under_way() == {partition: ReplicaAssignment([1, 3, 2], [3], [2])}
    assert reassignments.alter({partition: None}) == {partition: None}
    assert reassignments.under_way() == {}
    reassignments.alter({partition: [1, 3]})
    cluster.store.create(znodes.delete_topic_path("t"))
    cluster.pump()
    assert reassignments.under_way() == {}, "the topic is gone"


@pytest.mark.parametrize("count", [1, 20])
def test_partitions_of_a_topic_are_reassigned_together(cluster: Cluster, count: int) -> None:
    cluster.start(1, 2, 3)
    cluster.make_topic("t", *[[1, 2]] * count)
    reassignments = cluster.controller.reassignments
    partitions = [TopicPartition("t", index) for index in range(count)]
    cluster.store.multi = writes = Counted(cluster.store.multi)
    assert reassignments.alter({each: [2, 3] for each in partitions}) == dict.fromkeys(partitions)
    assert writes.take() == 1, "a topic's node lists all of its partitions"
    assert reassignments.alter(dict.fromkeys(partitions)) == dict.fromkeys(partitions)
    assert writes.take() == 2, "the beginning and the end of the way back"
    found = cluster.store.get(znodes.topic_path("t"))
    assert found is not None
    node = TopicNode.decode(found[0])
    assert (node.partitions, node.adding_replicas, node.removing_replicas) == ({index: [2, 1] for index in range(count)}, {}, {})


def test_a_topic_that_is_gone_does_not_keep_others_from_being_reassigned(cluster: Cluster) -> None:
    cluster.start(1, 2, 3)
    cluster.make_topic("gone", [1, 2])
    cluster.make_topic("t", [1, 2], topic_id=b"s" * 16)
    gone, staying = TopicPartition("gone", 0), TopicPartition("t", 0)
    cluster.store.delete(znodes.topic_path("gone"), recursive=True)
    results = cluster.controller.reassignments.alter({gone: [2, 3], staying: [2, 3]})
    assert isinstance(results[gone], UnknownTopicOrPartitionError)
    assert results[staying] is None
    assert set(cluster.controller.reassignments.under_way()) == {staying}
