"""The consumer group protocol: ConsumerGroupHeartbeat requests (KIP-848)."""

from twisted.logger import Logger

from twisted_kafka.coordinator.append_errors import consumer_group_error
from twisted_kafka.coordinator.coordinator_record import CoordinatorRecord
from twisted_kafka.coordinator.effects import Write
from twisted_kafka.group_coordinator.consumer.heartbeat_validation import check_epoch, is_full
from twisted_kafka.group_coordinator.consumer.member_manager import MemberManager
from twisted_kafka.group_coordinator.consumer.member_updater import Change
from twisted_kafka.group_coordinator.consumer.migration import consumer_group_of
from twisted_kafka.group_coordinator.group_records import group_tombstone
from twisted_kafka.group_coordinator.modern.member_timers import REVOCATION
from twisted_kafka.group_coordinator.requests import Client
from twisted_kafka.group_coordinator.shared.environment import GroupEnvironment
from twisted_kafka.group_coordinator.state.classic_group import ClassicGroup
from twisted_kafka.group_coordinator.state.classic_group_state import EMPTY as CLASSIC_EMPTY
from twisted_kafka.group_coordinator.state.consumer import consumer_group_records as records
from twisted_kafka.group_coordinator.state.consumer.consumer_group import ConsumerGroup
from twisted_kafka.group_coordinator.state.consumer.consumer_group_member import (
    STATIC_LEAVE_EPOCH,
    ConsumerGroupMember,
    Partitions,
    Profile,
    partitions_of,
)
from twisted_kafka.group_coordinator.state.group_kinds import tombstones
from twisted_kafka.group_coordinator.state.group_store import GroupStore
from twisted_kafka.protocol.errors import (
    ErrorCode,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    UnreleasedInstanceIdError,
)
from twisted_kafka.protocol.messages.coordinators.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)

_log = Logger()

Response = ConsumerGroupHeartbeatResponse


