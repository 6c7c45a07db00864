"""LogManager: all logs of a broker, in the directories of ``log.dirs``."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, TextIO, TypeVar

from twisted.logger import Logger

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.topic_config import LogConfig
from twisted_kafka.log.cleaner.log_cleaner import LogCleaner
from twisted_kafka.log.directories.directory_loader import DirectoryLoader
from twisted_kafka.log.directories.loading_progress import LoadingProgress
from twisted_kafka.log.directories.log_directories import LogDirectories, LogTable, PreferredDirectories
from twisted_kafka.log.directories.log_directory import NO_BROKER_EPOCH, LogDirectory
from twisted_kafka.log.directories.log_removal import LogRemover
from twisted_kafka.log.environment import LogEnvironment
from twisted_kafka.log.files import (
    FUTURE_DIRECTORY_SUFFIX,
    marked_directory_name,
    sync_directory,
)
from twisted_kafka.log.log_metrics import LogMetrics
from twisted_kafka.log.log_tasks import LogTasks
from twisted_kafka.log.producer_state.producer_state_manager import ProducerStateManagerConfig
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.errors import KafkaStorageError
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock
from twisted_kafka.timing.scheduler import IScheduler

VERIFICATION_KEY: Final = "transaction.partition.verification.enable"

_T = TypeVar("_T")
TopicConfigLookup = Callable[[str], Mapping[str, str]]
"""Returns the config overrides of a topic, by its name."""

_log = Logger()


class LogManager:
    """Creates, finds, flushes, checkpoints, moves and deletes logs.

    ``startup`` must return before other methods are called. ``get_log`` takes no lock and can be called on any thread.
    ``on_directory_failure`` is called with a directory that goes offline after an I/O error. It must cause a call of
    ``forget_directory`` on a thread that holds no lock of a log.
    """

    def __init__(
        self,
        config: KafkaConfig,
        scheduler: IScheduler,
        clock: IClock,
        *,
        on_directory_failure: Callable[[LogDirectory], None] | None = None,
        metrics: MetricsRegistry | None = None,
        terminal: TextIO | None = None,
    ) -> None:
        """A progress bar is written to ``terminal`` while logs are loaded."""
        self.clock = clock
        self._config = config
        self._scheduler = scheduler
        self._topic_configs: TopicConfigLookup = lambda _topic: {}
        self._logs = LogTable()
        self._future_logs = LogTable()
        self._preferred = PreferredDirectories()
        self._lock = machine.Lock()
        self._has_begun_loading = False
        self._all = LogDirectories(config.log_dirs, on_directory_failure)
        self.directories = self._all.all
        self._all.cordon(config.list("cordoned.log.dirs"))
        self.progress = LoadingProgress(clock, metrics, terminal)
        self._metrics = LogMetrics(metrics, self._all)
        self._environment = LogEnvironment(
            clock,
            scheduler,
            on_storage_failure=self.storage_failed,
            on_flush_ms=self._metrics.flushed,
            checkpoints=self._all,
            sync_names=self._all.sync_names,
            producers=ProducerStateManagerConfig(
                config.int("producer.id.expiration.ms"), partial(config.boolean, VERIFICATION_KEY)
            ),
        )
        self._tasks = LogTasks(self)
        self._remover = LogRemover(scheduler, self.storage_failed)
        self.cleaner = LogCleaner(config, self, metrics) if config.boolean("log.cleaner.enable") else None

    # Starting and stopping.

    def acquire_directories(self) -> None:
        """Lock the log directories; ``startup`` does it if needed. Raises LogDirectoryError, and then holds no lock."""
        self._all.acquire()

    def startup(self, topic_config_lookup: TopicConfigLookup | None = None) -> None:
        """Load the logs, with at least ``num.recovery.threads.per.data.dir`` threads per directory, and start the periodic tasks.

        Raises LogDirectoryError if no directory is usable or another broker uses one, LoadingInterruptedError after
        ``progress.interrupt``, OSError, and ValueError for malformed files.
        """
        self.acquire_directories()
        self._has_begun_loading = True
        if topic_config_lookup is not None:
            self._topic_configs = topic_config_lookup
        threads = self._config.int("num.recovery.threads.per.data.dir")
        loader = DirectoryLoader(self._environment, self.topic_config, threads, self.progress)
        loader.load(self._all)
        self._add_loaded(loader)
        for path in loader.marked_directories:
            self._remover.remove_files(path, 0)
        self.forget_deleted()
        self._all.correct_recovery_points()
        self._tasks.start(self._config, self._scheduler)
        if self.cleaner is not None:
            self.cleaner.startup()

    def _add_loaded(self, loader: DirectoryLoader) -> None:
        # Under the lock: ``forget_directory`` removes the logs of a directory that fails from now on.
        with self._lock:
            for loaded, known in ((loader.logs, self._logs), (loader.future_logs, self._future_logs)):
                for topic_partition, log in loaded.items():
                    directory = self._all.find(log.parent)
                    if directory is None or not directory.is_online:
                        log.close_handles()
                        continue
                    known[topic_partition] = log
                    self._metrics.log_added(log)
            if self.cleaner is not None:
                self.cleaner.manager.pause(self._future_logs)

    def shutdown(self, broker_epoch: int = NO_BROKER_EPOCH) -> None:
        """Flush and close all logs, write the checkpoints and, without errors, the clean-shutdown files; release the locks.

        Directories are closed in parallel, each with ``num.recovery.threads.per.data.dir`` threads. Before ``startup`` this only
        releases the locks.
        """
        if not self._has_begun_loading:
            self._all.release()
            return
        self._tasks.stop()
        if self.cleaner is not None:
            self.cleaner.shutdown()
        self._all.close(broker_epoch, self._config.int("num.recovery.threads.per.data.dir"))

    # Lookup and creation.

    def get_log(self, topic_partition: TopicPartition) -> UnifiedLog | None:
        """Return a partition's log, or None."""
        return self._logs.get(topic_partition)

    def get_future_log(self, topic_partition: TopicPartition) -> UnifiedLog | None:
        """Return the future log of a partition that is being moved to another log directory, or None."""
        return self._future_logs.get(topic_partition)

    def all_logs(self) -> list[UnifiedLog]:
        """Return all logs, including future ones."""
        return [*self._logs.values(), *self._future_logs.values()]

    def logs_in(self, directory: LogDirectory) -> list[UnifiedLog]:
        """Return the logs of one directory."""
        return list(directory.logs.values())

    def directory_of(self, topic_partition: TopicPartition) -> LogDirectory | None:
        """Return the directory of a partition's log, or None if there is no log."""
        log = self._logs.get(topic_partition)
        return None if log is None else self._all.find(log.parent)

    def directory_named(self, path: str) -> LogDirectory:
        """Return the directory with that absolute path; raises LogDirNotFoundError."""
        return self._all.named(path)

    def topic_config(self, topic: str) -> LogConfig:
        """Return a topic's config: its own settings over the broker's defaults."""
        return LogConfig.from_broker(self._config, self._topic_configs(topic))

    def prefer(self, topic_partition: TopicPartition, directory: LogDirectory) -> None:
        """Remember to create the partition's next log in ``directory``; does nothing if its log is there already."""
        with self._lock:
            self._preferred.add(topic_partition, directory)

    def get_or_create_log(
        self,
        topic_partition: TopicPartition,
        topic_id: bytes | None = None,
        config: LogConfig | None = None,
        *,
        is_new: bool = True,
    ) -> UnifiedLog:
        """Return a partition's log. A new one is created in the preferred directory, or in the one with the fewest logs.

        The log of a partition that is not ``is_new`` may be in an offline directory: nothing is created then. If all directories
        are online, the log is lost, and the future log of an unfinished move takes its place.
        Raises KafkaStorageError if the log cannot be created, InconsistentTopicIdError if it has another topic id.
        """
        log = self._logs.get(topic_partition)
        if log is None:
            adopted = False
            with self._lock:
                log = self._logs.get(topic_partition)
                if log is None and not is_new:
                    self._all.ensure_none_is_offline(topic_partition)
                    log = self._adopt_future_log(topic_partition, topic_id)
                    adopted = log is not None
                if log is None:
                    log = self._create(topic_partition, config or self.topic_config(topic_partition.topic))
                    self._logs[topic_partition] = log
            if adopted and self.cleaner is not None:
                self.cleaner.manager.resume([topic_partition])
        if topic_id is not None:
            log.assign_topic_id(topic_id)
        return log

    def _adopt_future_log(self, topic_partition: TopicPartition, topic_id: bytes | None) -> UnifiedLog | None:
        """Replace a lost log by its future log and return it. Returns None if this topic has no future log.

        The source of a move is lost if its disk dies and leaves ``log.dirs``. Apache Kafka then creates an empty log, and the move
        truncates the copy to nothing. The caller does this only while all directories are online, as the log may be in one that is
        not. If the source comes back, the start takes the log with the later epoch and offset and renames the other to ``-stray``.
        """
        future = self._future_logs.get(topic_partition)
        if future is None or (topic_id is not None and future.topic_id not in (None, topic_id)):
            return None
        _log.warn(
            "{partition} has no log in any directory of log.dirs, but {path} has the copy of an unfinished move: the copy becomes "
            "the log, with the records up to offset {end}",
            partition=str(topic_partition),
            path=str(future.parent),
            end=future.log_end_offset,
        )
        self._promote(future)
        self._metrics.log_added(future)
        return future

    def _promote(self, future: UnifiedLog) -> None:
        """Make a future log the log of its partition; raises KafkaStorageError. The caller holds the lock."""
        topic_partition = future.topic_partition
        self._metrics.log_removed(future)
        try:
            future.move_to(future.parent / str(topic_partition))
            sync_directory(future.parent)
        except OSError as error:
            self._metrics.log_added(future)
            self.storage_failed(future.parent, error)
            raise KafkaStorageError(f"cannot replace {topic_partition} by {future.dir}: {error}") from error
        self._logs[topic_partition] = future
        del self._future_logs[topic_partition]

    def get_or_create_future_log(self, topic_partition: TopicPartition, topic_id: bytes | None) -> UnifiedLog:
        """Return a partition's future log; a new one is created in the preferred directory.

        Raises KafkaStorageError if it cannot be created, or if any directory is offline, as it may exist there.
        """
        log = self._future_logs.get(topic_partition)
        if log is None:
            log = self._create_future_log(topic_partition)
        if topic_id is not None:
            log.assign_topic_id(topic_id)
        return log

    def _create_future_log(self, topic_partition: TopicPartition) -> UnifiedLog:
        # Paused, or records that were copied before a compaction would count as compacted. This may wait, so not under the lock.
        if self.cleaner is not None:
            self.cleaner.manager.abort_and_pause(topic_partition)
        is_new = False
        try:
            with self._lock:
                log = self._future_logs.get(topic_partition)
                if log is None:
                    self._all.ensure_none_is_offline(topic_partition)
                    log = self._create(topic_partition, self.topic_config(topic_partition.topic), is_future=True)
                    self._future_logs[topic_partition] = log
                    is_new = True
                return log
        finally:
            if self.cleaner is not None and not is_new:
                self.cleaner.manager.resume([topic_partition])

    def _create(self, topic_partition: TopicPartition, config: LogConfig, *, is_future: bool = False) -> UnifiedLog:
        preferred = self._preferred.get(topic_partition)
        if is_future and preferred is None:
            raise KafkaStorageError(f"no target directory is set for the move of {topic_partition}")
        name = str(topic_partition)
        if is_future:
            name = marked_directory_name(topic_partition, FUTURE_DIRECTORY_SUFFIX, may_cut=False)
        causes: list[str] = []
        last_error: OSError | None = None
        for directory in self._all.by_fewest_logs() if preferred is None else [preferred]:
            if not directory.is_online:
                causes.append(f"{directory.path} is offline")
                continue
            if topic_partition in directory.logs:
                causes.append(f"{directory.path} already has a log of it")
                continue
            try:
                log = UnifiedLog.create(directory.path / name, topic_partition, config, self._environment)
            except OSError as error:
                self._all.failed(directory, error)
                causes.append(f"{directory.path}: {error}")
                last_error = error
                continue
            directory.names_changed()
            directory.logs[topic_partition] = log
            self._preferred.remove(topic_partition)
            self._metrics.log_added(log)
            return log
        raise KafkaStorageError(f"cannot create {name}: {'; '.join(causes) or 'no log directory is online'}") from last_error

    def update_topic_config(self, topic: str) -> None:
        """Apply a topic's current config to its logs."""
        config = self.topic_config(topic)
        for log in (*self._logs.of_topic(topic), *self._future_logs.of_topic(topic)):
            self._update_config(log, config)

    def _update_config(self, log: UnifiedLog, config: LogConfig) -> None:
        was_compacted = log.config.compact
        log.update_config(config)
        if was_compacted and not config.compact and self.cleaner is not None:
            self.cleaner.manager.abort_cleaning(log.topic_partition)

    def cordon(self, config: KafkaConfig) -> None:
        """Apply ``cordoned.log.dirs``."""
        self._all.cordon(config.list("cordoned.log.dirs"))

    @property
    def is_cordoned(self) -> bool:
        """Whether no log directory takes new replicas."""
        return all(directory.is_cordoned for directory in self.directories)

    def reconfigure(self, config: KafkaConfig) -> None:
        """Apply a new broker config, which has the defaults of topics."""
        self._config = config
        self._environment.producers.expiration_ms = config.int("producer.id.expiration.ms")
        configs: dict[str, LogConfig] = {}
        for log in self.all_logs():
            topic = log.topic_partition.topic
            if topic not in configs:
                configs[topic] = self.topic_config(topic)
            self._update_config(log, configs[topic])

    # Moving and deleting.

    def replace_by_future_log(self, topic_partition: TopicPartition) -> UnifiedLog:
        """Replace a partition's log by its future log, which is complete, and delete the old one; returns the new log.

        The caller prevents appends. Raises KafkaStorageError if nothing was changed.
        """
        present, future = self._logs.get(topic_partition), self._future_logs.get(topic_partition)
        if present is not None and future is not None and future.recovery_point < present.recovery_point:
            future.flush()  # durable records of the old log must be durable in the new one
        with self._lock:
            source, target = self._logs.get(topic_partition), self._future_logs.get(topic_partition)
            if source is None or target is None:
                raise KafkaStorageError(f"a replica of {topic_partition} went offline during the replacement")
            target.update_high_watermark(source.high_watermark)
            self._promote(target)  # durably, before the old log is deleted
            self._forget(source)
            self._metrics.log_added(target)  # replaces the metrics of the old log
        try:
            self._remover.remove(source)
        except KafkaStorageError as error:
            # The replica has moved anyway. If the next start finds both logs, it uses the longer one.
            _log.error("{error}", error=error)
        if self.cleaner is not None:
            self.cleaner.manager.moved(topic_partition, self._all.find(source.parent), self._all.find(target.parent))
            self.cleaner.manager.resume([topic_partition])
        for log in (target, source):
            self._all.checkpoint(log.parent)
        return target

    def delete_log(self, topic_partition: TopicPartition) -> bool:
        """Remove a log at once, and its files after ``file.delete.delay.ms``; returns whether there was one.

        Call ``forget_deleted`` before a log of the same name is created.
        Raises KafkaStorageError if the log's directory cannot be renamed.
        """
        self.delete_future_log(topic_partition)
        if self.cleaner is None:
            return self._delete(self._logs, topic_partition)
        self.cleaner.manager.abort_and_pause(topic_partition)
        try:
            return self._delete(self._logs, topic_partition)
        finally:
            self.cleaner.manager.resume([topic_partition])

    def delete_future_log(self, topic_partition: TopicPartition) -> bool:
        """Cancel a move: delete the future log in the same way; returns whether there was one."""
        was_there = topic_partition in self._future_logs
        try:
            return self._delete(self._future_logs, topic_partition)
        finally:
            if was_there and self.cleaner is not None:
                self.cleaner.manager.resume([topic_partition])

    def _delete(self, logs: LogTable, topic_partition: TopicPartition) -> bool:
        with self._lock:
            log = logs.take(topic_partition)
            if log is None:
                return False
            self._forget(log)
        self._metrics.log_removed(log)
        self._remover.remove(log)
        return True

    def _forget(self, log: UnifiedLog) -> None:
        directory = self._all.find(log.parent)
        if directory is not None and directory.logs.get(log.topic_partition) is log:
            del directory.logs[log.topic_partition]

    # Truncation.

    def truncate_to(self, topic_partition: TopicPartition, offset: int) -> bool:
        """Truncate a log to ``offset``; returns whether anything was removed (Kafka: ``LogManager.truncateTo``)."""
        log = self._logs.get(topic_partition)
        if log is None:
            return False
        # The cleaner does not touch the active segment.
        return self._while_not_cleaned(log, lambda: log.truncate_to(offset), is_concerned=offset < log.segments.active.base_offset)

    def truncate_fully_and_start_at(
        self, topic_partition: TopicPartition, offset: int, log_start_offset: int | None = None
    ) -> None:
        """Remove all records of a log, and let it start at ``offset``."""
        log = self._logs.get(topic_partition)
        if log is not None:
            self._while_not_cleaned(log, lambda: log.truncate_fully_and_start_at(offset, log_start_offset))

    def _while_not_cleaned(self, log: UnifiedLog, action: Callable[[], _T], *, is_concerned: bool = True) -> _T:
        if self.cleaner is None or not is_concerned:
            return action()
        manager = self.cleaner.manager
        manager.abort_and_pause(log.topic_partition)
        try:
            result = action()
            manager.truncated(log)
            return result
        finally:
            manager.resume([log.topic_partition])

    # Checkpoints and failures.

    def forget_deleted(self) -> None:
        """Rewrite checkpoints with offsets of deleted logs, so that a new log of the same name does not inherit them."""
        self._all.forget_deleted()
        if self.cleaner is not None:
            self.cleaner.manager.forget_deleted()

    def directory_failed(self, directory: LogDirectory, error: OSError) -> None:
        """Take a directory offline after an I/O error; its logs raise KafkaStorageError when they need the disk."""
        self._all.failed(directory, error)

    @property
    def has_failed_directory(self) -> bool:
        """Whether any log directory is offline."""
        return bool(self._all.offline)

    def storage_failed(self, path: Path, error: OSError) -> None:
        """Take the directory at ``path`` offline after an I/O error."""
        directory = self._all.find(path)
        if directory is not None:
            self._all.failed(directory, error)

    def forget_directory(self, directory: LogDirectory) -> None:
        """Remove the logs in an offline directory, and release its lock (Kafka: ``LogManager.handleLogDirFailure``)."""
        moving = []
        with self._lock:
            logs, directory.logs = list(directory.logs.values()), {}
            for log in logs:
                known = self._future_logs if log.is_future else self._logs
                if known.get(log.topic_partition) is log:
                    del known[log.topic_partition]
                    if log.is_future:
                        moving.append(log.topic_partition)
        if self.cleaner is not None:
            self.cleaner.manager.resume(moving)
            self.cleaner.manager.directory_failed(directory)
        for log in logs:
            self._metrics.log_removed(log)
            log.close_handles()
        directory.release()
