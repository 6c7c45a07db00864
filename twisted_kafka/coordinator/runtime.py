"""The coordinators' runtime: routes keys to shards, runs one operation at a time, answers after the commit.

An operation is a method of a shard (see ``CoordinatorShard``). It reads the shard's state and returns its response, or a
``Write`` with records and a callback that builds the response. The runtime appends the records to the partition of the
internal topic that the key hashes to, replays them into the shard, and answers when they are committed. Only replay changes
stored state. A shard is loaded by replaying its partition from the log.

Operations that follow each other closely share an append (Kafka: ``append.linger.ms``): the write of an operation joins an open
batch while another operation waits for the shard's lock, or for a configured time. The batch is appended, and only then replayed,
before anything but an operation on another key may run.

Records are replayed as soon as they are in the local log, so the next operation sees them. The answer waits for the replicas,
and so does every ``read`` of the same key: no answer reveals a change that a new leader might not have. An append that the replicas
did not confirm in time is in doubt: it stays in the log and in the state, and reads of its keys fail until it is known to be
committed. So is the end of the log that a new leader loads.

Input and output that an operation starts (``Effects.send``) run without the lock. The shard receives their results.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from enum import Enum
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Final, Generic, NoReturn, TypeVar, cast

from twisted.logger import Logger

from twisted_kafka.coordinator.coordinator_record import CoordinatorRecord, Producer
from twisted_kafka.coordinator.damage import REFUSE_DAMAGE, DamagePolicy
from twisted_kafka.coordinator.effects import Effects, EndTransaction, Send, ShardTimer, ShardTimers, Write, Writes
from twisted_kafka.coordinator.hashing import partition_for
from twisted_kafka.coordinator.interfaces import Appended, ShardFactory
from twisted_kafka.coordinator.loader import load_partition
from twisted_kafka.coordinator.replica_log import ReplicaReader, ReplicaWriter
from twisted_kafka.coordinator.settlers import Settlers
from twisted_kafka.coordinator.shard import CoordinatorShard
from twisted_kafka.coordinator.shared_append import TOO_LARGE, OpenBatch, Operation, Together, settle
from twisted_kafka.coordinator.uncommitted import UncommittedAppend, UncommittedKeys
from twisted_kafka.protocol.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    ErrorCode,
    KafkaError,
    NotCoordinatorError,
    error_of,
)
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.replica_manager import ReplicaManager
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock
from twisted_kafka.timing.scheduler import IScheduler
from twisted_kafka.timing.timer import Timer
from twisted_kafka.waiting.futures import and_then, forward, recover

R = TypeVar("R")
S = TypeVar("S", bound=CoordinatorShard)
T = TypeVar("T")

_log = Logger()


class UncommittedStateError(CoordinatorNotAvailableError):
    """A read has seen state that is not committed in time."""


class CoordinatorState(Enum):
    """The state of a partition's shard; only an active one executes operations."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


