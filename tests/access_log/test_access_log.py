import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.access_log.test_record import request
from tests.access_log.test_writer import NOW_MS
from twisted_kafka.access_log.access_log import LINES_AT_A_TIME, AccessLog
from twisted_kafka.access_log.archive import Archive
from twisted_kafka.access_log.record import LineMaker
from twisted_kafka.access_log.rotation import LogFiles
from twisted_kafka.access_log.sampling import Sampler
from twisted_kafka.access_log.writer import AccessLogWriter
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.timing.clock import ManualClock

pytestmark = pytest.mark.pure  # the requests have no channel


class Written:
    """An access log whose writer writes when it is told, and what came of it."""

    def __init__(self, directory: Path, *, queue_size: int = 10_000, sampler: Sampler | None = None) -> None:
        self.directory = directory
        clock = ManualClock(NOW_MS)
        self.metrics = MetricsRegistry(clock)
        files = LogFiles(directory, 1, roll_bytes=1 << 30, roll_ms=60_000)
        self.writer = AccessLogWriter(files, clock, self.metrics, queue_size=queue_size, write_interval_ms=1)
        archive = Archive(directory, 1, clock, form="jsonl", retention_hours=-1, retention_bytes=-1)
        self.log = AccessLog(self.writer, LineMaker(1, clock, 10), archive, sampler)

    def complete(self, count: int) -> None:
        for _ in range(count):
            self.log.request_completed(request())

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for path in self.directory.rglob("*.jsonl") for line in path.read_text().splitlines()]


def test_the_writer_takes_in_what_has_no_line_yet(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.complete(LINES_AT_A_TIME + 3)
    written.writer.write_waiting()
    first = len(written.lines())
    written.complete(1)
    written.writer.stop()
    assert (first, len(written.lines())) == (LINES_AT_A_TIME + 3, LINES_AT_A_TIME + 4)


def test_what_the_queue_has_no_room_for_is_dropped_and_counted(tmp_path: Path) -> None:
    written = Written(tmp_path, queue_size=LINES_AT_A_TIME + 10)
    written.complete(3 * LINES_AT_A_TIME)
    written.writer.write_waiting()
    assert len(written.lines()) == LINES_AT_A_TIME + 10
    assert written.writer.dropped == 2 * LINES_AT_A_TIME - 10
    assert written.metrics.value("AccessLog", "DroppedLinesPerSec") == 2 * LINES_AT_A_TIME - 10
    assert written.metrics.value("AccessLog", "LinesPerSec") == LINES_AT_A_TIME + 10
    written.complete(5)
    written.writer.write_waiting()
    assert len(written.lines()) == LINES_AT_A_TIME + 15


def test_a_sample_counts_what_it_leaves_out_and_drops_only_what_it_keeps(tmp_path: Path) -> None:
    draws = iter([0.0, 0.5] * 1000)
    written = Written(tmp_path, queue_size=40, sampler=Sampler(2, 1000, lambda: next(draws)))
    written.complete(100)
    written.writer.write_waiting()
    assert written.metrics.value("AccessLog", "SampledOutLinesPerSec") == 50
    assert written.writer.dropped == 10
    assert [line["weight"] for line in written.lines()] == [2] * 40


def test_no_request_is_lost_or_doubled_among_threads(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.log.start()
    threads = [threading.Thread(target=written.complete, args=(1_000,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    written.log.stop()
    numbers = [line["sequence"] for line in written.lines()]
    assert len(numbers) == len(set(numbers)) == 4_000
    assert written.writer.dropped == 0
