"""Moves a member to its target assignment: it first revokes partitions, then gets the free ones (KIP-848).

| condition | next state |
|---|---|
| the member owns partitions outside its target and has not reported revoking them | UNREVOKED_PARTITIONS, in its old epoch |
| otherwise, if another member still owns a partition of the target | UNRELEASED_PARTITIONS, in the target's epoch |
| otherwise | STABLE, in the target's epoch |

A member has revoked a partition when it reports its partitions and this one is not among them (Kafka: CurrentAssignmentBuilder).
"""

from collections.abc import Callable, Set
from typing import NamedTuple

from twisted_kafka.group_coordinator.state.consumer.consumer_group_member import NO_PARTITIONS, CurrentAssignment, Partitions
from twisted_kafka.group_coordinator.state.consumer.consumer_group_state import MemberState
from twisted_kafka.protocol.errors import FencedMemberEpochError

_NOTHING: frozenset[int] = frozenset()


class Goal(NamedTuple):
    """A member's target, and the partitions it may get now."""

    epoch: int
    """The epoch of the target assignment."""
    target: Partitions
    is_owned_by_other: Callable[[bytes, int], bool]
    """Returns whether another member still owns the partition."""
    subscribed: Set[bytes]
    """The ids of the topics that the member subscribes to now; it gets no partitions of other topics."""


def reconcile(current: CurrentAssignment, goal: Goal, owned: Partitions | None, subscription_changed: bool) -> CurrentAssignment:
    """Return the member's next assignment, or the same object if nothing changes.

    ``owned`` are the partitions that the member reports, None if it reports none. Raises FencedMemberEpochError for a member in
    an unknown state, unless it reports that it owns nothing.
    """
    state = current.state
    if state is MemberState.UNKNOWN:
        if owned is None or owned:
            raise FencedMemberEpochError("The member is in an unknown state and must rejoin without its partitions.")
        return _next(current._replace(epoch=goal.epoch), goal, owned)
    if state is MemberState.STABLE and current.epoch == goal.epoch:
        return current
    if state is MemberState.UNREVOKED_PARTITIONS and _has_some_of(owned, current.revoking):
        return _revoke_unsubscribed(current, goal.subscribed) if subscription_changed else current
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


def _revoke_unsubscribed(current: CurrentAssignment, subscribed: Set[bytes]) -> CurrentAssignment:
    """Let a member that has not finished revoking also revoke the partitions of topics that it no longer subscribes to."""
    gone = {topic_id: partitions for topic_id, partitions in current.assigned.items() if topic_id not in subscribed}
    if not gone:
        return current
    kept = {topic_id: partitions for topic_id, partitions in current.assigned.items() if topic_id in subscribed}
    revoking = dict(current.revoking)
    for topic_id, partitions in gone.items():
        revoking[topic_id] = revoking.get(topic_id, _NOTHING) | partitions
    return current._replace(previous_epoch=current.epoch, assigned=kept, revoking=revoking)


def _has_some_of(owned: Partitions | None, partitions: Partitions) -> bool:
    """Return whether the member may still own some of the partitions: it reports so, or reports nothing."""
    if owned is None:
        return True
    return any(not indexes.isdisjoint(owned.get(topic_id, _NOTHING)) for topic_id, indexes in partitions.items())


def _unless_same(current: CurrentAssignment, following: CurrentAssignment) -> CurrentAssignment:
    """Return ``current`` if only the previous epoch would change: that needs no record."""
    return current if following._replace(previous_epoch=current.previous_epoch) == current else following
