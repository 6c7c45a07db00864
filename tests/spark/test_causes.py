"""Findings name one cause once: pauses, absences and lost leaders of brokers, errors of one family, groups that were renamed."""

from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("numpy")

from tests.spark.access_lines import PHASES, line, topic
from tests.spark.folded import cells
from tests.spark.moments import at
from twisted_kafka_spark import views
from twisted_kafka_spark.cells.kinds import MINUTE_S
from twisted_kafka_spark.findings.find import find, in_order
from twisted_kafka_spark.findings.finding import Finding

EVERY = range(180)


def findings(lines: list[str]) -> list[Finding]:
    return in_order(find(views.compute(cells(lines), MINUTE_S)))


def named(lines: list[str], name: str) -> Finding:
    (found,) = [each for each in findings(lines) if each.name == name]
    return found


def sent(minutes: range | list[int], api: str = "Produce", each: int = 1, **changes: Any) -> list[str]:
    """Return requests in these minutes, with a topic."""
    fields = {"topics": [topic("orders", 10)]} | changes
    return [line(api, 0, time=at(minute, 5 + 40 * n // each), **fields) for minute in minutes for n in range(each)]


def cluster(nodes: range, without: dict[int, list[int]] | None = None, each: int = 6) -> list[str]:
    """Return requests to some brokers; `without`: minutes in which a broker has none."""
    gone = without or {}
    return [
        text
        for node in nodes
        for text in sent(
            [minute for minute in EVERY if minute not in gone.get(node, [])], each=each, node=node, client_id=f"c{node % 2}"
        )
    ]


def test_a_broker_that_pauses_again_and_again_is_named_once() -> None:
    times: dict[str, Any] = PHASES | {"request_queue_us": 7_000_000}
    lines = cluster(range(1, 4)) + sent(list(range(30, 120, 6)), each=2, node=2, client_id="c0", **times)
    found = named(lines, "busy-threads")
    assert (found.evidence["node"], found.evidence["pauses"]) == (2, 15)
    assert (found.first, found.last) == ("2026-11-21T00:30Z", "2026-11-21T01:54Z")


def test_a_few_slow_requests_are_no_slow_disk() -> None:
    times: dict[str, Any] = PHASES | {"local_us": 90_000}
    lines = cluster(range(1, 4)) + sent([20, 21, 70, 71, 120, 160], node=2, client_id="c0", **times)
    assert findings(lines) == []


def test_a_broker_that_is_away_again_and_again_is_named_once() -> None:
    away = [minute for begin in (40, 55, 70, 85) for minute in (begin, begin + 1)]
    found = named(cluster(range(1, 4), {3: away}), "absent-broker")
    assert (found.evidence["node"], found.evidence["absences"]) == (3, 4)
    assert (found.first, found.last) == ("2026-11-21T00:40Z", "2026-11-21T01:26Z")


def test_a_broker_with_few_requests_at_night_is_not_away() -> None:
    night = range(120, 180)
    lines = [text for node in (1, 2, 3) for text in sent(range(120), each=8, node=node)]
    lines += [text for node in (1, 2, 3) for text in sent([minute for minute in night if minute % 3 == node % 3], node=node)]
    assert "absent-broker" not in {each.name for each in findings(lines)}


def test_a_restart_of_each_broker_is_no_finding() -> None:
    assert findings(cluster(range(1, 4), {node: [40 + 5 * node, 41 + 5 * node] for node in range(1, 4)})) == []


def test_brokers_that_are_away_at_once_are_one_finding() -> None:
    away = list(range(60, 80))
    found = named(cluster(range(1, 7), {2: away, 5: away}, each=3), "absent-broker")
    assert (found.evidence["brokers"], found.evidence["minutes"]) == ("2, 5", 20)
    assert "2 brokers (2, 5)" in found.title


def test_a_broker_without_leaders_is_named() -> None:
    lines = cluster(range(1, 4), {1: list(range(70, 150))}) + sent(range(70, 150), "Metadata", node=1, client_id="c1", topics=[])
    found = named(lines, "fewer-leaders")
    assert found.evidence["node"] == 1
    assert found.first is not None
    assert abs(int(found.first[14:16]) + 60 * int(found.first[11:13]) - 70) <= 8


def test_errors_of_one_cause_are_one_finding() -> None:
    lines = sent(EVERY, each=2, client_id="writer")
    for n, error in enumerate(("NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS")):
        failed: dict[str, Any] = {"error": error, "topics": [], "group_id": "billing", "client_id": "billing-1"}
        lines += sent(list(range(60 + n, 90, 2)), "Heartbeat", each=2, **failed)
        lines += sent(list(range(60 + n, 90, 2)), "OffsetCommit", each=1, **failed)
    found = named(lines, "failing-client")
    assert (found.evidence["group_id"], found.evidence["client_id"]) == ("billing", "billing-1")
    assert "NOT_COORDINATOR" in found.title
    assert "COORDINATOR_LOAD_IN_PROGRESS" in found.title
    assert (found.first, found.last) == ("2026-11-21T01:00Z", "2026-11-21T01:29Z")


def test_commits_that_are_refused_for_long_are_a_finding_and_a_rebalance_is_none() -> None:
    refused: dict[str, Any] = {"error": "ILLEGAL_GENERATION", "group_id": "billing", "client_id": "billing-1"}
    calm = sent(EVERY, each=2, client_id="writer") + sent(EVERY, "Heartbeat", group_id="billing", client_id="billing-1", topics=[])
    assert findings(calm + sent([60, 61], "OffsetCommit", each=2, **refused)) == []
    assert named(calm + sent(range(60, 100), "OffsetCommit", **refused), "failing-client").evidence["group_id"] == "billing"


def test_records_that_are_lost_count_however_few_they_are() -> None:
    lost: dict[str, Any] = {"error": "MESSAGE_TOO_LARGE", "topics": [topic("mails", 0, "MESSAGE_TOO_LARGE")], "client_id": "mailer"}
    lines = sent(EVERY, each=6, client_id="mailer") + sent(list(range(40, 160, 8)), **lost)
    found = named(lines, "failing-client")
    assert (found.evidence["client_id"], found.evidence["topic"], found.evidence["errors"]) == ("mailer", "mails", 15)


def test_an_error_that_one_account_has_now_and_then_for_hours_is_a_finding_and_one_of_everybody_is_none() -> None:
    def now_and_then(principal: str, client_id: str) -> list[str]:
        gone: dict[str, Any] = {"error": "OFFSET_OUT_OF_RANGE", "topics": [topic("mails", 0, "OFFSET_OUT_OF_RANGE")]}
        reads = sent(range(240), "Fetch", each=6, client_id=client_id, principal=principal)
        return reads + sent(list(range(1, 240, 10)), "Fetch", client_id=client_id, principal=principal, **gone)

    found = named(now_and_then("User:lake", "lake-0"), "failing-client")
    assert (found.evidence["principal"], found.evidence["error"]) == ("User:lake", "OFFSET_OUT_OF_RANGE")
    assert (found.first, found.last) == ("2026-11-21T00:01Z", "2026-11-21T03:51Z")
    of_all = now_and_then("User:lake", "lake-0") + now_and_then("User:pond", "pond-0")
    assert "failing-client" not in {each.name for each in findings(of_all)}


def test_topics_that_a_principal_tries_one_after_the_other_are_a_finding() -> None:
    lines = sent(EVERY, each=2)
    for n in range(12):
        error = "TOPIC_AUTHORIZATION_FAILED"
        lines += sent([50 + n // 3], "Metadata", topics=[topic(f"pay.{n}", 0, error)], error=error, principal="User:intern")
    found = named(lines, "access-denied")
    assert (found.evidence["principal"], found.evidence["topics"][:3]) == ("User:intern", "12:")


def test_members_that_are_in_another_group_from_some_time_on_are_named() -> None:
    member: dict[str, Any] = {"client_id": "scorer-1", "topics": []}
    lines = sent(EVERY, each=2, client_id="scorer-1") + sent(range(90), "Heartbeat", group_id="scores", **member)
    found = named(lines + sent(range(91, 180), "Heartbeat", group_id="scores-v2", **member), "changed-client")
    assert (found.evidence["before"], found.evidence["after"], found.first) == ("scores", "scores-v2", "2026-11-21T01:31Z")


def test_a_stolen_account_that_reads_most_topics_is_told_from_the_service_that_it_belongs_to() -> None:
    topics = [f"t{n}" for n in range(6)]
    lines = [text for n in range(3) for text in sent(EVERY, "Fetch", client_id=f"reader-{n}", principal=f"User:r{n}")]
    for n, each in enumerate(topics):
        thief: dict[str, Any] = {"client_id": "kcat", "principal": "User:r1", "connection": "10.0.0.1:9092-10.200.7.9:40000-1"}
        lines += sent(list(range(60 + n, 80, 6)), "Fetch", topics=[topic(each, 50_000)], **thief)
    found = named(lines, "broad-reader")
    assert (found.evidence["principal"], found.evidence["client_id"], found.evidence["address"]) == (
        "User:r1",
        "kcat",
        "10.200.7.9",
    )


def test_a_changed_config_of_a_topic_is_told_and_a_created_topic_is_not() -> None:
    resources = [{"type": "topic", "name": "mails"}]
    who: dict[str, Any] = {"principal": "User:ruben", "client_id": "admin", "topics": [], "resources": resources}
    lines = sent(EVERY, each=2)
    assert findings(lines + sent([70], "CreateTopics", **who)) == []
    found = named(lines + sent([70], "IncrementalAlterConfigs", **who), "cluster-change")
    assert (found.evidence["principal"], found.evidence["topic"]) == ("User:ruben", "mails")


def test_responses_that_leave_slowly_to_everybody_name_nobody() -> None:
    times: dict[str, Any] = PHASES | {"send_us": 300_000}
    lines = [text for n in range(5) for text in sent(EVERY, "Fetch", each=2, client_id=f"reader-{n}")]
    lines += [text for n in range(5) for text in sent(range(60, 90), "Fetch", each=2, client_id=f"reader-{n}", **times)]
    assert [each.evidence["client_id"] for each in findings(lines) if each.name == "slow-readers"] == [None]


def test_a_consumer_that_waits_for_records_is_not_idle() -> None:
    nothing: dict[str, Any] = {"topics": [topic("orders", 0)], "client_id": "waiting"}
    lines = sent(EVERY, each=2, client_id="writer")
    assert findings(lines + sent(EVERY, "Fetch", each=4, **nothing, **(PHASES | {"remote_us": 500_000}))) == []
    assert named(lines + sent(EVERY, "Fetch", each=4, **nothing), "idle-poller").evidence["client_id"] == "waiting"
