import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from twisted.logger import capturedLogs, formatEvent

from twisted_kafka.access_log.rotation import LogFiles
from twisted_kafka.access_log.writer import AccessLogWriter
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.timing.clock import ManualClock

NOW_MS = 1_700_000_000_000  # 2023-11-14T22:13:20Z
HOUR_MS = 3_600_000


def line(hour: str = "2023-11-14T22", text: str = "x") -> str:
    return f'{{"v":1,"time":"{hour}:00:00.000Z","text":"{text}"}}\n'


class Log:
    def __init__(
        self,
        directory: Path,
        *,
        roll_bytes: int = 1 << 20,
        roll_ms: int = 60_000,
        queue_size: int = 100,
        queue_bytes: int = 1 << 20,
    ) -> None:
        self.directory = directory
        self.clock = ManualClock(NOW_MS)
        self.metrics = MetricsRegistry(self.clock)
        self.files = LogFiles(directory, 1, roll_bytes=roll_bytes, roll_ms=roll_ms)
        self.writer = AccessLogWriter(
            self.files, self.clock, self.metrics, queue_size=queue_size, queue_bytes=queue_bytes, write_interval_ms=1
        )

    def write(self, *lines: str) -> None:
        for each in lines:
            self.writer.add(each)
        self.writer.write_waiting()

    @property
    def names(self) -> list[str]:
        return sorted(str(path.relative_to(self.directory)) for path in self.directory.rglob("*.jsonl"))


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def test_a_file_has_a_dot_until_it_is_closed(log: Log) -> None:
    log.write(line(), line())
    assert log.names == ["date=2023-11-14/hour=22/.node-1-000001.jsonl"]
    assert (log.directory / log.names[0]).read_text() == line() * 2
    log.writer.stop()
    assert log.names == ["date=2023-11-14/hour=22/node-1-000001.jsonl"]


def test_lines_go_to_the_file_of_their_hour(log: Log) -> None:
    late = line("2023-11-15T00", "late")
    log.write(line(), late, line(), late)
    log.writer.stop()
    assert log.names == ["date=2023-11-14/hour=22/node-1-000001.jsonl", "date=2023-11-15/hour=00/node-1-000001.jsonl"]
    assert [(log.directory / name).read_text() for name in log.names] == [line() * 2, late * 2]


def test_a_file_is_closed_at_its_size(tmp_path: Path) -> None:
    log = Log(tmp_path, roll_bytes=10)
    log.write(line())
    log.write(line())
    assert log.names == ["date=2023-11-14/hour=22/node-1-000001.jsonl", "date=2023-11-14/hour=22/node-1-000002.jsonl"]


@pytest.mark.parametrize("wait_ms", [60_000, HOUR_MS])
def test_a_file_is_closed_at_its_age_without_further_lines(log: Log, wait_ms: int) -> None:
    log.write(line())
    log.clock.advance_ms(wait_ms - 1 if wait_ms < HOUR_MS else 0)
    log.write()
    assert log.names[0].split("/")[-1].startswith(".")
    log.clock.advance_ms(wait_ms)
    log.write()
    assert log.names == ["date=2023-11-14/hour=22/node-1-000001.jsonl"]


def test_what_does_not_fit_the_queue_is_counted(tmp_path: Path) -> None:
    log = Log(tmp_path, queue_size=2)
    for number in range(5):
        log.writer.add(line(text=str(number)))
    log.write()
    assert log.writer.dropped == 3
    assert log.metrics.value("AccessLog", "DroppedLinesPerSec") == 3
    assert log.metrics.value("AccessLog", "LinesPerSec") == 2
    log.write(line(text="5"))
    assert (log.directory / log.names[0]).read_text() == "".join(line(text=text) for text in "015")


