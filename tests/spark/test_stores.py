"""Logs outside local paths: URLs, and a file system that only Hadoop's classes support."""

import os
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
from twisted_kafka_spark.arguments import whole_hours
from twisted_kafka_spark.cells.fold import Folding
from twisted_kafka_spark.cells.shards import Merging
from twisted_kafka_spark.pipeline import exchange, rollup, store
from twisted_kafka_spark.pipeline.job import Job, roll_up, run
from twisted_kafka_spark.records.read import NoAccessLogError, find_sources
from twisted_kafka_spark.runtime.folder import Folder
from twisted_kafka_spark.stream.followed_files import files

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


@pytest.mark.slow
def test_a_file_url_gives_the_same_files(spark: Any, log: Path) -> None:
    plain, url = run(spark, Job(paths=[str(log)])), run(spark, Job(paths=[log.as_uri()]))
    assert plain["total"]["requests"] == 27
    assert plain["source"]["lines"] == {"read": 27, "garbled": 1}
    assert {part: url[part] for part in PARTS} == {part: plain[part] for part in PARTS}


@pytest.mark.slow
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
    assert list((out / "rollup" / "rollup=3").glob("*/*/*.parquet"))
    merged = run(spark, Job(paths=["viewfs://logs/out/rollup"], is_merge=True))
    assert merged["total"] == plain["total"]
    with pytest.raises(NoAccessLogError, match="does not exist"):
        run(spark, Job(paths=["viewfs://logs/access/gone"]))


def test_a_missing_path_is_an_error_before_spark_starts(tmp_path: Path) -> None:
    with pytest.raises(NoAccessLogError, match="is not a file or directory"):
        find_sources(None, [(tmp_path / "gone").as_uri()])


def test_rolled_files_of_kafkas_request_log_are_found_and_segments_are_not(tmp_path: Path) -> None:
    rolled = ("", ".1", ".12.gz", ".2026-11-21-08", ".2026-11-21.zst", "-20261121", "-1795132800.gz")
    names = {f"kafka-request.log{suffix}" for suffix in rolled}
    for name in (*names, "00000000000000000042.log", "kafka-request.log.swp", "notes.txt"):
        (tmp_path / name).write_text("")
    assert {Path(each).name for each in find_sources(None, [str(tmp_path)]).lines} == names
    assert {path.name for path in files(tmp_path).values()} == {name for name in names if not name.endswith(("gz", "zst"))}


def test_a_file_that_is_named_is_read_whatever_its_name_is(tmp_path: Path) -> None:
    path = tmp_path / "requests.txt"
    path.write_text("")
    assert find_sources(None, [str(path)]).lines == [str(path)]
    assert find_sources(None, [path.as_uri()]).lines == [str(path)]


def test_the_state_of_a_stream_can_be_in_a_file_system_of_hadoop(spark: Any, tmp_path: Path) -> None:
    spark._jsc.hadoopConfiguration().set("fs.viewfs.mounttable.kept.link./kept", tmp_path.as_uri())
    for kept in (Folder(spark, "viewfs://kept/kept/state"), Folder(spark, str(tmp_path / "local"))):
        assert (kept.read("a"), kept.names()) == (None, [])
        for content in (b"first" * 1000, bytes(range(256)), b""):
            kept.write("a", content)
            assert kept.read("a") == content
        kept.write("inner/b", b"b")
        assert {"a", "inner"} <= set(kept.names())
        kept.delete("inner")
        kept.delete("inner")
        assert (kept.exists("a"), kept.exists("inner/b"), kept.read("inner/b")) == (True, False, None)


def test_a_state_is_there_when_its_replacement_was_interrupted(spark: Any, tmp_path: Path) -> None:
    kept = Folder(spark, str(tmp_path))
    kept.write("state", b"old")
    (tmp_path / ".state.new").write_bytes(b"ne")
    assert kept.read("state") == b"old"
    kept.write("state", b"new")
    (tmp_path / "state").rename(tmp_path / ".state.new")
    assert kept.read("state") == b"new"


