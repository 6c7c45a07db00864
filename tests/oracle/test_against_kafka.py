"""The same requests to Apache Kafka 3.9 and to this broker; every version, good input and bad; the answers are compared."""

import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.oracle.documented_errors import DOCUMENTED, PROVOKED
from tests.oracle.expected_differences import EXPECTED, NEWER, NOT_YET, Difference, reason
from tests.oracle.versions import KRAFT_ONLY, told_versions
from tests.support.clients.served import ServedBroker
from tests.support.oracle.apache_kafka import ApacheKafka
from tests.support.oracle.talk import SCENARIOS, Scenario, differences, said
from twisted_kafka.protocol.errors import ErrorCode

for module in sorted(Path(__file__).parent.glob("scenarios_*.py")):
    importlib.import_module(f"tests.oracle.{module.stem}")  # adds its scenarios to SCENARIOS

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
    assert expected.keys() - found.keys() == {key for apis in NOT_YET.values() for key in apis}


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
    least, most = told_versions(ports[0])[scenario.request.KEY]
    found = []
    for version in range(max(least, scenario.versions[0]), min(most, scenario.versions[1]) + 1):
        answers = [said(scenario, version, port) for port in ports]
        RUN.add(scenario.name)
        for at, (expected, answered) in enumerate(zip(*answers, strict=True)):
            note_errors(expected[0], expected[1])
            for path, kafkas, our in differences(expected[1], answered[1]):
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


def test_every_documented_error_was_provoked() -> None:
    if len(RUN) < len(SCENARIOS):
        pytest.skip("not all scenarios ran")
    for api, errors in DOCUMENTED.items():
        assert ERRORS.get(api, set()) & errors.keys() == {error for error, reason in errors.items() if reason == PROVOKED}, api


def test_every_expected_difference_is_there() -> None:
    if len(RUN) < len(SCENARIOS):
        pytest.skip("not all scenarios ran")
    assert [difference for difference in EXPECTED if difference not in SEEN] == []
