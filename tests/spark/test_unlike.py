"""Findings about what no named detector knows: services, clients and brokers that are unlike themselves for some time."""

import math
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("numpy")

from tests.spark.access_lines import PHASES, line, topic
from tests.spark.folded import cells
from tests.spark.moments import at
from tests.spark.searched import HOURS, findings, named, steady
from twisted_kafka_spark import views
from twisted_kafka_spark.cells.kinds import MINUTE_S
from twisted_kafka_spark.findings.finding import Finding
from twisted_kafka_spark.findings.general.breaks import breaks
from twisted_kafka_spark.findings.general.series import every_series

DAY = range(HOURS * 60)
INSIDE = range(180, 270)
CALM = [text for name in ("calm", "quiet", "still") for text in steady(DAY, each=1, client_id=name)]


def fetches(minutes: range, size: int, client_id: str = "reader-0", **changes: Any) -> list[str]:
    return steady(minutes, "Fetch", client_id=client_id, **({"topics": [topic("orders", 0) | {"bytes": size}]} | changes))


def apart(inside: range, do: Any) -> list[str]:
    """Return what is done in the minutes of the day outside of some."""
    return [*do(range(inside.start)), *do(range(inside.stop, HOURS * 60))]


def unlike(lines: list[str]) -> list[Finding]:
    return [each for each in findings(lines) if each.name == "unlike-itself"]


def test_a_reader_that_gets_nothing_any_more_is_named() -> None:
    found = named(CALM + apart(INSIDE, lambda minutes: fetches(minutes, 40_000)) + fetches(INSIDE, 0), "unlike-itself")
    assert (found.evidence["client_id"], found.evidence["topic"], found.evidence["measure"]) == ("reader-0", "orders", "bytes read")
    assert (found.first, found.last) == ("2026-11-21T03:00Z", "2026-11-21T04:29Z")
    assert "fewer bytes" in found.title


def test_errors_of_a_protocol_are_named_if_they_last_and_so_is_their_broker() -> None:
    lines = CALM + [text for node in (1, 2) for text in fetches(DAY, 4000, node=node)]
    lost: dict[str, Any] = {"error": "FETCH_SESSION_ID_NOT_FOUND", "topics": []}
    found = named(lines + fetches(INSIDE, 0, node=2, **lost), "unlike-itself")
    assert (found.evidence["error"], found.evidence["node"]) == ("FETCH_SESSION_ID_NOT_FOUND", 2)
    assert found.evidence["share after"] == 0.5


def test_responses_that_grow_for_everybody_are_one_finding() -> None:
    def asks(minutes: range, size: int) -> list[str]:
        return [text for name in "abcdef" for text in steady(minutes, "Metadata", each=1, client_id=name, response_bytes=size)]

    (found,) = unlike(apart(INSIDE, lambda minutes: asks(minutes, 900)) + asks(INSIDE, 90_000))
    assert found.evidence["clients"] == "6: a, b, c"
    assert "larger Metadata responses" in found.title


def test_a_client_that_begins_something_else_is_named_and_a_new_client_is_not() -> None:
    lines = CALM + fetches(DAY, 4000)
    assert unlike(lines + steady(INSIDE, each=3, client_id="nightly")) == []
    (found,) = unlike(lines + steady(INSIDE, "ListOffsets", each=3, client_id="reader-0"))
    assert "Client reader-0 began to send ListOffsets requests" in found.title


