"""Connections over TLS, with a client certificate if there is one and with host name verification."""

from typing import Any, Final

from OpenSSL import SSL
from service_identity import CertificateError, VerificationError
from service_identity.pyopenssl import verify_hostname, verify_ip_address
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IHandshakeListener, IOpenSSLClientConnectionCreator
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure
from typing_extensions import override
from zope.interface import implementer

from twisted_kafka.client.client_settings import Node
from twisted_kafka.client.connections.addresses import is_address
from twisted_kafka.client.connections.broker_connection import BrokerConnection, IConnectionOwner
from twisted_kafka.client.connections.connector import ConnectionFactory, endpoint_of
from twisted_kafka.client.errors import PeerRefusedError
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.tls.ssl_context import client_context, reason_of
from twisted_kafka.tls.ssl_settings import SslSettings

HTTPS: Final = "https"


@implementer(IOpenSSLClientConnectionCreator)
class ConnectionCreator:
    """Makes OpenSSL connections to one host, with its name as SNI."""

    def __init__(self, context: SSL.Context, host: str) -> None:
        self._context = context
        self._host = host

    def clientConnectionForTLS(self, tlsProtocol: object) -> SSL.Connection:
        """Make the connection."""
        connection = SSL.Connection(self._context, None)
        if not is_address(self._host):
            connection.set_tlsext_host_name(self._host.encode("idna"))
        return connection


@implementer(IHandshakeListener)
class TlsBrokerConnection(BrokerConnection):
    """The protocol of a TLS connection, usable after the handshake and host name verification."""

    transport: Any

    def __init__(self, owner: IConnectionOwner, max_response_bytes: int, host: str | None) -> None:
        """If ``host`` is given, the server's certificate must be valid for it."""
        super().__init__(owner, max_response_bytes)
        self._host = host

    @override
    def _begin(self) -> None:
        pass  # ``handshakeCompleted`` follows

    def handshakeCompleted(self) -> None:
        """Verify the host name."""
        host = self._host
        if host is not None:
            try:
                (verify_ip_address if is_address(host) else verify_hostname)(self.transport.getHandle(), host)
            except (VerificationError, CertificateError, ValueError) as error:
                self.close(PeerRefusedError(f"its certificate is not valid for {host} ({type(error).__name__})"))
                return
        self._secured()

    @override
    def connectionLost(self, reason: Failure | None = None) -> None:
        """Notify the owner. An error of OpenSSL becomes a readable PeerRefusedError."""
        if reason is not None and isinstance(reason.value, SSL.Error):
            why = PeerRefusedError(reason_of(reason.value, self.transport.getHandle()))
            reason = Failure(why)  # type: ignore[no-untyped-call]
        super().connectionLost(reason)


class TlsConnector:
    """Uses the ``ssl.*`` settings of a listener. Host names are not verified if the identification algorithm is empty."""

    def __init__(self, config: KafkaConfig, listener_name: str, reactor: Any) -> None:
        """Load the stores; raises ConfigError."""
        self._reactor = reactor
        self._listener_name = listener_name
        self._settings = SslSettings.of_listener(config, listener_name)
        self._state = self._settings.state()
        self._context = client_context(self._settings)

    def connect(self, node: Node, owner: IConnectionOwner, max_response_bytes: int, timeout_s: float) -> "Deferred[object]":
        """Connect."""
        host = node.host if self._settings.identification == HTTPS else None
        connection = TlsBrokerConnection(owner, max_response_bytes, host)
        creator = ConnectionCreator(self._context, node.host)
        factory = TLSMemoryBIOFactory(creator, True, ConnectionFactory(connection), self._reactor)
        factory.noisy = False
        connecting: Deferred[object] = endpoint_of(self._reactor, node, timeout_s).connect(factory)
        return connecting

    def reconfigure(self, config: KafkaConfig) -> None:
        """Reread the files and use these settings for new connections. If it raises ConfigError, nothing has changed."""
        settings = SslSettings.of_listener(config, self._listener_name)
        state = settings.state()
        if settings != self._settings or state != self._state:
            self._context = client_context(settings)
            self._settings, self._state = settings, state
