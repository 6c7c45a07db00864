"""Elections and reassignments by order of clients, through the controller, in a cluster of fake brokers."""

from concurrent.futures import Future
from typing import Any

import pytest

from tests.support.controller_cluster import Cluster
from twisted_kafka.admin.partitions import PartitionAdmin
from twisted_kafka.admin.topic_waits import TopicWaits
from twisted_kafka.controller.context.context import ReplicaAssignment
from twisted_kafka.controller.machines.leader_elections import ElectionType
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.metadata.znodes import PartitionStateNode, TopicNode, state_path
from twisted_kafka.protocol.errors import ErrorCode, NotControllerError
from twisted_kafka.protocol.messages.inter_broker import StopReplicaRequest
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.timing.timer import Timer

T0 = TopicPartition("t", 0)


@pytest.fixture
def admin(cluster: Cluster) -> PartitionAdmin:
    timer = Timer(cluster.clock)
    return PartitionAdmin(cluster.brokers.cache, cluster.controller, TopicWaits(cluster.brokers.cache, cluster.clock, timer))


def asked(cluster: Cluster, future: Future[Any]) -> Any:
    cluster.pump()
    return future.result(0)


def elect(
    cluster: Cluster,
    admin: PartitionAdmin,
    partitions: list[TopicPartition] | None,
    election: ElectionType = ElectionType.PREFERRED,
) -> dict[tuple[str, int], ErrorCode]:
    outcomes = asked(cluster, admin.elect_leaders(partitions, election, 1000))
    return {(each.name, each.partition): each.error for each in outcomes}


def set_isr(cluster: Cluster, partition: TopicPartition, leader: int, isr: list[int]) -> None:
    path = state_path(partition)
    node = PartitionStateNode.decode(cluster.store.get(path)[0])
    changed = PartitionStateNode(leader=leader, leader_epoch=node.leader_epoch, isr=isr, controller_epoch=node.controller_epoch)
    cluster.store.set(path, changed.encode())
    notice = b'{"version":1,"partitions":[{"topic":"%s","partition":%d}]}' % (partition.topic.encode(), partition.partition)
    cluster.store.create(znodes.ISR_CHANGE_PREFIX, notice, sequence=True)
    cluster.pump()


