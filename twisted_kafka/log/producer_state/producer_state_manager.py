"""The producers of a partition and their last batches: detects duplicates, gaps and fenced producers (KIP-98, KIP-360).

``check`` validates a batch before it is appended, ``update`` records it afterwards; updating with every batch rebuilds the state.
Snapshots of it (``producer_snapshot``) save reading the whole log at a start. Changed only under the log's lock.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final, NamedTuple, cast

from twisted_kafka.log.batch_headers import BatchLike, advance_sequence, retreat_sequence
from twisted_kafka.log.results import AbortedTransaction
from twisted_kafka.protocol.errors import (
    InvalidProducerEpochError,
    InvalidRecordError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from twisted_kafka.protocol.records.batch import DefaultBatch, parse_records
from twisted_kafka.protocol.records.builder import end_transaction_coordinator_epoch
from twisted_kafka.protocol.records.record import ControlRecordType, control_record_type
from twisted_kafka.protocol.regions import Buffer

REMEMBERED_BATCHES = 5
"""An idempotent producer has at most this many requests in flight, so a duplicate is one of these batches."""

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_OFFSET = -1
NO_COORDINATOR_EPOCH = -1
NO_TIMESTAMP = -1

_MARKER_BYTES: Final = 64
"""Markers are smaller, as their versions are today; other batches are not kept."""
_MARKERS_KEPT: Final = 128

BUMPED_SINCE: Final = 2
"""The ``transaction.version`` since which the end of a transaction bumps the epoch, also that of its markers (KIP-890)."""

SPARE_OFFSETS: Final = 64

MAX_VERIFICATIONS = 10_000
"""Verifications in progress in a partition. Beyond that the oldest ends: its producer has to begin its transaction again."""


class ProducerBatch(NamedTuple):
    """The sequence numbers and offsets of a batch."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def first_offset(self) -> int:
        """The batch's first offset."""
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        """The batch's first sequence number."""
        return retreat_sequence(self.last_sequence, self.offset_delta)


producer_batch_of = cast(Callable[[tuple[int, int, int, int]], ProducerBatch], partial(tuple.__new__, ProducerBatch))
"""Makes a ProducerBatch of a plain tuple, in half the time of the class; for appends."""


class ProducerEntry:
    """The state of one producer."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp_ms", "producer_id", "transaction_first_offset")

    def __init__(self, producer_id: int, epoch: int = NO_PRODUCER_EPOCH) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.coordinator_epoch = NO_COORDINATOR_EPOCH
        self.last_timestamp_ms = NO_TIMESTAMP
        self.transaction_first_offset = NO_OFFSET
        self.batches: list[ProducerBatch] = []

    @property
    def last_sequence(self) -> int:
        """The last sequence number of this epoch, or NO_SEQUENCE."""
        batches = self.batches  # read once: for an epoch that begins, another thread puts an empty list in its place
        return batches[-1].last_sequence if batches else NO_SEQUENCE

    def add(self, last_sequence: int, last_offset: int, offset_delta: int, timestamp_ms: int) -> None:
        """Add an appended batch; ``offset_delta`` is that of its last record."""
        self.last_timestamp_ms = timestamp_ms
        batches = self.batches
        if len(batches) >= REMEMBERED_BATCHES:
            del batches[0]
        batches.append(producer_batch_of((last_sequence, last_offset, offset_delta, timestamp_ms)))

    def duplicate_of(self, batch: BatchLike) -> ProducerBatch | None:
        """Return the batch of which ``batch`` is a duplicate, or None."""
        if batch.producer_epoch != self.epoch:
            return None
        last_sequence = batch.last_sequence
        for known in self.batches:
            if known.last_sequence == last_sequence and known.first_sequence == batch.base_sequence:
                return known
        return None


class CompletedTransaction:
    """A transaction with a marker; readers of committed data wait until the marker is below the high watermark."""

    __slots__ = ("first_offset", "is_aborted", "last_offset", "producer_id")

    def __init__(self, producer_id: int, first_offset: int, last_offset: int, is_aborted: bool) -> None:
        self.producer_id = producer_id
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.is_aborted = is_aborted


class VerificationGuard:
    """Ties the first append of a transaction to its verification (KIP-890); each verification has its own guard."""

    __slots__ = ()


BUMPED_EPOCH: Final = VerificationGuard()
"""The guard of a marker whose epoch is that of its producer's next transaction: it may end no transaction with that epoch."""


