"""Refusals, failed logins and plain text in the report."""

from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("numpy")

import pyarrow as pa

from tests.spark.access_lines import line, topic
from tests.spark.folded import document
from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.cells import bounds
from twisted_kafka_spark.cells.kinds import DAY_S
from twisted_kafka_spark.records.connections import address
from twisted_kafka_spark.report.page import as_html
from twisted_kafka_spark.report.terminal import as_text

DENIED = "TOPIC_AUTHORIZATION_FAILED"
LOGIN = {"listener": "SASL", "protocol": "SASL_PLAINTEXT", "error": "SASL_AUTHENTICATION_FAILED"}


def login(minute: int, remote: str, **changes: Any) -> str:
    return line("SaslAuthenticate", minute, connection=f"10.0.0.1:9092-{remote}-7", client_id=None, **LOGIN | changes)


def test_who_was_refused_what() -> None:
    alice = {"principal": "User:alice", "client_id": "a"}
    lines = [
        line("Produce", 1, **alice, error=DENIED, topics=[topic("orders", 0, DENIED), topic("logs", 5)]),
        line("Fetch", 1, **alice, error=DENIED, topics=[topic("orders", 0, DENIED)]),
        line("Fetch", 2, **alice, error=DENIED, topics=[topic("orders", 0, DENIED)]),
        line("JoinGroup", 2, v=2, **alice, error="GROUP_AUTHORIZATION_FAILED", group_id="secret"),
        line("JoinGroup", 2, principal="User:bob", client_id="b", error="UNKNOWN_MEMBER_ID"),
    ]
    for parts in ([lines], [lines[:2], lines[2:]]):
        found = document(*parts)["security"]
        assert found["refused_topics"] == [
            {"topic": "orders", "api": "Fetch", **alice, "requests": 2},
            {"topic": "orders", "api": "Produce", **alice, "requests": 1},
        ]
        assert found["refused_groups"] == [{"group_id": "secret", "api": "JoinGroup", **alice, "requests": 1}]
        assert found["refused"] == [{"api": "JoinGroup", "error": "GROUP_AUTHORIZATION_FAILED", **alice, "requests": 1}]


def test_failed_logins_by_address() -> None:
    lines = [
        login(1, "10.0.0.5:40000"),
        login(3, "10.0.0.5:40001"),
        login(3, "10.0.0.5:40002", error="UNSUPPORTED_SASL_MECHANISM"),
        login(2, "0:0:0:0:0:0:0:1:40000"),
        login(2, "10.0.0.6:40000", error=None, principal="User:alice"),
        line("Produce", 2, error="CORRUPT_MESSAGE"),
    ]
    for parts in ([lines], [lines[1:], lines[:1]]):
        found = document(*parts)
        assert [
            (row["address"], row["error"], row["requests"], row["first"][-5:], row["last"][-5:])
            for row in found["security"]["failed_logins"]
        ] == [
            ("10.0.0.5", "SASL_AUTHENTICATION_FAILED", 2, "08:01", "08:03"),
            ("0:0:0:0:0:0:0:1", "SASL_AUTHENTICATION_FAILED", 1, "08:02", "08:02"),
            ("10.0.0.5", "UNSUPPORTED_SASL_MECHANISM", 1, "08:03", "08:03"),
        ]
        assert "security: 0 refusals, 4 failed logins from 2 addresses" in as_text(found)


@pytest.mark.parametrize("grain_s", [0, DAY_S])
def test_many_failed_logins_of_an_address_are_a_finding(grain_s: int) -> None:
    few = [login(number % 5, f"10.0.0.5:{number}") for number in range(limits.FAILED_LOGINS_FLOOR - 1)]
    names = {}
    for count in (0, 1):
        lines = [*few, *[login(5, "10.0.0.5:1", error="ILLEGAL_SASL_STATE")] * count, login(2, "10.0.9.6:40000")]
        names[count] = [each for each in document(lines, grain_s=grain_s)["findings"] if each["name"] == "failed-logins"]
    assert names[0] == []
    (found,) = names[1]
    assert {name: value for name, value in found["evidence"].items() if value is not None} == {
        "address": "10.0.0.5",
        "attempts": 20,
        "errors": "ILLEGAL_SASL_STATE, SASL_AUTHENTICATION_FAILED",
        "listeners": "SASL",
    }
    assert found["where"].startswith("connection LIKE '%-10.0.0.5:%' AND ")


