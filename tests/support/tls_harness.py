"""A TLS listener's connections without threads: sockets whose ends the test pumps by hand."""

import socket
from typing import Any

from OpenSSL import SSL, crypto
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from tests.support.certificates import Authority, Identity
from tests.support.network_fakes import EventsReactor, Layer
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.endpoints import EndPoint
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.connection.channel import KafkaChannel
from twisted_kafka.network.connection.connection_stats import ConnectionStats
from twisted_kafka.network.requests.request_context import ConnectionInfo
from twisted_kafka.network.tls.ssl_channel_builder import SslChannelBuilder
from twisted_kafka.network.tls.tls_transport import TlsTransport
from twisted_kafka.security.principal import ssl_principal_builder

CA = Authority()
BROKER = CA.issue("CN=broker,O=Tests", ["localhost"])
ALICE = CA.issue("CN=alice,OU=Engineering,O=Tests")

MAX_REQUEST_BYTES = 10_000_000
STEPS_MAX = 10_000


class TlsReactor(EventsReactor, Clock):
    def __init__(self) -> None:
        Clock.__init__(self)
        EventsReactor.__init__(self)


def broker_settings(identity: Identity = BROKER, trusted: Authority = CA) -> dict[str, str]:
    return {
        "listeners": "SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": identity.key_pem(),
        "ssl.keystore.certificate.chain": identity.chain_pem,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": trusted.pem,
    }


class Listener:
    """A TLS listener with one processor."""

    def __init__(self, settings: dict[str, str] | None = None, *, queue_size: int = 500, **more: object) -> None:
        self.settings = {**(settings or broker_settings()), **{key.replace("_", "."): str(value) for key, value in more.items()}}
        self.layer = Layer(queue_size, MAX_REQUEST_BYTES)
        self.metrics = MetricsRegistry(self.layer.clock)
        self.reactor = TlsReactor()
        config = self.config()
        end_point = config.listeners[0]
        rules = ssl_principal_builder(config.string("ssl.principal.mapping.rules"))
        self.builder = SslChannelBuilder(config, EndPoint(*end_point), self.metrics, lambda name, _: rules(name))
        self.make = self.builder.for_processor(0, self.reactor)

    def config(self, **changes: str) -> KafkaConfig:
        return KafkaConfig.embedded({**self.settings, **{key.replace("_", "."): value for key, value in changes.items()}})

    def connect(self, identity: Identity | None = None, trusted: Authority = CA, **options: Any) -> "TlsClient":
        return TlsClient(self, identity, trusted, **options)

    @property
    def stats(self) -> ConnectionStats:
        return self.layer.processor.stats

    def metric(self, name: str, **tags: object) -> object:
        return self.metrics.value("socket-server-metrics", name, **tags, listener="SSL", networkProcessor=0)


class TlsClient:
    """Both ends of one connection; ``pump`` moves what there is to move."""

    def __init__(
        self,
        listener: Listener,
        identity: Identity | None,
        trusted: Authority,
        *,
        context: SSL.Context | None = None,
        session: SSL.Session | None = None,
    ) -> None:
        self.listener = listener
        self.socket, server = socket.socketpair()
        self.socket.setblocking(False)
        server.setblocking(False)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 20_000)
        info = ConnectionInfo("c", "SSL", "SSL", "-")
        self.channel = KafkaChannel(info, listener.layer.processor, MAX_REQUEST_BYTES)
        transport = listener.make(server, self.channel)
        assert isinstance(transport, TlsTransport)
        self.transport = transport
        self.channel.transport = transport
        listener.layer.processor.add_channel(self.channel)
        self.tls = SSL.Connection(context or client_context(identity, trusted))
        if session is not None:
            self.tls.set_session(session)
        self.tls.set_connect_state()
        self.received = b""
        self.outgoing = b""
        self.error: Exception | None = None
        self.is_closed = False
        self.is_reading = True

    def handshake(self) -> "TlsClient":
        self._step(self.tls.do_handshake)
        self.pump()
        return self

    def send(self, data: bytes) -> None:
        self.tls.sendall(data)
        self.pump()

    def raw(self, data: bytes) -> None:
        self.socket.send(data)
        self.pump()

    def pump(self) -> None:
        """Go on until nothing moves any more."""
        for _ in range(STEPS_MAX):
            if not (self._client_writes() | self._server_turn() | self._client_reads()):
                return
        raise AssertionError("the two ends never come to rest")

    def _step(self, action: Any) -> Any:
        try:
            return action()
        except SSL.WantReadError:
            return None
        except SSL.Error as error:
            self.error = self.error or error
            return None

    def _client_writes(self) -> bool:
        while not self.is_closed and (some := self._step(lambda: self.tls.bio_read(65536))):
            self.outgoing += some
        if self.is_closed or not self.outgoing:
            return False
        try:
            sent = self.socket.send(self.outgoing)
        except BlockingIOError:
            return False
        except OSError:
            self.is_closed = True
            return False
        self.outgoing = self.outgoing[sent:]
        return True

    def _server_turn(self) -> bool:
        transport, reactor = self.transport, self.listener.reactor
        moved = False
        if transport in reactor.readers and transport.connected:
            before = self._unread()
            why = transport.doRead()
            moved = before != self._unread() or why is not None
            if why is not None:
                transport.connectionLost(Failure(why))  # type: ignore[no-untyped-call]
        if transport in reactor.writers and transport.connected:
            why = transport.doWrite()
            if why is not None:
                transport.connectionLost(Failure(why))  # type: ignore[no-untyped-call]
        return moved

    def _unread(self) -> int:
        if not self.transport.connected:
            return -1
        import array
        import fcntl
        import termios

        count = array.array("i", [0])
        fcntl.ioctl(self.transport.socket.fileno(), termios.FIONREAD, count)
        return count[0]

    def _client_reads(self) -> bool:
        if not self.is_reading or self.is_closed:
            return False
        try:
            data = self.socket.recv(65536)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self.is_closed = True
            return False
        self.tls.bio_write(data)
        self._step(self.tls.do_handshake)
        while some := self._step(lambda: self.tls.recv(65536)):
            self.received += some
        return True


def client_context(identity: Identity | None, trusted: Authority = CA) -> SSL.Context:
    context = SSL.Context(SSL.TLS_CLIENT_METHOD)
    context.set_verify(SSL.VERIFY_PEER)
    store = context.get_cert_store()
    assert store is not None
    store.add_cert(crypto.X509.from_cryptography(trusted.certificate))
    if identity is not None:
        context.use_certificate(identity.certificate)
        context.use_privatekey(identity.key)
    return context