class ConsumerGroupProtocol:
    """Handles ConsumerGroupHeartbeat: members that join, stay or leave."""

    def __init__(self, store: GroupStore, environment: GroupEnvironment, members: MemberManager) -> None:
        self._store = store
        self._environment = environment
        self._members = members

    def heartbeat(self, request: ConsumerGroupHeartbeatRequest, client: Client) -> Response | Write[Response]:
        """Answer a heartbeat of a member that joins or stays.

        Raises GroupIdNotFoundError for a group of another type, or none that the member could be in; GroupMaxSizeReachedError;
        UnknownMemberIdError; FencedMemberEpochError; FencedInstanceIdError or UnreleasedInstanceIdError for a static member whose
        instance id another one has; InvalidRegularExpressionError; UnknownServerError if the assignor fails.
        """
        joins = request.member_epoch == 0
        written: list[CoordinatorRecord] = []
        group, upgraded_from = self._group(request.group_id, joins, written)
        member_id = request.member_id or self._environment.new_id()
        self.check_room(group, member_id)
        owned = None if request.topic_partitions is None else partitions_of(request.topic_partitions)
        old = self._member(group, request, member_id, owned)
        change = Change(group, old, member_id, _profile(request, client, old), owned, client.describable)
        update = self._members.updater.update(change)
        current = update.member.current
        response = Response(
            member_id=member_id,
            member_epoch=current.epoch,
            heartbeat_interval_ms=self._environment.group_config_manager.number(group.group_id, "consumer.heartbeat.interval.ms"),
        )
        if old is None or current.assigned != old.current.assigned or is_full(request):
            response.assignment = _assignment(current.assigned)
        written += update.records
        if not written:
            group.seen = update.seen
            self._members.touch(group.group_id, update.member)
            return response
        return self._members.write(change, update, written, lambda error: _unless(error, response), upgraded_from)

    def check_room(self, group: ConsumerGroup, member_id: str) -> None:
        """Raise GroupMaxSizeReachedError if the group is full and the member is not in it."""
        limit = self._environment.config.consumer_max_size
        if len(group.members) >= limit and member_id not in group.members:
            raise GroupMaxSizeReachedError(f"The consumer group has reached its maximum capacity of {limit} members.")

    def _group(self, group_id: str, joins: bool, written: list[CoordinatorRecord]) -> tuple[ConsumerGroup, ClassicGroup | None]:
        """Return the group, created or converted if necessary; the records of doing so are added to ``written``."""
        known = self._store.consumer(group_id)
        if known is not None:
            return known, None
        classic = self._store.classic(group_id)
        if group_id not in self._store.groups:
            if joins:
                return ConsumerGroup(group_id), None
            raise GroupIdNotFoundError(f"Consumer group {group_id} not found.")
        if classic is None or not joins:
            raise GroupIdNotFoundError(f"Group {group_id} is not a consumer group.")
        if classic.state is CLASSIC_EMPTY:
            written.extend(tombstones(classic))
            return ConsumerGroup(group_id), None
        return self._upgrade(classic, written), classic

    def _upgrade(self, group: ClassicGroup, written: list[CoordinatorRecord]) -> ConsumerGroup:
        config = self._environment.config
        reason = None
        if not config.migration_policy.upgrades:
            reason = "online upgrade is disabled"
        elif not group.is_consumer_group() or not group.members:
            reason = "the group does not use the consumer embedded protocol"
        elif len(group.members) > config.consumer_max_size:
            reason = "the group size exceeds the consumer group maximum size"
        if reason is not None:
            raise GroupIdNotFoundError(f"Cannot upgrade classic group {group.group_id} to consumer group because {reason}.")
        upgraded = consumer_group_of(group, self._members.updater.snapshot)
        written.append(group_tombstone(group.group_id))
        written.extend(records.group_created(upgraded))
        _log.info("Group {group}: converting to a consumer group", group=group.group_id)
        return upgraded

    def _member(
        self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, member_id: str, owned: Partitions | None
    ) -> ConsumerGroupMember | None:
        """Return the stored member; for a join, the member that it replaces, or None if it is new."""
        instance_id = request.instance_id
        if request.member_epoch != 0:
            member = self._members.member(group, member_id, instance_id)
            check_epoch(member.current, request.member_epoch, owned)
            return member
        holder = group.static_member(instance_id)
        if holder is None or holder.member_id == member_id:
            return group.members.get(member_id)
        if holder.current.epoch != STATIC_LEAVE_EPOCH and not holder.is_classic:
            raise UnreleasedInstanceIdError(
                f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id is "
                f"owned by {holder.member_id} member."
            )
        return holder

    def leave(self, request: ConsumerGroupHeartbeatRequest) -> Write[Response]:
        """Remove a member, or mark a static member as temporarily absent.

        Raises GroupIdNotFoundError, UnknownMemberIdError, or FencedInstanceIdError if another member has its instance id.
        """
        group_id, member_id = request.group_id, request.member_id
        group = self._store.consumer(group_id)
        if group is None:
            raise GroupIdNotFoundError(f"Group {group_id} not found.")
        response = Response(member_id=member_id, member_epoch=request.member_epoch)
        member = self._members.member(group, member_id, request.instance_id)
        if request.member_epoch != STATIC_LEAVE_EPOCH:
            return self._members.remove(group, [member], "it left", lambda error: _unless(error, response))
        away = member.current._replace(epoch=STATIC_LEAVE_EPOCH, revoking={})

        def completed(error: ErrorCode) -> Response:
            if not error:
                self._members.timers.cancel(REVOCATION, group_id, member_id)
            return _unless(consumer_group_error(error), response)

        return Write([records.member_current(group_id, member_id, away)], completed)


def _profile(request: ConsumerGroupHeartbeatRequest, client: Client, old: ConsumerGroupMember | None) -> Profile:
    """Return the member's profile; fields that the request omits keep their old values."""
    known = Profile() if old is None else old.profile
    regex = request.subscribed_topic_regex
    names = request.subscribed_topic_names
    return Profile(
        known.instance_id if request.instance_id is None else request.instance_id,
        known.rack_id if request.rack_id is None else request.rack_id,
        client.client_id,
        client.host,
        known.topics if names is None else frozenset(names),
        known.regex if regex is None else regex or None,
        known.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms,
        known.assignor if request.server_assignor is None else request.server_assignor,
    )


def _assignment(partitions: Partitions) -> ConsumerGroupHeartbeatResponseAssignment:
    return ConsumerGroupHeartbeatResponseAssignment(
        topic_partitions=[
            ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=topic_id, partitions=sorted(indexes))
            for topic_id, indexes in sorted(partitions.items())
        ]
    )


def _unless(error: ErrorCode, response: Response) -> Response:
    if error:
        return Response(error_code=error, error_message="Failed to write the change of the group.")
    return response
