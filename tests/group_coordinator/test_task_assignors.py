"""The sticky assignor of streams groups, and the checks of every assignor's result."""

import random
from collections import Counter
from collections.abc import Mapping

import pytest

from twisted_kafka.group_coordinator.assignors.interface import AssignmentError
from twisted_kafka.group_coordinator.assignors.loading import AssignorError, load_task_assignors
from twisted_kafka.group_coordinator.assignors.sticky_tasks import StickyTaskAssignor
from twisted_kafka.group_coordinator.assignors.task_interface import TaskAssignor, TaskGroup, TaskMember, check_tasks
from twisted_kafka.group_coordinator.state.streams.tasks import NOTHING, Task, Tasks


def member(process: str, assigned: Tasks = NOTHING, offsets: Mapping[Task, int] | None = None) -> TaskMember:
    return TaskMember(process, None, None, {}, assigned, offsets or {})


def group(members: Mapping[str, TaskMember], standby: int = 0, **counts: int) -> TaskGroup:
    return TaskGroup(members, counts, {name for name in counts if name.startswith("s")}, standby, ())


def assign(members: Mapping[str, TaskMember], standby: int = 0, **counts: int) -> Mapping[str, Tasks]:
    asked = group(members, standby, **counts)
    found = StickyTaskAssignor().assign(asked)
    check_tasks(asked, found)
    return found


def tasks(*found: str) -> frozenset[Task]:
    return frozenset((each[0], int(each[1:])) for each in found)


def test_tasks_are_shared_evenly_by_ranges() -> None:
    found = assign({"a": member("a"), "b": member("b")}, s=2, t=2)
    assert found == {"a": Tasks(tasks("s0", "t0")), "b": Tasks(tasks("s1", "t1"))}


def test_members_of_a_process_share_its_load() -> None:
    found = assign({"a1": member("a"), "a2": member("a"), "b": member("b")}, t=6)
    assert {name: len(each.active) for name, each in found.items()} == {"a1": 2, "a2": 2, "b": 2}


def test_the_member_of_a_process_that_has_the_fewest_tasks_gets_the_next() -> None:
    found = assign({"a1": member("a", Tasks(tasks("t0", "t1"))), "a2": member("a"), "a3": member("a")}, t=6)
    assert found["a1"].active == tasks("t0", "t1")
    assert {name: len(each.active) for name, each in found.items()} == {"a1": 2, "a2": 2, "a3": 2}


def test_an_active_task_stays_with_its_member_up_to_its_share() -> None:
    before = {"a": member("a", Tasks(tasks("t0", "t1", "t2", "t3"))), "b": member("b")}
    found = assign(before, t=4)
    assert found == {"a": Tasks(tasks("t0", "t1")), "b": Tasks(tasks("t2", "t3"))}


def test_a_task_goes_to_a_member_that_has_its_state() -> None:
    found = assign({"a": member("a"), "b": member("b", Tasks(standby=tasks("s0"))), "c": member("c")}, s=1)
    assert found["b"].active == tasks("s0")
    offsets = {"a": {("s", 0): 5}, "b": {("s", 0): 9}}
    found = assign({name: member(name, offsets=each) for name, each in offsets.items()}, s=1)
    assert found["b"].active == tasks("s0"), "it has restored more"
    before = {"a": member("a", offsets={("s", 0): 9}), "b": member("b", Tasks(standby=tasks("s0")), {("s", 0): 1})}
    assert assign(before, s=1)["b"].active == tasks("s0"), "a standby task counts more than a directory on the disk"


def test_only_tasks_with_a_state_have_standby_tasks() -> None:
    found = assign({"a": member("a"), "b": member("b")}, 1, s=2, t=2)
    assert sum(len(each.standby) for each in found.values()) == 2
    assert all(name == "s" for each in found.values() for name, _ in each.standby)


def test_there_are_no_more_standby_tasks_than_processes() -> None:
    found = assign({"a1": member("a"), "a2": member("a"), "b": member("b")}, 5, s=2)
    counts = Counter(task for each in found.values() for role in each for task in role)
    assert counts == {("s", 0): 2, ("s", 1): 2}


@pytest.mark.parametrize("seed", range(60))
def test_any_group(seed: int) -> None:
    chance = random.Random(seed)
    counts = {f"{chance.choice('st')}{number}": chance.randrange(1, 12) for number in range(chance.randrange(1, 5))}
    standby = chance.randrange(3)
    names = [f"m{number}" for number in range(chance.randrange(1, 9))]
    processes_of_all = chance.choice((4, 1_000_000))
    members = {name: member(f"p{chance.randrange(processes_of_all)}") for name in names}
    for _ in range(4):
        found = assign(members, standby, **counts)
        active = Counter(task for each in found.values() for task in each.active)
        assert active == Counter((name, index) for name, count in counts.items() for index in range(count))
        processes = len({each.process_id for each in members.values()})
        copies = Counter(task for each in found.values() for task in each.standby)
        wanted = min(standby, processes - 1)
        assert all(copies[task] == (wanted if task[0].startswith("s") else 0) for task in active)
        members = {name: each._replace(assigned=found[name]) for name, each in members.items()}
        if processes == len(members):
            again = assign(members, standby, **counts)
            assert [each.active for each in again.values()] == [each.active for each in found.values()], "nothing has to move"
        joining = f"m{len(members)}"
        members[joining] = member(f"p{chance.randrange(processes_of_all)}")
        if len(members) > 2:
            del members[chance.choice(sorted(members))]


def test_results_are_checked() -> None:
    asked = group({"a": member("p"), "b": member("p"), "c": member("q")}, s=2)
    for wrong, message in (
        ({"x": NOTHING}, "x is not a member"),
        ({"a": Tasks(tasks("s0")), "c": Tasks(tasks("s0"))}, "an active task is assigned twice"),
        ({"a": Tasks(tasks("s0")), "b": Tasks(standby=tasks("s0"))}, "process p has a task twice"),
        ({"a": Tasks(tasks("s2"))}, "task s_2 does not exist"),
    ):
        with pytest.raises(AssignmentError, match=message):
            check_tasks(asked, wrong)


class OneForAll(TaskAssignor):
    """Gives all tasks to the first member."""

    name = "one"

    def assign(self, group: TaskGroup) -> Mapping[str, Tasks]:
        first = next(iter(group.members))
        return {first: Tasks(frozenset((each, index) for each, count in group.task_counts.items() for index in range(count)))}


def test_assignors_are_loaded_by_name() -> None:
    own = f"{__name__}.OneForAll"
    assert list(load_task_assignors(["sticky", own])) == ["sticky", "one"]
    java = "org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor"
    assert list(load_task_assignors([java])) == ["sticky"]
    for names, message in (
        ([], "is empty"),
        (["sticky", java], "twice"),
        (["builtins.dict"], "has no"),
        (["x.Y"], "cannot create"),
    ):
        with pytest.raises(AssignorError, match=message):
            load_task_assignors(names)
