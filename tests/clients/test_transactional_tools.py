"""Transactions by programs as they are: Apache Kafka's tools, kcat and kafkajs."""

import re
from pathlib import Path

import pytest

from tests.clients.clients import HERE, java_tool, kafkajs_ready, kcat, new_group, read_confluent, run, send_confluent
from tests.clients.served import ServedBroker

TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"

pytestmark = [pytest.mark.slow, pytest.mark.clients, pytest.mark.timeout(300)]


def committed(broker: ServedBroker, topic: str, count: int) -> list[bytes]:
    return read_confluent(broker.bootstrap, topic, count, **{"isolation.level": "read_committed"})


@pytest.mark.usefixtures("java")
def test_kafka_producer_perf_test(served: ServedBroker) -> None:
    words = ["--topic", "perf", "--num-records", "5000", "--record-size", "100", "--throughput", "2000"]
    words += ["--transactional-id", "perf", "--transaction-duration-ms", "200"]
    told = java_tool(
        "org.apache.kafka.tools.ProducerPerformance", *words, "--producer-props", f"bootstrap.servers={served.bootstrap}"
    )
    assert "5000 records sent" in told
    assert len(committed(served, "perf", 5000)) == 5000
    server = ["--bootstrap-server", served.bootstrap]
    listed = java_tool(TRANSACTIONS, *server, "list")
    assert re.search(r"^perf\s+\d+\s+\d+\s+CompleteCommit", listed, re.MULTILINE), listed
    described = java_tool(TRANSACTIONS, *server, "describe", "--transactional-id", "perf")
    assert re.search(r"\s0\s+CompleteCommit\s+60000\s", described), described


@pytest.mark.usefixtures("java")
def test_the_copier_of_kafkas_system_tests_copies_each_record_once(served: ServedBroker) -> None:
    values = [b"%d" % number for number in range(2000)]
    send_confluent(served.bootstrap, "copied", values)
    send_confluent(served.bootstrap, "copy", [])
    words = ["--broker-list", served.bootstrap, "--input-topic", "copied", "--input-partition", "0", "--output-topic", "copy"]
    words += ["--max-messages", "2000", "--consumer-group", new_group(), "--transactional-id", "copier", "--transaction-size", "50"]
    java_tool("org.apache.kafka.tools.TransactionalMessageCopier", *words, "--enable-random-aborts", "--use-group-metadata")
    assert committed(served, "copy", 2000) == values


@pytest.mark.skipif(kcat() is None, reason="kcat is not installed")
def test_kcat(served: ServedBroker, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text("".join(f"line {number}\n" for number in range(100)))
    for _ in range(2):
        run([kcat() or "kcat", "-P", "-b", served.bootstrap, "-t", "kcat", "-X", "transactional.id=kcat", "-l", str(lines)])
    assert committed(served, "kcat", 200) == lines.read_bytes().split(b"\n")[:-1] * 2


def test_kafkajs(served: ServedBroker) -> None:
    if not kafkajs_ready():
        pytest.skip("needs node and npm")
    send_confluent(served.bootstrap, "kafkajs", [b"zero"])
    told = run(["node", str(HERE / "kafkajs" / "transact.js"), served.bootstrap, "kafkajs", new_group()])
    assert told.strip() == b"1"
    assert committed(served, "kafkajs", 3) == [b"zero", b"one", b"three"]
