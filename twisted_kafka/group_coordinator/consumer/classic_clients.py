"""The classic protocol for members of consumer groups: JoinGroup, SyncGroup, Heartbeat and LeaveGroup (KIP-848).

The coordinator computes the assignment of these members, too. A join moves a member to its next epoch, which the member sees as
a generation. The answer to a heartbeat asks it to rejoin whenever it has partitions to revoke or to receive.
"""

from collections.abc import Sequence

from twisted_kafka.coordinator.effects import Write
from twisted_kafka.group_coordinator.consumer.consumer_group_protocol import ConsumerGroupProtocol
from twisted_kafka.group_coordinator.consumer.member_manager import MemberManager
from twisted_kafka.group_coordinator.consumer.member_updater import Change
from twisted_kafka.group_coordinator.consumer.migration import by_name, topic_partitions
from twisted_kafka.group_coordinator.modern.member_timers import SYNC
from twisted_kafka.group_coordinator.requests import JoinRequest, LeavingMember, Sender, SyncRequest
from twisted_kafka.group_coordinator.results import JoinResult, LeftMember, SyncResult
from twisted_kafka.group_coordinator.shared.environment import GroupEnvironment
from twisted_kafka.group_coordinator.state.consumer.consumer_group import ConsumerGroup
from twisted_kafka.group_coordinator.state.consumer.consumer_group_member import ConsumerGroupMember, classic_profile
from twisted_kafka.group_coordinator.state.consumer.consumer_group_state import MemberState
from twisted_kafka.group_coordinator.subscription import (
    CONSUMER_PROTOCOL_TYPE,
    decode_subscription,
    encode_assignment,
    version_of,
)
from twisted_kafka.protocol.errors import ErrorCode, KafkaError, UnknownMemberIdError

_NONE = ErrorCode.NONE


class ClassicClients:
    """Handles the classic protocol's requests on consumer groups."""

    def __init__(self, environment: GroupEnvironment, members: MemberManager, protocol: ConsumerGroupProtocol) -> None:
        self._environment = environment
        self._members = members
        self._protocol = protocol

    def join(self, group: ConsumerGroup, request: JoinRequest) -> JoinResult | Write[JoinResult]:
        """Add a member or move it to its next epoch; answered without waiting for other members."""
        terms, instance_id = request.terms, request.instance_id
        member_id = request.member_id or self._environment.new_id()
        try:
            self._protocol.check_room(group, member_id)
            if terms.protocol_type != CONSUMER_PROTOCOL_TYPE or not group.supports_classic(name for name, _ in terms.protocols):
                return JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
            if not request.member_id and request.needs_known_id:
                return JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id)
            if instance_id is None:
                old = group.members.get(member_id)
            elif request.member_id:
                old = self._members.member(group, member_id, instance_id)
            else:
                old = group.static_member(instance_id)
            subscription = decode_subscription(terms.protocols[0][1])
            profile = classic_profile(instance_id, subscription, terms)
            owned = topic_partitions(
                ((each.topic, each.partitions) for each in subscription.owned_partitions), self._members.updater.snapshot
            )
            change = Change(group, old, member_id, profile, owned)
            update = self._members.updater.update(change)
        except KafkaError as error:
            return JoinResult(error.code, "")
        except ValueError:
            return JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
        result = JoinResult(_NONE, member_id, update.member.current.epoch, CONSUMER_PROTOCOL_TYPE, terms.protocols[0][0])

        def answer(error: ErrorCode) -> JoinResult:
            if error:
                return JoinResult(error, "")
            self._members.await_sync(group.group_id, update.member)
            return result

        return self._members.write(change, update, update.records, answer)

    def sync(self, group: ConsumerGroup, request: SyncRequest) -> SyncResult:
        """Return the member's current assignment."""
        sender = request.sender
        try:
            member = self._member(group, sender)
        except KafkaError as error:
            return SyncResult(error.code)
        classic = member.profile.classic
        if classic is None:
            return SyncResult(ErrorCode.UNKNOWN_MEMBER_ID)
        if member.current.epoch != sender.generation:
            return SyncResult(ErrorCode.ILLEGAL_GENERATION)
        name, metadata = classic.protocols[0]
        if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or request.protocol not in (None, name):
            return SyncResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if group.awaited_epoch > member.current.epoch and member.current.state is not MemberState.UNREVOKED_PARTITIONS:
            self._members.await_join(group.group_id, member)
            return SyncResult(ErrorCode.REBALANCE_IN_PROGRESS)
        self._members.timers.cancel(SYNC, group.group_id, member.member_id)
        self._members.touch(group.group_id, member)
        partitions = by_name(member.current.assigned, self._members.updater.snapshot)
        return SyncResult(_NONE, CONSUMER_PROTOCOL_TYPE, name, encode_assignment(partitions, version_of(metadata)))

    def heartbeat(self, group: ConsumerGroup, sender: Sender) -> ErrorCode:
        """Extend a member's session. REBALANCE_IN_PROGRESS means that the member must rejoin."""
        try:
            member = self._member(group, sender)
        except KafkaError as error:
            return error.code
        current = member.current
        if current.epoch != sender.generation:
            return ErrorCode.ILLEGAL_GENERATION
        self._members.touch(group.group_id, member)
        is_behind = (
            current.epoch < group.awaited_epoch
            or current.state is MemberState.UNREVOKED_PARTITIONS
            or (current.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member))
        )
        if is_behind:
            self._members.await_join(group.group_id, member)
            return ErrorCode.REBALANCE_IN_PROGRESS
        return _NONE

    def leave(self, group: ConsumerGroup, leaving: Sequence[LeavingMember]) -> "list[LeftMember] | Write[list[LeftMember]]":
        """Remove members, each given by its member id, or by its instance id only (as administrators do)."""
        left: list[LeftMember] = []
        going: dict[str, ConsumerGroupMember] = {}
        for one in leaving:
            error = _NONE
            try:
                if one.member_id:
                    member = self._member(group, Sender(group.group_id, one.member_id, one.instance_id))
                else:
                    found = group.static_member(one.instance_id)
                    member = found if found is not None else self._members.member(group, "", one.instance_id)
                if member.member_id in going:
                    error = ErrorCode.UNKNOWN_MEMBER_ID
                going[member.member_id] = member
            except KafkaError as refused:
                error = refused.code
            left.append(LeftMember(one.member_id, one.instance_id, error))
        if not going:
            return left

        def answer(error: ErrorCode) -> list[LeftMember]:
            return [each if each.error or not error else each._replace(error=error) for each in left]

        return self._members.remove(group, list(going.values()), "it left", answer)

    def _member(self, group: ConsumerGroup, sender: Sender) -> ConsumerGroupMember:
        """Return a member that uses the classic protocol. Raises UnknownMemberIdError, FencedInstanceIdError."""
        member = self._members.member(group, sender.member_id, sender.instance_id)
        if not member.is_classic:
            raise UnknownMemberIdError(f"Member {member.member_id} does not use the classic protocol.")
        return member
