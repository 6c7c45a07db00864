"""One cause is one finding, which names who acts and where; and what is there each day is none."""

from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("numpy")

from tests.spark.access_lines import PHASES, topic
from tests.spark.searched import findings, named, steady

DAY, SERVICES = range(180), ("cart", "stock", "mailer", "search")
INSIDE, AFTER = range(80, 130), range(80, 180)


def service(name: str, minutes: Any, *, each: int = 1, **changes: Any) -> list[str]:
    who = {"client_id": f"{name}-0", "principal": f"User:{name}", "topics": [topic(f"{name}.events", 10)]}
    return steady(minutes, each=each, **(who | changes))


CALM = [text for name in SERVICES for text in service(name, DAY, each=2)]


def without(gap: range) -> list[int]:
    return [minute for minute in DAY if minute not in gap]


def names(lines: list[str]) -> list[str]:
    return [each.name for each in findings(lines)]


def test_a_new_account_that_writes_among_the_records_of_others_is_named() -> None:
    person: dict[str, Any] = {"client_id": "console-producer", "principal": "User:kim", "connection": "h:9092-10.1.1.7:40000-0"}
    found = named(CALM + service("cart", range(120, 125), **person), "new-writer")
    assert (found.evidence["principal"], found.evidence["topic"]) == ("User:kim", "cart.events")
    assert (found.evidence["writers before"], found.evidence["address"]) == ("User:cart", "10.1.1.7")
    assert (found.first, found.last) == ("2026-11-21T02:00Z", "2026-11-21T02:04Z")


def test_a_broker_that_leads_the_partitions_of_the_others_is_one_finding() -> None:
    lines = [text for name in SERVICES for node in (1, 2) for text in service(name, without(INSIDE), each=1, node=node)]
    lines += [text for name in SERVICES for text in service(name, without(INSIDE), each=1, node=3)]
    lines += [text for name in SERVICES for text in service(name, INSIDE, each=3, node=3)]
    lines += [text for node in (1, 2) for text in service("cart", DAY, api="Metadata", each=1, node=node)]
    (found,) = findings(lines)
    assert (found.name, found.evidence["node"]) == ("hot-broker", 3)
    assert found.first is not None
    assert abs(int(found.first[11:13]) * 60 + int(found.first[14:16]) - INSIDE.start) <= 6


def test_logins_of_one_service_that_fail_are_one_finding_and_its_silence_and_its_connections_are_none() -> None:
    lines = CALM + service("billing", range(INSIDE.start), each=3)
    for n in range(3):
        address: dict[str, Any] = {"connection": f"h:9092-10.1.1.{n}:40000-0", "client_id": f"billing-{n}", "topics": []}
        lines += steady(AFTER, "ApiVersions", each=2, **address)
        lines += steady(AFTER, "SaslHandshake", each=2, error="UNSUPPORTED_SASL_MECHANISM", **address)
    (found,) = findings(lines)
    assert (found.name, found.evidence["attempts"]) == ("failed-logins", 600)
    assert "billing-0, billing-1, billing-2 at 3 addresses" in found.title


def test_a_slow_broker_and_a_client_that_is_slow_everywhere_are_two_findings() -> None:
    lines: list[str] = []
    for node in (1, 2, 3):
        for name in ("cart", "stock", "mailer"):
            slow = PHASES | {"local_us": 90_000}
            lines += service(name, DAY if node != 2 else without(range(100, 130)), each=2, node=node)
            lines += service(name, range(100, 130), each=2, node=node, **slow) if node == 2 else []
        lines += service("search", without(range(20, 65)), each=2, node=node)
        lines += service("search", range(20, 65), each=2, node=node, **(PHASES | {"local_us": 9_000}))
    found = [each for each in findings(lines) if each.name == "slow-disk"]
    assert {(each.evidence["node"], each.evidence["client_id"]) for each in found} == {(2, None), (None, "search-0")}
    assert any("in several brokers" in each.title for each in found)


def test_a_peak_of_many_jobs_names_their_account() -> None:
    lines = [*CALM]
    for n in range(50):
        lines += steady(range(120, 124), "Fetch", each=5, client_id=f"report-job-{n}", principal="User:batch")
    found = named(lines, "traffic-peak")
    assert (found.evidence["principal"], found.evidence["clients"][:3]) == ("User:batch", "50:")
    assert "from 50 clients of User:batch" in found.title


def test_a_group_that_loses_its_right_for_some_minutes_is_named() -> None:
    member: dict[str, Any] = {"topics": [], "group_id": "cart", "client_id": "cart-0", "principal": "User:cart"}
    lines = CALM + steady(without(range(100, 108)), "Heartbeat", each=2, **member)
    found = named(
        lines + steady(range(100, 108), "Heartbeat", each=2, error="GROUP_AUTHORIZATION_FAILED", **member), "access-denied"
    )
    assert (found.evidence["group_id"], found.first, found.last) == ("cart", "2026-11-21T01:40Z", "2026-11-21T01:47Z")


def test_writes_of_a_fenced_producer_count_however_soon_they_end() -> None:
    lost: dict[str, Any] = {"error": "INVALID_PRODUCER_EPOCH", "topics": [topic("cart.events", 0, "INVALID_PRODUCER_EPOCH")]}
    found = named(CALM + service("cart", range(100, 106), each=2, **lost), "failing-client")
    assert (found.evidence["client_id"], found.evidence["errors"]) == ("cart-0", 12)


