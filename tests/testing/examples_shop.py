"""The application of docs/testing.md's examples: a shop that produces, and workers that read."""

import contextlib
import threading
from collections.abc import AsyncIterator, Iterator

import aiokafka
from confluent_kafka import Consumer, Producer


def run_the_shop(servers: str, topic: str = "orders", count: int = 1) -> None:
    producer = Producer({"bootstrap.servers": servers, "retry.backoff.ms": 10, "acks": "all"})
    for _ in range(count):
        producer.produce(topic, b"an order")
        assert producer.flush(30) == 0


def run_the_shop_without_kafka() -> None:
    """Orders wait in the shop."""


def start_the_shop(servers: str) -> None:
    run_the_shop(servers)


@contextlib.contextmanager
def run_the_worker(servers: str, topic: str = "orders", group: str = "billing") -> Iterator[None]:
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest", "heartbeat.interval.ms": 100}
    )
    consumer.subscribe([topic])
    ending = threading.Event()

    def read() -> None:
        while not ending.is_set():
            message = consumer.poll(0.05)
            if message is not None and message.error() is None:
                consumer.commit(message=message, asynchronous=False)
        consumer.close()

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join(30)


@contextlib.asynccontextmanager
async def run_the_async_worker(servers: str, topic: str, group: str) -> AsyncIterator[None]:
    settings = {"bootstrap_servers": servers, "group_id": group, "auto_offset_reset": "earliest"}
    async with aiokafka.AIOKafkaConsumer(topic, **settings) as consumer:
        await consumer.getone()
        await consumer.commit()
        yield
