"""From a decided outcome to its end: the markers are written until they are there, then the transaction is complete.

This begins once the decision is committed, and again when a shard is loaded: what a crash interrupts is resumed from the log.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Final, NamedTuple

from twisted.logger import Logger

from twisted_kafka.coordinator.effects import Effects
from twisted_kafka.network.log_rate_limit import LogRateLimit
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.timing.clock import IClock
from twisted_kafka.transaction_coordinator.markers.transaction_marker import IMarkerWriter, MarkerErrors, TransactionMarker
from twisted_kafka.transaction_coordinator.transaction_metadata import TransactionMetadata, completed
from twisted_kafka.transaction_coordinator.transaction_state import TransactionState
from twisted_kafka.transaction_coordinator.transaction_store import TransactionStore

RETRY_BACKOFF_MS: Final = 100
"""How long until a marker, or the record that completes a transaction, is written again; it doubles with each further failure."""
RETRY_BACKOFF_MAX_MS: Final = 1_600

FENCED_BACKOFF_MS: Final = 60_000
"""How long until a marker is written again that a partition refuses as superseded."""

MAX_MARKERS: Final = 1_000
"""Transactions whose markers are written with one send."""

MAX_RESUMED: Final = 500
"""Outcomes that are written again with one batch; each alone if that is too large."""


class _Marked(NamedTuple):
    """A transaction whose outcome is decided."""

    prepared: TransactionMetadata
    partitions: frozenset[TopicPartition]
    """The partitions that have to know."""
    failures: int = 0
    """How often in a row writing the markers has failed."""


_WRITTEN: Final = frozenset({ErrorCode.NONE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION})
"""A partition of a format without transactions has nothing to end."""
_SUPERSEDED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
"""The partition has a newer marker of the producer: usually another coordinator has taken over, and this one will learn it soon."""
_EXPECTED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Errors that pass: no line in the log for each."""

_log = Logger()


def nobody() -> None: ...


class CoordinatorId(NamedTuple):
    """A shard's partition of ``__transaction_state``, and the leader epoch in which this broker has it."""

    log_partition: int
    epoch: int


