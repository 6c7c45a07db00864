"""Transactions and producers, and the transactions that no coordinator will end."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from twisted_kafka.console.cluster.coordinators import TRANSACTION, ask_coordinator
from twisted_kafka.console.cluster.offsets import by_topic, partition_answers
from twisted_kafka.console.cluster.problems import CommandError, problem, unknown
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.queries.paging import Asked, Page, paged
from twisted_kafka.console.queries.topics.catalogue import catalogue
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.coordinators.transaction_admin import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
    TopicRequest,
)
from twisted_kafka.protocol.topic_partition import TopicPartition

OLD_MINUTES: Final = 20.0
"""Kafka's longest transaction (transaction.max.timeout.ms) is 15 minutes by default; brokers may abort 5 minutes later."""
MOST_PARTITIONS: Final = 10_000
"""Most partitions that are searched for hanging transactions."""

_ORDERS: Final[Mapping[str, Callable[["TransactionName"], Any]]] = {
    "name": lambda each: each.transactional_id,
    "state": lambda each: (each.state, each.transactional_id),
    "producer_id": lambda each: each.producer_id,
}


@dataclass(frozen=True, slots=True)
class TransactionName:
    """A transactional id as the list of a coordinator has it."""

    transactional_id: str
    state: str
    producer_id: int
    coordinator: int


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transactional id with its open transaction."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int
    """Since the epoch; -1 without an open transaction."""
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ProducerState:
    """A producer as a partition knows it."""

    topic: str
    partition: int
    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    start_offset: int | None
    """The first offset of its open transaction."""


@dataclass(frozen=True, slots=True)
class Hanging:
    """Open transactions of partitions that no coordinator will end."""

    items: tuple[ProducerState, ...]
    searched: int
    """Partitions."""
    stopped: str = ""


def transactions(session: Session, asked: Asked, *, states: Sequence[str] = ()) -> Page[TransactionName]:
    """Return a page of transactional ids, sorted by ``name``, ``state`` or ``producer_id``. Raises CommandError."""
    silent: list[CommandError] = []
    found = listed(session, ListTransactionsRequest(state_filters=list(states)), silent)
    stopped = f"because {silent[0]}" if silent else ""
    return paged([each for each in found if asked.finds(each.transactional_id)], asked, _ORDERS, stopped)


def listed(session: Session, request: ListTransactionsRequest, silent: list[CommandError] | None = None) -> list[TransactionName]:
    """Return the transactional ids of all brokers, by id. With ``silent`` it gets the errors of brokers whose ids are missing.

    Raises CommandError, with ``silent`` only if no broker answers; ValueError for an unknown state.
    """
    found: list[TransactionName] = []
    session.retrying(lambda: session.metadata([]))
    for node, response in session.ask_brokers(request, silent).items():
        if response.unknown_state_filters:
            raise ValueError(f"unknown state {response.unknown_state_filters[0]!r}: Ongoing, PrepareCommit, CompleteAbort are some")
        found += [
            TransactionName(each.transactional_id, each.transaction_state, each.producer_id, node)
            for each in response.transaction_states
        ]
    return sorted(found, key=lambda each: each.transactional_id)


def transaction(session: Session, name: str) -> Transaction:
    """Return a transactional id. Raises CommandError."""

    def step() -> Any:
        request = DescribeTransactionsRequest(transactional_ids=[name])
        (found,) = ask_coordinator(session, name, TRANSACTION, request).transaction_states
        if found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            known = [each.transactional_id for each in listed(session, ListTransactionsRequest())]
            raise unknown("transactional id", name, known, "list them with twisted-kafka transactions list")
        if found.error_code:
            raise problem(f"transactional id {name}", found.error_code)
        return found

    found = session.retrying(step)
    return Transaction(
        name,
        found.transaction_state,
        found.producer_id,
        found.producer_epoch,
        found.transaction_timeout_ms,
        found.transaction_start_time_ms,
        tuple(TopicPartition(topic.topic, index) for topic in found.topics for index in sorted(topic.partitions)),
    )


def producers(
    session: Session, partitions: Sequence[TopicPartition], silent: list[CommandError] | None = None
) -> list[ProducerState]:
    """Return the producers of partitions, by partition and producer id. ``silent`` is as in ``Session.ask_leaders``.

    Raises CommandError.
    """

    def make(mine: Sequence[TopicPartition]) -> DescribeProducersRequest:
        return DescribeProducersRequest(
            topics=[TopicRequest(name=name, partition_indexes=indexes) for name, indexes in by_topic(mine).items()]
        )

    found = session.ask_leaders(partitions, make, partition_answers("topics", "name", "partitions"), silent=silent)
    return [
        ProducerState(
            partition.topic,
            partition.partition,
            each.producer_id,
            each.producer_epoch,
            each.last_sequence,
            each.last_timestamp,
            each.coordinator_epoch,
            each.current_txn_start_offset if each.current_txn_start_offset >= 0 else None,
        )
        for partition in sorted(found)
        for each in sorted(found[partition].active_producers, key=lambda each: each.producer_id)
    ]


def hanging(
    session: Session, names: Sequence[str], before_ms: float, may_have_open: Callable[[TopicPartition], bool] = lambda _: True
) -> Hanging:
    """Find open transactions without a record since ``before_ms`` that no coordinator will end, in topics, all if none is named.

    ``may_have_open`` is false for partitions that need not be asked. Raises CommandError.
    """
    partitions = _partitions(session, names)
    searched = partitions[:MOST_PARTITIONS]
    stopped = f"after {MOST_PARTITIONS:,} partitions" if len(partitions) > len(searched) else ""
    silent: list[CommandError] = []
    states = producers(session, [each for each in searched if may_have_open(each)], silent)
    old = [each for each in states if each.start_offset is not None and each.last_timestamp_ms < before_ms]
    ids = {each.producer_id: each.transactional_id for each in listed(session, ListTransactionsRequest())} if old else {}
    found = tuple(each for each in old if not _is_known(session, ids.get(each.producer_id), each))
    return Hanging(found, len(searched), f"because {silent[0]}" if silent else stopped)


def _partitions(session: Session, names: Sequence[str]) -> list[TopicPartition]:
    if not names:
        return [TopicPartition(each.name, index) for each in catalogue(session).topics for index in range(each.partitions)]
    return [TopicPartition(str(topic.name), each.partition_index) for topic in session.topics(names) for each in topic.partitions]


def _is_known(session: Session, name: str | None, state: ProducerState) -> bool:
    """Whether the coordinator has this transaction, and will end it."""
    if name is None:
        return False
    try:
        found = transaction(session, name)
    except CommandError as error:
        if error.code is None:  # the id is gone meanwhile
            return False
        raise
    return found.producer_epoch == state.epoch and TopicPartition(state.topic, state.partition) in found.partitions
