"""What an operation on a coordinator's state asks of the world: records to write, requests to answer, timers.

The state machines do no I/O: they leave their wishes in an ``Effects``, and the runtime carries them out, so that a test
can read what a machine wants without running anything.
"""

# ruff: noqa: N805 - the methods of a zope interface have no self

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from zope.interface import Interface

from twisted_kafka.coordinator.coordinator_record import CoordinatorRecord, Producer, encode_batch
from twisted_kafka.log.producer_state.producer_state_manager import VerificationGuard
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.records.builder import end_transaction_marker
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.protocol.regions import Buffer

T = TypeVar("T")


class TimerHandle(Protocol):
    """A timer that was set."""

    def cancel(self) -> object:
        """Never let it ring; no harm when it has rung."""


class ITimers(Interface):
    """Alarms for a state machine."""

    def after(name: str, delay_ms: float, action: Callable[[], None]) -> TimerHandle:
        """Call ``action`` in ``delay_ms`` milliseconds, while the machine's state is held, if it's still in charge then."""


class Write:
    """Records to append, and what to do with the outcome.

    ``completed`` is called once, with the state held: with NONE after the records were committed and replayed, or with
    the append's error code. What it returns is the response when an operation returned this Write; a future, that the
    response comes later. With ``producer`` they are part of its transaction, with ``guard`` what its verification gave.
    """

    __slots__ = ("completed", "guard", "producer", "records")

    def __init__(
        self,
        records: list[CoordinatorRecord],
        completed: Callable[[ErrorCode], Any],
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

    def replay(self, shard: Any) -> None:
        """Apply what was appended to the ICoordinatorShard."""
        producer_id = -1 if self.producer is None else self.producer.producer_id
        for record in self.records:
            shard.replay(record, producer_id)


class EndTransaction(Write):
    """The marker that ends a producer's transaction in this partition; ``completed`` as that of a Write."""

    __slots__ = ("committed", "coordinator_epoch", "ended")

    def __init__(self, producer: Producer, coordinator_epoch: int, committed: bool, completed: Callable[[ErrorCode], Any]) -> None:
        """``coordinator_epoch`` is the transaction coordinator's; one with an older epoch than the last is refused."""
        super().__init__([], completed, producer)
        self.ended = producer
        self.coordinator_epoch = coordinator_epoch
        self.committed = committed

    def is_empty(self) -> bool:
        """Return that there is something to append."""
        return False

    def encode(self, now_ms: int, compression: Compression) -> Buffer:
        """Return the control batch, which is never compressed."""
        return end_transaction_marker(
            commit=self.committed,
            coordinator_epoch=self.coordinator_epoch,
            timestamp_ms=now_ms,
            producer_id=self.ended.producer_id,
            producer_epoch=self.ended.epoch,
        )

    def replay(self, shard: Any) -> None:
        """Let what the transaction wrote count, or drop it."""
        shard.replay_end_transaction(self.ended.producer_id, self.committed)


class Effects:
    """A machine's wishes, in order; the runtime empties it while it holds the machine's lock."""

    __slots__ = ("replies", "timers", "writes")

    def __init__(self, timers: ITimers) -> None:
        self.timers = timers
        self.writes: deque[Write] = deque()
        self.replies: deque[tuple[Future[Any], Any]] = deque()

    def write(self, records: list[CoordinatorRecord], completed: Callable[[ErrorCode], Any]) -> None:
        """Append ``records``, then call ``completed`` with the outcome."""
        self.writes.append(Write(records, completed))

    def reply(self, parked: "Future[T]", result: T) -> None:
        """Answer a parked request once the lock is released."""
        self.replies.append((parked, result))
