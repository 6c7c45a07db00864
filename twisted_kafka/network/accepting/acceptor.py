"""A listening socket on a reactor. Accepted connections are counted and assigned to processors in turn. (Kafka: Acceptor.)

The reactor is the main one, or that of the listener's network thread if there is only one. In the latter case a connection is not
handed to another thread, which under the interpreter lock would cost as much as everything else that is done to set it up.

A connection may have to wait: for an accept rate, for a free slot, or because the queue of every processor is full. The acceptor
then keeps it and accepts no further one until it has been assigned; the others wait in the listen backlog. None is dropped.
"""

import errno
import socket
import sys
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from twisted.internet.interfaces import IDelayedCall, IReadDescriptor
from twisted.logger import Logger
from zope.interface import implementer

from twisted_kafka.config.endpoints import EndPoint
from twisted_kafka.metrics.instruments import Meter
from twisted_kafka.network.accepting.connection_quotas import ConnectionQuotas, ConnectionThrottledError, TooManyConnectionsError
from twisted_kafka.network.accepting.interfaces import NEW_CONNECTIONS
from twisted_kafka.network.log_rate_limit import LogRateLimit
from twisted_kafka.system import machine
from twisted_kafka.system.forks import close_in_children
from twisted_kafka.system.listening import take_address, why_not_bound
from twisted_kafka.timing.clock import IClock

if TYPE_CHECKING:
    from twisted_kafka.network.loop.processor import Processor

ACCEPTS_PER_TURN = NEW_CONNECTIONS
"""The most connections accepted before the reactor does its other work: an empty processor queue takes this many."""

CLOSE_S = 1.0
"""How long ``close`` waits for the network thread that runs the acceptor; the thread may have failed."""

RETRY_S = 1.0
"""A waiting connection is retried after this time, or earlier when ``retry_connection`` is called."""

MAX_DELAYED_CLOSES = 4096
"""Most connections of throttled addresses that wait to be closed; beyond it, the first one is closed early."""

PAUSE_S = 0.1
"""How long accepting pauses after accept() has failed, usually for lack of file descriptors or memory."""

OPTIONS_ARE_INHERITED = sys.platform.startswith("linux")
"""Whether an accepted socket inherits the options of the listening one, which saves system calls."""

_CONNECTION_ERRORS = (errno.ECONNABORTED, errno.EPROTO, errno.EPERM, errno.EINTR)

_MAPPED = "::ffff:"

_log = Logger()


class BindError(Exception):
    """A listener's address cannot be bound. The message is one line for the operator."""


class SocketOptions:
    """Keys ``socket.listen.backlog.size``, ``socket.send.buffer.bytes``, ``socket.receive.buffer.bytes``; -1: system default."""

    __slots__ = ("backlog", "receive_buffer_bytes", "send_buffer_bytes")

    def __init__(self, backlog: int = 50, send_buffer_bytes: int = -1, receive_buffer_bytes: int = -1) -> None:
        self.backlog = backlog
        self.send_buffer_bytes = send_buffer_bytes
        self.receive_buffer_bytes = receive_buffer_bytes


class _Waiting:
    """An accepted connection that has to wait."""

    __slots__ = ("connected", "is_counted", "not_before_ns", "peer", "since_ns")

    def __init__(self, connected: socket.socket, peer: tuple[Any, ...], since_ns: int, throttle_ms: int) -> None:
        self.connected = connected
        self.peer = peer
        self.since_ns = since_ns
        self.not_before_ns = since_ns + throttle_ms * 1_000_000
        self.is_counted = False


