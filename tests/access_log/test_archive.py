"""Closed files are compressed or turned into Parquet, and deleted in the end; nothing is lost on the way."""

import json
import os
from pathlib import Path

import pytest
from twisted.logger import capturedLogs, formatEvent

from tests.access_log.samples import request
from twisted_kafka.access_log import archive as archives
from twisted_kafka.access_log.archive import Archive
from twisted_kafka.access_log.record import LineMaker
from twisted_kafka.network.requests.request_context import TransactionNote, TransactionOutcome
from twisted_kafka.protocol.records import zstd_frames
from twisted_kafka.timing.clock import ManualClock

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


def archive(directory: Path, form: str = "jsonl", hours: int = -1, size_bytes: int = -1) -> Archive:
    return Archive(directory, 1, ManualClock(NOW_MS), form=form, retention_hours=hours, retention_bytes=size_bytes)


def add(directory: Path, name: str, age_ms: int = HOUR_MS, text: str = "", hour: int = 22) -> Path:
    folder = directory / "date=2023-11-14" / f"hour={hour:02}"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text or line() * 100)
    os.utime(path, ns=((NOW_MS - age_ms) * 1_000_000,) * 2)
    return path


def line() -> str:
    made = request()
    made.context.note_topic("orders", (4,), 2, 300)
    return LineMaker(1, ManualClock(NOW_MS), 10, 10).line(made)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.rglob("*") if path.is_file())


def test_a_settled_file_is_compressed(tmp_path: Path) -> None:
    path = add(tmp_path, "node-1-000001.jsonl")
    text = path.read_bytes()
    archive(tmp_path, "zstd").run_once()
    assert names(tmp_path) == ["node-1-000001.jsonl.zst"]
    made = path.with_name("node-1-000001.jsonl.zst")
    assert zstd_frames.decompress(made.read_bytes(), 1 << 20) == text
    assert made.stat().st_mtime_ns // 1_000_000 == NOW_MS - HOUR_MS


