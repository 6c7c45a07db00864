"""A reactor for each processor: epoll where there is one, else kqueue, else poll, else select.

The first three are Twisted's reactors without what a processor does not need: no logging context around each event, which alone
costs as much as reading a small request, and no system call to wake a processor that is awake. They call their processor before and
after each poll (``ILoopHooks``), measure how long they wait, and end if the loop keeps failing, where Twisted's would go on for
ever.
"""

import math
import os
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from twisted.internet.base import ReactorBase
from twisted.internet.interfaces import IReadDescriptor
from twisted.internet.selectreactor import SelectReactor
from twisted.logger import Logger
from typing_extensions import override
from zope.interface import implementer

from twisted_kafka.network.loop.busy_poll import BusyPoll
from twisted_kafka.system import machine
from twisted_kafka.system.forks import close_in_children
from twisted_kafka.timing.clock import IClock, SystemClock

try:
    from twisted.internet.epollreactor import EPollReactor
except ImportError:  # not Linux, or PyPy
    EPollReactor = None  # type: ignore[assignment,misc]
try:
    from twisted.internet.kqreactor import KQueueReactor
except ImportError:  # not a BSD
    KQueueReactor = None  # type: ignore[assignment,misc]
try:
    from twisted.internet.pollreactor import PollReactor
except ImportError:  # Windows
    PollReactor = None  # type: ignore[assignment,misc]

MAX_FAILURES = 10
"""A loop that has failed this many times in a row ends."""

_log = Logger()


class ILoopHooks(Protocol):
    """The methods of a processor that its reactor calls."""

    def handle_requests(self) -> bool:
        """Handle requests that are queued; return False if another thread runs the reactor now."""

    def before_poll(self) -> float | None:
        """Prepare for a poll; return how many seconds it may wait at most, None without limit, 0 if there is work."""

    def may_poll_busily(self) -> bool:
        """Return whether the thread may use its processor to wait: no other thread has work."""

    def after_poll(self) -> None:
        """Record that the thread is awake."""

    def run_pending(self) -> None:
        """Call the functions that other threads have queued. Called after the events of the sockets."""


class NoHooks:
    """The hooks of a reactor without a processor."""

    def handle_requests(self) -> bool:
        return True

    def before_poll(self) -> float | None:
        """Set no limit."""
        return None

    def may_poll_busily(self) -> bool:
        """Forbid it."""
        return False

    def after_poll(self) -> None: ...

    def run_pending(self) -> None: ...


_ONE = (1).to_bytes(8, "little")
_WAKER_BYTES = 4096


@implementer(IReadDescriptor)
class Waker:
    """Wakes a loop from another thread: with an eventfd where there is one, else with a pipe. Not for Windows.

    Twisted's waker goes through wrappers that cost several times the system call, and every batch of responses needs one.
    """

    disconnected = False

    def __init__(self) -> None:
        if hasattr(os, "eventfd"):
            self._in = self._out = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        else:  # not Linux, or PyPy
            self._in, self._out = os.pipe()
            os.set_blocking(self._in, False)
            os.set_blocking(self._out, False)

    def wakeUp(self) -> None:
        """End the current poll, or the next one. From any thread."""
        try:
            os.write(self._out, _ONE)
        except BlockingIOError:
            return  # it is full, so the loop will wake up
        except OSError:
            if self._out != -1:
                raise
            # It was closed meanwhile: there is no loop any more.

    def fileno(self) -> int:
        """Return the descriptor to poll; -1 when closed."""
        return self._in

    def logPrefix(self) -> str:
        """Return the name in log lines."""
        return "Waker"

    def doRead(self) -> None:
        """Reset the descriptor."""
        try:
            os.read(self._in, _WAKER_BYTES)
        except BlockingIOError:
            return  # it was reset already

    def connectionLost(self, reason: object) -> None:
        """Close the descriptors."""
        closing = {self._in, self._out} - {-1}
        self._in = self._out = -1
        for fd in closing:
            os.close(fd)


def _steady_s() -> float:
    # The system's whatever clock a test passes: a poll waits in real time.
    return SystemClock.monotonic_ns() / 1e9


class HookedLoop(ReactorBase):
    """The loop that the reactors below have in common, with its hooks and its counters.

    ``_poll`` takes a timeout in seconds (-1: none) and a maximum of events; ``_doReadOrWrite`` handles one event.
    """

    _registerAsIOThread = False  # noqa: N815 Twisted's name
    _wakerFactory: Any = Waker  # noqa: N815
    _selectables: dict[int, Any]
    _doReadOrWrite: Any  # noqa: N815

    def __init__(self, clock: IClock) -> None:
        self._now_ns = clock.steady_ns
        self._clock_ns = clock.monotonic_ns
        self.hooks: Any = NoHooks()
        self.polls = 0
        self.waited_ns = 0
        self.waiting_since_ns = 0
        self._busy_poll = BusyPoll(clock.steady_ns)
        super().__init__()
        clock.follow(self._time_jumped)
        self._poll: Callable[[float, int], Iterable[tuple[int, Any]]] = self._make_poll()

    @override
    def seconds(self) -> float:
        """Return the time by which delayed calls are due, in seconds: the clock's, not the wall clock as in Twisted."""
        return self._clock_ns() / 1e9

    def _time_jumped(self) -> None:
        if self.running:
            self.wakeUp()

    def _make_poll(self) -> Any:
        raise NotImplementedError

    @override
    def doIteration(self, timeout: float | None) -> None:
        """Wait at most ``timeout`` seconds for events and handle them."""
        hooks = self.hooks
        limit = hooks.before_poll()
        if timeout is None:
            timeout = -1 if limit is None else limit
        elif limit is not None and limit < timeout:
            timeout = limit
        selectables = self._selectables
        busy_poll = self._busy_poll
        started = self.waiting_since_ns = self._now_ns()
        events: Iterable[tuple[int, Any]] = ()
        try:
            if timeout and busy_poll.is_due and hooks.may_poll_busily():
                events = busy_poll.poll(self._poll, len(selectables))
            events = events or self._poll(timeout, len(selectables))
        except InterruptedError:
            pass
        finally:
            self.waiting_since_ns = 0
            waited_ns = self._now_ns() - started
            busy_poll.note_wait(waited_ns)
            self.waited_ns += waited_ns
            hooks.after_poll()
        self.polls += 1
        for fd, event in events:
            selectable = selectables.get(fd)
            if selectable is not None:
                self._doReadOrWrite(selectable, fd, event)
        hooks.run_pending()

    @override
    def mainLoop(self) -> None:
        """Run until it is stopped, or until another thread runs it: any thread may, but only one at a time.

        Reraises an exception after ``MAX_FAILURES`` failures in a row, and a BaseException that is no Exception at once.
        """
        failures = 0
        while self._started:
            try:
                if not self.hooks.handle_requests():
                    return
                self.runUntilCurrent()
                timeout = self.timeout()
                self.doIteration(timeout if self.running else 0)
                failures = 0
            except Exception:
                failures += 1
                if failures >= MAX_FAILURES:
                    raise
                _log.failure("Unexpected error in the loop of a network thread")


