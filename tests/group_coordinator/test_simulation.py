"""Many members, lost and late messages, deaths, appends that fail, restarts: what must hold whatever happens.

- Nobody owns a part in a generation in which somebody else owns it.
- A request that was parked is answered in the end.
- Left alone, the group settles: all who are alive are members of one generation, and every part has one owner.
"""

import concurrent.futures._base
import random
from concurrent.futures import Future
from typing import Any

import pytest

from tests.support.budget import share_of
from tests.support.cases import case
from tests.support.coordinator_fakes import Bench
from twisted_kafka.group_coordinator.requests import JoinRequest, Sender, SyncRequest
from twisted_kafka.group_coordinator.results import JoinResult, SyncResult
from twisted_kafka.group_coordinator.state.classic_group_member import MemberTerms
from twisted_kafka.protocol.errors import ErrorCode

pytestmark = pytest.mark.medium

PARTS = [f"p{index}" for index in range(12)]
STEPS = 400
SETTLING_STEPS = 200
FAILURES = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT)
START_OVER = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)


class Member:
    """A consumer as clients are: join, sync, heartbeat, and do as the errors say."""

    def __init__(self, number: int, is_static: bool) -> None:
        self.name = f"c{number}"
        self.instance_id = f"i{number}" if is_static else None
        self.restart()

    def restart(self) -> None:
        self.member_id, self.generation, self.sends = "", -1, "join"
        self.assignment: Any = None
        self.asked: Any = None
        self.joined: Any = None

    def step(self, bench: Bench, loses: bool) -> None:
        """Send one request, or look whether the last one was answered; ``loses``: the answer gets lost."""
        if self.asked is not None:
            if not self.asked.done():
                return
            answer, self.asked = self.asked.result(), None
        else:
            answer = getattr(self, f"send_{self.sends}")(bench)
            if isinstance(answer, Future):
                self.asked = answer
                return
        if not loses:
            getattr(self, f"got_{self.sends}")(answer)

    def sender(self) -> Sender:
        return Sender("g", self.member_id, self.instance_id, self.generation)

    def send_join(self, bench: Bench) -> concurrent.futures._base.Future[Any] | JoinResult:
        terms = MemberTerms(self.name, "/h", 8_000, 10_000, "consumer", (("range", self.name.encode()),))
        return bench.groups.join(JoinRequest("g", self.member_id, self.instance_id, terms, self.instance_id is None, True))

    def got_join(self, answer: JoinResult) -> None:
        if answer.error == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        elif answer.error in START_OVER:
            self.restart()
        elif not answer.error:
            self.member_id, self.generation, self.joined, self.sends = answer.member_id, answer.generation, answer, "sync"

    def send_sync(self, bench: Bench) -> concurrent.futures._base.Future[Any] | SyncResult:
        owners = [member.member_id for member in self.joined.members] if not self.joined.skip_assignment else []
        parts = {owner: PARTS[index :: len(owners)] for index, owner in enumerate(owners)}
        assignments = {owner: ",".join(owned).encode() for owner, owned in parts.items()}
        return bench.groups.sync(SyncRequest(self.sender(), None, None, assignments))

    def got_sync(self, answer: SyncResult) -> None:
        if not answer.error:
            self.assignment = tuple(filter(None, answer.assignment.decode().split(",")))
            self.sends = "heartbeat"
        elif answer.error in START_OVER:
            self.restart()
        else:
            self.sends, self.assignment = "join", None

    def send_heartbeat(self, bench: Bench) -> ErrorCode:
        return bench.groups.heartbeat(self.sender())

    def got_heartbeat(self, error: ErrorCode) -> None:
        if error in START_OVER:
            self.restart()
        elif error:
            self.sends, self.assignment = "join", None


class Watch:
    """Who has owned which part in which generation."""

    def __init__(self) -> None:
        self.owners: dict[Any, Any] = {}

    def look(self, members: list[Member]) -> None:
        for member in members:
            for part in member.assignment or ():
                owner = self.owners.setdefault((member.generation, part), member)
                assert owner is member, f"{part} has two owners in generation {member.generation}"


def disturb(
    chance: random.Random,
    bench: Bench,
    members: list[Member],
    spare: list[Member],
    parked: list[Any | concurrent.futures._base.Future[Any] | None],
) -> None:
    what = chance.random()
    if what < 0.02 and spare:
        members.append(spare.pop())
    elif what < 0.035 and len(members) > 2:
        dead = members.pop(chance.randrange(len(members)))
        parked.append(dead.asked)
        dead.restart()
        spare.append(dead)
    elif what < 0.045:
        again = chance.choice(members)
        parked.append(again.asked)
        again.restart()
    elif what < 0.055:
        bench.log.fail_next.append(chance.choice(FAILURES))
    elif what < 0.065:
        bench.log.holds = True
    elif what < 0.09 and bench.log.holds:
        bench.log.release(chance.choice((ErrorCode.NONE, *FAILURES)))
    elif what < 0.093:
        bench.log.release()
        bench.restart()


def test_whatever_happens() -> None:
    for seed in range(share_of(25)):
        with case(seed=seed):
            simulate(seed)


def simulate(seed: int) -> None:
    chance = random.Random(seed)
    bench = Bench(initial_rebalance_delay_ms=chance.choice((0, 1000)))
    spare = [Member(number, is_static=number % 3 == 0) for number in range(30)]
    members, watch = [spare.pop() for _ in range(4)], Watch()
    parked: list[Any] = []
    for _ in range(STEPS):
        disturb(chance, bench, members, spare, parked)
        for member in chance.sample(members, k=len(members) // 2 + 1):
            member.step(bench, loses=chance.random() < 0.02)
        watch.look(members)
        bench.advance(chance.choice((1, 100, 1000)))
    bench.log.release()
    bench.log.fail_next.clear()
    for _ in range(SETTLING_STEPS):
        for member in members:
            member.step(bench, loses=False)
        watch.look(members)
        bench.advance(500)
    described = bench.groups.describe_group("g")
    assert described.state == "Stable"
    assert {member.member_id for member in described.members} == {member.member_id for member in members}
    assert len({member.generation for member in members}) == 1
    assert sorted(part for member in members for part in member.assignment) == sorted(PARTS)
    assert all(future is None or future.done() for future in parked)
    bench.groups.shutdown()
