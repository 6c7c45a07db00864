"""Findings in the log of a cluster without authentication, where all clients have the same principal."""

from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("numpy")

from tests.spark.access_lines import topic
from tests.spark.searched import HOURS, findings, named, steady
from twisted_kafka_spark.findings.finding import Finding

DAY = range(HOURS * 60)
CALM = [text for name in ("calm", "quiet", "still") for text in steady(DAY, each=1, client_id=name)]


def of_name(lines: list[str], name: str) -> list[Finding]:
    return [each for each in findings(lines) if each.name == name]


def fails(minutes: Any, client_id: str) -> list[str]:
    lost: dict[str, Any] = {"error": "REQUEST_TIMED_OUT", "topics": [topic("orders", 0, "REQUEST_TIMED_OUT")]}
    return steady(minutes, each=1, client_id=client_id, **lost)


def test_an_error_that_everybody_has_now_and_then_is_that_of_nobody() -> None:
    names = ("calm", "quiet", "still")
    rarely = [text for place, name in enumerate(names) for text in fails(range(5 + 9 * place, 350, 27), name)]
    assert of_name(CALM + rarely, "failing-client") == []
    (found,) = of_name(CALM + fails(range(5, 350, 9), "calm"), "failing-client")
    assert found.evidence["client_id"] == "calm"


def changes(api: str, minutes: Any, name: str, address: str) -> list[str]:
    about = {"topics": [], "v": 2, "resources": [{"type": "topic", "name": name}], "connection": f"h:9092-{address}:40000-0"}
    return steady(minutes, api, each=1, client_id="adminclient-1", **about)


def test_a_tool_that_changes_the_cluster_all_day_does_not_hide_a_person_at_another_address() -> None:
    tool = changes("IncrementalAlterConfigs", range(10, 350, 30), "mails", "10.1.1.1")
    found = named(CALM + tool + changes("DeleteTopics", [200], "orders", "10.1.7.7"), "cluster-change")
    assert (found.evidence["address"], found.evidence["topic"]) == ("10.1.7.7", "orders")
    assert found.title == "User:ANONYMOUS at 10.1.7.7 sent DeleteTopics: topic orders, 2026-11-21T03:20Z"


def test_two_addresses_that_set_the_same_in_turns_are_named() -> None:
    one, other = (changes("IncrementalAlterConfigs", range(at, 350, 10), "orders", f"10.1.1.{at}") for at in (1, 6))
    found = named(CALM + one + other, "cluster-change")
    assert "10.1.1.1 and User:ANONYMOUS at 10.1.1.6 changed topic orders in turns" in found.title


def test_a_service_that_aborts_is_not_hidden_by_those_that_commit() -> None:
    def ends(minutes: range, name: str, outcome: str) -> list[str]:
        of = {"id": f"{name}-tx", "outcome": outcome, "duration_ms": 90}
        return steady(minutes, "EndTxn", each=1, client_id=f"{name}-0", topics=[], transaction=of)

    lines = [text for name in ("calm", "quiet", "still") for text in ends(DAY, name, "committed")]
    lines += (
        ends(range(200), "pay", "committed") + ends(range(200, 260), "pay", "aborted") + ends(range(260, 360), "pay", "committed")
    )
    found = named(lines, "mostly-aborts")
    assert (found.evidence["client_id"], found.evidence["aborted"], found.first) == ("pay-0", 60, "2026-11-21T03:20Z")


def test_services_that_change_at_once_are_not_one() -> None:
    def writes(minutes: range, name: str, size: int) -> list[str]:
        return steady(minutes, client_id=f"{name}-0", topics=[topic(name, 5) | {"bytes": size}])

    lines = CALM + [text for name in ("cart", "pay") for text in writes(range(180), name, 900)]
    lines += writes(range(180, 360), "cart", 9_000) + writes(range(185, 360), "pay", 9_000)
    assert {each.evidence["client_id"] for each in of_name(lines, "changed-load")} == {"cart-0", "pay-0"}
