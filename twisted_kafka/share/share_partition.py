"""A partition of a topic as one share group sees it, on the broker that leads the partition (Kafka: SharePartition).

The state of its records is in ``InFlightRecords``. This class locks it, gives changes to the persister, and sets the timer of
the acquisition locks. The lock is never held while the persister or a listener is called.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from enum import Enum
from functools import partial
from typing import Final, NamedTuple

from twisted.logger import Logger

from twisted_kafka.config.group_configs import ShareGroupConfigs
from twisted_kafka.protocol.errors import (
    ErrorCode,
    InvalidRecordStateError,
    InvalidRequestError,
    KafkaError,
    error_code_of,
    error_of,
)
from twisted_kafka.protocol.messages.share import share_state as wire
from twisted_kafka.share.acknowledgements import AcknowledgementBatch
from twisted_kafka.share.in_flight_records import (
    Acquired,
    Acquisition,
    Change,
    Expired,
    InFlightRecords,
    Limits,
    PersistedBatch,
)
from twisted_kafka.share.persister import IPersister
from twisted_kafka.share.record_state import RecordState
from twisted_kafka.share.share_partition_key import SharePartitionKey
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock
from twisted_kafka.timing.timer import Timer, TimerEntry
from twisted_kafka.waiting.futures import completed, then

NO_START_OFFSET: Final = -1


_log = Logger()


class SharePartitionState(Enum):
    """Whether the state was read from the persister."""

    EMPTY = "empty"
    INITIALIZING = "initializing"
    ACTIVE = "active"
    FAILED = "failed"
    FENCED = "fenced"
    """This broker does not lead the partition any more, or in another leader epoch."""


NEXT_STATES: Final = {
    SharePartitionState.EMPTY: frozenset({SharePartitionState.INITIALIZING, SharePartitionState.FENCED}),
    SharePartitionState.INITIALIZING: frozenset(
        {SharePartitionState.ACTIVE, SharePartitionState.FAILED, SharePartitionState.FENCED}
    ),
    SharePartitionState.ACTIVE: frozenset({SharePartitionState.FENCED}),
    SharePartitionState.FAILED: frozenset({SharePartitionState.FENCED}),
    SharePartitionState.FENCED: frozenset[SharePartitionState](),
}
"""The permitted next states of each state."""


class Result(NamedTuple):
    """The outcome of a request for one partition: NONE, or an error with its message."""

    error: ErrorCode
    message: str | None = None
    returned: int = 0
    """Records that were taken back, as their member has gone."""
    over_limit: int = 0
    """Records that are not delivered again, as their delivery count has reached the limit."""


OK: Final = Result(ErrorCode.NONE)
_FENCED: Final = Result(ErrorCode.NOT_LEADER_OR_FOLLOWER)

_NOT_NOW: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
_SHOWN: Final = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
_FENCING: Final = frozenset({ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH})


class SharePartitionEnvironment(NamedTuple):
    """The parts that all share partitions use."""

    clock: IClock
    timer: Timer
    """Calls back on threads that may append to logs."""
    persister: IPersister
    configs: Callable[[str], ShareGroupConfigs]
    """Returns a group's configs as they are now."""
    has_dead_letters: Callable[[str], bool]
    """Whether a group has a dead-letter queue, and the cluster supports it."""