def marker_guard(transaction_version: int) -> VerificationGuard | None:
    """Return the guard for a marker of a transaction with this ``transaction.version`` (KIP-1228)."""
    return BUMPED_EPOCH if transaction_version >= BUMPED_SINCE else None


class _Verification:
    """A verification in progress; an append or a marker ends it (Kafka: VerificationStateEntry)."""

    __slots__ = ("bumps_epoch", "epoch", "guard", "lowest_sequence", "started_ms")

    def __init__(self, epoch: int, sequence: int, started_ms: int, bumps_epoch: bool) -> None:
        self.guard = VerificationGuard()
        self.epoch = epoch
        self.bumps_epoch = bumps_epoch
        """Whether each of the producer's transactions has an epoch of its own, whose first batch has sequence number 0."""
        self.lowest_sequence = sequence
        """Higher ones must wait until this one is appended: otherwise it would stay out of order."""
        self.started_ms = started_ms

    def note(self, epoch: int, sequence: int) -> None:
        if epoch > self.epoch or (epoch == self.epoch and sequence < self.lowest_sequence):
            self.epoch = epoch
            self.lowest_sequence = sequence


class OpenOffsets:
    """First offsets of transactions: added in ascending order, removed in any. The first one is found in constant time.

    Removed offsets stay in the list until they are the majority, and more than SPARE_OFFSETS. Empty, it takes little memory: each
    partition has two.
    """

    __slots__ = ("_ascending", "_begin", "_present")

    def __init__(self, ascending: Iterable[int] = ()) -> None:
        self._ascending = list(ascending)
        self._begin = 0
        self._present = dict.fromkeys(self._ascending)

    def __bool__(self) -> bool:
        return bool(self._present)

    def add(self, offset: int) -> None:
        """Add an offset above all that were added."""
        self._ascending.append(offset)
        self._present[offset] = None

    def discard(self, offset: int) -> None:
        """Remove an offset, if it is there."""
        present, ascending, begin = self._present, self._ascending, self._begin
        present.pop(offset, None)
        while begin < len(ascending) and ascending[begin] not in present:
            begin += 1
        if len(ascending) > 2 * len(present) + SPARE_OFFSETS or not present:
            self._ascending, begin = [each for each in ascending if each in present], 0
        self._begin = begin

    def __len__(self) -> int:
        """The length of the list, with removed offsets."""
        return len(self._ascending)

    @property
    def first(self) -> int | None:
        """The lowest offset; None if there is no offset."""
        return self._ascending[self._begin] if self._begin < len(self._ascending) else None


def _never() -> bool:
    return False


@dataclass(slots=True)
class ProducerStateManagerConfig:
    """The settings of producer states (Kafka: ``ProducerStateManagerConfig``)."""

    expiration_ms: int = 86_400_000
    """An idle producer is forgotten after this time; ``producer.id.expiration.ms``, which may change."""
    are_transactions_verified: Callable[[], bool] = _never
    """Returns whether a leader's append that begins a transaction needs a VerificationGuard (KIP-890)."""


