"""A program that produces and consumes, to be recorded."""

import pytest

kafka = pytest.importorskip("kafka")


def run_the_shop(servers: str) -> None:
    """Produce, consume and commit, as one client does."""
    producer = kafka.KafkaProducer(bootstrap_servers=servers, compression_type="gzip")
    for value in (b"1", b"two", b"\xff3"):
        producer.send("orders", value).get(20)
    producer.close()
    consumer = kafka.KafkaConsumer(bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest")
    consumer.subscribe(["orders"])
    values: list[bytes] = []
    while len(values) < 3:
        values += [record.value for records in consumer.poll(1000).values() for record in records]
    consumer.commit()
    consumer.close()
