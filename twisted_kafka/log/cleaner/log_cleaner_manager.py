"""Chooses logs to clean, and tracks how far each is clean (Kafka: LogCleanerManager)."""

import threading
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from twisted.logger import Logger

from twisted_kafka.log.cleaner.cleaner import LogCleaningAbortedError
from twisted_kafka.log.directories.log_directory import LogDirectory
from twisted_kafka.log.segment.log_segment import LogSegment
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.timing.clock import IClock

_WAIT_S = 0.1
"""The interval of checks while waiting for a cleaning to end."""

_log = Logger()


class Logs(Protocol):
    """The part of the log manager that the cleaner uses."""

    directories: list[LogDirectory]
    clock: IClock

    def all_logs(self) -> list[UnifiedLog]: ...  # noqa: D102
    def get_log(self, topic_partition: TopicPartition) -> UnifiedLog | None: ...  # noqa: D102
    def directory_failed(self, directory: LogDirectory, error: OSError) -> None: ...  # noqa: D102


class CleaningState(Enum):
    """The state of a partition that is being cleaned."""

    IN_PROGRESS = "in progress"
    ABORTED = "aborted"
    """A caller waits for the cleaner to stop."""


class LogToClean(NamedTuple):
    """A log and the part that can be cleaned."""

    log: UnifiedLog
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    delay_ms: int
    """How long the cleaning is overdue (``max.compaction.lag.ms``)."""

    @property
    def cleanable_ratio(self) -> float:
        """The dirty ratio: cleanable bytes by total bytes."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0


class LogCleanerManager:
    """Chooses logs, prevents two threads from cleaning the same log, and writes the checkpoints. Thread-safe.

    A partition has no state, a CleaningState, or the number of times that cleaning was paused (Kafka: LogCleaningPaused).
    """

    def __init__(self, logs: Logs) -> None:
        self._logs = logs
        self._clock = logs.clock
        self._condition = threading.Condition()
        self._states: dict[TopicPartition, CleaningState | int] = {}
        self._uncleanable: dict[LogDirectory, set[TopicPartition]] = {}
        self._offsets: dict[LogDirectory, dict[TopicPartition, int]] = {}
        self._last_run_ms = self._clock.wall_ms()
        self._dirtiest_ratio = 0.0
        self.max_compaction_delay_ms = 0

    # Choosing.

    def grab_filthiest(self) -> LogToClean | None:
        """Return the log with the highest dirty ratio, and mark it as in progress; None if no log needs cleaning."""
        now_ms = self._clock.wall_ms()
        with self._condition:
            self._last_run_ms = now_ms
            candidates = [found for log in self._candidates() if (found := self._try_to_clean(log, now_ms)) is not None]
            self.max_compaction_delay_ms = max((each.delay_ms for each in candidates), default=0)
            self._dirtiest_ratio = max((each.cleanable_ratio for each in candidates), default=0.0)
            worthy = [
                each
                for each in candidates
                if each.cleanable_bytes > 0
                and (each.delay_ms > 0 or each.cleanable_ratio > each.log.config.min_cleanable_dirty_ratio)
            ]
            if not worthy:
                return None
            chosen = max(worthy, key=lambda each: each.cleanable_ratio)
            self._states[chosen.log.topic_partition] = CleaningState.IN_PROGRESS
            return chosen

    def _candidates(self) -> list[UnifiedLog]:
        return [
            log
            for log in self._logs.all_logs()
            if log.config.compact
            and not log.is_future
            and log.topic_partition not in self._states
            and not self._is_uncleanable(log)
        ]

    def _try_to_clean(self, log: UnifiedLog, now_ms: int) -> LogToClean | None:
        try:
            return self._to_clean(log, now_ms)
        except OSError as error:
            # The log may have been deleted. If the disk failed, appends and reads report it.
            _log.warn("{log} cannot be checked for cleaning: {error}", log=log.topic_partition, error=error)
            return None

    def _to_clean(self, log: UnifiedLog, now_ms: int) -> LogToClean | None:
        first_dirty = self._first_dirty_offset(log)
        segments = list(log.segments)
        first_uncleanable = self._first_uncleanable_offset(log, first_dirty, now_ms)
        clean = [segment for segment in segments if segment.base_offset < first_dirty]
        cleanable = [s for s in log.segments.since(min(first_dirty, first_uncleanable)) if s.base_offset < first_uncleanable]
        clean_bytes = sum([segment.size_bytes for segment in clean if segment not in cleanable])
        cleanable_bytes = sum([segment.size_bytes for segment in cleanable])
        if not clean_bytes + cleanable_bytes:
            return None
        delay_ms = _compaction_delay_ms(log, first_dirty, now_ms)
        return LogToClean(log, first_dirty, first_uncleanable, clean_bytes, cleanable_bytes, delay_ms)

    def _first_dirty_offset(self, log: UnifiedLog) -> int:
        directory = self._directory_of(log)
        checkpoint = self._checkpoint(directory).get(log.topic_partition)
        start = log.log_start_offset
        if checkpoint is None:
            return start
        if start <= checkpoint <= log.log_end_offset:
            return checkpoint
        if not (checkpoint < start and log.config.delete):
            _log.warn(
                "The cleaner checkpoint {checkpoint} of {log} is out of range: the log is cleaned from {start} on",
                log=log.topic_partition,
                checkpoint=checkpoint,
                start=start,
            )
        self._write(directory, {log.topic_partition: start})
        return start

    def _first_uncleanable_offset(self, log: UnifiedLog, first_dirty: int, now_ms: int) -> int:
        """Return the base offset of the first segment that cannot be cleaned: with an open transaction, active or too new."""
        bound = min(log.last_stable_offset, log.segments.active.base_offset)
        lag_ms = log.config.min_compaction_lag_ms
        if lag_ms:
            for segment in _inactive_since(log, first_dirty):
                if segment.largest_timestamp_ms() > now_ms - lag_ms:
                    bound = min(bound, segment.base_offset)
                    break
        bound = max(bound, first_dirty)
        following = next(iter(_inactive_since(log, bound)), log.segments.active)
        return following.base_offset

    def grab_deletable(self) -> list[UnifiedLog]:
        """Return the compacted logs without a state, and mark them as in progress, to delete their old segments."""
        with self._condition:
            logs = [
                log
                for log in self._logs.all_logs()
                if log.config.compact and not log.is_future and log.topic_partition not in self._states
            ]
            for log in logs:
                self._states[log.topic_partition] = CleaningState.IN_PROGRESS
            return logs

    # The end of a cleaning.

    def done_cleaning(self, log: UnifiedLog, end_offset: int) -> None:
        """End a cleaning, and record that the log is clean up to ``end_offset`` unless the cleaning was aborted."""
        with self._condition:
            if self._release(log.topic_partition) and self._logs.get_log(log.topic_partition) is log:
                self._write(self._directory_of(log), {log.topic_partition: end_offset})

    def done_deleting(self, logs: Iterable[UnifiedLog]) -> None:
        """Release logs that ``grab_deletable`` returned."""
        with self._condition:
            for log in logs:
                self._release(log.topic_partition)

    def _release(self, topic_partition: TopicPartition) -> bool:
        state = self._states.pop(topic_partition, None)
        if state is CleaningState.ABORTED:
            self._states[topic_partition] = 1
        self._condition.notify_all()
        return state is CleaningState.IN_PROGRESS

    # Pausing.

    def check_not_aborted(self, topic_partition: TopicPartition) -> None:
        """Raise LogCleaningAbortedError if the cleaning was aborted."""
        if self._states.get(topic_partition) is not CleaningState.IN_PROGRESS:
            raise LogCleaningAbortedError(f"the cleaning of {topic_partition} was aborted")

    def abort_cleaning(self, topic_partition: TopicPartition) -> None:
        """Abort the cleaning of a partition and wait until it has ended; another one may begin right after."""
        self.abort_and_pause(topic_partition)
        self.resume([topic_partition])

    def abort_and_pause(self, topic_partition: TopicPartition) -> None:
        """Pause the cleaning of a partition until ``resume`` is called as often; waits until a cleaning in progress has ended."""
        with self._condition:
            while True:
                state = self._states.get(topic_partition, 0)
                if isinstance(state, int):
                    self._states[topic_partition] = state + 1
                    return
                if state is CleaningState.ABORTED:
                    self._condition.wait(_WAIT_S)
                    continue
                self._states[topic_partition] = CleaningState.ABORTED
                while self._states.get(topic_partition) is CleaningState.ABORTED:
                    self._condition.wait(_WAIT_S)
                return

    def resume(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Undo one ``abort_and_pause`` of each partition; raises ValueError if there was none."""
        with self._condition:
            for topic_partition in topic_partitions:
                state = self._states.get(topic_partition)
                if not isinstance(state, int):
                    raise ValueError(f"the cleaning of {topic_partition} is not paused")
                if state > 1:
                    self._states[topic_partition] = state - 1
                else:
                    del self._states[topic_partition]
            self._condition.notify_all()

    def pause(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Call ``abort_and_pause`` for each."""
        for topic_partition in topic_partitions:
            self.abort_and_pause(topic_partition)

    def pause_non_compacted(self) -> list[UnifiedLog]:
        """Pause the cleaning of logs that are not compacted, and return them, for retention; ``resume`` each afterwards.

        Logs that are still being cleaned, as their policy has just changed, are left out
        (Kafka: ``pauseCleaningForNonCompactedPartitions``).
        """
        with self._condition:
            logs = []
            for log in self._logs.all_logs():
                state = self._states.get(log.topic_partition, 0)
                if isinstance(state, int) and not log.config.compact:
                    self._states[log.topic_partition] = state + 1
                    logs.append(log)
            return logs

    # Checkpoints.

    def forget_deleted(self) -> None:
        """Remove the state of deleted partitions, so that a new log of the same name does not inherit it."""
        with self._condition:
            for directory in self._logs.directories:
                if not directory.is_online:
                    continue
                self._uncleanable.get(directory, set()).intersection_update(directory.logs)
                gone = self._checkpoint(directory).keys() - directory.logs.keys()
                if gone:
                    self._write(directory, dict.fromkeys(gone))

    def truncated(self, topic_partition: TopicPartition, offset: int) -> None:
        """Lower the checkpoint of a log that was truncated to ``offset``: later records are not clean."""
        with self._condition:
            for directory in self._logs.directories:
                if directory.is_online and self._checkpoint(directory).get(topic_partition, 0) > offset:
                    self._write(directory, {topic_partition: offset})

    def moved(self, topic_partition: TopicPartition, source: LogDirectory | None, target: LogDirectory | None) -> None:
        """Move the checkpoint of a partition to its new log directory."""
        if source is None or target is None:
            return
        with self._condition:
            offset = self._checkpoint(source).get(topic_partition)
            if source.is_online:
                self._write(source, {topic_partition: None})
            if offset is not None:
                self._write(target, {topic_partition: offset})
            if topic_partition in self._uncleanable.get(source, ()):
                self._uncleanable[source].discard(topic_partition)
                self._uncleanable.setdefault(target, set()).add(topic_partition)

    def cleaned_up_to(self, log: UnifiedLog) -> int | None:
        """Return the cleaner checkpoint of a log, or None."""
        with self._condition:
            return self._checkpoint(self._directory_of(log)).get(log.topic_partition)

    def directory_failed(self, directory: LogDirectory) -> None:
        """Drop the checkpoints of a directory that is offline."""
        with self._condition:
            self._offsets.pop(directory, None)

    def _checkpoint(self, directory: LogDirectory) -> dict[TopicPartition, int]:
        found = self._offsets.get(directory)
        if found is None:
            found = self._offsets[directory] = directory.read_checkpoint(directory.cleaner_offsets) if directory.is_online else {}
        return found

    def _write(self, directory: LogDirectory, changes: dict[TopicPartition, int | None]) -> None:
        if not directory.is_online:
            return
        offsets = self._checkpoint(directory)
        for topic_partition, offset in changes.items():
            if offset is None:
                offsets.pop(topic_partition, None)
            else:
                offsets[topic_partition] = offset
        try:
            directory.write_checkpoint(directory.cleaner_offsets, offsets)
        except OSError as error:
            self._logs.directory_failed(directory, error)

    def _directory_of(self, log: UnifiedLog) -> LogDirectory:
        return next(directory for directory in self._logs.directories if directory.path == log.parent)

    # What cannot be cleaned.

    def mark_uncleanable(self, log: UnifiedLog) -> None:
        """Exclude a log from cleaning, as it caused an unexpected error."""
        with self._condition:
            self._uncleanable.setdefault(self._directory_of(log), set()).add(log.topic_partition)

    def _is_uncleanable(self, log: UnifiedLog) -> bool:
        directory = self._directory_of(log)
        return not directory.is_online or log.topic_partition in self._uncleanable.get(directory, ())

    def uncleanable_partitions(self, directory: LogDirectory) -> Sequence[TopicPartition]:
        """Return the uncleanable partitions of a directory."""
        # Called by a gauge on the main reactor's thread. The copy needs no lock; the condition may be held for long.
        return sorted(self._uncleanable.get(directory, ()))

    def uncleanable_bytes(self, directory: LogDirectory) -> int:
        """Return the cleanable bytes of these partitions."""
        now_ms = self._clock.wall_ms()
        total = 0
        for topic_partition in self.uncleanable_partitions(directory):
            log = self._logs.get_log(topic_partition)
            if log is not None:
                with self._condition:
                    found = self._try_to_clean(log, now_ms)
                total += found.cleanable_bytes if found else 0
        return total

    # Metrics.

    @property
    def max_dirty_percent(self) -> int:
        """The highest dirty ratio in percent, when a log was last chosen."""
        return int(100 * self._dirtiest_ratio)

    @property
    def time_since_last_run_ms(self) -> int:
        """The time since a log was last chosen."""
        return self._clock.wall_ms() - self._last_run_ms


def _inactive_since(log: UnifiedLog, offset: int) -> list[LogSegment]:
    """Return the segment with ``offset`` and all later ones, except the active one."""
    return [segment for segment in log.segments.since(offset) if segment is not log.segments.active]


def _compaction_delay_ms(log: UnifiedLog, first_dirty: int, now_ms: int) -> int:
    """Return how long the oldest dirty segment has been older than ``max.compaction.lag.ms``."""
    until_ms = now_ms - log.config.max_compaction_lag_ms
    if until_ms < 0:
        return 0
    times = [segment.find_first_timestamp_ms() for segment in _inactive_since(log, first_dirty)]
    oldest_ms = min((time for time in times if time > 0), default=now_ms)
    return max(0, until_ms - oldest_ms)
