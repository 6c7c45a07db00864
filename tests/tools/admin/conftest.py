"""The clusters with which each command is tried: this broker, and with ``-m oracle`` Apache Kafka 3.9 and 4."""

import itertools
from collections.abc import Iterator

import pytest

import twisted_kafka
from tests.support.clients.clients import java_class_path, java_library
from tests.support.oracle.apache_kafka import ApacheKafka
from tests.tools.admin.cli import Cli

KAFKA_4 = "4.4.0"
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
    "num.partitions": 1,
    "auto.create.topics.enable": False,
    "delete.topic.enable": True,
}
OF_KRAFT = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "auto.create.topics.enable": "false",
    "share.coordinator.state.topic.replication.factor": 1,
}

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def ours() -> Iterator[str]:
    with twisted_kafka.Broker(SETTINGS) as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="package")
def kafka_3_9(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if java_class_path() is None:
        pytest.skip("Java or Maven is not installed")
    yield from _started(ApacheKafka(tmp_path_factory.mktemp("kafka"), **{**SETTINGS, "auto.create.topics.enable": "false"}))  # type: ignore[arg-type]


@pytest.fixture(scope="package")
def kafka_4(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if java_library("kafka_2.13", KAFKA_4) is None:
        pytest.skip("Java or Maven is not installed")
    settings = {**SETTINGS, **OF_KRAFT}
    yield from _started(ApacheKafka(tmp_path_factory.mktemp("kafka-4"), kraft=True, version=KAFKA_4, **settings))


def _started(kafka: ApacheKafka) -> Iterator[str]:
    kafka.start()
    try:
        yield kafka.bootstrap
    finally:
        kafka.kill()


_ORACLE = (pytest.mark.oracle, pytest.mark.slow)


@pytest.fixture(params=["ours", pytest.param("kafka_3_9", marks=_ORACLE), pytest.param("kafka_4", marks=_ORACLE)])
def cli(request: pytest.FixtureRequest, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The commands, with one of the clusters."""
    return Cli(request.getfixturevalue(request.param), capfdbinary, monkeypatch, f"t{next(_numbers)}")
