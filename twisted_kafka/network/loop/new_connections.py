"""Connections that acceptors have handed to a processor and that have no channel yet. (Kafka: Processor.newConnections.)"""

import socket
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from twisted.logger import Logger

from twisted_kafka.network.accepting.interfaces import NEW_CONNECTIONS
from twisted_kafka.network.connection.channel import KafkaChannel
from twisted_kafka.network.loop.processor_settings import ProcessorSettings
from twisted_kafka.network.requests.request_context import ConnectionInfo

_log = Logger()


class NewConnections:
    """The queue of one processor: acceptors add connections, the processor's thread makes channels of them."""

    __slots__ = ("_blocked", "_index", "_make_transport", "_number", "_settings", "waiting")

    def __init__(self, settings: ProcessorSettings, number: int, reactor: Any) -> None:
        """``number`` is the processor's; its transports are made on ``reactor``."""
        self._settings = settings
        self._number = number
        self.waiting: deque[tuple[socket.socket, tuple[Any, ...]]] = deque()
        """Connected sockets and their peers' addresses."""
        self._blocked: deque[Callable[[], object]] = deque()
        self._index = 0
        self.attach(reactor)

    def attach(self, reactor: Any) -> None:
        """Make transports on ``reactor`` from now on."""
        self._make_transport = self._settings.channel_builder.for_processor(self._number, reactor)

    def put(self, connected: socket.socket, peer: tuple[Any, ...], retry: Callable[[], object] | None) -> bool:
        """Add a connection; return False, and call ``retry`` later, if the queue is full. From any thread."""
        if len(self.waiting) >= NEW_CONNECTIONS:
            if retry is None:
                return False
            self._blocked.append(retry)
            if len(self.waiting) >= NEW_CONNECTIONS:  # otherwise the queue was emptied just before ``retry`` was added
                return False
        self.waiting.append((connected, peer))
        return True

    def make_channels(self, make: Callable[[ConnectionInfo], KafkaChannel]) -> Iterator[KafkaChannel]:
        """Yield channels of at most ``NEW_CONNECTIONS`` connections, made by ``make``, with their transports.

        A connection that is closed already is skipped.
        """
        for _ in range(NEW_CONNECTIONS):
            if not self.waiting:
                break
            connected, peer = self.waiting.popleft()
            try:
                info = self.describe(connected.getsockname(), peer)
                channel = make(info)
                channel.transport = self._make_transport(connected, channel)
            except Exception as error:  # noqa: BLE001 a failed connection must not affect the others
                _log.info("A connection from {peer} was lost during its setup: {error}", peer=peer, error=error)
                connected.close()
                self._settings.quotas.dec(self._settings.listener_name, peer[0])
                continue
            yield channel

    def retry_blocked_acceptors(self) -> None:
        """Let the acceptors retry that found the queue full."""
        while self._blocked:
            self._blocked.popleft()()

    def describe(self, local: tuple[Any, ...], peer: tuple[Any, ...]) -> ConnectionInfo:
        """Return the description of a connection between two addresses, with a unique id."""
        # The index keeps an id from being reused while requests of an earlier connection between the same ports are in flight.
        index = self._index
        self._index = (index + 1) & 0x7FFFFFFF
        connection_id = f"{local[0]}:{local[1]}-{peer[0]}:{peer[1]}-{index}"
        settings = self._settings
        return ConnectionInfo(connection_id, settings.listener_name, settings.security_protocol, peer[0], settings.is_privileged)
