"""Transactions that this broker and Apache Kafka have together: one leads a partition, the other one coordinates."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients.clients import java_class_path
from tests.support.oracle.apache_kafka import ApacheKafka
from tests.support.oracle.compared import running
from tests.support.two_brokers import (
    PRIVILEGED,
    TOPIC,
    TRANSACTIONS,
    Member,
    TransactionalProducer,
    create_topic,
    markers,
    order,
    port_of,
    read_committed,
)
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.tools.compare.talk import Talk

pytestmark = pytest.mark.oracle

KAFKA, OURS = 1, 2


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    if java_class_path() is None:
        pytest.skip("needs Java and Maven")
    settings: dict[str, Any] = {
        "transaction.state.log.num.partitions": 3,
        "transaction.partition.verification.enable": "false",  # it would ask itself, who does not coordinate
        "log.initial.task.delay.ms": 3_600_000,
    }
    apache = ApacheKafka(tmp_path_factory.mktemp("kafka"), **settings)
    with running(apache):
        create_topic(Talk(apache.port, "create"))
        yield apache


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[Member]:
    member = Member(OURS, tmp_path, {PRIVILEGED: "PLAINTEXT"})
    member.start()
    yield member
    member.stop()


def test_kafka_writes_the_markers_that_this_broker_sends(kafka: ApacheKafka, ours: Member) -> None:
    there = Talk(kafka.port, "there")
    ours.prepare(1)
    ports = {KAFKA: kafka.port, OURS: port_of(ours.broker, PRIVILEGED)}
    order(ours, {(TOPIC, 0): OURS, (TOPIC, 1): KAFKA}, ports, PRIVILEGED)
    producers = [TransactionalProducer(ours.talk, f"tx-{number}", 0) for number in range(2)]
    for number, producer in enumerate(producers):
        producer.add(0, 1)
        assert producer.produce(ours.talk, 0, b"here") == 0
        assert producer.produce(there, 1, b"value %d" % number) == 0
    assert read_committed(there, 1) == []
    for producer, committed in zip(producers, (True, False), strict=True):
        producer.end(committed)
        producer.await_state("CompleteCommit" if committed else "CompleteAbort")
    assert read_committed(there, 1) == [b"value 0"]
    assert read_committed(ours.talk, 0) == [b"here"]
    expected = [(producers[0].now.producer_id, True), (producers[1].now.producer_id, False)]
    assert markers(kafka.directory / "data" / f"{TOPIC}-1") == expected
    there.close()


def test_this_broker_asks_kafka_whether_a_partition_is_in_a_transaction(kafka: ApacheKafka, ours: Member) -> None:
    there = Talk(kafka.port, "there")
    ours.prepare(0)
    ports = {KAFKA: kafka.port, OURS: port_of(ours.broker, PRIVILEGED)}
    order(ours, {(TRANSACTIONS, index): KAFKA for index in range(3)}, ports, PRIVILEGED)
    producer = TransactionalProducer(there, "asked", 0)
    assert producer.produce(ours.talk, 1, b"not added", version=10) == ErrorCode.INVALID_TXN_STATE
    producer.add(1)
    assert producer.produce(ours.talk, 1, b"added") == 0
    older = producer.now
    producer.now = TransactionalProducer(there, "asked", 0).now
    assert producer.now.epoch > older.epoch
    producer.now = older
    assert producer.produce(ours.talk, 0, b"fenced") == ErrorCode.INVALID_PRODUCER_EPOCH
    there.close()
