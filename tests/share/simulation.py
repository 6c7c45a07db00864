"""A share partition in a world of trouble, from a seed: brokers that lead it one after the other, some of which do not know that
they no longer do; a share coordinator that crashes and loses writes that were not confirmed; requests to it that are lost, late,
duplicated or answered too late; members that crash, and acknowledge late or twice; a clock that jumps; a log whose begin moves.

Checked all the time:

- One leader does not give a record to two members at once.
- A record whose acknowledgement was confirmed is not delivered again by that leader or a later one.
- A new leader reads a state in which everything confirmed is there, and the start offset never goes back.

Checked in the end, when the trouble is over and one member takes what there is: every record was delivered. Its delivery is
complete because a member with the record accepted or rejected it, because it was delivered as often as it may be, or because the
log lost it.
"""

import random
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from typing_extensions import override

from tests.support.share_bench import KEY, ShareBench
from twisted_kafka.config.group_configs import ShareGroupConfigs
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.share import share_state as wire
from twisted_kafka.share.acknowledgements import ACCEPT, GAP, REJECT, RELEASE, RENEW, AcknowledgementBatch
from twisted_kafka.share.in_flight_records import Acquisition
from twisted_kafka.share.persister import IPersister
from twisted_kafka.share.record_state import RecordState
from twisted_kafka.share.share_partition import Result, SharePartition, SharePartitionEnvironment, SharePartitionState

STEPS = 120
BATCH = 3
LOCK_MS = 1_000
LIMIT = 3
MOST_IN_FLIGHT = 20
ACKNOWLEDGED = RecordState.ACKNOWLEDGED
FINAL = frozenset({ACCEPT, REJECT, GAP})


class Network(IPersister):
    """The way from one leader to the share coordinator. Each request and each answer waits until the world lets it pass."""

    def __init__(self, world: "World") -> None:
        self.world = world

    def _send(self, method: Callable[[Any], Any], request: Any, failed: Callable[[], Any]) -> "Future[Any]":
        answer: Future[Any] = Future()
        self.world.sent.append((method, request, answer, failed))
        return answer

    @override
    def read_state(self, request: wire.ReadShareGroupStateRequest) -> "Future[wire.ReadShareGroupStateResponse]":
        def failed() -> wire.ReadShareGroupStateResponse:
            result = wire.ReadShareGroupStateResponsePartitionResult(partition=0, error_code=ErrorCode.NETWORK_EXCEPTION)
            return wire.ReadShareGroupStateResponse(results=[wire.ReadStateResult(topic_id=KEY.topic_id, partitions=[result])])

        return self._send(lambda asked: self.world.bench.shares.read_state(asked), request, failed)

    @override
    def write_state(self, request: wire.WriteShareGroupStateRequest) -> "Future[wire.WriteShareGroupStateResponse]":
        def failed() -> wire.WriteShareGroupStateResponse:
            result = wire.WriteShareGroupStateResponsePartitionResult(partition=0, error_code=ErrorCode.NETWORK_EXCEPTION)
            return wire.WriteShareGroupStateResponse(results=[wire.WriteStateResult(topic_id=KEY.topic_id, partitions=[result])])

        answer = self._send(lambda asked: self.world.bench.shares.write_state(asked), request, failed)
        answer.add_done_callback(lambda done: self._written(request, done.result()))
        return answer

    def _written(self, request: wire.WriteShareGroupStateRequest, response: wire.WriteShareGroupStateResponse) -> None:
        if not response.results[0].partitions[0].error_code:
            self.world.confirmed_start = max(self.world.confirmed_start, request.topics[0].partitions[0].start_offset)

    def _unused(self, request: Any) -> "Future[Any]":
        raise AssertionError("the leader of a partition does not ask this")

    initialize_state = delete_state = read_state_summary = _unused