def test_the_preferred_replica_leads_again_after_its_broker_is_back(cluster: Cluster, admin: PartitionAdmin) -> None:
    cluster.start(1, 2)
    cluster.make_topic("t", [1, 2])
    cluster.kill(1)
    cluster.pump()
    assert cluster.state("t").leader == 2
    assert elect(cluster, admin, [T0]) == {("t", 0): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
    cluster.register(1)
    cluster.pump()
    set_isr(cluster, T0, leader=2, isr=[2, 1])
    assert elect(cluster, admin, [T0]) == {("t", 0): ErrorCode.NONE}
    assert cluster.state("t").leader == 1
    assert elect(cluster, admin, [T0]) == {("t", 0): ErrorCode.ELECTION_NOT_NEEDED}


def test_an_election_in_all_partitions_tells_of_those_that_had_one(cluster: Cluster, admin: PartitionAdmin) -> None:
    cluster.start(1, 2)
    cluster.make_topic("t", [1, 2], [1])
    set_isr(cluster, T0, leader=2, isr=[2, 1])
    assert elect(cluster, admin, None) == {("t", 0): ErrorCode.NONE}


def test_an_election_in_many_partitions_of_a_topic_looks_at_each_a_few_times(
    cluster: Cluster, admin: PartitionAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.start(1, 2)
    partitions = [TopicPartition("t", number) for number in range(30)]
    cluster.make_topic("t", *[[1, 2] for _ in partitions])
    for partition in partitions:
        set_isr(cluster, partition, leader=2, isr=[2, 1])
    looked_up = []
    partition_of = MetadataCache.partition
    monkeypatch.setattr(MetadataCache, "partition", lambda cache, key: looked_up.append(key) or partition_of(cache, key))
    assert list(elect(cluster, admin, partitions).values()) == [0] * len(partitions)
    assert set(looked_up) == set(partitions)
    assert len(looked_up) <= 4 * len(partitions)


def test_unknown_partitions_and_topics_being_deleted_have_no_election(cluster: Cluster, admin: PartitionAdmin) -> None:
    cluster.start()
    cluster.make_topic("t", [1])
    cluster.brokers.errors[1, "t"] = ErrorCode.KAFKA_STORAGE_ERROR
    cluster.store.create(znodes.delete_topic_path("t"))
    cluster.pump()
    unknown = TopicPartition("nowhere", 0)
    assert elect(cluster, admin, [T0, unknown]) == {
        ("t", 0): ErrorCode.INVALID_TOPIC_EXCEPTION,
        ("nowhere", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_an_unclean_election_takes_a_replica_that_was_not_in_sync(cluster: Cluster, admin: PartitionAdmin) -> None:
    cluster.start(1, 2)
    cluster.make_topic("t", [2, 1])
    set_isr(cluster, T0, leader=2, isr=[2])
    assert elect(cluster, admin, [T0], ElectionType.UNCLEAN) == {("t", 0): ErrorCode.ELECTION_NOT_NEEDED}
    cluster.kill(2)
    cluster.pump()
    assert cluster.state("t").leader == -1
    assert elect(cluster, admin, [T0], ElectionType.UNCLEAN) == {("t", 0): ErrorCode.NONE}
    assert (cluster.state("t").leader, cluster.state("t").isr) == (1, [1])


def test_nobody_elects_where_there_is_no_controller(cluster: Cluster, admin: PartitionAdmin) -> None:
    cluster.start()
    cluster.controller.shutdown()
    cluster.pump()
    with pytest.raises(NotControllerError):
        asked(cluster, admin.elect_leaders([T0], ElectionType.PREFERRED, 1000))


def alter(cluster: Cluster, admin: PartitionAdmin, targets: list[int] | None, partition: TopicPartition = T0) -> ErrorCode:
    error = asked(cluster, admin.alter_reassignments({partition: targets}))[partition]
    return ErrorCode.NONE if error is None else error.code


def node(cluster: Cluster) -> TopicNode:
    return TopicNode.decode(cluster.store.get(znodes.topic_path("t"))[0])


def test_a_partition_moves_once_its_new_replica_is_in_sync(cluster: Cluster, admin: PartitionAdmin) -> None:
    cluster.start(1, 2, 3)
    cluster.make_topic("t", [1, 2])
    assert alter(cluster, admin, [2, 3]) == ErrorCode.NONE
    under_way = node(cluster)
    assert (under_way.partitions[0], under_way.adding_replicas, under_way.removing_replicas) == ([2, 3, 1], {0: [3]}, {0: [1]})
    assert asked(cluster, admin.reassignments()) == {T0: ReplicaAssignment([2, 3, 1], [3], [1])}
    cluster.brokers.take(StopReplicaRequest)
    set_isr(cluster, T0, leader=1, isr=[1, 2, 3])
    done = node(cluster)
    assert (done.partitions[0], done.adding_replicas, done.removing_replicas) == ([2, 3], {}, {})
    assert (cluster.state("t").leader, sorted(cluster.state("t").isr)) == (2, [2, 3])
    stopped = {broker for broker, request in cluster.brokers.take(StopReplicaRequest) for _ in request.topic_states}
    assert stopped == {1}
    assert asked(cluster, admin.reassignments()) == {}


def test_a_cancelled_move_gives_back_the_replicas_there_were(cluster: Cluster, admin: PartitionAdmin) -> None:
    cluster.start(1, 2)
    cluster.make_topic("t", [1])
    assert alter(cluster, admin, [2]) == ErrorCode.NONE
    assert alter(cluster, admin, None) == ErrorCode.NONE
    assert (node(cluster).partitions[0], node(cluster).adding_replicas, node(cluster).removing_replicas) == ([1], {}, {})
    assert cluster.state("t").leader == 1
    assert alter(cluster, admin, None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_a_move_goes_on_under_the_next_controller(cluster: Cluster, admin: PartitionAdmin) -> None:
    cluster.start(1, 2)
    cluster.make_topic("t", [1])
    assert alter(cluster, admin, [2]) == ErrorCode.NONE
    cluster.restart()
    cluster.register(2)
    cluster.start()
    again = PartitionAdmin(
        cluster.brokers.cache, cluster.controller, TopicWaits(cluster.brokers.cache, cluster.clock, Timer(cluster.clock))
    )
    assert asked(cluster, again.reassignments()) == {T0: ReplicaAssignment([2, 1], [2], [1])}
    set_isr(cluster, T0, leader=1, isr=[1, 2])
    assert node(cluster).partitions[0] == [2]


@pytest.mark.parametrize(
    ("targets", "error"),
    [
        ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([-1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 9], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1], ErrorCode.NONE),
    ],
)
def test_targets_must_be_different_brokers_that_live(
    cluster: Cluster, admin: PartitionAdmin, targets: list[int | Any], error: ErrorCode
) -> None:
    cluster.start()
    cluster.make_topic("t", [1])
    assert alter(cluster, admin, targets) == error
    assert node(cluster).partitions[0] == [1]


def test_an_unknown_partition_cannot_move(cluster: Cluster, admin: PartitionAdmin) -> None:
    cluster.start()
    assert alter(cluster, admin, [1], TopicPartition("nowhere", 0)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
