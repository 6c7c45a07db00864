"""InitializeShareGroupState, ReadShareGroupState, WriteShareGroupState, DeleteShareGroupState, ReadShareGroupStateSummary v0-1:
requests of brokers to the share coordinators.

WriteShareGroupState and ReadShareGroupStateSummary v1 (Kafka 4.2): the count of complete deliveries (KIP-1226).
"""

from concurrent.futures import Future
from typing import Any

from twisted_kafka.network.requests.request_context import RequestContext, ResourceKind
from twisted_kafka.protocol.messages.share import share_state as wire
from twisted_kafka.security.authorizer.acl_types import AclOperation
from twisted_kafka.server.authorization import ALLOW_ALL, IAuthorization
from twisted_kafka.server.dispatch import api
from twisted_kafka.share_coordinator.share_coordinator import ShareCoordinator
from twisted_kafka.waiting.futures import when_done


class ShareStateApis:
    """Passes the states of share partitions to this broker's share coordinator; requires CLUSTER_ACTION on the cluster."""

    def __init__(self, shares: ShareCoordinator, authorization: IAuthorization = ALLOW_ALL) -> None:
        self._shares = shares
        self._authorization = authorization

    @api(wire.InitializeShareGroupStateRequest, wire.InitializeShareGroupStateResponse, versions=(0, 0))
    def initialize(
        self, context: RequestContext, request: wire.InitializeShareGroupStateRequest
    ) -> "wire.InitializeShareGroupStateResponse | Future[wire.InitializeShareGroupStateResponse]":
        """Initialize share partitions, for the group coordinator."""
        self._begin(context, request.group_id)
        return when_done(self._shares.initialize_state(request), lambda done: _noted(context, done))

    @api(wire.ReadShareGroupStateRequest, wire.ReadShareGroupStateResponse, versions=(0, 0))
    def read(
        self, context: RequestContext, request: wire.ReadShareGroupStateRequest
    ) -> "wire.ReadShareGroupStateResponse | Future[wire.ReadShareGroupStateResponse]":
        """Return states to the partitions' leaders."""
        self._begin(context, request.group_id)
        return when_done(self._shares.read_state(request), lambda done: _noted(context, done))

    @api(wire.WriteShareGroupStateRequest, wire.WriteShareGroupStateResponse, versions=(0, 1))
    def write(
        self, context: RequestContext, request: wire.WriteShareGroupStateRequest
    ) -> "wire.WriteShareGroupStateResponse | Future[wire.WriteShareGroupStateResponse]":
        """Apply changes by the partitions' leaders."""
        self._begin(context, request.group_id)
        return when_done(self._shares.write_state(request), lambda done: _noted(context, done))

    @api(wire.DeleteShareGroupStateRequest, wire.DeleteShareGroupStateResponse, versions=(0, 0))
    def delete(
        self, context: RequestContext, request: wire.DeleteShareGroupStateRequest
    ) -> "wire.DeleteShareGroupStateResponse | Future[wire.DeleteShareGroupStateResponse]":
        """Remove states, for the group coordinator."""
        self._begin(context, request.group_id)
        return when_done(self._shares.delete_state(request), lambda done: _noted(context, done))

    @api(wire.ReadShareGroupStateSummaryRequest, wire.ReadShareGroupStateSummaryResponse, versions=(0, 1))
    def read_summary(
        self, context: RequestContext, request: wire.ReadShareGroupStateSummaryRequest
    ) -> "wire.ReadShareGroupStateSummaryResponse | Future[wire.ReadShareGroupStateSummaryResponse]":
        """Return start offsets, for the group coordinator."""
        self._begin(context, request.group_id)
        return when_done(self._shares.read_state_summary(request), lambda done: _noted(context, done))

    def _begin(self, context: RequestContext, group_id: str) -> None:
        context.is_special = True
        context.note_resource(ResourceKind.GROUP, group_id)
        self._authorization.require_cluster(context, AclOperation.CLUSTER_ACTION)


def _noted(context: RequestContext, response: Any) -> Any:
    """Count the errors of a response and return it."""
    for topic in response.results:
        for result in topic.partitions:
            context.note_error(result.error_code)
    return response
