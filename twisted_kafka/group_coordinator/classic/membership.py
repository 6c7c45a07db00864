"""The classic protocol's requests on a classic group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup (KIP-394, KIP-345, KIP-814)."""

from collections.abc import Sequence
from concurrent.futures import Future

from twisted_kafka.coordinator.append_errors import group_store_error
from twisted_kafka.coordinator.effects import Effects
from twisted_kafka.group_coordinator.classic.rebalance import Rebalancer
from twisted_kafka.group_coordinator.group_records import group_metadata
from twisted_kafka.group_coordinator.requests import JoinRequest, LeavingMember, Sender, SyncRequest
from twisted_kafka.group_coordinator.results import JoinResult, LeftMember, SyncResult
from twisted_kafka.group_coordinator.shared.environment import GroupEnvironment
from twisted_kafka.group_coordinator.state.classic_group import ClassicGroup
from twisted_kafka.group_coordinator.state.classic_group_member import ClassicGroupMember, MemberTerms
from twisted_kafka.group_coordinator.state.classic_group_state import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
)
from twisted_kafka.protocol.errors import ErrorCode

_NONE = ErrorCode.NONE
JoinAnswer = JoinResult | Future[JoinResult]


class ClassicMembership:
    """Decides the effect of each request on a group; the ``Rebalancer`` carries it out."""

    def __init__(self, rebalancer: Rebalancer, effects: Effects, environment: GroupEnvironment) -> None:
        self._rebalancer = rebalancer
        self._effects = effects
        self._config = environment.config
        self._new_id = environment.new_id

    # JoinGroup

    def join(self, group: ClassicGroup, request: JoinRequest) -> JoinAnswer:
        """Answer a JoinGroup, immediately or when the rebalance is over."""
        if not self._has_room(group, request.member_id):
            group.remove(request.member_id)
            self._rebalancer.try_complete_join(group)
            return JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        if not group.supports(request.terms.protocol_type, request.terms.protocols):
            return JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
        if not request.member_id:
            return self._join_new(group, request)
        return self._join_known(group, request)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        if group.state is EMPTY:
            return True
        if group.state is PREPARING_REBALANCE:
            member = group.members.get(member_id)
            return (member is not None and member.awaiting_join is not None) or group.awaiting_joins < self._config.max_size
        return member_id in group.members or len(group.members) < self._config.max_size

    def _join_new(self, group: ClassicGroup, request: JoinRequest) -> JoinAnswer:
        prefix = request.terms.client_id if request.instance_id is None else request.instance_id
        member_id = f"{prefix}-{self._new_id()}"
        if request.instance_id is not None:
            if group.static_member_id(request.instance_id) is not None:
                return self._replace_static(group, request, request.instance_id, member_id)
        elif request.needs_known_id:
            self._rebalancer.await_pending(group, member_id, request.terms.session_timeout_ms)
            return JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        return self._rebalancer.add_member(group, member_id, request.instance_id, request.terms)

    def _join_known(self, group: ClassicGroup, request: JoinRequest) -> JoinAnswer:
        member_id = request.member_id
        if member_id in group.pending_members:
            if request.instance_id is not None:  # static members get no pending ids; the instance id may be another member's
                return JoinResult(ErrorCode.UNKNOWN_SERVER_ERROR, member_id)
            return self._rebalancer.add_member(group, member_id, None, request.terms)
        error = group.check_member(member_id, request.instance_id)
        if error:
            return JoinResult(error, member_id)
        if group.state is EMPTY:
            return JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, member_id)
        member = group.members[member_id]
        # The member asks for the current generation again, because a response was lost for example. Only the leader of a stable
        # group triggers a rebalance by rejoining: its subscribed topics have changed.
        settled = group.state is COMPLETING_REBALANCE or (group.state is STABLE and group.leader != member_id)
        if settled and member.terms.protocols == request.terms.protocols:
            return self._rebalancer.joined(group, member)
        return self._rebalancer.rejoin(group, member, request.terms)

    def _replace_static(self, group: ClassicGroup, request: JoinRequest, instance_id: str, new_member_id: str) -> JoinAnswer:
        """Replace a static member: it has restarted, or another client uses its instance id."""
        rebalancer = self._rebalancer
        old_leader = group.leader or ""
        old_member_id = group.static_member_id(instance_id) or ""
        member = group.members[old_member_id]
        old_terms = member.terms
        rebalancer.answer_join(group, member, JoinResult(ErrorCode.FENCED_INSTANCE_ID, old_member_id))
        rebalancer.answer_sync(member, SyncResult(ErrorCode.FENCED_INSTANCE_ID))
        group.replace_static(instance_id, new_member_id)
        group.use_terms(member, request.terms)
        rebalancer.start_session(group, member)
        if group.state is not STABLE:
            parked = rebalancer.park_join(group, member)
            if group.state is COMPLETING_REBALANCE:
                # The leader may be computing an assignment for the old id: only another rebalance includes the new one.
                rebalancer.prepare(group, f"static member {instance_id} rejoined with a new member id")
            else:
                rebalancer.try_complete_join(group)
            return parked
        if group.protocol != group.select_protocol():
            parked = rebalancer.park_join(group, member)
            rebalancer.maybe_prepare(group, f"static member {instance_id} changed the group's protocol")
            return parked
        return self._store_replacement(group, member, request, old_member_id, old_leader, old_terms)

    def _store_replacement(
        self,
        group: ClassicGroup,
        member: ClassicGroupMember,
        request: JoinRequest,
        old_member_id: str,
        old_leader: str,
        old_terms: MemberTerms,
    ) -> "Future[JoinResult]":
        """Store the member's new id with its old assignment, so that no rebalance is necessary."""
        answer: Future[JoinResult] = Future()
        new_member_id = member.member_id
        generation = group.generation

        def stored(error: ErrorCode) -> None:
            current = (group.generation, group.protocol_type, group.protocol)
            if error:
                if group.members.get(new_member_id) is member and member.instance_id is not None:
                    group.use_terms(member, old_terms)
                    group.replace_static(member.instance_id, old_member_id)
                    self._rebalancer.start_session(group, member)
                self._effects.reply(answer, JoinResult(group_store_error(error), "", *current, old_leader))
            elif group.generation != generation:
                self._effects.reply(answer, JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, new_member_id))
            elif request.can_skip_assignment:
                result = self._rebalancer.joined(group, member)
                self._effects.reply(answer, result._replace(skip_assignment=group.leader == new_member_id))
            else:
                # The old leader id keeps a returning leader with an old client from computing an assignment that is not used.
                self._effects.reply(answer, JoinResult(error, new_member_id, *current, old_leader))

        assignments = {one.member_id: one.assignment for one in group.members.values()}
        self._effects.write([group_metadata(group.group_id, group.to_value(assignments))], stored)
        return answer

    # SyncGroup, Heartbeat, LeaveGroup

    def sync(self, group: ClassicGroup, request: SyncRequest) -> "SyncResult | Future[SyncResult]":
        """Return a member's assignment, immediately or when the leader's SyncGroup is stored."""
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
        """Extend a member's session. REBALANCE_IN_PROGRESS means that the member must rejoin."""
        error = self._check(group, sender)
        if error:
            return error
        if group.state is EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        self._rebalancer.touch(group, group.members[sender.member_id])
        return ErrorCode.REBALANCE_IN_PROGRESS if group.state is PREPARING_REBALANCE else _NONE

    def _check(self, group: ClassicGroup, sender: Sender) -> ErrorCode:
        error = group.check_member(sender.member_id, sender.instance_id)
        if error:
            return error
        return _NONE if sender.generation == group.generation else ErrorCode.ILLEGAL_GENERATION

    def leave(self, group: ClassicGroup, leaving: Sequence[LeavingMember]) -> list[LeftMember]:
        """Remove members by member id, or by instance id alone (as administrators do); return an error code for each."""
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
