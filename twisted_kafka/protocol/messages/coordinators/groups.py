"""The classic group protocol, FindCoordinator and group administration."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import Bytes, Int8, Int16, Int32, String


class FindCoordinatorRequest(Message, key=10, versions=(0, 6), flexible=3):
    """Ask which broker coordinates groups or transactional ids."""

    key: String = field(default="", until=3)
    key_type: Int8 = field(default=0, since=1)
    coordinator_keys: list[String] = field(factory=list, since=4)


class Coordinator(Struct):
    key: String = ""
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


class FindCoordinatorResponse(Message, key=10, versions=(0, 6), flexible=3):
    """The coordinator of each key."""

    throttle_time_ms: Int32 = field(default=0, since=1, ignorable=True)
    error_code: Int16 = field(default=0, until=3)
    error_message: String | None = field(default="", since=1, until=3, ignorable=True)
    node_id: Int32 = field(default=0, until=3)
    host: String = field(default="", until=3)
    port: Int32 = field(default=0, until=3)
    coordinators: list[Coordinator] = field(factory=list, since=4)


class JoinGroupRequestProtocol(Struct):
    name: String = ""
    metadata: Bytes = b""


class JoinGroupRequest(Message, key=11, versions=(0, 9), flexible=6):
    """A member joins its group, or rejoins in a rebalance."""

    group_id: String = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Int32 = field(default=-1, since=1, ignorable=True)
    member_id: String = ""
    group_instance_id: String | None = field(default=None, since=5)
    protocol_type: String = ""
    protocols: list[JoinGroupRequestProtocol] = field(factory=list)
    reason: String | None = field(default=None, since=8, ignorable=True)


class JoinGroupResponseMember(Struct):
    member_id: String = ""
    group_instance_id: String | None = field(default=None, since=5, ignorable=True)
    metadata: Bytes = b""


class JoinGroupResponse(Message, key=11, versions=(0, 9), flexible=6):
    """The generation, its leader and, for the leader, all members."""

    throttle_time_ms: Int32 = field(default=0, since=2, ignorable=True)
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: String | None = field(default=None, since=7, ignorable=True)
    protocol_name: String | None = field(default="", nullable_since=7)
    leader: String = ""
    skip_assignment: bool = field(default=False, since=9)
    member_id: String = ""
    members: list[JoinGroupResponseMember] = field(factory=list)


class HeartbeatRequest(Message, key=12, versions=(0, 4), flexible=4):
    """A member reports to its coordinator that it is alive."""

    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: String | None = field(default=None, since=3)


class HeartbeatResponse(Message, key=12, versions=(0, 4), flexible=4):
    """Whether the member may continue or has to rejoin."""

    throttle_time_ms: Int32 = field(default=0, since=1, ignorable=True)
    error_code: Int16 = 0


class MemberIdentity(Struct):
    member_id: String = ""
    group_instance_id: String | None = None
    reason: String | None = field(default=None, since=5, ignorable=True)


class LeaveGroupRequest(Message, key=13, versions=(0, 5), flexible=4):
    """Members leave their group."""

    group_id: String = ""
    member_id: String = field(default="", until=2)
    members: list[MemberIdentity] = field(factory=list, since=3)


class MemberResponse(Struct):
    member_id: String = ""
    group_instance_id: String | None = ""
    error_code: Int16 = 0


class LeaveGroupResponse(Message, key=13, versions=(0, 5), flexible=4):
    """Which members left."""

    throttle_time_ms: Int32 = field(default=0, since=1, ignorable=True)
    error_code: Int16 = 0
    members: list[MemberResponse] = field(factory=list, since=3)


class SyncGroupRequestAssignment(Struct):
    member_id: String = ""
    assignment: Bytes = b""


class SyncGroupRequest(Message, key=14, versions=(0, 5), flexible=4):
    """A member asks for its assignment; the leader sends the assignments of all members."""

    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: String | None = field(default=None, since=3)
    protocol_type: String | None = field(default=None, since=5, ignorable=True)
    protocol_name: String | None = field(default=None, since=5, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = field(factory=list)


class SyncGroupResponse(Message, key=14, versions=(0, 5), flexible=4):
    """The member's assignment."""

    throttle_time_ms: Int32 = field(default=0, since=1, ignorable=True)
    error_code: Int16 = 0
    protocol_type: String | None = field(default=None, since=5, ignorable=True)
    protocol_name: String | None = field(default=None, since=5, ignorable=True)
    assignment: Bytes = b""


class DescribeGroupsRequest(Message, key=15, versions=(0, 6), flexible=5):
    """Ask for the state and the members of classic groups."""

    groups: list[String] = field(factory=list)
    include_authorized_operations: bool = field(default=False, since=3)


class DescribedGroupMember(Struct):
    member_id: String = ""
    group_instance_id: String | None = field(default=None, since=4, ignorable=True)
    client_id: String = ""
    client_host: String = ""
    member_metadata: Bytes = b""
    member_assignment: Bytes = b""


class DescribedGroup(Struct):
    error_code: Int16 = 0
    error_message: String | None = field(default=None, since=6)
    group_id: String = ""
    group_state: String = ""
    protocol_type: String = ""
    protocol_data: String = ""
    members: list[DescribedGroupMember] = field(factory=list)
    authorized_operations: Int32 = field(default=-2147483648, since=3)


class DescribeGroupsResponse(Message, key=15, versions=(0, 6), flexible=5):
    """The groups with their members."""

    throttle_time_ms: Int32 = field(default=0, since=1, ignorable=True)
    groups: list[DescribedGroup] = field(factory=list)


class ListGroupsRequest(Message, key=16, versions=(0, 5), flexible=3):
    """Ask for the groups that this broker coordinates."""

    states_filter: list[String] = field(factory=list, since=4)
    types_filter: list[String] = field(factory=list, since=5)


class ListedGroup(Struct):
    group_id: String = ""
    protocol_type: String = ""
    group_state: String = field(default="", since=4, ignorable=True)
    group_type: String = field(default="", since=5, ignorable=True)


class ListGroupsResponse(Message, key=16, versions=(0, 5), flexible=3):
    """The groups by id, with type and state."""

    throttle_time_ms: Int32 = field(default=0, since=1, ignorable=True)
    error_code: Int16 = 0
    groups: list[ListedGroup] = field(factory=list)


class DeleteGroupsRequest(Message, key=42, versions=(0, 3), flexible=2):
    """Delete groups that have no members."""

    groups_names: list[String] = field(factory=list)


class DeletableGroupResult(Struct):
    group_id: String = ""
    error_code: Int16 = 0
    error_message: String | None = field(default=None, since=3, ignorable=True)


class DeleteGroupsResponse(Message, key=42, versions=(0, 3), flexible=2):
    """The result for each group."""

    throttle_time_ms: Int32 = 0
    results: list[DeletableGroupResult] = field(factory=list)
