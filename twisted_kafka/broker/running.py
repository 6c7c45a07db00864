"""The running parts of a broker, for the code that starts and stops it."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

from twisted.logger import Logger

from twisted_kafka.access_log.access_log import AccessLog
from twisted_kafka.admin.topics import TopicManager
from twisted_kafka.broker.peers.cluster_parts import ClusterParts
from twisted_kafka.broker.peers.inter_broker_client import InterBrokerClient
from twisted_kafka.broker.peers.replication_parts import Replication
from twisted_kafka.broker.registration.registrar import BrokerRegistrar
from twisted_kafka.broker.settings.administration import Administration
from twisted_kafka.controller.kafka_controller import KafkaController
from twisted_kafka.group_coordinator.group_coordinator import GroupCoordinator
from twisted_kafka.log.directories.log_dir_failure_handler import LogDirFailureHandler
from twisted_kafka.log.log_manager import LogManager
from twisted_kafka.metadata.config_repository import ConfigRepository
from twisted_kafka.metadata.features import FeatureCache
from twisted_kafka.metadata.notifier import Notifier
from twisted_kafka.metadata.store import IMetadataStore
from twisted_kafka.network.socket_server import SocketServer
from twisted_kafka.quota.quota_managers import QuotaManagers
from twisted_kafka.replication.replica_manager import ReplicaManager
from twisted_kafka.security.delegation_tokens import DelegationTokenManager
from twisted_kafka.server.request_handler import KafkaRequestHandlerPool
from twisted_kafka.share.share_partition_manager import SharePartitionManager
from twisted_kafka.share_coordinator.share_coordinator import ShareCoordinator
from twisted_kafka.share_coordinator.state_persister import StatePersister
from twisted_kafka.timing.scheduler import KafkaScheduler
from twisted_kafka.timing.timer import Timer
from twisted_kafka.transaction_coordinator.transaction_coordinator import TransactionCoordinator

if TYPE_CHECKING:
    from twisted_kafka.console.web.console import WebConsole
    from twisted_kafka.metrics.listener import MetricsListener

_log = Logger()
_Part = TypeVar("_Part")


@dataclass(slots=True)
class Running:
    """The running parts in the order of their start; a part is None until it starts. ``KafkaServer.stop`` stops these parts."""

    scheduler: KafkaScheduler | None = None
    timer: Timer | None = None
    retries: Timer | None = None
    """Only wakes threads that retry: unlike ``timer``, it passes nothing to handlers, which may wait for a disk."""
    notifier: Notifier | None = None
    directory_failures: LogDirFailureHandler | None = None
    logs: LogManager | None = None
    store: IMetadataStore | None = None
    features: FeatureCache | None = None
    configs: ConfigRepository | None = None
    access_log: AccessLog | None = None
    authorizer: Any = None
    tokens: DelegationTokenManager | None = None
    sockets: SocketServer | None = None
    replicas: ReplicaManager | None = None
    groups: GroupCoordinator | None = None
    share_client: InterBrokerClient | None = None
    shares: ShareCoordinator | None = None
    persister: StatePersister | None = None
    share_partitions: SharePartitionManager | None = None
    marker_client: InterBrokerClient | None = None
    transactions: TransactionCoordinator | None = None
    add_partitions_client: InterBrokerClient | None = None
    cluster: ClusterParts | None = None
    registrar: BrokerRegistrar | None = None
    replication: Replication | None = None
    controller: KafkaController | None = None
    administration: Administration | None = None
    topics: TopicManager | None = None
    handlers: KafkaRequestHandlerPool | None = None
    control_plane_handlers: KafkaRequestHandlerPool | None = None
    metrics_listener: "MetricsListener | None" = None
    console: "WebConsole | None" = None
    console_client: InterBrokerClient | None = None
    """Asks other brokers for the console's users."""
    quotas: QuotaManagers | None = None

    def take(self) -> Self:
        """Return the running parts, to be stopped, and forget them."""
        taken = replace(self)
        for field in fields(self):
            setattr(self, field.name, None)
        return taken


def stop_part(part: _Part | None, stop: Callable[[_Part], object]) -> None:
    """Stop a running part; log its errors."""
    if part is None:
        return
    try:
        stop(part)
    except Exception:  # noqa: BLE001 the other parts have to stop too
        _log.failure("{part} did not stop cleanly", part=type(part).__name__)
