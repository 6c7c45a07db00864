"""Markers for other brokers: together, one request at a time, again after everything that may go wrong."""

from concurrent.futures import Future
from typing import Any

import pytest

from tests.support.broker_network import LISTENER, REQUEST_TIMEOUT_MS, BrokerNetwork, cluster, marked
from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.timing.clock import ManualClock
from twisted_kafka.transaction_coordinator.markers import marker_channels
from twisted_kafka.transaction_coordinator.markers.marker_channels import MarkerChannels
from twisted_kafka.transaction_coordinator.markers.transaction_marker import MarkerErrors, TransactionMarker

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
LEADERS = {A0: 2, A1: 2, B0: 2, TopicPartition("c", 0): 3}
C0 = TopicPartition("c", 0)
NONE = ErrorCode.NONE


def marker(producer_id: int, *partitions: TopicPartition, epoch: int = 3, **more: Any) -> TransactionMarker:
    return TransactionMarker(Producer(producer_id, 1), epoch, True, frozenset(partitions), **more)


class World:
    """Broker 1's channels to brokers 2 and 3."""

    def __init__(self, latest_version: int = 2) -> None:
        self.metadata = MetadataCache(1)
        self.network = BrokerNetwork(self.metadata, WRITE_TXN_MARKERS=(0, latest_version))
        self.channels = MarkerChannels(self.network, self.metadata, LISTENER, ManualClock())
        self.update(LEADERS, 1, 2, 3)

    def update(self, leaders: dict[TopicPartition, int], *brokers: int, **more: Any) -> None:
        self.metadata.apply(cluster(leaders, *brokers, **more))

    def write(self, broker_id: int, one: TransactionMarker) -> "Future[MarkerErrors]":
        answer = self.channels.write(broker_id, one)
        assert isinstance(answer, Future)
        return answer

    def one_request(self, broker_id: int = 2) -> Any:
        (received,) = self.network.received(broker_id)
        return received


@pytest.fixture
def world() -> World:
    return World()


def producers(received: Any) -> list[int]:
    return [each.producer_id for each in received.message.markers]


def test_one_request_is_in_flight_and_the_next_has_all_that_came_meanwhile(world: World) -> None:
    first = world.write(2, marker(7, A0))
    later = [world.write(2, marker(number, A1, B0)) for number in (8, 9)]
    elsewhere = world.write(3, marker(10, C0))
    received = world.one_request()
    assert producers(received) == [7]
    assert world.network.received(2) == []
    assert producers(world.one_request(3)) == [10]  # no broker waits for another
    received.answer(marked(received))
    assert first.result(0) == {A0: NONE}
    received = world.one_request()
    assert producers(received) == [8, 9]
    received.answer(marked(received))
    assert [each.result(0) for each in later] == [{A1: NONE, B0: NONE}] * 2
    assert not elsewhere.done()


@pytest.mark.parametrize("version", [1, 2])
def test_a_request_says_all_of_its_markers(version: int) -> None:
    world = World(latest_version=version)
    world.write(2, marker(7, A0, A1, B0, transaction_version=2)._replace(committed=False))
    received = world.one_request()
    (one,) = received.message.markers
    assert received.version == version
    assert (one.producer_id, one.producer_epoch, one.coordinator_epoch, one.transaction_result) == (7, 1, 3, False)
    assert one.transaction_version == (2 if version == 2 else 0)
    assert [(topic.name, topic.partition_indexes) for topic in one.topics] == [("a", [0, 1]), ("b", [0])]


def test_each_marker_has_the_errors_of_its_partitions(world: World) -> None:
    world.write(2, marker(6, A0))
    answers = [world.write(2, marker(number, A0, B0)) for number in (7, 8)]
    received = world.one_request()
    received.answer(marked(received))
    received = world.one_request()
    fenced = ErrorCode.INVALID_PRODUCER_EPOCH
    received.answer(marked(received, lambda producer, partition: fenced if (producer, partition) == (8, B0) else 0))
    assert [each.result(0) for each in answers] == [{A0: NONE, B0: NONE}, {A0: NONE, B0: fenced}]


def test_what_the_answer_leaves_out_or_nobody_knows_is_not_written(world: World) -> None:
    answer = world.write(2, marker(7, A0, B0))
    received = world.one_request()
    full = marked(received, lambda _, partition: 9999)
    del full.markers[0].topics[0]
    received.answer(full)
    assert answer.result(0) == dict.fromkeys((A0, B0), ErrorCode.UNKNOWN_SERVER_ERROR)


