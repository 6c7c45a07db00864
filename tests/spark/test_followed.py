"""What `follow` writes: the cells of each line once, despite repeated batches, kills, late lines and compaction."""

import datetime
import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import zstandard
from pyarrow import parquet

from tests.spark.access_lines import line, topic
from tests.spark.following import Following
from twisted_kafka.access_log.archive import Archive
from twisted_kafka.timing.clock import ManualClock
from twisted_kafka_spark.cells import aggregate, kinds
from twisted_kafka_spark.pipeline import followed
from twisted_kafka_spark.pipeline.job import Job, run
from twisted_kafka_spark.runtime.session import setting
from twisted_kafka_spark.stream import follow as streams
from twisted_kafka_spark.stream.source import Source
from twisted_kafka_spark.stream.watch import WINDOW, windows

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def following(spark: Any, tmp_path: Path) -> Following:
    return Following(spark, tmp_path / "rolled")


def minutes(first: int, end: int, each: int = 5) -> list[str]:
    return [line("Fetch", minute, topics=[topic("orders", 1)]) for minute in range(first, end) for _ in range(each)]


def test_batches_count_whatever_the_session_is_set_to_for_other_writes(spark: Any, following: Following) -> None:
    hadoop, name = spark._jsc.hadoopConfiguration(), "mapreduce.fileoutputcommitter.marksuccessfuljobs"
    hadoop.set(name, "false")
    try:
        with setting(spark, "spark.sql.sources.partitionOverwriteMode", "dynamic"):
            for _ in range(2):
                following.batch(0, minutes(0, 3))
    finally:
        hadoop.unset(name)
    assert following.requests() == [(minute, 5) for minute in range(3)]


@pytest.mark.slow
def test_batches_add_up_and_a_repeated_one_counts_once(following: Following) -> None:
    following.batch(0, minutes(0, 3), minutes(2, 10))
    following.batch(1, minutes(2, 3, each=1), minutes(9, 11))  # minute 2 is late
    expected = [(minute, {2: 11, 9: 10}.get(minute, 5)) for minute in range(11)]
    assert following.requests() == expected
    killed = following.directory / followed.FOLLOWED / "batches=2-2"
    shutil.copytree(killed.with_name("batches=1-1"), killed)
    (killed / "_SUCCESS").unlink()
    assert following.requests() == expected
    following.start()
    following.batch(1, minutes(2, 3, each=1), minutes(9, 11))
    following.batch(2, minutes(11, 12))
    assert following.requests() == [*expected, (11, 5)]


@pytest.mark.slow
def test_folders_are_compacted_and_none_of_them_counts_twice(following: Following, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed, "COMPACTED", (2, 4))
    for number in range(5):
        following.batch(number, minutes(number, number + 2))
    expected = [(0, 5), *((minute, 10) for minute in range(1, 5)), (5, 5)]
    assert following.followed.ranges() == [(0, 3), (4, 4)]
    assert following.requests() == expected
    whole = following.directory / followed.FOLLOWED / "batches=0-3"
    shutil.move(whole / "_SUCCESS", whole / "success")  # as if it had been killed while it compacted
    assert following.followed.ranges() == [(0, 1), (2, 3), (4, 4)]
    assert following.requests() == expected
    shutil.move(whole / "success", whole / "_SUCCESS")
    following.batch(5, minutes(5, 6))
    assert following.names() == ["batches=0-3", "batches=4-4", "batches=4-5", "batches=5-5"]
    assert following.requests() == [*expected[:-1], (5, 10)]


def with_errors(texts: Iterable[str]) -> list[str]:
    """Return lines with errors at the times of others."""
    failed = [topic("gone", 0, "NOT_LEADER_OR_FOLLOWER")]
    times = {json.loads(text)["time"] for text in texts}
    return [line("Produce", 0, time=at, error="NOT_LEADER_OR_FOLLOWER", topics=failed) for at in sorted(times) for _ in range(40)]


def test_a_finding_is_reported_once_even_after_a_restart(following: Following) -> None:
    following.batch(0, minutes(0, 22))
    following.start()
    following.batch(1, minutes(22, 26), with_errors(minutes(22, 26)))
    assert [found["name"] for found in following.reported] == ["error-burst"]
    following.start()
    following.batch(2, minutes(26, 30))
    assert [found["name"] for found in following.reported] == ["error-burst"]


@pytest.mark.slow
@pytest.mark.parametrize("most_cells", [aggregate.MOST_CELLS, 0])
def test_a_finding_in_a_backlog_of_hours_is_reported(
    following: Following, monkeypatch: pytest.MonkeyPatch, most_cells: int
) -> None:
    monkeypatch.setattr(aggregate, "MOST_CELLS", most_cells)
    times = [f"2026-11-21T{hour:02}:{minute:02}:30.250Z" for hour in range(5) for minute in range(60)]
    usual = [line("Fetch", 0, time=time, topics=[topic("orders", 1)]) for time in times for _ in range(5)]
    following.batch(0, usual, with_errors(text for text in usual if "T01:30" <= json.loads(text)["time"][10:] < "T01:34"))
    assert [found["name"] for found in following.reported] == ["error-burst"]