@implementer(IReadDescriptor)
class Acceptor:
    """Accepts the connections of one listener.

    ``start`` and ``close`` are called on the thread that made the acceptor, ``retry_connection`` on any thread; everything else
    runs on the reactor's thread.
    """

    disconnected = False

    def __init__(
        self, end_point: EndPoint, reactor: Any, options: SocketOptions, clock: IClock, blocked: Meter, quotas: ConnectionQuotas
    ) -> None:
        """Bind; raises BindError. ``reactor``, on whose thread this is called, is used until ``attach``."""
        self.end_point = end_point
        self.processors: Sequence[Processor] = ()
        self._name = end_point.listener_name
        self._reactor = reactor
        self._options = options
        self._now_ns = clock.monotonic_ns
        self._blocked = blocked
        self._quotas = quotas
        self._next = 0
        self._waiting: _Waiting | None = None
        self._retry: IDelayedCall | None = None
        self._throttled: list[tuple[int, int, socket.socket]] = []  # a heap by time, then by number
        self._throttled_count = 0
        self._is_serving = False
        self._is_elsewhere = False
        self._is_closing = False
        self._closed = machine.Event()
        self._is_out_of_resources = False
        self._rejections = LogRateLimit(clock.monotonic_ns)
        self._socket = self._bind()
        self.port = int(self._socket.getsockname()[1])
        """The bound port."""

    def _bind(self) -> socket.socket:
        host, port = self.end_point.host, self.end_point.port
        try:
            # As bytes: a str would load the IDNA codec, which takes 4 ms of the start.
            name = (host.encode() if host.isascii() else host) or None
            found = machine.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE if not host else 0)
            # A listener without a host binds to all addresses, preferring IPv4.
            family, kind, protocol, _, address = min(found, key=lambda info: info[0] != socket.AF_INET)
            listening = machine.make_socket(family, kind, protocol)
            close_in_children(listening, socket.socket.close)
        except OSError as error:
            raise BindError(f"Socket server failed to bind to {host}:{port}: {why_not_bound(error)}") from error
        try:
            listening.setblocking(False)
            take_address(listening)
            if self._options.receive_buffer_bytes > 0:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._options.receive_buffer_bytes)
            if OPTIONS_ARE_INHERITED:
                self._configure(listening)
            listening.bind(address)
            listening.listen(self._options.backlog)
        except OSError as error:
            listening.close()
            raise BindError(f"Socket server failed to bind to {host}:{port}: {why_not_bound(error)}") from error
        return listening

    def attach(self, reactor: Any) -> None:
        """Accept on a network thread's reactor. Called before ``start``, and by that thread whenever it has a new reactor."""
        self._reactor = reactor
        self._is_elsewhere = True
        if self._is_closing:
            self._close()
        elif self._is_serving:
            self._retry = None
            self._close_all_throttled()  # the delayed calls are lost with the former reactor
            self._resume()
            self._retry_waiting()

    def start(self) -> None:
        """Begin to accept. Until now clients waited in the listen backlog."""
        if self._is_serving or self.disconnected:
            return
        self._is_serving = True
        if self._is_elsewhere:
            self._reactor.callFromThread(self._resume)
        else:
            self._resume()

    def close(self) -> None:
        """Stop accepting and free the port. If the acceptor runs on a network thread, wait at most ``CLOSE_S`` for that thread."""
        if self._is_elsewhere and self._is_serving and not self.disconnected:
            self._is_closing = True  # before callFromThread: a thread that is restarting either sees the flag or runs the call
            self._reactor.callFromThread(self._close)
            if self._closed.wait(CLOSE_S):
                return
            _log.warn("{who} was closed without its network thread, which does not respond", who=self.logPrefix())
        self._close()

    def _close(self) -> None:
        if self.disconnected:
            return
        if self._is_serving:
            self._is_serving = False
            self._reactor.removeReader(self)
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self._discard(waiting)
        if self._retry is not None and self._retry.active():
            self._retry.cancel()
        self._close_all_throttled()
        self.disconnected = True
        self._socket.close()
        self._closed.set()

    # Called by the reactor.

    def fileno(self) -> int:
        """Return the listening socket's file descriptor."""
        return self._socket.fileno()

    def logPrefix(self) -> str:
        """Return the name in log lines."""
        return f"Acceptor {self.end_point.text}"

    def connectionLost(self, reason: object) -> None:
        """Close."""
        self._close()

    def doRead(self) -> None:
        """Accept pending connections."""
        for _ in range(ACCEPTS_PER_TURN):
            try:
                connected, peer = self._socket.accept()
                close_in_children(connected, socket.socket.close)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _CONNECTION_ERRORS:
                    continue
                self._pause(error)
                return
            self._is_out_of_resources = False
            if not self._accepted(connected, peer):
                return

    def _configure(self, connected: socket.socket) -> None:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self._options.send_buffer_bytes > 0:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._options.send_buffer_bytes)

    # The steps of a connection: accept rates, a slot, a processor.

    def _accepted(self, connected: socket.socket, peer: tuple[Any, ...]) -> bool:
        """Assign a new connection to a processor; return False if it has to wait."""
        if peer[0].startswith(_MAPPED):
            peer = (peer[0][len(_MAPPED) :], *peer[1:])  # the same address on IPv4 and IPv6 listeners
        now_ns = self._now_ns()
        try:
            if not OPTIONS_ARE_INHERITED:
                self._configure(connected)
            waiting = _Waiting(connected, peer, now_ns, self._quotas.record_accept(self._name))
        except OSError as error:
            self._reject(peer, error)
            connected.close()
            return True
        if self._try_to_advance(waiting):
            return True
        self._waiting = waiting
        self._reactor.removeReader(self)
        return False

    def _try_to_advance(self, waiting: _Waiting) -> bool:
        """Like ``_advance``, but an exception closes this connection only."""
        try:
            return self._advance(waiting)
        except Exception:  # noqa: BLE001 the reactor would close the listening socket for good
            _log.failure("Closing a new connection from {peer}: it could not be assigned to a processor", peer=waiting.peer[0])
            self._discard(waiting)
            return True

    def _advance(self, waiting: _Waiting) -> bool:
        """Take a connection through the steps that it may pass now; return whether it is assigned or closed."""
        if not waiting.is_counted:
            left_ns = waiting.not_before_ns - self._now_ns()
            if left_ns > 0:
                self._retry_in(left_ns / 1e9)
                return False
            if not self._quotas.slot_available(self._name, self.retry_connection):
                self._retry_in(RETRY_S)
                return False
            if not self._count(waiting):
                return True
            waiting.is_counted = True
        if self._assign(waiting):
            return True
        self._retry_in(RETRY_S)
        return False

    def _count(self, waiting: _Waiting) -> bool:
        address = waiting.peer[0]
        try:
            self._quotas.inc(self._name, address)
        except TooManyConnectionsError as error:
            self._reject(waiting.peer, error)
            waiting.is_counted = True
            self._discard(waiting)
        except ConnectionThrottledError as error:
            self._close_later(waiting.connected, error.throttle_ms)
        else:
            return True
        return False

    def _assign(self, waiting: _Waiting) -> bool:
        count = len(self.processors)
        for turn in range(count):
            index = (self._next + turn) % count
            if self.processors[index].accept(waiting.connected, waiting.peer, self.retry_connection):
                self._next = (index + 1) % count
                return True
        return False

    def _reject(self, peer: tuple[Any, ...], error: Exception) -> None:
        if self._rejections.allow():
            more = self._rejections.take_suppressed()
            _log.info("Rejected connection from {peer}: {error}{more}", peer=peer[0], error=error, more=more)

    def _discard(self, waiting: _Waiting) -> None:
        waiting.connected.close()
        if waiting.is_counted:
            self._quotas.dec(self._name, waiting.peer[0])

    # Waiting and retrying.

    def retry_connection(self) -> None:
        """Retry the waiting connection: a processor has room, or a limit allows more. From any thread; extra calls do no harm."""
        self._reactor.callFromThread(self._retry_waiting)

    def _retry_in(self, seconds: float) -> None:
        if self._retry is not None and self._retry.active():
            self._retry.cancel()
        self._retry = self._reactor.callLater(seconds, self._retry_waiting)

    def _retry_waiting(self) -> None:
        waiting = self._waiting
        if waiting is None or not self._try_to_advance(waiting):
            return
        self._waiting = None
        self._blocked.mark(self._now_ns() - waiting.since_ns)
        if self._is_serving:
            self._reactor.addReader(self)

    def _pause(self, error: OSError) -> None:
        if not self._is_out_of_resources:
            self._is_out_of_resources = True
            _log.error("{who} cannot accept connections for now: {error}", who=self.logPrefix(), error=error)
        self._close_all_throttled()  # throttled clients must not hold the last descriptors
        self._reactor.removeReader(self)
        self._reactor.callLater(PAUSE_S, self._resume)

    def _resume(self) -> None:
        if self._is_serving and self._waiting is None:
            self._reactor.addReader(self)

    # Throttled addresses: their connections are accepted, and closed when the throttle time is over.

    def _close_later(self, connected: socket.socket, throttle_ms: int) -> None:
        if len(self._throttled) >= MAX_DELAYED_CLOSES:
            heappop(self._throttled)[2].close()
        self._throttled_count += 1
        heappush(self._throttled, (self._now_ns() + throttle_ms * 1_000_000, self._throttled_count, connected))
        self._reactor.callLater(throttle_ms / 1e3, self._close_throttled)

    def _close_throttled(self) -> None:
        now_ns = self._now_ns()
        while self._throttled and self._throttled[0][0] <= now_ns:
            heappop(self._throttled)[2].close()

    def _close_all_throttled(self) -> None:
        while self._throttled:
            self._throttled.pop()[2].close()
