"""A cluster without brokers: a store, a controller, and channels that record what brokers are told and answer for them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake import Fake
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.endpoints import EndPoint
from twisted_kafka.controller.kafka_controller import KafkaController
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.metadata.config_repository import ConfigRepository
from twisted_kafka.metadata.embedded import SqliteStore
from twisted_kafka.metadata.registration import broker_node, prepare_store, register_broker
from twisted_kafka.metadata.znodes import BrokerNode, PartitionStateNode, TopicNode
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.messages.inter_broker import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.timing.clock import ManualClock


class FakeBrokers(Fake):
    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.errors: dict[Any, Any] = {}
        self.cache = MetadataCache(1)
        self.reachable: set[Any] = set()

    def add_broker(self, broker_id: int, node: BrokerNode) -> None:
        self.reachable.add(broker_id)

    def remove_broker(self, broker_id: int) -> None:
        self.reachable.discard(broker_id)

    def remove_all(self) -> None:
        self.reachable.clear()

    def send(
        self,
        broker_id: int,
        request: StopReplicaRequest | LeaderAndIsrRequest | UpdateMetadataRequest,
        on_response: Callable[..., Any] | None,
    ) -> None:
        assert broker_id in self.reachable
        self.sent.append((broker_id, request))
        response: Any = None
        if isinstance(request, LeaderAndIsrRequest):
            response = LeaderAndIsrResponse(
                topics=[
                    LeaderAndIsrTopicError(
                        topic_id=topic.topic_id,
                        partition_errors=[
                            LeaderAndIsrPartitionError(
                                partition_index=state.partition_index, error_code=self.errors.get((broker_id, topic.topic_name), 0)
                            )
                            for state in topic.partition_states
                        ],
                    )
                    for topic in request.topic_states
                ]
            )
        elif isinstance(request, StopReplicaRequest):
            response = StopReplicaResponse(
                partition_errors=[
                    StopReplicaPartitionError(
                        topic_name=topic.topic_name,
                        partition_index=state.partition_index,
                        error_code=self.errors.get((broker_id, topic.topic_name), 0),
                    )
                    for topic in request.topic_states
                    for state in topic.partition_states
                ]
            )
        elif broker_id == self.cache.broker_id:
            self.cache.apply(request)
        if on_response is not None:
            on_response(response)

    def take(self, kind: type[Any]) -> list[tuple[int, Any]]:
        found = [(broker, request) for broker, request in self.sent if isinstance(request, kind)]
        self.sent = [each for each in self.sent if not isinstance(each[1], kind)]
        return found


class Cluster:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = ManualClock()
        self.store: Any = None
        self.open()

    def open(self, **properties: Any) -> None:
        self.store = SqliteStore(self.path, self.clock, threaded=False)
        self.brokers = FakeBrokers()
        self.metrics = MetricsRegistry(self.clock)
        prepare_store(self.store)
        self.config = KafkaConfig.embedded(
            {"broker.id": "1", **{key.replace("_", "."): value for key, value in properties.items()}}
        )
        self.configs = ConfigRepository(self.store, self.clock, threaded=False)
        self.controller = KafkaController(
            self.config, self.store, self.configs, self.brokers, self.clock, threaded=False, metrics=self.metrics
        )

    def start(self, *broker_ids: Any) -> None:
        for broker_id in broker_ids or (1,):
            self.register(broker_id)
        started = self.controller.startup()
        self.pump()
        started.result(0)

    def register(self, broker_id: int, port: int | None = None) -> None:
        end_point = EndPoint("localhost", port or 9000 + broker_id, "PLAINTEXT", "PLAINTEXT")
        register_broker(self.store, broker_id, broker_node([end_point], rack=None, now_ms=self.clock.wall_ms()))

    def kill(self, broker_id: int) -> None:
        self.store.delete(znodes.broker_path(broker_id))

    def restart(self, **properties: Any) -> None:
        self.controller.shutdown()
        self.store.close()
        self.open(**properties)

    def pump(self) -> None:
        while self.store.pump() + self.configs.pump() + self.controller.pump():
            pass

    def make_topic(self, topic: str, *assignments: Any, topic_id: bytes = b"t" * 16) -> None:
        node = TopicNode(partitions={index: list(replicas) for index, replicas in enumerate(assignments)}, topic_id=topic_id)
        self.store.create(znodes.topic_path(topic), node.encode())
        self.pump()

    def state(self, topic: str, partition: int = 0) -> PartitionStateNode:
        return PartitionStateNode.decode(self.store.get(znodes.state_path(TopicPartition(topic, partition)))[0])


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path / "metadata.sqlite")
    yield cluster
    cluster.store.close()
