"""One entry of ``log.dirs``: its lock, its checkpoints and its clean-shutdown file."""

import json
import os
from collections.abc import Container, Mapping
from pathlib import Path

from twisted.logger import Logger
from typing_extensions import override

from twisted_kafka.log.checkpoints import (
    CLEANER_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    MalformedCheckpointError,
    OffsetCheckpoint,
)
from twisted_kafka.log.files import make_directory, remove_if_there, sync_directory, write_atomically
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.system import machine
from twisted_kafka.system.files.disk import lock_holder
from twisted_kafka.system.files.locks import IN_USE, try_lock
from twisted_kafka.system.files.names import open_descriptor
from twisted_kafka.system.forks import close_in_children

LOCK_FILE = ".lock"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
NO_BROKER_EPOCH = -1

_log = Logger()
_held_here: set[str] = set()
_held_here_lock = machine.Lock()


class LogDirectoryError(Exception):
    """A broker cannot start with its log directories; the text is one line for the operator."""


class UnusableDirectoryError(LogDirectoryError):
    """A log directory cannot be used because of an I/O error; the broker can start without it."""


class DirectoryInUseError(LogDirectoryError):
    """Another broker has locked the directory."""


class LogDirectory:
    """A log directory, locked from ``acquire`` to ``release``.

    ``logs`` has the logs in it; for a partition that is being moved here, its future log.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.logs: dict[TopicPartition, UnifiedLog] = {}
        self.recovery_points = OffsetCheckpoint(path / RECOVERY_POINT_CHECKPOINT)
        self.log_start_offsets = OffsetCheckpoint(path / LOG_START_OFFSET_CHECKPOINT)
        self.cleaner_offsets = OffsetCheckpoint(path / CLEANER_CHECKPOINT)
        self.was_clean = False
        self.is_online = True
        self.is_cordoned = False
        """Whether it gets no new replicas (KIP-1066)."""
        self.is_loaded = False
        """Whether all its logs are open."""
        self._lock_fd = -1
        self._checkpoint_lock = machine.Lock()
        self._names_lock = machine.Lock()
        self._has_new_names = True
        self._written: dict[Path, dict[TopicPartition, int]] = {}

    @override
    def __repr__(self) -> str:
        return f"<LogDirectory {self.path}>"

    @property
    def is_held(self) -> bool:
        """Whether this broker holds the lock."""
        return self._lock_fd >= 0

    def acquire(self) -> None:
        """Create the directory if it is missing, and lock it with the lock file that Apache Kafka uses too.

        Raises UnusableDirectoryError after an I/O error, DirectoryInUseError if another broker holds the lock.
        """
        try:
            make_directory(self.path)
            os.scandir(self.path).close()
            with _held_here_lock:
                self._lock_fd = self._take_lock()
        except OSError as error:
            raise UnusableDirectoryError(f"Cannot use the log directory {self.path}: {error.strerror}") from error

    def _take_lock(self) -> int:
        # The lock belongs to the process, and closing any descriptor of the file drops it: another broker in this process must be
        # rejected before it opens the file.
        name = os.path.realpath(self.path)
        if name in _held_here:
            raise self._in_use("another broker of this process holds the lock")
        fd = open_descriptor(self.path / LOCK_FILE, os.O_RDWR | os.O_CREAT)
        try:
            try_lock(fd)
        except OSError as error:
            pid = lock_holder(fd)
            os.close(fd)
            if error.errno not in IN_USE:
                raise
            if pid is None:
                raise self._in_use("another broker holds the lock") from None
            advice = "; stop that broker, or take another directory"
            raise self._in_use(f"process {pid} holds the lock", advice) from None
        _held_here.add(name)
        close_in_children(self, LogDirectory.release)
        return fd

    def _in_use(self, who: str, advice: str = "") -> DirectoryInUseError:
        return DirectoryInUseError(f"The log directory {self.path} is in use: {who} on {LOCK_FILE} in it{advice}")

    def release(self) -> None:
        """Release the lock; does nothing if it is not held."""
        if self._lock_fd < 0:
            return
        with _held_here_lock:
            _held_here.discard(os.path.realpath(self.path))
        os.close(self._lock_fd)
        self._lock_fd = -1

    def names_changed(self) -> None:
        """Record that a log was created in the directory."""
        self._has_new_names = True

    def sync_names(self) -> None:
        """Make the names of the logs durable, if they are not yet; raises OSError."""
        with self._names_lock:
            if not self._has_new_names:
                return
            self._has_new_names = False
            try:
                sync_directory(self.path)
            except OSError:
                self._has_new_names = True
                raise

    def take_clean_shutdown(self) -> bool:
        """Return whether the last shutdown was clean, and remove the clean-shutdown file; raises OSError."""
        path = self.path / CLEAN_SHUTDOWN_FILE
        self.was_clean = path.exists()
        if self.was_clean:
            remove_if_there(path)
            sync_directory(self.path)
        return self.was_clean

    def write_clean_shutdown(self, broker_epoch: int = NO_BROKER_EPOCH) -> None:
        """Write the clean-shutdown file: all logs are flushed, checkpointed and closed. Raises OSError."""
        content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
        write_atomically(self.path / CLEAN_SHUTDOWN_FILE, content.encode())

    def read_checkpoint(self, checkpoint: OffsetCheckpoint) -> dict[TopicPartition, int]:
        """Return a checkpoint's offsets. A malformed one is logged and counts as empty: recovery then reads whole logs."""
        try:
            offsets = self._written[checkpoint.path] = checkpoint.read()
        except MalformedCheckpointError as error:
            _log.warn("Ignoring a malformed checkpoint, so whole logs are read: {error}", error=error)
            return {}
        return dict(offsets)

    def is_current(self, checkpoint: OffsetCheckpoint, present: Container[TopicPartition]) -> bool:
        """Return whether a checkpoint, as last read or written, has offsets only of partitions in ``present``."""
        return all(topic_partition in present for topic_partition in self._written.get(checkpoint.path, ()))

    def write_checkpoint(self, checkpoint: OffsetCheckpoint, offsets: Mapping[TopicPartition, int]) -> None:
        """Write a checkpoint, unless it is unchanged; raises OSError."""
        wanted = dict(offsets)
        if self._written.get(checkpoint.path) == wanted:
            return
        checkpoint.write(wanted)
        self._written[checkpoint.path] = wanted

    def has_recovery_point_beyond(self) -> bool:
        """Return whether a log's recovery point is below its checkpoint: recovery has truncated the log."""
        written = self._written.get(self.recovery_points.path, {})
        return any(log.recovery_point < written.get(log.topic_partition, 0) for log in list(self.logs.values()))

    def checkpoint_recovery_points(self) -> None:
        """Write the recovery points of the logs; raises OSError."""
        with self._checkpoint_lock:  # or older points could be written after those of a truncation
            self._write_recovery_points()

    def _write_recovery_points(self) -> None:
        points = {log.topic_partition: log.recovery_point for log in list(self.logs.values())}
        self._write_of_logs(self.recovery_points, points)

    def checkpoint_log_start_offsets(self) -> None:
        """Write the log start offset of each log whose first segment begins below it; raises OSError."""
        with self._checkpoint_lock:
            self._write_log_start_offsets()

    def _write_log_start_offsets(self) -> None:
        starts = {log.topic_partition: start for log in list(self.logs.values()) if (start := log.start_in_checkpoint)}
        self._write_of_logs(self.log_start_offsets, starts)

    def checkpoint_start(self, log: UnifiedLog) -> None:
        """Write the log start offsets, unless that of the log is in the checkpoint already; raises OSError."""
        with self._checkpoint_lock:
            written = self._written.get(self.log_start_offsets.path, {})
            if written.get(log.topic_partition, 0) != log.start_in_checkpoint:
                self._write_log_start_offsets()

    def checkpoint_truncated(self, log: UnifiedLog) -> None:
        """Lower both checkpoints to the offsets of a log that was truncated, unless they are not above; raises OSError.

        They are then right for all logs that were truncated until now.
        """
        with self._checkpoint_lock:
            if log.checkpointed_truncations == log.truncations or not self._is_above(log):
                return
            truncations = [(each, each.truncations) for each in list(self.logs.values())]
            self._write_recovery_points()
            self._write_log_start_offsets()
            for each, count in truncations:
                each.checkpointed_truncations = count

    def _is_above(self, log: UnifiedLog) -> bool:
        """Return whether a checkpoint, as last read or written, is above the offsets of a log."""
        points, starts = self._written.get(self.recovery_points.path, {}), self._written.get(self.log_start_offsets.path, {})
        partition = log.topic_partition
        return points.get(partition, 0) > log.recovery_point or starts.get(partition, 0) > log.log_start_offset

    def _write_of_logs(self, checkpoint: OffsetCheckpoint, offsets: dict[TopicPartition, int]) -> None:
        if not self.is_loaded:
            # The start was interrupted: keep the offsets of logs that it did not open.
            before = self._written.get(checkpoint.path)
            if before is None:
                return
            offsets = {tp: offset for tp, offset in before.items() if tp not in self.logs} | offsets
        self.write_checkpoint(checkpoint, offsets)
