"""A producer and a consumer at a steady rate, as services have them.

    python paced_client.py librdkafka|aiokafka BOOTSTRAP TOPIC PARTITIONS RATE LINGER_MS WARM_S SECONDS

Each record has 100 bytes and goes to the next partition; a consumer in a group of its own reads them. Prints "measuring" after WARM_S,
and at the end the number of records that were read since then, and the median and the 99th percentile of the milliseconds from
sending a record to reading it.
"""

import asyncio
import struct
import sys
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

BEGIN_S = 60
TICK_S = 0.001
_TIME = struct.Struct(">q")
_FILL = b"x" * (100 - _TIME.size)


class Pace:
    """Says how many records are due, and keeps how long they took."""

    def __init__(self, rate: float, warm_s: float, seconds: float) -> None:
        self._rate = rate
        self._began = time.monotonic()
        self._measuring_at = self._began + warm_s
        self._end = self._measuring_at + seconds
        self._sent = 0
        self._is_measuring = False
        self._took_ms: list[float] = []

    def due(self) -> int | None:
        """Return how many records to send now; None at the end."""
        now = time.monotonic()
        if not self._is_measuring and now >= self._measuring_at:
            self._is_measuring = True
            print("measuring", flush=True)
        if now >= self._end:
            return None
        count = int((now - self._began) * self._rate) - self._sent
        self._sent += count
        return count

    def was_read(self, value: bytes) -> None:
        if self._is_measuring:
            self._took_ms.append((time.time_ns() - _TIME.unpack_from(value)[0]) / 1e6)

    def report(self) -> None:
        took_ms = sorted(self._took_ms)
        print(len(took_ms), took_ms[len(took_ms) // 2], took_ms[len(took_ms) * 99 // 100], flush=True)


def record() -> bytes:
    return _TIME.pack(time.time_ns()) + _FILL


def librdkafka(bootstrap: str, topic: str, partitions: int, linger_ms: int, start: Callable[[], Pace]) -> Pace:
    from confluent_kafka import Consumer, Producer

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": linger_ms})
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": str(uuid.uuid4()), "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    ends_at = time.monotonic() + BEGIN_S
    producer.produce(topic, record(), partition=0)
    while consumer.poll(0.1) is None:  # until it has its partitions
        if time.monotonic() > ends_at:
            raise TimeoutError("the consumer reads nothing")
    pace = start()
    is_over = threading.Event()

    def read() -> None:
        while not is_over.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                pace.was_read(message.value())

    reading = threading.Thread(target=read)
    reading.start()
    number = 0
    while (count := pace.due()) is not None:
        for _ in range(count):
            producer.produce(topic, record(), partition=number % partitions)
            number += 1
        producer.poll(TICK_S)
    is_over.set()
    reading.join(BEGIN_S)
    producer.flush(BEGIN_S)
    consumer.close()
    return pace


async def aiokafka(bootstrap: str, topic: str, partitions: int, linger_ms: int, start: Callable[[], Pace]) -> Pace:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    settings: dict[str, Any] = {"bootstrap_servers": bootstrap}
    async with (
        AIOKafkaProducer(linger_ms=linger_ms, acks="all", **settings) as producer,
        AIOKafkaConsumer(topic, group_id=str(uuid.uuid4()), auto_offset_reset="earliest", **settings) as consumer,
    ):
        await producer.send_and_wait(topic, record(), partition=0)
        await asyncio.wait_for(consumer.getone(), BEGIN_S)
        pace = start()

        async def read() -> None:
            async for message in consumer:
                pace.was_read(message.value)

        reading = asyncio.create_task(read())
        number = 0
        while (count := pace.due()) is not None:
            for _ in range(count):
                await producer.send(topic, record(), partition=number % partitions)
                number += 1
            await asyncio.sleep(TICK_S)
        reading.cancel()
        return pace


def main() -> None:
    kind, bootstrap, topic, *numbers = sys.argv[1:]
    partitions, rate, linger_ms, warm_s, seconds = (int(each) for each in numbers)

    def start() -> Pace:
        return Pace(rate, warm_s, seconds)

    if kind == "librdkafka":
        pace = librdkafka(bootstrap, topic, partitions, linger_ms, start)
    else:
        pace = asyncio.run(aiokafka(bootstrap, topic, partitions, linger_ms, start))
    pace.report()


if __name__ == "__main__":
    main()
