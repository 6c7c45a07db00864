import json
import os
from pathlib import Path

import pytest

from twisted_kafka.console.queries import logged as module
from twisted_kafka.console.queries.bounds import Bounds
from twisted_kafka.console.queries.logged import LogFilter, logged
from twisted_kafka.timing.clock import ManualClock

CLOCK = ManualClock()


def line(number: int, **fields: object) -> str:
    found = {
        "time": f"2026-11-27T17:00:{number:02}.000Z",
        "api": "Produce",
        "principal": "User:alice",
        "client_id": "app",
        "software": "librdkafka",
        "total_us": number * 1_000,
        "error": None,
        "topics": [{"topic": "orders"}],
    }
    return json.dumps({**found, **fields}) + "\n"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    older, newer = tmp_path / "date=2026-11-26" / "hour=23", tmp_path / "date=2026-11-27" / "hour=17"
    for each in (older, newer):
        each.mkdir(parents=True)
    (older / "node-1-000001.jsonl").write_text(line(0, api="DeleteTopics", principal="User:bob", topics=[{"topic": "payments"}]))
    closed = newer / "node-1-000001.jsonl"
    closed.write_text("".join(line(number) for number in range(1, 30)) + "not json\n[1]\n")
    os.utime(closed, (1, 1))
    being_written = line(30, error="TOPIC_AUTHORIZATION_FAILED") + line(31, group_id="g", topics=[]) + '{"time": "2026'
    (newer / ".node-1-000002.jsonl").write_text(being_written)
    (newer / "node-1-000000.jsonl.zst").write_bytes(b"\x28\xb5\x2f\xfd")
    return tmp_path


def test_the_latest_line_is_first(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BLOCK_BYTES", 100)
    found = logged(directory, CLOCK, LogFilter())
    assert [each["total_us"] for each in found.items] == [number * 1_000 for number in range(31, -1, -1)]
    assert found.stopped == ""


def test_who_deleted_a_topic(directory: Path) -> None:
    (found,) = logged(directory, CLOCK, LogFilter(api="deletetopics", topic="PAYMENTS")).items
    assert found["principal"] == "User:bob"


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        (LogFilter(only_errors=True), [30]),
        (LogFilter(topic="g", slower_ms=31), [31]),
        (LogFilter(slower_ms=29), [31, 30, 29]),
        (LogFilter(before="2026-11-27T17:00:02"), [1, 0]),
        (LogFilter(client="LIBRD", principal="bob"), [0]),
    ],
)
def test_filters(directory: Path, wanted: LogFilter, numbers: list[int]) -> None:
    assert [each["total_us"] // 1_000 for each in logged(directory, CLOCK, wanted).items] == numbers


def test_a_search_stops(directory: Path) -> None:
    few = logged(directory, CLOCK, LogFilter(), 3)
    assert (len(few.items), few.stopped) == (3, "after 3 requests that match")
    stopped = logged(directory, CLOCK, LogFilter(only_errors=True, slower_ms=999), bounds=Bounds(records=10))
    assert (stopped.items, stopped.scanned, stopped.stopped) == ((), 10, "after 10 records")
    assert logged(directory / "none", CLOCK, LogFilter()).items == ()
