"""A network thread: its reactor, its connections, their requests in and responses out. (Kafka: Processor.)

The steps of Kafka's loop are methods here: ``configure_new_connections``, ``process_new_responses``, the reactor's poll,
``receive`` (a completed receive), ``process_completed_send``, ``process_disconnected``, ``close_idle_connections``.
All of them run on this thread; ``accept``, ``append_response``, ``wake_for_responses``,
``request_queue_drained``, ``begin_shutdown`` and ``close_all`` are for others.
"""

import socket
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from zope.interface import implementer

from twisted_kafka.network.channel import KafkaChannel
from twisted_kafka.network.channel_builder import PLAINTEXT_BUILDER, IChannelBuilder
from twisted_kafka.network.interfaces import (
    IBlockedAcceptor,
    IConnectionProcessor,
    IConnectionQuotas,
    IProcessorControl,
    IRequestObserver,
    NoQuotas,
)
from twisted_kafka.network.reactors import ILoopHooks
from twisted_kafka.network.request import CLOSE_CONNECTION, SEND, ConnectionInfo, Request, RequestContext
from twisted_kafka.network.request_channel import STALL_S, IQueueListener, Parker, RequestChannel
from twisted_kafka.protocol.regions import Buffer
from twisted_kafka.timing.clock import IClock

REQUESTS_PER_WAKE = 256
"""A handler is woken once all sockets that are readable were read, or so many requests are queued."""

TAKES_TURNS = getattr(sys, "_is_gil_enabled", lambda: True)()
"""With the interpreter lock, a processor leaves its sockets alone while handlers are at work, for ``STALL_S`` at a time.

Two threads that both make system calls take the lock from each other at each of them, and wait for it more than they work.
"""

NEW_CONNECTIONS = 20
"""So many accepted connections may wait for a processor (Kafka: Processor.ConnectionQueueSize)."""

IDLE_CHECKS = 10
"""Idle connections are looked for so many times within the time that they may be idle ..."""

MAX_IDLE_CHECK_S = 60.0
"""... but at least this often."""

_log = Logger()


class ProcessorSettings:
    """What a processor is told at its start; keys ``socket.request.max.bytes`` and ``connections.max.idle.ms``."""

    __slots__ = (
        "channel_builder",
        "idle_ms",
        "is_privileged",
        "listener_name",
        "max_request_bytes",
        "quotas",
        "security_protocol",
    )

    def __init__(self, listener_name: str, security_protocol: str, max_request_bytes: int, idle_ms: int) -> None:
        self.listener_name = listener_name
        self.security_protocol = security_protocol
        self.max_request_bytes = max_request_bytes
        self.idle_ms = idle_ms
        self.is_privileged = False
        self.quotas: IConnectionQuotas = NoQuotas()
        self.channel_builder: IChannelBuilder = PLAINTEXT_BUILDER


