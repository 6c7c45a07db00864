"""member.py CLIENT BOOTSTRAP TOPIC GROUP [key=value ...]: be a member of a group, and print "partition offset" of what was read.

A process of its own, so that it can be stopped, killed and paused. CLIENT is confluent, kafka-python or aiokafka.
"""

import asyncio
import signal
import sys

SESSION_MS = 6_000


class Ending:
    asked = False


def say(partition: int, offset: int) -> None:
    sys.stdout.write(f"{partition} {offset}\n")


def confluent(bootstrap: str, topic: str, group: str, settings: dict[str, str]) -> None:
    from confluent_kafka import Consumer

    base = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest", "auto.commit.interval.ms": 500}
    if settings.get("group.protocol") != "consumer":
        base |= {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 500}
    consumer = Consumer(base | {"reconnect.backoff.max.ms": 500, "log_level": 0} | settings)
    consumer.subscribe([topic])
    while not Ending.asked:
        for message in consumer.consume(500, 0.2):
            if message.error() is None:
                say(message.partition(), message.offset())
        sys.stdout.flush()
    consumer.close()


def kafka_python(bootstrap: str, topic: str, group: str, settings: dict[str, str]) -> None:
    from kafka import KafkaConsumer
    from kafka.coordinator.assignors.range import RangePartitionAssignor

    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=500,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=500,
        partition_assignment_strategy=[RangePartitionAssignor],
    )
    while not Ending.asked:
        for records in consumer.poll(200).values():
            for record in records:
                say(record.partition, record.offset)
        sys.stdout.flush()
    consumer.close()


def aiokafka(bootstrap: str, topic: str, group: str, settings: dict[str, str]) -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor

    async def read() -> None:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=500,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=500,
            partition_assignment_strategy=[RangePartitionAssignor],
        )
        await consumer.start()
        while not Ending.asked:
            for records in (await consumer.getmany(timeout_ms=200)).values():
                for record in records:
                    say(record.partition, record.offset)
            sys.stdout.flush()
        await consumer.stop()

    asyncio.run(read())


CLIENTS = {"confluent": confluent, "kafka-python": kafka_python, "aiokafka": aiokafka}


def end(*_: object) -> None:
    Ending.asked = True


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, end)
    client, bootstrap, topic, group, *words = sys.argv[1:]
    CLIENTS[client](bootstrap, topic, group, dict(word.split("=", 1) for word in words))
