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
from enum import Enum
from typing import Any, Concatenate, ParamSpec, TypeVar

from twisted.logger import Logger
from zope.interface import implementer

from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.coordinator.effects import Effects, EndTransaction, ITimers, TimerHandle, Write
from twisted_kafka.coordinator.hashing import partition_for
from twisted_kafka.coordinator.interfaces import IPartitionReader, IPartitionWriter, IShardFactory
from twisted_kafka.coordinator.loader import load_partition
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

_log = Logger()


class CoordinatorState(Enum):
    """Whether a partition's shard may be asked."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


class CoordinatorContext:
    """A shard under its lock.

    ``post`` never blocks: whoever holds the lock, perhaps the caller itself further up its stack, runs the action before
    or just after it lets go. So an append may complete on any thread, even one in the middle of another operation.
    """

    __slots__ = ("_mailbox", "_now_ns", "busy_ns", "effects", "leader_epoch", "lock", "partition", "shard", "state", "uncommitted")

    def __init__(self, partition: TopicPartition, leader_epoch: int, now_ns: Callable[[], int]) -> None:
        self.partition = partition
        self.busy_ns = 0
        """How long operations and posted actions have run; counted by whoever holds the lock."""
        self._now_ns = now_ns
        self.leader_epoch = leader_epoch
        self.state = CoordinatorState.LOADING
        self.lock = threading.Lock()
        self.effects: Effects = None  # type: ignore[assignment]  # the runtime sets these two at once: they need the context
        self.shard: Any = None
        self.uncommitted: Future[Any] | None = None
        self._mailbox: deque[Callable[[], None]] = deque()

    @property
    def waiting(self) -> int:
        """How many posted actions wait for the lock."""
        return len(self._mailbox)

    def post(self, action: Callable[[], None]) -> None:
        """Have ``action`` run with the lock held, now or when the present holder lets go."""
        self._mailbox.append(action)
        self.settle()

    def settle(self) -> None:
        """Run what was posted and send the replies; called without the lock, after each time that it was held."""
        while True:
            while self._mailbox and self.lock.acquire(blocking=False):
                try:
                    while self._mailbox:
                        self._run_one(self._mailbox.popleft())
                finally:
                    self.lock.release()
            replies = self.effects.replies
            if not replies:
                if self._mailbox and not self.lock.locked():
                    continue
                return
            while replies:
                try:
                    parked, result = replies.popleft()
                except IndexError:  # another thread sends them too
                    break
                if not parked.done():
                    parked.set_result(result)

    def _run_one(self, action: Callable[[], None]) -> None:
        began_ns = self._now_ns()
        try:
            action()
        except Exception:  # noqa: BLE001 whoever happens to hold the lock has nothing to do with this action
            _log.failure("an action on {partition} failed", partition=self.partition)
        finally:
            self.busy_ns += self._now_ns() - began_ns


ACTIVE = CoordinatorState.ACTIVE


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
        self._contexts: dict[int, CoordinatorContext] = {}
        self._contexts_lock = threading.Lock()
        self._past_busy_ns = 0
        self._to_load: deque[CoordinatorContext] = deque()
        self._is_loader_busy = False
        self._is_running = False

    # life

    def startup(self) -> None:
        """Begin to answer."""
        self._is_running = True

    def shutdown(self) -> None:
        """Answer COORDINATOR_NOT_AVAILABLE from now on, and what is parked with NOT_COORDINATOR."""
        self._is_running = False
        with self._contexts_lock:
            contexts = list(self._contexts.values())
            self._contexts.clear()
        for context in contexts:
            self._close(context)

    def elected(self, partition: int, leader_epoch: int) -> None:
        """This broker leads the partition: load its shard in the background, unless that was done in this epoch."""
        with self._contexts_lock:
            old = self._contexts.get(partition)
            if old is not None and old.leader_epoch >= leader_epoch and old.state is not CoordinatorState.FAILED:
                return
            context = CoordinatorContext(TopicPartition(self.topic, partition), leader_epoch, self._clock.monotonic_ns)
            context.effects = Effects(_ContextTimers(self, context, self._timer))
            context.shard = self._shards.shard(partition, context.effects)
            self._contexts[partition] = context
            self._to_load.append(context)
            starts_loader = not self._is_loader_busy
            self._is_loader_busy = True
        if old is not None:
            self._close(old)
        if starts_loader:
            self._scheduler.schedule_once(f"load-{self.topic}", self._load_all)

    def resigned(self, partition: int, leader_epoch: int | None = None) -> None:
        """This broker leads the partition no more: forget its shard; an older epoch than the loaded one says nothing."""
        with self._contexts_lock:
            context = self._contexts.get(partition)
            if context is None or (leader_epoch is not None and context.leader_epoch > leader_epoch):
                return
            del self._contexts[partition]
        self._close(context)

    def _close(self, context: CoordinatorContext) -> None:
        with context.lock:
            was_active = context.state is ACTIVE
            context.state = CoordinatorState.CLOSED
            if was_active:
                context.shard.unloaded()
                context.effects.writes.clear()
        context.settle()
        with self._contexts_lock:
            self._past_busy_ns += context.busy_ns

    def _load_all(self) -> None:
        """Load one partition after the other: fifty empty ones, the usual case of a start, aren't worth a thread each."""
        while True:
            with self._contexts_lock:
                if not self._to_load:
                    self._is_loader_busy = False
                    return
                context = self._to_load.popleft()
            self._load(context)

    def _load(self, context: CoordinatorContext) -> None:
        started_ns = self._clock.monotonic_ns()
        try:
            count = load_partition(
                context.shard,
                self._shards.kinds(),
                self._reader.read_all(context.partition, self._settings.load_buffer_size),
                lambda: context.state is CoordinatorState.LOADING,
            )
        except Exception:  # noqa: BLE001 whatever is wrong with the log, the other partitions work on
            self.log.failure("{partition} could not be loaded, its groups are not available", partition=context.partition)
            context.state = CoordinatorState.FAILED if context.state is CoordinatorState.LOADING else context.state
            return
        with context.lock:
            if context.state is not CoordinatorState.LOADING:
                return
            context.shard.loaded()
            context.state = ACTIVE
            self._perform_effects(context)
        context.settle()
        taken_ms = (self._clock.monotonic_ns() - started_ns) / 1e6
        self._settings.on_loaded(taken_ms)
        if count:
            self.log.info("loaded {partition}: {n} records in {ms} ms", partition=context.partition, n=count, ms=int(taken_ms))

    # routing

    def partition_for(self, key: str) -> int:
        """Return the partition that the key belongs to."""
        return partition_for(key, self._settings.partition_count())

    def is_loading(self) -> bool:
        """Return whether some partition is being loaded."""
        with self._contexts_lock:
            return any(context.state is CoordinatorState.LOADING for context in self._contexts.values())

    def active_partitions(self) -> list[int]:
        """Return the partitions that this broker is in charge of, loaded and ready."""
        with self._contexts_lock:
            return [partition for partition, context in self._contexts.items() if context.state is ACTIVE]

    def check(self, key: str) -> None:
        """Raise what ``execute`` would raise for the key."""
        self._context(key)

    def _context(self, key: str) -> CoordinatorContext:
        context = self._contexts.get(partition_for(key, self._settings.partition_count()))
        if context is None or context.state is not ACTIVE or not self._is_running:
            self._refuse(context)
        return context  # type: ignore[return-value]  # _refuse never returns

    def partition_states(self) -> dict[str, int]:
        """Return how many partitions are ``loading``, ``active`` and ``failed``."""
        states = [context.state for context in self._all_contexts()]
        return {
            state.value: states.count(state)
            for state in (CoordinatorState.LOADING, CoordinatorState.ACTIVE, CoordinatorState.FAILED)
        }

    def queue_size(self) -> int:
        """Return how much waits to be done: actions for shards that are held by another, and partitions to be loaded."""
        return sum(context.waiting for context in self._all_contexts()) + len(self._to_load)

    def busy_ns(self) -> int:
        """Return how long operations have run, on whatever threads."""
        return self._past_busy_ns + sum(context.busy_ns for context in self._all_contexts())

    def peek(self) -> list[Any]:
        """Return the shards that are in charge, without their locks: for reads, by whoever can do with a moment's disorder."""
        return [context.shard for context in self._all_contexts() if context.state is ACTIVE]

    def _all_contexts(self) -> list[CoordinatorContext]:
        # In one step, so that it needs no lock.
        return list(self._contexts.values())

    def _refuse(self, context: CoordinatorContext | None) -> None:
        if not self._is_running:
            raise CoordinatorNotAvailableError("the coordinator is not running")
        if context is None or context.state is CoordinatorState.CLOSED:
            raise NotCoordinatorError("this broker does not lead the key's partition")
        if context.state is CoordinatorState.LOADING:
            raise CoordinatorLoadInProgressError(f"{context.partition} is being loaded")
        raise CoordinatorNotAvailableError(f"{context.partition} could not be loaded")

    # operations

    def execute(self, key: str, operation: Callable[Concatenate[Any, P], R], *args: P.args, **kwargs: P.kwargs) -> Any:
        """Run an operation on the key's shard; returns its response, or a future of it when replicas must confirm first.

        Raises NotCoordinatorError, CoordinatorLoadInProgressError and CoordinatorNotAvailableError.
        """
        return self._run(self._context(key), operation, *args, **kwargs)

    def read(self, key: str, operation: Callable[Concatenate[Any, P], R], *args: P.args, **kwargs: P.kwargs) -> Any:
        """Do as ``execute``; if the operation writes nothing, what it saw is answered when that is committed."""
        context = self._context(key)
        result = self._run(context, operation, *args, **kwargs)
        uncommitted = context.uncommitted
        if uncommitted is None or uncommitted.done() or isinstance(result, Future):
            return result
        answer: Future[R] = Future()
        uncommitted.add_done_callback(lambda _: answer.set_result(result))
        return answer

    def execute_everywhere(self, operation: Callable[[Any], R]) -> list[R]:
        """Run an operation that returns no Write on each shard that is in charge; returns the results."""
        with self._contexts_lock:
            contexts = [context for context in self._contexts.values() if context.state is ACTIVE]
        results = []
        for context in contexts:
            try:
                results.append(self._run(context, operation))
            except NotCoordinatorError:  # unloaded meanwhile
                continue
        return results

    def _run(self, context: CoordinatorContext, operation: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        effects = context.effects
        try:
            with context.lock:
                if context.state is not ACTIVE:
                    self._refuse(context)
                began_ns = self._clock.monotonic_ns()
                try:
                    result = operation(context.shard, *args, **kwargs)
                    if isinstance(result, Write):
                        result = self._perform(context, result)
                    if effects.writes:
                        self._perform_effects(context)
                finally:
                    context.busy_ns += self._clock.monotonic_ns() - began_ns
        finally:
            context.settle()
        return result

    def run_timer(self, context: CoordinatorContext, action: Callable[[], None]) -> None:
        """Run a timer's action with the shard held, if it's still in charge."""

        def ring() -> None:
            if context.state is ACTIVE:
                action()
                self._perform_effects(context)

        context.post(ring)

    def end_transaction(
        self, partition: int, producer: Producer, coordinator_epoch: int, committed: bool
    ) -> "ErrorCode | Future[ErrorCode]":
        """Append the marker that ends a producer's transaction in the partition, and let its records count or drop them.

        No operation comes between the two. Raises what ``execute`` raises, INVALID_PRODUCER_EPOCH and
        TRANSACTION_COORDINATOR_FENCED are values.
        """
        context = self._contexts.get(partition)
        if context is None or context.state is not ACTIVE or not self._is_running:
            self._refuse(context)

        def end(_: Any) -> EndTransaction:
            return EndTransaction(producer, coordinator_epoch, committed, ErrorCode)

        answer: ErrorCode | Future[ErrorCode] = self._run(context, end)  # type: ignore[arg-type]  # _refuse never returns
        return answer

    # writes

    def _perform_effects(self, context: CoordinatorContext) -> None:
        writes = context.effects.writes
        while writes:
            self._perform(context, writes.popleft())

    def _perform(self, context: CoordinatorContext, write: Write) -> Any:
        if write.is_empty():
            return write.completed(ErrorCode.NONE)
        outcome = self._append(context, write)
        if isinstance(outcome, Future):
            write.replay(context.shard)
            answer: Future[Any] = Future()
            context.uncommitted = answer
            outcome.add_done_callback(lambda done: context.post(lambda: self._committed(context, write, answer, done)))
            return answer
        if not outcome:
            write.replay(context.shard)
        return write.completed(outcome)

    def _append(self, context: CoordinatorContext, write: Write) -> "ErrorCode | Future[ErrorCode]":
        try:
            batch = write.encode(self._clock.wall_ms(), self._settings.compression)
            return self._writer.append(context.partition, batch, write.guard)
        except Exception as error:  # noqa: BLE001 the operation answers it like any other failed append
            code = error_of(error)
            if code is ErrorCode.UNKNOWN_SERVER_ERROR:
                self.log.failure("append to {partition} failed", partition=context.partition)
            return code

    def _committed(self, context: CoordinatorContext, write: Write, answer: "Future[Any]", done: "Future[ErrorCode]") -> None:
        failure = done.exception()
        error = done.result() if failure is None else error_of(failure)
        result = write.completed(error)
        if isinstance(result, Future):
            result.add_done_callback(lambda later: answer.set_result(later.result()))
        else:
            context.effects.reply(answer, result)
        if context.state is ACTIVE:
            self._perform_effects(context)
        else:
            context.effects.writes.clear()


@implementer(ITimers)
class _ContextTimers:
    """A context's alarms on the coordinator's timer."""

    __slots__ = ("_context", "_runtime", "_timer")

    def __init__(self, runtime: CoordinatorRuntime, context: CoordinatorContext, timer: Timer) -> None:
        self._runtime = runtime
        self._context = context
        self._timer = timer

    def after(self, name: str, delay_ms: float, action: Callable[[], None]) -> TimerHandle:
        """Set an alarm; see ITimers."""
        entry: TimerEntry = self._timer.add(delay_ms, lambda: self._runtime.run_timer(self._context, action))
        return entry
