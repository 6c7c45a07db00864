"""Folding batches into cells, without Spark."""

from collections import Counter
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa

from tests.spark.access_lines import line, own_line, topic
from tests.spark.folded import cells
from tests.spark.searched import steady
from twisted_kafka_spark import views
from twisted_kafka_spark.cells.fold import Folding
from twisted_kafka_spark.cells.histogram import COARSE, bucket
from twisted_kafka_spark.cells.kinds import KINDS, MEASURES


def fold(*texts: str, folding: Folding | None = None) -> list[dict[str, Any]]:
    batch = pa.record_batch({"value": pa.array([text.rstrip("\n") for text in texts])})
    return [row for made in (folding or Folding()).of_lines([batch]) for row in made.to_pylist()]


def of(kind: str, rows: list[dict[str, Any]], *columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[column] for column in columns) for row in rows if row["kind"] == kind)


def test_a_request_counts_once_whatever_its_topics() -> None:
    rows = fold(
        line("Produce", 1, topics=[topic("a", 3), topic("b", 4)]),
        line("Produce", 1, topics=[topic("a", 5)]),
        line("Produce", 2, topics=[topic("gone", 1, "X")], error="X"),
        line("Metadata", 2, throttle_us=9),
    )
    counted = [
        tuple(row[name] for name in ("api", "error", "requests", "failed", "throttled", "records", "bytes", "request_bytes"))
        for row in rows
        if row["kind"] == "traffic"
    ]
    assert Counter(counted) == Counter(
        [("Produce", None, 2, 0, 0, 12, 120, 200), ("Produce", "X", 1, 1, 0, 1, 10, 100), ("Metadata", None, 1, 0, 1, 0, 0, 100)]
    )
    assert of("topics", rows, "topic", "requests", "records", "bytes") == [("a", 2, 8, 80), ("b", 1, 4, 40), ("gone", 1, 1, 10)]


def test_each_phase_has_a_histogram() -> None:
    rows = fold(*[line("Fetch", 1)] * 3)
    phases = of("phases", rows, "phase", "bucket", "requests")
    assert [(phase, count) for phase, _, count in phases] == [
        ("local_us", 3),
        ("remote_us", 3),
        ("request_queue_us", 3),
        ("response_queue_us", 3),
        ("send_us", 3),
        ("served_us", 3),
        ("throttle_us", 3),
        ("total_us", 3),
    ]
    assert ("throttle_us", -1, 3) in phases


def test_a_sampled_line_counts_with_its_weight() -> None:
    rows = fold(line("Fetch", 1, weight=10), line("Fetch", 1))
    assert of("traffic", rows, "requests", "request_bytes", "local_us") == [(11, 1100, 220)]
    assert of("heat", rows, "requests") == [(11,)]
    assert of("lines", rows, "error", "requests") == [("read", 2)]


def test_null_is_a_separate_value() -> None:
    rows = fold(line("Fetch", 1, client_id=None), line("Fetch", 1, client_id=""), line("Fetch", 1, client_id=None))
    assert sorted((row["client_id"] is None, row["requests"]) for row in rows if row["kind"] == "clients") == [
        (False, 1),
        (True, 2),
    ]


def test_only_the_period_is_folded() -> None:
    folding = Folding(since="2026-11-21T08:02", until="2026-11-21T08:04")
    rows = fold(*[line("Fetch", minute) for minute in range(6)], folding=folding)
    assert sum(row["requests"] for row in rows if row["kind"] == "traffic") == 2


def test_runs_have_their_first_and_last_number() -> None:
    rows = fold(*[line("Fetch", 1, sequence=number) for number in (7, 5, 6)], line("Fetch", 1, node=2, sequence=100))
    assert of("runs", rows, "node", "first_us", "last_us", "requests") == [(1, 5, 7, 3), (2, 100, 100, 1)]


def test_a_line_without_a_request_counts_as_a_line_only() -> None:
    for lines in ([own_line(1, sequence=6)], [line("Fetch", 1, sequence=5), own_line(1, sequence=6), line("Fetch", 1, sequence=7)]):
        rows = fold(*lines)
        requests = len(lines) - 1
        assert of("lines", rows, "error", "requests") == [("read", len(lines))]
        assert sum(count for (count,) in of("runs", rows, "requests")) == len(lines)
        for kind in ("traffic", "heat", "clients", "connections"):
            assert sum(count for (count,) in of(kind, rows, "requests")) == requests
        assert of("topics", rows, "topic") == []