def test_each_minute_is_in_a_window_with_the_hours_before_it() -> None:
    begin = datetime.datetime(2026, 11, 21, 8, 17, tzinfo=datetime.UTC)
    assert windows(begin, begin) == []
    found = windows(begin, begin + 2 * WINDOW + datetime.timedelta(minutes=5))
    assert {end - first for first, end in found} == {WINDOW}
    assert [end - begin for _, end in found] == [WINDOW, 2 * WINDOW, 2 * WINDOW + datetime.timedelta(minutes=5)]


def answers(document: dict[str, Any]) -> dict[str, Any]:
    """Return what a document says, apart from where it comes from."""
    return {**document, "source": document["source"]["lines"]}


@pytest.mark.slow
def test_a_report_on_what_was_followed_says_what_the_lines_say(spark: Any, tmp_path: Path) -> None:
    log, out = tmp_path / "log", tmp_path / "rolled"
    log.mkdir()
    path = log / ".node-1-000001.jsonl"
    path.write_text("torn\n" + "".join(minutes(0, 40)) + "".join(with_errors(minutes(30, 34))) + '{"v":1')
    follow = streams.Following(Source(str(log)), str(out), is_once=True)
    streams.follow(spark, follow, lambda findings: None)
    path.write_text(path.read_text().removesuffix('{"v":1') + "".join(minutes(3, 5)) + "".join(minutes(40, 60)) + "torn too\n")
    path.rename(log / "node-1-000001.jsonl")
    streams.follow(spark, follow, lambda findings: None)
    streams.follow(spark, follow, lambda findings: None)
    found = run(spark, Job(paths=[str(out)], is_merge=True))
    assert found["source"]["lines"] == {"read": 40 * 5 + 160 + 10 + 100, "garbled": 2}
    assert [each["name"] for each in found["findings"]][:1] == ["error-burst"]
    assert answers(found) == answers(run(spark, Job(paths=[str(log)])))


@pytest.mark.slow
def test_complete_files_are_followed_in_any_file_system_of_hadoop(spark: Any, tmp_path: Path) -> None:
    log = tmp_path / "a log"
    hour = log / "date=2026-11-21" / "hour=08"
    hour.mkdir(parents=True)
    mounted = "fs.viewfs.mounttable.followed.link./"
    spark._jsc.hadoopConfiguration().set(f"{mounted}log", log.as_uri())
    spark._jsc.hadoopConfiguration().set(f"{mounted}out", tmp_path.as_uri())
    out = "viewfs://followed/out/rolled"
    follow = streams.Following(Source("viewfs://followed/log"), out, is_once=True)
    (hour / "node-1-000001.jsonl").write_text("".join(minutes(0, 2)))
    Archive(log, 1, ManualClock(wall_ms=4_000_000_000_000), form="parquet", retention_hours=-1, retention_bytes=-1).run_once()
    assert [path.suffix for path in hour.iterdir()] == [".parquet"]
    (hour / "node-1-000002.jsonl.zst").write_bytes(zstandard.compress("".join(minutes(2, 4)).encode()))
    (hour / ".node-1-000004.jsonl").write_text("".join(minutes(9, 10)))  # still open
    streams.follow(spark, follow, lambda findings: None)
    (hour / "node-1-000003.jsonl").write_text("".join(minutes(4, 6)))
    streams.follow(spark, follow, lambda findings: None)
    found, lines = run(spark, Job(paths=[out], is_merge=True)), run(spark, Job(paths=["viewfs://followed/log"]))
    assert found["total"]["requests"] == 30
    assert answers(found) == answers(lines)


def test_what_cannot_be_followed_is_an_error_of_one_line(spark: Any, following: Following, tmp_path: Path) -> None:
    following.batch(0, minutes(0, 1))
    follow = streams.Following(Source(str(tmp_path)), str(following.directory), checkpoint=str(tmp_path / "other"))
    with pytest.raises(RuntimeError, match="of another checkpoint"):
        streams.follow(spark, follow)
    with pytest.raises(ValueError, match="gone is not a directory"):
        streams.follow(spark, streams.Following(Source(str(tmp_path / "gone")), str(tmp_path / "rolled")))


@pytest.mark.slow
def test_the_written_files_have_the_declared_columns(following: Following) -> None:
    following.batch(0, minutes(0, 5))
    (path, *_) = following.directory.glob(f"{followed.FOLLOWED}/*/date=2026-11-21/hour=08/*.parquet")
    assert parquet.read_schema(path).names == kinds.arrow_schema().names
