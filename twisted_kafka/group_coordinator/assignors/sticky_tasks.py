"""The ``sticky`` assignor of streams groups: balances tasks, and leaves them where they or their state are.

Active tasks go, as long as the member has fewer than its share, to the member that has them, then to one that has their state, then
to the least loaded process. Standby tasks follow in the same way; no process has the same task twice. The load of a process is its
number of tasks for each of its members (Kafka: StickyTaskAssignor).
"""

import heapq
from collections.abc import Iterable, Mapping

from twisted.logger import Logger
from typing_extensions import override

from twisted_kafka.group_coordinator.assignors.task_interface import TaskAssignor, TaskGroup
from twisted_kafka.group_coordinator.state.streams.tasks import Task, Tasks

_log = Logger()

_Member = tuple[str, str]
"""A process's id and a member's."""


class StickyTaskAssignor(TaskAssignor):
    """Assigns tasks evenly, and moves few of them."""

    name = "sticky"

    @override
    def assign(self, group: TaskGroup) -> Mapping[str, Tasks]:
        """Return each member's tasks."""
        return _Assignment(group).compute()


class _Share:
    """The most tasks that a member may have. The tasks that are left are shared by the members that have fewer."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self.size = self._ceiling()

    def _ceiling(self) -> int:
        return -(-self._tasks // self._members) if self._members else 0

    def took(self, count: int) -> None:
        """Note that a member has this many tasks now."""
        if count == self.size:
            self._members -= 1
            self._tasks -= count
            self.size = self._ceiling()


class _Process:
    """A process: its members' tasks, and its load."""

    def __init__(self, process_id: str) -> None:
        self.process_id = process_id
        self.counts: dict[str, int] = {}
        self.active: dict[str, set[Task]] = {}
        self.standby: dict[str, set[Task]] = {}
        self.tasks: set[Task] = set()
        self._by_count: list[tuple[int, str]] | None = None

    @property
    def load(self) -> float:
        """The number of tasks for each member."""
        return len(self.tasks) / len(self.counts)

    def join(self, member_id: str) -> None:
        """Add a member."""
        self.counts[member_id] = 0
        self.active[member_id], self.standby[member_id] = set(), set()

    def add(self, member_id: str, task: Task, roles: dict[str, set[Task]]) -> int:
        """Give a member a task; return how many it has."""
        self._by_count = None
        return self._add(member_id, task, roles)

    def _add(self, member_id: str, task: Task, roles: dict[str, set[Task]]) -> int:
        roles[member_id].add(task)
        self.tasks.add(task)
        self.counts[member_id] += 1
        return self.counts[member_id]

    def add_to_least_loaded(self, task: Task, roles: dict[str, set[Task]]) -> int:
        """Give a task to the member that has the fewest; return how many it has."""
        if self._by_count is None:
            self._by_count = [(count, member_id) for member_id, count in self.counts.items()]
            heapq.heapify(self._by_count)
        _, member_id = self._by_count[0]
        count = self._add(member_id, task, roles)
        heapq.heapreplace(self._by_count, (count, member_id))
        return count


