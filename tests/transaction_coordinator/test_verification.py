"""What a producer's append needs: its partition in the open transaction, verified or added before."""

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from typing import Any

import pytest

from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.log.batch_headers import BatchHeader
from twisted_kafka.log.producer_state.producer_state_manager import ProducerStateManager, VerificationGuard
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.timing.clock import ManualClock
from twisted_kafka.transaction_coordinator.verification import METRICS_TYPE, TransactionVerification, Verified

HERE, ALSO_HERE, THERE, NOWHERE = (TopicPartition("t", index) for index in range(4))
ALL = dict.fromkeys((THERE, NOWHERE, HERE, ALSO_HERE), 0)
PRODUCER = Producer(7, 3)
NONE = ErrorCode.NONE


class Hosted:
    """A partition of this broker, and its log as far as producers are concerned."""

    def __init__(self, name: TopicPartition, is_leader: bool, is_verified: Callable[[], bool]) -> None:
        self.is_leader = is_leader
        self.log = self
        self.state = ProducerStateManager(name, is_verified)

    def start_verification(self, producer_id: int, epoch: int, sequence: int, *, bumps_epoch: bool) -> VerificationGuard | None:
        return self.state.start_verification(producer_id, epoch, sequence, 0, bumps_epoch)

    def append(self, producer: Producer) -> None:
        """Begin the producer's transaction here."""
        batch = build_batch(
            [SimpleRecord(0, None, b"")],
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=0,
            is_transactional=True,
        )
        self.state.update(BatchHeader(batch, 0, 0), batch)


class World:
    """Partitions, and a coordinator that takes 5 ms for an answer."""

    def __init__(self, answer: ErrorCode = NONE) -> None:
        self.clock = ManualClock()
        self.metrics = MetricsRegistry(self.clock)
        self.is_verified = True
        self.partitions = {name: Hosted(name, name != THERE, lambda: self.is_verified) for name in (HERE, ALSO_HERE, THERE)}
        self.answer = answer
        self.answers: dict[TopicPartition, ErrorCode] = {}
        self.later: Future[Mapping[TopicPartition, ErrorCode]] | None = None
        """The coordinator's answer, if it comes later."""
        self.asked: list[Any] = []
        replicas: Any = self
        self.verification = TransactionVerification(replicas, self.ask, self.added, self.metrics)

    def get_partition(self, name: TopicPartition) -> Hosted | None:
        return self.partitions.get(name)

    def ask(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode] | Future[Mapping[TopicPartition, ErrorCode]]:
        self.clock.advance_ms(5)
        self.asked.append((transactional_id, producer, list(partitions)))
        return self.later or {each: self.answers.get(each, NONE) for each in partitions}

    def added(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition], version: int
    ) -> Mapping[TopicPartition, ErrorCode] | Future[Mapping[TopicPartition, ErrorCode]]:
        self.clock.advance_ms(5)
        self.asked.append((transactional_id, producer, list(partitions), version))
        return self.later or dict.fromkeys(partitions, self.answer)

    def add(self) -> Verified:
        verified = self.verification.add(ALL, "tx", PRODUCER)
        assert isinstance(verified, Verified)
        return verified

    def verify(self, **options: bool) -> Verified:
        verified = self.verification.verify(ALL, "tx", PRODUCER, **options)
        assert isinstance(verified, Verified)
        return verified

    def failures(self) -> object:
        return self.metrics.value(METRICS_TYPE, "VerificationFailureRate")

    def time_ms(self) -> float:
        snapshot = self.metrics.histogram_snapshot(METRICS_TYPE, "VerificationTimeMs")
        assert snapshot is not None
        return snapshot.mean


def test_partitions_that_are_led_here_are_verified() -> None:
    world = World()
    errors, guards = world.verify()
    assert errors == {}
    assert guards.keys() == {HERE, ALSO_HERE}
    assert world.asked == [("tx", PRODUCER, [HERE, ALSO_HERE])]
    assert (world.time_ms(), world.failures()) == (5, 0)


@pytest.mark.parametrize(
    ("answer", "knows_abortable", "error"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, True, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, False, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.PRODUCER_FENCED, True, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.NOT_COORDINATOR, False, ErrorCode.NOT_COORDINATOR),
    ],
)
def test_a_partition_outside_of_the_transaction_has_an_error(answer: ErrorCode, knows_abortable: bool, error: ErrorCode) -> None:
    world = World()
    world.answers = {HERE: answer}
    errors, guards = world.verify(knows_abortable=knows_abortable)
    assert errors == {HERE: error}
    assert guards.keys() == {ALSO_HERE}
    assert world.failures() == 1


def test_nobody_is_asked_if_there_is_nothing_to_verify() -> None:
    world = World()
    world.is_verified = False
    assert world.verify() == Verified({}, {})
    world.is_verified = True
    for name in (HERE, ALSO_HERE):
        world.partitions[name].append(PRODUCER)
    assert world.verify() == world.add() == Verified({}, {})
    assert world.asked == []


def test_partitions_are_added_whether_transactions_are_verified_or_not() -> None:
    world = World()
    world.is_verified = False
    errors, guards = world.add()
    assert errors == {}
    assert guards.keys() == {HERE, ALSO_HERE}
    assert world.asked == [("tx", PRODUCER, [HERE, ALSO_HERE], 2)]
    assert (world.time_ms(), world.failures()) == (5, 0)


def test_what_cannot_be_added_has_an_error_each() -> None:
    world = World(ErrorCode.PRODUCER_FENCED)
    assert world.add() == Verified(dict.fromkeys((HERE, ALSO_HERE), ErrorCode.INVALID_PRODUCER_EPOCH), {})
    assert world.failures() == 2


def test_a_producer_that_is_fenced_in_a_partition_is_not_added_there() -> None:
    world = World()
    world.partitions[HERE].append(Producer(7, 4))
    errors, guards = world.add()
    assert errors == {HERE: ErrorCode.INVALID_PRODUCER_EPOCH}
    assert guards.keys() == {ALSO_HERE}
    assert world.asked == [("tx", PRODUCER, [ALSO_HERE], 2)]
    world.answer = ErrorCode.NOT_COORDINATOR
    assert world.add() == Verified({HERE: ErrorCode.INVALID_PRODUCER_EPOCH, ALSO_HERE: ErrorCode.NOT_COORDINATOR}, {})


@pytest.mark.parametrize("is_adding", [False, True])
def test_an_answer_may_come_later(is_adding: bool) -> None:
    world = World()
    world.later = Future()
    ask: Any = world.verification.add if is_adding else world.verification.verify
    verified = ask(ALL, "tx", PRODUCER)
    assert not verified.done()
    world.clock.advance_ms(10)
    world.later.set_result({HERE: NONE, ALSO_HERE: ErrorCode.PRODUCER_FENCED})
    errors, guards = verified.result(0)
    assert errors == {ALSO_HERE: ErrorCode.INVALID_PRODUCER_EPOCH}
    assert guards.keys() == {HERE}
    assert (world.time_ms(), world.failures()) == (15, 1)
