"""The assignors on the server's side: everything is assigned once, evenly, and stays where it is if it can."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.group_coordinator.assignments import TOPICS, ensure_whole, group_of, size
from tests.support.budget import share_of
from twisted_kafka.group_coordinator.assignors.interface import (
    AssignmentError,
    GroupSpec,
    MemberSpec,
    check_assignment,
    check_shared_assignment,
)
from twisted_kafka.group_coordinator.assignors.loading import AssignorError, load_assignors, load_share_assignor
from twisted_kafka.group_coordinator.assignors.range import RangeAssignor
from twisted_kafka.group_coordinator.assignors.simple import SimpleAssignor
from twisted_kafka.group_coordinator.assignors.uniform import UniformAssignor

COUNTS = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 12), min_size=1)


@pytest.mark.medium
@given(COUNTS, st.integers(1, 20), st.integers(1, 20))
def test_uniform_is_even_and_keeps_what_it_can(counts: Any, before: Any, after: Any) -> None:
    names = [f"m{number:02}" for number in range(max(before, after))]
    first_group = group_of(counts, {key: set(counts) for key in names[:before]})
    first = UniformAssignor().assign(first_group)
    ensure_whole(first_group, first)
    second_group = group_of(counts, {key: set(counts) for key in names[:after]}, first)
    second = UniformAssignor().assign(second_group)
    ensure_whole(second_group, second)
    sizes = [size(partitions) for partitions in second.values()]
    assert max(sizes) - min(sizes) <= 1
    total = sum(counts.values())
    quota = total // after
    for name in names[: min(before, after)]:
        had = {(topic, index) for topic, indexes in first[name].items() for index in indexes}
        has = {(topic, index) for topic, indexes in second[name].items() for index in indexes}
        assert len(had & has) >= min(len(had), quota)  # nobody gives up more than what evenness asks for
    assert UniformAssignor().assign(group_of(counts, {key: set(counts) for key in names[:after]}, second)) == second


@settings(max_examples=share_of(60))
@given(COUNTS, st.lists(st.sets(st.sampled_from(TOPICS)), min_size=1, max_size=6), st.booleans(), st.integers())
def test_uniform_does_not_depend_on_the_order_of_topics_and_members(
    counts: Any, wanted: Any, is_homogeneous: bool, seed: int
) -> None:
    """Brokers with the same group have to compute the same target."""
    chance = random.Random(seed)
    subscriptions = {f"m{number}": set(counts) if is_homogeneous else topics & set(counts) for number, topics in enumerate(wanted)}
    if not frozenset().union(*subscriptions.values()):
        return
    one = group_of(counts, subscriptions)
    members, topics = list(one.members.items()), list(one.partition_counts.items())
    chance.shuffle(members)
    chance.shuffle(topics)
    first = UniformAssignor().assign(one)
    assert UniformAssignor().assign(GroupSpec(dict(members), dict(topics))) == first
    left = [(name, spec._replace(assigned=first[name])) for name, spec in members[1:] or members]
    if all(any(topic in spec.topic_ids for _, spec in left) for topic, _ in topics):
        again = [UniformAssignor().assign(GroupSpec(dict(order), dict(topics))) for order in (left, left[::-1])]
        assert again[0] == again[1]


@settings(max_examples=share_of(200))
@given(COUNTS, st.lists(st.sets(st.sampled_from(TOPICS)), min_size=1, max_size=10))
def test_uniform_with_different_subscriptions(counts: Any, wanted: Any) -> None:
    subscriptions = {f"m{number}": topics & set(counts) for number, topics in enumerate(wanted)}
    if not frozenset().union(*subscriptions.values()):
        return
    group = group_of(counts, subscriptions)
    assignment = UniformAssignor().assign(group)
    ensure_whole(group, assignment)
    for name, partitions in assignment.items():
        for topic in partitions:
            poorest = min(size(assignment[other]) for other in subscriptions if topic in subscriptions[other])
            assert size(partitions) - poorest < 2, f"{name} could give a partition of {topic!r} to another"
    again = group_of(counts, subscriptions, assignment)
    assert UniformAssignor().assign(again) == assignment


@given(COUNTS, st.integers(1, 10))
def test_range_gives_neighbours_alike(counts: Any, members: Any) -> None:
    group = group_of(counts, {f"m{number}": set(counts) for number in range(members)})
    assignment = RangeAssignor().assign(group)
    ensure_whole(group, assignment)
    for partitions in assignment.values():
        for indexes in partitions.values():
            assert sorted(indexes) == list(range(min(indexes), max(indexes) + 1))
    for one in counts:
        for other in counts:
            if counts[one] == counts[other]:
                assert all(partitions.get(one) == partitions.get(other) for partitions in assignment.values())


@settings(max_examples=share_of(60))
@given(COUNTS, st.lists(st.tuples(st.booleans(), st.sets(st.sampled_from(TOPICS))), min_size=1, max_size=8), st.integers())
def test_range_gives_each_topic_in_order_to_its_subscribers(counts: Any, wanted: Any, seed: int) -> None:
    """Static members come first, by instance id, then the others by member id; the first ones have one more."""
    ranked = [(f"m{number}", is_static, topics & set(counts)) for number, (is_static, topics) in enumerate(wanted)]
    members = [
        (name, MemberSpec(f"i{9 - index}" if is_static else None, None, topics, {}))
        for index, (name, is_static, topics) in enumerate(ranked)
    ]
    rank = [name for name, is_static, _ in reversed(ranked) if is_static] + [name for name, is_static, _ in ranked if not is_static]
    subscriptions = {name: topics for name, _, topics in ranked}
    random.Random(seed).shuffle(members)
    subscribed = {topic: count for topic, count in counts.items() if any(topic in topics for topics in subscriptions.values())}
    assignment = RangeAssignor().assign(GroupSpec(dict(members), subscribed))
    assert set(assignment) == set(subscriptions)
    for topic, count in subscribed.items():
        owned = [sorted(assignment[name].get(topic, ())) for name in rank if topic in subscriptions[name]]
        assert [index for indexes in owned for index in indexes] == list(range(count))
        sizes = [len(indexes) for indexes in owned]
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[0] - sizes[-1] <= 1
        assert not any(topic in assignment[name] for name in rank if topic not in subscriptions[name])


@settings(max_examples=share_of(100))
@given(COUNTS, st.lists(st.sets(st.sampled_from(TOPICS)), min_size=2, max_size=8), st.booleans(), st.integers())
def test_uniform_keeps_what_is_valid_of_any_previous_target(counts: Any, wanted: Any, is_homogeneous: bool, seed: int) -> None:
    """The previous target may have topics and partitions that are gone, partitions assigned twice, and be uneven."""
    chance = random.Random(seed)
    subscriptions = {f"m{number}": set(counts) if is_homogeneous else topics & set(counts) for number, topics in enumerate(wanted)}
    if not frozenset().union(*subscriptions.values()):
        return
    previous = {
        name: {topic: frozenset(chance.sample(range(14), chance.randrange(9))) for topic in chance.sample(TOPICS, 3)}
        for name in subscriptions
    }
    group = group_of(counts, subscriptions, previous)
    assignment = UniformAssignor().assign(group)
    ensure_whole(group, assignment)
    assert all(indexes for partitions in assignment.values() for indexes in partitions.values())
    claims: dict[Any, set[str]] = {}
    for name, partitions in previous.items():
        for topic, indexes in partitions.items():
            for index in indexes:
                if topic in subscriptions[name] and index < counts[topic]:
                    claims.setdefault((topic, index), set()).add(name)
    kept = sum(any(index in assignment[name].get(topic, ()) for name in names) for (topic, index), names in claims.items())
    if group.is_homogeneous:
        # Nobody gives up more than evenness asks for; the first by name keeps what two members claim.
        quota, larger = divmod(sum(group.partition_counts.values()), len(subscriptions))
        valid: dict[str, int] = dict.fromkeys(subscriptions, 0)
        for names in claims.values():
            valid[min(names)] += 1
        rich = sum(count > quota for count in valid.values())
        assert kept >= sum(min(count, quota) for count in valid.values()) + min(rich, larger)
    for topics in assignment.values():
        for topic in topics:
            poorest = min(size(assignment[other]) for other in subscriptions if topic in subscriptions[other])
            assert size(topics) - poorest < 2


class Twice:
    name = "twice"

    def assign(self, group: Any) -> Any:
        return {key: {TOPICS[0]: frozenset({0})} for key in group.members}


class Nameless:
    pass


def test_a_class_of_the_users_own() -> None:
    assert list(load_assignors(["range", "tests.group_coordinator.test_assignors.Twice"])) == ["range", "twice"]


@pytest.mark.parametrize(
    "names", [[], ["range", "range"], ["no.such.Class"], ["nothing"], ["tests.group_coordinator.test_assignors.Nameless"]]
)
def test_assignors_that_cannot_be_had(names: list[Any | str]) -> None:
    with pytest.raises(AssignorError, match=r"group\.consumer\.assignors"):
        load_assignors(names)


@pytest.mark.parametrize(
    "assignment",
    [
        {"a": {TOPICS[0]: {0}}, "b": {TOPICS[0]: {0}}},
        {"stranger": {TOPICS[0]: {0}}},
        {"a": {TOPICS[0]: {2}}},
        {"a": {TOPICS[0]: {-1}}},
        {"a": {TOPICS[1]: {0}}},
        {"a": {TOPICS[2]: {0}}},
    ],
)
def test_assignments_that_are_not_allowed(assignment: Any) -> None:
    group = group_of({TOPICS[0]: 2, TOPICS[1]: 1}, {"a": {TOPICS[0], TOPICS[2]}, "b": {TOPICS[0]}})
    check_assignment(group, {"b": {TOPICS[0]: frozenset({0, 1})}})
    with pytest.raises(AssignmentError):
        check_assignment(group, assignment)


def spread(group: GroupSpec, assignment: Any) -> dict[tuple[bytes, int], int]:
    """Return the number of members by partition."""
    counts = {(topic, index): 0 for topic in group.partition_counts for index in group.assignable_of(topic)}
    for partitions in assignment.values():
        for topic, indexes in partitions.items():
            for index in indexes:
                counts[topic, index] += 1
    return counts


@settings(max_examples=share_of(100))
@given(COUNTS, st.integers(1, 20), st.integers(1, 20), st.randoms(use_true_random=False))
def test_simple_shares_evenly_and_keeps_what_it_can(counts: Any, before: int, after: int, chance: random.Random) -> None:
    names = [f"m{number:02}" for number in range(max(before, after))]
    first = SimpleAssignor().assign(group_of(counts, {name: set(counts) for name in names[:before]}))
    group = group_of(counts, {name: set(counts) for name in names[:after]}, first)
    second = SimpleAssignor().assign(group)
    check_shared_assignment(group, second)
    sizes = [size(partitions) for partitions in second.values()]
    assert max(sizes) - min(sizes) <= 1
    sharing = spread(group, second)
    assert 1 <= min(sharing.values()) <= max(sharing.values()) == -(-after // len(sharing))
    members, topics = list(group.members.items()), list(group.partition_counts.items())
    chance.shuffle(members)
    chance.shuffle(topics)
    assert SimpleAssignor().assign(GroupSpec(dict(members), dict(topics))) == second
    assert SimpleAssignor().assign(group_of(counts, {name: set(counts) for name in names[:after]}, second)) == second


@settings(max_examples=share_of(100))
@given(COUNTS, st.lists(st.sets(st.sampled_from(TOPICS)), min_size=1, max_size=8), st.sets(st.integers(0, 11)))
def test_simple_gives_each_assignable_partition_to_subscribers(counts: Any, wanted: Any, initialized: set[int]) -> None:
    group = group_of(counts, {f"m{number}": topics & set(counts) for number, topics in enumerate(wanted)})
    assignable = {topic: frozenset(initialized) for topic in group.partition_counts}
    group = group._replace(assignable=assignable)
    assignment = SimpleAssignor().assign(group)
    check_shared_assignment(group, assignment)
    subscribed = {topic for member in group.members.values() for topic in member.topic_ids}
    for (topic, _), members in spread(group, assignment).items():
        assert (members > 0) == (topic in subscribed)


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ({"x": {}}, "x is not a member"),
        ({"m0": {b"2": frozenset((0,))}}, "does not subscribe"),
        ({"m0": {b"1": frozenset((1,))}}, "not initialized"),
    ],
)
def test_shared_assignments_that_are_refused(assignment: Any, message: str) -> None:
    group = GroupSpec({"m0": MemberSpec(None, None, {b"1"}, {})}, {b"1": 2}, {b"1": frozenset((0,))})
    with pytest.raises(AssignmentError, match=message):
        check_shared_assignment(group, assignment)


def test_the_assignor_of_share_groups() -> None:
    assert load_share_assignor(["simple"]).name == "simple"
    assert load_share_assignor(["org.apache.kafka.coordinator.group.assignor.SimpleAssignor"]).name == "simple"
    with pytest.raises(AssignorError, match=r"group.share.assignors is empty"):
        load_share_assignor([])
    with pytest.raises(AssignorError, match=r"group.share.assignors: cannot create"):
        load_share_assignor(["nowhere.Nothing"])
