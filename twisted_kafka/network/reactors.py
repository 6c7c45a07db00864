"""A reactor for each processor: epoll where there is one, else poll, else select.

``ProcessorReactor`` is Twisted's epoll reactor without what a processor does not need: no logging context around each
event (that alone costs as much as reading a small request), and a processor that is awake anyway is not woken by a
system call.
"""

from collections.abc import Callable
from typing import Any

from twisted.internet.base import ReactorBase
from zope.interface import Interface, implementer

from twisted_kafka.timing.clock import IClock

try:
    from twisted.internet.epollreactor import EPollReactor
except ImportError:  # pragma: no cover not Linux
    EPollReactor = None  # type: ignore[assignment,misc]


class ILoopHooks(Interface):
    """What a ProcessorReactor tells its processor."""

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


if EPollReactor is not None:
    _READABLE = EPollReactor._POLL_IN

    class ProcessorReactor(EPollReactor):
        """An epoll reactor that a processor hooks into; it measures how long it waits."""

        _registerAsIOThread = False  # noqa: N815 Twisted's name

        def __init__(self, clock: IClock) -> None:
            self._now_ns = clock.monotonic_ns
            self.hooks: Any = NoHooks()
            self.waited_ns = 0
            self.waiting_since_ns = 0
            super().__init__()  # type: ignore[no-untyped-call]

        def doPoll(self, timeout: float | None) -> None:
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
                events = self._poller.poll(timeout, len(selectables))
            except InterruptedError:
                events = ()
            self.waiting_since_ns = 0
            self.waited_ns += self._now_ns() - started
            hooks.poll_ends()
            for fd, event in events:
                selectable = selectables.get(fd)
                if selectable is not None:
                    self._doReadOrWrite(selectable, fd, event)  # type: ignore[no-untyped-call]
            hooks.run_pending()

        doIteration = doPoll  # noqa: N815 Twisted's name


def make_reactor(clock: IClock) -> ReactorBase:
    """Make a reactor for a thread of its own; it is run with ``run(installSignalHandlers=False)``."""
    if EPollReactor is not None:
        return ProcessorReactor(clock)
    return _make_other_reactor()


def _make_other_reactor() -> ReactorBase:
    classes: list[Callable[[], ReactorBase]] = []
    try:
        from twisted.internet.pollreactor import PollReactor

        classes.append(PollReactor)
    except ImportError:
        pass
    from twisted.internet.selectreactor import SelectReactor

    reactor = [*classes, SelectReactor][0]()
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


def _do_nothing() -> None:
    pass