def test_lines_of_two_files_are_two_runs() -> None:
    rows = fold(*[line("Fetch", 1, sequence=number) for number in (900_000, 900_001, 1, 2, 3)])
    assert of("runs", rows, "first_us", "last_us", "requests") == [(1, 3, 3), (900_000, 900_001, 2)]


def test_every_column_of_a_cell_is_declared() -> None:
    names = {measure.name for measure in MEASURES}
    for kind in KINDS.values():
        assert set(kind.measures) <= names
    columns = set(fold(line("Fetch", 1))[0])
    assert names <= columns
    assert {key for kind in KINDS.values() for key in kind.keys} <= columns


def test_what_moves_is_counted_by_partition_in_equal_shares_of_a_line() -> None:
    def ids(*partitions: int, name: str = "a", records: int = 3) -> dict[str, Any]:
        return topic(name, records) | {"partitions": len(partitions), "partition_ids": list(partitions)}

    lines = [
        line("Produce", 1, v=2, topics=[ids(7)]),
        line("Produce", 1, v=2, topics=[ids(0, 7, records=5), ids(1, name="b")], weight=10),
        line("Fetch", 2, v=2, topics=[ids(7)]),
        line("OffsetCommit", 2, v=2, topics=[ids(9)]),
        line("Produce", 2, topics=[topic("a", 1)]),
    ]
    for texts in (lines, [text.replace('{"v":', '{ "v":') for text in lines]):  # read by position, and by Arrow
        rows = fold(*texts)
        assert of("partitions", rows, "topic", "partition", "api", "requests", "bytes") == [
            ("a", 0, "Produce", 10, 250),
            ("a", 7, "Fetch", 1, 30),
            ("a", 7, "Produce", 11, 280),
            ("b", 1, "Produce", 10, 300),
        ]
        highest = {(name, api): count for name, api, count in of("topics", rows, "topic", "api", "partitions")}
        assert highest == {("a", "Produce"): 8, ("a", "Fetch"): 8, ("a", "OffsetCommit"): 10, ("b", "Produce"): 2}


def test_groups_have_what_makes_them_rebalance_and_what_they_were_refused() -> None:
    refused = "GROUP_AUTHORIZATION_FAILED"
    rows = fold(
        line("JoinGroup", 1, v=2, group_id="g", member_id="m", generation=3),
        line("JoinGroup", 1, v=2, group_id="g", member_id="n", generation=4),
        line("JoinGroup", 1, v=2, group_id="h", member_id="n", generation=4),
        line("JoinGroup", 1),
        line("Heartbeat", 1, v=2, group_id="g", member_id="m", generation=3),
        line("OffsetFetch", 1, v=2, group_id="h", error=refused),
    )
    assert of("groups", rows, "group_id", "api", "error", "requests") == [
        ("g", "JoinGroup", None, 2),
        ("h", "JoinGroup", None, 1),
        ("h", "OffsetFetch", refused, 1),
    ]


def test_the_time_that_a_request_was_served_is_without_waits_and_throttling() -> None:
    times = {"local_us": 20_000, "remote_us": 500_000, "throttle_us": 70_000, "total_us": 590_030}
    rows = fold(line("Fetch", 1, **times), line("Produce", 1, **times))
    served = {row["api"]: row["bucket"] for row in rows if row["kind"] == "phases" and row["phase"] == "served_us"}
    assert served == {"Fetch": bucket(20_030), "Produce": bucket(520_030)}
    for kind in ("heat", "client_latency"):
        assert {row["api"]: row["bucket"] for row in rows if row["kind"] == kind} == {
            api: number // COARSE for api, number in served.items()
        }


def test_tables_have_an_order_of_their_own() -> None:
    """Equals would change places otherwise, and of equals a finding names the first."""
    kinds = [(client, api, node) for client in "ba" for api in ("Produce", "Fetch") for node in (2, 1)]
    whole = cells(*[steady(range(3), api, client_id=client, node=node) for client, api, node in kinds])
    turned = whole.take(list(reversed(range(len(whole)))))
    one, other = (views.compute_for_findings(each) for each in (whole, turned))
    assert one == other
    assert one.grids.persons.names == other.grids.persons.names
