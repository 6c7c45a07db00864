"""Logs outside local paths: URLs, and a file system that only Hadoop's classes support."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import pyarrow as pa
import zstandard
from pyarrow import parquet

from tests.spark.access_lines import line, topic
from twisted_kafka.access_log.archive import Archive
from twisted_kafka.timing.clock import ManualClock
from twisted_kafka_spark import rollup
from twisted_kafka_spark.fold import Folding
from twisted_kafka_spark.job import Job, run
from twisted_kafka_spark.pieces import tasks
from twisted_kafka_spark.read import NoAccessLogError, find_sources
from twisted_kafka_spark.stream.folder import folder

pytestmark = pytest.mark.timeout(300)
PARTS = ("total", "apis", "clients", "topics", "versions", "time", "findings", "connections")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log with a plain, a zstd and a Parquet file in a directory with a blank in its name."""
    hour = tmp_path / "access log" / "date=2026-11-21" / "hour=08"
    for number, form in enumerate(("parquet", "zst", "jsonl")):
        hour.mkdir(parents=True, exist_ok=True)
        path = hour / f"node-1-00000{number}.jsonl"
        path.write_text("".join(line("Produce", at, sequence=100 * number + at, topics=[topic(form, 3)]) for at in range(9)))
        if form == "parquet":
            clock = ManualClock(wall_ms=4_000_000_000_000)
            Archive(tmp_path / "access log", 1, clock, form="parquet", retention_hours=-1, retention_bytes=-1).run_once()
        if form == "zst":
            path.with_name(path.name + ".zst").write_bytes(zstandard.compress(path.read_bytes()))
            path.unlink()
    (hour / "node-1-000009.jsonl").write_text("torn")
    return tmp_path / "access log"


def test_a_file_url_gives_the_same_files(spark: Any, log: Path) -> None:
    plain, url = run(spark, Job(paths=[str(log)])), run(spark, Job(paths=[log.as_uri()]))
    assert plain["total"]["requests"] == 27
    assert plain["source"]["lines"] == {"read": 27, "garbled": 1}
    assert {part: url[part] for part in PARTS} == {part: plain[part] for part in PARTS}


def test_a_file_system_of_hadoop_is_read_and_written_by_spark(spark: Any, log: Path, tmp_path: Path) -> None:
    mounted = "fs.viewfs.mounttable.logs.link./"
    out = tmp_path / "out"
    out.mkdir()
    spark._jsc.hadoopConfiguration().set(f"{mounted}access", log.as_uri())
    spark._jsc.hadoopConfiguration().set(f"{mounted}out", out.as_uri())
    plain = run(spark, Job(paths=[str(log)]))
    remote = run(spark, Job(paths=["viewfs://logs/access"], rollup_out="viewfs://logs/out/rollup"))
    assert {part: remote[part] for part in PARTS} == {part: plain[part] for part in PARTS}
    assert remote["source"]["lines"] == plain["source"]["lines"]
    assert list((out / "rollup" / "grain=60").glob("*.parquet"))
    merged = run(spark, Job(paths=["viewfs://logs/out/rollup"], is_merge=True))
    assert merged["total"] == plain["total"]
    with pytest.raises(NoAccessLogError, match="does not exist"):
        run(spark, Job(paths=["viewfs://logs/access/gone"]))


def test_a_missing_path_is_an_error_before_spark_starts(tmp_path: Path) -> None:
    with pytest.raises(NoAccessLogError, match="is not a file or directory"):
        find_sources(None, [(tmp_path / "gone").as_uri()])


def test_the_state_of_a_stream_can_be_in_a_file_system_of_hadoop(spark: Any, tmp_path: Path) -> None:
    spark._jsc.hadoopConfiguration().set("fs.viewfs.mounttable.kept.link./kept", tmp_path.as_uri())
    kept = folder(spark, "viewfs://kept/kept/state")
    assert (kept.read("open/batch=0"), kept.names("open")) == (None, [])
    for content in (b"first" * 1000, bytes(range(256))):
        kept.write("open/batch=0", content)
        assert kept.read("open/batch=0") == content
    kept.write("open/batch=1", b"")
    assert kept.read("open/batch=1") == b""
    assert sorted(kept.names("open")) == ["batch=0", "batch=1"]
    kept.delete("open/batch=0")
    kept.delete("open/batch=0")
    assert kept.names("open") == ["batch=1"]


@pytest.mark.parametrize("merged_here", [0, 256], ids=["merged by tasks", "merged by the driver"])
def test_cells_of_one_minute_in_several_files_are_merged(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, merged_here: int
) -> None:
    monkeypatch.setattr(rollup, "MOST_TASKS_MERGED_HERE", merged_here)
    for node in (1, 2, 3):
        lines = [line("Fetch", minute, node=node, client_id=client) for minute in range(5) for client in ("a", "b")]
        (tmp_path / f"node-{node}-000001.jsonl").write_text("".join(lines))
    cells = rollup.roll_up_files(spark, find_sources(None, [str(tmp_path)]), Folding(), rollup.Selection())
    kinds = cells.group_by(["kind"]).aggregate([("requests", "sum"), ([], "count_all")])
    found = {row["kind"]: (row["requests_sum"], row["count_all"]) for row in kinds.to_pylist()}
    assert found["requests"] == (30, 30)  # a node is a key of these
    assert found["latency"] == (30, 5)
    assert found["clients"] == (30, 2)
    assert found["connections"] == (30, 2)


def test_rollups_below_a_log_are_ignored_and_other_parquet_is_refused(tmp_path: Path) -> None:
    (tmp_path / "node-1-000001.jsonl").write_text(line("Fetch", 1))
    kept = tmp_path / "rollup" / "grain=60" / "part-0.parquet"
    kept.parent.mkdir(parents=True)
    parquet.write_table(pa.table({"at": [1]}), kept)
    assert find_sources(None, [str(tmp_path)]).parquet == []
    with pytest.raises(ValueError, match="is not an access log"):
        tasks([(str(kept), kept.stat().st_size)], 2)
