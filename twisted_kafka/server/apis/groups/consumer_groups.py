"""ConsumerGroupHeartbeat, ConsumerGroupDescribe: the consumer group protocol of KIP-848.

ConsumerGroupHeartbeat v0-1: v1 (Kafka 4.0) subscription by regular expression, ids that the members make up (KIP-1082).
ConsumerGroupDescribe v0-1: v1 (Kafka 4.0) which protocol a member speaks.
"""

from concurrent.futures import Future
from typing import Final

from twisted_kafka.coordinator.group.group_coordinator import GroupCoordinator
from twisted_kafka.coordinator.group.requests import Client
from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.errors import ErrorCode, UnsupportedVersionError
from twisted_kafka.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DescribedGroup,
)
from twisted_kafka.server.apis.groups.classic_groups import GROUP_OPERATIONS, client_host
from twisted_kafka.server.dispatch import api
from twisted_kafka.waiting.futures import gather

_DISABLED: Final = "The consumer group protocol is not among group.coordinator.rebalance.protocols."


class ConsumerGroupApis:
    """Consumer groups; ``is_enabled`` false: every request is answered UNSUPPORTED_VERSION, as Kafka does."""

    def __init__(self, groups: GroupCoordinator, is_enabled: bool) -> None:
        self._groups = groups
        self._is_enabled = is_enabled

    @api(ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, versions=(0, 1))
    def consumer_group_heartbeat(
        self, context: RequestContext, request: ConsumerGroupHeartbeatRequest
    ) -> "ConsumerGroupHeartbeatResponse | Future[ConsumerGroupHeartbeatResponse]":
        """Let a member in, keep it in, or let it go; answered when what that changes is stored."""
        if not self._is_enabled:
            raise UnsupportedVersionError(_DISABLED)
        client = Client(context.client_id or "", client_host(context))
        return self._groups.consumer_heartbeat(request, client, context.api_version)

    @api(ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, versions=(0, 1))
    def consumer_group_describe(
        self, context: RequestContext, request: ConsumerGroupDescribeRequest
    ) -> "ConsumerGroupDescribeResponse | Future[ConsumerGroupDescribeResponse]":
        """Describe groups with their members, and what those own and shall own."""
        if not self._is_enabled:
            raise UnsupportedVersionError(_DISABLED)

        def respond(groups: list[DescribedGroup]) -> ConsumerGroupDescribeResponse:
            for group in groups:
                context.note_error(group.error_code)
                if request.include_authorized_operations and not group.error_code:
                    group.authorized_operations = GROUP_OPERATIONS
            return ConsumerGroupDescribeResponse(groups=groups)

        return gather([self._describe(group_id) for group_id in request.group_ids], respond)

    def _describe(self, group_id: str) -> "DescribedGroup | Future[DescribedGroup]":
        if not group_id:
            return DescribedGroup(error_code=ErrorCode.INVALID_GROUP_ID, group_id=group_id)
        return self._groups.describe_consumer_group(group_id)
