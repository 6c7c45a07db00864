"""Loading all logs of the log directories, several at a time."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from twisted.logger import Logger

from twisted_kafka.config.topic_config import LogConfig
from twisted_kafka.log.environment import LogEnvironment
from twisted_kafka.log.files import DELETED_DIRECTORY_SUFFIX, parse_partition_directory
from twisted_kafka.log.log_directory import LogDirectory
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.protocol.topic_partition import TopicPartition

IGNORED_SUFFIXES = ("-future", "-stray")
IGNORED_DIRECTORIES = ("__cluster_metadata-0", "remote-log-index-cache", "lost+found")

_log = Logger()


class DirectoryLoader:
    """Opens the logs in log directories; ``marked_directories`` are then those of logs whose deletion was not finished."""

    def __init__(self, environment: LogEnvironment, topic_config: Callable[[str], LogConfig], threads_per_directory: int) -> None:
        self._environment = environment
        self._topic_config = topic_config
        self._threads = threads_per_directory
        self.marked_directories: list[Path] = []

    def load(self, directories: list[LogDirectory]) -> list[UnifiedLog]:
        """Open every log; raises OSError, ValueError for files that cannot be understood."""
        jobs = [job for directory in directories for job in self._jobs(directory)]
        workers = min(self._threads * len(directories), len(jobs))
        if workers <= 1:
            return [job() for job in jobs]
        with ThreadPoolExecutor(workers, thread_name_prefix="log-recovery-") as pool:
            return list(pool.map(_run, jobs))

    def _jobs(self, directory: LogDirectory) -> Iterator[Callable[[], UnifiedLog]]:
        was_clean = directory.take_clean_shutdown()
        recovery_points = directory.read_checkpoint(directory.recovery_points)
        start_offsets = directory.read_checkpoint(directory.log_start_offsets)
        found = list(self._partition_directories(directory))
        if found and not was_clean:
            _log.info("{path} was not closed cleanly: its logs are recovered", path=str(directory.path))
        for path, topic_partition in found:

            def job(path: Path = path, topic_partition: TopicPartition = topic_partition) -> UnifiedLog:
                return UnifiedLog.open(
                    path,
                    topic_partition,
                    self._topic_config(topic_partition.topic),
                    self._environment,
                    recovery_point=recovery_points.get(topic_partition, 0),
                    log_start_offset=start_offsets.get(topic_partition, 0),
                    was_clean=was_clean,
                )

            yield job

    def _partition_directories(self, directory: LogDirectory) -> Iterable[tuple[Path, TopicPartition]]:
        with os.scandir(directory.path) as entries:
            names = sorted([entry.name for entry in entries if entry.is_dir()])
        for name in names:
            path = directory.path / name
            if name.endswith(DELETED_DIRECTORY_SUFFIX):
                self.marked_directories.append(path)
            elif not name.endswith(IGNORED_SUFFIXES) and name not in IGNORED_DIRECTORIES:
                try:
                    yield path, parse_partition_directory(name)
                except ValueError as error:
                    _log.warn("{path} is left alone: {error}", path=str(path), error=error)


def _run(job: Callable[[], UnifiedLog]) -> UnifiedLog:
    return job()
