"""Builds the share coordinator."""

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.coordinator.damage import SKIP_KEY, DamagePolicy
from twisted_kafka.coordinator.replica_log import ReplicaReader, ReplicaWriter
from twisted_kafka.coordinator.runtime import CoordinatorRuntime, RuntimeSettings, follow_leadership
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.topic_partition import SHARE_TOPIC
from twisted_kafka.replication.replica_manager import ReplicaManager
from twisted_kafka.share_coordinator.environment import ShareCoordinatorConfig, ShareEnvironment
from twisted_kafka.share_coordinator.share_coordinator import ShareCoordinator
from twisted_kafka.share_coordinator.share_coordinator_metrics import ShareCoordinatorMetrics
from twisted_kafka.share_coordinator.share_coordinator_shard import ShareShardFactory
from twisted_kafka.timing.scheduler import IScheduler
from twisted_kafka.timing.timer import Timer


def make_share_coordinator(
    config: KafkaConfig, replica_manager: ReplicaManager, scheduler: IScheduler, timer: Timer, registry: MetricsRegistry
) -> ShareCoordinator:
    """Build the coordinator and subscribe it to leadership changes of ``__share_group_state``; the caller starts and stops it.

    ``scheduler`` loads partitions and prunes them. ``timer`` is started and stopped by the caller.
    """
    clock = registry.clock
    metadata = replica_manager.metadata
    values = ShareCoordinatorConfig.from_config(config)
    metrics = ShareCoordinatorMetrics(registry, clock)
    damage = DamagePolicy(config.boolean(SKIP_KEY))

    def partition_count() -> int:
        return metadata.partition_count(SHARE_TOPIC) or values.num_partitions

    runtime = CoordinatorRuntime(
        RuntimeSettings(
            SHARE_TOPIC,
            partition_count,
            values.load_buffer_size,
            values.compression,
            metrics.partition_loaded,
            damage,
            config.int("share.coordinator.append.linger.ms"),
        ),
        ShareShardFactory(ShareEnvironment(clock, values, metadata)),
        ReplicaWriter(replica_manager, values.write_timeout_ms),
        ReplicaReader(replica_manager, damage),
        scheduler,
        timer,
        clock,
    )
    follow_leadership(replica_manager, runtime)
    return ShareCoordinator(runtime, scheduler, clock, values, metrics)