class Leader:
    """A leader epoch: its share partition, and who has which records by what it has said."""

    def __init__(self, world: "World", epoch: int) -> None:
        self.world = world
        self.epoch = epoch
        self.owners: dict[int, tuple[str, int]] = {}
        """The member and the end of its lock, by offset."""
        environment = SharePartitionEnvironment(
            world.bench.clock, world.bench.timer, Network(world), lambda group_id: world.configs, lambda group_id: False
        )
        self.share = SharePartition(KEY, epoch, environment, lambda configs: 0, lambda: None, lambda: None, lambda lost: None)
        self.share.initialize().add_done_callback(self.initialized)

    def initialized(self, done: "Future[Result]") -> None:
        if done.result().error:
            return
        start, _, runs = self.share.snapshot()
        world = self.world
        world.expect(start >= world.confirmed_start, f"the start offset went back from {world.confirmed_start} to {start}")
        complete = {offset for first, last, state, _, _ in runs if state.is_terminal for offset in range(first, last + 1)}
        missing = [offset for offset in world.confirmed if offset >= start and offset not in complete]
        world.expect(not missing, f"epoch {self.epoch} does not know that {missing} are acknowledged")

    def acquire(self, member: str, count: int, is_record_limit: bool) -> list[int]:
        share, world = self.share, self.world
        if share.state is not SharePartitionState.ACTIVE or not share.lock_fetch():
            return []
        try:
            share.log_start_moved(world.log_start)
            self.look()
            start = share.next_fetch_offset
            batches = [(base, min(base + BATCH, world.log_end) - 1) for base in range(start - start % BATCH, world.log_end, BATCH)]
            due_ns = share.due_ns()
            acquired = share.acquire(Acquisition(member, count, 4, is_record_limit, due_ns), start, batches)
        finally:
            share.unlock_fetch()
        offsets = []
        for each in acquired:
            for offset in range(each.first_offset, each.last_offset + 1):
                owner = self.owners.get(offset)
                assert owner is None, f"{offset} is acquired by {member} and {owner} in epoch {self.epoch}"
                known = world.confirmed.get(offset)
                assert known is None or known > self.epoch, f"{offset} is delivered again after it was acknowledged"
                self.owners[offset] = member, due_ns
                world.deliveries[offset] = world.deliveries.get(offset, 0) + 1
                offsets.append(offset)
        return offsets

    def acknowledge(self, member: str, offsets: list[int], kind: int) -> None:
        """Acknowledge records next to each other, which the member has or believes to have."""
        batch = AcknowledgementBatch(offsets[0], offsets[-1], [kind])
        before = dict(self.owners)
        start = self.share.snapshot()[0]
        done = self.share.acknowledge(member, [batch])
        if done.done() and done.result().error:
            return
        mine = [offset for offset in offsets if offset >= start]
        for offset in mine:
            assert before.get(offset, ("", 0))[0] == member, f"{member} acknowledged {offset}, which {before.get(offset)} has"
            if kind in FINAL:
                self.world.reasons.add(offset)
            if kind == RENEW:
                self.owners[offset] = member, self.share.due_ns()
        if kind != RENEW:
            done.add_done_callback(partial(self.acknowledged, mine, kind))

    def acknowledged(self, offsets: list[int], kind: int, done: "Future[Result]") -> None:
        self.look()
        if kind not in FINAL:
            return
        if done.result().error:
            _, _, runs = self.share.snapshot()
            accepted = {each for first, last, state, _, _ in runs if state == ACKNOWLEDGED for each in range(first, last + 1)}
            self.world.expect(not accepted.intersection(offsets), f"{offsets} count as accepted, which was not written")
            return
        for offset in offsets:
            self.world.confirmed[offset] = max(self.epoch, self.world.confirmed.get(offset, 0))

    def look(self) -> None:
        """Forget the owners of records that they no longer have, as the share partition says."""
        _, _, runs = self.share.snapshot()
        held = {offset: member for first, last, _, _, member in runs if member for offset in range(first, last + 1)}
        self.owners = {offset: owner for offset, owner in self.owners.items() if held.get(offset) == owner[0]}


