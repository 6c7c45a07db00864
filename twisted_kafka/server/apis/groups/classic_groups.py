"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup, DescribeGroups, ListGroups, DeleteGroups: the classic group protocol.

JoinGroup v0-9: v1 rebalance timeout, v4 first join refused with a member id (KIP-394), v5 static members (KIP-345), v7 protocol
type, v8 reason, v9 skip assignment (KIP-814). SyncGroup v0-5: v3 static members, v5 protocol type and name. Heartbeat v0-4: v3
static members. LeaveGroup v0-5: v3 several members. DescribeGroups v0-5: v3 authorized operations, v4 static members. ListGroups
v0-5: v4 states (KIP-518), v5 types (KIP-848). DeleteGroups v0-2.
"""

from collections.abc import Iterable
from concurrent.futures import Future
from functools import partial
from typing import Final

from twisted_kafka.group_coordinator.group_coordinator import GroupCoordinator
from twisted_kafka.group_coordinator.requests import JoinRequest, LeavingMember, Sender, SyncRequest
from twisted_kafka.group_coordinator.results import GroupDescription, GroupListing, JoinResult, LeftMember, SyncResult
from twisted_kafka.group_coordinator.state.classic_group_member import MemberTerms
from twisted_kafka.group_coordinator.state.classic_group_state import DEAD
from twisted_kafka.network.requests.request_context import RequestContext, ResourceKind
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.coordinators.groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from twisted_kafka.security.authorizer.acl_types import AclOperation, ResourceType
from twisted_kafka.server.authorization import ALLOW_ALL, OPERATIONS_NOT_ASKED, IAuthorization
from twisted_kafka.server.dispatch import api
from twisted_kafka.server.inner_requests import is_handed_over
from twisted_kafka.waiting.futures import gather, when_done

KNOWN_ID_SINCE: Final = 4
SKIP_ASSIGNMENT_SINCE: Final = 9
NULL_PROTOCOL_SINCE: Final = 7
PROTOCOL_IN_SYNC_SINCE: Final = 5
SEVERAL_LEAVE_SINCE: Final = 3
MISSING_GROUPS_SINCE: Final = 6


class GroupApis:
    """The classic group protocol, and administration of groups."""

    def __init__(self, groups: GroupCoordinator, authorization: IAuthorization = ALLOW_ALL) -> None:
        self._groups = groups
        self._authorization = authorization

    def _require(self, context: RequestContext, operation: AclOperation, group_id: str) -> None:
        self._authorization.require(context, operation, ResourceType.GROUP, group_id)

    @api(JoinGroupRequest, JoinGroupResponse, versions=(0, 9))
    def join_group(self, context: RequestContext, request: JoinGroupRequest) -> "JoinGroupResponse | Future[JoinGroupResponse]":
        """Join or rejoin a group; respond when the rebalance is over."""
        context.group = request.group_id, request.member_id, -1
        self._require(context, AclOperation.READ, request.group_id)
        version = context.api_version
        session_ms = request.session_timeout_ms
        terms = MemberTerms(
            context.client_id or "",
            client_host(context),
            session_ms if version == 0 else request.rebalance_timeout_ms,
            session_ms,
            request.protocol_type,
            tuple((protocol.name, protocol.metadata) for protocol in request.protocols),
        )
        instance_id = request.group_instance_id
        result = self._groups.join(
            JoinRequest(
                request.group_id,
                request.member_id,
                instance_id,
                terms,
                version >= KNOWN_ID_SINCE and instance_id is None,
                version >= SKIP_ASSIGNMENT_SINCE,
                request.reason,
            )
        )
        return when_done(result, partial(_joined, context, request.group_id))

    @api(SyncGroupRequest, SyncGroupResponse, versions=(0, 5))
    def sync_group(self, context: RequestContext, request: SyncGroupRequest) -> "SyncGroupResponse | Future[SyncGroupResponse]":
        """Take the leader's assignment or return a member's; respond when the assignment is stored."""
        context.group = request.group_id, request.member_id, request.generation_id
        if context.api_version >= PROTOCOL_IN_SYNC_SINCE and None in (request.protocol_type, request.protocol_name):
            return _synced(context, SyncResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        self._require(context, AclOperation.READ, request.group_id)
        result = self._groups.sync(
            SyncRequest(
                Sender(request.group_id, request.member_id, request.group_instance_id, request.generation_id),
                request.protocol_type,
                request.protocol_name,
                {assignment.member_id: assignment.assignment for assignment in request.assignments},
            )
        )
        return when_done(result, partial(_synced, context))

    @api(HeartbeatRequest, HeartbeatResponse, versions=(0, 4))
    def heartbeat(self, context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
        """Keep a member's session alive."""
        context.group = request.group_id, request.member_id, request.generation_id
        self._require(context, AclOperation.READ, request.group_id)
        sender = Sender(request.group_id, request.member_id, request.group_instance_id, request.generation_id)
        error = self._groups.heartbeat(sender)
        if error:
            context.note_error(error)
        return HeartbeatResponse(error_code=error)

    @api(LeaveGroupRequest, LeaveGroupResponse, versions=(0, 5))
    def leave_group(self, context: RequestContext, request: LeaveGroupRequest) -> "LeaveGroupResponse | Future[LeaveGroupResponse]":
        """Remove members: up to v2 the sender, since v3 any number of members."""
        if context.api_version < SEVERAL_LEAVE_SINCE:
            leaving = [LeavingMember(request.member_id)]
        else:
            leaving = [LeavingMember(each.member_id, each.group_instance_id, each.reason) for each in request.members]
        context.group = request.group_id, leaving[0].member_id if len(leaving) == 1 else "", -1
        self._require(context, AclOperation.READ, request.group_id)
        return when_done(self._groups.leave(request.group_id, leaving), lambda answer: _left(context, *answer))

    @api(DescribeGroupsRequest, DescribeGroupsResponse, versions=(0, 6))
    def describe_groups(
        self, context: RequestContext, request: DescribeGroupsRequest
    ) -> "DescribeGroupsResponse | Future[DescribeGroupsResponse]":
        """Describe groups with their members."""
        note_groups(context, request.groups)

        def respond(found: list[GroupDescription]) -> DescribeGroupsResponse:
            described = refused + [_described(each) for each in found]
            if context.api_version >= MISSING_GROUPS_SINCE:
                described = [_or_missing(each) for each in described]
            for group in described:
                context.note_error(group.error_code)
                if request.include_authorized_operations and not group.error_code:
                    group.authorized_operations = self._operations(context, group.group_id)
            return DescribeGroupsResponse(groups=described)

        asked = dict.fromkeys(request.groups)  # each once: a description may be large
        allowed = self._allowed(context, AclOperation.DESCRIBE, asked)
        refused = [_refused(group_id) for group_id in asked if group_id not in allowed]
        return gather([self._groups.describe_group(group_id) for group_id in asked if group_id in allowed], respond)

    def _operations(self, context: RequestContext, group_id: str) -> int:
        return self._authorization.authorized_operations(context, ResourceType.GROUP, group_id)

    def _allowed(
        self, context: RequestContext, operation: AclOperation, group_ids: Iterable[str], *, logs_denied: bool = True
    ) -> set[str]:
        return self._authorization.allowed_of(context, operation, ResourceType.GROUP, group_ids, logs_denied=logs_denied)

    @api(ListGroupsRequest, ListGroupsResponse, versions=(0, 5))
    def list_groups(self, context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
        """List the groups that this broker coordinates. A client without DESCRIBE on the cluster sees those it may describe."""
        describes_cluster = self._authorization.is_allowed_on_cluster(context, AclOperation.DESCRIBE, logs_denied=False)
        error, listings = self._groups.list_groups(request.states_filter, request.types_filter)
        if self._authorization.enforces and not describes_cluster:
            names = {each.group_id for each in listings}
            allowed = self._allowed(context, AclOperation.DESCRIBE, names, logs_denied=False)
            listings = [each for each in listings if each.group_id in allowed]
        if is_handed_over(context, ListGroupsResponse(error_code=error, groups=listings)):  # type: ignore[arg-type]  # alike
            listings = []
        return _listed(context, error, listings)

    @api(DeleteGroupsRequest, DeleteGroupsResponse, versions=(0, 3))
    def delete_groups(
        self, context: RequestContext, request: DeleteGroupsRequest
    ) -> "DeleteGroupsResponse | Future[DeleteGroupsResponse]":
        """Delete groups without members, and their offsets. As in Kafka, the error message of v3 is empty for these groups."""
        note_groups(context, request.groups_names)
        allowed = self._allowed(context, AclOperation.DELETE, request.groups_names)
        group_ids = [group_id for group_id in dict.fromkeys(request.groups_names) if group_id in allowed]
        refused = [group_id for group_id in dict.fromkeys(request.groups_names) if group_id not in allowed]

        def respond(errors: list[ErrorCode]) -> DeleteGroupsResponse:
            results = dict(zip(group_ids, errors, strict=True)) | dict.fromkeys(refused, ErrorCode.GROUP_AUTHORIZATION_FAILED)
            for error in results.values():
                context.note_error(error)
            return DeleteGroupsResponse(
                results=[DeletableGroupResult(group_id=group_id, error_code=error) for group_id, error in results.items()]
            )

        return gather([self._groups.delete_group(group_id) for group_id in group_ids], respond)


def note_groups(context: RequestContext, group_ids: Iterable[str]) -> None:
    """Record the groups that an administrator asks about for the access log."""
    for group_id in group_ids:
        context.note_resource(ResourceKind.GROUP, group_id)


def client_host(context: RequestContext) -> str:
    """Return the client's address in Java's format, which Kafka stores and its tools show."""
    return f"/{context.client_address}"


def _listed(context: RequestContext, error: ErrorCode, listings: list[GroupListing]) -> ListGroupsResponse:
    context.note_error(error)
    groups = [
        ListedGroup(
            group_id=listing.group_id,
            protocol_type=listing.protocol_type,
            group_state=listing.group_state,
            group_type=listing.group_type,
        )
        for listing in listings
    ]
    return ListGroupsResponse(error_code=error, groups=groups)


def _joined(context: RequestContext, group_id: str, result: JoinResult) -> JoinGroupResponse:
    context.group = group_id, result.member_id, result.generation
    context.note_error(result.error)
    protocol = result.protocol
    if protocol is None and context.api_version < NULL_PROTOCOL_SINCE:
        protocol = ""
    return JoinGroupResponse(
        error_code=result.error,
        generation_id=result.generation,
        protocol_type=result.protocol_type,
        protocol_name=protocol,
        leader=result.leader,
        skip_assignment=result.skip_assignment and context.api_version >= SKIP_ASSIGNMENT_SINCE,
        member_id=result.member_id,
        members=[
            JoinGroupResponseMember(member_id=member_id, group_instance_id=instance_id, metadata=metadata)
            for member_id, instance_id, metadata in result.members
        ],
    )


def _synced(context: RequestContext, result: SyncResult) -> SyncGroupResponse:
    context.note_error(result.error)
    return SyncGroupResponse(
        error_code=result.error,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol,
        assignment=result.assignment,
    )


def _left(context: RequestContext, error: ErrorCode, left: list[LeftMember]) -> LeaveGroupResponse:
    if context.api_version < SEVERAL_LEAVE_SINCE:
        error = error or left[0].error
        context.note_error(error)
        return LeaveGroupResponse(error_code=error)
    context.note_error(error)
    return LeaveGroupResponse(
        error_code=error,
        members=[
            MemberResponse(member_id=member.member_id, group_instance_id=member.instance_id, error_code=member.error)
            for member in left
        ],
    )


def _refused(group_id: str) -> DescribedGroup:
    refusal = ErrorCode.GROUP_AUTHORIZATION_FAILED
    return DescribedGroup(error_code=refusal, group_id=group_id, authorized_operations=OPERATIONS_NOT_ASKED)


def _or_missing(group: DescribedGroup) -> DescribedGroup:
    """Return the description; one of a group that does not exist, or has another protocol, with an error (KIP-1043)."""
    if group.group_state == DEAD.value and not group.error_code:
        group.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        group.error_message = f"Group {group.group_id} not found, or it is not a classic group."
    return group


def _described(group: GroupDescription) -> DescribedGroup:
    return DescribedGroup(
        error_code=group.error,
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in group.members
        ],
        authorized_operations=OPERATIONS_NOT_ASKED,
    )
