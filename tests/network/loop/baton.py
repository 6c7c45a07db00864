"""Real threads, of which one runs at a time: after each line of the code under test a seed decides who goes on.

The code under test gets ``Baton``'s locks, events and threads for those of ``threading``, and its clock. Time passes when all
threads wait, and now and then in between, as it does for a thread that loses its CPU.
"""

import random
import sys
import threading
from collections.abc import Callable, Collection
from types import FrameType
from typing import Any

from twisted_kafka.system.interpreter import IS_PYPY
from twisted_kafka.timing.clock import ManualClock

REAL_TIME_S = 60.0
"""So long may a run take: it is stuck after that, and a bug of this module."""

MOST_CHANGES = 1_000_000
"""After this, somebody goes on and on."""

MAX_LOST_CPU_MS = 1.5

SHARE_OF_FINE = 0.2
"""This share of the runs changes threads within lines too, where the interpreter can."""

Deadline = Callable[[], int | None]


class Abandoned(BaseException):
    """The run has failed elsewhere."""


class Actor:
    """One of the threads."""

    def __init__(self, name: str, weight: float) -> None:
        self.name = name
        self.weight = weight
        self.may_go = threading.Semaphore(0)
        self.condition: Callable[[], bool] | None = None
        self.deadline: Deadline = lambda: None
        self.has_ended = False


class Baton:
    """Passes from thread to thread."""

    def __init__(self, rng: random.Random, files: Collection[str]) -> None:
        """Threads may change after any line of ``files``, in some runs after any instruction."""
        self.rng = rng
        self.clock = BatonClock(self)
        self.failure: BaseException | None = None
        self._is_choosing = False  # conditions may be code under test
        self.holder: Actor | None = None
        self.on_jump: Callable[[int], None] = lambda jump_ns: None
        """Learns of each time that all threads wait for, in nanoseconds."""
        self._files = files
        self._actors: list[Actor] = []
        self._threads: list[threading.Thread] = []
        self._has_ended = threading.Event()
        self._changes = 0
        self._is_fine = not IS_PYPY and rng.random() < SHARE_OF_FINE
        self._change = rng.choice((0.01, 0.05, 0.2, 0.5))
        self._lose_cpu = rng.choice((0.0, 0.001, 0.01, 0.05))

    def run(self, target: Callable[[], object]) -> None:
        """Run ``target`` as the first thread, until all have ended. Reraises what one of them has failed with."""
        self.holder = main = self.spawn(target, "main")
        main.may_go.release()
        if not self._has_ended.wait(REAL_TIME_S):
            self.fail(AssertionError(f"{self.holder.name} goes on and on"))
        for thread in self._threads:
            thread.join(REAL_TIME_S)
        if self.failure is not None:
            raise self.failure

    def spawn(self, target: Callable[[], object], name: str) -> Actor:
        """Add a thread."""
        actor = Actor(name, self.rng.choice((1.0, 1.0, 0.2, 0.03)))
        thread = threading.Thread(target=self._body, args=(actor, target), name=name, daemon=True)
        self._actors.append(actor)
        self._threads.append(thread)
        thread.start()
        return actor

    def fail(self, why: BaseException) -> None:
        """End the run."""
        self.failure = self.failure or why
        self._has_ended.set()
        for actor in self._actors:
            actor.may_go.release()

    def pause(self) -> None:
        """Let others go on, perhaps."""
        if self.holder is not None and not self._is_choosing and self.rng.random() < self._change:
            self.wait(lambda: True)

    def wait(self, condition: Callable[[], bool], timeout_s: float | None = None) -> bool:
        """Wait for a condition, which must change nothing; return False after ``timeout_s`` seconds."""
        if timeout_s is None:
            return self.wait_until(condition, lambda: None)
        until_ns = self.clock.now_ns + int(timeout_s * 1e9)
        return self.wait_until(condition, lambda: until_ns)

    def wait_until(self, condition: Callable[[], bool], deadline: Deadline) -> bool:
        """Wait for a condition, or for a time that others may change."""
        self._check()
        me = self.holder
        assert me is not None
        me.condition, me.deadline = condition, deadline
        try:
            self._pass_on(me)
        except AssertionError as error:
            self.fail(error)
        self._check()
        me.condition = None
        return condition()

    def _check(self) -> None:
        if self.failure is not None:
            raise Abandoned

    def _pass_on(self, me: Actor | None) -> None:
        if self.rng.random() < self._lose_cpu:
            self.clock.advance_ms(self.rng.random() * MAX_LOST_CPU_MS)
        self._changes += 1
        assert self._changes < MOST_CHANGES, f"{[each.name for each in self._actors]} go on and on"
        self._is_choosing = True
        chosen = self._choose()
        self._is_choosing = False
        if chosen is not me:
            self.holder = chosen
            chosen.may_go.release()
            if me is not None:
                me.may_go.acquire()

    def _choose(self) -> Actor:
        while True:
            now_ns = self.clock.now_ns
            able, deadlines = [], []
            for actor in self._actors:
                if actor.condition is None or actor.condition():
                    able.append(actor)
                elif (deadline_ns := actor.deadline()) is not None:
                    if deadline_ns <= now_ns:
                        able.append(actor)
                    deadlines.append(deadline_ns)
            if able:
                return self.rng.choices(able, [each.weight for each in able])[0]
            assert deadlines, f"all threads wait for one another: {[each.name for each in self._actors]}"
            self.on_jump(min(deadlines) - now_ns)
            self.clock.advance_ms((min(deadlines) - now_ns) / 1e6 + 0.001)

    def _body(self, actor: Actor, target: Callable[[], object]) -> None:
        actor.may_go.acquire()
        if self.failure is None:
            sys.settrace(self._trace)
            try:
                target()
            except Abandoned:
                return
            except BaseException as error:  # noqa: BLE001 it is reraised by ``run``
                self.fail(error)
            finally:
                sys.settrace(None)
            actor.has_ended = True
            self._actors.remove(actor)
            if not self._actors:
                self._has_ended.set()
            elif self.failure is None:
                try:
                    self._pass_on(None)
                except AssertionError as error:
                    self.fail(error)

    def _trace(self, frame: FrameType, event: str, arg: object) -> Any:
        if frame.f_code.co_filename not in self._files:
            return None
        if self._is_fine:
            frame.f_trace_opcodes = True
        return self._trace_step

    def _trace_step(self, frame: FrameType, event: str, arg: object) -> Any:
        if event in ("line", "opcode"):
            self.pause()
        return self._trace_step

    # What stands for ``threading`` in the code under test.

    def Lock(self) -> "BatonLock":
        return BatonLock(self)

    def Event(self) -> "BatonEvent":
        return BatonEvent(self)

    def Thread(self, target: Callable[..., object], name: str, args: tuple[Any, ...] = (), daemon: bool = False) -> "BatonThread":
        return BatonThread(self, lambda: target(*args), name)


