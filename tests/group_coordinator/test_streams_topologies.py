"""Which internal topics a topology needs, and how its tasks move between roles."""

from typing import Any

import pytest

from tests.group_coordinator.streams_members import copartitioned, internal, subtopology, topology
from twisted_kafka.group_coordinator.state.streams.configured_topology import ConfiguredTopology, Status
from twisted_kafka.group_coordinator.state.streams.streams_group_member import MemberState, StreamsAssignment
from twisted_kafka.group_coordinator.state.streams.tasks import HeldTasks, Task, Tasks
from twisted_kafka.group_coordinator.state.streams.topology import Topology
from twisted_kafka.group_coordinator.streams.internal_topics import MOST_READ, MOST_TASKS, _PartitionCounts, configure, summary
from twisted_kafka.group_coordinator.streams.reconciliation import Goal, Roles, reconcile
from twisted_kafka.group_coordinator.streams.request_content import topology_record
from twisted_kafka.metadata.cache import MetadataSnapshot
from twisted_kafka.protocol.errors import FencedMemberEpochError, StreamsInvalidTopologyError


def configured(counts: dict[str, int], *subtopologies: Any) -> ConfiguredTopology:
    record = topology_record(topology(*subtopologies))
    assert record is not None
    topics = {name: dict.fromkeys(range(count)) for name, count in counts.items()}
    return configure(Topology(record), MetadataSnapshot({}, topics, {}, {}), 7)


def missing(found: ConfiguredTopology) -> dict[str, int]:
    return {topic.name: topic.partition_count for topic in found.missing}


def problem(found: ConfiguredTopology) -> tuple[int, str]:
    assert found.problem is not None
    return found.problem


def test_internal_topics_have_the_partitions_of_their_input() -> None:
    found = configured(
        {"in": 4, "other": 6},
        subtopology("0", "in", repartition_sink_topics=["r"]),
        subtopology("1", "other", repartition_source_topics=[internal("r")], state_changelog_topics=[internal("c")]),
    )
    assert missing(found) == {"r": 4, "c": 6}
    assert problem(found) == (Status.MISSING_INTERNAL_TOPICS, "Internal topics are missing: c, r")
    assert {name: each.task_count for name, each in (found.subtopologies or {}).items()} == {"0": 4, "1": 6}
    assert found.ready == {}


def test_chains_of_repartition_topics_are_followed_in_any_order() -> None:
    chain = [
        subtopology(str(9 - number), repartition_source_topics=[internal(f"r{number}")], repartition_sink_topics=[f"r{number + 1}"])
        for number in range(5)
    ]
    end = subtopology("z", repartition_source_topics=[internal("r5")])
    found = configured({"in": 3}, subtopology("a", "in", repartition_sink_topics=["r0"]), *chain, end)
    assert missing(found) == {f"r{number}": 3 for number in range(6)}


def test_a_repartition_topic_may_name_its_partitions() -> None:
    reader = subtopology("1", repartition_source_topics=[internal("r", 8)])
    assert missing(configured({"in": 4}, subtopology("0", "in", repartition_sink_topics=["r"]), reader)) == {"r": 8}


@pytest.mark.parametrize(
    ("subtopologies", "message"),
    [
        ([subtopology("0")], "No source topics found for subtopology 0"),
        ([subtopology("0", "in"), subtopology("1", repartition_source_topics=[internal("r")])], "never used as a sink"),
        ([subtopology("0", repartition_source_topics=[internal("r")], repartition_sink_topics=["r"])], "There may be loops"),
    ],
)
def test_topologies_that_cannot_be_configured(subtopologies: Any, message: str) -> None:
    with pytest.raises(StreamsInvalidTopologyError, match=message):
        configured({"in": 1}, *subtopologies)


def test_missing_source_topics_are_named() -> None:
    found = configured({}, subtopology("0", "d", "c"), subtopology("1", "b", "a"))
    assert problem(found) == (Status.MISSING_SOURCE_TOPICS, "Source topics a, b, c and 1 additional topics are missing.")
    assert summary(["a"]) == "a"


