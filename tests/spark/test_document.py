"""The tables of the document: errors, latency and partitions; from lines, without Spark."""

from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("numpy")

from tests.spark.access_lines import PHASES, line, topic
from tests.spark.folded import document


def served(microseconds: int, remote_us: int = 0, throttle_us: int = 0) -> dict[str, int]:
    phases = PHASES | {"local_us": microseconds, "remote_us": remote_us, "throttle_us": throttle_us}
    return {**phases, "total_us": sum(phases.values())}


def test_errors_of_a_protocol_are_apart() -> None:
    found = document(
        [line("Heartbeat", 1, error="REBALANCE_IN_PROGRESS")] * 5
        + [line("Produce", 1, error="NOT_ENOUGH_REPLICAS", topics=[topic("orders", 0, "NOT_ENOUGH_REPLICAS")])] * 2
        + [line("Fetch", 3, client_id="other", error="OFFSET_OUT_OF_RANGE")]
        + [line("Fetch", 2)]
    )
    assert (found["total"]["failed"], found["total"]["expected"]) == (8, 5)
    assert found["time"]["errors"] == {"NOT_ENOUGH_REPLICAS": [2, 0, 0], "OFFSET_OUT_OF_RANGE": [0, 0, 1]}
    assert found["time"]["expected"] == [5, 0, 0]
    rows = {(row["api"], row["error"], row["client_id"]): (row["requests"], row["is_expected"]) for row in found["client_errors"]}
    assert rows == {
        ("Heartbeat", "REBALANCE_IN_PROGRESS", "app"): (5, True),
        ("Produce", "NOT_ENOUGH_REPLICAS", "app"): (2, False),
        ("Fetch", "OFFSET_OUT_OF_RANGE", "other"): (1, False),
    }
    assert {row["client_id"]: (row["failed"], row["expected"]) for row in found["clients"]} == {"app": (7, 5), "other": (1, 0)}
    assert {row["api"]: row["expected"] for row in found["apis"]} == {"Heartbeat": 5, "Produce": 0, "Fetch": 0}
    assert [(row["topic"], row["is_expected"]) for row in found["topic_errors"]] == [("orders", False)]


def test_errors_that_ask_a_client_to_try_again_are_no_failures() -> None:
    first_minutes = [
        *[line("Metadata", 0, error=error) for error in ("LEADER_NOT_AVAILABLE", "UNKNOWN_TOPIC_OR_PARTITION")],
        line("FindCoordinator", 0, error="COORDINATOR_NOT_AVAILABLE"),
        line("JoinGroup", 0, error="MEMBER_ID_REQUIRED"),
        line("JoinGroup", 0, error="NOT_COORDINATOR"),
        line("OffsetFetch", 0, error="COORDINATOR_LOAD_IN_PROGRESS"),
        line("ConsumerGroupDescribe", 1, error="GROUP_ID_NOT_FOUND"),
        line("DescribeAcls", 1, error="SECURITY_DISABLED"),
        line("Fetch", 1, error="FETCH_SESSION_ID_NOT_FOUND"),
        line("Fetch", 1, error="NOT_LEADER_OR_FOLLOWER"),
    ]
    found = document(first_minutes)
    assert found["total"]["failed"] == found["total"]["expected"] == len(first_minutes)
    assert found["time"]["errors"] == {}
    assert [row["expected"] for row in found["clients"]] == [len(first_minutes)]
    assert found["findings"] == []


def test_the_answer_to_a_question_is_a_failure_of_other_requests() -> None:
    found = document([line("Produce", 0, error="UNKNOWN_TOPIC_OR_PARTITION"), line("DeleteGroups", 0, error="GROUP_ID_NOT_FOUND")])
    assert (found["total"]["failed"], found["total"]["expected"]) == (2, 0)


def test_a_burst_of_requests_to_try_again_is_a_finding() -> None:
    quiet = [line("Produce", minute) for minute in range(60)] * 30
    moved = [line("Produce", minute, error="NOT_LEADER_OR_FOLLOWER") for minute in (40, 41, 42)] * 40
    assert [found["name"] for found in document(quiet + moved)["findings"]] == ["error-burst"]


def test_latency_is_by_client_and_api_and_without_long_polls_and_throttling() -> None:
    lines = [line("Fetch", minute, **served(1_000, remote_us=500_000)) for minute in range(10)]
    lines += [line("Produce", minute, **served(20_000, throttle_us=900_000)) for minute in range(5)]
    lines += [line("Produce", 9, client_id="other", **served(100, remote_us=50_000))]
    found = document(lines)
    times = {(row["client_id"], row["api"]): (row["requests"], row["served_us"]["p50"]) for row in found["client_apis"]}
    assert times == {
        ("app", "Fetch"): (10, pytest.approx(1_030, rel=0.11)),
        ("app", "Produce"): (5, pytest.approx(20_030, rel=0.11)),
        ("other", "Produce"): (1, pytest.approx(50_130, rel=0.11)),
    }
    assert {row["api"]: row["served_us"]["p50"] for row in found["apis"]} == {
        "Fetch": pytest.approx(1_030, rel=0.025),
        "Produce": pytest.approx(20_030, rel=0.025),
    }
    over_time: dict[str, Any] = {each["api"]: each["quantiles_us"] for each in found["latency"]}
    assert over_time["Produce"]["p99"][0] == pytest.approx(20_030, rel=0.11)
    assert over_time["Produce"]["p99"][7] is None
    assert over_time["Fetch"]["p95"][7] == pytest.approx(1_030, rel=0.11)


def test_partitions_have_their_share_of_what_is_produced_to_their_topic() -> None:
    def to(partition: int, size: int) -> dict[str, Any]:
        return topic("orders", size // 10) | {"partition_ids": [partition]}

    lines = [line("Produce", 1, v=2, topics=[to(3, 900)])] * 70 + [line("Produce", 1, v=2, topics=[to(5, 100)])] * 70
    hot, cold = document(lines)["partitions"]
    assert (hot["topic"], hot["partition"], hot["partitions"], hot["requests"]) == ("orders", 3, 6, 70)
    assert (hot["produced_bytes"], hot["produced_share"], cold["produced_share"]) == (63_000, 0.9, 0.1)


def test_lines_without_a_record_are_all_counted_however_many_texts_they_have() -> None:
    found = document([line("Fetch", 0)], *([f"not a request {number:03}\n"] * 2 for number in range(150)))
    assert found["source"]["lines"] == {"read": 1, "garbled": 300}
    assert found["source"]["samples"] == {"garbled": ["not a request 000"]}
    assert [each["title"] for each in found["findings"]] == ["300 of 301 lines could not be parsed"]
