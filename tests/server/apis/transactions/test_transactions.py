"""AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, DescribeTransactions and ListTransactions in each version."""

from collections.abc import Iterable
from typing import Any

import pytest

from tests.server.apis.group_handlers import FakeMetadata, ask
from tests.support.coordinator_fakes import Bench
from tests.support.transaction_bench import TransactionBench
from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.network.requests.request_context import TransactionNote, TransactionOutcome
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.coordinators.transaction_admin import DescribeTransactionsRequest, ListTransactionsRequest
from twisted_kafka.protocol.messages.coordinators.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.server.apis.transactions.describe_transactions import TransactionAdminApis
from twisted_kafka.server.apis.transactions.transaction_notes import end_note, topic_notes
from twisted_kafka.server.apis.transactions.transactions import TransactionApis
from twisted_kafka.transaction_coordinator.markers.transaction_marker import TransactionMarker

Errors = dict[str, int]


class TransactionHandlers:
    """A producer with the transactional id "tx", producer id 0 and epoch 0, and topic "orders" with two partitions."""

    def __init__(self) -> None:
        self.bench = TransactionBench()
        self.groups = Bench(partitions=4).groups
        self.metadata = FakeMetadata(orders=2)
        self.family = TransactionApis(self.bench.transactions, self.groups, self.metadata)  # type: ignore[arg-type]
        self.admin = TransactionAdminApis(self.bench.transactions)
        self.context: Any = None
        self.init("tx")

    def init(self, transactional_id: str) -> None:
        self.bench.transactions.init_producer_id(transactional_id, 60_000, None)

    def ask(self, family: Any, request: Any, version: int) -> Any:
        response, self.context = ask(family, request, version)
        return response

    def add(self, version: int, *partitions: int, topic: str = "orders", epoch: int = 0, transactional_id: str = "tx") -> Errors:
        topics = [AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))]
        if version >= 4:
            return self.add_several(version, [self.transaction(topics, epoch, transactional_id)])[transactional_id]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=0,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=topics,
        )
        return errors_of(self.ask(self.family, request, version).results_by_topic_v3_and_below)

    def transaction(self, topics: list[Any], epoch: int = 0, transactional_id: str = "tx", verify_only: bool = False) -> Any:
        return AddPartitionsToTxnTransaction(
            transactional_id=transactional_id, producer_id=0, producer_epoch=epoch, topics=topics, verify_only=verify_only
        )

    def add_several(self, version: int, transactions: list[Any]) -> dict[str, Errors]:
        response = self.ask(self.family, AddPartitionsToTxnRequest(transactions=transactions), version)
        assert response.error_code == 0
        return {each.transactional_id: errors_of(each.topic_results) for each in response.results_by_transaction}

    def add_offsets(self, version: int, group_id: str, epoch: int = 0) -> int:
        request = AddOffsetsToTxnRequest(transactional_id="tx", producer_id=0, producer_epoch=epoch, group_id=group_id)
        return self.ask(self.family, request, version).error_code

    def end(self, version: int, committed: bool = True, epoch: int = 0, transactional_id: str = "tx") -> int:
        request = EndTxnRequest(transactional_id=transactional_id, producer_id=0, producer_epoch=epoch, committed=committed)
        return self.ask(self.family, request, version).error_code

    def partitions(self) -> Any:
        _, found = self.bench.transactions.describe("tx")
        assert found is not None
        return sorted(map(str, found.partitions))


def errors_of(topics: Iterable[Any]) -> Errors:
    return {
        f"{topic.name}-{each.partition_index}": each.partition_error_code for topic in topics for each in topic.results_by_partition
    }


@pytest.mark.parametrize("version", range(6))
def test_partitions_are_added_in_every_version(version: int) -> None:
    handlers = TransactionHandlers()
    assert handlers.add(version, 0, 1) == {"orders-0": 0, "orders-1": 0}
    assert handlers.partitions() == ["orders-0", "orders-1"]
    assert handlers.context.topics == [("orders", (0, 1), 0, 0, 0)]