def test_cells_of_one_minute_in_several_files_are_merged(spark: Any, tmp_path: Path) -> None:
    for node in (1, 2, 3):
        lines = [line("Fetch", minute, node=node, client_id=client) for minute in range(5) for client in ("a", "b")]
        (tmp_path / f"node-{node}-000001.jsonl").write_text("".join(lines))
    found = rollup.cells_of_files(spark, find_sources(None, [str(tmp_path)]), Folding(), rollup.Selection())
    cells = exchange.as_cells(exchange.merged(found, Merging(), {})).toArrow()
    kinds = cells.group_by(["kind"]).aggregate([("requests", "sum"), ([], "count_all")])
    counts = {row["kind"]: (row["requests_sum"], row["count_all"]) for row in kinds.to_pylist()}
    assert counts["listeners"] == (30, 3)
    assert counts["traffic"] == (30, 5)
    assert counts["heat"] == (30, 5)
    assert counts["clients"] == (30, 2)
    assert counts["connections"] == (30, 2)


def test_rollups_below_a_log_are_ignored_and_other_parquet_is_refused(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "node-1-000001.jsonl").write_text(line("Fetch", 1))
    tables = ("tables/clients/date=2026-11-21/hour=08", "tables/findings/date=2026-11-21")
    for folder_name in ("rollup=3", "followed=4", "grain=60", *tables):
        kept = tmp_path / "rollup" / folder_name / "part-0.parquet"
        kept.parent.mkdir(parents=True)
        parquet.write_table(pa.table({"at": [1]}), kept)
    assert find_sources(None, [str(tmp_path)]).parquet == []
    assert [path.name for path in files(tmp_path).values()] == ["node-1-000001.jsonl"]
    parquet.write_table(pa.table({"at": [1]}), tmp_path / "foreign.parquet")
    with pytest.raises(NoAccessLogError, match="has no column `time`"):
        run(spark, Job(paths=[str(tmp_path / "foreign.parquet")]))


@pytest.fixture
def whole_plans(spark: Any) -> Any:
    """Let plans name all columns."""
    setting = "spark.sql.maxMetadataStringLength"
    before = spark.conf.get(setting)
    spark.conf.set(setting, "100000")
    yield
    spark.conf.set(setting, before)


@pytest.mark.usefixtures("whole_plans")
def test_the_plan_reads_the_columns_and_the_times_that_are_needed(spark: Any, log: Path) -> None:
    sources = find_sources(None, [str(log)])
    sources.lines.clear()
    cells = rollup.cells_of_files(spark, sources, Folding(since="2026-11-21T08:02:00"), rollup.Selection("api = 'Produce'"))
    plan = exchange.merged(cells, Merging(), {})._jdf.queryExecution().executedPlan().toString()
    (scan,) = [text for text in plan.splitlines() if "FileScan parquet" in text]
    read = scan.partition("ReadSchema: ")[2]
    assert "total_us:bigint" in read
    for unread in ("correlation_id", "api_key", "topics_left_out"):
        assert unread not in read
    filters = scan.partition("PushedFilters: [")[2].partition("]")[0]
    assert "EqualTo(api,Produce)" in filters
    assert "GreaterThanOrEqual(time,2026-11-21T08:02:00)" in filters
    before, _, after = plan.partition("MapInArrow")[2].partition("Exchange hashpartitioning(kind#")
    assert "Sort [kind#" in before
    assert after.count("MapInArrow") == 1
    assert plan.count("Exchange") == 1


@pytest.mark.slow
@pytest.mark.usefixtures("whole_plans")
def test_a_plan_reads_the_hours_of_a_rollup_that_are_needed(spark: Any, log: Path, tmp_path: Path) -> None:
    run(spark, Job(paths=[str(log)], rollup_out=str(tmp_path / "rolled")))
    found = store.read(spark, [str(tmp_path / "rolled")], "2026-11-21T08:00:00", "2026-11-21T09:00:00").where("kind = 'traffic'")
    (scan,) = [text for text in found._jdf.queryExecution().executedPlan().toString().splitlines() if "FileScan parquet" in text]
    assert "(date#" in scan.partition("PartitionFilters: ")[2].partition("PushedFilters")[0]
    assert "EqualTo(kind,traffic)" in scan


def rolled(log: Path, out: Path, spark: Any, **more: Any) -> dict[str, Any]:
    return run(spark, Job(paths=[str(log)], rollup_out=str(out), **more))


