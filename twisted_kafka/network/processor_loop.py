"""The loop of a network thread: who wakes it, when it waits, and how it takes turns with the handlers.

Under the interpreter lock two threads that both make system calls take it from each other at each of them, and wait for it more
than they work. So a processor reads what its sockets have, wakes a handler, and leaves its sockets alone until the handlers are
done, or for some ``STALL_S`` (docs/adr/0007). Threads that want something of it wake it only if it is not awake: by the lock on
which it waits for its turn, or through its reactor.
"""

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any

from zope.interface import classImplements

from twisted_kafka.config.interpreter import HAS_INTERPRETER_LOCK
from twisted_kafka.network.late_responses import LateResponses
from twisted_kafka.network.loop.reactors import ILoopHooks
from twisted_kafka.network.requests.request import Request, ThrottleMark
from twisted_kafka.network.requests.request_channel import STALL_S, Parker, RequestChannel
from twisted_kafka.timing.clock import IClock

REQUESTS_PER_WAKE = 256
"""A handler is woken once all sockets that are readable were read, or so many requests are queued."""

TAKES_TURNS = HAS_INTERPRETER_LOCK
"""With the interpreter lock, a processor leaves its sockets alone while handlers are at work, for ``STALL_S`` at a time."""

MAX_LOOKS = 4
"""So often at most a processor looks again for further requests before it wakes a handler for those that it has."""

MAX_TURNS = 4
"""A processor lets the handlers, while none of them is stalled, have so many turns of ``STALL_S`` on end."""

TURNS_PER_LOOK = 64
"""After so many turns a processor thinks about where its threads run."""


