"""A member of a streams group with its profile and its current assignment, all immutable."""

from enum import IntEnum
from typing import NamedTuple

from twisted_kafka.group_coordinator.state.streams.tasks import HELD_NOTHING, HeldTasks, Task


class MemberState(IntEnum):
    """A member's progress towards its target assignment; the value is the one in the record."""

    STABLE = 1
    """The member has reached the target assignment of its epoch."""
    UNREVOKED_TASKS = 2
    """The member has to revoke tasks before it advances to the next epoch."""
    UNRELEASED_TASKS = 3
    """The member is in the target's epoch and waits for tasks that other members still have."""
    UNKNOWN = 127
    """Written by a newer broker; the member has to rejoin."""

    @classmethod
    def of(cls, value: int) -> "MemberState":
        """Return the state with the value, or UNKNOWN."""
        return cls(value) if value in _KNOWN else cls.UNKNOWN


_KNOWN = frozenset(int(state) for state in MemberState)


class StreamsProfile(NamedTuple):
    """A member's own description (StreamsGroupMemberMetadataValue)."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    """The process that the member belongs to: its members share a disk, so one of them at most has a task."""
    endpoint: tuple[str, int] | None = None
    """Host and port where interactive queries reach the member."""
    client_tags: tuple[tuple[str, str], ...] = ()
    """In order of their keys."""


class StreamsAssignment(NamedTuple):
    """The tasks of a member (StreamsGroupCurrentMemberAssignmentValue)."""

    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: HeldTasks = HELD_NOTHING
    revoking: HeldTasks = HELD_NOTHING

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Return whether the member has reached the target assignment."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch


class StreamsGroupMember(NamedTuple):
    """A member of a streams group."""

    member_id: str
    profile: StreamsProfile = StreamsProfile()
    current: StreamsAssignment = StreamsAssignment()


class TaskOffsets(NamedTuple):
    """The offsets that a member reports of the changelogs of its tasks. Not stored."""

    positions: dict[Task, int]
    """How far it has restored each task."""
    ends: dict[Task, int]
    """Where each task's changelog ends."""
