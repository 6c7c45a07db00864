"""SyncGroup, Heartbeat and LeaveGroup on one group."""

from collections.abc import Sequence
from concurrent.futures import Future

from twisted_kafka.coordinator.group.classic_group import ClassicGroup
from twisted_kafka.coordinator.group.rebalance import Rebalancer
from twisted_kafka.coordinator.group.results import LeavingMember, LeftMember, SyncResult
from twisted_kafka.coordinator.group.states import COMPLETING_REBALANCE, DEAD, EMPTY, PREPARING_REBALANCE
from twisted_kafka.protocol.errors import ErrorCode

_NONE = ErrorCode.NONE


class Membership:
    """What a member does between its join and its leave."""

    def __init__(self, rebalancer: Rebalancer) -> None:
        self._rebalancer = rebalancer

    def sync(
        self,
        group: ClassicGroup,
        member_id: str,
        instance_id: str | None,
        generation: int,
        protocol: tuple[str | None, str | None],
        assignments: dict[str, bytes],
    ) -> "SyncResult | Future[SyncResult]":
        """Give a member its assignment, when there is one; ``protocol`` is its idea of (type, name), None: doesn't say."""
        error = self._check_sync(group, member_id, instance_id, generation, protocol)
        if error:
            return SyncResult(error)
        member = group.members[member_id]
        if group.state is EMPTY:
            return SyncResult(ErrorCode.UNKNOWN_MEMBER_ID)
        if group.state is PREPARING_REBALANCE:
            return SyncResult(ErrorCode.REBALANCE_IN_PROGRESS)
        self._rebalancer.synced(group, member_id)
        if group.state is COMPLETING_REBALANCE:
            parked = self._rebalancer.park_sync(member)
            if group.leader == member_id:
                self._rebalancer.store_assignment(group, assignments)
            return parked
        self._rebalancer.touch(group, member)
        return SyncResult(_NONE, group.protocol_type, group.protocol, member.assignment)

    def _check_sync(
        self,
        group: ClassicGroup,
        member_id: str,
        instance_id: str | None,
        generation: int,
        protocol: tuple[str | None, str | None],
    ) -> ErrorCode:
        if group.state is DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = group.check_member(member_id, instance_id)
        if error:
            return error
        if generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        protocol_type, name = protocol
        if protocol_type not in (None, group.protocol_type) or name not in (None, group.protocol):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return _NONE

    def heartbeat(self, group: ClassicGroup, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Keep a member's session alive, and tell it when to join again."""
        if group.state is DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = group.check_member(member_id, instance_id)
        if error:
            return error
        if generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if group.state is EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        self._rebalancer.touch(group, group.members[member_id])
        return ErrorCode.REBALANCE_IN_PROGRESS if group.state is PREPARING_REBALANCE else _NONE

    def leave(self, group: ClassicGroup, leaving: Sequence[LeavingMember]) -> list[LeftMember]:
        """Let members go, each by its id, or by its instance id alone as administrators do."""
        return [LeftMember(one.member_id, one.instance_id, self._leave(group, one)) for one in leaving]

    def _leave(self, group: ClassicGroup, one: LeavingMember) -> ErrorCode:
        member_id = one.member_id
        if not member_id:
            current = group.static_member_id(one.instance_id) if one.instance_id is not None else None
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = current
        elif member_id in group.pending_members:
            self._rebalancer.remove_pending(group, member_id)
            return _NONE
        else:
            error = group.check_member(member_id, one.instance_id)
            if error:
                return error
        self._rebalancer.remove_member(group, group.members[member_id], f"{member_id} left")
        return _NONE
