"""The same lines give the same report: in one piece or many, from lines or rollups, on threads or a cluster; bounded or not."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from tests.spark.access_lines import in_transaction, line, topic
from tests.spark.random_logs import SHAPES, RandomLog, Shape, divided
from tests.support.budget import share_of
from tests.support.processes import start_tied
from twisted_kafka_spark.cells import aggregate
from twisted_kafka_spark.cells.fold import Folding
from twisted_kafka_spark.pipeline import exchange, page, rollup
from twisted_kafka_spark.pipeline.job import Job, run
from twisted_kafka_spark.records.read import find_sources
from twisted_kafka_spark.stream.follow import Following, follow
from twisted_kafka_spark.stream.source import Source

pytestmark = pytest.mark.timeout(600)
HOURS = range(6, 9)
TIMEOUT_S = 1200
"""Of a program that a slow test runs: a machine with other things to do takes minutes to start Spark."""


def written(directory: Path, seed: int, lines: int = 800) -> Path:
    """Write a log of random lines: many clients, connections, topics and transactional ids, few of which are busy."""
    chosen = random.Random(seed)
    for hour in HOURS:
        texts = []
        for number in range(lines // len(HOURS)):
            who = min(int(chosen.expovariate(0.1)), 99)
            at = f"2026-11-20T{hour:02}:{chosen.randrange(60):02}:{chosen.randrange(60):02}.{chosen.randrange(1000):03}Z"
            fields: dict[str, Any] = {
                "time": at,
                "sequence": hour * 100_000 + number,
                "client_id": f"client-{who}" if who else None,
                "principal": f"User:{who % 20}",
                "connection": f"127.0.0.1:9092-10.0.0.{who}:{chosen.randrange(9)}-{who}",
                "software_version": f"2.{who % 7}",
                "total_us": int(chosen.lognormvariate(7, 2)),
                "throttle_us": 10_000 if chosen.random() < 0.05 else 0,
            }
            if chosen.random() < 0.1:
                texts.append(in_transaction("EndTxn", f"tx-{who}", 0, "committed", who + 1, **fields))
            else:
                error = "NOT_LEADER_OR_FOLLOWER" if chosen.random() < 0.05 else None
                topics = [topic(f"topic-{chosen.randrange(who + 1)}", chosen.randrange(9), error)]
                api, version = chosen.choice([("Produce", 9), ("Fetch", 2), ("ApiVersions", 3)])
                texts.append(line(api, 0, **fields, version=version, error=error, topics=topics))
        folder = directory / f"hour-{hour}"
        folder.mkdir(parents=True)
        (folder / "node-1-000001.jsonl").write_text("".join(texts) + "torn\n")
    return directory


def answers(document: dict[str, Any]) -> dict[str, Any]:
    """Return what a report says, without where it is from and which command made it."""
    source = document["source"]
    return {name: part for name, part in document.items() if name not in ("source", "made_by")} | {
        "lines": source["lines"],
        "samples": source["samples"],
    }


@pytest.mark.slow
def test_rollups_of_hours_say_what_the_lines_say(spark: Any, tmp_path: Path) -> None:
    log, rolled = written(tmp_path / "log", 1), str(tmp_path / "rolled")
    whole = run(spark, Job(paths=[str(log)]))
    for hour in HOURS:
        run(spark, Job(paths=[str(log / f"hour-{hour}")], rollup_out=rolled))
    assert answers(run(spark, Job(paths=[rolled], is_merge=True))) == answers(whole)
    assert len({row["client_id"] for row in whole["clients"]}) > 25


def test_spark_and_the_driver_say_the_same(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = written(tmp_path / "log", 5)
    few = run(spark, Job(paths=[str(log)]))
    monkeypatch.setattr(rollup, "SMALL_LOG_BYTES", 0)
    collected = run(spark, Job(paths=[str(log)]))
    monkeypatch.setattr(aggregate, "MOST_CELLS", 0)
    many = run(spark, Job(paths=[str(log)]))
    assert answers(collected) == answers(few)
    assert answers(many) == answers(few)


@pytest.mark.slow
def test_a_few_cells_are_merged_by_a_few_tasks(spark: Any, tmp_path: Path) -> None:
    found = rollup.cells_of_files(spark, find_sources(spark, [str(written(tmp_path / "log", 3))]), Folding(), rollup.Selection())
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "40")
    try:
        with page.kept(page.by_hour(found, page.sizes(found))) as hourly:
            assert hourly.count() > 40
            assert hourly._jdf.rdd().getNumPartitions() < 10
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)


@pytest.mark.slow
def test_of_many_names_few_are_kept_and_all_are_counted(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(spark, Job(paths=[str(log := written(tmp_path / "log", 2))]))
    for name, most in {"MOST_NAMES": 7, "MOST_NAMES_SHOWN": 4, "MOST_CELLS": 0}.items():
        monkeypatch.setattr(aggregate, name, most)
    rolled = str(tmp_path / "rolled")
    bounded = run(spark, Job(paths=[str(log)], rollup_out=rolled))
    assert bounded["total"] == whole["total"]
    assert bounded["apis"] == whole["apis"]
    assert 4 <= len({row["client_id"] for row in bounded["clients"]}) <= 20
    assert answers(run(spark, Job(paths=[rolled], is_merge=True))) == answers(bounded)
    monkeypatch.setattr(exchange, "MOST_CELLS_OF_A_TASK", 40)
    assert answers(run(spark, Job(paths=[str(log)]))) == answers(bounded)


@pytest.mark.slow
def test_the_driver_bounds_names_as_spark_does(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, rolled = written(tmp_path / "log", 7), str(tmp_path / "rolled")
    whole = run(spark, Job(paths=[str(log)]))
    monkeypatch.setattr(aggregate, "MOST_NAMES", 7)
    few = run(spark, Job(paths=[str(log)]))
    assert answers(few) != answers(whole)
    monkeypatch.setattr(rollup, "SMALL_LOG_BYTES", 0)
    assert answers(run(spark, Job(paths=[str(log)], rollup_out=rolled))) == answers(few), "of Spark's cells"
    assert answers(run(spark, Job(paths=[rolled], is_merge=True))) == answers(few), "and of a rollup's"
    monkeypatch.setattr(aggregate, "MOST_CELLS", 0)
    assert answers(run(spark, Job(paths=[str(log)]))) == answers(few)


RANDOMLY = settings(
    # Without shrinking: every example takes seconds, and says what it was made of.
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@contextlib.contextmanager
def on_spark(monkeypatch: pytest.MonkeyPatch, **limits: int) -> Iterator[None]:
    """Leave nothing to the driver, however few the lines are; `limits` of `aggregate` may be changed too."""
    with monkeypatch.context() as patched:
        patched.setattr(rollup, "SMALL_LOG_BYTES", 0)
        # A driver without that limit of cells has no limit of names either.
        for name, most in ({"MOST_CELLS": 0, "MOST_NAMES_SHOWN": 5000} | limits).items():
            patched.setattr(aggregate, name, most)
        yield


def rolled_up(spark: Any, log: Path, directory: Path, by: str) -> list[str]:
    """Roll the parts of a log up: hours and days into one directory, other parts each into its own. Return the directories."""
    found = []
    for number, part in enumerate(divided(log, directory / "parts", by)):
        found.append(str(directory / ("rolled" if by in ("hour", "day") else f"rolled-{number}")))
        run(spark, Job(paths=[str(part)], rollup_out=found[-1]))
    return sorted(set(found))


def say_the_same(spark: Any, directory: Path, monkeypatch: pytest.MonkeyPatch, shape: Shape, by: str) -> None:
    """Compare the ways to a report: from lines, from rollups and from what was followed, merged by the driver and by Spark."""
    log = RandomLog(shape).write(directory / "log")
    few = answers(run(spark, Job(paths=[str(log)])))
    if shape.has_repeats and by not in ("hour", "day"):
        by = "hour"  # the copies of lines have to be read together
    rolled = rolled_up(spark, log, directory, by)
    merged = Job(paths=rolled, is_merge=True)
    assert answers(run(spark, merged)) == few
    if not shape.has_repeats:  # which only reports tell apart
        followed = str(directory / "followed")
        follow(spark, Following(Source(str(log)), followed, is_once=True), lambda findings: None)
        assert answers(run(spark, Job(paths=[followed], is_merge=True))) == few
    with on_spark(monkeypatch):
        assert answers(run(spark, Job(paths=[str(log)]))) == few
        assert answers(run(spark, merged)) == few


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(RANDOMLY, max_examples=share_of(12))
@given(SHAPES, st.sampled_from(("hour", "day", "broker", "file")))
def test_random_lines_give_the_same_in_all_ways(
    spark: Any, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, shape: Shape, by: str
) -> None:
    say_the_same(spark, tmp_path_factory.mktemp("random"), monkeypatch, shape, by)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(RANDOMLY, max_examples=share_of(12))
@given(SHAPES, st.sampled_from(("hour", "day")), st.integers(1, 20))
@example(
    Shape(25197, 1, days=2, hours=2, clients=22, lines=22, incidents=3, damaged=0.05, is_old=0.3, has_repeats=False), "hour", 7
)
def test_random_lines_that_are_bounded_give_the_same_from_rollups(
    spark: Any, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, shape: Shape, by: str, most: int
) -> None:
    directory = tmp_path_factory.mktemp("random")
    log = RandomLog(shape).write(directory / "log")
    with on_spark(monkeypatch, MOST_NAMES=most, MOST_NAMES_SHOWN=most):
        whole = answers(run(spark, Job(paths=[str(log)])))
        rolled = rolled_up(spark, log, directory, by)
        assert answers(run(spark, Job(paths=rolled, is_merge=True))) == whole


def test_duckdb_counts_the_same(spark: Any, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    log = written(tmp_path, 3)
    found = run(spark, Job(paths=[str(log)]))
    read = f"read_json('{log}/*/*.jsonl', format='newline_delimited', ignore_errors=true)"
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE log AS SELECT * FROM {read} WHERE api IS NOT NULL")
    sums = "count(*), count(error), sum(total_us), sum(throttle_us)"
    totals = tuple(found["total"][name] for name in ("requests", "failed", "total_us", "throttle_us"))
    assert totals == connection.execute(f"SELECT {sums} FROM log").fetchone()
    clients = connection.execute(f"SELECT client_id, principal, software_version, {sums} FROM log GROUP BY ALL").fetchall()
    expected = {row[:3]: row[3:] for row in clients}
    for row in found["clients"]:
        mine = tuple(row[name] for name in ("requests", "failed", "total_us", "throttle_us"))
        assert mine == expected[row["client_id"], row["principal"], row["software_version"]]
    (topics,) = connection.execute("SELECT count(DISTINCT topic) FROM (SELECT unnest(topics).topic AS topic FROM log)").fetchone()
    assert found["topic_total"]["topics"] == topics


@settings(RANDOMLY, max_examples=1)
@given(SHAPES)
def test_duckdb_counts_the_same_of_random_lines(spark: Any, tmp_path_factory: pytest.TempPathFactory, shape: Shape) -> None:
    duckdb = pytest.importorskip("duckdb")
    log = RandomLog(shape).write(tmp_path_factory.mktemp("random"))
    found = run(spark, Job(paths=[str(log)]))
    read = f"read_json('{log}/*/*/*.jsonl*', format='newline_delimited', ignore_errors=true, columns={DUCKDB_COLUMNS})"
    connection = duckdb.connect()
    is_request = "api IS NOT NULL AND TRY_CAST(time AS TIMESTAMP) IS NOT NULL"
    connection.execute(f"CREATE TABLE log AS SELECT DISTINCT ON (node, sequence) * FROM {read} WHERE {is_request}")
    connection.execute("UPDATE log SET weight = coalesce(weight, 1)")
    sums = (
        "sum(weight), coalesce(sum(weight) FILTER (error IS NOT NULL), 0), coalesce(sum(weight) FILTER (throttle_us > 0), 0), "
        "sum(weight * request_bytes), sum(weight * response_bytes), sum(weight * total_us), sum(weight * throttle_us)"
    )
    names = ("requests", "failed", "throttled", "request_bytes", "response_bytes", "total_us", "throttle_us")
    assert tuple(found["total"][name] for name in names) == connection.execute(f"SELECT {sums} FROM log").fetchone()
    apis = connection.execute(f"SELECT api, max(total_us), {sums} FROM log GROUP BY api").fetchall()
    mine = {row["api"]: (row["max_us"], *(row[name] for name in names[:5])) for row in found["apis"]}
    assert mine == {row[0]: row[1:7] for row in apis}
    for table, keys in (("clients", ("client_id", "principal", "software", "software_version")), ("errors", ("api", "error"))):
        condition = "error IS NOT NULL" if table == "errors" else "true"
        rows = connection.execute(f"SELECT {', '.join(keys)}, sum(weight) FROM log WHERE {condition} GROUP BY ALL").fetchall()
        expected = {row[: len(keys)]: row[len(keys)] for row in rows}
        shown = {tuple(row[key] for key in keys): row["requests"] for row in found[table] if row[keys[-1]] is not None}
        assert shown or table == "errors"
        assert shown.items() <= expected.items()


DUCKDB_COLUMNS = str(
    dict.fromkeys(("time", "api", "client_id", "principal", "software", "software_version", "error"), "VARCHAR")
    | dict.fromkeys(("node", "sequence", "weight", "request_bytes", "response_bytes", "total_us", "throttle_us"), "BIGINT")
)


@pytest.mark.slow
def test_many_topics_are_counted_although_few_are_kept(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregate, "MOST_NAMES_SHOWN", 20)
    monkeypatch.setattr(aggregate, "MOST_CELLS", 0)
    topics = 5000
    texts = [
        line("Fetch", 1, sequence=at, topics=[topic(f"topic-{number}", 1) for number in range(at, topics, 100)])
        for at in range(100)
    ]
    (tmp_path / "node-1-000001.jsonl").write_text("".join(texts))
    found = run(spark, Job(paths=[str(tmp_path)]))["topic_total"]
    assert (found["requests"], found["records"]) == (topics, topics)
    assert found["topics"] == pytest.approx(topics, rel=0.1)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_cluster_says_what_threads_say(spark: Any, tmp_path: Path) -> None:
    logs = [written(tmp_path / "log", 4)]
    for seed in range(8):
        shape = Shape(seed, seed % 3 + 1, seed % 3 + 1, seed % 2 + 1, 5 * seed + 1, 40, 2, 0.05, 0.3, seed % 2 == 1)
        logs.append(RandomLog(shape).write(tmp_path / f"log-{seed}"))
    texts = subprocess.run(
        [sys.executable, "-c", IN_A_CLUSTER, *map(str, logs)], check=True, timeout=TIMEOUT_S, stdout=subprocess.PIPE
    ).stdout
    for log, text in zip(logs, texts.splitlines(), strict=True):
        assert answers(json.loads(text)) == answers(json.loads(json.dumps(run(spark, Job(paths=[str(log)])), default=str)))


IN_A_CLUSTER = """
import json, sys
from twisted_kafka_spark.pipeline import rollup
from twisted_kafka_spark.pipeline.job import Job, run
from twisted_kafka_spark.runtime import session

