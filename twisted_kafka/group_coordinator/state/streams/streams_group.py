"""A streams group's stored state: in addition to that of a modern group, a topology, static ids and the owners of tasks."""

from collections.abc import Collection, Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

from typing_extensions import override

from twisted_kafka.group_coordinator.state.group import MEMBER_EPOCHS_SINCE, STREAMS, OffsetRetention
from twisted_kafka.group_coordinator.state.modern_group import ModernGroup
from twisted_kafka.group_coordinator.state.streams.configured_topology import ConfiguredTopology
from twisted_kafka.group_coordinator.state.streams.streams_group_member import (
    StreamsAssignment,
    StreamsGroupMember,
    StreamsProfile,
    TaskOffsets,
)
from twisted_kafka.group_coordinator.state.streams.tasks import NOTHING, HeldTasks, Task, Tasks
from twisted_kafka.group_coordinator.state.streams.topology import NO_EPOCH, Topology
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.streams.streams_groups import EndpointToPartitions
from twisted_kafka.protocol.topic_partition import TopicPartition

INITIAL_EPOCH: Final = 1
"""The epoch of a group that has no record of its own yet; 0 is the epoch of a member that joins."""

_Owners = dict[Task, set[str]]


class StreamsGroupState(Enum):
    """A streams group's state; the value is the name shown by StreamsGroupDescribe and ListGroups.

    Empty: no members. NotReady: topics of the topology are missing or do not fit. Assigning: the group epoch is ahead of the target
    assignment's. Reconciling: some member has not reached its target assignment. Stable: all have. Dead: no such group.
    """

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


UNCERTAIN_EPOCH: Final = -2
"""In the place of the epoch of a described topology: the plug-in may have a description."""


class GroupBasis(NamedTuple):
    """What the group epoch stands for (StreamsGroupMetadataValue)."""

    metadata_hash: int = 0
    """The hash of the topology's topics."""
    validated_epoch: int = NO_EPOCH
    """The epoch of the topology whose topics all exist and fit; -1 if they do not."""
    assignment_configs: Mapping[str, str] = MappingProxyType({})
    """The group's configs that its target assignment depends on."""
    stored_description_epoch: int = NO_EPOCH
    """The epoch of the topology that the plug-in has a description of; -1: of none, UNCERTAIN_EPOCH: it may have one."""
    failed_description_epoch: int = NO_EPOCH
    """The epoch of the topology whose description the plug-in has refused for good."""