@implementer(IProcessorControl, IConnectionProcessor, ILoopHooks, IQueueListener)
class Processor:
    """Owns the connections that it is given, on one reactor's thread."""

    def __init__(
        self,
        number: int,
        settings: ProcessorSettings,
        reactor: Any,
        request_channel: RequestChannel,
        clock: IClock,
        observers: Sequence[IRequestObserver] = (),
    ) -> None:
        self.number = number
        self.settings = settings
        self.now_ns: Callable[[], int] = clock.monotonic_ns
        self.channels: dict[KafkaChannel, None] = {}
        self.expired_connections_killed = 0
        self.dropped_responses = 0
        self.is_full = False
        self._reactor = reactor
        self._make_transport = settings.channel_builder.for_processor(number, reactor)
        self._request_channel = request_channel
        self._observers = tuple(observer.request_completed for observer in observers)
        self._new_connections: deque[tuple[socket.socket, tuple[Any, ...]]] = deque()
        self._blocked: IBlockedAcceptor | None = None
        self._must_check_connections = False
        self._responses: deque[Request] = deque()
        self._held: deque[Request] = deque()
        self._is_awake = False
        self._is_lending = False
        self._turn = Parker()
        self._wake_pending = False
        self._drained = False
        self._stall_check_pending = False
        self._is_draining = False
        self._connection_index = 0
        self._idle_check: LoopingCall | None = None
        self._unannounced = 0
        self._announce_after = 1
        self._is_hooked = hasattr(reactor, "hooks")
        if self._is_hooked:
            self._announce_after = REQUESTS_PER_WAKE
            reactor.hooks = self
        request_channel.add_processor(self)

    # From any thread.

    def accept(self, connected: socket.socket, peer: tuple[Any, ...], blocked: IBlockedAcceptor | None = None) -> bool:
        """Take over an accepted connection; return False when too many wait already, and tell ``blocked`` when there is room."""
        if len(self._new_connections) >= NEW_CONNECTIONS:
            self._blocked = blocked
            if len(self._new_connections) >= NEW_CONNECTIONS:  # else they were taken meanwhile, and nobody would tell it
                return False
            self._blocked = None
        self._new_connections.append((connected, peer))
        self._wake_up()
        return True

    def check_connections(self) -> None:
        """Close the least recently used connection while there are too many, one each turn."""
        self._must_check_connections = True
        self._wake_up()

    def append_response(self, request: Request) -> None:
        """Have the response of ``request`` sent when this thread is awake."""
        self._responses.append(request)

    def wake_for_responses(self) -> None:
        """Wake this thread if it sleeps and responses were appended, or if it waits for the handlers."""
        if not self._is_awake and not self._wake_pending and (self._responses or self._is_lending):
            self._wake_pending = True
            self._wake()

    def request_queue_drained(self) -> None:
        """Go on reading: there is room in the request queue again."""
        self._drained = True
        self._wake_up()

    def begin_shutdown(self) -> None:
        """Take no more requests; answer those under way, closing each connection then."""
        self._reactor.callFromThread(self._begin_draining)

    def close_all(self) -> None:
        """Close all connections, whatever is under way on them."""
        self._reactor.callFromThread(self._close_channels)

    @property
    def response_queue_size(self) -> int:
        """Responses that wait for this processor (Kafka's metric ResponseQueueSize)."""
        return len(self._responses)

    def waited_ns(self) -> int:
        """Nanoseconds that the thread has waited for events so far."""
        since = getattr(self._reactor, "waiting_since_ns", 0)
        return self._turn.parked_ns + getattr(self._reactor, "waited_ns", 0) + (self.now_ns() - since if since else 0)

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

    # The loop's steps, on this thread.

    def poll_begins(self) -> float | None:
        """Give the handlers what was queued, and their turn; return how long the thread may wait for its sockets then.

        (``ILoopHooks.poll_begins``.)
        """
        if self._unannounced:
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
        if self._responses or self._new_connections or self._drained or self._unannounced:
            return 0
        if not is_at_work:
            return None
        return 0 if TAKES_TURNS else STALL_S

    def _lend(self) -> None:
        """Wait until the handlers are done, or ``STALL_S``, and do what they have asked for."""
        turn = self._turn
        started_ns = self.now_ns()
        self._is_lending = True
        self._is_awake = False
        # What others ask for wakes this thread from here on; what they asked for before is seen now.
        is_over = self._new_connections or self._drained or not self._request_channel.is_at_work or turn.park(STALL_S)
        self._is_awake = True
        self._is_lending = False
        turn.parked_ns += self.now_ns() - started_ns
        if not is_over:
            self._request_channel.relieve()
        self.run_pending()

    def poll_ends(self) -> None:
        """Note that the thread is awake: it looks for work before it sleeps again, nobody needs to wake it."""
        self._is_awake = True

    def run_pending(self) -> None:
        """Do what other threads have asked for."""
        self._wake_pending = False
        if self._responses:
            self.process_new_responses()
        if self._new_connections:
            self.configure_new_connections()
        if self._drained:
            self._drained = False
            self._resume()
        if self._must_check_connections:
            self.close_excess_connections()
        if self._unannounced and not self._is_hooked:
            self._announce()

    def configure_new_connections(self) -> None:
        """Make channels of the accepted connections."""
        while self._new_connections:
            connected, peer = self._new_connections.popleft()
            try:
                local = connected.getsockname()
                info = self._describe(local, peer)
                channel = KafkaChannel(info, self, self.settings.max_request_bytes)
                channel.transport = self._make_transport(connected, channel)
                self.add_channel(channel)
            except OSError as error:
                _log.info("A connection from {peer} was lost while it was set up: {error}", peer=peer, error=error)
                connected.close()
                self.settings.quotas.dec(self.settings.listener_name, peer[0])
        blocked, self._blocked = self._blocked, None
        if blocked is not None:
            blocked.room_for_connections()

    def add_channel(self, channel: KafkaChannel) -> None:
        """Begin to read from a channel, whose transport is set."""
        channel.last_active_ns = self.now_ns()
        self.channels[channel] = None
        if self._is_draining:
            channel.close()
            return
        channel.transport.resumeProducing()
        if self._idle_check is None and self.settings.idle_ms > 0:
            self._idle_check = LoopingCall(self.close_idle_connections)
            self._idle_check.clock = self._reactor
            interval_s = min(self.settings.idle_ms / 1000 / IDLE_CHECKS, MAX_IDLE_CHECK_S)
            self._idle_check.start(interval_s, now=False)

    def receive(self, channel: KafkaChannel, frame: Buffer) -> None:
        """Take a complete frame: parse its header, queue it. A bad header closes the connection."""
        now_ns = channel.last_active_ns = self.now_ns()
        try:
            api_key, api_version, correlation_id, client_id, body_offset = channel.headers.read(frame)
        except Exception as error:  # noqa: BLE001 whatever is wrong with a frame concerns its connection only
            self.refuse(channel, f"{type(error).__name__}: {error}")
            return
        context = RequestContext(api_key, api_version, correlation_id, client_id, channel.connection)
        request = Request(context, frame, body_offset, channel, now_ns)
        channel.request_received(request)
        request_channel = self._request_channel
        if self._held or not request_channel.send_request(request):
            self._hold(request)
            return
        self._unannounced += 1
        if self._unannounced >= self._announce_after:
            self._announce()

    def _announce(self) -> None:
        self._unannounced = 0
        self._request_channel.announce()
        if not self._is_hooked and not self._stall_check_pending:
            self._stall_check_pending = True
            self._reactor.callLater(STALL_S, self._check_stall)

    def process_new_responses(self) -> None:
        """Send the responses that were completed meanwhile, as one batch."""
        responses = self._responses
        now_ns = self.now_ns()
        while responses:
            request = responses.popleft()
            channel = request.channel
            request.response_dequeued_ns = now_ns
            if channel.in_flight is not request or not channel.is_open:
                self.dropped_responses += 1
                self._complete(request)
            elif request.response_kind == SEND:
                try:
                    gone = channel.transport.send(request.parts, request.response_bytes)
                except Exception:  # noqa: BLE001 one failing connection must not end the others
                    _log.failure("Closing {id}: its response could not be sent", id=channel.connection_id)
                    channel.close()
                    continue
                if gone:
                    now_ns = self.process_completed_send(channel)
            else:
                request.sent_ns = now_ns
                self._finish(channel, request)
                if request.response_kind == CLOSE_CONNECTION:
                    channel.close()

    def process_completed_send(self, channel: KafkaChannel) -> int:
        """Be done with the request whose response is gone, and go on with the channel's next; return the time."""
        now_ns = channel.last_active_ns = self.now_ns()
        request = channel.in_flight
        if request is not None:
            request.sent_ns = now_ns
            self._finish(channel, request)
        return now_ns

    def process_disconnected(self, channel: KafkaChannel) -> None:
        """Forget a channel that is closed; a request under way is completed when its response comes."""
        if channel in self.channels:
            del self.channels[channel]
            self.settings.quotas.dec(channel.connection.listener_name, channel.connection.client_address)
        request, channel.in_flight = channel.in_flight, None
        if request is not None and request.response_dequeued_ns and not request.sent_ns:
            # Its response was being sent: nobody else will complete it.
            self.dropped_responses += 1
            self._complete(request)

    def close_idle_connections(self) -> None:
        """Close what neither sent nor took anything for ``connections.max.idle.ms``, unless a handler has its request."""
        limit_ns = self.now_ns() - self.settings.idle_ms * 1_000_000
        for channel in list(self.channels):
            request = channel.in_flight
            if channel.last_active_ns <= limit_ns and (request is None or request.response_dequeued_ns):
                _log.info("Closing idle connection {id}", id=channel.connection_id)
                self.expired_connections_killed += 1
                channel.close()

    def close_excess_connections(self) -> None:
        """Close the connection that was used least recently, if the broker has too many; look again in the next turn."""
        self._must_check_connections = False
        if self.channels and self.settings.quotas.max_connections_exceeded(self.settings.listener_name):
            channel = min(self.channels, key=lambda each: each.last_active_ns)
            _log.info("Closing {id}: the broker has more than max.connections", id=channel.connection_id)
            channel.close()
            self.check_connections()

    def refuse(self, channel: KafkaChannel, why: str) -> None:
        """Close a connection whose bytes cannot be understood, and say why in one line."""
        _log.warn(
            "Closing connection {id} of {listener}: {why}",
            id=channel.connection_id,
            listener=channel.connection.listener_name,
            why=why,
        )
        channel.close()

    # Less frequent things.

    def _finish(self, channel: KafkaChannel, request: Request) -> None:
        channel.response_sent()
        self._complete(request)
        if self._is_draining:
            channel.close()
        else:
            channel.next_request()

    def _complete(self, request: Request) -> None:
        if not request.sent_ns:
            request.sent_ns = request.response_dequeued_ns  # its response was dropped
        for tell in self._observers:
            try:
                tell(request)
            except Exception:  # noqa: BLE001 an observer's trouble is not the client's
                _log.failure("An observer of completed requests failed")
        request.parts = ()

    def _hold(self, request: Request) -> None:
        # The queue is full: each channel is paused once it has read again, sending goes on. At most one request per
        # connection is held here.
        self.is_full = True
        self._held.append(request)
        self._request_channel.notify_when_drained(self)

    def _resume(self) -> None:
        while self._held:
            if not self._request_channel.send_request(self._held[0]):
                self._request_channel.notify_when_drained(self)
                return
            self._held.popleft()
            self._unannounced += 1
        self.is_full = False
        for channel in list(self.channels):
            channel.next_request()

    def _check_stall(self) -> None:
        # Only where poll_begins is not called: there, nobody else looks after the handlers.
        self._request_channel.relieve()
        if self._request_channel.is_busy:
            self._reactor.callLater(STALL_S, self._check_stall)
        else:
            self._stall_check_pending = False
        if self._responses:
            self.run_pending()

    def _describe(self, local: tuple[Any, ...], peer: tuple[Any, ...]) -> ConnectionInfo:
        index = self._connection_index
        self._connection_index = (index + 1) & 0x7FFFFFFF
        connection_id = f"{local[0]}:{local[1]}-{peer[0]}:{peer[1]}-{index}"
        settings = self.settings
        return ConnectionInfo(connection_id, settings.listener_name, settings.security_protocol, peer[0], settings.is_privileged)

    def _begin_draining(self) -> None:
        self._is_draining = True
        for channel in list(self.channels):
            if channel.in_flight is None:
                channel.close()
            else:
                channel.pause()

    def _close_channels(self) -> None:
        self._is_draining = True
        self.configure_new_connections()
        for channel in list(self.channels):
            channel.close()
        if self._idle_check is not None and self._idle_check.running:
            self._idle_check.stop()
