"""An object store: the log is read from it, and rollups, tables, pages and what was followed are written to it."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from tests.spark.access_lines import line, topic
from tests.spark.s3_server import S3Server, jars, s3_server
from tests.spark.standalone import command

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
TIMEOUT_S = 1200


@pytest.fixture(scope="module")
def store() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


def hour(number: int, count: int = 30) -> str:
    at = [f"2026-11-21T{number:02}:{each:02}:30.250Z" for each in range(count)]
    return "".join(
        line("Fetch", 0, time=time, sequence=100 * number + each, topics=[topic("orders", 1)]) for each, time in enumerate(at)
    )


def run(store: S3Server, *arguments: str) -> None:
    words = command(*arguments, "--jars", jars(), *store.settings())
    done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def test_everything_is_in_a_bucket(store: S3Server, tmp_path: Path) -> None:
    for number in (8, 9):
        store.put(f"access/date=2026-11-21/hour={number:02}/node-1-000001.jsonl", hour(number).encode())
        for _ in range(2):  # the second run finds nothing new
            run(store, "rollup", "s3a://logs/access", "--out", "s3a://logs/rollups")
    names = store.names()
    assert "rollups/tables/clients/date=2026-11-21/hour=09/clients.parquet" in names
    assert not [name for name in names if "_writing" in name or name.endswith(".new")]
    run(store, "report", "--merge", "s3a://logs/rollups", "--out", "s3a://logs/pages/merged.html", "--csv", "s3a://logs/pages/csv")
    run(store, "report", "s3a://logs/access", "--out", "s3a://logs/pages/report.html")
    merged, whole = store.report("pages/merged.json"), store.report("pages/report.json")
    assert merged["total"] == whole["total"]
    assert merged["clients"] == whole["clients"]
    assert whole["total"]["requests"] == 60
    assert store.get("pages/report.html").startswith(b"<!doctype html>")
    assert store.get("pages/csv/clients.csv").startswith(b"client_id,")
    run(store, "report", "s3a://logs/access", "--out", (tmp_path / "local.html").as_uri())
    assert (tmp_path / "local.html").exists()


def test_a_bucket_is_followed(store: S3Server, tmp_path: Path) -> None:
    store.put("followed/date=2026-11-21/hour=08/node-1-000001.jsonl", hour(8).encode())
    words = [word for word in command("follow", "s3a://logs/followed", "--once", "--out", "s3a://logs/cells") if word != "--quiet"]
    done = subprocess.run(
        [*words, "--jars", jars(), *store.settings()], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    run(store, "report", "--merge", "s3a://logs/cells", "--out", str(tmp_path / "report.html"))
    assert (tmp_path / "report.json").exists()


def test_what_a_store_refuses_is_one_line(store: S3Server) -> None:
    words = command("report", "s3a://logs/gone", "--out", "s3a://gone/report.html", "--jars", jars())
    done = subprocess.run([*words, *store.settings()], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1, done.stderr
