"""ShareGroupHeartbeat, ShareGroupDescribe: the members of share groups (KIP-932).

Both v1, as in Kafka 4.1 and newer; v0 belonged to the early access of Kafka 4.0.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Final

from twisted_kafka.group_coordinator.group_coordinator import GroupCoordinator
from twisted_kafka.group_coordinator.requests import Client
from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.errors import ErrorCode, InvalidRequestError, TopicAuthorizationError, UnsupportedVersionError
from twisted_kafka.protocol.messages.share.share_groups import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from twisted_kafka.security.authorizer.acl_types import AclOperation, ResourceType
from twisted_kafka.server.apis.groups.classic_groups import client_host, note_groups
from twisted_kafka.server.authorization import ALLOW_ALL, IAuthorization
from twisted_kafka.server.dispatch import api
from twisted_kafka.waiting.futures import gather

MOST_MEMBER_ID_CHARACTERS: Final = 36

_DISABLED: Final = "Share groups are not enabled: the feature share.version has level 0."
_HIDDEN: Final = "The group's members have topics that the client is not authorized to describe."


def require_share_groups(is_enabled: Callable[[], bool]) -> None:
    """Raise UnsupportedVersionError if share groups are not enabled, as Kafka does."""
    if not is_enabled():
        raise UnsupportedVersionError(_DISABLED)


def require_member_id(member_id: str) -> None:
    """Raise InvalidRequestError unless the member id is one that Kafka takes (KafkaApis.isMemberIdValid)."""
    if not 0 < len(member_id) <= MOST_MEMBER_ID_CHARACTERS:
        raise InvalidRequestError(f"The id of a share group's member has 1 to {MOST_MEMBER_ID_CHARACTERS} characters.")


class ShareGroupApis:
    """Members of share groups; while ``is_enabled`` returns false, every request fails with UNSUPPORTED_VERSION."""

    def __init__(self, groups: GroupCoordinator, is_enabled: Callable[[], bool], authorization: IAuthorization = ALLOW_ALL) -> None:
        self._authorization = authorization
        self._groups = groups.share
        self._is_enabled = is_enabled

    @api(ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse, versions=(1, 1))
    def share_group_heartbeat(
        self, context: RequestContext, request: ShareGroupHeartbeatRequest
    ) -> "ShareGroupHeartbeatResponse | Future[ShareGroupHeartbeatResponse]":
        """Add, keep or remove a member; respond when the change is stored."""
        context.group = request.group_id, request.member_id, request.member_epoch
        require_share_groups(self._is_enabled)
        self._authorization.require(context, AclOperation.READ, ResourceType.GROUP, request.group_id)
        require_member_id(request.member_id)
        self._require_topics(context, request.subscribed_topic_names or ())
        return self._groups.heartbeat(request, Client(context.client_id or "", client_host(context)))

    def _require_topics(self, context: RequestContext, topics: Sequence[str]) -> None:
        """Raise TopicAuthorizationError if one of the topics may not be described: the answer has their ids."""
        if self._authorization.enforces and topics:
            allowed = self._authorization.allowed_of(context, AclOperation.DESCRIBE, ResourceType.TOPIC, topics)
            if len(allowed) < len(set(topics)):
                raise TopicAuthorizationError

    @api(ShareGroupDescribeRequest, ShareGroupDescribeResponse, versions=(1, 1))
    def share_group_describe(
        self, context: RequestContext, request: ShareGroupDescribeRequest
    ) -> "ShareGroupDescribeResponse | Future[ShareGroupDescribeResponse]":
        """Describe groups with their members and the members' assignments."""
        note_groups(context, request.group_ids)
        require_share_groups(self._is_enabled)

        def respond(groups: list[DescribedGroup]) -> ShareGroupDescribeResponse:
            shown = self._without_hidden_topics(context, groups)
            for group in shown:
                context.note_error(group.error_code)
                if request.include_authorized_operations and not group.error_code:
                    operations = self._authorization.authorized_operations(context, ResourceType.GROUP, group.group_id)
                    group.authorized_operations = operations
            return ShareGroupDescribeResponse(groups=shown)

        asked = dict.fromkeys(request.group_ids)  # each once: a description may be large
        allowed = self._authorization.allowed_of(context, AclOperation.DESCRIBE, ResourceType.GROUP, asked)
        return gather([self._describe(group_id) if group_id in allowed else _refused(group_id) for group_id in asked], respond)

    def _describe(self, group_id: str) -> "DescribedGroup | Future[DescribedGroup]":
        if not group_id:
            return DescribedGroup(error_code=ErrorCode.INVALID_GROUP_ID, group_id=group_id)
        return self._groups.describe(group_id)

    def _without_hidden_topics(self, context: RequestContext, groups: list[DescribedGroup]) -> list[DescribedGroup]:
        """Return an error in the place of each group that has a topic which the client may not describe."""
        if not self._authorization.enforces:
            return groups
        topics = {group.group_id: _topics_of(group) for group in groups}
        names = set().union(*topics.values())
        allowed = self._authorization.allowed_of(context, AclOperation.DESCRIBE, ResourceType.TOPIC, names)
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return [
            group
            if topics[group.group_id] <= allowed
            else DescribedGroup(error_code=error, error_message=_HIDDEN, group_id=group.group_id)
            for group in groups
        ]


def _topics_of(group: DescribedGroup) -> set[str]:
    return {topic.topic_name for member in group.members for topic in member.assignment.topic_partitions}


def _refused(group_id: str) -> DescribedGroup:
    return DescribedGroup(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, group_id=group_id)
