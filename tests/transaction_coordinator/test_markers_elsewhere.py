"""A coordinator whose transactions have partitions on other brokers, over a network that the test pumps."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, cast

import pytest

from tests.support.broker_network import LISTENER, REQUEST_TIMEOUT_MS, BrokerNetwork, cluster, marked
from tests.support.network_fakes import lines_of
from tests.support.transaction_bench import TransactionBench
from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.metadata.cache import NO_LEADER, MetadataCache
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.transaction_coordinator.markers.marker_channels import MarkerChannels
from twisted_kafka.transaction_coordinator.markers.marker_writer import MarkerAppender, MarkerWriter
from twisted_kafka.transaction_coordinator.markers.transaction_marker import MarkerErrors, TransactionMarker
from twisted_kafka.transaction_coordinator.transaction_metrics import TransactionMetrics

HERE, THERE, ALSO_THERE, FAR = (TopicPartition("t", index) for index in range(4))
LEADERS = {HERE: 1, THERE: 2, ALSO_THERE: 2, FAR: 3}
RETRY_MS = 100


class HereAppender:
    """Appends to this broker's partitions."""

    def __init__(self) -> None:
        self.appended: list[TransactionMarker] = []

    def append(self, marker: TransactionMarker) -> "MarkerErrors | Future[MarkerErrors]":
        self.appended += [marker] if marker.partitions else []
        return dict.fromkeys(marker.partitions, ErrorCode.NONE)


class World:
    """Broker 1 coordinates; brokers 2 and 3 lead."""

    def __init__(self) -> None:
        self.bench = TransactionBench(partitions=1)
        self.metadata = MetadataCache(1)
        self.network = BrokerNetwork(self.metadata, WRITE_TXN_MARKERS=(0, 2))
        self.update(LEADERS)
        self.here = HereAppender()
        channels = MarkerChannels(self.network, self.metadata, LISTENER, self.bench.clock)
        writer = MarkerWriter(cast("MarkerAppender", self.here), channels, self.metadata, lambda: True)
        TransactionMetrics(self.bench.metrics).expose_destinations(lambda: channels.leaderless)
        self.bench.brokers = writer  # type: ignore[assignment]
        self.bench.restart()

    def update(self, leaders: dict[TopicPartition, int], brokers: tuple[int, ...] = (1, 2, 3)) -> None:
        self.metadata.apply(cluster(leaders, *brokers))

    def advance(self, ms: int) -> None:
        self.bench.advance(ms)
        self.network.clock.advance(ms / 1000)

    def end(self, name: str, *partitions: TopicPartition, committed: bool = True) -> Producer:
        transactions = self.bench.transactions
        initialized: Any = transactions.init_producer_id(name, 60_000, None)
        assert transactions.add_partitions(name, initialized.producer, partitions) is ErrorCode.NONE
        ended: Any = transactions.end_transaction(name, initialized.producer, committed)
        assert ended.error is ErrorCode.NONE
        producer: Producer = initialized.producer
        return producer

    def state(self, name: str = "tx") -> str:
        found = self.bench.transactions.describe(name)[1]
        assert found is not None
        return found.state.label

    def unknown_destinations(self) -> Any:
        return self.bench.metrics.value("TransactionMarkerChannelManager", "UnknownDestinationQueueSize")

    def one_request(self, broker_id: int = 2) -> Any:
        (received,) = self.network.received(broker_id)
        return received


@pytest.fixture
def world() -> World:
    return World()


def asked(received: Any) -> list[TopicPartition]:
    return sorted(
        TopicPartition(topic.name, index)
        for marker in received.message.markers
        for topic in marker.topics
        for index in topic.partition_indexes
    )


def answer(received: Any, error_of: Callable[[TopicPartition], int] = lambda _: 0) -> None:
    received.answer(marked(received, lambda _, partition: error_of(partition)))


def test_a_transaction_is_complete_when_all_brokers_have_its_marker(world: World) -> None:
    world.end("tx", HERE, THERE, ALSO_THERE, FAR)
    assert [each.partitions for each in world.here.appended] == [{HERE}]
    near = world.one_request()
    assert asked(near) == [THERE, ALSO_THERE]
    answer(near)
    assert world.state() == "PrepareCommit"
    answer(world.one_request(3))
    assert world.state() == "CompleteCommit"


def test_nobody_waits_for_another_transactions_brokers(world: World) -> None:
    world.end("tx", THERE)
    world.end("here", HERE)
    world.end("far", FAR)
    assert world.state("here") == "CompleteCommit"
    answer(world.one_request(3))
    assert (world.state("far"), world.state()) == ("CompleteCommit", "PrepareCommit")


def test_a_marker_that_nobody_confirms_is_sent_again_and_no_other(world: World) -> None:
    world.end("tx", HERE, THERE, FAR)
    lost = world.one_request()
    answer(world.one_request(3))
    world.advance(REQUEST_TIMEOUT_MS)
    world.advance(RETRY_MS)
    again = world.one_request()
    assert asked(again) == asked(lost) == [THERE]
    answer(lost)  # too late
    assert world.state() == "PrepareCommit"
    answer(again)
    assert world.state() == "CompleteCommit"
    assert len(world.here.appended) == 1
    assert world.network.received(3) == []