class CoordinatorContext(Generic[S]):
    """One partition's shard with its lock, its pending actions, its replies and its sends.

    ``post`` never blocks: if another thread, or the caller further up its own stack, holds the lock, the holder runs the
    action before or just after it releases the lock. So an append may complete on any thread, even in the middle of another
    operation. A thread that has done ``MAX_SETTLED`` things for others leaves the rest to the scheduler.
    """

    effects: Effects
    shard: S
    # The runtime sets these two right after the constructor: they need the context.

    __slots__ = (
        "_leave_rest",
        "_mailbox",
        "_now_ns",
        "_send",
        "_waiters_lock",
        "batch",
        "busy_ns",
        "effects",
        "failed_loads",
        "leader_epoch",
        "lock",
        "partition",
        "predecessor",
        "shard",
        "state",
        "uncommitted",
        "waiters",
    )

    def __init__(
        self,
        partition: TopicPartition,
        leader_epoch: int,
        now_ns: Callable[[], int],
        send: "Callable[[CoordinatorContext[S], Send], None]",
        leave_rest: Callable[[Callable[[], object], TopicPartition], bool],
    ) -> None:
        """``leave_rest`` makes another thread call ``settle``; it returns False if no such thread runs any more."""
        self.partition = partition
        self.busy_ns = 0
        """Total run time of operations and posted actions; updated by the holder of the lock."""
        self._now_ns = now_ns
        self._send = send
        self._leave_rest = leave_rest
        self.leader_epoch = leader_epoch
        self.failed_loads = 0
        """How often the partition could not be loaded before this time, in a row."""
        self.predecessor: CoordinatorContext[S] | None = None
        """The partition's former shard, which has to be closed before this one is loaded."""
        self.state = CoordinatorState.LOADING
        self.lock = machine.Lock()
        self.batch: OpenBatch | None = None
        """Writes that wait for their common append; changed by the holder of the lock. It is never empty."""
        self.waiters = 0
        """Operations that wait for the lock: each of them appends the open batch, or leaves that to the next one."""
        self._waiters_lock = machine.Lock()
        self.uncommitted = UncommittedKeys()
        self._mailbox: deque[Callable[[], None]] = deque()

    @property
    def waiting(self) -> int:
        """Number of posted actions that wait for the lock."""
        return len(self._mailbox)

    def wait_for_lock(self) -> None:
        """Take the lock for an operation, as one of ``waiters``; the caller releases it."""
        with self._waiters_lock:
            self.waiters += 1
        self.lock.acquire()
        with self._waiters_lock:
            self.waiters -= 1

    def post(self, action: Callable[[], None]) -> None:
        """Run ``action`` with the lock held, now or when the current holder releases it."""
        self._mailbox.append(action)
        self.settle()

    def queue(self, action: Callable[[], None]) -> None:
        """Do as ``post``, but leave it to the caller that ``settle`` is called."""
        self._mailbox.append(action)

    def settle(self) -> None:
        """Run posted actions, send replies and start sends; call it without the lock, each time the lock has been released."""
        left = MAX_SETTLED
        while True:
            if self._mailbox and self.lock.acquire(blocking=False):
                try:
                    left = self._run_posted(left)
                finally:
                    self.lock.release()
            if self.effects.replies:
                left = self._send_replies(left)
            elif self.effects.sends:
                left = self._start_sends(left)
            elif not self._mailbox or self.lock.locked():
                return
            if left <= 0:
                if self._leave_rest(self.settle, self.partition):
                    return
                left = MAX_SETTLED

    def _run_posted(self, left: int) -> int:
        """Run actions, but no more than ``left``; return how many are left then."""
        while self._mailbox and left > 0:
            self._run_one(self._mailbox.popleft())
            left -= 1
        return left

    def _send_replies(self, left: int) -> int:
        replies = self.effects.replies
        while replies and left > 0:
            try:
                parked, result = replies.popleft()
            except IndexError:  # another thread sends them too
                break
            left -= 1
            if parked.done():
                continue
            if isinstance(result, BaseException):
                parked.set_exception(result)
            else:
                parked.set_result(result)
        return left

    def _start_sends(self, left: int) -> int:
        sends = self.effects.sends
        while sends and left > 0:
            try:
                one = sends.popleft()
            except IndexError:  # another thread starts them too
                break
            left -= 1
            if self.state is ACTIVE:
                self._send(self, one)
        return left

    def _run_one(self, action: Callable[[], None]) -> None:
        began_ns = self._now_ns()
        try:
            action()
        except Exception:  # noqa: BLE001 the holder of the lock is not responsible for this action
            _log.failure("An action on {partition} failed", partition=self.partition)
        finally:
            self.busy_ns += self._now_ns() - began_ns


ACTIVE = CoordinatorState.ACTIVE
ADAPTIVE_LINGER: Final = -1
"""An append waits only while other operations wait for the shard's lock (``append.linger.ms``)."""
MAX_SETTLED: Final = 10_000
"""The most actions, replies and sends that a thread performs before it continues its own request: other threads may add more
without end. A rebalance adds its replies at once, so this exceeds the members of a group."""
LOAD_BUFFER_BYTES: Final = 5_242_880
LOAD_BACKOFF_MS: Final = 1_000
"""How long until a partition that could not be loaded is loaded again; twice as long after each further failure."""
LOAD_BACKOFF_MAX_MS: Final = 64_000
MAX_FAILED_LOADS: Final = 6
"""Failures that count: the backoff has reached its maximum then."""


class RuntimeSettings:
    """The internal topic, and how its partitions are written and read."""

    __slots__ = ("compression", "damage", "linger_ms", "load_buffer_size", "on_loaded", "partition_count", "topic")

    def __init__(
        self,
        topic: str,
        partition_count: Callable[[], int],
        load_buffer_size: int = LOAD_BUFFER_BYTES,
        compression: Compression = Compression.NONE,
        on_loaded: Callable[[float], object] = float,
        damage: DamagePolicy = REFUSE_DAMAGE,
        linger_ms: int = ADAPTIVE_LINGER,
    ) -> None:
        """``on_loaded`` is called with the load time of each partition, in milliseconds.

        ``linger_ms`` is how long a write waits for others that it shares an append with; 0 if each is appended alone.
        """
        self.topic = topic
        self.partition_count = partition_count
        self.load_buffer_size = load_buffer_size
        self.compression = compression
        self.on_loaded = on_loaded
        self.damage = damage
        self.linger_ms = linger_ms


