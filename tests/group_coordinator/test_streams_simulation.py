"""Members of a streams group in some processes: requests and answers that are lost or late, deaths, failed appends, restarts.

What must hold whatever happens:

- No task is processed by two members at the same time, and no two members of a process have the same task.
- Left alone, the group settles: all who are alive are members, every task is processed by exactly one, and each task with a
  state has its standby tasks.
"""

import contextlib
import random
from collections import Counter
from concurrent.futures import Future
from typing import Any

import pytest

from tests.group_coordinator.streams_members import G, ids, internal, subtopology, tasks, topology
from tests.support.budget import share_of
from tests.support.coordinator_fakes import Bench
from twisted_kafka.group_coordinator.requests import Client
from twisted_kafka.group_coordinator.state.consumer_group_member import STATIC_LEAVE_EPOCH
from twisted_kafka.protocol.errors import ErrorCode, KafkaError
from twisted_kafka.protocol.messages.streams.streams_groups import StreamsGroupHeartbeatRequest

FAILURES = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT)
BEGIN_ANEW = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)
ROLES = ("active", "standby", "warmup")
TOPOLOGY = topology(subtopology("0", "t", state_changelog_topics=[internal("c")]), subtopology("1", "u"))
SETTLING = 150


class Member:
    """A stream thread as clients are: one request at a time, and it gives tasks up in its own time."""

    def __init__(self, number: int, chance: random.Random) -> None:
        self.number = number
        self.chance = chance
        self.process_id = f"p{number % 5}"
        self.instance_id = f"i{number}" if number % 4 == 0 else None
        self.lives = 0
        self.restart()

    def restart(self) -> None:
        self.lives += 1
        self.member_id = f"m{self.number}.{self.lives}"
        self.asked: Any = None
        self.reset()

    def reset(self) -> None:
        self.epoch, self.is_full = 0, True
        self.told: dict[str, set[Any]] = {role: set() for role in ROLES}
        self.used: dict[str, set[Any]] = {role: set() for role in ROLES}

    def step(self, bench: Bench, loses: bool) -> None:
        """Send a heartbeat, or look whether the last one was answered; ``loses``: the request or its answer gets lost."""
        if self.asked is None:
            if loses and self.chance.random() < 0.5:
                self.is_full = True
                return
            self.asked = self.send(bench)
        if isinstance(self.asked, Future) and not self.asked.done():
            return
        answer, self.asked = self.asked, None
        if loses:
            self.is_full = True
            return
        try:
            self.got(answer.result() if isinstance(answer, Future) else answer)
        except KafkaError as error:
            self.got(error.code)

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

    def away(self, bench: Bench) -> None:
        """Leave for a while, as a static member that is restarted does."""
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


def disturb(chance: random.Random, bench: Bench, members: list[Member], spare: list[Member]) -> None:
    what = chance.random()
    if what < 0.1 and spare:
        members.extend(spare.pop() for _ in range(min(len(spare), chance.choice((1, 3)))))
    elif what < 0.14 and len(members) > 2:
        dead = members.pop(chance.randrange(len(members)))
        dead.restart()
        spare.append(dead)
    elif what < 0.17:
        statics = [member for member in members if member.instance_id]
        if statics:
            chance.choice(statics).away(bench)
    elif what < 0.2:
        bench.log.fail_next.append(chance.choice(FAILURES))
    elif what < 0.23:
        bench.log.holds = True
    elif what < 0.35 and bench.log.holds:
        bench.log.release(chance.choice((ErrorCode.NONE, *FAILURES)))
    elif what < 0.37:
        bench.log.release()
        bench.restart()
        configure(bench)
    elif what < 0.39:
        more = bench.topics.counts["t"] + chance.choice((0, 1))
        bench.topics.change({"t": more, "c": more, "u": 4})
    elif what < 0.4:
        bench.topics.change({"t": bench.topics.counts["t"], "c": bench.topics.counts["t"], "u": 4, f"other{chance.random()}": 1})


def configure(bench: Bench) -> None:
    bench.group_config_manager.update(G, {"streams.num.standby.replicas": "1", "streams.assignment.interval.ms": "500"})


@pytest.mark.parametrize("seed", range(share_of(20)))
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
    for _ in range(300):
        disturb(chance, bench, members, spare)
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
