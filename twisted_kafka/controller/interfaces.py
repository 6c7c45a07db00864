"""What the controller needs of others: brokers that take its requests."""

# ruff: noqa: N805 - the methods of a zope interface have no self

from collections.abc import Callable

from zope.interface import Interface

from twisted_kafka.protocol.messages.inter_broker import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
)

ControlRequest = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
ControlResponse = LeaderAndIsrResponse | StopReplicaResponse | None


class IControlPlane(Interface):
    """A broker as the controller sees it; the requests have the shape of their newest versions (grouped by topic).

    Called on the controller's event thread, one request at a time, in the order in which the controller decided.
    """

    def leader_and_isr(request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        """Make the named replicas leaders or followers; the response has an error per partition."""

    def update_metadata(request: UpdateMetadataRequest) -> bool:
        """Take the brokers and partitions over into the metadata cache; return False when a newer controller has spoken."""

    def stop_replica(request: StopReplicaRequest) -> StopReplicaResponse:
        """Stop replicating partitions and delete those that are to be deleted; the response has an error per partition."""


class IBrokerChannels(Interface):
    """Ways to all brokers: the own one in process, the others over the network."""

    def send(broker_id: int, request: ControlRequest, on_response: Callable[[ControlResponse], None] | None) -> None:
        """Send a request after those sent before; ``on_response`` is called when and if an answer arrives, on any thread."""

    def add_broker(broker_id: int) -> None:
        """A broker appeared: requests for it follow."""

    def remove_broker(broker_id: int) -> None:
        """A broker is gone: drop what waits for it."""
