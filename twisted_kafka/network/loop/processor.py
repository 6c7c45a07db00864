"""A network thread: its reactor, its connections, their requests in and responses out. (Kafka: Processor.)

The steps of Kafka's loop, in its order, and where they are here:

    configure new connections    ``configure_new_connections``
    process new responses        ``process_new_responses``
    poll                         ``poll_begins``, the reactor's own poll, ``poll_ends``
    process completed receives   ``process_completed_receive``, as soon as a channel has a whole request
    process completed sends      ``process_completed_send``, once all responses that are ready were sent
    process disconnected         ``process_disconnected``, as soon as a connection is lost
    close excess connections     ``close_excess_connections``

The first two and the last are for what other threads ask for, and run after each poll (``run_pending``). When the thread waits, and
who wakes it, is in ``ProcessorLoop``; what is done with responses, in ``ProcessorResponses``: the two classes under this one.

What goes wrong with a connection closes that connection only. When the thread itself is lost, ``abandon_connections`` is called,
and ``attach`` with a new reactor: the processor goes on without its former connections (``NetworkThread``).
"""

import socket
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from zope.interface import classImplements

from twisted_kafka.network.connection.channel import KafkaChannel
from twisted_kafka.network.connection.expiry import (
    HOLD_CHECK_S,
    PATIENCE_S,
    close_after_last_answer,
    idle_channels,
    idle_check_s,
    least_recently_used,
    silent_holders,
    start_check,
)
from twisted_kafka.network.interfaces import (
    IBlockedAcceptor,
    IConnectionProcessor,
    IProcessorControl,
    IQueueListener,
    IRequestObserver,
)
from twisted_kafka.network.log_rate_limit import LogRateLimit
from twisted_kafka.network.loop.new_connections import NewConnections
from twisted_kafka.network.loop.processor_settings import ProcessorSettings
from twisted_kafka.network.processor_responses import ProcessorResponses
from twisted_kafka.network.requests.memory_pool import IMemoryWaiter, MemoryPool
from twisted_kafka.network.requests.request import Request
from twisted_kafka.network.requests.request_channel import RequestChannel
from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.regions import Buffer
from twisted_kafka.timing.clock import IClock

__all__ = ["Processor", "ProcessorSettings"]

_log = Logger(__name__)


