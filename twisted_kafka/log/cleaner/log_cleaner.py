"""LogCleaner: the threads that compact logs, and their metrics (Kafka: LogCleaner)."""

import errno
from collections.abc import Callable, Sized
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from twisted.logger import Logger

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.log.cleaner.cleaner import Cleaner, CleanerLimits, CleanerStats, LogCleaningAbortedError
from twisted_kafka.log.cleaner.log_cleaner_manager import LogCleanerManager, LogToClean
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.errors import CorruptRecordError, InvalidRecordError, KafkaStorageError
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.system import machine
from twisted_kafka.system.files.file_io import ShortFileError
from twisted_kafka.system.threads import make_thread, repeat
from twisted_kafka.timing.clock import IClock

if TYPE_CHECKING:
    from twisted_kafka.log.log_manager import LogManager

RECONFIGURABLE = frozenset(
    {
        "log.cleaner.threads",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.buffer.size",
        "log.cleaner.io.max.bytes.per.second",
        "log.cleaner.backoff.ms",
        "message.max.bytes",
    }
)
"""The keys that ``reconfigure`` applies (Kafka: LogCleaner.ReconfigurableConfigs)."""

STOP_TIMEOUT_S = 30.0
MAX_MAP_BYTES = 2**31 - 1
MIN_BLOCK_BYTES = 1 << 20
"""The lower bound for ``log.cleaner.io.buffer.size``: with smaller blocks the cost per block dominates."""

_NO_DISK_FAILURES = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE)
"""Errors in writing the new segments after which the log is still intact."""

MAX_DELAY_S = 10.0
"""The longest wait of a throttled thread, so that a very low rate does not block it for hours."""

_log = Logger()


class CleanerThrottle:
    """Computes the delays that keep the I/O rate of all cleaner threads together at ``bytes_per_second`` in the long term."""

    def __init__(self, clock: IClock, bytes_per_second: float) -> None:
        self.bytes_per_second = bytes_per_second
        self._clock = clock
        self._lock = machine.Lock()
        self._free_at_ns = 0

    def delay_s(self, size_bytes: int) -> float:
        """Record ``size_bytes`` read or written; returns how long to wait, which may be 0."""
        now_ns = self._clock.monotonic_ns()
        with self._lock:
            self._free_at_ns = max(self._free_at_ns, now_ns) + int(size_bytes / max(1.0, self.bytes_per_second) * 1e9)
            delay_s = min((self._free_at_ns - now_ns) / 1e9, MAX_DELAY_S)
            self._free_at_ns = now_ns + int(delay_s * 1e9)
            return delay_s


