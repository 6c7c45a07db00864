from concurrent.futures import Future
from typing import Any

import pytest

from tests.server.apis.group_handlers import Handlers, ask, codes
from tests.support.replication_harness import topic_id
from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.network.requests.request_context import TransactionNote
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.coordinators.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from twisted_kafka.protocol.records.batch import batches
from twisted_kafka.server.apis.transactions.transactional_offsets import TransactionalOffsetApis
from twisted_kafka.transaction_coordinator.verification import UNVERIFIABLE, Verified
from twisted_kafka.waiting.futures import then


class FakeVerification:
    """Says the same of all producers."""

    def __init__(self) -> None:
        self.answer = ErrorCode.NONE
        self.asked: list[Any] = []
        self.waiting: Future[None] | None = None
        """What the answer to ``add`` waits for."""

    def verify(self, sequences: Any, transactional_id: str, producer: Producer, *, knows_abortable: bool) -> Verified:
        self.asked.append((*sequences, transactional_id, producer))
        assert set(sequences.values()) == {-1}
        self.knows_abortable = knows_abortable
        return Verified(dict.fromkeys(sequences, self.answer) if self.answer else {}, {})

    def add(self, sequences: Any, transactional_id: str, producer: Producer) -> Any:
        added = self.verify(sequences, transactional_id, producer, knows_abortable=True)
        if self.waiting is None:
            return added
        return then(self.waiting, lambda _: added)


class TransactionalHandlers(Handlers):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.verification = FakeVerification()
        self.context: Any = None
        self.family = TransactionalOffsetApis(self.bench.groups, self.verification, self.metadata, self.bench.clock)  # type: ignore[arg-type]

    def commit(self, offsets: Any, version: int = 4, topic: str = "orders", metadata: str = "", **fields: Any) -> Any:
        partitions = [
            TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata=metadata)
            for index, offset in offsets.items()
        ]
        fields = {"transactional_id": "tx", "group_id": "g", "producer_id": 7, "producer_epoch": 2} | fields
        named = TxnOffsetCommitRequestTopic(name=topic, topic_id=topic_id(topic), partitions=partitions)
        request = TxnOffsetCommitRequest(topics=[named], **fields)  # type: ignore[arg-type]
        response, self.context = ask(self.family, request, version)
        return response


@pytest.mark.parametrize("version", range(7))
def test_each_version_writes_a_batch_of_the_transaction(version: Any) -> None:
    handlers = TransactionalHandlers()
    assert codes(handlers.commit({0: 5, 1: 6}, version, metadata="note")) == {0: 0, 1: 0}
    [data] = handlers.bench.log.batches["__consumer_offsets", 0]
    [batch] = batches(data)
    assert (batch.producer_id, batch.producer_epoch, batch.is_transactional) == (7, 2, True)
    assert batch.base_sequence == 0  # Kafka's cleaner refuses to write a producer's batch without one
    first, second = handlers.bench.written()
    assert (first.key.group, first.value.offset, second.value.offset, first.value.metadata) == ("g", 5, 6, "note")
    assert first.value.commit_timestamp == handlers.bench.clock.wall_ms()
    [(partition, transactional_id, producer)] = handlers.verification.asked
    assert (partition, transactional_id, producer) == (("__consumer_offsets", 0), "tx", (7, 2))
    assert handlers.context.transaction == TransactionNote("tx")
    assert handlers.context.group == ("g", "", -1)
    assert handlers.context.topics == [("orders", (0, 1), 0, 0, 0)]


def test_partitions_that_are_not_there_and_metadata_that_is_too_large() -> None:
    handlers = TransactionalHandlers(offset_metadata_max_bytes=10)
    assert codes(handlers.commit({0: 5, 4: 5}, metadata="x" * 11)) == {0: 12, 4: 3}
    assert codes(handlers.commit({0: 5}, topic="none")) == {0: 3}
    assert handlers.bench.written() == []
    handlers.verification.answer = ErrorCode.INVALID_TXN_STATE
    assert codes(handlers.commit({0: 5, 1: 5, 4: 5}, metadata="x" * 11)) == {0: 48, 1: 48, 4: 3}


def test_the_id_of_a_topic_that_is_gone() -> None:
    handlers = TransactionalHandlers()
    assert codes(handlers.commit({0: 5}, 6, topic="gone")) == {0: ErrorCode.UNKNOWN_TOPIC_ID}
    assert handlers.bench.written() == []
    assert handlers.context.topics == [(topic_id("gone").hex(), (0,), 0, 0, ErrorCode.UNKNOWN_TOPIC_ID)]


def test_what_is_not_verified_is_not_written() -> None:
    handlers = TransactionalHandlers()
    handlers.verification.answer = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert codes(handlers.commit({0: 5})) == {0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    assert handlers.bench.written() == []


def test_errors_that_a_producer_does_not_expect_of_a_group_coordinator() -> None:
    handlers = TransactionalHandlers()
    for error in UNVERIFIABLE:
        handlers.verification.answer = error
        assert codes(handlers.commit({0: 5})) == {0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
        assert handlers.verification.knows_abortable
        assert codes(handlers.commit({0: 5}, 1)) == {0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
        assert not handlers.verification.knows_abortable
    assert handlers.bench.written() == []


def test_since_version_5_the_groups_partition_is_added() -> None:
    handlers = TransactionalHandlers()
    for error, told in {
        ErrorCode.CONCURRENT_TRANSACTIONS: ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.INVALID_PRODUCER_EPOCH: ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TRANSACTION_ABORTABLE: ErrorCode.TRANSACTION_ABORTABLE,
    }.items():
        handlers.verification.answer = error
        assert codes(handlers.commit({0: 5}, 5)) == {0: told}
    assert handlers.bench.written() == []
    handlers.verification.answer = ErrorCode.NONE
    handlers.verification.waiting = Future()
    answer = handlers.commit({0: 5}, 5)
    assert handlers.bench.written() == []
    handlers.verification.waiting.set_result(None)
    assert codes(answer.result(0)) == {0: 0}
    assert len(handlers.bench.written()) == 1


def test_groups_without_a_name_and_coordinators_that_load() -> None:
    handlers = TransactionalHandlers()
    assert codes(handlers.commit({0: 5}, group_id="")) == {0: ErrorCode.INVALID_GROUP_ID}
    handlers.bench.restart(load=False)
    handlers.bench.elect(epoch=1, load=False)
    handlers.family = TransactionalOffsetApis(handlers.bench.groups, handlers.verification, handlers.metadata, handlers.bench.clock)  # type: ignore[arg-type]
    assert codes(handlers.commit({0: 5}, 2)) == {0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    assert codes(handlers.commit({0: 5}, 1)) == {0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert handlers.verification.asked == []


def test_the_answer_waits_for_replicas() -> None:
    handlers = TransactionalHandlers()
    handlers.bench.log.holds = True
    answer = handlers.commit({0: 5})
    assert not answer.done()
    handlers.bench.log.release()
    assert codes(answer.result(0)) == {0: 0}
