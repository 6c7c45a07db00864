"""Operations that wait until something happens or their time is over.

A produce that waits for replicas, a fetch that waits for bytes, a join that waits for members: each is a
``DelayedOperation``, watched under keys in a ``DelayedOperationPurgatory``, and completed exactly once. Named after
Kafka's classes, whose contract they keep.
"""

import threading
from collections.abc import Hashable, Sequence

from twisted.logger import Logger

from twisted_kafka.timing.clock import IClock
from twisted_kafka.timing.timer import Timer, TimerEntry

_log = Logger(__name__)


class DelayedOperation:
    """Something that completes when its condition holds, or after ``delay_ms`` milliseconds.

    Subclasses say what: ``try_complete`` looks whether the condition holds and, if it does, returns what
    ``force_complete()`` returns; ``on_complete`` does the work, exactly once; ``on_expiration`` notes that time ran out.
    ``lock`` is held while ``try_complete`` runs: one of the caller's own can be given.
    """

    __slots__ = ("_entry", "_keys", "_lock", "_pending", "_purgatory", "delay_ms")

    def __init__(self, delay_ms: float, lock: "threading.RLock | None" = None) -> None:
        self.delay_ms = delay_ms
        self._lock = threading.RLock() if lock is None else lock
        self._pending = [True]  # list.pop is atomic: the one thread that gets the item completes the operation
        self._entry: TimerEntry | None = None
        self._purgatory: DelayedOperationPurgatory | None = None
        self._keys: Sequence[Hashable] = ()

    @property
    def is_completed(self) -> bool:
        """Whether it was completed, in time or by expiring."""
        return not self._pending

    def try_complete(self) -> bool:
        """Complete it if its condition holds; return whether this call completed it."""
        raise NotImplementedError

    def on_complete(self) -> None:
        """Do what is to be done at the end; called exactly once."""
        raise NotImplementedError

    def on_expiration(self) -> None:
        """Note that it expired; called after ``on_complete``."""

    def force_complete(self) -> bool:
        """Complete it now, whatever its condition says; return False when it had been completed before."""
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
        """Call ``try_complete`` under the lock, unless it is completed already."""
        with self._lock:
            return bool(self._pending) and self.try_complete()

    def _expire(self) -> None:
        if self.force_complete():
            self.on_expiration()


class DelayedOperationPurgatory:
    """Watches delayed operations under keys.

    Asking for a key under which nothing waits costs one dictionary look-up and takes no lock. Whoever changes the state
    that an operation waits for changes it first and calls ``check_and_complete`` then, without holding a lock that
    ``try_complete`` or ``on_complete`` needs.
    """

    def __init__(self, name: str, clock: IClock, timer: Timer) -> None:
        self.name = name
        self._clock = clock
        self._timer = timer
        self._lock = threading.Lock()
        self._watched: dict[Hashable, dict[DelayedOperation, None]] = {}
        self._delayed = 0
        self._is_shut_down = False

    @property
    def num_delayed(self) -> int:
        """Operations that wait (Kafka's metric ``NumDelayedOperations``)."""
        return self._delayed

    @property
    def watched(self) -> int:
        """Operations summed up over the keys they are watched under (Kafka's metric ``PurgatorySize``)."""
        with self._lock:
            return sum(map(len, self._watched.values()))

    def try_complete_else_watch(self, operation: DelayedOperation, keys: Sequence[Hashable]) -> bool:
        """Complete ``operation`` if it can be, else watch it under ``keys`` until it can or its time is over.

        Returns whether it is completed now by the caller. It is tried once before it is watched and once after: what
        happens in between is not missed.
        """
        if not keys:
            raise ValueError("an operation needs a key to be watched under")
        if operation.safe_try_complete():
            return True
        self._watch(operation, keys)
        if operation.safe_try_complete():
            return True
        if not operation.is_completed:
            operation._entry = self._timer.add(operation.delay_ms, operation._expire)
        if operation.is_completed:
            # Another thread completed it before it could see the timer's entry or the keys.
            if operation._entry is not None:
                operation._entry.cancel()
            self._unwatch(operation)
        return False

    def check_and_complete(self, key: Hashable) -> int:
        """Try the operations that are watched under ``key``; return how many this completed."""
        if key not in self._watched:
            return 0
        count = 0
        with self._lock:
            operations = list(self._watched.get(key, ()))
        for operation in operations:
            try:
                if operation.safe_try_complete():
                    count += 1
            except Exception:  # noqa: BLE001 one failing operation must not keep the others waiting
                _log.failure("Uncaught exception while completing an operation in purgatory {name}", name=self.name)
        return count

    def cancel_for_key(self, key: Hashable) -> list[DelayedOperation]:
        """Stop watching what waits under ``key`` (under its other keys and its timer it still does) and return it."""
        with self._lock:
            operations = self._watched.pop(key, {})
        return [operation for operation in operations if not operation.is_completed]

    def shutdown(self) -> None:
        """Forget all operations: they are not completed any more. The timer is its owner's to stop."""
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
