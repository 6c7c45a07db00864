"""Clients that send or read as fast as they may, each in a process of its own, until they are killed.

python -m tests.clients.flows confluent|kafka-python|aiokafka produce|consume BOOTSTRAP TOPIC CLIENT
"""

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

from tests.support.clients.clients import PROGRAMS, java_command

VALUE = b"x" * 10_000
PRODUCER_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
CONSUMER_PERFORMANCE = "org.apache.kafka.tools.ConsumerPerformance"
_TIMEOUT_MS = 300_000
_MANY = "1000000000"


def produce_confluent(bootstrap: str, topic: str, client: str) -> None:
    from confluent_kafka import Producer

    settings = {"bootstrap.servers": bootstrap, "client.id": client, "queue.buffering.max.messages": 1000}
    producer = Producer(settings | {"message.timeout.ms": _TIMEOUT_MS})

    def delivered(error: object, _: object) -> None:
        assert error is None, error

    while True:
        try:
            producer.produce(topic, VALUE, on_delivery=delivered)
        except BufferError:
            producer.poll(0.1)


def consume_confluent(bootstrap: str, topic: str, client: str) -> None:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "client.id": client, "group.id": client, "queued.min.messages": 1})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    while True:
        for message in consumer.consume(1000, 1.0):
            assert message.error() is None, message.error()


def produce_kafka_python(bootstrap: str, topic: str, client: str) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=bootstrap, client_id=client, request_timeout_ms=120_000, delivery_timeout_ms=_TIMEOUT_MS
    )
    sent: deque[Any] = deque()
    while True:
        sent.append(producer.send(topic, VALUE))
        if len(sent) > 400:
            sent.popleft().get(_TIMEOUT_MS / 1000)


def consume_kafka_python(bootstrap: str, topic: str, client: str) -> None:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=bootstrap, client_id=client, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, 0)])
    while True:
        consumer.poll(1000)


def produce_aiokafka(bootstrap: str, topic: str, client: str) -> None:
    from aiokafka import AIOKafkaProducer

    async def produce() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, client_id=client, request_timeout_ms=120_000)
        await producer.start()
        while True:
            await asyncio.gather(*[await producer.send(topic, VALUE) for _ in range(10)])

    asyncio.run(produce())


def consume_aiokafka(bootstrap: str, topic: str, client: str) -> None:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def consume() -> None:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, client_id=client, auto_offset_reset="earliest")
        await consumer.start()
        consumer.assign([TopicPartition(topic, 0)])
        await consumer.seek_to_beginning()
        while True:
            await consumer.getmany(timeout_ms=1000)

    asyncio.run(consume())


_FLOWS: dict[tuple[str, str], Callable[[str, str, str], None]] = {
    ("confluent", "produce"): produce_confluent,
    ("confluent", "consume"): consume_confluent,
    ("kafka-python", "produce"): produce_kafka_python,
    ("kafka-python", "consume"): consume_kafka_python,
    ("aiokafka", "produce"): produce_aiokafka,
    ("aiokafka", "consume"): consume_aiokafka,
}


def command(client: str, what: str, bootstrap: str, topic: str, client_id: str) -> list[str]:
    """Return the command of a client's flow."""
    if client == "kafkajs":
        return ["node", str(PROGRAMS / "kafkajs" / "flow.js"), bootstrap, topic, client_id, what]
    if client != "java":
        return [sys.executable, "-m", "tests.clients.flows", client, what, bootstrap, topic, client_id]
    if what == "produce":
        words = ["--topic", topic, "--num-records", _MANY, "--record-size", str(len(VALUE)), "--throughput", "-1"]
        return java_command(
            PRODUCER_PERFORMANCE, *words, "--producer-props", f"bootstrap.servers={bootstrap}", f"client.id={client_id}"
        )
    words = ["--bootstrap-server", bootstrap, "--topic", topic, "--messages", _MANY, "--timeout", str(_TIMEOUT_MS)]
    return java_command(CONSUMER_PERFORMANCE, *words)


if __name__ == "__main__":
    _FLOWS[sys.argv[1], sys.argv[2]](*sys.argv[3:6])
