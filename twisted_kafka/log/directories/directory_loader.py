"""Loading all logs of the log directories, several at a time."""

import os
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
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
)
from twisted_kafka.log.loading.log_loader import LastStop
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.protocol.topic_partition import TopicPartition

IGNORED_DIRECTORIES = ("__cluster_metadata-0", "remote-log-index-cache", "lost+found")

Job = Callable[[], UnifiedLog | None]

_log = Logger()


class DirectoryLoader:
    """Opens the logs in log directories; a directory whose disk fails meanwhile goes offline.

    Afterwards ``logs`` are the partitions' logs, ``future_logs`` those of replicas that are being moved to another directory,
    ``marked_directories`` those of logs whose deletion was not finished.
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
        """Open every log; raises LoadingInterruptedError, ValueError for files that cannot be understood.

        Raises OSError when the process may open no more files: that takes no directory offline.
        """
        jobs: list[tuple[LogDirectory, list[Job]]] = []
        for directory in directories.online:
            try:
                jobs.append((directory, self._prepare(directories, directory)))
            except OSError as error:
                directories.failed(directory, error)
                if directory.is_online:
                    raise
        try:
            for directory, log in self._run(jobs):
                if log is not None and directory.is_online:
                    self._add(directory, log)
        finally:
            self._progress.end()
        for directory, _ in jobs:
            # Those that were set aside are nobody's.
            directory.logs = {tp: log for tp, log in directory.logs.items() if log in (self.logs.get(tp), self.future_logs.get(tp))}
            directory.is_loaded = directory.is_online

    def _run(self, jobs: list[tuple[LogDirectory, list[Job]]]) -> Iterator[tuple[LogDirectory, UnifiedLog | None]]:
        """Run the jobs, each directory's on threads of its own."""
        if self._threads == 1 and sum(bool(each) for _, each in jobs) <= 1:
            for directory, each in jobs:
                for job in each:
                    yield directory, job()
            return
        pools = [ThreadPoolExecutor(self._threads, thread_name_prefix=f"log-recovery-{directory.path}-") for directory, _ in jobs]
        try:
            # Begun everywhere before anything is waited for.
            results = [pool.map(_call, each) for pool, (_, each) in zip(pools, jobs, strict=True)]
            for (directory, _), logs in zip(jobs, results, strict=True):
                for log in logs:
                    yield directory, log
        finally:
            for pool in pools:
                pool.shutdown(wait=True, cancel_futures=True)

    def _prepare(self, directories: LogDirectories, directory: LogDirectory) -> list[Job]:
        was_clean = directory.take_clean_shutdown()
        recovery_points = directory.read_checkpoint(directory.recovery_points)
        start_offsets = directory.read_checkpoint(directory.log_start_offsets)
        compacted = _compacted_in(directory)
        found = self._partition_directories(directory)
        if found and not was_clean:
            _log.info("{path} was not closed cleanly: its logs are recovered", path=str(directory.path))
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
            except OSError as error:
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
                _log.warn("{path} is a stray log and is left alone", path=str(path))
            elif name not in IGNORED_DIRECTORIES:
                try:
                    found.append((path, parse_partition_directory(name)))
                except ValueError as error:
                    _log.warn("{path} is left alone: {error}", path=str(path), error=error)
        return found

    def _add(self, directory: LogDirectory, log: UnifiedLog) -> None:
        topic_partition = log.topic_partition
        if topic_partition in directory.logs:
            # A replica that was moved here was not wanted here any more.
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
    """Return the partitions that were compacted at some time, None when that is not known."""
    try:
        return directory.cleaner_offsets.read()
    except MalformedCheckpointError:
        return None


def _call(job: Job) -> UnifiedLog | None:
    return job()


def _set_aside_shorter(one: UnifiedLog, other: UnifiedLog) -> UnifiedLog:
    """Set the shorter of two logs of a partition aside, and return the other; raises OSError, ValueError for two topics' logs.

    A broker that dies while it replaces a replica by the one in another directory leaves both. Kafka's refuses to start then;
    nothing is lost here either, for the shorter one stays as a stray.
    """
    # An id that was not flushed may be lost with the machine: such a log is of the one topic that has an id.
    if one.topic_id != other.topic_id and None not in (one.topic_id, other.topic_id):
        raise ValueError(f"{one.topic_partition} lies in two log directories with two topic ids: {one.dir} and {other.dir}")
    is_first = (one.latest_epoch, one.log_end_offset) >= (other.latest_epoch, other.log_end_offset)
    kept, stray = (one, other) if is_first else (other, one)
    path = stray.parent / marked_directory_name(stray.topic_partition, STRAY_DIRECTORY_SUFFIX)
    _log.warn(
        "{partition} lies in two log directories: {kept} is used, {stray} is set aside as {path}",
        partition=str(kept.topic_partition),
        kept=str(kept.dir),
        stray=str(stray.dir),
        path=str(path),
    )
    stray.move_to(path)
    stray.close_handles()
    return kept
