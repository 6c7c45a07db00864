"""Findings about what changes for good, and about strangers: larger writes, weaker acks, shared groups and accounts, new names."""

from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("numpy")

import numpy as np
import pyarrow as pa

from tests.spark.access_lines import PHASES, topic
from tests.spark.folded import cells
from tests.spark.searched import HOURS, findings, named, steady
from twisted_kafka_spark import views
from twisted_kafka_spark.cells.kinds import MINUTE_S
from twisted_kafka_spark.findings.clients.steps import segment
from twisted_kafka_spark.findings.find import find

DAY = range(HOURS * 60)


def write(size: int, count: int = 5, name: str = "orders") -> dict[str, Any]:
    return {"topics": [topic(name, count) | {"bytes": size}]}


def member(api: str, minutes: range, group: str, **changes: Any) -> list[str]:
    fields = {"topics": [], "group_id": group, "member_id": f"{changes.get('client_id', 'app')}-1"} | changes
    return steady(minutes, api, each=1, **fields)


def names(lines: list[str]) -> set[str]:
    return {each.name for each in findings(lines)}


def test_a_segment_is_the_part_that_differs_most() -> None:
    values = np.log(np.array([10.0] * 30 + [40.0] * 20 + [11.0] * 30))
    assert segment(values, 9, 3.0) == (30, 49)
    assert segment(values, 9, 5.0) is None
    assert segment(np.log(np.tile([10.0, 40.0], 40)), 9, 3.0) is None


def test_a_segment_is_apart_from_the_rest() -> None:
    mixed = np.log(np.array(([10.0] * 2 + [60.0]) * 12 + [60.0] * 20 + [10.0] * 20))
    assert segment(mixed, 9, 3.0) is None


def test_writes_that_grow_for_good_are_named() -> None:
    lines = steady(range(180), client_id="orders-0", **write(900)) + steady(range(180, 360), client_id="orders-0", **write(9000))
    lines += steady(DAY, client_id="other", **write(700, name="calm"))
    found = named(lines, "changed-load")
    assert (found.evidence["client_id"], found.evidence["topic"], found.first) == ("orders-0", "orders", "2026-11-21T03:00Z")
    assert "10.0 times larger writes" in found.title


def test_writes_that_grow_with_those_of_everybody_are_the_time_of_day() -> None:
    lines = [
        text
        for name in ("a", "b", "c")
        for text in steady(range(180), client_id=name, **write(900)) + steady(range(180, 360), client_id=name, **write(9000))
    ]
    assert "changed-load" not in names(lines)


def test_requests_that_become_many_are_named_for_all_clients_of_a_service() -> None:
    lines = [text for name in ("svc-0", "svc-1") for text in steady(DAY, "Heartbeat", each=1, client_id=name, principal="User:svc")]
    for name in ("svc-0", "svc-1"):
        lines += steady(range(120, 300), "Heartbeat", each=8, client_id=name, principal="User:svc")
    lines += steady(DAY, "Heartbeat", each=1, client_id="other")
    found = [each for each in findings(lines) if each.name in ("changed-load", "traffic-peak")]
    assert [each.first for each in found] == ["2026-11-21T02:00Z"] * len(found)
    assert {"svc-0", "svc-1"} <= set(" ".join(str(each.evidence) for each in found).replace("'", " ").replace(",", " ").split())


def test_a_service_that_sends_one_record_in_each_request_is_named() -> None:
    lines = steady(range(180), each=1, client_id="orders-0", **write(20_000, 40))
    lines += steady(range(180, 360), each=8, client_id="orders-0", **write(500, 1)) + steady(DAY, client_id="other")
    found = named(lines, "tiny-batches")
    assert (found.evidence["client_id"], found.first) == ("orders-0", "2026-11-21T03:00Z")


@pytest.mark.parametrize("acks", [0, 1])
def test_weaker_acks_are_named(acks: int) -> None:
    lines = [text for name in ("pay-0", "pay-1") for text in steady(range(180), v=2, acks=-1, client_id=name)]
    lines += [text for name in ("pay-0", "pay-1") for text in steady(range(180, 360), v=2, acks=acks, client_id=name)]
    found = named(lines, "weaker-acks")
    assert (found.evidence["clients"], found.evidence["acks after"]) == ("2: pay-0, pay-1", acks)
    assert (found.first, found.last) == ("2026-11-21T03:00Z", "2026-11-21T05:59Z")


def test_acks_that_a_client_always_mixes_are_no_finding() -> None:
    lines = steady(DAY, v=2, acks=-1, client_id="both") + steady(range(0, 360, 30), v=2, acks=1, client_id="both", each=4)
    assert "weaker-acks" not in names(lines)


def test_acks_that_are_unknown_at_first_are_no_change() -> None:
    before, after = steady(range(180), client_id="pay"), steady(range(180, 360), v=2, acks=1, client_id="pay")
    assert "weaker-acks" not in names(before + after)


