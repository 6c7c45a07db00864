"""Computes what a heartbeat or a join changes: the member's profile, the group epoch, the targets, the member's assignment.

The steps and the order of their records are those of Kafka's GroupMetadataManager.consumerGroupHeartbeat.
"""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from twisted_kafka.coordinator.coordinator_record import CoordinatorRecord
from twisted_kafka.group_coordinator.assignors.interface import ConsumerGroupAssignor
from twisted_kafka.group_coordinator.consumer.reconciliation import Goal, reconcile
from twisted_kafka.group_coordinator.consumer.regexes import REFRESH_INTERVAL_MS, match_known, resolve
from twisted_kafka.group_coordinator.consumer.target_assignment import Basis, compute_target, subscribed_names
from twisted_kafka.group_coordinator.modern.assigning import is_old_enough
from twisted_kafka.group_coordinator.requests import Describable
from twisted_kafka.group_coordinator.shared.group_coordinator_metrics import GroupCoordinatorMetrics
from twisted_kafka.group_coordinator.state.consumer import consumer_group_records as records
from twisted_kafka.group_coordinator.state.consumer.consumer_group import ConsumerGroup, ResolvedRegex, SeenTopics
from twisted_kafka.group_coordinator.state.consumer.consumer_group_member import (
    ConsumerGroupMember,
    CurrentAssignment,
    Partitions,
    Profile,
)
from twisted_kafka.group_coordinator.state.topic_image import TopicInfo, known_topics
from twisted_kafka.metadata.cache import MetadataCache, MetadataSnapshot
from twisted_kafka.timing.clock import IClock


class Change(NamedTuple):
    """A member's request, reduced to what can change the group."""

    group: ConsumerGroup
    old: ConsumerGroupMember | None
    """The stored member, or the one that it replaces; None if it is new."""
    member_id: str
    profile: Profile
    """The member's new profile."""
    owned: Partitions | None
    """The partitions that the member reports to own; None without a report."""
    describable: Describable | None = None
    """The topics that expressions resolved for this request may match; None for every topic."""

    @property
    def replaces(self) -> str | None:
        """The id of the member that this one replaces."""
        return self.old.member_id if self.old is not None and self.old.member_id != self.member_id else None


class Update(NamedTuple):
    """The result of a change: the new version of the member, and the records to write."""

    member: ConsumerGroupMember
    records: list[CoordinatorRecord]
    seen: SeenTopics
    """For the group once the records are written, so that the next request compares again if that fails."""


class _Subscriptions(NamedTuple):
    """The group's subscriptions after the change."""

    changed: bool
    topics: Mapping[str, TopicInfo]
    regexes: Mapping[str, ResolvedRegex]
    seen: SeenTopics


