import functools
import json
from typing import Any

import pytest

from tests.support.controller_cluster import Cluster
from twisted_kafka.controller.context.states import PARTITION_SOURCES, REPLICA_SOURCES, PartitionStatus, ReplicaStatus
from twisted_kafka.controller.controller_metrics import ControllerState
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.registration import BrokerIdTakenError, cluster_id
from twisted_kafka.metadata.store import StoreDisconnectedError, StoreUnavailableError
from twisted_kafka.metadata.znodes import ClusterIdNode, ConfigNode, ControllerNode, PartitionStateNode, TopicNode
from twisted_kafka.metadata.znodes_admin import PartitionsNode
from twisted_kafka.protocol.errors import ErrorCode, NotControllerError
from twisted_kafka.protocol.messages.inter_broker import (
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from twisted_kafka.protocol.topic_partition import TopicPartition

T0 = TopicPartition("t", 0)


def test_the_first_start_makes_the_controller_of_epoch_one(cluster: Cluster) -> None:
    cluster.start()
    node = ControllerNode.decode(cluster.store.get("/controller")[0])
    assert (node.broker_id, node.timestamp_ms) == (1, cluster.clock.wall_ms())
    assert cluster.store.get("/controller_epoch")[0] == b"1"
    assert cluster.controller.is_active
    assert cluster.controller.epoch == 1
    assert [node.port for node in cluster.brokers.cache.brokers("PLAINTEXT")] == [9001]
    assert cluster.brokers.cache.controller_id == 1


def test_a_new_topic_gets_leaders_and_everybody_learns_of_them(cluster: Cluster) -> None:
    cluster.start(1, 2)
    cluster.brokers.sent.clear()
    cluster.make_topic("t", [2, 1], [1])
    assert cluster.state("t") == PartitionStateNode(leader=2, leader_epoch=0, isr=[2, 1], controller_epoch=1)
    told = dict(cluster.brokers.take(LeaderAndIsrRequest))
    assert sorted(told) == [1, 2]
    (topic,) = told[1].topic_states
    assert (topic.topic_name, topic.topic_id) == ("t", b"t" * 16)
    assert [(state.partition_index, state.leader, state.replicas, state.is_new) for state in topic.partition_states] == [
        (0, 2, [2, 1], True),
        (1, 1, [1], True),
    ]
    assert told[1].controller_epoch == 1
    assert told[1].broker_epoch == cluster.store.exists("/brokers/ids/1").czxid
    assert [(leader.broker_id, leader.port) for leader in told[1].live_leaders] == [(1, 9001), (2, 9002)]
    state = cluster.brokers.cache.partition(T0)
    assert (state.leader, state.isr, state.replicas, state.offline_replicas, state.topic_id) == (2, [2, 1], [2, 1], [], b"t" * 16)


def test_a_broker_that_is_registered_with_a_malformed_endpoint_is_ignored(cluster: Cluster) -> None:
    """One that the controller cannot send to the other brokers would end each of its terms."""
    cluster.store.create("/brokers/ids/7", b'{"version":5,"endpoints":["nonsense"]}')
    cluster.start(1, 2)
    assert cluster.controller.is_active
    cluster.make_topic("t", [2, 1])
    assert cluster.brokers.cache.partition(T0).leader == 2
    assert [node.id for node in cluster.brokers.cache.brokers("PLAINTEXT")] == [1, 2]


@pytest.mark.parametrize("name", ["²", "x", "٣", "99999999999"])
def test_a_node_among_the_brokers_whose_name_is_no_broker_id_is_ignored(cluster: Cluster, name: str) -> None:
    cluster.register(1)
    cluster.store.create(f"/brokers/ids/{name}", cluster.store.get("/brokers/ids/1")[0])
    cluster.start(2)
    assert cluster.controller.is_active
    assert [node.id for node in cluster.brokers.cache.brokers("PLAINTEXT")] == [1, 2]


TOPIC = {"partitions": {"0": [1]}, "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "version": 3}


@pytest.mark.parametrize(
    ("name", "change"),
    [
        *((name, {}) for name in ("a b", "...a\n", "é", "x" * 250, "a%2Fb")),
        *(("bad", {"partitions": {number: [1]}}) for number in ("-1", "1_0", " 1", "01", "x")),
        ("bad", {"topic_id": "dHR0dHR0dHR0dHR0dHR0dA"}),  # that of "t"
    ],
)
@pytest.mark.parametrize("is_late", [False, True])
def test_a_topic_that_no_broker_could_find_again_is_ignored(
    cluster: Cluster, name: str, change: dict[str, Any], is_late: bool
) -> None:
    """Brokers ignore directories with such names: records would be acknowledged, and gone after a restart."""
    cluster.start(1)
    cluster.make_topic("t", [1])
    if not is_late:
        cluster.store.delete("/controller")
    cluster.store.create(f"/brokers/topics/{name}", json.dumps({**TOPIC, **change}).encode())
    cluster.pump()
    assert cluster.controller.is_active
    assert set(cluster.brokers.cache.topic_names()) == {"t"}
    cluster.make_topic("u", [1], topic_id=b"u" * 16)
    assert cluster.brokers.cache.topic_name(b"t" * 16) == "t"
    assert cluster.brokers.cache.partition(TopicPartition("u", 0)).leader == 1


def test_leaders_serve_before_clients_are_told_of_them(cluster: Cluster) -> None:
    cluster.start()
    cluster.brokers.sent.clear()
    cluster.make_topic("t", [1])
    kinds = [type(request) for _, request in cluster.brokers.sent]
    assert kinds.index(LeaderAndIsrRequest) < kinds.index(UpdateMetadataRequest)


def test_the_nodes_are_those_of_a_real_kafka(cluster: Cluster) -> None:
    cluster.start()
    cluster.make_topic("t", [1])
    assert (
        cluster.store.get(znodes.state_path(T0))[0] == b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}'
    )
    assert cluster.store.get(znodes.partition_path(T0))[0] == b""
    assert cluster.store.children("/") == [
        "admin",
        "brokers",
        "config",
        "consumers",
        "controller",
        "controller_epoch",
        "feature",
        "isr_change_notification",
        "latest_producer_id_block",
        "log_dir_event_notification",
    ]


def test_a_restart_leads_again_with_the_same_leader_epoch(cluster: Cluster) -> None:
    cluster.start()
    cluster.make_topic("t", [1])
    cluster.restart()
    cluster.start()
    assert cluster.controller.epoch == 2
    assert cluster.state("t") == PartitionStateNode(leader=1, leader_epoch=0, isr=[1], controller_epoch=1)
    ((_, request),) = cluster.brokers.take(LeaderAndIsrRequest)
    state = request.topic_states[0].partition_states[0]
    assert (request.controller_epoch, state.controller_epoch, state.leader_epoch, state.is_new) == (2, 1, 0, False)
    assert cluster.brokers.cache.partition(T0).leader == 1


def test_a_dead_leader_is_replaced_by_an_in_sync_replica(cluster: Cluster) -> None:
    cluster.start(1, 2, 3)
    cluster.make_topic("t", [3, 2, 1], [1, 3])
    cluster.kill(3)
    cluster.pump()
    assert cluster.state("t", 0) == PartitionStateNode(leader=2, leader_epoch=1, isr=[2, 1], controller_epoch=1)
    assert cluster.state("t", 1) == PartitionStateNode(leader=1, leader_epoch=1, isr=[1], controller_epoch=1)
    assert cluster.brokers.cache.partition(T0).offline_replicas == [3]
    cluster.register(3)
    cluster.pump()
    assert cluster.brokers.cache.partition(T0).offline_replicas == []
    assert cluster.state("t", 0).leader == 2


def test_a_new_controller_finds_a_broker_dead_as_kafka_did(cluster: Cluster) -> None:
    # Observed with 3.9.2: what the dead one led went up two leader epochs, what it followed one.
    cluster.start(1, 2, 3)
    cluster.make_topic("t", [3, 2, 1], [1, 3])
    cluster.restart()
    cluster.start(1, 2)
    assert cluster.state("t", 0) == PartitionStateNode(leader=2, leader_epoch=2, isr=[2, 1], controller_epoch=2)
    assert cluster.state("t", 1) == PartitionStateNode(leader=1, leader_epoch=1, isr=[1], controller_epoch=2)


@pytest.mark.parametrize(("unclean", "leader", "isr"), [("true", 1, [1]), ("false", -1, [2])])
def test_a_replica_that_is_not_in_sync_leads_only_if_the_topic_allows_it(
    cluster: Cluster, unclean: str, leader: int, isr: list[int]
) -> None:
    cluster.store.create("/config/topics/t", ConfigNode({"unclean.leader.election.enable": unclean}).encode())
    cluster.start(1, 2)
    cluster.make_topic("t", [2, 1])
    cluster.kill(1)
    cluster.pump()
    assert cluster.state("t").isr == [2]
    cluster.register(1)
    cluster.pump()
    cluster.kill(2)
    cluster.pump()
    assert (cluster.state("t").leader, cluster.state("t").isr) == (leader, isr)
    cluster.register(2)
    cluster.pump()
    assert cluster.state("t").leader == (leader if leader > 0 else 2)


def test_a_topic_whose_replicas_are_all_dead_gets_its_leader_later(cluster: Cluster) -> None:
    cluster.start(1)
    cluster.make_topic("t", [2])
    assert cluster.store.get(znodes.state_path(T0)) is None
    assert cluster.brokers.cache.partition(T0) is None
    cluster.register(2)
    cluster.pump()
    assert cluster.state("t").leader == 2


def test_more_partitions(cluster: Cluster) -> None:
    cluster.start(1, 2)
    cluster.make_topic("t", [1])
    node = TopicNode(partitions={0: [1], 1: [2]}, topic_id=b"t" * 16)
    cluster.store.set("/brokers/topics/t", node.encode())
    cluster.pump()
    assert cluster.state("t", 1).leader == 2
    assert cluster.brokers.cache.partition_count("t") == 2


def test_partitions_that_are_added_while_a_controller_loads_are_not_missed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.make_topic("t", [1])
    read = cluster.store.get_many
    node = TopicNode(partitions={0: [1], 1: [1]}, topic_id=b"t" * 16)

    def read_and_add(paths: Any) -> Any:
        found = read(paths)
        if paths == [znodes.topic_path("t")]:
            monkeypatch.undo()
            cluster.store.set(znodes.topic_path("t"), node.encode())
        return found

    monkeypatch.setattr(cluster.store, "get_many", read_and_add)
    cluster.start(1)
    assert cluster.state("t", 1).leader == 1


def test_a_controller_that_cannot_take_office_waits_longer_each_time(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    failures = 8
    monkeypatch.setattr(cluster.controller._worker, "pause", pauses.append)
    load = cluster.controller._loader.take_log_dir_events

    def fail() -> set[int]:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            assert cluster.store.exists(znodes.CONTROLLER) is not None
            raise ZeroDivisionError
        return load()

    monkeypatch.setattr(cluster.controller._loader, "take_log_dir_events", fail)
    cluster.register(1)
    cluster.controller.startup()
    cluster.pump()
    assert cluster.controller.is_active
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5]
    failures = 1
    cluster.store.delete(znodes.CONTROLLER)
    cluster.pump()
    assert pauses[8:] == [0.1]


def test_a_leader_is_elected_by_what_the_former_one_wrote_last(cluster: Cluster) -> None:
    cluster.start(1, 2, 3)
    cluster.make_topic("t", [1, 2, 3])
    node = PartitionStateNode(leader=1, leader_epoch=0, isr=[1, 3], controller_epoch=1)
    cluster.store.set(znodes.state_path(T0), node.encode())
    cluster.kill(1)
    cluster.pump()
    assert (cluster.state("t").leader, cluster.state("t").isr) == (3, [3])


def test_a_dead_broker_leaves_the_in_sync_replicas_that_the_leader_wrote_last(cluster: Cluster) -> None:
    cluster.start(1, 2)
    cluster.make_topic("t", [1, 2])
    for isr in ([1], [1, 2]):
        node = PartitionStateNode(leader=1, leader_epoch=0, isr=isr, controller_epoch=1)
        cluster.store.set(znodes.state_path(T0), node.encode())
        if isr == [1]:  # the controller does not hear of the other one before it needs the state
            cluster.store.create(znodes.ISR_CHANGE_PREFIX, PartitionsNode([T0]).encode(), sequence=True)
            cluster.pump()
    cluster.kill(2)
    cluster.pump()
    assert cluster.state("t").isr == [1]


def delete(cluster: Cluster, topic: str) -> None:
    cluster.store.create(znodes.delete_topic_path(topic))
    cluster.pump()


def test_a_deletion_that_the_store_did_not_take_is_completed_later(cluster: Cluster) -> None:
    cluster.start(1)
    cluster.make_topic("t", [1])
    batch = cluster.store.batch

    def refuse(groups: Any) -> Any:
        if any(getattr(operation, "path", "") == znodes.topic_path("t") for operations in groups for operation in operations):
            raise StoreUnavailableError("the disk is full")
        return batch(groups)

    cluster.store.batch = refuse
    delete(cluster, "t")
    assert cluster.store.exists(znodes.topic_path("t")) is not None
    cluster.store.batch = batch
    cluster.controller.balance_leaders()
    cluster.pump()
    assert cluster.store.exists(znodes.topic_path("t")) is None
    assert cluster.store.children(znodes.DELETE_TOPICS) == []


def test_a_deleted_topic_leaves_nothing(cluster: Cluster) -> None:
    cluster.start(1, 2)
    gone: list[Any] = []
    cluster.controller.add_topics_listener(gone.extend)
    cluster.store.create("/config/topics/t")
    cluster.make_topic("t", [1, 2], [2])
    delete(cluster, "t")
    stops = cluster.brokers.take(StopReplicaRequest)
    flags = [
        (broker, state.partition_index, state.delete_partition, state.leader_epoch)
        for broker, request in stops
        for topic in request.topic_states
        for state in topic.partition_states
    ]
    assert flags == [(1, 0, False, -2), (2, 0, False, -2), (2, 1, False, -2), (1, 0, True, -2), (2, 0, True, -2), (2, 1, True, -2)]
    assert not cluster.brokers.cache.contains("t")
    for path in ("/brokers/topics/t", "/config/topics/t", "/admin/delete_topics/t"):
        assert cluster.store.exists(path) is None
    assert gone == ["t"]
    assert not cluster.controller.context.replica_states
    assert not cluster.controller.context.leaderships
    cluster.make_topic("t", [1], topic_id=b"u" * 16)
    assert cluster.brokers.cache.topic_id("t") == b"u" * 16


def test_a_deletion_waits_for_a_dead_broker_and_goes_on_when_it_is_back(cluster: Cluster) -> None:
    cluster.start(1, 2)
    cluster.make_topic("t", [1, 2])
    cluster.kill(2)
    cluster.pump()
    delete(cluster, "t")
    assert cluster.store.exists("/brokers/topics/t") is not None
    assert not cluster.brokers.cache.contains("t")
    cluster.register(2)
    cluster.pump()
    assert cluster.store.exists("/brokers/topics/t") is None


def test_a_deletion_goes_on_after_a_restart(cluster: Cluster) -> None:
    cluster.start(1, 2)
    cluster.make_topic("t", [1, 2])
    cluster.kill(2)
    cluster.pump()
    delete(cluster, "t")
    cluster.restart()
    cluster.start(1, 2)
    assert cluster.store.exists("/brokers/topics/t") is None
    assert cluster.store.children("/admin/delete_topics") == []


def test_a_broker_that_cannot_delete_holds_the_topic_up(cluster: Cluster) -> None:
    cluster.start()
    cluster.make_topic("t", [1])
    cluster.brokers.errors[1, "t"] = ErrorCode.KAFKA_STORAGE_ERROR
    delete(cluster, "t")
    assert cluster.store.exists("/brokers/topics/t") is not None


def test_deletion_can_be_switched_off(cluster: Cluster) -> None:
    cluster.controller.shutdown()
    cluster.store.close()
    cluster.open(delete_topic_enable="false")
    cluster.start()
    cluster.make_topic("t", [1])
    delete(cluster, "t")
    delete(cluster, "unknown")
    assert cluster.store.children("/admin/delete_topics") == []
    assert cluster.brokers.cache.contains("t")


def test_a_replica_on_a_broken_disk_is_offline(cluster: Cluster) -> None:
    cluster.start(1, 2)
    cluster.brokers.errors[1, "t"] = ErrorCode.KAFKA_STORAGE_ERROR
    cluster.make_topic("t", [1, 2])
    assert cluster.state("t").leader == 2
    assert cluster.brokers.cache.partition(T0).offline_replicas == [1]


def test_isr_changes_of_leaders_are_passed_on(cluster: Cluster) -> None:
    cluster.start(1, 2)
    cluster.make_topic("t", [1, 2])
    node = PartitionStateNode(leader=1, leader_epoch=0, isr=[1], controller_epoch=1)
    cluster.store.set(znodes.state_path(T0), node.encode())
    cluster.store.create(znodes.ISR_CHANGE_PREFIX, PartitionsNode([T0]).encode(), sequence=True)
    cluster.pump()
    assert cluster.brokers.cache.partition(T0).isr == [1]
    assert cluster.brokers.cache.partition(T0).partition_epoch == 1
    assert cluster.store.children(znodes.ISR_CHANGES) == []


def test_a_controller_that_lost_its_node_runs_again(cluster: Cluster) -> None:
    cluster.start()
    cluster.make_topic("t", [1])
    cluster.store.delete("/controller")
    cluster.pump()
    assert cluster.controller.is_active
    assert cluster.controller.epoch == 2
    assert cluster.brokers.cache.partition(T0).leader == 1


@pytest.mark.parametrize("lost", [1, 2], ids=["the assignment", "the leader epoch"])
def test_a_reassignment_whose_write_was_not_answered_goes_on(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, lost: int) -> None:
    cluster.start(1, 2)
    cluster.make_topic("t", [1])
    writes = 0

    def lose(genuine: Any, *arguments: Any) -> Any:
        nonlocal writes
        writes += 1
        result = genuine(*arguments)
        if writes == lost:
            raise StoreDisconnectedError("no answer")
        return result

    for name in ("multi", "batch"):
        monkeypatch.setattr(cluster.store, name, functools.partial(lose, getattr(cluster.store, name)))
    alter = functools.partial(cluster.controller.reassignments.alter, {T0: [2]})
    asked = cluster.controller.run(alter, ControllerState.ALTER_PARTITION_REASSIGNMENT)
    cluster.brokers.sent.clear()
    cluster.pump()
    with pytest.raises(StoreDisconnectedError):
        asked.result(0)
    assert {broker for broker, _ in cluster.brokers.take(LeaderAndIsrRequest)} == {1, 2}
    assert cluster.controller.context.assignment(T0).replicas == [2, 1]


@pytest.mark.parametrize("is_connection_lost", [True, False])
def test_an_election_whose_answer_was_lost_is_held_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, is_connection_lost: bool
) -> None:
    cluster.start(1, 2)
    cluster.make_topic("t", [2, 1])
    genuine = cluster.store.multi

    def lose(operations: Any) -> None:
        genuine(operations)
        monkeypatch.undo()
        raise StoreDisconnectedError("no answer")

    monkeypatch.setattr(cluster.store, "multi", lose)
    cluster.store.delete("/controller")
    if is_connection_lost:
        cluster.controller.reconnected(lambda: None)
    cluster.pump()
    assert (cluster.controller.epoch, sorted(cluster.controller.context.brokers)) == (3, [1, 2])
    cluster.kill(2)
    cluster.pump()
    assert cluster.state("t").leader == cluster.brokers.cache.partition(T0).leader == 1