class BatonClock(ManualClock):
    """Passes the baton whenever somebody looks at it, and never tells the same time twice."""

    def __init__(self, baton: Baton) -> None:
        super().__init__()
        self._baton = baton

    @property
    def now_ns(self) -> int:
        return self._monotonic_ns

    def monotonic_ns(self) -> int:
        self._baton.pause()
        self._monotonic_ns += 1_000
        return self._monotonic_ns


class BatonLock:
    def __init__(self, baton: Baton) -> None:
        self._baton = baton
        self._is_locked = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if self._is_locked and blocking:
            self._baton.wait(lambda: not self._is_locked, timeout if timeout >= 0 else None)
        if self._is_locked:
            return False
        self._is_locked = True
        return True

    def release(self) -> None:
        if not self._is_locked:
            self._baton.fail(AssertionError("released twice"))
        self._is_locked = False

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class BatonEvent:
    def __init__(self, baton: Baton) -> None:
        self._baton = baton
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        return self._baton.wait(self.is_set, timeout)


class BatonThread:
    def __init__(self, baton: Baton, target: Callable[[], object], name: str) -> None:
        self._baton = baton
        self._target = target
        self._actor: Actor | None = None
        self.name = name

    @property
    def ident(self) -> int | None:
        return None if self._actor is None else id(self)

    def start(self) -> None:
        self._actor = self._baton.spawn(self._target, self.name)

    def join(self, timeout: float | None = None) -> None:
        actor = self._actor
        if actor is not None:
            self._baton.wait(lambda: actor.has_ended, timeout)
