"""The transactional ids of one partition of ``__transaction_state``: their states by its records, and which are committed.

Only ``replay`` changes the states. A record is replayed when it is in the local log. Until it is committed, its id is pending, and
nothing else may happen to it (Kafka: TransactionMetadata.pendingState). If the outcome of an append stays unknown, the id is in
doubt until a later record of it is committed: until then, queries return its last committed state.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from typing import TypeVar

from twisted_kafka.coordinator.append_errors import transaction_log_error
from twisted_kafka.coordinator.coordinator_record import CoordinatorRecord
from twisted_kafka.coordinator.effects import Write, Writes
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.transaction_coordinator.transaction_metadata import TransactionMetadata
from twisted_kafka.transaction_coordinator.transaction_records import (
    transaction_metadata,
    transaction_record,
    transaction_tombstone,
)
from twisted_kafka.transaction_coordinator.transaction_state import TransactionState

T = TypeVar("T")


class TransactionStore:
    """The stored states by transactional id."""

    __slots__ = ("_in_doubt", "_ongoing", "_pending", "_stored", "_transaction_version")

    def __init__(self, transaction_version: Callable[[], int]) -> None:
        """``transaction_version`` returns the finalized level: the records' version depends on it."""
        self._transaction_version = transaction_version
        self._stored: dict[str, TransactionMetadata] = {}
        """In the order of their last records: the ids unused for the longest time come first."""
        self._ongoing: dict[str, None] = {}
        self._pending: set[str] = set()
        self._in_doubt: dict[str, TransactionMetadata | None] = {}

    def __len__(self) -> int:
        return len(self._stored)

    def __iter__(self) -> Iterator[TransactionMetadata]:
        """Iterate over all states as they are now; they may change meanwhile."""
        return iter(list(self._stored.values()))

    def replay(self, record: CoordinatorRecord) -> None:
        """Apply a record that is in the log. Raises ValueError for an unknown state."""
        metadata = transaction_metadata(record)
        transactional_id = record.key.transactional_id
        self._stored.pop(transactional_id, None)
        if metadata is not None:
            self._stored[transactional_id] = metadata
        if metadata is not None and metadata.state is TransactionState.ONGOING:
            self._ongoing[transactional_id] = None
        elif self._ongoing:
            self._ongoing.pop(transactional_id, None)

    def ongoing(self) -> list[TransactionMetadata]:
        """Return the states with an open transaction."""
        return [self._stored[each] for each in self._ongoing]

    def unused_since(self, latest_ms: int, now_ms: int) -> Iterator[TransactionMetadata]:
        """Yield the states that were last written at ``latest_ms`` or before; the caller changes nothing meanwhile.

        One from the future, written while the clock was wrong, does not end the search.
        """
        older = takewhile(lambda metadata: not latest_ms < metadata.last_update_ms <= now_ms, self._stored.values())
        return (metadata for metadata in older if metadata.last_update_ms <= latest_ms)

    def get(self, transactional_id: str) -> TransactionMetadata | None:
        """Return the id's state as of the last record, committed or not."""
        return self._stored.get(transactional_id)

    def committed(self, transactional_id: str) -> TransactionMetadata | None:
        """Return the id's last state that is known to be committed."""
        if transactional_id in self._in_doubt:
            return self._in_doubt[transactional_id]
        return self._stored.get(transactional_id)

    def all_committed(self) -> list[TransactionMetadata]:
        """Return the last committed state of every id."""
        ids = self._stored.keys() | self._in_doubt.keys()
        return [metadata for each in sorted(ids) if (metadata := self.committed(each)) is not None]

    def is_pending(self, transactional_id: str) -> bool:
        """Return whether a record of the id is being written, or the markers of its transaction are."""
        if transactional_id in self._pending:
            return True
        stored = self._stored.get(transactional_id)
        return stored is not None and stored.state.is_prepared

    def is_in_doubt(self, transactional_id: str) -> bool:
        """Return whether the id's last record may not be committed."""
        return transactional_id in self._in_doubt

    def transition(self, after: TransactionMetadata, answer: Callable[[ErrorCode], T]) -> Write[T]:
        """Return the write of an id's next state; ``answer`` gets its outcome, with the coordinator's errors."""
        return self.transitions([after], answer)

    def transitions(self, after: Sequence[TransactionMetadata], answer: Callable[[ErrorCode], T]) -> Write[T]:
        """Return the write of the next states of several ids."""
        version = self._transaction_version()
        records = [transaction_record(each, version) for each in after]
        return self._write([each.transactional_id for each in after], records, answer)

    def removal(self, transactional_ids: Iterable[str], answer: Callable[[ErrorCode], T]) -> Writes[T]:
        """Return the writes that remove expired ids."""
        ids = list(transactional_ids)
        return Writes([transaction_tombstone(each) for each in ids], self._pending_until(ids, answer))

    def _write(self, ids: list[str], records: list[CoordinatorRecord], answer: Callable[[ErrorCode], T]) -> Write[T]:
        return Write(records, self._pending_until(ids, answer))

    def _pending_until(self, ids: list[str], answer: Callable[[ErrorCode], T]) -> Callable[[ErrorCode], T]:
        """Let the ids be pending until the returned function is called with the outcome of their write."""
        before = {each: self._stored.get(each) for each in ids}
        were_in_doubt = {each for each in ids if each in self._in_doubt}
        self._pending.update(ids)
        for each in ids:
            self._in_doubt.setdefault(each, before[each])

        def done(error: ErrorCode) -> T:
            self._pending.difference_update(ids)
            for each in ids:
                was_appended = self._stored.get(each) is not before[each]
                if not error or (not was_appended and each not in were_in_doubt):
                    self._in_doubt.pop(each, None)
            return answer(transaction_log_error(error))

        return done
