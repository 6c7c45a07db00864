"""How many files of old segments stay open."""

import gc
import os
import threading
from pathlib import Path

import pytest

from tests.support.fake import Fake
from tests.support.logs import Bench, append, contents
from twisted_kafka.log.results import FetchIsolation
from twisted_kafka.log.segment.log_segment import OpenSegments, old_segments
from twisted_kafka.log.unified_log import UnifiedLog

LIMIT = 4


class Segment(Fake):
    def __init__(self, name: str, *, is_old: bool = True) -> None:
        self.name = name
        self.was_used = self.is_open = True
        self.is_old = is_old

    def release_file(self) -> None:
        self.is_open = False


def still_open(segments: list[Segment]) -> str:
    return "".join(segment.name for segment in segments if segment.is_open)


def test_those_that_nobody_uses_are_closed_first() -> None:
    opened = OpenSegments(3)
    segments = [Segment(name) for name in "abcde"]
    for segment in segments[:3]:
        opened.add(segment)
        segment.was_used = False
    segments[0].was_used = True
    opened.add(segments[3])
    assert still_open(segments[:4]) == "acd"
    opened.add(segments[4])
    assert still_open(segments) == "ade"


def test_if_all_are_used_the_oldest_is_closed() -> None:
    opened = OpenSegments(2)
    segments = [Segment(name) for name in "abc"]
    for segment in segments:
        opened.add(segment)
    assert still_open(segments) == "bc"


def test_active_and_replaced_ones_stay_open_and_gone_ones_count_no_more() -> None:
    opened = OpenSegments(2)
    active, kept, gone = Segment("a", is_old=False), Segment("k"), Segment("g")
    for segment in (active, kept, gone):
        opened.add(segment)
    opened.keep(kept)
    del gone, segment
    gc.collect()
    others = [Segment(name) for name in "xyz"]
    for other in others:
        opened.add(other)
    assert still_open([active, kept, *others]) == "akyz"


def open_files(log: UnifiedLog) -> set[str]:
    gc.collect()
    links = []
    for number in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:  # that of the listing
            continue
    return {os.path.basename(link) for link in links if link.startswith(f"{log.dir}/")}


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> UnifiedLog:
    """A log of thirty segments, just opened."""
    monkeypatch.setattr(old_segments, "_limit", LIMIT)
    bench = Bench(tmp_path / "topic-0", segment_bytes=200)
    log = bench.open()
    for number in range(30):
        append(log, b"%02d" % number + b"x" * 80)
    assert len(log.segments) == 30
    assert len(open_files(log)) <= LIMIT + 1, "those that were rolled"
    return bench.reopen_clean(log)


@pytest.mark.medium
def test_a_consumer_of_everything_leaves_few_files_open(log: UnifiedLog) -> None:
    assert [value[:2] for _, value in contents(log)] == [b"%02d" % number for number in range(30)]
    assert len(open_files(log)) <= LIMIT + 1
    append(log, b"x")
    assert log.segments.active.path.name in open_files(log)


def test_a_response_that_is_sent_keeps_its_file(log: UnifiedLog) -> None:
    region = log.read(0, 1000, FetchIsolation.LOG_END).records
    assert not isinstance(region, bytes)
    contents(log, 1)
    assert log.segments.first._file is None
    assert b"00xxx" in bytes(region.read())


@pytest.mark.medium
def test_a_replaced_segment_keeps_its_file(log: UnifiedLog) -> None:
    first = log.segments.first
    first.preload()
    contents(log, 1)
    assert first.path.name in open_files(log)


@pytest.mark.medium
def test_threads_that_read_everything_find_it(log: UnifiedLog) -> None:
    found: list[int] = []
    readers = [threading.Thread(target=lambda: found.append(len(contents(log)))) for _ in range(4)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert found == [30] * 4
