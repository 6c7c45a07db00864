"""The parts of a running broker: made and started in Kafka's order, stopped in Kafka's order (KafkaServer.startup, .shutdown)."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, TextIO

from twisted.logger import Logger
from zope.interface import classImplements

from twisted_kafka.access_log.access_log import AccessLog, make_access_log
from twisted_kafka.broker.administration import Administration
from twisted_kafka.broker.api_families import Parts, make_families
from twisted_kafka.broker.dynamic_settings import DynamicConfigs, follow_group_configs, follow_move_quota
from twisted_kafka.broker.identity import establish
from twisted_kafka.broker.listener_security import SERVED_PROTOCOLS, channel_builders
from twisted_kafka.broker.main_reactor import MainReactor
from twisted_kafka.broker.metadata_directory import METADATA_FILE, metadata_directory
from twisted_kafka.broker.reconfigurables import (
    ConnectionLimits,
    Listeners,
    ListenerSecurity,
    LogCleaning,
    LogDefaults,
    NetworkThreads,
    ThreadPool,
)
from twisted_kafka.broker.stops import Stops
from twisted_kafka.broker.unowned_logs import tell_of_unowned_logs
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.dynamic_broker_config import DynamicBrokerConfig
from twisted_kafka.config.endpoints import EndPoint
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.config.keys import BROKER_KEYS
from twisted_kafka.controller.channels import InProcessChannels
from twisted_kafka.controller.interfaces import IControlPlane
from twisted_kafka.controller.kafka_controller import KafkaController
from twisted_kafka.coordinator.group.assembly import make_group_coordinator
from twisted_kafka.log.directories.log_directory import LogDirectory, LogDirectoryError
from twisted_kafka.log.directories.meta_properties import MetaPropertiesError
from twisted_kafka.log.loading.loading_progress import LoadingInterruptedError
from twisted_kafka.log.log_manager import LogManager
from twisted_kafka.log.validation import log_validator
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.metadata.config_repository import ConfigRepository
from twisted_kafka.metadata.embedded import SqliteStore
from twisted_kafka.metadata.registration import broker_node, prepare_store, register_broker, tell_of_failed_directory
from twisted_kafka.metadata.store import IMetadataStore, StoreError
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.accepting.acceptor import BindError
from twisted_kafka.network.interfaces import IRequestObserver
from twisted_kafka.network.loop.busy_poll import busy_poll_rule
from twisted_kafka.network.loop.placement import make_placement
from twisted_kafka.network.loop.reactors import make_reactor
from twisted_kafka.network.request_plane import CONTROL_PLANE
from twisted_kafka.network.requests.request_channel import RequestChannel
from twisted_kafka.network.requests.request_metrics import RequestMetrics
from twisted_kafka.network.socket_server import SocketServer
from twisted_kafka.quota.ip_rates import IpConnectionRates
from twisted_kafka.replication.control_plane import ControlPlane
from twisted_kafka.replication.purgatories import Purgatories
from twisted_kafka.replication.replica_manager import ReplicaManager
from twisted_kafka.server.dispatch import ApiRegistry
from twisted_kafka.server.kafka_apis import KafkaApis
from twisted_kafka.server.request_handler import KafkaRequestHandlerPool
from twisted_kafka.timing.clock import IClock
from twisted_kafka.timing.scheduler import KafkaScheduler
from twisted_kafka.timing.timer import Timer

_METRICS_TICK_MS: Final = 5_000
_RETRY_LOGS_MS: Final = 5_000
"""How long until logs are tried again that could not be made for want of file descriptors."""
_CONTROLLER_TIMEOUT_S: Final = 60.0

# What an operator can put right: such an error becomes one line.
_EXPECTED: Final = (BindError, ConfigError, LogDirectoryError, MetaPropertiesError, StoreError, OSError)

_log = Logger()

classImplements(ControlPlane, IControlPlane)  # said here, for replication may not know the controller's interface


class StartError(Exception):
    """The broker cannot start for a reason that the operator can put right; the text is one line."""


class StartInterruptedError(StartError):
    """The broker was told to stop before it had started."""


class Assembly:
    """All parts of one broker."""

    def __init__(self, config: KafkaConfig, clock: IClock, on_fatal: Callable[[str], object]) -> None:
        """``on_fatal`` is told in one line, on one of its threads, why the broker cannot go on: another has to stop it."""
        self.config = config
        self.cluster_id = ""
        self.metrics = MetricsRegistry(clock)
        self._request_metrics = RequestMetrics(self.metrics)
        self.listeners: list[EndPoint] = []
        self.supported_apis: dict[int, tuple[int, int]] = {}
        self._clock = clock
        self._on_fatal = on_fatal
        self.configs: ConfigRepository | None = None
        self.dynamic: DynamicBrokerConfig | None = None
        self.metadata: MetadataCache | None = None
        self.logs: LogManager | None = None
        self._access_log: AccessLog | None = None
        self._replicas: ReplicaManager | None = None
        self._store: IMetadataStore | None = None
        self._metadata_path: Path | None = None
        self._interrupted = False
        self._broker_epoch = -1
        self._stops = Stops()

    def start(self, main: MainReactor) -> None:
        """Start everything and serve; raise StartError, after which nothing is left running."""
        _refuse_what_is_not_safe(self.config)
        began_ns = self._clock.monotonic_ns()
        for line in self.config.warnings:
            _log.warn("{line}", line=line)
        try:
            self._start(main)
        except _EXPECTED as error:
            self.stop()
            raise StartError(" ".join(str(error).split())) from error
        except BaseException:
            self.stop()
            raise
        took_ms = (self._clock.monotonic_ns() - began_ns) // 1_000_000
        _log.info(
            "Kafka broker {id} listens on {listeners}, data in {directories}, started in {ms} ms{build}",
            id=self.config.broker_id,
            listeners=", ".join(end_point.text for end_point in self.listeners),
            directories=", ".join(self.config.log_dirs),
            ms=took_ms,
            build="" if str(log_validator.__file__).endswith(".py") else ", compiled",
        )

    def stop(self) -> None:
        """Stop what runs, in order; what goes wrong with a part is logged and keeps no other from stopping."""
        self._stops.run()

    def _start(self, main: MainReactor) -> None:
        scheduler, timer = self._start_time()
        logs, store = self._open_storage(scheduler)
        configs, dynamic = self._start_configs(store, logs)
        metadata = self.metadata = MetadataCache(self.config.broker_id, self.cluster_id)
        placement = make_placement(self._clock) if self.config.boolean("thread.placement.enable") else None
        channel = RequestChannel(self.config.int("queued.max.requests"), self._clock, placement)
        sockets = self._bind(main, channel)
        replicas = self._start_replicas(logs, metadata, scheduler, timer)
        groups = make_group_coordinator(self.config, replicas, metadata, scheduler, timer, self._clock, self.metrics)
        follow_group_configs(configs, groups.group_config_manager)
        self._stops["group coordinator"] = groups.shutdown
        groups.startup()
        self._register(store, sockets)
        control = ControlPlane(replicas, [groups.on_partitions_deleted])
        controller = self._start_controller(store, configs, control)
        tell_of_unowned_logs(logs, store)
        parts = Parts(
            config=self.config,
            clock=self._clock,
            metrics=self.metrics,
            store=store,
            configs=configs,
            metadata=metadata,
            logs=logs,
            replicas=replicas,
            groups=groups,
            controller=controller,
            administration=self._start_administration(store, configs, dynamic),
            timer=timer,
            control=control,
            broker_epoch=lambda: self._broker_epoch,
            supported=lambda: self.supported_apis,
            access_log=self._access_log,
        )
        follow_move_quota(configs, self.config.broker_id, replicas.moves)
        IpConnectionRates(configs, sockets.quotas).start()
        handlers = self._serve(main, channel, sockets, parts)
        dynamic.follow(
            [
                ConnectionLimits(sockets),
                NetworkThreads(sockets, main),
                ListenerSecurity(sockets, BROKER_KEYS),
                Listeners(sockets, main, lambda: self._register(store, sockets)),
                ThreadPool("background.threads", scheduler.resize),
                ThreadPool("num.io.threads", handlers.resize),
                ThreadPool("num.recovery.threads.per.data.dir"),
                ThreadPool("num.replica.fetchers"),
                LogDefaults(self.config, logs, controller),
                *([] if logs.cleaner is None else [LogCleaning(logs.cleaner)]),
            ]
        )

    def _start_time(self) -> tuple[KafkaScheduler, Timer]:
        scheduler = KafkaScheduler(self._clock, self.config.int("background.threads"))
        self._stops["scheduler"] = scheduler.shutdown
        scheduler.startup()
        scheduler.schedule("metrics-tick", self.metrics.tick, _METRICS_TICK_MS, _METRICS_TICK_MS)
        timer = Timer(self._clock)
        self._stops["timer"] = timer.shutdown
        timer.start()
        return scheduler, timer

    def _open_storage(self, scheduler: KafkaScheduler) -> tuple[LogManager, IMetadataStore]:
        def failed(directory: LogDirectory) -> None:
            # Who meets the broken disk holds locks: what follows from it is another thread's.
            scheduler.schedule_once("log-directory-failure", lambda: self._directory_failed(logs, directory))

        logs = self.logs = LogManager(
            self.config,
            scheduler,
            self._clock,
            on_directory_failure=failed,
            metrics=self.metrics,
            terminal=_terminal(),
        )
        logs.acquire_directories()
        self._stops["log manager"] = lambda: _release(logs)
        self._metadata_path = metadata_directory(self.config, logs.directories)
        self._metadata_path.mkdir(parents=True, exist_ok=True)
        self._store = store = SqliteStore(self._metadata_path / METADATA_FILE, self._clock)
        self._stops["metadata store"] = store.close
        prepare_store(store)
        self.cluster_id = establish(self.config, logs, store)
        return logs, store

    def _directory_failed(self, logs: LogManager, failed: LogDirectory) -> None:
        """Take a directory's partitions offline, and have the controller find other leaders (Kafka: handleLogDirFailure).

        Without any directory left, or without the one with the metadata, a broker is of no use.
        """
        if self._replicas is not None:
            self._replicas.directory_failed(failed.path)
        logs.forget_directory(failed)
        if not any(directory.is_online for directory in logs.directories):
            self._on_fatal("Shutdown broker because all log dirs have failed: " + ", ".join(self.config.log_dirs))
        elif failed.path == self._metadata_path:
            self._on_fatal(f"Shutdown broker because the log directory with its metadata has failed: {failed.path}")
        elif self._store is not None and self._replicas is not None:
            tell_of_failed_directory(self._store, self.config.broker_id)

    def _retry_logs(self) -> None:
        """Have the controller order again what failed for want of file descriptors."""
        assert self._replicas is not None
        assert self._store is not None
        if self._replicas.state.retry_starved():
            tell_of_failed_directory(self._store, self.config.broker_id)

    def interrupt_start(self) -> None:
        """Have a start that loads logs end at the next one; does nothing after that."""
        self._interrupted = True
        if self.logs is not None:
            self.logs.progress.interrupt()

    def _start_configs(self, store: IMetadataStore, logs: LogManager) -> tuple[ConfigRepository, DynamicConfigs]:
        configs = self.configs = ConfigRepository(store, self._clock)
        self._stops["dynamic configs"] = configs.shutdown
        configs.startup()
        dynamic = DynamicConfigs(self.config, configs)
        self.dynamic = dynamic.broker
        self._stops["log manager"] = logs.shutdown
        if self._interrupted:
            logs.progress.interrupt()
        try:
            logs.startup(configs.topic_config)
        except LoadingInterruptedError as error:
            raise StartInterruptedError(str(error)) from error
        except ValueError as error:  # files that cannot be understood
            raise StartError(" ".join(str(error).split())) from error
        configs.add_listener("topics", lambda topic, _: logs.update_topic_config(topic))
        return configs, dynamic

    def _bind(self, main: MainReactor, channel: RequestChannel) -> SocketServer:
        observers: list[IRequestObserver] = [self._request_metrics]
        access_log = make_access_log(self.config, self.config.broker_id, self._clock, self.metrics)
        if access_log is not None:
            self._access_log = access_log
            self._stops["access log"] = access_log.stop
            access_log.start()
            observers.append(access_log)
        sockets = SocketServer(
            self.config,
            main.reactor,
            channel,
            self._clock,
            self.metrics,
            observers,
            partial(make_reactor, busy_poll=busy_poll_rule(self.config.int("network.busy.poll.us"), channel.placement)),
            builder_of=channel_builders(self.config, self.metrics),
        )
        self._stops["ports"] = lambda: main.call(sockets.stop_processing_requests)
        self._stops["network threads"] = sockets.shutdown
        sockets.start()
        return sockets

    def _start_replicas(self, logs: LogManager, metadata: MetadataCache, scheduler: KafkaScheduler, timer: Timer) -> ReplicaManager:
        purgatories = Purgatories(self._clock, timer)
        replicas = ReplicaManager(self.config, logs, metadata, scheduler, self._clock, purgatories, self.metrics)
        self._stops["replica manager"] = replicas.shutdown
        self._replicas = replicas
        replicas.state.set_starved_listener(lambda: scheduler.schedule_once("make-logs-again", self._retry_logs, _RETRY_LOGS_MS))
        replicas.startup()
        return replicas

    def _register(self, store: IMetadataStore, sockets: SocketServer) -> None:
        self.listeners = sockets.bound_end_points()
        ports = {end_point.listener_name: end_point.port for end_point in self.listeners}
        advertised = [
            end_point if end_point.port else end_point._replace(port=ports[end_point.listener_name])
            for end_point in self.config.advertised_listeners
        ]
        node = broker_node(advertised, rack=self.config.optional_string("broker.rack"), now_ms=self._clock.wall_ms())
        self._broker_epoch = register_broker(store, self.config.broker_id, node)

    def _start_controller(self, store: IMetadataStore, configs: ConfigRepository, control: ControlPlane) -> KafkaController:
        channels = InProcessChannels(self.config.broker_id, control)
        controller = KafkaController(self.config, store, configs, channels, self._clock, metrics=self.metrics)
        self._stops["controller"] = controller.shutdown
        controller.startup().result(_CONTROLLER_TIMEOUT_S)
        return controller

    def _start_administration(self, store: IMetadataStore, configs: ConfigRepository, dynamic: DynamicConfigs) -> Administration:
        administration = Administration(self.config, store, configs, dynamic.broker, self._clock, self.metrics)
        self._stops["administration"] = administration.stop
        administration.start()
        return administration

    def _serve(self, main: MainReactor, channel: RequestChannel, sockets: SocketServer, parts: Parts) -> KafkaRequestHandlerPool:
        registry = ApiRegistry(make_families(parts))
        self.supported_apis = registry.supported
        self._request_metrics.register(self.supported_apis)
        apis = KafkaApis(registry, channel, self._clock)
        handlers = KafkaRequestHandlerPool(
            channel, apis.handle, self.config.int("num.io.threads"), self._clock, self.metrics, fatal=self._on_fatal
        )
        self._stops["request handlers"] = handlers.shutdown
        handlers.start()
        self._serve_control_plane(registry, sockets.control_plane_request_channel)
        self._serve_metrics(main)
        sockets.enable_request_processing()
        main.start()
        return handlers

    def _serve_control_plane(self, registry: ApiRegistry, channel: RequestChannel | None) -> None:
        if channel is None:
            return
        apis = KafkaApis(registry, channel, self._clock)
        handlers = KafkaRequestHandlerPool(channel, apis.handle, 1, self._clock, self.metrics, CONTROL_PLANE, self._on_fatal)
        self._stops["control plane's request handler"] = handlers.shutdown
        handlers.start()

    def _serve_metrics(self, main: MainReactor) -> None:
        address = self.config.metrics_listener
        if address is None:
            return
        from twisted_kafka.metrics.listener import MetricsListener  # twisted.web is a quarter of a second that few need

        listener = MetricsListener(main.reactor, *address, self.metrics)
        self._stops["metrics listener"] = lambda: main.call(listener.stop)
        listener.start()
        _log.info("Metrics for Prometheus at {url}", url=listener.url)


def _refuse_what_is_not_safe(config: KafkaConfig) -> None:
    # A listener that is said to be encrypted or authenticated must never be served as plain text.
    for end_point in config.listeners:
        if end_point.security_protocol not in SERVED_PROTOCOLS:
            raise StartError(
                f"Invalid value '{end_point.text}' for listeners: its security protocol must be {' or '.join(SERVED_PROTOCOLS)}, "
                f"for this broker has no {end_point.security_protocol} yet"
            )


def _terminal() -> TextIO | None:
    """Return where a bar can be drawn: the terminal that the program was started from, if it was."""
    stream = sys.__stderr__
    return stream if stream is not None and stream.isatty() else None


def _release(logs: LogManager) -> None:
    for directory in logs.directories:
        directory.release()
