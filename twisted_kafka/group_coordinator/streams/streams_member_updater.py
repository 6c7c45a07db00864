"""Computes what a heartbeat changes: the member's profile, the topology, the group epoch, the targets, the member's tasks.

The steps and the order of their records are those of Kafka's GroupMetadataManager.streamsGroupHeartbeat.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from twisted_kafka.config.group_configs import StreamsGroupConfigs
from twisted_kafka.coordinator.coordinator_record import CoordinatorRecord
from twisted_kafka.group_coordinator.modern.assigning import is_old_enough
from twisted_kafka.group_coordinator.modern.topic_hash import TopicHashes
from twisted_kafka.group_coordinator.shared.environment import GroupEnvironment
from twisted_kafka.group_coordinator.state.streams import streams_group_records as records
from twisted_kafka.group_coordinator.state.streams.configured_topology import ConfiguredTopology, Problem, Status
from twisted_kafka.group_coordinator.state.streams.streams_group import StreamsGroup
from twisted_kafka.group_coordinator.state.streams.streams_group_member import (
    StreamsAssignment,
    StreamsGroupMember,
    StreamsProfile,
    TaskOffsets,
)
from twisted_kafka.group_coordinator.state.streams.tasks import NOTHING, Task, Tasks
from twisted_kafka.group_coordinator.state.streams.topology import NO_EPOCH, Topology
from twisted_kafka.group_coordinator.streams.heartbeat_validation import check_tasks
from twisted_kafka.group_coordinator.streams.internal_topics import configure
from twisted_kafka.group_coordinator.streams.reconciliation import Goal, Roles, reconcile
from twisted_kafka.group_coordinator.streams.task_assignment import compute_targets
from twisted_kafka.metadata.cache import MetadataSnapshot
from twisted_kafka.protocol.errors import InvalidRequestError, UnknownMemberIdError
from twisted_kafka.protocol.messages.streams.streams_group_records import StreamsGroupTopologyValue

_DELAYED_AT_FIRST: Final = "Assignment delayed due to the configured initial rebalance delay."
_DELAYED_BY_INTERVAL: Final = "Assignment delayed due to the configured assignment interval."


class StreamsChange(NamedTuple):
    """A member's request, reduced to what can change the group."""

    group: StreamsGroup
    old: StreamsGroupMember | None
    """The stored member, or the one that it replaces; None if it is new."""
    member_id: str
    profile: StreamsProfile
    """The member's new profile."""
    topology: StreamsGroupTopologyValue | None
    """The topology that a joining member brings."""
    owned: Tasks | None
    """The tasks that the member reports to have; None without a report."""
    offsets: TaskOffsets | None
    """What the member has reported of its changelogs so far."""
    replaces: bool = False
    """Whether a static member joins in the place of ``old``, which is away."""
    is_delayed: bool = False
    """Whether the group waits for further members before it gets its first target assignment."""

    @property
    def old_profile(self) -> StreamsProfile:
        """The profile before the change."""
        return StreamsProfile() if self.old is None else self.old.profile

    @property
    def start(self) -> StreamsAssignment:
        """The member's assignment before the change."""
        if self.old is None:
            return StreamsAssignment()
        return self.old.current._replace(epoch=0, previous_epoch=0) if self.replaces else self.old.current

    def members(self, current: StreamsAssignment) -> Mapping[str, StreamsGroupMember]:
        """Return the group's members after the change of this one."""
        members = dict(self.group.members)
        if self.replaces and self.old is not None:
            del members[self.old.member_id]
        members[self.member_id] = StreamsGroupMember(self.member_id, self.profile, current)
        return members

    def targets(self) -> Mapping[str, Tasks]:
        """Return the targets; that of a member that is replaced is the new one's."""
        if not self.replaces or self.old is None:
            return self.group.target
        targets = dict(self.group.target)
        targets[self.member_id] = targets.pop(self.old.member_id, NOTHING)
        return targets


class StreamsUpdate(NamedTuple):
    """The result of a change: the new version of the member, and the records to write."""

    member: StreamsGroupMember
    records: list[CoordinatorRecord]
    topology: Topology
    configured: ConfiguredTopology
    statuses: list[Problem]
    rack_aware_tags: Sequence[str]


