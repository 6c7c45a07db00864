"""Fifty megabytes of log lines in by each codec and out by each client, byte for byte, on one broker; then the report on that run.

The tests follow each other on the same broker: what the first ones write, those after a restart and after kill -9 read again.
"""

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clients import counting, weblog
from tests.support.budget import patient
from tests.support.clients import clients
from tests.support.clients.served import ServedBroker
from tests.support.ports import free_port

SIZE_BYTES = 50_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

pytestmark = [pytest.mark.slow, pytest.mark.clients, pytest.mark.timeout(900)]


class Run:
    """One broker through all tests of this file, and how many requests its metrics counted in each of its lives."""

    def __init__(self, folder: Path) -> None:
        self.text = folder / "web.log"
        self.values = weblog.write(self.text, SIZE_BYTES)
        self.metrics_port = free_port()
        metrics = f"metrics.listener=127.0.0.1:{self.metrics_port}"
        self.broker = ServedBroker(folder / "data", "group.initial.rebalance.delay.ms=0", "log.segment.bytes=20000000", metrics)
        self.counted: Counter[str] = Counter()
        self.written: list[str] = []

    def end(self, how: str) -> None:
        """Stop or kill the broker, after its metrics were noted."""
        self.counted += counting.settled_request_counts(self.metrics_port)
        if how == "kill":
            self.broker.kill()
        else:
            assert self.broker.stop() == 0, self.broker.output.read_text()[-3000:]

    def timed(self, what: str, action: Callable[[], object], share: int = 1) -> object:
        """Do something with the text, or a part of it, and tell how long it took."""
        began = time.perf_counter()
        result = action()
        took_s = time.perf_counter() - began
        print(f"{what:45} {took_s:6.1f} s {self.text.stat().st_size / 1e6 / share / took_s:8.1f} MB/s")
        return result


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    run = Run(tmp_path_factory.mktemp("real"))
    run.broker.start()
    yield run
    run.broker.kill()


def readers() -> Iterator[tuple[str, bool, clients.Reader]]:
    """Each way to read: the client's name, whether in a group, and the function."""
    for name, read in clients.READERS.items():
        yield name, False, read
        yield name, True, read
    if clients.java_class_path():
        yield "java console consumer", False, clients.read_java
        yield "java console consumer", True, clients.read_java
    if clients.kafkajs_ready():
        yield "kafkajs", True, clients.read_kafkajs


@pytest.mark.parametrize("codec", CODECS)
def test_every_client_reads_what_was_written(run: Run, codec: str) -> None:
    bootstrap, values = run.broker.bootstrap, run.values
    by_kcat, by_librdkafka = f"kcat.{codec}", f"librdkafka.{codec}"
    if clients.kcat():
        run.timed(f"kcat in, {codec}", lambda: clients.send_kcat(bootstrap, by_kcat, run.text, codec))
        for group in (None, clients.new_group()):
            told = run.timed(
                f"kcat out{', group' if group else ''}",
                lambda group=group: clients.read_kcat(bootstrap, by_kcat, group),  # type: ignore[misc]
            )
            assert told == run.text.read_bytes() or pytest.fail("kcat read something else")
        run.written.append(by_kcat)
    run.timed(
        f"confluent-kafka in, {codec}",
        lambda: clients.send_confluent(bootstrap, by_librdkafka, values, **{"compression.type": codec}),
    )
    run.written.append(by_librdkafka)
    for name, in_group, read in readers():
        who = f"{name} out{', group' if in_group else ''}"
        group = clients.new_group() if in_group else None
        got = run.timed(who, lambda read=read, group=group: read(bootstrap, by_librdkafka, len(values), group))  # type: ignore[misc]
        clients.ensure_same(got, values, who)  # type: ignore[arg-type]


@pytest.mark.parametrize("acks", [0, 1, "all"])
@pytest.mark.parametrize(("batch", "share"), [("1 record", 20), ("1 MB", 1)])
def test_batches_of_one_record_and_of_a_megabyte(run: Run, acks: object, batch: str, share: int) -> None:
    topic, values = f"sized.{acks}.{batch.replace(' ', '')}", run.values[: len(run.values) // share]
    clients.send_confluent(run.broker.bootstrap, topic, [b"first"], acks="all")  # with acks=0 nobody waits for the topic's creation
    size = {
        "1 record": {"batch.num.messages": 1, "linger.ms": 0},
        "1 MB": {"batch.size": 1_000_000, "batch.num.messages": 100_000, "linger.ms": 50},
    }[batch]
    run.timed(
        f"in, acks={acks}, batches of {batch}",
        lambda: clients.send_confluent(run.broker.bootstrap, topic, values, acks=acks, **size),
        share,
    )
    got = clients.read_confluent(run.broker.bootstrap, topic, len(values) + 1)
    clients.ensure_same(got, [b"first", *values], topic)


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_everything_is_there_after_a_restart(run: Run, how: str) -> None:
    run.end(how)
    run.broker.start()
    assert run.written
    for topic in run.written:
        got = run.timed(
            f"{topic} after {how}",
            lambda topic=topic: clients.read_confluent(run.broker.bootstrap, topic, len(run.values)),  # type: ignore[misc]
        )
        clients.ensure_same(got, run.values, topic)  # type: ignore[arg-type]
    group = clients.new_group()
    clients.ensure_same(clients.read_kafka_python(run.broker.bootstrap, run.written[0], len(run.values), group), run.values, how)


def test_the_report_counts_what_the_metrics_counted(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    run.end("stop")
    assert not list(run.broker.access_dir.rglob(".node-*"))
    out = tmp_path / "report.html"
    command = [sys.executable, "-m", "twisted_kafka_spark", "report", str(run.broker.access_dir), "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patient(300))
    assert done.returncode == 0, done.stderr[-3000:]
    document = json.loads(out.with_suffix(".json").read_text())
    assert document["source"]["lines"] == {"read": run.counted.total()}
    assert {row["api"]: row["requests"] for row in document["apis"]} == dict(run.counted)
    assert document["total"]["requests"] == run.counted.total()
    assert {row["topic"] for row in document["topics"]} >= set(run.written)
    lines = counting.access_lines(run.broker.access_dir)
    assert Counter(line["api"] for line in lines) == run.counted
