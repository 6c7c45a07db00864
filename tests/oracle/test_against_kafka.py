"""The same requests to Apache Kafka 3.9 and to this broker; every version, good input and bad; the answers are compared."""

import time
from collections.abc import Iterator

import pytest

from tests.clients.clients import java_class_path
from tests.clients.served import ServedBroker
from tests.oracle import scenarios_cluster, scenarios_data, scenarios_formats, scenarios_groups, scenarios_members
from tests.oracle.apache_kafka import ApacheKafka
from tests.oracle.expected_differences import EXPECTED, NEWER, NOT_YET, Difference, reason
from tests.oracle.talk import SCENARIOS, Scenario, Talk, differences
from twisted_kafka.protocol.messages.api_versions import ApiVersionsRequest
from twisted_kafka.protocol.messages.groups import FindCoordinatorRequest
from twisted_kafka.protocol.messages.transactions import InitProducerIdRequest

REGISTERED = (scenarios_cluster, scenarios_data, scenarios_formats, scenarios_groups, scenarios_members)
pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(900)]

RUN: set[str] = set()
SEEN: set[Difference] = set()
"""The scenarios that ran, and the expected differences that they met."""

KRAFT_ONLY = {75}
"""APIs that Apache Kafka 3.9 serves in KRaft mode only."""
WARM_TIMEOUT_S = 30
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 2,
    "group.min.session.timeout.ms": 6000,
    "log.retention.check.interval.ms": 3_600_000,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    if java_class_path() is None:
        pytest.skip("Java or Maven is not installed")
    broker = ApacheKafka(tmp_path_factory.mktemp("kafka"), **SETTINGS)
    try:
        broker.start()
        warm(broker.port)
        yield broker
    finally:
        broker.stop()


@pytest.fixture(scope="module")
def kraft(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    if java_class_path() is None:
        pytest.skip("Java or Maven is not installed")
    broker = ApacheKafka(tmp_path_factory.mktemp("kraft"), kraft=True, **SETTINGS)
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
    try:
        warm(broker.port)
        yield broker
    finally:
        broker.stop()


def warm(port: int) -> None:
    """Ask until the coordinators answer: a first question creates their topics, and both brokers say "later" to it."""
    talk = Talk(port, "warm")
    try:
        deadline = time.monotonic() + WARM_TIMEOUT_S
        for request, version in (
            (FindCoordinatorRequest(key="warm"), 3),
            (FindCoordinatorRequest(key="warm", key_type=1), 3),
            (InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 1),
        ):
            while talk.ask(request, version).error_code:
                assert time.monotonic() < deadline, f"{request} was not answered"
                time.sleep(0.1)
    finally:
        talk.close()


def told_versions(port: int) -> dict[int, tuple[int, int]]:
    talk = Talk(port, "versions")
    answer = talk.ask(ApiVersionsRequest(client_software_name="oracle", client_software_version="1"), 3)
    talk.close()
    return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}


def test_advertised_versions_are_kafkas(kafka: ApacheKafka, ours: ServedBroker) -> None:
    expected, found = told_versions(kafka.port), told_versions(ours.port)
    assert {key: most for key, (_, most) in found.items() if expected.get(key, (0, -1))[1] != most} == NEWER
    assert {key for key in found if key in expected and expected[key][0] != found[key][0]} == set()
    assert expected.keys() - found.keys() == {key for apis in NOT_YET.values() for key in apis}


def unexplained(scenario: Scenario, ports: tuple[int, int]) -> list[str]:
    """Return where the answers of Apache Kafka and of this broker differ without a reason."""
    least, most = told_versions(ports[0])[scenario.request.KEY]
    found = []
    for version in range(max(least, scenario.versions[0]), min(most, scenario.versions[1]) + 1):
        answers = []
        for port in ports:
            talk = Talk(port, f"{scenario.name}.{version}")
            try:
                scenario.run(talk, version)
            finally:
                talk.close()
            answers.append(talk.answers)
        RUN.add(scenario.name)
        for at, (expected, said) in enumerate(zip(*answers, strict=True)):
            for path, kafkas, our in differences(expected[1], said[1]):
                where = f"{scenario.name} v{version}: {at} {expected[0]} {path}"
                expected_difference = reason(where)
                if expected_difference is not None:
                    SEEN.add(expected_difference)
                else:
                    found.append(f"{where}: Kafka {kafkas!r}, here {our!r}")
    return found


@pytest.mark.parametrize(
    "scenario", [each for each in SCENARIOS if each.request.KEY not in KRAFT_ONLY], ids=lambda scenario: scenario.name
)
def test_answers_are_the_same(kafka: ApacheKafka, ours: ServedBroker, scenario: Scenario) -> None:
    found = unexplained(scenario, (kafka.port, ours.port))
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    "scenario", [each for each in SCENARIOS if each.request.KEY in KRAFT_ONLY], ids=lambda scenario: scenario.name
)
def test_answers_are_those_of_kraft(kraft: ApacheKafka, ours: ServedBroker, scenario: Scenario) -> None:
    found = unexplained(scenario, (kraft.port, ours.port))
    assert not found, "\n" + "\n".join(found)


def test_every_expected_difference_is_there() -> None:
    if len(RUN) < len(SCENARIOS):
        pytest.skip("not all scenarios ran")
    assert [difference for difference in EXPECTED if difference not in SEEN] == []
