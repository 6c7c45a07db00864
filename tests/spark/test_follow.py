"""Following a log: what the tailing source gives while files grow, are renamed and compressed; each line once."""

import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import zstandard

from tests.spark.access_lines import line
from twisted_kafka_spark.cells import ddl
from twisted_kafka_spark.fold import Folding
from twisted_kafka_spark.stream import tail_source
from twisted_kafka_spark.stream.follow import rolled_minutes, write_batch
from twisted_kafka_spark.stream.tail_source import TailReader, follow_files

OPEN, CLOSED = ".node-1-000001.jsonl", "node-1-000001.jsonl"
pytestmark = pytest.mark.timeout(300)


class Tail:
    """Reads as Spark does: from the offset before to the latest one, in pieces."""

    def __init__(self, directory: Path) -> None:
        self.reader = TailReader(str(directory))
        self.offset = self.reader.initialOffset()

    def read(self, *, before_reading: Any = None) -> list[str]:
        start, self.offset = self.offset, self.reader.latestOffset(self.offset)
        pieces = self.reader.partitions(start, self.offset)
        if before_reading is not None:
            before_reading()
        found = [block for piece in pieces for batch in self.reader.read(piece) for block in batch.column(0).to_pylist()]
        return [text for block in found for text in block.decode().removesuffix("\n").split("\n")]


@pytest.fixture
def tail(tmp_path: Path) -> Tail:
    return Tail(tmp_path)


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_only_whole_lines_are_read_and_each_once(tail: Tail, tmp_path: Path) -> None:
    path = tmp_path / OPEN
    append(path, "one\ntw")
    assert tail.read() == ["one"]
    assert tail.read() == []
    append(path, "o\nthree\n")
    assert tail.read() == ["two", "three"]


def test_a_file_goes_on_under_its_closed_name_and_compressed(tail: Tail, tmp_path: Path) -> None:
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
def test_pieces_lose_and_repeat_no_line(tail: Tail, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece_bytes: int) -> None:
    monkeypatch.setattr(tail_source, "_PIECE_BYTES", piece_bytes)
    lines = [str(number) * (number % 5 + 1) for number in range(30)]
    append(tmp_path / CLOSED, "\n".join(lines) + "\n")
    assert tail.read() == lines
    append(tmp_path / CLOSED, "last\n")
    data = (tmp_path / CLOSED).read_bytes()

    def compress() -> None:
        (tmp_path / (CLOSED + ".zst")).write_bytes(zstandard.compress(data))
        os.unlink(tmp_path / CLOSED)

    assert tail.read(before_reading=compress) == ["last"]


def test_once_shows_no_more_than_was_there_at_first(tmp_path: Path) -> None:
    append(tmp_path / OPEN, "one\n")
    reader = TailReader(str(tmp_path), is_once=True)
    first = reader.latestOffset(reader.initialOffset())
    append(tmp_path / OPEN, "two\n")
    assert reader.latestOffset(first) == first
    again = TailReader(str(tmp_path), is_once=True)
    assert again.latestOffset(first) != first


def test_a_file_that_is_gone_before_it_was_read_is_an_error(tail: Tail, tmp_path: Path) -> None:
    append(tmp_path / CLOSED, "one\n")
    with pytest.raises(RuntimeError, match="deleted before it was read"):
        tail.read(before_reading=lambda: os.unlink(tmp_path / CLOSED))


@pytest.mark.slow
def test_each_minute_is_written_once_also_after_a_restart(spark: Any, tmp_path: Path) -> None:
    log, out, checkpoint = tmp_path / "log", tmp_path / "out", tmp_path / "checkpoint"
    log.mkdir()

    def run_to_the_end() -> None:
        minutes = rolled_minutes(follow_files(spark, str(log)), Folding(grain_s=60), late_s=60)
        writer = minutes.writeStream.outputMode("append").option("checkpointLocation", str(checkpoint))
        query = writer.foreachBatch(write_batch(str(out), None)).start()
        query.processAllAvailable()
        query.stop()

    written = 0
    for minute in range(0, 12, 3):  # a restart between each three minutes; half of a line is there at each end
        texts = [line("Fetch", each, correlation_id=number) for each in range(minute, minute + 3) for number in range(50)]
        half = len(line("Fetch", minute + 3, correlation_id=0)) // 2
        whole = "".join(texts) + line("Fetch", minute + 3, correlation_id=0)
        append(log / OPEN, whole[half if minute else 0 : len("".join(texts)) + half])
        written += len(texts)
        run_to_the_end()
    cells = spark.read.schema(ddl()).option("recursiveFileLookup", "true").parquet(str(out))
    rows = {row["at"]: row["sum(requests)"] for row in cells.where("kind = 'requests'").groupBy("at").sum("requests").collect()}
    assert all(count == 50 for count in rows.values())
    assert len(rows) == 10  # the last two may still change, so they wait