class Processor(ProcessorResponses):
    """Owns the connections that it is given, on one reactor's thread."""

    # Not only for memory: attributes of an instance dictionary of more than 30 keys are slow to read.
    __slots__ = (
        "_checks",
        "_has_room",
        "_held",
        "_must_check_excess",
        "_refusals",
        "_stopped",
        "channels",
        "is_full",
        "memory_pool",
        "new_connections",
        "number",
        "settings",
    )

    def __init__(
        self,
        number: int,
        settings: ProcessorSettings,
        reactor: Any,
        request_channel: RequestChannel,
        clock: IClock,
        observers: Sequence[IRequestObserver] = (),
    ) -> None:
        super().__init__(reactor, request_channel, clock, observers)
        self.number = number
        self.settings = settings
        self.memory_pool: MemoryPool | None = settings.memory_pool
        self.channels: dict[KafkaChannel, None] = {}
        self.new_connections = NewConnections(settings, number, reactor)
        self.is_full = False
        """Whether there is no room for a further request, in the queue or in the memory pool: nothing is read then."""
        self._held: deque[Request] = deque()
        self._refusals = LogRateLimit(clock.monotonic_ns)
        self._stopped: dict[KafkaChannel, None] = {}
        self._has_room = False
        self._must_check_excess = False
        self._checks: list[LoopingCall] = []
        request_channel.add_processor(cast(IProcessorControl, self))

    def attach(self, reactor: Any) -> None:
        """Go on with ``reactor``, after the thread of the former one was lost."""
        super().attach(reactor)
        self.new_connections.attach(reactor)

    # From any thread.

    def accept(self, connected: socket.socket, peer: tuple[Any, ...], blocked: IBlockedAcceptor | None = None) -> bool:
        """Take over an accepted connection (``IConnectionProcessor.accept``)."""
        if not self.new_connections.put(connected, peer, blocked):
            return False
        if not self._is_awake:  # else it looks for new connections before it sleeps
            self._wake_up()
        return True

    def check_connections(self) -> None:
        """Close connections that are too many (``IConnectionProcessor.check_connections``)."""
        self._must_check_excess = True
        self._wake_up()

    def request_queue_drained(self) -> None:
        """Go on reading: there is room in the request queue again."""
        self._has_room = True
        self._wake_up()

    def memory_available(self) -> None:
        """Go on reading: there is memory again."""
        self._has_room = True
        self._wake_up()

    def begin_shutdown(self) -> None:
        """Take no more requests; answer those under way, closing each connection then."""
        self._reactor.callFromThread(self._begin_draining)

    def close_all(self) -> None:
        """Close all connections, whatever is under way on them."""
        self._reactor.callFromThread(self._close_channels)

    # The loop's steps, on this thread.

    @property
    def _is_asked(self) -> bool:
        """Whether other threads want something beside responses."""
        return bool(self.new_connections.waiting) or self._has_room or self._must_check_excess

    @property
    def connection_count(self) -> int:
        """How many connections are open."""
        return len(self.channels)

    def look_at_placement(self) -> None:
        """Have it decided where the threads of this plane run, by what has passed here."""
        placement, stats = self._request_channel.placement, self.stats
        if placement is not None:
            placement.look(self.number, stats.responses, stats.request_bytes + stats.response_bytes)

    def run_pending(self) -> None:
        """Do what other threads have asked for."""
        self._wake_pending = False
        if self.new_connections.waiting:
            self.configure_new_connections()
        if self._responses:
            self.process_new_responses()
        if self._has_room:
            self._has_room = False
            self._resume()
        if self._must_check_excess:
            self.close_excess_connections()
        if self._unannounced and not self._is_hooked:
            self._announce()

    def configure_new_connections(self) -> None:
        """Make channels of the accepted connections, of so many in one turn as may wait."""
        for channel in self.new_connections.take(self):
            self.add_channel(channel)
        if self.new_connections.waiting:
            self._wake_up()
        self.new_connections.tell_of_room()

    def add_channel(self, channel: KafkaChannel) -> None:
        """Begin to read from a channel, whose transport is set."""
        channel.last_active_ns = self.now_ns()
        self.channels[channel] = None
        self.stats.connections_created += 1
        if self._is_draining:
            channel.close()
            return
        try:
            channel.transport.resumeProducing()
        except Exception:  # noqa: BLE001 one failing connection must not end the others
            self.fail(channel, "it cannot be read from")
        if not self._checks:
            self._start_checks()

    def _start_checks(self) -> None:
        if self.settings.idle_ms > 0:
            self._checks.append(start_check(self.close_idle_connections, idle_check_s(self.settings.idle_ms), self._reactor))
        if self.memory_pool is not None:
            self._checks.append(start_check(self.close_silent_holders, HOLD_CHECK_S, self._reactor))

    def process_completed_receive(self, channel: KafkaChannel, frame: Buffer) -> None:
        """Take a complete frame: parse its header, queue it. A bad header closes the connection."""
        now_ns = channel.last_active_ns = self.now_ns()
        pool = self.memory_pool
        if pool is not None and not channel.take_memory(frame):
            return
        try:
            api_key, api_version, correlation_id, client_id, body_offset = channel.headers.read(frame)
        except Exception as error:  # noqa: BLE001 whatever is wrong with a frame concerns its connection only
            if pool is not None:
                pool.release(len(frame))
            self.refuse(channel, f"{type(error).__name__}: {error}")
            return
        context = RequestContext(api_key, api_version, correlation_id, client_id, channel.connection)
        request = Request(context, frame, body_offset, channel, now_ns)
        if pool is not None:
            request.memory_pool = pool
        self.stats.request_bytes += request.request_bytes
        channel.request_received(request)
        if self._held or not self._request_channel.send_request(request):
            self._hold(request)
            return
        self._unannounced += 1
        if self._unannounced >= self._announce_after:
            self._announce()

    def process_disconnected(self, channel: KafkaChannel) -> None:
        """Forget a channel that is closed; a request under way is completed when its response comes."""
        if self.channels.pop(channel, False) is None:
            self.stats.connections_closed += 1
            self.settings.quotas.dec(self.settings.listener_name, channel.connection.client_address)
        self._stopped.pop(channel, None)
        request, channel.in_flight = channel.in_flight, None
        if request is not None and request.response_dequeued_ns and not request.sent_ns:
            self.drop(request)  # its response was being sent: nobody else will complete it

    def close_excess_connections(self) -> None:
        """Close the least recently used connection if there are too many of them; one in each turn."""
        self._must_check_excess = False
        if not self.channels or not self.settings.quotas.claim_excess(self.settings.listener_name):
            return
        channel = least_recently_used(self.channels)
        _log.info("Closing {id}, the least recently used: the broker has more than max.connections", id=channel.connection_id)
        channel.close()
        self.check_connections()

    def close_idle_connections(self) -> None:
        """Close what neither sent nor took anything for ``connections.max.idle.ms``, unless a handler has its request."""
        for channel in idle_channels(self.channels, self.now_ns() - self.settings.idle_ms * 1_000_000):
            _log.info("Closing idle connection {id}", id=channel.connection_id)
            self.stats.expired_connections_killed += 1
            channel.close()

    def close_silent_holders(self) -> None:
        """Close what keeps others waiting for memory that it has taken for a request and does not fill."""
        pool = self.memory_pool
        if pool is None or pool.waited_for_ns() < PATIENCE_S * 1e9:
            return
        for channel in silent_holders(self.channels, self.now_ns() - int(PATIENCE_S * 1e9)):
            self.refuse(channel, f"it has sent nothing of its request for {PATIENCE_S:g} s, and others wait for the memory")

    # What closes a connection.

    def refuse(self, channel: KafkaChannel, why: str) -> None:
        """Close a connection whose bytes cannot be understood, and say why in one line, unless there are too many."""
        if self._refusals.allow():
            _log.warn(
                "Closing connection {id} of {listener}: {why}{more}",
                id=channel.connection_id,
                listener=channel.connection.listener_name,
                why=why,
                more=self._refusals.take_suppressed(),
            )
        channel.close()

    def close_after_failed_authentication(self, channel: KafkaChannel) -> None:
        """Close a connection in ``connection.failed.authentication.delay.ms``: who guesses passwords has to wait."""
        self.stats.failed_authentications += 1
        channel.mute()
        delay_s = self.settings.failed_authentication_delay_ms / 1000
        if delay_s > 0 and not self._is_draining:
            self._reactor.callLater(delay_s, channel.close)
        else:
            channel.close()

    def half_closed(self, channel: KafkaChannel) -> None:
        """Let a client that sends no more have the answer to its last request, if that does not take long."""
        close_after_last_answer(channel, self._reactor)

    def fail(self, channel: KafkaChannel, what: str) -> None:
        """Close a connection in whose step there was an exception, which is the current one."""
        _log.failure("Closing connection {id}: {what}", id=channel.connection_id, what=what)
        with suppress(Exception):  # the first failure is told above; what a broken connection says to its closing tells no more
            channel.close()

    # When there is no room.

    def stop_reading(self, channel: KafkaChannel) -> None:
        """Mute a channel until there is room again."""
        self._stopped[channel] = None
        channel.mute()

    def _hold(self, request: Request) -> None:
        # The queue is full: a channel that has more to say is stopped, sending goes on. At most one request per connection is held.
        self.is_full = True
        self._held.append(request)
        self.stop_reading(request.channel)
        self._request_channel.notify_when_drained(cast(IQueueListener, self))

    def _resume(self) -> None:
        while self._held:
            if not self._request_channel.send_request(self._held[0]):
                self._request_channel.notify_when_drained(cast(IQueueListener, self))
                return
            self._held.popleft()
            self._unannounced += 1
        self.is_full = False
        stopped, self._stopped = self._stopped, {}
        for channel in stopped:  # those for whom the room does not suffice are stopped anew, in the same order
            try:
                channel.next_request()
            except Exception:  # noqa: BLE001 one failing connection must not end the others
                self.fail(channel, "it could not go on")

    # Less frequent things.

    def _begin_draining(self) -> None:
        self._is_draining = True
        for channel in list(self.channels):
            if channel.in_flight is None:
                channel.close()
            else:
                channel.pause()

    def _close_channels(self) -> None:
        self._is_draining = True
        while self.new_connections.waiting:
            self.configure_new_connections()
        self._close_all_channels()

    def abandon_connections(self) -> None:
        """Close all connections of a thread that is lost; requests under way are completed as their answers come."""
        self._close_all_channels()
        self.is_full = False

    def _close_all_channels(self) -> None:
        for channel in list(self.channels):
            try:
                channel.close()
            except Exception:  # noqa: BLE001 the others have to be closed too
                _log.failure("Connection {id} could not be closed in order", id=channel.connection_id)
                channel.connectionLost()
        while self._held:
            self._held.popleft().release_buffer()
        while self._checks:
            self._checks.pop().stop()


# No decorator: mypyc would take the class for one that may be anything.
classImplements(Processor, IProcessorControl, IConnectionProcessor, IQueueListener, IMemoryWaiter)
