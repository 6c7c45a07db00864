"""Findings that name who, where and when: a broker of many, a client, a group, a network, and what is absent, new or steady."""

from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("numpy")

from tests.spark.access_lines import PHASES, line, topic
from tests.spark.moments import at
from tests.spark.searched import HOURS, findings, named, steady


def fleet(brokers: int, minutes: range, slow: int, slow_minutes: range) -> list[str]:
    """Return requests to many brokers, one of which takes long in some minutes."""
    found = []
    for minute in minutes:
        for node in range(1, brokers + 1):
            local_us = 40_000 if node == slow and minute in slow_minutes else 300
            times = PHASES | {"local_us": local_us}
            who = {"node": node, "client_id": f"c{node % 7}", **times}
            found += [line("Produce", 0, time=at(minute, 10 * n), **who) for n in range(4)]
    return found


def test_a_slow_disk_names_its_broker_of_sixty() -> None:
    found = named(fleet(60, range(40), 17, range(20, 27)), "slow-disk")
    assert found.evidence["node"] == 17
    assert "broker 17" in found.title
    assert (found.first, found.last) == ("2026-11-21T00:20Z", "2026-11-21T00:26Z")


def test_a_broker_that_is_always_slow_is_named() -> None:
    found = named(fleet(3, range(260), 3, range(260)), "slow-disk")
    assert (found.evidence["node"], "all the time" in found.title) == (3, True)


def test_a_slow_reader_is_named() -> None:
    minutes = range(HOURS * 60)
    lines = [text for n in range(4) for text in steady(minutes, "Fetch", client_id=f"reader-{n}")]
    times = PHASES | {"send_us": 900_000}
    lines += steady(range(120, 150), "Fetch", each=3, client_id="reader-2", **times)
    found = named(lines, "slow-readers")
    assert (found.evidence["client_id"], found.first, found.last) == ("reader-2", "2026-11-21T02:00Z", "2026-11-21T02:29Z")
    assert "to client reader-2" in found.title


def test_evidence_is_that_of_the_span() -> None:
    lines = steady(range(HOURS * 60), "Produce", each=20, client_id="other")
    calm = {"error": "NOT_ENOUGH_REPLICAS", "topics": [topic("calm", 0, "NOT_ENOUGH_REPLICAS")], "client_id": "steady"}
    lines += steady(range(0, HOURS * 60, 2), "Produce", each=3, **calm)  # more in all than the burst
    burst = {"error": "NOT_ENOUGH_REPLICAS", "topics": [topic("hot", 0, "NOT_ENOUGH_REPLICAS")], "client_id": "burster"}
    lines += steady(range(200, 205), "Produce", each=60, **burst)
    found = named(lines, "error-burst")
    assert (found.evidence["client_id"], found.evidence["topic"], found.evidence["errors"]) == ("burster", "hot", 309)


def test_a_drip_of_refusals_is_named_and_is_no_idle_poller() -> None:
    lines = steady(range(HOURS * 60), "Fetch", each=5, client_id="other")
    refused = {"error": "TOPIC_AUTHORIZATION_FAILED", "topics": [topic("salaries", 0, "TOPIC_AUTHORIZATION_FAILED")]}
    lines += steady(range(60, 300), "Fetch", each=5, client_id="report-bot-1", principal="User:report", **refused)
    names = {each.name: each for each in findings(lines)}
    assert "idle-poller" not in names
    evidence = names["access-denied"].evidence
    assert (evidence["principal"], evidence["topic"], evidence["errors"]) == ("User:report", "salaries", 1200)
    assert (names["access-denied"].first, names["access-denied"].last) == ("2026-11-21T01:00Z", "2026-11-21T04:59Z")


