"""Requests of the classic protocol, on groups of any type: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

from collections.abc import Sequence
from concurrent.futures import Future

from twisted_kafka.coordinator.append_errors import group_store_error
from twisted_kafka.coordinator.effects import Effects, Write
from twisted_kafka.group_coordinator.classic.membership import ClassicMembership, JoinAnswer
from twisted_kafka.group_coordinator.classic.rebalance import Rebalancer
from twisted_kafka.group_coordinator.consumer.classic_clients import ClassicClients
from twisted_kafka.group_coordinator.requests import JoinRequest, LeavingMember, Sender, SyncRequest
from twisted_kafka.group_coordinator.results import JoinResult, LeftMember, SyncResult
from twisted_kafka.group_coordinator.shared.environment import GroupEnvironment
from twisted_kafka.group_coordinator.state.classic_group import ClassicGroup
from twisted_kafka.group_coordinator.state.classic_group_state import EMPTY
from twisted_kafka.group_coordinator.state.group import Group
from twisted_kafka.group_coordinator.state.group_kinds import tombstones
from twisted_kafka.group_coordinator.state.group_store import GroupStore
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.waiting.futures import when_done

_NONE = ErrorCode.NONE
Left = tuple[ErrorCode, list[LeftMember]]


class GroupRouter:
    """Routes a request by the type of its group."""

    def __init__(
        self,
        store: GroupStore,
        environment: GroupEnvironment,
        rebalancer: Rebalancer,
        effects: Effects,
        consumer_groups: ClassicClients,
    ) -> None:
        self._store = store
        self._rebalancer = rebalancer
        self._environment = environment
        self._classic_groups = ClassicMembership(rebalancer, effects, environment)
        self._consumer_groups = consumer_groups

    def join(self, request: JoinRequest) -> "JoinAnswer | Write[JoinResult]":
        """Answer a JoinGroup; the first member without an id creates the group."""
        groups = self._store.groups
        consumer = groups.consumer.get(request.group_id)
        if consumer is not None and consumer.members:
            return self._consumer_groups.join(consumer, request)
        classic = groups.classic.get(request.group_id)
        if classic is not None:
            return self._classic_groups.join(classic, request)
        empty = consumer or groups.streams.get(request.group_id)
        if request.group_id in groups and (empty is None or empty.members):
            return JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
        if request.member_id:
            return JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
        return self._create(request) if empty is None else self._replace(empty, request)

    def _create(self, request: JoinRequest) -> JoinAnswer:
        group = ClassicGroup(request.group_id, EMPTY, self._environment.clock.wall_ms())
        answer = self._classic_groups.join(group, request)
        if group.members or group.pending_members:  # a refused join must not create a group
            self._store.groups[request.group_id] = group
        return answer

    def _replace(self, group: Group, request: JoinRequest) -> Write[JoinResult]:
        """Replace an empty group of another type by a classic group, which keeps its offsets."""

        def completed(error: ErrorCode) -> JoinAnswer:
            if error:
                return JoinResult(group_store_error(error), request.member_id)
            classic = self._store.classic(request.group_id)
            return self._create(request) if classic is None else self._classic_groups.join(classic, request)

        return Write(tombstones(group), completed)

    def rebalance(self, group_id: str) -> ErrorCode:
        """Ask the members of a classic group to join again. A group without members, or of another kind, is not found."""
        group = self._store.classic(group_id)
        if group is None or not group.members:
            return ErrorCode.GROUP_ID_NOT_FOUND
        self._rebalancer.maybe_prepare(group, "asked for")
        return _NONE

    def sync(self, request: SyncRequest) -> "SyncResult | Future[SyncResult]":
        """Answer a SyncGroup."""
        consumer = self._store.consumer(request.sender.group_id)
        if consumer is not None:
            return self._consumer_groups.sync(consumer, request)
        classic = self._store.classic(request.sender.group_id)
        return SyncResult(ErrorCode.UNKNOWN_MEMBER_ID) if classic is None else self._classic_groups.sync(classic, request)

    def heartbeat(self, sender: Sender) -> ErrorCode:
        """Answer a Heartbeat."""
        consumer = self._store.consumer(sender.group_id)
        if consumer is not None:
            return self._consumer_groups.heartbeat(consumer, sender)
        classic = self._store.classic(sender.group_id)
        return ErrorCode.UNKNOWN_MEMBER_ID if classic is None else self._classic_groups.heartbeat(classic, sender)

    def leave(self, group_id: str, leaving: Sequence[LeavingMember]) -> Left | Write[Left]:
        """Answer a LeaveGroup with the group's error and one for each member."""
        consumer = self._store.consumer(group_id)
        if consumer is not None:
            answer = self._consumer_groups.leave(consumer, leaving)
            if isinstance(answer, Write):
                completed = answer.completed
                return Write(answer.records, lambda error: when_done(completed(error), lambda left: (_NONE, left)))
            return _NONE, answer
        classic = self._store.classic(group_id)
        if classic is None:
            return _NONE, [LeftMember(one.member_id, one.instance_id, ErrorCode.UNKNOWN_MEMBER_ID) for one in leaving]
        return _NONE, self._classic_groups.leave(classic, leaving)
