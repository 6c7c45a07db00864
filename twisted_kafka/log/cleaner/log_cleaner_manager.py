"""Chooses logs to clean, and tracks how far each is clean (Kafka: LogCleanerManager)."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from twisted.logger import Logger

from twisted_kafka.log.cleaner.cleaner import LogCleaningAbortedError
from twisted_kafka.log.directories.log_directory import LogDirectory
from twisted_kafka.log.segment.log_segment import LogSegment
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.protocol.errors import KafkaStorageError
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.system import machine
from twisted_kafka.system.files.file_io import ShortFileError

if TYPE_CHECKING:
    from twisted_kafka.log.log_manager import LogManager

ABORT_TIMEOUT_S = 30.0
"""The longest wait for a cleaning to end: its disk may not answer any more, and state changes of other partitions wait, too."""

_log = Logger()


class _Hold:
    """The reason why a partition may not be cleaned now."""

    __slots__ = ("is_aborted", "is_running", "pauses")

    def __init__(self) -> None:
        self.is_running = False
        """Whether a cleaner works on it."""
        self.is_aborted = False
        """Whether that cleaner is to stop."""
        self.pauses = 0
        """How many callers of ``abort_and_pause`` have not called ``resume`` yet."""


class _Checkpoint:
    """The clean offsets of a directory. Changes take the lock, reads do not: each change replaces the dictionary."""

    __slots__ = ("lock", "offsets")

    def __init__(self, offsets: dict[TopicPartition, int]) -> None:
        self.lock = machine.Lock()
        self.offsets = offsets


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

    @property
    def is_worthy(self) -> bool:
        """Whether it is dirty enough, or overdue."""
        return self.cleanable_bytes > 0 and (self.delay_ms > 0 or self.cleanable_ratio > self.log.config.min_cleanable_dirty_ratio)


class LogCleanerManager:
    """Chooses logs, prevents two threads from cleaning the same log, and writes the checkpoints. Thread-safe.

    The condition is never held during I/O: a disk that hangs delays only those who wait for a cleaning of a log on it.
    """

    def __init__(self, logs: "LogManager") -> None:
        self._logs = logs
        self._clock = logs.clock
        self._condition = machine.Condition()
        self._holds: dict[TopicPartition, _Hold] = {}
        self._uncleanable: dict[LogDirectory, frozenset[TopicPartition]] = {}
        self._checkpoints: dict[LogDirectory, _Checkpoint] = {}
        self._last_run_ms = self._clock.wall_ms()
        self._dirtiest_ratio = 0.0
        self.max_compaction_delay_ms = 0

    # Choosing.

    def grab_filthiest(self) -> LogToClean | None:
        """Return the log with the highest dirty ratio, and mark it as in progress; None if no log needs cleaning."""
        self._last_run_ms = now_ms = self._clock.wall_ms()
        candidates = [found for log in self._candidates() if (found := self._try_to_clean(log, now_ms)) is not None]
        self.max_compaction_delay_ms = max((each.delay_ms for each in candidates), default=0)
        self._dirtiest_ratio = max((each.cleanable_ratio for each in candidates), default=0.0)
        worthy = [each for each in candidates if each.is_worthy]
        for each in sorted(worthy, key=lambda each: each.cleanable_ratio, reverse=True):
            if not self._begin(each.log):
                continue
            # Again, as it may have been truncated before it was marked.
            chosen = self._try_to_clean(each.log, now_ms)
            if chosen is not None and chosen.is_worthy:
                return chosen
            self._end(each.log.topic_partition)
        return None

    def _candidates(self) -> list[UnifiedLog]:
        return [log for log in self.deletable_logs() if not self._is_uncleanable(log)]

    def deletable_logs(self) -> list[UnifiedLog]:
        """Return the compacted logs that nobody holds: old segments of them can be deleted."""
        return [
            log
            for log in self._logs.all_logs()
            if log.config.compact and not log.is_future and log.topic_partition not in self._holds
        ]

    def begin_deleting(self, log: UnifiedLog) -> bool:
        """Mark a log as in progress, to delete old segments of it; returns False if another caller holds it."""
        return self._begin(log)

    def done_deleting(self, log: UnifiedLog) -> None:
        """Release a log after ``begin_deleting``."""
        self._end(log.topic_partition)

    def _begin(self, log: UnifiedLog) -> bool:
        with self._condition:
            if log.topic_partition in self._holds or self._logs.get_log(log.topic_partition) is not log:
                return False
            self._holds[log.topic_partition] = hold = _Hold()
            hold.is_running = True
            return True

    def _try_to_clean(self, log: UnifiedLog, now_ms: int) -> LogToClean | None:
        try:
            return self._to_clean(log, now_ms)
        except Exception as error:  # noqa: BLE001 an error in one log must not stop the cleaning of the others
            if self._logs.get_log(log.topic_partition) is log:
                self._cannot_check(log, error)
            return None

    def _cannot_check(self, log: UnifiedLog, error: Exception) -> None:
        if isinstance(error, FileNotFoundError):
            _log.warn("{log} cannot be checked for cleaning: {error}", log=log.topic_partition, error=error)  # it is being moved
        elif isinstance(error, OSError) and not isinstance(error, ShortFileError):
            self._logs.directory_failed(self._directory_of(log), error)
        else:
            self.mark_uncleanable(log, error)

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
        checkpoint = self._checkpoint(directory).offsets.get(log.topic_partition)
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

    # The end of a cleaning.

    def done_cleaning(self, log: UnifiedLog, end_offset: int) -> None:
        """End a cleaning, and record that the log is clean up to ``end_offset`` unless the cleaning was aborted."""
        topic_partition = log.topic_partition
        try:
            hold = self._holds.get(topic_partition)
            if hold is not None and not hold.is_aborted and self._logs.get_log(topic_partition) is log:
                self._write(self._directory_of(log), {topic_partition: end_offset})
        finally:
            self._end(topic_partition)

    def _end(self, topic_partition: TopicPartition) -> None:
        with self._condition:
            hold = self._holds[topic_partition]
            hold.is_running = hold.is_aborted = False
            if not hold.pauses:
                del self._holds[topic_partition]
            self._condition.notify_all()

    # Pausing.

    def _is_aborted(self, topic_partition: TopicPartition) -> bool:
        hold = self._holds.get(topic_partition)
        return hold is None or not hold.is_running or hold.is_aborted

    def check_not_aborted(self, topic_partition: TopicPartition) -> None:
        """Raise LogCleaningAbortedError if the cleaning was aborted."""
        if self._is_aborted(topic_partition):
            raise LogCleaningAbortedError(f"the cleaning of {topic_partition} was aborted")

    def wait_in_cleaning(self, topic_partition: TopicPartition, delay_s: float, stopping: machine.Event) -> None:
        """Wait for ``delay_s``; raises LogCleaningAbortedError as soon as the cleaning is aborted, or ``stopping`` is set.

        ``wake`` must be called after the event was set.
        """
        if delay_s > 0:
            with self._condition:
                self._condition.wait_for(lambda: stopping.is_set() or self._is_aborted(topic_partition), delay_s)
        if stopping.is_set():
            raise LogCleaningAbortedError("the cleaning was aborted: the cleaner is stopping")
        self.check_not_aborted(topic_partition)

    def wake(self) -> None:
        """Let ``wait_in_cleaning`` look at its event."""
        with self._condition:
            self._condition.notify_all()

    def abort_cleaning(self, topic_partition: TopicPartition) -> None:
        """Abort the cleaning of a partition, if there is one, without waiting for its end; another one may begin then."""
        with self._condition:
            hold = self._holds.get(topic_partition)
            if hold is not None:
                hold.is_aborted = hold.is_running
                self._condition.notify_all()

    def abort_and_pause(self, topic_partition: TopicPartition, timeout_s: float = ABORT_TIMEOUT_S) -> None:
        """Pause the cleaning of a partition until ``resume`` is called as often; waits until a cleaning in progress has ended.

        Raises KafkaStorageError if that takes longer than ``timeout_s``: nothing is paused then, but the cleaning stays aborted.
        """
        with self._condition:
            hold = self._holds.setdefault(topic_partition, _Hold())
            hold.pauses += 1
            if not hold.is_running:
                return
            hold.is_aborted = True
            self._condition.notify_all()
            if self._condition.wait_for(lambda: not hold.is_running, timeout_s):
                return
            hold.pauses -= 1
        raise KafkaStorageError(f"the cleaning of {topic_partition} does not end: its disk did not answer for {timeout_s:g} s")

    def resume(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Undo one ``abort_and_pause`` of each partition; raises ValueError if there was none."""
        with self._condition:
            for topic_partition in topic_partitions:
                hold = self._holds.get(topic_partition)
                if hold is None or not hold.pauses:
                    raise ValueError(f"the cleaning of {topic_partition} is not paused")
                hold.pauses -= 1
                if not hold.pauses and not hold.is_running:
                    del self._holds[topic_partition]
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
                hold = self._holds.get(log.topic_partition)
                if not log.config.compact and not (hold is not None and hold.is_running):
                    hold = self._holds.setdefault(log.topic_partition, _Hold())
                    hold.pauses += 1
                    logs.append(log)
            return logs

    # Checkpoints.

    def forget_deleted(self) -> None:
        """Remove the state of deleted partitions, so that a new log of the same name does not inherit it."""
        for directory in self._logs.directories:
            if not directory.is_online:
                continue
            with self._condition:
                self._uncleanable[directory] = self._uncleanable.get(directory, frozenset()).intersection(directory.logs)
            gone = self._checkpoint(directory).offsets.keys() - directory.logs.keys()
            if gone:
                self._write(directory, dict.fromkeys(gone))

    def truncated(self, log: UnifiedLog) -> None:
        """Lower the checkpoint of a log that was truncated: later records are not clean."""
        directory, offset = self._directory_of(log), log.log_end_offset
        if directory.is_online and self._checkpoint(directory).offsets.get(log.topic_partition, 0) > offset:
            self._write(directory, {log.topic_partition: offset})

    def moved(self, topic_partition: TopicPartition, source: LogDirectory | None, target: LogDirectory | None) -> None:
        """Move the checkpoint of a partition to its new log directory."""
        if source is None or target is None:
            return
        offset = self._checkpoint(source).offsets.get(topic_partition)
        self._write(source, {topic_partition: None})
        if offset is not None:
            self._write(target, {topic_partition: offset})
        with self._condition:
            uncleanable = self._uncleanable.get(source, frozenset())
            if topic_partition in uncleanable:
                self._uncleanable[source] = uncleanable - {topic_partition}
                self._uncleanable[target] = self._uncleanable.get(target, frozenset()) | {topic_partition}

    def cleaned_up_to(self, log: UnifiedLog) -> int | None:
        """Return the cleaner checkpoint of a log, or None."""
        return self._checkpoint(self._directory_of(log)).offsets.get(log.topic_partition)

    def directory_failed(self, directory: LogDirectory) -> None:
        """Drop the checkpoints of a directory that is offline."""
        with self._condition:
            self._checkpoints.pop(directory, None)

    def _checkpoint(self, directory: LogDirectory) -> _Checkpoint:
        found = self._checkpoints.get(directory)
        if found is None:
            read = _Checkpoint(directory.read_checkpoint(directory.cleaner_offsets) if directory.is_online else {})
            with self._condition:
                found = self._checkpoints.setdefault(directory, read)
        return found

    def _write(self, directory: LogDirectory, changes: dict[TopicPartition, int | None]) -> None:
        if not directory.is_online:
            return
        checkpoint = self._checkpoint(directory)
        with checkpoint.lock:
            offsets = checkpoint.offsets | changes
            checkpoint.offsets = written = {each: offset for each, offset in offsets.items() if offset is not None}
            try:
                directory.write_checkpoint(directory.cleaner_offsets, written)
                return
            except OSError as error:
                failure = error
        self._logs.directory_failed(directory, failure)

    def _directory_of(self, log: UnifiedLog) -> LogDirectory:
        return next(directory for directory in self._logs.directories if directory.path == log.parent)

    # What cannot be cleaned.

    def mark_uncleanable(self, log: UnifiedLog, why: Exception) -> None:
        """Exclude a log from cleaning until the next start, and say so."""
        directory = self._directory_of(log)
        with self._condition:
            self._uncleanable[directory] = self._uncleanable.get(directory, frozenset()) | {log.topic_partition}
        _log.error(
            "{log} in {path} cannot be cleaned and is left as it is until the next start: {why}",
            log=log.topic_partition,
            path=str(log.dir),
            why=why,
        )

    def _is_uncleanable(self, log: UnifiedLog) -> bool:
        directory = self._directory_of(log)
        return not directory.is_online or log.topic_partition in self._uncleanable.get(directory, ())

    # Called by gauges, on the main reactor's thread: without a lock, and without I/O.

    def uncleanable_partitions(self, directory: LogDirectory) -> Sequence[TopicPartition]:
        """Return the uncleanable partitions of a directory."""
        return sorted(self._uncleanable.get(directory, ()))

    def uncleanable_bytes(self, directory: LogDirectory) -> int:
        """Return the bytes of these partitions that would be cleaned."""
        checkpoint = self._checkpoints.get(directory)
        clean = checkpoint.offsets if checkpoint is not None else {}
        total = 0
        for topic_partition in self.uncleanable_partitions(directory):
            log = self._logs.get_log(topic_partition)
            if log is not None:
                bound = min(log.last_stable_offset, log.segments.active.base_offset)
                dirty = log.segments.since(max(clean.get(topic_partition, 0), log.log_start_offset))
                total += sum([segment.size_bytes for segment in dirty if segment.base_offset < bound])
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
