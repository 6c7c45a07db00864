"""Where the coordinator's markers go: to this broker's partitions, not to those of others, and nowhere for deleted ones."""

from concurrent.futures import Future
from typing import Any

import pytest

from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.coordinator.transaction.marker_writer import LocalMarkerWriter, MarkerAppender, MarkerErrors, TransactionMarker
from twisted_kafka.log.producer_state.producer_state_manager import BUMPED_EPOCH, VerificationGuard
from twisted_kafka.log.validation.log_validator import AppendOrigin
from twisted_kafka.metadata.cache import MetadataSnapshot, PartitionState
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.topic_partition import GROUP_METADATA_TOPIC, TopicPartition
from twisted_kafka.replication.operations.append_result import PartitionResult
from twisted_kafka.timing.clock import ManualClock

HERE, THERE, GONE = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("gone", 0)


class FakeMetadata:
    broker_id = 1

    def __init__(self) -> None:
        states = {0: PartitionState("t", 0, leader=1), 1: PartitionState("t", 1, leader=2)}
        self.snapshot = MetadataSnapshot({}, {"t": states}, {}, {})

    def partition(self, key: TopicPartition) -> PartitionState | None:
        return self.snapshot.topics.get(key.topic, {}).get(key.partition)


class FakeAppender:
    def __init__(self) -> None:
        self.appended: list[TransactionMarker] = []
        self.replicas: Future[MarkerErrors] | None = None

    def append(self, marker: TransactionMarker) -> MarkerErrors | Future[MarkerErrors]:
        self.appended.append(marker)
        return dict.fromkeys(marker.partitions, ErrorCode.NONE) if self.replicas is None else self.replicas


def marker(*partitions: TopicPartition) -> TransactionMarker:
    return TransactionMarker(Producer(7, 1), 3, True, frozenset(partitions))


def make(*, knows_metadata: bool = True) -> tuple[LocalMarkerWriter, FakeAppender]:
    appender = FakeAppender()
    metadata: Any = FakeMetadata()
    return LocalMarkerWriter(appender, metadata, lambda: knows_metadata), appender  # type: ignore[arg-type]


def test_markers_go_to_the_partitions_that_are_led_here() -> None:
    writer, appender = make()
    answer = writer.write([marker(HERE, THERE, GONE), marker(HERE)])
    assert answer.result(0) == [
        {HERE: ErrorCode.NONE, THERE: ErrorCode.NOT_LEADER_OR_FOLLOWER, GONE: ErrorCode.NONE},
        {HERE: ErrorCode.NONE},
    ]
    assert appender.appended == [marker(HERE)] * 2


def test_a_partition_counts_as_deleted_only_when_the_metadata_is_known() -> None:
    writer, _ = make(knows_metadata=False)
    assert writer.write([marker(GONE)]).result(0) == [{GONE: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}]


def test_the_outcome_waits_for_replicas() -> None:
    writer, appender = make()
    appender.replicas = Future()
    answer = writer.write([marker(HERE, THERE)])
    assert not answer.done()
    appender.replicas.set_result({HERE: ErrorCode.REQUEST_TIMED_OUT})
    assert answer.result(0) == [{HERE: ErrorCode.REQUEST_TIMED_OUT, THERE: ErrorCode.NOT_LEADER_OR_FOLLOWER}]


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
