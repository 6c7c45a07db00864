"""ReplicaManager: the partitions that this broker hosts, and the parts that work on them.

Handlers ask the parts: ``appender`` for produces, ``reader`` for fetches, ``offsets`` for queries about offsets, ``state`` for
the controller's requests, ``moves`` for moves between log directories.
"""

from functools import partial
from pathlib import Path
from typing import Final

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.log.log_manager import LogManager
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.interfaces import IInSyncReplicas, IReplicaFetchers, LeadershipListener, NoFetchers
from twisted_kafka.replication.log_dirs.alter_log_dirs import make_moves
from twisted_kafka.replication.operations.appender import RecordAppender
from twisted_kafka.replication.operations.offset_queries import OffsetQueries
from twisted_kafka.replication.operations.purgatories import Purgatories
from twisted_kafka.replication.operations.reader import LogReader
from twisted_kafka.replication.partition.high_watermarks import HighWatermarkCheckpoints
from twisted_kafka.replication.partition.partition import Partition, PartitionHost
from twisted_kafka.replication.partition.partition_table import PartitionTable
from twisted_kafka.replication.partition.topic_stats import BrokerTopicStats
from twisted_kafka.replication.replica_selector import make_preferred_replicas
from twisted_kafka.replication.replication_quota_manager import FOLLOWER, LEADER, ReplicationQuotaManager
from twisted_kafka.replication.state_changes import StateChanges
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock
from twisted_kafka.timing.scheduler import IScheduler, ScheduledTask

CHECKPOINT_INTERVAL_KEY: Final = "replica.high.watermark.checkpoint.interval.ms"


