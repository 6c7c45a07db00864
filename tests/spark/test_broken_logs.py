"""Logs that are damaged, closed to us, or change while they are read: what is wrong is counted and told, the rest reported."""

import gzip
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import zstandard

from tests.spark.access_lines import line, topic
from twisted_kafka.access_log.archive import Archive
from twisted_kafka.timing.clock import ManualClock
from twisted_kafka_spark.cells.fold import Folding
from twisted_kafka_spark.pipeline import job, rollup
from twisted_kafka_spark.pipeline.job import Job, run
from twisted_kafka_spark.pipeline.rollup import Selection
from twisted_kafka_spark.records import pieces
from twisted_kafka_spark.records.pieces import Piece, blocks
from twisted_kafka_spark.records.read import NoAccessLogError, find_sources
from twisted_kafka_spark.report.page import as_html
from twisted_kafka_spark.report.terminal import as_text


def lines(first: int, count: int = 10) -> str:
    return "".join(line("Fetch", at % 60, sequence=at, topics=[topic("orders", at)]) for at in range(first, first + count))


def test_a_line_without_end_in_a_compressed_file_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "BLOCK_BYTES", 4)
    monkeypatch.setattr(pieces, "LONGEST_LINE_BYTES", 10)
    found = b"".join(pieces.whole_lines(io.BytesIO(b"x" * 1000 + b"\n{}\n"), "gz")).splitlines()
    assert found == [b"x" * 10, b"{}"]


@pytest.mark.slow
def test_of_damaged_files_the_rest_is_reported(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "node-1-000001.jsonl").write_text(lines(0))
    many = "".join(line("Fetch", at % 60, sequence=at, client_id=os.urandom(9).hex()) for at in range(1000, 5000))
    whole = zstandard.compress(many.encode())
    (tmp_path / "node-1-000002.jsonl.zst").write_bytes(whole[: len(whole) * 9 // 10])
    (tmp_path / "node-1-000003.jsonl.gz").write_bytes(gzip.compress(lines(200).encode())[:-12])
    (tmp_path / "node-1-000004.jsonl.zst").write_bytes(b"no zstd")
    (tmp_path / "node-1-000005.jsonl").write_bytes(b"")
    (tmp_path / "node-1-000006.jsonl").symlink_to(tmp_path / "node-1-000006.jsonl")  # nobody can read it
    found = []
    for small in (rollup.SMALL_LOG_BYTES, 0):
        monkeypatch.setattr(rollup, "SMALL_LOG_BYTES", small)
        found.append(run(spark, Job(paths=[str(tmp_path)]))["source"])
    assert found[0] == found[1]
    assert 10 <= found[0]["lines"]["read"] < 4020  # of what is compressed, blocks before the damage
    assert 3 <= found[0]["lines"]["garbled"] <= 6
    assert found[0]["samples"]["garbled"] == [f"cannot read {tmp_path}/node-1-000006.jsonl: Too many levels of symbolic links"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_told(spark: Any, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "node-1-000001.jsonl").write_text(lines(100 * ord(name)))
    (tmp_path / "b" / "node-1-000001.jsonl").chmod(0)
    (tmp_path / "c").chmod(0)
    try:
        found = run(spark, Job(paths=[str(tmp_path)]))["source"]
    finally:
        (tmp_path / "c").chmod(0o700)
    assert found["lines"] == {"read": 10, "garbled": 2}
    assert found["samples"]["garbled"] == [f"cannot read {tmp_path}/b/node-1-000001.jsonl: Permission denied"]


def test_a_directory_that_may_not_be_listed_is_among_what_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "node-1-000001.jsonl").write_text(lines(0))
    (tmp_path / "closed").mkdir()
    scandir = os.scandir

    def refused(path: str) -> Any:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refused)
    assert find_sources(None, [str(tmp_path)]).lines == [str(tmp_path / "node-1-000001.jsonl"), str(tmp_path / "closed")]
    (told,) = blocks(Piece(str(tmp_path / "closed"), 0, 1))
    assert told.startswith(b"cannot read ")


@pytest.mark.parametrize("form", ["zstd", "parquet"])
@pytest.mark.parametrize("size", [1, 100, 4000, 1 << 20])
def test_a_file_that_is_archived_after_it_was_listed_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, size: int
) -> None:
    monkeypatch.setattr(pieces, "BLOCK_BYTES", 1000)
    path = tmp_path / "date=2026-11-21" / "hour=08" / "node-1-000001.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(lines(0))
    listed = [Piece(str(path), start, min(start + size, path.stat().st_size)) for start in range(0, path.stat().st_size, size)]
    clock = ManualClock(wall_ms=4_000_000_000_000)
    Archive(tmp_path, 1, clock, form=form, retention_hours=-1, retention_bytes=-1).run_once()
    assert not path.exists()
    texts = b"".join(block for piece in listed for block in blocks(piece)).decode()
    if form == "zstd":
        assert texts == lines(0)
    else:
        assert [json.loads(text)["sequence"] for text in texts.splitlines()] == list(range(10))
    next(path.parent.iterdir()).unlink()
    assert {block for piece in listed for block in blocks(piece)} == {f"cannot read {path}: it was deleted\n".encode()}


