"""Two brokers that take turns in leading a partition whose log loses its end when they do.

Replicas confirm appends late, in any order, or not in time; brokers learn late that they lead or no longer do. Clients commit
offsets in and outside of transactions, join and leave, fetch and delete; offsets expire. What must hold whatever happens:

- What was answered without an error is committed, and stays.
- What is read was committed at some time between the request and its answer: all of a group's offsets at once.
- Every request is answered once appends are.
- At the end, the leader knows what its log says, and so does a broker that loads it.
- No partition is used by two members of a consumer group.
"""

import random
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, NamedTuple

import pytest

from tests.group_coordinator.consumer_simulation import Modern, look
from tests.support.budget import share_of
from tests.support.cases import case
from tests.support.coordinator_fakes import Bench, join
from tests.support.fake import Fake
from twisted_kafka.coordinator.coordinator_record import Producer, decode_record
from twisted_kafka.coordinator.interfaces import Appended
from twisted_kafka.group_coordinator.offsets.offset_metadata_manager import OffsetFetch
from twisted_kafka.group_coordinator.requests import LeavingMember, Sender
from twisted_kafka.group_coordinator.results import JoinResult
from twisted_kafka.group_coordinator.state.group_kinds import GROUP_RECORD_KINDS
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.coordinators.coordinator_records import (
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from twisted_kafka.protocol.records.batch import RecordBatch, batches
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.timing.clock import ManualClock

pytestmark = pytest.mark.medium

NONE = ErrorCode.NONE
GROUPS = ("g", "h", "i")
PARTITIONS = [TopicPartition("t", index) for index in range(3)]
PRODUCERS = (7, 8)
RETENTION_MS = 20_000
TOPICS = {"t": 8, "u": 3}
STEPS = 500
SEEDS = range(share_of(40))
MEMBERS_SEEDS = range(share_of(12))

Key = tuple[str, TopicPartition]


class State(NamedTuple):
    """The offsets that the first entries of a log say, by group and partition."""

    committed: dict[Key, int]
    pending: dict[int, dict[Key, int]]

    def after(self, batch: RecordBatch) -> "State":
        """Return the state after another batch."""
        committed = dict(self.committed)
        pending = {producer: dict(offsets) for producer, offsets in self.pending.items()}
        if batch.is_control:
            ended = pending.pop(batch.producer_id, {})
            (marker,) = batch.records()
            if marker.key is not None and bytes(marker.key[2:4]) == b"\0\1":
                # Each commit has a higher offset than those before it in the log.
                committed.update({key: offset for key, offset in ended.items() if offset > committed.get(key, 0)})
            return State(committed, pending)
        for each in batch.records():
            record = decode_record(GROUP_RECORD_KINDS, each.key, each.value)
            if not isinstance(record.key, OffsetCommitKey | LegacyOffsetCommitKey):
                continue
            key = (record.key.group, TopicPartition(record.key.topic, record.key.partition))
            if batch.is_transactional:
                assert record.value is not None
                pending.setdefault(batch.producer_id, {})[key] = record.value.offset
            elif record.value is None:
                committed.pop(key, None)
                for offsets in pending.values():
                    offsets.pop(key, None)
            else:
                committed[key] = record.value.offset
        return State(committed, pending)

    def of(self, group_id: str) -> dict[TopicPartition, int]:
        return {partition: offset for (group, partition), offset in self.committed.items() if group == group_id}


class FailoverLog:
    """The log of one partition as its current leader has it; an index counts its batches."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.entries: list[RecordBatch] = []
        self.data: list[bytes] = []
        self.states = [State({}, {})]
        self.written: list[set[int]] = []
        """The offsets that each batch commits."""
        self.high_watermark = 0
        self.leader: object = None
        self.waiting: list[tuple[int, Future[ErrorCode]]] = []

    @property
    def end_offset(self) -> int:
        return self.entries[-1].last_offset + 1 if self.entries else 0

    def append(self, batch: bytes) -> Appended:
        base_offset = self.end_offset
        data = base_offset.to_bytes(8, "big") + bytes(batch)[8:]
        (entry,) = batches(data)
        self.entries.append(entry)
        self.data.append(data)
        self.states.append(self.states[-1].after(entry))
        if self.high_watermark == len(self.entries) - 1 and self._chance.random() < 0.5:
            self.high_watermark += 1
            return Appended(base_offset)
        future: Future[ErrorCode] = Future()
        self.waiting.append((len(self.entries), future))
        return Appended(base_offset, future)

    def replicate(self, to: int | None = None) -> None:
        """Let replicas have more, and tell some of the appends that they do."""
        self.high_watermark = self._chance.randint(self.high_watermark, len(self.entries)) if to is None else to
        done = [each for each in self.waiting if each[0] <= self.high_watermark]
        self._chance.shuffle(done)
        for each in done:
            if to is not None or self._chance.random() < 0.8:
                self.waiting.remove(each)
                each[1].set_result(NONE)

    def time_out(self) -> None:
        """Tell an append that it was not replicated in time."""
        if self.waiting:
            late = self.waiting.pop(self._chance.randrange(len(self.waiting)))
            late[1].set_result(ErrorCode.REQUEST_TIMED_OUT)

    def fail_over(self, leader: object) -> None:
        """Let another broker lead, which may lack what is above the high watermark."""
        keeps = self._chance.randint(self.high_watermark, len(self.entries))
        self.leader = leader
        del self.entries[keeps:], self.data[keeps:], self.states[keeps + 1 :]
        lost, self.waiting = self.waiting, []
        for _, future in lost:
            future.set_result(self._chance.choice((ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT)))


class Replica(Fake):
    """One broker's view of the log."""

    def __init__(self, log: FailoverLog, chance: random.Random) -> None:
        self._log = log
        self._chance = chance

    def append(self, partition: TopicPartition, batch: Any, guard: object) -> Appended | ErrorCode:
        if self._log.leader is not self:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self._chance.random() < 0.03:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        return self._log.append(batch)

    def is_committed(self, partition: TopicPartition, offset: int) -> bool:
        log = self._log
        if log.leader is not self:
            return False
        return offset < 0 or any(entry.last_offset >= offset for entry in log.entries[: log.high_watermark])

    def directory(self, partition: TopicPartition) -> None:
        """One disk has all partitions."""

    def read_all(self, partition: TopicPartition, buffer_size: int) -> Iterator[bytes]:
        yield from list(self._log.data)


class Asked(NamedTuple):
    """A request that waits for its answer, and what may be answered."""

    answer: "Future[Any]"
    check: Callable[[Any, list[State]], None]
    """Called with the answer and the states that were committed at some time between request and answer."""
    high_watermark: int


class Cluster:
    """Two brokers with group coordinators, one log, and clients."""

    def __init__(self, seed: int, **settings: Any) -> None:
        self.settings = {"initial_rebalance_delay_ms": 0, "offsets_retention_ms": RETENTION_MS} | settings
        self.chance = random.Random(seed)
        self.clock = ManualClock()
        self.log = FailoverLog(self.chance)
        self.brokers = [self.broker(), self.broker()]
        self.epoch = 0
        self.later: list[Callable[[], object]] = []
        self.asked: list[Asked] = []
        self.members: dict[str, str] = {}
        self.offset = 0
        self.fail_over()

    def broker(self) -> Bench:
        replica: Any = Replica(self.log, self.chance)
        bench = Bench(log=replica, clock=self.clock, **self.settings)
        bench.topics.change(TOPICS)
        bench.groups.runtime.on_leadership_change([], [(0, -1)])
        return bench

    # the log and its leader

    def fail_over(self) -> None:
        """Let the other broker lead; both learn of it now or later, but before the next change."""
        self.tell()
        self.epoch += 1
        epoch, old, new = self.epoch, *self.brokers
        self.brokers.reverse()
        self.log.fail_over(new.log)
        self.later = [
            lambda: new.groups.runtime.on_leadership_change([(0, epoch)], []),
            lambda: old.groups.runtime.on_leadership_change([], [(0, epoch)]),
        ]
        self.chance.shuffle(self.later)
        self.tell(self.chance.randint(0, 2))

    def tell(self, count: int = 2) -> None:
        for task in self.later[:count]:
            task()
        del self.later[:count]

    def pass_time(self) -> None:
        if self.chance.random() < 0.5:
            self.tell(1)
        for bench in self.brokers:
            if self.chance.random() < 0.7:
                bench.scheduler.run_due()
            bench.timer.expire_due()
            bench.scheduler.run_due()
        self.clock.advance_ms(self.chance.choice((1, 100, 1000)))

    # requests

    def ask(self, send: Callable[[Bench], Any], check: Callable[[Any, list[State]], None]) -> None:
        """Send a request to a broker, usually the leader."""
        bench = self.brokers[self.chance.random() < 0.1]
        # A broker that does not know that another one leads may answer with what was committed in its time.
        high_watermark = self.log.high_watermark if self.log.leader is bench.log else 0
        answer = send(bench)
        if not isinstance(answer, Future):
            answer, result = Future(), answer
            answer.set_result(result)
        self.asked.append(Asked(answer, check, high_watermark))

    def look(self) -> None:
        """Check the requests that were answered."""
        waiting = []
        for each in self.asked:
            if each.answer.done():
                each.check(each.answer.result(), self.log.states[each.high_watermark : self.log.high_watermark + 1])
            else:
                waiting.append(each)
        self.asked = waiting

    def request(self) -> None:
        kinds = (self.commit, self.commit, self.fetch, self.fetch, self.transaction, self.delete, self.delete_group, self.join)
        self.chance.choice(kinds)(self.chance.choice(GROUPS))

    def values(self) -> dict[TopicPartition, OffsetCommitValue]:
        offsets = {}
        for partition in self.chance.sample(PARTITIONS, k=self.chance.randint(1, 2)):
            self.offset += 1
            offsets[partition] = OffsetCommitValue(offset=self.offset, commit_timestamp=self.clock.wall_ms())
        return offsets

    def commit(self, group_id: str) -> None:
        values = self.values()

        def check(error: ErrorCode, states: list[State]) -> None:
            if error is NONE:
                wanted = {((group_id, partition), value.offset) for partition, value in values.items()}
                assert any(wanted <= state.committed.items() for state in states), "a commit was lost"

        self.ask(lambda bench: bench.groups.commit_offsets(Sender(group_id), values, 9), check)

    def transaction(self, group_id: str) -> None:
        producer_id = self.chance.choice(PRODUCERS)
        producer = Producer(producer_id, 0)
        values = self.values()

        def check(error: ErrorCode, states: list[State]) -> None:
            if error is NONE:
                wanted = {((group_id, partition), value.offset) for partition, value in values.items()}
                assert any(wanted <= state.pending.get(producer_id, {}).items() for state in states), "a pending commit was lost"

        def check_end(error: ErrorCode, states: list[State]) -> None:
            if error is NONE:
                assert any(producer_id not in state.pending for state in states), "a transaction's end was lost"

        if self.chance.random() < 0.5:
            ends = self.chance.random() < 0.7
            self.ask(lambda bench: bench.groups.end_transaction(0, producer, 1, ends), check_end)
        else:
            self.ask(lambda bench: bench.groups.commit_transactional_offsets(Sender(group_id), producer, None, values), check)

    def fetch(self, group_id: str) -> None:
        def check(answer: Any, states: list[State]) -> None:
            error, fetched = answer
            if error is NONE:
                offsets = {partition: value.offset for partition, value in fetched.items()}
                assert any(offsets == state.of(group_id) for state in states), f"{offsets} were never committed"

        self.ask(lambda bench: bench.groups.fetch_offsets(OffsetFetch(Sender(group_id), None)), check)

    def delete(self, group_id: str) -> None:
        partitions = self.chance.sample(PARTITIONS, k=2)

        def check(answer: Any, states: list[State]) -> None:
            error, errors = answer
            if error is NONE:
                gone = [partition for partition, each in errors.items() if each is NONE]
                assert any(not state.of(group_id).keys() & gone for state in states), "deleted offsets are there"

        self.ask(lambda bench: bench.groups.delete_offsets(group_id, partitions), check)

    def delete_group(self, group_id: str) -> None:
        def check(error: ErrorCode, states: list[State]) -> None:
            if error is NONE:
                assert any(not state.of(group_id) for state in states), "offsets of a deleted group are there"

        self.ask(lambda bench: bench.groups.delete_group(group_id), check)

    def join(self, group_id: str) -> None:
        member_id = self.members.pop(group_id, None)
        if member_id is not None:
            self.ask(lambda bench: bench.groups.leave(group_id, [LeavingMember(member_id)]), lambda answer, states: None)
            return

        def check(answer: JoinResult, states: list[State]) -> None:
            if answer.error is NONE:
                self.members[group_id] = answer.member_id

        self.ask(lambda bench: bench.groups.join(join(group_id)), check)

    # the whole

    def step(self) -> None:
        what = self.chance.random()
        if what < 0.6:
            self.request()
        elif what < 0.62:
            self.brokers[0].groups.expire_offsets()
        elif what < 0.63:
            self.brokers[0].groups.on_partitions_deleted([self.chance.choice(PARTITIONS)])
        else:
            self.disturb()
        self.look()

    def disturb(self) -> None:
        what = self.chance.random()
        if what < 0.4:
            self.log.replicate()
        elif what < 0.52:
            self.log.time_out()
        elif what < 0.6:
            self.fail_over()
        else:
            self.pass_time()

    def calm_down(self) -> None:
        """Let everybody know who leads, and the replicas have everything."""
        self.tell()
        for bench in self.brokers:
            bench.scheduler.run_due()
        self.log.replicate(len(self.log.entries))

    def settle(self) -> None:
        self.calm_down()
        self.look()
        for _ in range(100):
            self.clock.advance_ms(1000)
            for bench in self.brokers:
                bench.timer.expire_due()
                bench.scheduler.run_due()
            self.log.replicate(len(self.log.entries))
        self.look()
        assert self.asked == []

    def listed(self) -> dict[str, str]:
        """Return the states of the groups with offsets; one whose last transaction was aborted may be known to one broker only."""
        state = self.log.states[-1]
        known = {group_id for group_id, _ in state.committed}
        return {each.group_id: each.group_state for each in self.brokers[0].groups.list_groups((), ())[1] if each.group_id in known}

    def offsets(self, bench: Bench, group_id: str) -> dict[TopicPartition, int]:
        answer: Any = bench.groups.fetch_offsets(OffsetFetch(Sender(group_id), None))
        assert answer[0] is NONE
        return {partition: value.offset for partition, value in answer[1].items()}


def simulate(seed: int) -> None:
    cluster = Cluster(seed)
    for _ in range(STEPS):
        cluster.step()
    cluster.settle()
    leader = cluster.brokers[0]
    for group_id in GROUPS:
        assert cluster.offsets(leader, group_id) == cluster.log.states[-1].of(group_id)
    listed = cluster.listed()
    cluster.fail_over()
    cluster.settle()
    for group_id in GROUPS:
        assert cluster.offsets(cluster.brokers[0], group_id) == cluster.log.states[-1].of(group_id)
    assert cluster.listed() == listed


def test_whatever_happens() -> None:
    for seed in SEEDS:
        with case(seed=seed):
            simulate(seed)


# a consumer group's members


def simulate_members(seed: int) -> None:
    """No partition is used twice, whoever leads; left alone, the group settles."""
    cluster = Cluster(seed)
    chance = cluster.chance
    members = [Modern(number, chance, is_static=number % 4 == 0) for number in range(8)]
    for _ in range(STEPS):
        cluster.disturb()
        for member in chance.sample(members, k=3):
            member.step(cluster.brokers[chance.random() < 0.1], loses=chance.random() < 0.02)
            look(members)
        if chance.random() < 0.02:
            chance.choice(members).restart()
    cluster.calm_down()
    for _ in range(150):
        for member in members:
            member.step(cluster.brokers[0], loses=False)
            member.used &= member.told
            cluster.log.replicate(len(cluster.log.entries))
        look(members)
        cluster.clock.advance_ms(1000)
        cluster.brokers[0].timer.expire_due()
        cluster.brokers[0].scheduler.run_due()
    topic_ids = cluster.brokers[0].topics.snapshot.topic_ids
    parts = {(topic_ids[topic], index) for topic, count in TOPICS.items() for index in range(count)}
    assert sorted(part for member in members for part in member.used) == sorted(parts)


def test_members_of_a_consumer_group() -> None:
    for seed in MEMBERS_SEEDS:
        with case(seed=seed):
            simulate_members(seed)
