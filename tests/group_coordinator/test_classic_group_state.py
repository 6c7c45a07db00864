import itertools

import pytest

from twisted_kafka.group_coordinator.state.classic_group import ClassicGroup
from twisted_kafka.group_coordinator.state.classic_group_state import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    MAY_FOLLOW,
    PREPARING_REBALANCE,
    STABLE,
    ClassicGroupState,
    may_follow,
)


def test_the_table_names_every_state() -> None:
    assert set(MAY_FOLLOW) == set(ClassicGroupState)


def test_a_group_without_members_becomes_stable_only_through_a_rebalance() -> None:
    path = [EMPTY, PREPARING_REBALANCE, COMPLETING_REBALANCE, STABLE, PREPARING_REBALANCE, EMPTY, DEAD, DEAD]
    assert all(may_follow(before, after) for before, after in itertools.pairwise(path))
    assert not may_follow(EMPTY, STABLE)
    assert not may_follow(STABLE, COMPLETING_REBALANCE)
    assert not any(may_follow(DEAD, state) for state in ClassicGroupState if state is not DEAD)


def test_a_move_that_is_not_in_the_table_is_refused() -> None:
    group = ClassicGroup("g")
    with pytest.raises(RuntimeError, match="Empty to Stable"):
        group.move_to(STABLE, 0)
    assert group.state is EMPTY
