"""The replication protocol under a seeded schedule.

Messages are late or lost, brokers crash at any time, and leaders do not know that they are deposed. What holds is what the TLA+
models of Kafka claim: the leader is in sync, whoever is in sync has all that was committed, logs agree up to the high watermark,
and nothing is lost that was acknowledged.
"""

import random
import shutil
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from tests.replication.several import Cluster, HandThread, Member
from tests.support.budget import share_of
from tests.support.cases import case
from twisted_kafka.protocol.messages.controller import AlterPartitionRequest, AlterPartitionResponse
from twisted_kafka.replication.fetching.leader_requests import PeerVersions
from twisted_kafka.replication.fetching.replica_fetcher import Overtaken

pytestmark = pytest.mark.medium

STEPS = 250
SEEDS = share_of(30)
OLD_VERSIONS = PeerVersions(fetch=12, list_offsets=6)
"""Fetches of these name topics instead of their ids."""

_VALUE = b"value-%06d;"


class SlowChannel:
    """Requests to the controller wait until the schedule has them handled; an answer may be lost, and the request comes again."""

    def __init__(self, simulation: "Simulation", member: Member) -> None:
        self._simulation = simulation
        self._member = member

    def send(self, request: Any, latest_version: int | None = None) -> "Future[Any]":
        assert latest_version is not None
        future: Future[Any] = Future()
        decoded = AlterPartitionRequest.decode(bytes(request.encode(latest_version)), latest_version)
        self._simulation.proposals.append((self._member, decoded, future))
        return future


class SlowCluster(Cluster):
    simulation: "Simulation"

    def channel(self, member: Member) -> Any:
        return SlowChannel(self.simulation, member)


