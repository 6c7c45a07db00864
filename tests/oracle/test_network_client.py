"""The client for other brokers talks to Apache Kafka, in plain text and over TLS with certificates on both sides."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.budget import patient
from tests.support.certificates import Authority
from tests.support.clients.clients import java_class_path
from tests.support.eventually import eventually
from tests.support.oracle.apache_kafka import ApacheKafka
from tests.support.ports import free_port
from twisted_kafka.client.blocking import BlockingNetworkClient
from twisted_kafka.client.client_settings import ClientSettings, Node
from twisted_kafka.client.connections.inter_broker import connector_for
from twisted_kafka.client.errors import AuthenticationError, DisconnectedError, ResponseTimeoutError
from twisted_kafka.client.network_client import NetworkClient
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.protocol.errors import ErrorCode, error_code_of
from twisted_kafka.protocol.messages.administration.topics import CreatableTopic, CreateTopicsRequest
from twisted_kafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from twisted_kafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from twisted_kafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.timing.clock import SystemClock

pytestmark = pytest.mark.oracle

TIMEOUT_S = patient(60)
CA = Authority()


class Kafka:
    """Apache Kafka with a plain-text and a TLS listener."""

    def __init__(self, folder: Path) -> None:
        CA.issue("CN=kafka", ["localhost"]).write_pem(folder / "kafka.pem")
        CA.write_trust(folder / "ca.pem")
        self.process = ApacheKafka(folder / "kafka", kraft=True)
        self.ssl_port = free_port()
        listeners = self.process._settings["listeners"], self.process._settings["advertised.listeners"]
        self.process._settings |= {
            "listeners": f"{listeners[0]},SSL://localhost:{self.ssl_port}",
            "advertised.listeners": f"{listeners[1]},SSL://localhost:{self.ssl_port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL",
            "ssl.client.auth": "required",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": folder / "kafka.pem",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": folder / "ca.pem",
        }

    def node(self, listener: str) -> Node:
        return Node(1, "localhost", self.ssl_port) if listener == "SSL" else Node(1, "127.0.0.1", self.process.port)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    if java_class_path() is None:
        pytest.skip("needs Java and Maven")
    found = Kafka(tmp_path_factory.mktemp("network-client"))
    found.process.start()
    yield found
    found.process.kill()


@pytest.fixture
def connect() -> Iterator[Callable[..., BlockingNetworkClient]]:
    started: list[BlockingNetworkClient] = []

    def start(listener: str, with_key: bool = True) -> BlockingNetworkClient:
        settings = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": CA.pem}
        if with_key:
            mine = CA.issue("CN=broker-2", ["localhost"])
            settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.key": mine.key_pem()}
            settings["ssl.keystore.certificate.chain"] = mine.chain_pem
        config = KafkaConfig.embedded(settings)

        def make(reactor: Any) -> NetworkClient:
            return NetworkClient(reactor, connector_for(config, listener, reactor), ClientSettings(client_id="broker-2"))

        client = BlockingNetworkClient("network-client", make, SystemClock())
        started.append(client)
        client.start()
        return client

    yield start
    for client in started:
        client.stop()


@pytest.mark.parametrize("listener", ["PLAINTEXT", "SSL"])
def test_it_produces_and_fetches(kafka: Kafka, connect: Callable[..., BlockingNetworkClient], listener: str) -> None:
    client, node, topic = connect(listener), kafka.node(listener), f"over-{listener}"

    def ask(request: Any, **more: Any) -> Any:
        return client.send(node, request, **more).result(TIMEOUT_S)

    created = ask(CreateTopicsRequest(topics=[CreatableTopic(name=topic, num_partitions=1, replication_factor=1)]))
    assert [one.error_code for one in created.topics] == [0]
    while ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)])).topics[0].error_code:
        pass
    value = bytes(range(256)) * 3000
    batch = build_batch([SimpleRecord(timestamp_ms=1, value=value)])
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])

    def error_of_produce() -> ErrorCode:
        produced = ask(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data]), latest_version=11)
        return error_code_of(produced.responses[0].partition_responses[0].error_code)

    while (error := error_of_produce()) is ErrorCode.NOT_LEADER_OR_FOLLOWER:
        pass  # metadata may name a leader that does not know of it yet
    assert error is ErrorCode.NONE
    wanted = FetchTopic(topic=topic, partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)])
    fetched = ask(FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, topics=[wanted]), latest_version=12)
    assert value in bytes(fetched.responses[0].partitions[0].records)
    answers = [client.send(node, MetadataRequest(topics=[])) for _ in range(100)]
    assert len({answer.result(TIMEOUT_S).cluster_id for answer in answers}) == 1


def test_kafka_refuses_one_without_a_certificate(kafka: Kafka, connect: Callable[..., BlockingNetworkClient]) -> None:
    with pytest.raises(AuthenticationError):
        connect("SSL", with_key=False).send(kafka.node("SSL"), MetadataRequest(topics=[])).result(TIMEOUT_S)


def test_kafka_under_a_name_that_its_certificate_has_not_is_refused(
    kafka: Kafka, connect: Callable[..., BlockingNetworkClient]
) -> None:
    elsewhere = Node(1, "127.0.0.1", kafka.ssl_port)
    with pytest.raises(AuthenticationError, match=r"its certificate is not valid for 127\.0\.0\.1"):
        connect("SSL").send(elsewhere, MetadataRequest(topics=[])).result(TIMEOUT_S)


def stop_all_threads(pid: int) -> None:
    """Send SIGSTOP, and wait until no thread runs: one of them may still answer a request after the signal was sent."""
    os.kill(pid, signal.SIGSTOP)
    threads = Path(f"/proc/{pid}/task")
    # The state follows the name, which is in brackets.
    eventually(lambda: all(each.read_text().rpartition(") ")[2].startswith("T") for each in threads.glob("*/stat")))


@pytest.mark.parametrize("listener", ["PLAINTEXT", "SSL"])
def test_a_broker_that_does_not_answer_for_a_while(
    kafka: Kafka, connect: Callable[..., BlockingNetworkClient], listener: str
) -> None:
    client, node = connect(listener), kafka.node(listener)
    assert client.send(node, MetadataRequest(topics=[])).result(TIMEOUT_S).brokers
    stop_all_threads(kafka.process.broker_pid)
    try:
        late = client.send(node, MetadataRequest(topics=[]), timeout_ms=500)
        behind = client.send(node, MetadataRequest(topics=[]), timeout_ms=30_000)
        with pytest.raises(ResponseTimeoutError):
            late.result(TIMEOUT_S)
        with pytest.raises(DisconnectedError):
            behind.result(TIMEOUT_S)
        further = client.send(node, MetadataRequest(topics=[]))  # its connection is in Kafka's backlog
    finally:
        os.kill(kafka.process.broker_pid, signal.SIGCONT)
    assert further.result(TIMEOUT_S).brokers


@pytest.mark.parametrize("listener", ["PLAINTEXT", "SSL"])
def test_a_broker_that_goes_away_and_comes_back(kafka: Kafka, connect: Callable[..., BlockingNetworkClient], listener: str) -> None:
    client, node = connect(listener), kafka.node(listener)
    assert client.send(node, MetadataRequest(topics=[])).result(TIMEOUT_S).brokers
    waiting = FetchRequest(max_wait_ms=30_000, min_bytes=1, max_bytes=1, topics=[])
    future = client.send(node, waiting, latest_version=12)
    kafka.process.kill()
    with pytest.raises(DisconnectedError):
        future.result(TIMEOUT_S)
    kafka.process.start()
    assert client.send(node, MetadataRequest(topics=[])).result(TIMEOUT_S).brokers
