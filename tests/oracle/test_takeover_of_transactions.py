"""Apache Kafka 3.9 with ZooKeeper and this broker take over each other's directory, and finish each other's transactions.

The broker before is killed when the outcome is in ``__transaction_state`` and the markers are not yet in all partitions. The log
directory stays as it is: logs, indexes, checkpoints, ``meta.properties``, ``partition.metadata``. Of the metadata is copied what
tests/oracle/metadata_trees.py says. The coordinators' state is in the logs alone.
"""

import contextlib
import re
import shutil
import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.oracle.metadata_trees import put_into_store, put_into_zookeeper, tree_of_store, tree_of_zookeeper
from tests.support.clients.clients import PROGRAMS, java_class_path, java_tool
from tests.support.clients.served import ServedBroker
from tests.support.clients.transactional import TIMEOUT_S, Bootstrapped, make_topic, read, transactional
from tests.support.eventually import eventually
from tests.support.oracle.apache_kafka import ApacheKafka

TURNS = (("ours", "commit"), ("kafka", "abort"), ("ours", "abort"), ("kafka", "commit"))
"""Who takes over, finishes what it finds, and is killed, and how the transaction that it leaves has been decided."""
PARTITIONS = 300
"""So many that the markers take longer than a kill."""
TRIES = 8
GROUP = "group"
DECIDED = "decided"
LEFT = "left"
SHORT_TIMEOUT_MS = 10_000
"""Longer than a turn, or its end would be taken for the other one's."""
SETTINGS = {
    "broker.id": 1,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 1,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
    "log.index.size.max.bytes": 100_000,
    "auto.create.topics.enable": "false",
}

pytestmark = [pytest.mark.slow, pytest.mark.oracle, pytest.mark.timeout(900)]


class TakingKafka:
    """Apache Kafka with the directory of this broker, and with the metadata from there until it is killed.

    If a coordinator of Kafka's has loaded its partition before the broker knows any metadata, it takes the transactions' partitions
    for deleted, and completes the transactions without markers: they hang. The directory is put back then, and Kafka started again.
    """

    def __init__(self, directory: Path, log_dir: Path) -> None:
        self._directory = directory
        self._log_dir = log_dir
        self._kafka: ApacheKafka | None = None

    @property
    def bootstrap(self) -> str:
        assert self._kafka is not None
        return self._kafka.bootstrap

    def start(self) -> None:
        before = self._directory / "before"
        shutil.copytree(self._log_dir, before)
        for attempt in range(TRIES):
            self._kafka = self._started(self._directory / f"{attempt}")
            eventually(lambda: DECIDED not in open_ids(self), lambda: transactions(self, "list"), pause_s=0.5)
            if "Couldn't find leader endpoint" not in (self._kafka.directory / "kafka.Kafka.log").read_text():
                return
            self._kafka.kill()
            shutil.rmtree(self._log_dir)
            shutil.copytree(before, self._log_dir)
        pytest.fail("Kafka dropped markers each time")

    def _started(self, directory: Path) -> ApacheKafka:
        kafka = ApacheKafka(directory, **SETTINGS | {"log.dirs": self._log_dir})  # type: ignore[arg-type]
        directory.mkdir()
        kafka.log4j = directory / "log4j.properties"
        logging = (PROGRAMS / "java" / "log4j.properties").read_text()
        kafka.log4j.write_text(f"{logging}\nlog4j.logger.kafka.coordinator.transaction=INFO\n")
        try:
            kafka.start_zookeeper()
            put_into_zookeeper(kafka.zookeeper, tree_of_store(self._log_dir / "metadata.sqlite"))
            kafka.start_broker()
        except BaseException:
            kafka.kill()
            raise
        return kafka

    def kill(self) -> None:
        """Kill it, if it runs, and put its metadata into the directory."""
        kafka, self._kafka = self._kafka, None
        if kafka is not None:
            kafka.kill_broker()
            try:
                put_into_store(self._log_dir / "metadata.sqlite", tree_of_zookeeper(kafka.zookeeper))
            finally:
                kafka.kill()


Taker = ServedBroker | TakingKafka