@pytest.mark.parametrize("version", range(6))
def test_a_partition_that_is_not_there_keeps_the_others_from_being_added(version: int) -> None:
    handlers = TransactionHandlers()
    assert handlers.add(version, 0, 2) == {
        "orders-0": ErrorCode.OPERATION_NOT_ATTEMPTED,
        "orders-2": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert handlers.partitions() == []
    assert handlers.context.error == ErrorCode.OPERATION_NOT_ATTEMPTED


@pytest.mark.parametrize("version", range(6))
def test_producers_may_not_write_to_internal_topics(version: int) -> None:
    handlers = TransactionHandlers()
    handlers.metadata.topics["__consumer_offsets"] = 1
    error = handlers.add(version, 0, topic="__consumer_offsets")["__consumer_offsets-0"]
    assert error == (0 if version >= 4 else ErrorCode.TOPIC_AUTHORIZATION_FAILED)  # as other brokers may verify


@pytest.mark.parametrize(("version", "error"), [(1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, ErrorCode.PRODUCER_FENCED)])
def test_a_fenced_producer_is_told_so_in_the_words_that_it_knows(version: int, error: ErrorCode) -> None:
    handlers = TransactionHandlers()
    assert handlers.add(version, 0, epoch=1) == {"orders-0": error}
    assert handlers.add_offsets(version, "g", epoch=1) == error
    assert handlers.end(version, epoch=1) == error
    assert handlers.context.error == error


def test_several_transactions_at_once_some_of_which_are_only_verified() -> None:
    handlers = TransactionHandlers()
    handlers.init("other")
    handlers.add(3, 0)
    topics = [AddPartitionsToTxnTopic(name="orders", partitions=[0, 1])]
    answer = handlers.add_several(
        5, [handlers.transaction(topics, verify_only=True), handlers.transaction(topics, transactional_id="other")]
    )
    assert answer == {
        "tx": {"orders-0": 0, "orders-1": ErrorCode.TRANSACTION_ABORTABLE},
        "other": {"orders-0": ErrorCode.INVALID_PRODUCER_ID_MAPPING, "orders-1": ErrorCode.INVALID_PRODUCER_ID_MAPPING},
    }
    assert handlers.partitions() == ["orders-0"]
    assert handlers.add_several(4, []) == {}


def test_an_id_without_a_name() -> None:
    handlers = TransactionHandlers()
    assert handlers.add(3, 0, transactional_id="") == {"orders-0": ErrorCode.INVALID_REQUEST}
    assert handlers.end(3, transactional_id="") == ErrorCode.INVALID_REQUEST
    topics = [AddPartitionsToTxnTopic(name="orders", partitions=[0])]
    verified = handlers.add_several(5, [handlers.transaction(topics, transactional_id="", verify_only=True)])
    assert verified == {"": {"orders-0": ErrorCode.INVALID_REQUEST}}


@pytest.mark.parametrize("version", range(5))
def test_offsets_and_the_end_in_every_version(version: int) -> None:
    handlers = TransactionHandlers()
    group_partition = handlers.groups.partition_for("g")
    assert handlers.add_offsets(version, "g") == 0
    assert handlers.context.topics == [("__consumer_offsets", (group_partition,), 0, 0, 0)]
    assert handlers.partitions() == [f"__consumer_offsets-{group_partition}"]
    assert handlers.end(version) == 0
    partition = TopicPartition("__consumer_offsets", group_partition)
    assert handlers.bench.brokers.written == [
        (partition, TransactionMarker(Producer(0, 0), 0, True, frozenset({partition}), log_partition=0))
    ]
    assert handlers.context.topics == [("__consumer_offsets", (group_partition,), 0, 0, 0)]
    assert handlers.end(version, committed=False) == ErrorCode.INVALID_TXN_STATE
    assert handlers.context.error == ErrorCode.INVALID_TXN_STATE
    assert handlers.context.topics is None


def test_version_5_ends_a_transaction_with_an_epoch_and_gives_the_next_one() -> None:
    handlers = TransactionHandlers()

    def end(epoch: int, committed: bool = True) -> tuple[int, int, int]:
        request = EndTxnRequest(transactional_id="tx", producer_id=0, producer_epoch=epoch, committed=committed)
        answer = handlers.ask(handlers.family, request, 5)
        return answer.error_code, answer.producer_id, answer.producer_epoch

    assert handlers.add(5, 0) == {"orders-0": 0}
    handlers.bench.advance(700)
    assert end(0) == (0, 0, 1)
    assert handlers.context.transaction == TransactionNote("tx", TransactionOutcome.COMMITTED, 700)
    assert handlers.context.topics == [("orders", (0,), 0, 0, 0)]
    ((_, marker),) = handlers.bench.brokers.written
    assert (marker.producer, marker.transaction_version) == (Producer(0, 1), 2)
    assert end(0) == (0, 0, 1)
    assert handlers.context.transaction == TransactionNote("tx")
    assert end(0, committed=False) == (ErrorCode.INVALID_TXN_STATE, -1, -1)
    assert handlers.context.error == ErrorCode.INVALID_TXN_STATE
    assert end(1, committed=False) == (0, 0, 2)
    assert handlers.context.transaction == TransactionNote("tx")  # there was none
    assert handlers.context.topics is None
    assert end(0) == (ErrorCode.PRODUCER_FENCED, -1, -1)


def test_the_next_epoch_is_not_told_to_producers_that_have_none() -> None:
    handlers = TransactionHandlers()
    handlers.add(3, 0)
    request = EndTxnRequest(transactional_id="tx", producer_id=0, producer_epoch=0, committed=True)
    answer = handlers.ask(handlers.family, request, 4)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, -1, -1)
    assert handlers.end(4) == 0