if EPollReactor is not None:

    class ProcessorReactor(HookedLoop, EPollReactor):
        """The reactor on Linux."""

        @override
        def _make_poll(self) -> Any:
            return self._poller.poll


if PollReactor is not None:

    class ProcessorPollReactor(HookedLoop, PollReactor):
        """The reactor on systems with neither epoll nor kqueue."""

        @override
        def _make_poll(self) -> Any:
            poll = self._poller.poll
            # Rounded up: rounding down would poll repeatedly until the time has come.
            return lambda timeout, _: poll(math.ceil(timeout * 1000) if timeout >= 0 else None)


if KQueueReactor is not None:  # pragma: no cover BSD and macOS

    class ProcessorKQueueReactor(HookedLoop, KQueueReactor):
        """The reactor on BSD and macOS."""

        _doReadOrWrite = KQueueReactor._doWriteOrRead  # noqa: N815 Twisted's name

        @override
        def _make_poll(self) -> Any:
            control = self._kq.control

            def poll(timeout: float, max_events: int) -> list[tuple[int, Any]]:
                return [(event.ident, event) for event in control([], max_events, timeout if timeout >= 0 else None)]

            return poll


def make_reactor(clock: IClock) -> ReactorBase:
    """Make the best reactor of this platform, for a thread of its own. Run it with ``run(installSignalHandlers=False)``."""
    reactor = _make_reactor(clock)
    close_in_children(reactor, _close_copies)
    return reactor


def _make_reactor(clock: IClock) -> ReactorBase:
    if machine.make_reactor is not None:
        made: ReactorBase = machine.make_reactor(clock)
        return made
    if EPollReactor is not None:
        return ProcessorReactor(clock)
    if KQueueReactor is not None:  # pragma: no cover BSD and macOS
        return ProcessorKQueueReactor(clock)
    if PollReactor is not None:  # pragma: no cover other systems
        return ProcessorPollReactor(clock)
    return make_select_reactor(clock)  # pragma: no cover


def make_poll_reactor(clock: IClock) -> ReactorBase:
    """Make a reactor on poll."""
    return ProcessorPollReactor(clock)


def make_select_reactor(clock: IClock) -> ReactorBase:
    """Make Twisted's select reactor, for any platform. It has no hooks: it is woken by callFromThread and counts no idle time."""
    reactor = SelectReactor()
    reactor._registerAsIOThread = False
    use_steady_time(reactor)
    return reactor


def use_steady_time(reactor: Any) -> None:
    """Make a reactor without delayed calls count its delays on the monotonic clock, like the reactors made here.

    Twisted's count them on the wall clock: one that is set back by an hour delays all calls by an hour. A reactor with calls is
    left as it is, since they are due at times of its clock.
    """
    if not reactor.running and not reactor.getDelayedCalls():
        reactor.seconds = _steady_s


def close_reactor(reactor: ReactorBase) -> None:
    """Close the descriptors of a reactor that has ended or never ran, and will not run again.

    Twisted's reactors keep theirs until the process ends: six for every broker that a test starts and stops.
    """
    # A late thread must not write to a descriptor that belongs to another file by then.
    reactor.wakeUp = _do_nothing  # type: ignore[method-assign]
    for reader in reactor._internalReaders:
        reactor.removeReader(reader)
        reader.connectionLost(None)
    if EPollReactor is not None and isinstance(reactor, EPollReactor):
        reactor._poller.close()
    elif KQueueReactor is not None and isinstance(reactor, KQueueReactor):  # pragma: no cover BSD and macOS
        reactor._kq.close()


def _close_copies(reactor: Any) -> None:
    """Close a forked process's copies of the reactor's descriptors. Nothing is removed from the poll, which the parent shares."""
    for selectable in {*reactor.getReaders(), *reactor.getWriters()}:
        connection = getattr(selectable, "socket", None)
        if connection is not None:
            connection.close()
    for reader in reactor._internalReaders:
        reader.connectionLost(None)
    for name in ("_poller", "_kq"):
        close = getattr(getattr(reactor, name, None), "close", None)
        if close is not None:
            close()


def _do_nothing() -> None:
    pass
