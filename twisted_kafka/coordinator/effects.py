"""The effects of an operation on a coordinator's state: records to write, requests to answer, timers.

The state machines do no I/O. They collect effects in an ``Effects``, and the runtime performs them. A test can inspect the
effects without performing them.
"""

from collections import deque
from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import Any, Final, Generic, NamedTuple, TypeVar

from typing_extensions import override

from twisted_kafka.coordinator.coordinator_record import CoordinatorRecord, Producer, encode_batch
from twisted_kafka.coordinator.shard import CoordinatorShard
from twisted_kafka.log.producer_state.producer_state_manager import VerificationGuard, marker_guard
from twisted_kafka.protocol.errors import ErrorCode, error_of
from twisted_kafka.protocol.records.builder import end_transaction_marker
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.protocol.regions import Buffer
from twisted_kafka.timing.timer import Timer, TimerEntry

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

MAX_BATCH_RECORDS: Final = 2000
"""The most records in a batch of a write that may be split. One that exceeds ``max.message.bytes`` is split further."""


class ShardTimer:
    """A timer that has been set; it may be cancelled even when it has expired and waits for the shard's lock."""

    __slots__ = ("action", "entry")

    def __init__(self, action: Callable[[], None]) -> None:
        self.action: Callable[[], None] | None = action
        """None after a cancellation."""
        self.entry: TimerEntry

    def cancel(self) -> None:
        """Cancel the timer, with the shard's lock held; does nothing if its action has run."""
        self.action = None
        self.entry.cancel()


class ShardTimers:
    """Sets the timers of one shard."""

    __slots__ = ("_expired", "_timer")

    def __init__(self, timer: Timer, expired: Callable[[ShardTimer], None]) -> None:
        """``expired`` runs a timer's action with the shard locked. It is called on the timer's thread and must not block."""
        self._timer = timer
        self._expired = expired

    def after(self, name: str, delay_ms: float, action: Callable[[], None]) -> ShardTimer:
        """Call ``action`` after ``delay_ms`` milliseconds with the shard locked, if the shard is still active then."""
        timer = ShardTimer(action)
        timer.entry = self._timer.add(delay_ms, lambda: self._expired(timer))
        return timer


class Write(Generic[T_co]):
    """Records to append, and a callback for the outcome.

    ``completed`` is called once, with the state locked: with NONE after the records are committed and replayed, otherwise
    with the append's error code. If an operation returns this Write, the callback's result is the response, or a future of
    it. With ``producer``, the records are part of that producer's transaction; ``guard`` is the result of verifying it.

    The records are one batch: all are stored or none. A ``Writes`` may be stored in part.
    """

    __slots__ = ("completed", "guard", "producer", "records")

    def __init__(
        self,
        records: list[CoordinatorRecord],
        completed: "Callable[[ErrorCode], T_co | Future[T_co]]",
        producer: Producer | None = None,
        guard: VerificationGuard | None = None,
    ) -> None:
        self.records = records
        self.completed = completed
        self.producer = producer
        self.guard = guard

    def is_empty(self) -> bool:
        """Return whether there is nothing to append."""
        return not self.records

    def encode(self, now_ms: int, compression: Compression) -> Buffer:
        """Return the batch to append."""
        return encode_batch(self.records, now_ms, compression, self.producer)

    def keys(self, shard: CoordinatorShard) -> Collection[str]:
        """Return the keys that the records belong to, each once, as the shard says; call it before ``replay``."""
        records = self.records
        return (shard.key_of(records[0]),) if len(records) == 1 else {shard.key_of(record) for record in records}

    def replay(self, shard: CoordinatorShard, base_offset: int) -> int:
        """Apply the appended records to the shard; return the last one's offset."""
        producer_id = -1 if self.producer is None else self.producer.producer_id
        offset = base_offset
        for record in self.records:
            shard.replay(record, producer_id, offset)
            offset += 1
        return offset - 1


class Writes(Write[T_co]):
    """Records to append in batches of at most ``MAX_BATCH_RECORDS``, in order; the first that fails ends it.

    A batch that is too large for the topic is halved until it fits: the keys of the records may be long.

    NONE as the outcome means that all are committed; after an error, the records of the first batches may be stored.
    """

    __slots__ = ()

    def __init__(self, records: list[CoordinatorRecord], completed: "Callable[[ErrorCode], T_co | Future[T_co]]") -> None:
        super().__init__(records, completed)

    def parts(self) -> "deque[list[CoordinatorRecord]]":
        """Return the records of each batch."""
        records = self.records
        return deque(records[start : start + MAX_BATCH_RECORDS] for start in range(0, len(records), MAX_BATCH_RECORDS))


