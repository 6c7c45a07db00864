"""Findings about what is missing in part: one of a client's brokers, one of a topic's partitions."""

from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("numpy")

from tests.spark.access_lines import topic
from tests.spark.searched import HOURS, findings, named, steady

DAY = range(HOURS * 60)
GAP = range(130, 200)


def without(gap: range) -> list[int]:
    return [minute for minute in DAY if minute not in gap]


def to_brokers(client_id: str, minutes: Any, *nodes: int, each: int = 1) -> list[str]:
    return [text for node in nodes for text in steady(minutes, each=each, client_id=client_id, node=node)]


OTHERS = [text for name in ("calm", "quiet", "still") for text in to_brokers(name, DAY, 1, 2, 3)]


def test_a_client_that_does_not_reach_one_of_its_brokers_is_named() -> None:
    found = named(OTHERS + to_brokers("cart-0", DAY, 1, 2) + to_brokers("cart-0", without(GAP), 3), "unreached-broker")
    assert (found.evidence["node"], found.evidence["client_id"], found.evidence["topic"]) == (3, "cart-0", "orders")
    assert (found.first, found.last) == ("2026-11-21T02:10Z", "2026-11-21T03:19Z")
    assert found.evidence["requests missing"] == pytest.approx(70, abs=5)


def test_clients_that_do_not_reach_a_broker_at_the_same_time_are_one_finding() -> None:
    lines = [*OTHERS]
    for name in ("cart-0", "cart-1", "stock-7"):
        lines += to_brokers(name, DAY, 1, 2) + to_brokers(name, without(GAP), 3)
    found = named(lines, "unreached-broker")
    assert found.evidence["clients"] == "3: cart-0, cart-1, stock-7"


def test_a_broker_without_leaders_and_a_silent_client_are_not_named_again() -> None:
    everybody = [text for name in ("calm", "quiet", "still", "cart-0") for text in to_brokers(name, DAY, 1, 2)]
    everybody += [text for name in ("calm", "quiet", "still", "cart-0") for text in to_brokers(name, without(GAP), 3)]
    for lines in (everybody, OTHERS + to_brokers("cart-0", without(GAP), 1, 2, 3)):
        assert "unreached-broker" not in {each.name for each in findings(lines)}


def of_partition(minutes: Any, partition: int) -> list[str]:
    return steady(minutes, each=1, topics=[topic("orders", 10) | {"partition_ids": [partition]}])


def test_a_partition_that_is_written_no_more_is_named() -> None:
    lines = of_partition(DAY, 0) + of_partition(DAY, 1)
    found = named(lines + of_partition(range(180), 2), "unwritten-partition")
    assert (found.evidence["topic"], found.evidence["partition"], found.evidence["client_id"]) == ("orders", 2, "app")
    assert (found.first, found.last) == ("2026-11-21T03:00Z", "2026-11-21T05:59Z")
    assert found.evidence["writes missing"] == pytest.approx(180, abs=5)


def test_a_topic_that_is_written_no_more_is_no_finding_about_its_partitions() -> None:
    lines = [text for partition in range(3) for text in of_partition(range(180), partition)]
    lines += steady(DAY, each=2, client_id="other", topics=[topic("else", 5) | {"partition_ids": [0]}])
    assert "unwritten-partition" not in {each.name for each in findings(lines)}


def test_a_partition_that_is_seldom_written_is_no_finding() -> None:
    lines = of_partition(DAY, 0) + of_partition(DAY, 1)
    assert "unwritten-partition" not in {each.name for each in findings(lines + of_partition(range(0, 200, 9), 2))}


def of_services(minutes: Any, *names: str) -> list[str]:
    return [text for name in names for text in steady(minutes, client_id=name, principal=f"User:{name.split('-')[0]}")]


def test_clients_of_several_services_that_are_silent_for_some_minutes_at_once_are_named_and_others_later_are_others() -> None:
    lines = OTHERS + of_services(without(range(130, 138)), "cart-0", "cart-1", "stock-0")
    lines += of_services(without(range(250, 258)), "pay-0", "pay-1", "mail-0")
    first, second = sorted((each for each in findings(lines) if each.name == "silent-client"), key=lambda each: each.first or "")
    assert first.evidence["clients"] == "3: cart-0, cart-1, stock-0"
    assert (first.first, first.last) == ("2026-11-21T02:09Z", "2026-11-21T02:18Z")
    assert second.evidence["clients"] == "3: mail-0, pay-0, pay-1"
    assert first.id != second.id


def test_the_clients_of_one_service_that_are_silent_for_some_minutes_are_restarted() -> None:
    lines = OTHERS + [text for name in ("cart-0", "cart-1", "cart-2") for text in steady(without(range(130, 138)), client_id=name)]
    assert "silent-client" not in {each.name for each in findings(lines)}


def test_a_reader_that_comes_late_and_catches_up_is_named() -> None:
    def reads(minutes: range, size: int) -> list[str]:
        return steady(minutes, "Fetch", client_id="lake-0", topics=[topic("orders", 0) | {"bytes": size}])

    found = named(OTHERS + reads(range(130, 170), 90_000) + reads(range(170, 360), 9_000), "late-reader")
    assert (found.evidence["client_id"], found.first, found.last) == ("lake-0", "2026-11-21T00:00Z", "2026-11-21T02:09Z")
    assert "late-reader" not in {each.name for each in findings(OTHERS + reads(range(130, 360), 9_000))}


def test_a_broker_that_was_away_before_the_first_line_is_named() -> None:
    found = named(to_brokers("calm", DAY, 1, 2) + to_brokers("calm", range(95, 360), 3), "absent-broker")
    assert (found.evidence["node"], found.first, found.last) == (3, "2026-11-21T00:00Z", "2026-11-21T01:34Z")
    assert "before 2026-11-21T01:34Z" in found.title


def test_processes_that_others_of_their_account_replace_are_not_missed() -> None:
    lines = OTHERS + steady(range(250), client_id="cart-0", principal="User:cart")
    replaced = steady(range(251, 360), client_id="cart-7d9f-xkcd", principal="User:cart")
    assert "silent-client" in {each.name for each in findings(lines)}
    assert "silent-client" not in {each.name for each in findings(lines + replaced)}


def test_half_of_the_partitions_that_are_not_written_are_named_to_the_minute_or_so() -> None:
    """The hours before and after say by their number of writes when it began and ended."""
    lines = [text for partition in range(2) for text in of_partition(DAY, partition)]
    lines += [text for partition in (2, 3) for text in of_partition(without(range(90, 210)), partition)]
    lines += [text for partition in range(2) for text in of_partition(range(90, 210), partition)]
    found = named(lines, "unwritten-partition")
    assert found.evidence["partitions"] == "2: 2, 3"
    assert (found.first, found.last) == ("2026-11-21T01:30Z", "2026-11-21T03:29Z")


def test_a_rhythm_of_one_program_is_missed_and_one_of_a_fleet_is_chance() -> None:
    job = list(range(5, 200, 15))
    missed = [each for each in findings(OTHERS + steady(job, client_id="job-1")) if each.evidence.get("client_id") == "job-1"]
    assert [each.name for each in missed] == ["silent-client"]
    fleet = [text for number in range(2, 25) for text in steady(range(number * 7, 360, 90), client_id=f"job-{number}")]
    found = findings(OTHERS + steady(job, client_id="job-1") + fleet)
    assert not [each for each in found if each.evidence.get("client_id") == "job-1"]
