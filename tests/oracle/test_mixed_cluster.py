"""This broker and Apache Kafka in one cluster, each as its controller."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic
from kafka.errors import KafkaConnectionError

from tests.support.clients.clients import java_class_path
from tests.support.eventually import eventually
from tests.support.members import Members
from tests.support.oracle.apache_kafka import ApacheKafka
from tests.support.zookeeper import ZooKeeper
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.znodes_admin import FeatureNode

pytestmark = [pytest.mark.oracle, pytest.mark.long]

OURS, THEIRS = 1, 2


class Mixed(Members):
    """Broker 1 is this one, broker 2 Apache Kafka."""

    def __init__(self, server: ZooKeeper, directory: Path, **settings: object) -> None:
        super().__init__(server, directory)
        common: dict[str, object] = {
            "broker.id": THEIRS,
            "zookeeper.connect": self.connect,
            "zookeeper.session.timeout.ms": 5000,
            "offsets.topic.num.partitions": 2,
            "controlled.shutdown.retry.backoff.ms": 100,
            "replica.lag.time.max.ms": 2000,
        }
        self.theirs = ApacheKafka(directory / "kafka", **(common | settings))  # type: ignore[arg-type]

    def start_ours(self) -> None:
        self.start(OURS, replica_lag_time_max_ms=2000)
        # As with `twistd kafka`. A broker within a program finalizes features, and Apache Kafka ends if it finds them.
        eventually(lambda: self.nodes.exists(znodes.FEATURE))
        self.nodes.set(znodes.FEATURE, FeatureNode.of({}).encode())

    def bootstrap(self, broker_id: int) -> str:
        return self.theirs.bootstrap if broker_id == THEIRS else self.brokers[OURS].bootstrap_servers

    def make(self, topic: str, assignments: list[list[int]]) -> None:
        eventually(partial(self._is_made, topic, assignments), pause_s=0.2)

    def _is_made(self, topic: str, assignments: list[list[int]]) -> bool:
        try:
            admin = KafkaAdminClient(bootstrap_servers=self.bootstrap(self.controller_id))
            try:
                admin.create_topics([NewTopic(topic, -1, -1, dict(enumerate(assignments)))])
            finally:
                admin.close()
        except KafkaConnectionError:  # it was told the address that a broker had before it was restarted
            return False
        return True

    def leaders(self, broker_id: int, topic: str) -> list[int]:
        """The leaders of a topic as a broker's clients hear of them."""
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap(broker_id))
        try:
            (found,) = admin.describe_topics([topic])
        finally:
            admin.close()
        return [each["leader_id"] for each in sorted(found["partitions"], key=lambda each: each["partition_index"])]

    def all_say(self, topic: str, leaders: list[int]) -> None:
        for broker_id in [*self.brokers, THEIRS]:
            eventually(partial(self._says, broker_id, topic, leaders), pause_s=0.2)

    def _says(self, broker_id: int, topic: str, leaders: list[int]) -> bool:
        return self.leaders(broker_id, topic) == leaders

    def close(self) -> None:
        super().close()
        self.theirs.kill()


@pytest.fixture
def mixed(zookeeper: ZooKeeper, tmp_path: Path) -> Iterator[Mixed]:
    if java_class_path() is None:
        pytest.skip("Java or Maven is not installed")
    mixed = Mixed(zookeeper, tmp_path)
    yield mixed
    mixed.close()


def produce(bootstrap: str, topic: str, partition: int, **settings: object) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, **settings)
    producer.send(topic, b"value", partition=partition).get(30)
    producer.close()


def test_apache_kafka_takes_orders_of_this_controller(mixed: Mixed) -> None:
    mixed.start_ours()
    mixed.theirs.start_broker()
    assert mixed.controller_id == OURS
    mixed.make("orders", [[2, 1], [1, 2]])
    mixed.make("theirs", [[2]])
    mixed.all_say("orders", [2, 1])
    for partition in (0, 1):
        produce(mixed.bootstrap(THEIRS), "orders", partition, acks=1, enable_idempotence=False)
    produce(mixed.bootstrap(THEIRS), "theirs", 0, enable_idempotence=True)  # with a producer id of the controller's
    mixed.make("gone", [[2, 1], [1, 2]])
    admin = KafkaAdminClient(bootstrap_servers=mixed.bootstrap(OURS))
    admin.delete_topics(["gone"])
    admin.close()
    eventually(lambda: not mixed.nodes.exists(znodes.topic_path("gone")))
    mixed.theirs.stop_broker()
    assert [mixed.state("orders", each).leader for each in (0, 1)] == [1, 1]
    eventually(lambda: mixed.state("theirs").leader == -1)
    mixed.theirs.start_broker()
    mixed.all_say("theirs", [2])


def test_this_broker_takes_orders_of_apache_kafka(mixed: Mixed) -> None:
    mixed.theirs.start_broker()
    mixed.start_ours()
    assert mixed.controller_id == THEIRS
    mixed.make("orders", [[2, 1], [1, 2]])
    mixed.make("ours", [[1]])
    mixed.all_say("orders", [2, 1])
    mixed.all_say("ours", [1])
    produce(mixed.bootstrap(OURS), "ours", 0)
    mixed.stop(OURS)
    assert [mixed.state("orders", each).leader for each in (0, 1)] == [2, 2]
    eventually(lambda: mixed.state("ours").leader == -1)
    mixed.start_ours()
    mixed.all_say("ours", [1])
    mixed.make("gone", [[1, 2], [2, 1]])
    admin = KafkaAdminClient(bootstrap_servers=mixed.bootstrap(THEIRS))
    admin.delete_topics(["gone"])
    admin.close()
    eventually(lambda: not mixed.nodes.exists(znodes.topic_path("gone")))


def test_the_office_moves_between_them(mixed: Mixed) -> None:
    mixed.theirs.start_broker()
    mixed.start_ours()
    mixed.make("orders", [[2, 1]])
    mixed.all_say("orders", [2])
    mixed.theirs.stop_broker()
    eventually(lambda: mixed.nodes.exists(znodes.CONTROLLER) and mixed.controller_id == OURS)
    assert mixed.state("orders").leader == 1
    mixed.theirs.start_broker()
    mixed.make("more", [[2, 1]])
    mixed.all_say("more", [2])
    mixed.stop(OURS)
    eventually(lambda: mixed.nodes.exists(znodes.CONTROLLER) and mixed.controller_id == THEIRS)
    mixed.start_ours()
    mixed.make("most", [[1, 2]])
    mixed.all_say("most", [1])