class ProducerStateManager:
    """The producers of one partition and its open transactions.

    ``map_end_offset`` is how far it was built from snapshots and batches, when the log was opened or truncated.
    """

    __slots__ = (
        "_completed",
        "_is_verified",
        "_ongoing",
        "_unstable",
        "_verifications",
        "map_end_offset",
        "producers",
        "topic_partition",
    )

    def __init__(self, topic_partition: object, is_verified: Callable[[], bool]) -> None:
        """``is_verified`` returns whether a transaction must be verified before it begins in this partition."""
        self.topic_partition = topic_partition
        self.producers: dict[int, ProducerEntry] = {}
        self.map_end_offset = 0
        self._is_verified = is_verified
        self._verifications: dict[int, _Verification] = {}
        self._ongoing = OpenOffsets()
        self._unstable = OpenOffsets()
        """The first offsets of open transactions, and of transactions whose marker is above the high watermark."""
        self._completed: list[CompletedTransaction] = []
        """Transactions whose marker is above the high watermark, in the order of their markers."""

    def reset(self, entries: Iterable[ProducerEntry], offset: int) -> None:
        """Replace the state by the entries of a snapshot at ``offset``."""
        self.producers = {entry.producer_id: entry for entry in entries}
        self._completed = []
        self._verifications = {}
        offsets = [entry.transaction_first_offset for entry in self.producers.values()]
        ascending = sorted([offset for offset in offsets if offset != NO_OFFSET])
        self._ongoing, self._unstable = OpenOffsets(ascending), OpenOffsets(ascending)
        self.map_end_offset = offset

    # Before an append.

    def start_verification(
        self, producer_id: int, epoch: int, sequence: int, now_ms: int, bumps_epoch: bool = False
    ) -> VerificationGuard | None:
        """Return the guard that an append needs to begin the producer's transaction in this partition.

        None if no guard is needed: the transaction has begun already, or transactions are not verified. ``sequence`` is that of
        the first batch, NO_SEQUENCE for a coordinator. With ``bumps_epoch`` the caller adds the partition to the transaction, so
        there is a guard even if transactions are not verified; and a fenced producer raises InvalidProducerEpochError.
        """
        entry = self.producers.get(producer_id)
        if _has_open_transaction(entry, epoch) or not (bumps_epoch or self._is_verified()):
            return None
        if bumps_epoch and entry is not None and epoch < entry.epoch:
            raise InvalidProducerEpochError(
                f"{self.topic_partition}: the epoch {epoch} of producer {producer_id} is smaller than the last seen, {entry.epoch}"
            )
        verification = self._verifications.get(producer_id)
        if verification is None:
            if len(self._verifications) >= MAX_VERIFICATIONS:
                del self._verifications[next(iter(self._verifications))]
            verification = self._verifications[producer_id] = _Verification(epoch, sequence, now_ms, bumps_epoch)
        else:
            verification.note(epoch, sequence)
        return verification.guard

    def _check_verification(self, batch: BatchLike, guard: VerificationGuard | None, *, is_client: bool) -> None:
        """Reject a batch that begins a transaction, unless ``guard`` belongs to the verification in progress.

        A marker since the request to the coordinator ends the verification too.
        """
        verification = self._verifications.get(batch.producer_id)
        if self._is_verified() and (guard is None or verification is None or verification.guard is not guard):
            raise InvalidTxnStateError(
                f"{self.topic_partition}: a batch of producer {batch.producer_id}, epoch {batch.producer_epoch}, "
                "was not part of an ongoing transaction"
            )
        if not is_client or verification is None:
            return
        if verification.bumps_epoch and batch.base_sequence != 0 and not self._has_batches(batch.producer_id):
            raise OutOfOrderSequenceError(
                f"{self.topic_partition}: the first batch of producer {batch.producer_id}, epoch {batch.producer_epoch}, "
                f"has sequence {batch.base_sequence}, not 0"
            )
        if batch.base_sequence > verification.lowest_sequence:
            raise OutOfOrderSequenceError(
                f"{self.topic_partition}: producer {batch.producer_id}, epoch {batch.producer_epoch}, "
                f"sent sequence {batch.base_sequence}, but {verification.lowest_sequence} must be appended first"
            )

    def _has_batches(self, producer_id: int) -> bool:
        entry = self.producers.get(producer_id)
        return entry is not None and bool(entry.batches)

    def check(self, batch: BatchLike, guard: VerificationGuard | None, *, is_client: bool) -> ProducerBatch | None:
        """Validate a batch of data; returns the original if it is a duplicate. Sequence numbers are checked for clients only.

        Raises InvalidProducerEpochError for a fenced producer, OutOfOrderSequenceError for a gap in the sequence numbers,
        InvalidTxnStateError for a batch outside its producer's open transaction, or of a transaction that is not verified.
        """
        entry = self.producers.get(batch.producer_id)
        if batch.is_transactional and not _has_open_transaction(entry, batch.producer_epoch):
            duplicate = entry.duplicate_of(batch) if entry is not None and is_client else None
            if duplicate is not None:
                return duplicate
            self._check_verification(batch, guard, is_client=is_client)
        if entry is None:
            if batch.producer_epoch < NO_PRODUCER_EPOCH:
                raise InvalidProducerEpochError(
                    f"{self.topic_partition}: a batch of producer {batch.producer_id} has invalid epoch {batch.producer_epoch}"
                )
            return None
        if entry.transaction_first_offset != NO_OFFSET and not batch.is_transactional:
            duplicate = entry.duplicate_of(batch) if is_client else None
            if duplicate is None:
                self._check_epoch(entry, batch)
                raise InvalidTxnStateError(
                    f"{self.topic_partition}: producer {batch.producer_id}, epoch {batch.producer_epoch}, sent a "
                    "non-transactional batch during an open transaction"
                )
            return duplicate
        if batch.producer_epoch == entry.epoch and entry.batches and batch.base_sequence == entry.batches[-1].last_sequence + 1:
            return None
        duplicate = entry.duplicate_of(batch) if is_client else None
        if duplicate is not None:
            return duplicate
        self._check_epoch(entry, batch)
        if not is_client:
            return None
        if batch.producer_epoch != entry.epoch:
            if batch.base_sequence != 0 and entry.epoch != NO_PRODUCER_EPOCH:
                raise OutOfOrderSequenceError(self._gap(batch, NO_SEQUENCE))
            return None
        if entry.epoch != NO_PRODUCER_EPOCH and batch.base_sequence != advance_sequence(entry.last_sequence, 1):
            raise OutOfOrderSequenceError(self._gap(batch, entry.last_sequence))
        return None

    def expecting(self, producer_id: int, epoch: int, sequence: int, is_transactional: bool) -> ProducerEntry | None:
        """Return the producer if a client's batch is the next one in order of its epoch, and begins no transaction; otherwise None.

        ``check`` accepts such a batch, and ``ProducerEntry.add`` is all of ``update`` for it.
        """
        entry = self.producers.get(producer_id)
        if (
            entry is None
            or entry.epoch != epoch
            or not entry.batches
            or entry.batches[-1].last_sequence + 1 != sequence
            or (entry.transaction_first_offset != NO_OFFSET) != is_transactional
            or (is_transactional and self._verifications)
        ):
            return None
        return entry

    def check_marker(self, batch: BatchLike, records: Buffer, guard: VerificationGuard | None = None) -> None:
        """Validate a transaction marker from a coordinator; raises InvalidProducerEpochError, TransactionCoordinatorFencedError.

        With the guard BUMPED_EPOCH, a marker with the epoch of the open transaction is late: it belongs to an earlier one.
        """
        entry = self.producers.get(batch.producer_id)
        if entry is None:
            return
        self._check_epoch(entry, batch)
        if guard is BUMPED_EPOCH and _has_open_transaction(entry, batch.producer_epoch):
            raise InvalidProducerEpochError(
                f"{self.topic_partition}: a marker for producer {batch.producer_id} has epoch {batch.producer_epoch}, "
                "that of the open transaction, and not a higher one"
            )
        marker = read_marker(records, batch)
        if marker is not None and marker[1] < entry.coordinator_epoch:
            raise TransactionCoordinatorFencedError(
                f"{self.topic_partition}: a marker for producer {batch.producer_id} has coordinator epoch {marker[1]}, "
                f"which is smaller than the last seen one, {entry.coordinator_epoch}"
            )

    def _check_epoch(self, entry: ProducerEntry, batch: BatchLike) -> None:
        if batch.producer_epoch < entry.epoch:
            raise InvalidProducerEpochError(
                f"{self.topic_partition}: the epoch {batch.producer_epoch} of a batch of producer {batch.producer_id} "
                f"is smaller than the last seen epoch, {entry.epoch}"
            )

    def _gap(self, batch: BatchLike, last_sequence: int) -> str:
        return (
            f"{self.topic_partition}: producer {batch.producer_id}, epoch {batch.producer_epoch}, "
            f"sent sequence {batch.base_sequence} after {last_sequence}"
        )

    # After an append.

    def update(self, batch: BatchLike, records: Buffer) -> AbortedTransaction | None:
        """Record an appended batch of ``records`` that has a producer id; returns the transaction that it aborts, or None."""
        producer_id = batch.producer_id
        entry = self.producers.get(producer_id)
        if entry is None:
            entry = self.producers[producer_id] = ProducerEntry(producer_id)
        if entry.epoch != batch.producer_epoch:
            entry.epoch = batch.producer_epoch
            entry.batches = []
        entry.last_timestamp_ms = batch.max_timestamp_ms
        if batch.is_transactional and self._verifications:
            self._verifications.pop(producer_id, None)
        if batch.is_control:
            return self._end_transaction(entry, batch, records)
        first_offset, last_offset = batch.base_offset, batch.last_offset
        entry.add(batch.last_sequence, last_offset, last_offset - first_offset, batch.max_timestamp_ms)
        if batch.is_transactional and entry.transaction_first_offset == NO_OFFSET:
            entry.transaction_first_offset = first_offset
            self._ongoing.add(first_offset)
            self._unstable.add(first_offset)
        return None

    def _end_transaction(self, entry: ProducerEntry, batch: BatchLike, records: Buffer) -> AbortedTransaction | None:
        marker = read_marker(records, batch)
        if marker is None:
            return None
        is_aborted, entry.coordinator_epoch = marker
        first_offset = entry.transaction_first_offset
        if first_offset == NO_OFFSET:
            return None
        entry.transaction_first_offset = NO_OFFSET
        self._ongoing.discard(first_offset)
        done = CompletedTransaction(entry.producer_id, first_offset, batch.last_offset, is_aborted)
        self._completed.append(done)
        if not is_aborted:
            return None
        stable = self._ongoing.first
        last_offset = batch.last_offset
        return AbortedTransaction(entry.producer_id, first_offset, last_offset, last_offset + 1 if stable is None else stable)

    def on_high_watermark(self, high_watermark: int) -> None:
        """Remove the completed transactions whose marker is replicated."""
        replicated = 0
        for completed in self._completed:
            if completed.last_offset >= high_watermark:
                break
            self._unstable.discard(completed.first_offset)
            replicated += 1
        if replicated:
            del self._completed[:replicated]

    @property
    def has_transactions(self) -> bool:
        """Whether a transaction is open, or its marker is above the high watermark."""
        return bool(self._unstable)

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset that a reader of committed data must not see yet."""
        return self._unstable.first

    def remove_expired(self, now_ms: int, expiration_ms: int) -> int:
        """Remove producers without an open transaction that wrote nothing for ``expiration_ms``; returns how many.

        Verifications of this age are removed too.
        """
        self._verifications = {
            producer_id: verification
            for producer_id, verification in self._verifications.items()
            if now_ms - verification.started_ms < expiration_ms
        }
        expired = [
            entry.producer_id
            for entry in self.producers.values()
            if entry.transaction_first_offset == NO_OFFSET and now_ms - entry.last_timestamp_ms >= expiration_ms
        ]
        for producer_id in expired:
            del self.producers[producer_id]
        return len(expired)


def _has_open_transaction(entry: ProducerEntry | None, epoch: int) -> bool:
    return entry is not None and entry.epoch == epoch and entry.transaction_first_offset != NO_OFFSET


def read_marker(records: Buffer, batch: BatchLike) -> tuple[bool, int] | None:
    """Return (is aborted, coordinator epoch) of a transaction marker; None for another type of control batch, or an invalid one."""
    control = DefaultBatch(memoryview(records)[batch.position : batch.position + batch.size_bytes])
    if not control.count:
        return None  # the cleaner removed it
    try:
        payload = control.payload()
        return _known_marker(payload) if len(payload) <= _MARKER_BYTES else _parse_marker(payload)
    except InvalidRecordError:
        return None


def _parse_marker(payload: bytes) -> tuple[bool, int] | None:
    record = next(parse_records(payload, 1, 0, 0))
    kind = control_record_type(record.key)
    if kind not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        return None
    try:
        coordinator_epoch = end_transaction_coordinator_epoch(record.value)
    except ValueError:
        coordinator_epoch = NO_COORDINATOR_EPOCH
    return kind == ControlRecordType.ABORT, coordinator_epoch


_known_marker = lru_cache(_MARKERS_KEPT)(_parse_marker)
"""Parses a marker, cached: a coordinator's markers usually differ only in the batch's header."""
