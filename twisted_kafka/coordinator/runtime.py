"""The runtime under the coordinators: who is in charge of a key, one operation at a time, answers after the commit.

An operation is a method of a shard (see ``ICoordinatorShard``). It reads the shard's state and returns its response, or a
``Write`` of records and what to answer once they are committed. The runtime appends the records to the partition of the
internal topic that the key hashes to, replays them, which alone changes what is stored, and hands the answer out. A shard
is loaded by replaying its partition from the log.

The records are replayed as soon as they are in the local log, so the next operation sees them; the answer waits for the
replicas, and so does every ``read``: nothing is told that a change of leader could take back.
"""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Concatenate, ParamSpec, TypeVar

from twisted.logger import Logger
from zope.interface import implementer

from twisted_kafka.coordinator.effects import Effects, EndTransaction, ITimers, TimerHandle, Write
from twisted_kafka.coordinator.hashing import partition_for
from twisted_kafka.coordinator.interfaces import IPartitionReader, IPartitionWriter, IShardFactory
from twisted_kafka.coordinator.loader import load_partition
from twisted_kafka.coordinator.records import Producer
from twisted_kafka.coordinator.slot import Slot, SlotState
from twisted_kafka.protocol.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    ErrorCode,
    NotCoordinatorError,
    error_of,
)
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.timing.clock import IClock
from twisted_kafka.timing.scheduler import IScheduler
from twisted_kafka.timing.timer import Timer, TimerEntry

P = ParamSpec("P")
R = TypeVar("R")
ACTIVE = SlotState.ACTIVE


class RuntimeSettings:
    """The internal topic and how its partitions are written and read."""

    __slots__ = ("compression", "load_buffer_size", "on_loaded", "partition_count", "topic")

    def __init__(
        self,
        topic: str,
        partition_count: Callable[[], int],
        load_buffer_size: int = 5_242_880,
        compression: Compression = Compression.NONE,
        on_loaded: Callable[[float], object] = float,
    ) -> None:
        """``on_loaded`` is told of each partition that was loaded how many milliseconds it took."""
        self.topic = topic
        self.partition_count = partition_count
        self.load_buffer_size = load_buffer_size
        self.compression = compression
        self.on_loaded = on_loaded


