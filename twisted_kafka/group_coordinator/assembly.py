"""Builds the group coordinator."""

from typing import NamedTuple

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.coordinator.damage import SKIP_KEY, DamagePolicy
from twisted_kafka.coordinator.interfaces import IBrokerClient
from twisted_kafka.coordinator.replica_log import ReplicaReader, ReplicaWriter
from twisted_kafka.coordinator.runtime import CoordinatorRuntime, RuntimeSettings, follow_leadership
from twisted_kafka.group_coordinator.assignors.loading import (
    AssignorError,
    load_assignors,
    load_share_assignor,
    load_task_assignors,
)
from twisted_kafka.group_coordinator.consumer_lag import ConsumerLag
from twisted_kafka.group_coordinator.group_coordinator import GroupCoordinator
from twisted_kafka.group_coordinator.group_shard import GroupShardFactory
from twisted_kafka.group_coordinator.shared.end_offsets import EndOffsets
from twisted_kafka.group_coordinator.shared.environment import GroupEnvironment
from twisted_kafka.group_coordinator.shared.group_config_manager import GroupConfigManager
from twisted_kafka.group_coordinator.shared.group_coordinator_config import GroupCoordinatorConfig
from twisted_kafka.group_coordinator.shared.group_coordinator_metrics import GroupCoordinatorMetrics
from twisted_kafka.group_coordinator.shared.topology_descriptions import make_topology_descriptions
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.protocol.topic_partition import GROUP_METADATA_TOPIC, TopicPartition
from twisted_kafka.replication.replica_manager import ReplicaManager
from twisted_kafka.share.persister import IPersister
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock
from twisted_kafka.timing.scheduler import IScheduler
from twisted_kafka.timing.timer import Timer


class ShareParts(NamedTuple):
    """The parts that only share groups need."""

    persister: IPersister
    brokers: IBrokerClient
    """Asks other brokers for end offsets."""


def _new_id() -> str:
    return str(machine.new_uuid())


def make_group_coordinator(
    config: KafkaConfig,
    replica_manager: ReplicaManager,
    metadata: MetadataCache,
    scheduler: IScheduler,
    timer: Timer,
    clock: IClock,
    metrics: MetricsRegistry,
    share: ShareParts,
) -> GroupCoordinator:
    """Build the coordinator and subscribe it to leadership changes of ``__consumer_offsets``; the caller starts and stops it.

    ``scheduler`` loads partitions and expires offsets. ``timer`` is started and stopped by the caller. Raises ConfigError.
    """
    ends = EndOffsets(replica_manager, share.brokers, config.inter_broker_listener_name)
    environment = _make_environment(config, metadata, clock, metrics, share.persister, ends)
    configured_count = config.int("offsets.topic.num.partitions")

    def partition_count() -> int:
        return metadata.partition_count(GROUP_METADATA_TOPIC) or configured_count

    settings = RuntimeSettings(
        GROUP_METADATA_TOPIC,
        partition_count,
        environment.config.offsets_load_buffer_size,
        Compression(environment.config.offsets_topic_compression_codec),
        environment.metrics.partition_loaded,
        DamagePolicy(config.boolean(SKIP_KEY)),
        config.int("group.coordinator.append.linger.ms"),
    )
    writer = ReplicaWriter(
        replica_manager, environment.config.offsets_commit_timeout_ms, environment.config.offsets_commit_required_acks
    )
    runtime = CoordinatorRuntime(
        settings, GroupShardFactory(environment), writer, ReplicaReader(replica_manager, settings.damage), scheduler, timer, clock
    )
    groups = GroupCoordinator(runtime, scheduler, environment)
    follow_leadership(replica_manager, runtime)

    def high_watermark(topic_partition: TopicPartition) -> int | None:
        partition = replica_manager.get_partition(topic_partition)
        return None if partition is None else partition.log.high_watermark

    ConsumerLag(lambda: [shard.store for shard in runtime.peek()], high_watermark).register(metrics)
    return groups


def _make_environment(
    config: KafkaConfig,
    metadata: MetadataCache,
    clock: IClock,
    metrics: MetricsRegistry,
    persister: IPersister,
    end_offsets: EndOffsets,
) -> GroupEnvironment:
    group_config = GroupCoordinatorConfig.from_config(config)
    try:
        assignors = load_assignors(config.list("group.consumer.assignors"))
        share_assignor = load_share_assignor(config.list("group.share.assignors"))
        task_assignors = load_task_assignors(config.list("group.streams.assignors"))
    except AssignorError as error:
        raise ConfigError(str(error)) from error
    coordinator_metrics = GroupCoordinatorMetrics(metrics, clock)
    return GroupEnvironment(
        clock,
        group_config,
        GroupConfigManager(config),
        metadata,
        assignors,
        share_assignor,
        task_assignors,
        coordinator_metrics,
        _new_id,
        persister,
        end_offsets.find,
        make_topology_descriptions(config, clock, coordinator_metrics),
    )
