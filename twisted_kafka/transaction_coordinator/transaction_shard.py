"""The transaction coordinator's shard: the transactional ids of one partition of ``__transaction_state``.

An operation reads the store and returns its answer, or the Write of the id's next state. Every method is called with the
partition's lock held.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from twisted.logger import Logger

from twisted_kafka.coordinator.coordinator_record import CoordinatorRecord, Producer, RecordKinds
from twisted_kafka.coordinator.effects import Effects, Write
from twisted_kafka.log.producer_state.producer_state_manager import BUMPED_SINCE
from twisted_kafka.network.requests.request_context import TransactionOutcome
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.transaction_coordinator.end_requests import STEPS, Step, sender_of
from twisted_kafka.transaction_coordinator.environment import TransactionEnvironment
from twisted_kafka.transaction_coordinator.transaction_completion import CoordinatorId, TransactionCompletion
from twisted_kafka.transaction_coordinator.transaction_metadata import (
    LAST_EPOCH,
    NO_PRODUCER_ID,
    TransactionEnd,
    TransactionMetadata,
    fenced,
    initialized,
    prepared,
    prepared_with_bump,
    with_partitions,
)
from twisted_kafka.transaction_coordinator.transaction_records import TRANSACTION_RECORD_KINDS
from twisted_kafka.transaction_coordinator.transaction_state import TransactionState
from twisted_kafka.transaction_coordinator.transaction_store import TransactionStore

_log = Logger()

R = TypeVar("R")

NO_PRODUCER: Final = Producer(-1, -1)
MAX_TOMBSTONES: Final = 1_000
"""Expired ids that are removed in one batch."""


class ProducerIdNeededError(Exception):
    """The operation needs a new producer id."""


class Initialized(NamedTuple):
    """The answer to InitProducerId: an error, or the producer's id and epoch; the end of the transaction that it aborts."""

    error: ErrorCode
    producer: Producer = NO_PRODUCER
    end: TransactionEnd | None = None


class Ended(NamedTuple):
    """The answer to EndTxn, and the transaction's end, which counts if there is no error. None if no transaction is open."""

    error: ErrorCode
    end: TransactionEnd | None = None
    producer: Producer = NO_PRODUCER
    """The producer of the next transaction, for clients with an epoch for each transaction."""


