"""Questions to transaction coordinators: here in process, elsewhere together and one request at a time."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, cast

import pytest

from tests.support.broker_network import LISTENER, REQUEST_TIMEOUT_MS, BrokerNetwork, cluster
from tests.transaction_coordinator.coordinators import LEADERS, NETWORK, NONE, Coordinator
from twisted_kafka.client.errors import AuthenticationError
from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.metadata.cache import MetadataCache, Node
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.coordinators.transactions import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.timing.clock import ManualClock
from twisted_kafka.transaction_coordinator import add_partitions_manager
from twisted_kafka.transaction_coordinator.add_partitions_manager import AddPartitionsToTxnManager
from twisted_kafka.transaction_coordinator.transaction_coordinator import TransactionCoordinator

A, B = TopicPartition("a", 0), TopicPartition("b", 1)
PRODUCER = Producer(7, 3)


class World:
    """Broker 1 asks; a handler goes on with what was answered when the test says so."""

    def __init__(self, latest_version: int = 5) -> None:
        metadata = MetadataCache(1)
        metadata.apply(cluster(LEADERS, 1, 2, 3))
        self.network = BrokerNetwork(metadata, ADD_PARTITIONS_TO_TXN=(0, latest_version))
        self.here = Coordinator()
        self.resumed: list[Callable[[], None]] = []
        here = cast("TransactionCoordinator", self.here)
        self.manager = AddPartitionsToTxnManager(here, metadata, LISTENER, self.network, ManualClock(), self.resumed.append)

    def ask(self, name: str = "there", producer: Producer = PRODUCER, *, adds: bool = False, of: Any = (A, B)) -> Any:
        return self.manager.add_partitions(name, producer, of, 2) if adds else self.manager.verify_partitions(name, producer, of)

    def received(self, broker_id: int = 2) -> Any:
        (received,) = self.network.received(broker_id)
        return received

    def resume(self) -> None:
        resumed, self.resumed[:] = list(self.resumed), []
        for each in resumed:
            each()


@pytest.fixture
def world() -> World:
    return World()


def asked(received: Any) -> list[tuple[str, tuple[int, int], bool, list[TopicPartition]]]:
    return [
        (
            each.transactional_id,
            (each.producer_id, each.producer_epoch),
            each.verify_only,
            [TopicPartition(topic.name, index) for topic in each.topics for index in topic.partitions],
        )
        for each in received.message.transactions
    ]


def answer(received: Any, errors: Mapping[tuple[str, TopicPartition], int] | None = None, error: int = 0) -> None:
    given = errors or {}
    results = []
    for name, _, _, partitions in asked(received):
        topics = [
            AddPartitionsToTxnTopicResult(
                name=each.topic,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(
                        partition_index=each.partition, partition_error_code=given.get((name, each), 0)
                    )
                ],
            )
            for each in partitions
        ]
        results.append(AddPartitionsToTxnResult(transactional_id=name, topic_results=topics))
    received.answer(AddPartitionsToTxnResponse(error_code=error, results_by_transaction=[] if error else results))


@pytest.mark.parametrize("adds", [False, True])
def test_a_coordinator_here_is_asked_in_process(world: World, adds: bool) -> None:
    assert world.ask("here", adds=adds) == {A: NONE, B: NONE}
    assert world.network.received(2) == []


def test_what_is_written_here_first_is_waited_for(world: World) -> None:
    world.here.later = Future()
    added = world.ask("here", adds=True)
    assert not added.done()
    world.here.later.set_result(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert added.result(0) == dict.fromkeys((A, B), ErrorCode.CONCURRENT_TRANSACTIONS)


@pytest.mark.parametrize("adds", [False, True])
def test_a_coordinator_elsewhere_is_asked_and_a_handler_goes_on_with_the_answer(world: World, adds: bool) -> None:
    future = world.ask(adds=adds)
    received = world.received()
    assert received.version == 5
    assert asked(received) == [("there", PRODUCER, not adds, [A, B])]
    answer(received, {("there", B): ErrorCode.INVALID_TXN_STATE})
    assert not future.done()
    world.resume()
    assert future.result(0) == {A: NONE, B: ErrorCode.INVALID_TXN_STATE}


def test_a_coordinator_that_resigns_while_it_adds_partitions_leaves_it_to_its_successor(world: World) -> None:
    world.here.later = Future()
    future = world.ask(adds=True)
    world.here.later.set_result(ErrorCode.NOT_COORDINATOR)
    answer(world.received())
    world.resume()
    assert future.result(0) == {A: NONE, B: NONE}


def test_one_request_is_in_flight_and_the_next_asks_all_that_came_meanwhile(world: World) -> None:
    world.ask("first")
    later = [world.ask("second"), world.ask("third", Producer(8, 0), adds=True, of=(B,))]
    far = world.ask("far")
    first = world.received()
    assert [each[0] for each in asked(first)] == ["first"]
    assert world.network.received(2) == []
    answer(world.received(3))
    answer(first)
    received = world.received()
    assert asked(received) == [("second", PRODUCER, True, [A, B]), ("third", (8, 0), False, [B])]
    answer(received)
    world.resume()
    assert [each.result(0) for each in (*later, far)] == [{A: NONE, B: NONE}, {B: NONE}, {A: NONE, B: NONE}]


def test_a_question_that_waits_already_is_asked_once_for_both(world: World) -> None:
    world.ask("first")
    one, two = world.ask(of=(A,)), world.ask(of=(B,))
    answer(world.received())
    received = world.received()
    assert asked(received) == [("there", PRODUCER, True, [A, B])]
    answer(received, {("there", B): ErrorCode.INVALID_TXN_STATE})
    world.resume()
    assert (one.result(0), two.result(0)) == ({A: NONE}, {B: ErrorCode.INVALID_TXN_STATE})


@pytest.mark.parametrize(
    ("before", "after", "error_before", "error_after"),
    [
        (Producer(7, 3), Producer(7, 4), ErrorCode.INVALID_PRODUCER_EPOCH, None),
        (Producer(7, 4), Producer(7, 3), None, ErrorCode.INVALID_PRODUCER_EPOCH),
        (Producer(7, 32_766), Producer(9, 0), NETWORK, None),
    ],
)
def test_of_two_producers_with_one_transactional_id_the_newer_one_is_asked_about(
    world: World, before: Producer, after: Producer, error_before: ErrorCode | None, error_after: ErrorCode | None
) -> None:
    world.ask("first")
    one = world.ask(producer=before, of=(A,))
    two = world.ask(producer=after, of=(A,))
    answer(world.received())
    received = world.received()
    assert [each[1] for each in asked(received)] == [before if error_after else after]
    answer(received)
    world.resume()
    assert one.result(0) == {A: error_before or NONE}
    assert (two if isinstance(two, dict) else two.result(0)) == {A: error_after or NONE}


def test_a_producer_that_changes_to_the_protocol_that_adds_is_asked_about_with_that(world: World) -> None:
    world.ask("first")
    verifies, adds = world.ask(), world.ask(adds=True)
    answer(world.received())
    received = world.received()
    assert [each[2] for each in asked(received)] == [False]
    answer(received)
    world.resume()
    assert (verifies.result(0), adds.result(0)) == ({A: NETWORK, B: NETWORK}, {A: NONE, B: NONE})


@pytest.mark.parametrize(("name", "error"), [("nowhere", ErrorCode.COORDINATOR_NOT_AVAILABLE), ("gone", ErrorCode.NOT_COORDINATOR)])
def test_a_coordinator_that_is_not_there_cannot_be_asked(world: World, name: str, error: ErrorCode) -> None:
    assert world.ask(name) == world.ask(name, adds=True) == {A: error, B: error}


def test_nobody_asks_itself_again(world: World) -> None:
    world.here.has_resigned = True  # and the metadata does not know yet
    assert world.ask("here") == {A: ErrorCode.NOT_COORDINATOR, B: ErrorCode.NOT_COORDINATOR}


def test_an_answer_that_never_comes_is_an_error_that_passes(world: World) -> None:
    future, waits = world.ask(), world.ask("another")
    late = world.received()
    world.network.clock.advance(REQUEST_TIMEOUT_MS / 1000)
    answer(late)
    answer(world.received())
    world.resume()
    assert future.result(0) == {A: NETWORK, B: NETWORK}
    assert waits.result(0) == {A: NONE, B: NONE}


def test_a_broker_that_cannot_be_reached_is_an_error_that_passes(world: World) -> None:
    refused, lost = world.ask(), world.ask("far")
    world.network.refuse()
    world.resume()
    assert refused.result(0) == lost.result(0) == {A: NETWORK, B: NETWORK}
    lost = world.ask()
    world.received().lose()
    world.resume()
    assert lost.result(0) == {A: NETWORK, B: NETWORK}


def test_an_answer_that_comes_twice_does_no_harm(world: World) -> None:
    one, two = world.ask(), world.ask("another")
    received = world.received()
    answer(received)
    answer(received)
    world.resume()
    assert (one.result(0), two.result(0)) == ({A: NONE, B: NONE}, {A: NETWORK, B: NETWORK})


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
def test_an_error_of_the_request_is_that_of_all_its_partitions(world: World, error: ErrorCode, shown: ErrorCode) -> None:
    future = world.ask()
    answer(world.received(), error=error)
    world.resume()
    assert future.result(0) == {A: shown, B: shown}


def test_a_partition_that_the_answer_leaves_out_is_not_verified(world: World) -> None:
    future = world.ask()
    world.received().answer(AddPartitionsToTxnResponse())
    world.resume()
    assert future.result(0) == {A: NETWORK, B: NETWORK}


def test_nobody_waits_for_more_than_two_requests_without_an_answer(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(add_partitions_manager, "MAX_TRANSACTIONS", 2)
    first, *others = [world.ask(f"tx-{number}") for number in range(10)]
    assert asked(world.received())[0][0] == "tx-0"
    world.network.clock.advance(REQUEST_TIMEOUT_MS / 1000)
    assert len(asked(world.received())) == 2
    later = world.ask("later")
    world.resume()
    assert (first.done(), any(each.done() for each in others)) == (True, False)
    world.network.clock.advance(REQUEST_TIMEOUT_MS / 1000)
    world.resume()
    assert [each.result(0) for each in others] == [dict.fromkeys((A, B), NETWORK)] * 9
    received = world.received()
    assert [each[0] for each in asked(received)] == ["later"]
    answer(received)
    world.resume()
    assert later.result(0) == {A: NONE, B: NONE}


@pytest.mark.parametrize("latest_version", [-1, 3])
def test_a_broker_that_is_too_old_verifies_nothing_and_adds_nothing(latest_version: int) -> None:
    world = World(latest_version)
    verified = world.ask()
    world.network.received(2)
    added = world.ask(adds=True)
    world.network.received(2)
    world.resume()
    assert verified.result(0) == {A: NONE, B: NONE}
    assert added.result(0) == dict.fromkeys((A, B), ErrorCode.COORDINATOR_NOT_AVAILABLE)


def test_an_authentication_that_fails_does_not_pass(world: World) -> None:
    class Refusing:
        def send(self, node: Node, request: Message) -> "Future[Any]":
            refused: Future[Any] = Future()
            refused.set_exception(AuthenticationError("its certificate is not trusted"))
            return refused

        def disconnect(self, broker_id: int) -> None:
            raise AssertionError

    world.manager._client = Refusing()
    future = world.ask()
    world.resume()
    assert future.result(0) == dict.fromkeys((A, B), ErrorCode.UNKNOWN_SERVER_ERROR)


def test_requests_and_queues_are_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(add_partitions_manager, "MAX_WAITING", 3)
    monkeypatch.setattr(add_partitions_manager, "MAX_TRANSACTIONS", 2)
    for number in range(4):
        world.ask(f"tx-{number}")
    assert world.ask("tx-9") == dict.fromkeys((A, B), ErrorCode.COORDINATOR_NOT_AVAILABLE)
    sizes = []
    while received := world.network.received(2):
        sizes.append(len(asked(received[0])))
        answer(received[0])
    assert sizes == [1, 2, 1]