class ProcessorLoop:
    """What a Processor is beside its connections.

    ``run_pending``, ``set_aside``, ``look_at_placement``, ``connection_count`` and ``_is_asked`` are the Processor's.
    """

    __slots__ = (
        "_announce_after",
        "_is_awake",
        "_is_hooked",
        "_is_lending",
        "_looks",
        "_polls_before",
        "_reactor",
        "_request_channel",
        "_requests_before_look",
        "_responses",
        "_stall_check_pending",
        "_turn",
        "_turns_until_look",
        "_unannounced",
        "_waited_before_ns",
        "_wake_pending",
        "announced_requests",
        "now_ns",
    )

    def __init__(self, reactor: Any, request_channel: RequestChannel, clock: IClock) -> None:
        self.now_ns: Callable[[], int] = clock.monotonic_ns
        self._request_channel = request_channel
        self._responses: deque[Request | ThrottleMark] = deque()
        self.announced_requests = 0
        """Requests that were queued so far."""
        self._unannounced = 0
        self._turn = Parker()
        self._turns_until_look = TURNS_PER_LOOK
        self._waited_before_ns = self._polls_before = 0
        self._is_awake = False
        self._is_lending = False
        self._wake_pending = False
        self._stall_check_pending = False
        self._run_on(reactor)

    def placed(self) -> AbstractContextManager[None]:
        """Return what this processor's thread holds while it runs (``RequestChannel.placed``)."""
        return self._request_channel.placed()

    def attach(self, reactor: Any) -> None:
        """Go on with ``reactor``, after the thread of the former one was lost; to be called before its thread runs it."""
        self._waited_before_ns = self.waited_ns() - self._turn.parked_ns
        self._polls_before = self.polls()
        self._run_on(reactor)

    def end(self) -> None:
        """Complete the answers that are left, and those that still come, unsent; to be called when the thread has ended."""
        left, self._responses = self._responses, LateResponses(self)
        while left:
            self.set_aside(left.popleft(), self.now_ns())

    def _run_on(self, reactor: Any) -> None:
        self._reactor: Any = reactor
        self._is_hooked = hasattr(reactor, "hooks")
        self._announce_after = 1
        self._looks = self._requests_before_look = 0
        self._wake_pending = self._is_lending = self._is_awake = self._stall_check_pending = False
        if self._is_hooked:
            self._announce_after = REQUESTS_PER_WAKE
            reactor.hooks = self

    def run_pending(self) -> None:
        """Do what other threads have asked for."""
        raise NotImplementedError

    def set_aside(self, response: Request | ThrottleMark, now_ns: int) -> None:
        """Take a response that is not to be sent."""
        raise NotImplementedError

    @property
    def connection_count(self) -> int:
        """How many connections are open."""
        raise NotImplementedError

    @property
    def _is_asked(self) -> bool:
        """Whether other threads want something beside responses."""
        raise NotImplementedError

    # From any thread.

    def append_response(self, response: Request | ThrottleMark) -> None:
        """Have a response sent when this thread is awake."""
        self._responses.append(response)

    def wake_for_responses(self) -> None:
        """Wake this thread if it sleeps and responses were appended, or if it waits for the handlers."""
        if not self._is_awake and not self._wake_pending and (self._responses or self._is_lending):
            self._wake_pending = True
            self._wake()

    @property
    def response_queue_size(self) -> int:
        """Responses that wait for this processor (Kafka's metric ResponseQueueSize)."""
        return len(self._responses)

    def waited_ns(self) -> int:
        """Nanoseconds that the thread has waited for events so far."""
        reactor = self._reactor
        since = getattr(reactor, "waiting_since_ns", 0)
        waited = self._waited_before_ns + getattr(reactor, "waited_ns", 0) + self._turn.parked_ns
        return waited + (self.now_ns() - since if since else 0)

    def polls(self) -> int:
        """How often the thread has polled its sockets so far; 0 on a reactor that does not tell."""
        return self._polls_before + getattr(self._reactor, "polls", 0)

    def _wake(self) -> None:
        if self._is_lending:
            with suppress(RuntimeError):  # somebody else has just woken it
                self._turn.wake()
        elif self._is_hooked:
            self._reactor.wakeUp()
        else:
            self._reactor.callFromThread(self.run_pending)

    def _wake_up(self) -> None:
        if not self._wake_pending:
            self._wake_pending = True
            self._wake()

    # On this thread.

    def poll_begins(self) -> float | None:
        """Give the handlers what was queued, and their turn; return how long the thread may wait for its sockets then.

        (``ILoopHooks.poll_begins``.)
        """
        if self._unannounced:
            if TAKES_TURNS and self._looks_again():
                return 0
            self._announce()
        request_channel = self._request_channel
        is_at_work = request_channel.is_at_work
        if is_at_work:
            if TAKES_TURNS:
                self._lend()
            else:
                request_channel.relieve()
            is_at_work = request_channel.is_at_work
        self._is_awake = False
        if self._responses or self._unannounced or self._is_asked:
            return 0
        if not is_at_work:
            return None
        return 0 if TAKES_TURNS else STALL_S

    def _looks_again(self) -> bool:
        """Return whether the sockets are looked at again before a handler is woken for what they brought.

        They are while each look brings something and some connections have not asked: clients that were just answered ask
        again within the time of a look, and every handing over is dear.
        """
        queued = self._unannounced
        if self._looks < MAX_LOOKS and self._requests_before_look < queued < self.connection_count:
            self._looks += 1
            self._requests_before_look = queued
            return True
        self._looks = self._requests_before_look = 0
        return False

    def _lend(self) -> None:
        """Wait until the handlers are done, or ``STALL_S``, and do what they have asked for."""
        turn = self._turn
        started_ns = self.now_ns()
        self._is_lending = True
        self._is_awake = False
        # What others ask for wakes this thread from here on; what they asked for before is seen now.
        is_over = self._is_asked or not self._request_channel.is_at_work or turn.park(STALL_S) or self._lend_on(turn)
        self._is_awake = True
        self._is_lending = False
        turn.parked_ns += self.now_ns() - started_ns
        if not is_over:
            self._request_channel.relieve()
        self.run_pending()
        self._turns_until_look -= 1
        if not self._turns_until_look:
            self._turns_until_look = TURNS_PER_LOOK
            self.look_at_placement()

    def _lend_on(self, turn: Parker) -> bool:
        """Wait on while no handler is stalled, up to ``MAX_TURNS`` times as long; return whether the handlers are done."""
        request_channel = self._request_channel
        for _ in range(MAX_TURNS - 1):
            request_channel.relieve()
            if self._is_asked or not request_channel.is_at_work or turn.park(STALL_S):
                return True
        return False

    def look_at_placement(self) -> None:
        """Have it decided where the threads of this plane run."""
        raise NotImplementedError

    def poll_ends(self) -> None:
        """Note that the thread is awake: it looks for work before it sleeps again, nobody needs to wake it."""
        self._is_awake = True

    def _announce(self) -> None:
        self.announced_requests += self._unannounced
        self._unannounced = 0
        self._request_channel.announce()
        if not self._is_hooked and not self._stall_check_pending:
            self._stall_check_pending = True
            self._reactor.callLater(STALL_S, self._check_stall)

    def _check_stall(self) -> None:
        # Only where poll_begins is not called: there, nobody else looks after the handlers.
        self._request_channel.relieve()
        if self._request_channel.is_busy:
            self._reactor.callLater(STALL_S, self._check_stall)
        else:
            self._stall_check_pending = False
        if self._responses:
            self.run_pending()


classImplements(ProcessorLoop, ILoopHooks)
