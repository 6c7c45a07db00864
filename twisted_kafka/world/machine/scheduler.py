"""Virtual time, and threads of which exactly one runs: they change where they wait, and a seed decides who goes on.

Each actor is a greenlet. All of them share one thread of the system, so a fork copies them (``moments/``). Time is a number that
advances to the next timer when every actor waits.
"""

import heapq
import signal
import threading
import traceback
from collections.abc import Callable
from functools import partial
from random import Random
from threading import get_ident
from types import FrameType
from typing import Any, Final
from zlib import crc32

from twisted_kafka.system.installation import install_command

try:
    from greenlet import GreenletExit, getcurrent, greenlet
except ImportError as error:
    raise ImportError(f"a world needs greenlet: {install_command('world')}") from error

FIRST_NS: Final = 1_000_000_000_000
"""The monotonic time at which each world begins."""

NEVER_NS: Final = 1 << 62

STUCK_REAL_S: Final = 60.0
"""A thread that has not waited for so long is reported, after twice the time at the latest. It is real time: a loop without end
passes no other."""
ALARMS_BEFORE_A_REPEAT: Final = 10
"""A thread that is ended has this many alarms of time to end: a second error within the handling of the first would confuse it."""

Callback = Callable[..., object]


class KilledError(BaseException):
    """Ends the threads of a killed process. Not an Exception: nothing may take it for an error of its own."""


class WorldStuckError(AssertionError):
    """A thread of the world computes without end; the message has its stack."""


class Timer:
    """A call at a moment of virtual time. ``cancel`` prevents it."""

    __slots__ = ("arguments", "callback", "due_ns")

    def __init__(self, due_ns: int, callback: Callback, arguments: tuple[Any, ...]) -> None:
        self.due_ns = due_ns
        self.callback: Callback | None = callback
        self.arguments = arguments

    def cancel(self) -> None:
        self.callback = None


