"""How a member gets from what it owns to what it shall own: give up first, then take what is free (KIP-848).

| in state | when | goes to |
|---|---|---|
| any | it owns partitions that it shall not own, and says so or does not say | UNREVOKED_PARTITIONS, its epoch stays |
| any but that | some of what it shall own is still another's | UNRELEASED_PARTITIONS, in the target's epoch |
| any but that | nothing is missing | STABLE, in the target's epoch |

A member has given a partition up when it reports its partitions and this one is not among them.
"""

from collections.abc import Callable, Set
from typing import NamedTuple

from twisted_kafka.coordinator.group.consumer.consumer_group_member import NO_PARTITIONS, CurrentAssignment, Partitions
from twisted_kafka.coordinator.group.consumer.consumer_group_state import MemberState
from twisted_kafka.protocol.errors import FencedMemberEpochError

_NOTHING: frozenset[int] = frozenset()


class Goal(NamedTuple):
    """Where a member is to get, and what it may take on its way."""

    epoch: int
    """The target assignment's epoch."""
    target: Partitions
    is_owned_by_other: Callable[[bytes, int], bool]
    """Tells whether another member owns a partition still."""
    subscribed: Set[bytes]
    """The ids of the topics that the member subscribes to now: it gets no partition of another."""


def reconcile(
    current: CurrentAssignment, goal: Goal, owned: Partitions | None, subscription_changed: bool = False
) -> CurrentAssignment:
    """Return the member's next state, the same object when nothing changes.

    ``owned`` is what the member says that it has, None when it did not say. Raises FencedMemberEpochError for a member in a
    state that is not known, unless it has nothing.
    """
    state = current.state
    if state is MemberState.UNKNOWN:
        if owned is None or owned:
            raise FencedMemberEpochError("The member is in an unknown state and must rejoin without its partitions.")
        return _next(current._replace(epoch=goal.epoch), goal, owned)
    if state is MemberState.STABLE and current.epoch == goal.epoch:
        return _drop_unsubscribed(current, goal, owned) if subscription_changed else current
    if state is MemberState.UNREVOKED_PARTITIONS and _has_some_of(owned, current.revoking):
        return _drop_unsubscribed(current, goal, owned) if subscription_changed else current
    return _next(current, goal, owned)


def _next(current: CurrentAssignment, goal: Goal, owned: Partitions | None) -> CurrentAssignment:
    kept: dict[bytes, frozenset[int]] = {}
    revoking: dict[bytes, frozenset[int]] = {}
    free: dict[bytes, frozenset[int]] = {}
    waits = False
    for topic_id in current.assigned.keys() | goal.target.keys():
        target = goal.target.get(topic_id, _NOTHING) if topic_id in goal.subscribed else _NOTHING
        assigned = current.assigned.get(topic_id, _NOTHING)
        own_revoking = current.revoking.get(topic_id, _NOTHING)
        missing = target - assigned
        taken = {index for index in missing if index not in own_revoking and goal.is_owned_by_other(topic_id, index)}
        waits = waits or bool(taken)
        for partitions, into in ((assigned & target, kept), (assigned - target, revoking), (missing - taken, free)):
            if partitions:
                into[topic_id] = partitions
    if revoking and _has_some_of(owned, revoking):
        return CurrentAssignment(current.epoch, current.epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
    for topic_id, partitions in free.items():
        kept[topic_id] = kept.get(topic_id, _NOTHING) | partitions
    state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
    return _unless_same(current, CurrentAssignment(goal.epoch, current.epoch, state, kept, NO_PARTITIONS))


def _drop_unsubscribed(current: CurrentAssignment, goal: Goal, owned: Partitions | None) -> CurrentAssignment:
    """Take away the partitions of topics that the member has just unsubscribed from, without waiting for a new target."""
    gone = {topic_id: partitions for topic_id, partitions in current.assigned.items() if topic_id not in goal.subscribed}
    if not gone:
        return current
    kept = {topic_id: partitions for topic_id, partitions in current.assigned.items() if topic_id in goal.subscribed}
    revoking = dict(current.revoking)
    for topic_id, partitions in gone.items():
        revoking[topic_id] = revoking.get(topic_id, _NOTHING) | partitions
    if _has_some_of(owned, revoking):
        return CurrentAssignment(current.epoch, current.epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
    return current._replace(previous_epoch=current.epoch, assigned=kept)


def _has_some_of(owned: Partitions | None, partitions: Partitions) -> bool:
    """Return whether the member has some of the partitions, or may have, as it does not say."""
    if owned is None:
        return True
    return any(not indexes.isdisjoint(owned.get(topic_id, _NOTHING)) for topic_id, indexes in partitions.items())


def _unless_same(current: CurrentAssignment, following: CurrentAssignment) -> CurrentAssignment:
    """Return ``current`` when a member that waits goes on waiting: no record is worth writing for that."""
    return current if following._replace(previous_epoch=current.previous_epoch) == current else following
