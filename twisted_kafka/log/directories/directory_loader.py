"""Loads the logs of all log directories, in parallel."""

import os
from collections.abc import Callable, Collection, Generator
from pathlib import Path

from twisted.logger import Logger

from twisted_kafka.config.topic_config import LogConfig
from twisted_kafka.log.checkpoints import MalformedCheckpointError
from twisted_kafka.log.directories.loading_progress import LoadingProgress
from twisted_kafka.log.directories.log_directories import LogDirectories
from twisted_kafka.log.directories.log_directory import LogDirectory
from twisted_kafka.log.environment import LogEnvironment
from twisted_kafka.log.files import (
    DELETED_DIRECTORY_SUFFIX,
    STRAY_DIRECTORY_SUFFIX,
    marked_directory_name,
    parse_partition_directory,
    sync_directory,
)
from twisted_kafka.log.loading.log_loader import LastStop
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.protocol.errors import KafkaStorageError
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.system.threads import make_pool

IGNORED_DIRECTORIES = ("__cluster_metadata-0", "remote-log-index-cache", "lost+found")

MIN_LOADING_THREADS = 4
"""A directory that was closed cleanly is opened by at least this many threads, if it has enough logs.

Each log takes a few reads of a few bytes. With a cold page cache one thread waits for them most of the time.
"""
LOGS_PER_LOADING_THREAD = 64

Job = Callable[[], UnifiedLog | None]

_log = Logger()


