"""All log directories of a broker: their locks, which are online, the choice for new logs, and a table of logs."""

import errno
import os
from collections.abc import Callable, Collection, Iterable
from functools import partial
from pathlib import Path

from twisted.logger import Logger
from typing_extensions import override

from twisted_kafka.config.broker_config import ALL_LOG_DIRS
from twisted_kafka.log.directories.log_directory import LogDirectory, LogDirectoryError, UnusableDirectoryError
from twisted_kafka.log.files import sync_file_system
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.protocol.errors import KafkaStorageError, LogDirNotFoundError
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.system import machine
from twisted_kafka.system.threads import for_each

DirectoryFailureListener = Callable[[LogDirectory], None]

MIN_CLOSING_THREADS = 8
LOGS_PER_CLOSING_THREAD = 16
MIN_LOGS_FOR_SYNCFS = 64
"""With at least this many unflushed logs, the whole file system is synced first, which makes the flushes of single logs fast."""
MAX_PREFERRED_DIRECTORIES = 10_000
"""The most partitions with a preferred directory. Above it, the oldest entry is dropped."""
_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)

_log = Logger()


def is_out_of_descriptors(error: BaseException | None) -> bool:
    """Return whether ``error`` or one of its causes is that the process is out of file descriptors."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _OUT_OF_DESCRIPTORS:
            return True
        error = error.__cause__
    return False


class LogDirectories:
    """The entries of ``log.dirs``, in order (Kafka: ``LogManager.liveLogDirs`` and ``LogDirFailureChannel``).

    ``on_failure`` is called with a directory that goes offline, on the thread that had the I/O error.
    """

    def __init__(self, paths: Iterable[str], on_failure: DirectoryFailureListener | None = None) -> None:
        self.all = [LogDirectory(Path(os.path.abspath(path))) for path in dict.fromkeys(paths)]
        self._failing = machine.Lock()
        """Held while a directory goes offline: it must fail only once, whatever threads meet its errors."""
        self._by_path = {directory.path: directory for directory in self.all}
        self._on_failure = on_failure

    @property
    def online(self) -> list[LogDirectory]:
        """The directories without an I/O error."""
        return [directory for directory in self.all if directory.is_online]

    @property
    def offline(self) -> list[LogDirectory]:
        """The directories that are offline after an I/O error."""
        return [directory for directory in self.all if not directory.is_online]

    def ensure_none_is_offline(self, topic_partition: TopicPartition) -> None:
        """Raise KafkaStorageError if any directory is offline, as the partition's log may be in it."""
        if self.offline:
            paths = ", ".join(str(directory.path) for directory in self.offline)
            raise KafkaStorageError(f"cannot create the log of {topic_partition}: it may exist in {paths}, which is offline")

    def acquire(self) -> None:
        """Lock the directories. A directory with an I/O error is offline from the start.

        Raises LogDirectoryError, without holding any lock, if another broker holds one or all directories are unusable.
        """
        unusable: list[UnusableDirectoryError] = []
        try:
            for directory in self.online:
                if not directory.is_held:
                    try:
                        directory.acquire()
                    except UnusableDirectoryError as error:
                        unusable.append(error)
                        directory.is_online = False
            if not self.online:
                raise LogDirectoryError("; ".join(map(str, unusable)) or "all log directories are offline")
        except BaseException:
            self.release()
            raise
        for each in unusable:
            _log.error("{error}; the broker starts without it", error=each)

    def release(self) -> None:
        """Release the locks."""
        for directory in self.all:
            directory.release()

    def close(self, broker_epoch: int, threads: int) -> None:
        """Flush and close the logs, with at least ``threads`` threads per directory; mark directories clean, and release them."""
        try:
            for_each(len(self.all), "log-closing-", partial(_close_logs, broker_epoch=broker_epoch, threads=threads), self.all)
        finally:
            self.release()

    def find(self, path: Path) -> LogDirectory | None:
        """Return the directory at ``path``, or None."""
        return self._by_path.get(path)

    def named(self, path: str) -> LogDirectory:
        """Return the directory with the absolute path that a client sent; raises LogDirNotFoundError."""
        directory = self._by_path.get(Path(path)) if path else None
        if directory is None or str(directory.path) != path:
            raise LogDirNotFoundError(f"{path!r} is not a log directory of this broker")
        return directory

    def by_fewest_logs(self) -> list[LogDirectory]:
        """Return the online directories in the order of preference for a new log (Kafka: ``LogManager.nextLogDirs``).

        Cordoned directories are last: a log that the controller has assigned goes there if nothing else is left.
        """
        return sorted(self.online, key=lambda directory: (directory.is_cordoned, len(directory.logs)))

    def cordon(self, paths: Collection[str]) -> None:
        """Give new logs to other directories than these; ALL_LOG_DIRS stands for all."""
        cordoned = {os.path.abspath(path) for path in paths if path != ALL_LOG_DIRS}
        for directory in self.all:
            directory.is_cordoned = ALL_LOG_DIRS in paths or str(directory.path) in cordoned

    def checkpoint(self, path: Path) -> None:
        """Checkpoint the recovery points and log start offsets of the directory at ``path``, unless it is offline."""
        directory = self._by_path.get(path)
        if directory is None or not directory.is_online:
            return
        try:
            directory.checkpoint_recovery_points()
            directory.checkpoint_log_start_offsets()
        except OSError as error:
            self.failed(directory, error)

    def checkpoint_start(self, log: UnifiedLog) -> None:
        """Write the log start offsets, unless that of the log is in the checkpoint already."""
        directory = self._by_path[log.parent]
        if directory.is_online:
            try:
                directory.checkpoint_start(log)
            except OSError as error:
                self.failed(directory, error)

    def checkpoint_truncated(self, log: UnifiedLog) -> bool:
        """Lower the checkpoints to the offsets of a log that was truncated, if need be; returns whether that succeeded."""
        directory = self._by_path[log.parent]
        if not directory.is_online:
            return False
        try:
            directory.checkpoint_truncated(log)
        except OSError as error:
            self.failed(directory, error)
            return False
        return True

    def sync_names(self, path: Path) -> None:
        """Make the names of the logs in the directory at ``path`` durable; raises OSError."""
        directory = self._by_path.get(path)
        if directory is not None:
            directory.sync_names()

    def forget_deleted(self) -> None:
        """Rewrite checkpoints with offsets of deleted logs, so that a new log of the same name does not inherit them."""
        for directory in self.online:
            checkpoints = (directory.recovery_points, directory.log_start_offsets)
            if not all(directory.is_current(checkpoint, directory.logs) for checkpoint in checkpoints):
                self.checkpoint(directory.path)

    def correct_recovery_points(self) -> None:
        """Rewrite checkpoints with recovery points above the logs': recovery would take new records for flushed."""
        for directory in self.online:
            if directory.has_recovery_point_beyond():
                self.checkpoint(directory.path)

    def failed(self, directory: LogDirectory, error: OSError) -> None:
        """Take a directory offline after an I/O error; its logs raise KafkaStorageError when they need the disk.

        A lack of file descriptors is no failure of the disk: it fails only the operation.
        """
        if is_out_of_descriptors(error):
            _log.error("{path}: {error}; raise the limit of open files (ulimit -n)", path=str(directory.path), error=error)
            return
        with self._failing:
            if not directory.is_online:
                return
            directory.is_online = False
        _log.error("{path} goes offline until the next start: {error}", path=str(directory.path), error=error)
        if self._on_failure is not None:
            self._on_failure(directory)


