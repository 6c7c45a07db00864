"""kill -9 while producers send: what was acknowledged is there, in order, and once where the producer is idempotent."""

import asyncio
import json
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from itertools import groupby
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from kafka import KafkaProducer

from tests.clients import counting
from tests.support.clients.clients import ensure_same, java_command, read_confluent, run
from tests.support.clients.served import ServedBroker
from tests.support.ports import free_port

KILLS = 3
BETWEEN_KILLS_S = 1.5
PAUSE_S = 0.02
COUNT_MAX = 600_000
"""All values are kept until the end, some of them three times: two million of each producer took 18 GB on a busy machine."""
DELIVERY_S = 900
"""No producer may give a record up on a busy machine: only the broker is tested here."""
END_S = 600

pytestmark = [pytest.mark.slow, pytest.mark.clients, pytest.mark.timeout(1500)]


class Load:
    """A thread that sends numbered values until it is told to end; knows which were acknowledged."""

    def __init__(self, send: Callable[["Load"], None], topic: str = "loaded") -> None:
        self.topic = topic
        self.sent = 0
        self.acknowledged: set[int] = set()
        self.failed: list[object] = []
        self.ending = threading.Event()
        self.thread = threading.Thread(target=send, args=(self,), daemon=True)

    def next_value(self) -> bytes | None:
        if self.ending.is_set() or self.sent == COUNT_MAX:
            return None
        if self.sent % 1000 == 0:
            time.sleep(PAUSE_S)  # no faster than about 50,000 records a second, so that the kills come while it sends
        self.sent += 1
        return value(self.sent - 1)


def value(number: int) -> bytes:
    return b"%d " % number + b"x" * (number % 300)


def by_librdkafka(bootstrap: str, **settings: object) -> Callable[[Load], None]:
    def send(load: Load) -> None:
        base = {"bootstrap.servers": bootstrap, "acks": "all", "message.timeout.ms": DELIVERY_S * 1000, "retry.backoff.ms": 50}
        producer = Producer(base | {"reconnect.backoff.max.ms": 200, "linger.ms": 2, "log_level": 0} | settings)

        def delivered(number: int, error: object) -> None:
            load.acknowledged.add(number) if error is None else load.failed.append(error)

        while (data := load.next_value()) is not None:
            number = load.sent - 1
            while True:
                try:
                    producer.produce(load.topic, data, on_delivery=lambda error, _, number=number: delivered(number, error))  # type: ignore[misc]
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
        producer.flush(END_S)

    return send


def by_kafka_python(bootstrap: str, **settings: object) -> Callable[[Load], None]:
    def send(load: Load) -> None:
        options: dict[str, Any] = {"acks": "all", "retries": 100_000, "linger_ms": 2, "max_block_ms": DELIVERY_S * 1000}
        options |= {"delivery_timeout_ms": DELIVERY_S * 1000, "reconnect_backoff_max_ms": 200}
        producer = KafkaProducer(bootstrap_servers=bootstrap, **options | settings)
        while (data := load.next_value()) is not None:
            future = producer.send(load.topic, data)
            future.add_callback(lambda _, number=load.sent - 1: load.acknowledged.add(number))
            future.add_errback(load.failed.append)
        producer.flush(END_S)
        producer.close()

    return send


def by_aiokafka(bootstrap: str, **settings: object) -> Callable[[Load], None]:
    async def send(load: Load) -> None:
        # A batch may be as old as a request may take.
        options: dict[str, Any] = {"acks": "all", "linger_ms": 2, "request_timeout_ms": DELIVERY_S * 1000, "retry_backoff_ms": 50}
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, **options | settings)
        await producer.start()

        def delivered(number: int, future: asyncio.Future[object]) -> None:
            error = future.exception()
            load.acknowledged.add(number) if error is None else load.failed.append(error)

        while (data := load.next_value()) is not None:
            future = await producer.send(load.topic, data)
            future.add_done_callback(partial(delivered, load.sent - 1))
        await asyncio.wait_for(producer.flush(), END_S)
        await producer.stop()

    return lambda load: asyncio.run(send(load))


PRODUCERS = {
    "librdkafka, idempotent": (
        by_librdkafka,
        {"enable.idempotence": True, "batch.num.messages": 200, "compression.type": "lz4"},
        True,
    ),
    "librdkafka, one at a time": (by_librdkafka, {"max.in.flight.requests.per.connection": 1, "batch.num.messages": 1000}, False),
    "kafka-python, idempotent": (by_kafka_python, {"enable_idempotence": True}, True),
    "aiokafka, idempotent": (by_aiokafka, {"enable_idempotence": True}, True),
}


@pytest.mark.parametrize("name", PRODUCERS)
def test_acknowledged_records_survive_kills_during_load(start_broker: Callable[..., ServedBroker], name: str) -> None:
    make, settings, is_idempotent = PRODUCERS[name]
    metrics_port = free_port()
    broker = start_broker("log.segment.bytes=5000000", f"metrics.listener=127.0.0.1:{metrics_port}")
    load = Load(make(broker.bootstrap, **settings))  # type: ignore[arg-type]
    load.thread.start()
    counted = 0
    for _ in range(KILLS):
        time.sleep(BETWEEN_KILLS_S)
        counted += counting.request_counts(metrics_port)["Produce"]
        broker.kill()
        broker.start()
    time.sleep(BETWEEN_KILLS_S)
    load.ending.set()
    load.thread.join(END_S)
    assert not load.thread.is_alive()
    assert not load.failed, load.failed[:3]
    assert load.acknowledged == set(range(load.sent))
    counted += counting.settled_request_counts(metrics_port)["Produce"]
    expected = [value(number) for number in range(load.sent)]
    got = read_all(broker.bootstrap)
    print(f"{name}: {load.sent} records, {len(got) - load.sent} of them twice, {counted} produce requests")
    ensure_same(got if is_idempotent else repeats_taken_out(got), expected, name)
    assert broker.stop() == 0
    check_access_log(broker, counted)


