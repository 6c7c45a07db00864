"""What a broker tells of its network layer has the names that Apache Kafka 3.9.2 gives it (tests/data/metrics)."""

import re
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.eventually import WAIT_S, eventually
from twisted_kafka import Broker
from twisted_kafka.metrics.prometheus import render

NAMES = Path(__file__).parents[1] / "data" / "metrics" / "kafka-3.9.2-network.tsv"

# Kafka makes this only once an address was throttled or has a quota of its own.
COME_LATER = {"kafka.server:type=socket-server-metrics,ip=*"}

_VALUES = re.compile(
    r"\b(request|version|error|networkProcessor|processor|listener|clientSoftwareName|clientSoftwareVersion|ip)=[^,]+"
)
_ATTRIBUTE = re.compile(r"(socket-server-metrics),name=([\w-]+)")


def kafkas() -> dict[str, set[str]]:
    lines = [line.split("\t") for line in NAMES.read_text().splitlines()]
    return {bean: set(attributes.split(",")) - {""} for bean, attributes in lines}


def ours(broker: Broker) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    names = [name for name, _ in broker.metrics.items()]
    for name in names:
        text = _VALUES.sub(r"\1=*", str(name))
        attribute = _ATTRIBUTE.search(text)
        attributes = found.setdefault(_ATTRIBUTE.sub(r"\1", text), set())
        if attribute:
            attributes.add(attribute.group(2))
    return found


sent_bytes = [0]


def call(client: socket.socket, api_key: int, version: int, body: bytes = b"", header_end: bytes = b"") -> bytes:
    data = struct.pack(">hhih", api_key, version, 1, 2) + b"me" + header_end + body
    client.sendall(struct.pack(">i", len(data)) + data)
    sent_bytes[0] += 4 + len(data)
    received = b""
    while len(received) < 4 or len(received) < 4 + int.from_bytes(received[:4], "big"):
        received += client.recv(65536)
    return received


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    properties = {
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROL://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROL:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "control.plane.listener.name": "CONTROL",
        "queued.max.request.bytes": "200000000",
    }
    with Broker(properties) as broker:
        yield broker


@pytest.fixture(scope="module")
def client(broker: Broker) -> Iterator[socket.socket]:
    end_point = next(each for each in broker.listeners if each.listener_name == "PLAINTEXT")
    with socket.create_connection(("127.0.0.1", end_point.port), timeout=WAIT_S) as client:
        call(client, 18, 3, b"\x0ctest-client\x061.2.3\0", b"\0")
        fetch = struct.pack(">iiii", -1, 0, 0, 0)
        call(client, 1, 2, fetch)
        call(client, 3, 0, struct.pack(">i", 0))
        call(client, 1, 2, struct.pack(">iiii", 3, 0, 0, 0))
        yield client


@pytest.mark.usefixtures("client")
def test_names_and_attributes_are_kafkas(broker: Broker) -> None:
    expected, found = kafkas(), ours(broker)
    missing = {bean for bean in expected if bean not in found} - COME_LATER
    assert not missing
    for bean, attributes in expected.items():
        assert attributes - found.get(bean, attributes) == set(), bean


def value(broker: Broker, type_: str, name: str, **tags: object) -> object:
    return broker.metrics.value(type_, name, **tags)


@pytest.mark.usefixtures("client")
def test_followers_and_consumers_fetches_count_apart_and_together(broker: Broker) -> None:
    eventually_counted(broker, 2)
    for request, count in (("Fetch", 2), ("FetchConsumer", 1), ("FetchFollower", 1)):
        assert value(broker, "RequestMetrics", "RequestsPerSec", request=request, version=2) == count, request
        assert value(broker, "RequestMetrics", "TotalTimeMs", request=request) == count
        software = {"clientSoftwareName": "test-client", "clientSoftwareVersion": "1.2.3"}
        assert value(broker, "RequestMetrics", "DeprecatedRequestsPerSec", request=request, version=2, **software) == count


def eventually_counted(broker: Broker, fetches: int) -> None:
    # a client has its answer before it is counted
    eventually(lambda: value(broker, "RequestMetrics", "TotalTimeMs", request="Fetch") == fetches)


@pytest.mark.usefixtures("client")
def test_page_tells_what_happens_on_the_connections(broker: Broker) -> None:
    eventually_counted(broker, 2)
    page = render(broker.metrics).decode()
    number = next(re.finditer(r'_connection_creation_total\{listener="PLAINTEXT",networkprocessor="(\d+)"\} 1.0\n', page)).group(1)
    tags = f'listener="PLAINTEXT",networkprocessor="{number}"'
    lines = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
    prefix = "kafka_server_socket_server_metrics_"
    assert lines[f'{prefix}connections{{clientsoftwarename="test-client",clientsoftwareversion="1.2.3",{tags}}}'] == "1.0"
    assert [lines[f"{prefix}{name}{{{tags}}}"] for name in ("num_connections", "request_total", "response_total")] == [
        "1.0",
        "4.0",
        "4.0",
    ]
    assert float(lines[f"{prefix}incoming_byte_total{{{tags}}}"]) == sent_bytes[0]
    assert float(lines[f"{prefix}outgoing_byte_total{{{tags}}}"]) > 100
    assert float(lines[f"{prefix}request_size_max{{{tags}}}"]) >= float(lines[f"{prefix}request_size_avg{{{tags}}}"]) > 10
    assert 0 < float(lines[f"{prefix}io_wait_ratio{{{tags}}}"]) <= 1
    assert lines["kafka_network_socketserver_memorypoolavailable"] == "2e+08"
    assert lines["kafka_network_socketserver_memorypoolused"] == "0.0"
    assert 'kafka_network_requestmetrics_totaltimems_count{request="Fetch"}' in page
    assert 'request="CreateTopics"' not in page, "nobody has sent one"