def test_plain_text_is_told_where_there_is_an_encrypted_listener() -> None:
    plain = [line("Fetch", 1, client_id="old"), line("Fetch", 1, client_id="older", listener="S", protocol="SASL_PLAINTEXT")]
    assert document(plain)["security"]["plain_text"] == []
    found = document([*plain, line("Fetch", 1, client_id="new", listener="SSL", protocol="SSL")])["security"]["plain_text"]
    assert [(row["client_id"], row["listener"], row["protocol"], row["requests"]) for row in found] == [
        ("old", "PLAINTEXT", "PLAINTEXT", 1),
        ("older", "S", "SASL_PLAINTEXT", 1),
    ]


def test_a_log_without_any_of_it_says_so() -> None:
    found = document([line("Fetch", 1)])
    assert not any(rows for name, rows in found["security"].items() if name != "total")
    assert not any(found["security"]["total"].values())
    assert "0 refusals, 0 failed logins." in as_html(found)
    assert "security" not in as_text(found)


def test_the_address_is_found_in_every_form_of_a_connections_id() -> None:
    assert address("kafka-1.example:9092-10.0.0.5:40000-7") == "10.0.0.5"
    assert address("127.0.0.1:9092-127.0.0.1:40000-1-7") == "127.0.0.1", "Kafka 4"
    assert address("[::1]:9092-0:0:0:0:0:0:0:1:40000-7") == "0:0:0:0:0:0:0:1"
    assert address("8a7f") is None
    assert address(None) is None


def test_totals_count_what_no_table_shows() -> None:
    logins = [login(number % 5, f"10.0.{number // 200}.{number % 200}:4000") for number in range(300)]
    refused = [
        line("Fetch", 1, client_id=f"client-{number}", error=DENIED, topics=[topic(f"topic-{number}", 0, DENIED)])
        for number in range(100)
    ]
    groups = [line("JoinGroup", 2, client_id=f"client-{number}", error="GROUP_AUTHORIZATION_FAILED") for number in range(50)]
    found = document(logins + refused + groups)
    assert len(found["security"]["failed_logins"]) < 300
    assert found["security"]["total"] == {"refusals": 150, "failed_logins": 300, "addresses": 300}
    assert "security: 150 refusals, 300 failed logins from 300 addresses" in as_text(found)
    assert "150 refusals, 300 failed logins." in as_html(found)


def test_reasons_stay_known_of_names_that_are_dropped() -> None:
    rows = [
        {"topic": f"topic-{number}", "api": "Fetch", "error": DENIED, "client_id": "a", "principal": "A", "requests": 1 + number}
        for number in range(20)
    ]
    for kind in ("errors", "topic_errors"):
        table = pa.Table.from_pylist([row | {"client_id": f"client-{row['topic']}"} for row in rows], bounds.schema(kind))
        found = bounds.bounded(kind, table, 3).to_pylist()
        assert {(row["api"], row["error"]) for row in found} == {("Fetch", DENIED)}
        assert sum(row["requests"] for row in found) == 210


def test_a_broker_of_many_is_busy_compared_to_all_of_them() -> None:
    listeners = [(node, name) for node in range(1, 61) for name in ("INTERNAL", "EXTERNAL", "CLIENTS")]
    lines = [line("Fetch", 0, node=node, listener=name, weight=100) for node, name in listeners]
    busy = line("Fetch", 0, node=61, listener="INTERNAL", weight=82_000)
    (found,) = [each for each in document([*lines, busy])["findings"] if each["name"] == "hot-broker"]
    assert found["title"] == "Broker 61 handled 82% of the requests to 61 brokers"