class Owner:
    """A process as the scheduler sees it: what runs on its threads, and whether it may still run."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.host: Any = None
        """Where it runs."""
        self.is_dead = False
        self.is_paused = False
        self.actors: dict[int, Actor] = {}
        """Its threads by number."""
        self.held: list[Actor] = []
        """Threads that are ready while the process is paused."""


class Actor:
    """One thread of the world."""

    __slots__ = (
        "blocked_ns",
        "flow",
        "has_ended",
        "is_waiting",
        "is_woken",
        "joiners",
        "name",
        "number",
        "owner",
        "put_away",
        "thread",
    )

    def __init__(self, name: str, number: int, owner: Owner) -> None:
        self.name = name
        self.number = number
        self.owner = owner
        self.is_waiting = False
        self.is_woken = False
        self.has_ended = False
        self.blocked_ns = 0
        """Since when it has waited for a lock; 0 if it does not."""
        self.flow: greenlet
        self.put_away: Callable[[], Callable[[], object]] | None = None
        """Takes its state out of the thread of the system before another actor goes on, and returns a function that restores it."""
        self.thread: Any = None
        self.joiners: list[Actor] = []


class Scheduler:
    """One world's. The thread that makes it is the driver's, an actor too, which ``run`` lets wait for the others."""

    def __init__(self, seed: int, *, pause_share: float = 0.0) -> None:
        """``pause_share`` is how often a thread lets others go on when it takes a lock (0 to 1)."""
        self.now_ns = FIRST_NS
        self.switches = 0
        self.fingerprint = 0
        """Changes with every decision: equal fingerprints mean equal runs."""
        self.pause_share = pause_share
        self.failure: BaseException | None = None
        self._random = Random(seed)
        self._ready: list[Actor] = []
        self._timers: list[tuple[int, int, Timer]] = []
        self._timer_number = 0
        self._actor_number = 0
        self._until_ns = NEVER_NS
        self._burier: Actor | None = None
        self._draw = self._random.random
        self._alarmed_at = -1
        self._alarms = 0
        self._ident = get_ident()
        self._actors: dict[int, Actor] = {}
        self.test = Owner("test")
        self.driver = self.current = self._make_actor("test", self.test)
        self.driver.flow = getcurrent()

    # Actors

    def _make_actor(self, name: str, owner: Owner) -> Actor:
        actor = Actor(name, self._actor_number, owner)
        self._actor_number += 1
        self._actors[actor.number] = owner.actors[actor.number] = actor
        return actor

    def spawn_for(self, owner: Owner, start: Callable[[], object]) -> None:
        """Call ``start`` so that the threads it makes belong to another process."""
        me = self.current
        before, me.owner = me.owner, owner
        try:
            start()
        finally:
            me.owner = before

    def actor_here(self) -> Actor | None:
        """Return the current actor; None on a thread outside the world."""
        return self.current if get_ident() == self._ident else None

    def is_inside(self) -> bool:
        """Return whether the calling thread is the world's."""
        return get_ident() == self._ident

    def spawn(self, name: str, run: Callable[[], None]) -> Actor:
        """Make an actor of the current process, which calls ``run`` when its turn comes."""
        self.check_alive()
        actor = self._make_actor(name, self.current.owner)
        actor.flow = greenlet(partial(self._live, actor, run), self.driver.flow)
        self.make_ready(actor)
        return actor

    def _live(self, actor: Actor, run: Callable[[], None]) -> None:
        try:
            if not actor.owner.is_dead:
                run()
        except GreenletExit:
            return  # nobody has the world any more
        except KilledError:
            pass
        except BaseException as error:  # noqa: BLE001 the driver raises it
            self.failure = self.failure or error
        actor.has_ended = True
        del self._actors[actor.number]
        del actor.owner.actors[actor.number]
        for each in actor.joiners:
            self.wake(each)
        self.current = self._choose()
        # The end of a greenlet returns to its parent, the driver's, which lets the current actor go on.

    def make_ready(self, actor: Actor) -> None:
        """Let an actor go on when its turn comes."""
        if actor.owner.is_paused:
            actor.owner.held.append(actor)
        else:
            self._ready.append(actor)

    def check_alive(self) -> None:
        """Raise KilledError on a thread of a killed process."""
        if self.current.owner.is_dead:
            raise KilledError

    # Waiting

    def wait(self, timeout_ns: int | None = None) -> bool:
        """Wait until ``wake``, and return True; False after ``timeout_ns`` nanoseconds of virtual time."""
        me = self.current
        if me.owner.is_dead:
            raise KilledError
        me.is_waiting, me.is_woken = True, False
        timer = None if timeout_ns is None else self.call_later(timeout_ns, self._time_out, me)
        self._switch(me)
        if timer is not None:
            timer.cancel()
        return me.is_woken

    def wake(self, actor: Actor) -> bool:
        """End an actor's wait; return False if it does not wait, or its process was killed."""
        if not actor.is_waiting or actor.owner.is_dead:
            return False
        actor.is_waiting, actor.is_woken = False, True
        self.make_ready(actor)
        return True

    def pause(self) -> None:
        """Let others go on first, perhaps: in a world with a ``pause_share``."""
        me = self.current
        if self._draw() < self.pause_share and not me.owner.is_dead and me is not self.driver:
            self.make_ready(me)
            self._switch(me)

    def wake_one(self, waiters: list[Actor]) -> Actor | None:
        """Wake one of those who wait for the same thing, as the seed decides, and remove it from the list."""
        while waiters:
            actor = waiters.pop(self._random.randrange(len(waiters)) if len(waiters) > 1 else 0)
            if self.wake(actor):
                return actor
        return None

    def _time_out(self, actor: Actor) -> None:
        if actor.is_waiting and not actor.owner.is_dead:
            actor.is_waiting = False
            self.make_ready(actor)

    def _switch(self, me: Actor) -> None:
        following = self._choose()
        if following is not me:
            self._go_on_with(following, me)
        if me.owner.is_dead:
            raise KilledError

    def _go_on_with(self, following: Actor, me: Actor) -> None:
        """Let another actor go on; return when it is the turn of ``me`` again."""
        bring_back = None if me.put_away is None else me.put_away()
        self.current = following
        following.flow.switch()
        while self.current is not me:  # an actor has ended: only the driver gets here
            self.current.flow.switch()
        if bring_back is not None:
            bring_back()

    def _choose(self) -> Actor:
        if self._burier is not None:
            return self._burier
        ready = self._ready
        while True:
            if self.failure is not None:
                return self._leave_wait(self.driver)
            if ready:
                count = len(ready)
                actor = ready.pop(self._random.randrange(count) if count > 1 else 0)
                if actor.owner.is_dead:
                    continue
                self.switches += 1
                self.fingerprint = crc32(b"%d %d" % (self.now_ns, actor.number), self.fingerprint)
                return actor
            if not self._timers or self._timers[0][0] > self._until_ns:
                if self._until_ns != NEVER_NS:
                    self.now_ns = max(self.now_ns, self._until_ns)
                return self._leave_wait(self.driver)
            due_ns, _, timer = heapq.heappop(self._timers)
            if timer.callback is not None:
                self.now_ns = due_ns
                callback, timer.callback = timer.callback, None
                callback(*timer.arguments)

    def _leave_wait(self, actor: Actor) -> Actor:
        actor.is_waiting = False
        return actor

    # Timers

    def call_later(self, delay_ns: int, callback: Callback, *arguments: Any) -> Timer:
        """Call back after ``delay_ns``, on whatever thread lets time pass: the callback must not wait."""
        due_ns = self.now_ns + max(0, delay_ns)
        timer = Timer(due_ns, callback, arguments)
        self._timer_number += 1
        heapq.heappush(self._timers, (due_ns, self._timer_number, timer))
        return timer

    # The driver

    def run(self, until_ns: int) -> None:
        """Let the others run until a moment of virtual time. Reraises what a thread has raised."""
        self._until_ns = until_ns
        self.wait()
        self._until_ns = NEVER_NS  # when the driver waits for a lock, time passes until it has it
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure

    def set_alarm(self) -> Callable[[], object]:
        """Look for threads that compute without end, or wait for a lock of the system; return a function that ends that.

        Only the main thread of the system can do it: it gets the signals.
        """
        if threading.current_thread() is not threading.main_thread():
            return int
        is_free = signal.getsignal(signal.SIGALRM) == signal.SIG_DFL  # pytest-timeout uses it, say
        number, timer = (signal.SIGALRM, signal.ITIMER_REAL) if is_free else (signal.SIGVTALRM, signal.ITIMER_VIRTUAL)
        before = signal.signal(number, lambda _, frame: self._alarm(frame))
        signal.setitimer(timer, STUCK_REAL_S, STUCK_REAL_S)

        def end() -> None:
            signal.setitimer(timer, 0)
            signal.signal(number, before)

        return end

    def _alarm(self, frame: FrameType | None) -> None:
        """End the run if the current thread has not waited since the last alarm; ``frame`` is the executed one."""
        me = self.current
        if me is self.driver or self.switches != self._alarmed_at:
            self._alarmed_at, self._alarms = self.switches, 0
            return
        self._alarms += 1
        if self._alarms % ALARMS_BEFORE_A_REPEAT != 1:
            return
        stack = "".join(traceback.format_stack(frame))
        self.failure = WorldStuckError(f"{me.owner.name} computes without end in thread {me.name}:\n{stack}")
        raise KilledError

    def stuck(self, longer_than_ns: int) -> list[str]:
        """Return the threads that have waited for a lock for so long, in processes that run: names and stacks."""
        since_ns = self.now_ns - longer_than_ns
        found = [each for each in self._actors.values() if each.blocked_ns and each.blocked_ns <= since_ns]
        return [_stack_of(each) for each in found if not each.owner.is_dead and not each.owner.is_paused]

    def stacks(self, name: str) -> str:
        """Return the stacks of the threads of the process with a name, all of which wait."""
        return "\n".join([_stack_of(each) for each in self._actors.values() if each.owner.name == name and each is not self.driver])

    # Processes

    def kill(self, owner: Owner) -> None:
        """Let no thread of a process run again but to end: each raises KilledError where it waits. Not for the current process."""
        owner.is_dead = True
        owner.held.clear()
        self._ready[:] = [each for each in self._ready if each.owner is not owner]
        burier, self._burier = self._burier, self.current
        me = self.current
        try:
            while owner.actors:
                dying = next(iter(owner.actors.values()))
                dying.is_waiting = False
                self._go_on_with(dying, me)
        finally:
            self._burier = burier

    def pause_process(self, owner: Owner) -> None:
        """Let no thread of a process run until ``resume_process``, as after SIGSTOP."""
        owner.is_paused = True
        kept = [each for each in self._ready if each.owner is not owner]
        owner.held += [each for each in self._ready if each.owner is owner]
        self._ready[:] = kept

    def resume_process(self, owner: Owner) -> None:
        """Let a paused process go on."""
        owner.is_paused = False
        self._ready += owner.held
        owner.held.clear()


def _stack_of(actor: Actor) -> str:
    """Return the name of a waiting thread, and its stack."""
    stack = [] if actor.flow.gr_frame is None else traceback.format_stack(actor.flow.gr_frame)
    return f"{actor.owner.name}: {actor.name}\n{''.join(stack)}"