class StreamsMemberUpdater:
    """Computes the records and the assignment that follow from a member's change; the group stays as it is until their replay."""

    def __init__(self, environment: GroupEnvironment) -> None:
        self._environment = environment
        self._hashes = TopicHashes()

    def update(self, change: StreamsChange) -> StreamsUpdate:
        """Return the member as it will be, the records that make it so, and the statuses for its heartbeat.

        Raises UnknownMemberIdError if the group has no topology yet, InvalidRequestError for another topology than the group's or
        tasks that it does not have, FencedMemberEpochError for a member in an unknown state, UnknownServerError if the assignor
        fails.
        """
        group, snapshot = change.group, self._snapshot
        written: list[CoordinatorRecord] = []
        statuses: list[Problem] = []
        is_due = self._describe_member(change, written)
        topology = _topology(change, written)
        if group.topology is not None and change.profile.topology_epoch < group.topology.epoch:
            detail = (
                f"The member's topology epoch {change.profile.topology_epoch} is behind the group's topology epoch "
                f"{group.topology.epoch}."
            )
            statuses.append(Problem(Status.STALE_TOPOLOGY, detail))
        configured = self._configured(group, topology, snapshot)
        if change.owned is not None and configured.problem is None:
            check_tasks(configured.ready, change.owned)
        configs = self._environment.group_config_manager.streams(group.group_id)
        epoch = self._epoch(group, topology, configured, configs, is_due, written)
        current = change.start
        target, target_epoch = self._target(change, epoch, configured, written, statuses)
        member = StreamsGroupMember(change.member_id, change.profile, current)
        if not current.is_reconciled_to(target_epoch):
            following = reconcile(current, Goal(target_epoch, target, _roles(group, member)), change.owned)
            if following != current:
                written.append(records.member_current(group.group_id, change.member_id, following))
                member = member._replace(current=following)
        return StreamsUpdate(member, written, topology, configured, statuses, configs.rack_aware_tags)

    @property
    def _snapshot(self) -> MetadataSnapshot:
        snapshot: MetadataSnapshot = self._environment.topics.snapshot
        return snapshot

    def _describe_member(self, change: StreamsChange, written: list[CoordinatorRecord]) -> bool:
        """Write the member's profile if it changes; return whether the group needs a new epoch for it."""
        group_id, old, new = change.group.group_id, change.old_profile, change.profile
        if change.replaces and change.old is not None:
            written += records.TYPES.member_removed(group_id, change.old.member_id)
            written.append(records.member_profile(group_id, change.member_id, old))
            written.append(records.member_target(group_id, change.member_id, change.group.target_of(change.old.member_id)))
            written.append(records.member_current(group_id, change.member_id, change.start))
        if new == old:
            return False
        written.append(records.member_profile(group_id, change.member_id, new))
        return new.instance_id is None or _relevant(old) != _relevant(new)

    def _configured(self, group: StreamsGroup, topology: Topology, snapshot: MetadataSnapshot) -> ConfiguredTopology:
        """Return the topology as its topics let it be; it is looked at again only when these have changed."""
        known = group.configured
        if known is not None and known.snapshot is snapshot:
            return known
        metadata_hash = self._hashes.group_hash(snapshot, topology.topics)
        if known is not None and known.metadata_hash == metadata_hash:
            return known._replace(snapshot=snapshot)
        return configure(topology, snapshot, metadata_hash)

    def _epoch(
        self,
        group: StreamsGroup,
        topology: Topology,
        configured: ConfiguredTopology,
        configs: StreamsGroupConfigs,
        is_due: bool,
        written: list[CoordinatorRecord],
    ) -> int:
        """Return the group epoch: a new one if members, topics or configs have changed."""
        basis = group.basis._replace(
            metadata_hash=configured.metadata_hash,
            validated_epoch=topology.epoch if configured.problem is None else NO_EPOCH,
            assignment_configs=configs.for_assignment,
        )
        if not is_due and basis == group.basis:
            return group.epoch
        written.append(records.group_metadata(group.group_id, group.epoch + 1, basis))
        self._environment.metrics.streams_rebalance_began()
        return group.epoch + 1

    # targets

    def _target(
        self,
        change: StreamsChange,
        epoch: int,
        configured: ConfiguredTopology,
        written: list[CoordinatorRecord],
        statuses: list[Problem],
    ) -> tuple[Tasks, int]:
        """Return the member's target and its epoch, after a new target assignment if one is due."""
        group, targets = change.group, change.targets()
        if change.is_delayed:
            statuses.append(Problem(Status.ASSIGNMENT_DELAYED, _DELAYED_AT_FIRST))
            return NOTHING, group.target_epoch
        if group.target_epoch < epoch:
            if self._may_assign(group):
                members = change.members(change.start)
                offsets = group.offsets if change.offsets is None else {**group.offsets, change.member_id: change.offsets}
                targets = self.assign(group, epoch, members, offsets, targets, configured, written)
                return targets.get(change.member_id, NOTHING), epoch
            statuses.append(Problem(Status.ASSIGNMENT_DELAYED, _DELAYED_BY_INTERVAL))
        return targets.get(change.member_id, NOTHING), group.target_epoch

    def _may_assign(self, group: StreamsGroup) -> bool:
        interval_ms = self._environment.group_config_manager.number(group.group_id, "streams.assignment.interval.ms")
        return is_old_enough(group.assigned_ms, interval_ms, self._environment.clock.wall_ms())

    def assign(
        self,
        group: StreamsGroup,
        epoch: int,
        members: Mapping[str, StreamsGroupMember],
        offsets: Mapping[str, TaskOffsets],
        targets: Mapping[str, Tasks],
        configured: ConfiguredTopology,
        written: list[CoordinatorRecord],
    ) -> Mapping[str, Tasks]:
        """Return new targets of all members, and write the changed ones. Raises UnknownServerError if the assignor fails."""
        configs = self._environment.group_config_manager.streams(group.group_id)
        assignor = self._environment.task_assignor(configs.assignor)
        found = compute_targets(group.group_id, epoch, assignor, members, offsets, configured, configs)
        written += (
            records.member_target(group.group_id, member_id, tasks)
            for member_id, tasks in found.items()
            if targets.get(member_id) != tasks
        )
        written.append(records.target_epoch(group.group_id, epoch, self._environment.clock.wall_ms()))
        return found