def test_the_access_log_hears_how_and_after_what_time_a_transaction_ends() -> None:
    handlers = TransactionHandlers()
    for committed, outcome in ((True, TransactionOutcome.COMMITTED), (False, TransactionOutcome.ABORTED)):
        handlers.add(3, 0, 1)
        assert handlers.context.transaction == TransactionNote("tx")
        handlers.bench.advance(700)
        handlers.add_offsets(3, "g")
        assert handlers.context.transaction == TransactionNote("tx")
        handlers.bench.advance(500)
        assert handlers.end(3, committed) == 0
        assert handlers.context.transaction == TransactionNote("tx", outcome, 1_200)
        assert handlers.context.topics == [
            ("__consumer_offsets", (handlers.groups.partition_for("g"),), 0, 0, 0),
            ("orders", (0, 1), 0, 0, 0),
        ]
        assert handlers.end(3, committed) == 0  # asked again: it has ended before
        assert handlers.context.transaction == TransactionNote("tx")
    handlers.add(3, 0)
    assert handlers.end(3, epoch=5) == ErrorCode.PRODUCER_FENCED
    assert handlers.context.transaction == TransactionNote("tx")
    assert handlers.bench.ends == []


def test_an_end_whose_answer_is_an_error_is_told_when_it_is_certain() -> None:
    handlers = TransactionHandlers()
    handlers.add(3, 0)
    handlers.bench.advance(300)
    handlers.bench.log.holds = True
    request = EndTxnRequest(transactional_id="tx", producer_id=0, producer_epoch=0, committed=True)
    future = handlers.ask(handlers.family, request, 3)
    handlers.bench.log.release(ErrorCode.REQUEST_TIMED_OUT)
    assert future.result(0).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert handlers.context.transaction == TransactionNote("tx")
    assert handlers.bench.ends == []
    handlers.bench.log.holds = False
    handlers.bench.advance(200)
    assert handlers.end(3) == 0
    assert handlers.context.transaction == TransactionNote("tx")
    (end,) = handlers.bench.ends
    assert end_note(end) == TransactionNote("tx", TransactionOutcome.COMMITTED, 300)
    assert list(topic_notes(end)) == [("orders", (0,), 0, 0, 0)]


