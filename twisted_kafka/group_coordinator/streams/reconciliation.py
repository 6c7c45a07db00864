"""Moves a member to its target assignment: it first revokes tasks, then gets the free ones (KIP-1071).

| condition | next state |
|---|---|
| the member has tasks outside its target and has not reported revoking them | UNREVOKED_TASKS, in its old epoch |
| otherwise, if another member still has a task of the target | UNRELEASED_TASKS, in the target's epoch |
| otherwise | STABLE, in the target's epoch |

A member has revoked a task when it reports its tasks and this one is not among them. A member changes the role of its own task
without revoking it, except from standby or warm-up to active: such a task stays as it is until the active one is free (Kafka:
CurrentAssignmentBuilder).
"""

from collections.abc import Callable
from typing import NamedTuple

from twisted_kafka.group_coordinator.state.streams.streams_group_member import MemberState, StreamsAssignment
from twisted_kafka.group_coordinator.state.streams.tasks import HELD_NOTHING, HeldTasks, Task, Tasks
from twisted_kafka.protocol.errors import FencedMemberEpochError


class Roles(NamedTuple):
    """For each role: whether another owner keeps the member from getting a task in this role."""

    active: Callable[[Task], bool]
    standby: Callable[[Task], bool]
    warmup: Callable[[Task], bool]


class Goal(NamedTuple):
    """A member's target, and the tasks that it may not get yet."""

    epoch: int
    """The epoch of the target assignment."""
    target: Tasks
    is_taken: Roles


def reconcile(current: StreamsAssignment, goal: Goal, owned: Tasks | None) -> StreamsAssignment:
    """Return the member's next assignment; ``owned`` are the tasks that it reports, None without a report.

    Raises FencedMemberEpochError if the member is in an unknown state and has not given up its tasks.
    """
    if current.state is MemberState.UNKNOWN:
        if owned is None or any(owned):
            raise FencedMemberEpochError("The member is in an unknown state. The member must abandon all its tasks and rejoin.")
        return _Step(current, goal, owned).next(goal.epoch)
    if current.state is MemberState.UNREVOKED_TASKS:
        if owned is None or current.revoking.overlaps(owned):
            return current
        return _Step(current, goal, owned).next(current.epoch + 1)
    return _Step(current, goal, owned).next(current.epoch)


class _Step:
    """One step of a member: which tasks it keeps, has to give up, and gets."""

    def __init__(self, current: StreamsAssignment, goal: Goal, owned: Tasks | None) -> None:
        self._current = current
        self._goal = goal
        self._owned = owned
        assigned, target = current.assigned, goal.target
        self._active = {task: since for task, since in assigned.active.items() if task in target.active}
        self._standby = set(assigned.standby & target.standby)
        self._warmup = set(assigned.warmup & target.warmup)
        wanted = Tasks(target.active - assigned.active.keys(), target.standby - assigned.standby, target.warmup - assigned.warmup)
        taken = Tasks(*(frozenset(filter(is_taken, tasks)) for is_taken, tasks in zip(goal.is_taken, wanted, strict=True)))
        self._waits = any(taken)
        self._new_active = set(wanted.active - taken.active)
        self._new_standby = set(wanted.standby - taken.standby)
        self._new_warmup = set(wanted.warmup - taken.warmup)

    def next(self, epoch: int) -> StreamsAssignment:
        """Return the assignment after this step; ``epoch`` is the member's if it has to revoke tasks first."""
        assigned, target = self._current.assigned, self._goal.target
        self._convert(assigned)
        revoking = HeldTasks(
            {task: since for task, since in assigned.active.items() if task not in target.active},
            assigned.standby - target.standby - target.active - self._warmup,
            assigned.warmup - target.warmup - target.active - self._standby,
        )
        has_to_revoke = bool(revoking) and (self._owned is None or revoking.overlaps(self._owned))
        # What becomes active keeps its role until the active task is given.
        given = set() if has_to_revoke else self._new_active
        self._standby |= (assigned.standby & target.active) - given
        self._warmup |= (assigned.warmup & target.active) - given
        previous = self._current.epoch
        if has_to_revoke:
            kept = HeldTasks(self._active, frozenset(self._standby), frozenset(self._warmup))
            return StreamsAssignment(epoch, previous, MemberState.UNREVOKED_TASKS, kept, revoking)
        following = HeldTasks(
            self._active | dict.fromkeys(self._new_active, self._goal.epoch),
            frozenset(self._standby | self._new_standby),
            frozenset(self._warmup | self._new_warmup),
        )
        state = MemberState.UNRELEASED_TASKS if self._waits else MemberState.STABLE
        return StreamsAssignment(self._goal.epoch, previous, state, following, HELD_NOTHING)

    def _convert(self, assigned: HeldTasks) -> None:
        """Let the member's own tasks change their roles at once, where it may."""
        for incoming, kept, own in (
            (self._new_standby, self._standby, assigned.active.keys()),
            (self._new_warmup, self._warmup, assigned.standby),
            (self._new_standby, self._standby, assigned.warmup),
        ):
            converted = incoming & own
            incoming -= converted
            kept |= converted