def test_copartitioned_source_topics_have_the_same_number() -> None:
    found = configured({"a": 2, "b": 3}, subtopology("0", "a", "b", copartition_groups=[copartitioned([0, 1])]))
    detail = "Following topics do not have the same number of partitions: [{a=2, b=3}]"
    assert problem(found) == (Status.INCORRECTLY_PARTITIONED_TOPICS, detail)


def test_copartitioned_repartition_topics_adapt() -> None:
    writers = [subtopology("0", "a", repartition_sink_topics=["r"]), subtopology("1", "b", repartition_sink_topics=["q"])]
    both = [internal("r"), internal("q")]
    joined = subtopology("2", repartition_source_topics=both, copartition_groups=[copartitioned([], [0, 1])])
    assert missing(configured({"a": 2, "b": 5}, *writers, joined)) == {"r": 5, "q": 5}
    with_source = subtopology("2", "s", repartition_source_topics=both, copartition_groups=[copartitioned([0], [0, 1])])
    assert missing(configured({"a": 2, "b": 5, "s": 3}, *writers, with_source)) == {"r": 3, "q": 3}
    fixed = subtopology(
        "2", repartition_source_topics=[internal("r", 4), internal("q")], copartition_groups=[copartitioned([], [0, 1])]
    )
    assert missing(configured({"a": 2, "b": 5}, *writers, fixed)) == {"r": 4, "q": 4}
    wrong = subtopology("2", "s", repartition_source_topics=[internal("r", 4)], copartition_groups=[copartitioned([0], [0])])
    found = configured({"a": 2, "s": 3}, writers[0], wrong)
    detail = "Number of partitions [4] of repartition topic [r] doesn't match number of partitions [3] of the source topic."
    assert problem(found) == (Status.INCORRECTLY_PARTITIONED_TOPICS, detail)


