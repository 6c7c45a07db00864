"""`follow` as a user runs it, interrupted, killed and restarted: each line counts exactly once."""

import json
import re
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.support.processes import start_tied

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pyarrow import parquet

from tests.spark.access_lines import line, topic
from tests.spark.connector import connector
from tests.support.clients.served import ServedBroker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
TIMEOUT_S = 1200
OPEN, CLOSED = ".node-1-000001.jsonl", "node-1-000001.jsonl"
A_MINUTE = 40
BURST = range(20, 24)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "twisted_kafka_spark", "follow", "--master", "local[2]", *arguments]


STARVED = "Python worker failed to connect back"
"""Spark gives its Python workers ten seconds to start, and a busy machine may take longer. The next run goes on."""


def follow(*arguments: str) -> str:
    while True:
        done = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=TIMEOUT_S)
        if done.returncode == 0:
            return done.stdout
        assert STARVED in done.stderr, done.stderr[-3000:]


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


def written(out: Path) -> dict[int, dict[str, int]]:
    """Return the number of requests by minute and API, over all batches that are complete."""
    found: dict[int, dict[str, int]] = defaultdict(Counter)
    for folder in written_batches(out):
        for path in folder.rglob("*.parquet"):  # a folder for each date and hour
            for row in parquet.ParquetFile(path).read(["kind", "at", "api", "requests"]).to_pylist():
                if row["kind"] == "traffic":
                    found[row["at"].minute][row["api"]] += row["requests"]
    return found


def written_batches(out: Path) -> list[Path]:
    return [path.parent for path in out.glob("followed=4/batches=*/_SUCCESS")]


def expected(minutes: int) -> dict[int, dict[str, int]]:
    return {
        minute: {"Fetch": A_MINUTE, "Produce": A_MINUTE} if minute in BURST else {"Fetch": A_MINUTE} for minute in range(minutes)
    }


def test_files_with_restarts_and_kills(tmp_path: Path) -> None:
    log, out = tmp_path / "log", tmp_path / "rolled"
    log.mkdir()
    append(log / OPEN, minutes(0, 10))
    follow(str(log), "--out", str(out), "--once")
    assert written(out) == expected(10)
    append(log / OPEN, minutes(10, 16))
    (log / OPEN).rename(log / CLOSED)
    following = command(str(log), "--out", str(out), "--every", "1s")
    with (tmp_path / "killed.out").open("wb") as output:
        # Killed while it starts a batch, writes it, or has written it: what it is doing then differs from run to run.
        for minute, wait_s in ((16, 0.0), (18, 0.3), (20, 1.0)):
            before = len(list(out.glob("followed=4/batches=*")))
            running = start_tied(following, stdout=output, stderr=output)
            try:
                append(log / ".node-1-000002.jsonl", minutes(minute, minute + 2))
                deadline = time.monotonic() + TIMEOUT_S
                while len(list(out.glob("followed=4/batches=*"))) == before:
                    if running.poll() is not None:
                        told = (tmp_path / "killed.out").read_text()[-3000:]
                        assert STARVED in told, told
                        running = start_tied(following, stdout=output, stderr=output)
                    assert time.monotonic() < deadline
                    time.sleep(0.01)
                time.sleep(wait_s)
            finally:
                running.kill()
                running.wait()
    append(log / ".node-1-000002.jsonl", minutes(22, 30))
    told = follow(str(log), "--out", str(out), "--once")
    assert written(out) == expected(30)
    burst = r"\* error-burst \(\w+, \w+\): Produce failed with NOT_LEADER_OR_FOLLOWER"
    assert re.search(burst, told + (tmp_path / "killed.out").read_text())


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
        options = ["--jars", connector(), "--bootstrap-servers", broker.bootstrap, "--topic", "made"]
        following = [*options, "--out", str(out), "--once", "--findings-topic", "findings"]
        produce(minutes(0, 12))
        assert "error-burst" not in follow(*following)
        assert written(out) == expected(12)
        produce(minutes(12, 30))
        assert "* error-burst (" in follow(*following)
        assert written(out) == expected(30)
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": broker.bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["findings"])
        sent = {message.key(): json.loads(message.value()) for message in consumer.consume(2, TIMEOUT_S)}  # in any order
        consumer.close()
        assert set(sent) == {b"error-burst", b"idle-poller"}
        assert sent[b"error-burst"]["evidence"]["errors"] == A_MINUTE * len(BURST)
        report = [
            sys.executable,
            "-m",
            "twisted_kafka_spark",
            "report",
            "--quiet",
            "--out",
            str(tmp_path / "report.html"),
            *options,
        ]
        subprocess.run(report, check=True, timeout=TIMEOUT_S)
        document = json.loads((tmp_path / "report.json").read_text())
        assert document["source"]["lines"] == {"read": A_MINUTE * (30 + len(BURST))}
    finally:
        broker.kill()