def test_a_producer_has_one_marker_in_a_request_as_answers_name_producers(world: World) -> None:
    world.write(2, marker(6, A0))
    older, newer, other = (world.write(2, each) for each in (marker(7, A0), marker(7, A0, epoch=4), marker(8, A0)))
    received = world.one_request()
    received.answer(marked(received))
    received = world.one_request()
    assert producers(received) == [7, 8]
    received.answer(marked(received))
    assert (older.done(), newer.done(), other.done()) == (True, False, True)
    assert [(each.producer_id, each.coordinator_epoch) for each in world.one_request().message.markers] == [(7, 4)]


def test_an_answer_that_never_comes_is_waited_for_no_longer_than_a_request_may_take(world: World) -> None:
    first, second = world.write(2, marker(7, A0)), world.write(2, marker(8, A0))
    late = world.one_request()
    world.network.clock.advance(REQUEST_TIMEOUT_MS / 1000)
    assert first.result(0) == {A0: ErrorCode.NETWORK_EXCEPTION}
    received = world.one_request()
    assert producers(received) == [8]
    late.answer(marked(late))  # on a connection that is closed
    assert not second.done()
    received.answer(marked(received))
    assert second.result(0) == {A0: NONE}


def test_an_answer_that_comes_twice_does_no_harm(world: World) -> None:
    first, second = world.write(2, marker(7, A0)), world.write(2, marker(8, A0))
    received = world.one_request()
    received.answer(marked(received))
    received.answer(marked(received))  # in place of the second request's
    assert first.result(0) == {A0: NONE}
    assert second.result(0) == {A0: ErrorCode.NETWORK_EXCEPTION}
    again = world.write(2, marker(8, A0))
    lost, received = world.network.received(2)
    assert producers(lost) == producers(received) == [8]
    received.answer(marked(received))
    assert again.result(0) == {A0: NONE}


def test_a_lost_connection_fails_what_was_sent_and_the_rest_is_sent_over_the_next_one(world: World) -> None:
    first, second = world.write(2, marker(7, A0)), world.write(2, marker(8, A0))
    world.one_request().lose()
    assert first.result(0) == {A0: ErrorCode.NETWORK_EXCEPTION}
    assert not second.done()
    assert producers(world.one_request()) == [8]


def test_a_broker_that_refuses_connections_holds_up_nothing_for_good(world: World) -> None:
    first, second = world.write(2, marker(7, A0)), world.write(2, marker(8, A0))
    assert world.network.refuse() == 1
    assert first.result(0) == {A0: ErrorCode.NETWORK_EXCEPTION}
    assert world.network.refuse() == 1
    assert second.result(0) == {A0: ErrorCode.NETWORK_EXCEPTION}