KILLS_OF_ALL = 20


class Watcher:
    """A consumer that reads everything as soon as it may, through all deaths of the broker."""

    def __init__(self, bootstrap: str, topics: list[str]) -> None:
        self.seen: dict[str, dict[int, bytes]] = {topic: {} for topic in topics}
        self.oddities: list[str] = []
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self._watch, args=(bootstrap,), daemon=True)

    def _watch(self, bootstrap: str) -> None:
        settings = {"group.id": "watcher", "enable.auto.commit": False, "auto.offset.reset": "error", "log_level": 0}
        consumer = Consumer({"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 200} | settings)
        consumer.assign([TopicPartition(topic, 0, 0) for topic in self.seen])
        while not self.ending.is_set():
            for message in consumer.consume(500, 0.2):
                if message.error() is not None:
                    if message.error().code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                        self.oddities.append(str(message.error()))
                    continue
                seen, data = self.seen[message.topic()], message.value()
                if seen.setdefault(message.offset(), data) != data:
                    self.oddities.append(f"offset {message.offset()} of {message.topic()} has changed")
        consumer.close()


def test_no_reader_sees_what_vanishes_in_twenty_kills_under_load(start_broker: Callable[..., ServedBroker]) -> None:
    broker = start_broker("log.segment.bytes=5000000")
    loads = {}
    for name, (make, settings, is_idempotent) in PRODUCERS.items():
        topic = re.sub(r"\W+", "-", name)
        loads[topic] = (Load(make(broker.bootstrap, **settings), topic), is_idempotent)  # type: ignore[arg-type]
    for load, _ in loads.values():
        load.thread.start()
    time.sleep(BETWEEN_KILLS_S)
    watcher = Watcher(broker.bootstrap, list(loads))
    watcher.thread.start()
    for _ in range(KILLS_OF_ALL):
        time.sleep(BETWEEN_KILLS_S)
        broker.kill()
        broker.start()
    time.sleep(BETWEEN_KILLS_S)
    for load, _ in loads.values():
        load.ending.set()
    for topic, (load, is_idempotent) in loads.items():
        load.thread.join(END_S)
        assert not load.thread.is_alive()
        assert not load.failed, load.failed[:3]
        assert load.acknowledged == set(range(load.sent))
        got = read_all(broker.bootstrap, topic)
        print(f"{topic}: {load.sent} records, {len(got) - load.sent} of them twice, {len(watcher.seen[topic])} watched")
        ensure_same(got if is_idempotent else repeats_taken_out(got), [value(number) for number in range(load.sent)], topic)
        assert {offset: got[offset] for offset in watcher.seen[topic]} == watcher.seen[topic]
        assert watcher.seen[topic]
    watcher.ending.set()
    watcher.thread.join(30)
    assert not watcher.oddities, watcher.oddities[:3]
    assert broker.stop() == 0


def read_all(bootstrap: str, topic: str = "loaded") -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    _, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), 30)
    consumer.close()
    return read_confluent(bootstrap, topic, high)


def repeats_taken_out(values: list[bytes]) -> list[bytes]:
    """A producer that is not idempotent may send a run of values twice; each is counted where it first came."""
    return list(dict.fromkeys(values))


def check_access_log(broker: ServedBroker, counted: int) -> None:
    """Every line is whole, and each connection's lines lack nothing but perhaps the last before a kill."""
    assert not list(broker.access_dir.rglob(".node-*"))
    lines = counting.access_lines(broker.access_dir)
    by_connection: dict[tuple[str, str], list[int]] = defaultdict(list)
    for line in lines:
        if line["software"] == "librdkafka":
            by_connection[line["connection"], line["client_id"]].append(line["correlation_id"])
    for ids in by_connection.values():
        gaps = [b - a for a, b in zip(sorted(ids), sorted(ids)[1:], strict=False) if b - a != 1]
        assert not gaps, sorted(ids)
    # Lines of the last moments before each kill are lost, and some were written after the metrics were read.
    written = sum(line["api"] == "Produce" for line in lines)
    print(f"{written} lines of Produce, {counted} counted just before the kills")
    assert written >= 0.5 * counted


@pytest.mark.usefixtures("java")
def test_java_producer_survives_kills_during_load(start_broker: Callable[..., ServedBroker], tmp_path: Any) -> None:
    broker = start_broker()
    run(
        java_command("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", broker.bootstrap, "--create", "--topic", "loaded")
    )
    words = [
        "--bootstrap-server",
        broker.bootstrap,
        "--topic",
        "loaded",
        "--max-messages",
        "6000",
        "--throughput",
        "1000",
        "--acks",
        "-1",
    ]
    settings = tmp_path / "producer.properties"
    settings.write_text("enable.idempotence=true\nretries=1000\nretry.backoff.ms=50\n")
    told: list[bytes] = []
    command = java_command("org.apache.kafka.tools.VerifiableProducer", *words, "--producer.config", str(settings))
    sending = threading.Thread(target=lambda: told.append(run(command)), daemon=True)
    sending.start()
    for _ in range(KILLS):
        time.sleep(BETWEEN_KILLS_S)
        broker.kill()
        broker.start()
    sending.join(120)
    (output,) = told
    (summary,) = [json.loads(line) for line in output.splitlines() if b'"tool_data"' in line]
    assert summary["acked"] == 6000
    assert [key for key, _ in groupby(read_all(broker.bootstrap))] == [b"%d" % number for number in range(6000)]
    assert len(read_all(broker.bootstrap)) == 6000
