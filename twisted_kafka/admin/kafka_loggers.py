"""Loggers by the names of Apache Kafka's, which ``kafka-configs.sh --entity-type broker-loggers`` and runbooks use.

Each stands for the package or module here that does the work of Kafka's class or package, and shares its level. One package of
Kafka's may stand for several packages here.
"""

from collections.abc import Mapping
from typing import Final

_SERVER: Final[Mapping[str, str]] = {
    "AbstractFetcherManager": "replication.fetching",
    "AbstractFetcherThread": "replication.fetching",
    "AlterPartitionManager": "replication.alter_partition_manager",
    "AutoTopicCreationManager": "admin.topics",
    "BrokerMetadataCheckpoint": "broker.registration",
    "BrokerToControllerChannelManager": "broker.peers",
    "ClientQuotaManager": "quota",
    "ClientRequestQuotaManager": "quota",
    "ConfigHandler": "broker.settings",
    "DefaultAlterPartitionManager": "replication.alter_partition_manager",
    "DelayedOperationPurgatory": "waiting.purgatory",
    "DynamicBrokerConfig": "config.dynamic.dynamic_broker_config",
    "DynamicConfigManager": "metadata.config_repository",
    "FetchManager": "server.fetch_session",
    "FetchSession": "server.fetch_session",
    "KafkaApis": "server",
    "KafkaConfig": "config",
    "KafkaRequestHandler": "server.request_handler",
    "KafkaRequestHandlerPool": "server.request_handler",
    "KafkaServer": "broker",
    "LogDirFailureChannel": "log.directories",
    "ReplicaAlterLogDirsManager": "replication.log_dirs",
    "ReplicaAlterLogDirsThread": "replication.log_dirs",
    "ReplicaFetcherManager": "replication.fetching",
    "ReplicaFetcherThread": "replication.fetching",
    "ReplicaManager": "replication",
    "ZkAdminManager": "admin",
    "ZkConfigManager": "metadata.config_repository",
}

_OTHERS: Final[Mapping[str, str | tuple[str, ...]]] = {
    "kafka.admin": "admin",
    "kafka.cluster": "replication.partition",
    "kafka.cluster.Partition": "replication.partition",
    "kafka.cluster.Replica": "replication.partition",
    "kafka.controller": "controller",
    "kafka.controller.ControllerChannelManager": "controller.channels",
    "kafka.controller.KafkaController": "controller",
    "kafka.controller.RequestSendThread": "controller.channels",
    "kafka.controller.TopicDeletionManager": "controller.operations",
    "kafka.controller.ZkPartitionStateMachine": "controller.machines",
    "kafka.controller.ZkReplicaStateMachine": "controller.machines",
    "kafka.coordinator": ("coordinator", "group_coordinator", "transaction_coordinator"),
    "kafka.coordinator.group": "group_coordinator",
    "kafka.coordinator.group.GroupCoordinator": "group_coordinator",
    "kafka.coordinator.group.GroupMetadataManager": "group_coordinator",
    "kafka.coordinator.transaction": "transaction_coordinator",
    "kafka.coordinator.transaction.TransactionCoordinator": "transaction_coordinator",
    "kafka.coordinator.transaction.TransactionMarkerChannelManager": "transaction_coordinator",
    "kafka.coordinator.transaction.TransactionStateManager": "transaction_coordinator",
    "kafka.log": "log",
    "kafka.log.LogCleaner": "log.cleaner",
    "kafka.log.LogCleanerManager": "log.cleaner",
    "kafka.log.LogLoader": "log.loading",
    "kafka.log.LogManager": "log",
    "kafka.log.UnifiedLog": "log",
    "kafka.network": "network",
    "kafka.network.Acceptor": "network.accepting",
    "kafka.network.ConnectionQuotas": "network.accepting",
    "kafka.network.DataPlaneAcceptor": "network.accepting",
    "kafka.network.Processor": "network.loop",
    "kafka.network.RequestChannel": "network.requests",
    "kafka.network.RequestChannel$": "network.requests",
    "kafka.network.SocketServer": "network",
    "kafka.request.logger": "access_log",
    "kafka.security.authorizer": "security.authorizer",
    "kafka.security.authorizer.AclAuthorizer": "security.authorizer",
    "kafka.server": "server",
    "kafka.utils.KafkaScheduler": "timing",
    "kafka.zk": "metadata",
    "kafka.zk.KafkaZkClient": "metadata",
    "kafka.zookeeper": "metadata.zookeeper",
    "kafka.zookeeper.ZooKeeperClient": "metadata.zookeeper",
    "org.apache.kafka.clients.NetworkClient": "client",
    "org.apache.kafka.common.network": "network.connection",
    "org.apache.kafka.common.network.Selector": "network.connection",
    "org.apache.kafka.common.security": "security",
    "org.apache.kafka.common.security.ssl": "tls",
    "org.apache.kafka.coordinator.group": "group_coordinator",
    "org.apache.kafka.storage.internals.log": "log",
    "org.apache.zookeeper": "metadata.zookeeper",
    "state.change.logger": "replication.state_changes",
}

PACKAGES: Final = ("kafka", "org.apache.kafka")
"""Kafka's names of everything."""

KAFKAS_LOGGERS: Final[Mapping[str, tuple[str, ...]]] = {
    **{f"kafka.server.{name}": (f"twisted_kafka.{module}",) for name, module in _SERVER.items()},
    **{
        name: tuple(f"twisted_kafka.{module}" for module in ([modules] if isinstance(modules, str) else modules))
        for name, modules in _OTHERS.items()
    },
    **dict.fromkeys(PACKAGES, ("twisted_kafka",)),
}
"""The loggers here for each of Kafka's."""