def test_a_marker_for_a_broker_without_an_address_waits_for_one(world: World) -> None:
    world.update({A0: 4}, 1, 2)
    waits: Any = world.channels.write(4, marker(7, A0))
    other: Any = world.channels.write(-1, marker(8, A0))
    assert (waits.done(), other.done(), world.channels.leaderless) == (False, False, 2)
    world.update({}, 1, 2, 4)
    assert waits.result(0) == other.result(0) == {A0: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    assert world.channels.leaderless == 0
    late: Any = world.channels.write(-1, marker(9, A0))  # asked with the metadata from before
    assert late.result(0) == {A0: ErrorCode.NOT_LEADER_OR_FOLLOWER}


def test_a_coordinator_that_resigns_has_its_own_markers_dropped(world: World) -> None:
    sent = world.write(2, marker(6, A0, log_partition=5))
    mine, newer, others = (
        world.write(2, marker(7, A0, log_partition=5)),
        world.write(2, marker(8, A0, log_partition=5, epoch=4)),
        world.write(2, marker(9, A0, log_partition=6)),
    )
    elsewhere = world.write(3, marker(7, C0, log_partition=5))  # sent
    world.channels.drop(5, 3)
    assert mine.result(0) == {A0: ErrorCode.NOT_COORDINATOR}
    assert not any(each.done() for each in (sent, newer, others, elsewhere))
    received = world.one_request()
    received.answer(marked(received))
    assert sent.result(0) == {A0: NONE}
    assert producers(world.one_request()) == [8, 9]


def test_a_leader_that_moves_is_looked_up_again(world: World) -> None:
    world.write(2, marker(6, A0))
    moved, stays = world.write(2, marker(7, A0, A1)), world.write(2, marker(8, A0))
    world.update({A1: 3}, 1, 2, 3)
    assert moved.result(0) == dict.fromkeys((A0, A1), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert not stays.done()


@pytest.mark.parametrize("is_back", [False, True])
def test_nobody_waits_for_a_broker_that_is_gone_or_elsewhere(world: World, is_back: bool) -> None:
    sent, waits = world.write(2, marker(6, A0)), world.write(2, marker(7, A0))
    world.one_request()
    world.update({}, 1, *([2] if is_back else []), port=9099)
    assert sent.result(0) == {A0: ErrorCode.NETWORK_EXCEPTION}
    assert waits.result(0) == {A0: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    again = world.channels.write(2, marker(6, A0))
    if is_back:
        received = world.one_request()
        assert received.node.port == 9099
        received.answer(marked(received))
        assert isinstance(again, Future)
        assert again.result(0) == {A0: NONE}
    else:
        assert isinstance(again, Future)
        assert not again.done()
        assert world.channels.leaderless == 1


@pytest.mark.parametrize("is_back", [False, True])
def test_a_broker_that_goes_while_another_marker_comes_is_noticed_all_the_same(is_back: bool) -> None:
    world = World.__new__(World)
    world.metadata = MetadataCache(1)
    world.network = BrokerNetwork(world.metadata, WRITE_TXN_MARKERS=(0, 2))
    came: list[Any] = []
    world.metadata.add_listener(lambda _: came.append(world.channels.write(2, marker(7, A0))))  # before the channels hear of it
    world.channels = MarkerChannels(world.network, world.metadata, LISTENER, ManualClock())
    world.update(LEADERS, 1, 2, 3)
    (sent,) = came
    assert world.one_request().node.port == 9092
    world.update({}, 1, *([2] if is_back else []), port=9099)
    assert sent.result(0) == {A0: ErrorCode.NETWORK_EXCEPTION}


@pytest.mark.parametrize("is_back", [False, True])
def test_a_broker_that_goes_while_it_is_sent_to_is_noticed_all_the_same(
    world: World, is_back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = world.network.send

    def go_and_send(*request: Any) -> "Future[Any]":
        monkeypatch.undo()
        world.update({}, 1, *([2] if is_back else []), port=9099)
        return send(*request)

    monkeypatch.setattr(world.network, "send", go_and_send)
    assert world.write(2, marker(7, A0)).result(0) == {A0: ErrorCode.NETWORK_EXCEPTION}


def test_a_broker_that_goes_while_a_marker_is_queued_is_not_sent_to(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    node = world.metadata.node

    def find_and_go(*of: Any) -> Any:
        found = node(*of)
        monkeypatch.undo()
        world.update({}, 1)
        return found

    monkeypatch.setattr(MetadataCache, "node", lambda _, *of: find_and_go(*of))
    assert world.write(2, marker(7, A0)).result(0) == {A0: ErrorCode.LEADER_NOT_AVAILABLE}
    assert world.network.received(2) == []


def test_requests_and_queues_are_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marker_channels, "MAX_QUEUED_MARKERS", 5)
    monkeypatch.setattr(marker_channels, "MAX_MARKERS", 3)
    monkeypatch.setattr(marker_channels, "MAX_PARTITIONS", 2)
    sent = [world.write(2, marker(number, *partitions)) for number, partitions in enumerate([[A0], [A0, A1, B0], *[[A0]] * 4])]
    assert world.channels.write(2, marker(99, A0)) == {A0: ErrorCode.NETWORK_EXCEPTION}
    together = []
    for _ in range(4):
        received = world.one_request()
        together.append(producers(received))
        received.answer(marked(received))
    assert together == [[0], [1], [2, 3], [4, 5]]
    assert all(NONE is error for each in sent for error in each.result(0).values())


def test_a_changed_topic_costs_nothing_for_markers_of_others(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.write(2, marker(6, A0))
    waits, moved = world.write(2, marker(7, A0, A1)), world.write(2, marker(8, B0))
    world.channels.write(-1, marker(9, A0, A1))
    asked: list[Any] = []
    partition = MetadataCache.partition
    monkeypatch.setattr(MetadataCache, "partition", lambda self, of: asked.append(of) or partition(self, of))
    world.update({B0: 3}, 1, 2, 3)
    assert asked == [B0]
    assert (waits.done(), moved.result(0)) == (False, {B0: ErrorCode.NOT_LEADER_OR_FOLLOWER})


def test_a_queue_is_bounded_in_partitions_as_a_marker_may_have_any_number(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marker_channels, "MAX_QUEUED_PARTITIONS", 2)
    world.write(2, marker(1, A0))
    world.write(2, marker(2, A0, A1, B0))  # the first that waits may have more
    refused = {A0: ErrorCode.NETWORK_EXCEPTION}
    assert world.channels.write(2, marker(3, A0)) == refused
    received = world.one_request()
    received.answer(marked(received))
    for number in (4, 5):
        world.write(2, marker(number, A0))
    assert world.channels.write(2, marker(6, A0)) == refused
    world.channels.drop(-1, 3)
    world.write(2, marker(7, A0, A1))
    assert world.channels.write(2, marker(8, A0)) == refused
