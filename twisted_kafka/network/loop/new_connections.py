"""Connections that an acceptor has given to a processor, until they have their channels. (Kafka: Processor.newConnections.)"""

import socket
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from twisted.logger import Logger

from twisted_kafka.network.connection.channel import KafkaChannel
from twisted_kafka.network.interfaces import IBlockedAcceptor
from twisted_kafka.network.loop.processor_settings import ProcessorSettings
from twisted_kafka.network.requests.request_context import ConnectionInfo

if TYPE_CHECKING:
    from twisted_kafka.network.loop.processor import Processor

NEW_CONNECTIONS: Final = 20
"""So many accepted connections may wait for a processor (Kafka: Processor.ConnectionQueueSize)."""

_log = Logger(__name__)


class NewConnections:
    """Those of one processor: acceptors put them in, the processor's thread makes channels of them."""

    __slots__ = ("_blocked", "_index", "_make_transport", "_number", "_settings", "waiting")

    def __init__(self, settings: ProcessorSettings, number: int, reactor: Any) -> None:
        """``number`` is the processor's, ``reactor`` the one on which its transports are to be."""
        self._settings = settings
        self._number = number
        self.waiting: deque[tuple[socket.socket, tuple[Any, ...]]] = deque()
        """Those that nobody has taken yet."""
        self._blocked: deque[IBlockedAcceptor] = deque()
        self._index = 0
        self.attach(reactor)

    def attach(self, reactor: Any) -> None:
        """Make transports on ``reactor`` from now on."""
        self._make_transport = self._settings.channel_builder.for_processor(self._number, reactor)

    def put(self, connected: socket.socket, peer: tuple[Any, ...], blocked: IBlockedAcceptor | None) -> bool:
        """Take over a connection (``IConnectionProcessor.accept``)."""
        if len(self.waiting) >= NEW_CONNECTIONS:
            if blocked is None:
                return False
            self._blocked.append(blocked)
            if len(self.waiting) >= NEW_CONNECTIONS:  # else they were taken just before it was noted
                return False
        self.waiting.append((connected, peer))
        return True

    def take(self, processor: "Processor") -> Iterator[KafkaChannel]:
        """Make channels of the connections, of so many in one turn as may wait; one that has gone already is passed over."""
        for _ in range(NEW_CONNECTIONS):
            if not self.waiting:
                break
            connected, peer = self.waiting.popleft()
            try:
                info = self.describe(connected.getsockname(), peer)
                channel = KafkaChannel(info, processor, self._settings.max_request_bytes)
                channel.transport = self._make_transport(connected, channel)
            except Exception as error:  # noqa: BLE001 whatever is wrong with it, the others want to be served
                _log.info("A connection from {peer} was lost while it was set up: {error}", peer=peer, error=error)
                connected.close()
                self._settings.quotas.dec(self._settings.listener_name, peer[0])
                continue
            yield channel

    def tell_of_room(self) -> None:
        """Let the acceptors go on that found no room."""
        while self._blocked:
            self._blocked.popleft().room_for_connections()

    def describe(self, local: tuple[Any, ...], peer: tuple[Any, ...]) -> ConnectionInfo:
        """Return what is known of a connection between two addresses, with an id of its own."""
        # With the index an id is not used again while something of an earlier connection between the same ports is under way.
        index = self._index
        self._index = (index + 1) & 0x7FFFFFFF
        connection_id = f"{local[0]}:{local[1]}-{peer[0]}:{peer[1]}-{index}"
        settings = self._settings
        return ConnectionInfo(connection_id, settings.listener_name, settings.security_protocol, peer[0], settings.is_privileged)
