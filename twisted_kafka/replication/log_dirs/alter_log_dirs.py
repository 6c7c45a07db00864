"""The log directories of replicas, and moves between them (KIP-113; Kafka: ``ReplicaManager.alterReplicaLogDirs``).

A move creates a log named ``topic-partition.uuid-future`` in the target directory. A thread copies into it until it can replace the
log. The name lasts, so the move continues after a restart.
"""

import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from twisted.logger import Logger

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.log.directories.log_directory import LogDirectory
from twisted_kafka.log.files import FUTURE_DIRECTORY_SUFFIX, MAX_NAME_BYTES, marked_directory_name
from twisted_kafka.log.log_manager import LogManager
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.metrics.instruments import Meter
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.errors import (
    ErrorCode,
    InvalidReplicaAssignmentError,
    InvalidTopicError,
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.log_dirs.alter_log_dirs_copy import ReplicaCopier
from twisted_kafka.replication.log_dirs.alter_log_dirs_manager import ReplicaAlterLogDirsManager, ReplicaMover
from twisted_kafka.replication.log_dirs.replication_quota import ReplicationQuota
from twisted_kafka.replication.operations.purgatories import Purgatories
from twisted_kafka.replication.partition.partition import Partition
from twisted_kafka.replication.partition.partition_table import PartitionTable
from twisted_kafka.system import machine
from twisted_kafka.system.client_text import bounded_text, printable
from twisted_kafka.system.files.disk import space_bytes
from twisted_kafka.timing.clock import IClock
from twisted_kafka.timing.scheduler import IScheduler

QUOTA_KEY: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
"""A dynamic broker config; it cannot be set in the file."""
THREADS_KEY: Final = "num.replica.alter.log.dirs.threads"
UNKNOWN_LAG: Final = -1
UNKNOWN_SIZE: Final = -1

_log = Logger()


class LogDescription(NamedTuple):
    """A log: its size, and its lag in records (-1 when unknown)."""

    topic_partition: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool


class DirectoryDescription(NamedTuple):
    """A log directory, its logs, and the total and usable bytes of its file system (-1 when unknown)."""

    path: str
    error: ErrorCode
    logs: list[LogDescription]
    total_bytes: int
    usable_bytes: int
    is_cordoned: bool


class AlterLogDirs:
    """Starts and cancels moves for administrators, and keeps them in step with the partitions."""

    def __init__(
        self,
        logs: LogManager,
        partitions: PartitionTable,
        state_lock: machine.RLock,
        manager: ReplicaAlterLogDirsManager,
        quota: ReplicationQuota,
    ) -> None:
        """``state_lock`` is held while the partitions change."""
        self.manager = manager
        self._quota = quota
        self._logs = logs
        self._partitions = partitions
        self._state_lock = state_lock

    def configure(self, settings: Mapping[str, str]) -> None:
        """Set the throttle of moves from the broker's dynamic configs; without the key, moves are not throttled."""
        text = settings.get(QUOTA_KEY)
        try:
            self._quota.update(None if text is None else int(text))
        except ValueError:
            _log.error("{key}={text} is ignored: it must be a number", key=QUOTA_KEY, text=text)

    def alter(self, destinations: Mapping[TopicPartition, str]) -> dict[TopicPartition, ErrorCode]:
        """Start to move each partition to a directory, by its path. A move to the present directory cancels another move.

        A partition that is not hosted yet will be created there: its result is REPLICA_NOT_AVAILABLE.
        """
        refused: list[tuple[TopicPartition, KafkaError]] = []
        results = {partition: self._alter_or_error(partition, path, refused) for partition, path in destinations.items()}
        if refused:
            partition, error = refused[0]
            # One line: a request may name a million partitions.
            _log.warn(
                "{count} partitions are not moved; the first is {partition}: {error}",
                count=len(refused),
                partition=printable(bounded_text(str(partition))),
                error=printable(bounded_text(str(error))),
            )
        return results

    def _alter_or_error(
        self, topic_partition: TopicPartition, path: str, refused: list[tuple[TopicPartition, KafkaError]]
    ) -> ErrorCode:
        try:
            with self._state_lock:
                self._alter(topic_partition, path)
        except NotLeaderOrFollowerError:
            return ErrorCode.REPLICA_NOT_AVAILABLE  # the older name of this error
        except KafkaError as error:
            refused.append((topic_partition, error))
            return error.code
        return ErrorCode.NONE

    def _alter(self, topic_partition: TopicPartition, path: str) -> None:
        if len(os.fsencode(marked_directory_name(topic_partition, FUTURE_DIRECTORY_SUFFIX, may_cut=False))) > MAX_NAME_BYTES:
            raise InvalidTopicError("The topic's name is too long for the directory of a replica that is being moved")
        directory = self._logs.directory_named(path)
        if not directory.is_online:
            raise KafkaStorageError(f"the log directory {path} is offline")
        if self._partitions.is_offline(topic_partition):
            raise KafkaStorageError(f"the log directory of {topic_partition} is offline")
        partition = self._partitions.get(topic_partition)
        if directory.is_cordoned and (partition is None or partition.log.parent != directory.path):
            raise InvalidReplicaAssignmentError(f"the log directory {path} is cordoned")
        if partition is not None:
            future = partition.future_log
            if future is not None and future.parent != directory.path:
                self._give_up(partition)
        self._logs.prefer(topic_partition, directory)
        partition = self._partitions.get_or_raise(topic_partition)
        if partition.log.parent == directory.path or partition.future_log is not None:
            return
        partition.future_log = self._logs.get_or_create_future_log(topic_partition, partition.log.topic_id)
        _log.info("{partition} is being moved to {path}", partition=str(topic_partition), path=path)
        self.manager.add(partition)

    def _give_up(self, partition: Partition) -> None:
        self.manager.remove([partition.topic_partition])
        partition.future_log = None
        self._logs.delete_future_log(partition.topic_partition)

    def resume(self, partitions: Iterable[Partition]) -> None:
        """Resume the moves of these partitions that have a future log."""
        for partition in partitions:
            future = self._logs.get_future_log(partition.topic_partition)
            if future is not None:
                partition.future_log = future
                self.manager.add(partition)

    def stop(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Suspend the moves of these partitions until ``resume``."""
        self.manager.remove(topic_partitions)

    def directory_failed(self, directory: Path) -> None:
        """Suspend moves into and out of a failed directory. The logs in the other directory stay."""
        for partition in self._partitions:
            future = partition.future_log
            if future is not None and directory in (future.parent, partition.log.parent):
                self.manager.remove([partition.topic_partition])
                partition.future_log = None

    def shutdown(self) -> None:
        """Stop the threads."""
        self.manager.shutdown()

    def describe(self, wanted: Collection[TopicPartition] | None) -> list[DirectoryDescription]:
        """Return all directories with their logs of the ``wanted`` partitions, None for all (KIP-113, KIP-827)."""
        return [self._describe(directory, wanted) for directory in self._logs.directories]

    def _describe(self, directory: LogDirectory, wanted: Collection[TopicPartition] | None) -> DirectoryDescription:
        path = str(directory.path)
        try:
            if not directory.is_online:
                raise KafkaStorageError(f"the log directory {path} is offline")
            total_bytes, usable_bytes = space_bytes(directory.path)
        except (KafkaError, OSError) as error:
            _log.warn("{path} cannot be described: {error}", path=path, error=error)
            cordoned = directory.is_cordoned
            return DirectoryDescription(path, ErrorCode.KAFKA_STORAGE_ERROR, [], UNKNOWN_SIZE, UNKNOWN_SIZE, cordoned)
        logs = [
            LogDescription(topic_partition, log.size_bytes, self._lag(log), log.is_future)
            for topic_partition, log in list(directory.logs.items())
            if wanted is None or topic_partition in wanted
        ]
        return DirectoryDescription(path, ErrorCode.NONE, logs, total_bytes, usable_bytes, directory.is_cordoned)

    def _lag(self, log: UnifiedLog) -> int:
        if not log.is_future:
            limits = log.limits
            return max(limits.high_watermark.message_offset - limits.log_end.message_offset, 0)
        current = self._logs.get_log(log.topic_partition)
        return UNKNOWN_LAG if current is None else current.log_end_offset - log.log_end_offset


def make_moves(
    config: KafkaConfig,
    logs: LogManager,
    partitions: PartitionTable,
    state_lock: machine.RLock,
    purgatories: Purgatories,
    clock: IClock,
    metrics: MetricsRegistry,
    scheduler: IScheduler,
) -> AlterLogDirs:
    """Make AlterLogDirs and its parts."""
    window_s = config.int("alter.log.dirs.replication.quota.window.size.seconds")
    quota = ReplicationQuota(clock, config.int("alter.log.dirs.replication.quota.window.num"), window_s * 1000)
    metrics.gauge("kafka.server:AlterLogDirsReplication", "byte-rate", lambda: quota.rate)
    copier = ReplicaCopier(logs, config.int("replica.fetch.max.bytes"))
    count = config[THREADS_KEY]
    movers = [
        ReplicaMover(copier, quota, Meter(clock), purgatories.check_all)
        for _ in range(count if isinstance(count, int) else len(logs.directories))
    ]
    manager = ReplicaAlterLogDirsManager(movers, quota, config.int("replica.fetch.backoff.ms"), metrics, scheduler)
    return AlterLogDirs(logs, partitions, state_lock, manager, quota)
