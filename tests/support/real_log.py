"""A coordinator runtime on a real log."""

from pathlib import Path
from typing import Any

from tests.support.coordinator_fakes import MemoryPersister, NoBrokers
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.group_coordinator.assembly import ShareParts, make_group_coordinator
from twisted_kafka.log.log_manager import LogManager
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.metadata.embedded import SqliteStore
from twisted_kafka.metadata.features import FeatureCache
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.operations.purgatories import Purgatories
from twisted_kafka.replication.partition.partition import LeaderState
from twisted_kafka.replication.replica_manager import ReplicaManager
from twisted_kafka.timing.clock import ManualClock
from twisted_kafka.timing.scheduler import ManualScheduler
from twisted_kafka.timing.timer import Timer
from twisted_kafka.transaction_coordinator.assembly import Ends, make_transaction_coordinator
from twisted_kafka.transaction_coordinator.environment import ignore_end
from twisted_kafka.transaction_coordinator.transaction_coordinator import TransactionCoordinator

TOPIC = "__consumer_offsets"


class RealBroker:
    def __init__(self, path: Path, clock: ManualClock, **properties: Any) -> None:
        properties = {"broker.id": "1", "log.dirs": str(path), **properties}
        self.config = config = KafkaConfig.embedded(properties)
        self.clock = clock
        self.scheduler = ManualScheduler(clock)
        self.timer = Timer(clock)
        self.logs = LogManager(config, self.scheduler, clock)
        self.logs.startup()
        metadata = MetadataCache(1)
        self.metrics = metrics = MetricsRegistry(clock)
        self.replicas = ReplicaManager(config, self.logs, metadata, self.scheduler, clock, Purgatories(clock, self.timer), metrics)
        parts = ShareParts(MemoryPersister(), NoBrokers())
        self.groups = make_group_coordinator(config, self.replicas, metadata, self.scheduler, self.timer, clock, metrics, parts)
        self.groups.startup()
        self.partitions = config.int("offsets.topic.num.partitions")

    def lead(self, epoch: int = 0, replicas: tuple[int, ...] = (1,), topic: str = TOPIC) -> None:
        state = LeaderState(1, 1, epoch, (1,), replicas, 0)
        self.replicas.state.become_leader_or_follower(
            1, [(TopicPartition(topic, index), (b"o" if topic == TOPIC else b"t") * 16, state) for index in range(self.partitions)]
        )
        self.scheduler.run_due()

    def make_transactions(self, store: SqliteStore) -> TransactionCoordinator:
        ends = Ends(self.groups.end_transaction, ignore_end, NoBrokers())
        features = FeatureCache(store)
        return make_transaction_coordinator(
            self.config, self.replicas, store, features, ends, self.scheduler, self.timer, self.metrics
        )

    def stop(self) -> None:
        self.groups.shutdown()
        self.replicas.shutdown()
        self.logs.shutdown()
