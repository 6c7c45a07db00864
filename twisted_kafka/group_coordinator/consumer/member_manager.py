"""Members of consumer groups: lookup, writing their changes, timeouts, removal, and conversion of groups to classic groups."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from twisted.logger import Logger

from twisted_kafka.coordinator.append_errors import consumer_group_error
from twisted_kafka.coordinator.coordinator_record import CoordinatorRecord
from twisted_kafka.coordinator.effects import Effects, Write
from twisted_kafka.group_coordinator.classic.rebalance import Rebalancer
from twisted_kafka.group_coordinator.consumer.member_updater import Change, MemberUpdater, Update
from twisted_kafka.group_coordinator.consumer.migration import classic_value_of
from twisted_kafka.group_coordinator.group_records import group_metadata
from twisted_kafka.group_coordinator.modern.member_timers import JOIN, REVOCATION, SESSION, SYNC, MemberTimers
from twisted_kafka.group_coordinator.shared.environment import GroupEnvironment
from twisted_kafka.group_coordinator.state.classic_group import ClassicGroup
from twisted_kafka.group_coordinator.state.consumer import consumer_group_records as records
from twisted_kafka.group_coordinator.state.consumer.consumer_group import ConsumerGroup
from twisted_kafka.group_coordinator.state.consumer.consumer_group_member import ConsumerGroupMember
from twisted_kafka.group_coordinator.state.consumer.consumer_group_state import MemberState
from twisted_kafka.group_coordinator.state.group_store import GroupStore
from twisted_kafka.group_coordinator.state.topic_image import known_topics
from twisted_kafka.protocol.errors import ErrorCode, FencedInstanceIdError, UnknownMemberIdError

_log = Logger()

T = TypeVar("T")

FENCE_RETRY_MS = 500
"""How long after a failed write of a member's removal the next attempt follows (as in Kafka's CoordinatorRuntime)."""


class MemberManager:
    """Looks up members, writes their changes, fences them when they time out, and removes them."""

    def __init__(self, store: GroupStore, environment: GroupEnvironment, effects: Effects, rebalancer: Rebalancer) -> None:
        self._store = store
        self._environment = environment
        self._effects = effects
        self._rebalancer = rebalancer
        self.updater = MemberUpdater(
            environment.topics,
            environment.assignors,
            environment.clock,
            environment.metrics,
            lambda group_id: environment.group_config_manager.number(group_id, "consumer.assignment.interval.ms"),
        )
        self.timers = MemberTimers(effects.timers, environment.clock)

    def loaded(self) -> None:
        """Start the session and revocation timers of all members."""
        for group in self._store.consumer_groups():
            for member in group.members.values():
                self.touch(group.group_id, member)
                self._time_revocation(group.group_id, member)

    def unloaded(self) -> None:
        """Stop the timers."""
        self.timers.close()

    def member(self, group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerGroupMember:
        """Return a member. Raises UnknownMemberIdError, and FencedInstanceIdError if another member has its instance id."""
        if instance_id is None:
            member = group.members.get(member_id)
            if member is None:
                raise UnknownMemberIdError(f"Member {member_id} is not a member of group {group.group_id}.")
            return member
        member = group.static_member(instance_id)
        if member is None:
            raise UnknownMemberIdError(f"Instance id {instance_id} is unknown.")
        if member.member_id != member_id:
            raise FencedInstanceIdError(
                f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}."
            )
        return member

    # changes

    def write(
        self,
        change: Change,
        update: Update,
        written: list[CoordinatorRecord],
        answer: Callable[[ErrorCode], T],
        upgraded_from: ClassicGroup | None = None,
    ) -> Write[T]:
        """Write the records of a change, then set the member's timers; ``answer`` returns the response for the outcome."""
        group_id = change.group.group_id

        def completed(error: ErrorCode) -> T:
            # The records may be in the log despite an error, if only the replicas did not confirm: the stored state decides.
            group = self._store.consumer(group_id)
            if group is not None and not error:
                group.seen = update.seen
            stored = None if group is None else group.members.get(update.member.member_id)
            if group is not None and stored is not None:
                self._changed(group, change, stored, upgraded_from)
            return answer(consumer_group_error(error))

        return Write(written, completed)

    def _changed(
        self, group: ConsumerGroup, change: Change, member: ConsumerGroupMember, upgraded_from: ClassicGroup | None
    ) -> None:
        """Set the timers that a change requires."""
        group_id = group.group_id
        if change.replaces is not None:
            self.timers.forget(group_id, change.replaces)
        if upgraded_from is not None:
            self._rebalancer.abandon(upgraded_from, ErrorCode.REBALANCE_IN_PROGRESS)
            for other in group.members.values():
                self.touch(group_id, other)
        self.touch(group_id, member)
        self._time_revocation(group_id, member)
        if change.replaces is not None:
            self.maybe_downgrade(group)

    def remove(
        self, group: ConsumerGroup, members: Sequence[ConsumerGroupMember], reason: str, answer: Callable[[ErrorCode], T]
    ) -> Write[T]:
        """Return the write that removes members from a group; ``answer`` returns the response for the outcome."""
        group_id = group.group_id
        for member in members:
            _log.info("Group {group}: removing member {member}: {reason}", group=group_id, member=member.member_id, reason=reason)
        if group.classic_count:
            going = {member.member_id for member in members}
            left = [member for member in group.members.values() if member.member_id not in going]
            if self._may_downgrade(left):
                return self._downgrade(group, left, False, answer)
        profiles = [member.profile for member in members]
        written = [record for member in members for record in records.TYPES.member_removed(group_id, member.member_id)]
        regexes = dict(group.regexes)
        for regex in {profile.regex for profile in profiles if profile.regex}:
            if regex in regexes and group.regex_count(regex) <= sum(profile.regex == regex for profile in profiles):
                del regexes[regex]
                written.append(records.resolved_regex(group_id, regex, None))
        topics = known_topics(self.updater.snapshot, group.topic_names(profiles, (), regexes))
        if topics != group.topics:
            written.append(records.subscribed_topics(group_id, topics))
        written.append(records.group_epoch(group_id, group.epoch + 1))

        def completed(error: ErrorCode) -> T:
            if not error:
                for member in members:
                    self.timers.forget(group_id, member.member_id)
            return answer(consumer_group_error(error))

        return Write(written, completed)

    def fence(self, kind: str, group_id: str, member_id: str, reason: str) -> None:
        """Remove a member whose timer of this kind has run out, if it is still in the group; try again soon if that fails."""
        group = self._store.consumer(group_id)
        if group is None or member_id not in group.members:
            self.timers.forget(group_id, member_id)
            return
        member = group.members[member_id]

        def answer(error: ErrorCode) -> None:
            if error:
                _log.warn("Group {group}: failed to write a member's fencing: {error}", group=group_id, error=error.name)
                self.timers.set(kind, group_id, member_id, FENCE_RETRY_MS, lambda: self.fence(kind, group_id, member_id, reason))

        self._effects.writes.append(self.remove(group, [member], reason, answer))

    def maybe_downgrade(self, group: ConsumerGroup) -> None:
        """Convert a group whose members all use the classic protocol to a classic group, if the policy allows."""
        members = list(group.members.values())
        if self._may_downgrade(members):
            is_settled = all(member.current.is_reconciled_to(group.epoch) for member in members)
            self._effects.writes.append(self._downgrade(group, members, is_settled, lambda _: None))

    def _may_downgrade(self, left: Sequence[ConsumerGroupMember]) -> bool:
        config = self._environment.config
        return (
            bool(left)
            and config.migration_policy.downgrades
            and len(left) <= config.max_size
            and all(member.is_classic for member in left)
        )

    def _downgrade(
        self, group: ConsumerGroup, left: Sequence[ConsumerGroupMember], is_settled: bool, answer: Callable[[ErrorCode], T]
    ) -> Write[T]:
        """Return the write that converts the group, with the members left, to a classic group; rebalance it unless settled."""
        group_id = group.group_id
        value = classic_value_of(group, left, self.updater.snapshot, self._environment.clock.wall_ms())
        member_ids = list(group.members)

        def completed(error: ErrorCode) -> T:
            classic = self._store.classic(group_id)
            if classic is None:
                _log.warn("Group {group}: failed to convert to a classic group: {error}", group=group_id, error=error.name)
                return answer(consumer_group_error(error))
            for member_id in member_ids:
                self.timers.forget(group_id, member_id)
            for member in list(classic.members.values()):
                self._rebalancer.start_session(classic, member)
            if not is_settled:
                self._rebalancer.maybe_prepare(classic, "converted from a consumer group")
            return answer(consumer_group_error(error))

        _log.info("Group {group}: converting to a classic group", group=group_id)
        return Write([*records.group_removed(group), group_metadata(group_id, value)], completed)

    # timers

    def touch(self, group_id: str, member: ConsumerGroupMember) -> None:
        """Restart a member's session."""
        classic = member.profile.classic
        if classic is None:
            timeout_ms = self._environment.group_config_manager.number(group_id, "consumer.session.timeout.ms")
        else:
            timeout_ms = classic.session_timeout_ms
        member_id = member.member_id
        self.timers.touch(group_id, member_id, timeout_ms, lambda: self.fence(SESSION, group_id, member_id, "its session expired"))

    def _time_revocation(self, group_id: str, member: ConsumerGroupMember) -> None:
        """Set or cancel a member's revocation timer; members with the classic protocol have join and sync timers instead."""
        current, member_id = member.current, member.member_id
        if current.state is not MemberState.UNREVOKED_PARTITIONS or member.is_classic:
            self.timers.cancel(REVOCATION, group_id, member_id)
            return

        def too_late() -> None:
            group = self._store.consumer(group_id)
            present = None if group is None else group.members.get(member_id)
            if present is not None and (present.current.epoch, present.current.state) == (current.epoch, current.state):
                self.fence(REVOCATION, group_id, member_id, "it did not revoke its partitions in time")

        self.timers.set(REVOCATION, group_id, member_id, member.profile.rebalance_timeout_ms, too_late)

    def await_join(self, group_id: str, member: ConsumerGroupMember) -> None:
        """Set the timer for the rejoin of a member that uses the classic protocol."""
        self._await(JOIN, "it did not rejoin in time", group_id, member)

    def await_sync(self, group_id: str, member: ConsumerGroupMember) -> None:
        """Set the timer for the SyncGroup of a member that uses the classic protocol and has joined."""
        self.timers.cancel(JOIN, group_id, member.member_id)
        self.timers.cancel(SYNC, group_id, member.member_id)
        self._await(SYNC, "it did not sync in time", group_id, member)

    def _await(self, kind: str, reason: str, group_id: str, member: ConsumerGroupMember) -> None:
        member_id = member.member_id
        timeout_ms = member.profile.rebalance_timeout_ms
        self.timers.set_if_absent(kind, group_id, member_id, timeout_ms, lambda: self.fence(kind, group_id, member_id, reason))