class ReplicaManager:
    """Makes the parts over one table of partitions (Kafka: ``ReplicaManager``). Methods may be called from any thread."""

    def __init__(
        self,
        config: KafkaConfig,
        logs: LogManager,
        metadata: MetadataCache,
        scheduler: IScheduler,
        clock: IClock,
        purgatories: Purgatories,
        metrics: MetricsRegistry,
    ) -> None:
        self._scheduler = scheduler
        self._checkpoint_interval_ms = config.long(CHECKPOINT_INTERVAL_KEY)
        self._checkpoint_task: ScheduledTask | None = None
        self._checkpoint_lock = machine.Lock()
        self._checkpoints = HighWatermarkCheckpoints(logs.storage_failed)
        self._fetchers: IReplicaFetchers = NoFetchers()
        self.metadata = metadata
        self.purgatories = purgatories
        self.stats = BrokerTopicStats(metrics)
        self.partitions = PartitionTable(metadata)
        self.appender = RecordAppender(self.partitions, purgatories, self.stats)
        windows = config.int("replication.quota.window.num"), config.int("replication.quota.window.size.seconds") * 1000
        self.leader_quota = ReplicationQuotaManager(LEADER, metadata.broker_id, windows, clock, metrics)
        self.follower_quota = ReplicationQuotaManager(FOLLOWER, metadata.broker_id, windows, clock, metrics)
        self.reader = LogReader(self.partitions, purgatories, self.stats, self.leader_quota)
        self._preferred = make_preferred_replicas(config, metadata)
        if self._preferred is not None:
            self.reader.set_preferred_replicas(self._preferred, clock)
        self.offsets = OffsetQueries(self.partitions, purgatories, clock)
        self.state = StateChanges(
            metadata.broker_id,
            self.partitions,
            logs,
            self._checkpoints,
            purgatories,
            self.stats,
            partial(
                self._make_partition,
                host=PartitionHost(metadata.broker_id, clock, config.long("replica.lag.time.max.ms"), logs, metadata.alive),
            ),
        )
        self.moves = make_moves(config, logs, self.partitions, self.state.lock, purgatories, clock, metrics, scheduler)
        self.state.set_moves(self.moves)
        self._register_metrics(metrics)

    def _make_partition(self, log: UnifiedLog, topic_id: bytes, *, host: PartitionHost) -> Partition:
        return Partition(log, topic_id, self.stats.topic(log.topic_partition.topic), host)

    def _register_metrics(self, metrics: MetricsRegistry) -> None:
        self.purgatories.register_metrics(metrics)
        gauges = {
            "LeaderCount": lambda: sum(partition.is_leader for partition in self.partitions),
            "PartitionCount": lambda: len(self.partitions),
            "OfflineReplicaCount": lambda: self.partitions.offline_count,
            "UnderReplicatedPartitions": lambda: sum(partition.is_under_replicated for partition in self.partitions),
            "ReassigningPartitions": lambda: sum(each.is_leader and each.is_reassigning for each in self.partitions),
            "UnderMinIsrPartitionCount": lambda: sum(partition.is_under_min_isr for partition in self.partitions),
            "AtMinIsrPartitionCount": lambda: sum(partition.is_at_min_isr for partition in self.partitions),
        }
        for name, function in gauges.items():
            metrics.gauge("ReplicaManager", name, function)
        for name in ("IsrExpandsPerSec", "IsrShrinksPerSec", "FailedIsrUpdatesPerSec"):
            metrics.meter("ReplicaManager", name)  # marked by the AlterPartitionManager, which few brokers have

    # Start and stop

    def set_fetchers(self, fetchers: IReplicaFetchers) -> None:
        """Set the replica fetchers. A broker that is alone needs none."""
        self._fetchers = fetchers
        self.state.set_fetchers(fetchers)

    def set_in_sync_replicas(self, in_sync: IInSyncReplicas) -> None:
        """Set the part that changes the in-sync replicas. A broker without others needs none."""
        self.state.set_in_sync_replicas(in_sync)
        self.reader.set_in_sync_replicas(in_sync)

    def start_checkpoints(self) -> None:
        """Start to write the high watermarks every ``replica.high.watermark.checkpoint.interval.ms``; LeaderAndIsr starts it."""
        with self._checkpoint_lock:
            if self._checkpoint_task is None:
                interval_ms = self._checkpoint_interval_ms
                self._checkpoint_task = self._scheduler.schedule(
                    "highwatermark-checkpoint", self.checkpoint_high_watermarks, 0, interval_ms
                )

    def checkpoint_high_watermarks(self) -> None:
        """Write the high watermarks. A directory that cannot be written is logged."""
        self._checkpoints.write(self.partitions)

    def shutdown(self, checkpoint: bool = True) -> None:
        """Stop fetching, drop delayed operations, and write the high watermarks. The logs must still be open."""
        self._fetchers.shutdown()
        self.moves.shutdown()
        self.purgatories.shutdown()
        if self._preferred is not None:
            self._preferred.close()
        with self._checkpoint_lock:
            task, self._checkpoint_task = self._checkpoint_task, None
        if task is not None:
            task.cancel()
            if checkpoint:
                self.checkpoint_high_watermarks()

    def directory_failed(self, directory: Path) -> None:
        """Take the partitions in a log directory offline (for ``LogManager``'s ``on_directory_failure``)."""
        self.state.directory_failed(directory)

    def add_leadership_listener(self, listener: LeadershipListener) -> None:
        """Call ``listener(led, not led)`` at each change of leaders, on the controller's thread."""
        self.state.add_listener(listener)

    # Partitions

    def get_partition(self, topic_partition: TopicPartition) -> Partition | None:
        """Return the partition if it is hosted here and online."""
        return self.partitions.get(topic_partition)

    def get_partition_or_error(self, topic_partition: TopicPartition) -> Partition:
        """Return the partition; raises KafkaStorageError, NotLeaderOrFollowerError, UnknownTopicOrPartitionError."""
        return self.partitions.get_or_raise(topic_partition)

    def online_leader(self, topic_partition: TopicPartition) -> Partition | None:
        """Return the partition if this broker leads it."""
        partition = self.partitions.get(topic_partition)
        return partition if partition is not None and partition.is_leader else None

    def current_leader(self, topic_partition: TopicPartition) -> tuple[int, int]:
        """Return (leader's id, leader epoch), -1 where unknown, for a client that asked the wrong broker (KIP-951)."""
        partition = self.partitions.get(topic_partition)
        if partition is not None:
            return partition.leader_id, partition.leader_epoch
        state = self.metadata.partition(topic_partition)
        return (-1, -1) if state is None else (state.leader, state.leader_epoch)