class _Assignment:
    """An assignment in the making."""

    def __init__(self, group: TaskGroup) -> None:
        self._group = group
        self._processes: dict[str, _Process] = {}
        self._had_active: dict[Task, _Member] = {}
        self._had_state: dict[Task, list[_Member]] = {}
        self._note_members()
        tasks = sum(group.task_counts.values())
        standby = sum(group.task_counts[each] for each in group.stateful) * group.standby_replicas
        self._active_share = _Share(tasks, len(group.members))
        self._total_share = _Share(tasks + standby, len(group.members))

    def _note_members(self) -> None:
        candidates: dict[Task, list[tuple[bool, int, int, _Member]]] = {}
        for order, (member_id, each) in enumerate(self._group.members.items()):
            member = each.process_id, member_id
            self._processes.setdefault(each.process_id, _Process(each.process_id)).join(member_id)
            self._had_active.update(dict.fromkeys(each.assigned.active, member))
            for task in each.assigned.standby | each.offsets.keys():
                has_no_role = task not in each.assigned.standby
                candidates.setdefault(task, []).append((has_no_role, -each.offsets.get(task, 0), order, member))
        self._had_state = {task: [member for *_, member in sorted(found)] for task, found in candidates.items()}

    def compute(self) -> Mapping[str, Tasks]:
        """Return each member's tasks."""
        group = self._group
        self._assign_active([(each, index) for each, count in group.task_counts.items() for index in range(count)])
        if group.standby_replicas:
            self._assign_standby([(each, index) for each in group.stateful for index in range(group.task_counts[each])])
        return {
            member_id: Tasks(frozenset(process.active[member_id]), frozenset(process.standby[member_id]))
            for process in self._processes.values()
            for member_id in process.counts
        }

    # active tasks

    def _assign_active(self, tasks: list[Task]) -> None:
        tasks.sort(key=_by_partition)
        tasks = [task for task in tasks if not self._keep_active(self._had_active.get(task), task)]
        tasks = [task for task in tasks if not self._keep_active(self._least_loaded(self._had_state.get(task, ())), task)]
        loads = self._loads()
        for task in sorted(tasks):
            _, process_id = loads[0]
            process = self._processes[process_id]
            self._took_active(process.add_to_least_loaded(task, process.active))
            heapq.heapreplace(loads, (process.load, process_id))

    def _keep_active(self, member: _Member | None, task: Task) -> bool:
        if member is None:
            return False
        process = self._processes[member[0]]
        if process.counts[member[1]] >= self._active_share.size:
            return False
        self._took_active(process.add(member[1], task, process.active))
        return True

    def _took_active(self, count: int) -> None:
        self._active_share.took(count)
        self._total_share.took(count)

    def _loads(self) -> list[tuple[float, str]]:
        loads = [(process.load, process.process_id) for process in self._processes.values()]
        heapq.heapify(loads)
        return loads

    def _least_loaded(self, members: Iterable[_Member], without: Task | None = None) -> _Member | None:
        """Return the first member, or a later one that is better in its own load and in its process's."""
        found: tuple[_Member, float, int] | None = None
        for member in members:
            process = self._processes[member[0]]
            if without is not None and without in process.tasks:
                continue
            load, count = process.load, process.counts[member[1]]
            if found is None or (load < found[1] and count < found[2]):
                found = member, load, count
        return None if found is None else found[0]

    # standby tasks

    def _assign_standby(self, tasks: list[Task]) -> None:
        left: list[tuple[Task, int]] = []
        for task in sorted(tasks, key=_by_partition, reverse=True):
            for placed in range(self._group.standby_replicas):
                if not self._keep_standby(task):
                    left.append((task, self._group.standby_replicas - placed))
                    break
        loads = self._loads()
        short = 0
        for task, count in sorted(left, reverse=True):
            short += sum(not self._place_standby(task, loads) for _ in range(count))
        if short:
            _log.debug("{n} standby tasks have no process left: there are more replicas than processes", n=short)

    def _keep_standby(self, task: Task) -> bool:
        """Give a standby task to a member that had the task, if it may have more."""
        had_active = self._had_active.get(task)
        for member in (
            self._least_loaded((had_active,) if had_active is not None else (), task),
            self._least_loaded(self._had_state.get(task, ()), task),
        ):
            if member is not None:
                process = self._processes[member[0]]
                if process.counts[member[1]] < self._total_share.size:
                    self._total_share.took(process.add(member[1], task, process.standby))
                    return True
        return False

    def _place_standby(self, task: Task, loads: list[tuple[float, str]]) -> bool:
        """Give a standby task to the least loaded process that does not have the task; return False if all have it."""
        passed = []
        while loads and task in self._processes[loads[0][1]].tasks:
            passed.append(heapq.heappop(loads))
        if loads:
            process = self._processes[loads[0][1]]
            self._total_share.took(process.add_to_least_loaded(task, process.standby))
            heapq.heapreplace(loads, (process.load, process.process_id))
            is_placed = True
        else:
            is_placed = False
        for each in passed:
            heapq.heappush(loads, each)
        return is_placed


def _by_partition(task: Task) -> tuple[int, str]:
    return task[1], task[0]
