"""KafkaServer: makes, starts and stops the parts of a broker, in the order of Kafka's ``KafkaServer.startup`` and ``shutdown``."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeVar

from twisted.logger import Logger
from zope.interface import classImplements

from twisted_kafka.access_log.access_log import AccessLog, make_access_log
from twisted_kafka.broker.api_families import ApiDependencies, make_families
from twisted_kafka.broker.cluster.cluster_parts import ClusterParts
from twisted_kafka.broker.cluster.inter_broker_client import InterBrokerClient
from twisted_kafka.broker.cluster.replication_parts import BrokerParts, Replication
from twisted_kafka.broker.main_reactor import MainReactor
from twisted_kafka.broker.metadata.identity import establish
from twisted_kafka.broker.metadata.metadata_store import open_metadata_store
from twisted_kafka.broker.metadata.registrar import BrokerRegistrar
from twisted_kafka.broker.personas import Persona
from twisted_kafka.broker.security_protocols import channel_builders, make_sasl_resources
from twisted_kafka.broker.settings.administration import Administration
from twisted_kafka.broker.settings.config_handlers import (
    BrokerConfigHandler,
    follow_group_configs,
    follow_replication_quotas,
    follow_topic_configs,
)
from twisted_kafka.broker.settings.reconfigurables import (
    ConnectionLimits,
    Listeners,
    ListenerSecurity,
    LogCleaning,
    LogDefaults,
    NetworkThreads,
    ThreadPool,
)
from twisted_kafka.broker.stray_logs import warn_of_stray_logs
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.dynamic_broker_config import DynamicBrokerConfig, IReconfigurable
from twisted_kafka.config.endpoints import EndPoint
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.config.keys import BROKER_KEYS
from twisted_kafka.controller.channels.interfaces import IBrokerChannels, IControlPlane
from twisted_kafka.controller.kafka_controller import KafkaController
from twisted_kafka.coordinator.group.assembly import make_group_coordinator
from twisted_kafka.coordinator.group.group_coordinator import GroupCoordinator
from twisted_kafka.coordinator.transaction.add_partitions_manager import AddPartitionsToTxnManager
from twisted_kafka.coordinator.transaction.assembly import Ends, make_transaction_coordinator
from twisted_kafka.coordinator.transaction.environment import OnEnd, ignore_end
from twisted_kafka.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from twisted_kafka.interpreter import RETURN_MEMORY_MS
from twisted_kafka.log.directories.loading_progress import LoadingInterruptedError
from twisted_kafka.log.directories.log_dir_failure_handler import LogDirFailureHandler
from twisted_kafka.log.directories.log_directory import LogDirectory, LogDirectoryError
from twisted_kafka.log.directories.meta_properties import MetaPropertiesError
from twisted_kafka.log.log_manager import LogManager
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.metadata.config_repository import ConfigRepository
from twisted_kafka.metadata.features import FeatureCache
from twisted_kafka.metadata.registration import broker_node, notify_log_dir_event, prepare_store
from twisted_kafka.metadata.store import IMetadataStore, StoreError, latest_children_of
from twisted_kafka.metadata.znodes import BrokerNode
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.accepting.acceptor import BindError
from twisted_kafka.network.loop.reactors import make_reactor
from twisted_kafka.network.request_plane import DATA_PLANE, RequestPlane
from twisted_kafka.network.requests.request_channel import RequestChannel
from twisted_kafka.network.requests.request_metrics import RequestMetrics
from twisted_kafka.network.requests.request_observer import IRequestObserver
from twisted_kafka.network.socket_server import SocketServer
from twisted_kafka.quota.ip_rates import IpConnectionRates
from twisted_kafka.quota.quota_managers import QuotaManagers
from twisted_kafka.replication.control_plane import ControlPlane
from twisted_kafka.replication.operations.purgatories import Purgatories
from twisted_kafka.replication.replica_manager import ReplicaManager
from twisted_kafka.security.authorizer.audit_log import NAMESPACE as AUTHORIZER_LOGGER
from twisted_kafka.security.authorizer.audit_log import AuditLog
from twisted_kafka.security.authorizer.loading import make_authorizer
from twisted_kafka.security.delegation_tokens import DelegationTokenManager, TokenSettings
from twisted_kafka.server.apis.transactions.transaction_notes import end_note, topic_notes
from twisted_kafka.server.diagnoses import AdvertisedAddresses, Diagnoses, advertised_to_others
from twisted_kafka.server.dispatch import ApiRegistry
from twisted_kafka.server.interception import IRequestHandling, IRequestInterceptor
from twisted_kafka.server.kafka_apis import KafkaApis
from twisted_kafka.server.request_handler import KafkaRequestHandlerPool
from twisted_kafka.server.request_throttler import RequestThrottler
from twisted_kafka.timing.clock import IClock
from twisted_kafka.timing.scheduler import KafkaScheduler
from twisted_kafka.timing.timer import Timer

if TYPE_CHECKING:
    from twisted_kafka.metrics.listener import MetricsListener

_METRICS_TICK_MS: Final = 5_000
_RETRY_LOGS_MS: Final = 5_000
"""How long until logs that could not be made for want of file descriptors are tried again."""
_CONTROLLER_TIMEOUT_S: Final = 60.0
_CERTIFICATES_MS: Final = 10_000
"""How often the files of certificates are looked at."""

# Errors that an operator can put right become one line.
_EXPECTED: Final = (BindError, ConfigError, LogDirectoryError, MetaPropertiesError, StoreError, OSError)

_log = Logger()
_Part = TypeVar("_Part")

classImplements(ControlPlane, IControlPlane)  # declared here: replication may not import the controller's interface


class StartError(Exception):
    """The broker cannot start, for a reason that the operator can put right. The text is one line."""


class StartInterruptedError(StartError):
    """The start was interrupted."""


@dataclass(slots=True)
class _Running:
    """What runs, in the order of start; None until then. What is set here is what `KafkaServer.stop` stops."""

    scheduler: KafkaScheduler | None = None
    timer: Timer | None = None
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
    marker_client: InterBrokerClient | None = None
    transactions: TransactionCoordinator | None = None
    add_partitions_client: InterBrokerClient | None = None
    cluster: ClusterParts | None = None
    registrar: BrokerRegistrar | None = None
    replication: Replication | None = None
    controller: KafkaController | None = None
    administration: Administration | None = None
    handlers: KafkaRequestHandlerPool | None = None
    control_plane_handlers: KafkaRequestHandlerPool | None = None
    metrics_listener: "MetricsListener | None" = None
    quotas: QuotaManagers | None = None


class KafkaServer:
    """All parts of one broker. It starts once."""

    def __init__(
        self,
        config: KafkaConfig,
        clock: IClock,
        on_fatal: Callable[[str], object],
        persona: Persona | None = None,
        interceptor: IRequestInterceptor | None = None,
    ) -> None:
        """``on_fatal`` is called, on one of the broker's threads, with one line that says why it cannot go on.

        Another thread has to stop it then. ``persona``: whose APIs it serves; None: its own.
        """
        self._persona = persona
        self._interceptor = interceptor
        self.config = config
        self.cluster_id = ""
        self.metrics = MetricsRegistry(clock)
        self.listeners: list[EndPoint] = []
        self.supported_apis: dict[int, tuple[int, int]] = {}
        self.configs: ConfigRepository | None = None
        self.dynamic: DynamicBrokerConfig | None = None
        self.metadata: MetadataCache | None = None
        self.logs: LogManager | None = None
        self._request_metrics = RequestMetrics(self.metrics)
        self.diagnoses = Diagnoses(clock, None if interceptor is None else interceptor.own_client_id)
        self._clock = clock
        self._on_fatal = on_fatal
        self._metadata_path: Path | None = None
        self._interrupted = False
        self._running = _Running()
        self._main: MainReactor | None = None

    # Start and stop

    def start(self, main: MainReactor) -> None:
        """Start everything and serve; raise StartError, after which nothing runs."""
        self._main = main
        began_ns = self._clock.monotonic_ns()
        try:
            for line in self.config.warnings:
                _log.warn("{line}", line=line)
            self._startup(main, self._running)
        except _EXPECTED as error:
            self.stop()
            raise StartError(" ".join(str(error).split())) from error
        except BaseException:
            self.stop()
            raise
        _log.info(
            "Kafka broker {id} listens on {listeners}, data in {directories}, started in {ms} ms",
            id=self.config.broker_id,
            listeners=", ".join(end_point.text for end_point in self.listeners),
            directories=", ".join(self.config.log_dirs),
            ms=(self._clock.monotonic_ns() - began_ns) // 1_000_000,
        )

    def _startup(self, main: MainReactor, running: _Running) -> None:
        """Start the parts. Each is set in ``running`` before it starts: a start that fails stops what it began."""
        config, clock, metrics = self.config, self._clock, self.metrics
        scheduler, timer = self._start_timing(running)
        logs, store, features, configs, broker_configs = self._start_storage(running, scheduler)
        metadata = self.metadata = MetadataCache(config.broker_id, self.cluster_id)
        quotas = self._make_quotas(running, metadata, timer)
        running.cluster = cluster = ClusterParts(config, metadata, scheduler, clock, metrics)
        access_log = self._start_access_log(running)
        tokens = self._start_tokens(running, store, scheduler)
        data_plane = self._make_data_plane()
        sockets = self._start_sockets(running, main, data_plane, scheduler)
        running.replicas = replicas = self._make_replica_manager(logs, metadata, scheduler, timer)
        running.groups = groups = make_group_coordinator(config, replicas, metadata, scheduler, timer, clock, metrics)
        groups.startup()
        ends = self._make_ends(running, groups, access_log)
        running.transactions = transactions = make_transaction_coordinator(
            config, replicas, store, features, ends, scheduler, timer, metrics
        )
        added_partitions = self._make_add_partitions_manager(running, transactions, metadata, data_plane)
        running.registrar = registrar = self._register(store, sockets)
        replication = self._make_replication(running, replicas, scheduler, cluster, registrar, store)
        control = self._make_control(replicas, groups, store, registrar)
        controller = self._start_controller(running, store, configs, cluster.make_channels(control), registrar)
        transactions.startup()
        warn_of_stray_logs(logs, store)
        administration, authorizer = self._start_administration(running, store, configs, broker_configs)

        dependencies = ApiDependencies(
            config=config,
            clock=clock,
            metrics=metrics,
            store=store,
            features=features,
            configs=configs,
            metadata=metadata,
            logs=logs,
            replicas=replicas,
            groups=groups,
            transactions=transactions,
            added_partitions=added_partitions,
            controller=controller,
            administration=administration,
            timer=timer,
            quotas=quotas,
            control=control,
            broker_epoch=lambda: registrar.epoch,
            supported=self._told_apis,
            tells_features=self._persona is None or self._persona.tells_features,
            access_log=access_log,
            authorizer=authorizer,
            tokens=tokens,
        )
        follow_group_configs(configs, groups.group_config_manager)
        throttler = self._start_quotas(quotas, configs, scheduler, sockets, replicas)
        handlers = self._start_request_handlers(running, self._make_registry(dependencies), data_plane, sockets, throttler)
        self._start_metrics_listener(running, main)
        sockets.enable_request_processing()
        main.start()
        broker_configs.follow(self._reconfigurables(main, registrar, replication, logs, controller, sockets, scheduler, handlers))

    def stop(self) -> None:
        """Stop what runs, in the order of Kafka's ``KafkaServer.shutdown``; harmless when nothing does.

        No new requests, an answer to those under way, everything on disk, and only then the connections close. An error of one
        part is logged and does not keep the others from stopping.
        """
        running, self._running = self._running, _Running()
        _stop(running.cluster, partial(_give_up_leaderships, running))
        _stop(running.sockets, self._close_ports)
        _stop(running.handlers, KafkaRequestHandlerPool.shutdown)
        _stop(running.control_plane_handlers, KafkaRequestHandlerPool.shutdown)
        _stop(running.add_partitions_client, InterBrokerClient.stop)
        _stop(running.scheduler, KafkaScheduler.shutdown)
        _stop(running.directory_failures, LogDirFailureHandler.shutdown)
        _stop(running.transactions, TransactionCoordinator.shutdown)
        _stop(running.marker_client, InterBrokerClient.stop)
        _stop(running.groups, GroupCoordinator.shutdown)
        _stop(running.replicas, ReplicaManager.shutdown)
        _stop(running.logs, LogManager.shutdown)
        _stop(running.controller, KafkaController.shutdown)
        _stop(running.cluster, ClusterParts.stop)
        _stop(running.administration, Administration.stop)
        _stop(running.tokens, DelegationTokenManager.shutdown)
        _stop(running.authorizer, lambda authorizer: authorizer.close())
        _stop(running.configs, ConfigRepository.shutdown)
        _stop(running.features, FeatureCache.shutdown)
        _stop(running.store, lambda store: store.close())
        _stop(running.sockets, SocketServer.give_up_unanswered)
        _stop(running.sockets, SocketServer.shutdown)
        _stop(running.metrics_listener, self._close_metrics_listener)
        _stop(running.timer, Timer.shutdown)
        _stop(running.quotas, QuotaManagers.close)
        _stop(running.access_log, AccessLog.stop)

    def _close_ports(self, sockets: SocketServer) -> None:
        assert self._main is not None
        self._main.call(sockets.stop_processing_requests)

    def _close_metrics_listener(self, listener: "MetricsListener") -> None:
        assert self._main is not None
        self._main.call(listener.stop)

    def interrupt_start(self) -> None:
        """End a start that loads logs at the next log; after that it has no effect."""
        self._interrupted = True
        if self.logs is not None:
            self.logs.progress.interrupt()

    # Storage

    def _start_timing(self, running: _Running) -> tuple[KafkaScheduler, Timer]:
        running.scheduler = scheduler = KafkaScheduler(self._clock, self.config.int("background.threads"))
        scheduler.startup()
        scheduler.schedule("metrics-tick", self.metrics.tick, _METRICS_TICK_MS, _METRICS_TICK_MS)
        refresh = partial(self._refresh_certificates, running)
        scheduler.schedule("refresh-certificates", refresh, _CERTIFICATES_MS, _CERTIFICATES_MS)
        if RETURN_MEMORY_MS:
            from twisted_kafka.foreign import return_freed_memory

            scheduler.schedule("return-freed-memory", return_freed_memory, RETURN_MEMORY_MS, RETURN_MEMORY_MS)
        running.timer = timer = Timer(self._clock)
        timer.start()
        return scheduler, timer

    def _start_storage(
        self, running: _Running, scheduler: KafkaScheduler
    ) -> tuple[LogManager, IMetadataStore, FeatureCache, ConfigRepository, BrokerConfigHandler]:
        """Lock the log directories, open the metadata store, establish the identity, read features and configs, load the logs."""
        running.logs = logs = self.logs = self._make_log_manager(running, scheduler)
        logs.acquire_directories()
        running.store = store = self._open_metadata_store(logs)
        prepare_store(store)
        self.cluster_id = establish(self.config, logs, store)
        running.features = features = FeatureCache(store)
        features.startup()
        running.configs = configs = self.configs = ConfigRepository(store, self._clock)
        configs.startup()
        broker_configs = BrokerConfigHandler(self.config, configs)
        self.dynamic = broker_configs.dynamic
        self._load_logs(logs, configs)
        follow_topic_configs(configs, logs)
        return logs, store, features, configs, broker_configs

    def _start_tokens(self, running: _Running, store: IMetadataStore, scheduler: KafkaScheduler) -> DelegationTokenManager | None:
        """Load the delegation tokens, if there is a secret for them; the active controller removes those that have expired."""
        settings = TokenSettings.from_config(self.config)
        if settings is None:
            return None
        running.tokens = tokens = DelegationTokenManager(store, self._clock, settings)
        tokens.startup()

        def remove_expired() -> None:
            if running.controller is not None and running.controller.is_active:
                tokens.remove_expired()

        scheduler.schedule("delete-expired-tokens", remove_expired, 0, settings.check_interval_ms)
        return tokens

    def _make_log_manager(self, running: _Running, scheduler: KafkaScheduler) -> LogManager:
        running.directory_failures = failures = LogDirFailureHandler(self._directory_failed)
        return LogManager(
            self.config,
            scheduler,
            self._clock,
            on_directory_failure=failures.directory_failed,
            metrics=self.metrics,
            terminal=_terminal(),
        )

    def _open_metadata_store(self, logs: LogManager) -> IMetadataStore:
        opened = open_metadata_store(self.config, logs.directories, self._clock)
        self._metadata_path = opened.directory
        return opened.store

    def _load_logs(self, logs: LogManager, configs: ConfigRepository) -> None:
        if self._interrupted:
            logs.progress.interrupt()
        try:
            logs.startup(configs.topic_config)
        except LoadingInterruptedError as error:
            raise StartInterruptedError(str(error)) from error
        except ValueError as error:  # files that cannot be understood
            raise StartError(" ".join(str(error).split())) from error

    def _directory_failed(self, failed: LogDirectory) -> None:
        """Take a directory's partitions offline, and have the controller elect other leaders (Kafka: handleLogDirFailure).

        A broker is of no use without any directory, or without the one that has its metadata.
        """
        replicas, store, logs = self._running.replicas, self._running.store, self.logs
        assert logs is not None
        if replicas is not None:
            replicas.directory_failed(failed.path)
        logs.forget_directory(failed)
        if not any(directory.is_online for directory in logs.directories):
            self._on_fatal("Shutdown broker because all log dirs have failed: " + ", ".join(self.config.log_dirs))
        elif failed.path == self._metadata_path:
            self._on_fatal(f"Shutdown broker because the log directory with its metadata has failed: {failed.path}")
        elif store is not None and replicas is not None:
            notify_log_dir_event(store, self.config.broker_id)

    # Network, replicas, registration

    def _start_access_log(self, running: _Running) -> AccessLog | None:
        running.access_log = access_log = make_access_log(self.config, self.config.broker_id, self._clock, self.metrics)
        if access_log is not None:
            access_log.start()
        return access_log

    def _make_data_plane(self) -> RequestPlane:
        channel = RequestChannel(self.config.int("queued.max.requests"), self._clock)
        return RequestPlane(DATA_PLANE, channel, self._clock, self.metrics)

    def _start_sockets(
        self, running: _Running, main: MainReactor, data_plane: RequestPlane, scheduler: KafkaScheduler
    ) -> SocketServer:
        """Bind the listeners; they do not accept yet."""
        configs = self.configs
        assert configs is not None, "storage has started"
        sasl_resources = cache(lambda: make_sasl_resources(self._clock, scheduler, configs, running.tokens))
        observers: list[IRequestObserver] = [self._request_metrics, self.diagnoses]
        if running.access_log is not None:
            observers.append(running.access_log)
        running.sockets = sockets = SocketServer(
            self.config,
            main.reactor,
            data_plane,
            self._clock,
            self.metrics,
            observers,
            make_reactor,
            builder_of=channel_builders(self.config, self.metrics, sasl_resources),
        )
        sockets.start()
        if addresses := advertised_to_others(self.config.listeners, self.config.advertised_listeners):
            sockets.add_observer(AdvertisedAddresses(self.diagnoses, addresses))
        return sockets

    def _make_replica_manager(
        self, logs: LogManager, metadata: MetadataCache, scheduler: KafkaScheduler, timer: Timer
    ) -> ReplicaManager:
        purgatories = Purgatories(self._clock, timer)
        replicas = ReplicaManager(self.config, logs, metadata, scheduler, self._clock, purgatories, self.metrics)

        def retry() -> None:
            """Have the controller send again what failed for want of file descriptors or of the metadata store."""
            if replicas.state.retry_starved():
                notify()

        def notify() -> None:
            store = self._running.store
            try:
                if store is not None:
                    notify_log_dir_event(store, self.config.broker_id)
            except StoreError as error:
                _log.warn("The controller is asked later for what was not made: {error}", error=error)
                scheduler.schedule_once("make-logs-again", notify, _RETRY_LOGS_MS)

        replicas.state.set_starved_listener(lambda: scheduler.schedule_once("make-logs-again", retry, _RETRY_LOGS_MS))
        return replicas

    def _make_replication(
        self,
        running: _Running,
        replicas: ReplicaManager,
        scheduler: KafkaScheduler,
        cluster: ClusterParts,
        registrar: BrokerRegistrar,
        store: IMetadataStore,
    ) -> Replication:
        parts = BrokerParts(scheduler, self._clock, self.metrics, cluster.controller_client, lambda: registrar.epoch, store)
        running.replication = replication = Replication(self.config, replicas, parts)
        return replication

    def _refresh_certificates(self, running: _Running) -> None:
        """Use certificates whose files have changed, and log which expire soon."""
        if running.sockets is not None:
            running.sockets.refresh_security(self.config)
        for client in (running.marker_client, running.add_partitions_client, running.cluster, running.replication):
            if client is not None:
                client.refresh()

    def _make_client(self, thread: str, purpose: str) -> InterBrokerClient:
        return InterBrokerClient(self.config, f"{thread}-{self.config.broker_id}", purpose, self._clock)

    def _make_ends(self, running: _Running, groups: GroupCoordinator, access_log: AccessLog | None) -> Ends:
        running.marker_client = client = self._make_client("TxnMarkerSenderThread", "txn-marker-sender")
        return Ends(groups.end_transaction, _on_end(access_log), client)

    def _make_add_partitions_manager(
        self, running: _Running, transactions: TransactionCoordinator, metadata: MetadataCache, data_plane: RequestPlane
    ) -> AddPartitionsToTxnManager:
        """Make what asks other brokers' transaction coordinators; handlers go on with the requests that wait for them."""
        running.add_partitions_client = client = self._make_client("AddPartitionsToTxnSenderThread", "AddPartitionsManager")
        listener_name = self.config.inter_broker_listener_name
        resume = data_plane.request_channel.send_callback
        return AddPartitionsToTxnManager(transactions, metadata, listener_name, client, self._clock, resume)

    def _make_broker_node(self, sockets: SocketServer) -> BrokerNode:
        """Return the broker's node in the metadata store as it is to be now."""
        self.listeners = sockets.bound_end_points()
        ports = {end_point.listener_name: end_point.port for end_point in self.listeners}
        advertised = [
            end_point if end_point.port else end_point._replace(port=ports[end_point.listener_name])
            for end_point in self.config.advertised_listeners
        ]
        return broker_node(advertised, rack=self.config.optional_string("broker.rack"), now_ms=self._clock.wall_ms())

    def _register(self, store: IMetadataStore, sockets: SocketServer) -> BrokerRegistrar:
        """Register the broker in the metadata store."""
        session_timeout_ms = self.config.int("zookeeper.session.timeout.ms")
        make_node = partial(self._make_broker_node, sockets)
        is_alone = self._metadata_path is not None  # the embedded store is this broker's
        registrar = BrokerRegistrar(store, self.config.broker_id, make_node, session_timeout_ms, is_alone=is_alone)
        registrar.start()
        return registrar

    def _start_administration(
        self, running: _Running, store: IMetadataStore, configs: ConfigRepository, broker_configs: BrokerConfigHandler
    ) -> tuple[Administration, Any]:
        """Start what administrators work with, and the authorizer, None without one."""
        running.administration = administration = Administration(
            self.config, configs, broker_configs.dynamic, self._clock, self.metrics
        )
        administration.start()
        audit = AuditLog()
        running.authorizer = authorizer = make_authorizer(self.config, store, self._clock, audit)
        administration.loggers.follow(AUTHORIZER_LOGGER, audit.set_level)
        return administration, authorizer

    def _make_control(
        self, replicas: ReplicaManager, groups: GroupCoordinator, store: IMetadataStore, registrar: BrokerRegistrar
    ) -> ControlPlane:
        """Return what the controller's requests act on."""
        control = ControlPlane(replicas, [groups.on_partitions_deleted], partial(latest_children_of, store, znodes.TOPICS))
        registrar.set_renewal_listener(control.forget_deleted)
        return control

    def _start_controller(
        self,
        running: _Running,
        store: IMetadataStore,
        configs: ConfigRepository,
        channels: IBrokerChannels,
        registrar: BrokerRegistrar,
    ) -> KafkaController:
        """Take part in the election of a controller, and again in each new session of the metadata store."""
        assert running.cluster is not None
        running.controller = controller = KafkaController(self.config, store, configs, channels, self._clock, metrics=self.metrics)
        running.cluster.follow(controller, configs)
        try:
            controller.startup().result(_CONTROLLER_TIMEOUT_S)
        except TimeoutError:
            raise StartError(f"The controller did not start within {_CONTROLLER_TIMEOUT_S:g} s") from None
        registrar.follow(controller, self._on_fatal)
        return controller

    # Requests

    def _make_quotas(self, running: _Running, metadata: MetadataCache, timer: Timer) -> QuotaManagers:
        running.quotas = quotas = QuotaManagers(self.config, self._clock, self.metrics, timer)
        metadata.add_listener(lambda _: quotas.cluster_changed(metadata.snapshot))
        return quotas

    def _start_quotas(
        self,
        quotas: QuotaManagers,
        configs: ConfigRepository,
        scheduler: KafkaScheduler,
        sockets: SocketServer,
        replicas: ReplicaManager,
    ) -> RequestThrottler:
        """Apply the quotas of clients, IP addresses and replicas, and follow their changes."""
        follow_replication_quotas(configs, self.config.broker_id, replicas)
        IpConnectionRates(configs, sockets.quotas, scheduler).start()
        throttler = RequestThrottler(quotas, self._clock)
        quotas.start(configs, scheduler, lambda: sockets.add_observer(throttler))
        return throttler

    def _make_registry(self, dependencies: ApiDependencies) -> ApiRegistry:
        families, persona = make_families(dependencies), self._persona
        return (
            ApiRegistry(families)
            if persona is None
            else ApiRegistry(families, persona.served, tells_supported=persona.tells_supported)
        )

    def _told_apis(self) -> Mapping[int, tuple[int, int]]:
        return self.supported_apis if self._persona is None else self._persona.told(self.supported_apis)

    def _start_request_handlers(
        self,
        running: _Running,
        registry: ApiRegistry,
        data_plane: RequestPlane,
        sockets: SocketServer,
        throttler: RequestThrottler,
    ) -> KafkaRequestHandlerPool:
        self.supported_apis = registry.supported
        self._request_metrics.register(self.supported_apis)

        def make_apis(channel: RequestChannel) -> KafkaApis:
            return KafkaApis(registry, channel, self._clock, throttler)

        def make_pool(plane: RequestPlane, threads: int) -> KafkaRequestHandlerPool:
            apis: IRequestHandling
            if self._interceptor is None:
                apis = make_apis(plane.request_channel)
            else:
                assert self.metadata is not None
                apis = self._interceptor.intercept(make_apis, plane.request_channel, self.metadata.topic_name)
            return KafkaRequestHandlerPool(plane, apis.handle, threads, self._clock, self.metrics, self._on_fatal, apis)

        running.handlers = handlers = make_pool(data_plane, self.config.int("num.io.threads"))
        handlers.start()
        if sockets.control_plane is not None:
            running.control_plane_handlers = make_pool(sockets.control_plane, 1)
            running.control_plane_handlers.start()
        return handlers

    def _start_metrics_listener(self, running: _Running, main: MainReactor) -> None:
        address = self.config.metrics_listener
        if address is None:
            return
        from twisted_kafka.metrics.listener import MetricsListener  # imports twisted.web: a quarter of a second that few need

        running.metrics_listener = listener = MetricsListener(main.reactor, *address, self.metrics)
        listener.start()
        _log.info("Metrics for Prometheus at {url}", url=listener.url)

    def _reconfigurables(
        self,
        main: MainReactor,
        registrar: BrokerRegistrar,
        replication: Replication,
        logs: LogManager,
        controller: KafkaController,
        sockets: SocketServer,
        scheduler: KafkaScheduler,
        handlers: KafkaRequestHandlerPool,
    ) -> list[IReconfigurable]:
        """Return what reacts to changes of the broker's configuration, in the order in which it is reconfigured."""
        return [
            ConnectionLimits(sockets),
            NetworkThreads(sockets, main),
            ListenerSecurity(sockets, BROKER_KEYS),
            Listeners(sockets, main, registrar.register),
            ThreadPool("background.threads", scheduler.resize),
            ThreadPool("num.io.threads", handlers.resize),
            ThreadPool("num.recovery.threads.per.data.dir"),
            ThreadPool("num.replica.fetchers", replication.resize),
            LogDefaults(self.config, logs, controller),
            *([] if logs.cleaner is None else [LogCleaning(logs.cleaner)]),
        ]


def _on_end(access_log: AccessLog | None) -> OnEnd:
    """Return what writes a line about a transaction that no request ends."""
    if access_log is None:
        return ignore_end
    return lambda end: access_log.transaction_ended(end_note(end), list(topic_notes(end)))


def _give_up_leaderships(running: _Running, cluster: ClusterParts) -> None:
    """Have other brokers lead what this one leads, if its start has come so far that it leads something."""
    if running.replicas is not None:
        running.replicas.state.leave()
    if running.controller is not None and running.registrar is not None and running.handlers is not None:
        cluster.give_up_leaderships(running.controller, running.registrar.epoch)


def _stop(part: _Part | None, stop: Callable[[_Part], object]) -> None:
    """Stop a part that runs; log what goes wrong."""
    if part is None:
        return
    try:
        stop(part)
    except Exception:  # noqa: BLE001 the other parts have to stop too
        _log.failure("{part} did not stop cleanly", part=type(part).__name__)


def _terminal() -> TextIO | None:
    """Return the terminal that the program was started from, for a progress bar; None without one."""
    stream = sys.__stderr__
    return stream if stream is not None and stream.isatty() else None
