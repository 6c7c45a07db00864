"""KafkaServer: makes, starts and stops the parts of a broker, in the order of Kafka's ``KafkaServer.startup`` and ``shutdown``."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from twisted.logger import Logger

from twisted_kafka.access_log.access_log import AccessLog, make_access_log
from twisted_kafka.admin.placement import ReplicaPlacement
from twisted_kafka.admin.topic_waits import TopicWaits
from twisted_kafka.admin.topics import TopicManager
from twisted_kafka.broker.api_families import ApiDependencies
from twisted_kafka.broker.errors import StartError, StartInterruptedError
from twisted_kafka.broker.main_reactor import MainReactor
from twisted_kafka.broker.peers.cluster_parts import ClusterParts
from twisted_kafka.broker.peers.inter_broker_client import InterBrokerClient
from twisted_kafka.broker.peers.replication_parts import BrokerParts, Replication
from twisted_kafka.broker.registration.registrar import BrokerRegistrar
from twisted_kafka.broker.request_serving import Guise, InFlightRow, RequestServing
from twisted_kafka.broker.running import Running, stop_part
from twisted_kafka.broker.security_protocols import channel_builders, make_sasl_resources
from twisted_kafka.broker.settings.administration import Administration
from twisted_kafka.broker.settings.config_handlers import (
    BrokerConfigHandler,
    follow_group_configs,
    follow_replication_quotas,
)
from twisted_kafka.broker.settings.reconfigurables import (
    ConnectionLimits,
    CordonedDirectories,
    Listeners,
    ListenerSecurity,
    LogCleaning,
    LogDefaults,
    NetworkThreads,
    ThreadPool,
    concerns_listeners,
)
from twisted_kafka.broker.storage import Storage
from twisted_kafka.broker.stray_logs import warn_of_stray_logs
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.dynamic.dynamic_broker_config import DynamicBrokerConfig, IReconfigurable
from twisted_kafka.config.endpoints import EndPoint
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.config.keys import BROKER_KEYS
from twisted_kafka.controller.channels.network_channels import NetworkChannels
from twisted_kafka.controller.kafka_controller import KafkaController
from twisted_kafka.group_coordinator.assembly import ShareParts, make_group_coordinator
from twisted_kafka.group_coordinator.group_coordinator import GroupCoordinator
from twisted_kafka.log.directories.log_dir_failure_handler import LogDirFailureHandler
from twisted_kafka.log.directories.log_directory import LogDirectoryError
from twisted_kafka.log.directories.meta_properties import MetaPropertiesError
from twisted_kafka.log.log_manager import LogManager
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.metadata.config_repository import ConfigRepository
from twisted_kafka.metadata.features import SHARE_VERSION, FeatureCache
from twisted_kafka.metadata.notifier import Notifier
from twisted_kafka.metadata.registration import broker_node
from twisted_kafka.metadata.store import IMetadataStore, StoreError, latest_children_of
from twisted_kafka.metadata.znode_json import BadNodeError
from twisted_kafka.metadata.znodes import BrokerNode
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.accepting.acceptor import BindError
from twisted_kafka.network.loop.reactors import make_reactor
from twisted_kafka.network.request_plane import DATA_PLANE, RequestPlane
from twisted_kafka.network.requests.request_channel import RequestChannel
from twisted_kafka.network.socket_server import SocketServer
from twisted_kafka.protocol.topic_partition import SHARE_TOPIC
from twisted_kafka.quota.ip_rates import IpConnectionRates
from twisted_kafka.quota.quota_managers import QuotaManagers
from twisted_kafka.replication.control_plane import ControlPlane
from twisted_kafka.replication.replica_manager import ReplicaManager
from twisted_kafka.security.authorizer.audit_log import NAMESPACE as AUTHORIZER_LOGGER
from twisted_kafka.security.authorizer.audit_log import AuditLog
from twisted_kafka.security.authorizer.loading import make_authorizer
from twisted_kafka.security.delegation_tokens import DelegationTokenManager, TokenSettings
from twisted_kafka.server.apis.transactions.transaction_notes import end_note, topic_notes
from twisted_kafka.server.diagnoses import Diagnoses
from twisted_kafka.server.request_handler import KafkaRequestHandlerPool
from twisted_kafka.server.request_throttler import RequestThrottler
from twisted_kafka.share.assembly import Letters, make_share_partition_manager
from twisted_kafka.share.dead_letter_queue import DEAD_LETTERS_SINCE, ENABLE_KEY, DeadLetterTopics
from twisted_kafka.share.other_threads import OtherThreads
from twisted_kafka.share.share_partition_manager import OnLost, SharePartitionManager
from twisted_kafka.share_coordinator.assembly import make_share_coordinator
from twisted_kafka.share_coordinator.share_coordinator import ShareCoordinator
from twisted_kafka.share_coordinator.state_persister import StatePersister
from twisted_kafka.system import machine
from twisted_kafka.system.interpreter import RETURN_MEMORY_MS
from twisted_kafka.system.threads import UNCAUGHT_ERRORS
from twisted_kafka.timing.clock import IClock
from twisted_kafka.timing.scheduler import KafkaScheduler
from twisted_kafka.timing.timer import Timer
from twisted_kafka.transaction_coordinator.add_partitions_manager import AddPartitionsToTxnManager
from twisted_kafka.transaction_coordinator.assembly import Ends, make_transaction_coordinator
from twisted_kafka.transaction_coordinator.environment import OnEnd, ignore_end
from twisted_kafka.transaction_coordinator.transaction_coordinator import TransactionCoordinator

if TYPE_CHECKING:
    from twisted_kafka.console.cluster.in_process import LocalBroker
    from twisted_kafka.console.live.live import Live
    from twisted_kafka.console.web.console import WebConsole
    from twisted_kafka.metrics.listener import MetricsListener

_METRICS_TICK_MS: Final = 5_000
_PATIENCE_S: Final = 10.0
"""The interval at which a waiting start logs the reason."""
_CERTIFICATES_MS: Final = 10_000
"""How often the files of certificates are checked for changes."""

# Errors that an operator can put right become one line.
_EXPECTED: Final = (BadNodeError, BindError, ConfigError, LogDirectoryError, MetaPropertiesError, StoreError, OSError)

_log = Logger()


class KafkaServer:
    """All parts of one broker. It starts once."""

    def __init__(
        self,
        config: KafkaConfig,
        clock: IClock,
        on_fatal: Callable[[str], object],
        guise: Guise,
    ) -> None:
        """If the broker cannot continue, one of its threads calls ``on_fatal`` with the reason in one line.

        Another thread then has to stop the broker.
        """
        self.config = config
        self.cluster_id = ""
        self.metrics = MetricsRegistry(clock)
        self.listeners: list[EndPoint] = []
        self.configs: ConfigRepository | None = None
        self.dynamic: DynamicBrokerConfig | None = None
        self.metadata: MetadataCache | None = None
        self.logs: LogManager | None = None
        self._clock = clock
        self._on_fatal = on_fatal
        self._running = Running()
        self._storage = Storage(config, clock, self.metrics, self._running, on_fatal)
        self._serving = RequestServing(config, clock, self.metrics, on_fatal, guise)
        self._main: MainReactor | None = None

    @property
    def supported_apis(self) -> dict[int, tuple[int, int]]:
        """The versions of each API that are served."""
        return self._serving.supported_apis

    def in_flight(self, group_id: str) -> list[InFlightRow]:
        """Return a share group's records in flight (``Broker.in_flight``)."""
        shares = self._running.share_partitions
        return [
            (topic, partition, first, last, state.name, count, member_id)
            for (topic, partition), share in (() if shares is None else shares.share_partitions(group_id))
            for first, last, state, count, member_id in share.snapshot()[2]
        ]

    @property
    def groups(self) -> GroupCoordinator:
        """The coordinator of groups. Raises RuntimeError unless it runs."""
        if self._running.groups is None:
            raise RuntimeError("the broker does not run")
        return self._running.groups

    def local_broker(self) -> "LocalBroker":
        """Return what asks this broker in process, and through it the others, as any principal. The broker has started."""
        assert self.metadata is not None
        running = self._running
        if running.console_client is None:
            running.console_client = self._make_client("ConsoleSendThread", "console")
        return self._serving.local_broker(self.metadata, running.authorizer, running.console_client)

    def live(self) -> "Live":
        """Return what only this broker knows: requests, connections, threads. The broker has started."""
        return self._serving.live(self._running, self.in_flight)

    @property
    def console_url(self) -> str | None:
        """The URL of the console; None without one."""
        return None if self._running.console is None else self._running.console.url

    @property
    def diagnoses(self) -> Diagnoses:
        """The recent mistakes of clients, one line each."""
        return self._serving.diagnoses

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

    def _startup(self, main: MainReactor, running: Running) -> None:
        """Start the parts. Each is set in ``running`` before it starts: a failed start stops the parts it has started."""
        config, clock, metrics = self.config, self._clock, self.metrics
        scheduler, timer, retries, notifier = self._start_timing(running)
        logs, store, features, configs, broker_configs = self._start_storage(scheduler)
        metadata = self.metadata = MetadataCache(config.broker_id, self.cluster_id)
        quotas = self._make_quotas(running, metadata, timer)
        running.cluster = cluster = ClusterParts(config, metadata, scheduler, retries, clock, metrics)
        access_log = self._start_access_log(running)
        tokens = self._start_tokens(running, store, scheduler)
        data_plane = self._make_data_plane()
        sockets = self._start_sockets(running, main, data_plane, scheduler)
        running.replicas = replicas = self._storage.make_replica_manager(logs, metadata, scheduler, timer)
        shares = self._make_shares(running, replicas, scheduler, timer, data_plane)
        groups, transactions = self._make_coordinators(running, replicas, (store, features), (scheduler, timer), access_log)
        running.registrar = registrar = self._register(store, sockets)
        replication = self._make_replication(running, replicas, scheduler, retries, cluster, registrar)
        control = self._make_control(replicas, groups, shares, store, registrar, notifier)
        controller = self._start_controller(running, store, configs, cluster.make_channels(control), registrar)
        features.refresh()  # the first controller of a cluster finalizes them; the watch may be heard later
        transactions.startup()
        shares.startup()
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
            shares=shares,
            share_partitions=self._make_share_partitions(running, replicas, groups, timer, data_plane),
            added_partitions=self._make_add_partitions_manager(running, transactions, metadata, data_plane),
            controller=controller,
            administration=administration,
            topics=self._make_topics(running, store, controller, administration),
            timer=timer,
            scheduler=scheduler,
            quotas=quotas,
            control=control,
            broker_epoch=lambda: registrar.epoch,
            supported=self._serving.told_apis,
            tells_features=self._serving.tells_features,
            access_log=access_log,
            authorizer=authorizer,
            tokens=tokens,
        )
        follow_group_configs(configs, groups.group_config_manager)
        throttler = self._start_quotas(quotas, configs, scheduler, sockets, replicas)
        handlers = self._serving.start(dependencies, metadata, (data_plane, sockets.control_plane), throttler, running)
        self._open(running, main, sockets)
        pools = _pools(scheduler, handlers, replication)
        broker_configs.follow(self._reconfigurables(main, registrar, logs, controller, sockets, pools))

    def stop(self) -> None:
        """Stop the running parts, in the order of Kafka's ``KafkaServer.shutdown``; does nothing if no part runs.

        No new requests, an answer to those under way, everything on disk, and only then the connections close. An error of one
        part is logged and does not keep the others from stopping.
        """
        running = self._running.take()
        stop_part(running.console, self._close_console)
        stop_part(running.console_client, InterBrokerClient.stop)
        stop_part(running.cluster, partial(_give_up_leaderships, running))
        stop_part(running.sockets, self._close_ports)
        stop_part(running.timer, Timer.keep)
        stop_part(running.handlers, KafkaRequestHandlerPool.shutdown)
        stop_part(running.control_plane_handlers, KafkaRequestHandlerPool.shutdown)
        stop_part(running.add_partitions_client, InterBrokerClient.stop)
        stop_part(running.scheduler, KafkaScheduler.shutdown)
        stop_part(running.directory_failures, LogDirFailureHandler.shutdown)
        stop_part(running.notifier, Notifier.close)
        stop_part(running.share_partitions, SharePartitionManager.shutdown)
        stop_part(running.persister, StatePersister.shutdown)
        stop_part(running.share_client, InterBrokerClient.stop)
        stop_part(running.shares, ShareCoordinator.shutdown)
        stop_part(running.transactions, TransactionCoordinator.shutdown)
        stop_part(running.marker_client, InterBrokerClient.stop)
        stop_part(running.groups, GroupCoordinator.shutdown)
        stop_part(running.replicas, ReplicaManager.shutdown)
        stop_part(running.logs, LogManager.shutdown)
        stop_part(running.controller, KafkaController.shutdown)
        stop_part(running.cluster, ClusterParts.stop)
        stop_part(running.administration, Administration.stop)
        stop_part(running.tokens, DelegationTokenManager.shutdown)
        stop_part(running.authorizer, lambda authorizer: authorizer.close())
        stop_part(running.configs, ConfigRepository.shutdown)
        stop_part(running.features, FeatureCache.shutdown)
        stop_part(running.store, lambda store: store.close())
        stop_part(running.sockets, SocketServer.give_up_unanswered)
        stop_part(running.sockets, SocketServer.shutdown)
        stop_part(running.metrics_listener, self._close_metrics_listener)
        for timer in (running.timer, running.retries):
            stop_part(timer, Timer.shutdown)
        stop_part(running.quotas, QuotaManagers.close)
        stop_part(running.access_log, AccessLog.stop)

    def _close_ports(self, sockets: SocketServer) -> None:
        assert self._main is not None
        self._main.call(sockets.stop_processing_requests)

    def _close_metrics_listener(self, listener: "MetricsListener") -> None:
        assert self._main is not None
        self._main.call(listener.stop)

    def _close_console(self, console: "WebConsole") -> None:
        assert self._main is not None
        self._main.call(console.stop)

    def interrupt_start(self) -> None:
        """End a start that loads logs at the next log, or that waits for its controller; after that it has no effect."""
        self._storage.interrupt()

    # Timing, storage, tokens

    def _start_timing(self, running: Running) -> tuple[KafkaScheduler, Timer, Timer, Notifier]:
        running.scheduler = scheduler = KafkaScheduler(self._clock, self.config.int("background.threads"))
        scheduler.startup()
        self.metrics.gauge("Threads", "UncaughtErrorsCount", lambda: UNCAUGHT_ERRORS.count)
        scheduler.schedule("metrics-tick", self.metrics.tick, _METRICS_TICK_MS, _METRICS_TICK_MS)
        refresh = partial(self._refresh_certificates, running)
        scheduler.schedule("refresh-certificates", refresh, _CERTIFICATES_MS, _CERTIFICATES_MS)
        if RETURN_MEMORY_MS and not machine.is_simulated:
            from twisted_kafka.system.foreign import return_freed_memory

            scheduler.schedule("return-freed-memory", return_freed_memory, RETURN_MEMORY_MS, RETURN_MEMORY_MS)
        running.timer = timer = Timer(self._clock)
        timer.start()
        running.retries = retries = Timer(self._clock, "retries")
        retries.start()
        running.notifier = notifier = Notifier(retries)
        return scheduler, timer, retries, notifier

    def _start_storage(
        self, scheduler: KafkaScheduler
    ) -> tuple[LogManager, IMetadataStore, FeatureCache, ConfigRepository, BrokerConfigHandler]:
        stored = self._storage.start(scheduler)
        self.cluster_id, self.logs, self.configs = stored.cluster_id, stored.logs, stored.configs
        self.dynamic = stored.broker_configs.dynamic
        return stored.logs, stored.store, stored.features, stored.configs, stored.broker_configs

    def _start_tokens(self, running: Running, store: IMetadataStore, scheduler: KafkaScheduler) -> DelegationTokenManager | None:
        """Load the delegation tokens, if there is a secret for them; the active controller removes expired ones."""
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

    # Network, replicas, registration

    def _start_access_log(self, running: Running) -> AccessLog | None:
        running.access_log = access_log = make_access_log(self.config, self.config.broker_id, self._clock, self.metrics)
        if access_log is not None:
            access_log.start()
        return access_log

    def _make_data_plane(self) -> RequestPlane:
        channel = RequestChannel(self.config.int("queued.max.requests"), self._clock)
        return RequestPlane(DATA_PLANE, channel, self._clock, self.metrics)

    def _start_sockets(
        self, running: Running, main: MainReactor, data_plane: RequestPlane, scheduler: KafkaScheduler
    ) -> SocketServer:
        """Bind the listeners; they do not accept yet."""
        configs = self.configs
        assert configs is not None, "storage has started"
        sasl_resources = cache(lambda: make_sasl_resources(self._clock, scheduler, configs, running.tokens))
        observers = self._serving.observers
        if running.access_log is not None:
            observers.append(running.access_log)
        running.sockets = sockets = SocketServer(
            self.config,
            main.reactor,
            data_plane,
            observers,
            make_reactor,
            builder_of=channel_builders(self.metrics, sasl_resources),
        )
        if self.dynamic is not None:
            self.dynamic.leave_out_what_fails(sockets.try_out, concerns_listeners)
        sockets.start()
        self._serving.observe_addresses(sockets)
        return sockets

    def _make_replication(
        self,
        running: Running,
        replicas: ReplicaManager,
        scheduler: KafkaScheduler,
        retries: Timer,
        cluster: ClusterParts,
        registrar: BrokerRegistrar,
    ) -> Replication:
        parts = BrokerParts(scheduler, retries, self._clock, self.metrics, cluster.controller_client, lambda: registrar.epoch)
        running.replication = replication = Replication(self.config, replicas, parts)
        return replication

    def _refresh_certificates(self, running: Running) -> None:
        """Use certificates whose files have changed, and log which expire soon."""
        if running.sockets is not None:
            running.sockets.refresh_security(self.config)
        if running.console is not None:
            running.console.refresh()
        for client in (
            running.share_client,
            running.marker_client,
            running.add_partitions_client,
            running.console_client,
            running.cluster,
            running.replication,
        ):
            if client is not None:
                client.refresh()

    def _make_client(self, thread: str, purpose: str) -> InterBrokerClient:
        return InterBrokerClient(self.config, f"{thread}-{self.config.broker_id}", purpose, self._clock)

    def _make_shares(
        self, running: Running, replicas: ReplicaManager, scheduler: KafkaScheduler, timer: Timer, data_plane: RequestPlane
    ) -> ShareCoordinator:
        """Make the share coordinator, and the persister, which finds the share coordinators of all brokers."""
        running.shares = shares = make_share_coordinator(self.config, replicas, scheduler, timer, self.metrics)
        running.share_client = client = self._make_client("PersisterStateManager", "share-coordinator-client")
        listener_name = self.config.inter_broker_listener_name
        threads = OtherThreads(timer, data_plane.request_channel.send_callback)

        def create_topic() -> None:
            if running.topics is not None:
                running.topics.create_internal_topic(SHARE_TOPIC)

        running.persister = StatePersister(shares, replicas.metadata, listener_name, client, threads, self._clock, create_topic)
        return shares

    def _make_share_partitions(
        self, running: Running, replicas: ReplicaManager, groups: GroupCoordinator, timer: Timer, data_plane: RequestPlane
    ) -> SharePartitionManager:
        assert running.persister is not None
        assert running.share_client is not None
        configs, features = running.configs, running.features
        assert configs is not None
        assert features is not None

        def create(topic: str) -> None:
            if running.topics is not None:
                running.topics.create_dead_letter_topic(topic)

        topics = DeadLetterTopics(lambda topic: configs.topic_config(topic).get(ENABLE_KEY) == "true", create)
        letters = Letters(lambda: features.level(SHARE_VERSION) >= DEAD_LETTERS_SINCE, topics, running.share_client)
        running.share_partitions = made = make_share_partition_manager(
            self.config,
            replicas,
            running.persister,
            groups.group_config_manager.share,
            OtherThreads(timer, data_plane.request_channel.send_callback),
            self.metrics,
            letters,
            _on_lost(running.access_log),
        )
        return made

    def _make_coordinators(
        self,
        running: Running,
        replicas: ReplicaManager,
        stored: tuple[IMetadataStore, FeatureCache],
        timing: tuple[KafkaScheduler, Timer],
        access_log: AccessLog | None,
    ) -> tuple[GroupCoordinator, TransactionCoordinator]:
        """Start the group coordinator, and make the transaction coordinator, which ends transactions in groups."""
        config, metadata = self.config, replicas.metadata
        assert running.persister is not None, "the share coordinator is made"
        assert running.share_client is not None
        shares = ShareParts(running.persister, running.share_client)
        running.groups = groups = make_group_coordinator(config, replicas, metadata, *timing, self._clock, self.metrics, shares)
        groups.startup()
        running.marker_client = client = self._make_client("TxnMarkerSenderThread", "txn-marker-sender")
        ends = Ends(groups.end_transaction, _on_end(access_log), client)
        running.transactions = transactions = make_transaction_coordinator(config, replicas, *stored, ends, *timing, self.metrics)
        return groups, transactions

    def _make_add_partitions_manager(
        self, running: Running, transactions: TransactionCoordinator, metadata: MetadataCache, data_plane: RequestPlane
    ) -> AddPartitionsToTxnManager:
        """Make the client of other brokers' transaction coordinators; handlers continue after its answers."""
        running.add_partitions_client = client = self._make_client("AddPartitionsToTxnSenderThread", "AddPartitionsManager")
        listener_name = self.config.inter_broker_listener_name
        resume = data_plane.request_channel.send_callback
        return AddPartitionsToTxnManager(transactions, metadata, listener_name, client, self._clock, resume)

    def _make_broker_node(self, sockets: SocketServer) -> BrokerNode:
        """Return the current contents of the broker's node in the metadata store."""
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
        registrar = BrokerRegistrar(store, self.config.broker_id, make_node, session_timeout_ms, is_alone=self._storage.is_alone)
        registrar.start()
        return registrar

    def _start_administration(
        self, running: Running, store: IMetadataStore, configs: ConfigRepository, broker_configs: BrokerConfigHandler
    ) -> tuple[Administration, Any]:
        """Start the administration, and the authorizer, which is None without a setting."""
        running.administration = administration = Administration(
            self.config, configs, broker_configs.dynamic, self._clock, self.metrics
        )
        administration.start()
        audit = AuditLog()
        running.authorizer = authorizer = make_authorizer(self.config, store, self._clock, audit)
        administration.loggers.follow(AUTHORIZER_LOGGER, audit.set_level)
        return administration, authorizer

    def _make_topics(
        self, running: Running, store: IMetadataStore, controller: KafkaController, administration: Administration
    ) -> TopicManager:
        assert self.metadata is not None
        assert running.timer is not None
        waits = TopicWaits(self.metadata, self._clock, running.timer)
        running.topics = topics = TopicManager(
            self.config,
            store,
            self.metadata,
            controller,
            waits,
            ReplicaPlacement(self.metadata, is_cordoned=lambda: self.logs is not None and self.logs.is_cordoned),
            administration.policies,
        )
        return topics

    def _make_control(
        self,
        replicas: ReplicaManager,
        groups: GroupCoordinator,
        shares: ShareCoordinator,
        store: IMetadataStore,
        registrar: BrokerRegistrar,
        notifier: Notifier,
    ) -> ControlPlane:
        """Return the parts that the controller's requests change."""
        read_topics = partial(latest_children_of, store, znodes.TOPICS)
        run = partial(notifier.notify, "Topics that were deleted")
        control = ControlPlane(replicas, [groups.on_partitions_deleted, lambda _: shares.on_topics_deleted()], read_topics, run)
        registrar.set_renewal_listener(control.forget_deleted)
        return control

    def _start_controller(
        self,
        running: Running,
        store: IMetadataStore,
        configs: ConfigRepository,
        channels: NetworkChannels,
        registrar: BrokerRegistrar,
    ) -> KafkaController:
        """Take part in the election of a controller, and again in each new session of the metadata store."""
        assert running.cluster is not None
        running.controller = controller = KafkaController(self.config, store, configs, channels, self._clock, metrics=self.metrics)
        running.cluster.follow(controller, configs)
        self._await(controller.startup(), "a controller")
        self._await(channels.drained(self.config.broker_id), "the partitions that it is to lead")
        registrar.follow(controller, self._on_fatal)
        return controller

    def _await(self, done: "Future[None]", what: str) -> None:
        """Wait until the future is done or the start is interrupted: for how long depends on the number of partitions."""
        while True:
            try:
                return machine.result_of(done, _PATIENCE_S)
            except TimeoutError:
                if done.done():
                    raise
                if self._storage.is_interrupted:
                    raise StartInterruptedError("the start was interrupted") from None
                _log.info("This broker waits for {what} as it starts", what=what)

    # Requests

    def _make_quotas(self, running: Running, metadata: MetadataCache, timer: Timer) -> QuotaManagers:
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

    def _open(self, running: Running, main: MainReactor, sockets: SocketServer) -> None:
        """Begin to serve: the pages first, for a page that cannot be served fails the start."""
        self._start_metrics_listener(running, main)
        self._start_console(running, main)
        sockets.enable_request_processing()
        main.start()

    def _start_metrics_listener(self, running: Running, main: MainReactor) -> None:
        address = self.config.metrics_listener
        if address is None:
            return
        from twisted_kafka.metrics.listener import MetricsListener  # imports twisted.web: a quarter of a second that few need

        running.metrics_listener = listener = MetricsListener(main.reactor, *address, self.metrics)
        listener.start()
        _log.info("Metrics for Prometheus at {url}", url=listener.url)

    def _start_console(self, running: Running, main: MainReactor) -> None:
        """Start the console in a browser. It asks the broker as clients do, but without a connection."""
        if self.config.console_listener is None:
            return
        from twisted_kafka.console.web.console import WebConsole  # few brokers need it

        assert self.configs is not None
        broker, live = self.local_broker(), self.live()
        running.console = console = WebConsole(self.config, self.metrics, main.reactor, broker, self.configs, live)
        console.start()

    def _reconfigurables(
        self,
        main: MainReactor,
        registrar: BrokerRegistrar,
        logs: LogManager,
        controller: KafkaController,
        sockets: SocketServer,
        pools: Sequence[ThreadPool],
    ) -> list[IReconfigurable]:
        """Return the parts that react to changed settings, in the order in which they are reconfigured."""
        return [
            ConnectionLimits(sockets),
            NetworkThreads(sockets, main),
            ListenerSecurity(sockets, BROKER_KEYS),
            Listeners(sockets, main, registrar.register),
            *pools,
            LogDefaults(self.config, logs, controller),
            CordonedDirectories(logs),
            *([] if logs.cleaner is None else [LogCleaning(logs.cleaner)]),
        ]


def _pools(scheduler: KafkaScheduler, handlers: KafkaRequestHandlerPool, replication: Replication) -> list[ThreadPool]:
    """Return the pools of threads whose sizes are settings."""
    return [
        ThreadPool("background.threads", scheduler.resize),
        ThreadPool("num.io.threads", handlers.resize),
        ThreadPool("num.recovery.threads.per.data.dir"),
        ThreadPool("num.replica.fetchers", replication.resize),
    ]


def _on_end(access_log: AccessLog | None) -> OnEnd:
    """Return the function that logs the end of a transaction without a request."""
    if access_log is None:
        return ignore_end
    return lambda end: access_log.transaction_ended(end_note(end), list(topic_notes(end)))


def _on_lost(access_log: AccessLog | None) -> OnLost:
    """Return the function that logs records which a share group's member has lost without a request."""
    return (lambda *_: None) if access_log is None else access_log.records_lost


def _give_up_leaderships(running: Running, cluster: ClusterParts) -> None:
    """Let other brokers lead this broker's partitions, if it has started far enough to lead any."""
    if running.replicas is not None:
        running.replicas.state.leave()
    if running.controller is not None and running.registrar is not None and running.handlers is not None:
        cluster.give_up_leaderships(running.controller, running.registrar.epoch)
