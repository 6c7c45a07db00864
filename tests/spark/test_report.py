"""The report of a small log whose every figure is known, through the command line as a user calls it."""

import json
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from twisted_kafka_spark.cli import main

PHASES = {"request_queue_us": 10, "local_us": 20, "remote_us": 30, "throttle_us": 0, "response_queue_us": 5, "send_us": 15}


def line(api: str, minute: int, **changes: object) -> str:
    fields: dict[str, object] = {
        "v": 1,
        "time": f"2026-11-21T08:{minute:02}:30.250Z",
        "node": 1,
        "listener": "PLAINTEXT",
        "protocol": "PLAINTEXT",
        "connection": "127.0.0.1:9092-127.0.0.1:40000-0",
        "principal": "User:ANONYMOUS",
        "client_id": "app",
        "software": "librdkafka",
        "software_version": "2.0.2",
        "api": api,
        "api_key": 0,
        "version": 7,
        "correlation_id": 1,
        "request_bytes": 100,
        "response_bytes": 50,
        **PHASES,
        "total_us": sum(PHASES.values()),
        "error": None,
        "topics": [],
    }
    return json.dumps(fields | changes) + "\n"


def topic(name: str, records: int, error: str | None = None) -> dict[str, object]:
    return {"topic": name, "partitions": 1, "records": records, "bytes": records * 10, "error": error}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, str]:
    directory = tmp_path_factory.mktemp("access")
    hour = directory / "date=2026-11-21" / "hour=08"
    hour.mkdir(parents=True)
    (hour / "node-1-0.jsonl").write_text(
        line("Produce", 1, topics=[topic("orders", 3), topic("clicks", 4)])
        + line("Produce", 1, topics=[topic("orders", 5)])
        + line("Produce", 2, topics=[topic("gone", 1, "UNKNOWN_TOPIC_OR_PARTITION")], error="UNKNOWN_TOPIC_OR_PARTITION")
        + '{"v":1,"time":"2026-1'
        + "\n"
    )
    (hour / "node-1-1.jsonl").write_text(line("Metadata", 2, client_id='<b>"x"</b>', software=None, total_us=9000))
    (hour / ".node-1-2.jsonl").write_text(line("Metadata", 3) * 100)
    out = directory / "page.html"
    assert main(["report", str(directory), "--out", str(out), "--master", "local[1]"]) == 0
    return json.loads(out.with_suffix(".json").read_text()), out.read_text()


def test_requests_are_counted_once_whatever_their_topics(report: tuple[dict, str]) -> None:
    document, _ = report
    assert document["total"]["requests"] == 4
    assert document["total"]["failed"] == 1
    assert document["total"]["request_bytes"] == 400
    assert {row["api"]: row["requests"] for row in document["api"]} == {"Produce": 3, "Metadata": 1}
    assert [(row["minute"], row["api"], row["requests"]) for row in document["minute"]] == [
        ("2026-11-21T08:01Z", "Produce", 2),
        ("2026-11-21T08:02Z", "Metadata", 1),
        ("2026-11-21T08:02Z", "Produce", 1),
    ]


def test_topics_have_their_own_counts(report: tuple[dict, str]) -> None:
    document, _ = report
    counted = {row["topic"]: (row["topic_requests"], row["topic_records"], row["topic_bytes"]) for row in document["topic"]}
    assert counted == {"orders": (2, 8, 80), "clicks": (1, 4, 40), "gone": (1, 1, 10)}
    assert [(row["topic"], row["topic_error"]) for row in document["topic_error"]] == [("gone", "UNKNOWN_TOPIC_OR_PARTITION")]


def test_latencies_and_phases(report: tuple[dict, str]) -> None:
    document, _ = report
    by_api = {row["api"]: row for row in document["api"]}
    assert by_api["Produce"]["total_us"] == {"p50": 80, "p95": 80, "p99": 80, "p99.9": 80}
    assert by_api["Produce"]["mean_remote_us"] == 30
    assert by_api["Metadata"]["max_us"] == 9000


def test_torn_lines_are_counted_and_open_files_left_alone(report: tuple[dict, str]) -> None:
    document, _ = report
    assert document["unreadable_lines"] == 1
    assert document["total"]["last_minute"] == "2026-11-21T08:02Z"


def test_page_is_whole_and_escapes_what_clients_say(report: tuple[dict, str]) -> None:
    _, page = report
    assert "&lt;b&gt;&quot;x&quot;&lt;/b&gt;" in page
    assert "<b>&quot;x" not in page
    for outside in ("http:", "https:", "<script", "<link", "src="):
        assert outside not in page


def test_directory_without_a_log_is_one_clear_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "page.html")]) == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "no closed access-log file" in told
    assert main(["report", str(tmp_path / "none")]) == 1
    assert "is not a directory" in capsys.readouterr().err
