"""A reactor for each processor: epoll where there is one, else kqueue, else poll, else select.

The first three are Twisted's without what a processor does not need: no logging context around each event (that alone costs as
much as reading a small request), and a processor that is awake anyway is not woken by a system call. They tell their processor
when they wait (``ILoopHooks``), measure how long, and end when they fail again and again, where Twisted's would go on for ever.
"""

import math
import os
from typing import Any

from twisted.internet.base import ReactorBase
from twisted.internet.interfaces import IReadDescriptor
from twisted.internet.selectreactor import SelectReactor
from twisted.logger import Logger
from zope.interface import Interface, implementer

from twisted_kafka.network.loop.busy_poll import BusyPoll, BusyPollRule, Poll
from twisted_kafka.timing.clock import IClock

try:
    from twisted.internet.epollreactor import EPollReactor
except ImportError:  # pragma: no cover not Linux
    EPollReactor = None  # type: ignore[assignment,misc]
try:
    from twisted.internet.kqreactor import KQueueReactor
except ImportError:  # not a BSD
    KQueueReactor = None  # type: ignore[assignment,misc]
try:
    from twisted.internet.pollreactor import PollReactor
except ImportError:  # pragma: no cover a system without poll
    PollReactor = None  # type: ignore[assignment,misc]

MAX_FAILURES = 10
"""A loop that failed so many times without a success between ends."""

_log = Logger()


class ILoopHooks(Interface):
    """What a reactor tells its processor."""

    def poll_begins() -> float | None:
        """Note that the thread is about to wait; return how many seconds at most, None without end, 0 if there is work."""

    def poll_ends() -> None:
        """Note that the thread is awake."""

    def run_pending() -> None:
        """Do what others have asked for, after the sockets' events were handled."""


@implementer(ILoopHooks)
class NoHooks:
    """The hooks of a reactor that no processor has yet."""

    def poll_begins(self) -> float | None:
        """Let it wait."""
        return None

    def poll_ends(self) -> None:
        """Do nothing."""

    def run_pending(self) -> None:
        """Do nothing."""


_ONE = (1).to_bytes(8, "little")
_WAKER_BYTES = 4096


@implementer(IReadDescriptor)
class Waker:
    """Ends a loop's wait from another thread, by one descriptor where there is eventfd, else by a pipe.

    Twisted's does it by way of wrappers that cost several times the system call, and every batch of answers needs one.
    """

    disconnected = False

    def __init__(self) -> None:
        if hasattr(os, "eventfd"):
            self._in = self._out = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        else:  # pragma: no cover not Linux
            self._in, self._out = os.pipe()
            os.set_blocking(self._in, False)
            os.set_blocking(self._out, False)

    def wakeUp(self) -> None:
        """End the wait that is, or the next one; from any thread."""
        try:
            os.write(self._out, _ONE)
        except BlockingIOError:
            return  # it was told so often that it will certainly wake up

    def fileno(self) -> int:
        """Return the descriptor that the loop waits for, -1 when it is closed."""
        return self._in

    def logPrefix(self) -> str:
        """Say who logs."""
        return "Waker"

    def doRead(self) -> None:
        """Be awake."""
        try:
            os.read(self._in, _WAKER_BYTES)
        except BlockingIOError:
            return  # somebody has been awake before

    def connectionLost(self, reason: object) -> None:
        """Close the descriptors."""
        closing = {self._in, self._out} - {-1}
        self._in = self._out = -1
        for fd in closing:
            os.close(fd)


