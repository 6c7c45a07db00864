"""The same requests to Apache Kafka 3.9 and to this broker; every version, good input and bad; the answers are compared."""

import pytest

from tests.clients.served import ServedBroker
from tests.oracle import (
    scenarios_admin,
    scenarios_broker_keys,
    scenarios_cluster,
    scenarios_configs,
    scenarios_consumer_groups,
    scenarios_control,
    scenarios_data,
    scenarios_formats,
    scenarios_groups,
    scenarios_log_dirs,
    scenarios_members,
    scenarios_quotas,
    scenarios_transactions,
)
from tests.oracle.apache_kafka import ApacheKafka
from tests.oracle.expected_differences import EXPECTED, NEWER, NOT_YET, Difference, reason
from tests.oracle.talk import SCENARIOS, Scenario, Talk, differences
from twisted_kafka.protocol.messages.api_versions import ApiVersionsRequest

REGISTERED = (
    scenarios_admin,
    scenarios_broker_keys,
    scenarios_cluster,
    scenarios_configs,
    scenarios_consumer_groups,
    scenarios_control,
    scenarios_data,
    scenarios_formats,
    scenarios_groups,
    scenarios_log_dirs,
    scenarios_members,
    scenarios_quotas,
    scenarios_transactions,
)
pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(900)]

RUN: set[str] = set()
SEEN: set[Difference] = set()
"""The scenarios that ran, and the expected differences that they met."""

KRAFT_ONLY = {68, 69, 75}
"""APIs that Apache Kafka 3.9 serves in KRaft mode only."""


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
