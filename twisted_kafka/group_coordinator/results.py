"""Results of the group coordinator, independent of the protocol's versions."""

from typing import NamedTuple

from twisted_kafka.protocol.errors import ErrorCode


class JoinedMember(NamedTuple):
    """A member as listed in the leader's JoinGroup response."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinResult(NamedTuple):
    """The result of a JoinGroup; ``members`` is filled for the leader only."""

    error: ErrorCode
    member_id: str
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


class SyncResult(NamedTuple):
    """The result of a SyncGroup."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


class LeftMember(NamedTuple):
    """The result of a LeaveGroup for one member."""

    member_id: str
    instance_id: str | None
    error: ErrorCode


class GroupListing(NamedTuple):
    """One group in ListGroups, with the names of its message's fields."""

    group_id: str
    protocol_type: str
    group_state: str
    group_type: str


class MemberDescription(NamedTuple):
    """One member in DescribeGroups."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class GroupDescription(NamedTuple):
    """One group in DescribeGroups."""

    error: ErrorCode
    group_id: str
    state: str = ""
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[MemberDescription, ...] = ()
