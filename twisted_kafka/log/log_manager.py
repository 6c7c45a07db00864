"""LogManager: all logs of a broker, in the directories of ``log.dirs``."""

import errno
import os
import threading
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

from twisted.logger import Logger

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.topic_config import LogConfig
from twisted_kafka.log.environment import LogEnvironment
from twisted_kafka.log.files import DELETED_DIRECTORY_SUFFIX, remove_if_there
from twisted_kafka.log.log_directory import NO_BROKER_EPOCH, LogDirectory
from twisted_kafka.log.log_tasks import LogTasks
from twisted_kafka.log.startup import DirectoryLoader
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.protocol.errors import KafkaStorageError
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.timing.clock import IClock
from twisted_kafka.timing.scheduler import IScheduler

TopicConfigLookup = Callable[[str], Mapping[str, str]]
"""Returns a topic's own settings, by its name."""

MAX_NAME_BYTES = 255

_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)

_log = Logger()


class LogManager:
    """Makes, finds, flushes, checkpoints and deletes logs.

    ``startup`` must have returned before anything else is asked; ``get_log`` may then be called by any thread without a lock.
    ``on_directory_failure`` is told of a directory that went offline after an I/O error.
    """

    def __init__(
        self,
        config: KafkaConfig,
        scheduler: IScheduler,
        clock: IClock,
        *,
        on_directory_failure: Callable[[LogDirectory], None] | None = None,
    ) -> None:
        self.clock = clock
        self._config = config
        self._scheduler = scheduler
        self._on_directory_failure = on_directory_failure
        self._topic_configs: TopicConfigLookup = lambda _topic: {}
        self._logs: dict[TopicPartition, UnifiedLog] = {}
        self._lock = threading.Lock()
        self.directories = [LogDirectory(Path(os.path.abspath(path))) for path in dict.fromkeys(config.log_dirs)]
        self._environment = LogEnvironment(
            clock,
            scheduler,
            on_storage_failure=self._storage_failed,
            producer_expiration_ms=config.int("producer.id.expiration.ms"),
        )
        self._tasks = LogTasks(self)

    # Starting and stopping.

    def acquire_directories(self) -> None:
        """Take the locks of the log directories; ``startup`` does so if nobody did. Raises LogDirectoryError, holding none."""
        held: list[LogDirectory] = []
        try:
            for directory in self.directories:
                if not directory.is_held:
                    directory.acquire()
                    held.append(directory)
        except BaseException:
            for directory in held:
                directory.release()
            raise

    def startup(self, topic_config_lookup: TopicConfigLookup | None = None) -> None:
        """Load the logs, with as many threads per directory as ``num.recovery.threads.per.data.dir``, and begin the periodic tasks.

        Raises LogDirectoryError when a directory cannot be used, OSError, ValueError for files that cannot be understood.
        """
        self.acquire_directories()
        if topic_config_lookup is not None:
            self._topic_configs = topic_config_lookup
        threads = self._config.int("num.recovery.threads.per.data.dir")
        loader = DirectoryLoader(self._environment, self.topic_config, threads)
        for log in loader.load(self.directories):
            if log.topic_partition in self._logs:
                other = self._logs[log.topic_partition]
                raise ValueError(f"{log.topic_partition} lies in two log directories: {other.dir} and {log.dir}")
            self._logs[log.topic_partition] = log
        for path in loader.marked_directories:
            self._schedule_removal(path, 0)
        self.forget_deleted()
        self._tasks.start(self._config, self._scheduler)

    def shutdown(self, broker_epoch: int = NO_BROKER_EPOCH) -> None:
        """Flush and close every log, write the checkpoints and, where all went well, the clean-shutdown file; release the locks."""
        self._tasks.stop()
        for directory in self.directories:
            try:
                self._close_directory(directory, broker_epoch)
            finally:
                directory.release()

    def _close_directory(self, directory: LogDirectory, broker_epoch: int) -> None:
        logs = self.logs_in(directory)
        if not directory.is_online:
            for log in logs:
                log.close_handles()
            return
        try:
            for log in logs:
                log.flush()
                log.close()
            self.checkpoint_recovery_points(directory)
            self.checkpoint_log_start_offsets(directory)
            directory.write_clean_shutdown(broker_epoch)
        except (OSError, KafkaStorageError):
            _log.failure("{path} could not be closed cleanly: the next start will recover it", path=str(directory.path))

    # Finding and making.

    def get_log(self, topic_partition: TopicPartition) -> UnifiedLog | None:
        """Return a partition's log, or None."""
        return self._logs.get(topic_partition)

    def all_logs(self) -> list[UnifiedLog]:
        """Return every log."""
        return list(self._logs.values())

    def logs_in(self, directory: LogDirectory) -> list[UnifiedLog]:
        """Return the logs of one directory."""
        return [log for log in self.all_logs() if log.dir.parent == directory.path]

    def directory_of(self, topic_partition: TopicPartition) -> LogDirectory | None:
        """Return the directory that a partition's log lies in, or None when there is no log."""
        log = self._logs.get(topic_partition)
        if log is None:
            return None
        return next((directory for directory in self.directories if directory.path == log.dir.parent), None)

    def topic_config(self, topic: str) -> LogConfig:
        """Return a topic's settings: its own, else the broker's."""
        return LogConfig.from_broker(self._config, self._topic_configs(topic))

    def get_or_create_log(
        self, topic_partition: TopicPartition, topic_id: bytes | None = None, config: LogConfig | None = None
    ) -> UnifiedLog:
        """Return a partition's log; a new one is made in the online directory with the fewest logs.

        Raises KafkaStorageError when it cannot be made, InconsistentTopicIdError when the existing log is of another topic id.
        """
        log = self._logs.get(topic_partition)
        if log is None:
            with self._lock:
                log = self._logs.get(topic_partition)
                if log is None:
                    log = self._create(topic_partition, config or self.topic_config(topic_partition.topic))
                    self._logs[topic_partition] = log
        if topic_id is not None:
            log.assign_topic_id(topic_id)
        return log

    def _create(self, topic_partition: TopicPartition, config: LogConfig) -> UnifiedLog:
        online = [directory for directory in self.directories if directory.is_online]
        if not online:
            raise KafkaStorageError(f"no log directory is online for {topic_partition}")
        directory = online[0] if len(online) == 1 else min(online, key=lambda candidate: len(self.logs_in(candidate)))
        try:
            return UnifiedLog.open(
                directory.path / str(topic_partition), topic_partition, config, self._environment, was_clean=True
            )
        except OSError as error:
            self._storage_failed(directory.path, error)
            raise KafkaStorageError(f"cannot make {topic_partition} in {directory.path}: {error}") from error

    def update_topic_config(self, topic: str) -> None:
        """Let the logs of a topic go by its settings as they are now."""
        config = self.topic_config(topic)
        for log in self.all_logs():
            if log.topic_partition.topic == topic:
                log.update_config(config)

    def reconfigure(self, config: KafkaConfig) -> None:
        """Go by other broker settings where they are the default of topics."""
        self._config = config
        self._environment.producer_expiration_ms = config.int("producer.id.expiration.ms")
        for topic in {log.topic_partition.topic for log in self.all_logs()}:
            self.update_topic_config(topic)

    # Deleting.

    def delete_log(self, topic_partition: TopicPartition) -> bool:
        """Take a log away at once, and remove its files after ``file.delete.delay.ms``; returns whether there was one.

        ``forget_deleted`` is to be called before a log of the same name is made.
        Raises KafkaStorageError when its directory cannot be renamed.
        """
        with self._lock:
            log = self._logs.pop(topic_partition, None)
        if log is None:
            return False
        parent = log.dir.parent
        ending = f".{uuid.uuid4().hex}{DELETED_DIRECTORY_SUFFIX}"
        numbered = f"-{topic_partition.partition}{ending}"
        doomed = parent / (topic_partition.topic[: MAX_NAME_BYTES - len(numbered)] + numbered)
        try:
            log.move_to(doomed)
        except OSError as error:
            self._storage_failed(parent, error)
            raise KafkaStorageError(f"cannot delete {topic_partition} in {parent}: {error}") from error
        log.close_handles()
        self._schedule_removal(doomed, log.config.file_delete_delay_ms)
        return True

    def forget_deleted(self) -> None:
        """Write the checkpoints anew where they have offsets of logs that are gone: a new log of that name has not those."""
        for directory in self.directories:
            if not directory.is_online:
                continue
            try:
                if not directory.is_current(directory.recovery_points, self._logs):
                    self.checkpoint_recovery_points(directory)
                if not directory.is_current(directory.log_start_offsets, self._logs):
                    self.checkpoint_log_start_offsets(directory)
            except OSError as error:
                self.directory_failed(directory, error)

    def _schedule_removal(self, path: Path, delay_ms: int) -> None:
        def remove() -> None:
            for child in list(path.iterdir()):
                remove_if_there(child)
            path.rmdir()

        self._scheduler.schedule_once("delete-log", remove, delay_ms)

    # Checkpoints and failures.

    def checkpoint_recovery_points(self, directory: LogDirectory) -> None:
        """Write up to where each log is known to be on disk; raises OSError."""
        points = {log.topic_partition: log.recovery_point for log in self.logs_in(directory)}
        directory.write_checkpoint(directory.recovery_points, points)

    def checkpoint_log_start_offsets(self, directory: LogDirectory) -> None:
        """Write where the logs begin that begin after their first segment; raises OSError."""
        starts = {
            log.topic_partition: log.log_start_offset
            for log in self.logs_in(directory)
            if log.log_start_offset > log.segments.first.base_offset
        }
        directory.write_checkpoint(directory.log_start_offsets, starts)

    def directory_failed(self, directory: LogDirectory, error: OSError) -> None:
        """Take a directory offline after an I/O error; its logs answer KafkaStorageError where they need the disk.

        Having no file descriptor left says nothing about the disk: what needed one has failed, and that is all.
        """
        if not directory.is_online:
            return
        if error.errno in _OUT_OF_DESCRIPTORS:
            _log.error("{path}: {error}; the limit of open files is too low", path=str(directory.path), error=error)
            return
        directory.is_online = False
        _log.error("{path} goes offline: {error}", path=str(directory.path), error=error)
        if self._on_directory_failure is not None:
            self._on_directory_failure(directory)

    def _storage_failed(self, path: Path, error: OSError) -> None:
        for directory in self.directories:
            if directory.path == path:
                self.directory_failed(directory, error)