@pytest.mark.parametrize(
    "error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.REQUEST_TIMED_OUT]
)
def test_what_failed_goes_to_whoever_leads_by_then(world: World, error: ErrorCode) -> None:
    world.end("tx", THERE, ALSO_THERE)
    answer(world.one_request(), lambda partition: error if partition == THERE else 0)
    world.update({THERE: 3})
    world.advance(RETRY_MS)
    moved = world.one_request(3)
    assert asked(moved) == [THERE]
    answer(moved)
    assert world.state() == "CompleteCommit"


def test_markers_without_a_leader_wait_for_one_and_try_nothing_meanwhile(world: World) -> None:
    world.update({THERE: NO_LEADER})
    for number in range(20):
        world.end(f"tx-{number}", THERE)
    assert world.unknown_destinations() == 20
    writes = 0
    write = world.bench.brokers.write

    def counting(markers: Any) -> Any:
        nonlocal writes
        writes += len(markers)
        return write(markers)

    world.bench.brokers.write = counting
    world.advance(60_000)
    assert writes == 0
    world.update({THERE: 2})
    world.advance(RETRY_MS)
    assert writes == 20
    assert world.unknown_destinations() == 0


def test_markers_without_a_leader_go_with_their_coordinator(world: World) -> None:
    world.update({THERE: NO_LEADER})
    world.end("tx", THERE)
    world.bench.resign()
    assert world.unknown_destinations() == 0


@pytest.mark.parametrize("leader", [4, NO_LEADER])
def test_a_marker_waits_for_a_leader_that_is_known(world: World, leader: int) -> None:
    world.update({THERE: leader})
    world.end("tx", THERE)
    assert world.unknown_destinations() == 1
    world.advance(10 * RETRY_MS)
    assert world.unknown_destinations() == 1
    world.update({THERE: 2})
    world.advance(RETRY_MS)
    assert world.unknown_destinations() == 0
    answer(world.one_request())
    assert world.state() == "CompleteCommit"


def test_a_partition_that_is_deleted_needs_no_marker(world: World) -> None:
    world.end("tx", THERE)
    world.one_request().lose()
    world.update({THERE: -2})
    world.advance(RETRY_MS)
    assert world.state() == "CompleteCommit"


@pytest.mark.parametrize("error", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED])
def test_a_marker_that_is_superseded_is_given_up(world: World, error: ErrorCode) -> None:
    world.end("tx", THERE)
    answer(world.one_request(), lambda _: error)
    world.advance(10 * RETRY_MS)
    assert world.network.received(2) == []
    assert world.state() == "PrepareCommit"


def test_a_broker_that_refuses_markers_does_not_fill_the_log(world: World) -> None:
    """Its authorizer may not know this broker: that is for an operator to change, which may take a while."""
    names = [f"tx-{number}" for number in range(20)]
    for name in names:
        world.end(name, THERE)

    def refuse() -> None:
        for _ in range(50):
            answer_all(lambda _: ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    def answer_all(how: Callable[[TopicPartition], ErrorCode]) -> None:
        for request in world.network.received(2):
            answer(request, how)
        world.advance(RETRY_MS)

    lines = lines_of(refuse)
    assert 1 <= len(lines) <= 10
    assert lines[0] == "Cannot write markers of 'tx-0' yet: t-1 CLUSTER_AUTHORIZATION_FAILED"
    for _ in range(50):
        answer_all(lambda _: ErrorCode.NONE)
    assert {world.state(name) for name in names} == {"CompleteCommit"}


def test_a_coordinator_that_resigned_sends_nothing_more_and_its_successor_all(world: World) -> None:
    world.end("first", THERE)
    world.end("second", THERE)  # waits, as the first one's is in flight
    first = world.one_request()
    world.bench.resign()
    answer(first)
    assert world.network.received(2) == []
    world.bench.elect(world.bench.epoch + 1)
    resumed = [world.one_request()]
    answer(resumed[0])
    if len(resumed[0].message.markers) == 1:
        resumed.append(world.one_request())
        answer(resumed[1])
    epochs = [marker.coordinator_epoch for each in resumed for marker in each.message.markers]
    assert epochs == [world.bench.epoch] * 2
    assert [world.state("first"), world.state("second")] == ["CompleteCommit"] * 2


def test_what_is_decided_is_sent_again_after_a_restart(world: World) -> None:
    producer = world.end("tx", HERE, THERE, committed=False)
    world.one_request().lose()
    world.bench.restart()
    received = world.one_request()
    (marker,) = received.message.markers
    assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (*producer, False)
    answer(received)
    assert world.state() == "CompleteAbort"


@pytest.mark.medium
def test_many_transactions_need_few_requests(world: World) -> None:
    names = [f"tx-{number}" for number in range(1_200)]
    for name in names:
        world.end(name, THERE)
    sizes = []
    while received := world.network.received(2):
        sizes.append(len(received[0].message.markers))
        answer(received[0])
    assert sizes == [1, 1000, 199]
    assert {world.state(name) for name in names} == {"CompleteCommit"}
