"""Who hears how a transaction ended: whoever asked for it, with the answer, or the access log."""

from typing import Any

import pytest

from tests.support.transaction_bench import TransactionBench
from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.network.requests.request_context import TransactionOutcome
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.topic_partition import TopicPartition

PRODUCER = Producer(0, 0)


def begun(level: int = 0) -> TransactionBench:
    bench = TransactionBench()
    bench.transaction_version = level
    transactions: Any = bench.transactions
    assert transactions.init_producer_id("tx", 1000, None).producer == PRODUCER
    assert transactions.add_partitions("tx", PRODUCER, [TopicPartition("t", 0)], level) is ErrorCode.NONE
    bench.clock.advance_ms(300)
    return bench


@pytest.mark.parametrize(
    ("committed", "outcome"), [(True, TransactionOutcome.COMMITTED), (False, TransactionOutcome.ABORTED)], ids=["commit", "abort"]
)
@pytest.mark.parametrize("level", [0, 2])
def test_an_end_is_told_to_its_producer(level: int, committed: bool, outcome: TransactionOutcome) -> None:
    bench = begun(level)
    transactions: Any = bench.transactions
    end = transactions.end_transaction_with_bump if level == 2 else transactions.end_transaction
    ended = end("tx", PRODUCER, committed)
    assert (ended.error, ended.end.outcome, ended.end.transaction.lasted_ms) == (ErrorCode.NONE, outcome, 300)
    assert bench.ends == []


@pytest.mark.parametrize(
    ("expected", "outcome"), [(None, TransactionOutcome.FENCED), (PRODUCER, TransactionOutcome.ABORTED)], ids=["other", "same"]
)
@pytest.mark.parametrize("level", [0, 2])
def test_a_producer_that_begins_anew_is_told_what_it_ends(
    level: int, expected: Producer | None, outcome: TransactionOutcome
) -> None:
    bench = begun(level)
    transactions: Any = bench.transactions
    answer = transactions.init_producer_id("tx", 1000, expected)
    assert (answer.error, answer.end.outcome) == (ErrorCode.CONCURRENT_TRANSACTIONS, outcome)
    assert transactions.init_producer_id("tx", 1000, None).end is None


def test_a_timeout_is_told_to_the_access_log() -> None:
    bench = begun()
    bench.advance(20_000)
    (end,) = bench.ends
    assert (end.outcome, end.transaction.transactional_id) == (TransactionOutcome.TIMED_OUT, "tx")


def test_an_end_that_fails_is_not_told() -> None:
    bench = begun()
    transactions: Any = bench.transactions
    bench.log.fail_next = [ErrorCode.NOT_ENOUGH_REPLICAS]
    answer = transactions.init_producer_id("tx", 1000, None)
    assert (answer.error, answer.end) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, None)
    assert bench.ends == []


def test_an_end_that_counts_after_all_is_told_to_the_access_log() -> None:
    bench = begun()
    transactions: Any = bench.transactions
    bench.log.holds = True
    answer = transactions.end_transaction("tx", PRODUCER, True)
    bench.log.release(ErrorCode.REQUEST_TIMED_OUT)
    assert answer.result(0).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.ends == []
    bench.log.commit()
    bench.advance(1000)
    assert [end.outcome for end in bench.ends] == [TransactionOutcome.COMMITTED]


def test_refused_markers_are_written_again_each_minute_and_can_be_seen() -> None:
    bench = TransactionBench()

    def stuck() -> Any:
        return bench.metrics.value("TransactionMarkerChannelManager", "FencedTransactionsCount")

    bench.brokers.errors = {
        TopicPartition("t", 0): ErrorCode.INVALID_PRODUCER_EPOCH,
        TopicPartition("t", 1): ErrorCode.NETWORK_EXCEPTION,
    }
    producer = bench.transactions.init_producer_id("tx", 60_000, None).producer
    bench.transactions.add_partitions("tx", producer, [TopicPartition("t", 0), TopicPartition("t", 1)])
    bench.transactions.end_transaction("tx", producer, True)
    assert (stuck(), bench.ends) == (0, []), "another partition has to be tried again first"
    del bench.brokers.errors[TopicPartition("t", 1)]
    bench.advance(100)
    assert stuck() == 1
    bench.advance(60_000)
    assert [(end.transaction.transactional_id, end.outcome) for end in bench.ends] == [("tx", TransactionOutcome.STUCK)] * 2
    bench.brokers.errors.clear()
    bench.advance(60_000)
    assert stuck() == 0
    assert bench.transactions.describe("tx")[1].state.label == "CompleteCommit"


def test_what_a_fenced_coordinator_waits_for_goes_with_it() -> None:
    bench = TransactionBench()
    bench.brokers.errors = {TopicPartition("t", 0): ErrorCode.TRANSACTION_COORDINATOR_FENCED}
    producer = bench.transactions.init_producer_id("tx", 60_000, None).producer
    bench.transactions.add_partitions("tx", producer, [TopicPartition("t", 0)])
    bench.transactions.end_transaction("tx", producer, True)
    bench.resign()
    bench.advance(120_000)
    assert len(bench.ends) == 1
