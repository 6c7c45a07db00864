"""What the access log has about the transactions of a real client."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.budget import patient
from tests.support.eventually import eventually
from twisted_kafka import Broker

TIMEOUT_S = patient(60)
COMMITS, ABORTS = 6, 2
LEFT_OPEN_MS = 1_000

pytestmark = pytest.mark.clients


def transactional(broker: Broker, transactional_id: str, **settings: Any) -> Producer:
    values = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": transactional_id, "log_level": 0}
    producer = Producer({**values, "client.id": f"client-{transactional_id}", **settings})
    producer.init_transactions(TIMEOUT_S)
    return producer


def begin(producer: Producer, value: str) -> None:
    producer.begin_transaction()
    producer.produce("orders", value, partition=0)
    producer.flush(TIMEOUT_S)


def copy(broker: Broker) -> None:
    """Commit what was read together with what is written, and abort two of the transactions."""
    producer = transactional(broker, "copier")
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "copiers"})
    for number in range(COMMITS + ABORTS):
        begin(producer, f"{number}")
        producer.send_offsets_to_transaction([TopicPartition("orders", 0, number)], consumer.consumer_group_metadata(), TIMEOUT_S)
        producer.commit_transaction(TIMEOUT_S) if number < COMMITS else producer.abort_transaction(TIMEOUT_S)
    consumer.close()


def lines(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in directory.rglob("*.jsonl") for line in path.open() if line.endswith("\n")]


def outcomes(directory: Path) -> Counter[tuple[str, str]]:
    named = [line["transaction"] for line in lines(directory) if "transaction" in line]
    return Counter((each["id"], each["outcome"]) for each in named if "outcome" in each)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The access log of a broker with a producer that commits and aborts, one that times out, and one that is fenced."""
    directory = tmp_path_factory.mktemp("access")
    settings = {
        "access.log.dir": str(directory),
        "access.log.write.interval.ms": "20",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
        "group.initial.rebalance.delay.ms": "0",
    }
    with Broker(settings) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result(TIMEOUT_S)
        copy(broker)
        left = transactional(broker, "left", **{"transaction.timeout.ms": LEFT_OPEN_MS})
        begin(left, "left")
        first = transactional(broker, "twins")
        begin(first, "lost")
        transactional(broker, "twins")
        eventually(lambda: ("left", "timed-out") in outcomes(directory))
    return directory


def test_each_end_is_in_one_line(log: Path) -> None:
    assert outcomes(log) == {
        ("copier", "committed"): COMMITS,
        ("copier", "aborted"): ABORTS,
        ("left", "timed-out"): 1,
        ("twins", "fenced"): 1,
    }


def test_a_timeout_has_a_line_without_a_request(log: Path) -> None:
    (line,) = [line for line in lines(log) if "api" not in line]
    assert line["transaction"]["id"] == "left"
    assert line["transaction"]["duration_ms"] >= LEFT_OPEN_MS
    assert [topic["topic"] for topic in line["topics"]] == ["orders"]


@pytest.mark.slow
def test_the_report_counts_them_and_finds_what_was_left_open(log: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    command = [
        sys.executable,
        "-m",
        "twisted_kafka_spark",
        "report",
        str(log),
        "--out",
        str(page),
        "--fail-on",
        "hanging-transaction",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S * 2, check=False)
    assert done.returncode == 3, done.stderr
    document = json.loads(page.with_suffix(".json").read_text())
    counts = ("begun", "committed", "aborted", "fenced", "timed_out", "open")
    assert {row["transactional_id"]: tuple(row[name] for name in counts) for row in document["transactions"]["producers"]} == {
        "copier": (COMMITS + ABORTS, COMMITS, ABORTS, 0, 0, 0),
        "left": (1, 0, 0, 0, 1, 0),
        "twins": (1, 0, 0, 1, 0, 0),
    }
    assert document["transactions"]["producers"][0]["client_id"] == "client-copier"
    (found,) = [each for each in document["findings"] if each["name"] == "hanging-transaction"]
    assert (found["evidence"]["transactional_id"], found["evidence"]["client_id"]) == ("left", "client-left")
    assert '<section id="transactions">' in page.read_text()


def test_the_lines_of_a_producers_requests_name_its_id_and_their_topics(log: Path) -> None:
    found: dict[str, set[tuple[str, ...]]] = {}
    for line in lines(log):
        if line.get("transaction", {}).get("id") == "copier" and not line["error"]:
            found.setdefault(line["api"], set()).add(tuple(sorted(topic["topic"] for topic in line["topics"])))
    assert found == {
        "InitProducerId": {()},
        "AddPartitionsToTxn": {("orders",)},
        "Produce": {("orders",)},
        "AddOffsetsToTxn": {("__consumer_offsets",)},
        "TxnOffsetCommit": {("orders",)},
        "EndTxn": {("__consumer_offsets", "orders")},
    }
