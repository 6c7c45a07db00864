"""The same requests to Apache Kafka 3.9 and to this broker; every version, good input and bad; the answers are compared."""

from collections.abc import Iterator

import pytest

from tests.oracle.documented_errors import DOCUMENTED, PROVOKED
from tests.oracle.expected_differences import EXPECTED, NEWER, Difference, reason
from tests.oracle.versions import KRAFT_ONLY
from tests.support.clients.served import ServedBroker
from tests.support.oracle.apache_kafka import ApacheKafka
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.tools.compare.comparison import Address, common_versions, compared, converse
from twisted_kafka.tools.compare.preparation import told_versions
from twisted_kafka.tools.compare.scenarios import scenarios_of_kafka_3
from twisted_kafka.tools.compare.talk import LOCAL, TIMEOUT_S, Scenario

SCENARIOS = scenarios_of_kafka_3()

pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(900)]

RUN: set[str] = set()
SEEN: set[Difference] = set()
"""The scenarios that ran, and the expected differences that they met."""

ERRORS: dict[str, set[ErrorCode]] = {}
"""The errors that Apache Kafka answered, by API."""


def test_advertised_versions_are_kafkas(kafka: ApacheKafka, ours: ServedBroker) -> None:
    expected, found = told_versions(kafka.port), told_versions(ours.port)
    assert {key: most for key, (_, most) in found.items() if expected.get(key, (0, -1))[1] != most} == NEWER
    assert {key for key in found if key in expected and expected[key][0] != found[key][0]} == set()
    assert expected.keys() <= found.keys()


def note_errors(step: str, answer: object) -> None:
    """Remember the error codes in the answer to a request."""
    api, is_request, _ = step.partition("Request v")
    if is_request:
        ERRORS.setdefault(api, set()).update(error_codes(answer))


def error_codes(value: object) -> Iterator[ErrorCode]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name in ("error_code", "partition_error_code") and inner:
                yield ErrorCode(inner)
            else:
                yield from error_codes(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from error_codes(inner)


def unexplained(scenario: Scenario, ports: tuple[int, int]) -> list[str]:
    """Return where the answers of Apache Kafka and of this broker differ without a reason."""
    told = told_versions(ports[0])
    found = []
    for version in common_versions(scenario, told):
        kafkas, ours = (converse(scenario, version, Address(LOCAL, port), TIMEOUT_S) for port in ports)
        RUN.add(scenario.name)
        for request, answer in kafkas.answers:
            note_errors(request, answer)
        for difference in compared(scenario, version, kafkas, ours):
            expected_difference = reason(difference.where)
            if expected_difference is not None:
                SEEN.add(expected_difference)
            else:
                found.append(f"{difference.where}: Kafka {difference.first!r}, here {difference.second!r}")
        found += [f"{scenario.name} v{version}: stopped: {each.stopped}" for each in (kafkas, ours) if each.stopped is not None]
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


def test_every_documented_error_was_provoked() -> None:
    if len(RUN) < len(SCENARIOS):
        pytest.skip("not all scenarios ran")
    for api, errors in DOCUMENTED.items():
        assert ERRORS.get(api, set()) & errors.keys() == {error for error, reason in errors.items() if reason == PROVOKED}, api


def test_every_expected_difference_is_there() -> None:
    if len(RUN) < len(SCENARIOS):
        pytest.skip("not all scenarios ran")
    assert [difference for difference in EXPECTED if difference not in SEEN] == []
