"""``twisted-kafka transactions`` and ``logs``; and consuming what transactions wrote."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.eventually import eventually
from tests.tools.admin.cli import Cli
from twisted_kafka.client.connections.addresses import parse_address
from twisted_kafka.client.connections.socket_connection import SocketConnection
from twisted_kafka.protocol.messages.coordinators.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    InitProducerIdRequest,
)
from twisted_kafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.record import SimpleRecord

pytestmark = pytest.mark.medium

_TIMEOUT_S = 30


class Producer:
    """A transactional producer for partition 0 of a topic."""

    def __init__(self, connection: SocketConnection, name: str, topic: str) -> None:
        self._connection = connection
        self._name = name
        self._topic = topic
        self._sequence = 0
        asked = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
        self.begun = eventually(lambda: each if not (each := connection.ask(asked, 1, _TIMEOUT_S)).error_code else None)

    def send(self, *values: str) -> None:
        """Add the partition, and send a batch."""
        producer_id, epoch = self.begun.producer_id, self.begun.producer_epoch
        added = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._name,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=self._topic, partitions=[0])],
        )
        eventually(
            lambda: (
                not self._connection.ask(added, 1, _TIMEOUT_S)
                .results_by_topic_v3_and_below[0]
                .results_by_partition[0]
                .partition_error_code
            )
        )
        records = [SimpleRecord(1_700_000_000_000, None, value.encode()) for value in values]
        batch = build_batch(
            records, producer_id=producer_id, producer_epoch=epoch, base_sequence=self._sequence, is_transactional=True
        )
        self._sequence += len(values)
        data = [TopicProduceData(name=self._topic, partition_data=[PartitionProduceData(index=0, records=batch)])]
        request = ProduceRequest(transactional_id=self._name, acks=-1, timeout_ms=10_000, topic_data=data)
        assert self._connection.ask(request, 7, _TIMEOUT_S).responses[0].partition_responses[0].error_code == 0

    def end(self, *, commits: bool) -> None:
        """Commit or abort."""
        request = EndTxnRequest(
            transactional_id=self._name,
            producer_id=self.begun.producer_id,
            producer_epoch=self.begun.producer_epoch,
            committed=commits,
        )
        eventually(lambda: not self._connection.ask(request, 1, _TIMEOUT_S).error_code)


@contextmanager
def producer(cli: Cli, topic: str, name: str = "tx") -> Iterator[Producer]:
    cli.run("transactions", "describe", f"{cli.prefix}-{name}")  # which makes the broker create the topic of transactions
    with SocketConnection(parse_address(cli.server), "shop", _TIMEOUT_S) as connection:
        yield Producer(connection, f"{cli.prefix}-{name}", topic)


def test_committed_and_uncommitted_records(cli: Cli) -> None:
    topic = cli.topic("-p", "1")
    with producer(cli, topic) as transactional:
        transactional.send("a")
        transactional.end(commits=True)
        transactional.send("aborted 1", "aborted 2")
        transactional.end(commits=False)
        cli.ok("produce", topic, "plain")
        transactional.send("b")
        transactional.end(commits=True)
        eventually(lambda: cli.ok("consume", topic).lines == ["a", "plain", "b"])
        assert cli.ok("consume", topic, "--isolation-level", "read_uncommitted").lines == [
            "a",
            "aborted 1",
            "aborted 2",
            "plain",
            "b",
        ]
        assert cli.ok("consume", topic, "--from", "3").lines == ["plain", "b"]
        transactional.send("open")
        assert cli.ok("consume", topic).lines == ["a", "plain", "b"]
        assert cli.ok("consume", topic, "--isolation-level", "read_uncommitted").lines[-1] == "open"
        transactional.end(commits=False)


def test_transactions_are_listed_and_described(cli: Cli) -> None:
    topic, name = cli.topic("-p", "1"), f"{cli.prefix}-tx"
    with producer(cli, topic) as transactional:
        transactional.send("a")
        producer_id = transactional.begun.producer_id
        (row,) = [each for each in cli.json("transactions", "list", "--state", "Ongoing") if each["transactional_id"] == name]
        assert (row["state"], row["producer_id"]) == ("Ongoing", producer_id)
        assert len(cli.json("transactions", "list", "--producer-id", str(producer_id))) == 1
        (described,) = cli.json("transactions", "describe", name)
        assert (described["state"], described["timeout_ms"]) == ("Ongoing", 60_000)
        assert described["partitions"] == [{"topic": topic, "partition": 0}]
        assert f"{name}: Ongoing, producer {producer_id}" in cli.ok("transactions", "describe", name).text
        (open_one,) = cli.json("transactions", "producers", topic, "--open")
        assert (open_one["producer_id"], open_one["start_offset"], open_one["partition"]) == (producer_id, 0, 0)
        transactional.end(commits=True)
        eventually(lambda: not cli.json("transactions", "producers", topic, "--open"))
    assert f"did you mean '{name}'" in cli.fails("transactions", "describe", f"{name}y")
    assert "unknown state 'Opened'" in cli.fails("transactions", "list", "--state", "Opened", status=2)


def test_a_hanging_transaction_is_found_and_aborted(cli: Cli) -> None:
    topic = cli.topic("-p", "1")
    with producer(cli, topic) as transactional:
        transactional.send("a")
        assert cli.ok("transactions", "find-hanging", topic, "--older-than", "0").lines == ["no transaction hangs"]
        abort = ["transactions", "abort", topic, "0", "--start-offset"]
        assert f"no transaction of {topic}-0 begins at 7" in cli.fails(*abort, "7", "-y")
        assert "this would abort the transaction of producer" in cli.fails(*abort, "0")
        assert "aborted the transaction from offset 0" in cli.ok(*abort, "0", "-y").text
        assert cli.json("transactions", "producers", topic, "--open") == []


def test_log_directories(cli: Cli) -> None:
    topic = cli.topic("-p", "2")
    cli.ok("produce", topic, "x" * 1000, "-p", "1")
    (directory, *_) = cli.json("logs", "list")
    assert directory["replicas"] >= 2
    assert directory["bytes"] >= 1000
    assert directory["error"] is None
    assert directory["total_bytes"] > directory["usable_bytes"] > 0
    assert "kB" in cli.ok("logs", "list").text or "MB" in cli.ok("logs", "list").text
    rows = cli.json("logs", "describe", topic)
    assert [(each["partition"], each["lag"], each["future"]) for each in rows] == [(0, 0, False), (1, 0, False)]
    assert rows[1]["bytes"] > 1000
    broker = str(rows[0]["broker"])
    assert "has no log directory '/no'" in cli.fails("logs", "move", topic, "--to", "/no", "--broker", broker)
    here = rows[0]["directory"]
    assert "no replica on broker" in cli.ok("logs", "move", topic, "--to", here, "--broker", broker, "-y").text
    assert "there is no broker 77" in cli.fails("logs", "list", "--broker", "77")
