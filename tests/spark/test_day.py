"""A synthetic day: exactly its incidents are found, and DuckDB recomputes every number from the same lines."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from tests.spark import report_schema
from twisted_kafka_spark.cells.histogram import QUANTILES, WORST_ERROR, quantile_name
from twisted_kafka_spark.findings.find import NAMES
from twisted_kafka_spark.pipeline.job import Job, run
from twisted_kafka_spark.records.schema import PHASES
from twisted_kafka_spark.report.page import as_html
from twisted_kafka_spark.synthetic.day import Day
from twisted_kafka_spark.synthetic.incidents import INCIDENTS

ROWS = 40_000


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("day")
    Day(ROWS, INCIDENTS).write(directory)
    return directory


@pytest.fixture(scope="module")
def document(spark: Any, day: Path) -> dict[str, Any]:
    return run(spark, Job(paths=[str(day)]))


@pytest.fixture(scope="module")
def duck(day: Path) -> Any:
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE log AS SELECT * FROM read_json('{day}/*/*/*.jsonl', format='newline_delimited')")
    connection.execute('CREATE TABLE transactions AS SELECT unnest("transaction") FROM log WHERE "transaction" IS NOT NULL')
    connection.execute("DELETE FROM log WHERE api IS NULL")
    connection.execute(
        "CREATE TABLE topics AS SELECT *, unnest(topics, recursive := true) AS entry FROM (SELECT api, topics FROM log)"
    )
    return connection


def test_exactly_the_incidents_are_found(document: dict[str, Any]) -> None:
    assert sorted(found["name"] for found in document["findings"]) == sorted(incident.finding for incident in INCIDENTS)
    assert {incident.finding for incident in INCIDENTS} <= set(NAMES)
    times = {found["name"]: found["first"] for found in document["findings"]}
    for incident in INCIDENTS:
        if incident.minutes < 24 * 60:
            assert times[incident.finding] == f"2026-11-20T{incident.first_minute // 60:02}:{incident.first_minute % 60:02}Z"


def test_its_report_has_the_documented_schema(document: dict[str, Any]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(report_schema.PATH.read_text())
    jsonschema.validate(json.loads(json.dumps(document, default=str)), schema)
    assert set(document) == set(schema["properties"]), "run python -m tests.spark.report_schema"


@pytest.mark.slow
def test_the_filter_of_each_finding_selects_its_lines(spark: Any, document: dict[str, Any], day: Path) -> None:
    from twisted_kafka_spark.records.schema import access_log_schema

    log = spark.read.schema(access_log_schema()).json([str(path) for path in day.rglob("*.jsonl")]).persist()
    for found in document["findings"]:
        shown = log.where(found["where"]).count()
        exact = {"error-burst": "errors", "throttled-client": "throttled requests", "old-client": "requests"}.get(found["name"])
        assert shown == found["evidence"][exact] if exact else shown >= 20, found["name"]
    log.unpersist()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_quiet_day_has_no_finding(spark: Any, tmp_path: Path, seed: int) -> None:
    Day(60_000, seed=100 + seed).write(tmp_path)
    assert run(spark, Job(paths=[str(tmp_path)]))["findings"] == []


def test_totals_and_apis(document: dict[str, Any], duck: Any) -> None:
    sums = "count(*), count(error), sum(request_bytes), sum(response_bytes), sum(total_us), count(*) FILTER (throttle_us > 0)"
    names = ("requests", "failed", "request_bytes", "response_bytes", "total_us", "throttled")
    assert tuple(document["total"][name] for name in names) == duck.execute(f"SELECT {sums} FROM log").fetchone()
    expected = duck.execute(f"SELECT api, max(total_us), {sums} FROM log GROUP BY api").fetchall()
    found = {row["api"]: row for row in document["apis"]}
    assert set(found) == {row[0] for row in expected}
    for api, longest, requests, failed, *_ in expected:
        assert (found[api]["requests"], found[api]["failed"], found[api]["max_us"]) == (requests, failed, longest)
    for phase in PHASES:
        for api, mean in duck.execute(f"SELECT api, avg({phase}) FROM log GROUP BY api").fetchall():
            assert found[api]["phases"][phase]["mean"] == pytest.approx(mean, abs=0.06)


def test_quantiles_are_within_the_stated_error(document: dict[str, Any], duck: Any) -> None:
    for row in document["apis"]:
        check_quantiles(row["total_us"], duck, "total_us", row["api"])


def test_quantiles_of_each_phase_are_within_the_stated_error(document: dict[str, Any], duck: Any) -> None:
    checked = 0
    for row in document["apis"]:
        for phase in PHASES:
            checked += check_quantiles(row["phases"][phase], duck, phase, row["api"])
    assert checked > len(QUANTILES) * len(PHASES)  # not all of them are of phases that took no time


def check_quantiles(quantiles: dict[str, Any], duck: Any, column: str, api: str) -> int:
    """Compare with the values of these ranks; return how many are not zero."""
    times = [value for (value,) in duck.execute(f"SELECT {column} FROM log WHERE api = ?", [api]).fetchall()]
    return check_ranks(quantiles, times)


def check_ranks(quantiles: dict[str, Any], times: list[int]) -> int:
    times.sort()
    exact = {share: times[max(1, math.ceil(share * len(times))) - 1] for share in QUANTILES}
    for share, value in exact.items():
        assert quantiles[quantile_name(share)] == pytest.approx(value, rel=WORST_ERROR + 0.001), share
    return sum(value > 0 for value in exact.values())


def test_over_time(document: dict[str, Any], duck: Any) -> None:
    tick_s = document["period"]["tick_s"]
    tick = f"floor(epoch(time::TIMESTAMP))::BIGINT // {tick_s} * {tick_s}"
    rows = duck.execute(f"SELECT {tick} AS tick, api, count(*), count(error) FROM log GROUP BY ALL").fetchall()
    time = document["time"]
    assert sum(row[3] for row in rows) == sum(time["failed"])
    for tick in range(0, len(time["ticks"]), 17):  # type: ignore[assignment]
        second = min(row[0] for row in rows) + tick * tick_s
        counted = sum(row[2] for row in rows if row[0] == second)
        assert sum(values[tick] for values in time["requests"].values()) == counted


def test_clients_topics_versions_errors(document: dict[str, Any], duck: Any) -> None:
    clients = duck.execute("SELECT client_id, count(*), count(error), sum(total_us) FROM log GROUP BY 1").fetchall()
    assert {(row["client_id"], row["requests"], row["failed"], row["total_us"]) for row in document["clients"]} == set(clients)
    topics = duck.execute(
        "SELECT topic, count(*), sum(bytes), sum(bytes) FILTER (api = 'Produce'), sum(records) FROM topics GROUP BY 1"
    ).fetchall()
    expected = {row[0]: row[1:] for row in topics}
    assert document["topic_total"]["topics"] == len(expected)
    for row in document["topics"]:
        requests, size, produced, records = expected[row["topic"]]
        assert (row["requests"], row["bytes"], row["produced_bytes"], row["records"]) == (requests, size, produced or 0, records)
    versions = duck.execute("SELECT api, version, count(*) FROM log GROUP BY ALL").fetchall()
    assert {(row["api"], int(each), n) for row in document["versions"] for each, n in row["versions"].items()} == set(versions)
    errors = duck.execute("SELECT api, error, count(*) FROM log WHERE error IS NOT NULL GROUP BY ALL").fetchall()
    assert {(row["api"], row["error"], row["requests"]) for row in document["errors"]} == set(errors)
    connections = dict(duck.execute("SELECT connection, count(*) FROM log GROUP BY 1").fetchall())
    assert all(connections[row["connection"]] == row["requests"] for row in document["connections"])


def test_transactions(document: dict[str, Any], duck: Any) -> None:
    found = document["transactions"]
    ended = duck.execute(
        "SELECT id, outcome, count(*), sum(duration_ms), max(duration_ms) FROM transactions GROUP BY ALL"
    ).fetchall()
    rows = {row["transactional_id"]: row for row in found["producers"]}
    assert set(rows) == {row[0] for row in ended}
    for name, row in rows.items():
        mine = {outcome: (count, total, longest) for each, outcome, count, total, longest in ended if each == name and outcome}
        for outcome in ("committed", "aborted", "fenced", "timed-out"):
            assert row[outcome.replace("-", "_")] == mine.get(outcome, (0,))[0]
        count = sum(values[0] for values in mine.values())
        assert (row["begun"], row["open"]) == (count, 0)
        assert row["max_us"] == 1000 * max(values[2] for values in mine.values())
        assert row["mean_us"] == pytest.approx(1000 * sum(int(values[1]) for values in mine.values()) / count, abs=1)
    for each in found["outcomes"]:
        times = duck.execute("SELECT duration_ms * 1000 FROM transactions WHERE outcome = ?", [each["outcome"]]).fetchall()
        assert each["transactions"] == len(times)
        if times:
            check_ranks(each["duration_us"], [time for (time,) in times])


def test_the_page_of_a_busy_day_is_small(document: dict[str, Any]) -> None:
    page = as_html(document)
    assert len(page.encode()) < 320_000
    assert page.count("<svg") == page.count("</svg>") > 4
    assert page.count('role="img" aria-label="') == page.count("<svg")
    assert "<table>" in page[page.index("<svg") :]
