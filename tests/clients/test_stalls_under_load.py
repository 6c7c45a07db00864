"""Real clients on a machine that has no processor time left: nothing hangs, nothing is lost, and the broker stops quickly.

Threads then lose their processor anywhere, so that loops of network threads change hands all the time.
"""

import itertools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from tests.support.clients.served import ServedBroker
from tests.support.processes import start_tied

TOPIC = "stalls"
PARTITIONS = 3
SECONDS = 5.0
ANSWER_S = 30.0
"""Nothing takes so long, however busy the machine is, unless it hangs."""
STOP_S = 10.0
"""A handler whose place is lost is waited for so long."""
HOGS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2
HOG_NICENESS = -5
HOG = f"""import os
try:
    os.nice({HOG_NICENESS})
except PermissionError:  # only the superuser may
    print("at the usual priority")
while True: pass"""
LARGE = {"batch.size": 1_000_000, "batch.num.messages": 100_000, "linger.ms": 50}
SMALL = {"batch.num.messages": 1, "linger.ms": 0}
PRODUCERS = [(batches, acks) for batches in (LARGE, SMALL) for acks in (0, 1, "all")]
IO_THREADS = (1, 2, 4, 2)

pytestmark = [pytest.mark.slow, pytest.mark.clients, pytest.mark.timeout(600), pytest.mark.alone]


@contextmanager
def hogs() -> Iterator[None]:
    processes = [start_tied([sys.executable, "-c", HOG], stdout=subprocess.DEVNULL) for _ in range(HOGS)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


class Load:
    """Producers, a group of consumers and an operator, each on a thread, until told to end."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.sent: dict[int, int] = {}
        self.seen: set[bytes] = set()
        self.errors: list[object] = []
        self.must_end = threading.Event()
        self.is_sent = threading.Event()

    def produce(self, number: int) -> None:
        batches, acks = PRODUCERS[number]
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": acks, "enable.idempotence": False, **batches})
        count = itertools.count()
        size, at_once = (400, 5_000) if batches is LARGE else (50, 50)
        sent = 0

        def delivered(error: object, _: object) -> None:
            if error is not None:
                self.errors.append(error)

        while not self.must_end.is_set() and not self.errors:
            for _ in range(at_once):
                producer.produce(TOPIC, b"%d-%d " % (number, next(count)) + bytes(size), on_delivery=delivered)
            if producer.flush(ANSWER_S):
                self.errors.append(f"producer {number} hangs after {sent} messages")
            sent += at_once
        self.sent[number] = sent

    def consume(self) -> None:
        settings = {"bootstrap.servers": self.bootstrap, "group.id": "stalls", "auto.offset.reset": "earliest"}
        consumer = Consumer(settings)
        consumer.subscribe([TOPIC])
        last_s = time.monotonic()
        while not self.errors and not (self.is_sent.is_set() and len(self.seen) >= sum(self.sent.values())):
            messages = consumer.consume(10_000, 0.2)
            if messages:
                last_s = time.monotonic()
                self.seen.update(message.value().partition(b" ")[0] for message in messages if message.error() is None)
            elif self.is_sent.is_set() and time.monotonic() - last_s > ANSWER_S:
                self.errors.append(f"{len(self.seen)} of {sum(self.sent.values())} messages are read")
        consumer.close()

    def operate(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        (name,) = map(str, admin.list_topics(timeout=ANSWER_S).brokers)
        for count in itertools.cycle(IO_THREADS):
            entry = ConfigEntry("num.io.threads", str(count), incremental_operation=AlterConfigOpType.SET)
            broker = ConfigResource(ResourceType.BROKER, name, incremental_configs=[entry])
            for future in admin.incremental_alter_configs([broker], request_timeout=ANSWER_S).values():
                future.result(ANSWER_S)
            if self.must_end.wait(0.5):
                return

    def run(self, seconds: float) -> None:
        threads = [threading.Thread(target=self._guarded, args=(self.produce, number)) for number in range(len(PRODUCERS))]
        threads.append(threading.Thread(target=self._guarded, args=(self.operate,)))
        readers = [threading.Thread(target=self._guarded, args=(self.consume,)) for _ in range(2)]
        for thread in threads + readers:
            thread.start()
        self.must_end.wait(seconds)
        self.must_end.set()
        for thread in threads:
            thread.join()
        self.is_sent.set()
        for thread in readers:
            thread.join()

    def _guarded(self, target: object, *args: object) -> None:
        try:
            target(*args)  # type: ignore[operator]
        except Exception as error:  # noqa: BLE001 the test tells it
            self.errors.append(error)
            self.must_end.set()


def test_nothing_hangs_and_nothing_is_lost_without_processor_time(tmp_path: Path) -> None:
    broker = ServedBroker(tmp_path / "data", "group.initial.rebalance.delay.ms=0", "num.io.threads=2")
    broker.start()
    with ExitStack() as stack:
        stack.callback(broker.kill)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
            future.result(ANSWER_S)
        load = Load(broker.bootstrap)
        with hogs():
            load.run(SECONDS)
        assert not load.errors, load.errors[:3]
        began = time.monotonic()
        status = broker.stop()
        took_s = time.monotonic() - began
        assert len(load.seen) == sum(load.sent.values())
        assert status == 0
        assert took_s < STOP_S
        output = broker.output.read_text()
        assert "is still running" not in output
        assert "did not end" not in output
        assert "Traceback" not in output, output[-3000:]
