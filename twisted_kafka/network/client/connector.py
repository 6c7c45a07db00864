"""How a node is connected to: over plain TCP, or TLS with its host name checked."""

import ipaddress
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred
from twisted.internet.endpoints import HostnameEndpoint, TCP4ClientEndpoint, TCP6ClientEndpoint
from twisted.internet.protocol import Factory, Protocol
from zope.interface import Interface, implementer

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.endpoints import PLAINTEXT
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.network.client.broker_connection import BrokerConnection, IConnectionOwner
from twisted_kafka.network.client.client_settings import Node

if TYPE_CHECKING:
    from twisted_kafka.network.client.tls_connector import TlsConnector


class IConnector(Interface):
    """Opens connections of one security protocol."""

    def connect(node: Node, owner: IConnectionOwner, max_response_bytes: int, timeout_s: float) -> "Deferred[object]":  # noqa: N805
        """Connect; the owner is told when it may be used, and when it is lost.

        The Deferred fails when there is no connection, after ``timeout_s`` at the latest, and can be cancelled.
        """

    def reconfigure(config: KafkaConfig) -> None:  # noqa: N805
        """Make further connections with these settings, files read anew. Raises ConfigError."""


class ConnectionFactory(Factory):
    """Makes the one protocol of a connection attempt."""

    noisy = False

    def __init__(self, connection: BrokerConnection) -> None:
        self._connection = connection

    def buildProtocol(self, addr: object) -> Protocol:
        """Return it."""
        return self._connection


def endpoint_of(reactor: Any, node: Node, timeout_s: float) -> Any:
    """Return the endpoint of a node; a host name's addresses are tried one after the other, those of both families."""
    try:
        address = ipaddress.ip_address(node.host)
    except ValueError:
        return HostnameEndpoint(reactor, node.host, node.port, timeout=timeout_s)
    endpoint = TCP4ClientEndpoint if address.version == 4 else TCP6ClientEndpoint
    return endpoint(reactor, node.host, node.port, timeout=timeout_s)


@implementer(IConnector)
class PlaintextConnector:
    """Without any security."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor

    def connect(self, node: Node, owner: IConnectionOwner, max_response_bytes: int, timeout_s: float) -> "Deferred[object]":
        """Connect."""
        factory = ConnectionFactory(BrokerConnection(owner, max_response_bytes))
        connecting: Deferred[object] = endpoint_of(self._reactor, node, timeout_s).connect(factory)
        return connecting

    def reconfigure(self, config: KafkaConfig) -> None:
        """Change nothing: nothing is configured."""


def connector_for(config: KafkaConfig, listener_name: str, reactor: Any) -> "PlaintextConnector | TlsConnector":
    """Return the connector to other brokers' listeners of this name; raises ConfigError."""
    protocol = config.security_protocol_map[listener_name]
    if protocol == PLAINTEXT:
        return PlaintextConnector(reactor)
    if protocol == "SSL":
        from twisted_kafka.network.client.tls_connector import TlsConnector  # docs/adr/0006: only those who need it load it

        return TlsConnector(config, listener_name, reactor)
    raise ConfigError(f"This broker cannot connect to others with {protocol} yet (listener {listener_name})")
