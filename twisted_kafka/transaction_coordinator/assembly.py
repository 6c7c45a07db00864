"""Builds the transaction coordinator."""

from typing import NamedTuple

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.coordinator.damage import SKIP_KEY, DamagePolicy
from twisted_kafka.coordinator.interfaces import IBrokerClient
from twisted_kafka.coordinator.replica_log import ReplicaReader, ReplicaWriter
from twisted_kafka.coordinator.runtime import CoordinatorRuntime, RuntimeSettings, follow_leadership
from twisted_kafka.metadata.features import TRANSACTION_VERSION, FeatureCache
from twisted_kafka.metadata.store import IMetadataStore
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.topic_partition import TRANSACTION_TOPIC
from twisted_kafka.replication.replica_manager import ReplicaManager
from twisted_kafka.timing.scheduler import IScheduler
from twisted_kafka.timing.timer import Timer
from twisted_kafka.transaction_coordinator.environment import OnEnd, TransactionConfig, TransactionEnvironment
from twisted_kafka.transaction_coordinator.markers.marker_channels import MarkerChannels
from twisted_kafka.transaction_coordinator.markers.marker_writer import EndInGroups, MarkerAppender, MarkerWriter
from twisted_kafka.transaction_coordinator.producer_id_manager import ProducerIdManager
from twisted_kafka.transaction_coordinator.transaction_coordinator import TransactionCoordinator
from twisted_kafka.transaction_coordinator.transaction_metrics import TransactionMetrics
from twisted_kafka.transaction_coordinator.transaction_shard import TransactionShardFactory


class Ends(NamedTuple):
    """The participants in the end of a transaction."""

    in_groups: EndInGroups
    """GroupCoordinator.end_transaction."""
    on_end: OnEnd
    """Writes a line of the access log."""
    brokers: IBrokerClient
    """Sends markers to other brokers."""


def make_transaction_coordinator(
    config: KafkaConfig,
    replica_manager: ReplicaManager,
    store: IMetadataStore,
    features: FeatureCache,
    ends: Ends,
    scheduler: IScheduler,
    timer: Timer,
    registry: MetricsRegistry,
) -> TransactionCoordinator:
    """Build the coordinator and subscribe it to leadership changes of ``__transaction_state``; the caller starts and stops it.

    ``store`` has the producer ids, ``features`` the level of ``transaction.version``. ``scheduler`` loads partitions, aborts
    transactions and removes ids. ``timer`` is started and stopped by the caller.
    """
    clock = registry.clock
    metadata = replica_manager.metadata
    values = TransactionConfig.from_config(config)
    metrics = TransactionMetrics(registry)

    def partition_count() -> int:
        return metadata.partition_count(TRANSACTION_TOPIC) or values.num_partitions

    # The coordinator is started when the metadata is known, and made before that.
    appender = MarkerAppender(replica_manager, ends.in_groups, clock, values.request_timeout_ms)
    channels = MarkerChannels(ends.brokers, metadata, config.inter_broker_listener_name, clock)
    metrics.expose_destinations(lambda: channels.leaderless)
    markers = MarkerWriter(appender, channels, metadata, lambda: transactions.is_started)
    environment = TransactionEnvironment(clock, values, markers, lambda: features.level(TRANSACTION_VERSION), ends.on_end)
    damage = DamagePolicy(config.boolean(SKIP_KEY))
    runtime = CoordinatorRuntime(
        RuntimeSettings(
            TRANSACTION_TOPIC, partition_count, values.load_buffer_size, on_loaded=metrics.partition_loaded, damage=damage
        ),
        TransactionShardFactory(environment),
        ReplicaWriter(replica_manager, values.request_timeout_ms),
        ReplicaReader(replica_manager, damage),
        scheduler,
        timer,
        clock,
    )
    producer_ids = ProducerIdManager(config.broker_id, store)
    transactions = TransactionCoordinator(runtime, producer_ids, scheduler, clock, values, metrics, appender)
    follow_leadership(replica_manager, runtime)
    return transactions