class SharePartition:
    """See the module. Methods may be called on any thread."""

    def __init__(
        self,
        key: SharePartitionKey,
        leader_epoch: int,
        environment: SharePartitionEnvironment,
        reset_offset: Callable[[ShareGroupConfigs], int],
        changed: Callable[[], object],
        undeliverable: Callable[[], object],
        expired: Callable[[dict[str, Expired]], object],
    ) -> None:
        """``reset_offset`` finds the start offset of a new group with these configs; it may read the log.

        ``changed`` is called when records became available or there is room for more, ``undeliverable`` when records are on
        their way to the dead-letter queue, ``expired`` when locks have expired, with what each member has lost.
        """
        self.key = key
        self.leader_epoch = leader_epoch
        self.state_epoch = 0
        self._environment = environment
        self._reset_offset = reset_offset
        self._changed = changed
        self._undeliverable = undeliverable
        self._expired = expired
        self._lock = machine.Lock()
        self._fetch_lock = machine.Lock()
        self._is_wanted = False
        self._state = SharePartitionState.EMPTY
        self._initialized: Future[Result] = Future()
        self.outcome = OK
        """The outcome of the initialization, once it has failed."""
        self._records = InFlightRecords(0)
        self._timer_entry: TimerEntry | None = None
        self._timer_due_ns = 0

    # initialization and its end

    @property
    def state(self) -> SharePartitionState:
        """Whether it can be used."""
        return self._state

    def initialize(self) -> "Future[Result]":
        """Read the state from the persister, once; return a future of the outcome. After a failure it is of no use any more."""
        with self._lock:
            begins = self._state is SharePartitionState.EMPTY
            if begins:
                self._enter(SharePartitionState.INITIALIZING)
        if begins:
            asked = wire.ReadShareGroupStateRequestPartitionData(partition=self.key.partition, leader_epoch=self.leader_epoch)
            topic = wire.ReadStateData(topic_id=self.key.topic_id, partitions=[asked])
            request = wire.ReadShareGroupStateRequest(group_id=self.key.group_id, topics=[topic])
            self._environment.persister.read_state(request).add_done_callback(self._read)
        return self._initialized

    def _enter(self, state: SharePartitionState) -> None:
        assert state in NEXT_STATES[self._state]
        self._state = state

    def _read(self, done: "Future[wire.ReadShareGroupStateResponse]") -> None:
        try:
            (topic,) = done.result().results
            (found,) = topic.partitions
            result = _result_of(found.error_code, found.error_message)
            records = None if result.error else self._records_of(found)
        except KafkaError as error:
            result, records = Result(error.code, str(error)), None
        except Exception as error:  # noqa: BLE001 the requests that wait get an answer, too
            _log.failure("Cannot read the state of {key}", key=self.key)
            result, records = Result(error_of(error)), None
        with self._lock:
            if self._state is SharePartitionState.FENCED:
                return  # the requests that wait were answered
            if records is None:
                self.outcome = result
                self._enter(SharePartitionState.FAILED)
            else:
                self.state_epoch = found.state_epoch
                self._records = records
                self._enter(SharePartitionState.ACTIVE)
        self._initialized.set_result(result)
        if records is not None:
            self._changed()
            self._look_for_dead_letters()

    def _records_of(self, found: wire.ReadShareGroupStateResponsePartitionResult) -> InFlightRecords:
        """Return the records as they were persisted. Raises KafkaError if the log cannot say where a new group begins."""
        start_offset = found.start_offset
        if start_offset == NO_START_OFFSET:
            start_offset = self._reset_offset(self._environment.configs(self.key.group_id))
        persisted = [
            PersistedBatch(each.first_offset, each.last_offset, RecordState(each.delivery_state), each.delivery_count)
            for each in found.state_batches
        ]
        return InFlightRecords(start_offset, persisted)

    def fence(self) -> None:
        """End the use of this object: another leader, or this one in another epoch, reads the state from the persister."""
        with self._lock:
            if self._state is SharePartitionState.FENCED:
                return
            was_waiting = self._state in (SharePartitionState.EMPTY, SharePartitionState.INITIALIZING)
            self._enter(SharePartitionState.FENCED)
            entry, self._timer_entry = self._timer_entry, None
        if entry is not None:
            entry.cancel()
        if was_waiting:
            self._initialized.set_result(_FENCED)

    # fetching

    def lock_fetch(self) -> bool:
        """Reserve the right to fetch and acquire records, if they may be acquired now; return whether that was possible."""
        if not self.can_acquire():
            return False
        if self._fetch_lock.acquire(blocking=False):
            return True
        self._is_wanted = True
        return self._fetch_lock.acquire(blocking=False)  # it may have been given back before it was marked

    def unlock_fetch(self) -> bool:
        """Give the right back; return whether another fetch wanted it meanwhile."""
        self._fetch_lock.release()
        # Unmarked only if it is marked: another thread may fetch already, and a third one mark that it wants to.
        if self._is_wanted:
            self._is_wanted = False
            return True
        return False

    def can_acquire(self) -> bool:
        """Return whether there may be something to acquire."""
        with self._lock:
            return self._state is SharePartitionState.ACTIVE and self._records.can_acquire(self._limits())

    @property
    def next_fetch_offset(self) -> int:
        """The offset to fetch from."""
        with self._lock:
            return self._records.next_fetch_offset

    def acquire(
        self,
        acquisition: Acquisition,
        fetch_offset: int,
        batches: Iterable[tuple[int, int]],
        aborted: Sequence[tuple[int, int]] = (),
    ) -> list[Acquired]:
        """Acquire records of batches read from ``fetch_offset`` on; those of ``aborted`` batches are archived.

        The caller has the right to fetch.
        """
        with self._lock:
            if self._state is not SharePartitionState.ACTIVE:
                return []
            acquired = self._records.acquire(acquisition, self._limits(), fetch_offset, batches)
            if aborted:
                acquired = self._records.drop_aborted(acquired, aborted)
            self._set_timer()
        return acquired

    def log_start_moved(self, offset: int) -> None:
        """Forget records that are gone from the log."""
        with self._lock:
            is_new = self._records.log_start_moved(offset)
        if is_new:
            self._changed()

    def due_ns(self) -> int:
        """Return when the locks of records that are acquired now expire."""
        duration_ms = self._environment.configs(self.key.group_id).record_lock_duration_ms
        return self._environment.clock.monotonic_ns() + duration_ms * 1_000_000

    def _limits(self) -> Limits:
        configs = self._environment.configs(self.key.group_id)
        return Limits(
            configs.delivery_count_limit,
            configs.partition_max_record_locks,
            self._environment.has_dead_letters(self.key.group_id),
        )

    # acknowledging

    def acknowledge(self, member_id: str, batches: Sequence[AcknowledgementBatch]) -> "Future[Result]":
        """Acknowledge records of a member; all or nothing. The future is done when the persister has it."""
        due_ns = self.due_ns()
        with self._lock:
            if self._state is not SharePartitionState.ACTIVE:
                return completed(_FENCED)
            try:
                change = self._records.acknowledge(member_id, batches, self._limits(), due_ns)
            except (InvalidRecordStateError, InvalidRequestError) as error:
                return completed(Result(error.code, str(error)))
            if change.renewed:
                self._set_timer()
            request = self._write_request(change.batches)
        return self._persist(change, request, 0)

    def release(self, member_id: str) -> "Future[Result]":
        """Give back all records that a member has acquired; the result has their number."""
        with self._lock:
            if self._state is not SharePartitionState.ACTIVE:
                return completed(OK)
            change = self._records.release(member_id, self._limits())
            request = self._write_request(change.batches)
        return self._persist(change, request, sum(len(run) for run in change.runs))

    def _persist(self, change: Change, request: wire.WriteShareGroupStateRequest, returned: int) -> "Future[Result]":
        if not change.runs:
            return completed(OK)

        def written(response: wire.WriteShareGroupStateResponse) -> Result:
            result = _written(response)
            with self._lock:
                self._records.settle(change, is_written=not result.error)
                self._records.advance()
                self._set_timer()
            self._changed()
            self._look_for_dead_letters()
            return result if result.error else OK._replace(returned=returned, over_limit=change.over_limit)

        return then(self._environment.persister.write_state(request), written)

    def _write_request(self, batches: Sequence[PersistedBatch]) -> wire.WriteShareGroupStateRequest:
        """Return the request that writes some batches, with the offsets as they are now."""
        data = wire.WriteShareGroupStateRequestPartitionData(
            partition=self.key.partition,
            state_epoch=self.state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self._records.start_offset,
            delivery_complete_count=self._records.complete_count,
            state_batches=[
                wire.WriteShareGroupStateRequestStateBatch(
                    first_offset=each.first_offset,
                    last_offset=each.last_offset,
                    delivery_state=each.state,
                    delivery_count=each.delivery_count,
                )
                for each in batches
            ],
        )
        topic = wire.WriteStateData(topic_id=self.key.topic_id, partitions=[data])
        return wire.WriteShareGroupStateRequest(group_id=self.key.group_id, topics=[topic])

    def _write(self, batches: Sequence[PersistedBatch], request: wire.WriteShareGroupStateRequest) -> None:
        """Write a change that has taken effect already; if that fails, a new leader delivers the records once more."""

        def written(done: "Future[wire.WriteShareGroupStateResponse]") -> None:
            result = _written(done.result())
            if result.error:
                _log.warn(
                    "The state of {n} batches of {key} was not written: {error}",
                    n=len(batches),
                    key=self.key,
                    error=result.error.name,
                )
            with self._lock:
                moved = self._records.advance()
            if moved:
                self._changed()

        self._environment.persister.write_state(request).add_done_callback(written)

    # locks

    def _set_timer(self) -> None:
        """Set the timer to when the next lock expires, unless it rings before; the lock is held."""
        due_ns = self._records.next_due_ns
        if due_ns is None or (self._timer_entry is not None and self._timer_due_ns <= due_ns):
            return
        if self._timer_entry is not None:
            self._timer_entry.cancel()
        delay_ms = (due_ns - self._environment.clock.monotonic_ns()) / 1e6
        self._timer_due_ns = due_ns
        self._timer_entry = self._environment.timer.add(max(delay_ms, 0), partial(self._expire, due_ns))

    def _expire(self, due_ns: int) -> None:
        """Take back records whose locks have expired."""
        with self._lock:
            if self._state is not SharePartitionState.ACTIVE or self._timer_due_ns != due_ns:
                return
            self._timer_entry = None
            batches, lost = self._records.expire(self._environment.clock.monotonic_ns(), self._limits())
            self._set_timer()
            request = self._write_request(batches)
        if batches:
            self._write(batches, request)
            self._changed()
            self._look_for_dead_letters()
            self._expired(lost)

    # dead letters

    def _look_for_dead_letters(self) -> None:
        with self._lock:
            has_some = bool(self._records.archiving())
        if has_some:
            self._undeliverable()

    def archiving(self) -> list[tuple[int, int, int]]:
        """Return the records on their way to the dead-letter queue: first and last offsets with delivery counts."""
        with self._lock:
            return self._records.archiving() if self._state is SharePartitionState.ACTIVE else []

    def archive_dead(self, first_offset: int, last_offset: int) -> None:
        """Archive records that are in the dead-letter queue."""
        with self._lock:
            if self._state is not SharePartitionState.ACTIVE:
                return
            batches = self._records.archive_dead(first_offset, last_offset)
            request = self._write_request(batches)
        if batches:
            self._write(batches, request)

    # views

    def snapshot(self) -> tuple[int, int, list[tuple[int, int, RecordState, int, str]]]:
        """Return start and end offset, and of each run the first and last offset, state, delivery count and member."""
        with self._lock:
            runs = [(run.first, run.last, run.state, run.count, run.member_id) for run in self._records]
            return self._records.start_offset, self._records.end_offset, runs


def _written(response: wire.WriteShareGroupStateResponse) -> Result:
    (topic,) = response.results
    (result,) = topic.partitions
    return _result_of(result.error_code, result.error_message)


def _result_of(code: int, message: str | None) -> Result:
    """Return what a client is to know of a persister's answer (Kafka: SharePartition.fetchPersisterError)."""
    if not code:
        return OK
    error = error_code_of(code)
    if error in _NOT_NOW:
        return Result(ErrorCode.COORDINATOR_NOT_AVAILABLE, message)
    if error in _FENCING:
        return Result(ErrorCode.NOT_LEADER_OR_FOLLOWER, message)
    return Result(error if error in _SHOWN else ErrorCode.UNKNOWN_SERVER_ERROR, message)
