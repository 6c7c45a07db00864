"""The same requests to Apache Kafka 3.9 and to this broker; every version, good input and bad; the answers are compared."""

from collections.abc import Iterator

import pytest

from tests.clients.clients import java_class_path
from tests.clients.served import ServedBroker
from tests.oracle import scenarios_cluster, scenarios_data, scenarios_groups
from tests.oracle.apache_kafka import ApacheKafka
from tests.oracle.expected_differences import reason
from tests.oracle.talk import SCENARIOS, Scenario, Talk, differences
from twisted_kafka.protocol.messages.api_versions import ApiVersionsRequest

REGISTERED = (scenarios_cluster, scenarios_data, scenarios_groups)
ONLY_HERE = {75: "DescribeTopicPartitions, which Apache Kafka serves in KRaft mode only"}
pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(900)]

SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 3,
    "group.min.session.timeout.ms": 6000,
}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    if java_class_path() is None:
        pytest.skip("Java or Maven is not installed")
    broker = ApacheKafka(tmp_path_factory.mktemp("kafka"), **SETTINGS)
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    settings = [f"{key}={value}" for key, value in {**SETTINGS, "broker.id": 1}.items()]
    broker = ServedBroker(tmp_path_factory.mktemp("ours") / "data", *settings)
    broker.start()
    yield broker
    broker.stop()


def told_versions(port: int) -> dict[int, tuple[int, int]]:
    talk = Talk(port, "versions")
    answer = talk.ask(ApiVersionsRequest(client_software_name="oracle", client_software_version="1"), 3)
    talk.close()
    return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}


def test_advertised_versions_are_kafkas(kafka: ApacheKafka, ours: ServedBroker) -> None:
    expected, found = told_versions(kafka.port), told_versions(ours.port)
    assert {key: versions for key, versions in found.items() if expected.get(key) != versions}.keys() == ONLY_HERE.keys()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_answers_are_the_same(kafka: ApacheKafka, ours: ServedBroker, scenario: Scenario) -> None:
    versions = told_versions(kafka.port).get(scenario.request.KEY)
    if versions is None:
        pytest.skip(f"Apache Kafka in ZooKeeper mode does not serve {scenario.request.__name__}")
    least, most = versions
    unexplained = []
    for version in range(max(least, scenario.versions[0]), min(most, scenario.versions[1]) + 1):
        answers = []
        for port in (kafka.port, ours.port):
            talk = Talk(port, f"{scenario.name}.{version}")
            try:
                scenario.run(talk, version)
            finally:
                talk.close()
            answers.append(talk.answers)
        for at, (expected, found) in enumerate(zip(*answers, strict=True)):
            for path, kafkas, our in differences(expected[1], found[1]):
                where = f"{scenario.name} v{version}: {at} {expected[0]} {path}"
                if reason(where) is None:
                    unexplained.append(f"{where}: Kafka {kafkas!r}, here {our!r}")
    assert not unexplained, "\n" + "\n".join(unexplained)
