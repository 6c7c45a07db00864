"""Movers transfer amounts between accounts, each in a transaction, while the broker is killed again and again.

A reader of committed records finds both halves of a transfer or neither, each once, and every transfer that was acknowledged.
"""

import os
import random
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.budget import patient
from tests.support.clients.served import ServedBroker

MOVERS = 4
ACCOUNTS = 16
SECONDS = float(os.environ.get("TRANSFER_SECONDS", "20"))
BETWEEN_KILLS_S = (1.0, 4.0)
TIMEOUT_S = patient(60)
END_S = 180
TOPIC = "accounts"

pytestmark = [pytest.mark.slow, pytest.mark.clients, pytest.mark.timeout(1500)]


class Mover:
    """A transactional producer that moves amounts until it is told to end; it begins anew after a fatal error."""

    def __init__(self, bootstrap: str, number: int) -> None:
        self.bootstrap = bootstrap
        self.name = f"mover-{number}"
        self.random = random.Random(number)
        self.acknowledged: set[str] = set()
        self.aborted: set[str] = set()
        self.attempts = 0
        self.producer: Producer | None = None
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self.ending.is_set():
            try:
                self._transfer()
            except KafkaException as error:
                self._recover(error.args[0])

    def _transfer(self) -> None:
        if self.producer is None:
            settings = {"bootstrap.servers": self.bootstrap, "transactional.id": self.name, "transaction.timeout.ms": 10_000}
            producer = Producer(settings | {"log_level": 0, "reconnect.backoff.max.ms": 200, "linger.ms": 1})
            producer.init_transactions(TIMEOUT_S)
            self.producer = producer
        self.attempts += 1
        transfer = f"{self.name}.{self.attempts}"
        source, target = self.random.sample(range(ACCOUNTS), 2)
        self.producer.begin_transaction()
        self.producer.produce(TOPIC, f"{transfer} -1", partition=source)
        self.producer.produce(TOPIC, f"{transfer} +1", partition=target)
        if self.random.random() < 0.2:
            self.producer.abort_transaction(TIMEOUT_S)
            self.aborted.add(transfer)
            return
        self._retried(self.producer.commit_transaction)
        self.acknowledged.add(transfer)

    def _retried(self, end: object) -> None:
        while True:
            try:
                end(TIMEOUT_S)  # type: ignore[operator]
                return
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise

    def _recover(self, error: KafkaError) -> None:
        if self.producer is not None and error.txn_requires_abort():
            try:
                self._retried(self.producer.abort_transaction)
                return
            except KafkaException:
                pass
        self.producer = None


def read(bootstrap: str) -> list[str]:
    """Return all committed values, up to the end of each partition."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "auditor", "isolation.level": "read_committed"}
    consumer = Consumer(settings | {"enable.auto.commit": False, "enable.partition.eof": True})
    consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(ACCOUNTS)])
    values: list[str] = []
    ended: set[int] = set()
    deadline = time.monotonic() + END_S
    while len(ended) < ACCOUNTS:
        assert time.monotonic() < deadline
        for message in consumer.consume(1000, 0.5):
            error = message.error()
            if error is None:
                values.append(message.value().decode())
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
    consumer.close()
    return values


def test_nothing_is_lost_or_made_while_the_broker_dies(tmp_path: Path) -> None:
    interval = "transaction.abort.timed.out.transaction.cleanup.interval.ms=500"
    broker = ServedBroker(tmp_path / "data", interval, "transaction.state.log.num.partitions=3")
    broker.start()
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(TOPIC, ACCOUNTS, 1)])[TOPIC].result(TIMEOUT_S)
        movers = [Mover(broker.bootstrap, number) for number in range(MOVERS)]
        for mover in movers:
            mover.thread.start()
        chance = random.Random(1)
        ends = time.monotonic() + SECONDS
        kills = 0
        while time.monotonic() < ends:
            time.sleep(chance.uniform(*BETWEEN_KILLS_S))
            broker.kill()
            kills += 1
            broker.start()
        for mover in movers:
            mover.ending.set()
        for mover in movers:
            mover.thread.join(END_S)
            assert not mover.thread.is_alive()
            mover.producer = None
        time.sleep(12)  # until what was left open has timed out
        values = read(broker.bootstrap)
        assert broker.stop() == 0
    finally:
        broker.kill()
    assert max(Counter(values).values()) == 1
    halves = Counter(value.split()[0] for value in values)
    assert set(halves.values()) == {2}
    assert sum(int(value.split()[1]) for value in values) == 0
    for mover in movers:
        assert mover.acknowledged <= halves.keys()
        assert not mover.aborted & halves.keys()
    print(f"{kills} kills, {sum(len(mover.acknowledged) for mover in movers)} transfers, {len(halves)} found")
    assert kills > 1
    assert halves
