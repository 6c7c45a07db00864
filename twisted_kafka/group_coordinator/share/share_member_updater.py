"""Computes what a heartbeat changes: the member's profile, the group epoch, the targets, the member's assignment.

The steps and the order of their records are those of Kafka's GroupMetadataManager.shareGroupHeartbeat.
"""

from collections.abc import Mapping, Set
from typing import NamedTuple

from twisted_kafka.coordinator.coordinator_record import CoordinatorRecord
from twisted_kafka.group_coordinator.assignors.interface import GroupSpec, MemberSpec, check_shared_assignment
from twisted_kafka.group_coordinator.modern.assigning import assign, is_old_enough
from twisted_kafka.group_coordinator.modern.topic_hash import TopicHashes
from twisted_kafka.group_coordinator.shared.environment import GroupEnvironment
from twisted_kafka.group_coordinator.state.consumer.consumer_group_member import NO_PARTITIONS, Partitions
from twisted_kafka.group_coordinator.state.share import share_group_records as records
from twisted_kafka.group_coordinator.state.share.share_group import ShareAssignment, ShareGroup, ShareGroupMember, ShareProfile
from twisted_kafka.group_coordinator.state.topic_image import known_topics
from twisted_kafka.metadata.cache import MetadataSnapshot


class ShareChange(NamedTuple):
    """A member's request, reduced to what can change the group."""

    group: ShareGroup
    old: ShareGroupMember | None
    """The stored member; None if it is new."""
    member_id: str
    profile: ShareProfile
    """The member's new profile."""

    @property
    def old_topics(self) -> frozenset[str]:
        """The topics that the member has subscribed to so far."""
        return frozenset() if self.old is None else self.old.profile.topics


class ShareUpdate(NamedTuple):
    """The result of a change: the new version of the member, and the records to write."""

    member: ShareGroupMember
    records: list[CoordinatorRecord]
    epoch: int
    """The group epoch after the change."""
    topics: Set[str]
    """The topics that the group subscribes to after the change."""
    snapshot: MetadataSnapshot
    """What these were compared with."""


class ShareMemberUpdater:
    """Computes the records and the assignment that follow from a member's change; the group stays as it is until their replay."""

    def __init__(self, environment: GroupEnvironment) -> None:
        self._environment = environment
        self._hashes = TopicHashes()

    @property
    def _snapshot(self) -> MetadataSnapshot:
        snapshot: MetadataSnapshot = self._environment.topics.snapshot
        return snapshot

    def hash_without(self, group: ShareGroup, member_id: str) -> int:
        """Return the hash of the topics that are left when a member leaves."""
        return self._hashes.group_hash(self._snapshot, group.topic_names(group.members[member_id].profile.topics))

    def update(self, change: ShareChange) -> ShareUpdate:
        """Return the update for a change. Raises UnknownServerError if the assignor fails."""
        group, snapshot = change.group, self._snapshot
        current = ShareAssignment() if change.old is None else change.old.current
        member = ShareGroupMember(change.member_id, change.profile, current)
        written: list[CoordinatorRecord] = []
        if change.old is None or change.old.profile != change.profile:
            written.append(records.member_profile(group.group_id, change.member_id, change.profile))
        topics = group.topic_names(change.old_topics, change.profile.topics)
        epoch = self._epoch(change, topics, snapshot, written)
        has_new_epoch = epoch > group.epoch
        target, target_epoch = group.target.get(change.member_id, NO_PARTITIONS), group.target_epoch
        now_ms = self._environment.clock.wall_ms()
        interval_ms = self._environment.group_config_manager.number(group.group_id, "share.assignment.interval.ms")
        if epoch > target_epoch and is_old_enough(group.assigned_ms, interval_ms, now_ms):
            target, target_records = self._assign(group, member, epoch, snapshot)
            written += [*target_records, records.target_epoch(group.group_id, epoch, now_ms)]
            target_epoch = epoch
        if has_new_epoch or current.epoch != target_epoch:
            following = _reconciled(member, target, target_epoch, snapshot)
            if following != current:
                written.append(records.member_current(group.group_id, change.member_id, following))
                member = member._replace(current=following)
        return ShareUpdate(member, written, epoch, topics, snapshot)

    def _epoch(self, change: ShareChange, topics: Set[str], snapshot: MetadataSnapshot, written: list[CoordinatorRecord]) -> int:
        """Return the group epoch: a new one if subscriptions, topics, or initialized partitions have changed."""
        group = change.group
        resubscribes = change.old_topics != change.profile.topics
        is_due = resubscribes or (group.epoch == group.target_epoch and group.lacks_assignment())
        if not is_due and group.seen is snapshot:
            return group.epoch
        metadata_hash = self._hashes.group_hash(snapshot, topics)
        if not is_due and metadata_hash == group.metadata_hash:
            return group.epoch
        written.append(records.group_epoch(group.group_id, group.epoch + 1, metadata_hash))
        self._environment.metrics.share_rebalance_began()
        return group.epoch + 1

    def _assign(
        self, group: ShareGroup, member: ShareGroupMember, epoch: int, snapshot: MetadataSnapshot
    ) -> tuple[Partitions, list[CoordinatorRecord]]:
        """Return the member's target, and the records of the targets that change."""
        spec = _spec(group, member, snapshot)
        assignment = assign(group.group_id, epoch, self._environment.share_assignor, spec, check_shared_assignment)
        changed = [
            records.member_target(group.group_id, member_id, assignment.get(member_id, NO_PARTITIONS))
            for member_id in spec.members
            if group.target.get(member_id) != assignment.get(member_id, NO_PARTITIONS)
        ]
        return assignment.get(member.member_id, NO_PARTITIONS), changed


def _reconciled(member: ShareGroupMember, target: Partitions, epoch: int, snapshot: MetadataSnapshot) -> ShareAssignment:
    """Return the member's assignment in the target's epoch, without topics that it does not subscribe to."""
    names = snapshot.topic_names
    topics = member.profile.topics
    assigned = {topic_id: indexes for topic_id, indexes in target.items() if names.get(topic_id) in topics}
    current = member.current
    if current.epoch == epoch:
        return current._replace(assigned=assigned)
    return ShareAssignment(epoch, current.epoch, assigned)


def _spec(group: ShareGroup, member: ShareGroupMember, snapshot: MetadataSnapshot) -> GroupSpec:
    members: Mapping[str, ShareGroupMember] = {**group.members, member.member_id: member}
    topic_ids: dict[frozenset[str], frozenset[bytes]] = {}
    counts: dict[bytes, int] = {}
    specs: dict[str, MemberSpec] = {}
    for member_id, each in members.items():
        topics = each.profile.topics
        ids = topic_ids.get(topics)
        if ids is None:
            known = known_topics(snapshot, topics)
            counts.update((info.topic_id, info.partition_count) for info in known.values())
            ids = topic_ids[topics] = frozenset(info.topic_id for info in known.values())
        specs[member_id] = MemberSpec(None, each.profile.rack_id, ids, group.target.get(member_id, NO_PARTITIONS))
    return GroupSpec(specs, counts, group.initialized)
