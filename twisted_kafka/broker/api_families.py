"""Every family of APIs that the broker serves, once: dispatch, ApiVersions and docs/compatibility.md take them from here."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from twisted_kafka.access_log.access_log import AccessLog
from twisted_kafka.access_log.topic import AccessLogTopic
from twisted_kafka.admin.partitions import PartitionAdmin
from twisted_kafka.admin.scram_credentials import ScramCredentialAdmin
from twisted_kafka.admin.streams_topics import StreamsTopics
from twisted_kafka.admin.topic_orders import NewTopic
from twisted_kafka.admin.topics import TopicManager
from twisted_kafka.broker.settings.administration import Administration
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.controller.kafka_controller import KafkaController
from twisted_kafka.group_coordinator.group_coordinator import GroupCoordinator
from twisted_kafka.group_coordinator.offsets.legacy_offsets import LegacyOffsets
from twisted_kafka.group_coordinator.state.group import CONSUMER, STREAMS
from twisted_kafka.group_coordinator.state.group import SHARE as SHARE_GROUPS
from twisted_kafka.log.log_manager import LogManager
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.metadata.config_repository import ConfigRepository
from twisted_kafka.metadata.features import GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION, FeatureCache
from twisted_kafka.metadata.store import IMetadataStore
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.requests.request_context import ConnectionInfo
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.topic_partition import GROUP_METADATA_TOPIC, SHARE_TOPIC, TRANSACTION_TOPIC, TopicPartition
from twisted_kafka.quota.client_quotas import ClientQuotas
from twisted_kafka.quota.quota_managers import QuotaManagers
from twisted_kafka.replication.control_plane import ControlPlane
from twisted_kafka.replication.replica_manager import ReplicaManager
from twisted_kafka.security.delegation_tokens import DelegationTokenManager
from twisted_kafka.server.apis.administration.acls import AclApis
from twisted_kafka.server.apis.administration.client_quotas import ClientQuotaApis
from twisted_kafka.server.apis.administration.config_describer import ConfigDescriber
from twisted_kafka.server.apis.administration.delegation_tokens import DelegationTokenApis
from twisted_kafka.server.apis.administration.features import FeatureApis
from twisted_kafka.server.apis.administration.log_dirs import LogDirApis
from twisted_kafka.server.apis.administration.partitions import PartitionApis
from twisted_kafka.server.apis.administration.scram_credentials import ScramCredentialApis
from twisted_kafka.server.apis.administration.topics import TopicApis
from twisted_kafka.server.apis.brokers.api_versions import VersionsApis
from twisted_kafka.server.apis.brokers.control import ControlApis
from twisted_kafka.server.apis.brokers.envelope import EnvelopeApis
from twisted_kafka.server.apis.brokers.metadata import MetadataApis
from twisted_kafka.server.apis.brokers.producer_id_blocks import ProducerIdBlockApis
from twisted_kafka.server.apis.brokers.sasl import SaslApis
from twisted_kafka.server.apis.data.fetch import FetchApis
from twisted_kafka.server.apis.data.offsets import OffsetApis
from twisted_kafka.server.apis.data.produce import ProduceApis
from twisted_kafka.server.apis.groups.classic_groups import GroupApis
from twisted_kafka.server.apis.groups.consumer_groups import ConsumerGroupApis
from twisted_kafka.server.apis.groups.find_coordinator import GROUP, SHARE, TRANSACTION, CoordinatorTopic, FindCoordinatorApis
from twisted_kafka.server.apis.groups.group_offsets import GroupOffsetApis
from twisted_kafka.server.apis.groups.share_groups import ShareGroupApis
from twisted_kafka.server.apis.groups.share_offsets import ShareOffsetApis
from twisted_kafka.server.apis.groups.streams_groups import StreamsGroupApis, TopicCreation
from twisted_kafka.server.apis.share.share_fetches import ShareFetchApis
from twisted_kafka.server.apis.share.share_states import ShareStateApis
from twisted_kafka.server.apis.transactions.describe_producers import ProducerApis
from twisted_kafka.server.apis.transactions.describe_transactions import TransactionAdminApis
from twisted_kafka.server.apis.transactions.init_producer_id import ProducerIdApis
from twisted_kafka.server.apis.transactions.transaction_markers import TransactionMarkerApis
from twisted_kafka.server.apis.transactions.transactional_offsets import TransactionalOffsetApis
from twisted_kafka.server.apis.transactions.transactions import TransactionApis
from twisted_kafka.server.authorization import authorization_of
from twisted_kafka.server.fetch_session import FetchSessionCache
from twisted_kafka.server.inner_requests import InnerRequests
from twisted_kafka.share.share_partition_manager import SharePartitionManager
from twisted_kafka.share_coordinator.share_coordinator import ShareCoordinator
from twisted_kafka.timing.clock import IClock
from twisted_kafka.timing.scheduler import IScheduler
from twisted_kafka.timing.timer import Timer
from twisted_kafka.transaction_coordinator.add_partitions_manager import AddPartitionsToTxnManager
from twisted_kafka.transaction_coordinator.producer_id_manager import ProducerIdBlocks
from twisted_kafka.transaction_coordinator.transaction_coordinator import TransactionCoordinator
from twisted_kafka.transaction_coordinator.verification import TransactionVerification

SHARE_APIS: Final = frozenset(int(key) for key in ApiKey if "SHARE" in key.name)
"""The APIs that ApiVersions lists only if share groups are enabled."""

STREAMS_APIS: Final = frozenset(int(key) for key in ApiKey if key.name.startswith("STREAMS_"))
"""The APIs that ApiVersions lists only if streams groups are enabled."""


def _no_inner_requests(connection: ConnectionInfo) -> InnerRequests:
    raise AssertionError("the handlers have not started")


class ApiDependencies(NamedTuple):
    """The parts that the families of APIs use."""

    config: KafkaConfig
    clock: IClock
    metrics: MetricsRegistry
    store: IMetadataStore
    features: FeatureCache
    configs: ConfigRepository
    metadata: MetadataCache
    logs: LogManager
    replicas: ReplicaManager
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    shares: ShareCoordinator
    share_partitions: SharePartitionManager
    added_partitions: AddPartitionsToTxnManager
    controller: KafkaController
    administration: Administration
    topics: TopicManager
    timer: Timer
    scheduler: IScheduler
    quotas: QuotaManagers
    control: ControlPlane
    broker_epoch: Callable[[], int]
    supported: Callable[[], Mapping[int, tuple[int, int]]]
    tells_features: bool
    access_log: AccessLog | None = None
    authorizer: Any = None
    """Provides ``IAuthorizer``; None: everybody may do everything."""
    tokens: DelegationTokenManager | None = None
    """None: there is no secret for delegation tokens."""
    make_inner: Callable[[ConnectionInfo], InnerRequests] = _no_inner_requests
    """Returns a way into this broker for a client without a connection."""

    def serves_consumer_groups(self) -> bool:
        """Return whether the consumer group protocol is enabled, by the configuration or by the level of ``group.version``."""
        return self._serves(CONSUMER, GROUP_VERSION)

    def serves_share_groups(self) -> bool:
        """Return whether share groups are enabled, by the configuration or by the level of ``share.version``."""
        return self._serves(SHARE_GROUPS, SHARE_VERSION)

    def serves_streams_groups(self) -> bool:
        """Return whether streams groups are enabled, by the configuration or by the level of ``streams.version``."""
        return self._serves(STREAMS, STREAMS_VERSION)

    def disabled_apis(self) -> frozenset[int]:
        """Return the APIs that ApiVersions does not list, because no feature or configuration enables them."""
        shares = frozenset() if self.serves_share_groups() else SHARE_APIS
        return shares if self.serves_streams_groups() else shares | STREAMS_APIS

    def _serves(self, protocol: str, feature: str) -> bool:
        return self.features.level(feature) > 0 or protocol in self.config.list("group.coordinator.rebalance.protocols")


def make_families(dependencies: ApiDependencies) -> list[object]:
    """Return an object of each family."""
    config, metadata, clock = dependencies.config, dependencies.metadata, dependencies.clock
    quotas = dependencies.quotas
    replicas, groups, administration = dependencies.replicas, dependencies.groups, dependencies.administration
    authorization = authorization_of(dependencies.authorizer)
    sessions = FetchSessionCache(config.int("max.incremental.fetch.session.cache.slots"), clock, dependencies.metrics)
    topics = dependencies.topics
    if dependencies.access_log is not None and config.boolean("access.log.topic.enable"):
        append = partial(_append_to, replicas)
        create_topic = partial(_create_topic, topics)
        dependencies.access_log.publish_to(AccessLogTopic(config, metadata, clock, append, create_topic).publish)
    transactions = dependencies.transactions
    manager = dependencies.added_partitions
    verification = TransactionVerification(replicas, manager.verify_partitions, manager.add_partitions, dependencies.metrics)
    describer = ConfigDescriber(config, dependencies.configs)
    return [
        VersionsApis(dependencies.supported, dependencies.features, metadata, tells_features=dependencies.tells_features),
        SaslApis(),
        ScramCredentialApis(ScramCredentialAdmin(dependencies.configs), lambda: dependencies.controller.is_active, authorization),
        MetadataApis(metadata, config, topics, quotas.controller_mutation, authorization),
        TopicApis(topics, metadata, describer, quotas.controller_mutation, authorization),
        PartitionApis(PartitionAdmin(metadata, dependencies.controller, topics.waits), metadata, authorization),
        *administration.families(metadata, describer, groups.group_config_manager, authorization),
        FeatureApis(dependencies.controller, dependencies.features, authorization),
        ProduceApis(replicas, verification, authorization),
        ProducerApis(replicas, metadata, authorization),
        FetchApis(replicas, sessions, config, clock, quotas, authorization),
        OffsetApis(replicas, authorization),
        LogDirApis(replicas.moves, authorization),
        GroupApis(groups, authorization),
        ConsumerGroupApis(groups, dependencies.serves_consumer_groups, authorization),
        ShareGroupApis(groups, dependencies.serves_share_groups, authorization),
        StreamsGroupApis(groups, _creation(dependencies), dependencies.serves_streams_groups, authorization),
        ShareOffsetApis(groups, metadata, dependencies.serves_share_groups, authorization),
        GroupOffsetApis(groups, metadata, clock, LegacyOffsets(dependencies.store), authorization),
        TransactionalOffsetApis(groups, verification, metadata, clock, authorization),
        TransactionApis(transactions, groups, metadata, authorization),
        TransactionAdminApis(transactions, authorization),
        TransactionMarkerApis(transactions.marker_appender, authorization),
        ShareStateApis(dependencies.shares, authorization),
        ShareFetchApis(
            dependencies.share_partitions,
            replicas,
            config,
            groups.group_config_manager.share,
            dependencies.serves_share_groups,
            quotas,
            authorization,
        ),
        FindCoordinatorApis(_coordinators(dependencies), metadata, topics, quotas.controller_mutation, authorization),
        ProducerIdApis(transactions, authorization),
        AclApis(dependencies.authorizer, authorization),
        DelegationTokenApis(dependencies.tokens, authorization),
        ClientQuotaApis(ClientQuotas(dependencies.configs), authorization),
        ProducerIdBlockApis(dependencies.controller, ProducerIdBlocks(dependencies.store).take, authorization),
        EnvelopeApis(dependencies.make_inner, lambda: config.inter_broker_listener_name, authorization),
        ControlApis(dependencies.control, dependencies.controller, config, dependencies.broker_epoch, authorization),
    ]


def _creation(dependencies: ApiDependencies) -> TopicCreation:
    return TopicCreation(
        StreamsTopics(dependencies.topics, dependencies.clock, dependencies.scheduler), dependencies.quotas.controller_mutation
    )


def _create_topic(topics: TopicManager, name: str, num_partitions: int) -> None:
    """Begin to create a topic, without waiting."""
    topics.create_topics([NewTopic(name, num_partitions)], timeout_ms=0)


def _append_to(replicas: ReplicaManager, partition: TopicPartition, batch: bytes) -> ErrorCode:
    """Append one batch with acks=1, which waits for nothing."""
    results = replicas.appender.append(0, 1, {partition: batch}, internal_topics_allowed=True)
    assert isinstance(results, dict)
    return ErrorCode(results[partition].error)


def _coordinators(dependencies: ApiDependencies) -> dict[int, CoordinatorTopic]:
    return {
        GROUP: CoordinatorTopic(GROUP_METADATA_TOPIC, dependencies.groups.partition_for),
        TRANSACTION: CoordinatorTopic(TRANSACTION_TOPIC, dependencies.transactions.partition_for),
        SHARE: CoordinatorTopic(SHARE_TOPIC, dependencies.shares.partition_for),
    }
