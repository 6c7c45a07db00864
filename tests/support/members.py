"""The brokers of one cluster on a real ZooKeeper, in this process."""

import itertools
import os
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient
from kafka.admin import NewTopic
from kazoo.client import KazooClient

from tests.support.eventually import eventually
from tests.support.zookeeper import ZooKeeper
from twisted_kafka.broker.broker import Broker
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.znodes import ControllerNode, PartitionStateNode
from twisted_kafka.protocol.topic_partition import TopicPartition

_numbers = itertools.count()


class Members:
    """The brokers of a cluster, by id."""

    def __init__(self, server: ZooKeeper, directory: Path) -> None:
        self.connect = f"{server.address}/clusters/{os.getpid()}-{next(_numbers)}"
        self._directory = directory
        self.brokers: dict[int, Broker] = {}
        self.nodes = KazooClient(self.connect)
        self.nodes.start_async().wait(30)

    def start(self, broker_id: int, **settings: object) -> Broker:
        properties: dict[str, object] = {
            "zookeeper.connect": self.connect,
            "broker.id": broker_id,
            "zookeeper.session.timeout.ms": 5000,
            "offsets.topic.num.partitions": 2,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
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
        eventually(lambda: all(self._is_known_to_all(broker_id) for broker_id in list(self.brokers)))
        admin = self.admin(next(iter(self.brokers)))
        admin.create_topics([NewTopic(topic, -1, -1, dict(enumerate(assignments)))])
        admin.close()

    def _is_known_to_all(self, broker_id: int) -> bool:
        caches = [broker._server.metadata for broker in self.brokers.values()]
        return all(cache is not None and cache.alive(broker_id) for cache in caches)

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
