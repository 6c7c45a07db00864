"""Where the coordinator's markers go: to this broker's partitions, to those of others, and nowhere for deleted ones."""

from concurrent.futures import Future
from typing import Any, cast

import pytest

from tests.support.broker_network import cluster
from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.log.producer_state.producer_state_manager import BUMPED_EPOCH, VerificationGuard
from twisted_kafka.log.validation.log_validator import AppendOrigin
from twisted_kafka.metadata.cache import NO_LEADER, MetadataCache
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.topic_partition import GROUP_METADATA_TOPIC, TopicPartition
from twisted_kafka.replication.operations.append_result import PartitionResult
from twisted_kafka.timing.clock import ManualClock
from twisted_kafka.transaction_coordinator.markers.marker_channels import MarkerChannels
from twisted_kafka.transaction_coordinator.markers.marker_writer import MarkerAppender, MarkerWriter
from twisted_kafka.transaction_coordinator.markers.transaction_marker import MarkerErrors, TransactionMarker

HERE, THERE, ALSO_HERE, NOWHERE = (TopicPartition("t", index) for index in range(4))
GONE = TopicPartition("gone", 0)


class FakeAppender:
    def __init__(self) -> None:
        self.appended: list[TransactionMarker] = []
        self.replicas: Future[MarkerErrors] | None = None

    def append(self, marker: TransactionMarker) -> MarkerErrors | Future[MarkerErrors]:
        self.appended.append(marker)
        return dict.fromkeys(marker.partitions, ErrorCode.NONE) if self.replicas is None else self.replicas


class FakeChannels:
    """Other brokers, which answer when they are told to."""

    def __init__(self) -> None:
        self.written: list[tuple[int, TransactionMarker]] = []
        self.answer: Future[MarkerErrors] = Future()
        self.dropped: list[tuple[int, int]] = []

    def write(self, broker_id: int, marker: TransactionMarker) -> MarkerErrors | Future[MarkerErrors]:
        self.written.append((broker_id, marker))
        return dict.fromkeys(marker.partitions, ErrorCode.LEADER_NOT_AVAILABLE) if broker_id == NO_LEADER else self.answer

    def drop(self, log_partition: int, coordinator_epoch: int) -> None:
        self.dropped.append((log_partition, coordinator_epoch))


def marker(*partitions: TopicPartition) -> TransactionMarker:
    return TransactionMarker(Producer(7, 1), 3, True, frozenset(partitions))


class World:
    def __init__(self, *, knows_metadata: bool = True) -> None:
        self.appender = FakeAppender()
        self.channels = FakeChannels()
        metadata = MetadataCache(1)
        metadata.apply(cluster({HERE: 1, ALSO_HERE: 1, THERE: 2, NOWHERE: NO_LEADER}, 1, 2))
        appender, channels = cast("MarkerAppender", self.appender), cast("MarkerChannels", self.channels)
        self.writer = MarkerWriter(appender, channels, metadata, lambda: knows_metadata)


def test_markers_go_to_who_leads() -> None:
    world = World()
    answers = world.writer.write([marker(HERE, ALSO_HERE, THERE, NOWHERE, GONE), marker(HERE), marker(THERE)])
    assert world.appender.appended == [marker(HERE, ALSO_HERE), marker(HERE)]  # in one append, and none for nothing
    # In the order of the partitions, so that a seeded world runs the same way in each process.
    assert world.channels.written == [(2, marker(THERE)), (NO_LEADER, marker(NOWHERE)), (2, marker(THERE))]
    assert answers[1] == {HERE: ErrorCode.NONE}  # it does not wait for other brokers
    everywhere: Any = answers[0]
    assert not everywhere.done()
    world.channels.answer.set_result({THERE: ErrorCode.NONE})
    assert everywhere.result(0) == {
        **dict.fromkeys((HERE, ALSO_HERE, THERE, GONE), ErrorCode.NONE),
        NOWHERE: ErrorCode.LEADER_NOT_AVAILABLE,
    }


def test_a_partition_counts_as_deleted_only_when_the_metadata_is_known() -> None:
    world = World(knows_metadata=False)
    assert world.writer.write([marker(GONE)]) == [{GONE: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}]


def test_the_outcome_waits_for_replicas() -> None:
    world = World()
    world.appender.replicas = Future()
    answer: Any = world.writer.write([marker(HERE, NOWHERE)])[0]
    assert not answer.done()
    world.appender.replicas.set_result({HERE: ErrorCode.REQUEST_TIMED_OUT})
    assert answer.result(0) == {HERE: ErrorCode.REQUEST_TIMED_OUT, NOWHERE: ErrorCode.LEADER_NOT_AVAILABLE}


def test_a_resignation_is_passed_on() -> None:
    world = World()
    world.writer.drop(4, 2)
    assert world.channels.dropped == [(4, 2)]


class FakeReplicas:
    """Partitions that are here, and what is appended to them."""

    def __init__(self) -> None:
        self.appender = self
        self.guards: list[Any] = []
        self.appended: list[list[TopicPartition]] = []

    def get_partition(self, name: TopicPartition) -> TopicPartition | None:
        return None if name == GONE else name

    def append(self, timeout_ms: int, acks: int, batches: Any, origin: AppendOrigin, **options: Any) -> Any:
        assert (timeout_ms, acks, origin, options["internal_topics_allowed"]) == (1000, -1, AppendOrigin.COORDINATOR, True)
        self.appended.append(sorted(batches))
        self.guards.append(options["guards"])
        return {name: PartitionResult(ErrorCode.NONE) for name in batches}


@pytest.mark.parametrize(("version", "guard"), [(0, None), (2, BUMPED_EPOCH)])
def test_markers_with_an_epoch_of_the_next_transaction_have_a_guard(version: int, guard: VerificationGuard | None) -> None:
    replicas: Any = FakeReplicas()
    in_groups: list[Any] = []

    def end_in_groups(*args: Any) -> ErrorCode:
        in_groups.append(args)
        return ErrorCode.NONE

    appender = MarkerAppender(replicas, end_in_groups, ManualClock(), 1000)
    offsets = TopicPartition(GROUP_METADATA_TOPIC, 4)
    answer = appender.append(marker(HERE, THERE, GONE, offsets)._replace(transaction_version=version))
    assert answer == {
        HERE: ErrorCode.NONE,
        THERE: ErrorCode.NONE,
        GONE: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        offsets: ErrorCode.NONE,
    }
    assert replicas.appended == [[HERE, THERE]]
    assert [{name: guards.get(name) for name in (HERE, THERE)} for guards in replicas.guards] == [{HERE: guard, THERE: guard}]
    assert in_groups == [(4, Producer(7, 1), 3, True, version)]
