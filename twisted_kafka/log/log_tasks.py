"""The periodic tasks of all logs: flushing, checkpoints, retention, expiration of producers."""

import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from twisted.logger import Logger

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.log.directories.log_directory import LogDirectory
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.protocol.errors import KafkaStorageError
from twisted_kafka.timing.scheduler import IScheduler, ScheduledTask

if TYPE_CHECKING:
    from twisted_kafka.log.log_manager import LogManager

NEVER_MS = sys.maxsize

_log = Logger()


class LogTasks:
    """The periodic tasks of a log manager."""

    def __init__(self, logs: "LogManager") -> None:
        self._logs = logs
        self._scheduled: list[ScheduledTask] = []

    def start(self, config: KafkaConfig, scheduler: IScheduler) -> None:
        """Schedule the tasks at the intervals of ``config``."""
        delay_ms = config.long("log.initial.task.delay.ms")
        for name, action, period_ms in (
            ("log-retention", self.delete_old_segments, config.long("log.retention.check.interval.ms")),
            ("log-flusher", self.flush_old, config.long("log.flush.scheduler.interval.ms")),
            ("recovery-point-checkpoint", self.checkpoint_recovery_points, config.long("log.flush.offset.checkpoint.interval.ms")),
            ("log-start-checkpoint", self.checkpoint_log_starts, config.long("log.flush.start.offset.checkpoint.interval.ms")),
            ("producer-expiration", self.remove_expired_producers, config.long("producer.id.expiration.check.interval.ms")),
        ):
            if 0 < period_ms < NEVER_MS:
                self._scheduled.append(scheduler.schedule(name, action, min(delay_ms, period_ms), period_ms))

    def stop(self) -> None:
        """Cancel the tasks."""
        for task in self._scheduled:
            task.cancel()
        self._scheduled = []

    def delete_old_segments(self) -> None:
        """Apply retention to all logs except compacted ones, which the cleaner handles."""
        cleaner = self._logs.cleaner
        if cleaner is None:
            self._delete_old_segments([log for log in self._logs.all_logs() if not log.config.compact])
            return
        # Paused, or after a change of the cleanup policy a cleaner could clean segments that are being deleted.
        logs = cleaner.manager.pause_non_compacted()
        try:
            self._delete_old_segments(logs)
        finally:
            cleaner.manager.resume([log.topic_partition for log in logs])

    def _delete_old_segments(self, logs: Iterable[UnifiedLog]) -> None:
        deleted = sum([self._guarded(log.delete_old_segments) for log in logs])
        if deleted:
            _log.info("Retention deleted {count} segments", count=deleted)

    def flush_old(self) -> None:
        """Flush the logs whose last flush was at least ``flush.ms`` ago."""
        now_ms = self._logs.clock.wall_ms()
        for log in self._logs.all_logs():
            if now_ms - log.last_flush_ms >= log.config.flush_ms and log.recovery_point < log.log_end_offset:
                self._guarded(log.flush)

    def remove_expired_producers(self) -> None:
        """Remove the state of producers that have not written for ``producer.id.expiration.ms``."""
        now_ms = self._logs.clock.wall_ms()
        for log in self._logs.all_logs():
            self._guarded(partial(log.remove_expired_producers, now_ms))

    def checkpoint_recovery_points(self) -> None:
        """Write the recovery points of every directory."""
        self._checkpoint(LogDirectory.checkpoint_recovery_points)

    def checkpoint_log_starts(self) -> None:
        """Write the log start offsets of every directory."""
        self._checkpoint(LogDirectory.checkpoint_log_start_offsets)

    def _checkpoint(self, write: Callable[[LogDirectory], None]) -> None:
        for directory in self._logs.directories:
            if directory.is_online:
                try:
                    write(directory)
                except OSError as error:
                    self._logs.directory_failed(directory, error)

    def _guarded(self, action: Callable[[], int | None]) -> int:
        try:
            return action() or 0
        except KafkaStorageError as error:
            _log.error("{error}", error=error)
        except Exception:  # noqa: BLE001 an error in one log must not stop the work for the others, now and at each later time
            _log.failure("An unexpected error in the periodic work of a log")
        return 0
