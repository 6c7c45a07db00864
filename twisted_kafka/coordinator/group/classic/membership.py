"""SyncGroup, Heartbeat and LeaveGroup on one group."""

from collections.abc import Sequence
from concurrent.futures import Future

from twisted_kafka.coordinator.group.classic.classic_group import ClassicGroup
from twisted_kafka.coordinator.group.classic.rebalance import Rebalancer
from twisted_kafka.coordinator.group.classic.states import COMPLETING_REBALANCE, DEAD, EMPTY, PREPARING_REBALANCE
from twisted_kafka.coordinator.group.requests import LeavingMember, Sender, SyncRequest
from twisted_kafka.coordinator.group.results import LeftMember, SyncResult
from twisted_kafka.protocol.errors import ErrorCode

_NONE = ErrorCode.NONE


class Membership:
    """What a member does between its join and its leave."""

    def __init__(self, rebalancer: Rebalancer) -> None:
        self._rebalancer = rebalancer

    def sync(self, group: ClassicGroup, request: SyncRequest) -> "SyncResult | Future[SyncResult]":
        """Give a member its assignment, when there is one."""
        error = self._check(group, request.sender)
        if error:
            return SyncResult(error)
        if request.protocol_type not in (None, group.protocol_type) or request.protocol not in (None, group.protocol):
            return SyncResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        member_id = request.sender.member_id
        member = group.members[member_id]
        if group.state is EMPTY:
            return SyncResult(ErrorCode.UNKNOWN_MEMBER_ID)
        if group.state is PREPARING_REBALANCE:
            return SyncResult(ErrorCode.REBALANCE_IN_PROGRESS)
        self._rebalancer.synced(group, member_id)
        if group.state is COMPLETING_REBALANCE:
            parked = self._rebalancer.park_sync(member)
            if group.leader == member_id:
                self._rebalancer.store_assignment(group, request.assignments)
            return parked
        self._rebalancer.touch(group, member)
        return SyncResult(_NONE, group.protocol_type, group.protocol, member.assignment)

    def heartbeat(self, group: ClassicGroup, sender: Sender) -> ErrorCode:
        """Keep a member's session alive, and tell it when to join again."""
        error = self._check(group, sender)
        if error:
            return error
        if group.state is EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        self._rebalancer.touch(group, group.members[sender.member_id])
        return ErrorCode.REBALANCE_IN_PROGRESS if group.state is PREPARING_REBALANCE else _NONE

    def _check(self, group: ClassicGroup, sender: Sender) -> ErrorCode:
        if group.state is DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = group.check_member(sender.member_id, sender.instance_id)
        if error:
            return error
        return _NONE if sender.generation == group.generation else ErrorCode.ILLEGAL_GENERATION

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
        reason = f"{member_id} left" + (f"; client reason: {one.reason}" if one.reason else "")
        self._rebalancer.remove_member(group, group.members[member_id], reason)
        return _NONE
