"""``twisted-kafka compare``, with two brokers of this process that are equal, or of which one lies."""

import json
from collections.abc import Iterator

import pytest

import twisted_kafka
from tests.support.ports import free_port
from twisted_kafka.testing import Broker
from twisted_kafka.tools.compare import Address, Comparison, Difference, compare
from twisted_kafka.tools.compare.answers import ABSENT, ErrorText, Place, as_json, as_stored, differences, value_at
from twisted_kafka.tools.compare.command import report
from twisted_kafka.tools.compare.preparation import SETTINGS
from twisted_kafka.tools.compare.scenarios import scenarios_of_kafka_3
from twisted_kafka.tools.compare.stored import StoredAnswers
from twisted_kafka.tools.main import EXIT_USAGE, main

API = "ListGroups"


@pytest.fixture
def brokers() -> Iterator[tuple[Broker, Broker]]:
    with Broker(SETTINGS) as first, Broker(SETTINGS) as second:
        yield first, second


def address(broker: Broker) -> Address:
    host, _, port = broker.bootstrap_servers.partition(":")
    return Address(host, int(port))


@pytest.mark.medium
def test_equal_brokers_show_no_difference(brokers: tuple[Broker, Broker], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *(each.bootstrap_servers for each in brokers), "--api", API]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[-1].endswith("answers of 1 APIs compared: no difference")
    assert out[0] == f"A is {brokers[0].bootstrap_servers}, B is {brokers[1].bootstrap_servers}"


@pytest.mark.medium
def test_an_answer_that_differs_is_shown_beside_apache_kafkas(
    brokers: tuple[Broker, Broker], capsys: pytest.CaptureFixture[str]
) -> None:
    with brokers[1].faults.inject(api=API, error="COORDINATOR_LOAD_IN_PROGRESS"):
        status = main(["compare", *(each.bootstrap_servers for each in brokers), "--api", API, "--output", "json"])
    assert status == 1
    found = json.loads(capsys.readouterr().out)
    first = found["differences"][0]
    assert (first["api"], first["second"]) == (API, [14, []])
    assert first["first"] == first["kafka"] == [0, [["list_groups.0.group", "consumer", "", ""]]]
    assert found["compared"].keys() == {API}


@pytest.mark.medium
def test_a_broker_that_does_not_go_on_is_a_difference(brokers: tuple[Broker, Broker]) -> None:
    with brokers[1].faults.inject(api=API, close="before"):
        found = compare(*map(address, brokers), apis=[API])
    assert all("an answer lacks what the next request needs" in each.second for each in found.differences)
    assert found.differences


@pytest.mark.medium
def test_a_broker_with_topics_is_left_alone(brokers: tuple[Broker, Broker], capsys: pytest.CaptureFixture[str]) -> None:
    brokers[1].create_topic("orders")
    assert main(["compare", *(each.bootstrap_servers for each in brokers), "--api", API]) == EXIT_USAGE
    said = capsys.readouterr().err
    assert "has topics (orders)" in said
    assert "Start a broker with an empty data directory" in said
    assert main(["compare", *(each.bootstrap_servers for each in brokers), "--api", API, "--allow-topics"]) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "name two brokers: twisted-kafka compare HOST:PORT HOST:PORT"),
        (["localhost:1", "localhost"], "'localhost' is not an address: expected HOST:PORT"),
        (["localhost:1", "localhost:2", "--api", "fetch"], "there are no requests for 'fetch': did you mean 'Fetch'?"),
        (["localhost:1", "localhost:2", "--api", "xyz"], "there are no requests for 'xyz': choose from AddOffsetsToTxn, "),
        (["localhost:1", "localhost:2", "--timeout", "0"], "--timeout must be more than 0, not 0"),
    ],
)
def test_a_wrong_command_line_is_one_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *arguments]) == EXIT_USAGE
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


def test_a_port_where_nobody_listens_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    assert main(["compare", f"127.0.0.1:{port}", f"127.0.0.1:{port}", "--api", API]) == EXIT_USAGE
    assert f"127.0.0.1:{port} does not listen: start both brokers" in capsys.readouterr().err.replace(f"127.0.0.1:{port} or ", "")


def test_a_name_without_an_address_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "nowhere.invalid:1", "nowhere.invalid:2", "--api", API]) == EXIT_USAGE
    said = capsys.readouterr().err
    assert "nowhere.invalid:1 or nowhere.invalid:2 cannot be reached: " in said
    assert said.endswith("; check the addresses\n")


@pytest.mark.medium
def test_a_broker_that_wants_a_login_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="a" user_a="a";'
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas,
    }
    with twisted_kafka.Broker(settings) as broker:
        assert main(["compare", broker.bootstrap_servers, broker.bootstrap_servers, "--api", API]) == EXIT_USAGE
    said = capsys.readouterr().err
    assert "closed the connection at Metadata v4: it may require a login; start both brokers with a listener in plain text" in said


def test_the_settings_are_printed_for_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "--settings"]) == 0
    assert "group.initial.rebalance.delay.ms=0\n" in capsys.readouterr().out


def test_a_difference_in_several_versions_is_shown_once() -> None:
    def found(version: int, second: object) -> Difference:
        return Difference("Fetch", version, "good", 1, f"FetchRequest v{version}", ".topics[0]", 1, second, ABSENT)

    comparison = Comparison(Address("a", 1), Address("b", 2), {"Fetch": ((0, 3), None)})
    comparison.differences = [found(0, 2), found(1, 2), found(3, 2), found(3, "x" * 1000)]
    comparison.apis["Fetch"] = 1234
    lines = list(report(comparison))
    assert "  Fetch: A 0-3, B does not serve it" in lines
    assert "  v0-1, 3 good, answer 1: FetchRequest .topics[0]" in lines
    assert any(line.endswith("... (1,002 characters)") for line in lines)
    assert lines[-1] == "1,234 answers of 1 APIs compared: 4 differences, in 1 APIs"


def test_messages_are_compared_by_the_terms_that_programs_search_for() -> None:
    kafka, other = ErrorText("Topic 'a' already exists.", True), ErrorText("a topic of that name already exists", True)
    assert list(differences({"error_message": kafka}, {"error_message": other})) == []
    ((place, _, _),) = differences({"error_message": kafka}, {"error_message": ErrorText("no", True)})
    assert str(place) == ".error_message without already exists"
    assert as_stored(kafka) == "<a message with: already exists>"


def test_values_are_found_and_shown() -> None:
    answer = {"topics": [{"configs": {"segment.bytes": 5}}]}
    assert value_at(answer, Place(("topics", 0, "configs", "segment.bytes"))) == 5
    assert value_at(answer, Place(("topics", 1))) == ABSENT
    assert as_json({"a": (b"text", b"\xff", float("nan"))}) == {"a": ["text", "0xff", "nan"]}


@pytest.mark.medium
def test_apache_kafkas_answers_are_stored_for_each_scenario() -> None:
    stored = StoredAnswers.load()
    assert len(stored) > 13_000
    assert [each.name for each in scenarios_of_kafka_3() if not any(stored.of(each.name, version) for version in range(20))] == []
