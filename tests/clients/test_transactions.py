"""Transactions by real clients: every outcome, fencing, timeouts, and a broker that is killed in between."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from kafka import KafkaProducer
from kafka.errors import KafkaError as PythonKafkaError

from tests.support.clients.served import ServedBroker
from tests.support.clients.transactional import TIMEOUT_S, make_topic, read, transactional

ABORT_INTERVAL_MS = 200

pytestmark = pytest.mark.clients


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    served = ServedBroker(
        tmp_path_factory.mktemp("transactions") / "data",
        "group.initial.rebalance.delay.ms=0",
        "offsets.topic.num.partitions=4",
        "transaction.state.log.num.partitions=4",
        f"transaction.abort.timed.out.transaction.cleanup.interval.ms={ABORT_INTERVAL_MS}",
    )
    served.start()
    yield served
    assert served.stop() == 0, served.output.read_text()[-3000:]


def test_librdkafka_commits_and_aborts(broker: ServedBroker) -> None:
    topic = make_topic(broker, "librdkafka")
    producer = transactional(broker, "tx-librdkafka")
    for number in range(6):
        producer.begin_transaction()
        for partition in range(2):
            producer.produce(topic, f"{number}", partition=partition)
        if number % 2:
            producer.abort_transaction(TIMEOUT_S)
        else:
            producer.commit_transaction(TIMEOUT_S)
    assert read(broker, topic) == ["0", "2", "4"] * 2
    producer.begin_transaction()
    producer.produce(topic, "open", partition=0)
    producer.flush(TIMEOUT_S)
    assert read(broker, topic) == ["0", "2", "4"] * 2
    assert "open" in read(broker, topic, "read_uncommitted")
    producer.commit_transaction(TIMEOUT_S)
    assert read(broker, topic) == ["0", "2", "4", "open", "0", "2", "4"]


def test_kafka_python_commits_and_aborts(broker: ServedBroker) -> None:
    topic = make_topic(broker, "kafka-python")
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id="tx-kafka-python")
    try:
        producer.init_transactions()
        for number in range(4):
            producer.begin_transaction()
            producer.send(topic, b"%d" % number, partition=number % 2)
            producer.abort_transaction() if number == 1 else producer.commit_transaction()
    finally:
        producer.close()
    assert read(broker, topic) == ["0", "2", "3"]


def test_aiokafka_commits_and_aborts(broker: ServedBroker) -> None:
    topic = make_topic(broker, "aiokafka")

    async def produce() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id="tx-aiokafka")
        await producer.start()
        try:
            for number in range(4):
                await producer.begin_transaction()
                await producer.send_and_wait(topic, b"%d" % number, partition=number % 2)
                await (producer.abort_transaction() if number == 1 else producer.commit_transaction())
        finally:
            await producer.stop()

    asyncio.run(produce())
    assert read(broker, topic) == ["0", "2", "3"]


def test_a_second_producer_fences_the_first_and_aborts_what_it_left(broker: ServedBroker) -> None:
    topic = make_topic(broker, "fenced")
    first = transactional(broker, "tx-fenced")
    first.begin_transaction()
    first.produce(topic, "lost", partition=0)
    first.flush(TIMEOUT_S)
    second = transactional(broker, "tx-fenced")
    with pytest.raises(KafkaException) as raised:
        first.commit_transaction(TIMEOUT_S)
    assert raised.value.args[0].fatal()
    assert raised.value.args[0].code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED)
    second.begin_transaction()
    second.produce(topic, "kept", partition=0)
    second.commit_transaction(TIMEOUT_S)
    assert read(broker, topic) == ["kept"]


def test_the_python_clients_are_fenced_too(broker: ServedBroker) -> None:
    topic = make_topic(broker, "fenced-python")
    first = KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id="tx-fenced-python")
    first.init_transactions()
    first.begin_transaction()
    first.send(topic, b"lost", partition=0)
    first.flush(TIMEOUT_S)

    async def fence() -> None:
        second = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id="tx-fenced-python")
        await second.start()
        await second.begin_transaction()
        await second.send_and_wait(topic, b"kept", partition=0)
        third = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id="tx-fenced-python")
        await third.start()
        with pytest.raises(AioKafkaError):
            await second.commit_transaction()
        await second.stop()
        await third.begin_transaction()
        await third.send_and_wait(topic, b"third", partition=0)
        await third.commit_transaction()
        await third.stop()

    asyncio.run(fence())
    with pytest.raises(PythonKafkaError):
        first.commit_transaction()
    first.close(timeout=5)
    assert read(broker, topic) == ["third"]


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(broker: ServedBroker) -> None:
    topic = make_topic(broker, "late")
    producer = transactional(broker, "tx-late", **{"transaction.timeout.ms": 1000})
    producer.begin_transaction()
    producer.produce(topic, "late", partition=0)
    producer.flush(TIMEOUT_S)
    other = transactional(broker, "tx-other")
    other.begin_transaction()
    other.produce(topic, "other", partition=0)
    other.commit_transaction(TIMEOUT_S)
    deadline = time.monotonic() + TIMEOUT_S
    while read(broker, topic) != ["other"]:  # behind the open transaction until that is aborted
        assert time.monotonic() < deadline
    with pytest.raises(KafkaException) as raised:
        producer.commit_transaction(TIMEOUT_S)
    assert raised.value.args[0].fatal()


def test_consume_transform_produce(broker: ServedBroker) -> None:
    source, target = make_topic(broker, "source", 1), make_topic(broker, "target", 1)
    plain = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(10):
        plain.produce(source, f"{number}")
    plain.flush(TIMEOUT_S)
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": "transformers",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
    }
    producer = transactional(broker, "tx-transform")
    for attempt in range(4):  # every second transaction is aborted, and its input read again
        consumer = Consumer(settings)
        consumer.subscribe([source])
        producer.begin_transaction()
        taken = 0
        while taken < 5:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None
            assert message.error() is None
            producer.produce(target, b"t" + message.value())
            taken += 1
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), TIMEOUT_S
        )
        if attempt % 2:
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.abort_transaction(TIMEOUT_S)
        consumer.close()
    assert read(broker, target) == [f"t{number}" for number in range(10)]


@pytest.mark.slow
def test_a_killed_broker_finishes_what_was_decided_and_aborts_what_was_left(tmp_path: Path) -> None:
    broker = ServedBroker(
        tmp_path / "data",
        "transaction.state.log.num.partitions=2",
        f"transaction.abort.timed.out.transaction.cleanup.interval.ms={ABORT_INTERVAL_MS}",
    )
    broker.start()
    try:
        topic = make_topic(broker, "killed")
        committed, left = (
            transactional(broker, "tx-committed"),
            transactional(broker, "tx-left", **{"transaction.timeout.ms": 1000}),
        )
        expected = []
        for number in range(4):
            if number == 2:
                left.begin_transaction()
                left.produce(topic, "left", partition=1)
                left.flush(TIMEOUT_S)
            committed.begin_transaction()
            for partition in range(2):
                committed.produce(topic, f"{number}", partition=partition)
            committed.flush(TIMEOUT_S)
            if number % 2:
                broker.kill()
                broker.start()
            committed.commit_transaction(TIMEOUT_S)
            expected.append(f"{number}")
        deadline = time.monotonic() + TIMEOUT_S
        while read(broker, topic) != expected * 2:
            assert time.monotonic() < deadline, read(broker, topic)
        with pytest.raises(KafkaException):
            left.commit_transaction(TIMEOUT_S)
        assert broker.stop() == 0
    finally:
        broker.kill()