def _close_logs(directory: LogDirectory, broker_epoch: int, threads: int) -> None:
    logs = list(directory.logs.values())
    if not directory.is_online:
        for log in logs:
            log.close_handles()
        return
    try:
        # More threads, as they mostly wait for the disk, which serves several in little more time than one.
        threads = max(threads, min(MIN_CLOSING_THREADS, len(logs) // LOGS_PER_CLOSING_THREAD + 1))
        on_threads = partial(for_each, threads, f"log-closing-{directory.path}-")
        unflushed = [log for log in logs if log.recovery_point < log.log_end_offset]
        if len(unflushed) >= MIN_LOGS_FOR_SYNCFS:
            on_threads(UnifiedLog.write_out, unflushed)
            sync_file_system(directory.path)
        on_threads(UnifiedLog.flush_and_close, logs)
        directory.checkpoint_recovery_points()
        directory.checkpoint_log_start_offsets()
        # An interrupted start has changed nothing: a directory that was clean still is.
        if directory.is_loaded or directory.was_clean:
            directory.write_clean_shutdown(broker_epoch)
    except Exception:  # noqa: BLE001 the other directories are closed, too
        _log.failure("{path} could not be closed cleanly: the next start will recover its logs", path=str(directory.path))


class PreferredDirectories:
    """The directories that an administrator chose for new logs (AlterReplicaLogDirs). Used under the log manager's lock."""

    def __init__(self) -> None:
        self._preferred: dict[TopicPartition, LogDirectory] = {}

    def add(self, topic_partition: TopicPartition, directory: LogDirectory) -> None:
        """Set the directory for the partition's next log; does nothing if its log is there already."""
        if topic_partition in directory.logs:
            return
        self.remove(topic_partition)
        while len(self._preferred) >= MAX_PREFERRED_DIRECTORIES:
            del self._preferred[next(iter(self._preferred))]
        self._preferred[topic_partition] = directory

    def get(self, topic_partition: TopicPartition) -> LogDirectory | None:
        """Return the preferred directory, or None."""
        return self._preferred.get(topic_partition)

    def remove(self, topic_partition: TopicPartition) -> None:
        """Remove the partition's preferred directory."""
        self._preferred.pop(topic_partition, None)


class LogTable(dict[TopicPartition, UnifiedLog]):
    """Logs by partition, which also finds those of a topic without looking at all others. Changed under the log manager's lock."""

    def __init__(self) -> None:
        super().__init__()
        self._topics: dict[str, dict[TopicPartition, UnifiedLog]] = {}

    def of_topic(self, topic: str) -> list[UnifiedLog]:
        """Return the logs of a topic."""
        return list(self._topics.get(topic, {}).values())

    @override
    def __setitem__(self, topic_partition: TopicPartition, log: UnifiedLog) -> None:
        super().__setitem__(topic_partition, log)
        self._topics.setdefault(topic_partition.topic, {})[topic_partition] = log

    @override
    def __delitem__(self, topic_partition: TopicPartition) -> None:
        super().__delitem__(topic_partition)
        logs = self._topics[topic_partition.topic]
        del logs[topic_partition]
        if not logs:
            del self._topics[topic_partition.topic]

    def take(self, topic_partition: TopicPartition) -> UnifiedLog | None:
        """Remove the log of a partition and return it, or None."""
        log = self.get(topic_partition)
        if log is not None:
            del self[topic_partition]
        return log
