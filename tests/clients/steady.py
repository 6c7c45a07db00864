"""A client that sends one record after another, each when the one before is acknowledged, and tells what it saw.

    python -m tests.clients.steady confluent|kafka-python|aiokafka BOOTSTRAP TOPIC CLIENT SECONDS

It prints a ``Seen`` as JSON. The records are numbers, from 0.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.support.budget import patient

TIMEOUT_S = patient(60)


class Seen(NamedTuple):
    """What the client saw."""

    acknowledged: int
    rate: float
    """Records per second."""
    p50_ms: float
    p99_ms: float
    """From sending a record to its acknowledgement."""
    throttled_ms: float | None
    """The longest throttle time that the broker told; None if the client does not say."""


class Sending:
    """Measures what ``send`` takes, until the time is over."""

    def __init__(self, seconds: float) -> None:
        self._began = time.monotonic()
        self._end = self._began + seconds
        self._took_ms: list[float] = []
        self._sent_at = self._began

    def next(self) -> bytes | None:
        """Return the next record; None if the time is over."""
        self._sent_at = time.monotonic()
        return b"%d" % len(self._took_ms) if self._sent_at < self._end else None

    def acknowledged(self) -> None:
        self._took_ms.append((time.monotonic() - self._sent_at) * 1000)

    def seen(self, throttled_ms: float | None) -> Seen:
        took_ms = sorted(self._took_ms)
        rate = len(took_ms) / (time.monotonic() - self._began)
        return Seen(len(took_ms), rate, took_ms[len(took_ms) // 2], took_ms[len(took_ms) * 99 // 100], throttled_ms)


def confluent(bootstrap: str, topic: str, client: str, seconds: float) -> Seen:
    from confluent_kafka import Producer

    throttled_ms = [0.0]
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "client.id": client, "linger.ms": 0}
    producer = Producer(settings | {"throttle_cb": lambda event: throttled_ms.append(event.throttle_time * 1000)})
    failures: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failures.append(error)

    producer.list_topics(topic, TIMEOUT_S)
    sending = Sending(seconds)
    while (value := sending.next()) is not None:
        producer.produce(topic, value, on_delivery=delivered)
        assert producer.flush(TIMEOUT_S) == 0
        assert not failures, failures
        sending.acknowledged()
    return sending.seen(max(throttled_ms))


def kafka_python(bootstrap: str, topic: str, client: str, seconds: float) -> Seen:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap, client_id=client)
    producer.partitions_for(topic)
    sending = Sending(seconds)
    while (value := sending.next()) is not None:
        producer.send(topic, value).get(TIMEOUT_S)
        sending.acknowledged()
    return sending.seen(float(producer.metrics()["producer-metrics"]["throttle-time-max"]))


def aiokafka(bootstrap: str, topic: str, client: str, seconds: float) -> Seen:
    from aiokafka import AIOKafkaProducer

    async def produce() -> Seen:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, client_id=client)
        await producer.start()
        await producer.partitions_for(topic)
        sending = Sending(seconds)
        while (value := sending.next()) is not None:
            await producer.send_and_wait(topic, value)
            sending.acknowledged()
        await producer.stop()
        return sending.seen(None)

    return asyncio.run(produce())


CLIENTS: dict[str, Callable[[str, str, str, float], Seen]] = {
    "confluent": confluent,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
}


def command(client: str, bootstrap: str, topic: str, seconds: float) -> list[str]:
    """Return the command of a client, whose client id is its name."""
    return [sys.executable, "-m", __name__, client, bootstrap, topic, client, str(seconds)]


if __name__ == "__main__":
    kind, bootstrap, topic, client, seconds = sys.argv[1:]
    print(json.dumps(CLIENTS[kind](bootstrap, topic, client, float(seconds))))
