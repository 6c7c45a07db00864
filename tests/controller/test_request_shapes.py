"""The controller's requests in all of their versions: each says the same."""

from typing import Any

import pytest

from tests.cases import case
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.controller.channels.request_shapes import ShapedRequest, latest_versions
from twisted_kafka.protocol.errors import UnsupportedVersionError
from twisted_kafka.protocol.messages.inter_broker import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

IDS: dict[str, Any] = {"controller_id": 1, "controller_epoch": 7, "broker_epoch": 99}
TOPIC_ID = b"i" * 16


def decoded(request: Any, version: int) -> Any:
    return type(request).decode(ShapedRequest(request).encode(version), version)


def leader_state(index: int) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(
        partition_index=index,
        controller_epoch=7,
        leader=1,
        leader_epoch=3,
        isr=[1],
        partition_epoch=5,
        replicas=[1, 2],
        adding_replicas=[2],
        removing_replicas=[3],
        is_new=True,
        leader_recovery_state=1,
    )


def test_leader_and_isr() -> None:
    request = LeaderAndIsrRequest(
        **IDS,
        topic_states=[
            LeaderAndIsrTopicState(topic_name="a", topic_id=TOPIC_ID, partition_states=[leader_state(0), leader_state(1)]),
            LeaderAndIsrTopicState(topic_name="b", topic_id=TOPIC_ID, partition_states=[leader_state(0)]),
        ],
        live_leaders=[LeaderAndIsrLiveLeader(broker_id=1, host_name="h", port=2)],
    )
    for version in range(8):
        with case(version=version):
            found = decoded(request, version)
            assert (found.controller_id, found.controller_epoch, found.live_leaders) == (1, 7, request.live_leaders)
            assert found.broker_epoch == (99 if version >= 2 else -1)
            if version >= 2:
                states = [(each.topic_name, state) for each in found.topic_states for state in each.partition_states]
                assert {each.topic_id for each in found.topic_states} == {TOPIC_ID if version >= 5 else bytes(16)}
            else:
                states = [(each.topic_name, each) for each in found.ungrouped_partition_states]
            assert [(name, each.partition_index) for name, each in states] == [("a", 0), ("a", 1), ("b", 0)]
            for _, each in states:
                assert (each.leader, each.leader_epoch, each.isr, each.partition_epoch, each.replicas) == (1, 3, [1], 5, [1, 2])
                assert each.is_new == (version >= 1)
                assert (each.adding_replicas, each.removing_replicas) == (([2], [3]) if version >= 3 else ([], []))
                assert each.leader_recovery_state == (version >= 6)


def test_update_metadata() -> None:
    state = UpdateMetadataPartitionState(
        partition_index=4,
        controller_epoch=7,
        leader=1,
        leader_epoch=3,
        isr=[1],
        zk_version=5,
        replicas=[1, 2],
        offline_replicas=[2],
    )
    points = [
        UpdateMetadataEndpoint(port=1, host="s", listener="SSL", security_protocol=1),
        UpdateMetadataEndpoint(port=2, host="p", listener="INSIDE", security_protocol=0),
    ]
    request = UpdateMetadataRequest(
        **IDS,
        topic_states=[UpdateMetadataTopicState(topic_name="a", topic_id=TOPIC_ID, partition_states=[state])],
        live_brokers=[UpdateMetadataBroker(id=1, endpoints=points, rack="r")],
    )
    for version in range(9):
        with case(version=version):
            found = decoded(request, version)
            assert found.broker_epoch == (99 if version >= 5 else -1)
            if version >= 5:
                ((name, (each,)),) = [(topic.topic_name, topic.partition_states) for topic in found.topic_states]
            else:
                (each,) = found.ungrouped_partition_states
                name = each.topic_name
            assert (name, each.partition_index, each.leader, each.leader_epoch, each.isr) == ("a", 4, 1, 3, [1])
            assert (each.zk_version, each.replicas, each.offline_replicas) == (5, [1, 2], [2] if version >= 4 else [])
            (broker,) = found.live_brokers
            if version == 0:
                assert (broker.v0_host, broker.v0_port) == ("p", 2)
            else:
                assert [point.port for point in broker.endpoints] == [1, 2]
                assert [point.listener for point in broker.endpoints] == (["SSL", "INSIDE"] if version >= 3 else ["", ""])
    secure = UpdateMetadataRequest(**IDS, live_brokers=[UpdateMetadataBroker(id=1, endpoints=points[:1])])
    with pytest.raises(UnsupportedVersionError, match="broker 1 has no PLAINTEXT listener"):
        ShapedRequest(secure).encode(0)


@pytest.mark.parametrize("delete", [True, False])
def test_stop_replica(delete: bool) -> None:
    states = [StopReplicaPartitionState(partition_index=each, leader_epoch=3, delete_partition=delete) for each in (0, 1)]
    request = StopReplicaRequest(**IDS, topic_states=[StopReplicaTopicState(topic_name="a", partition_states=states)])
    for version in range(5):
        with case(version=version):
            found = decoded(request, version)
            assert found.broker_epoch == (99 if version >= 1 else -1)
            if version >= 3:
                assert found.topic_states == request.topic_states
                continue
            assert found.delete_partitions == delete
            if version:
                assert [(each.name, each.partition_indexes) for each in found.topics] == [("a", [0, 1])]
            else:
                assert [(each.topic_name, each.partition_index) for each in found.ungrouped_partitions] == [("a", 0), ("a", 1)]
    states[0].delete_partition = not delete
    with pytest.raises(UnsupportedVersionError):
        ShapedRequest(request).encode(2)


@pytest.mark.parametrize(
    ("inter_broker_protocol_version", "versions"),
    [("3.9", (7, 8, 4)), ("3.3", (6, 7, 3)), ("2.8", (5, 7, 3)), ("2.7", (4, 6, 3)), ("2.2", (2, 5, 1)), ("0.9.0", (0, 1, 0))],
)
def test_versions_are_those_of_the_inter_broker_protocol(inter_broker_protocol_version: str, versions: tuple[int, ...]) -> None:
    config = KafkaConfig.embedded({"inter.broker.protocol.version": inter_broker_protocol_version})
    found = latest_versions(config)
    assert tuple(found[kind] for kind in (LeaderAndIsrRequest, UpdateMetadataRequest, StopReplicaRequest)) == versions
