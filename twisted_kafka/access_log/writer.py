"""The thread that writes the access log, and the queue in front of it."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from twisted.logger import Logger

from twisted_kafka.access_log.record import HOUR_AT, utc_text
from twisted_kafka.access_log.rotation import LogFiles
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.timing.clock import IClock

_log = Logger()

_BATCH_LINES: Final = 20_000
"""How many lines are written at a time, about."""

_LINES_AT_A_TIME: Final = 64
_YIELD_S: Final = 0.0001
"""After so many lines were made, in a fifth of a millisecond, those who serve requests have their turn at the interpreter."""

_COMPLAINT_INTERVAL_NS: Final = 10_000_000_000
"""Drops and errors are told in the broker's log at most this often."""

_STOP_TIMEOUT_S: Final = 10.0


class AccessLogWriter:
    """Takes requests that are over from any thread, and writes their lines in batches.

    At most `queue_size` requests wait; further ones are dropped, and the drops are counted and told. What cannot be written, on a
    full disk for example, counts as dropped too: the access log never holds a request up.
    """

    def __init__(
        self,
        files: LogFiles,
        clock: IClock,
        metrics: MetricsRegistry,
        make_lines: Callable[[Sequence[Any]], list[str]],
        *,
        queue_size: int,
        write_interval_ms: int,
    ) -> None:
        """``make_lines`` makes the lines of some requests, each with a newline at its end; it is called by one thread at a time."""
        self._files = files
        self._clock = clock
        self._make_lines = make_lines
        self._queue: deque[Any] = deque()
        self._queue_size = queue_size
        self._write_interval_s = write_interval_ms / 1000
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafka-access-log-writer", daemon=True)
        self._lines_written = metrics.meter("AccessLog", "LinesPerSec")
        self._lines_dropped = metrics.meter("AccessLog", "DroppedLinesPerSec")
        self._lines_unpublished = metrics.meter("AccessLog", "UnpublishedLinesPerSec")
        self.publish: Callable[[Sequence[str]], int] | None = None
        """Takes lines that were written, for access.log.topic.enable; returns how many it could not take."""
        metrics.gauge("AccessLog", "QueueSize", self._queue.__len__)
        self._told_dropped = 0
        self._told_at_ns: int | None = None
        self._error: OSError | None = None

    def add(self, request: Any) -> None:
        """Have a request's line written; if too many wait, count it as dropped."""
        queue = self._queue
        if len(queue) < self._queue_size:
            queue.append(request)
        else:
            self._lines_dropped.mark()

    @property
    def dropped(self) -> int:
        """How many lines were not written."""
        return self._lines_dropped.count

    def start(self) -> None:
        """Start the thread, which first closes what an earlier run left open."""
        self._thread.start()

    def stop(self) -> None:
        """Write what waits, close the file and end the thread."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(_STOP_TIMEOUT_S)
            if self._thread.is_alive():
                _log.warn("Access log: the writer did not end in {seconds} s", seconds=_STOP_TIMEOUT_S)
        else:
            self.write_waiting()
            self._files.close()

    def write_waiting(self) -> None:
        """Write all lines that wait now, and close the file when it is due; errors are counted and told."""
        now_ms = self._clock.wall_ms()
        while self._queue:
            lines = self._take()
            try:
                self._write(lines, now_ms)
            except OSError as error:
                self._error = error
                self._lines_dropped.mark(len(lines))
            if self.publish is not None and (lost := self.publish(lines)):
                self._lines_unpublished.mark(lost)
        try:
            self._files.roll_if_due(utc_text(now_ms // 1000)[:13], now_ms)
        except OSError as error:
            self._error = error
        self._complain()

    def _run(self) -> None:
        try:
            self._files.recover()
        except OSError as error:
            self._error = error
        while not self._stopping.wait(self._write_interval_s):
            self.write_waiting()
        self.write_waiting()
        try:
            self._files.close()
        except OSError as error:
            _log.warn("Access log: {error}", error=error)

    def _take(self) -> list[str]:
        queue = self._queue
        lines: list[str] = []
        while queue and len(lines) < _BATCH_LINES:
            taken = [queue.popleft() for _ in range(min(len(queue), _LINES_AT_A_TIME))]
            try:
                lines += self._make_lines(taken)
            except Exception:  # noqa: BLE001 the thread must go on; what it could not write is counted
                _log.failure("Access log: {count} lines could not be made", count=len(taken))
                self._lines_dropped.mark(len(taken))
            self._stopping.wait(_YIELD_S)
        return lines

    def _write(self, lines: list[str], now_ms: int) -> None:
        while lines:
            hour = lines[0][HOUR_AT]
            same_hour = lines
            if lines[-1][HOUR_AT] != hour:  # lines are nearly in order, so that the hour changes within a batch only at its turn
                same_hour = [line for line in lines if line[HOUR_AT] == hour]
            self._files.write(hour, "".join(same_hour).encode("ascii"), now_ms)
            self._lines_written.mark(len(same_hour))
            lines = [] if same_hour is lines else [line for line in lines if line[HOUR_AT] != hour]

    def _complain(self) -> None:
        now_ns, dropped = self._clock.monotonic_ns(), self.dropped
        if dropped == self._told_dropped and self._error is None:
            return
        if self._told_at_ns is not None and now_ns - self._told_at_ns < _COMPLAINT_INTERVAL_NS:
            return
        why = f": {self._error}" if self._error is not None else ", for the queue was full"
        _log.warn("Access log: {count} lines were dropped{why}", count=dropped - self._told_dropped, why=why)
        self._told_dropped, self._told_at_ns, self._error = dropped, now_ns, None