def transactions(broker: Bootstrapped, *words: str) -> str:
    return java_tool("org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", broker.bootstrap, *words)


class Work:
    """The transactions of all turns, and what has to be found of them."""

    def __init__(self, log_dir: Path) -> None:
        self._states = log_dir / "__transaction_state-0" / f"{0:020}.log"
        self.transactions = 0
        self.committed: list[str] = []

    def leave(self, broker: Taker, outcome: str) -> bool:
        """Have a transaction decided, and kill the broker before it is complete; return whether that came in time.

        Another transaction is left open.
        """
        left = transactional(broker, LEFT, **{"transaction.timeout.ms": SHORT_TIMEOUT_MS})
        left.begin_transaction()
        left.produce("data", "left", partition=0)
        left.flush(TIMEOUT_S)
        producer = transactional(broker, DECIDED)
        self._transact(broker, producer)
        size = self._states.stat().st_size
        with contextlib.suppress(KafkaException):  # it does not wait for the answer
            (producer.commit_transaction if outcome == "commit" else producer.abort_transaction)(0)
        deadline = time.monotonic() + TIMEOUT_S
        while self._states.stat().st_size == size:
            assert time.monotonic() < deadline
        broker.kill()
        if outcome == "commit":
            self.committed.append(f"{self.transactions}")
        return self._last_state() == f"Prepare{outcome.title()}"

    def _transact(self, broker: Taker, producer: Producer) -> None:
        self.transactions += 1
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce("data", f"{self.transactions}", partition=partition)
        producer.flush(TIMEOUT_S)
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": GROUP})
        offsets = [TopicPartition("data", 0, self.transactions)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), TIMEOUT_S)
        consumer.close()

    def _last_state(self) -> str:
        told = java_tool("kafka.tools.DumpLogSegments", "--transaction-log-decoder", "--files", str(self._states))
        return str(re.findall(rf"transactionalId={DECIDED} .*,state=(\w+),", told)[-1])

    def check(self, broker: Taker) -> None:
        """The broker finishes what was decided and aborts what is too old; then all that was committed is there, and no more."""
        expected = self.committed * PARTITIONS
        eventually(lambda: not open_ids(broker), lambda: transactions(broker, "list"), TIMEOUT_S, 0.5)
        assert read(broker, "data") == expected, Counter(read(broker, "data"))
        hanging = transactions(broker, "find-hanging", "--broker-id", "1", "--max-transaction-timeout", "0")
        assert "data" not in hanging
        assert "__consumer_offsets" not in hanging
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": GROUP})
        (offset,) = consumer.committed([TopicPartition("data", 0)], TIMEOUT_S)
        consumer.close()
        assert offset.offset == int(self.committed[-1])


def open_ids(broker: Bootstrapped) -> set[str]:
    """Return the transactional ids whose transactions are not complete, or not loaded yet."""
    listed = re.findall(r"^(\S+)\s+\d+\s+\d+\s+(\w+)", transactions(broker, "list"), re.MULTILINE)
    assert {name for name, _ in listed} <= {DECIDED, LEFT}
    return {DECIDED, LEFT} - {name for name, state in listed if state.startswith("Complete")}


def test_decided_transactions_are_finished_by_the_other_broker(tmp_path: Path) -> None:
    if java_class_path() is None:
        pytest.skip("Java or Maven is not installed")
    ours = ServedBroker(tmp_path / "data", *[f"{key}={value}" for key, value in SETTINGS.items()])
    work = Work(ours.log_dir)
    broker: Taker = ours
    try:
        for turn, (who, outcome) in enumerate(TURNS):
            for attempt in range(TRIES):
                broker = ours if who == "ours" else TakingKafka(tmp_path / f"kafka-{turn}-{attempt}", ours.log_dir)
                broker.start()
                if work.transactions:
                    work.check(broker)
                else:
                    make_topic(broker, "data", PARTITIONS)
                if work.leave(broker, outcome):
                    break
            else:
                pytest.fail("the broker was killed too late each time")
        ours.start()
        work.check(ours)
        assert ours.stop() == 0
    finally:
        broker.kill()
        ours.kill()
    print(f"{work.transactions} transactions, {len(work.committed)} committed")
