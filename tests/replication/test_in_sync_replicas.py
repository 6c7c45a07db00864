"""In-sync replicas that grow and shrink: what the leader proposes to the controller, and what it makes of the answers."""

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from tests.support.replication_harness import BROKER, OTHER, TOPIC, TP, Harness, batch_of, follower_fetches, topic_id
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.controller import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.alter_partition_manager import RETRY_MAX_MS, RETRY_MS, AlterPartitionManager, Proposer
from twisted_kafka.replication.partition.partition import Partition

THIRD = 3
BOTH = (BROKER, OTHER)
ALL = (BROKER, OTHER, THIRD)
MAX_LAG_MS = 10_000
BROKER_EPOCH = 77


class Controller:
    """A controller that answers when the test says."""

    def __init__(self) -> None:
        self.requests: list[AlterPartitionRequest] = []
        self.versions: list[int | None] = []
        self._futures: list[Future[Any]] = []

    def send(self, request: Any, latest_version: int | None = None) -> "Future[Any]":
        request.encode(latest_version)  # it has the shape of that version
        self.requests.append(request)
        self.versions.append(latest_version)
        future: Future[Any] = Future()
        self._futures.append(future)
        return future

    @property
    def proposed(self) -> dict[int, list[int]]:
        """The in-sync replicas by partition of the latest request."""
        return {
            data.partition_index: [each.broker_id for each in data.new_isr_with_epochs] or data.new_isr
            for topic in self.requests[-1].topics
            for data in topic.partitions
        }

    @property
    def unanswered(self) -> int:
        return len(self._futures)

    def answer(self, *errors: ErrorCode, epoch: int = 0, partition_epoch: int = 1, error: ErrorCode = ErrorCode.NONE) -> None:
        """Answer the oldest request: an error for each partition, or its success."""
        request = self.requests[-len(self._futures)]
        left = list(errors)
        topics = []
        for topic in request.topics:
            partitions = []
            for data in topic.partitions:
                code = left.pop(0) if left else ErrorCode.NONE
                isr = [each.broker_id for each in data.new_isr_with_epochs] or data.new_isr
                partitions.append(
                    AlterPartitionResponsePartitionData(
                        partition_index=data.partition_index,
                        error_code=code,
                        leader_id=BROKER,
                        leader_epoch=epoch,
                        isr=[] if code else isr,
                        partition_epoch=partition_epoch,
                    )
                )
            topics.append(AlterPartitionResponseTopicData(topic_id=topic.topic_id, partitions=partitions))
        self._futures.pop(0).set_result(AlterPartitionResponse(error_code=error, topics=[] if error else topics))

    def answer_without_partitions(self) -> None:
        self._futures.pop(0).set_result(AlterPartitionResponse())

    def fail(self) -> None:
        self._futures.pop(0).set_exception(ConnectionError("the controller is gone"))


@pytest.fixture
def h(tmp_path: Path) -> Harness:
    harness = Harness(tmp_path, replica_lag_time_max_ms=MAX_LAG_MS)
    harness.advance_ms(10 * MAX_LAG_MS)
    return harness


@pytest.fixture
def controller(h: Harness) -> Controller:
    return with_controller(h)


def with_controller(h: Harness, *, knows_epochs: bool = True) -> Controller:
    controller = Controller()
    replicas = h.replicas
    replicas.set_in_sync_replicas(
        AlterPartitionManager(
            Proposer(BROKER, lambda: BROKER_EPOCH, knows_epochs, controller),
            replicas.partitions,
            replicas.purgatories,
            h.timer,
            MAX_LAG_MS,
            h.metrics,
            lambda action: action(),
        )
    )
    return controller


def meters(h: Harness) -> tuple[int, int, int]:
    """Return how often replicas have joined and left, and how many proposals came to nothing."""
    names = ("IsrExpandsPerSec", "IsrShrinksPerSec", "FailedIsrUpdatesPerSec")
    joined, left, failed = (h.metrics.value("ReplicaManager", name) for name in names)
    return int(str(joined)), int(str(left)), int(str(failed))


