"""`follow` as a user runs it, interrupted, killed and restarted: each minute that is over is written exactly once."""

import datetime
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.processes import start_tied

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pyarrow import parquet

from tests.clients.served import ServedBroker
from tests.spark.access_lines import line, topic

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
TIMEOUT_S = 300
OPEN, CLOSED = ".node-1-000001.jsonl", "node-1-000001.jsonl"
A_MINUTE = 40
BURST = range(20, 24)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "twisted_kafka_spark", "follow", "--master", "local[2]", *arguments]


def follow(*arguments: str) -> str:
    done = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def minutes(first: int, end: int) -> list[str]:
    """Lines of the minutes [first, end); those of BURST also have errors."""
    texts = [line("Fetch", minute, correlation_id=number) for minute in range(first, end) for number in range(A_MINUTE)]
    failed = [topic("gone", 0, "NOT_LEADER_OR_FOLLOWER")]
    texts += [
        line("Produce", minute, error="NOT_LEADER_OR_FOLLOWER", topics=failed)
        for minute in BURST
        if first <= minute < end
        for _ in range(A_MINUTE)
    ]
    return sorted(texts, key=lambda text: str(json.loads(text)["time"]))


def append(path: Path, texts: list[str]) -> None:
    with path.open("a") as file:
        file.write("".join(texts))


def written(out: Path) -> dict[int, list[int]]:
    """Return the number of requests of each cell by minute, over all batches."""
    found: dict[int, list[int]] = {}
    keys: list[tuple[Any, ...]] = []
    for path in out.glob("followed=3/batch=*/*.parquet"):
        for row in parquet.ParquetFile(path).read(["kind", "at", "api", "requests"]).to_pylist():
            if row["kind"] == "traffic":
                keys.append((row["at"], row["api"]))
                at: datetime.datetime = row["at"]
                found.setdefault(at.minute, []).append(row["requests"])
    assert len(keys) == len(set(keys))  # no cell is there twice
    return found


def assert_exactly_once(found: dict[int, list[int]], last_line: int) -> None:
    """A minute is over after a line that is later than its end by the lateness: the last two are not written yet."""
    assert sorted(found) == list(range(last_line - 1))
    assert found == {minute: [A_MINUTE] * (2 if minute in BURST else 1) for minute in found}


def test_files_with_restarts_and_a_kill(tmp_path: Path) -> None:
    log, out = tmp_path / "log", tmp_path / "rolled"
    log.mkdir()
    append(log / OPEN, minutes(0, 10))
    follow(str(log), "--out", str(out), "--once")
    assert_exactly_once(written(out), last_line=9)
    append(log / OPEN, minutes(10, 16))
    (log / OPEN).rename(log / CLOSED)
    with (tmp_path / "killed.out").open("wb") as output:
        running = start_tied(command(str(log), "--out", str(out), "--every", "1s"), stdout=output, stderr=output)
        try:
            for batches in (2, 3):
                append(log / ".node-1-000002.jsonl", minutes(12 + 2 * batches, 14 + 2 * batches))
                deadline = time.monotonic() + TIMEOUT_S
                while len(written_batches(out)) < batches:
                    assert running.poll() is None, (tmp_path / "killed.out").read_text()[-3000:]
                    assert time.monotonic() < deadline
                    time.sleep(0.2)
        finally:
            running.kill()
            running.wait()
    append(log / ".node-1-000002.jsonl", minutes(20, 30))
    told = follow(str(log), "--out", str(out), "--once")
    assert_exactly_once(written(out), last_line=29)
    assert "* error-burst: Produce failed with NOT_LEADER_OR_FOLLOWER" in told


def written_batches(out: Path) -> list[Path]:
    return list(out.glob("followed=3/batch=*/cells.parquet"))


def test_a_topic_with_a_restart_and_findings_to_a_topic(tmp_path: Path) -> None:
    import confluent_kafka

    broker = ServedBroker(tmp_path / "broker")
    broker.start()
    try:
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})

        def produce(texts: list[str]) -> None:
            for text in texts:
                producer.produce("made", text.rstrip())
            assert producer.flush(TIMEOUT_S) == 0

        out = tmp_path / "rolled"
        options = ["--bootstrap-servers", broker.bootstrap, "--topic", "made", "--out", str(out), "--once"]
        produce(minutes(0, 12))
        assert "error-burst" not in follow(*options, "--findings-topic", "findings")
        assert_exactly_once(written(out), last_line=11)
        produce(minutes(12, 30))
        assert "* error-burst: " in follow(*options, "--findings-topic", "findings")
        assert_exactly_once(written(out), last_line=29)
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": broker.bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["findings"])
        (message,) = consumer.consume(1, TIMEOUT_S)
        consumer.close()
        assert message.key() == b"error-burst"
        assert json.loads(message.value())["evidence"]["errors"] == A_MINUTE * len(BURST)
    finally:
        broker.kill()
