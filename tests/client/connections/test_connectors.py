"""Connections to other brokers over plain text and TLS: who is spoken to, who is refused, and with which settings."""

import contextlib
import socket
import ssl
import struct
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.tcp import Connection

from tests.support.certificates import Authority, Identity
from twisted_kafka.client.blocking import BlockingNetworkClient
from twisted_kafka.client.client_settings import ClientSettings, Node
from twisted_kafka.client.connections.connector import SYSTEM_DEFAULT, IConnector, PlaintextConnector
from twisted_kafka.client.connections.inter_broker import connector_for
from twisted_kafka.client.connections.tls_connector import TlsConnector
from twisted_kafka.client.errors import AuthenticationError, ConnectError
from twisted_kafka.client.network_client import NetworkClient
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.protocol.headers import encode_response_header, parse_request_header
from twisted_kafka.protocol.messages.coordinators.groups import HeartbeatRequest, HeartbeatResponse
from twisted_kafka.timing.clock import SystemClock

TIMEOUT_S = 30
CA, OTHER_CA = Authority(), Authority("CN=Other CA")
SERVER = CA.issue("CN=server", ["localhost", "127.0.0.1"])
CLIENT = CA.issue("CN=client")


class NodeServer:
    """A node that answers heartbeats and keeps what it learns of its clients."""

    def __init__(self, identity: Identity | None = None, trusted: Authority | None = None) -> None:
        self.names: list[str | None] = []
        self.subjects: list[Any] = []
        self._context = None if identity is None else self._context_of(identity, trusted)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._accepted: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._start(self._serve)

    def _start(self, function: Callable[..., None], *args: Any) -> None:
        self._threads.append(threading.Thread(target=function, args=args, daemon=True))
        self._threads[-1].start()

    def _context_of(self, identity: Identity, trusted: Authority | None) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as folder:
            context.load_cert_chain(identity.write_pem(Path(folder) / "server.pem"))
        if trusted is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=trusted.pem)
        context.sni_callback = lambda _, name, __: self.names.append(name)
        return context

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # the test is over
            while True:
                accepted, _ = self._socket.accept()
                self._accepted.append(accepted)
                self._start(self._answer, accepted)

    def _answer(self, accepted: socket.socket) -> None:
        with contextlib.suppress(OSError), accepted:
            if self._context is not None:
                secured = self._context.wrap_socket(accepted, server_side=True)
                self._accepted.append(secured)
                self.subjects.append((secured.getpeercert() or {}).get("subject"))
                accepted = secured
            with accepted, accepted.makefile("rwb") as stream:
                while len(size := stream.read(4)) == 4 and not size[0]:
                    header = parse_request_header(stream.read(struct.unpack(">i", size)[0]))
                    answer = encode_response_header(header.api_key, header.api_version, header.correlation_id)
                    answer += HeartbeatResponse(error_code=27).encode(header.api_version)
                    stream.write(struct.pack(">i", len(answer)) + answer)
                    stream.flush()

    def close(self) -> None:
        for each in (self._socket, *self._accepted):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join(30)


def tls(identity: Identity | None = None, trusted: Authority = CA, **more: str) -> dict[str, str]:
    settings = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": trusted.pem}
    if identity is not None:
        settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.key": identity.key_pem()}
        settings["ssl.keystore.certificate.chain"] = identity.chain_pem
    return settings | {key.replace("_", "."): value for key, value in more.items()}