class CoordinatorRuntime(Generic[S]):
    """Executes operations on shards, found by key (Kafka: CoordinatorRuntime). All methods may be called on any thread."""

    def __init__(
        self,
        settings: RuntimeSettings,
        shards: ShardFactory[S],
        writer: ReplicaWriter,
        reader: ReplicaReader,
        scheduler: IScheduler,
        timer: Timer,
        clock: IClock,
    ) -> None:
        self.topic = settings.topic
        self._settings = settings
        self._lingers = settings.linger_ms > 0
        self._shards = shards
        self._writer = writer
        self._reader = reader
        self._scheduler = scheduler
        self._timer = timer
        self._clock = clock
        self._contexts: dict[int, CoordinatorContext[S]] = {}
        self._elections = machine.Lock()
        """Held while shards are added or removed: one after the other. Nobody waits for a shard's lock with it."""
        self._closing: dict[int, CoordinatorContext[S]] = {}
        """The shards that an operation, which waits for a disk perhaps, keeps from being closed."""
        self._past_busy_ns = 0
        self._settlers = Settlers(f"settle-{settings.topic}", scheduler)
        self._load_lock = machine.Lock()
        self._to_load: dict[Path | None, deque[CoordinatorContext[S]]] = {}
        """The shards that wait, by the log directories with their partitions. Each has a loader at work."""
        self._is_running = False

    # lifecycle

    def startup(self) -> None:
        """Start executing operations."""
        self._is_running = True

    def shutdown(self) -> None:
        """Answer parked requests with NOT_COORDINATOR, and all later ones with COORDINATOR_NOT_AVAILABLE."""
        self._is_running = False
        with self._elections:
            contexts = list(self._contexts.values())
            self._contexts.clear()
            for context in contexts:
                self._close(context)

    def on_leadership_change(self, leaders: Iterable[tuple[int, int]], followers: Iterable[tuple[int, int]]) -> None:
        """Load and unload partitions of the topic, each given as (partition, leader epoch).

        A partition that is no longer on this broker has the unknown epoch -1, and is always unloaded.
        """
        for partition, epoch in followers:
            self.resigned(partition, None if epoch < 0 else epoch)
        for partition, epoch in leaders:
            self.elected(partition, epoch)

    def elected(self, partition: int, leader_epoch: int) -> None:
        """Load the partition's shard in the background, as this broker leads it now.

        A newer leader epoch of the same leader changes the epoch only, as in Kafka: it means that the ISR has changed.
        """
        with self._elections:
            old = self._contexts.get(partition)
            if old is not None and old.state is not CoordinatorState.FAILED:
                old.leader_epoch = max(old.leader_epoch, leader_epoch)
                return
            self._replace(old, partition, leader_epoch)

    def resigned(self, partition: int, leader_epoch: int | None = None) -> None:
        """Unload the partition's shard, as this broker no longer leads it; ignored if the shard has a newer leader epoch."""
        with self._elections:
            context = self._contexts.get(partition)
            if context is None or (leader_epoch is not None and context.leader_epoch > leader_epoch):
                return
            del self._contexts[partition]
            self._close(context)

    def _reload(self, context: CoordinatorContext[S]) -> None:
        """Load a partition's shard again if this one, which has failed, is still its shard."""
        partition = context.partition.partition
        with self._elections:
            if self._contexts.get(partition) is context and context.state is CoordinatorState.FAILED:
                self._replace(context, partition, context.leader_epoch)

    def _replace(self, old: CoordinatorContext[S] | None, partition: int, leader_epoch: int) -> None:
        """Close a partition's old shard and only then let a new one be loaded: the log has all that the old one has answered."""
        if old is not None:
            self._close(old)
        context = self._new_context(partition, leader_epoch)
        with self._load_lock:
            context.predecessor = self._closing.get(partition)
        self._contexts[partition] = context
        context.failed_loads = 0 if old is None else min(old.failed_loads + 1, MAX_FAILED_LOADS)
        directory = self._reader.directory(context.partition)
        with self._load_lock:
            waiting = self._to_load.get(directory)
            if waiting is not None:
                waiting.append(context)
                return
            self._to_load[directory] = deque([context])
        self._scheduler.schedule_once(f"load-{self.topic}", partial(self._load_all, directory))

    def _new_context(self, partition: int, leader_epoch: int) -> CoordinatorContext[S]:
        context = CoordinatorContext[S](
            TopicPartition(self.topic, partition), leader_epoch, self._clock.monotonic_ns, self._send, self._settlers.settle
        )
        context.effects = Effects(
            ShardTimers(self._timer, partial(self._run_timer, context)),
            lambda before: self._writer.delete_records(context.partition, before),
        )
        context.shard = self._shards.shard(partition, leader_epoch, context.effects)
        return context

    def _close(self, context: CoordinatorContext[S]) -> None:
        """Close a shard now, or as soon as the operation that runs has ended: changes of leaders must not wait for its disk."""
        partition = context.partition.partition
        with self._load_lock:
            context.predecessor = self._closing.get(partition, context.predecessor)
            self._closing[partition] = context
        context.post(partial(self._end, context))

    def _end(self, context: CoordinatorContext[S]) -> None:
        """Unload a shard for good, with its lock held; does nothing the second time."""
        if context.state is CoordinatorState.CLOSED:
            return
        self._unload(context, CoordinatorState.CLOSED)
        self._past_busy_ns += context.busy_ns
        partition, former = context.partition.partition, context.predecessor
        with self._load_lock:
            if self._closing.get(partition) is context:
                del self._closing[partition]
                if former is not None and former.state is not CoordinatorState.CLOSED:
                    self._closing[partition] = former

    def _wait_for_predecessor(self, context: CoordinatorContext[S]) -> None:
        """Wait until the partition's former shards are closed, on the thread that loads what is on the same disk."""
        former, context.predecessor = context.predecessor, None
        while former is not None:
            with former.lock:
                self._end(former)
            former.settle()
            following, former.predecessor = former.predecessor, None
            former = following

    def _unload(self, context: CoordinatorContext[S], state: CoordinatorState) -> None:
        """End a shard's work, with its lock held."""
        was_active = context.state is ACTIVE
        context.state = state
        batch, context.batch = context.batch, None
        if batch is not None:
            batch.complete(context.effects, ErrorCode.NOT_COORDINATOR)
        for append in context.uncommitted.appends():
            gone = NotCoordinatorError("This broker no longer leads the key's partition.")
            append.answer_readers(context.effects, gone)
        if was_active:
            try:
                context.shard.unloaded()
            except Exception:  # noqa: BLE001 the other shards have to be unloaded, too
                _log.failure("Failed to unload {partition}", partition=context.partition)
        context.effects.writes.clear()

    def _load_all(self, directory: Path | None) -> None:
        """Load one partition after another: fifty empty ones, the usual case at startup, do not justify a thread each.

        Those of another log directory have another thread: a disk that hangs delays only its own.
        """
        while True:
            with self._load_lock:
                waiting = self._to_load[directory]
                if not waiting:
                    del self._to_load[directory]
                    return
                context = waiting.popleft()
            try:
                self._load(context)
            except Exception as error:  # noqa: BLE001 one partition's failure must not affect the others
                self._fail_to_load(context, error)

    def _fail_to_load(self, context: CoordinatorContext[S], error: Exception) -> None:
        """Load the partition again after a while, unless this broker has lost it meanwhile."""
        with context.lock:
            if context.state is not CoordinatorState.LOADING:
                return
            context.state = CoordinatorState.FAILED
        context.settle()
        delay_ms = min(LOAD_BACKOFF_MS << context.failed_loads, LOAD_BACKOFF_MAX_MS)
        again = f"{context.partition} is not available, and is loaded again in {delay_ms // 1000} s"
        if isinstance(error, KafkaError | OSError):  # a disk has failed, say
            _log.error("{again}: {error}", again=again, error=error)
        else:
            _log.failure("{again}", again=again)
        self._scheduler.schedule_once(f"reload-{self.topic}", partial(self._reload, context), delay_ms)

    def _load(self, context: CoordinatorContext[S]) -> None:
        self._wait_for_predecessor(context)
        started_ns = self._clock.monotonic_ns()
        loaded = load_partition(
            context.shard,
            self._shards.kinds(),
            self._reader.read_all(context.partition, self._settings.load_buffer_size),
            lambda: context.state is CoordinatorState.LOADING,
            lambda offset: self._writer.is_committed(context.partition, offset),
            partial(self._settings.damage.found, context.partition),
        )
        with context.lock:
            if context.state is not CoordinatorState.LOADING:
                return
            context.shard.loaded()
            if loaded.uncommitted:
                context.uncommitted.add(UncommittedAppend[object](loaded.last_offset, is_in_doubt=True), loaded.uncommitted.items())
            context.state = ACTIVE
            context.failed_loads = 0
            self._perform_effects(context)
        context.settle()
        taken_ms = (self._clock.monotonic_ns() - started_ns) / 1e6
        self._settings.on_loaded(taken_ms)
        if loaded.record_count:
            _log.info(
                "Loaded {partition}: {n} records in {ms} ms", partition=context.partition, n=loaded.record_count, ms=int(taken_ms)
            )

    # routing

    def partition_for(self, key: str) -> int:
        """Return the partition that the key maps to."""
        return partition_for(key, self._settings.partition_count())

    def is_loading(self) -> bool:
        """Return whether any partition is being loaded."""
        return any(context.state is CoordinatorState.LOADING for context in self._all_contexts())

    def active_partitions(self) -> list[int]:
        """Return the partitions whose shards are active."""
        return [context.partition.partition for context in self._active_contexts()]

    def check(self, key: str) -> None:
        """Raise the error that ``execute`` would raise for the key, if any."""
        self._context(key)

    def _context(self, key: str) -> CoordinatorContext[S]:
        context = self._contexts.get(partition_for(key, self._settings.partition_count()))
        if context is None or context.state is not ACTIVE or not self._is_running:
            self._refuse(context)
        return context

    def partition_states(self) -> dict[str, int]:
        """Return the number of partitions that are ``loading``, ``active`` and ``failed``."""
        states = [context.state for context in self._all_contexts()]
        return {
            state.value: states.count(state)
            for state in (CoordinatorState.LOADING, CoordinatorState.ACTIVE, CoordinatorState.FAILED)
        }

    def queue_size(self) -> int:
        """Return the number of operations and actions that wait for a shard's lock, plus the partitions that wait to be loaded."""
        with self._load_lock:
            to_load = sum(map(len, self._to_load.values()))
        return sum(context.waiting + context.waiters for context in self._all_contexts()) + to_load

    def busy_ns(self) -> int:
        """Return the total run time of operations, over all threads."""
        return self._past_busy_ns + sum(context.busy_ns for context in self._all_contexts())

    def peek(self) -> list[S]:
        """Return the active shards without locking them: for readers that can tolerate a change half done."""
        return [context.shard for context in self._all_contexts() if context.state is ACTIVE]

    def _all_contexts(self) -> list[CoordinatorContext[S]]:
        # Atomic, so it needs no lock.
        return list(self._contexts.values())

    def _active_contexts(self) -> list[CoordinatorContext[S]]:
        return [context for context in self._all_contexts() if context.state is ACTIVE]

    def _refuse(self, context: CoordinatorContext[S] | None) -> NoReturn:
        if not self._is_running:
            raise CoordinatorNotAvailableError("The coordinator is not running.")
        if context is None or context.state is CoordinatorState.CLOSED:
            raise NotCoordinatorError("This broker does not lead the key's partition.")
        if context.state is CoordinatorState.LOADING:
            raise CoordinatorLoadInProgressError(f"{context.partition} is being loaded.")
        raise CoordinatorNotAvailableError(f"{context.partition} could not be loaded.")

    # operations

    def execute(self, key: str, operation: "Callable[[S], T | Future[T] | Write[T]]") -> "T | Future[T]":
        """Run an operation on the key's shard; return its response, or a future of it if replicas have to confirm first.

        The writes that the operation queues are appended before the one that it returns. Raises NotCoordinatorError,
        CoordinatorLoadInProgressError and CoordinatorNotAvailableError.
        """
        return self._run(self._context(key), key, operation)

    def execute_together(
        self, keys: Sequence[str], operations: "Sequence[Operation[S, T]]", *, is_read: bool = False
    ) -> "list[T | Future[T]]":
        """Run an operation for each key, which are all in the same partition, with one append for all; return the responses.

        No operation depends on the write of another one. With ``is_read``, each is as in ``read``.
        Raises the errors of ``execute``.
        """
        context = self._context(keys[0])

        def committed(number: int, answer: T) -> "T | Future[T]":
            return self._when_committed(context, keys[number], answer) if context.uncommitted else answer

        together = Together(operations, committed if is_read else None)
        results = self._run(context, None, together.run)
        if together.is_too_large:
            execute = self.read if is_read else self.execute
            return [execute(key, operation) for key, operation in zip(keys, operations, strict=True)]
        if isinstance(results, Future):
            return [and_then(results, itemgetter(index)) for index in range(len(keys))]
        return results

    def call(self, key: str, operation: Callable[[S], R]) -> R:
        """Run an operation that returns no Write on the key's shard; return its result. Raises the errors of ``execute``."""
        return self._call(self._context(key), key, operation)

    def read(self, key: str, operation: "Callable[[S], T | Future[T] | Write[T]]") -> "T | Future[T]":
        """Like ``execute``, but the response of an operation that writes nothing waits until the key's changes are committed.

        The operation's exceptions are raised at once, as in Kafka's CoordinatorRuntime. An error because of a change that is lost
        later (UNKNOWN_MEMBER_ID, say) does no harm: the client joins again, which it may do at any time.
        Raises UncommittedStateError, or fails the future with it, if a change is not committed in time.
        """
        return self._run(self._context(key), key, operation, is_read=True)

    def try_read(
        self, key: str, operation: "Callable[[S], T | Future[T] | Write[T]]", on_error: Callable[[KafkaError], T]
    ) -> "T | Future[T]":
        """Like ``read``, but returns ``on_error(error)`` instead of raising a KafkaError."""
        try:
            answer = self.read(key, operation)
        except KafkaError as error:
            return on_error(error)
        return recover(answer, KafkaError, on_error) if isinstance(answer, Future) else answer

    def execute_everywhere(self, operation: Callable[[S], R]) -> list[R]:
        """Run an operation that returns no Write on every active shard; return the results."""
        results = []
        for context in self._active_contexts():
            try:
                results.append(self._call(context, None, operation))
            except NotCoordinatorError:  # unloaded in the meantime
                continue
        return results

    def post_everywhere(self, operation: Callable[[S], None]) -> None:
        """Queue an operation on every active shard. The operation adds its writes to its effects; its result is not used."""
        for context in self._active_contexts():
            context.queue(partial(self._act, context, partial(operation, context.shard)))
            if not self._settlers.settle(context.settle, context.partition):
                context.settle()

    def look_everywhere(self, look: Callable[[S, Callable[[], dict[str, object]]], R]) -> list[R]:
        """Return the result of ``look`` for each active shard, without the shard's lock: for reads that take long, or must not
        wait for a disk.

        The second argument of ``look`` returns the last committed value of each key with an uncommitted change; call it after
        looking at the shard.
        """

        def committed(context: CoordinatorContext[S]) -> dict[str, object]:
            return context.uncommitted.committed(partial(self._writer.is_committed, context.partition))

        return [look(context.shard, partial(committed, context)) for context in self._active_contexts()]

    def _call(self, context: CoordinatorContext[S], key: str | None, operation: Callable[[S], R]) -> R:
        return cast("R", self._run(context, key, operation))

    def _run(
        self,
        context: CoordinatorContext[S],
        key: str | None,
        operation: "Callable[[S], T | Future[T] | Write[T]]",
        *,
        is_read: bool = False,
    ) -> "T | Future[T]":
        """Run an operation with the shard locked; None as ``key`` means that it may be about any key.

        With ``is_read``, the response waits for the key's uncommitted changes.
        """
        effects = context.effects
        joined: T | Future[T] | None = None
        try:
            if not context.lock.acquire(False):
                context.wait_for_lock()
            try:
                began_ns = self._clock.monotonic_ns()
                if context.batch is not None and (key is None or key in context.batch.keys):
                    self._append_batch(context)
                if context.state is not ACTIVE:
                    self._refuse(context)
                try:
                    result = operation(context.shard)
                    if effects.writes:
                        self._perform_effects(context)
                        if context.state is not ACTIVE:  # a write of this operation could not be applied
                            self._refuse(context)
                    if isinstance(result, Write):
                        if context.batch is None and not context.waiters and not self._lingers:
                            result = self._perform(context, result)  # the usual case
                        else:
                            result = joined = self._join_batch(context, key, result)
                    if is_read and key is not None and context.uncommitted and not isinstance(result, Future):
                        result = self._when_committed(context, key, result)
                finally:
                    if effects.writes:
                        self._perform_effects(context)
                    if context.batch is not None and not context.waiters and not self._lingers:
                        self._append_batch(context)
                    context.busy_ns += self._clock.monotonic_ns() - began_ns
            finally:
                context.lock.release()
        finally:
            context.settle()
        if isinstance(joined, Future) and joined.done():  # this operation, or another thread meanwhile, has appended the batch
            return cast("T", joined.result())
        return result

    def _run_timer(self, context: CoordinatorContext[S], timer: ShardTimer) -> None:
        """Run a timer's action with the shard locked, if the shard is still active and the timer is not cancelled then.

        The timer's thread only posts it: the action may append to a slow disk.
        """

        def fire() -> None:
            if timer.action is not None:
                self._act(context, timer.action)

        context.queue(fire)
        if not self._settlers.settle(context.settle, context.partition):
            context.settle()

    def _send(self, context: CoordinatorContext[S], one: Send) -> None:
        """Start a send without the lock; give its finished future to the shard, if that is still active then."""
        try:
            future = one.start()
        except Exception as error:  # noqa: BLE001 it is the outcome of the send
            future = Future()
            future.set_exception(error)
        if future.done():
            context.queue(lambda: self._act(context, lambda: one.completed(future)))
        else:
            future.add_done_callback(lambda done: context.post(lambda: self._act(context, lambda: one.completed(done))))

    def _act(self, context: CoordinatorContext[S], action: Callable[[], object]) -> None:
        """Run an action with the lock held, if the shard is active, and perform its effects."""
        if context.batch is not None:
            self._append_batch(context)
        if context.state is ACTIVE:
            try:
                action()
            finally:
                self._perform_effects(context)

    def end_transaction(
        self, partition: int, producer: Producer, coordinator_epoch: int, committed: bool, transaction_version: int = 0
    ) -> "ErrorCode | Future[ErrorCode]":
        """Append the marker that ends a producer's transaction in the partition, and commit or discard its pending records.

        Both happen in one step: no other operation sees the state in between. Raises the errors of ``execute``; returns
        INVALID_PRODUCER_EPOCH and TRANSACTION_COORDINATOR_FENCED.
        """
        context = self._contexts.get(partition)
        if context is None or context.state is not ACTIVE or not self._is_running:
            self._refuse(context)

        def end(_: S) -> EndTransaction[ErrorCode]:
            return EndTransaction(producer, coordinator_epoch, committed, ErrorCode, transaction_version)

        return self._run(context, None, end)

    # writes

    def _join_batch(self, context: CoordinatorContext[S], key: str | None, write: Write[T]) -> "T | Future[T]":
        """Let a write share an append with those of other operations; append it alone if it cannot."""
        batch = context.batch
        is_shared = key is not None and type(write) is Write and write.producer is None and self._settings.linger_ms
        if batch is not None and not (is_shared and batch.has_room(write)):
            self._append_batch(context)
            batch = None
        if not is_shared or write.is_empty() or context.state is not ACTIVE:
            return self._perform(context, write)
        if batch is None:
            batch = context.batch = OpenBatch()
            if self._settings.linger_ms > 0:
                self._timer.add(self._settings.linger_ms, partial(self._end_linger, context, batch))
        return batch.join(write, context.shard)

    def _end_linger(self, context: CoordinatorContext[S], batch: OpenBatch) -> None:
        """Append a batch that has waited for as long as it may; called on the timer's thread."""

        def end() -> None:
            if context.batch is batch:
                self._append_batch(context)

        context.queue(end)
        if not self._settlers.settle(context.settle, context.partition):
            context.settle()

    def _append_batch(self, context: CoordinatorContext[S]) -> None:
        """Append the open batch. Its writes are appended one by one if they are too large together."""
        batch, context.batch = context.batch, None
        assert batch is not None
        effects = context.effects

        def alone() -> None:
            for write, answer in batch.parts():
                settle(effects, answer, partial(self._perform, context), write)

        def completed(error: ErrorCode) -> None:
            if error in TOO_LARGE:
                alone()
            else:
                batch.complete(effects, error)

        if len(batch) == 1:
            alone()
            return
        try:
            self._perform(context, batch.write(completed))
        except CoordinatorNotAvailableError as error:  # the shard is loaded again
            for _, answer in batch.parts():
                effects.fail(answer, error)

    def _perform_effects(self, context: CoordinatorContext[S]) -> None:
        if context.batch is not None:
            self._append_batch(context)
        writes = context.effects.writes
        while writes:
            try:
                self._perform(context, writes.popleft())
            except Exception:  # noqa: BLE001 the writes after it, and the operation, do not depend on it
                _log.failure("Failed to complete a write to {partition}", partition=context.partition)

    def _perform(self, context: CoordinatorContext[S], write: Write[T]) -> "T | Future[T]":
        if context.state is not ACTIVE:
            raise CoordinatorNotAvailableError(f"{context.partition} has to be loaded again.")
        if write.is_empty():
            return write.completed(ErrorCode.NONE)
        if isinstance(write, Writes):
            return self._perform_batches(context, write)
        appended = self._append(context, write)
        if isinstance(appended, ErrorCode):
            return write.completed(appended)
        base_offset, committed = appended
        shard, uncommitted = context.shard, context.uncommitted
        append = None
        try:
            if committed is not None:
                append = UncommittedAppend[T](base_offset)
                uncommitted.add(append, [(key, shard.stored(key)) for key in write.keys(shard)])
            last_offset = write.replay(shard, base_offset)
        except Exception as error:
            raise self._give_up(context) from error
        if append is None or committed is None:
            if uncommitted:
                uncommitted.clear()
            return write.completed(ErrorCode.NONE)
        append.last_offset = last_offset
        committed.add_done_callback(lambda done: context.post(lambda: self._committed(context, write, append, done)))
        return append.answer

    def _perform_batches(self, context: CoordinatorContext[S], writes: Writes[T]) -> "T | Future[T]":
        """Append each if the ones before were appended. The last one is committed only if all are, so its outcome is theirs."""
        parts = writes.parts()
        while True:
            part = parts.popleft()
            is_last = not parts
            halves, outcome = self._perform_part(context, part, writes.completed if is_last else ErrorCode)
            if halves:
                parts.extendleft(reversed(halves))
            elif is_last:
                return cast("T | Future[T]", outcome)
            elif outcome and isinstance(outcome, ErrorCode):
                return writes.completed(outcome)

    def _perform_part(
        self, context: CoordinatorContext[S], part: list[CoordinatorRecord], completed: Callable[[ErrorCode], object]
    ) -> tuple[list[list[CoordinatorRecord]], object]:
        """Append a part of a write, and return its outcome; if it is too large, return its halves before that."""
        halves: list[list[CoordinatorRecord]] = []

        def tried(error: ErrorCode) -> object:
            if error in TOO_LARGE and len(part) > 1:
                middle = len(part) // 2
                halves.extend((part[:middle], part[middle:]))
                return error
            return completed(error)

        outcome = self._perform(context, Write(part, tried))
        return halves, outcome

    def _give_up(self, context: CoordinatorContext[S]) -> CoordinatorNotAvailableError:
        """End and load again a shard that failed to apply a write: its state no longer is that of the log."""
        _log.failure("Failed to apply a write to {partition}, which is loaded again", partition=context.partition)
        self._unload(context, CoordinatorState.FAILED)
        self._scheduler.schedule_once(f"reload-{self.topic}", partial(self._reload, context))
        return CoordinatorNotAvailableError(f"{context.partition} has to be loaded again.")

    def _append(self, context: CoordinatorContext[S], write: Write[object]) -> Appended | ErrorCode:
        try:
            batch = write.encode(self._clock.wall_ms(), self._settings.compression)
            return self._writer.append(context.partition, batch, write.guard)
        except Exception as error:  # noqa: BLE001 the operation handles it like any other failed append
            code = error_of(error)
            if code is ErrorCode.UNKNOWN_SERVER_ERROR:
                _log.failure("Failed to append to {partition}", partition=context.partition)
            return code

    def _committed(
        self, context: CoordinatorContext[S], write: Write[T], append: UncommittedAppend[T], done: "Future[ErrorCode]"
    ) -> None:
        if context.batch is not None:
            self._append_batch(context)
        failure = done.exception()
        error = done.result() if failure is None else error_of(failure)
        if error:
            context.uncommitted.doubt(append)
        else:
            context.uncommitted.confirm(append)
        try:
            result = write.completed(error)
        except Exception as failed:  # noqa: BLE001 the future carries it to the handler, which answers and logs it
            context.effects.fail(append.answer, failed)
        else:
            if isinstance(result, Future):
                forward(result, append.answer)
            else:
                context.effects.reply(append.answer, result)
        append.answer_readers(context.effects, _in_doubt(context.partition) if error else None)
        if context.state is ACTIVE:
            self._perform_effects(context)

    def _when_committed(self, context: CoordinatorContext[S], key: str, result: R) -> "R | Future[R]":
        """Return the answer to a read of the key. Raises UncommittedStateError if the key's last append is in doubt."""
        append = context.uncommitted.latest(key)
        if append is None:
            return result
        if not append.is_in_doubt:
            return append.wait(result)
        if not self._writer.is_committed(context.partition, append.last_offset):
            raise _in_doubt(context.partition)
        context.uncommitted.confirm(append)
        return result


def _in_doubt(partition: TopicPartition) -> UncommittedStateError:
    return UncommittedStateError(f"The last write to {partition} is not known to be committed.")


def follow_leadership(replica_manager: ReplicaManager, runtime: CoordinatorRuntime[S]) -> None:
    """Load and unload the shards of the runtime's topic as the leaders of its partitions change."""

    def on_change(led: Sequence[TopicPartition], not_led: Sequence[TopicPartition]) -> None:
        def with_epochs(partitions: Sequence[TopicPartition]) -> list[tuple[int, int]]:
            return [
                (partition.partition, replica_manager.current_leader(partition)[1])
                for partition in partitions
                if partition.topic == runtime.topic
            ]

        runtime.on_leadership_change(with_epochs(led), with_epochs(not_led))

    replica_manager.add_leadership_listener(on_change)
