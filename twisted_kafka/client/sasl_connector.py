"""Connections that authenticate with SASL before they may be used. (Kafka: SaslClientAuthenticator.)

A session that the node limits (KIP-368) is not renewed: its connection is replaced, once its requests are answered.
"""

from collections.abc import Callable
from typing import Any, Final, Protocol, runtime_checkable

from twisted.internet.defer import Deferred
from zope.interface import implementer

from twisted_kafka.client import background
from twisted_kafka.client.broker_connection import BrokerConnection, IConnectionOwner, PeerRefusedError
from twisted_kafka.client.client_settings import Node
from twisted_kafka.client.connector import IConnector
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.compiler.wire import MalformedMessageError
from twisted_kafka.protocol.errors import ErrorCode, UnsupportedVersionError
from twisted_kafka.protocol.headers import encode_request_header, parse_response_header
from twisted_kafka.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from twisted_kafka.protocol.regions import Buffer

HANDSHAKE_VERSION: Final = 1
AUTHENTICATE_VERSION: Final = 1
"""With the session's lifetime. Brokers have it since Kafka 2.2."""

RENEWAL: Final = 0.85
"""After this part of its session, a connection is replaced. (Kafka re-authenticates between 85 and 95 %.)"""

MAX_STEPS: Final = 10
"""Tokens in one exchange, at most."""

CLIENT_ID: Final = "sasl"
THREAD_NAME: Final = "sasl-client-login"

InBackground = Callable[[Callable[[], object]], "Deferred[object]"]


class SaslRefusedError(Exception):
    """The server has not proved who it is, or has sent something that is not a step of the exchange."""


class ISaslClient(Protocol):
    """The client's side of one exchange."""

    @property
    def mechanism(self) -> str:
        """The name of the mechanism."""

    @property
    def is_complete(self) -> bool:
        """Whether the server has nothing more to prove."""

    def evaluate(self, challenge: bytes) -> bytes | None:
        """Return the next token, None if there is nothing more to send; the first challenge is empty. Raises SaslRefusedError."""


@runtime_checkable
class IPreparedClient(Protocol):
    """A client whose first token takes long."""

    def prepare(self) -> None:
        """Get what the first token is made of. Called on a thread of its own, before anything else."""


class ISaslClients(Protocol):
    """Makes clients with a broker's settings."""

    def validate(self) -> None:
        """Raise ConfigError if the settings are of no use."""

    def client_for(self, host: str) -> ISaslClient:
        """Return the client of an exchange with a broker on this host; raise ConfigError."""


@implementer(IConnectionOwner)
class SaslExchange:
    """Owns a connection until it is authenticated, and passes everything on from then on."""

    def __init__(self, owner: IConnectionOwner, client: ISaslClient, seconds: Callable[[], float]) -> None:
        self._owner = owner
        self._client = client
        self._seconds = seconds
        self._steps = 0
        self._is_chosen = self._awaits_answer = self._is_over = False

    def connection_made(self, connection: BrokerConnection) -> None:
        """Pass it on (``IConnectionOwner``)."""
        self._owner.connection_made(connection)

    def connection_secured(self, connection: BrokerConnection) -> None:
        """Choose the mechanism (``IConnectionOwner``)."""
        self._send(connection, SaslHandshakeRequest(mechanism=self._client.mechanism), HANDSHAKE_VERSION)

    def frame_received(self, connection: BrokerConnection, frame: Buffer) -> None:
        """Take the server's answer, or pass on a later frame (``IConnectionOwner``)."""
        if self._is_over:
            self._owner.frame_received(connection, frame)
            return
        try:
            self._take(connection, frame)
        except (SaslRefusedError, MalformedMessageError, UnsupportedVersionError) as error:
            connection.close(PeerRefusedError(str(error)))

    def connection_lost(self, connection: BrokerConnection, why: BaseException | None) -> None:
        """Pass it on (``IConnectionOwner``)."""
        self._owner.connection_lost(connection, why)

    def _take(self, connection: BrokerConnection, frame: Buffer) -> None:
        key = SaslAuthenticateResponse.KEY if self._is_chosen else SaslHandshakeResponse.KEY
        version = AUTHENTICATE_VERSION if self._is_chosen else HANDSHAKE_VERSION
        correlation_id, offset = parse_response_header(key, version, frame)
        if correlation_id != self._steps:
            raise SaslRefusedError("it answered another request")
        if not self._is_chosen:
            handshake = SaslHandshakeResponse.decode(frame, version, offset)
            if handshake.error_code == ErrorCode.ILLEGAL_SASL_STATE:
                raise SaslRefusedError("its listener has no SASL")
            if handshake.error_code:
                enabled = ", ".join(handshake.mechanisms)
                raise SaslRefusedError(f"it does not have the mechanism {self._client.mechanism} enabled, but {enabled}")
            self._is_chosen = True
            self._next(connection, b"")
            return
        answer = SaslAuthenticateResponse.decode(frame, version, offset)
        if answer.error_code:
            raise SaslRefusedError(answer.error_message or f"error {answer.error_code}")
        token = bytes(answer.auth_bytes)
        self._awaits_answer = False
        if not self._client.is_complete:
            self._next(connection, token)
        if self._client.is_complete and not self._awaits_answer:
            self._is_over = True
            if answer.session_lifetime_ms > 0:
                connection.renew_at_s = self._seconds() + answer.session_lifetime_ms / 1000 * RENEWAL
            self._owner.connection_secured(connection)

    def _next(self, connection: BrokerConnection, challenge: bytes) -> None:
        """Send the client's next token, if it has one."""
        if self._steps > MAX_STEPS:
            raise SaslRefusedError(f"the exchange takes more than {MAX_STEPS} steps")
        token = self._client.evaluate(challenge)
        self._awaits_answer = token is not None
        if token is None and not self._client.is_complete:
            raise SaslRefusedError("the exchange cannot go on")
        if token is not None:
            self._send(connection, SaslAuthenticateRequest(auth_bytes=token), AUTHENTICATE_VERSION)

    def _send(self, connection: BrokerConnection, request: Message, version: int) -> None:
        self._steps += 1
        connection.send_frame((encode_request_header(request.KEY, version, self._steps, CLIENT_ID), request.encode(version)))


@implementer(IConnector)
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
