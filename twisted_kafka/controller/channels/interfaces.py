"""The interfaces through which the controller reaches brokers."""

from collections.abc import Callable
from typing import Protocol

from twisted_kafka.protocol.messages.inter_broker import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
)

ControlRequest = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
ControlResponse = LeaderAndIsrResponse | StopReplicaResponse | None
OnResponse = Callable[[ControlResponse], None]


class IControlPlane(Protocol):
    """A broker as the controller sees it; the requests have the shape of their newest versions (grouped by topic).

    Called on one thread, one request at a time, in the order in which the controller decided.
    """

    def leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        """Make replicas leaders or followers; the response has an error per partition."""

    def update_metadata(self, request: UpdateMetadataRequest) -> bool:
        """Update the metadata cache; return False for a stale controller epoch."""

    def stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse:
        """Stop replicating partitions, and delete them where asked to; the response has an error per partition."""
