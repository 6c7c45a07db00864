"""The same load on Apache Kafka 3.9 and on this broker, with the same quotas: how long each has clients wait."""

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.clients.served import ServedBroker
from tests.support.oracle.apache_kafka import ApacheKafka
from twisted_kafka.protocol.messages.administration.quotas import OpData
from twisted_kafka.protocol.messages.administration.topics import CreatableTopic, CreateTopicsRequest
from twisted_kafka.protocol.messages.coordinators.groups import HeartbeatRequest
from twisted_kafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.tools.compare.data_requests import START_MS, produce
from twisted_kafka.tools.compare.scenarios.administration.quotas import change
from twisted_kafka.tools.compare.talk import Talk

pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.alone]

APPLIED_S = 1.0
"""Longer than a changed quota takes to reach the broker's sensors."""
TOLERANCE_MS = 400

SECONDS = float(os.environ.get("QUOTA_SECONDS", "60"))
RATE = 1_000_000
BURST = 8 * RATE
"""A consumer that begins gets this in a moment: the quota of all windows."""
RECORD = b"x" * 10_000

BATCH = build_batch([SimpleRecord(START_MS, None, b"x" * 40_000, ())])


class Load:
    """Sends requests, each on a connection of its own: those that were used are muted."""

    def __init__(self, port: int, client: str, key: str, limit: float) -> None:
        self._talk = Talk(port, client, b"admin")
        self._client = client.encode()
        change(self._talk, 1, [("client-id", client)], OpData(key=key, value=limit))
        self._talk.create("t")
        self.topic = self._talk.topic("t")
        time.sleep(APPLIED_S)
        self._began = 0.0
        self.owed_ms: list[int] = []
        """The throttle time of each request, and the time since the first one: together they do not depend on how fast all went."""

    def ask(self, request: Any, version: int) -> Any:
        self._began = self._began or time.monotonic()
        answer = self._talk.another(self._client).ask(request, version)
        passed_ms = (time.monotonic() - self._began) * 1000
        self.owed_ms.append(round(answer.throttle_time_ms + passed_ms) if answer.throttle_time_ms else 0)
        return answer

    def fill(self) -> None:
        """Produce as another client."""
        self._talk.ask(produce(self._talk.topic("t"), BATCH), 8)

    def close(self) -> None:
        self._talk.close()


def produce_too_much(port: int) -> list[int]:
    load = Load(port, "throttled-producer", "producer_byte_rate", 10_000)
    for _ in range(5):
        assert load.ask(produce(load.topic, BATCH), 8).responses[0].partition_responses[0].error_code == 0
    load.close()
    return load.owed_ms


def fetch_too_much(port: int) -> list[int]:
    load = Load(port, "throttled-consumer", "consumer_byte_rate", 6_000)
    load.fill()
    wanted = FetchTopic(topic=load.topic, partitions=[FetchPartition(fetch_offset=0, partition_max_bytes=1_000_000)])
    sizes = []
    for _ in range(4):
        answer = load.ask(FetchRequest(min_bytes=1, max_wait_ms=100, topics=[wanted]), 11)
        sizes.append(sum(len(partition.records) for topic in answer.responses for partition in topic.partitions))
    load.close()
    assert [bool(size) for size in sizes] == [True, False, False, False]
    return load.owed_ms


def ask_too_much(port: int) -> list[int]:
    """The time on threads differs between brokers, the longest wait does not."""
    load = Load(port, "throttled-asker", "request_percentage", 0.000_01)
    told = [load.ask(HeartbeatRequest(group_id="g"), 3).throttle_time_ms for _ in range(3)]
    load.close()
    return told


def create_too_much(port: int) -> list[int]:
    load = Load(port, "throttled-administrator", "controller_mutation_rate", 0.5)
    for number, version in enumerate((5, 6, 5, 7)):
        topic = CreatableTopic(name=f"{load.topic}-{number}", num_partitions=8, replication_factor=1)
        load.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), version)
    load.close()
    return load.owed_ms


@pytest.mark.parametrize("use", [produce_too_much, fetch_too_much, ask_too_much, create_too_much])
def test_clients_wait_as_long(kafka: ApacheKafka, ours: ServedBroker, use: Callable[[int], list[int]]) -> None:
    expected, found = use(kafka.port), use(ours.port)
    print(f"{use.__name__}: Apache Kafka {expected}, here {found}")
    assert any(expected)
    assert [bool(each) for each in found] == [bool(each) for each in expected]
    assert found == pytest.approx(expected, abs=TOLERANCE_MS)


def consumed(port: int) -> float:
    """Return the bytes per second that librdkafka gets with a quota, after the first burst."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

    talk = Talk(port, "held-consumer", b"admin")
    talk.create("t")
    topic, settings = talk.topic("t"), {"bootstrap.servers": f"127.0.0.1:{port}", "client.id": "held-consumer"}
    producer = Producer(settings | {"client.id": "unlimited"})
    for _ in range(round((BURST + RATE * (SECONDS + 5)) / len(RECORD))):
        producer.produce(topic, RECORD)
        producer.poll(0)
    assert producer.flush(SECONDS) == 0
    change(talk, 1, [("client-id", "held-consumer")], OpData(key="consumer_byte_rate", value=RATE))
    talk.close()
    time.sleep(APPLIED_S)
    consumer = Consumer(settings | {"group.id": "held", "queued.min.messages": 1})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    total, counted, began = 0, 0, 0.0
    while not began or time.monotonic() < began + SECONDS:
        for message in consumer.consume(100, 0.1):
            size = len(message.value() or b"")
            total += size
            counted += size if began else 0
        if not began and total > BURST:
            began = time.monotonic()
    ended = time.monotonic()
    consumer.close()
    return counted / (ended - began)


def test_a_consumer_gets_as_much_as_from_apache_kafka(kafka: ApacheKafka, ours: ServedBroker) -> None:
    """Less than its quota: what a fetch would exceed it by is counted, and the fetch is empty."""
    with ThreadPoolExecutor() as threads:
        expected, found = threads.map(consumed, (kafka.port, ours.port))
    print(f"Apache Kafka {expected:,.0f} bytes per second, here {found:,.0f}")
    assert found == pytest.approx(expected, rel=0.15)
    assert 0.5 * RATE < found < 1.05 * RATE
