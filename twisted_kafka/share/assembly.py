"""Builds the manager of share partitions."""

from collections.abc import Callable
from typing import NamedTuple

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.group_configs import ShareGroupConfigs
from twisted_kafka.coordinator.interfaces import IBrokerClient
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.replication.replica_manager import ReplicaManager
from twisted_kafka.share.dead_letter_queue import DeadLetterQueue, DeadLetterSettings, DeadLetterTopics
from twisted_kafka.share.other_threads import OtherThreads
from twisted_kafka.share.persister import IPersister
from twisted_kafka.share.share_metrics import ShareGroupMetrics
from twisted_kafka.share.share_partition import SharePartitionEnvironment
from twisted_kafka.share.share_partition_manager import OnLost, SharePartitionManager
from twisted_kafka.share.share_sessions import ShareSessionCache


class Letters(NamedTuple):
    """What dead-letter queues need; ``is_supported`` returns whether ``share.version`` is 2 or above."""

    is_supported: Callable[[], bool]
    topics: DeadLetterTopics
    client: IBrokerClient


def make_share_partition_manager(
    config: KafkaConfig,
    replicas: ReplicaManager,
    persister: IPersister,
    configs_of: Callable[[str], ShareGroupConfigs],
    threads: OtherThreads,
    registry: MetricsRegistry,
    letters: Letters,
    lost: OnLost,
) -> SharePartitionManager:
    """Build the manager.

    ``configs_of`` returns a group's configs. ``lost`` is called for records that members lose without a request.
    """
    clock = registry.clock
    settings = DeadLetterSettings(
        lambda: config.string("errors.deadletterqueue.topic.name.prefix"),
        lambda: config.boolean("errors.deadletterqueue.auto.create.topics.enable"),
        config.inter_broker_listener_name,
        config.int("request.timeout.ms"),
    )
    queue = DeadLetterQueue(replicas, configs_of, settings, letters.topics, letters.client, clock, threads)

    def has_dead_letters(group_id: str) -> bool:
        return letters.is_supported() and bool(configs_of(group_id).dead_letter_topic)

    sessions = ShareSessionCache(config.int("group.share.max.share.sessions"), registry)
    environment = SharePartitionEnvironment(clock, threads.timer, persister, configs_of, has_dead_letters)
    metrics = ShareGroupMetrics(registry)
    return SharePartitionManager(replicas, environment, sessions, metrics, threads.later, queue.undeliverable, lost)