def one_hour(directory: Path, node: int, requests: int) -> Path:
    directory.mkdir()
    texts = [line("Fetch", minute % 60, node=node, sequence=minute) for minute in range(requests)]
    (directory / f"node-{node}-000001.jsonl").write_text("".join(texts))
    return directory


@pytest.mark.slow
@pytest.mark.parametrize("runs", [2, 3])
def test_logs_with_names_of_their_own_share_a_directory_of_rollups(spark: Any, tmp_path: Path, runs: int) -> None:
    out = tmp_path / "rolled"
    for node, requests in ((1, 5), (2, 7), (1, 6))[:runs]:  # the first broker's hour may be written again
        log = one_hour(tmp_path / f"log-{node}-{requests}", node, requests)
        rolled(log, out, spark, rollup_source=f"broker-{node}")
    merged = run(spark, Job(paths=[str(out)], is_merge=True))
    assert {row["node"]: row["requests"] for row in merged["listeners"]} == {1: 5 if runs == 2 else 6, 2: 7}
    names = sorted(path.name.split(".")[:2] for path in out.glob("rollup=*/date=*/hour=*/*.parquet"))
    assert names == [["cells", "broker-1"], ["cells", "broker-2"], ["more", "broker-1"]][:runs]


@pytest.mark.slow
def test_what_retention_has_deleted_stays_in_a_rollup(spark: Any, tmp_path: Path) -> None:
    """Such as the first file of the oldest hour; what is new is added, and a line that is there is not."""
    out, log = tmp_path / "rolled", one_hour(tmp_path / "log", 1, 50)
    later = [line("Fetch", minute, time=f"2026-11-21T09:{minute:02}:30.250Z", sequence=50 + minute) for minute in range(10)]
    (log / "node-1-000002.jsonl").write_text("".join(later[:4]))
    assert roll_up(spark, Job(paths=[str(log)], rollup_out=str(out))).lines == {"read": 54}
    whole = (log / "node-1-000001.jsonl").read_text().splitlines(keepends=True)
    (log / "node-1-000001.jsonl").write_text("".join(whole[25:]))
    (log / "node-1-000002.jsonl").write_text("".join(later))
    for new in (6, 0):
        rolled_up = roll_up(spark, Job(paths=[str(log)], rollup_out=str(out)))
        assert rolled_up.lines == ({"read": new} if new else {})
        assert rolled_up.written.kept == []
        assert run(spark, Job(paths=[str(out)], is_merge=True))["total"]["requests"] == 60
    (file,) = out.glob("rollup=*/date=*/hour=08/cells.*.parquet")
    file.write_bytes(b"damaged")
    assert roll_up(spark, Job(paths=[str(log)], rollup_out=str(out))).lines == {"read": 25}
    assert run(spark, Job(paths=[str(out)], is_merge=True))["total"]["requests"] == 35


def test_a_rollup_is_of_whole_hours() -> None:
    assert whole_hours("2026-11-21T10:25:01", "2026-11-21T23:00:01") == ("2026-11-21T10:00:00", "2026-11-22T00:00:00")
    assert whole_hours("2026-11-21T10:00:00", "2026-11-21T11:00:00") == ("2026-11-21T10:00:00", "2026-11-21T11:00:00")
    assert whole_hours("", "") == ("", "")


@pytest.mark.slow
def test_an_hour_is_its_newest_file_if_a_write_was_killed_before_it_deleted_the_others(spark: Any, tmp_path: Path) -> None:
    out = tmp_path / "rolled"
    rolled(one_hour(tmp_path / "a", 1, 5), out, spark)
    (first,) = out.glob("rollup=*/date=*/hour=*/*.parquet")
    kept = first.read_bytes()
    first.rename(first.with_name("part-00000-as-spark-names-them.parquet"))  # as earlier releases did
    newest = first.with_name("cells.log.9999999999999-0a.parquet")
    newest.write_bytes(kept)
    first.write_bytes(kept)
    for _ in range(2):
        assert run(spark, Job(paths=[str(out)], is_merge=True))["total"]["requests"] == 5
        rolled(tmp_path / "a", out, spark)
    rolled(one_hour(tmp_path / "b", 1, 6), out, spark)
    assert run(spark, Job(paths=[str(out)], is_merge=True))["total"]["requests"] == 6


