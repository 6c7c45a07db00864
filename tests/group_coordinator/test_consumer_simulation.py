"""Hundreds of members of both protocols, requests and answers that are lost or late, deaths, appends that fail, restarts.

What must hold whatever happens:

- No partition is used by two members at the same time.
- Left alone, the group settles: all who are alive are members, and every partition is used by exactly one.
"""

import concurrent.futures._base
import random
from concurrent.futures import Future
from typing import Any

import pytest

from tests.group_coordinator.consumer_simulation import BEGIN_ANEW, Modern, look
from tests.group_coordinator.heartbeating import disturb
from tests.support.budget import first_of
from tests.support.coordinator_fakes import Bench
from tests.support.transcripts.consumer_groups import subscription
from twisted_kafka.group_coordinator.requests import JoinRequest, Sender, SyncRequest
from twisted_kafka.group_coordinator.results import JoinResult, SyncResult
from twisted_kafka.group_coordinator.shared.group_coordinator_config import MigrationPolicy
from twisted_kafka.group_coordinator.state.classic_group_member import MemberTerms
from twisted_kafka.group_coordinator.subscription import decode_assignment, encode_assignment
from twisted_kafka.protocol.errors import ErrorCode

pytestmark = pytest.mark.medium

SETTINGS: dict[str, Any] = {"initial_rebalance_delay_ms": 0}


class Classic:
    """An eager consumer of the classic protocol: it gives everything up before it joins again."""

    instance_id = None

    def __init__(self, number: int, chance: random.Random) -> None:
        self.number = number
        self.restart()

    def restart(self) -> None:
        self.member_id, self.generation, self.sends = "", -1, "join"
        self.used: set[Any] = set()
        self.asked: Any = None
        self.members: tuple[Any, ...] = ()

    def step(self, bench: Bench, loses: bool) -> None:
        if self.asked is None:
            self.asked = getattr(self, f"send_{self.sends}")(bench)
        if isinstance(self.asked, Future) and not self.asked.done():
            return
        answer, self.asked = self.asked, None
        if not loses:
            getattr(self, f"got_{self.sends}")(answer.result() if isinstance(answer, Future) else answer, bench)

    def send_join(self, bench: Bench) -> concurrent.futures._base.Future[Any] | JoinResult:
        terms = MemberTerms(str(self.number), "/h", 300_000, 45_000, "consumer", (("range", subscription("t,u")),))
        return bench.groups.join(JoinRequest("g", self.member_id, None, terms, True, True))

    def got_join(self, answer: JoinResult, bench: Bench) -> None:
        if answer.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        elif answer.error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.restart()
        elif not answer.error:
            self.member_id, self.generation, self.members, self.sends = answer.member_id, answer.generation, answer.members, "sync"

    def send_sync(self, bench: Bench) -> Any:
        parts = [(topic, index) for topic, count in sorted(bench.topics.counts.items()) for index in range(count)]
        assignments = {}
        for place, member in enumerate(self.members):
            topics: dict[Any, Any] = {}
            for topic, index in parts[place :: len(self.members)]:
                topics.setdefault(topic, []).append(index)
            assignments[member.member_id] = encode_assignment(topics, 1)
        return bench.groups.sync(SyncRequest(Sender("g", self.member_id, None, self.generation), None, None, assignments))

    def got_sync(self, answer: SyncResult, bench: Bench) -> None:
        if answer.error:
            self.rejoin(answer.error)
            return
        ids = bench.topics.snapshot.topic_ids
        topics = decode_assignment(answer.assignment).assigned_partitions
        self.used = {(ids[each.topic], index) for each in topics for index in each.partitions}
        self.sends = "heartbeat"

    def send_heartbeat(self, bench: Bench) -> ErrorCode:
        return bench.groups.heartbeat(Sender("g", self.member_id, None, self.generation))

    def got_heartbeat(self, error: ErrorCode, bench: Bench) -> None:
        if error in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR):
            return
        if error:
            self.rejoin(error)

    def rejoin(self, error: ErrorCode) -> None:
        if error in BEGIN_ANEW:
            self.restart()
        else:
            self.used, self.sends = set(), "join"


def run(seed: int, members: list[Any], spare: list[Any], steps: int, settings: dict[str, Any]) -> Bench:
    chance = random.Random(seed)
    bench = Bench(**SETTINGS | settings)
    bench.topics.change({"t": 40, "u": 5})

    def change_topics(what: float) -> None:
        if what < 0.39:
            bench.topics.change({"t": bench.topics.counts["t"] + chance.choice((0, 1)), "u": 5})

    for _ in range(steps):
        disturb(chance, bench, members, spare, change_topics)
        for member in chance.sample(members, k=len(members) // 2 + 1):
            member.step(bench, loses=chance.random() < 0.02)
        look(members)
        bench.advance(chance.choice((1, 500, 1500)))
    bench.log.release()
    bench.log.fail_next.clear()
    parts = {(bench.topics.snapshot.topic_ids[topic], index) for topic, n in bench.topics.counts.items() for index in range(n)}
    for _ in range(150):
        for member in members:
            member.step(bench, loses=False)
            if isinstance(member, Modern):
                member.used &= member.told
        look(members)
        bench.advance(1000)
    assert sorted(part for member in members for part in member.used) == sorted(parts)
    states = {listing.group_state for listing in bench.groups.list_groups((), ())[1]}
    assert states == {"Stable"}
    return bench


@pytest.mark.parametrize("seed", first_of(range(15)))
def test_the_new_protocol(seed: int) -> None:
    chance = random.Random(seed)
    spare = [Modern(number, chance, is_static=number % 4 == 0) for number in range(24)]
    bench = run(seed, [spare.pop() for _ in range(4)], spare, 300, {})
    bench.groups.shutdown()


@pytest.mark.parametrize("seed", first_of(range(12)))
def test_both_protocols_in_one_group(seed: int) -> None:
    chance = random.Random(seed)
    policy = chance.choice((MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE))
    spare = [Modern(number, chance, False) if number % 2 else Classic(number, chance) for number in range(16)]
    bench = run(seed, [spare.pop() for _ in range(3)], spare, 300, {"migration_policy": policy})
    bench.groups.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_hundreds_of_members(seed: Any) -> None:
    chance = random.Random(seed)
    spare = [Modern(number, chance, is_static=number % 4 == 0) for number in range(300)]
    bench = run(seed, [spare.pop() for _ in range(200)], spare, 150, {})
    bench.groups.shutdown()