def test_acks_that_an_earlier_rollup_lacks_are_no_change() -> None:
    earlier, later = (cells(steady(hours, v=2, acks=1, client_id="pay")) for hours in (range(180), range(180, 360)))
    for name in ("acks_0", "acks_1", "acks_all", "aborted"):
        at = earlier.column_names.index(name)
        earlier = earlier.set_column(at, earlier.field(at), pa.nulls(len(earlier), pa.int64()))
    found = find(views.compute(pa.concat_tables([earlier, later]), MINUTE_S))
    assert "weaker-acks" not in {each.name for each in found}


def test_a_group_of_two_applications_is_named() -> None:
    lines = member("Heartbeat", DAY, "bills", client_id="bills-0", principal="User:bills")
    lines += member("Heartbeat", range(100, 300), "bills", client_id="mailer-0", principal="User:mailer")
    found = named(lines, "mixed-group")
    assert (found.evidence["group_id"], found.evidence["principal"]) == ("bills", "User:mailer")
    assert (found.first, found.last) == ("2026-11-21T01:40Z", "2026-11-21T04:59Z")


def test_a_group_that_gets_another_account_is_not_mixed() -> None:
    lines = member("Heartbeat", range(100), "bills", client_id="bills-0", principal="User:old")
    lines += member("Heartbeat", range(110, 360), "bills", client_id="bills-0", principal="User:new")
    assert "mixed-group" not in names(lines)


def test_offsets_that_an_outsider_sets_are_named() -> None:
    lines = member("Heartbeat", DAY, "bills", client_id="bills-0") + member("OffsetCommit", DAY, "bills", client_id="bills-0")
    lines += steady(range(70, 71), "OffsetCommit", each=1, client_id="adminclient-1", principal="User:li", group_id="bills")
    found = named(lines, "cluster-change")
    assert found.title == "User:li set the offsets of group bills, 2026-11-21T01:10Z"


def test_a_consumer_that_assigns_itself_partitions_sets_no_offsets_of_others() -> None:
    assert "cluster-change" not in names(steady(DAY, "OffsetCommit", each=1, client_id="own", group_id="own"))


def test_another_program_of_an_account_is_named() -> None:
    at_home: dict[str, Any] = {"connection": "10.0.0.1:9092-10.1.0.7:40000-0", "principal": "User:pay", "client_id": "pay-0"}
    away: dict[str, Any] = {"connection": "10.0.0.1:9092-10.222.4.9:40000-0", "principal": "User:pay", "client_id": "producer-1"}
    lines = steady(DAY, software="apache-kafka-java", **at_home)
    lines += steady(range(200, 240), software="kafka-python", **away)
    found = named(lines, "strange-program")
    assert (found.evidence["client_id"], found.evidence["address"], found.first) == (
        *("producer-1", "10.222.4.9"),
        "2026-11-21T03:20Z",
    )


def test_another_process_of_a_service_is_no_stranger() -> None:
    at_home: dict[str, Any] = {"connection": "10.0.0.1:9092-10.1.0.7:40000-0", "principal": "User:pay"}
    more: dict[str, Any] = {"connection": "10.0.0.1:9092-10.9.0.8:40000-0", "principal": "User:pay"}
    lines = steady(DAY, client_id="pay-0", **at_home) + steady(range(200, 360), client_id="pay-1", **more)
    assert "strange-program" not in names(lines)


def test_a_topic_that_a_client_begins_to_write_is_named() -> None:
    lines = steady(range(200), client_id="pay-0", **write(900, name="pay.bills"))
    lines += steady(range(200, 360), client_id="pay-0", **write(900, name="pay_bills"))
    found = named(lines, "new-topic")
    assert (found.evidence["topic"], found.evidence["topics before"], found.first) == (
        *("pay_bills", "pay.bills"),
        "2026-11-21T03:20Z",
    )


def test_topics_and_groups_without_end_are_named() -> None:
    lines = steady(DAY, client_id="other")
    for n in range(0, 200, 4):
        about = {"resources": [{"type": "topic", "name": f"tenant-{n}"}], "topics": [], "client_id": "tenants", "v": 2}
        lines += steady(range(n, n + 1), "CreateTopics", each=1, principal="User:tenants", **about)
        lines += member("JoinGroup", range(n, n + 1), f"smoke-{n}", client_id="smoke", principal="User:ci")
    titles = [each.title for each in findings(lines) if each.name == "many-names"]
    assert [title.split(",")[0] for title in titles] == ["User:ci used 50 groups", "User:tenants created 50 topics"]


def test_a_setup_of_many_topics_is_no_finding() -> None:
    topics = [{"type": "topic", "name": f"t-{n}"} for n in range(60)]
    lines = steady(DAY, client_id="other")
    lines += steady(range(9, 11), "CreateTopics", each=1, resources=topics, topics=[], client_id="terraform", v=2)
    assert "many-names" not in names(lines)


