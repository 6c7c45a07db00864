"""A group of 1,000 members takes ten times the work of one of 100, not a hundred times.

What is counted are lines of Python that ran, records and bytes: no times, which would depend on what else the machine does.
"""

import sys
from concurrent.futures import Future
from itertools import count
from typing import Any

import pytest

from tests.support.budget import first_of
from tests.support.coordinator_fakes import Bench, join
from twisted_kafka.group_coordinator.requests import Client, Sender, SyncRequest
from twisted_kafka.protocol.messages.coordinators.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from twisted_kafka.protocol.topic_partition import TopicPartition

pytestmark = pytest.mark.long
FEW, MANY = 100, 1000
LINEAR = 1.2 * MANY / FEW
CLIENT = Client("client", "/127.0.0.1")
LOG = TopicPartition("__consumer_offsets", 0)


class Work:
    """Counts what is done while it is entered."""

    def __init__(self, bench: Any) -> None:
        self.bench = bench
        self.lines = self.records = self.bytes = 0

    def written(self) -> Any:
        batches = self.bench.log.batches[LOG]
        return len(self.bench.written()), sum(map(len, batches))

    def __enter__(self) -> Any:
        self._records, self._bytes = self.written()
        lines = count()

        def trace(frame: Any, event: Any, argument: Any) -> Any:
            if event == "line":
                next(lines)
            return trace

        self._counter = lines
        self._outer = sys.gettrace()
        sys.settrace(trace)
        return self

    def __exit__(self, *_: Any) -> None:
        sys.settrace(self._outer)
        self.lines = next(self._counter)
        records, size = self.written()
        self.records, self.bytes = records - self._records, size - self._bytes


def classic(members: Any) -> Any:
    """Return the work of joining, syncing and heartbeats, of a rebalance, and of leaving one by one."""
    bench = Bench(max_size=members, initial_rebalance_delay_ms=100)

    def generation() -> Any:
        joins = [bench.groups.join(join("g", member_id)) for member_id in ids]
        bench.advance(200)
        results = [each.result(0) if isinstance(each, Future) else each for each in joins]
        ids[:] = [result.member_id for result in results]
        leader = results[0].leader
        number = results[0].generation
        assert {result.generation for result in results} == {number}
        work = dict.fromkeys(ids, b"assigned")
        syncs = [
            bench.groups.sync(SyncRequest(Sender("g", each, None, number), None, None, work if each == leader else {}))
            for each in ids
        ]
        assert all((each.result(0) if isinstance(each, Future) else each).assignment == b"assigned" for each in syncs)
        return number

    def beat(number: Any) -> None:
        for member_id in ids:
            assert bench.groups.heartbeat(Sender("g", member_id, None, number)) == 0

    ids = [""] * members
    with Work(bench) as joined:
        number = generation()
    with Work(bench) as beaten:
        beat(number)
    with Work(bench) as again:
        beat(generation())
    return joined, beaten, again


def consumer(members: Any) -> Any:
    """Return the work of joining, of settling, of heartbeats that change nothing, and of one more member."""
    bench = Bench(consumer_max_size=members + 1)
    bench.topics.change({"t": MANY})
    epochs: dict[str, int] = {}
    owned: dict[str, Any] = {}

    def beat(member_id: str = "", **fields: Any) -> Any:
        request = ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, **fields)
        if member_id:
            request.member_epoch, request.topic_partitions = epochs[member_id], owned[member_id]
        answer = bench.groups.consumer_heartbeat(request, CLIENT, 0)
        assert not answer.error_code
        epochs[answer.member_id] = answer.member_epoch
        if answer.assignment is not None:
            owned[answer.member_id] = [
                ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=each.topic_id, partitions=each.partitions)
                for each in answer.assignment.topic_partitions
            ]
        return answer

    def settle(rounds: int = 1) -> None:
        for _ in range(rounds):
            for member_id in list(epochs):
                beat(member_id)

    new: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    with Work(bench) as joined:
        for _ in range(members):
            beat(**new)
    with Work(bench) as settled:
        settle(2)
    assert sum(len(each.partitions) for topics in owned.values() for each in topics) == MANY
    assert len(set(epochs.values())) == 1
    with Work(bench) as beaten:
        settle()
    assert beaten.records == 0
    with Work(bench) as one_more:
        beat(**new)
        settle()
    return joined, settled, beaten, one_more


@pytest.mark.parametrize("protocol", first_of([classic, consumer]))
def test_work_grows_with_the_members(protocol: Any) -> None:
    for few, many in zip(protocol(FEW), protocol(MANY), strict=True):
        assert many.lines < LINEAR * few.lines
        assert many.records <= LINEAR * few.records
        assert many.bytes <= LINEAR * few.bytes
