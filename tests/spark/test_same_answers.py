"""The same lines give the same report: in one piece or many, from lines or rollups, on threads or a cluster; bounded or not."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from tests.processes import start_tied
from tests.spark.access_lines import in_transaction, line, topic
from twisted_kafka_spark.cells import aggregate
from twisted_kafka_spark.pipeline import exchange, rollup
from twisted_kafka_spark.pipeline.job import Job, run

pytestmark = pytest.mark.timeout(600)
HOURS = range(6, 9)


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
    """Return what a report says, without where it is from."""
    source = document["source"]
    return {name: part for name, part in document.items() if name != "source"} | {
        "lines": source["lines"],
        "samples": source["samples"],
    }


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
def test_a_cluster_says_what_threads_say(tmp_path: Path) -> None:
    log = written(tmp_path / "log", 4)
    assert reported(log, tmp_path, "--master", "local-cluster[2,1,1024]") == reported(log, tmp_path, "--master", "local[2]")


def command(name: str, *arguments: object) -> list[str]:
    return [sys.executable, "-m", "twisted_kafka_spark", name, *map(str, arguments), "--quiet"]


def reported(directory: Path, tmp_path: Path, *options: str) -> dict[str, Any]:
    """Return what `report` says in a process of its own."""
    page = tmp_path / "report.html"
    subprocess.run(command("report", directory, "--out", page, *options), check=True, timeout=300)
    return answers(json.loads(page.with_suffix(".json").read_text()))


@pytest.mark.slow
def test_a_rollup_that_is_killed_is_whole_once_it_is_written_again(tmp_path: Path) -> None:
    log, rolled = written(tmp_path / "log", 6), tmp_path / "rolled"
    whole = reported(log, tmp_path)
    for begun in (".spark-staging-*", ".spark-staging-*/**/*.parquet", "date=*/hour=*"):
        running = start_tied(command("rollup", log, "--out", rolled, "--master", "local[2]"), start_new_session=True)
        deadline = time.monotonic() + 300
        while running.poll() is None and not any(rolled.glob(f"rollup=*/{begun}")):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    for _ in range(2):
        subprocess.run(command("rollup", log, "--out", rolled), check=True, timeout=300)
        assert reported(rolled, tmp_path, "--merge") == whole
    assert len(list(rolled.glob("rollup=*/date=*/hour=*/*.parquet"))) == len(HOURS)
