"""Connections that authenticate with SASL before they may be used. (Kafka: SaslClientAuthenticator.)

A session that the node limits (KIP-368) is not renewed: its connection is replaced, once its requests are answered.
"""

from collections.abc import Callable
from typing import Any, Final

from twisted.internet.defer import Deferred

from twisted_kafka.client.client_settings import Node
from twisted_kafka.client.connections import background
from twisted_kafka.client.connections.broker_connection import BrokerConnection, IConnectionOwner
from twisted_kafka.client.connections.connector import IConnector
from twisted_kafka.client.connections.sasl_exchange import IPreparedClient, ISaslClient, ISaslClients, SaslRefusedError, SaslSteps
from twisted_kafka.client.errors import PeerRefusedError
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.protocol.compiler.wire import MalformedMessageError
from twisted_kafka.protocol.errors import UnsupportedVersionError
from twisted_kafka.protocol.regions import Buffer

RENEWAL: Final = 0.85
"""After this part of its session, a connection is replaced. (Kafka re-authenticates between 85 and 95 %.)"""

THREAD_NAME: Final = "sasl-client-login"

InBackground = Callable[[Callable[[], object]], "Deferred[object]"]


class SaslExchange:
    """Owns a connection until it is authenticated, and passes everything on from then on."""

    def __init__(self, owner: IConnectionOwner, client: ISaslClient, seconds: Callable[[], float]) -> None:
        self._owner = owner
        self._steps = SaslSteps(client)
        self._seconds = seconds

    def connection_made(self, connection: BrokerConnection) -> None:
        """Pass it on (``IConnectionOwner``)."""
        self._owner.connection_made(connection)

    def connection_secured(self, connection: BrokerConnection) -> None:
        """Choose the mechanism (``IConnectionOwner``)."""
        connection.send_frame((self._steps.begin(),))

    def frame_received(self, connection: BrokerConnection, frame: Buffer) -> None:
        """Take the server's answer, or pass on a later frame (``IConnectionOwner``)."""
        steps = self._steps
        if steps.is_over:
            self._owner.frame_received(connection, frame)
            return
        try:
            following = steps.take(frame)
        except (SaslRefusedError, MalformedMessageError, UnsupportedVersionError) as error:
            connection.close(PeerRefusedError(str(error)))
            return
        if following is not None:
            connection.send_frame((following,))
        elif steps.is_over:
            if steps.session_lifetime_ms > 0:
                connection.renew_at_s = self._seconds() + steps.session_lifetime_ms / 1000 * RENEWAL
            self._owner.connection_secured(connection)

    def connection_lost(self, connection: BrokerConnection, why: BaseException | None) -> None:
        """Pass it on (``IConnectionOwner``)."""
        self._owner.connection_lost(connection, why)


class SaslConnector:
    """Authenticates the connections of another connector."""

    def __init__(self, inner: IConnector, clients: ISaslClients, reactor: Any, in_background: InBackground | None = None) -> None:
        """Raises ConfigError. ``in_background`` calls a function on another thread; by default it is ``background``'s."""
        self._inner = inner
        self._clients = clients
        self._reactor = reactor
        self._in_background = in_background or (lambda work: background.in_background(reactor, work, THREAD_NAME))
        clients.validate()

    def connect(self, node: Node, owner: IConnectionOwner, max_response_bytes: int, timeout_s: float) -> "Deferred[object]":
        """Connect, as soon as the client is prepared."""
        client = self._clients.client_for(node.host)

        def connect(_: object = None) -> "Deferred[object]":
            exchange = SaslExchange(owner, client, self._reactor.seconds)
            connecting: Deferred[object] = self._inner.connect(node, exchange, max_response_bytes, timeout_s)
            return connecting

        if not isinstance(client, IPreparedClient):
            return connect()
        return self._in_background(client.prepare).addCallback(connect).addTimeout(timeout_s, self._reactor)

    def reconfigure(self, config: KafkaConfig) -> None:
        """Use these settings for new connections. Raises ConfigError."""
        self._inner.reconfigure(config)
        self._clients.validate()
