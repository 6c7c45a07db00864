"""A network thread: its reactor, its connections, their requests in and responses out. (Kafka: Processor.)

The steps of Kafka's loop, in its order, and where they are here:

    configure new connections    ``configure_new_connections``
    process new responses        ``process_new_responses``
    poll                         ``before_poll``, the reactor's own poll, ``after_poll``
    process completed receives   ``process_completed_receive``, as soon as a channel has a complete request
    process completed sends      ``process_completed_send``, once all pending responses have been sent
    process disconnected         ``process_disconnected``, as soon as a connection is lost
    close excess connections     ``close_excess_connections``

The first two and the last do what other threads have asked for, and run after each poll (``run_pending``).

Between two polls the thread handles the requests that are queued (``handle_requests``), in the place of an idle handler: changing
threads costs more than most requests. If a request takes long, the idle handler's thread becomes the network thread and this one
the handler (docs/adr/0027). So only the *leader*, the thread that runs the loop, touches the reactor and the sockets, and it loses
them only between two polls, while it is in a request.

An error on a connection closes that connection only. If the loop itself fails, ``abandon_connections`` closes all of them and
``attach`` continues with a new reactor (``NetworkThread``).
"""

import socket
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, ClassVar, cast

from twisted.logger import Logger

from twisted_kafka.network.connection.channel import READ_BYTES, SHORT_READ_BYTES, KafkaChannel
from twisted_kafka.network.connection.connection_stats import ConnectionStats
from twisted_kafka.network.connection.expiry import (
    GRACE_S,
    HOLDERS_CHECK_S,
    PeriodicCheck,
    close_after_last_response,
    idle_channels,
    idle_check_s,
    least_recently_used,
    slow_holders,
    start_check,
)
from twisted_kafka.network.connection.held_bytes import HeldBytes, response_bytes
from twisted_kafka.network.log_rate_limit import LogRateLimit
from twisted_kafka.network.loop.new_connections import NewConnections
from twisted_kafka.network.loop.processor_settings import ProcessorSettings
from twisted_kafka.network.requests.memory_pool import MemoryPool
from twisted_kafka.network.requests.parker import IRequestHandler, Parker, exchange_roles
from twisted_kafka.network.requests.request import (
    AUTHENTICATED,
    AUTHENTICATION_FAILED,
    CLOSE_CONNECTION,
    NO_OP,
    SEND,
    SESSION_EXPIRED,
    START_THROTTLING,
    Request,
    ThrottlingResponse,
)
from twisted_kafka.network.requests.request_channel import RequestChannel
from twisted_kafka.network.requests.request_context import ConnectionInfo, RequestContext
from twisted_kafka.network.requests.request_observer import IRefusalObserver, IRequestObserver
from twisted_kafka.protocol.regions import Buffer, FileRegion
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock

MAX_REQUESTS_PER_ROUND = 32
"""Most requests that the thread handles before it sends their responses and polls its sockets again."""

HELD_BYTES = 40 * 1024 * 1024
"""Most bytes that one processor's connections may hold of requests that are small and incomplete, or that wait for room.

Requests that wait for memory have 64 KiB each. So 600 producers may wait whose requests do not fit the memory for large ones.
"""

READ_AHEAD_TOTAL_BYTES = 12 * 1024 * 1024
"""While they hold more than this, nothing is read ahead, and requests that begin are read in short pieces."""

UNSENT_BYTES = 24 * 1024 * 1024
"""Most bytes in memory of responses that one processor's clients do not read, plus a third of those read slowly."""

FAILURE_READ_S = 1.0
"""How long a client has to read why it is not authenticated before its connection is closed."""

MAX_ROUND_NS = 3_000_000
"""After this long, no further request is handled before responses are sent."""

_log = Logger()


