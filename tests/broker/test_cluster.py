"""Several brokers on a real ZooKeeper: how they find one another, who leads, and what becomes of it when one goes."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewTopic
from kazoo.client import KazooClient

from tests.eventually import eventually
from tests.zookeeper import ZooKeeper
from twisted_kafka.broker import registrar
from twisted_kafka.broker.broker import Broker
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.znodes import ControllerNode, PartitionStateNode
from twisted_kafka.protocol.topic_partition import TopicPartition

pytestmark = pytest.mark.long

_numbers = itertools.count()


class Members:
    """The brokers of a cluster, by id."""

    def __init__(self, server: ZooKeeper, directory: Path) -> None:
        self._connect = f"{server.address}/clusters/{os.getpid()}-{next(_numbers)}"
        self._directory = directory
        self.brokers: dict[int, Broker] = {}
        self.nodes = KazooClient(self._connect)
        self.nodes.start_async().wait(30)

    def start(self, broker_id: int, **settings: object) -> Broker:
        properties: dict[str, object] = {
            "zookeeper.connect": self._connect,
            "broker.id": broker_id,
            "zookeeper.session.timeout.ms": 5000,
            "offsets.topic.num.partitions": 2,
            "controlled.shutdown.retry.backoff.ms": 100,
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        broker = self.brokers[broker_id] = Broker(properties, data_dir=self._directory / str(broker_id))
        broker.start()
        return broker

    def stop(self, broker_id: int) -> None:
        self.brokers.pop(broker_id).stop()

    def close(self) -> None:
        for broker_id in list(self.brokers):
            self.stop(broker_id)
        self.nodes.stop()
        self.nodes.close()

    @property
    def controller_id(self) -> int:
        return ControllerNode.decode(self.nodes.get(znodes.CONTROLLER)[0]).broker_id

    def state(self, topic: str, partition: int = 0) -> PartitionStateNode:
        return PartitionStateNode.decode(self.nodes.get(znodes.state_path(TopicPartition(topic, partition)))[0])

    def admin(self, broker_id: int) -> KafkaAdminClient:
        return KafkaAdminClient(bootstrap_servers=self.brokers[broker_id].bootstrap_servers)

    def create(self, topic: str, assignments: list[list[int]]) -> None:
        admin = self.admin(next(iter(self.brokers)))
        admin.create_topics([NewTopic(topic, -1, -1, dict(enumerate(assignments)))])
        admin.close()

    def partition(self, broker_id: int, topic: str, partition: int = 0) -> Any:
        """What a broker's clients hear of a partition."""
        metadata = self.brokers[broker_id]._server.metadata
        assert metadata is not None
        return metadata.partition((topic, partition))

    def all_hear(self, topic: str, **wanted: object) -> None:
        """Wait until all brokers' clients hear this of the topic's first partition."""

        def heard() -> list[Any]:
            return [self.partition(broker_id, topic) for broker_id in self.brokers]

        def is_so(state: Any) -> bool:
            return state is not None and all(getattr(state, name) == value for name, value in wanted.items())

        eventually(lambda: all(map(is_so, heard())), heard)


@pytest.fixture
def members(zookeeper: ZooKeeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Members]:
    monkeypatch.setattr(registrar, "MAY_JOIN_OTHERS", True)
    members = Members(zookeeper, tmp_path)
    yield members
    members.close()


def test_brokers_hear_of_one_another_and_lead_what_the_controller_says(members: Members) -> None:
    members.start(1)
    members.start(2)
    assert members.controller_id == 1
    members.create("orders", [[2, 1], [1, 2]])
    members.all_hear("orders", leader=2, isr=[2, 1])
    for broker_id in (1, 2):
        admin = members.admin(broker_id)
        found = admin.describe_cluster()
        assert ({each["broker_id"] for each in found["brokers"]}, found["controller_id"]) == ({1, 2}, 1)
        admin.close()
    assert members.brokers[2].metrics.value("ReplicaManager", "PartitionCount") == 2
    assert members.brokers[2].metrics.value("ReplicaManager", "LeaderCount") == 1


def test_a_broker_that_stops_gives_its_leaderships_up_first(members: Members) -> None:
    members.start(1)
    members.start(2)
    members.create("orders", [[2, 1]])
    members.all_hear("orders", leader=2)
    members.stop(2)
    assert members.state("orders") == PartitionStateNode(leader=1, leader_epoch=1, isr=[1], controller_epoch=1)
    members.all_hear("orders", leader=1, offline_replicas=[2])
    members.start(2)
    members.all_hear("orders", leader=1, offline_replicas=[])


def test_when_the_controller_stops_another_broker_takes_the_office(members: Members) -> None:
    members.start(1)
    members.start(2)
    members.create("orders", [[1, 2]])
    members.all_hear("orders", leader=1)
    members.stop(1)
    eventually(lambda: members.nodes.exists(znodes.CONTROLLER) and members.controller_id == 2)
    members.all_hear("orders", leader=2, isr=[2], controller_epoch=1)
    members.start(1)
    members.create("more", [[1, 2]])
    members.all_hear("more", leader=1, controller_epoch=2)


def test_a_topic_is_deleted_from_all_brokers(members: Members, tmp_path: Path) -> None:
    members.start(1)
    members.start(2)
    members.create("gone", [[2, 1]])
    members.all_hear("gone", leader=2)
    admin = members.admin(1)
    admin.delete_topics(["gone"])
    admin.close()
    eventually(lambda: not members.nodes.exists(znodes.topic_path("gone")))
    assert [members.partition(each, "gone") for each in (1, 2)] == [None, None]
    eventually(lambda: not list(tmp_path.glob("*/log/gone-0")))