class Simulation:
    def __init__(self, directory: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.proposals: list[tuple[Member, AlterPartitionRequest, Future[Any]]] = []
        self.orders: dict[int, deque[Any]] = {}
        self.in_flight: list[tuple[HandThread, Any, Future[Any]]] = []
        self.sent: list[tuple[HandThread, Any]] = []
        self.overtaken: dict[HandThread, Any] = {}
        """The request of each fetcher that was overtaken and is not answered."""
        self.pending: list[tuple[bytes, Future[Any]]] = []
        self.acknowledged: list[bytes] = []
        self.written = 0
        minimum = self.random.choice((1, 2))
        versions = self.random.choice((PeerVersions(), OLD_VERSIONS))
        SlowCluster.simulation = self
        self.cluster = SlowCluster(directory, 3, versions)
        self.cluster.configs.update({"min.insync.replicas": str(minimum), "segment.bytes": "1000"})
        self.orders = {each: deque() for each in self.cluster.members}
        self.cluster.create()

    # What may happen.

    def produce(self) -> None:
        leading = [each for each in self.up() if self.leads(each)]
        if leading:
            value = _VALUE % self.written
            self.written += 1
            answer = self.random.choice(leading).write(value, acks=self.random.choice((1, -1, -1)))
            if isinstance(answer, Future):
                self.pending.append((value, answer))

    def send(self) -> None:
        """Let a fetcher work."""
        ready = [thread for member in self.up() for thread in member.threads if thread.is_ready]
        if not ready:
            return
        self.step(self.random.choice(ready), None)

    def step(self, thread: HandThread, answer: Any) -> None:
        thread.step(answer)
        if thread.request is not None:
            self.sent.append((thread, thread.request))

    def arrive(self) -> None:
        """Let a request arrive."""
        if self.sent:
            thread, request = self.sent.pop(self.random.randrange(len(self.sent)))
            if thread.request is request or self.overtaken.get(thread) is request:
                self.in_flight.append((thread, request, self.cluster.deliver(thread, request)))

    def answer(self) -> None:
        """Let a response arrive, or be lost."""
        if not self.in_flight:
            return
        at = self.random.randrange(len(self.in_flight))
        thread, request, done = self.in_flight[at]
        is_lost = self.random.random() < 0.1
        if not done.done() and not is_lost:
            return
        del self.in_flight[at]
        if thread.is_stopped or not thread.member.is_up:
            return
        failure = ConnectionError("lost") if is_lost else done.exception()
        if thread.request is not request:
            if self.overtaken.pop(thread, None) is request and failure is None:
                thread.fetcher.answered_late(done.result())
            return
        self.step(thread, failure if isinstance(failure, Exception) else done.result())

    def overtake(self) -> None:
        """Let a fetcher send its next fetch while the last one is not answered, as for a partition that was added."""
        waiting = [each for member in self.up() for each in member.threads if each.request is not None]
        able = [each for each in waiting if each.fetcher.may_be_overtaken and each not in self.overtaken]
        if able:
            thread = self.random.choice(able)
            self.overtaken[thread] = thread.request
            self.step(thread, Overtaken.OVERTAKEN)

    def decide(self) -> None:
        """Let the controller handle a proposal. Its answer may be lost, so that the request comes again."""
        if not self.proposals:
            return
        member, request, future = self.proposals.pop(self.random.randrange(len(self.proposals)))
        response = self.cluster.alter(request)
        if self.random.random() < 0.2:
            self.proposals.append((member, request, future))
        elif member.is_up:
            future.set_result(AlterPartitionResponse.decode(bytes(response.encode(3)), 3))

    def order(self) -> None:
        """Let an order of the controller arrive."""
        waiting = [each for each in self.up() if self.orders[each.broker_id]]
        if waiting:
            member = self.random.choice(waiting)
            self.orders[member.broker_id].popleft()()

    def elect(self) -> None:
        """Have another replica lead that is in sync."""
        entry = self.cluster.table[0]
        able = [each for each in entry.isr if self.cluster.members[each].is_up]
        if able:
            self.move_to(self.random.choice(able))

    def crash(self) -> None:
        up = self.up()
        if len(up) < 2:
            return
        member = self.random.choice(up)
        member.crash()
        self.orders[member.broker_id].clear()
        entry = self.cluster.table[0]
        if len(entry.isr) > 1 and member.broker_id in entry.isr:
            entry.isr.remove(member.broker_id)
        able = [each for each in entry.isr if self.cluster.members[each].is_up]
        if entry.leader == member.broker_id or able:
            self.move_to(self.random.choice(able) if able else -1)

    def restart(self) -> None:
        down = [each for each in self.cluster.members.values() if not each.is_up]
        if not down:
            return
        member = self.cluster.start(self.random.choice(down).broker_id)
        entry = self.cluster.table[0]
        if entry.leader == -1 and member.broker_id in entry.isr:
            self.move_to(member.broker_id)
        else:
            for each in self.up():
                self.tell(each)

    def wait(self) -> None:
        self.cluster.advance_ms(self.random.choice((1, 100, 600, 3_000)))

    def move_to(self, leader: int) -> None:
        entry = self.cluster.table[0]
        entry.leader = leader
        entry.epoch += 1
        entry.version += 1
        for member in self.up():
            self.tell(member)

    def tell(self, member: Member) -> None:
        """Have the state as it is now reach a broker later, after what was sent to it before."""
        apply = self.cluster.order_of(member)
        self.orders[member.broker_id].append(apply)

    # What has to hold.

    def up(self) -> list[Member]:
        return [each for each in self.cluster.members.values() if each.is_up]

    def leads(self, member: Member) -> bool:
        partition = member.replicas.get_partition(("orders", 0))  # type: ignore[arg-type]
        return partition is not None and partition.is_leader

    def check(self) -> None:
        for value, answer in list(self.pending):
            if answer.done():
                self.pending.remove((value, answer))
                if next(iter(answer.result().values())).error == 0:
                    self.acknowledged.append(value)
        entry = self.cluster.table[0]
        assert entry.leader == -1 or entry.leader in entry.isr
        hosts = [each for each in self.up() if each.replicas.get_partition(("orders", 0)) is not None]  # type: ignore[arg-type]
        if not hosts:
            return
        contents = [each.content_and_committed() for each in hosts]
        most = max((content[:size] for content, size in contents), key=len)
        for member, (content, size) in zip(hosts, contents, strict=True):
            assert most.startswith(content[:size]), "logs differ below the high watermark"
            if member.broker_id in entry.isr:
                assert content.startswith(most), "a replica in sync lacks what is committed"
                for value in self.acknowledged:
                    assert value in content, "an acknowledged record is lost"

    def run(self) -> None:
        happenings = [
            (self.send, 8),
            (self.arrive, 10),
            (self.answer, 10),
            (self.overtake, 1),
            (self.produce, 4),
            (self.order, 4),
            (self.decide, 3),
            (self.wait, 2),
            (self.elect, 0.5),
            (self.crash, 0.4),
            (self.restart, 0.8),
        ]
        actions, weights = zip(*happenings, strict=True)
        for _ in range(STEPS):
            self.random.choices(actions, weights)[0]()
            self.check()
        self.heal()

    def heal(self) -> None:
        """Let all be up and everything arrive: then all replicas are in sync and the same."""
        while any(not each.is_up for each in self.cluster.members.values()):
            self.restart()
        for _ in range(2_000):
            for action in (self.send, self.arrive, self.answer, self.order, self.decide):
                action()
            self.cluster.advance_ms(50)
            if not any(self.orders.values()) and self.is_whole():
                break
        self.check()
        assert self.is_whole(), [
            (each.partition(), each.partition().isr, each.partition().log, self.cluster.table[0].isr) for each in self.up()
        ]

    def is_whole(self) -> bool:
        entry = self.cluster.table[0]
        return entry.leader != -1 and len(entry.isr) == 3 and self.cluster.agree()


@pytest.fixture
def directories(tmp_path: Path) -> Iterator[Path]:
    return (tmp_path / str(number) for number in range(1_000_000))


def test_nothing_that_is_acknowledged_is_lost_whatever_is_late_or_crashes(directories: Iterator[Path]) -> None:
    acknowledged = 0
    for seed in range(SEEDS):
        with case(seed=seed):
            acknowledged += run(next(directories), seed)
    assert acknowledged >= SEEDS


@pytest.mark.long
def test_nothing_is_lost_under_a_hundred_schedules(directories: Iterator[Path]) -> None:
    for seed in range(SEEDS, SEEDS + share_of(88)):
        with case(seed=seed):
            run(next(directories), seed)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(1_000, 11_000, 500))
def test_nothing_is_lost_under_ten_thousand_schedules(directories: Iterator[Path], first: int) -> None:
    for seed in range(first, first + 500):
        directory = next(directories)
        with case(seed=seed):
            run(directory, seed)
        shutil.rmtree(directory)


def run(directory: Path, seed: int) -> int:
    """Run one schedule; return how many records were acknowledged."""
    directory.mkdir()
    simulation = Simulation(directory, seed)
    try:
        simulation.run()
        return len(simulation.acknowledged)
    finally:
        for member in simulation.up():
            member.crash()
