"""The client for other brokers against this broker's listeners: plain text, and TLS with good and bad certificates."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.budget import patient
from tests.support.certificates import Authority, Identity
from twisted_kafka import Broker
from twisted_kafka.broker.peers.inter_broker_client import InterBrokerClient, StoppedError
from twisted_kafka.client.blocking import BlockingNetworkClient
from twisted_kafka.client.client_settings import ClientSettings, Node
from twisted_kafka.client.connections.inter_broker import connector_for
from twisted_kafka.client.errors import AuthenticationError, ClientClosedError, ConnectError, DisconnectedError
from twisted_kafka.client.network_client import NetworkClient
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.metadata.cache import Node as MetadataNode
from twisted_kafka.protocol.messages.administration.topics import CreateTopicsRequest
from twisted_kafka.protocol.messages.metadata import MetadataRequest
from twisted_kafka.timing.clock import SystemClock

TIMEOUT_S = patient(30)
CA = Authority()
BROKER = CA.issue("CN=broker,O=Tests", ["localhost", "127.0.0.1"])


def tls(identity: Identity | None = BROKER, trusted: Authority = CA, **more: str) -> dict[str, str]:
    settings = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": trusted.pem}
    if identity is not None:
        settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.key": identity.key_pem()}
        settings["ssl.keystore.certificate.chain"] = identity.chain_pem
    return settings | {key.replace("_", "."): value for key, value in more.items()}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    other = CA.issue("CN=other,O=Tests", ["other.example"])
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://0.0.0.0:0,OTHER://127.0.0.1:0",
        "advertised.listeners": "PLAINTEXT://127.0.0.1:0,SSL://localhost:0,OTHER://localhost:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,OTHER:SSL",
        **tls(ssl_client_auth="required"),
        "listener.name.other.ssl.keystore.key": other.key_pem(),
        "listener.name.other.ssl.keystore.certificate.chain": other.chain_pem,
    }
    with Broker(settings) as started:
        yield started


def node_of(broker: Broker, listener: str, host: str) -> Node:
    ports = {end_point.listener_name: end_point.port for end_point in broker.listeners}
    return Node(broker.broker_id, host, ports[listener])


@pytest.fixture
def connect() -> Iterator[Callable[..., BlockingNetworkClient]]:
    started: list[BlockingNetworkClient] = []

    def start(listener: str = "PLAINTEXT", settings: dict[str, str] | None = None, **limits: Any) -> BlockingNetworkClient:
        config = KafkaConfig.embedded(settings or {})
        limited = ClientSettings(client_id="another", **limits)

        def make(reactor: Any) -> NetworkClient:
            return NetworkClient(reactor, connector_for(config, listener, reactor), limited)

        client = BlockingNetworkClient("network-client", make, SystemClock())
        started.append(client)
        client.start()
        return client

    yield start
    for client in started:
        client.stop()


@pytest.mark.parametrize(
    ("listener", "host"), [("PLAINTEXT", "127.0.0.1"), ("PLAINTEXT", "localhost"), ("SSL", "localhost"), ("SSL", "127.0.0.1")]
)
def test_requests_over_each_listener(
    broker: Broker, connect: Callable[..., BlockingNetworkClient], listener: str, host: str
) -> None:
    client = connect(listener, tls())
    node = node_of(broker, listener, host)
    answers = [client.send(node, MetadataRequest(topics=None)) for _ in range(50)]
    assert {answer.result(TIMEOUT_S).cluster_id for answer in answers} == {broker.cluster_id}
    large = CreateTopicsRequest(topics=[], validate_only=True)
    assert client.send(node, large).result(TIMEOUT_S).topics == []


@pytest.mark.parametrize(
    ("settings", "listener", "host", "expected"),
    [
        (tls(trusted=Authority("CN=Other CA")), "SSL", "localhost", "its root certificate is self-signed and not trusted"),
        (tls(), "SSL", "127.0.0.2", "its certificate is not valid for 127.0.0.2"),
        (tls(), "OTHER", "localhost", "its certificate is not valid for localhost"),
        (tls(None), "SSL", "localhost", "certificate required"),
        (tls(Authority("CN=Other CA").issue("CN=b")), "SSL", "localhost", "does not trust this broker's certificate"),
        (tls(CA.issue("CN=late", days=(-2, -1))), "SSL", "localhost", "certificate expired"),
    ],
)
def test_connections_that_are_not_safe_are_not_used(
    broker: Broker, connect: Callable[..., BlockingNetworkClient], settings: dict[str, str], listener: str, host: str, expected: str
) -> None:
    client = connect("SSL", settings)
    future = client.send(node_of(broker, listener, host), MetadataRequest(topics=None))
    with pytest.raises(AuthenticationError, match=expected):
        future.result(TIMEOUT_S)


def test_a_client_takes_certificates_whose_files_have_changed(broker: Broker, tmp_path: Path) -> None:
    settings = {
        "broker.id": "7",
        "listeners": "INSIDE://localhost:0",
        "listener.security.protocol.map": "INSIDE:SSL",
        "inter.broker.listener.name": "INSIDE",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(CA.write_trust(tmp_path / "ca.pem")),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(Authority("CN=Other CA").issue("CN=b").write_pem(tmp_path / "key.pem")),
    }
    client = InterBrokerClient(KafkaConfig.embedded(settings), "a-client", "test", SystemClock())
    port = node_of(broker, "SSL", "localhost").port
    node = MetadataNode(broker.broker_id, "localhost", port, None)
    try:
        with pytest.raises(AuthenticationError):
            client.send(node, MetadataRequest(topics=[])).result(TIMEOUT_S)
        (tmp_path / "key.pem").write_text("torn")
        client.refresh()
        BROKER.write_pem(tmp_path / "key.pem")
        client.refresh()
        assert client.send(node, MetadataRequest(topics=[])).result(TIMEOUT_S).cluster_id == broker.cluster_id
    finally:
        client.stop()
    with pytest.raises(StoppedError):
        client.send(node, MetadataRequest(topics=[])).result(TIMEOUT_S)


def test_a_wrong_host_name_is_accepted_when_nobody_looks(broker: Broker, connect: Callable[..., BlockingNetworkClient]) -> None:
    client = connect("SSL", tls(ssl_endpoint_identification_algorithm=""))
    answer = client.send(node_of(broker, "SSL", "127.0.0.2"), MetadataRequest(topics=None)).result(TIMEOUT_S)
    assert answer.cluster_id == broker.cluster_id


def test_tls_to_a_plain_text_listener_and_the_reverse(broker: Broker, connect: Callable[..., BlockingNetworkClient]) -> None:
    plain, safe = node_of(broker, "PLAINTEXT", "localhost"), node_of(broker, "SSL", "localhost")
    with pytest.raises((AuthenticationError, ConnectError)):
        connect("SSL", tls()).send(plain, MetadataRequest(topics=None)).result(TIMEOUT_S)
    with pytest.raises(ConnectError):
        connect("PLAINTEXT").send(safe, MetadataRequest(topics=None)).result(TIMEOUT_S)


def test_nobody_there_and_one_that_goes_away(connect: Callable[..., BlockingNetworkClient]) -> None:
    client = connect(discover_versions=False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        node = Node(7, "127.0.0.1", server.getsockname()[1])
        future = client.send(node, MetadataRequest(topics=None))
        accepted, _ = server.accept()
        assert accepted.recv(4)
        accepted.close()
        with pytest.raises(DisconnectedError):
            future.result(TIMEOUT_S)
    with pytest.raises(ConnectError):
        client.send(node, MetadataRequest(topics=None)).result(TIMEOUT_S)
    client.stop()
    with pytest.raises(ClientClosedError):
        client.send(node, MetadataRequest(topics=None)).result(TIMEOUT_S)
