"""Broken promises are found in logs that somebody changed, and named with record, partition and seed."""

from pathlib import Path

import pytest

from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.messages.administration.topics import DeleteTopicsRequest
from twisted_kafka.protocol.messages.coordinators.transactions import (
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from twisted_kafka.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from twisted_kafka.protocol.records.builder import build_batch, end_transaction_marker
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.world.checking.checks import BrokenPromiseError, Checks
from twisted_kafka.world.checking.history import History
from twisted_kafka.world.checking.replicas import Replicas

PRODUCER = 7
ORDERS = TopicPartition("orders", 0)


class Bench:
    """Two replicas of each partition, as files, and what producers were told."""

    def __init__(self, root: Path) -> None:
        self.directories = {1: root / "1", 2: root / "2"}
        self.history = History(lambda: 0)
        self.properties: dict[str, object] = {}
        self.ends: dict[TopicPartition, int] = {}

    @property
    def checks(self) -> Checks:
        return Checks(17, self.history, lambda: Replicas(self.directories, lambda _: [2, 1]), self.properties, 2)

    def append(self, data: bytes, partition: TopicPartition = ORDERS, brokers: tuple[int, ...] = (1, 2)) -> None:
        """Write a batch to the end of replicas."""
        at = self.ends.get(partition, 0)
        self.ends[partition] = at + 1
        for broker in brokers:
            directory = self.directories[broker] / str(partition)
            directory.mkdir(parents=True, exist_ok=True)
            with (directory / f"{0:020d}.log").open("ab") as file:
                file.write(at.to_bytes(8, "big") + data[8:])

    def produce(
        self,
        value: bytes,
        partition: TopicPartition = ORDERS,
        *,
        sequence: int = -1,
        brokers: tuple[int, ...] = (1, 2),
        acks: int = -1,
    ) -> None:
        """Let a record be acknowledged."""
        epoch, producer = (0, PRODUCER) if sequence >= 0 else (-1, -1)
        data = build_batch(
            [SimpleRecord(1, None, value)],
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=sequence >= 0,
        )
        offset = self.ends.get(partition, 0)
        self.append(data, partition, brokers)
        sent = PartitionProduceData(index=partition.partition, records=memoryview(data))
        request = ProduceRequest(
            acks=acks,
            transactional_id="shop" if sequence >= 0 else None,
            topic_data=[TopicProduceData(name=partition.topic, partition_data=[sent])],
        )
        told = PartitionProduceResponse(index=partition.partition, base_offset=offset)
        response = ProduceResponse(responses=[TopicProduceResponse(name=partition.topic, partition_responses=[told])])
        self.history.answered(self.history.asked("till", ApiKey.PRODUCE, request), response)

    def end(self, *, committed: bool) -> None:
        request = EndTxnRequest(transactional_id="shop", producer_id=PRODUCER, committed=committed)
        self.history.answered(self.history.asked("till", ApiKey.END_TXN, request), EndTxnResponse())

    def mark(self, partition: TopicPartition = ORDERS, *, committed: bool) -> None:
        marker = end_transaction_marker(
            commit=committed, coordinator_epoch=0, timestamp_ms=1, producer_id=PRODUCER, producer_epoch=0
        )
        self.append(bytes(marker), partition)

    def broken(self) -> list[str]:
        try:
            self.checks.all()
        except BrokenPromiseError as error:
            return [str(each) for each in error.broken]
        return []


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_an_acknowledged_record_is_in_each_in_sync_replica(bench: Bench) -> None:
    bench.produce(b"a")
    assert bench.broken() == []
    bench.produce(b"b", brokers=(2,))
    assert bench.broken() == ["lost: orders-0 offset 1, written by till, is not in the log of kafka-1"]
    with pytest.raises(BrokenPromiseError, match="lost: orders-0 offset 1"):
        bench.checks.no_acknowledged_record_is_lost()


def test_another_record_at_its_offset_is_no_consolation(bench: Bench) -> None:
    bench.produce(b"a", brokers=(2,))
    bench.ends.clear()
    bench.append(build_batch([SimpleRecord(1, None, b"b")]), brokers=(1,))
    assert bench.broken() == ["changed: orders-0 offset 0, written by till, is another record in the log of kafka-1"]


def test_what_was_not_promised_may_be_lost(bench: Bench) -> None:
    bench.produce(b"a", brokers=(2,), acks=1)
    assert bench.broken() == []
    bench.produce(b"b", brokers=(2,))
    assert len(bench.broken()) == 1
    bench.history.asked("admin", ApiKey.DELETE_TOPICS, DeleteTopicsRequest(topic_names=["orders"]))
    assert bench.broken() == []


def test_topics_with_retention_may_shrink(bench: Bench) -> None:
    bench.produce(b"a", brokers=(2,))
    bench.properties["log.retention.ms"] = 1000
    assert bench.broken() == []


def test_a_duplicate_and_a_gap_of_an_idempotent_producer(bench: Bench) -> None:
    for sequence in (0, 1):
        bench.produce(b"a", sequence=sequence)
    assert bench.broken() == []
    bench.produce(b"a", sequence=1)
    where = "orders-0 offset 2 on kafka-{} has sequence 1 of producer 7 in epoch 0, after 1"
    assert bench.broken() == [f"duplicate: {where.format(2)}", f"duplicate: {where.format(1)}"]
    bench.produce(b"a", sequence=4)
    assert bench.broken()[1].startswith("reordered: orders-0 offset 3")
    with pytest.raises(BrokenPromiseError, match="4 broken promises"):
        bench.checks.no_record_is_duplicated()


def test_offsets_go_up(bench: Bench) -> None:
    bench.produce(b"a")
    bench.ends.clear()
    bench.append(build_batch([SimpleRecord(1, None, b"b")]), brokers=(1,))
    assert "reordered: orders-0 offset 0 on kafka-1 comes after offset 0" in bench.broken()


def test_a_transaction_ends_as_its_producer_was_told(bench: Bench) -> None:
    bench.produce(b"a", sequence=0)
    bench.end(committed=True)
    assert bench.broken() == []  # the marker may come yet
    bench.mark(committed=False)
    assert bench.broken() == ["half: orders-0 offset 0, written by till is aborted, unlike its transaction of shop"]


def test_a_transaction_has_one_outcome(bench: Bench) -> None:
    other = TopicPartition("bills", 1)
    bench.produce(b"a", sequence=0)
    bench.produce(b"b", other, sequence=0)
    began = InitProducerIdRequest(transactional_id="shop")
    noted = bench.history.asked("till", ApiKey.INIT_PRODUCER_ID, began)
    bench.history.answered(noted, InitProducerIdResponse(producer_id=PRODUCER, producer_epoch=1))
    bench.mark(committed=True)
    assert bench.broken() == []
    bench.mark(other, committed=False)
    (text,) = bench.broken()
    assert text == (
        "half: of a transaction of shop, orders-0 offset 0, written by till is committed, bills-1 offset 0, written by till not"
    )
