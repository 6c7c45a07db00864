"""The states of a transactional id as immutable values, and the functions from one state to the next.

Each function checks the table of states and raises IllegalTransitionError for a transition that is not in it: that is a defect of
the coordinator, not of its client.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.log.producer_state.producer_state_manager import BUMPED_SINCE
from twisted_kafka.network.requests.request_context import TransactionOutcome
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.transaction_coordinator.transaction_state import COMPLETED, VALID_PREVIOUS, TransactionState

NO_START_MS: Final = -1
NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
MAX_EPOCH: Final = 32_767
LAST_EPOCH: Final = MAX_EPOCH - 1
"""The last epoch that a producer may have: one more is left to fence it (Kafka: TransactionMetadata.isEpochExhausted)."""
NO_PARTITIONS: Final[frozenset[TopicPartition]] = frozenset()


class IllegalTransitionError(Exception):
    """A transition that is not in the table of states."""


class TransactionMetadata(NamedTuple):
    """A transactional id with its producer and its transaction (Kafka: TransactionMetadata). Timestamps are wall-clock times."""

    transactional_id: str
    producer: Producer
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition]
    """The partitions whose markers end the transaction; empty once all are written."""
    start_ms: int
    """When the transaction's first partition was added, NO_START_MS for a new producer."""
    last_update_ms: int
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id of the state before this one, NO_PRODUCER_ID if it was the same."""
    next_producer_id: int = NO_PRODUCER_ID
    """The producer id that the id gets when its transaction is complete, NO_PRODUCER_ID if it keeps the present one."""
    client_version: int = 0
    """The ``transaction.version`` that the producer of the last transaction spoke."""

    def is_timed_out(self, now_ms: int) -> bool:
        """Return whether the transaction is open for longer than its timeout."""
        return self.state is TransactionState.ONGOING and self.start_ms + self.timeout_ms < now_ms

    @property
    def lasted_ms(self) -> int:
        """How long the transaction was open when it was decided. Not negative, though the clock may have been set back."""
        return max(0, self.last_update_ms - self.start_ms)

    def partitions_by_topic(self) -> dict[str, list[int]]:
        """Return the indexes of each topic's partitions, all in order."""
        topics: dict[str, list[int]] = {}
        for topic, index in sorted(self.partitions):
            topics.setdefault(topic, []).append(index)
        return topics

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether the producer id has no further epoch for a client."""
        return self.producer.epoch >= LAST_EPOCH

    @property
    def next_producer(self) -> Producer:
        """The producer of the next transaction, once the outcome of this one is decided."""
        return self.producer if self.next_producer_id == NO_PRODUCER_ID else Producer(self.next_producer_id, 0)


class TransactionEnd(NamedTuple):
    """A transaction with its decided state, and how it came to that."""

    transaction: TransactionMetadata
    outcome: TransactionOutcome


def initialized(
    transactional_id: str, before: TransactionMetadata | None, producer: Producer, timeout_ms: int, now_ms: int
) -> TransactionMetadata:
    """Return the state after InitProducerId gave ``producer`` to the transactional id."""
    state, version = TransactionState.EMPTY, 0
    if before is not None:
        _ensure_valid(before, state)
        version = before.client_version
    return TransactionMetadata(
        transactional_id, producer, timeout_ms, state, NO_PARTITIONS, NO_START_MS, now_ms, client_version=version
    )


def with_partitions(
    before: TransactionMetadata, added: Iterable[TopicPartition], client_version: int, now_ms: int
) -> TransactionMetadata:
    """Return the state after partitions were added; the first ones begin the transaction."""
    _ensure_valid(before, TransactionState.ONGOING)
    return before._replace(
        state=TransactionState.ONGOING,
        partitions=before.partitions.union(added),
        start_ms=before.start_ms if before.state is TransactionState.ONGOING else now_ms,
        last_update_ms=now_ms,
        previous_producer_id=NO_PRODUCER_ID,
        client_version=client_version,
    )


def fenced(before: TransactionMetadata) -> TransactionMetadata:
    """Return the state with the epoch bumped, so that the producer of the ongoing transaction can do nothing more."""
    _ensure_valid(before, TransactionState.PREPARE_EPOCH_FENCE)
    producer_id, epoch = before.producer
    if epoch >= MAX_EPOCH:
        raise IllegalTransitionError(f"{before.transactional_id!r}: no epoch is left to fence producer {producer_id}")
    return before._replace(producer=Producer(producer_id, epoch + 1), state=TransactionState.PREPARE_EPOCH_FENCE)


def prepared(before: TransactionMetadata, committed: bool, now_ms: int) -> TransactionMetadata:
    """Return the state after the outcome was decided, with the present epoch: a bumped one if it is fenced."""
    state = TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT
    _ensure_valid(before, state)
    client_version = before.client_version if before.state is TransactionState.PREPARE_EPOCH_FENCE else 0
    return before._replace(state=state, last_update_ms=now_ms, previous_producer_id=NO_PRODUCER_ID, client_version=client_version)


def prepared_with_bump(before: TransactionMetadata, committed: bool, next_producer_id: int, now_ms: int) -> TransactionMetadata:
    """Return the state after the outcome was decided, with the epoch bumped: that of the markers, and of the next transaction.

    ``next_producer_id`` is required after the last epoch: the next transaction has that id then, and epoch 0.
    """
    state = TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT
    _ensure_valid(before, state)
    producer_id, epoch = before.producer
    if epoch >= MAX_EPOCH or (before.is_epoch_exhausted and next_producer_id == NO_PRODUCER_ID):
        raise IllegalTransitionError(
            f"{before.transactional_id!r}: no epoch is left for the next transaction of producer {producer_id}"
        )
    return before._replace(
        producer=Producer(producer_id, epoch + 1),
        state=state,
        start_ms=before.start_ms if before.state is TransactionState.ONGOING else now_ms,
        last_update_ms=now_ms,
        previous_producer_id=NO_PRODUCER_ID,
        next_producer_id=next_producer_id,
        client_version=BUMPED_SINCE,
    )


def completed(before: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    """Return the state after all markers were written."""
    state = COMPLETED.get(before.state)
    if state is None:
        raise IllegalTransitionError(f"{before.transactional_id!r}: {before.state.label} has no outcome")
    after = before._replace(state=state, partitions=NO_PARTITIONS, last_update_ms=now_ms)
    if before.next_producer_id == NO_PRODUCER_ID:
        return after
    return after._replace(
        producer=before.next_producer,
        previous_producer_id=before.producer.producer_id,
        next_producer_id=NO_PRODUCER_ID,
    )


def _ensure_valid(before: TransactionMetadata, state: TransactionState) -> None:
    if before.state not in VALID_PREVIOUS[state]:
        raise IllegalTransitionError(f"{before.transactional_id!r}: {state.label} may not follow {before.state.label}")
