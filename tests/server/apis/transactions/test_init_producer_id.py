from typing import Any

import pytest

from tests.server.apis.group_handlers import ask
from tests.support.transaction_bench import TransactionBench
from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.network.requests.request_context import TransactionNote, TransactionOutcome
from twisted_kafka.protocol.errors import CoordinatorLoadInProgressError, ErrorCode
from twisted_kafka.protocol.messages.coordinators.transactions import InitProducerIdRequest
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.server.apis.transactions.init_producer_id import ProducerIdApis


class InitHandlers:
    def __init__(self) -> None:
        self.bench = TransactionBench()
        self.family = ProducerIdApis(self.bench.transactions)
        self.context: Any = None

    def init(self, version: int = 5, **fields: Any) -> tuple[int, int, int]:
        request = InitProducerIdRequest(**({"transactional_id": None, "transaction_timeout_ms": 60_000} | fields))
        response, self.context = ask(self.family, request, version)
        assert self.context.error == response.error_code
        return response.error_code, response.producer_id, response.producer_epoch


@pytest.mark.parametrize("version", range(6))
def test_init_in_every_version(version: Any) -> None:
    handlers = InitHandlers()
    for expected in range(2):
        assert handlers.init(version) == (0, expected, 0)
    for epoch in range(2):
        assert handlers.init(version, transactional_id="tx") == (0, 2, epoch)


def test_init_refusals() -> None:
    handlers = InitHandlers()
    assert handlers.init(transactional_id="") == (ErrorCode.INVALID_REQUEST, -1, -1)
    assert handlers.init(producer_id=5) == (ErrorCode.INVALID_REQUEST, -1, -1)
    assert handlers.init(producer_epoch=5) == (ErrorCode.INVALID_REQUEST, -1, -1)
    assert handlers.init(producer_id=5, producer_epoch=3) == (0, 0, 0)
    assert handlers.init(transactional_id="tx", transaction_timeout_ms=0) == (ErrorCode.INVALID_TRANSACTION_TIMEOUT, -1, -1)
    handlers.bench.producer_ids.failure = CoordinatorLoadInProgressError("")
    assert handlers.init() == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1, -1)
    assert handlers.init(transactional_id="tx") == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1, -1)


def test_a_fenced_producer_is_told_so_in_the_words_that_it_knows() -> None:
    handlers = InitHandlers()
    for epoch in range(3):
        assert handlers.init(transactional_id="tx") == (0, 0, epoch)
    continuing = {"transactional_id": "tx", "producer_id": 0, "producer_epoch": 1}
    assert handlers.init(3, **continuing) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1, -1)
    assert handlers.init(4, **continuing) == (ErrorCode.PRODUCER_FENCED, -1, -1)
    assert handlers.init(4, **continuing | {"producer_epoch": 2}) == (0, 0, 3)


def test_the_answer_waits_for_replicas() -> None:
    handlers = InitHandlers()
    handlers.bench.log.holds = True
    future, _ = ask(handlers.family, InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1), 5)
    assert not future.done()
    handlers.bench.log.release()
    assert (future.result(0).producer_id, future.result(0).producer_epoch) == (0, 0)


def test_an_open_transaction_is_aborted_first() -> None:
    handlers = InitHandlers()
    handlers.init(transactional_id="tx")
    assert not handlers.bench.transactions.add_partitions("tx", Producer(0, 0), [TopicPartition("t", 0)])
    handlers.bench.advance(700)
    assert handlers.init(transactional_id="tx") == (ErrorCode.CONCURRENT_TRANSACTIONS, -1, -1)
    assert handlers.context.transaction == TransactionNote("tx", TransactionOutcome.FENCED, 700, 60_000)
    assert handlers.context.topics == [("t", (0,), 0, 0, 0)]
    assert handlers.init(transactional_id="tx") == (0, 0, 2)
    assert handlers.context.transaction == TransactionNote("tx", timeout_ms=60_000)
    assert handlers.bench.ends == []


def test_a_producer_that_continues_aborts_its_own_transaction() -> None:
    handlers = InitHandlers()
    handlers.init(transactional_id="tx")
    assert not handlers.bench.transactions.add_partitions("tx", Producer(0, 0), [TopicPartition("t", 0)])
    handlers.init(transactional_id="tx", producer_id=0, producer_epoch=0)
    assert handlers.context.transaction == TransactionNote("tx", TransactionOutcome.ABORTED, 0, 60_000)


def test_a_producer_without_transactions_names_none() -> None:
    handlers = InitHandlers()
    handlers.init()
    assert handlers.context.transaction is None
