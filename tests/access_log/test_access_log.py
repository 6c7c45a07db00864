import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.access_log.samples import request
from twisted_kafka.access_log.access_log import AccessLog, make_access_log
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.timing.clock import ManualClock

NOW_MS = 1_700_000_000_000  # 2023-11-14T22:13:20Z


class Made:
    """An access log as a broker's configuration makes it, and what it wrote."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self.directory = directory
        clock = ManualClock(NOW_MS)
        self.metrics = MetricsRegistry(clock)
        keys = {f"access.log.{name.replace('_', '.')}": value for name, value in settings.items()}
        log = make_access_log(KafkaConfig({"access.log.dir": str(directory), **keys}), 1, clock, self.metrics)
        assert log is not None
        self.log: AccessLog = log

    def complete(self, count: int, error: int = 0) -> None:
        for _ in range(count):
            made = request()
            made.context.note_error(error)
            self.log.request_completed(made)

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for path in self.directory.rglob("*.jsonl") for line in path.read_text().splitlines()]


@pytest.mark.medium
def test_no_request_is_lost_or_doubled_among_threads(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.log.start()
    threads = [threading.Thread(target=made.complete, args=(1_000,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    made.log.stop()
    numbers = [line["sequence"] for line in made.lines()]
    assert len(numbers) == len(set(numbers)) == 4_000
    assert made.log.writer.dropped == 0


def test_what_comes_too_fast_is_dropped_and_counted(tmp_path: Path) -> None:
    made = Made(tmp_path, queue_size="100")
    made.complete(250)
    made.log.writer.write_waiting()
    made.complete(20)
    made.log.stop()
    assert len(made.lines()) == 120
    assert made.metrics.value("AccessLog", "DroppedLinesPerSec") == 150
    assert made.metrics.value("AccessLog", "LinesPerSec") == 120


def test_a_sample_keeps_what_failed_and_counts_what_it_leaves_out(tmp_path: Path) -> None:
    made = Made(tmp_path, sample_rate="0.01")
    made.complete(5, error=3)
    made.complete(2_000)
    made.log.stop()
    lines = made.lines()
    assert sum(line["error"] is not None for line in lines) == 5
    assert made.metrics.value("AccessLog", "SampledOutLinesPerSec") == 2_005 - len(lines)
    assert {line.get("weight") for line in lines if line["error"] is None} <= {100}
