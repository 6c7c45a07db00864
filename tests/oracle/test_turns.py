"""Apache Kafka 3.9 with ZooKeeper and this broker take turns on one log directory, under writes; nothing is lost or changed.

The metadata go along: what ZooKeeper has is copied into the embedded store and back, node by node, for both have the same tree.
"""

import hashlib
import re
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.oracle.metadata_trees import put_into_store, put_into_zookeeper, tree_of_store, tree_of_zookeeper
from tests.support.budget import patient
from tests.support.clients.clients import java_class_path, java_tool
from tests.support.clients.served import ServedBroker
from tests.support.oracle.apache_kafka import ApacheKafka
from twisted_kafka.metadata import znodes

TURNS = 10
PARTITIONS = 3
VALUES_PER_TURN = 3000
READ_TIMEOUT_S = patient(60)
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SETTINGS = {
    "broker.id": 1,
    "log.segment.bytes": 200_000,
    "log.index.interval.bytes": 1024,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 2,
    "group.initial.rebalance.delay.ms": 0,
    "log.cleaner.enable": "false",
    "auto.create.topics.enable": "false",
}
COMPLAINTS = re.compile(
    r"isvalid: false|mismatch|out of order|non-consecutive|not found|exception|corrupt|could not", re.IGNORECASE
)

pytestmark = [pytest.mark.slow, pytest.mark.oracle, pytest.mark.timeout(1200)]


class Work:
    """What clients do in each turn, and what they then know to be there."""

    def __init__(self) -> None:
        self.values: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
        self.committed: list[bytes] = []
        self.read_by_group = 0
        self.turn = 0

    def create(self, bootstrap: str, *topics: NewTopic) -> None:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for future in admin.create_topics(list(topics)).values():
            future.result(30)

    def write(self, bootstrap: str) -> None:
        self.turn += 1
        codec = CODECS[self.turn % len(CODECS)]
        producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "compression.type": codec, "linger.ms": 5})
        for number in range(VALUES_PER_TURN):
            partition = number % PARTITIONS
            value = b"turn %d value %d " % (self.turn, number) + b"%x" % hash((self.turn, number)) * (number % 9)
            producer.produce("turns", value, partition=partition)
            self.values[partition].append(value)
            if number % 100 == 0:
                producer.flush(30)
        assert producer.flush(30) == 0
        self._transact(bootstrap)

    def _transact(self, bootstrap: str) -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "turning"})
        producer.init_transactions(30)
        for number in range(20):
            producer.begin_transaction()
            values = [b"turn %d transaction %d.%d" % (self.turn, number, each) for each in range(5)]
            for value in values:
                producer.produce("txn", value, partition=0)
            if number % 3 == 1:
                producer.flush(30)
                producer.abort_transaction(30)
            else:
                producer.commit_transaction(30)
                self.committed += values

    def check(self, bootstrap: str) -> None:
        """Everything is there, in order; the group gets what it has not read yet."""
        for partition, values in self.values.items():
            assert read(bootstrap, "turns", partition, len(values)) == values
        assert read(bootstrap, "txn", 0, len(self.committed)) == self.committed
        total = sum(map(len, self.values.values()))
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "turning", "auto.offset.reset": "earliest"})
        consumer.subscribe(["turns"])
        deadline = time.monotonic() + READ_TIMEOUT_S
        known = self.read_by_group
        while self.read_by_group < total:
            assert time.monotonic() < deadline
            self.read_by_group += sum(message.error() is None for message in consumer.consume(1000, 0.5))
        assert not consumer.consume(1, 0.5)
        assert self.read_by_group == total
        if total > known:
            consumer.commit(asynchronous=False)
        consumer.close()