def test_a_timeout_is_told_once() -> None:
    handlers = TransactionHandlers()
    handlers.add(3, 0)
    handlers.bench.advance(60_000)
    assert handlers.bench.ends == []
    handlers.bench.advance(100_000)
    (end,) = handlers.bench.ends
    note = end_note(end)
    assert (note.transactional_id, note.outcome) == ("tx", TransactionOutcome.TIMED_OUT)
    assert note.duration_ms is not None
    assert 60_000 < note.duration_ms <= 70_000
    handlers.add(3, 0)
    assert handlers.context.error == ErrorCode.PRODUCER_FENCED
    assert handlers.context.transaction == TransactionNote("tx")


def test_the_answer_waits_for_replicas() -> None:
    handlers = TransactionHandlers()
    handlers.bench.log.holds = True
    request = AddOffsetsToTxnRequest(transactional_id="tx", producer_id=0, producer_epoch=0, group_id="g")
    future = handlers.ask(handlers.family, request, 4)
    assert not future.done()
    handlers.bench.log.release()
    assert future.result(0).error_code == 0


def test_describe() -> None:
    handlers = TransactionHandlers()
    handlers.add(3, 0, 1)
    response = handlers.ask(handlers.admin, DescribeTransactionsRequest(transactional_ids=["tx", "none", "", "tx"]), 0)
    found, none, empty = response.transaction_states
    assert (found.error_code, found.transactional_id, found.transaction_state) == (0, "tx", "Ongoing")
    assert (found.producer_id, found.producer_epoch, found.transaction_timeout_ms) == (0, 0, 60_000)
    assert found.transaction_start_time_ms == handlers.bench.clock.wall_ms()
    assert [(each.topic, each.partitions) for each in found.topics] == [("orders", [0, 1])]
    assert (none.transactional_id, none.error_code) == ("none", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    assert (empty.transactional_id, empty.error_code) == ("", ErrorCode.INVALID_REQUEST)
    assert handlers.context.topics == [("orders", (0, 1), 0, 0, 0)]


@pytest.mark.parametrize("version", range(3))
def test_list(version: int) -> None:
    handlers = TransactionHandlers()
    handlers.init("other")
    handlers.add(3, 0)

    def listed(**filters: Any) -> Any:
        response = handlers.ask(handlers.admin, ListTransactionsRequest(**filters), version)
        assert (response.error_code, handlers.context.error) == (0, 0)
        states = [(each.transactional_id, each.producer_id, each.transaction_state) for each in response.transaction_states]
        return states, response.unknown_state_filters

    both = [("other", 1, "Empty"), ("tx", 0, "Ongoing")]
    assert listed() == (both, [])
    assert listed(state_filters=["Ongoing", "What"]) == ([("tx", 0, "Ongoing")], ["What"])
    assert listed(producer_id_filters=[1]) == ([("other", 1, "Empty")], [])
    if version:
        assert listed(duration_filter=0) == ([("other", 1, "Empty")], [])


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (None, ["other", "tx"]),
        ("", ["other", "tx"]),
        ("t.", ["tx"]),
        ("t", []),
        (".*t.*", ["other", "tx"]),
        ("t(", None),
        ("x" * 2000, None),
    ],
)
def test_list_by_a_regular_expression(pattern: str | None, found: list[str] | None) -> None:
    handlers = TransactionHandlers()
    handlers.init("other")
    response = handlers.ask(handlers.admin, ListTransactionsRequest(transactional_id_pattern=pattern), 2)
    error = ErrorCode.INVALID_REGULAR_EXPRESSION if found is None else ErrorCode.NONE
    assert (response.error_code, handlers.context.error) == (error, error)
    assert [each.transactional_id for each in response.transaction_states] == (found or [])


def test_list_while_a_partition_loads() -> None:
    handlers = TransactionHandlers()
    handlers.bench.resign()
    handlers.bench.elect(5, load=False)
    response = handlers.ask(handlers.admin, ListTransactionsRequest(), 1)
    assert (response.error_code, response.transaction_states) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])
