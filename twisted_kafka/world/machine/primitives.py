"""The locks, conditions, events and threads of a world: those of ``threading``, on a ``Scheduler``."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, TypeVar

from twisted_kafka.world.machine.scheduler import Actor, KilledError, Scheduler

R = TypeVar("R")
T = TypeVar("T")


def _timeout_ns(timeout_s: float | None) -> int | None:
    return None if timeout_s is None or timeout_s < 0 else -int(-timeout_s * 1e9 // 1)


class Lock:
    """``threading.Lock``. A released lock goes to one of the waiting threads at once, as the seed decides."""

    __slots__ = ("_holder", "_scheduler", "_waiters")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._holder: Actor | None = None
        self._waiters: list[Actor] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        scheduler = self._scheduler
        if scheduler.pause_share:
            scheduler.pause()
        me = scheduler.current
        if self._holder is None:
            self._holder = me
            return True
        if not blocking or timeout == 0:
            return False
        self._waiters.append(me)
        if timeout < 0:
            me.blocked_ns = scheduler.now_ns
        try:
            woken = scheduler.wait(_timeout_ns(timeout))
        except KilledError:
            self._forget(me)
            raise
        me.blocked_ns = 0
        if not woken:
            self._forget(me)
        return woken

    def _forget(self, actor: Actor) -> None:
        if actor in self._waiters:
            self._waiters.remove(actor)

    def release(self) -> None:
        if self._holder is None:
            if self._scheduler.current.owner.is_dead:
                return
            raise RuntimeError("release unlocked lock")
        self._holder = self._scheduler.wake_one(self._waiters)

    def locked(self) -> bool:
        return self._holder is not None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    # For a condition.

    def _release_save(self) -> int:
        self.release()
        return 1

    def _acquire_restore(self, count: int) -> None:
        self.acquire()


class RLock:
    """``threading.RLock``."""

    __slots__ = ("_count", "_holder", "_lock", "_scheduler")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._lock = Lock(scheduler)
        self._holder: Actor | None = None
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        me = self._scheduler.current
        if self._holder is me:
            self._count += 1
            return True
        if not self._lock.acquire(blocking, timeout):
            return False
        self._holder, self._count = me, 1
        return True

    def release(self) -> None:
        me = self._scheduler.current
        if self._holder is not me:
            if me.owner.is_dead:
                return
            raise RuntimeError("cannot release un-acquired lock")
        self._count -= 1
        if not self._count:
            self._holder = None
            self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def _release_save(self) -> int:
        count, self._count, self._holder = self._count, 0, None
        self._lock.release()
        return count

    def _acquire_restore(self, count: int) -> None:
        self._lock.acquire()
        self._holder, self._count = self._scheduler.current, count


class Condition:
    """``threading.Condition``. ``notify`` wakes the threads that the seed chooses."""

    __slots__ = ("__weakref__", "_lock", "_scheduler", "_waiters", "acquire", "release")

    def __init__(self, scheduler: Scheduler, lock: Lock | RLock | None = None) -> None:
        self._scheduler = scheduler
        self._lock: Any = RLock(scheduler) if lock is None else lock
        self._waiters: list[Actor] = []
        self.acquire = self._lock.acquire
        self.release = self._lock.release

    def __enter__(self) -> bool:
        return bool(self._lock.acquire())

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        me = self._scheduler.current
        self._waiters.append(me)
        saved = self._lock._release_save()
        woken = False
        try:
            woken = self._scheduler.wait(None if timeout is None else _timeout_ns(max(0, timeout)))
        finally:
            if not woken and me in self._waiters:
                self._waiters.remove(me)
            self._lock._acquire_restore(saved)
        return woken

    def wait_for(self, predicate: Callable[[], T], timeout: float | None = None) -> T:
        scheduler = self._scheduler
        until_ns = None if timeout is None else scheduler.now_ns + (_timeout_ns(max(0, timeout)) or 0)
        while not (result := predicate()):
            if until_ns is None:
                self.wait()
                continue
            left_ns = until_ns - scheduler.now_ns
            if left_ns <= 0:
                break
            self.wait(left_ns / 1e9)
        return result

    def notify(self, n: int = 1) -> None:
        for _ in range(n):
            if self._scheduler.wake_one(self._waiters) is None:
                return

    def notify_all(self) -> None:
        self.notify(len(self._waiters))


class Event:
    """``threading.Event``."""

    __slots__ = ("__weakref__", "_is_set", "_scheduler", "_waiters")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._is_set = False
        self._waiters: list[Actor] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        waiters, self._waiters = self._waiters, []
        for actor in waiters:
            self._scheduler.wake(actor)

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        if self._is_set:
            self._scheduler.check_alive()
            return True
        me = self._scheduler.current
        self._waiters.append(me)
        try:
            woken = self._scheduler.wait(None if timeout is None else _timeout_ns(max(0, timeout)))
        except KilledError:
            if me in self._waiters:
                self._waiters.remove(me)
            raise
        if not woken and me in self._waiters:
            self._waiters.remove(me)
        return self._is_set


class BoundedSemaphore:
    """``threading.BoundedSemaphore``."""

    __slots__ = ("_bound", "_condition", "_value")

    def __init__(self, scheduler: Scheduler, value: int = 1) -> None:
        self._condition = Condition(scheduler, Lock(scheduler))
        self._bound = self._value = value

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        with self._condition:
            if not blocking and not self._value:
                return False
            if not self._condition.wait_for(lambda: self._value, timeout):
                return False
            self._value -= 1
            return True

    def release(self, n: int = 1) -> None:
        with self._condition:
            if self._value + n > self._bound:
                raise ValueError("Semaphore released too many times")
            self._value += n
            self._condition.notify(n)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Thread:
    """``threading.Thread`` with a target."""

    def __init__(
        self,
        scheduler: Scheduler,
        group: None = None,
        target: Callable[..., object] | None = None,
        name: str | None = None,
        args: Iterable[Any] = (),
        kwargs: dict[str, Any] | None = None,
        *,
        daemon: bool | None = None,
    ) -> None:
        self.name = name or "Thread"
        self.daemon = bool(daemon)
        self._scheduler = scheduler
        self._target = target
        self._args = tuple(args)
        self._kwargs = kwargs or {}
        self._actor: Actor | None = None

    @property
    def ident(self) -> int | None:
        return None if self._actor is None else self._actor.number

    def start(self) -> None:
        if self._actor is not None:
            raise RuntimeError("threads can only be started once")
        self._actor = self._scheduler.spawn(self.name, self.run)
        self._actor.thread = self

    def run(self) -> None:
        if self._target is not None:
            self._target(*self._args, **self._kwargs)

    def is_alive(self) -> bool:
        return self._actor is not None and not self._actor.has_ended

    def join(self, timeout: float | None = None) -> None:
        actor, scheduler = self._actor, self._scheduler
        if actor is None:
            raise RuntimeError("cannot join thread before it is started")
        if actor.has_ended:
            return
        me = scheduler.current
        actor.joiners.append(me)
        if not scheduler.wait(None if timeout is None else _timeout_ns(max(0, timeout))):
            actor.joiners.remove(me)


class Pool:
    """``ThreadPoolExecutor``: at most ``max_workers`` threads, which end when the pool is shut down."""

    def __init__(self, scheduler: Scheduler, max_workers: int | None = None, thread_name_prefix: str = "pool-") -> None:
        self._scheduler = scheduler
        self._most = max_workers or 4
        self._prefix = thread_name_prefix
        self._condition = Condition(scheduler)
        self._tasks: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._threads: list[Thread] = []
        self._idle = 0
        self._is_closed = False

    def submit(self, call: Callable[..., R], /, *args: Any, **kwargs: Any) -> "Future[R]":
        future: Future[R] = Future()
        with self._condition:
            if self._is_closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._tasks.append((future, lambda: call(*args, **kwargs)))
            if self._idle:
                self._condition.notify()
            elif len(self._threads) < self._most:
                thread = Thread(self._scheduler, target=self._work, name=f"{self._prefix}{len(self._threads)}")
                self._threads.append(thread)
                thread.start()
        return future

    def map(self, call: Callable[..., R], *iterables: Iterable[Any]) -> Iterator[R]:
        futures = [self.submit(call, *arguments) for arguments in zip(*iterables, strict=False)]
        return (result_of(self._scheduler, future) for future in futures)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        with self._condition:
            self._is_closed = True
            if cancel_futures:
                while self._tasks:
                    self._tasks.popleft()[0].cancel()
            self._condition.notify_all()
        if wait:
            for thread in self._threads:
                thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.shutdown()

    def _work(self) -> None:
        while (task := self._next()) is not None:
            future, call = task
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = call()
            except BaseException as error:  # noqa: BLE001 the future has it
                future.set_exception(error)
            else:
                future.set_result(result)

    def _next(self) -> "tuple[Future[Any], Callable[[], Any]] | None":
        with self._condition:
            while not self._tasks:
                if self._is_closed:
                    return None
                self._idle += 1
                try:
                    self._condition.wait()
                finally:
                    self._idle -= 1
            return self._tasks.popleft()


def result_of(scheduler: Scheduler, future: "Future[R]", timeout_s: float | None = None) -> R:
    """Wait for a future as ``machine.result_of`` does."""
    if not future.done():
        done = Event(scheduler)
        future.add_done_callback(lambda _: done.set())
        done.wait(timeout_s)
        if not future.done():
            raise TimeoutError
    return future.result()
