"""LeaderAndIsr, StopReplica and UpdateMetadata for brokers of older releases, from 2.8 on.

The controller makes them with the fields of the newest version. Before version 6, LeaderAndIsr does not have the leader's recovery
state (KIP-704); the other requests differ in nothing that an older version would refuse.
"""

from typing import Final

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.inter_broker_protocol import is_at_least
from twisted_kafka.controller.channels.interfaces import ControlRequest
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.messages.inter_broker import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
    StopReplicaRequest,
    UpdateMetadataRequest,
)

_LEADER_AND_ISR_RECOVERY: Final = 6

_VERSIONS: Final[dict[type[Message], tuple[tuple[str, int], ...]]] = {
    LeaderAndIsrRequest: (("3.4-IV0", 7), ("3.2-IV0", 6), ("2.8-IV1", 5), ("2.8-IV0", 4)),
    UpdateMetadataRequest: (("3.4-IV0", 8), ("2.8-IV1", 7), ("2.8-IV0", 6)),
    StopReplicaRequest: (("3.4-IV0", 4), ("2.8-IV0", 3)),
}
"""The newest version of each request that brokers speak from a version of ``inter.broker.protocol.version`` on."""


def latest_versions(config: KafkaConfig) -> dict[type[Message], int]:
    """Return the newest version of each request that ``inter.broker.protocol.version`` allows, or of 2.8."""
    return {
        kind: next((version for name, version in versions if is_at_least(config, name)), versions[-1][1])
        for kind, versions in _VERSIONS.items()
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
        """Encode the request."""
        return shaped(self.request, version).encode(version)


def shaped(request: ControlRequest, version: int) -> Message:
    """Return the request in the shape of a version."""
    if not isinstance(request, LeaderAndIsrRequest) or version >= _LEADER_AND_ISR_RECOVERY:
        return request
    topics = [
        LeaderAndIsrTopicState(
            topic_name=topic.topic_name,
            topic_id=topic.topic_id,
            partition_states=[_without_recovery(state) for state in topic.partition_states],
        )
        for topic in request.topic_states
    ]
    return LeaderAndIsrRequest(
        controller_id=request.controller_id,
        controller_epoch=request.controller_epoch,
        broker_epoch=request.broker_epoch,
        topic_states=topics,
        live_leaders=request.live_leaders,
    )


def _without_recovery(state: LeaderAndIsrPartitionState) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(
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