class World:
    """Brokers, members and the coordinator; each step does one thing."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.bench = ShareBench(updates_per_snapshot=self.random.choice([0, 1, 3, 100]))
        self.configs = ShareGroupConfigs(LOCK_MS, LIMIT, MOST_IN_FLIGHT, "read_uncommitted", "earliest", True, "", False)
        self.sent: list[tuple[Callable[[Any], Any], Any, Future[Any], Callable[[], Any]]] = []
        self.deliveries: dict[int, int] = {}
        self.reasons: set[int] = set()
        """Offsets that a member has accepted, rejected or called a gap while it had them."""
        self.confirmed: dict[int, int] = {}
        """The leader epoch in which that was confirmed."""
        self.confirmed_start = 0
        self.problems: list[str] = []
        self.log_start = 0
        self.log_end = BATCH
        self.held: dict[str, list[tuple[Leader, list[int]]]] = {f"member-{index}": [] for index in range(3)}
        assert not self.bench.initialize(start_offset=0).error_code
        self.leaders = [Leader(self, 0)]

    def run(self) -> None:
        actions = (
            [self.acquire] * 8
            + [self.acknowledge] * 8
            + [self.deliver] * 14
            + [self.lose_answer, self.lose_request, self.duplicate, self.produce, self.produce, self.wait, self.wait]
            + [self.crash_member, self.change_leader, self.crash_coordinator, self.hold_replicas, self.delete_records]
        )
        for _ in range(STEPS):
            self.random.choice(actions)()
            self.look()
        self.end()

    def expect(self, is_so: bool, problem: str) -> None:
        """Note a problem: most checks are in callbacks of futures, which only log an exception."""
        if not is_so:
            self.problems.append(problem)

    def look(self) -> None:
        assert not self.problems, self.problems
        for leader in self.leaders[-2:]:  # the others are fenced
            leader.look()

    # members

    def acquire(self) -> None:
        member = self.random.choice(list(self.held))
        leader = self.random.choice(self.leaders[-2:])  # the member may not know the new leader yet
        offsets = leader.acquire(member, self.random.randint(1, 6), self.random.random() < 0.5)
        if offsets:
            self.held[member].append((leader, offsets))

    def acknowledge(self) -> None:
        member = self.random.choice(list(self.held))
        if not self.held[member]:
            return
        index = self.random.randrange(len(self.held[member]))
        leader, offsets = self.held[member][index]
        if self.random.random() < 0.8:  # else it acknowledges the same once more, later
            self.held[member].pop(index)
        begin = self.random.randrange(len(offsets))
        some = offsets[begin : self.random.randint(begin + 1, len(offsets))]
        while some[-1] - some[0] != len(some) - 1:  # one range
            some.pop()
        leader.acknowledge(member, some, self.random.choice([ACCEPT, ACCEPT, RELEASE, REJECT, GAP, RENEW]))

    def crash_member(self) -> None:
        member = self.random.choice(list(self.held))
        self.held[member].clear()
        for leader in self.leaders[-2:]:
            leader.share.release(member)

    # the coordinator and the way to it

    def take(self) -> tuple[Callable[[Any], Any], Any, "Future[Any]", Callable[[], Any]] | None:
        return self.sent.pop(self.random.randrange(len(self.sent))) if self.sent else None

    def deliver(self) -> None:
        taken = self.take()
        if taken is None:
            return
        method, request, answer, failed = taken
        self.ask(method, request, lambda response: _settle(answer, response or failed()))

    def ask(self, method: Callable[[Any], Any], request: Any, done: Callable[[Any], None]) -> None:
        response = method(request)
        if isinstance(response, Future):
            response.add_done_callback(lambda finished: done(None if finished.exception() else finished.result()))
        else:
            done(response)

    def lose_answer(self) -> None:
        taken = self.take()
        if taken is not None:
            method, request, answer, failed = taken
            self.ask(method, request, lambda _: None)
            _settle(answer, failed())

    def lose_request(self) -> None:
        taken = self.take()
        if taken is not None:
            _, _, answer, failed = taken
            _settle(answer, failed())

    def duplicate(self) -> None:
        """Send a request a second time: it may arrive much later."""
        if self.sent:
            method, request, _, failed = self.random.choice(self.sent)
            self.sent.append((method, request, Future(), failed))

    def hold_replicas(self) -> None:
        """Let replicas confirm nothing for a while, or confirm what they hold."""
        log = self.bench.log
        if log.holds or log.held:
            log.release(self.random.choice([ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT]))
        else:
            log.holds = True

    def crash_coordinator(self) -> None:
        """Restart it. Writes that replicas have not confirmed may be lost."""
        log = self.bench.log
        if log.uncommitted and self.random.random() < 0.5:
            for partition, first in log.uncommitted.items():
                kept = [data for data in log.batches[partition] if int.from_bytes(data[:8], "big") < first]
                log.batches[partition] = kept
                log.end_offsets[partition] = first
        held, log.held, log.holds = log.held, [], False
        log.commit()
        self.bench.restart()
        for future in held:
            future.set_result(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # leaders, time, the log

    def change_leader(self) -> None:
        """Elect the next leader; the old one may not notice for a while."""
        if self.random.random() < 0.7:
            self.leaders[-1].share.fence()
        for leader in self.leaders[:-1]:
            leader.share.fence()
        self.leaders.append(Leader(self, self.leaders[-1].epoch + 1))

    def wait(self) -> None:
        self.bench.advance(self.random.choice([1, 100, LOCK_MS, 10 * LOCK_MS]))

    def produce(self) -> None:
        self.log_end += self.random.randint(1, 2 * BATCH)

    def delete_records(self) -> None:
        if self.random.random() < 0.3:
            self.log_start = min(self.log_start + self.random.randint(1, 4), self.log_end)

    # the end

    def end(self) -> None:
        """End the trouble, and let one member take what there is."""
        if self.bench.log.held or self.bench.log.holds:
            self.bench.log.release()
        for _ in range(100):
            self.deliver_all()
            leader = self.leaders[-1]
            if leader.share.state is not SharePartitionState.ACTIVE:
                self.change_leader()
                continue
            offsets = leader.acquire("last", 5, False)
            self.acknowledge_each(leader, offsets)
            self.deliver_all()
            self.bench.advance(LOCK_MS)
            self.look()
            start, end, _ = leader.share.snapshot()
            if start == end == self.log_end:
                break
        self.check_end()

    def deliver_all(self) -> None:
        while self.sent:
            self.deliver()

    def acknowledge_each(self, leader: Leader, offsets: list[int]) -> None:
        for offset in offsets:
            leader.acknowledge("last", [offset], ACCEPT)

    def check_end(self) -> None:
        assert not self.problems, self.problems
        start, end, runs = self.leaders[-1].share.snapshot()
        assert start == end == self.log_end, f"{start} to {end} of {self.log_end}: {runs}"
        for offset in range(self.log_start, self.log_end):
            assert offset in self.reasons or self.deliveries.get(offset, 0) >= LIMIT, f"{offset} is lost"


def _settle(answer: "Future[Any]", response: Any) -> None:
    if not answer.done():
        answer.set_result(response)