def write_a_part_of(text: str, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a line to a disk that is full after ten bytes, and has room again afterwards."""
    real_write = os.write
    answers = [lambda fd, data: real_write(fd, data[:10]), lambda fd, data: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full"))]
    monkeypatch.setattr("os.write", lambda fd, data: answers.pop(0)(fd, data) if answers else real_write(fd, data))  # type: ignore[no-untyped-call]
    log.write(line(text=text))


def test_a_line_that_cannot_be_cut_off_is_left_to_the_next_start(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_descriptor: int, _size: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    log.write(line())
    with monkeypatch.context() as broken:
        broken.setattr("os.ftruncate", fail)
        write_a_part_of("lost", log, monkeypatch)
    log.write(line(text="again"))
    log.writer.stop()
    assert log.files.recover() == 1
    assert [(log.directory / name).read_text() for name in log.names] == [line(), line(text="again")]


def test_a_full_disk_loses_lines_but_tears_none(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    log.write(line())
    write_a_part_of("lost", log, monkeypatch)
    log.write(line(text="again"))
    log.writer.stop()
    assert log.writer.dropped == 1
    assert (log.directory / log.names[0]).read_text() == line() + line(text="again")


@pytest.mark.parametrize("torn", ["", '{"v":1,"ti'])
def test_what_a_crash_left_open_is_closed_without_its_torn_line(log: Log, torn: str) -> None:
    folder = log.directory / "date=2023-11-14" / "hour=22"
    folder.mkdir(parents=True)
    (folder / ".node-1-000007.jsonl").write_text(line() * 3000 + torn)
    (folder / ".node-1-000008.jsonl").write_text(torn)
    (folder / ".node-2-000009.jsonl").write_text(torn)
    assert log.files.recover() == 2
    assert [name.split("/")[-1] for name in log.names] == [".node-2-000009.jsonl", "node-1-000007.jsonl"]
    assert (folder / "node-1-000007.jsonl").read_text() == line() * 3000
    log.write(line())
    assert ".node-1-000008.jsonl" in log.names[0]


def test_the_thread_writes_and_ends(log: Log) -> None:
    log.writer.start()
    for _ in range(50):
        log.writer.add(line())
    log.writer.stop()
    assert (log.directory / log.names[0]).read_text() == line() * 50


def test_a_topic_that_fails_costs_nothing_but_its_own_lines(log: Log) -> None:
    failing = [True]

    def publish(lines: Sequence[str]) -> int:
        if failing[0]:
            raise ValueError("no store")
        return 0

    log.writer.publish = publish
    with capturedLogs() as events:
        log.write(line(text="a"), line(text="b"))
    failing.clear()
    failing.append(False)
    log.write(line(text="c"))
    assert [formatEvent(event) for event in events] == ["Access log: 2 lines are not in the topic: no store"]
    assert log.metrics.value("AccessLog", "UnpublishedLinesPerSec") == 2
    log.writer.stop()
    assert (log.directory / log.names[0]).read_text() == line(text="a") + line(text="b") + line(text="c")


def test_a_line_that_cannot_be_written_is_dropped_alone(log: Log) -> None:
    with capturedLogs() as events:
        log.write(line(text="\udcff"))
        log.write(line())
    assert log.writer.dropped == 1
    assert log.metrics.value("AccessLog", "LinesPerSec") == 1
    assert "1 lines were dropped" in formatEvent(events[0])


def test_the_queue_is_bounded_in_bytes(tmp_path: Path) -> None:
    log = Log(tmp_path, queue_bytes=10_000)
    for _ in range(5):
        log.writer.add(line(text="x" * 3000))
    assert log.metrics.value("AccessLog", "QueueSize") == 3
    queued_bytes = log.metrics.value("AccessLog", "QueueBytes")
    assert isinstance(queued_bytes, int)
    assert 9_000 < queued_bytes <= 10_000
    assert log.writer.dropped == 2
    log.write()
    assert log.metrics.value("AccessLog", "QueueBytes") == 0
    assert log.metrics.value("AccessLog", "LinesPerSec") == 3