class TransactionShard:
    """Transactional ids of one partition (Kafka: TransactionCoordinator and TransactionStateManager)."""

    def __init__(self, effects: Effects, environment: TransactionEnvironment, coordinator: CoordinatorId) -> None:
        self.store = TransactionStore(environment.transaction_version)
        self.completion = TransactionCompletion(
            self.store, effects, environment.markers, environment.clock, coordinator, self._fenced
        )
        self._effects = effects
        self._clock = environment.clock
        self._config = environment.config
        self._on_end = environment.on_end
        self._transaction_version = environment.transaction_version
        self._before_bump: dict[str, Producer] = {}
        """Producers before their last epoch bump: such a producer may ask again if it did not get the answer.

        Not stored, as in Kafka: a change of the coordinator fences such a producer.
        """

    # the runtime's side

    def replay(self, record: CoordinatorRecord, producer_id: int, offset: int) -> None:
        """Apply a record that is in the log."""
        self.store.replay(record)

    def replay_end_transaction(self, producer_id: int, committed: bool) -> None:
        pass  # no transaction writes to this topic

    def key_of(self, record: CoordinatorRecord) -> str:
        """Return the record's transactional id."""
        return record.key.transactional_id  # type: ignore[no-any-return]

    def keys_of_transaction(self, producer_id: int) -> Collection[str]:
        """Return nothing: no transaction writes to this topic."""
        return ()

    def stored(self, key: str) -> TransactionMetadata | None:
        """Return the transactional id's state."""
        return self.store.get(key)

    def loaded(self) -> None:
        """Go on with the transactions whose outcome is decided."""
        self.completion.resume([metadata for metadata in self.store if metadata.state.is_prepared])

    def unloaded(self) -> None:
        """Stop writing markers."""
        self.completion.unloaded()
        self._before_bump.clear()

    # InitProducerId

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: Producer | None, new_producer_id: int | None
    ) -> Initialized | Write[Initialized]:
        """Give the transactional id's producer a new epoch, and abort what its predecessor has left open.

        ``expected`` is what the producer believes to be, if it continues after an error (KIP-360). Raises
        ProducerIdNeededError if a new producer id is needed: the caller allocates one, and tries again with it as
        ``new_producer_id``.
        """
        before = self.store.get(transactional_id)
        if before is None and not self.store.is_pending(transactional_id):
            if new_producer_id is None:
                raise ProducerIdNeededError
            return self._initialize(transactional_id, None, Producer(new_producer_id, 0), timeout_ms, None)
        if before is None or self.store.is_pending(transactional_id):
            return Initialized(ErrorCode.CONCURRENT_TRANSACTIONS)
        if expected is not None and not self._may_continue(before, expected):
            return Initialized(ErrorCode.PRODUCER_FENCED)
        if before.state is TransactionState.ONGOING:
            outcome = TransactionOutcome.FENCED if expected is None else TransactionOutcome.ABORTED
            return self._abort_for(before, outcome, new_producer_id)
        if before.is_epoch_exhausted and (expected is None or expected.epoch == before.producer.epoch):
            if new_producer_id is None:
                raise ProducerIdNeededError
            previous = None if expected is None else before.producer
            return self._initialize(transactional_id, before, Producer(new_producer_id, 0), timeout_ms, previous)
        return self._bump(before, timeout_ms, expected)

    def _may_continue(self, before: TransactionMetadata, expected: Producer) -> bool:
        if expected.producer_id == before.producer.producer_id:
            return True
        previous = self._before_bump.get(before.transactional_id)
        return previous is not None and expected.producer_id == previous.producer_id and expected.epoch >= LAST_EPOCH

    def _abort_for(
        self, before: TransactionMetadata, outcome: TransactionOutcome, new_producer_id: int | None
    ) -> Write[Initialized]:
        """Abort an ongoing transaction for a producer, which has to ask again when that is done."""

        def answer(error: ErrorCode, end: TransactionEnd) -> Initialized:
            return Initialized(error or ErrorCode.CONCURRENT_TRANSACTIONS, end=None if error else end)

        return self._abort_fenced(before, outcome, answer, new_producer_id)

    def _abort_fenced(
        self,
        before: TransactionMetadata,
        outcome: TransactionOutcome,
        answer: Callable[[ErrorCode, TransactionEnd], R],
        new_producer_id: int | None,
    ) -> Write[R]:
        """Abort an ongoing transaction with its epoch bumped, so that its producer can do nothing more in it.

        Since the epoch is bumped by every end, a producer may also ask for an abort that came before its own one.
        """
        if self._transaction_version() >= BUMPED_SINCE:
            return self._decide(before, TransactionEnd(self._bumped(before, False, new_producer_id), outcome), answer)
        self._before_bump.pop(before.transactional_id, None)
        return self._decide(before, TransactionEnd(prepared(fenced(before), False, self._clock.wall_ms()), outcome), answer)

    def _bumped(self, before: TransactionMetadata, committed: bool, new_producer_id: int | None) -> TransactionMetadata:
        next_producer_id = NO_PRODUCER_ID
        if before.is_epoch_exhausted:
            if new_producer_id is None:
                raise ProducerIdNeededError
            next_producer_id = new_producer_id
        return prepared_with_bump(before, committed, next_producer_id, self._clock.wall_ms())

    def _decide(
        self, before: TransactionMetadata, end: TransactionEnd, answer: Callable[[ErrorCode, TransactionEnd], R]
    ) -> Write[R]:
        """Return the write of a decision. If it fails and counts later, only ``on_end`` is called: the client has got the error."""
        after = end.transaction

        def decided(error: ErrorCode) -> R:
            is_bumped = after.client_version >= BUMPED_SINCE
            if is_bumped and self.store.get(after.transactional_id) == after:
                self._before_bump[after.transactional_id] = before.producer
            self.completion.decided(after, error, lambda: self._ended_late(end))
            return answer(error, end)

        return self.store.transition(after, decided)

    def _fenced(self, prepared: TransactionMetadata) -> None:
        self._on_end(TransactionEnd(prepared, TransactionOutcome.STUCK))

    def _ended_late(self, end: TransactionEnd) -> None:
        if end.transaction.partitions:
            self._on_end(end)

    def _bump(self, before: TransactionMetadata, timeout_ms: int, expected: Producer | None) -> Initialized | Write[Initialized]:
        producer_id, epoch = before.producer
        previous = self._before_bump.get(before.transactional_id)
        if expected is None:
            return self._initialize(before.transactional_id, before, Producer(producer_id, epoch + 1), timeout_ms, None)
        if expected.epoch == epoch:
            return self._initialize(before.transactional_id, before, Producer(producer_id, epoch + 1), timeout_ms, before.producer)
        if previous is not None and expected.epoch == previous.epoch:  # the answer to its last request was lost
            return self._initialize(before.transactional_id, before, before.producer, timeout_ms, previous)
        return Initialized(ErrorCode.PRODUCER_FENCED)

    def _initialize(
        self,
        transactional_id: str,
        before: TransactionMetadata | None,
        producer: Producer,
        timeout_ms: int,
        previous: Producer | None,
    ) -> Write[Initialized]:
        after = initialized(transactional_id, before, producer, timeout_ms, self._clock.wall_ms())
        if before is not None and before.producer.producer_id != producer.producer_id and self._transaction_version():
            after = after._replace(previous_producer_id=before.producer.producer_id)

        def answer(error: ErrorCode) -> Initialized:
            if self.store.get(transactional_id) == after:
                if previous is None:
                    self._before_bump.pop(transactional_id, None)
                else:
                    self._before_bump[transactional_id] = previous
            return Initialized(error) if error else Initialized(error, producer)

        return self.store.transition(after, answer)

    # AddPartitionsToTxn, AddOffsetsToTxn

    def add_partitions(
        self, transactional_id: str, producer: Producer, partitions: frozenset[TopicPartition], client_version: int
    ) -> ErrorCode | Write[ErrorCode]:
        """Add partitions to the producer's transaction; the first ones begin it.

        ``client_version`` is the ``transaction.version`` that the producer speaks.
        """
        before = self.store.get(transactional_id)
        if before is not None and client_version >= BUMPED_SINCE and self.store.is_pending(transactional_id):
            # Also for a producer that has got a new id, which counts when the last transaction is complete.
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if before is None or before.producer.producer_id != producer.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if before.producer.epoch != producer.epoch or producer.epoch > LAST_EPOCH:
            return ErrorCode.PRODUCER_FENCED
        if self.store.is_pending(transactional_id):
            return ErrorCode.CONCURRENT_TRANSACTIONS
        is_known = before.state is TransactionState.ONGOING and partitions <= before.partitions
        if is_known and not self.store.is_in_doubt(transactional_id):
            return ErrorCode.NONE
        return self.store.transition(with_partitions(before, partitions, client_version, self._clock.wall_ms()), ErrorCode)

    def verify_partitions(
        self, transactional_id: str, producer: Producer, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Return for each partition whether it is part of the producer's transaction (KIP-890): NONE or the error."""
        known = self.store.committed(transactional_id)
        if known is None or known.producer.producer_id != producer.producer_id:
            return dict.fromkeys(partitions, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if known.producer.epoch != producer.epoch:
            return dict.fromkeys(partitions, ErrorCode.PRODUCER_FENCED)
        if known.state.is_prepared:
            return dict.fromkeys(partitions, ErrorCode.CONCURRENT_TRANSACTIONS)
        return {each: ErrorCode.NONE if each in known.partitions else ErrorCode.TRANSACTION_ABORTABLE for each in partitions}

    # EndTxn

    def end_transaction(self, transactional_id: str, producer: Producer, committed: bool) -> Ended | Write[Ended]:
        """Commit or abort the producer's transaction; the answer does not wait for the markers."""
        before = self.store.get(transactional_id)
        if before is None or before.producer.producer_id != producer.producer_id:
            return Ended(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if before.producer.epoch != producer.epoch:
            return Ended(ErrorCode.PRODUCER_FENCED)
        if self.store.is_pending(transactional_id):
            return Ended(ErrorCode.CONCURRENT_TRANSACTIONS)
        if before.state is TransactionState.ONGOING:
            how = TransactionOutcome.COMMITTED if committed else TransactionOutcome.ABORTED
            return self._decide(before, TransactionEnd(prepared(before, committed, self._clock.wall_ms()), how), Ended)
        outcome = TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT
        return Ended(ErrorCode.NONE if before.state is outcome else ErrorCode.INVALID_TXN_STATE)

    def end_transaction_with_bump(
        self, transactional_id: str, producer: Producer, committed: bool, new_producer_id: int | None
    ) -> Ended | Write[Ended]:
        """Commit or abort the producer's transaction, and give its producer the epoch of the next one; see ``end_requests``.

        Raises ProducerIdNeededError as ``init_producer_id`` does.
        """
        before = self.store.get(transactional_id)
        if before is None:
            return Ended(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        is_pending = self.store.is_pending(transactional_id)
        if is_pending and producer == before.next_producer:
            return Ended(ErrorCode.CONCURRENT_TRANSACTIONS)
        sender = sender_of(before, producer)
        if isinstance(sender, ErrorCode):
            return Ended(sender)
        if is_pending:
            return Ended(ErrorCode.CONCURRENT_TRANSACTIONS)
        step = STEPS[before.state, sender, committed]
        if isinstance(step, ErrorCode):
            return Ended(step)
        if step is Step.AGAIN:
            return Ended(ErrorCode.NONE, producer=before.producer)
        how = TransactionOutcome.COMMITTED if committed else TransactionOutcome.ABORTED
        return self._decide(before, TransactionEnd(self._bumped(before, committed, new_producer_id), how), _ended_with_bump)

    # timeouts

    def abort_timed_out(self) -> list[str]:
        """Abort the transactions that are open for longer than their timeouts, and fence their producers.

        Return the ids whose transactions are still open, as their producers need new ids: see ``abort_if_timed_out``.
        """
        need_ids = []
        for metadata in self.store.ongoing():
            try:
                self.abort_if_timed_out(metadata.transactional_id, None)
            except ProducerIdNeededError:
                need_ids.append(metadata.transactional_id)
            except Exception:  # noqa: BLE001 the transactions behind it must not stay open because of it
                _log.failure("Cannot abort the transaction of {id!r}", id=metadata.transactional_id)
        return need_ids

    def abort_if_timed_out(self, transactional_id: str, new_producer_id: int | None) -> None:
        """Abort the id's transaction if it is open for longer than its timeout. Raises ProducerIdNeededError."""
        metadata = self.store.get(transactional_id)
        if metadata is None or not metadata.is_timed_out(self._clock.wall_ms()) or self.store.is_pending(transactional_id):
            return
        write = self._abort_fenced(metadata, TransactionOutcome.TIMED_OUT, self._timed_out, new_producer_id)
        _log.info(
            "Aborting the transaction of {id!r}: it is open for longer than {ms} ms", id=transactional_id, ms=metadata.timeout_ms
        )
        self._effects.write(write.records, write.completed)

    def _timed_out(self, error: ErrorCode, end: TransactionEnd) -> None:
        if not error:
            self._on_end(end)

    def remove_expired(self) -> int:
        """Remove the ids that had no transaction for ``transactional.id.expiration.ms``; return how many."""
        now_ms = self._clock.wall_ms()
        expired = [
            metadata.transactional_id
            for metadata in self.store.unused_since(now_ms - self._config.id_expiration_ms, now_ms)
            if metadata.state.is_expirable and not self.store.is_pending(metadata.transactional_id)
        ]
        for start in range(0, len(expired), MAX_TOMBSTONES):
            some = expired[start : start + MAX_TOMBSTONES]
            self._effects.writes.append(self.store.removal(some, ErrorCode))
            for transactional_id in some:
                self._before_bump.pop(transactional_id, None)
        return len(expired)


def _ended_with_bump(error: ErrorCode, end: TransactionEnd) -> Ended:
    if error:
        return Ended(error, end)
    transaction = end.transaction
    return Ended(error, end if transaction.partitions else None, transaction.next_producer)


class TransactionShardFactory:
    """Creates the shards of ``__transaction_state``."""

    def __init__(self, environment: TransactionEnvironment) -> None:
        self._environment = environment

    def kinds(self) -> RecordKinds:
        """Return the record types of ``__transaction_state``."""
        return TRANSACTION_RECORD_KINDS

    def shard(self, partition: int, leader_epoch: int, effects: Effects) -> TransactionShard:
        """Return a new, empty shard."""
        return TransactionShard(effects, self._environment, CoordinatorId(partition, leader_epoch))
