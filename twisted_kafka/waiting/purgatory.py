"""Operations that wait until a condition holds or a timeout expires.

A produce that waits for replicas, a fetch that waits for bytes, a join that waits for members: each is a ``DelayedOperation``,
watched under keys in a ``DelayedOperationPurgatory`` and completed exactly once. Both have the contract of Kafka's classes of these
names.
"""

from collections.abc import Hashable, Sequence

from twisted.logger import Logger

from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock
from twisted_kafka.timing.timer import Timer, TimerEntry

_log = Logger(__name__)


class DelayedOperation:
    """An operation that completes when its condition holds, or after ``delay_ms`` milliseconds.

    Subclasses implement ``try_complete``, which checks the condition and, if it holds, returns ``force_complete()``;
    ``on_complete``, which does the work exactly once; and ``on_expiration``. ``lock`` is held while ``try_complete`` runs; the
    caller may pass one.
    """

    __slots__ = ("_entry", "_keys", "_lock", "_pending", "_purgatory", "delay_ms")

    def __init__(self, delay_ms: float, lock: "machine.RLock | None" = None) -> None:
        self.delay_ms = delay_ms
        self._lock = machine.RLock() if lock is None else lock
        self._pending = [True]  # list.pop is atomic: only the thread that gets the item completes the operation
        self._entry: TimerEntry | None = None
        self._purgatory: DelayedOperationPurgatory | None = None
        self._keys: Sequence[Hashable] = ()

    @property
    def is_completed(self) -> bool:
        """Whether it was completed, by its condition or by expiring."""
        return not self._pending

    def try_complete(self) -> bool:
        """Complete the operation if its condition holds; return whether this call completed it."""
        raise NotImplementedError

    def on_complete(self) -> None:
        """Do the work on completion. Called exactly once."""
        raise NotImplementedError

    def on_expiration(self) -> None:
        """Handle the expiration. Called after ``on_complete``."""

    def force_complete(self) -> bool:
        """Complete the operation now, whatever its condition; return False if it was completed before."""
        try:
            self._pending.pop()
        except IndexError:
            return False
        entry = self._entry
        if entry is not None:
            entry.cancel()
        if self._purgatory is not None:
            self._purgatory._unwatch(self)
        self.on_complete()
        return True

    def safe_try_complete(self) -> bool:
        """Call ``try_complete`` with the lock held, unless the operation is completed already."""
        with self._lock:
            return bool(self._pending) and self.try_complete()

    def check(self, _: Hashable) -> bool:
        """Complete the operation if its condition holds since its key has changed; return whether this call completed it.

        A subclass need not look at anything but that key.
        """
        return self.safe_try_complete()

    def _expire(self) -> None:
        if self.force_complete():
            self.on_expiration()


class DelayedOperationPurgatory:
    """Watches delayed operations under keys.

    Checking a key that has no operations takes one dictionary lookup and no lock. A thread that changes the state an operation
    waits for calls ``check_and_complete`` after the change, without holding any lock that ``try_complete`` or ``on_complete``
    needs.
    """

    def __init__(self, name: str, clock: IClock, timer: Timer) -> None:
        self.name = name
        self._clock = clock
        self._timer = timer
        self._lock = machine.Lock()
        self._watched: dict[Hashable, dict[DelayedOperation, None]] = {}
        self._delayed = 0
        self._is_shut_down = False

    @property
    def num_delayed(self) -> int:
        """How many operations wait (Kafka's metric ``NumDelayedOperations``)."""
        return self._delayed

    @property
    def watched(self) -> int:
        """The number of operations summed over all keys (Kafka's metric ``PurgatorySize``)."""
        with self._lock:
            return sum(map(len, self._watched.values()))

    def try_complete_else_watch(self, operation: DelayedOperation, keys: Sequence[Hashable]) -> bool:
        """Complete ``operation`` if its condition holds, else watch it under ``keys`` until it does or the operation expires.

        Returns whether this call completed it. The condition is checked before and after watching starts, so that no change in
        between is missed. Raises ValueError without keys.
        """
        if not keys:
            raise ValueError("an operation must have at least one key")
        if operation.safe_try_complete():
            return True
        self._watch(operation, keys)
        if operation.safe_try_complete():
            return True
        if not operation.is_completed:
            operation._entry = self._timer.add(operation.delay_ms, operation._expire)
        if operation.is_completed:
            # Another thread completed it before the timer entry or the keys were visible to it.
            if operation._entry is not None:
                operation._entry.cancel()
            self._unwatch(operation)
        return False

    def is_watched(self, key: Hashable) -> bool:
        """Return whether an operation waits for ``key``."""
        return key in self._watched

    def check_and_complete(self, *keys: Hashable) -> int:
        """Try to complete the operations watched under any of ``keys``; return how many this call completed."""
        watched = self._watched
        if not watched or watched.keys().isdisjoint(keys):
            return 0
        count = 0
        for key in keys:
            if key not in watched:
                continue
            with self._lock:
                operations = list(watched.get(key, ()))
            for operation in operations:
                try:
                    if operation.check(key):
                        count += 1
                except Exception:  # noqa: BLE001 one failing operation must not block the others
                    _log.failure("Uncaught exception while completing an operation in purgatory {name}", name=self.name)
        return count

    def cancel_for_key(self, key: Hashable) -> list[DelayedOperation]:
        """Stop watching ``key`` and return its operations. They stay watched under their other keys, and their timeouts remain."""
        with self._lock:
            operations = self._watched.pop(key, {})
        return [operation for operation in operations if not operation.is_completed]

    def finish(self) -> None:
        """Complete all operations, whatever their conditions; log what fails. ``shutdown`` follows."""
        with self._lock:
            operations = {operation for watched in self._watched.values() for operation in watched}
        for operation in operations:
            try:
                operation.force_complete()
            except Exception:  # noqa: BLE001 the others are completed, too
                _log.failure("An operation of purgatory {name} failed", name=self.name)

    def shutdown(self) -> None:
        """Drop all operations without completing them. The owner of the timer shuts it down."""
        with self._lock:
            self._is_shut_down = True
            operations = {operation for watched in self._watched.values() for operation in watched}
            self._watched.clear()
            self._delayed = 0
        for operation in operations:
            if operation._entry is not None:
                operation._entry.cancel()

    def _watch(self, operation: DelayedOperation, keys: Sequence[Hashable]) -> None:
        with self._lock:
            operation._keys = keys
            operation._purgatory = self
            self._delayed += 1
            for key in keys:
                watched = self._watched.get(key)
                if watched is None:
                    self._watched[key] = {operation: None}
                else:
                    watched[operation] = None

    def _unwatch(self, operation: DelayedOperation) -> None:
        with self._lock:
            keys, operation._keys = operation._keys, ()
            if keys and not self._is_shut_down:
                self._delayed -= 1
            for key in keys:
                watched = self._watched.get(key)
                if watched is not None:
                    watched.pop(operation, None)
                    if not watched:
                        del self._watched[key]
