"""A target assignment that follows a group step by step is as good as one that is computed anew, and takes less work."""

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.group_coordinator.assignments import TOPICS, ensure_whole, group_of, size
from tests.support.budget import share_of
from twisted_kafka.group_coordinator.assignors.uniform import UniformAssignor
from twisted_kafka.group_coordinator.state.consumer.consumer_group_member import NO_PARTITIONS
from twisted_kafka.group_coordinator.state.consumer.target_index import TargetIndex

COUNTS = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 12), min_size=1)


def moved(before: Any, after: Any) -> int:
    """How many partitions changed hands or became somebody's."""
    return sum(
        len(indexes - before.get(name, NO_PARTITIONS).get(topic, frozenset()))
        for name, partitions in after.items()
        for topic, indexes in partitions.items()
    )


@settings(max_examples=share_of(200))
@given(COUNTS, st.lists(st.integers(-3, 6), min_size=1, max_size=40), st.integers())
def test_steps_are_even_and_move_as_little_as_computing_anew(counts: Any, moves: Any, seed: Any) -> None:
    chance = random.Random(seed)
    target: dict[Any, Any] = {}
    index = TargetIndex(counts, target)

    def put(name: Any, partitions: Any) -> None:
        index.put(name, target.get(name, NO_PARTITIONS), partitions)
        if partitions is None:
            del target[name]
        else:
            target[name] = partitions

    names = (f"m{number:02}" for number in range(10_000))
    for move in moves:
        for _ in range(min(-move, len(target) - 1)):
            put(chance.choice(list(target)), None)
        joining = next(names) if move > 0 or not target else None
        members = [*target, joining] if joining else list(target)
        assert index.fits(counts, len(target))
        step = UniformAssignor().step(index, joining)
        before = dict(target)
        written = list(step.items())
        chance.shuffle(written)  # the new owner's record may come before the old one's
        for name, partitions in written:
            put(name, partitions)
        group = group_of(counts, {name: set(counts) for name in members}, before)
        ensure_whole(group, target)
        sizes = [size(partitions) for partitions in target.values()]
        assert max(sizes) - min(sizes) <= 1
        assert moved(before, target) == moved(before, UniformAssignor().assign(group))
        assert all(before.get(name) != partitions for name, partitions in step.items())
        assert UniformAssignor().step(index, None) == {}


def test_what_is_not_whole_is_noticed() -> None:
    topic = TOPICS[0]
    target = {"a": {topic: frozenset([0, 1])}, "b": {topic: frozenset([1])}}
    assert not TargetIndex({topic: 2}, target).fits({topic: 2}, 2)
    target = {"a": {topic: frozenset([0, 5])}}
    assert not TargetIndex({topic: 2}, target).fits({topic: 2}, 1)
    target = {"a": {topic: frozenset([0])}}
    assert TargetIndex({topic: 2}, target).fits({topic: 2}, 1)
    assert not TargetIndex({topic: 2}, target).fits({topic: 3}, 1)
    assert not TargetIndex({topic: 2}, target).fits({topic: 2}, 2)
