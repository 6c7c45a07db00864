"""LeaderAndIsr, StopReplica and UpdateMetadata in the shapes of their older versions, for brokers of older releases.

The controller makes them with the fields of the newest version, grouped by topic. Older ones are not grouped: LeaderAndIsr before
version 2, UpdateMetadata before 5. Before version 6, LeaderAndIsr does not tell of leaders' recovery. StopReplica deletes all of
its replicas or none before version 3, and is not grouped in version 0.
(KIP-380, KIP-570; Kafka: ``AbstractControlRequest`` and its builders)
"""

from collections.abc import Callable
from typing import Final

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.inter_broker_protocol import is_at_least
from twisted_kafka.controller.channels.interfaces import ControlRequest
from twisted_kafka.protocol.codec import Message
from twisted_kafka.protocol.errors import UnsupportedVersionError
from twisted_kafka.protocol.messages.inter_broker import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicV1,
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)

_LEADER_AND_ISR_BY_TOPIC: Final = 2
_LEADER_AND_ISR_RECOVERY: Final = 6
_UPDATE_METADATA_BY_TOPIC: Final = 5
_UPDATE_METADATA_END_POINTS: Final = 1
_STOP_REPLICA_STATES: Final = 3
_STOP_REPLICA_BY_TOPIC: Final = 1
_PLAINTEXT: Final = 0

_VERSIONS: Final[dict[type[Message], tuple[tuple[str, int], ...]]] = {
    LeaderAndIsrRequest: (
        ("3.4-IV0", 7),
        ("3.2-IV0", 6),
        ("2.8-IV1", 5),
        ("2.4-IV1", 4),
        ("2.4-IV0", 3),
        ("2.2-IV0", 2),
        ("1.0-IV0", 1),
    ),
    UpdateMetadataRequest: (
        ("3.4-IV0", 8),
        ("2.8-IV1", 7),
        ("2.4-IV1", 6),
        ("2.2-IV0", 5),
        ("1.0-IV0", 4),
        ("0.10.2-IV0", 3),
        ("0.10.0-IV1", 2),
        ("0.9.0", 1),
    ),
    StopReplicaRequest: (("3.4-IV0", 4), ("2.6-IV0", 3), ("2.4-IV1", 2), ("2.2-IV0", 1)),
}
"""The newest version of each request that brokers speak from a version of ``inter.broker.protocol.version`` on."""


def latest_versions(config: KafkaConfig) -> dict[type[Message], int]:
    """Return the newest version of each request that ``inter.broker.protocol.version`` allows."""
    return {
        kind: next((version for name, version in versions if is_at_least(config, name)), 0) for kind, versions in _VERSIONS.items()
    }


class ShapedRequest:
    """A request that takes the shape of the version that a broker speaks when it is sent (``IOutgoingRequest``)."""

    __slots__ = ("request",)

    def __init__(self, request: ControlRequest) -> None:
        self.request = request

    @property
    def KEY(self) -> int:
        """The API's key."""
        return self.request.KEY

    @property
    def VERSIONS(self) -> tuple[int, int]:
        """The first and the last version."""
        return self.request.VERSIONS

    def encode(self, version: int) -> bytes:
        """Encode the request; raises UnsupportedVersionError if the version cannot say it."""
        return shaped(self.request, version).encode(version)


def shaped(request: ControlRequest, version: int) -> Message:
    """Return the request in the shape of a version. Raises UnsupportedVersionError if that version cannot say it."""
    return _SHAPES[type(request)](request, version)


def _leader_and_isr(request: LeaderAndIsrRequest, version: int) -> LeaderAndIsrRequest:
    if version >= _LEADER_AND_ISR_RECOVERY:
        return request
    old = LeaderAndIsrRequest(
        controller_id=request.controller_id,
        controller_epoch=request.controller_epoch,
        broker_epoch=request.broker_epoch,
        live_leaders=request.live_leaders,
    )
    if version < _LEADER_AND_ISR_BY_TOPIC:
        old.ungrouped_partition_states = [
            _leader_state(state, topic.topic_name) for topic in request.topic_states for state in topic.partition_states
        ]
        return old
    for topic in request.topic_states:
        states = [_leader_state(state, "") for state in topic.partition_states]
        old.topic_states.append(
            LeaderAndIsrTopicState(topic_name=topic.topic_name, topic_id=topic.topic_id, partition_states=states)
        )
    return old


def _leader_state(state: LeaderAndIsrPartitionState, topic: str) -> LeaderAndIsrPartitionState:
    """Return the state without the leader's recovery, of which old versions know nothing."""
    return LeaderAndIsrPartitionState(
        topic_name=topic,
        partition_index=state.partition_index,
        controller_epoch=state.controller_epoch,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        partition_epoch=state.partition_epoch,
        replicas=state.replicas,
        adding_replicas=state.adding_replicas,
        removing_replicas=state.removing_replicas,
        is_new=state.is_new,
    )


def _update_metadata(request: UpdateMetadataRequest, version: int) -> UpdateMetadataRequest:
    if version >= _UPDATE_METADATA_BY_TOPIC:
        return request
    states = [
        UpdateMetadataPartitionState(
            topic_name=topic.topic_name,
            partition_index=state.partition_index,
            controller_epoch=state.controller_epoch,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=state.isr,
            zk_version=state.zk_version,
            replicas=state.replicas,
            offline_replicas=state.offline_replicas,
        )
        for topic in request.topic_states
        for state in topic.partition_states
    ]
    brokers = request.live_brokers if version >= _UPDATE_METADATA_END_POINTS else [_plain(each) for each in request.live_brokers]
    return UpdateMetadataRequest(
        controller_id=request.controller_id,
        controller_epoch=request.controller_epoch,
        ungrouped_partition_states=states,
        live_brokers=brokers,
    )


def _plain(broker: UpdateMetadataBroker) -> UpdateMetadataBroker:
    """Return a broker with the address of its first listener without security, the only one that version 0 has."""
    for point in broker.endpoints:
        if point.security_protocol == _PLAINTEXT:
            return UpdateMetadataBroker(id=broker.id, v0_host=point.host, v0_port=point.port)
    raise UnsupportedVersionError(f"broker {broker.id} has no PLAINTEXT listener, which UpdateMetadata version 0 requires")


def _stop_replica(request: StopReplicaRequest, version: int) -> StopReplicaRequest:
    if version >= _STOP_REPLICA_STATES:
        return request
    deletes = {state.delete_partition for topic in request.topic_states for state in topic.partition_states}
    if len(deletes) > 1:
        raise UnsupportedVersionError(f"StopReplica version {version} deletes all replicas or none")
    old = StopReplicaRequest(
        controller_id=request.controller_id,
        controller_epoch=request.controller_epoch,
        broker_epoch=request.broker_epoch,
        delete_partitions=True in deletes,
    )
    if version >= _STOP_REPLICA_BY_TOPIC:
        old.topics = [
            StopReplicaTopicV1(name=topic.topic_name, partition_indexes=[state.partition_index for state in topic.partition_states])
            for topic in request.topic_states
        ]
    else:
        old.ungrouped_partitions = [
            StopReplicaPartitionV0(topic_name=topic.topic_name, partition_index=state.partition_index)
            for topic in request.topic_states
            for state in topic.partition_states
        ]
    return old


_SHAPES: Final[dict[type[Message], Callable[..., Message]]] = {
    LeaderAndIsrRequest: _leader_and_isr,
    UpdateMetadataRequest: _update_metadata,
    StopReplicaRequest: _stop_replica,
}
