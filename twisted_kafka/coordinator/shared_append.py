"""Writes of several operations that share one append to the internal topic."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Final, Generic, TypeVar, cast

from typing_extensions import override

from twisted_kafka.coordinator.coordinator_record import CoordinatorRecord
from twisted_kafka.coordinator.effects import MAX_BATCH_RECORDS, Effects, Write
from twisted_kafka.coordinator.shard import CoordinatorShard
from twisted_kafka.protocol.compiler.wire import EncodeError
from twisted_kafka.protocol.errors import ErrorCode, RecordBatchTooLargeError
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.protocol.regions import Buffer
from twisted_kafka.waiting.futures import forward

A = TypeVar("A")
S = TypeVar("S", bound=CoordinatorShard)
T = TypeVar("T")

TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_FETCH_SIZE})
"""Errors of a batch that may not apply to its parts."""


class SharedWrite(Write[T]):
    """The records of several operations. If one cannot be encoded, the append fails like one that is too large together."""

    __slots__ = ()

    @override
    def encode(self, now_ms: int, compression: Compression) -> Buffer:
        try:
            return super().encode(now_ms, compression)
        except EncodeError as error:
            raise RecordBatchTooLargeError(f"A record cannot be encoded: {error}") from error


class OpenBatch:
    """Writes of operations on different keys that wait for their common append; the shard's lock is held for every method.

    Nothing of it is in the shard's state before the append, so that a failed append needs no undoing. While it is open, only
    operations on other keys may run.
    """

    __slots__ = ("_answers", "_writes", "keys", "records")

    def __init__(self) -> None:
        self._writes: list[Write[object]] = []
        self._answers: list[Future[object]] = []
        self.keys: set[str] = set()
        self.records = 0

    def has_room(self, write: Write[object]) -> bool:
        """Return whether the batch would not get too long."""
        return self.records + len(write.records) <= MAX_BATCH_RECORDS

    def join(self, write: Write[T], shard: CoordinatorShard) -> "Future[T]":
        """Add a write; return a future of its answer."""
        answer: Future[T] = Future()
        self._writes.append(write)
        self._answers.append(cast("Future[object]", answer))
        self.keys.update(write.keys(shard))
        self.records += len(write.records)
        return answer

    def write(self, completed: Callable[[ErrorCode], object]) -> Write[object]:
        """Return the write of all records."""
        return SharedWrite([record for each in self._writes for record in each.records], completed)

    def parts(self) -> "Iterator[tuple[Write[object], Future[object]]]":
        """Return the writes with their answers."""
        return zip(self._writes, self._answers, strict=True)

    def __len__(self) -> int:
        return len(self._writes)

    def complete(self, effects: Effects, error: ErrorCode) -> None:
        """Answer each write with the outcome of the append."""
        for write, answer in self.parts():
            settle(effects, answer, write.completed, error)


def settle(effects: Effects, answer: "Future[T]", outcome_of: "Callable[[A], T | Future[T]]", argument: A) -> None:
    """Give an answer the outcome of a function, or its exception, once the lock is released."""
    try:
        outcome = outcome_of(argument)
    except Exception as error:  # noqa: BLE001 the future carries it to the handler, which answers and logs it
        effects.fail(answer, error)
        return
    if isinstance(outcome, Future):
        forward(outcome, answer)
    else:
        effects.reply(answer, outcome)


Operation = Callable[[S], "T | Future[T] | Write[T]"]


class Together(Generic[S, T]):
    """Operations of one request, or of requests that arrive together, as one operation with one write.

    All are executed before any write is replayed: the caller knows that none depends on a write of another one.
    """

    def __init__(
        self, operations: "Sequence[Operation[S, T]]", answered: "Callable[[int, T], T | Future[T]] | None" = None
    ) -> None:
        """``answered`` takes an operation's number and its answer, if it writes nothing; it returns the answer for the caller."""
        self._operations = operations
        self._answered = answered
        self._outcomes: list[T | Future[T] | Write[T]] = []
        self.is_too_large = False
        """Whether the append failed, or was not tried, because of the size of all writes together: nothing is appended."""

    def run(self, shard: S) -> "list[T | Future[T]] | Write[list[T | Future[T]]]":
        """Execute the operations. Return one write of all their records, or their answers if there is nothing to write."""
        records: list[CoordinatorRecord] = []
        writes = 0
        outcomes = self._outcomes
        for operation in self._operations:
            outcome = operation(shard)
            if isinstance(outcome, Write):
                records += outcome.records
                writes += 1
            elif self._answered is not None and not isinstance(outcome, Future):
                outcome = self._answered(len(outcomes), outcome)
            outcomes.append(outcome)
        if len(records) > MAX_BATCH_RECORDS and writes > 1:
            self.is_too_large = True
            return []
        if not writes:
            return self._completed(ErrorCode.NONE)
        return (SharedWrite if writes > 1 else Write)(records, self._completed)

    def _completed(self, error: ErrorCode) -> "list[T | Future[T]]":
        if error in TOO_LARGE and len(self._outcomes) > 1:
            self.is_too_large = True
            return []
        return [each.completed(error) if isinstance(each, Write) else each for each in self._outcomes]