def test_a_service_that_aborts_for_some_hours_is_named() -> None:
    def ends(minutes: range, outcome: str) -> list[str]:
        named_ = {"id": "pay-0-tx", "outcome": outcome, "duration_ms": 90}
        return steady(minutes, "EndTxn", each=1, client_id="pay-0", topics=[], transaction=named_)

    lines = ends(range(200), "committed") + ends(range(200, 260), "aborted") + ends(range(260, 360), "committed")
    found = named(lines, "mostly-aborts")
    assert (found.evidence["transactional_id"], found.evidence["aborted"]) == ("pay-0-tx", 60)
    assert (found.first, found.last) == ("2026-11-21T03:20Z", "2026-11-21T04:19Z")


def test_clients_of_a_service_that_fail_seldom_each_count_together() -> None:
    failed: dict[str, Any] = {
        "error": "REQUEST_TIMED_OUT",
        "topics": [topic("orders", 0, "REQUEST_TIMED_OUT")],
        "principal": "User:pay",
    }
    lines = steady(DAY, client_id="other", each=4)
    for n in range(3):
        lines += steady(range(100 + n, 140, 3), each=1, client_id=f"pay-{n}", **failed)
    found = named(lines, "failing-client")
    assert (found.evidence["principal"], found.evidence["errors"]) == ("User:pay", 40)


def test_a_mixture_with_more_writes_that_wait_is_no_slow_follower() -> None:
    quick: dict[str, Any] = PHASES | {"remote_us": 0}
    waiting: dict[str, Any] = PHASES | {"remote_us": 1_600}
    slow: dict[str, Any] = PHASES | {"remote_us": 90_000}
    lines = steady(DAY, each=6, client_id="acks-1", **quick) + steady(DAY, each=2, client_id="acks-all", **waiting)
    lines += steady(range(200, 240), each=40, client_id="load-test", **waiting)
    assert "slow-follower" not in names(lines)
    lines += steady(range(100, 140), each=20, client_id="acks-all", **slow)
    assert "slow-follower" in names(lines)


def test_a_job_that_writes_more_than_the_others_once_is_no_finding() -> None:
    lines = steady(DAY, each=2, client_id="other", **write(200_000))
    lines += steady(range(100, 130), each=6, client_id="nightly-load", **write(300_000))
    assert "bulk-write" not in names(lines)
    lines += steady(range(200, 230), each=40, client_id="backfill", **write(2_000_000))
    assert [each.evidence["client_id"] for each in findings(lines) if each.name == "bulk-write"] == ["backfill"]


def by_slot(client_id: str, amounts: list[float]) -> list[str]:
    """Return a fetch in each five minutes; `amounts` are in units of 100 kB."""
    reads = [[topic("orders", 0) | {"bytes": round(100_000 * amount)}] for amount in amounts]
    return [text for slot, one in enumerate(reads) for text in steady([5 * slot], "Fetch", each=1, client_id=client_id, topics=one)]


def of_office(low: float, mid: float, high: float) -> list[float]:
    return [low] * 20 + [mid] * 12 + [high] * 7 + [mid] * 13 + [low] * 20


def test_a_peak_of_bytes_is_compared_with_the_part_of_the_others_and_not_only_with_the_median() -> None:
    reader = by_slot("reader", of_office(1, 6, 12))
    assert "bulk-read" not in names(reader + by_slot("others", of_office(1, 3, 4)))
    assert "bulk-read" in names(reader + by_slot("others", of_office(2, 2, 2)))


def test_the_hours_of_an_office_are_no_step_where_nobody_else_has_any() -> None:
    def often(minute: int) -> float:
        return 12 ** max(0.0, min(minute / 100, 1.0, (300 - minute) / 100))

    counts = [(minute, max(1, round(often(minute - 20)))) for minute in DAY]
    lines = [text for minute, count in counts for text in steady([minute], each=count, client_id="app")]
    assert "changed-load" not in names(lines)


def test_a_peak_within_a_step_is_a_part_of_it() -> None:
    lines = steady(DAY, "Heartbeat", each=1, client_id="svc") + steady(DAY, "Heartbeat", each=1, client_id="other")
    lines += steady(range(120, 300), "Heartbeat", each=30, client_id="svc")
    lines += steady(range(200, 206), "Heartbeat", each=50, client_id="svc")
    (found,) = findings(lines)
    assert (found.name, found.first, found.last) == ("changed-load", "2026-11-21T02:00Z", "2026-11-21T04:59Z")


def test_requests_that_follow_the_load_of_all_are_the_time_of_day() -> None:
    lines = [text for name in ("a", "b") for text in steady(DAY, each=1, client_id=name)]
    lines += [text for name in ("a", "b") for text in steady(range(120, 300), each=8, client_id=name)]
    lines += steady(DAY, "EndTxn", each=1, client_id="pay") + steady(range(120, 300), "EndTxn", each=8, client_id="pay")
    assert "changed-load" not in names(lines)
