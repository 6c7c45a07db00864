"""Personas: the broker answers as other versions of Kafka do, and real clients get along with each."""

import socket
from typing import Any

import pytest

import twisted_kafka
from tests.support.budget import covering
from tests.support.clients.clients import (
    read_aiokafka,
    read_confluent,
    read_kafka_python,
    send_aiokafka,
    send_confluent,
    send_kafka_python,
)
from tests.support.eventually import WAIT_S
from twisted_kafka.client import one_request
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.metadata.features import FeatureCache
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.administration.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from twisted_kafka.protocol.messages.api_versions import ApiVersionsResponse

NAMES = ("0.11", "2.8", "3.9", "4.1", "4.2", "4.4")


CLIENTS: dict[str, tuple[Any, Any]] = {
    "kafka-python": (send_kafka_python, read_kafka_python),
    "librdkafka": (send_confluent, read_confluent),
    "aiokafka": (send_aiokafka, read_aiokafka),
}
FEATURES = ["group.version", "share.version", "streams.version", "transaction.version"]


def ask(bootstrap: str, api_key: int, version: int, body: bytes = b"") -> bytes:
    """Send one request; return the answer without its correlation id, or nothing if the connection is closed."""
    host, port = bootstrap.rsplit(":", 1)
    header = api_key.to_bytes(2, "big") + version.to_bytes(2, "big") + (7).to_bytes(4, "big") + b"\xff\xff"
    with socket.create_connection((host, int(port)), timeout=WAIT_S) as connection:
        connection.sendall(len(header + body).to_bytes(4, "big") + header + body)
        with connection.makefile("rb") as answer:
            size = answer.read(4)
            return answer.read(int.from_bytes(size, "big"))[4:] if size else b""


@pytest.fixture(scope="module", params=NAMES)
def played(request: pytest.FixtureRequest) -> Any:
    with twisted_kafka.Broker({"num.partitions": 1}, persona=request.param) as broker:
        yield request.param, broker


def test_the_features_of_a_new_cluster_are_there_when_it_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FeatureCache, "_changed", lambda _: None)  # the watch of their node is heard late
    with twisted_kafka.Broker({"num.partitions": 1}, persona="4.2") as broker:
        answer = ApiVersionsResponse.decode(ask(broker.bootstrap_servers, ApiKey.API_VERSIONS, 0), 0)
    assert ApiKey.SHARE_FETCH in [each.api_key for each in answer.api_keys]


def test_it_tells_its_kafkas_versions_as_far_as_the_broker_has_them(played: Any) -> None:
    name, broker = played
    answer = ApiVersionsResponse.decode(ask(broker.bootstrap_servers, ApiKey.API_VERSIONS, 0), 0)
    told = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    expected = {  # Produce, Fetch, LeaderAndIsr, DescribeCluster, and how many
        "0.11": ((0, 3), (0, 5), (0, 0), None, 34),
        "2.8": ((0, 9), (0, 12), (0, 5), (0, 0), 56),
        "3.9": ((0, 11), (0, 17), (0, 7), (0, 1), 62),
        "4.1": ((0, 13), (4, 18), None, (0, 2), 57),  # without a metrics.listener no client metrics
        "4.2": ((0, 13), (4, 18), None, (0, 2), 71),
        "4.4": ((0, 13), (4, 18), None, (0, 2), 72),
    }
    keys = (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LEADER_AND_ISR, ApiKey.DESCRIBE_CLUSTER)
    assert (*(told.get(key) for key in keys), len(told)) == expected[name], "a new API changes the numbers of APIs here"


def test_a_version_that_is_too_new_is_answered_as_its_kafka_does(played: Any) -> None:
    name, broker = played
    answer = ApiVersionsResponse.decode(ask(broker.bootstrap_servers, ApiKey.API_VERSIONS, 9, b"\0\0"), 0)
    own = {"0.11": [], "2.8": [(18, 0, 3)], "4.4": [(18, 0, 5)]}.get(name, [(18, 0, 4)])
    assert (answer.error_code, [(each.api_key, each.min_version, each.max_version) for each in answer.api_keys]) == (35, own)


def test_only_kraft_has_features(played: Any) -> None:
    name, broker = played
    version = {"0.11": None, "2.8": 3}.get(name, 4)
    if version is None:
        return  # none of its versions of ApiVersions tells them
    answer = ApiVersionsResponse.decode(ask(broker.bootstrap_servers, ApiKey.API_VERSIONS, version, b"\0\x02a\x02b\0"), version)
    assert [each.name for each in answer.supported_features] == (FEATURES if name.startswith("4") else [])


@pytest.mark.parametrize(
    ("name", "api", "version"),
    [("0.11", ApiKey.METADATA, 5), ("0.11", ApiKey.DELETE_GROUPS, 0), ("2.8", ApiKey.METADATA, 12), ("4.1", ApiKey.PRODUCE, 2)],
)
def test_a_request_outside_of_its_table_closes_the_connection(name: str, api: int, version: int) -> None:
    with twisted_kafka.Broker(persona=name) as broker:
        assert ask(broker.bootstrap_servers, api, version, b"\0\0\0\0\0\0\0\0") == b""


def test_settings_of_the_test_win_over_its_defaults() -> None:
    with twisted_kafka.Broker({"message.max.bytes": 5000}, persona="0.11") as broker:
        assert (broker.config.int("message.max.bytes"), broker.config.int("offsets.retention.minutes")) == (5000, 1440)


def test_one_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(ConfigError, match=r"^There is no persona '1\.0': use one of 0\.11, 2\.8, 3\.9, 4\.1, 4\.2, 4\.4$"):
        twisted_kafka.Broker(persona="1.0")


def test_it_is_for_a_broker_that_runs_alone() -> None:
    with pytest.raises(ConfigError, match="runs alone"):
        twisted_kafka.Broker({"zookeeper.connect": "127.0.0.1:1"}, persona="4.1")


@pytest.mark.medium
@pytest.mark.clients
@pytest.mark.parametrize(("played", "client"), covering(NAMES, CLIENTS), indirect=["played"])
def test_real_clients_produce_and_consume_in_a_group(played: Any, client: str) -> None:
    pytest.importorskip("confluent_kafka")
    _, broker = played
    send, read = CLIENTS[client]
    topic = f"topic-{send.__name__}"
    send(broker.bootstrap_servers, topic, [b"one", b"two"])
    assert read(broker.bootstrap_servers, topic, 2, f"group-{topic}") == [b"one", b"two"]


def test_a_topic_takes_only_the_configs_that_its_kafka_has() -> None:
    def create(persona: str) -> tuple[int, str | None]:
        with twisted_kafka.Broker(persona=persona) as broker:
            host, port = broker.bootstrap_servers.rsplit(":", 1)
            config = CreatableTopicConfig(name="message.timestamp.after.max.ms", value="1000")
            topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1, configs=[config])
            response = one_request.ask((host, int(port)), CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 2, "c", 10)
            (result,) = response.topics
            return result.error_code, result.error_message

    assert create("2.8") == (ErrorCode.INVALID_CONFIG, "Unknown topic config name: message.timestamp.after.max.ms")
    assert create("3.9") == (ErrorCode.NONE, None)


def test_defaults_of_its_kafka_outlast_a_change_of_settings() -> None:
    with twisted_kafka.Broker(persona="0.11") as broker:
        broker.config.adopt(broker.config.updated({"log.cleaner.threads": "2"}))
        assert (broker.config.int("log.cleaner.threads"), broker.config.int("offsets.retention.minutes")) == (2, 1440)