def test_guesses_from_many_addresses_of_a_network_are_one_finding() -> None:
    lines = steady(range(120), each=3)
    for n in range(480):
        connection = f"10.0.0.1:9092-198.51.100.{n % 60 + 1}:{n}-{n}"
        failed = {"error": "SASL_AUTHENTICATION_FAILED", "connection": connection, "client_id": "guesser", "topics": []}
        lines += steady(range(60 + n // 16, 61 + n // 16), "SaslAuthenticate", each=1, **failed)
    found = named(lines, "failed-logins")
    assert (found.evidence["network"], found.evidence["attempts"]) == ("198.51.100.0/24", 480)
    assert (found.first, found.last) == ("2026-11-21T01:00Z", "2026-11-21T01:29Z")


def test_guesses_from_addresses_without_a_network_in_common_are_one_finding() -> None:
    lines = steady(range(120), each=3)
    for n in range(480):
        connection = f"10.0.0.1:9092-{n % 60 + 1}.7.{n % 60}.9:{n}-{n}"
        failed = {"error": "SASL_AUTHENTICATION_FAILED", "connection": connection, "topics": []}
        lines += steady(range(60 + n // 16, 61 + n // 16), "SaslAuthenticate", each=1, **failed)
    assert named(lines, "failed-logins").evidence["addresses"].startswith("60: ")


def test_few_logins_without_an_address_are_no_finding() -> None:
    failed = {"error": "SASL_AUTHENTICATION_FAILED", "connection": "hash", "topics": []}
    lines = steady(range(HOURS * 60), each=3) + steady(range(0, HOURS * 60, 6), "SaslAuthenticate", each=1, **failed)
    assert [each.name for each in findings(lines)] == []


def test_a_producer_that_falls_silent_is_named() -> None:
    minutes = [minute for minute in range(HOURS * 60) if not 200 <= minute < 240]
    lines = steady(range(HOURS * 60), client_id="other") + steady(iter(minutes), client_id="billing")
    found = named(lines, "silent-client")
    assert (found.evidence["client_id"], found.first, found.last) == ("billing", "2026-11-21T03:20Z", "2026-11-21T03:59Z")


def test_an_instance_that_is_replaced_is_not_silent() -> None:
    lines = steady(range(HOURS * 60), client_id="other")
    lines += steady(range(200), client_id="billing-7f9c") + steady(range(200, HOURS * 60), client_id="billing-7f9c"[:-1] + "d")
    lines += steady(range(200), client_id="mail-1") + steady(range(201, HOURS * 60), client_id="mail-2")
    assert not any(
        each.evidence.get("client_id", "").startswith("mail") for each in findings(lines) if each.name == "silent-client"
    )


def test_a_broker_that_is_away_is_named_and_a_short_restart_is_not() -> None:
    for minutes, count in ((6, 1), (3, 0)):
        lines = [
            text
            for node in (1, 2, 3)
            for text in steady(
                (each for each in range(180) if node != 2 or not 90 <= each < 90 + minutes), each=8, node=node, client_id=f"c{node}"
            )
        ]
        found = [each for each in findings(lines) if each.name == "absent-broker"]
        assert len(found) == count
    assert [each.evidence["node"] for each in found] == []


def test_a_consumer_that_commits_nothing_more_is_named() -> None:
    lines = steady(range(HOURS * 60), "Fetch", client_id="billing")
    lines += steady(
        (each for each in range(HOURS * 60) if not 200 <= each < 260), "OffsetCommit", client_id="billing", group_id="g"
    )
    found = named(lines, "stalled-consumer")
    assert (found.evidence["client_id"], found.evidence["group_id"]) == ("billing", "g")


def test_a_topic_that_nobody_reads_any_more_is_named() -> None:
    lines = steady(range(HOURS * 60), topics=[topic("orders", 10), topic("audit", 10)])
    lines += steady(range(240), "Fetch", client_id="reader", topics=[topic("orders", 10), topic("audit", 10)])
    lines += steady(range(240, HOURS * 60), "Fetch", client_id="reader", topics=[topic("orders", 10)])
    found = named(lines, "unread-topic")
    assert (found.evidence["topic"], found.evidence["client_id"], found.first) == ("audit", "reader", "2026-11-21T03:59Z")


def test_leaked_connections_are_named() -> None:
    lines = steady(range(HOURS * 60), client_id="other")
    for minute in range(60, 300):
        for n in range(6):
            connection = f"10.0.0.1:9092-10.0.0.9:{minute}-{n}"
            lines += steady(range(minute, minute + 1), "ApiVersions", each=1, client_id="web", connection=connection, topics=[])
    found = named(lines, "leaked-connections")
    assert (found.evidence["client_id"], found.evidence["connections"]) == ("web", 1440)


def test_a_group_that_rebalances_each_six_minutes_is_named() -> None:
    lines = steady(range(HOURS * 60), client_id="other")
    joins = range(60, 240, 6)
    for api in ("LeaveGroup", "JoinGroup", "SyncGroup"):
        lines += steady(joins, api, each=2, client_id="scorer", group_id="scoring", member_id="m", topics=[])
    found = named(lines, "repeated-rebalances")
    assert (found.evidence["group_id"], found.evidence["client_id"], found.evidence["rebalances"]) == ("scoring", "scorer", 30)


def test_a_partition_that_is_hot_since_some_hour_is_named() -> None:
    def part(partition: int) -> dict[str, Any]:
        return topic("orders", 10) | {"partition_ids": [partition]}

    lines = []
    for minute in range(HOURS * 60):
        for n in range(4):
            lines += steady(range(minute, minute + 1), each=1, topics=[part(n % 4 if minute < 240 or n == 0 else 3)])
            lines += steady(range(minute, minute + 1), each=1, topics=[part(n % 4 if minute < 240 else 3)])
    found = named(lines, "hot-partition")
    assert (found.evidence["topic"], found.evidence["partition"]) == ("orders", 3)
    assert (found.first, found.last) == ("2026-11-21T04:00Z", "2026-11-21T05:59Z")


def test_a_consumer_that_reads_from_the_beginning_is_named() -> None:
    lines = steady(range(HOURS * 60), client_id="other")
    for name in ("reader", "second"):
        lines += steady(range(HOURS * 60), "Fetch", client_id=name)
    lines += steady(range(120, 150), "Fetch", each=30, client_id="reader", topics=[topic("orders", 5000)])
    found = named(lines, "bulk-read")
    assert (found.evidence["client_id"], found.first, found.last) == ("reader", "2026-11-21T02:00Z", "2026-11-21T02:29Z")


def test_who_deleted_what_is_named() -> None:
    lines = steady(range(120))
    who = {"principal": "User:eve", "client_id": "adminclient-1", "connection": "10.0.0.1:9092-10.6.6.6:1-0", "v": 2}
    lines += steady(range(60, 61), "DeleteTopics", each=1, **who, topics=[topic("logs.raw.9", 0)])
    lines += steady(range(61, 62), "CreateAcls", each=1, **who, topics=[], resources=[{"type": "topic", "name": "payments"}])
    found = named(lines, "cluster-change")
    evidence = found.evidence
    assert (evidence["principal"], evidence["address"], evidence["about"]) == (
        "User:eve",
        "10.6.6.6",
        "topic logs.raw.9, topic payments",
    )


def test_a_client_that_changed_its_version_is_named() -> None:
    lines = steady(range(180), client_id="app", software_version="2.8.0")
    lines += steady(range(180, 360), client_id="app", software_version="2.5.0")
    found = named(lines, "changed-client")
    assert (found.evidence["before"], found.evidence["after"], found.first) == (
        "librdkafka 2.8.0",
        "librdkafka 2.5.0",
        "2026-11-21T03:00Z",
    )


def test_a_principal_that_reads_many_topics_is_named() -> None:
    lines = steady(range(HOURS * 60), "Fetch", client_id="reader")
    for n in range(40):
        lines += steady(range(120 + n, 121 + n), "Fetch", client_id="kcat", principal="User:new", topics=[topic(f"t{n}", 5)])
    found = named(lines, "broad-reader")
    assert (found.evidence["principal"], found.evidence["topics"][:3]) == ("User:new", "40:")


def test_a_topic_that_is_seldom_read_is_not_unread() -> None:
    lines = steady(range(HOURS * 60), topics=[topic("orders", 10), topic("audit", 10)])
    lines += steady(range(HOURS * 60), "Fetch", client_id="reader", topics=[topic("orders", 10)])
    lines += steady(range(0, 240, 15), "Fetch", client_id="reader", topics=[topic("audit", 10)])
    assert not any(each.name == "unread-topic" for each in findings(lines))
