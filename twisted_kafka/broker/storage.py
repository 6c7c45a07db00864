"""Storage: the log directories and the metadata store of a broker, and the data that it reads from them at the start."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TextIO

from twisted.logger import Logger

from twisted_kafka.broker.errors import StartError, StartInterruptedError
from twisted_kafka.broker.registration.identity import establish
from twisted_kafka.broker.registration.metadata_store import open_metadata_store
from twisted_kafka.broker.running import Running
from twisted_kafka.broker.settings.config_handlers import BrokerConfigHandler, follow_topic_configs
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.log.directories.loading_progress import LoadingInterruptedError
from twisted_kafka.log.directories.log_dir_failure_handler import LogDirFailureHandler
from twisted_kafka.log.directories.log_directory import LogDirectory
from twisted_kafka.log.log_manager import LogManager
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.metadata.config_repository import ConfigRepository
from twisted_kafka.metadata.features import FeatureCache
from twisted_kafka.metadata.registration import notify_log_dir_event, prepare_store
from twisted_kafka.metadata.store import IMetadataStore
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.replication.operations.purgatories import Purgatories
from twisted_kafka.replication.replica_manager import ReplicaManager
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock
from twisted_kafka.timing.scheduler import IScheduler, KafkaScheduler, ScheduledTask
from twisted_kafka.timing.timer import Timer

FIRST_RETRY_MS: Final = 5_000
MAX_RETRY_MS: Final = 300_000
"""The longest pause before unusable logs are tried again, for example after a lack of descriptors. Pauses double up to it."""

_log = Logger()


class Stored(NamedTuple):
    """The data directories and the metadata store that a start found."""

    logs: LogManager
    store: IMetadataStore
    cluster_id: str
    features: FeatureCache
    configs: ConfigRepository
    broker_configs: BrokerConfigHandler


class StarvedLogs:
    """Lets the controller repeat requests that failed for lack of file descriptors, of memory or of the metadata store."""

    def __init__(self, retry: Callable[[], bool], ask: Callable[[], object], scheduler: IScheduler) -> None:
        """``retry`` forgets failures and returns whether there were any. ``ask`` makes the controller repeat all requests."""
        self._retry = retry
        self._ask = ask
        self._scheduler = scheduler
        self._lock = machine.Lock()
        self._is_waiting = False
        self._backoff_ms = FIRST_RETRY_MS
        self._last_retry: ScheduledTask | None = None

    def later(self) -> None:
        """Try again after a pause."""
        with self._lock:
            if self._is_waiting:
                return
            self._is_waiting = True
            delay_ms, self._backoff_ms = self._backoff_ms, min(2 * self._backoff_ms, MAX_RETRY_MS)
        self._scheduler.schedule_once("make-logs-again", self._again, delay_ms)

    def _again(self) -> None:
        with self._lock:
            self._is_waiting = False
            if self._last_retry is not None:
                self._last_retry.cancel()
        if self._retry():
            self._ask()
        self._last_retry = self._scheduler.schedule_once("logs-were-made", self._calm, 2 * FIRST_RETRY_MS)

    def _calm(self) -> None:
        """Begin with short pauses again, as nothing has failed since."""
        with self._lock:
            if not self._is_waiting:
                self._backoff_ms = FIRST_RETRY_MS


class Storage:
    """Opens a broker's stored data, and takes failed directories offline."""

    def __init__(
        self, config: KafkaConfig, clock: IClock, metrics: MetricsRegistry, running: Running, on_fatal: Callable[[str], object]
    ) -> None:
        """``running`` has the notifier, and gets each part before it starts.

        ``on_fatal`` is called when no directory is left to work with.
        """
        self._config = config
        self._clock = clock
        self._metrics = metrics
        self._running = running
        self._on_fatal = on_fatal
        self._logs: LogManager | None = None
        self._metadata_path: Path | None = None
        self._interrupted = False

    @property
    def is_alone(self) -> bool:
        """Whether the metadata store is this broker's own, the embedded one."""
        return self._metadata_path is not None

    @property
    def is_interrupted(self) -> bool:
        """Whether the start is to end."""
        return self._interrupted

    def start(self, scheduler: KafkaScheduler) -> Stored:
        """Lock the log directories, open the metadata store, establish the identity, read features and configs, load the logs.

        Raises StartError, and the errors of directories and of the store.
        """
        running = self._running
        running.logs = logs = self._make_log_manager(scheduler)
        logs.acquire_directories()
        opened = open_metadata_store(self._config, logs.directories, self._clock)
        self._metadata_path = opened.directory
        running.store = store = opened.store
        prepare_store(store)
        cluster_id = establish(self._config, logs, store)
        running.features = features = FeatureCache(store)
        features.startup()
        running.configs = configs = ConfigRepository(store, self._clock)
        configs.startup()
        broker_configs = BrokerConfigHandler(self._config, configs)
        self._load_logs(logs, configs)
        follow_topic_configs(configs, logs)
        return Stored(logs, store, cluster_id, features, configs, broker_configs)

    def interrupt(self) -> None:
        """End a start that loads logs at the next log, or that waits later."""
        self._interrupted = True
        if self._logs is not None:
            self._logs.progress.interrupt()

    def make_replica_manager(
        self, logs: LogManager, metadata: MetadataCache, scheduler: KafkaScheduler, timer: Timer
    ) -> ReplicaManager:
        """Return the owner of the replicas. It tries again to make replicas for which file descriptors were missing."""
        purgatories = Purgatories(self._clock, timer)
        replicas = ReplicaManager(self._config, logs, metadata, scheduler, self._clock, purgatories, self._metrics)

        retry = StarvedLogs(replicas.state.retry_starved, self._notify_controller, scheduler)
        replicas.state.set_starved_listener(retry.later)
        return replicas

    def _notify_controller(self) -> None:
        """Ask the controller to read the state of this broker's replicas, as soon as the metadata store answers."""
        store, notifier = self._running.store, self._running.notifier
        if store is not None and notifier is not None:
            notifier.notify("State of log directories", partial(notify_log_dir_event, store, self._config.broker_id))

    def _make_log_manager(self, scheduler: KafkaScheduler) -> LogManager:
        self._running.directory_failures = failures = LogDirFailureHandler(self._directory_failed, scheduler)
        self._logs = LogManager(
            self._config,
            scheduler,
            self._clock,
            on_directory_failure=failures.directory_failed,
            metrics=self._metrics,
            terminal=_terminal(),
        )
        return self._logs

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
        """Take a directory's partitions offline, and ask the controller to elect other leaders (Kafka: handleLogDirFailure).

        A broker is of no use without any directory, or without the one that has its metadata.
        """
        replicas, store, logs = self._running.replicas, self._running.store, self._logs
        assert logs is not None
        if replicas is not None:
            replicas.directory_failed(failed.path)
        logs.forget_directory(failed)
        if not any(directory.is_online for directory in logs.directories):
            self._on_fatal("Shutdown broker because all log dirs have failed: " + ", ".join(self._config.log_dirs))
        elif failed.path == self._metadata_path:
            self._on_fatal(f"Shutdown broker because the log directory with its metadata has failed: {failed.path}")
        elif store is not None and replicas is not None:
            self._notify_controller()


def _terminal() -> TextIO | None:
    """Return the terminal that the program was started from, for a progress bar; None without one."""
    stream = sys.__stderr__
    return stream if stream is not None and stream.isatty() else None