class Client:
    def __init__(self, settings: dict[str, str] | None, limits: dict[str, Any], receive_buffer_bytes: int) -> None:
        self.connector: IConnector = None
        config = KafkaConfig.embedded(settings or {})

        def make(reactor: Any) -> NetworkClient:
            self.reactor = reactor
            listener = "PLAINTEXT" if settings is None else "SSL"
            self.connector = connector_for(config, listener, reactor, receive_buffer_bytes=receive_buffer_bytes)
            return NetworkClient(reactor, self.connector, ClientSettings(client_id="me", discover_versions=False, **limits))

        self.client = BlockingNetworkClient("connector-test", make, SystemClock())
        self.client.start()

    def receive_buffers(self) -> list[int]:
        """Return the sizes of the connections' receive buffers."""
        connections = [each.getHandle() for each in self.reactor.getReaders() if isinstance(each, Connection)]
        return [each.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) for each in connections]

    def ask(self, server: NodeServer, host: str = "localhost", node_id: int = 1) -> int:
        request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        return int(self.client.send(Node(node_id, host, server.port), request).result(TIMEOUT_S).error_code)


@pytest.fixture
def client() -> Iterator[Callable[..., Client]]:
    made: list[Client] = []

    def make(settings: dict[str, str] | None = None, receive_buffer_bytes: int = SYSTEM_DEFAULT, **limits: Any) -> Client:
        made.append(Client(settings, limits, receive_buffer_bytes))
        return made[-1]

    yield make
    for each in made:
        each.client.stop()


@pytest.fixture
def server() -> Iterator[Callable[..., NodeServer]]:
    made: list[NodeServer] = []

    def make(identity: Identity | None = None, trusted: Authority | None = None) -> NodeServer:
        made.append(NodeServer(identity, trusted))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_plain_text_by_name_and_by_address(client: Callable[..., Client], server: Callable[..., NodeServer], host: str) -> None:
    assert client().ask(server(), host) == 27


@pytest.mark.parametrize(("host", "name"), [("127.0.0.1", None), ("localhost", "localhost")])
def test_tls_says_the_name_of_the_host_but_no_address(
    client: Callable[..., Client], server: Callable[..., NodeServer], host: str, name: str | None
) -> None:
    node = server(SERVER)
    assert client(tls()).ask(node, host) == 27
    assert node.names == [name]
    assert node.subjects == [None]


@pytest.mark.parametrize("is_secure", [False, True], ids=["plain text", "TLS"])
def test_the_receive_buffer_has_the_size_that_is_asked_for(client: Any, server: Any, is_secure: bool) -> None:
    identity = CA.issue("CN=broker", ["localhost"]) if is_secure else None
    mine = client(tls() if is_secure else None, receive_buffer_bytes=16_384)
    assert mine.ask(server(identity)) == 27
    assert mine.receive_buffers() in ([16_384], [32_768])  # Linux reserves as much again for itself


def test_a_certificate_is_shown_to_whom_asks_for_one(client: Callable[..., Client], server: Callable[..., NodeServer]) -> None:
    node = server(SERVER, CA)
    assert client(tls(CLIENT)).ask(node) == 27
    assert node.subjects == [((("commonName", "client"),),)]
    with pytest.raises(AuthenticationError, match="certificate required"):
        client(tls()).ask(node)


@pytest.mark.parametrize(
    ("identity", "settings", "host", "expected"),
    [
        (CA.issue("CN=x", ["other.example"]), tls(), "localhost", "its certificate is not valid for localhost"),
        (CA.issue("CN=x", ["localhost"]), tls(), "127.0.0.1", "its certificate is not valid for 127.0.0.1"),
        (CA.issue("CN=x"), tls(), "localhost", "its certificate is not valid for localhost"),
        (SERVER, tls(trusted=OTHER_CA), "localhost", "is rejected"),
        (CA.issue("CN=x", ["localhost"], days=(-2, -1)), tls(), "localhost", "it has expired"),
    ],
)
def test_a_node_with_another_s_certificate_is_refused(
    client: Callable[..., Client],
    server: Callable[..., NodeServer],
    identity: Identity,
    settings: dict[str, str],
    host: str,
    expected: str,
) -> None:
    with pytest.raises(AuthenticationError, match=expected):
        client(settings).ask(server(identity), host)