spark = session.start("local-cluster[2,1,1024]")
for number, path in enumerate(sys.argv[1:]):
    rollup.SMALL_LOG_BYTES = number % 2 << 28
    print(json.dumps(run(spark, Job(paths=[path])), default=str))
spark.stop()
"""


def command(name: str, *arguments: object) -> list[str]:
    return [sys.executable, "-m", "twisted_kafka_spark", name, *map(str, arguments), "--quiet"]


def reported(directory: Path, tmp_path: Path, *options: str) -> dict[str, Any]:
    """Return what `report` says in a process of its own."""
    page = tmp_path / "report.html"
    subprocess.run(command("report", directory, "--out", page, *options), check=True, timeout=TIMEOUT_S)
    return answers(json.loads(page.with_suffix(".json").read_text()))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_rollup_that_is_killed_is_whole_once_it_is_written_again(tmp_path: Path) -> None:
    log, rolled = written(tmp_path / "log", 6), tmp_path / "rolled"
    whole = reported(log, tmp_path)
    for begun in ("_writing-*", "_writing-*/**/*.parquet", "date=*/hour=*/cells.*"):
        running = start_tied(command("rollup", log, "--out", rolled, "--master", "local[2]"), start_new_session=True)
        deadline = time.monotonic() + TIMEOUT_S
        while running.poll() is None and not any(rolled.glob(f"rollup=*/{begun}")):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    for _ in range(2):
        subprocess.run(command("rollup", log, "--out", rolled), check=True, timeout=TIMEOUT_S)
        assert reported(rolled, tmp_path, "--merge") == whole
    assert len(list(rolled.glob("rollup=*/date=*/hour=*/*.parquet"))) == len(HOURS)