class TransactionCompletion:
    """Completes the prepared transactions of one shard; called with the shard's lock held."""

    __slots__ = (
        "_clock",
        "_coordinator",
        "_effects",
        "_failures",
        "_fenced",
        "_is_send_waiting",
        "_on_fenced",
        "_store",
        "_to_write",
        "_unconfirmed",
        "_writer",
    )

    def __init__(
        self,
        store: TransactionStore,
        effects: Effects,
        writer: IMarkerWriter,
        clock: IClock,
        coordinator: CoordinatorId,
        on_fenced: Callable[[TransactionMetadata], None],
    ) -> None:
        """``on_fenced`` is called with a transaction each time that its markers are refused as superseded."""
        self._store = store
        self._effects = effects
        self._writer = writer
        self._on_fenced = on_fenced
        self._clock = clock
        self._coordinator = coordinator
        self._failures = LogRateLimit(clock.monotonic_ns)
        self._fenced: set[str] = set()
        self._unconfirmed: set[str] = set()
        self._to_write: deque[_Marked] = deque()
        """Markers for the next send; at most one for each transactional id."""
        self._is_send_waiting = False

    @property
    def fenced(self) -> int:
        """Number of transactions whose markers a partition refuses as superseded."""
        return len(self._fenced)

    @property
    def waiting_appends(self) -> int:
        """Number of transactions whose record could not be written yet."""
        return len(self._unconfirmed)

    def unloaded(self) -> None:
        """Stop: the partition's next leader resumes the rest of the work. From now on no timer fires and no send is answered."""
        self._to_write.clear()
        self._fenced.clear()
        self._unconfirmed.clear()
        self._writer.drop(*self._coordinator)

    def resume(self, prepared: Sequence[TransactionMetadata]) -> None:
        """Go on with transactions whose outcomes a loaded log has.

        The end of that log may not be committed, and the next leader not have it: the outcomes are written again first.
        """
        for start in range(0, len(prepared), MAX_RESUMED):
            self._confirm_together(prepared[start : start + MAX_RESUMED])

    def _confirm_together(self, prepared: Sequence[TransactionMetadata]) -> None:
        def done(error: ErrorCode) -> None:
            for each in prepared:
                self.decided(each, error)

        write = self._store.transitions(prepared, done)
        self._effects.write(write.records, write.completed)

    def decided(self, prepared: TransactionMetadata, error: ErrorCode, on_late: Callable[[], None] = nobody) -> None:
        """Take the outcome of writing a decision: continue after success, or write it again if it may be in the log.

        ``on_late`` is called when it is committed after an error.
        """
        if not error:
            self._write_markers(_Marked(prepared, prepared.partitions))
        elif self._is_current(prepared):
            self._retry_append(prepared, 0, lambda failures: self._confirm(prepared, on_late, failures))

    # markers

    def _write_markers(self, marked: _Marked) -> None:
        """Write a transaction's marker into its partitions, with the next send."""
        self._to_write.append(marked)
        self._send()

    def _send(self) -> None:
        """Write the waiting markers, unless a send that will take them is about to start."""
        if self._is_send_waiting:
            return
        self._is_send_waiting = True
        batch: list[_Marked] = []

        def start() -> "Future[list[MarkerErrors | Future[MarkerErrors]]]":
            # The shard is not locked here. Markers added from now on get a send of their own.
            self._is_send_waiting = False
            while len(batch) < MAX_MARKERS:
                try:
                    batch.append(self._to_write.popleft())
                except IndexError:
                    break
            written: Future[list[MarkerErrors | Future[MarkerErrors]]] = Future()
            written.set_result(self._writer.write([self._marker(each) for each in batch]))
            return written

        self._effects.send(start, lambda sent: self._sent(batch, sent))

    def _marker(self, marked: _Marked) -> TransactionMarker:
        prepared = marked.prepared
        committed = prepared.state is TransactionState.PREPARE_COMMIT
        log_partition, epoch = self._coordinator
        return TransactionMarker(prepared.producer, epoch, committed, marked.partitions, prepared.client_version, log_partition)

    def _sent(self, batch: Sequence[_Marked], sent: "Future[list[MarkerErrors | Future[MarkerErrors]]]") -> None:
        if self._to_write:
            self._send()
        failure = sent.exception()
        if failure is not None:
            _log.error("Cannot write markers: {failure!r}", failure=failure)
            for marked in batch:
                self._retry_markers(marked)
            return
        for marked, errors in zip(batch, sent.result(), strict=True):
            if isinstance(errors, Future):
                self._await(marked, errors)
            elif self._is_current(marked.prepared):
                self._markers_written(marked, errors)

    def _await(self, marked: _Marked, written: "Future[MarkerErrors]") -> None:
        """Go on when all brokers have answered. No other transaction waits for them."""

        def answered(done: "Future[MarkerErrors]") -> None:
            if not self._is_current(marked.prepared):
                return
            failure = done.exception()
            if failure is None:
                self._markers_written(marked, done.result())
                return
            _log.error("Cannot write the markers of {id!r}: {failure!r}", id=marked.prepared.transactional_id, failure=failure)
            self._retry_markers(marked)

        self._effects.send(lambda: written, answered)

    def _markers_written(self, marked: _Marked, errors: MarkerErrors) -> None:
        prepared = marked.prepared
        left = frozenset(partition for partition in marked.partitions if errors.get(partition) not in _WRITTEN)
        if not left:
            self._fenced.discard(prepared.transactional_id)
            self._complete(prepared)
            return
        if all(errors.get(partition) in _SUPERSEDED for partition in left):
            self._fence(_Marked(prepared, left), errors)
            return
        unexpected = {partition: error for partition, error in errors.items() if error not in _WRITTEN | _EXPECTED | _SUPERSEDED}
        if unexpected and self._failures.allow():
            _log.error(
                "Cannot write markers of {id!r} yet: {errors}{more}",
                id=prepared.transactional_id,
                errors=_named(unexpected),
                more=self._failures.take_suppressed(),
            )
        self._retry_markers(_Marked(prepared, left, marked.failures))

    def _fence(self, marked: _Marked, errors: MarkerErrors) -> None:
        """Write refused markers again after a while: until then, and as long as they are refused, the id can do nothing."""
        transactional_id = marked.prepared.transactional_id
        self._fenced.add(transactional_id)
        if self._failures.allow():
            _log.warn(
                "Markers of {id!r} are refused as superseded, and are written again each {s} s: {errors}{more}",
                id=transactional_id,
                s=FENCED_BACKOFF_MS // 1000,
                errors=_named(errors),
                more=self._failures.take_suppressed(),
            )
        self._on_fenced(marked.prepared)
        self._after("txn-marker-fenced", FENCED_BACKOFF_MS, marked)

    def _retry_markers(self, marked: _Marked) -> None:
        again = marked._replace(failures=marked.failures + 1)
        self._after("txn-marker-retry", _backoff_ms(marked.failures), again)

    def _after(self, name: str, delay_ms: int, marked: _Marked) -> None:
        def retry() -> None:
            if self._is_current(marked.prepared):
                self._write_markers(marked)
            else:
                self._fenced.discard(marked.prepared.transactional_id)

        self._effects.timers.after(name, delay_ms, retry)

    # records

    def _complete(self, prepared: TransactionMetadata, failures: int = 0) -> None:
        self._write_until_committed(prepared, completed(prepared, self._clock.wall_ms()), failures)

    def _write_until_committed(self, prepared: TransactionMetadata, after: TransactionMetadata, failures: int) -> None:
        def done(error: ErrorCode) -> None:
            if not error:
                return
            if self._is_current(prepared):
                self._retry_append(prepared, failures, lambda again: self._complete(prepared, again))
            elif self._is_current(after):  # it is in the local log, and may come to count
                self._retry_append(after, failures, lambda again: self._write_until_committed(prepared, after, again))

        write = self._store.transition(after, done)
        self._effects.write(write.records, write.completed)

    def _confirm(self, prepared: TransactionMetadata, on_committed: Callable[[], None], failures: int) -> None:
        def done(error: ErrorCode) -> None:
            if not error:
                on_committed()
                self._write_markers(_Marked(prepared, prepared.partitions))
            elif self._is_current(prepared):
                self._retry_append(prepared, failures, lambda again: self._confirm(prepared, on_committed, again))

        write = self._store.transition(prepared, done)
        self._effects.write(write.records, write.completed)

    def _retry_append(self, current: TransactionMetadata, failures: int, again: Callable[[int], None]) -> None:
        """Write a record later, unless the id has another state by then; ``again`` is called with the number of failures."""
        self._unconfirmed.add(current.transactional_id)

        def retry() -> None:
            self._unconfirmed.discard(current.transactional_id)
            if self._is_current(current):
                again(failures + 1)

        self._effects.timers.after("txn-append-retry", _backoff_ms(failures), retry)

    def _is_current(self, state: TransactionMetadata) -> bool:
        return self._store.get(state.transactional_id) == state


def _backoff_ms(failures: int) -> int:
    return min(RETRY_BACKOFF_MS << min(failures, 10), RETRY_BACKOFF_MAX_MS)


def _named(errors: Mapping[TopicPartition, ErrorCode]) -> str:
    return ", ".join(f"{partition} {error.name}" for partition, error in sorted(errors.items()))
