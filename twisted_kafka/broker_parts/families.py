"""Every family of APIs that the broker serves, listed once: dispatch, ApiVersions and the README's table come from here."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.controller.dynamic_config import ConfigRepository
from twisted_kafka.controller.kafka_controller import KafkaController
from twisted_kafka.coordinator.group.coordinator import GroupCoordinator
from twisted_kafka.coordinator.group.legacy_offsets import LegacyOffsets
from twisted_kafka.coordinator.transaction.producer_ids import ProducerIdManager
from twisted_kafka.log.log_manager import LogManager
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.metadata.store import IMetadataStore
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.replication.fetch_session import FetchSessionCache
from twisted_kafka.replication.replica_manager import ReplicaManager
from twisted_kafka.server.apis.api_versions import VersionsApis
from twisted_kafka.server.apis.fetch import FetchApis
from twisted_kafka.server.apis.group_offsets import GroupOffsetApis
from twisted_kafka.server.apis.groups import GroupApis
from twisted_kafka.server.apis.offsets import OffsetApis
from twisted_kafka.server.apis.produce import ProduceApis
from twisted_kafka.server.apis.producer_ids import ProducerIdApis
from twisted_kafka.timing.clock import IClock


class Parts(NamedTuple):
    """What the families are made of."""

    config: KafkaConfig
    clock: IClock
    metrics: MetricsRegistry
    store: IMetadataStore
    configs: ConfigRepository
    metadata: MetadataCache
    logs: LogManager
    replicas: ReplicaManager
    groups: GroupCoordinator
    controller: KafkaController
    supported: Callable[[], Mapping[int, tuple[int, int]]]


def make_families(parts: Parts) -> list[object]:
    """Return an object of each family."""
    config, metadata, replicas, groups = parts.config, parts.metadata, parts.replicas, parts.groups
    sessions = FetchSessionCache(config.int("max.incremental.fetch.session.cache.slots"), parts.clock, parts.metrics)
    producer_ids = ProducerIdManager(config.broker_id, parts.store)
    return [
        VersionsApis(parts.supported),
        ProduceApis(replicas),
        FetchApis(replicas, sessions, config),
        OffsetApis(replicas),
        GroupApis(groups),
        GroupOffsetApis(groups, metadata, parts.clock, LegacyOffsets(parts.store)),
        ProducerIdApis(producer_ids),
    ]