def test_habits_of_each_day_are_no_findings() -> None:
    lines = [*CALM]
    for minute in range(1, 179, 4):  # functions, each for a minute or two
        hook: dict[str, Any] = {
            "client_id": f"hook-fn-{minute + 4096:05x}",
            "principal": "User:hooks",
            "topics": [topic("hooks", 1)],
        }
        lines += steady([minute], each=2, **hook)
    lines += steady(DAY, "ApiVersions", each=5, client_id="probe", topics=[])  # a probe beside a broker, which connects each time
    for run in range(32):  # a build server that tidies up
        tests: dict[str, Any] = {
            "client_id": "ci",
            "principal": "User:ci",
            "topics": [],
            "resources": [{"type": "topic", "name": f"ci-{run}"}],
        }
        lines += steady([run * 5], "CreateTopics", each=1, **tests) + steady([run * 5 + 2], "DeleteTopics", each=1, **tests)
        lines += steady([run * 5 + 1], each=1, client_id="ci", principal="User:ci", topics=[topic(f"ci-{run}", 1)])
    lines += service("cart", DAY, each=1, topics=[topic("cart.events", 9_000)])  # of four topics, one has nearly all bytes
    for start in (40, 95, 150):  # a developer
        lines += steady(range(start, start + 9), "Fetch", each=12, client_id="dev-anna", principal="User:anna")
    assert names(lines) == []


def test_processes_of_one_service_that_ask_more_at_once_are_one_finding() -> None:
    lines = [*CALM]
    for n in range(2):
        asks: dict[str, Any] = {"client_id": f"scorer-{n}", "principal": "User:scorer", "topics": []}
        lines += steady(DAY, "FindCoordinator", each=1, **asks) + steady(INSIDE, "FindCoordinator", each=40 + n, **asks)
    (found,) = findings(lines)
    assert found.evidence["clients"] == "2: scorer-0, scorer-1"
    assert "2 clients of User:scorer" in found.title


def test_failures_from_an_address_of_their_own_name_it() -> None:
    lost: dict[str, Any] = {"error": "INVALID_PRODUCER_EPOCH", "topics": [topic("cart.events", 0, "INVALID_PRODUCER_EPOCH")]}
    lines = CALM + service("cart", range(100, 106), each=2, connection="h:9092-10.3.77.9:40000-0", **lost)
    assert "cart-0 at 10.3.77.9, a new address, failed" in named(lines, "failing-client").title


def test_who_guesses_passwords_with_many_names_is_one_finding() -> None:
    lines = [*CALM]
    for n in range(70):
        guess: dict[str, Any] = {"client_id": f"client-{n}", "connection": f"h:9092-45.155.205.{n}:40000-0", "topics": []}
        lines += steady([60 + n // 2], "SaslHandshake", each=1, **guess)
        lines += steady([60 + n // 2], "SaslAuthenticate", each=1, error="SASL_AUTHENTICATION_FAILED", **guess)
    assert names(lines) == ["failed-logins"]


def test_a_topic_that_is_deleted_again_and_again_is_one_finding() -> None:
    person: dict[str, Any] = {"client_id": "adminclient-1", "principal": "User:lena", "connection": "h:9092-10.1.1.9:40000-0"}
    deleted = [text for at in (50, 95, 140) for text in service("old", [at], **person, api="DeleteTopics")]
    found = named(CALM + deleted, "cluster-change")
    assert (found.first, found.last) == ("2026-11-21T00:50Z", "2026-11-21T02:20Z")


def test_delegation_tokens_without_end_are_a_finding_and_a_few_or_those_of_each_day_are_none() -> None:
    def creates(minutes: Any) -> list[str]:
        return service("spark", minutes, api="CreateDelegationToken", topics=[])

    found = named(CALM + creates(range(80, 180, 3)), "cluster-change")
    assert (found.evidence["principal"], found.evidence["apis"]) == ("User:spark", "CreateDelegationToken")
    assert (found.first, found.last) == ("2026-11-21T01:20Z", "2026-11-21T02:59Z")
    assert names(CALM + creates(range(80, 180, 30))) == []
    assert "cluster-change" not in names(CALM + creates(range(0, 180, 3)))


def test_a_report_that_comes_and_reads_one_topic_is_none() -> None:
    def reads(*names: str) -> list[str]:
        fetched = [[topic(each, 0) | {"bytes": 3_000_000}] for each in names]
        return [text for each in fetched for text in service("weekly", range(90, 120), api="Fetch", each=20, topics=each)]

    readers = [text for name in SERVICES for text in service(name, DAY, api="Fetch", each=2)]
    assert names(CALM + readers + reads("cart.events")) == []
    assert "bulk-read" in names(CALM + readers + reads("cart.events", "stock.events", "mailer.events"))


def test_a_silence_is_as_long_as_it_is_and_not_as_its_whole_intervals() -> None:
    found = named(CALM + service("billing", without(range(102, 134))), "silent-client")
    assert (found.evidence["client_id"], found.evidence["requests missing"]) == ("billing-0", 31)
    assert "silent-client" not in names(CALM + service("billing", without(range(102, 130))))


def test_a_disk_that_fails_is_one_finding_in_a_log_that_does_not_name_its_broker() -> None:
    lines = [text for name in SERVICES for text in service(name, DAY, each=2, node=None)]
    for name in SERVICES:
        lost: dict[str, Any] = {"error": "KAFKA_STORAGE_ERROR", "topics": [topic(f"{name}.events", 0, "KAFKA_STORAGE_ERROR")]}
        lines += service(name, range(100, 125, 2), node=None, **lost)
    assert "of 4 clients to the broker failed with KAFKA_STORAGE_ERROR" in named(lines, "failing-client").title