@pytest.mark.medium
def test_the_cost_of_a_giant_topology_is_in_proportion(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain of repartition topics against the order of their ids, which a naive search walks again for each."""
    count, looked_at = 500, 0
    look = _PartitionCounts._input_count

    def counted(self: _PartitionCounts, *arguments: Any) -> int | None:
        nonlocal looked_at
        looked_at += 1
        return look(self, *arguments)

    monkeypatch.setattr(_PartitionCounts, "_input_count", counted)
    chain = [
        subtopology(f"{count - n:06}", repartition_source_topics=[internal(f"r{n}")], repartition_sink_topics=[f"r{n + 1}"])
        for n in range(count)
    ]
    first = subtopology("z", "in", repartition_sink_topics=["r0"])
    last = subtopology("a", repartition_source_topics=[internal(f"r{count}")])
    assert len(configured({"in": 1}, first, last, *chain).missing) == count + 1
    assert looked_at <= 2 * count + 1


def test_a_small_topology_does_not_get_millions_of_tasks() -> None:
    many = [subtopology(str(number), "in") for number in range(100)]
    fits = configured({"in": MOST_TASKS // 100}, *many)
    assert sum(each.task_count for each in fits.ready.values()) == MOST_TASKS
    detail = "The topics make 100100 tasks of the topology, but at most 100000 are possible"
    assert problem(configured({"in": MOST_TASKS // 100 + 1}, *many)) == (Status.INCORRECTLY_PARTITIONED_TOPICS, detail)


def test_a_small_topology_does_not_get_a_giant_list_of_partitions() -> None:
    """The response to a heartbeat lists the partitions of all tasks, for each topic that they read."""
    counts = {f"t{number}": MOST_READ // 1_000 for number in range(100)}
    fits = [subtopology(str(number), *counts) for number in range(10)]
    assert configured(counts, *fits).problem is None
    detail = f"The tasks of the topology read {MOST_READ + MOST_READ // 10} partitions, but at most {MOST_READ} are possible"
    assert problem(configured(counts, *fits, subtopology("10", *counts))) == (Status.INCORRECTLY_PARTITIONED_TOPICS, detail)


def test_copartition_groups_do_not_each_look_at_all_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    count, looked_at = 300, 0
    look = _PartitionCounts._of

    def counted(self: _PartitionCounts, topic: str) -> int:
        nonlocal looked_at
        looked_at += 1
        return look(self, topic)

    monkeypatch.setattr(_PartitionCounts, "_of", counted)
    topics = [internal(f"r{number}", 2) for number in range(count)]
    groups = [copartitioned([], [number]) for number in range(count)]
    found = configured({"in": 1}, subtopology("0", "in", repartition_source_topics=topics, copartition_groups=groups))
    assert len(found.missing) == count
    assert looked_at <= 5 * count


# tasks

T: Task = ("0", 0)
U: Task = ("0", 1)
FREE = Roles(lambda _: False, lambda _: False, lambda _: False)
TAKEN = Roles(lambda _: True, lambda _: True, lambda _: True)


def held(active: Any = (), standby: Any = (), warmup: Any = (), epoch: int = 3) -> HeldTasks:
    return HeldTasks(dict.fromkeys(active, epoch), frozenset(standby), frozenset(warmup))


def wanted(active: Any = (), standby: Any = (), warmup: Any = ()) -> Tasks:
    return Tasks(frozenset(active), frozenset(standby), frozenset(warmup))


def step(assigned: HeldTasks, target: Tasks, taken: Roles = FREE, owned: Tasks | None = None, **fields: Any) -> StreamsAssignment:
    current = StreamsAssignment(3, 2, MemberState.STABLE, assigned)._replace(**fields)
    return reconcile(current, Goal(5, target, taken), owned)


def test_a_member_gets_free_tasks_in_the_epoch_of_the_target() -> None:
    found = step(held([T]), wanted([T, U]))
    assert found == StreamsAssignment(5, 3, MemberState.STABLE, HeldTasks({T: 3, U: 5}))
    found = step(held([T]), wanted([T, U]), TAKEN)
    assert found == StreamsAssignment(5, 3, MemberState.UNRELEASED_TASKS, held([T]))
    again = reconcile(found, Goal(5, wanted([T, U]), TAKEN), None)
    assert again == found._replace(previous_epoch=5)
    assert reconcile(again, Goal(5, wanted([T, U]), FREE), None).state is MemberState.STABLE


def test_a_member_revokes_first() -> None:
    found = step(held([T], [U]), wanted([U]))
    assert found == StreamsAssignment(3, 3, MemberState.UNREVOKED_TASKS, held([], [U]), held([T]))
    goal = Goal(5, wanted([U]), FREE)
    assert reconcile(found, goal, None) is found
    assert reconcile(found, goal, wanted([T])) is found
    after = reconcile(found, goal, wanted([], [U]))
    assert after == StreamsAssignment(5, 3, MemberState.STABLE, HeldTasks({U: 5}))
    assert step(held([T]), wanted(), owned=wanted()).state is MemberState.STABLE, "it has given the task up already"


def test_roles_change_in_place() -> None:
    assert step(held([], [T]), wanted([], [], [T])).assigned == held([], [], [T])
    assert step(held([], [], [T]), wanted([], [T])).assigned == held([], [T])
    found = step(held([], [T]), wanted([T]))
    assert found == StreamsAssignment(5, 3, MemberState.STABLE, HeldTasks({T: 5}))
    found = step(held([], [], [T]), wanted([T]), TAKEN)
    assert found == StreamsAssignment(5, 3, MemberState.UNRELEASED_TASKS, held([], [], [T])), (
        "it keeps the state until the task is free"
    )
    found = step(held([T]), wanted([], [T]), owned=wanted([T]))
    assert found == StreamsAssignment(3, 3, MemberState.UNREVOKED_TASKS, held([], [T]), held([T]))
    found = step(held([T], [U]), wanted([U]), owned=wanted([T], [U]))
    assert found.assigned == held([], [U]), "what becomes active stays standby while something else is revoked"


def test_a_member_in_an_unknown_state_begins_again() -> None:
    with pytest.raises(FencedMemberEpochError):
        step(held([T]), wanted([T]), owned=wanted([T]), state=MemberState.UNKNOWN)
    assert step(held(), wanted([T]), owned=wanted(), state=MemberState.UNKNOWN).epoch == 5
    assert MemberState.of(9) is MemberState.UNKNOWN