class Processor:
    """Owns the connections that it is given, on one reactor's thread."""

    # Not only to save memory: attributes are slow to read from an instance dictionary of more than 30 keys.
    __slots__ = (
        "_checks",
        "_follower",
        "_handled_ns",
        "_has_ended",
        "_held",
        "_is_awake",
        "_is_draining",
        "_is_hooked",
        "_is_resuming",
        "_leadership",
        "_must_check_excess",
        "_observers",
        "_polls_before",
        "_reactor",
        "_received",
        "_refusal_observers",
        "_refusals",
        "_request_channel",
        "_responses",
        "_room_available",
        "_steady_ns",
        "_stopped",
        "_unreadable_files",
        "_unsent",
        "_waited_before_ns",
        "_wake_pending",
        "channels",
        "is_full",
        "leader",
        "memory_pool",
        "new_connections",
        "now_ns",
        "number",
        "read_bytes",
        "received_requests",
        "settings",
        "stats",
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
        self.now_ns: Callable[[], int] = clock.monotonic_ns
        self._steady_ns = clock.steady_ns
        self.number = number
        self.settings = settings
        self.stats = ConnectionStats()
        self.memory_pool: MemoryPool | None = settings.memory_pool
        self.channels: dict[ConnectionInfo, KafkaChannel] = {}
        self.new_connections = NewConnections(settings, number, reactor)
        self.is_full = False
        """Whether there is no room for another request, in the queue or in the memory pool: nothing is read then."""
        self.received_requests = 0
        """How many requests have been queued so far."""
        self._request_channel = request_channel
        self._observers = tuple(observer.request_completed for observer in observers)
        self._refusal_observers = tuple(each.connection_refused for each in observers if isinstance(each, IRefusalObserver))
        self._responses: deque[Request | ThrottlingResponse] = deque()
        self._held: deque[Request] = deque()  # requests for which the queue was full
        self._stopped: dict[KafkaChannel, None] = {}  # in the order in which they stopped reading
        self._received = HeldBytes(HELD_BYTES)
        self.read_bytes = READ_BYTES
        self._unsent = HeldBytes(UNSENT_BYTES)
        self._refusals = LogRateLimit(clock.monotonic_ns)
        self._unreadable_files = LogRateLimit(clock.monotonic_ns)
        self._checks: list[PeriodicCheck] = []
        self.leader = Parker()
        """The thread that runs the loop."""
        self._follower: Parker | None = None  # while the leader handles requests, the idle handler that may succeed it
        self._leadership = machine.Lock()  # guards _follower
        self._handled_ns = 0
        self._waited_before_ns = self._polls_before = 0
        self._room_available = False
        self._is_resuming = False
        self._must_check_excess = False
        self._is_draining = False
        self._has_ended = False
        self._use_reactor(reactor)
        request_channel.add_processor(self)

    def attach(self, reactor: Any) -> None:
        """Continue with ``reactor`` after the loop on the former one has failed. Called before the thread runs the new one."""
        self._waited_before_ns = self.waited_ns() - self._handled_ns
        self._polls_before = self.polls()
        self._use_reactor(reactor)
        self.new_connections.attach(reactor)

    def _use_reactor(self, reactor: Any) -> None:
        self._reactor: Any = reactor
        self._is_hooked = hasattr(reactor, "hooks")
        self._wake_pending = self._is_awake = False
        if self._is_hooked:
            reactor.hooks = self

    # From any thread.

    def add_observer(self, observer: IRequestObserver) -> None:
        """Notify another observer of requests that are completed from now on; one that is notified already stays so."""
        if observer.request_completed not in self._observers:
            self._observers = (*self._observers, observer.request_completed)

    def remove_observer(self, observer: IRequestObserver) -> None:
        """Notify an observer no more."""
        self._observers = tuple(each for each in self._observers if each != observer.request_completed)

    def accept(self, connected: socket.socket, peer: tuple[Any, ...], retry: Callable[[], object] | None = None) -> bool:
        """Take over a connection that ConnectionQuotas has counted; return False if ``NEW_CONNECTIONS`` are waiting already.

        A full processor calls ``retry`` once when it has room.
        """
        if not self.new_connections.put(connected, peer, retry):
            return False
        if not self._is_awake:  # otherwise the processor checks for new connections before it sleeps
            self._wake_up()
        return True

    def check_connections(self) -> None:
        """Close the least recently used connection, one per turn, while ``IConnectionQuotas.claim_excess`` returns True."""
        self._must_check_excess = True
        self._wake_up()

    def request_queue_drained(self) -> None:
        """Resume reading: the request queue has room again."""
        self._room_available = True
        self._wake_up()

    def memory_available(self) -> None:
        """Resume reading: the memory pool has memory again."""
        self._room_available = True
        self._wake_up()

    def append_response(self, response: Request | ThrottlingResponse) -> None:
        """Queue a response; ``wake_for_responses`` follows. After ``end`` it is discarded at once, on the calling thread."""
        self._responses.append(response)
        if self._has_ended:
            self._discard_responses()

    def wake_for_responses(self) -> None:
        """Wake this thread if it sleeps with responses queued."""
        if not self._is_awake and not self._wake_pending and self._responses:
            self._wake_pending = True
            self._wake()

    def begin_shutdown(self) -> None:
        """Accept no more requests; answer those in flight and close each connection after its response."""
        self._reactor.callFromThread(self._begin_draining)

    def give_up_unanswered(self) -> None:
        """Close connections whose request has no response yet: the threads that could answer have ended."""
        self._reactor.callFromThread(self._close_unanswered)

    def close_all(self) -> None:
        """Close all connections, even with requests in flight."""
        self._reactor.callFromThread(self._close_channels)

    def has_channel(self, connection: ConnectionInfo) -> bool:
        """Whether a connection is open, and this thread's."""
        return connection in self.channels

    @property
    def connection_count(self) -> int:
        """How many connections are open."""
        return len(self.channels)

    @property
    def response_queue_size(self) -> int:
        """How many responses wait for this processor (Kafka's metric ResponseQueueSize)."""
        return len(self._responses)

    def waited_ns(self) -> int:
        """Return how many nanoseconds the thread has waited for events or worked as a handler so far."""
        reactor = self._reactor
        since = getattr(reactor, "waiting_since_ns", 0)
        waited = self._waited_before_ns + getattr(reactor, "waited_ns", 0) + self._handled_ns
        return waited + (self._steady_ns() - since if since else 0)

    def polls(self) -> int:
        """Return how often the thread has polled its sockets so far; 0 with a reactor that does not count."""
        return self._polls_before + getattr(self._reactor, "polls", 0)

    def _wake_up(self) -> None:
        if not self._wake_pending:
            self._wake_pending = True
            self._wake()

    def _wake(self) -> None:
        if self._is_hooked:
            self._reactor.wakeUp()
        else:
            self._reactor.callFromThread(self.run_pending)

    # The loop, on this thread.

    def handle_requests(self) -> bool:
        """Handle queued requests in the place of an idle handler, if there is one, and send their responses.

        Return False if another thread runs the loop now: the caller must touch neither the reactor nor this object any more.
        (``ILoopHooks.handle_requests``.)
        """
        request_channel = self._request_channel
        if not request_channel.has_work:
            return True
        started_ns = self._steady_ns()
        follower = request_channel.claim_idle(started_ns)
        if follower is None:
            return True
        leader = self.leader
        # What this thread has done to the sockets happens before it releases the lock here, the stall watch takes the lock before
        # it wakes the follower, and so the follower sees all of it. This thread touches them again only if, with the lock held, it
        # finds that nobody has taken the loop away.
        with self._leadership:
            self._follower = follower
        handler = cast(IRequestHandler, follower.role)
        try:
            handled = 0
            while handled < MAX_REQUESTS_PER_ROUND:
                count = handler.step(leader, 0)
                if not count or handler.has_ended or leader.busy_since_ns - started_ns > MAX_ROUND_NS:
                    break
                handled += count
                if leader.next_role is not None:
                    break  # this thread has become a handler, and continues as one
        except BaseException:  # noqa: BLE001 the loop may be another thread's by now: it must not fail because of this
            _log.failure("{name} failed", name=handler.name)
        with self._leadership:
            # Not whether _follower is the same: a later leader may have claimed the same handler's place.
            is_leader = leader.next_role is None
            if is_leader:
                self._follower = None
        if not is_leader:
            return False
        leader.busy_since_ns = 0
        ended_ns = self._steady_ns()
        if handler.has_ended:
            follower.wake()
        else:
            request_channel.release_idle(follower, ended_ns)
        self._handled_ns += ended_ns - started_ns
        self.run_pending()
        return True

    @property
    def is_handling(self) -> bool:
        """Whether the leader handles requests at the moment, in the place of an idle handler."""
        return self._follower is not None

    def check_stall(self) -> bool:
        """Exchange the roles of leader and follower if the leader was in the same request at the last check.

        Return whether the leader handles requests and is not stalled.
        """
        with self._leadership:
            follower, leader = self._follower, self.leader
            if follower is None:
                return False
            leader.check_stall()
            if not leader.is_stalled:
                return True
            self._follower = None
            self._request_channel.replace(follower, leader)
            exchange_roles(leader, follower)
        follower.wake()
        return False

    def before_poll(self) -> float | None:
        """Wake a handler for a large request; return how long the poll may wait (``ILoopHooks.before_poll``)."""
        if self._request_channel.has_large_next:
            self._request_channel.wake_handler()
        self._is_awake = False
        return 0 if self._responses or self._has_pending or self._request_channel.has_work else None

    def may_poll_busily(self) -> bool:
        """Return whether all handlers sleep (``ILoopHooks.may_poll_busily``)."""
        return not self._request_channel.is_busy

    def after_poll(self) -> None:
        """Record that the thread is awake: it checks for work before it sleeps again, so no one needs to wake it."""
        self._is_awake = True

    def run_pending(self) -> None:
        """Call the functions that other threads have queued."""
        self._wake_pending = False
        if self.new_connections.waiting:
            self.configure_new_connections()
        if self._responses:
            self.process_new_responses()
        if self._room_available:
            self._room_available = False
            self._resume_reading()
        if self._must_check_excess:
            self.close_excess_connections()

    @property
    def _has_pending(self) -> bool:
        """Whether ``run_pending`` has something to do, not counting responses."""
        return bool(self.new_connections.waiting) or self._room_available or self._must_check_excess

    # Connections.

    def configure_new_connections(self) -> None:
        """Make channels of accepted connections, at most ``NEW_CONNECTIONS`` per turn."""
        for channel in self.new_connections.make_channels(self._new_channel):
            self.add_channel(channel)
        if self.new_connections.waiting:
            self._wake_up()
        self.new_connections.retry_blocked_acceptors()

    def _new_channel(self, info: ConnectionInfo) -> KafkaChannel:
        return KafkaChannel(info, self, self.settings.max_request_bytes)

    def add_channel(self, channel: KafkaChannel) -> None:
        """Start reading from a channel that has its transport."""
        channel.last_active_ns = self.now_ns()
        self.channels[channel.connection] = channel
        self.stats.connections_created += 1
        if self._is_draining:
            channel.close()
            return
        try:
            channel.transport.resumeProducing()
        except Exception:  # noqa: BLE001 one failing connection must not affect the others
            self._fail(channel, "reading failed")
        if not self._checks:
            self._start_checks()

    def _start_checks(self) -> None:
        if self.settings.idle_ms > 0:
            self._checks.append(start_check(self.close_idle_connections, idle_check_s(self.settings.idle_ms), self._reactor))
        if self.memory_pool is not None:
            self._checks.append(start_check(self.close_slow_holders, HOLDERS_CHECK_S, self._reactor))

    def process_disconnected(self, channel: KafkaChannel) -> None:
        """Forget a closed channel. A request that a handler has is completed when its response comes."""
        if self.channels.pop(channel.connection, None) is not None:
            self.stats.connections_closed += 1
            self.settings.quotas.dec(self.settings.listener_name, channel.connection.client_address)
        connection = channel.connection
        connection.is_closed = True  # before the next line: a handler sets the other first, and then looks at this
        if (on_closed := connection.on_closed) is not None:
            self._request_channel.send_callback(on_closed)
        self._stopped.pop(channel, None)
        self._unsent.note(channel, 0)
        request, channel.in_flight = channel.in_flight, None
        if request is None:
            return
        if request.response_dequeued_ns and not request.sent_ns:
            self._drop(request)  # its response was being sent: nothing else will complete it
        elif (give_up := request.context.give_up) is not None:
            self._request_channel.send_callback(give_up)

    def process_half_closed(self, channel: KafkaChannel) -> None:
        """Give a client that sends no more the response to its last request, unless that takes too long.

        A request that waits is answered now: most such clients are gone.
        """
        request = channel.in_flight
        if request is not None and (give_up := request.context.give_up) is not None:
            self._request_channel.send_callback(give_up)
        close_after_last_response(channel, self._reactor)

    def close_excess_connections(self) -> None:
        """Close the least recently used connection if there are too many; one per turn."""
        self._must_check_excess = False
        if not self.channels or not self.settings.quotas.claim_excess(self.settings.listener_name):
            return
        channel = least_recently_used(self.channels.values())
        _log.info("Closing {id}, the least recently used: the broker has more than max.connections", id=channel.connection_id)
        channel.close()
        self.check_connections()

    def close_idle_connections(self) -> None:
        """Close connections idle for ``connections.max.idle.ms``, except those whose request is being handled."""
        for channel in idle_channels(self.channels.values(), self.now_ns() - self.settings.idle_ms * 1_000_000):
            _log.info("Closing idle connection {id}", id=channel.connection_id)
            channel.close()

    def close_slow_holders(self) -> None:
        """While others wait for memory, close connections that hold memory for a request and hardly send it."""
        pool = self.memory_pool
        if pool is None or pool.waited_for_ns() < GRACE_S * 1e9:
            return
        for channel in slow_holders(self.channels.values()):
            self.refuse(channel, "its request comes too slowly while others wait for memory")

    def refuse(self, channel: KafkaChannel, why: str) -> None:
        """Close a connection that sent something invalid, and log why in one line. The number of lines is limited."""
        if self._refusals.allow():
            _log.warn(
                "Closing connection {id} of {listener}: {why}{more}",
                id=channel.connection_id,
                listener=channel.connection.listener_name,
                why=why,
                more=self._refusals.take_suppressed(),
            )
        self.tell_refusal(channel, why)
        channel.close()

    def tell_refusal(self, channel: KafkaChannel, why: str) -> None:
        """Report to observers why a connection is closed."""
        for notify in self._refusal_observers:
            notify(channel.connection, why)

    def log_unreadable_file(self, channel: KafkaChannel, why: str) -> None:
        """Log why a response cannot be read from its file, which closes its connection. The number of lines is limited.

        The log directory stays online, as in Apache Kafka: clients ask again, and the next append or lookup meets the disk.
        """
        if self._unreadable_files.allow():
            _log.error(
                "Closing connection {id} of {listener}: {why}{more}",
                id=channel.connection_id,
                listener=channel.connection.listener_name,
                why=why,
                more=self._unreadable_files.take_suppressed(),
            )

    def load(self, channel: KafkaChannel, regions: Sequence[FileRegion]) -> None:
        """Let a handler load regions into the page cache; the channel continues after that."""

        def load() -> None:
            try:
                for region in regions:
                    region.load()
            except OSError as error:  # sending the region fails as well, which closes the connection
                _log.debug("Records for {id} cannot be loaded: {error}", id=channel.connection_id, error=error)
            finally:
                self._reactor.callFromThread(channel.loaded)

        self._request_channel.send_callback(load)

    def close_after_failed_authentication(self, channel: KafkaChannel) -> None:
        """Count the failure and close the connection after ``connection.failed.authentication.delay.ms``, to slow down guessing."""
        self.stats.failed_authentications += 1
        channel.mute()
        delay_s = self.settings.failed_authentication_delay_ms / 1000
        if delay_s > 0 and not self._is_draining:
            self._reactor.callLater(delay_s, channel.close)
        else:
            channel.close()

    def _fail(self, channel: KafkaChannel, what: str) -> None:
        """Log the current exception and close the connection that caused it."""
        _log.failure("Closing connection {id}: {what}", id=channel.connection_id, what=what)
        with suppress(Exception):  # the first failure is logged; that a broken connection does not close cleanly adds nothing
            channel.close()

    # Requests.

    def process_completed_receive(self, channel: KafkaChannel, frame: Buffer) -> None:
        """Parse the header of a complete frame and queue the request. An invalid header closes the connection."""
        now_ns = channel.last_active_ns = self.now_ns()
        pool = self.memory_pool
        if pool is not None and len(frame) < pool.least_bytes:
            pool = None
        elif pool is not None and not channel.allocate_memory(frame):
            return
        try:
            api_key, api_version, correlation_id, client_id, body_offset = channel.read_header(frame)
        except Exception as error:  # noqa: BLE001 an error in a frame concerns its connection only
            if pool is not None:
                pool.release(len(frame))
            self.refuse(channel, f"{type(error).__name__}: {error}")
            return
        context = RequestContext(api_key, api_version, correlation_id, client_id, channel.connection)
        request = Request(context, frame, body_offset, self, now_ns)
        if pool is not None:
            request.memory_pool = pool
        self.stats.request_bytes += request.request_bytes
        channel.request_received(request)
        if self._held or not self._request_channel.send_request(request):
            self._hold(channel, request)
            return
        self.received_requests += 1
        if not self._is_hooked:  # otherwise this thread handles it, before it polls again
            self._request_channel.wake_handler()

    def stop_reading(self, channel: KafkaChannel) -> None:
        """Mute a channel until there is room again."""
        self._stopped[channel] = None
        channel.mute()

    def reserve_memory(self, channel: KafkaChannel, size_bytes: int) -> bool:
        """Allocate from the memory pool, or mute the channel and return False."""
        pool = self.memory_pool
        if pool is None:
            return True
        # A newcomer waits behind the channels that wait already: memory may have become available for them just now.
        if (self._is_resuming or not self._stopped) and pool.try_allocate(size_bytes, self.memory_available):
            return True
        if not pool.least_bytes:  # otherwise others may send small requests
            self.is_full = True
        self.stop_reading(channel)
        return False

    def note_held(self, channel: KafkaChannel, size_bytes: int) -> bool:
        """Note how much a channel holds of requests that are incomplete or wait; return whether it may read ahead.

        If channels hold too much together, the one that has been silent for the longest time is closed.
        """
        received = self._received
        if received.note(channel, size_bytes):
            self._close_longest_silent(received, "requests that are incomplete or wait")
        may_read_ahead = received.total_bytes < READ_AHEAD_TOTAL_BYTES
        self.read_bytes = READ_BYTES if may_read_ahead else SHORT_READ_BYTES
        return may_read_ahead

    def _note_unsent(self, channel: KafkaChannel, request: Request, now_ns: int) -> None:
        channel.last_active_ns = now_ns  # it has got a part of its response, or begins to wait for it
        unsent = self._unsent
        if unsent.note(channel, response_bytes(request)) and (stuck := unsent.longest_stuck(now_ns)) is not None:
            self.refuse(stuck, _why_too_much(unsent, "responses that clients do not read"))

    def _close_longest_silent(self, held: HeldBytes, what: str) -> None:
        channel = held.longest_silent()
        if channel is not None:
            self.refuse(channel, _why_too_much(held, what))

    def _hold(self, channel: KafkaChannel, request: Request) -> None:
        # The queue is full: stop reading this channel, keep sending. At most one request per connection is held.
        self.is_full = True
        self._held.append(request)
        self.stop_reading(channel)
        self._request_channel.notify_when_drained(self)

    def _resume_reading(self) -> None:
        while self._held:
            if not self._request_channel.send_request(self._held[0]):
                self._request_channel.notify_when_drained(self)
                return
            self._held.popleft()
            self.received_requests += 1
            if not self._is_hooked:
                self._request_channel.wake_handler()
        self.is_full = False
        stopped, self._stopped = self._stopped, {}
        self._is_resuming = True
        for channel in stopped:  # if there is not enough room for all, the rest are stopped again, in the same order
            try:
                channel.next_request()
            except Exception:  # noqa: BLE001 one failing connection must not affect the others
                self._fail(channel, "reading could not be resumed")
        self._is_resuming = False

    # Responses.

    def _send(self, channel: KafkaChannel, request: Request, now_ns: int) -> bool:
        if channel.transport.send(request.parts, request.response_bytes):
            request.sent_ns = self.now_ns()
            return True
        if channel.is_open:
            self._note_unsent(channel, request, now_ns)
        return False

    def _send_nothing(self, _channel: KafkaChannel, request: Request, now_ns: int) -> bool:
        request.sent_ns = now_ns
        return True

    def _send_authenticated(self, channel: KafkaChannel, request: Request, now_ns: int) -> bool:
        """Count a client that has authenticated itself, and send its response."""
        stats, authenticator = self.stats, channel.connection.authenticator
        assert authenticator is not None
        took_ms = authenticator.reauthentication_ms
        if took_ms is None:
            stats.successful_authentications += 1
            stats.successful_authentications_no_reauth += not authenticator.supports_reauthentication
        else:
            stats.successful_reauthentications += 1
            stats.reauthentication_ms += took_ms
            stats.max_reauthentication_ms = max(stats.max_reauthentication_ms, took_ms)
        return self._send(channel, request, now_ns)

    def _fail_authentication(self, channel: KafkaChannel, request: Request, _now_ns: int) -> bool:
        """Count a client that has not authenticated itself. It gets its answer, and is disconnected, after the delay."""
        authenticator = channel.connection.authenticator
        if authenticator is not None and authenticator.has_been_authenticated:
            self.stats.failed_reauthentications += 1
        else:
            self.stats.failed_authentications += 1
        channel.pause()
        delay_s = self.settings.failed_authentication_delay_ms / 1000
        if delay_s > 0 and not self._is_draining:
            self._reactor.callLater(delay_s, self._answer_and_close, channel, request)
        else:
            self._answer_and_close(channel, request)
        return False

    def _expire_session(self, channel: KafkaChannel, request: Request, now_ns: int) -> bool:
        """Close a connection whose client has not re-authenticated in time (KIP-368)."""
        _log.info("Closing {id}: its session has ended without re-authentication", id=channel.connection_id)
        self.stats.expired_connections_killed += 1
        request.sent_ns = now_ns
        channel.in_flight = None
        self._complete(request)
        channel.close()
        return False

    def _send_and_close(self, channel: KafkaChannel, request: Request, _now_ns: int) -> bool:
        """Send the response, if there is one, and close the connection. Data read behind the request is not handled."""
        self._answer_and_close(channel, request)
        return False

    def _answer_and_close(self, channel: KafkaChannel, request: Request) -> None:
        if channel.in_flight is not request:
            return  # the client has disconnected
        request.sent_ns = self.now_ns()
        try:
            if request.parts:
                channel.transport.send(request.parts, request.response_bytes)
                channel.transport.end_sending()
        except Exception:  # noqa: BLE001 one failing connection must not affect the others
            self._fail(channel, "its last response could not be sent")
        self._complete(request)
        channel.in_flight = None
        if request.parts and channel.is_open:
            # What the client has sent meanwhile is not read: closed at once, the connection would be reset, and the answer lost.
            self._reactor.callLater(FAILURE_READ_S, channel.close)
        else:
            channel.close()

    _ANSWERS: ClassVar[dict[int, Callable[["Processor", KafkaChannel, Request, int], bool]]] = {
        SEND: _send,
        NO_OP: _send_nothing,
        CLOSE_CONNECTION: _send_and_close,
        AUTHENTICATED: _send_authenticated,
        AUTHENTICATION_FAILED: _fail_authentication,
        SESSION_EXPIRED: _expire_session,
    }
    """The method for each kind of response.

    It returns whether the response has been sent; ``process_completed_send`` then follows.
    """

    def process_new_responses(self) -> None:
        """Send the responses that were queued, as one batch, and then complete their requests.

        While this thread completes requests (metrics, access log), the clients that were answered already make their next ones.
        """
        responses = self._responses
        channels = self.channels
        answers = self._ANSWERS
        sent: list[tuple[KafkaChannel, Request]] = []
        now_ns = self.now_ns()
        while responses:
            response = responses.popleft()
            channel = channels.get(response.context.connection)
            if channel is None:
                self._discard(response, now_ns)
                continue
            request = channel.in_flight
            try:
                if request is not response or request is None:
                    self._process_throttling(channel, response, now_ns)
                    continue
                request.response_dequeued_ns = now_ns
                if answers[request.response_kind](self, channel, request, now_ns):
                    now_ns = request.sent_ns
                    sent.append((channel, request))
            except Exception:  # noqa: BLE001 one failing connection must not affect the others
                self._fail(channel, "its response could not be sent")
        for channel, request in sent:
            try:
                self.process_completed_send(channel, request)
            except Exception:  # noqa: BLE001 as above
                self._fail(channel, "its next request could not be processed")

    def process_completed_send(self, channel: KafkaChannel, request: Request) -> None:
        """Complete a request whose response, if it has one, was sent, and continue with the channel's next request."""
        channel.last_active_ns = request.sent_ns
        if self._unsent.total_bytes:
            self._unsent.note(channel, 0)
        size = request.response_bytes
        if size:
            stats = self.stats
            stats.responses += 1
            stats.response_bytes += size
            if size > stats.max_response_bytes:
                stats.max_response_bytes = size
        channel.response_sent()
        self._complete(request)
        if self._is_draining:
            channel.close()
        else:
            channel.next_request()

    def end(self) -> None:
        """Discard queued and later responses. Called when the thread has ended."""
        self._has_ended = True  # first: a response that is appended meanwhile is discarded here or by the thread that appends it
        self._discard_responses()

    def _process_throttling(self, channel: KafkaChannel, response: Request | ThrottlingResponse, now_ns: int) -> None:
        if isinstance(response, Request):
            self._discard(response, now_ns)
        elif response.response_kind == START_THROTTLING:
            channel.throttle_started()
        else:
            channel.throttle_ended()
            if not self._is_draining:
                channel.next_request()

    def _discard_responses(self) -> None:
        with suppress(IndexError):  # the queue is empty
            while True:
                self._discard(self._responses.popleft(), self.now_ns())

    def _discard(self, response: Request | ThrottlingResponse, now_ns: int) -> None:
        """Complete the request of a response whose connection is closed."""
        if isinstance(response, Request):
            response.response_dequeued_ns = now_ns
            self._drop(response)

    def _drop(self, request: Request) -> None:
        self.stats.dropped_responses += 1
        request.sent_ns = request.response_dequeued_ns
        self._complete(request)

    def _complete(self, request: Request) -> None:
        for notify in self._observers:
            try:
                notify(request)
            except Exception:  # noqa: BLE001 an observer's failure must not affect the client
                _log.failure("An observer of completed requests failed")

    # Closing.

    def _begin_draining(self) -> None:
        self._is_draining = True
        for channel in list(self.channels.values()):
            if channel.in_flight is None:
                channel.close()
            else:
                channel.pause()

    def _close_unanswered(self) -> None:
        for channel in list(self.channels.values()):
            if channel.in_flight is not None and not channel.in_flight.response_ready_ns:
                channel.close()

    def _close_channels(self) -> None:
        self._is_draining = True
        while self.new_connections.waiting:
            self.configure_new_connections()
        self._close_all_channels()

    def leave_queue(self) -> None:
        """Leave the queued requests to the handlers. Called when the loop has ended or failed: it does not look again soon."""
        self._request_channel.wake_handler()

    def abandon_connections(self) -> None:
        """Close all connections of a loop that has failed. Requests in flight are completed as their responses come."""
        self._close_all_channels()
        self.is_full = False
        self.leave_queue()

    def _close_all_channels(self) -> None:
        for channel in list(self.channels.values()):
            try:
                channel.close()
            except Exception:  # noqa: BLE001 the others have to be closed too
                _log.failure("Connection {id} could not be closed cleanly", id=channel.connection_id)
                channel.connectionLost()
        while self._held:
            self._held.popleft().release_buffer()
        while self._checks:
            self._checks.pop().stop()


def _why_too_much(held: HeldBytes, what: str) -> str:
    return f"it is the longest silent of those that hold more than {held.max_bytes} bytes of {what}"