def _relevant(profile: StreamsProfile) -> tuple[object, ...]:
    """Return what of a static member's profile the assignment depends on."""
    return profile.topology_epoch, profile.rack_id, profile.client_tags, profile.process_id


def _topology(change: StreamsChange, written: list[CoordinatorRecord]) -> Topology:
    """Return the group's topology, which its first member brings."""
    known = change.group.topology
    if change.topology is None:
        if known is None:
            raise UnknownMemberIdError(f"Group {change.group.group_id} has no topology. The member has to rejoin.")
        return known
    brought = Topology(change.topology)
    if known is None:
        written.append(records.topology(change.group.group_id, change.topology))
        return brought
    if brought.epoch >= known.epoch and brought != known:
        raise InvalidRequestError("Topology updates are not supported yet.")
    return known


def _roles(group: StreamsGroup, member: StreamsGroupMember) -> Roles:
    """Return the owners that keep a member from its tasks: its process may have each task once."""
    process_id, assigned = member.profile.process_id, member.current.assigned

    def of_process(owners: Collection[str]) -> bool:
        return any(group.members[owner].profile.process_id == process_id for owner in owners)

    def active(task: Task) -> bool:
        return bool(group.active_owners(task)) or other_standby(task) or other_warmup(task)

    def other_active(task: Task) -> bool:
        return task not in assigned.active and of_process(group.active_owners(task))

    def other_standby(task: Task) -> bool:
        return task not in assigned.standby and of_process(group.standby_owners(task))

    def other_warmup(task: Task) -> bool:
        return task not in assigned.warmup and of_process(group.warmup_owners(task))

    def standby(task: Task) -> bool:
        return other_active(task) or of_process(group.standby_owners(task)) or other_warmup(task)

    def warmup(task: Task) -> bool:
        return of_process(group.active_owners(task)) or other_standby(task) or of_process(group.warmup_owners(task))

    return Roles(active, standby, warmup)