@pytest.mark.medium
def test_a_settled_file_becomes_parquet_with_the_same_values(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    note = TransactionNote("tx", TransactionOutcome.TIMED_OUT, 60_000)
    own = LineMaker(1, ManualClock(NOW_MS), 10, 10).own_line(note, [("orders", (0,), 0, 0, 0)])
    path = add(tmp_path, "node-1-000001.jsonl", text=line() * 100 + own)
    lines = [json.loads(each) for each in path.read_text().splitlines()]
    lines[-1]["transaction"]["timeout_ms"] = None
    archive(tmp_path, "parquet").run_once()
    assert names(tmp_path) == ["node-1-000001.parquet"]
    rows = parquet.ParquetFile(path.with_name("node-1-000001.parquet")).read().to_pylist()
    assert len(rows) == len(lines)
    for row, values in zip(rows, lines, strict=True):
        assert row == dict.fromkeys(row) | values


def test_files_that_are_open_fresh_or_another_brokers_are_left_alone(tmp_path: Path) -> None:
    for name, age_ms in ((".node-1-000002.jsonl", HOUR_MS), ("node-1-000003.jsonl", 1000), ("node-2-000001.jsonl", HOUR_MS)):
        add(tmp_path, name, age_ms)
    before = names(tmp_path)
    archive(tmp_path, "zstd").run_once()
    assert names(tmp_path) == before


def test_what_a_crash_left_half_done_is_done_again(tmp_path: Path) -> None:
    add(tmp_path, "node-1-000001.jsonl")
    add(tmp_path, "node-1-000001.jsonl.zst", text="of before the crash")
    add(tmp_path, ".node-1-000001.jsonl.zst", text="half")
    restarted = archive(tmp_path, "zstd")
    restarted.recover()
    restarted.run_once()
    assert names(tmp_path) == ["node-1-000001.jsonl.zst"]
    made = tmp_path / "date=2023-11-14/hour=22/node-1-000001.jsonl.zst"
    assert zstd_frames.decompress(made.read_bytes(), 1 << 20)


@pytest.mark.medium
def test_a_file_that_cannot_be_converted_stays(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    add(tmp_path, "node-1-000001.jsonl", text=line() + "torn")
    archive(tmp_path, "parquet").run_once()
    assert names(tmp_path) == ["node-1-000001.jsonl"]


@pytest.mark.medium
def test_a_file_that_cannot_be_converted_keeps_no_other_from_its_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the error is. The file is read again after longer and longer pauses."""
    bad = add(tmp_path, "node-1-000001.jsonl", HOUR_MS)
    add(tmp_path, "node-1-000002.jsonl", HOUR_MS)
    add(tmp_path, "node-1-000003.jsonl.zst", 9 * HOUR_MS)
    tried: list[Path] = []
    convert = archives._CONVERTERS["zstd"]

    def fail(path: Path, made: Path) -> None:
        tried.append(path)
        if path == bad:
            raise TypeError("a fault of a library")
        convert(path, made)

    monkeypatch.setitem(archives._CONVERTERS, "zstd", fail)
    clock = ManualClock(NOW_MS)
    archive = Archive(tmp_path, 1, clock, form="zstd", retention_hours=8, retention_bytes=-1)
    archive.run_once()
    assert names(tmp_path) == ["node-1-000001.jsonl", "node-1-000002.jsonl.zst"]
    for _ in range(3 * 60 * 3):  # three hours, as the thread does it
        clock.advance_ms(20_000)
        archive.run_once()
    assert tried.count(bad) == 8, "after 0, 1, 3, 7, 15, 31, 63 and 127 minutes"
    clock.advance_ms(9 * HOUR_MS)
    archive.run_once()
    assert names(tmp_path) == []


def test_old_files_go_with_their_empty_folders(tmp_path: Path) -> None:
    add(tmp_path, "node-1-000001.jsonl", 3 * HOUR_MS, hour=19)
    add(tmp_path, "node-1-000001.jsonl.zst", 2 * HOUR_MS + 1, hour=20)
    add(tmp_path, "node-1-000001.jsonl", HOUR_MS, hour=21)
    add(tmp_path, "node-2-000001.jsonl", 9 * HOUR_MS, hour=13)
    archive(tmp_path, hours=2).run_once()
    kept = sorted(str(path.relative_to(tmp_path / "date=2023-11-14")) for path in (tmp_path / "date=2023-11-14").iterdir())
    assert kept == ["hour=13", "hour=21"]


def test_the_oldest_files_go_while_there_are_too_many_bytes(tmp_path: Path) -> None:
    for number in range(5):
        add(tmp_path, f"node-1-00000{number}.jsonl", (10 - number) * HOUR_MS, text="x" * 100)
    archive(tmp_path, size_bytes=250).run_once()
    assert names(tmp_path) == ["node-1-000003.jsonl", "node-1-000004.jsonl"]


def test_the_thread_goes_on_after_what_it_does_not_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = archive(tmp_path, hours=1)
    runs: list[int] = []

    def fail() -> None:
        runs.append(1)
        if len(runs) == 3:
            kept._stopping.set()
        raise TypeError("broken")

    monkeypatch.setattr("twisted_kafka.system.threads.FIRST_PAUSE_S", 0)
    monkeypatch.setattr(kept, "run_once", fail)
    with capturedLogs() as events:
        kept._run()
    assert len(runs) == 3
    assert [formatEvent(event) for event in events] == ["Uncaught exception in the access log's archive"] * 3


def test_a_file_that_cannot_be_deleted_keeps_no_other_from_its_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [add(tmp_path, f"node-1-00000{number}.jsonl", 3 * HOUR_MS) for number in range(3)]
    add(tmp_path, "node-1-000003.jsonl", HOUR_MS)
    unlink = Path.unlink

    def failing(path: Path, missing_ok: bool = False) -> None:
        if path == paths[0]:
            raise PermissionError(13, "no", str(path))
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", failing)
    with capturedLogs() as events:
        archive(tmp_path, hours=2).run_once()
    assert names(tmp_path) == ["node-1-000000.jsonl", "node-1-000003.jsonl"]
    assert ["1 files could not be deleted" in str(formatEvent(each)) for each in events] == [True]


def test_a_file_that_somebody_deletes_meanwhile_keeps_no_other_from_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, _ = (add(tmp_path, f"node-1-00000{number}.jsonl", 3 * HOUR_MS) for number in range(2))
    stat = Path.stat

    def vanishing(path: Path, **options: bool) -> os.stat_result:
        if path == gone:
            gone.unlink(missing_ok=True)
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", vanishing)
    archive(tmp_path, "zstd").run_once()
    assert names(tmp_path) == ["node-1-000001.jsonl.zst"]
    archive(tmp_path, hours=2).run_once()
    assert names(tmp_path) == []