@pytest.mark.slow
def test_a_rollup_that_is_replaced_while_it_is_read_is_read_again(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "rolled"
    rolled(one_hour(tmp_path / "a", 1, 5), out, spark)
    listed, one_hour_more = store.read, one_hour(tmp_path / "b", 1, 6)

    def replaced_meanwhile(*arguments: Any) -> Any:
        found = listed(*arguments)
        monkeypatch.setattr(store, "read", listed)
        rolled(one_hour_more, out, spark)
        assert not file.exists()
        return found

    (file,) = out.glob("rollup=*/date=*/hour=*/*.parquet")
    monkeypatch.setattr(store, "MOST_PARTS", 1)  # so that the second file of the hour is merged with the first one
    monkeypatch.setattr(store, "read", replaced_meanwhile)
    assert run(spark, Job(paths=[str(out)], is_merge=True))["total"]["requests"] == 6


@pytest.mark.slow
def test_what_a_killed_write_left_is_not_read_and_deleted_later(spark: Any, tmp_path: Path) -> None:
    out, log = tmp_path / "rolled", one_hour(tmp_path / "a", 1, 5)
    rolled(log, out, spark)
    (file,) = out.glob("rollup=*/date=*/hour=*/*.parquet")
    left = [out / "rollup=3" / name / "date=2026-11-21" / "hour=08" for name in ("_writing-1", ".spark-staging-1", "_writing-2")]
    for folder_left in left:
        folder_left.mkdir(parents=True)
        (folder_left / "part-0.parquet").write_bytes(file.read_bytes())
    for folder_left in left[:2]:
        os.utime(folder_left.parent.parent, (0, 0))
    assert run(spark, Job(paths=[str(out)], is_merge=True))["total"]["requests"] == 5
    rolled(log, out, spark)
    assert [folder_left.exists() for folder_left in left] == [False, False, True]  # the last one may be of a write beside this one


@pytest.mark.parametrize(
    ("folders", "message"),
    [
        (["rollup=4"], "a newer twisted-kafka-spark is required"),
        (["rollup=3", "rollup=4"], "a newer twisted-kafka-spark is required"),
        (["rollup=2"], "make it again from the log"),
        (["grain=60"], "make it again from the log"),
        (["rollup=3", "followed=4"], "separate them"),
        (["other"], "is not a rollup"),
        ([], "does not exist"),
    ],
)
def test_a_rollup_of_another_version_is_an_error_of_one_line(spark: Any, tmp_path: Path, folders: list[str], message: str) -> None:
    for name in folders:
        (tmp_path / "rolled" / name).mkdir(parents=True)
    with pytest.raises(NoAccessLogError, match=message):
        run(spark, Job(paths=[str(tmp_path / "rolled")], is_merge=True))


@pytest.mark.slow
def test_rollups_are_compacted_into_another_directory(spark: Any, tmp_path: Path) -> None:
    sources = []
    for node in (1, 2):
        sources.append(str(tmp_path / f"rolled-{node}"))
        rolled(one_hour(tmp_path / f"log-{node}", node, 5 + node), Path(sources[-1]), spark)
    whole = run(spark, Job(paths=sources, is_merge=True, rollup_out=str(tmp_path / "all")))
    assert whole["total"]["requests"] == 13
    assert run(spark, Job(paths=[str(tmp_path / "all")], is_merge=True))["listeners"] == whole["listeners"]
    assert len(list((tmp_path / "all").rglob("*.parquet"))) == 1


@pytest.mark.slow
def test_paths_without_a_scheme_are_those_of_the_default_file_system(spark: Any, log: Path) -> None:
    configuration = spark._jsc.hadoopConfiguration()
    configuration.set("fs.viewfs.mounttable.whole.link./access", log.as_uri())
    before = configuration.get("fs.defaultFS")
    configuration.set("fs.defaultFS", "viewfs://whole/")
    try:
        assert run(spark, Job(paths=["/access"]))["total"]["requests"] == 27
        assert run(spark, Job(paths=["/access/date=*/hour=*"]))["total"]["requests"] == 27
    finally:
        configuration.set("fs.defaultFS", before)


def test_a_pattern_names_files(spark: Any, log: Path) -> None:
    assert run(spark, Job(paths=[f"{log}/date=*/hour=08/*.zst"]))["total"]["requests"] == 9