def test_names_are_not_compared_where_the_settings_say_so(client: Callable[..., Client], server: Callable[..., NodeServer]) -> None:
    node = server(CA.issue("CN=x", ["other.example"]))
    assert client(tls(ssl_endpoint_identification_algorithm="")).ask(node) == 27


def test_tls_and_plain_text_do_not_understand_each_other(client: Callable[..., Client], server: Callable[..., NodeServer]) -> None:
    with pytest.raises((AuthenticationError, ConnectError)):
        client(tls(), request_timeout_ms=5000).ask(server())


def test_new_settings_are_for_new_connections(client: Callable[..., Client], server: Callable[..., NodeServer]) -> None:
    node = server(SERVER)
    asking = client(tls(trusted=OTHER_CA), reconnect_backoff_ms=1, reconnect_backoff_max_ms=1)
    with pytest.raises(AuthenticationError):
        asking.ask(node)
    asking.connector.reconfigure(KafkaConfig.embedded(tls()))
    assert asking.ask(node) == 27
    with pytest.raises(ConfigError):
        asking.connector.reconfigure(KafkaConfig.embedded(tls() | {"ssl.truststore.certificates": "nothing"}))
    asking.client.disconnect(1)
    assert asking.ask(node) == 27, "what is no good changes nothing"
    asking.connector.reconfigure(KafkaConfig.embedded(tls(trusted=OTHER_CA)))
    assert asking.ask(node) == 27, "this connection is open"
    asking.client.disconnect(1)
    with pytest.raises(AuthenticationError):
        asking.ask(node)


def test_a_replaced_file_is_read_again(client: Callable[..., Client], server: Callable[..., NodeServer], tmp_path: Path) -> None:
    trusted = tmp_path / "trusted.pem"
    trusted.write_text(OTHER_CA.pem)
    settings = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(trusted)}
    asking, node = client(settings, reconnect_backoff_ms=1, reconnect_backoff_max_ms=1), server(SERVER)
    with pytest.raises(AuthenticationError):
        asking.ask(node)
    trusted.write_text(CA.pem * 2)
    asking.connector.reconfigure(KafkaConfig.embedded(settings))
    assert asking.ask(node) == 27


def test_the_connector_of_a_listener() -> None:
    protocols = "A:PLAINTEXT,B:SSL,C:SASL_SSL"
    listeners = {"listeners": "A://:1,B://:2,C://:3", "inter.broker.listener.name": "A"}
    config = KafkaConfig.embedded({**listeners, "listener.security.protocol.map": protocols, **tls()})
    assert isinstance(connector_for(config, "A", None), PlaintextConnector)
    assert isinstance(connector_for(config, "B", None), TlsConnector)
    with pytest.raises(ConfigError, match="SASL_SSL"):
        connector_for(config, "C", None)
    connector_for(config, "A", None).reconfigure(config)


def test_settings_of_a_broker_s_client() -> None:
    config = KafkaConfig.embedded(
        {
            "broker.id": "7",
            "socket.connection.setup.timeout.ms": "11",
            "socket.connection.setup.timeout.max.ms": "12",
            "connections.max.idle.ms": "13",
            "connection.failed.authentication.delay.ms": "1",
        }
    )
    settings = ClientSettings.of_broker(config, "fetcher", max_queued_requests=5)
    assert settings == ClientSettings(
        client_id="broker-7-fetcher",
        connection_setup_timeout_ms=11,
        connection_setup_timeout_max_ms=12,
        connections_max_idle_ms=13,
        max_queued_requests=5,
    )
    assert ClientSettings.of_broker(config, "x", connections_max_idle_ms=-1).connections_max_idle_ms == -1


@pytest.mark.parametrize(
    ("host", "text"), [("h", "broker 7 at h:9"), ("::1", "broker 7 at [::1]:9"), ("1.2.3.4", "broker 7 at 1.2.3.4:9")]
)
def test_the_text_of_a_node(host: str, text: str) -> None:
    assert Node(7, host, 9).text == text
