"""The controller's requests in the versions of brokers from 2.8 on: each says the same."""

from typing import Any

import pytest

from tests.support.cases import case
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.controller.channels.request_shapes import ShapedRequest, latest_versions
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
    for version in (4, 5, 6, 7):
        with case(version=version):
            found = decoded(request, version)
            assert (found.controller_id, found.controller_epoch, found.broker_epoch) == (1, 7, 99)
            assert found.live_leaders == request.live_leaders
            states = [(each.topic_name, state) for each in found.topic_states for state in each.partition_states]
            assert {each.topic_id for each in found.topic_states} == {TOPIC_ID if version >= 5 else bytes(16)}
            assert [(name, each.partition_index) for name, each in states] == [("a", 0), ("a", 1), ("b", 0)]
            for _, each in states:
                assert (each.leader, each.leader_epoch, each.isr, each.partition_epoch, each.replicas) == (1, 3, [1], 5, [1, 2])
                assert (each.is_new, each.adding_replicas, each.removing_replicas) == (True, [2], [3])
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
    for version in (6, 7, 8):
        with case(version=version):
            found = decoded(request, version)
            assert found.broker_epoch == 99
            ((name, (each,)),) = [(topic.topic_name, topic.partition_states) for topic in found.topic_states]
            assert (name, each.partition_index, each.leader, each.leader_epoch, each.isr) == ("a", 4, 1, 3, [1])
            assert (each.zk_version, each.replicas, each.offline_replicas) == (5, [1, 2], [2])
            assert found.live_brokers == request.live_brokers


@pytest.mark.parametrize("delete", [True, False])
def test_stop_replica(delete: bool) -> None:
    states = [StopReplicaPartitionState(partition_index=each, leader_epoch=3, delete_partition=delete) for each in (0, 1)]
    request = StopReplicaRequest(**IDS, topic_states=[StopReplicaTopicState(topic_name="a", partition_states=states)])
    for version in (3, 4):
        with case(version=version):
            found = decoded(request, version)
            assert (found.broker_epoch, found.topic_states) == (99, request.topic_states)


@pytest.mark.parametrize(
    ("inter_broker_protocol_version", "versions"),
    [("3.9", (7, 8, 4)), ("3.3", (6, 7, 3)), ("2.8", (5, 7, 3)), ("2.8-IV0", (4, 6, 3))],
)
def test_versions_are_those_of_the_inter_broker_protocol(inter_broker_protocol_version: str, versions: tuple[int, ...]) -> None:
    config = KafkaConfig.embedded({"inter.broker.protocol.version": inter_broker_protocol_version})
    found = latest_versions(config)
    assert tuple(found[kind] for kind in (LeaderAndIsrRequest, UpdateMetadataRequest, StopReplicaRequest)) == versions