class StreamsGroup(ModernGroup[StreamsGroupMember, Tasks, StreamsGroupState]):
    """One streams group."""

    type = STREAMS
    protocol_type = STREAMS

    __slots__ = (
        "_active",
        "_standby",
        "_static_ids",
        "_warmup",
        "basis",
        "configured",
        "endpoint_epoch",
        "endpoints",
        "offsets",
        "shutdown_by",
        "topology",
    )

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.epoch = self.target_epoch = INITIAL_EPOCH
        self.topology: Topology | None = None
        self.basis = GroupBasis()
        self._static_ids: dict[str, str] = {}
        self._active: _Owners = {}
        self._standby: _Owners = {}
        self._warmup: _Owners = {}
        # What follows is not stored.
        self.configured: ConfiguredTopology | None = None
        """The topology's topics as they were last found; None if that is unknown."""
        self.offsets: dict[str, TaskOffsets] = {}
        self.shutdown_by: str | None = None
        """The member that has asked for the shutdown of the whole application."""
        self.endpoints: dict[str, tuple[object, EndpointToPartitions]] = {}
        """The partitions of members at endpoints, each with the subtopologies that they were computed from."""
        self.endpoint_epoch = 0
        """Grows with each change of what members at endpoints have."""

    @property
    @override
    def is_described(self) -> bool:
        return self.basis.stored_description_epoch != NO_EPOCH

    # changes, called by replay only

    def put_basis(self, epoch: int, basis: GroupBasis) -> None:
        """Set the group epoch with its basis."""
        self.basis = basis
        self.put_epochs(epoch=epoch)

    def put_topology(self, topology: Topology | None) -> None:
        """Set the topology."""
        self.topology = topology
        self.configured = None
        self._state = None

    def put_profile(self, member_id: str, profile: StreamsProfile) -> None:
        """Add a member or replace its profile."""
        old = self.members.get(member_id)
        if old is not None and old.profile.instance_id is not None:
            self._static_ids.pop(old.profile.instance_id, None)
        self.endpoints.pop(member_id, None)
        self.members[member_id] = StreamsGroupMember(member_id, profile) if old is None else old._replace(profile=profile)
        if profile.instance_id is not None:
            self._static_ids[profile.instance_id] = member_id
        self._state = None

    def put_current(self, member_id: str, current: StreamsAssignment) -> None:
        """Set a member's current assignment; in a compacted log that record may precede the member's profile."""
        if member_id not in self.members:
            self.put_profile(member_id, StreamsProfile())
        member = self.members[member_id]
        self._release(member)
        self.endpoints.pop(member_id, None)
        self.members[member_id] = member._replace(current=current)
        for owners, task in self._held(current):
            owners.setdefault(task, set()).add(member_id)
        self._state = None

    def forget_current(self, member_id: str) -> None:
        """Clear a member's current assignment."""
        if member_id in self.members:
            self.put_current(member_id, StreamsAssignment())

    def remove(self, member_id: str) -> None:
        """Remove a member."""
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._release(member)
        instance_id = member.profile.instance_id
        if instance_id is not None and self._static_ids.get(instance_id) == member_id:
            del self._static_ids[instance_id]
        self.offsets.pop(member_id, None)
        self.endpoints.pop(member_id, None)
        if not self.members:
            self.shutdown_by = None
        self._state = None

    def _held(self, current: StreamsAssignment) -> Iterator[tuple[_Owners, Task]]:
        parts: tuple[HeldTasks, ...] = (current.assigned, current.revoking)
        for part in parts:
            for owners, tasks in ((self._active, part.active), (self._standby, part.standby), (self._warmup, part.warmup)):
                for task in tasks:
                    yield owners, task

    def _release(self, member: StreamsGroupMember) -> None:
        for owners, task in self._held(member.current):
            holders = owners.get(task)
            if holders is not None:
                holders.discard(member.member_id)
                if not holders:
                    del owners[task]

    def put_configured(self, configured: ConfiguredTopology) -> None:
        """Keep what the topology's topics were found to be, which no record has."""
        self.configured = configured

    # queries

    @override
    def _compute_state(self) -> StreamsGroupState:
        if not self.members:
            return StreamsGroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.basis.validated_epoch:
            return StreamsGroupState.NOT_READY
        if self.epoch > self.target_epoch:
            return StreamsGroupState.ASSIGNING
        if all(member.current.is_reconciled_to(self.target_epoch) for member in list(self.members.values())):
            return StreamsGroupState.STABLE
        return StreamsGroupState.RECONCILING

    def static_member(self, instance_id: str | None) -> StreamsGroupMember | None:
        """Return the member with the instance id."""
        member_id = None if instance_id is None else self._static_ids.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member_id: str) -> Tasks:
        """Return a member's target assignment."""
        return self.target.get(member_id, NOTHING)

    def active_owners(self, task: Task) -> Collection[str]:
        """Return the ids of the members that process a task, or still have to revoke it."""
        return self._active.get(task, ())

    def standby_owners(self, task: Task) -> Collection[str]:
        """Return the ids of the members that have a standby task, or still have to revoke it."""
        return self._standby.get(task, ())

    def warmup_owners(self, task: Task) -> Collection[str]:
        """Return the ids of the members that have a warm-up task, or still have to revoke it."""
        return self._warmup.get(task, ())

    # offsets; see Group

    @override
    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, version: int, partitions: Collection[TopicPartition] = ()
    ) -> ErrorCode:
        """Check a member and its epoch; without members, anybody without an epoch may commit."""
        if generation < 0 and not self.members:
            return ErrorCode.NONE
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if version < MEMBER_EPOCHS_SINCE:
            return ErrorCode.UNSUPPORTED_VERSION
        epoch = member.current.epoch
        if generation == epoch or (generation < epoch and self._has_tasks_since(member, generation, partitions)):
            return ErrorCode.NONE
        return ErrorCode.STALE_MEMBER_EPOCH

    def _has_tasks_since(self, member: StreamsGroupMember, epoch: int, partitions: Collection[TopicPartition]) -> bool:
        """Return whether the member has had the active tasks of all partitions since an epoch."""
        subtopologies = {} if self.topology is None else self.topology.subtopology_of
        assigned, revoking = member.current.assigned.active, member.current.revoking.active
        for topic, index in partitions:
            task = subtopologies.get(topic, ""), index
            since = assigned.get(task, revoking.get(task))
            if since is None or epoch < since:
                return False
        return True

    @override
    def check_transactional_commit(
        self, member_id: str, instance_id: str | None, generation: int, partitions: Collection[TopicPartition] = ()
    ) -> ErrorCode:
        """Check a member and its epoch; producers know ILLEGAL_GENERATION only."""
        error = self.check_commit(member_id, instance_id, generation, MEMBER_EPOCHS_SINCE, partitions)
        return ErrorCode.ILLEGAL_GENERATION if error is ErrorCode.STALE_MEMBER_EPOCH else error

    @override
    def check_fetch(self, member_id: str, generation: int) -> ErrorCode:
        """Check a member and its epoch, if the sender says that it is one."""
        if not member_id and generation < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if generation == member.current.epoch else ErrorCode.STALE_MEMBER_EPOCH

    @override
    def check_offset_deletion(self) -> ErrorCode:
        """Return NONE: the topics in use are known."""
        return ErrorCode.NONE

    @override
    def offset_retention(self) -> OffsetRetention:
        """Return the retention of offsets of topics that no subtopology reads, which begins with the commit."""
        return OffsetRetention(None, self.is_subscribed)

    @override
    def is_subscribed(self, topic: str) -> bool:
        """Return whether the group has members and its topology reads the topic."""
        return bool(self.members) and self.topology is not None and topic in self.topology.subtopology_of
