"""Findings about what somebody does for the first time: other topics, processes beside the old, versions of a broker's APIs."""

from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("numpy")

from tests.spark.access_lines import topic
from tests.spark.searched import HOURS, findings, steady
from twisted_kafka_spark.findings.finding import Finding

DAY = range(HOURS * 60)
INSIDE = range(180, 270)
TOPICS = ("orders", "mails", "points")
OTHERS = [
    text
    for name in TOPICS
    for text in steady(DAY, each=1, client_id=f"{name}-0", principal=f"User:{name}", topics=[topic(name, 10)])
]


def reads(minutes: Any, name: str, **changes: Any) -> list[str]:
    fields = {"client_id": "etl-0", "principal": "User:etl", "topics": [topic(name, 0) | {"bytes": 4000}]} | changes
    return steady(minutes, "Fetch", each=1, **fields)


def of_measure(lines: list[str], measure: str) -> list[Finding]:
    return [each for each in findings(lines) if each.evidence.get("measure") == measure]


def test_a_service_that_reads_what_it_never_read_is_named() -> None:
    (found,) = of_measure(OTHERS + reads(DAY, "orders") + reads(INSIDE, "mails") + reads(INSIDE, "points"), "topics")
    assert (found.evidence["client_id"], found.evidence["topics"]) == ("etl-0", "2: mails, points")
    assert (found.first, found.last) == ("2026-11-21T03:00Z", "2026-11-21T04:29Z")
    assert "began to read 2 topics that it had never read" in found.title


def test_one_more_topic_from_some_time_on_is_a_deployment() -> None:
    assert of_measure(OTHERS + reads(DAY, "orders") + reads(range(180, 360), "mails"), "topics") == []


def test_a_program_that_often_reads_something_new_does_so_habitually() -> None:
    lines = OTHERS + reads(DAY, "orders")
    for number in range(4):
        begin = 70 + 70 * number
        lines += [text for name in "ab" for text in reads(range(begin, begin + 30), f"{name}{number}")]
        lines += [text for name in "ab" for text in steady(range(10), topics=[topic(f"{name}{number}", 1)])]
    assert of_measure(lines, "topics") == []


def test_topics_that_are_new_to_everybody_are_not_new_to_one() -> None:
    names = ("bills", "labels")
    about: dict[str, Any] = {"v": 2, "topics": [], "resources": [{"type": "topic", "name": name} for name in names]}
    made = steady([60], "CreateTopics", each=1, client_id="gitops", **about)
    later = [text for name in names for text in reads(INSIDE, name)]
    for begin, lines in ((170, []), (65, made)):
        wrote = [text for name in names for text in steady(range(begin, 360), topics=[topic(name, 1)])]
        assert of_measure(OTHERS + reads(DAY, "orders") + lines + wrote + later, "topics") == []
    assert of_measure(OTHERS + reads(DAY, "orders") + wrote + later, "topics") != []


def test_a_program_that_did_hardly_anything_before_begins_its_work() -> None:
    lines = OTHERS + reads(INSIDE, "mails") + reads(INSIDE, "points")
    assert of_measure(lines + reads(range(0, 180, 20), "orders"), "topics") == []


def test_a_reader_of_much_is_one_finding() -> None:
    much = reads(range(180, 220), "mails", topics=[topic("mails", 0) | {"bytes": 3_000_000}])
    found = findings(OTHERS + reads(DAY, "orders") + much)
    assert [each.name for each in found if each.evidence.get("client_id") == "etl-0"] == ["bulk-read"]


def writes(minutes: Any, client_id: str, **changes: Any) -> list[str]:
    return steady(minutes, each=1, **({"client_id": client_id, "principal": "User:cart", "topics": [topic("cart", 5)]} | changes))