def test_a_controller_without_an_answer_decides_nothing_by_what_it_knew(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.start(1, 2)
    cluster.make_topic("t", [2, 1])
    left = 3

    def lose(genuine: Any, *arguments: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            return genuine(*arguments)
        raise StoreDisconnectedError("no answer")

    for name in ("batch", "exists"):
        monkeypatch.setattr(cluster.store, name, functools.partial(lose, getattr(cluster.store, name)))
    cluster.kill(2)
    cluster.store.pump()
    alter = functools.partial(cluster.controller.reassignments.alter, {T0: [2]})
    asked = cluster.controller.run(alter, ControllerState.ALTER_PARTITION_REASSIGNMENT)
    cluster.pump()
    assert isinstance(asked.exception(0), NotControllerError)
    assert (cluster.controller.epoch, cluster.state("t").leader) == (2, 1)


def test_another_brokers_controller_is_respected(cluster: Cluster) -> None:
    cluster.store.create("/controller", ControllerNode(broker_id=2, timestamp_ms=0).encode(), ephemeral=True)
    cluster.start()
    assert not cluster.controller.is_active
    assert cluster.controller.active_controller_id == 2
    cluster.make_topic("t", [1])
    assert cluster.brokers.sent == []
    cluster.store.delete("/controller")
    cluster.pump()
    assert cluster.controller.is_active
    assert cluster.state("t").leader == 1


def test_a_topic_from_before_topic_ids_gets_one(cluster: Cluster) -> None:
    cluster.store.create("/brokers/topics/old", b'{"version":1,"partitions":{"0":[1]}}')
    cluster.start()
    topic_id = TopicNode.decode(cluster.store.get("/brokers/topics/old")[0]).topic_id
    assert topic_id is not None
    assert cluster.brokers.cache.topic_id("old") == topic_id


def test_nodes_that_cannot_be_read_are_passed_over(cluster: Cluster) -> None:
    cluster.store.create("/brokers/topics/bad", b"?")
    cluster.store.create("/brokers/ids/7", b"?")
    cluster.start()
    cluster.make_topic("t", [1])
    assert list(cluster.brokers.cache.topic_names()) == ["t"]


def test_an_id_belongs_to_one_session(cluster: Cluster) -> None:
    cluster.start()
    cluster.register(1, port=9999)
    cluster.pump()
    assert [node.port for node in cluster.brokers.cache.brokers("PLAINTEXT")] == [9999]
    cluster.store.session_id += 1
    with pytest.raises(BrokerIdTakenError):
        cluster.register(1)


def test_the_cluster_id_is_made_once(cluster: Cluster) -> None:
    made = cluster_id(cluster.store)
    assert len(made) == 22
    assert cluster_id(cluster.store, "other") == made
    assert ClusterIdNode.decode(cluster.store.get("/cluster/id")[0]).cluster_id == made


def test_every_state_can_be_reached_and_left() -> None:
    for sources, states in ((PARTITION_SOURCES, PartitionStatus), (REPLICA_SOURCES, ReplicaStatus)):
        assert set(sources) == set(states)
        assert set().union(*sources.values()) == set(states)


def test_a_reassignment_keeps_a_replica_that_is_in_sync(cluster: Cluster) -> None:
    cluster.start(1, 2)
    cluster.make_topic("t", [3], [1])

    def alter(*targets: int) -> object:
        wanted = {TopicPartition("t", 0): list(targets) or None}
        work = functools.partial(cluster.controller.reassignments.alter, wanted)
        done = cluster.controller.run(work, ControllerState.ALTER_PARTITION_REASSIGNMENT)
        cluster.pump()
        return done.result(0)[TopicPartition("t", 0)]

    assert alter(3, 2) is None
    cluster.controller.elect_for_offline()
    cluster.pump()
    assert cluster.state("t").isr == [2], "the origin was never there"
    for targets in ((), (1,)):
        assert "would require an unclean leader election" in str(alter(*targets))
    assert cluster.state("t") == PartitionStateNode(leader=2, leader_epoch=0, isr=[2], controller_epoch=1)
