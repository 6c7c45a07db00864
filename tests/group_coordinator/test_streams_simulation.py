"""Members of a streams group in some processes: requests and answers that are lost or late, deaths, failed appends, restarts.

What must hold whatever happens:

- No task is processed by two members at the same time, and no two members of a process have the same task.
- Left alone, the group settles: all who are alive are members, every task is processed by exactly one, and each task with a
  state has its standby tasks.
"""

import contextlib
import random
from collections import Counter
from typing import Any

import pytest
from typing_extensions import override

from tests.group_coordinator.heartbeating import HeartbeatingMember, disturb
from tests.group_coordinator.streams_members import G, ids, internal, subtopology, tasks, topology
from tests.support.budget import first_of
from tests.support.coordinator_fakes import Bench
from twisted_kafka.group_coordinator.requests import Client
from twisted_kafka.group_coordinator.state.consumer.consumer_group_member import STATIC_LEAVE_EPOCH
from twisted_kafka.protocol.errors import ErrorCode, KafkaError
from twisted_kafka.protocol.messages.streams.streams_groups import StreamsGroupHeartbeatRequest

pytestmark = pytest.mark.medium

BEGIN_ANEW = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)
ROLES = ("active", "standby", "warmup")
TOPOLOGY = topology(subtopology("0", "t", state_changelog_topics=[internal("c")]), subtopology("1", "u"))
SETTLING = 150


class Member(HeartbeatingMember):
    """A stream thread as clients are: it gives tasks up in its own time."""

    def __init__(self, number: int, chance: random.Random) -> None:
        self.process_id = f"p{number % 5}"
        super().__init__(number, chance, is_static=number % 4 == 0)

    @override
    def reset(self) -> None:
        super().reset()
        self.told: dict[str, set[Any]] = {role: set() for role in ROLES}
        self.used: dict[str, set[Any]] = {role: set() for role in ROLES}

    @override
    def send(self, bench: Bench) -> Any:
        if self.chance.random() < 0.7:
            self.obey()
        request = StreamsGroupHeartbeatRequest(
            group_id=G, member_id=self.member_id, member_epoch=self.epoch, instance_id=self.instance_id, process_id=self.process_id
        )
        if self.epoch == 0:
            request.topology, request.rebalance_timeout_ms = TOPOLOGY, 300_000
        if self.epoch == 0 or self.is_full or self.used != self.told or self.chance.random() < 0.3:
            request.active_tasks, request.standby_tasks, request.warmup_tasks = (ids(self.used[role]) for role in ROLES)
        self.is_full = False
        return self._send(bench, request)

    def _send(self, bench: Bench, request: StreamsGroupHeartbeatRequest) -> Any:
        try:
            return bench.groups.streams.heartbeat(request, Client(str(self.number), "/h"), 1)
        except KafkaError as error:
            return error.code

    def obey(self) -> None:
        """Give up what the member was told to give up, then take its tasks."""
        self.used = {role: set(self.told[role]) for role in ROLES}

    @override
    def got(self, answer: Any) -> None:
        code = answer if isinstance(answer, ErrorCode) else ErrorCode(answer.response.error_code)
        if code in BEGIN_ANEW:
            self.reset()
        elif code:
            self.is_full = True  # an earlier life of it may still hold its place
        else:
            self.epoch = answer.response.member_epoch
            if answer.response.active_tasks is not None:
                self.told = {role: tasks(getattr(answer.response, f"{role}_tasks")) or set() for role in ROLES}

    @override
    def away(self, bench: Bench) -> None:
        request = StreamsGroupHeartbeatRequest(
            group_id=G, member_id=self.member_id, member_epoch=STATIC_LEAVE_EPOCH, instance_id=self.instance_id
        )
        with contextlib.suppress(KafkaError):
            bench.groups.streams.heartbeat(request, Client(str(self.number), "/h"), 1)
        self.restart()


def look(members: list[Member]) -> None:
    """No task is processed twice, and a process has it once, at this moment."""
    active: dict[Any, Member] = {}
    of_process: dict[Any, Member] = {}
    for member in members:
        for task in member.used["active"]:
            assert active.setdefault(task, member) is member, f"{task}: {active[task].member_id} and {member.member_id}"
        for task in set().union(*member.used.values()):
            found = of_process.setdefault((member.process_id, task), member)
            assert found is member, f"{task} in {member.process_id}: {found.member_id} and {member.member_id}"


def configure(bench: Bench) -> None:
    bench.group_config_manager.update(G, {"streams.num.standby.replicas": "1", "streams.assignment.interval.ms": "500"})


@pytest.mark.parametrize("seed", first_of(range(20)))
def test_a_streams_group(seed: int) -> None:
    simulate(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(20, 320, 50))
def test_many_streams_groups(first: int) -> None:
    for seed in range(first, first + 50):
        simulate(seed)


def simulate(seed: int) -> None:
    chance = random.Random(seed)
    spare = [Member(number, chance) for number in range(14)]
    members = [spare.pop() for _ in range(4)]
    bench = Bench(streams_initial_rebalance_delay_ms=chance.choice((0, 3_000)))
    bench.topics.change({"t": 12, "c": 12, "u": 4})
    configure(bench)

    def change_topics(what: float) -> None:
        if what < 0.39:
            more = bench.topics.counts["t"] + chance.choice((0, 1))
            bench.topics.change({"t": more, "c": more, "u": 4})
        elif what < 0.4:
            count = bench.topics.counts["t"]
            bench.topics.change({"t": count, "c": count, "u": 4, f"other{chance.random()}": 1})

    for _ in range(300):
        disturb(chance, bench, members, spare, change_topics, lambda: configure(bench))
        for member in chance.sample(members, k=len(members) // 2 + 1):
            member.step(bench, loses=chance.random() < 0.02)
        look(members)
        bench.advance(chance.choice((1, 500, 1500)))
    bench.log.release()
    bench.log.fail_next.clear()
    for _ in range(SETTLING):
        for member in members:
            member.step(bench, loses=False)
            member.obey()
        look(members)
        bench.advance(1000)
    counts = {"0": bench.topics.counts["t"], "1": 4}
    every = Counter((name, index) for name, count in counts.items() for index in range(count))
    assert Counter(task for member in members for task in member.used["active"]) == every
    standby = Counter(task for member in members for task in member.used["standby"])
    has_others = len({member.process_id for member in members}) > 1
    assert standby == Counter({task: 1 for task in every if task[0] == "0" and has_others})
    assert {listing.group_state for listing in bench.groups.list_groups((), ())[1]} == {"Stable"}
    bench.groups.shutdown()
