"""Opening connections to nodes: the interface, and plain TCP."""

import ipaddress
import socket
import typing
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.endpoints import HostnameEndpoint, TCP4ClientEndpoint, TCP6ClientEndpoint
from twisted.internet.protocol import Factory, Protocol
from typing_extensions import override

from twisted_kafka.client.client_settings import Node
from twisted_kafka.client.connections.broker_connection import BrokerConnection, IConnectionOwner
from twisted_kafka.config.broker_config import KafkaConfig

SYSTEM_DEFAULT: Final = -1
"""As the size of a buffer: the system chooses it, and adapts it to the connection."""


class IConnector(typing.Protocol):
    """Opens connections of one security protocol."""

    def connect(self, node: Node, owner: IConnectionOwner, max_response_bytes: int, timeout_s: float) -> "Deferred[object]":
        """Connect. The owner is notified when the connection is ready for use, and when it is lost.

        The Deferred fails if the connection fails, after ``timeout_s`` at the latest, and can be cancelled.
        """

    def reconfigure(self, config: KafkaConfig) -> None:
        """Reread the files and use these settings for new connections. Raises ConfigError."""


class ConnectionFactory(Factory):
    """Returns the protocol of one connection attempt."""

    noisy = False

    def __init__(self, connection: BrokerConnection) -> None:
        self._connection = connection

    @override
    def buildProtocol(self, addr: object) -> Protocol:
        """Return the protocol."""
        return self._connection


def endpoint_of(reactor: Any, node: Node, timeout_s: float) -> Any:
    """Return a node's endpoint. The addresses of a host name, IPv4 and IPv6, are tried in turn."""
    try:
        address = ipaddress.ip_address(node.host)
    except ValueError:
        return HostnameEndpoint(reactor, node.host, node.port, timeout=timeout_s)
    endpoint = TCP4ClientEndpoint if address.version == 4 else TCP6ClientEndpoint
    return endpoint(reactor, node.host, node.port, timeout=timeout_s)


class BufferedConnector:
    """Sets the size of each connection's receive buffer in the system (``SO_RCVBUF``)."""

    def __init__(self, connector: IConnector, receive_buffer_bytes: int) -> None:
        self._connector = connector
        self._receive_buffer_bytes = receive_buffer_bytes

    def connect(self, node: Node, owner: IConnectionOwner, max_response_bytes: int, timeout_s: float) -> "Deferred[object]":
        """Connect."""
        return self._connector.connect(node, owner, max_response_bytes, timeout_s).addCallback(self._limit)

    def _limit(self, protocol: Any) -> object:
        connection: socket.socket = protocol.transport.getHandle()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer_bytes)
        return protocol

    def reconfigure(self, config: KafkaConfig) -> None:
        """Use these settings for new connections; raises ConfigError."""
        self._connector.reconfigure(config)


class PlaintextConnector:
    """Plain text, no authentication."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor

    def connect(self, node: Node, owner: IConnectionOwner, max_response_bytes: int, timeout_s: float) -> "Deferred[object]":
        """Connect."""
        factory = ConnectionFactory(BrokerConnection(owner, max_response_bytes))
        connecting: Deferred[object] = endpoint_of(self._reactor, node, timeout_s).connect(factory)
        return connecting

    def reconfigure(self, config: KafkaConfig) -> None:
        pass  # there are no settings