def test_many_clients_that_connect_again_at_once_are_named() -> None:
    lines = [text for n in range(12) for text in steady(DAY, each=1, client_id=f"{'abcdefghijkl'[n]}", connection=f"c{n}")]
    for n in range(12):
        lines += [
            line("ApiVersions", 0, time=at(200 + k // 6, 5 + k % 6), topics=[], client_id="abcdefghijkl"[n], connection=f"c{n}-{k}")
            for k in range(30)
        ]
    (found,) = [each for each in unlike(lines) if each.evidence["measure"] == "connections"]
    assert "12 clients of User:ANONYMOUS opened" in found.title
    assert found.first is not None
    assert found.first.endswith("03:20Z")


def test_what_everybody_does_is_the_time_of_day() -> None:
    lines = [text for name in ("a", "b", "c", "d") for text in steady(DAY, each=1, client_id=name)]
    lines += [text for name in ("a", "b", "c", "d") for text in steady(INSIDE, each=9, client_id=name)]
    assert unlike(lines) == []


def test_what_a_named_finding_says_is_not_said_again() -> None:
    lines = (
        CALM + apart(INSIDE, lambda minutes: steady(minutes, each=1, client_id="busy")) + steady(INSIDE, each=30, client_id="busy")
    )
    found = findings(lines)
    assert [each.name for each in found if each.evidence.get("client_id") == "busy"] in (["changed-load"], ["traffic-peak"])


def test_a_broker_that_stands_still_once_is_named() -> None:
    waited: dict[str, Any] = PHASES | {"request_queue_us": 90_000_000}
    lines = []
    for node in (1, 2):
        lines += steady(range(60), each=12, client_id="app", node=node) + steady(
            range(62, 120), each=12, client_id="app", node=node
        )
        lines += steady(range(62, 63), each=24, client_id="app", node=node, **waited)
    found = named(lines, "busy-threads")
    assert "all brokers once" in found.title
    assert found.first == "2026-11-21T01:00Z"


def test_a_client_that_comes_with_costly_requests_is_named_and_its_broker_is_not_slow() -> None:
    slow: dict[str, Any] = PHASES | {"local_us": 3_000_000}
    lines = [text for name in "abcdef" for text in steady(DAY, each=2, client_id=name)]
    found = findings(lines + steady(INSIDE, "DescribeLogDirs", each=1, client_id="watch", topics=[], **slow))
    (costly,) = [each for each in found if each.name == "unlike-itself"]
    assert (costly.evidence["client_id"], costly.evidence["api"], costly.first) == ("watch", "DescribeLogDirs", "2026-11-21T03:00Z")
    assert not [each for each in found if "paused" in each.title]


def test_client_ids_without_end_are_named() -> None:
    lines = CALM + [
        line("ListOffsets", 0, time=at(60 + n), topics=[], client_id=f"console-{n}", principal="User:web") for n in range(60)
    ]
    found = named(lines, "many-names")
    assert (found.evidence["principal"], found.evidence["client ids"]) == ("User:web", "60: console-0, console-1, console-10 ...")


def test_an_account_that_is_used_from_a_public_address_is_named() -> None:
    def by(address: str, minutes: range) -> list[str]:
        return steady(minutes, client_id="app", principal="User:app", connection=f"10.0.0.1:9092-{address}:40000-1")

    assert [
        each for each in findings(CALM + by("10.1.1.1", DAY) + by("10.3.1.1", range(200, 201))) if each.name == "strange-program"
    ] == []
    found = named(CALM + by("10.1.1.1", DAY) + by("185.220.4.7", range(200, 201)), "strange-program")
    assert (found.evidence["principal"], found.evidence["address"], found.first) == ("User:app", "185.220.4.7", "2026-11-21T03:20Z")


def test_a_reader_without_an_account_is_named() -> None:
    lines = [text for n in range(9) for text in steady(DAY, client_id=f"app-{n}", principal="User:app")]
    lines += fetches(range(200, 300), 900, "consumer-1", principal="User:ANONYMOUS")
    found = named(lines, "strange-program")
    assert (found.evidence["client_id"], found.evidence["topic"]) == ("consumer-1", "orders")
    assert "without an account" in found.title


def changes(client: str, minutes: range, api: str = "IncrementalAlterConfigs") -> list[str]:
    about = [{"type": "topic", "name": "orders"}]
    fields = {"topics": [], "v": 2, "resources": about, "client_id": client, "principal": f"User:{client}"}
    return [text for minute in minutes for text in steady(range(minute, minute + 1), api, each=1, **fields)]


def test_two_tools_that_set_the_same_in_turns_are_named() -> None:
    lines = CALM + changes("operator", range(10, 350, 10)) + changes("gitops", range(15, 355, 10))
    found = named(lines, "cluster-change")
    assert (found.evidence["topic"], found.evidence["principals"]) == ("orders", "User:gitops, User:operator")
    assert "in turns, 68 times" in found.title


def test_a_tool_that_watches_the_partitions_that_it_moves_is_no_finding() -> None:
    move = changes("cruise-control", range(100, 101), "AlterPartitionReassignments")
    asks = steady(
        range(101, 120), "ListPartitionReassignments", client_id="cruise-control", principal="User:cruise-control", topics=[]
    )
    assert "cluster-change" in {each.name for each in findings(CALM + move)}
    assert "cluster-change" not in {each.name for each in findings(CALM + move + asks)}


def test_only_an_older_version_of_a_library_is_a_finding() -> None:
    def with_version(minutes: range, version: str) -> list[str]:
        return steady(minutes, client_id="app-1", software_version=version)

    before, after = range(180), range(180, 360)
    assert "changed-client" not in {each.name for each in findings(with_version(before, "2.9.1") + with_version(after, "2.10.0"))}
    assert "changed-client" in {each.name for each in findings(with_version(before, "2.10.0") + with_version(after, "2.9.1"))}


def test_a_job_that_does_not_run_any_more_is_named_and_one_that_runs_is_not() -> None:
    def runs(end: int) -> list[str]:
        return [text for minute in range(7, end, 15) for text in steady(range(minute, minute + 1), each=5, client_id="import")]

    found = named(CALM + runs(200), "silent-client")
    assert (found.evidence["client_id"], found.evidence["minutes between runs"]) == ("import", 15.0)
    assert found.first == "2026-11-21T03:08Z"
    assert "silent-client" not in {each.name for each in findings(CALM + runs(HOURS * 60))}


def test_a_writer_that_saves_its_writes_up_is_named() -> None:
    lines = CALM + apart(range(120, 300), lambda minutes: steady(minutes, each=2, client_id="saver"))
    lines += [text for minute in range(120, 300, 12) for text in steady(range(minute, minute + 1), each=24, client_id="saver")]
    found = named(lines, "unlike-itself")
    assert (found.evidence["client_id"], found.evidence["measure"]) == ("saver", "idle")
    assert found.first is not None
    assert "2026-11-21T01:55Z" <= found.first <= "2026-11-21T02:10Z"


def test_what_changes_slowly_is_named_from_its_beginning() -> None:
    lines = CALM + fetches(range(200), 4000, each=6) + fetches(range(270, 360), 4000, each=6)
    lines += [
        text for minute in range(200, 270) for text in fetches(range(minute, minute + 1), 4000, each=max(0, (270 - minute) // 12))
    ]
    found = [each for each in findings(lines) if each.evidence.get("client_id") == "reader-0" and each.first is not None]
    assert found
    assert "2026-11-21T03:15Z" <= str(found[0].first) <= "2026-11-21T03:35Z"
    assert str(found[0].last)[:14] == "2026-11-21T04:"


def test_a_loss_now_and_then_all_day_is_one_finding() -> None:
    fails: dict[str, Any] = {"error": "CORRUPT_MESSAGE", "topics": [topic("orders", 0, "CORRUPT_MESSAGE")]}
    lines = CALM + steady(DAY, client_id="app")
    for minute in (20, 32, 44, 56, 70, 80, 92, 104, 165, 178, 190, 200, 270, 282, 295, 310):
        lines += steady(range(minute, minute + 1), each=1, client_id="app", **fails)
    found = named(lines, "failing-client")
    assert (found.first, found.last) == ("2026-11-21T00:20Z", "2026-11-21T05:10Z")


def test_a_topic_that_somebody_created_is_no_wrong_name() -> None:
    def begins(name: str) -> list[str]:
        return steady(DAY, client_id="app") + steady(range(200, 300), client_id="app", topics=[topic(name, 3)])

    asked = [{"type": "topic", "name": "orders.v2"}]
    makes = steady(range(190, 191), "CreateTopics", each=1, v=2, topics=[], resources=asked, client_id="gitops")
    assert "new-topic" in {each.name for each in findings(CALM + begins("order"))}
    assert "new-topic" not in {each.name for each in findings(CALM + begins("orders.v2") + makes)}


def test_a_program_of_office_hours_is_not_silent() -> None:
    assert "silent-client" not in {each.name for each in findings(CALM + steady(range(80, 290), client_id="desk"))}
    assert "silent-client" in {each.name for each in findings(CALM + steady(range(290), client_id="desk"))}


def test_what_a_program_of_office_hours_hardly_does_in_the_evening_is_no_fall() -> None:
    def asks(minutes: range) -> list[str]:
        few = [text for minute in (300, 331) for text in steady([minute], "Metadata", each=1, client_id="desk")]
        return few + steady(minutes, "Metadata", client_id="desk")

    assert findings(CALM + asks(range(80, 290))) == []
    (found,) = findings(CALM + asks(range(290)))
    assert (found.evidence["client_id"], found.first) == ("desk", "2026-11-21T04:50Z")
    assert "fewer Metadata requests" in found.title


def test_requests_that_are_more_and_fail_are_named_for_failing() -> None:
    refused: dict[str, Any] = {"error": "UNSUPPORTED_VERSION", "topics": []}
    lines = CALM + apart(INSIDE, lambda minutes: steady(minutes, each=1, client_id="old"))
    found = findings(lines + steady(INSIDE, each=8, client_id="old", **refused))
    assert "UNSUPPORTED_VERSION" in {each.evidence.get("error") for each in found if each.evidence.get("client_id") == "old"}


def test_a_daily_curve_is_no_change() -> None:
    def curve(minute: int) -> int:
        return 1 + max(0, 5 - abs(minute - 180) // 30)

    lines = CALM + [text for minute in DAY for text in steady(range(minute, minute + 1), each=curve(minute), client_id="daily")]
    assert unlike(lines) == []


def test_a_tool_that_creates_topics_may_set_configs() -> None:
    sets = changes("terraform", range(100, 101))
    makes = changes("terraform", range(101, 102), "CreateTopics")
    assert "cluster-change" in {each.name for each in findings(CALM + sets)}
    assert "cluster-change" not in {each.name for each in findings(CALM + sets + makes)}


def test_what_failed_since_before_the_first_line_is_named() -> None:
    lost: dict[str, Any] = {"error": "UNSUPPORTED_VERSION", "topics": []}
    lines = CALM + fetches(DAY, 4000) + fetches(range(150), 0, **lost)
    found = named(lines, "unlike-itself")
    assert (found.evidence["error"], found.first, found.last) == ("UNSUPPORTED_VERSION", "2026-11-21T00:00Z", "2026-11-21T02:29Z")


def test_a_reader_that_waits_longer_than_any_fetch_should_is_named() -> None:
    def waits(minutes: range, remote_us: int) -> list[str]:
        return fetches(minutes, 4000, remote_us=remote_us, total_us=remote_us + 50)

    (found,) = unlike(CALM + apart(INSIDE, lambda minutes: waits(minutes, 200_000)) + waits(INSIDE, 5_000_000))
    assert (found.evidence["client_id"], found.evidence["measure"]) == ("reader-0", "remote time")
    assert unlike(CALM + apart(INSIDE, lambda minutes: waits(minutes, 100_000)) + waits(INSIDE, 500_000)) == []


def test_one_process_that_does_not_follow_the_others_of_its_service_is_named() -> None:
    lines = CALM + [text for name in ("calm", "quiet", "still") for text in steady(INSIDE, each=2, client_id=name)]
    for name in ("cart-0", "cart-1"):
        lines += apart(INSIDE, lambda minutes, name=name: steady(minutes, each=2, client_id=name))
        lines += steady(INSIDE, each=6, client_id=name)
    (found,) = unlike(lines + steady(DAY, each=2, client_id="cart-2"))
    assert (found.evidence["client_id"], found.evidence["measure"]) == ("cart-2", "part of its service")
    assert (found.first, found.last) == ("2026-11-21T03:00Z", "2026-11-21T04:29Z")


def test_a_process_that_is_only_there_by_day_does_not_do_less_than_the_others() -> None:
    lines = steady([*range(240), 242, 251, 262], each=1, client_id="cart-2")
    for name in ("cart-0", "cart-1"):
        lines += steady(range(240), each=1, client_id=name) + steady(range(240, 360, 6), each=1, client_id=name)
    every = every_series(views.compute(cells(CALM + lines), MINUTE_S))
    (series,) = [each for each in every if each.subject.clients == ("cart-2",) and each.measure.unit == "part"]
    assert breaks(series) == []


def test_a_fleet_that_wakes_up_slowly_opens_connections_and_is_no_finding() -> None:
    lines = list(CALM)
    for minute in range(21, 220):
        for n in range(round(12 * math.sin((minute - 20) / 200 * math.pi))):
            who = {"client_id": f"panel-{(minute + n) % 30}", "connection": f"c{minute}-{n}"}
            lines += [line(api, 0, time=at(minute, 5 + n), **who) for api in ("ApiVersions", "Produce")]
    assert unlike(lines) == []


def of_load(name: str, most: int, share: Any = lambda minute: 1.0) -> list[str]:
    """Return what a service sends in the hours of an office: most at noon, hardly anything before and after."""
    counts = [(minute, most * math.sin(minute / 360 * math.pi) * share(minute)) for minute in DAY]
    return [text for minute, count in counts for text in steady([minute], each=max(1, round(count)), client_id=name)]


def test_what_falls_against_the_time_of_day_is_named() -> None:
    lines = [text for name in ("a", "b", "c", "d") for text in of_load(name, 12)]
    found = named(lines + of_load("cart", 12, lambda minute: 0.35 if minute in range(150, 210) else 1), "unlike-itself")
    assert (found.evidence["client_id"], found.evidence["measure"]) == ("cart", "requests")
    assert (found.first, found.last) == ("2026-11-21T02:30Z", "2026-11-21T03:29Z")
    assert found.evidence["requests a minute before"] > found.evidence["requests a minute after"]


def connections(minutes: Any, client_id: str, api: str = "ApiVersions") -> list[str]:
    return [
        line(api, 0, time=at(minute, 9), topics=[], client_id=client_id, connection=f"{client_id}-{minute}") for minute in minutes
    ]


def test_connections_of_everybody_that_are_few_for_each_are_named() -> None:
    names = "abcdefghijkl"
    lines = [text for name in names for text in steady(DAY, each=1, client_id=name)]
    lines += [text for place, name in enumerate(names) for text in connections(range(180 + place, 270, 12), name)]
    (found,) = [each for each in unlike(lines) if each.evidence["measure"] == "connections"]
    assert "clients of User:ANONYMOUS opened" in found.title
    assert (found.first, found.last) == ("2026-11-21T03:00Z", "2026-11-21T04:29Z")


def test_connections_that_come_now_and_then_for_hours_are_named() -> None:
    names = [f"tracker-{number}" for number in range(8)]
    lines = [text for name in names for text in steady(DAY, each=1, client_id=name)] + CALM
    lines += [text for name in names for begin in range(120, 300, 20) for text in connections([begin], name)]
    (found,) = unlike(lines)
    assert (found.evidence["measure"], found.evidence["clients"]) == ("connections", "8: tracker-0, tracker-1, tracker-2")
    assert (found.first, found.last) == ("2026-11-21T02:00Z", "2026-11-21T04:44Z")


def test_a_reader_that_commits_nothing_more_until_the_end_is_named() -> None:
    commits = steady(range(90), "OffsetCommit", client_id="reader-0", group_id="lake", topics=[topic("orders", 0)])
    found = [each for each in findings(CALM + fetches(DAY, 4000) + commits) if each.evidence.get("client_id") == "reader-0"]
    assert [each.name in ("unlike-itself", "stalled-consumer") for each in found] == [True]
    assert (found[0].evidence["group_id"], found[0].first) == ("lake", "2026-11-21T01:30Z")
    over = steady(range(90), "Fetch", client_id="job-0", group_id="jobs")
    assert unlike(CALM + over) == []


def heartbeats(minutes: range, api: str) -> list[str]:
    return steady(minutes, api, each=1, client_id="reader-0", group_id="lake", topics=[])


def test_a_reader_that_changes_to_another_protocol_is_no_finding_and_one_that_begins_a_second_is() -> None:
    begun = heartbeats(range(200, 360), "ConsumerGroupHeartbeat")
    assert unlike(CALM + fetches(DAY, 4000) + heartbeats(range(200), "Heartbeat") + begun) == []
    assert unlike(CALM + fetches(DAY, 4000) + heartbeats(DAY, "Heartbeat") + begun) != []


def test_logins_on_open_connections_are_no_connections() -> None:
    fields: dict[str, Any] = {"client_id": "app", "protocol": "SASL_PLAINTEXT", "topics": []}
    lines = CALM + steady(DAY, each=1, client_id="app") + steady([0], "ApiVersions", each=1, **fields)
    lines += [text for api in ("SaslHandshake", "SaslAuthenticate") for text in steady([0], api, each=1, **fields)]
    often = [text for api in ("SaslHandshake", "SaslAuthenticate") for text in steady(INSIDE, api, each=40, **fields)]
    (found,) = findings(lines + often)
    assert (found.evidence["client_id"], found.evidence["api"][:4], found.first) == ("app", "Sasl", "2026-11-21T03:00Z")
    assert "connections" not in found.title
    fresh = steady(INSIDE, "ApiVersions", each=40, **fields)
    assert "reconnect-storm" in {each.name for each in findings(lines + often + fresh)}
