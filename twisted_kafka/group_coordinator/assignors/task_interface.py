"""The interface of assignors of streams groups, for Python classes named in ``group.streams.assignors`` (KIP-1071)."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

from twisted_kafka.group_coordinator.assignors.interface import AssignmentError
from twisted_kafka.group_coordinator.state.streams.tasks import Task, Tasks


class TaskMember(NamedTuple):
    """A member of a streams group, as input of an assignor."""

    process_id: str
    instance_id: str | None
    rack_id: str | None
    client_tags: Mapping[str, str]
    assigned: Tasks
    """What the member has now: a sticky assignor keeps as much of it as possible."""
    offsets: Mapping[Task, int]
    """How far the member has restored tasks that it reports."""


class TaskGroup(NamedTuple):
    """A streams group, as input of an assignor."""

    members: Mapping[str, TaskMember]
    task_counts: Mapping[str, int]
    """Number of tasks by subtopology id: partitions 0 to this number."""
    stateful: Set[str]
    """The subtopologies whose tasks have state, so that standby tasks are of use."""
    standby_replicas: int
    """How many standby tasks each stateful task should have (``streams.num.standby.replicas``)."""
    rack_aware_tags: Sequence[str]
    """The client tags by which standby tasks should be spread (``streams.rack.aware.assignment.tags``)."""


class TaskAssignor(ABC):
    """Computes target assignments of streams groups; stateless, called on any thread."""

    name: str
    """The name by which ``streams.assignor.name`` selects the assignor."""

    @abstractmethod
    def assign(self, group: TaskGroup) -> Mapping[str, Tasks]:
        """Return each member's tasks, of which a process has each at most once; ``group`` has at least one member.

        Raises AssignmentError if there is no valid assignment; the heartbeat is then answered with UNKNOWN_SERVER_ERROR.
        """


def check_tasks(group: TaskGroup, assignment: Mapping[str, Tasks]) -> None:
    """Raise AssignmentError if a task does not exist, an active one has two members, or a process has a task twice."""
    active: set[Task] = set()
    held: dict[str, set[Task]] = {}
    for member_id, tasks in assignment.items():
        member = group.members.get(member_id)
        if member is None:
            raise AssignmentError(f"{member_id} is not a member")
        if not active.isdisjoint(tasks.active):
            raise AssignmentError("an active task is assigned twice")
        active |= tasks.active
        of_process = held.setdefault(member.process_id, set())
        for role in tasks:
            for subtopology_id, partition in role:
                if not 0 <= partition < group.task_counts.get(subtopology_id, 0):
                    raise AssignmentError(f"task {subtopology_id}_{partition} does not exist")
            if not of_process.isdisjoint(role):
                raise AssignmentError(f"process {member.process_id} has a task twice")
            of_process |= role
