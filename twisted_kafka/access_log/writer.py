"""The thread that writes the access log, and the queue in front of it."""

from collections.abc import Callable, Sequence
from typing import Final

from twisted.logger import Logger

from twisted_kafka.access_log.record import HOUR_AT, utc_text
from twisted_kafka.access_log.rotation import LogFiles
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.system import machine
from twisted_kafka.system.bounded import BoundedQueue
from twisted_kafka.system.threads import attempt, make_thread, repeat
from twisted_kafka.timing.clock import IClock

_log = Logger()

_BATCH_LINES: Final = 500
"""Most lines taken from the queue and written at a time: more do not fit the caches, and joining keeps the interpreter lock."""

_BATCH_BYTES: Final = 4 << 20
"""A batch takes lines until it has this many bytes."""

QUEUE_BYTES: Final = 64 << 20
"""The default of access.log.queue.bytes."""

_WARNING_INTERVAL_NS: Final = 10_000_000_000
"""Least time between two warnings about dropped lines in the broker's log."""

_STOP_TIMEOUT_S: Final = 10.0


class AccessLogWriter:
    """Takes lines from any thread and writes them in batches.

    At most ``queue_size`` lines wait, with at most ``queue_bytes``. Further lines are dropped, counted and logged, and so are
    lines that cannot be written, for example on a full disk: the access log never delays a request.
    """

    def __init__(
        self,
        files: LogFiles,
        clock: IClock,
        metrics: MetricsRegistry,
        *,
        queue_size: int,
        queue_bytes: int = QUEUE_BYTES,
        write_interval_ms: int,
    ) -> None:
        self._files = files
        self._clock = clock
        self._queue: BoundedQueue[str] = BoundedQueue(queue_bytes, max_items=queue_size)
        self._write_interval_s = write_interval_ms / 1000
        self._stopping = machine.Event()
        self._thread = make_thread(self._run, "kafka-access-log-writer")
        self._lines_written = metrics.meter("AccessLog", "LinesPerSec")
        self._lines_dropped = metrics.meter("AccessLog", "DroppedLinesPerSec")
        self._lines_sampled_out = metrics.meter("AccessLog", "SampledOutLinesPerSec")
        self._lines_unpublished = metrics.meter("AccessLog", "UnpublishedLinesPerSec")
        self.publish: Callable[[Sequence[str]], int] | None = None
        """Gets the lines that were written, for access.log.topic.enable; returns how many it could not append."""
        metrics.gauge("AccessLog", "QueueSize", self._queue.__len__)
        metrics.gauge("AccessLog", "QueueBytes", lambda: self._queue.held_bytes)
        self._reported_dropped = self._reported_unpublished = 0
        self._reported_at_ns: int | None = None
        self._error: Exception | None = None
        self._publish_error: Exception | None = None

    def add(self, line: str) -> None:
        """Queue a line, which ends in a newline, or count it as dropped if the queue is full."""
        if not self._queue.put(line):
            self._lines_dropped.mark()

    def count_sampled_out(self) -> None:
        """Count a request that is not in the sample."""
        self._lines_sampled_out.mark()

    @property
    def dropped(self) -> int:
        """How many lines were not written."""
        return self._lines_dropped.count

    def start(self) -> None:
        """Start the thread, which first recovers files of an earlier run; raises OSError if the directory is not writable."""
        self._files.prepare()
        self._thread.start()

    def stop(self) -> None:
        """Write the queued lines, close the file and end the thread."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(_STOP_TIMEOUT_S)
            if self._thread.is_alive():
                _log.warn("Access log: the writer did not end within {seconds} s", seconds=_STOP_TIMEOUT_S)
        else:
            self.write_waiting()
            self._files.close()

    def write_waiting(self) -> None:
        """Write all queued lines and roll the file if it is due. Errors are counted and logged."""
        now_ms = self._clock.wall_ms()
        while lines := self._queue.take(_BATCH_LINES, _BATCH_BYTES):
            try:
                self._write(lines, now_ms)
            except Exception as error:  # noqa: BLE001 the lines behind them are written all the same
                self._error = error
                self._lines_dropped.mark(len(lines))
            self._publish(lines)
        try:
            self._files.roll_if_due(utc_text(now_ms // 1000)[:13], now_ms)
        except OSError as error:
            self._error = error
        self._warn()

    def _publish(self, lines: Sequence[str]) -> None:
        if self.publish is None:
            return
        try:
            lost = self.publish(lines)
        except Exception as error:  # noqa: BLE001 a topic that fails must not end the files
            self._publish_error = error
            lost = len(lines)
        if lost:
            self._lines_unpublished.mark(lost)

    def _run(self) -> None:
        attempt(self._files.recover, "recovering the access log")
        repeat(self._step, self._stopping.wait, "the access log's writer")
        attempt(self.write_waiting, "writing the access log's last lines")
        attempt(self._files.close, "closing the access log")

    def _step(self) -> bool:
        is_stopping = self._stopping.wait(self._write_interval_s)
        if not is_stopping:
            self.write_waiting()
        return not is_stopping

    def _write(self, lines: list[str], now_ms: int) -> None:
        while lines:
            hour = lines[0][HOUR_AT]
            same_hour = lines
            if lines[-1][HOUR_AT] != hour:  # lines are nearly in order: only a batch at the turn of the hour has two
                same_hour = [line for line in lines if line[HOUR_AT] == hour]
            self._files.write(hour, "".join(same_hour).encode("ascii"), now_ms)
            self._lines_written.mark(len(same_hour))
            lines = [] if same_hour is lines else [line for line in lines if line[HOUR_AT] != hour]

    def _warn(self) -> None:
        now_ns, dropped, unpublished = self._clock.monotonic_ns(), self.dropped, self._lines_unpublished.count
        if dropped == self._reported_dropped and self._error is None and self._publish_error is None:
            return
        if self._reported_at_ns is not None and now_ns - self._reported_at_ns < _WARNING_INTERVAL_NS:
            return
        if dropped != self._reported_dropped or self._error is not None:
            why = self._error or "the queue was full"
            _log.warn("Access log: {count} lines were dropped: {why}", count=dropped - self._reported_dropped, why=why)
        if self._publish_error is not None:
            count = unpublished - self._reported_unpublished
            _log.warn("Access log: {count} lines are not in the topic: {why}", count=count, why=self._publish_error)
        self._reported_dropped, self._reported_unpublished, self._reported_at_ns = dropped, unpublished, now_ns
        self._error = self._publish_error = None
