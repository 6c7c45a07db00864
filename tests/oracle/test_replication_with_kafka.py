"""A cluster of Apache Kafka and this broker: each follows the other, and the logs are the same byte for byte."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic
from kafka.errors import KafkaConnectionError

from tests.support.eventually import eventually
from tests.support.oracle.apache_kafka import ApacheKafka
from twisted_kafka.broker.broker import Broker

pytestmark = pytest.mark.oracle

KAFKA, OURS = 1, 2
SETTINGS: dict[str, Any] = {"replica.lag.time.max.ms": 5_000, "min.insync.replicas": 2, "log.segment.bytes": 20_000}


class Pair:
    """Apache Kafka, broker 1 and the controller, and this broker, 2."""

    def __init__(self, directory: Path) -> None:
        self.kafka = ApacheKafka(directory / "kafka", **SETTINGS)
        self._directory = directory
        self.kafka.start()
        self.start_ours()

    def start_ours(self) -> None:
        properties = {
            **SETTINGS,
            "broker.id": OURS,
            "zookeeper.connect": self.kafka.zookeeper,
            "zookeeper.session.timeout.ms": 5_000,
        }
        self.ours = Broker(properties, data_dir=self._directory / "ours")
        self.ours.start()

    def close(self) -> None:
        self.ours.stop()
        self.kafka.kill()

    def create(self, topic: str, assignment: list[int]) -> None:
        admin = KafkaAdminClient(bootstrap_servers=self.kafka.bootstrap)
        admin.create_topics([NewTopic(topic, -1, -1, {0: assignment})])
        admin.close()

    def produce(self, topic: str, *values: bytes, compression: str | None = None) -> None:
        """Write the values, each acknowledged by both."""
        servers = [self.kafka.bootstrap, self.ours.bootstrap_servers]
        producer = KafkaProducer(
            bootstrap_servers=servers, acks="all", retries=30, retry_backoff_ms=200, linger_ms=2, compression_type=compression
        )
        for answer in [producer.send(topic, value, partition=0) for value in values]:
            answer.get(60)
        producer.close()

    def logs(self, topic: str) -> tuple[bytes, bytes]:
        wheres = (self.kafka.directory / "data", self._directory / "ours" / "log")
        first, second = (b"".join(path.read_bytes() for path in sorted((where / f"{topic}-0").glob("*.log"))) for where in wheres)
        return first, second

    def agree(self, topic: str) -> bool:
        first, second = self.logs(topic)
        return first == second != b""

    def state(self, topic: str) -> tuple[int, list[int]]:
        """Return the leader and the in-sync replicas, as clients are told; -1 if a client asked a broker that is gone."""
        try:
            admin = KafkaAdminClient(bootstrap_servers=self.kafka.bootstrap)
            (found,) = admin.describe_topics([topic])
            admin.close()
        except KafkaConnectionError:
            return -1, []
        (partition,) = found["partitions"]
        return partition["leader_id"], sorted(partition["isr_nodes"])


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    pair = Pair(tmp_path)
    yield pair
    pair.close()


@pytest.mark.parametrize("leader", [KAFKA, OURS])
def test_each_follows_the_other_byte_for_byte(pair: Pair, leader: int) -> None:
    pair.create("orders", [leader, KAFKA + OURS - leader])
    values = [b"%06d" % number * 20 for number in range(500)]
    pair.produce("orders", *values)
    pair.produce("orders", *values, compression="gzip")
    eventually(lambda: pair.agree("orders"), lambda: [len(each) for each in pair.logs("orders")])
    assert pair.state("orders") == (leader, [KAFKA, OURS])


def test_leadership_goes_to_and_fro_and_nothing_differs(pair: Pair) -> None:
    pair.create("orders", [OURS, KAFKA])
    pair.produce("orders", *[b"first-%d" % number for number in range(200)])
    pair.ours.stop()
    eventually(lambda: pair.state("orders") == (KAFKA, [KAFKA]), lambda: pair.state("orders"))
    admin = KafkaProducer(bootstrap_servers=pair.kafka.bootstrap, acks=1)
    for number in range(200):
        admin.send("orders", b"alone-%d" % number, partition=0)
    admin.flush()
    admin.close()
    pair.start_ours()
    eventually(lambda: pair.state("orders")[1] == [KAFKA, OURS], lambda: pair.state("orders"))
    pair.produce("orders", *[b"second-%d" % number for number in range(200)])
    eventually(lambda: pair.agree("orders"), lambda: [len(each) for each in pair.logs("orders")])
