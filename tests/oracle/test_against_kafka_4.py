"""The same requests to Apache Kafka 4.4 and to this broker, in the versions of APIs that Apache Kafka 3.9 does not have."""

from collections.abc import Iterator

import pytest

from tests.support.clients.clients import java_library
from tests.support.clients.served import ServedBroker
from tests.support.oracle.apache_kafka import ApacheKafka
from tests.support.oracle.compared import BOTH_PROTOCOLS, running, said
from twisted_kafka.tools.compare.answers import differences
from twisted_kafka.tools.compare.preparation import SETTINGS, told_versions
from twisted_kafka.tools.compare.scenarios import scenarios_of_kafka_4
from twisted_kafka.tools.compare.talk import Scenario

pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(900)]

VERSION = "4.4.0"
ONE_SHARE_COORDINATOR = {
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.num.partitions": 3,
    "share.coordinator.state.topic.min.isr": 1,
}
STREAMS_GROUPS = {"group.streams.initial.rebalance.delay.ms": 0, "group.streams.assignment.interval.ms": 0}
"""Each change gets its assignment at once."""
KRAFTS_OWN = {55, 64, 80, 81}
"""APIs of the metadata quorum."""


@pytest.fixture(scope="module")
def kafka_4(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    if java_library("kafka_2.13", VERSION) is None:
        pytest.skip("Java or Maven is not installed")
    streams = STREAMS_GROUPS | {"group.coordinator.rebalance.protocols": "classic,consumer,streams"}
    settings = SETTINGS | BOTH_PROTOCOLS | ONE_SHARE_COORDINATOR | streams
    broker = ApacheKafka(tmp_path_factory.mktemp("kafka-4"), kraft=True, version=VERSION, **settings)
    with running(broker):
        yield broker


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    """This broker with share and streams groups."""
    protocols = "classic,consumer,share,streams"
    settings = {**SETTINGS, **STREAMS_GROUPS, "broker.id": 1, "group.coordinator.rebalance.protocols": protocols}
    broker = ServedBroker(tmp_path_factory.mktemp("ours-4") / "data", *[f"{key}={value}" for key, value in settings.items()])
    with running(broker):
        yield broker


@pytest.mark.parametrize("scenario", scenarios_of_kafka_4(), ids=lambda scenario: scenario.name)
def test_answers_are_those_of_kafka_4(kafka_4: ApacheKafka, ours: ServedBroker, scenario: Scenario) -> None:
    most = told_versions(kafka_4.port)[scenario.request.KEY][1]
    found = []
    for version in range(scenario.versions[0], min(most, scenario.versions[1]) + 1):
        theirs, mine = (said(scenario, version, port) for port in (kafka_4.port, ours.port))
        for at, (expected, answered) in enumerate(zip(theirs, mine, strict=True)):
            for path, kafkas, our in differences(expected[1], answered[1]):
                found.append(f"v{version}: {at} {expected[0]} {path}: Kafka {kafkas!r}, here {our!r}")
    assert not found, "\n" + "\n".join(found)
