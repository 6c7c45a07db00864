"""The tasks of a streams application: a task is one partition of a subtopology's input."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

from twisted_kafka.protocol.messages.streams.streams_group_records import (
    StreamsGroupCurrentMemberAssignmentValueTaskIds,
    StreamsGroupTargetAssignmentMemberValueTaskIds,
)
from twisted_kafka.protocol.messages.streams.streams_groups import TaskIds

Task = tuple[str, int]
"""A subtopology's id and a partition."""

TaskSet = frozenset[Task]

NO_TASKS: Final[TaskSet] = frozenset()


class Tasks(NamedTuple):
    """The tasks of a member by role."""

    active: TaskSet = NO_TASKS
    """Those that it processes."""
    standby: TaskSet = NO_TASKS
    """Those whose state it keeps, to take over from a member that fails."""
    warmup: TaskSet = NO_TASKS
    """Those whose state it restores, because it will get them soon."""


NOTHING: Final = Tasks()


class HeldTasks(NamedTuple):
    """The tasks that a member has, with the epoch of the target assignment that gave it each active one."""

    active: Mapping[Task, int]
    standby: TaskSet = NO_TASKS
    warmup: TaskSet = NO_TASKS

    def __bool__(self) -> bool:
        return bool(self.active or self.standby or self.warmup)

    @property
    def tasks(self) -> Tasks:
        """The tasks without epochs."""
        return Tasks(frozenset(self.active), self.standby, self.warmup)

    def overlaps(self, tasks: Tasks) -> bool:
        """Return whether a task is in both in the same role."""
        return not (
            tasks.active.isdisjoint(self.active) and tasks.standby.isdisjoint(self.standby) and tasks.warmup.isdisjoint(self.warmup)
        )


HELD_NOTHING: Final = HeldTasks({})


_TaskIds = StreamsGroupCurrentMemberAssignmentValueTaskIds | StreamsGroupTargetAssignmentMemberValueTaskIds | TaskIds


def tasks_of(listed: Iterable[_TaskIds]) -> TaskSet:
    """Return the tasks that a message or a record lists."""
    return frozenset((each.subtopology_id, partition) for each in listed for partition in each.partitions)


def by_subtopology(tasks: Iterable[Task]) -> Iterator[tuple[str, list[int]]]:
    """Yield each subtopology's id and partitions, both in order."""
    for subtopology_id, found in groupby(sorted(tasks), key=itemgetter(0)):
        yield subtopology_id, [partition for _, partition in found]