def read(bootstrap: str, topic: str, partition: int, count: int) -> list[bytes]:
    """Return the committed values; there must be as many as expected and no more."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "reading", "enable.auto.commit": False, "check.crcs": True}
    consumer = Consumer(settings | {"isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: list[bytes] = []
    deadline = time.monotonic() + READ_TIMEOUT_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} in {topic}-{partition}"
        found += [message.value() for message in consumer.consume(1000, 0.5) if message.error() is None]
    found += [message.value() for message in consumer.consume(1, 0.3) if message.error() is None]
    consumer.close()
    return found


def contents(log_dir: Path) -> dict[Path, tuple[int, bytes]]:
    """The size and a digest of each file of batches."""
    files = [path for name in ("turns", "txn") for path in log_dir.glob(f"{name}-*/*.log")]
    return {path: (path.stat().st_size, hashlib.sha256(path.read_bytes()).digest()) for path in files}


def ensure_unchanged(before: dict[Path, tuple[int, bytes]]) -> None:
    for path, (size, digest) in before.items():
        assert hashlib.sha256(path.read_bytes()[:size]).digest() == digest, path


def test_ten_turns_on_one_directory(tmp_path: Path) -> None:
    if java_class_path() is None:
        pytest.skip("Java or Maven is not installed")
    ours = ServedBroker(tmp_path / "data", *[f"{key}={value}" for key, value in SETTINGS.items()])
    work = Work()
    before: dict[Path, tuple[int, bytes]] = {}
    for turn in range(TURNS):
        is_killed = turn % 4 >= 2
        if turn % 2 == 0:
            take_our_turn(ours, work, is_killed)
        else:
            take_kafkas_turn(tmp_path / f"kafka-{turn}", ours.log_dir, work, is_killed)
        ensure_unchanged(before)
        before = contents(ours.log_dir)
    ours.start()
    work.check(ours.bootstrap)
    assert ours.stop() == 0
    told = dump(ours.log_dir, "turns-*/*.log", "--deep-iteration") + dump(ours.log_dir, "txn-*/*.log", "--deep-iteration")
    for pattern in ("*index", "*.snapshot"):
        told += dump(ours.log_dir, f"t*-*/*.{pattern.lstrip('*.')}" if pattern == "*.snapshot" else f"t*-*/{pattern}")
    assert not COMPLAINTS.findall(told), COMPLAINTS.findall(told)[:5]
    states = dump(ours.log_dir, "__transaction_state-*/*.log", "--transaction-log-decoder")
    assert not COMPLAINTS.findall(states), COMPLAINTS.findall(states)[:5]
    assert "transactionalId=turning" in states
    for state in ("Empty", "Ongoing", "PrepareCommit", "CompleteCommit", "PrepareAbort", "CompleteAbort"):
        assert f"state={state}," in states, state
    assert told.count("baseOffset: ") > VALUES_PER_TURN * TURNS / 100


def take_our_turn(broker: ServedBroker, work: Work, is_killed: bool) -> None:
    broker.start()
    try:
        if not work.turn:
            work.create(broker.bootstrap, NewTopic("turns", PARTITIONS, 1), NewTopic("txn", 1, 1))
        work.check(broker.bootstrap)
        work.write(broker.bootstrap)
        work.check(broker.bootstrap)
        if not is_killed:
            assert broker.stop() == 0
    finally:
        broker.kill()


def take_kafkas_turn(directory: Path, log_dir: Path, work: Work, is_killed: bool) -> None:
    metadata = log_dir / "metadata.sqlite"
    kafka = ApacheKafka(directory, **SETTINGS | {"log.dirs": log_dir})  # type: ignore[arg-type]
    try:
        kafka.start_zookeeper()
        put_into_zookeeper(kafka.zookeeper, tree_of_store(metadata))
        kafka.start_broker()
        work.check(kafka.bootstrap)
        work.write(kafka.bootstrap)
        work.check(kafka.bootstrap)
        if is_killed:
            kafka.kill_broker()
        else:
            kafka.stop_broker()
        tree = tree_of_zookeeper(kafka.zookeeper)
        assert znodes.topic_path("turns") in tree
        put_into_store(metadata, tree)
    finally:
        kafka.kill()


def dump(log_dir: Path, pattern: str, *words: str) -> str:
    files = sorted(path for path in log_dir.glob(pattern) if path.stat().st_size)
    return java_tool("kafka.tools.DumpLogSegments", *words, "--files", ",".join(map(str, files))) if files else ""
