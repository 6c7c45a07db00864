"""The states of a classic group and what may follow what: this table is the only place that says so.

An operation asks ``may_follow`` before it moves a group; a move that is not in the table is a bug, and raises.
"""

from enum import Enum


class ClassicGroupState(Enum):
    """A classic group's state; the value is the name that DescribeGroups and ListGroups show (Kafka's ClassicGroupState)."""

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

# to: from where. Empty: no members (offsets may remain). Preparing: members are asked to join again. Completing: all
# have joined, the leader's assignment is awaited. Stable: each member has its assignment. Dead: gone from this broker.
MAY_FOLLOW: dict[ClassicGroupState, frozenset[ClassicGroupState]] = {
    EMPTY: frozenset({PREPARING_REBALANCE}),
    PREPARING_REBALANCE: frozenset({EMPTY, COMPLETING_REBALANCE, STABLE}),
    COMPLETING_REBALANCE: frozenset({PREPARING_REBALANCE}),
    STABLE: frozenset({COMPLETING_REBALANCE}),
    DEAD: frozenset({EMPTY, PREPARING_REBALANCE, COMPLETING_REBALANCE, STABLE, DEAD}),
}


def may_follow(current: ClassicGroupState, following: ClassicGroupState) -> bool:
    """Return whether a group in state ``current`` may move to ``following``."""
    return current in MAY_FOLLOW[following]
