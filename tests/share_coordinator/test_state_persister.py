"""The persister: which coordinator is asked, and what happens until one answers."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from tests.support.fake import Fake
from tests.support.share_bench import KEY, ShareBench
from twisted_kafka.coordinator.runtime import CoordinatorRuntime
from twisted_kafka.metadata.cache import Node
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.share import share_state as wire
from twisted_kafka.protocol.topic_partition import SHARE_TOPIC, TopicPartition
from twisted_kafka.share.other_threads import OtherThreads
from twisted_kafka.share_coordinator import state_persister
from twisted_kafka.share_coordinator.state_persister import MAX_ATTEMPTS, StatePersister


class Leader:
    def __init__(self, leader: int) -> None:
        self.leader = leader


class Cluster(Fake):
    """The metadata of broker 1, and its client of the others; requests wait until the test answers them."""

    broker_id = 1

    def __init__(self) -> None:
        self.leader: int | None = None
        self.sent: list[tuple[int, Any, Future[Any]]] = []
        self.created = 0

    def create_topic(self) -> None:
        self.created += 1

    def contains(self, topic: str) -> bool:
        assert topic == SHARE_TOPIC
        return self.leader is not None

    def partition(self, partition: TopicPartition) -> Leader | None:
        return None if self.leader is None else Leader(self.leader)

    def node(self, broker_id: int, listener_name: str) -> Node | None:
        return Node(broker_id, "there", 9092, None) if broker_id > 0 else None

    def send(self, node: Node, request: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        self.sent.append((node.id, request, future))
        return future

    def disconnect(self, broker_id: int) -> None:
        raise AssertionError("nothing is disconnected")


class Persisters:
    def __init__(self) -> None:
        self.bench = ShareBench()
        self.cluster = Cluster()
        self.later: list[Callable[[], None]] = []
        self.persister = StatePersister(
            self.bench.shares,
            self.cluster,
            "PLAINTEXT",
            self.cluster,
            OtherThreads(self.bench.timer, lambda function: self.later.append(function)),
            self.bench.clock,
            self.cluster.create_topic,
        )

    def resume(self) -> None:
        later, self.later = self.later, []
        for function in later:
            function()

    def write(self, first_offset: int = 0) -> "Future[Any]":
        return self.persister.write_state(self.bench.write_request((first_offset, first_offset, 2, 1)))


@pytest.fixture
def them() -> Persisters:
    return Persisters()


def error_of(future: "Future[Any]") -> int:
    (topic,) = future.result().results
    (result,) = topic.partitions
    assert (topic.topic_id, result.partition) == (KEY.topic_id, KEY.partition)
    return result.error_code


def answer(error: ErrorCode = ErrorCode.NONE) -> wire.WriteShareGroupStateResponse:
    result = wire.WriteShareGroupStateResponsePartitionResult(partition=KEY.partition, error_code=error)
    return wire.WriteShareGroupStateResponse(results=[wire.WriteStateResult(topic_id=KEY.topic_id, partitions=[result])])


def test_this_brokers_coordinator_is_asked_in_process(them: Persisters) -> None:
    them.cluster.leader = 1
    them.bench.initialize()
    assert error_of(them.write()) == 0
    assert not them.cluster.sent
    refused = them.persister.write_state(them.bench.write_request((0, 0, 2, 1), state_epoch=0))
    assert error_of(refused) == ErrorCode.FENCED_STATE_EPOCH


@pytest.mark.parametrize("leader", [1, 2])
def test_a_question_that_fails_unexpectedly_is_answered(them: Persisters, monkeypatch: pytest.MonkeyPatch, leader: int) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Cluster, "send", fail)
    monkeypatch.setattr(CoordinatorRuntime, "execute_together", fail)
    them.cluster.leader = leader
    assert error_of(them.write()) == ErrorCode.UNKNOWN_SERVER_ERROR
    them.persister.shutdown()


def test_another_brokers_coordinator_gets_a_request(them: Persisters) -> None:
    them.cluster.leader = 2
    writing = them.write()
    ((node, request, sent),) = them.cluster.sent
    assert (node, request) == (2, them.bench.write_request((0, 0, 2, 1)))
    sent.set_result(answer())
    assert not writing.done(), "the client's thread goes on with nothing"
    them.resume()
    assert error_of(writing) == 0


def test_the_topic_is_created_and_asked_for_again(them: Persisters) -> None:
    writing = them.write()
    assert them.cluster.created == 1
    them.bench.advance(state_persister.FIRST_BACKOFF_MS)
    assert them.cluster.created == 2
    them.cluster.leader = 1
    them.bench.initialize()
    them.bench.advance(2 * state_persister.FIRST_BACKOFF_MS)
    assert error_of(writing) == 0


def test_a_coordinator_that_moves_is_followed(them: Persisters) -> None:
    them.cluster.leader = 2
    writing = them.write()
    them.cluster.sent[0][2].set_result(answer(ErrorCode.NOT_COORDINATOR))
    them.resume()
    them.cluster.leader = 3
    them.bench.advance(state_persister.FIRST_BACKOFF_MS)
    assert them.cluster.sent[1][0] == 3
    them.cluster.sent[1][2].set_exception(ConnectionError("gone"))
    them.resume()
    them.bench.advance(2 * state_persister.FIRST_BACKOFF_MS)
    them.cluster.sent[2][2].set_result(answer(ErrorCode.FENCED_LEADER_EPOCH))
    them.resume()
    assert error_of(writing) == ErrorCode.FENCED_LEADER_EPOCH


def test_the_last_error_is_the_answer(them: Persisters) -> None:
    writing = them.write()
    for _ in range(MAX_ATTEMPTS - 1):
        assert not writing.done()
        them.bench.advance(state_persister.MAX_BACKOFF_MS)
    assert error_of(writing) == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_share_partitions_of_one_request_are_asked_for_where_they_are(them: Persisters) -> None:
    them.cluster.leader = 1
    them.bench.initialize()
    partitions = [wire.ReadShareGroupStateRequestPartitionData(partition=index, leader_epoch=0) for index in (2, 0)]
    topic = wire.ReadStateData(topic_id=KEY.topic_id, partitions=partitions)
    response = them.persister.read_state(wire.ReadShareGroupStateRequest(group_id="group", topics=[topic])).result()
    found = [(each.partition, each.error_code) for each in response.results[0].partitions]
    assert found == [(2, ErrorCode.INVALID_REQUEST), (0, 0)]


def test_what_waits_is_bounded(them: Persisters, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_persister, "MAX_WAITING", 1)
    them.cluster.leader = 2
    waiting = them.write()
    assert error_of(them.write()) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    them.cluster.sent[0][2].set_result(answer())
    them.resume()
    assert error_of(waiting) == 0
    assert not them.write().done()


def test_a_broker_that_stops_answers_what_waits(them: Persisters) -> None:
    them.cluster.leader = 2
    waiting = them.write()
    them.persister.shutdown()
    assert error_of(waiting) == error_of(them.write()) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    them.cluster.sent[0][2].set_result(answer())
    them.resume()
