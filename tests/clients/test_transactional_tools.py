"""Transactions by programs as they are: Apache Kafka's tools, kcat and kafkajs."""

import re
from pathlib import Path

import pytest

from tests.support.clients.clients import PROGRAMS, java_tool, kafkajs_ready, kcat, new_group, read_confluent, run, send_confluent
from tests.support.clients.served import ServedBroker
from tests.support.clients.transactional import TIMEOUT_S, make_topic, read, transactional
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.tools.compare.data_requests import produce
from twisted_kafka.tools.compare.talk import Talk

TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"

pytestmark = [pytest.mark.slow, pytest.mark.clients]


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


@pytest.mark.usefixtures("java")
def test_a_hanging_transaction_is_found_and_aborted(served: ServedBroker) -> None:
    """A batch of a transaction arrives when that has ended, and is not verified: no coordinator will end what it begins."""
    topic = make_topic(served, "hanging", 1)
    producer, open_all_along = transactional(served, "hanging"), transactional(served, "open")
    for each in (producer, open_all_along):
        each.begin_transaction()
        each.produce(topic, "in time", partition=0)
        each.flush(TIMEOUT_S)
    server = ["--bootstrap-server", served.bootstrap]
    described = java_tool(TRANSACTIONS, *server, "describe", "--transactional-id", "hanging").splitlines()
    state = dict(zip(described[0].split(), described[1].split(), strict=False))
    producer.commit_transaction(TIMEOUT_S)
    set_verification(served, "false")
    late = produce_late(served, topic, int(state["ProducerId"]), int(state["ProducerEpoch"]))
    set_verification(served, "true")
    send_confluent(served.bootstrap, topic, [b"after it"])
    of = ["--topic", topic, "--partition", "0"]

    def hanging() -> list[list[str]]:
        """Topic, partition, producer id and epoch, coordinator epoch, start offset. What its coordinator knows does not hang."""
        told = java_tool(TRANSACTIONS, *server, "find-hanging", *of, "--max-transaction-timeout", "0")
        return [line.split()[:6] for line in told.splitlines()[1:]]

    found = hanging()
    assert [each[:4] + each[5:] for each in found] == [[topic, "0", state["ProducerId"], state["ProducerEpoch"], str(late)]]
    java_tool(TRANSACTIONS, *server, "abort", *of, "--start-offset", str(late))
    assert hanging() == []
    assert read(served, topic) == ["in time"]  # the open transaction is next
    open_all_along.commit_transaction(TIMEOUT_S)
    assert read(served, topic) == ["in time", "in time", "after it"]


def set_verification(served: ServedBroker, value: str) -> None:
    words = ["--alter", "--entity-type", "brokers", "--entity-default"]
    setting = f"transaction.partition.verification.enable={value}"
    java_tool("kafka.admin.ConfigCommand", "--bootstrap-server", served.bootstrap, *words, "--add-config", setting)


def produce_late(served: ServedBroker, topic: str, producer_id: int, epoch: int) -> int:
    """Produce one more transactional batch for a producer that has sent one to the partition; return its offset."""
    batch = build_batch(
        [SimpleRecord(0, None, b"late")], producer_id=producer_id, producer_epoch=epoch, base_sequence=1, is_transactional=True
    )
    talk = Talk(served.port, "late")
    request = produce(topic, batch)
    request.transactional_id = "hanging"
    (response,) = talk.ask(request, 9).responses[0].partition_responses
    talk.close()
    assert response.error_code == 0
    return response.base_offset


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
    told = run(["node", str(PROGRAMS / "kafkajs" / "transact.js"), served.bootstrap, "kafkajs", new_group()])
    assert told.strip() == b"1"
    assert committed(served, "kafkajs", 3) == [b"zero", b"one", b"three"]
