"""Following a log: the tail source gives each line once while files grow, are renamed and compressed."""

import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import zstandard

from twisted_kafka_spark.stream import followed_files, tail_source
from twisted_kafka_spark.stream.tail_source import Piece, TailReader, blocks

OPEN, CLOSED = ".node-1-000001.jsonl", "node-1-000001.jsonl"


class Tail:
    """Reads as Spark does: from the previous offset to the latest one, in pieces."""

    def __init__(self, directory: Path) -> None:
        self.reader = TailReader(str(directory))
        self.offset = self.reader.initialOffset()

    def read(self, *, before_reading: Any = None) -> list[str]:
        start, self.offset = self.offset, self.reader.latestOffset(self.offset)
        pieces = self.reader.partitions(start, self.offset)
        if before_reading is not None:
            before_reading()
        found = [block.decode() for task in pieces for piece in self.reader.read(task) for block in blocks(Piece(*piece))]
        return [text for block in found for text in block.removesuffix("\n").split("\n")]


@pytest.fixture
def tail(tmp_path: Path) -> Tail:
    return Tail(tmp_path)


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_only_complete_lines_are_read_and_each_once(tail: Tail, tmp_path: Path) -> None:
    path = tmp_path / OPEN
    append(path, "one\ntw")
    assert tail.read() == ["one"]
    assert tail.read() == []
    append(path, "o\nthree\n")
    assert tail.read() == ["two", "three"]


def test_a_file_keeps_its_identity_when_closed_and_compressed(tail: Tail, tmp_path: Path) -> None:
    append(tmp_path / OPEN, "one\n")
    assert tail.read() == ["one"]
    append(tmp_path / OPEN, "two\n")
    (tmp_path / OPEN).rename(tmp_path / CLOSED)
    assert tail.read() == ["two"]
    append(tmp_path / CLOSED, "three\nfour\n")
    data = (tmp_path / CLOSED).read_bytes()
    (tmp_path / (CLOSED + ".zst")).write_bytes(zstandard.compress(data))
    (tmp_path / ("." + CLOSED + ".gz")).write_bytes(b"half written")
    os.unlink(tmp_path / CLOSED)
    assert tail.read() == ["three", "four"]
    assert tail.read() == []


@pytest.mark.parametrize("piece_bytes", [1, 3, 7, 1000])
def test_pieces_neither_lose_nor_repeat_lines(
    tail: Tail, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    monkeypatch.setattr(tail_source, "_TASK_BYTES", piece_bytes)
    lines = [str(number) * (number % 5 + 1) for number in range(30)]
    append(tmp_path / CLOSED, "\n".join(lines) + "\n")
    assert tail.read() == lines
    append(tmp_path / CLOSED, "last\n")
    data = (tmp_path / CLOSED).read_bytes()

    def compress() -> None:
        (tmp_path / (CLOSED + ".zst")).write_bytes(zstandard.compress(data))
        os.unlink(tmp_path / CLOSED)

    assert tail.read(before_reading=compress) == ["last"]


def test_once_stops_at_the_initial_sizes(tmp_path: Path) -> None:
    append(tmp_path / OPEN, "one\n")
    reader = TailReader(str(tmp_path), is_once=True)
    first = reader.latestOffset(reader.initialOffset())
    append(tmp_path / OPEN, "two\n")
    assert reader.latestOffset(first) == first
    again = TailReader(str(tmp_path), is_once=True)
    assert again.latestOffset(first) != first


def test_a_file_deleted_before_it_was_read_is_an_error(tail: Tail, tmp_path: Path) -> None:
    append(tmp_path / CLOSED, "one\n")
    with pytest.raises(RuntimeError, match="deleted before it was completely read"):
        tail.read(before_reading=lambda: os.unlink(tmp_path / CLOSED))


def test_a_log_rolled_by_log4j_is_read_to_its_end(tail: Tail, tmp_path: Path) -> None:
    path = tmp_path / "kafka-request.log"
    append(path, "one\n")
    assert tail.read() == ["one"]
    append(path, "two\n")
    path.rename(tmp_path / "kafka-request.log.2026-11-21-08")
    append(path, "three\nfour\nfive\n")
    assert sorted(tail.read()) == ["five", "four", "three", "two"]
    append(path, "six\n")
    assert tail.read() == ["six"]


def test_a_backlog_is_read_in_batches_by_folder_with_all_brokers_in_parallel(tmp_path: Path) -> None:
    for hour in ("hour=08", "hour=09"):
        (tmp_path / hour).mkdir()
        for node, lines in ((1, 40), (2, 20)):
            (tmp_path / hour / f"node-{node}-000001.jsonl").write_text("123456789\n" * lines)
    scanner = followed_files.Scanner(tmp_path, most_bytes=300)
    offset: followed_files.Offset = {}
    reached = []
    while (after := scanner.beyond(offset)) != offset:
        offset = after
        reached.append({name: lines for name, (_, lines) in offset.items()})
    first, second = "hour=08/node-1-000001", "hour=08/node-2-000001"
    assert reached[0] == {first: 20, second: 10}
    assert reached[1] == {first: 40, second: 20}
    assert reached[-1] == {f"hour={hour}/node-{node}-000001": lines for hour in ("08", "09") for node, lines in ((1, 40), (2, 20))}
    assert len(reached) == 4


def test_a_line_longer_than_a_batch_is_read(tmp_path: Path) -> None:
    (tmp_path / CLOSED).write_text("x" * 100 + "\n" + "y\n")
    scanner = followed_files.Scanner(tmp_path, most_bytes=10)
    once = scanner.beyond({})
    assert once == {"node-1-000001": [103, 2]}


def test_rollups_below_the_log_are_not_read(tail: Tail, tmp_path: Path) -> None:
    append(tmp_path / CLOSED, "one\n")
    rolled = tmp_path / "rollups" / "followed=4" / "batches=0-0"
    rolled.mkdir(parents=True)
    (rolled / "cells.parquet").write_bytes(b"no lines")
    assert tail.read() == ["one"]


def test_deleted_files_are_forgotten_after_several_scans(tmp_path: Path) -> None:
    path = tmp_path / CLOSED
    append(path, "one\n")
    scanner = followed_files.Scanner(tmp_path, most_bytes=100)
    offset = scanner.beyond({})
    path.unlink()
    looks = 0
    while offset:
        offset = scanner.beyond(offset)
        looks += 1
    assert looks == followed_files._GONE