def test_new_processes_that_write_beside_the_old_are_named() -> None:
    lines = OTHERS + writes(DAY, "cart-0") + writes(DAY, "cart-1")
    (found,) = of_measure(lines + writes(INSIDE, "cart-green-0") + writes(INSIDE, "cart-green-1"), "processes")
    assert (found.evidence["clients"], found.evidence["clients before"]) == ("2: cart-green-0, cart-green-1", "2: cart-0, cart-1")
    assert (found.first, found.last) == ("2026-11-21T03:00Z", "2026-11-21T04:29Z")


def test_new_processes_that_replace_the_old_or_belong_to_nobody_are_not() -> None:
    replaced = writes(range(180), "cart-0") + writes(range(180, 360), "cart-green-0")
    nobodys = writes(DAY, "cart-0", principal="User:ANONYMOUS") + writes(INSIDE, "test", principal="User:ANONYMOUS")
    assert of_measure(OTHERS + replaced, "processes") == []
    assert of_measure(OTHERS + nobodys, "processes") == []
    assert of_measure(OTHERS + writes(DAY, "cart-0") + writes(range(180, 270, 4), "cart-probe"), "processes") == []


def test_an_account_of_many_programs_gets_one_more() -> None:
    old = [text for name in ("cart-0", "pay", "stock", "mail") for text in writes(DAY, name, topics=[topic(name.split("-")[0], 5)])]
    new = writes(INSIDE, "import-0", topics=[topic("cart", 5)])
    assert of_measure(OTHERS + writes(DAY, "cart-0") + new, "processes") != []
    assert of_measure(OTHERS + old + new, "processes") == []


def asks(minutes: Any, node: int, version: int) -> list[str]:
    return [text for api in ("Fetch", "Metadata") for text in steady(minutes, api, each=1, node=node, version=version)]


def test_an_upgrade_that_stops_halfway_is_named() -> None:
    old = [text for node in (1, 3) for text in asks(DAY, node, 11)]
    (found,) = of_measure(old + asks(range(180), 2, 11) + asks(range(180, 360), 2, 12), "versions")
    assert (found.evidence["node"], found.evidence["versions"]) == (2, "Fetch v12, Metadata v12")
    assert (found.first, found.last) == ("2026-11-21T03:00Z", "2026-11-21T05:59Z")


def test_brokers_that_are_upgraded_one_after_the_other_are_one_finding() -> None:
    old = [text for node in (1, 2) for text in asks(DAY, node, 11)]
    new = [text for node, at in ((3, 200), (4, 180)) for text in asks(range(at), node, 11) + asks(range(at, 360), node, 12)]
    (found,) = of_measure(old + new, "versions")
    assert (found.evidence["brokers"], found.first) == ("3, 4", "2026-11-21T03:00Z")
    assert "2 of 4 brokers, first broker 4, are asked with other API versions" in found.title


def test_an_upgrade_of_all_brokers_or_of_one_client_is_not() -> None:
    every = [text for node in (1, 2, 3) for text in asks(range(100 + 20 * node), node, 11)]
    every += [text for node in (1, 2, 3) for text in asks(range(100 + 20 * node, 360), node, 12)]
    assert of_measure(every, "versions") == []
    old = [text for node in (1, 2, 3) for text in asks(DAY, node, 11) + asks(DAY, node, 11) + asks(DAY, node, 11)]
    assert of_measure(old + asks(range(180, 360, 4), 2, 12), "versions") == []


def test_one_api_or_a_mixture_of_each_day_is_no_upgrade() -> None:
    old = [text for node in (1, 3) for text in asks(DAY, node, 11)]
    one = steady(DAY, "Metadata", each=1, node=2, version=11)
    for version, minutes in ((11, range(180)), (12, range(180, 360))):
        one += steady(minutes, "Fetch", each=1, node=2, version=version)
    assert of_measure(old + one, "versions") == []
    mixed = asks(DAY, 1, 12) + asks(DAY, 3, 11)
    assert of_measure(mixed + asks(range(180), 2, 11) + asks(range(180, 360), 2, 12), "versions") == []