def test_a_file_that_is_deleted_after_it_was_listed_is_told(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (1, 2):
        (tmp_path / f"node-1-00000{number}.jsonl").write_text(lines(100 * number))
    listed = find_sources(None, [str(tmp_path)])
    (tmp_path / "node-1-000002.jsonl").unlink()
    monkeypatch.setattr(job, "find_sources", lambda *_, **__: listed)
    found = run(spark, Job(paths=[str(tmp_path)]))["source"]
    assert found["lines"] == {"read": 10, "garbled": 1}
    assert found["samples"]["garbled"] == [f"cannot read {tmp_path}/node-1-000002.jsonl: it was deleted"]


@pytest.mark.slow
def test_damaged_parquet_elsewhere_is_told(spark: Any, tmp_path: Path) -> None:
    whole = archived(tmp_path / "archived").read_bytes()
    log = tmp_path / "log"
    log.mkdir()
    (log / "node-1-000001.jsonl").write_text(lines(100))
    for name, content in {"foreign": b"no table", "short one": whole[: len(whole) // 2], "whole": whole}.items():
        (log / f"{name}.parquet").write_bytes(content)
    spark._jsc.hadoopConfiguration().set("fs.viewfs.mounttable.broken.link./log", log.as_uri())
    found = run(spark, Job(paths=["viewfs://broken/log"]))["source"]
    assert found["lines"] == {"read": 20, "garbled": 2}
    assert found["samples"]["garbled"][0].startswith("cannot read viewfs://broken/log/foreign.parquet: ")
    only = run(spark, Job(paths=["viewfs://broken/log/foreign.parquet"]))
    assert (only["total"]["requests"], only["source"]["lines"]) == (0, {"garbled": 1})


@pytest.mark.slow
def test_damaged_files_of_repeated_lines_are_told_once(spark: Any, tmp_path: Path) -> None:
    path = archived(tmp_path)
    path.with_name("node-1-000002.parquet").write_bytes(path.read_bytes())
    path.with_name("node-1-000003.parquet").write_bytes(b"no table")
    source = run(spark, Job(paths=[str(tmp_path)]))["source"]
    assert (source["lines"], source["repeated_lines"]) == ({"read": 10, "garbled": 1}, 10)


@pytest.mark.slow
@pytest.mark.parametrize("has_one_whole", [True, False])
def test_damaged_parquet_is_told_and_the_rest_reported(spark: Any, tmp_path: Path, has_one_whole: bool) -> None:
    whole = archived(tmp_path / "archived").read_bytes()
    log = tmp_path / "log"
    log.mkdir()
    pages_broken = bytearray(whole)
    pages_broken[4:200] = bytes(196)
    for name, content in {
        "empty": b"",
        "foreign": b"no table",
        "pages": bytes(pages_broken),
        "short": whole[: len(whole) // 2],
    }.items():
        (log / f"{name}.parquet").write_bytes(content)
    if has_one_whole:
        (log / "whole.parquet").write_bytes(whole)
    (log / "node-1-000001.jsonl").write_text(lines(100))
    found = run(spark, Job(paths=[str(log)]))
    assert found["source"]["lines"] == {"read": 20 if has_one_whole else 10, "garbled": 4}
    assert found["source"]["samples"]["garbled"][0].startswith(f"cannot read {log}/empty.parquet: ")
    assert found["total"]["requests"] == found["source"]["lines"]["read"]


def archived(directory: Path) -> Path:
    """Return a Parquet file of ten lines, as a broker archives them."""
    folder = directory / "date=2026-11-21" / "hour=08"
    folder.mkdir(parents=True)
    (folder / "node-1-000001.jsonl").write_text(lines(0))
    clock = ManualClock(wall_ms=4_000_000_000_000)
    Archive(directory, 1, clock, form="parquet", retention_hours=-1, retention_bytes=-1).run_once()
    return folder / "node-1-000001.parquet"


@pytest.mark.slow
def test_parquet_that_is_replaced_after_it_was_listed_is_listed_again(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = archived(tmp_path)
    cells_of_files = rollup.cells_of_files

    def moved_meanwhile(*arguments: Any) -> Any:
        found = cells_of_files(*arguments)
        monkeypatch.setattr(job, "cells_of_files", cells_of_files)
        (file,) = path.parent.iterdir()
        file.rename(file.with_name("node-1-000002.parquet"))
        return found

    monkeypatch.setattr(job, "cells_of_files", moved_meanwhile)
    assert run(spark, Job(paths=[str(tmp_path)]))["total"]["requests"] == 10


@pytest.mark.slow
def test_clocks_that_are_wrong_do_not_stop_a_report(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = ("1970-01-01T00:00:00.000Z", "2026-11-21T08:00:00.000Z", "9999-12-31T23:59:59.999Z")
    (tmp_path / "node-1-000001.jsonl").write_text(
        "".join(line("Fetch", 0, time=time, sequence=at) for at, time in enumerate(times))
    )
    few = run(spark, Job(paths=[str(tmp_path)]))
    monkeypatch.setattr(rollup, "SMALL_LOG_BYTES", 0)
    out = str(tmp_path / "rolled")
    for document in (few, run(spark, Job(paths=[str(tmp_path)], rollup_out=out)), run(spark, Job(paths=[out], is_merge=True))):
        assert document["total"]["requests"] == 3
        assert len(document["time"]["ticks"]) <= 151
    part = run(spark, Job(paths=[str(tmp_path)], folding=Folding(since="2026-11-01T00:00:00", until="2027-01-01T00:00:00")))
    assert part["total"]["requests"] == 3  # lines with a wrong time count in the hour of their file's other lines


@pytest.mark.parametrize("content", ["", "torn\nalso torn\n"])
def test_a_log_without_requests_is_told_in_a_report(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    (tmp_path / "node-1-000001.jsonl").write_text(content)
    (tmp_path / "node-1-000002.jsonl.gz").write_bytes(b"")
    document = run(spark, Job(paths=[str(tmp_path)]))
    assert document["total"]["requests"] == 0
    assert [each["name"] for each in document["findings"]] == ["unreadable-lines"] * bool(content)
    assert document["source"]["lines"].get("garbled", 0) == content.count("\n")
    assert "no requests" in as_html(document)
    assert "no requests" in as_text(document)
    monkeypatch.setattr(rollup, "SMALL_LOG_BYTES", 0)
    assert run(spark, Job(paths=[str(tmp_path)]))["total"] == document["total"]
    with pytest.raises(NoAccessLogError, match=r"no requests .* match api = 'Fetch'"):
        run(spark, Job(paths=[str(tmp_path)], selection=Selection("api = 'Fetch'")))
