"""Builds the manager of share partitions."""

from collections.abc import Callable

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.group_configs import ShareGroupConfigs
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.replication.replica_manager import ReplicaManager
from twisted_kafka.share.persister import IPersister
from twisted_kafka.share.share_metrics import ShareGroupMetrics
from twisted_kafka.share.share_partition import SharePartitionEnvironment
from twisted_kafka.share.share_partition_manager import SharePartitionManager
from twisted_kafka.share.share_sessions import ShareSessionCache
from twisted_kafka.timing.timer import Timer


def make_share_partition_manager(
    config: KafkaConfig,
    replicas: ReplicaManager,
    persister: IPersister,
    configs_of: Callable[[str], ShareGroupConfigs],
    timer: Timer,
    registry: MetricsRegistry,
    later: Callable[[Callable[[], None]], None],
) -> SharePartitionManager:
    """Build the manager.

    ``configs_of`` returns a group's configs. ``timer`` and ``later`` run functions on threads that may read and append.
    """
    sessions = ShareSessionCache(config.int("group.share.max.share.sessions"), registry)
    environment = SharePartitionEnvironment(registry.clock, timer, persister, configs_of, lambda group_id: False)
    metrics = ShareGroupMetrics(registry)
    return SharePartitionManager(replicas, environment, sessions, metrics, later, lambda share, name: None)