class DirectoryLoader:
    """Opens the logs in log directories. A directory with an I/O error goes offline.

    Afterwards ``logs`` are the partitions' logs, ``future_logs`` those of replicas that are being moved to another log directory,
    ``marked_directories`` the directories of logs whose deletion was not finished.
    """

    def __init__(
        self,
        environment: LogEnvironment,
        topic_config: Callable[[str], LogConfig],
        threads_per_directory: int,
        progress: LoadingProgress,
    ) -> None:
        self._environment = environment
        self._topic_config = topic_config
        self._topic_configs: dict[str, LogConfig] = {}
        self._threads = threads_per_directory
        self._progress = progress
        self.logs: dict[TopicPartition, UnifiedLog] = {}
        self.future_logs: dict[TopicPartition, UnifiedLog] = {}
        self.marked_directories: list[Path] = []

    def load(self, directories: LogDirectories) -> None:
        """Open every log; raises LoadingInterruptedError, and ValueError for malformed files.

        Raises OSError if the process is out of file descriptors, which takes no directory offline.
        """
        jobs: list[tuple[LogDirectory, list[Job]]] = []
        for directory in directories.online:
            try:
                jobs.append((directory, self._prepare(directories, directory)))
            except OSError as error:
                directories.failed(directory, error)
                if directory.is_online:
                    raise
        # Closed here, not when it is collected: its threads end with it if adding a log fails.
        results = self._run(jobs)
        try:
            for directory, log in results:
                if log is not None and directory.is_online:
                    self._add(directory, log)
        finally:
            results.close()
            self._progress.end()
        self._restart_copies(directories)
        for directory, _ in jobs:
            # Without the logs that were set aside as strays.
            directory.logs = {tp: log for tp, log in directory.logs.items() if log in (self.logs.get(tp), self.future_logs.get(tp))}
            directory.is_loaded = directory.is_online

    def _restart_copies(self, directories: LogDirectories) -> None:
        """Empty future logs that begin after their logs.

        A crash may take back the deletion of records, and with it their offsets: the copy lacks what came in their place.
        """
        for topic_partition, future in self.future_logs.items():
            log = self.logs.get(topic_partition)
            if log is None or future.log_start_offset <= log.log_start_offset:
                continue
            source = directories.find(log.parent)
            if source is not None and not source.was_clean:
                try:
                    future.truncate_fully_and_start_at(log.log_start_offset)
                except KafkaStorageError:
                    target = directories.find(future.parent)
                    if target is not None and target.is_online:
                        raise

    def _run(self, jobs: list[tuple[LogDirectory, list[Job]]]) -> Generator[tuple[LogDirectory, UnifiedLog | None]]:
        """Run the jobs; each directory has its own threads."""
        threads = [self._threads_for(directory, len(each)) for directory, each in jobs]
        if max(threads, default=1) == 1 and sum(bool(each) for _, each in jobs) <= 1:
            for directory, each in jobs:
                for job in each:
                    yield directory, job()
            return
        pools = [make_pool(count, f"log-recovery-{directory.path}-") for count, (directory, _) in zip(threads, jobs, strict=True)]
        try:
            # Start all directories before waiting for any.
            results = [pool.map(_call, each) for pool, (_, each) in zip(pools, jobs, strict=True)]
            for (directory, _), logs in zip(jobs, results, strict=True):
                for log in logs:
                    yield directory, log
        finally:
            for pool in pools:
                pool.shutdown(wait=True, cancel_futures=True)

    def _threads_for(self, directory: LogDirectory, logs: int) -> int:
        if not directory.was_clean:
            return self._threads
        return max(self._threads, min(MIN_LOADING_THREADS, logs // LOGS_PER_LOADING_THREAD + 1))

    def _prepare(self, directories: LogDirectories, directory: LogDirectory) -> list[Job]:
        was_clean = directory.take_clean_shutdown()
        recovery_points = directory.read_checkpoint(directory.recovery_points)
        start_offsets = directory.read_checkpoint(directory.log_start_offsets)
        compacted = _compacted_in(directory)
        found = self._partition_directories(directory)
        if found and not was_clean:
            _log.info("Recovering the logs in {path}, as its last shutdown was not clean", path=str(directory.path))
        self._progress.begin(directory, len(found))

        def job(path: Path, topic_partition: TopicPartition) -> UnifiedLog | None:
            self._progress.check()
            if not directory.is_online:
                return None
            try:
                log = UnifiedLog.open(
                    path,
                    topic_partition,
                    self._config(topic_partition.topic),
                    self._environment,
                    LastStop(
                        recovery_points.get(topic_partition, 0),
                        start_offsets.get(topic_partition, 0),
                        was_clean,
                        compacted is None or topic_partition in compacted,
                    ),
                    self._progress.segments_of(directory),
                )
                if log.is_future and not was_clean:
                    # Nothing detects missing records in an unflushed copy; the log that it will replace still has them.
                    log.truncate_to(recovery_points.get(topic_partition, 0))
            except (OSError, KafkaStorageError) as error:
                if isinstance(error, OSError):
                    directories.failed(directory, error)
                if directory.is_online:
                    raise
                return None
            self._progress.log_done(directory)
            return log

        return [lambda path=path, tp=tp: job(path, tp) for path, tp in found]  # type: ignore[misc]

    def _config(self, topic: str) -> LogConfig:
        config = self._topic_configs.get(topic)
        if config is None:
            config = self._topic_configs[topic] = self._topic_config(topic)
        return config

    def _partition_directories(self, directory: LogDirectory) -> list[tuple[Path, TopicPartition]]:
        with os.scandir(directory.path) as entries:
            names = sorted([entry.name for entry in entries if entry.is_dir()])
        found = []
        for name in names:
            path = directory.path / name
            if name.endswith(DELETED_DIRECTORY_SUFFIX):
                self.marked_directories.append(path)
            elif name.endswith(STRAY_DIRECTORY_SUFFIX):
                _log.warn("Ignoring the stray log {path}", path=str(path))
            elif name not in IGNORED_DIRECTORIES:
                try:
                    found.append((path, parse_partition_directory(name)))
                except ValueError as error:
                    _log.warn("Ignoring {path}: {error}", path=str(path), error=error)
        return found

    def _add(self, directory: LogDirectory, log: UnifiedLog) -> None:
        topic_partition = log.topic_partition
        if topic_partition in directory.logs:
            # A future log whose move to this directory was cancelled.
            log.close_handles()
            self.marked_directories.append(log.dir)
            return
        logs = self.future_logs if log.is_future else self.logs
        other = logs.get(topic_partition)
        directory.logs[topic_partition] = log
        if other is not None:
            log = _set_aside_shorter(other, log)
        logs[topic_partition] = log


def _compacted_in(directory: LogDirectory) -> Collection[TopicPartition] | None:
    """Return the partitions that were ever compacted, None if that is unknown."""
    try:
        return directory.cleaner_offsets.read()
    except MalformedCheckpointError:
        return None


def _call(job: Job) -> UnifiedLog | None:
    return job()


def _set_aside_shorter(one: UnifiedLog, other: UnifiedLog) -> UnifiedLog:
    """Mark the shorter of two logs of a partition as stray, and return the other; raises OSError, ValueError if topic ids differ.

    A crash while a replica is replaced by the one in another log directory leaves both. Kafka does not start in this case. Nothing
    is lost here either, as the stray log is kept.
    """
    # A topic id that was not flushed may be lost in a power failure. Such a log is taken for one of the other log's topic.
    if one.topic_id != other.topic_id and None not in (one.topic_id, other.topic_id):
        raise ValueError(f"{one.topic_partition} is in two log directories with different topic ids: {one.dir} and {other.dir}")
    is_first = (one.latest_epoch, one.log_end_offset) >= (other.latest_epoch, other.log_end_offset)
    kept, stray = (one, other) if is_first else (other, one)
    path = stray.parent / marked_directory_name(stray.topic_partition, STRAY_DIRECTORY_SUFFIX)
    _log.warn(
        "{partition} is in two log directories: {kept} is used, {stray} is renamed to {path}",
        partition=str(kept.topic_partition),
        kept=str(kept.dir),
        stray=str(stray.dir),
        path=str(path),
    )
    sync_directory(kept.parent)  # a replica that was moved there may have that name in memory only
    stray.move_to(path)
    stray.close_handles()
    return kept
