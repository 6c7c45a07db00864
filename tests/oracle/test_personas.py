"""The tables of the personas against Apache Kafka: its clients' tables of APIs, and what its brokers tell of their settings."""

import shutil
from pathlib import Path
from typing import Any

import pytest

import twisted_kafka
from tests.support.budget import patient
from tests.support.clients.clients import java_library, run
from tests.support.oracle.apache_kafka import ApacheKafka
from twisted_kafka.broker.personas import persona_of
from twisted_kafka.client.one_request import ask
from twisted_kafka.config.keys import BROKER_KEYS, TOPIC_KEYS
from twisted_kafka.metadata.features import SUPPORTED
from twisted_kafka.protocol.messages.administration.configs import DescribeConfigsRequest, DescribeConfigsResource
from twisted_kafka.protocol.messages.administration.topics import CreatableTopic, CreateTopicsRequest
from twisted_kafka.protocol.messages.api_versions import ApiVersionsRequest

PROGRAM = Path(__file__).parent / "java" / "ApiTable.java"
TIMEOUT_S = patient(30)
TOPIC, BROKER = 2, 4
PERSONAS = [("0.11", "0.11.0.3"), ("2.8", "2.8.2"), ("3.9", "3.9.2"), ("4.1", "4.1.0"), ("4.2", "4.2.0"), ("4.4", "4.4.0")]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.oracle,
    pytest.mark.skipif(not (shutil.which("java") and shutil.which("mvn")), reason="needs Java and Maven"),
]

OF_AN_EMBEDDED_BROKER = {
    *("group.initial.rebalance.delay.ms", "num.io.threads", "num.network.threads"),
    *("offsets.topic.num.partitions", "transaction.state.log.num.partitions", "share.coordinator.state.topic.num.partitions"),
    *("group.share.heartbeat.interval.ms", "group.share.min.heartbeat.interval.ms", "group.streams.initial.rebalance.delay.ms"),
    *("group.streams.heartbeat.interval.ms", "group.streams.min.heartbeat.interval.ms"),
    *("share.coordinator.state.topic.replication.factor", "share.coordinator.state.topic.min.isr"),
}
OF_THE_MACHINERY = {
    # How this broker does TLS, names classes of Java and maps listeners, whatever it plays; and tiered storage, which it has not.
    *("group.consumer.assignors", "listener.security.protocol.map", "metric.reporters", "principal.builder.class"),
    *("ssl.cipher.suites", "ssl.enabled.protocols", "ssl.endpoint.identification.algorithm", "ssl.protocol"),
    *(f"remote.log.manager.{pool}thread.pool.size" for pool in ("", "copier.", "expiration.")),
    # What its acceptor needs (docs/compatibility.md, `backlog`).
    "socket.listen.backlog.size",
    # A broker without ZooKeeper says that it has none.
    "zookeeper.connect",
    # Kafka 4.1 has a third protocol, streams; and what is internal in 3.9.
    *("group.coordinator.rebalance.protocols", "group.consumer.migration.policy"),
    # -1 by default since Kafka 4.2, which 3.9 refuses.
    "group.coordinator.append.linger.ms",
}


@pytest.mark.parametrize(("name", "version"), PERSONAS)
def test_a_personas_table_is_its_kafkas(name: str, version: str) -> None:
    class_path = java_library("kafka-clients", version)
    assert class_path is not None
    mode = "kraft" if name.startswith("4") else "zookeeper"
    printed = run(["java", "-cp", class_path, str(PROGRAM), mode]).decode()
    theirs = {key: (low, high) for key, low, high in (map(int, line.split()) for line in printed.splitlines())}
    assert persona_of(name).served == theirs


def configs(port: int, version: int) -> dict[int, dict[str, tuple[str | None, bool]]]:
    """Return the value of each config of a broker and of a new topic, and whether something sets it."""
    address = ("127.0.0.1", port)
    new = CreatableTopic(name="plain", num_partitions=1, replication_factor=1)
    created = ask(address, CreateTopicsRequest(topics=[new], timeout_ms=1000 * TIMEOUT_S), 2, "personas", TIMEOUT_S)
    assert [each.error_code for each in created.topics] == [0]
    told = {}
    for kind, name in ((BROKER, "1"), (TOPIC, "plain")):
        resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        response: Any = ask(address, DescribeConfigsRequest(resources=[resource]), version, "personas", TIMEOUT_S)
        told[kind] = {each.name: (each.value, version > 0 and each.config_source != 5) for each in response.results[0].configs}
    return told


def levels(port: int) -> dict[str, int]:
    """Return the finalized levels of a broker's features."""
    request = ApiVersionsRequest(client_software_name="personas", client_software_version="1")
    answer: Any = ask(("127.0.0.1", port), request, 3, "personas", TIMEOUT_S)
    return {each.name: each.max_version_level for each in answer.finalized_features}


@pytest.mark.parametrize(("name", "version"), PERSONAS)
def test_a_personas_configs_are_those_of_its_kafkas_broker(name: str, version: str, tmp_path: Path) -> None:
    asked = 0 if name == "0.11" else 1
    kafka = ApacheKafka(tmp_path, kraft=name.startswith("4"), version=version)
    kafka.start()
    try:
        theirs = configs(kafka.port, asked)
        their_levels = levels(kafka.port) if name.startswith("4") else {}
        set_there = {key for kind in theirs.values() for key, (_, is_set) in kind.items() if is_set} | kafka.settings.keys()
    finally:
        kafka.kill()
    with twisted_kafka.Broker({"broker.id": 1}, persona=name) as broker:
        port = int(broker.bootstrap_servers.rpartition(":")[2])
        ours = configs(port, asked)
        our_levels = levels(port) if name.startswith("4") else {}
    assert our_levels == {feature: level for feature, level in their_levels.items() if feature in SUPPORTED}
    for kind, keys in ((BROKER, BROKER_KEYS), (TOPIC, TOPIC_KEYS)):
        but = OF_AN_EMBEDDED_BROKER | OF_THE_MACHINERY | set_there
        assert ours[kind].keys() | but == theirs[kind].keys() & keys.keys() | but
        assert {key: value for key, value in ours[kind].items() if key not in but} == {
            key: value for key, value in theirs[kind].items() if key in ours[kind] and key not in but
        }
