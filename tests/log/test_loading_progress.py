"""What an operator sees while the logs are loaded: metrics, lines in the log, a progress bar."""

import io
import threading
from pathlib import Path
from typing import Any

import pytest
from twisted.logger import capturedLogs, formatEvent

from tests.support.logs import NOW_MS
from twisted_kafka.log.directories.loading_progress import (
    BAR_INTERVAL_MS,
    BAR_WIDTH,
    LOG_INTERVAL_MS,
    LoadingInterruptedError,
    LoadingProgress,
)
from twisted_kafka.log.directories.log_directory import LogDirectory
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.timing.clock import ManualClock

DIRECTORY = LogDirectory(Path("/logs/a"))
OTHER = LogDirectory(Path("/logs/b"))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS)


def test_logs_and_segments_that_are_left_are_counted_for_each_directory_and_thread(clock: ManualClock) -> None:
    metrics = MetricsRegistry(clock)
    progress = LoadingProgress(clock, metrics)

    def left(name: str, directory: LogDirectory = DIRECTORY, **tags: Any) -> Any:
        return metrics.value("LogManager", f"remaining{name}ToRecover", dir=str(directory.path), **tags)

    progress.begin(DIRECTORY, 3)
    progress.begin(OTHER, 1)
    segment_done = progress.segments_of(DIRECTORY)
    assert left("Segments", threadNum=0) is None
    segment_done(5, 0)
    segment_done(4, 100)
    thread = threading.Thread(target=segment_done, args=(9, 0))
    thread.start()
    thread.join()
    progress.segments_of(OTHER)(2, 0)
    assert [left("Segments", threadNum=number) for number in (0, 1, 2)] == [4, 9, None]
    assert left("Segments", OTHER, threadNum=0) == 2
    progress.log_done(DIRECTORY)
    progress.log_done(DIRECTORY)
    assert (left("Logs"), left("Logs", OTHER)) == (1, 1)
    progress.end()
    assert not [name for name, _ in metrics.items() if "remaining" in name.name]


def test_a_bar_is_drawn_from_time_to_time_and_removed_at_the_end(clock: ManualClock) -> None:
    drawn = io.StringIO()
    progress = LoadingProgress(clock, terminal=drawn)
    clock.advance_ms(1000)
    progress.begin(DIRECTORY, 3)
    progress.begin(OTHER, 1)
    segment_done = progress.segments_of(DIRECTORY)

    def seen_after(ms: int) -> str:
        drawn.seek(0)
        drawn.truncate()
        clock.advance_ms(ms)
        segment_done(1, 600_000)
        return drawn.getvalue()

    assert seen_after(BAR_INTERVAL_MS - 1) == ""
    assert seen_after(1) == f"\rloading logs [{'.' * BAR_WIDTH}] 0/4, 1 MB read for recovery "
    progress.log_done(DIRECTORY)
    assert seen_after(BAR_INTERVAL_MS - 1) == ""
    assert seen_after(1) == f"\rloading logs [{'#' * 7}{'.' * 23}] 1/4, 2 MB read for recovery "
    for _ in range(2):
        progress.log_done(DIRECTORY)
    clock.advance_ms(BAR_INTERVAL_MS)
    progress.log_done(OTHER)
    assert drawn.getvalue().endswith(f"\rloading logs [{'#' * BAR_WIDTH}] 4/4, 2 MB read for recovery ")
    bar = drawn.getvalue().rpartition("\r")[2]
    drawn.seek(0)
    drawn.truncate()
    progress.end()
    _, spaces, rest = drawn.getvalue().split("\r")
    assert (rest, spaces.strip()) == ("", "")
    assert len(spaces) >= len(bar)


def test_a_line_is_logged_from_time_to_time_and_at_the_end(clock: ManualClock) -> None:
    progress = LoadingProgress(clock)
    clock.advance_ms(1000)
    progress.begin(DIRECTORY, 2)

    def said(act: Any, *arguments: Any) -> list[str]:
        with capturedLogs() as events:
            act(*arguments)
        return [formatEvent(event) for event in events]

    clock.advance_ms(LOG_INTERVAL_MS - 1)
    assert said(progress.log_done, DIRECTORY) == []
    clock.advance_ms(1)
    assert said(progress.segments_of(DIRECTORY), 1, 2_000_000) == ["Loading logs: 1 of 2 done, 2 MB read for recovery"]
    clock.advance_ms(LOG_INTERVAL_MS - 1)
    assert said(progress.segments_of(DIRECTORY), 0, 0) == []
    clock.advance_ms(1)
    assert said(progress.log_done, DIRECTORY) == ["Loading logs: 2 of 2 done, 2 MB read for recovery"]
    clock.advance_ms(7)
    assert said(progress.end) == ["2 of 2 logs loaded in 10007 ms, 2 MB read for recovery"]
    nothing = LoadingProgress(clock, terminal=io.StringIO())
    nothing.begin(DIRECTORY, 0)
    assert said(nothing.end) == []


def test_whoever_loads_stops_at_the_next_log_or_segment(clock: ManualClock) -> None:
    progress = LoadingProgress(clock)
    progress.begin(DIRECTORY, 1)
    segment_done = progress.segments_of(DIRECTORY)
    progress.check()
    progress.interrupt()
    with pytest.raises(LoadingInterruptedError):
        progress.check()
    with pytest.raises(LoadingInterruptedError):
        segment_done(1, 1)
