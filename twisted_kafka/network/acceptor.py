"""A listening socket on the main reactor; what it accepts goes to its processors in turn. (Kafka: Acceptor.)"""

import errno
import socket
import sys
from collections.abc import Sequence
from typing import Any

from twisted.internet.interfaces import IReadDescriptor
from twisted.logger import Logger
from zope.interface import implementer

from twisted_kafka.config.endpoints import EndPoint
from twisted_kafka.metrics.instruments import Meter
from twisted_kafka.network.processor import Processor
from twisted_kafka.timing.clock import IClock

ACCEPTS_PER_TURN = 100
"""After so many connections it is the main reactor's other work's turn."""

RETRY_S = 0.01
"""When every processor has as many new connections as it may have, they are asked again after this time."""

PAUSE_S = 0.1
"""Accepting pauses for so long when the process has no file descriptor or memory left for a connection."""

OPTIONS_ARE_INHERITED = sys.platform.startswith("linux")
"""Whether an accepted socket has the options of the listening one: fewer system calls between accepts."""

_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_NOT_THIS_ONE = (errno.ECONNABORTED, errno.EPROTO, errno.EPERM, errno.EINTR)

_log = Logger()


class BindError(Exception):
    """A listener's address cannot be bound; the message is one line for the operator."""


class SocketOptions:
    """Keys ``socket.listen.backlog.size``, ``socket.send.buffer.bytes``, ``socket.receive.buffer.bytes``; -1: the system's."""

    __slots__ = ("backlog", "receive_buffer_bytes", "send_buffer_bytes")

    def __init__(self, backlog: int = 50, send_buffer_bytes: int = -1, receive_buffer_bytes: int = -1) -> None:
        self.backlog = backlog
        self.send_buffer_bytes = send_buffer_bytes
        self.receive_buffer_bytes = receive_buffer_bytes


@implementer(IReadDescriptor)
class Acceptor:
    """Accepts for one listener. Everything but the constructor runs on the main reactor's thread."""

    disconnected = False

    def __init__(self, end_point: EndPoint, reactor: Any, options: SocketOptions, clock: IClock, blocked: Meter) -> None:
        self.end_point = end_point
        self.processors: Sequence[Processor] = ()
        self._reactor = reactor
        self._options = options
        self._now_ns = clock.monotonic_ns
        self._blocked = blocked
        self._next = 0
        self._waiting: tuple[socket.socket, tuple[Any, ...]] | None = None
        self._waiting_since_ns = 0
        self._is_serving = False
        self._out_of_room = False
        self._socket = self._bind()

    @property
    def port(self) -> int:
        """The port that is bound."""
        return int(self._socket.getsockname()[1])

    def _bind(self) -> socket.socket:
        host, port = self.end_point.host, self.end_point.port
        try:
            found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE if not host else 0)
            # A listener without a host is on every address, of IPv4 at least.
            family, kind, protocol, _, address = min(found, key=lambda info: info[0] != socket.AF_INET)
            listening = socket.socket(family, kind, protocol)
        except OSError as error:
            raise BindError(f"Socket server failed to bind to {host}:{port}: {error.strerror or error}") from error
        try:
            listening.setblocking(False)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if self._options.receive_buffer_bytes > 0:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._options.receive_buffer_bytes)
            if OPTIONS_ARE_INHERITED:
                self._configure(listening)
            listening.bind(address)
            listening.listen(self._options.backlog)
        except OSError as error:
            listening.close()
            raise BindError(f"Socket server failed to bind to {host}:{port}: {error.strerror or error}") from error
        return listening

    def start(self) -> None:
        """Begin to accept; until now clients waited in the system's backlog."""
        if not self._is_serving:
            self._is_serving = True
            self._reactor.addReader(self)

    def close(self) -> None:
        """Stop accepting and free the port."""
        if self._is_serving:
            self._is_serving = False
            self._reactor.removeReader(self)
        if self._waiting is not None:
            self._waiting[0].close()
            self._waiting = None
        if not self.disconnected:
            self.disconnected = True
            self._socket.close()

    # What the reactor calls.

    def fileno(self) -> int:
        """Return the listening socket's file descriptor."""
        return self._socket.fileno()

    def logPrefix(self) -> str:
        """Say who logs."""
        return f"Acceptor {self.end_point.text}"

    def connectionLost(self, reason: object) -> None:
        """Close, when the reactor says so."""
        self.close()

    def doRead(self) -> None:
        """Accept what is there."""
        for _ in range(ACCEPTS_PER_TURN):
            try:
                connected, peer = self._socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _NO_ROOM:
                    self._pause(error)
                    return
                if error.errno not in _NOT_THIS_ONE:
                    raise
                continue
            self._out_of_room = False
            try:
                if not OPTIONS_ARE_INHERITED:
                    self._configure(connected)
            except OSError as error:
                _log.info("A connection from {peer} was lost at once: {error}", peer=peer, error=error)
                connected.close()
                continue
            if not self._assign(connected, peer):
                self._wait(connected, peer)
                return

    def _configure(self, connected: socket.socket) -> None:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self._options.send_buffer_bytes > 0:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._options.send_buffer_bytes)

    def _assign(self, connected: socket.socket, peer: tuple[Any, ...]) -> bool:
        count = len(self.processors)
        for turn in range(count):
            index = (self._next + turn) % count
            if self.processors[index].accept(connected, peer):
                self._next = (index + 1) % count
                return True
        return False

    def _wait(self, connected: socket.socket, peer: tuple[Any, ...]) -> None:
        self._waiting = (connected, peer)
        self._waiting_since_ns = self._now_ns()
        self._reactor.removeReader(self)
        self._reactor.callLater(RETRY_S, self._retry)

    def _retry(self) -> None:
        if self._waiting is None:
            return
        if self._assign(*self._waiting):
            self._waiting = None
            self._blocked.mark(self._now_ns() - self._waiting_since_ns)
            self._reactor.addReader(self)
        else:
            self._reactor.callLater(RETRY_S, self._retry)

    def _pause(self, error: OSError) -> None:
        if not self._out_of_room:
            self._out_of_room = True
            _log.error("{who} cannot accept connections for now: {error}", who=self.logPrefix(), error=error)
        self._reactor.removeReader(self)
        self._reactor.callLater(PAUSE_S, self._resume)

    def _resume(self) -> None:
        if self._is_serving:
            self._reactor.addReader(self)