def lead_alone_in_sync(h: Harness, partition: int = 0) -> Partition:
    return h.lead(partition=partition, replicas=BOTH, isr=(BROKER,))


def test_a_follower_that_has_what_is_committed_joins(h: Harness, controller: Controller) -> None:
    partition = lead_alone_in_sync(h)
    h.append(b"a", b"b")
    follower_fetches(h, 1)
    assert controller.requests == []
    follower_fetches(h, 2)
    (request,) = controller.requests
    (topic,) = request.topics
    (data,) = topic.partitions
    assert (request.broker_id, request.broker_epoch, controller.versions) == (BROKER, BROKER_EPOCH, [3])
    assert (topic.topic_name, topic.topic_id, data.leader_epoch, data.partition_epoch) == (TOPIC, topic_id(TOPIC), 0, 0)
    assert {each.broker_id: each.broker_epoch for each in data.new_isr_with_epochs} == {BROKER: BROKER_EPOCH, OTHER: -1}
    assert partition.isr == frozenset({BROKER}), "it is not confirmed"
    controller.answer(partition_epoch=5)
    assert (partition.isr, partition.partition_epoch) == (frozenset(BOTH), 5)
    assert meters(h) == (1, 0, 0)


def test_a_follower_that_lags_leaves(h: Harness, controller: Controller) -> None:
    partition = h.lead(replicas=BOTH)
    waiting = h.append(b"a", acks=-1, timeout_ms=100 * MAX_LAG_MS)
    h.advance_ms(MAX_LAG_MS // 2)
    h.advance_ms(MAX_LAG_MS // 2)
    assert controller.requests == []
    h.advance_ms(MAX_LAG_MS // 2)
    assert controller.proposed == {0: [BROKER]}
    assert (partition.log.high_watermark, waiting.done()) == (0, False), "nothing is committed before the controller has confirmed"
    controller.answer()
    assert (partition.isr, partition.log.high_watermark) == (frozenset({BROKER}), 1)
    assert waiting.result()[TP].error == ErrorCode.NONE
    assert meters(h) == (0, 1, 0)


def test_the_high_watermark_waits_for_a_follower_that_is_about_to_join(h: Harness, controller: Controller) -> None:
    partition = lead_alone_in_sync(h)
    follower_fetches(h, 0)
    assert controller.proposed == {0: [BROKER, OTHER]}
    h.advance_ms(2 * MAX_LAG_MS)  # it is not about to catch up any more, but may have joined
    h.append(b"a")
    assert partition.log.high_watermark == 0
    controller.answer(ErrorCode.INELIGIBLE_REPLICA)
    h.append(b"b")
    assert (partition.isr, partition.log.high_watermark) == (frozenset({BROKER}), 2)


def test_what_waited_for_a_refused_follower_is_committed_at_once(h: Harness, controller: Controller) -> None:
    partition = h.lead(replicas=ALL, isr=(BROKER, THIRD))
    follower_fetches(h, 0)  # it is about to stop, and the controller does not let it join
    waiting = h.append(b"a", acks=-1, timeout_ms=100 * MAX_LAG_MS)
    h.advance_ms(2 * MAX_LAG_MS)  # that one is not about to catch up any more, but may have joined
    follower_fetches(h, 1, replica=THIRD)
    assert (partition.log.high_watermark, waiting.done()) == (0, False)
    controller.answer(ErrorCode.INELIGIBLE_REPLICA)
    assert waiting.result()[TP].error == ErrorCode.NONE


def test_nothing_else_is_proposed_before_the_answer(h: Harness, controller: Controller) -> None:
    lead_alone_in_sync(h)
    for _ in range(3):
        follower_fetches(h, 0)
        h.advance_ms(MAX_LAG_MS)
    assert len(controller.requests) == 1


def test_one_request_at_a_time_has_all_that_was_proposed_meanwhile(h: Harness, controller: Controller) -> None:
    partitions = [h.lead(partition=index, replicas=BOTH) for index in range(3)]
    h.append(b"a")
    for _ in range(3):
        h.advance_ms(MAX_LAG_MS // 2)
    assert controller.proposed == {0: [BROKER]}
    for index in (1, 2):
        h.append(b"a", topic_partition=TopicPartition(TOPIC, index))
    for _ in range(3):
        h.advance_ms(MAX_LAG_MS // 2)
    assert len(controller.requests) == 1
    controller.answer()
    assert controller.proposed == {1: [BROKER], 2: [BROKER]}
    controller.answer()
    assert [partition.isr for partition in partitions] == [frozenset({BROKER})] * 3


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    ],
)
def test_what_the_controller_knows_better_is_not_proposed_again(h: Harness, controller: Controller, error: ErrorCode) -> None:
    partition = lead_alone_in_sync(h)
    follower_fetches(h, 0)
    controller.answer(error)
    h.advance_ms(10 * RETRY_MS)
    follower_fetches(h, 0)
    assert (len(controller.requests), partition.isr, meters(h)) == (1, frozenset({BROKER}), (0, 0, 1))
    assert partition.maximal_isr == frozenset(BOTH), "it may have been made"
    assert h.order(replicas=BOTH, isr=(BROKER,), epoch=1, version=9) == 0
    follower_fetches(h, 0)
    assert len(controller.requests) == 2, "the controller has said more"


@pytest.mark.parametrize("error", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
def test_what_was_not_applied_is_proposed_anew_with_the_next_fetch(h: Harness, controller: Controller, error: ErrorCode) -> None:
    lead_alone_in_sync(h)
    follower_fetches(h, 0)
    controller.answer(error)
    h.advance_ms(10 * RETRY_MS)
    assert len(controller.requests) == 1
    follower_fetches(h, 0)
    assert len(controller.requests) == 2


def test_it_is_proposed_again_after_any_other_failure(h: Harness, controller: Controller) -> None:
    partition = lead_alone_in_sync(h)
    follower_fetches(h, 0)
    for number, fail in enumerate(
        (
            lambda: controller.answer(ErrorCode.UNKNOWN_SERVER_ERROR),
            lambda: controller.answer(error=ErrorCode.STALE_BROKER_EPOCH),
            controller.answer_without_partitions,
            controller.fail,
        ),
        start=1,
    ):
        fail()
        pause_ms = RETRY_MS << (number - 1)
        h.advance_ms(pause_ms - 1)
        assert (len(controller.requests), controller.unanswered) == (number, 0)
        h.advance_ms(1)
        assert controller.proposed == {0: [BROKER, OTHER]}
    for _ in range(5):
        controller.fail()
        h.advance_ms(RETRY_MAX_MS)
    assert len(controller.requests) == 10
    controller.answer()
    assert partition.isr == frozenset(BOTH)


def test_a_proposal_that_cannot_be_sent_is_proposed_again(
    h: Harness, controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = lead_alone_in_sync(h)
    send = controller.send

    def fail(*_: Any) -> Any:
        raise ValueError("a fault of ours")

    monkeypatch.setattr(controller, "send", fail)
    follower_fetches(h, 0)
    monkeypatch.setattr(controller, "send", send)
    h.advance_ms(RETRY_MS)
    controller.answer()
    assert partition.isr == frozenset(BOTH)


@pytest.mark.parametrize("how", [{"epoch": 9}, {"partition_epoch": -5}])
def test_an_answer_about_another_epoch_is_ignored(h: Harness, controller: Controller, how: Any) -> None:
    partition = lead_alone_in_sync(h)
    follower_fetches(h, 0)
    controller.answer(**how)
    assert (partition.isr, meters(h)) == (frozenset({BROKER}), (0, 0, 1))


def test_an_answer_to_what_it_proposed_in_another_epoch_is_ignored(h: Harness, controller: Controller) -> None:
    partition = lead_alone_in_sync(h)
    follower_fetches(h, 0)
    h.order(leader=OTHER, replicas=BOTH, epoch=1, version=1)
    controller.answer(epoch=1, partition_epoch=7)
    assert (partition.isr, partition.partition_epoch) == (frozenset(), 1)
    h.order(replicas=BOTH, isr=(BROKER,), epoch=2, version=2)
    follower_fetches(h, 0)
    assert controller.proposed == {0: [BROKER, OTHER]}
    controller.answer(epoch=2, partition_epoch=3)
    assert partition.isr == frozenset(BOTH)


def test_a_new_epoch_has_to_wait_for_the_answer_of_the_old_one(h: Harness, controller: Controller) -> None:
    partition = lead_alone_in_sync(h)
    follower_fetches(h, 0)
    h.order(replicas=BOTH, isr=(BROKER,), epoch=1, version=1)
    follower_fetches(h, 0)
    assert (len(controller.requests), partition.maximal_isr) == (1, frozenset({BROKER}))
    controller.answer(ErrorCode.FENCED_LEADER_EPOCH)
    follower_fetches(h, 0)
    assert [each.topics[0].partitions[0].leader_epoch for each in controller.requests] == [0, 1]


def test_a_broker_that_is_not_alive_does_not_join(h: Harness, controller: Controller) -> None:
    h.order(replicas=BOTH, isr=(BROKER,))
    follower_fetches(h, 0)
    assert controller.requests == []
    h.announce(replicas=BOTH)
    follower_fetches(h, 0)
    assert len(controller.requests) == 1


def test_a_follower_joins_only_with_what_the_leader_had_at_first(h: Harness, controller: Controller) -> None:
    h.lead(replicas=BOTH, isr=(BROKER,))
    h.append(b"a")
    h.order(leader=OTHER, replicas=BOTH, epoch=1, version=1)
    partition = h.replicas.get_partition_or_error(TP)
    partition.log.truncate_fully_and_start_at(0)
    partition.append_as_follower(batch_of(b"a", b"b"), 0, 1)
    assert partition.log.high_watermark == 0
    h.order(replicas=BOTH, isr=(BROKER,), epoch=2, version=2)
    follower_fetches(h, 1)
    assert controller.requests == []
    follower_fetches(h, 2)
    assert len(controller.requests) == 1


def test_brokers_of_older_protocol_versions_send_no_epochs(h: Harness) -> None:
    controller = with_controller(h, knows_epochs=False)
    partition = lead_alone_in_sync(h)
    follower_fetches(h, 0)
    assert (controller.versions, controller.proposed) == ([2], {0: [BROKER, OTHER]})
    controller.answer()
    assert partition.isr == frozenset(BOTH)


def test_a_topic_without_an_id_goes_by_its_name(h: Harness, controller: Controller) -> None:
    h.order(replicas=BOTH, isr=(BROKER,), topic_uuid=bytes(16))
    h.announce(replicas=BOTH, topic_uuid=bytes(16))
    follower_fetches(h, 0)
    assert (controller.versions, controller.proposed) == ([1], {0: [BROKER, OTHER]})


def test_too_few_are_in_sync_while_one_may_have_left(h: Harness, controller: Controller) -> None:
    h.lead(config={"min.insync.replicas": "2"}, replicas=BOTH)
    waiting = h.append(b"a", acks=-1, timeout_ms=100 * MAX_LAG_MS)
    for _ in range(3):
        h.advance_ms(MAX_LAG_MS // 2)
    assert controller.proposed == {0: [BROKER]}
    follower_fetches(h, 1)
    assert waiting.result()[TP].error == ErrorCode.NONE, "it is still in sync as far as anybody knows"
    controller.answer()
    assert h.append(b"b", acks=-1).error == ErrorCode.NOT_ENOUGH_REPLICAS