class MemberUpdater:
    """Computes the records and the assignment that follow from a member's change; the group stays as it is until their replay."""

    def __init__(
        self,
        topics: MetadataCache,
        assignors: Mapping[str, ConsumerGroupAssignor],
        clock: IClock,
        metrics: GroupCoordinatorMetrics,
        interval_ms: Callable[[str], int],
    ) -> None:
        """``interval_ms`` returns a group's ``consumer.assignment.interval.ms``."""
        self._topics = topics
        self._assignors = assignors
        self._default_assignor = next(iter(assignors.values()))
        self._clock = clock
        self._metrics = metrics
        self._interval_ms = interval_ms

    @property
    def snapshot(self) -> MetadataSnapshot:
        """The current topics."""
        snapshot: MetadataSnapshot = self._topics.snapshot
        return snapshot

    def update(self, change: Change) -> Update:
        """Return the update for a change. Raises FencedMemberEpochError, InvalidRegularExpressionError, UnknownServerError."""
        group, old = change.group, change.old
        written: list[CoordinatorRecord] = []
        old_profile = None if old is None else old.profile
        current = CurrentAssignment() if old is None else old.current
        if change.replaces is not None:
            current = self._replaced(change, current, written)
        elif old_profile != change.profile:
            written.append(records.member_profile(group.group_id, change.member_id, change.profile))
        member = ConsumerGroupMember(change.member_id, change.profile, current)
        subscriptions = self._subscriptions(change, written)
        epoch = group.epoch
        if subscriptions.changed:
            epoch += 1
            written.append(records.group_epoch(group.group_id, epoch))
            self._metrics.rebalance_began()
        interval_ms, now_ms = self._interval_ms(group.group_id), self._clock.wall_ms()
        if epoch > group.target_epoch and is_old_enough(group.assigned_ms, interval_ms, now_ms):
            assignor = self._assignor(group, old_profile, change.profile)
            basis = Basis(member, change.replaces, subscriptions.topics, subscriptions.regexes)
            target, target_records = compute_target(group, epoch, assignor, basis)
            # Without an interval the record is Kafka 3.9's, which has no time.
            written += [*target_records, records.target_epoch(group.group_id, epoch, now_ms if interval_ms else 0)]
        else:
            epoch = group.target_epoch
            target = group.target_of(member)
        if not current.is_reconciled_to(epoch):
            resubscribes = old_profile is None or not _same_subscription(old_profile, change.profile)
            following = reconcile(current, self._goal(change, epoch, target, subscriptions), change.owned, resubscribes)
            if following is not current:
                written.append(records.member_current(group.group_id, change.member_id, following))
                member = member._replace(current=following)
        return Update(member, written, subscriptions.seen)

    def _replaced(self, change: Change, current: CurrentAssignment, written: list[CoordinatorRecord]) -> CurrentAssignment:
        """Replace a static member: the new one takes over its assignment and target."""
        group_id = change.group.group_id
        current = current._replace(epoch=0, previous_epoch=0)
        predecessor = change.replaces or ""
        written.extend(records.TYPES.member_removed(group_id, predecessor))
        written.append(records.member_profile(group_id, change.member_id, change.profile))
        written.append(records.member_target(group_id, change.member_id, change.group.target.get(predecessor, {})))
        written.append(records.member_current(group_id, change.member_id, current))
        return current

    def _goal(self, change: Change, epoch: int, target: Partitions, subscriptions: _Subscriptions) -> Goal:
        group, own_ids = change.group, (None, change.member_id, change.replaces)
        profile, topics = change.profile, subscriptions.topics
        names = subscribed_names(profile.topics, profile.regex, subscriptions.regexes)
        return Goal(
            epoch,
            target,
            lambda topic_id, index: group.owner(topic_id, index) not in own_ids,
            {topics[name].topic_id for name in names if name in topics},
        )

    def _assignor(self, group: ConsumerGroup, old: Profile | None, new: Profile) -> ConsumerGroupAssignor:
        name = group.preferred_assignor(old, new)
        # A stored member may name an assignor that is no longer configured.
        return self._default_assignor if name is None else self._assignors.get(name, self._default_assignor)

    # subscriptions

    def _subscriptions(self, change: Change, written: list[CoordinatorRecord]) -> _Subscriptions:
        group, old, new = change.group, change.old, change.profile
        snapshot = self.snapshot
        resubscribes = old is None or not _same_subscription(old.profile, new)
        seen = group.seen
        if not resubscribes and group.epoch and snapshot is seen.snapshot:
            return _Subscriptions(False, group.topics, group.regexes, seen)
        regexes, seen = self._regexes(change, snapshot, written)
        removed = () if old is None else (old.profile,)
        topics = known_topics(snapshot, group.topic_names(removed, (new,), regexes))
        changed = topics != group.topics
        if changed:
            written.append(records.subscribed_topics(group.group_id, topics))
        if not regexes or seen.regexes_snapshot is snapshot:
            seen = seen._replace(snapshot=snapshot)
        return _Subscriptions(changed or resubscribes or not group.epoch, topics, regexes, seen)

    def _regexes(
        self, change: Change, snapshot: MetadataSnapshot, written: list[CoordinatorRecord]
    ) -> tuple[Mapping[str, ResolvedRegex], SeenTopics]:
        """Resolve the member's new expression now, and all of the group's if topics changed, at most every REFRESH_INTERVAL_MS."""
        group, new = change.group, change.profile.regex
        old = None if change.old is None else change.old.profile.regex
        regexes = dict(group.regexes)
        if old and old != new and group.regex_count(old) <= 1 and regexes.pop(old, None) is not None:
            written.append(records.resolved_regex(group.group_id, old, None))
        seen = group.seen
        if not (new or regexes):
            return regexes, seen
        now_ms = self._clock.wall_ms()
        fresh: dict[str, ResolvedRegex] = {}
        is_due = seen.regexes_snapshot is not snapshot and now_ms - seen.regexes_resolved_ms >= REFRESH_INTERVAL_MS
        if not is_due and (not new or new in regexes):
            return regexes, seen
        names: Collection[str] = snapshot.topics
        if change.describable is not None:
            names = change.describable(names)
        if is_due:
            former = seen.regexes_snapshot
            former_names = former.topics.keys() if isinstance(former, MetadataSnapshot) else frozenset[str]()
            matched = match_known(group.group_id, regexes, snapshot.topics.keys(), former_names, seen.regexes_matched)
            seen = SeenTopics(seen.snapshot, snapshot, now_ms, matched)
            for regex, topics in matched.items():
                fresh[regex] = ResolvedRegex(topics if names is snapshot.topics else topics.intersection(names), now_ms)
        if new and new not in regexes:
            fresh[new] = resolve(new, names, now_ms)
        for regex, resolved in fresh.items():
            if regex not in regexes or regexes[regex].topics != resolved.topics:
                written.append(records.resolved_regex(group.group_id, regex, resolved))
                regexes[regex] = resolved
        return regexes, seen


def _same_subscription(old: Profile, new: Profile) -> bool:
    return old.topics == new.topics and old.regex == new.regex
