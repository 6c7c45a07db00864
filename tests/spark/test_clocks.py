"""Lines of a wrong clock: they count, are named, and move neither the axis nor what `follow` has searched."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import pyarrow as pa

from tests.spark.access_lines import line, topic
from tests.spark.following import Following
from twisted_kafka.access_log.archive import Archive
from twisted_kafka.timing.clock import ManualClock
from twisted_kafka_spark.cells.fold import Folding
from twisted_kafka_spark.pipeline.job import Job, run
from twisted_kafka_spark.records.clocks import HOUR_US, UNKNOWN, Skew, first_hour, hour_of_folder, latest_us
from twisted_kafka_spark.records.lines import LineReader
from twisted_kafka_spark.stream import follow as streams
from twisted_kafka_spark.stream.source import Source

pytestmark = pytest.mark.timeout(600)
HOUR = 1_795_248_000 // 3600
"""2026-11-21T08."""
IN_2099, IN_1970, TOMORROW = "2099-01-01T00:17:05.250Z", "1970-01-01T00:17:05.250Z", "2026-11-22T08:17:05.250Z"
LATEST_US = (HOUR + 24 * 200) * HOUR_US
FOLDER = "date=2026-11-21/hour=08"


def minutes_of(reader: LineReader, *texts: str) -> list[int]:
    """Return the minutes of lines, counted from 08:00."""
    found = [at for frame in reader.frames(pa.array([text.rstrip("\n") for text in texts])) for at in frame.time_us.tolist()]
    by_records = LineReader(latest=LATEST_US)
    by_records._clock.folder, by_records._clock.first = reader._clock.folder, reader._clock.first
    batches = list(by_records.records(pa.array([text.rstrip("\n") for text in texts])))
    times = pa.concat_arrays([batch.column("time") for batch in batches]).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    assert sorted(times.to_pylist()) == sorted(found), "as frames and as records"
    assert by_records.found.skews == reader.found.skews
    return sorted(at // 60_000_000 - HOUR * 60 for at in found)


@pytest.mark.parametrize("wrong", [IN_2099, IN_1970, TOMORROW])
def test_a_wrong_line_counts_in_the_hour_of_its_folder(wrong: str) -> None:
    reader = LineReader(latest=LATEST_US)
    reader.begin(f"/log/{FOLDER}/node-1-000001.jsonl")
    assert minutes_of(reader, line("Fetch", 1), line("Fetch", 2, time=wrong), line("Fetch", 3)) == [1, 3, 17]
    ((key, skew),) = reader.found.skews.items()
    assert key == (1, "behind" if wrong == IN_1970 else "ahead", HOUR * 60 + 17)
    assert skew.lines == 1


def test_a_wrong_line_of_another_file_counts_in_the_hour_of_its_first_lines(tmp_path: Path) -> None:
    path = tmp_path / "node-1-000001.jsonl"
    texts = [line("Fetch", 0, time=IN_2099), line("Fetch", 1), line("Fetch", 2)]
    path.write_text("".join(texts))
    reader = LineReader(latest=LATEST_US)
    reader.begin(str(path))
    assert minutes_of(reader, *texts) == [1, 2, 17]


def test_without_a_hint_a_wrong_line_has_no_known_hour() -> None:
    reader = LineReader(latest=LATEST_US)
    assert minutes_of(reader, line("Fetch", 1), line("Fetch", 2, time=IN_2099)) == [(UNKNOWN - HOUR) * 60 + 17, 1]


def test_right_lines_stay_as_they_are() -> None:
    """Such as those of a folder of local time, or that were uploaded days later."""
    reader = LineReader(latest=LATEST_US)
    for folder in ("date=2026-11-20/hour=22", "date=2026-11-25/hour=08"):
        reader.begin(f"/log/{folder}/node-1-000001.jsonl")
        assert minutes_of(reader, line("Fetch", 1), line("Fetch", 2)) == [1, 2]
    assert not reader.found.skews


def test_what_tells_the_hour() -> None:
    assert hour_of_folder("s3a://log/date=2026-11-21/hour=08/node-1-000001.jsonl.zst") == HOUR
    assert hour_of_folder("date=2026-13-41/hour=08/a.log") is None
    assert hour_of_folder("/log/a.log") is None
    kafka = b"[2026-11-21 10:00:00,123] DEBUG Completed request:{} (kafka.request.logger)\n"
    assert first_hour(kafka, utc_offset_s=7200) == HOUR
    assert first_hour(b'{"time":"2099-01-01T00:00:00Z"}\n{"time":"2026-11-21T08:00:00Z"}', LATEST_US) == HOUR
    assert first_hour(b"no time") is None


def test_lines_of_many_minutes_are_counted_by_minute() -> None:
    reader = LineReader(latest=LATEST_US)
    reader.begin(f"/log/{FOLDER}/node-1-000001.jsonl")
    lines = [line("Fetch", 0, time=f"2099-01-01T00:{minute:02}:00.000Z", weight=2) for minute in (5, 5, 6)]
    assert minutes_of(reader, *lines) == [5, 5, 6]
    assert [skew.lines for skew in reader.found.skews.values()] == [4, 2]
    assert all(isinstance(skew, Skew) for skew in reader.found.skews.values())
    assert latest_us(0) > latest_us(-1) > LATEST_US - 400 * 24 * HOUR_US


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [IN_2099, IN_1970])
@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_a_report_names_the_broker_and_keeps_its_axis(spark: Any, tmp_path: Path, wrong: str, form: str) -> None:
    folder = tmp_path / "log" / FOLDER
    folder.mkdir(parents=True)
    for node in (1, 2):
        lines = [line("Fetch", minute, node=node, sequence=minute) for minute in range(50)]
        lines[10] = line(
            "Fetch", 0, node=node, sequence=10, **({"time": wrong} if node == 1 else {"time": TOMORROW[:8] + "21T08:10:00.000Z"})
        )
        (folder / f"node-{node}-000001.jsonl").write_text("".join(lines))
        if form == "parquet":
            clock = ManualClock(wall_ms=4_000_000_000_000)
            Archive(tmp_path / "log", node, clock, form="parquet", retention_hours=-1, retention_bytes=-1).run_once()
    out = str(tmp_path / "out")
    log = str(tmp_path / "log")
    written = Job(paths=[log], rollup_out=out)
    for job in (Job(paths=[log]), written, Job(paths=[out], is_merge=True)):
        document = run(spark, job)
        assert document["total"]["requests"] == 100
        assert (document["period"]["begin"], document["period"]["end"]) == ("2026-11-21T08:00", "2026-11-21T08:50")
        (found,) = [each for each in document["findings"] if each["name"] == "clock-skew"]
        off = {IN_2099: "72 years ahead", IN_1970: "57 years behind"}[wrong]
        assert found["title"] == f"The clock of broker 1 was {off} in 1 of its lines"
        assert found["evidence"]["since"] == "2026-11-21T08:00Z"
        assert document["time"]["ticks"][17]


def minutes(first: int, end: int) -> list[str]:
    return [line("Fetch", minute, topics=[topic("orders", 1)]) for minute in range(first, end) for _ in range(5)]


def with_errors(first: int, end: int) -> list[str]:
    failed = [topic("gone", 0, "NOT_LEADER_OR_FOLLOWER")]
    return [
        line("Produce", minute, error="NOT_LEADER_OR_FOLLOWER", topics=failed) for minute in range(first, end) for _ in range(40)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("is_first", [True, False])
def test_a_line_that_is_ahead_of_this_machine_ends_no_minute(spark: Any, tmp_path: Path, is_first: bool) -> None:
    """Half an hour, which a zone or a slow clock may explain: it keeps its time."""
    following = Following(spark, tmp_path / "rolled", now=lambda: HOUR * 3600 + 1740)
    ahead = [line("Fetch", 59)]
    following.batch(0, ahead if is_first else minutes(0, 22))
    following.batch(1, minutes(0, 22) if is_first else ahead)
    following.batch(2, minutes(22, 26), with_errors(22, 26))
    following.batch(3, minutes(26, 29))
    assert [found["name"] for found in following.reported] == ["error-burst"]


@pytest.mark.slow
def test_follow_finds_the_same_with_a_line_of_2099(spark: Any, tmp_path: Path) -> None:
    told: list[list[str]] = []
    for wrong in ("", line("Fetch", 0, time=IN_2099), line("Fetch", 0, time=IN_1970)):
        log = tmp_path / f"log-{len(told)}" / FOLDER
        log.mkdir(parents=True)
        (log / "node-1-000001.jsonl").write_text(wrong + "".join(minutes(0, 40)) + "".join(with_errors(30, 34)))
        found: list[Any] = []
        follow = streams.Following(Source(str(log.parent.parent)), str(tmp_path / f"out-{len(told)}"), is_once=True)
        streams.follow(spark, follow, found.extend)
        told.append([each["title"] for each in found if each["name"] != "clock-skew"])
        assert [each["name"] for each in found if each["name"] == "clock-skew"] == (["clock-skew"] if wrong else [])
        state = json.loads((tmp_path / f"out-{len(told) - 1}" / "_checkpoint" / "watch.json").read_text())
        assert state["searched"].startswith("2026-11-21T08:3")
    assert told[0]
    assert told[0] == told[1] == told[2]


def test_a_log_that_is_later_than_this_machine_as_a_whole_is_right(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "date=2199-11-21" / "hour=08"
    folder.mkdir(parents=True)
    (folder / "node-1-000001.jsonl").write_text(
        "".join(line("Fetch", 0, time=f"2199-11-21T08:{at:02}:00.000Z") for at in range(30))
    )
    document = run(spark, Job(paths=[str(tmp_path)]))
    assert document["period"]["end"] == "2199-11-21T08:30"
    assert not [each for each in document["findings"] if each["name"] == "clock-skew"]
    assert Folding().latest_us == 0