class CoordinatorRuntime:
    """Shards by partition; operations by key. All methods may be called on any thread."""

    log = Logger()

    def __init__(
        self,
        settings: RuntimeSettings,
        shards: IShardFactory,
        writer: IPartitionWriter,
        reader: IPartitionReader,
        scheduler: IScheduler,
        timer: Timer,
        clock: IClock,
    ) -> None:
        self.topic = settings.topic
        self._settings = settings
        self._shards = shards
        self._writer = writer
        self._reader = reader
        self._scheduler = scheduler
        self._timer = timer
        self._clock = clock
        self._slots: dict[int, Slot] = {}
        self._slots_lock = threading.Lock()
        self._past_busy_ns = 0
        self._to_load: deque[Slot] = deque()
        self._is_loader_busy = False
        self._is_running = False

    # life

    def startup(self) -> None:
        """Begin to answer."""
        self._is_running = True

    def shutdown(self) -> None:
        """Answer COORDINATOR_NOT_AVAILABLE from now on, and what is parked with NOT_COORDINATOR."""
        self._is_running = False
        with self._slots_lock:
            slots = list(self._slots.values())
            self._slots.clear()
        for slot in slots:
            self._close(slot)

    def elected(self, partition: int, leader_epoch: int) -> None:
        """This broker leads the partition: load its shard in the background, unless that was done in this epoch."""
        with self._slots_lock:
            old = self._slots.get(partition)
            if old is not None and old.leader_epoch >= leader_epoch and old.state is not SlotState.FAILED:
                return
            slot = Slot(TopicPartition(self.topic, partition), leader_epoch, self._clock.monotonic_ns)
            slot.effects = Effects(_SlotTimers(self, slot, self._timer))
            slot.shard = self._shards.shard(partition, slot.effects)
            self._slots[partition] = slot
            self._to_load.append(slot)
            starts_loader = not self._is_loader_busy
            self._is_loader_busy = True
        if old is not None:
            self._close(old)
        if starts_loader:
            self._scheduler.schedule_once(f"load-{self.topic}", self._load_all)

    def resigned(self, partition: int, leader_epoch: int | None = None) -> None:
        """This broker leads the partition no more: forget its shard; an older epoch than the loaded one says nothing."""
        with self._slots_lock:
            slot = self._slots.get(partition)
            if slot is None or (leader_epoch is not None and slot.leader_epoch > leader_epoch):
                return
            del self._slots[partition]
        self._close(slot)

    def _close(self, slot: Slot) -> None:
        with slot.lock:
            was_active = slot.state is ACTIVE
            slot.state = SlotState.CLOSED
            if was_active:
                slot.shard.unloaded()
                slot.effects.writes.clear()
        slot.settle()
        with self._slots_lock:
            self._past_busy_ns += slot.busy_ns

    def _load_all(self) -> None:
        """Load one partition after the other: fifty empty ones, the usual case of a start, aren't worth a thread each."""
        while True:
            with self._slots_lock:
                if not self._to_load:
                    self._is_loader_busy = False
                    return
                slot = self._to_load.popleft()
            self._load(slot)

    def _load(self, slot: Slot) -> None:
        started_ns = self._clock.monotonic_ns()
        try:
            count = load_partition(
                slot.shard,
                self._shards.kinds(),
                self._reader.read_all(slot.partition, self._settings.load_buffer_size),
                lambda: slot.state is SlotState.LOADING,
            )
        except Exception:  # noqa: BLE001 whatever is wrong with the log, the other partitions work on
            self.log.failure("{partition} could not be loaded, its groups are not available", partition=slot.partition)
            slot.state = SlotState.FAILED if slot.state is SlotState.LOADING else slot.state
            return
        with slot.lock:
            if slot.state is not SlotState.LOADING:
                return
            slot.shard.loaded()
            slot.state = ACTIVE
            self._perform_effects(slot)
        slot.settle()
        taken_ms = (self._clock.monotonic_ns() - started_ns) / 1e6
        self._settings.on_loaded(taken_ms)
        if count:
            self.log.info("loaded {partition}: {n} records in {ms} ms", partition=slot.partition, n=count, ms=int(taken_ms))

    # routing

    def partition_for(self, key: str) -> int:
        """Return the partition that the key belongs to."""
        return partition_for(key, self._settings.partition_count())

    def is_loading(self) -> bool:
        """Return whether some partition is being loaded."""
        with self._slots_lock:
            return any(slot.state is SlotState.LOADING for slot in self._slots.values())

    def active_partitions(self) -> list[int]:
        """Return the partitions that this broker is in charge of, loaded and ready."""
        with self._slots_lock:
            return [partition for partition, slot in self._slots.items() if slot.state is ACTIVE]

    def check(self, key: str) -> None:
        """Raise what ``execute`` would raise for the key."""
        self._slot(key)

    def _slot(self, key: str) -> Slot:
        slot = self._slots.get(partition_for(key, self._settings.partition_count()))
        if slot is None or slot.state is not ACTIVE or not self._is_running:
            self._refuse(slot)
        return slot  # type: ignore[return-value]  # _refuse never returns

    def partition_states(self) -> dict[str, int]:
        """Return how many partitions are ``loading``, ``active`` and ``failed``."""
        states = [slot.state for slot in self._all_slots()]
        return {state.value: states.count(state) for state in (SlotState.LOADING, SlotState.ACTIVE, SlotState.FAILED)}

    def queue_size(self) -> int:
        """Return how much waits to be done: actions for shards that are held by another, and partitions to be loaded."""
        return sum(slot.waiting for slot in self._all_slots()) + len(self._to_load)

    def busy_ns(self) -> int:
        """Return how long operations have run, on whatever threads."""
        return self._past_busy_ns + sum(slot.busy_ns for slot in self._all_slots())

    def peek(self) -> list[Any]:
        """Return the shards that are in charge, without their locks: for reads, by whoever can do with a moment's disorder."""
        return [slot.shard for slot in self._all_slots() if slot.state is ACTIVE]

    def _all_slots(self) -> list[Slot]:
        # In one step, so that it needs no lock.
        return list(self._slots.values())

    def _refuse(self, slot: Slot | None) -> None:
        if not self._is_running:
            raise CoordinatorNotAvailableError("the coordinator is not running")
        if slot is None or slot.state is SlotState.CLOSED:
            raise NotCoordinatorError("this broker does not lead the key's partition")
        if slot.state is SlotState.LOADING:
            raise CoordinatorLoadInProgressError(f"{slot.partition} is being loaded")
        raise CoordinatorNotAvailableError(f"{slot.partition} could not be loaded")

    # operations

    def execute(self, key: str, operation: Callable[Concatenate[Any, P], R], *args: P.args, **kwargs: P.kwargs) -> Any:
        """Run an operation on the key's shard; returns its response, or a future of it when replicas must confirm first.

        Raises NotCoordinatorError, CoordinatorLoadInProgressError and CoordinatorNotAvailableError.
        """
        return self._run(self._slot(key), operation, *args, **kwargs)

    def read(self, key: str, operation: Callable[Concatenate[Any, P], R], *args: P.args, **kwargs: P.kwargs) -> Any:
        """Do as ``execute``; if the operation writes nothing, what it saw is answered when that is committed."""
        slot = self._slot(key)
        result = self._run(slot, operation, *args, **kwargs)
        uncommitted = slot.uncommitted
        if uncommitted is None or uncommitted.done() or isinstance(result, Future):
            return result
        answer: Future[R] = Future()
        uncommitted.add_done_callback(lambda _: answer.set_result(result))
        return answer

    def execute_everywhere(self, operation: Callable[[Any], R]) -> list[R]:
        """Run an operation that returns no Write on each shard that is in charge; returns the results."""
        with self._slots_lock:
            slots = [slot for slot in self._slots.values() if slot.state is ACTIVE]
        results = []
        for slot in slots:
            try:
                results.append(self._run(slot, operation))
            except NotCoordinatorError:  # unloaded meanwhile
                continue
        return results

    def _run(self, slot: Slot, operation: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        effects = slot.effects
        try:
            with slot.lock:
                if slot.state is not ACTIVE:
                    self._refuse(slot)
                began_ns = self._clock.monotonic_ns()
                try:
                    result = operation(slot.shard, *args, **kwargs)
                    if isinstance(result, Write):
                        result = self._perform(slot, result)
                    if effects.writes:
                        self._perform_effects(slot)
                finally:
                    slot.busy_ns += self._clock.monotonic_ns() - began_ns
        finally:
            slot.settle()
        return result

    def run_timer(self, slot: Slot, action: Callable[[], None]) -> None:
        """Run a timer's action with the shard held, if it's still in charge."""

        def ring() -> None:
            if slot.state is ACTIVE:
                action()
                self._perform_effects(slot)

        slot.post(ring)

    def end_transaction(
        self, partition: int, producer: Producer, coordinator_epoch: int, committed: bool
    ) -> "ErrorCode | Future[ErrorCode]":
        """Append the marker that ends a producer's transaction in the partition, and let its records count or drop them.

        No operation comes between the two. Raises what ``execute`` raises, INVALID_PRODUCER_EPOCH and
        TRANSACTION_COORDINATOR_FENCED are values.
        """
        slot = self._slots.get(partition)
        if slot is None or slot.state is not ACTIVE or not self._is_running:
            self._refuse(slot)

        def end(_: Any) -> EndTransaction:
            return EndTransaction(producer, coordinator_epoch, committed, ErrorCode)

        answer: ErrorCode | Future[ErrorCode] = self._run(slot, end)  # type: ignore[arg-type]  # _refuse never returns
        return answer

    # writes

    def _perform_effects(self, slot: Slot) -> None:
        writes = slot.effects.writes
        while writes:
            self._perform(slot, writes.popleft())

    def _perform(self, slot: Slot, write: Write) -> Any:
        if write.is_empty():
            return write.completed(ErrorCode.NONE)
        outcome = self._append(slot, write)
        if isinstance(outcome, Future):
            write.replay(slot.shard)
            answer: Future[Any] = Future()
            slot.uncommitted = answer
            outcome.add_done_callback(lambda done: slot.post(lambda: self._committed(slot, write, answer, done)))
            return answer
        if not outcome:
            write.replay(slot.shard)
        return write.completed(outcome)

    def _append(self, slot: Slot, write: Write) -> "ErrorCode | Future[ErrorCode]":
        try:
            return self._writer.append(slot.partition, write.encode(self._clock.wall_ms(), self._settings.compression))
        except Exception as error:  # noqa: BLE001 the operation answers it like any other failed append
            code = error_of(error)
            if code is ErrorCode.UNKNOWN_SERVER_ERROR:
                self.log.failure("append to {partition} failed", partition=slot.partition)
            return code

    def _committed(self, slot: Slot, write: Write, answer: "Future[Any]", done: "Future[ErrorCode]") -> None:
        failure = done.exception()
        error = done.result() if failure is None else error_of(failure)
        result = write.completed(error)
        if isinstance(result, Future):
            result.add_done_callback(lambda later: answer.set_result(later.result()))
        else:
            slot.effects.reply(answer, result)
        if slot.state is ACTIVE:
            self._perform_effects(slot)
        else:
            slot.effects.writes.clear()


@implementer(ITimers)
class _SlotTimers:
    """A slot's alarms on the coordinator's timer."""

    __slots__ = ("_runtime", "_slot", "_timer")

    def __init__(self, runtime: CoordinatorRuntime, slot: Slot, timer: Timer) -> None:
        self._runtime = runtime
        self._slot = slot
        self._timer = timer

    def after(self, name: str, delay_ms: float, action: Callable[[], None]) -> TimerHandle:
        """Set an alarm; see ITimers."""
        entry: TimerEntry = self._timer.add(delay_ms, lambda: self._runtime.run_timer(self._slot, action))
        return entry
