"""A test with a broker in a container."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from kafka_container import KafkaContainer


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaContainer]:
    """A broker for all tests."""
    with KafkaContainer(settings={"num.partitions": 3}) as kafka:
        yield kafka


def test_an_order_is_read(kafka: KafkaContainer) -> None:
    """What the shop produces is read."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce("orders", b"an order")
    assert producer.flush(20) == 0
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    message = consumer.poll(20)
    assert message is not None
    assert message.value() == b"an order"
    consumer.close()
