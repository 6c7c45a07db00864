"""The states of a classic group and the table of valid transitions.

Operations check ``may_follow`` before they change a group's state; a transition that is not in the table is a bug and raises.
"""

from enum import Enum


class ClassicGroupState(Enum):
    """A classic group's state; the value is the name shown by DescribeGroups and ListGroups (Kafka: ClassicGroupState)."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


EMPTY = ClassicGroupState.EMPTY
PREPARING_REBALANCE = ClassicGroupState.PREPARING_REBALANCE
COMPLETING_REBALANCE = ClassicGroupState.COMPLETING_REBALANCE
STABLE = ClassicGroupState.STABLE
DEAD = ClassicGroupState.DEAD

# Valid previous states by state. Empty: no members, but maybe offsets. PreparingRebalance: members have to rejoin.
# CompletingRebalance: members have joined, the leader computes the assignment. Stable: the assignment is known. Dead: the group
# was removed from this broker.
MAY_FOLLOW: dict[ClassicGroupState, frozenset[ClassicGroupState]] = {
    EMPTY: frozenset({PREPARING_REBALANCE}),
    PREPARING_REBALANCE: frozenset({EMPTY, COMPLETING_REBALANCE, STABLE}),
    COMPLETING_REBALANCE: frozenset({PREPARING_REBALANCE}),
    STABLE: frozenset({COMPLETING_REBALANCE}),
    DEAD: frozenset({EMPTY, PREPARING_REBALANCE, COMPLETING_REBALANCE, STABLE, DEAD}),
}


def may_follow(current: ClassicGroupState, following: ClassicGroupState) -> bool:
    """Return whether ``following`` is a valid next state of ``current``."""
    return current in MAY_FOLLOW[following]