class CleanerSettings(NamedTuple):
    """The broker's ``log.cleaner.`` keys."""

    threads: int
    dedupe_buffer_bytes: int
    load_factor: float
    io_buffer_bytes: int
    max_bytes_per_second: float
    backoff_ms: int

    @classmethod
    def of(cls, config: KafkaConfig) -> "CleanerSettings":
        """Read the keys; raises ConfigError for an invalid load factor."""
        load_factor = config.double("log.cleaner.io.buffer.load.factor")
        if not 0 < load_factor <= 1:
            raise ConfigError(f"Invalid value {load_factor} for log.cleaner.io.buffer.load.factor: must be above 0 and at most 1")
        return cls(
            config.int("log.cleaner.threads"),
            config.long("log.cleaner.dedupe.buffer.size"),
            load_factor,
            config.int("log.cleaner.io.buffer.size"),
            config.double("log.cleaner.io.max.bytes.per.second"),
            config.long("log.cleaner.backoff.ms"),
        )

    @property
    def limits(self) -> CleanerLimits:
        """The limits of each thread. Half of the I/O buffer, at least MIN_BLOCK_BYTES, is used for reading."""
        threads = max(1, self.threads)
        map_bytes = min(self.dedupe_buffer_bytes // threads, MAX_MAP_BYTES)
        return CleanerLimits(map_bytes, self.load_factor, max(self.io_buffer_bytes // threads // 2, MIN_BLOCK_BYTES))


class LogCleaner:
    """Compacts logs with ``log.cleaner.threads`` threads, from ``startup`` to ``shutdown``.

    ``manager`` can pause the cleaning of a log. ``clean_filthiest`` is one iteration of a thread.
    """

    def __init__(self, config: KafkaConfig, logs: "LogManager", metrics: MetricsRegistry | None = None) -> None:
        self.manager = LogCleanerManager(logs)
        self.settings = CleanerSettings.of(config)
        self._logs = logs
        self._throttle = CleanerThrottle(logs.clock, self.settings.max_bytes_per_second)
        self._stopping = machine.Event()
        self._threads: list[machine.Thread] = []
        self._lifecycle = machine.Lock()
        """Held while threads start and stop: a changed config must not start threads while the broker stops them."""
        self._last_stats: dict[str, CleanerStats] = {}
        if metrics is not None:
            self._register_gauges(metrics)

    # Starting and stopping.

    def startup(self) -> None:
        """Start the threads."""
        with self._lifecycle:
            self._start()

    def _start(self) -> None:
        self._stopping = stopping = machine.Event()
        _log.info("Starting the log cleaner with {count} threads", count=self.settings.threads)
        for number in range(self.settings.threads):
            thread = make_thread(lambda: self._run(stopping), f"kafka-log-cleaner-thread-{number}")
            try:
                thread.start()
            except RuntimeError as error:
                if not self._threads:
                    raise
                _log.error("The log cleaner has {count} threads: {error}", count=len(self._threads), error=error)
                break
            self._threads.append(thread)

    def shutdown(self) -> None:
        """Stop the threads. A cleaning in progress is aborted, and its log stays valid."""
        with self._lifecycle:
            self._stop()

    def _stop(self) -> None:
        self._stopping.set()
        self.manager.wake()
        for thread in self._threads:
            thread.join(STOP_TIMEOUT_S)
            if thread.is_alive():
                _log.warn("{thread} did not stop within {seconds} s", thread=thread.name, seconds=STOP_TIMEOUT_S)
        self._threads = []
        self._last_stats.clear()  # the metrics are those of running threads only

    @staticmethod
    def validate(old: KafkaConfig, new: KafkaConfig) -> None:
        """Raise ConfigError for an invalid dynamic change (Kafka: LogCleaner.validateReconfiguration)."""
        threads = CleanerSettings.of(new).threads
        now = old.int("log.cleaner.threads")
        if threads < 1:
            raise ConfigError(f"Invalid value {threads} for log.cleaner.threads: must be at least 1")
        if threads < now // 2 or threads > now * 2:
            raise ConfigError(
                f"Invalid value {threads} for log.cleaner.threads: must be between half of and twice the current value, {now}"
            )

    def reconfigure(self, config: KafkaConfig) -> None:
        """Apply a new config; the threads restart if one of the keys changed. Raises ConfigError."""
        settings = CleanerSettings.of(config)
        if settings == self.settings:
            return
        self._throttle.bytes_per_second = settings.max_bytes_per_second
        with self._lifecycle:
            was_running = bool(self._threads)
            self._stop()
            self.settings = settings
            if was_running:
                self._start()

    # The threads.

    def _run(self, stopping: machine.Event) -> None:
        repeat(lambda: self._step(stopping), stopping.wait, "the log cleaner")

    def _step(self, stopping: machine.Event) -> bool:
        if stopping.is_set():
            return False
        if not self.clean_filthiest():
            stopping.wait(self.settings.backoff_ms / 1000)
        return True

    def clean_filthiest(self) -> bool:
        """Compact the dirtiest log, and delete old segments of compacted logs; returns whether there was a log to clean."""
        chosen = self.manager.grab_filthiest()
        if chosen is not None:
            self._guarded(chosen.log, lambda: self._clean(chosen))
        self._delete_old_segments()
        return chosen is not None

    def _clean(self, chosen: LogToClean) -> None:
        log, end_offset = chosen.log, chosen.first_dirty_offset
        proceed = partial(self.proceed, log.topic_partition, stopping=self._stopping)
        try:
            cleaner = Cleaner(self._logs.clock, self.settings.limits)
            end_offset, stats = cleaner.clean(log, chosen.first_dirty_offset, chosen.first_uncleanable_offset, proceed)
            self._last_stats[machine.current_thread().name] = stats
            _log_stats(log, end_offset, stats)
        except LogCleaningAbortedError as aborted:
            _log.info("{why}", why=aborted)
        finally:
            self.manager.done_cleaning(log, end_offset)

    def _delete_old_segments(self) -> None:
        for log in self.manager.deletable_logs():
            if self.manager.begin_deleting(log):
                try:
                    self._guarded(log, log.delete_old_segments)
                finally:
                    self.manager.done_deleting(log)

    def _guarded(self, log: UnifiedLog, action: Callable[[], object]) -> None:
        try:
            action()
        except KafkaStorageError as error:
            # The directory is offline, or the log was closed.
            _log.error("{error}", error=error)
        except (ShortFileError, CorruptRecordError, InvalidRecordError) as error:
            self.manager.mark_uncleanable(log, error)
        except OSError as error:
            self._failed(log, error)
        except Exception as error:  # noqa: BLE001 an error in one log must not stop the cleaning of the others
            _log.failure("An unexpected error in the cleaning of {log}", log=log.topic_partition)
            self.manager.mark_uncleanable(log, error)

    def _failed(self, log: UnifiedLog, error: OSError) -> None:
        if self._logs.get_log(log.topic_partition) is not log:
            return
        if error.errno in _NO_DISK_FAILURES:
            _log.error("{log} was not compacted and is unchanged: {error}", log=log.topic_partition, error=error)
            self._stopping.wait(self.settings.backoff_ms / 1000)
            return
        for directory in self._logs.directories:
            if directory.path == log.parent:
                self._logs.directory_failed(directory, error)

    def proceed(self, topic_partition: TopicPartition, size_bytes: int, stopping: machine.Event) -> None:
        """Wait as the throttle requires for ``size_bytes``; raises LogCleaningAbortedError if the cleaning is to end."""
        self.manager.wait_in_cleaning(topic_partition, self._throttle.delay_s(size_bytes), stopping)

    # Metrics.

    @property
    def dead_threads(self) -> int:
        """The number of threads that died."""
        return sum([not thread.is_alive() for thread in self._threads])

    def _register_gauges(self, metrics: MetricsRegistry) -> None:
        manager, last = self.manager, self._last_stats

        def largest(value: Callable[[CleanerStats], float]) -> Callable[[], int]:
            return lambda: int(max((value(stats) for stats in list(last.values())), default=0))

        metrics.gauge("LogCleaner", "DeadThreadCount", lambda: self.dead_threads)
        metrics.gauge("LogCleaner", "max-buffer-utilization-percent", largest(lambda stats: 100 * stats.map_utilization))
        metrics.gauge("LogCleaner", "cleaner-recopy-percent", self._recopy_percent)
        metrics.gauge("LogCleaner", "max-clean-time-secs", largest(lambda stats: stats.elapsed_s))
        metrics.gauge("LogCleaner", "max-compaction-delay-secs", lambda: manager.max_compaction_delay_ms // 1000)
        metrics.gauge("LogCleanerManager", "max-dirty-percent", lambda: manager.max_dirty_percent)
        metrics.gauge("LogCleanerManager", "time-since-last-run-ms", lambda: manager.time_since_last_run_ms)
        for directory in self._logs.directories:
            tags = {"logDirectory": f'"{directory.path}"'}
            partitions = partial(manager.uncleanable_partitions, directory)
            metrics.gauge("LogCleanerManager", "uncleanable-partitions-count", partial(_length, partitions), **tags)
            metrics.gauge("LogCleanerManager", "uncleanable-bytes", partial(manager.uncleanable_bytes, directory), **tags)

    def _recopy_percent(self) -> int:
        stats = list(self._last_stats.values())
        return int(100 * sum([each.bytes_written for each in stats]) / max(1, sum([each.bytes_read for each in stats])))


def _length(sized: Callable[[], Sized]) -> int:
    return len(sized())


def _log_stats(log: UnifiedLog, end_offset: int, stats: CleanerStats) -> None:
    _log.info(
        "Compacted {log} up to offset {end}: {read:.1f} MB became {written:.1f} MB in {seconds:.1f} s "
        "({index:.1f} s for the {keys} keys of {dirty:.1f} MB, offset map {full:.0%} full)",
        log=log.topic_partition,
        end=end_offset,
        read=stats.bytes_read / 1e6,
        written=stats.bytes_written / 1e6,
        seconds=stats.elapsed_s,
        index=stats.map_elapsed_s,
        keys=stats.keys,
        dirty=stats.map_bytes_read / 1e6,
        full=stats.map_utilization,
    )
