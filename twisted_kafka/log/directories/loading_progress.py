"""Progress of loading the logs: metrics, log messages, a progress bar, and interruption."""

from collections.abc import Callable
from typing import Final, TextIO

from twisted.logger import Logger

from twisted_kafka.log.directories.log_directory import LogDirectory
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock

LOG_INTERVAL_MS: Final = 5_000
BAR_INTERVAL_MS: Final = 200
BAR_WIDTH: Final = 30
_MB: Final = 1_000_000

_log = Logger()


class LoadingInterruptedError(Exception):
    """The broker was stopped while it loaded its logs."""


class _DirectoryProgress:
    """The progress in one log directory."""

    __slots__ = ("done", "path", "segments", "threads", "total")

    def __init__(self, directory: LogDirectory, total: int) -> None:
        self.path = str(directory.path)
        self.total = total
        self.threads: dict[int, int] = {}
        self.done = 0
        self.segments: dict[int, int] = {}


class LoadingProgress:
    """Counts loaded logs and segments (KIP-831). ``interrupt`` stops the loading threads at the next log or segment.

    The progress bar is written to ``terminal``, if given.
    """

    def __init__(self, clock: IClock, metrics: MetricsRegistry | None = None, terminal: TextIO | None = None) -> None:
        self._clock = clock
        self._metrics = metrics
        self._terminal = terminal
        self._lock = machine.Lock()
        self._shares: dict[str, _DirectoryProgress] = {}
        self._bytes = 0
        self._began_ms = self._logged_ms = self._drawn_ms = 0
        self._interrupted = False

    def interrupt(self) -> None:
        """Make the loading threads raise LoadingInterruptedError at the next log or segment."""
        self._interrupted = True

    def check(self) -> None:
        """Raise LoadingInterruptedError if the loading was interrupted."""
        if self._interrupted:
            raise LoadingInterruptedError("the loading of the logs was interrupted")

    def begin(self, directory: LogDirectory, count: int) -> None:
        """Set the number of logs in a directory, and register its metrics."""
        path = str(directory.path)
        self._began_ms = self._logged_ms = self._clock.monotonic_ns() // 1_000_000
        self._shares[path] = share = _DirectoryProgress(directory, count)
        if self._metrics is not None:
            self._metrics.gauge("LogManager", "remainingLogsToRecover", lambda: share.total - share.done, dir=path)

    def segments_of(self, directory: LogDirectory) -> Callable[[int, int], None]:
        """Return the listener for the segments of a directory: (segments left in the log, bytes of the segment that was read)."""
        share = self._shares[str(directory.path)]
        return lambda remaining, size_bytes: self._segment_done(share, remaining, size_bytes)

    def _segment_done(self, share: _DirectoryProgress, remaining: int, size_bytes: int) -> None:
        self.check()
        with self._lock:
            is_new = machine.get_ident() not in share.threads
            number = share.threads.setdefault(machine.get_ident(), len(share.threads))
            share.segments[number] = remaining
            self._bytes += size_bytes
        if is_new and self._metrics is not None:

            def left() -> int:
                return share.segments[number]

            self._metrics.gauge("LogManager", "remainingSegmentsToRecover", left, dir=share.path, threadNum=number)
        self._show()

    def log_done(self, directory: LogDirectory) -> None:
        """Count a log as loaded."""
        with self._lock:
            self._shares[str(directory.path)].done += 1
        self._show()

    def end(self) -> None:
        """Log a summary, and remove the progress bar and the metrics."""
        if self._terminal is not None and self._drawn_ms:
            self._terminal.write("\r" + " " * (BAR_WIDTH + 60) + "\r")
            self._terminal.flush()
        done, total = self._counts()
        took_ms = self._clock.monotonic_ns() // 1_000_000 - self._began_ms
        if total:
            _log.info("{done} of {total} logs loaded in {ms} ms, {text}", done=done, total=total, ms=took_ms, text=self._read())
        if self._metrics is not None:
            for path, share in self._shares.items():
                self._metrics.remove("LogManager", "remainingLogsToRecover", dir=path)
                for thread in share.segments:
                    self._metrics.remove("LogManager", "remainingSegmentsToRecover", dir=path, threadNum=thread)

    def _counts(self) -> tuple[int, int]:
        shares = self._shares.values()
        return sum(share.done for share in shares), sum(share.total for share in shares)

    def _read(self) -> str:
        return f"{self._bytes // _MB} MB read for recovery"

    def _show(self) -> None:
        now_ms = self._clock.monotonic_ns() // 1_000_000
        if now_ms - self._logged_ms >= LOG_INTERVAL_MS:
            self._logged_ms = now_ms
            done, total = self._counts()
            _log.info("Loading logs: {done} of {total} done, {text}", done=done, total=total, text=self._read())
        if self._terminal is not None and now_ms - max(self._drawn_ms, self._began_ms) >= BAR_INTERVAL_MS:
            self._drawn_ms = now_ms
            done, total = self._counts()
            filled = BAR_WIDTH * done // max(total, 1)
            bar = "#" * filled + "." * (BAR_WIDTH - filled)
            self._terminal.write(f"\rloading logs [{bar}] {done}/{total}, {self._read()} ")
            self._terminal.flush()