class HookedLoop(ReactorBase):
    """What the reactors below have in common: the loop, with its hooks, and the time that it waited.

    ``_poll`` waits for so many seconds (-1: for ever) and for so many events at most; ``_doReadOrWrite`` handles one of them.
    """

    _registerAsIOThread = False  # noqa: N815 Twisted's name
    _wakerFactory: Any = Waker  # noqa: N815
    _selectables: dict[int, Any]
    _doReadOrWrite: Any  # noqa: N815

    def __init__(self, clock: IClock) -> None:
        self._now_ns = clock.monotonic_ns
        self.hooks: Any = NoHooks()
        self.polls = 0
        self.waited_ns = 0
        self.waiting_since_ns = 0
        super().__init__()
        self._poll: Poll = self._make_poll()

    def _make_poll(self) -> Any:
        raise NotImplementedError

    def poll_busily(self, rule: BusyPollRule) -> None:
        """Look for events before each wait, as ``rule`` says and while that pays (``BusyPoll``)."""
        self._poll = BusyPoll(self._poll, self._now_ns, rule)

    def doIteration(self, timeout: float | None) -> None:
        """Wait for events at most ``timeout`` seconds, and handle them."""
        hooks = self.hooks
        limit = hooks.poll_begins()
        if timeout is None:
            timeout = -1 if limit is None else limit
        elif limit is not None and limit < timeout:
            timeout = limit
        selectables = self._selectables
        started = self.waiting_since_ns = self._now_ns()
        try:
            events = self._poll(timeout, len(selectables))
        except InterruptedError:
            events = ()
        finally:
            self.waiting_since_ns = 0
            self.waited_ns += self._now_ns() - started
            hooks.poll_ends()
        self.polls += 1
        for fd, event in events:
            selectable = selectables.get(fd)
            if selectable is not None:
                self._doReadOrWrite(selectable, fd, event)
        hooks.run_pending()

    def mainLoop(self) -> None:
        """Run until it is stopped.

        Raises what makes it fail ``MAX_FAILURES`` times on end, and at once what is no Exception.
        """
        failures = 0
        while self._started:
            try:
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

        def _make_poll(self) -> Any:
            return self._poller.poll


if PollReactor is not None:

    class ProcessorPollReactor(HookedLoop, PollReactor):
        """The reactor where there is nothing better than poll."""

        def _make_poll(self) -> Any:
            poll = self._poller.poll
            # Rounded up: a shorter wait than was asked for would turn into many.
            return lambda timeout, _: poll(math.ceil(timeout * 1000) if timeout >= 0 else None)


if KQueueReactor is not None:  # pragma: no cover BSD and macOS

    class ProcessorKQueueReactor(HookedLoop, KQueueReactor):
        """The reactor on BSD and macOS."""

        _doReadOrWrite = KQueueReactor._doWriteOrRead  # noqa: N815 Twisted's name

        def _make_poll(self) -> Any:
            control = self._kq.control

            def poll(timeout: float, max_events: int) -> list[tuple[int, Any]]:
                return [(event.ident, event) for event in control([], max_events, timeout if timeout >= 0 else None)]

            return poll


def make_reactor(clock: IClock, busy_poll: BusyPollRule | None = None) -> ReactorBase:
    """Make the best reactor of this platform, for a thread of its own; it is run with ``run(installSignalHandlers=False)``.

    ``busy_poll`` says whether and how it looks for events before it sleeps.
    """
    if EPollReactor is not None:
        reactor: HookedLoop = ProcessorReactor(clock)
    elif KQueueReactor is not None:  # pragma: no cover BSD and macOS
        reactor = ProcessorKQueueReactor(clock)
    elif PollReactor is not None:  # pragma: no cover other systems
        reactor = ProcessorPollReactor(clock)
    else:  # pragma: no cover
        return make_select_reactor(clock)
    if busy_poll is not None:
        reactor.poll_busily(busy_poll)
    return reactor


def make_poll_reactor(clock: IClock) -> ReactorBase:
    """Make a reactor that works with poll."""
    return ProcessorPollReactor(clock)


def make_select_reactor(clock: IClock) -> ReactorBase:
    """Make Twisted's reactor that works everywhere; it has no hooks, so its processor is woken by calls, its idle time unknown."""
    reactor = SelectReactor()
    reactor._registerAsIOThread = False
    return reactor


def close_reactor(reactor: ReactorBase) -> None:
    """Close the descriptors of a reactor that runs no more, or never ran, and that nobody will run again.

    Twisted's reactors keep theirs until the process ends: six of them for every broker that a test starts and stops.
    """
    # A thread that comes late must not write to a descriptor that is another file's by then.
    reactor.wakeUp = _do_nothing  # type: ignore[method-assign]
    for reader in list(reactor._internalReaders):
        reactor._internalReaders.discard(reader)
        reactor.removeReader(reader)
        reader.connectionLost(None)
    if EPollReactor is not None and isinstance(reactor, EPollReactor):
        reactor._poller.close()
    elif KQueueReactor is not None and isinstance(reactor, KQueueReactor):  # pragma: no cover BSD and macOS
        reactor._kq.close()


def _do_nothing() -> None:
    pass