class EndTransaction(Write[T_co]):
    """The marker that ends a producer's transaction in this partition; ``completed`` is as in ``Write``."""

    __slots__ = ("committed", "coordinator_epoch", "ended")

    def __init__(
        self,
        producer: Producer,
        coordinator_epoch: int,
        committed: bool,
        completed: "Callable[[ErrorCode], T_co | Future[T_co]]",
        transaction_version: int = 0,
    ) -> None:
        """``coordinator_epoch`` is the transaction coordinator's; a marker with an older epoch than the last one is refused."""
        super().__init__([], completed, producer, marker_guard(transaction_version))
        self.ended = producer
        self.coordinator_epoch = coordinator_epoch
        self.committed = committed

    @override
    def is_empty(self) -> bool:
        """Return False: the marker is always appended."""
        return False

    @override
    def encode(self, now_ms: int, compression: Compression) -> Buffer:
        """Return the control batch, which is never compressed."""
        return end_transaction_marker(
            commit=self.committed,
            coordinator_epoch=self.coordinator_epoch,
            timestamp_ms=now_ms,
            producer_id=self.ended.producer_id,
            producer_epoch=self.ended.epoch,
        )

    @override
    def keys(self, shard: CoordinatorShard) -> Collection[str]:
        """Return the keys that the transaction's pending records belong to."""
        return shard.keys_of_transaction(self.ended.producer_id)

    @override
    def replay(self, shard: CoordinatorShard, base_offset: int) -> int:
        """Commit or discard the transaction's pending records; return the marker's offset."""
        shard.replay_end_transaction(self.ended.producer_id, self.committed)
        return base_offset


class Send(NamedTuple):
    """Input or output to start without the shard's lock; see ``Effects.send``."""

    start: Callable[[], Future[Any]]
    completed: Callable[[Future[Any]], None]


class Effects:
    """The effects of a state machine, in order: writes while the shard is locked, replies and sends after that.

    The writes that an operation queues come before the write that it returns. If an operation raises, its queued effects are
    still performed.
    """

    __slots__ = ("_delete_before", "replies", "sends", "timers", "writes")

    def __init__(self, timers: ShardTimers, delete_before: "Callable[[int], Future[ErrorCode]]") -> None:
        """``delete_before`` deletes the records of the shard's partition before an offset."""
        self.timers = timers
        self._delete_before = delete_before
        self.writes: deque[Write[object]] = deque()
        self.replies: deque[tuple[Future[Any], object]] = deque()
        self.sends: deque[Send] = deque()

    def write(self, records: list[CoordinatorRecord], completed: Callable[[ErrorCode], object]) -> None:
        """Append ``records``, then call ``completed`` with the outcome."""
        self.writes.append(Write(records, completed))

    def reply(self, parked: "Future[T]", result: T) -> None:
        """Complete a parked request after the lock is released."""
        self.replies.append((parked, result))

    def fail(self, parked: "Future[T]", error: BaseException) -> None:
        """Complete a parked request with an exception after the lock is released."""
        self.replies.append((parked, error))

    def send(self, start: "Callable[[], Future[T]]", completed: "Callable[[Future[T]], None]") -> None:
        """Call ``start`` after the lock is released, and ``completed`` with the finished future, with the state locked.

        ``start`` must not block, and its future must not wait forever. If it raises, the exception is that of the future. Sends of
        operations on different threads may start in any order. When the shard is no longer active, neither is called.
        """
        self.sends.append(Send(start, completed))

    def delete_records(self, before: int, completed: Callable[[ErrorCode], object]) -> None:
        """Delete the records of the shard's partition before an offset, once the lock is released (Kafka: PartitionWriter).

        ``completed`` is called with the outcome, with the state locked. The topic's ``cleanup.policy`` has to be ``delete``. Only
        committed records can be deleted: OFFSET_OUT_OF_RANGE means that ``before`` is after the high watermark.
        """

        def deleted(outcome: "Future[ErrorCode]") -> None:
            failure = outcome.exception()
            completed(outcome.result() if failure is None else error_of(failure))

        self.send(lambda: self._delete_before(before), deleted)
