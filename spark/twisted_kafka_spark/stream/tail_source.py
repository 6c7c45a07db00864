"""Follow the files of a log by offset: a Python data source of Spark that reads whole lines as they are appended.

Spark's own file source reads a path once, and loses what is appended to it later. This one keeps for each file how many bytes of
whole lines, and how many lines, were read; a file is known by its name without the leading dot of an open one and without what
follows the name when it is compressed or turned into Parquet, so that it is the same file after it was closed.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

NAME = "twisted_kafka_tail"
_SUFFIXES = (".jsonl", ".jsonl.zst", ".jsonl.gz", ".parquet", ".log")
_PIECE_BYTES = 32 << 20
"""What one task reads of a file at most."""
_CHUNK_BYTES = 2 << 20
_BATCH_LINES = 1 << 16

Offset = dict[str, list[int]]
"""By file: bytes and lines read so far."""


class _Piece(InputPartition):
    def __init__(self, path: str, start: int, end: int, lines: int) -> None:
        super().__init__((path, start, end, lines))
        self.path, self.start, self.end, self.lines = path, start, end, lines


def stem(path: Path) -> str:
    """Return the name by which a file is known as long as it lives."""
    name = path.name.lstrip(".")
    for suffix in (".zst", ".gz"):
        name = name.removesuffix(suffix)
    return str(path.parent / name.removesuffix(".parquet").removesuffix(".jsonl"))


def files(directory: Path) -> dict[str, Path]:
    """Return the files to follow by stem, open ones too; where there are two forms of one, the lines as they were written."""
    found: dict[str, Path] = {}
    for path in sorted(directory.rglob("*"), key=lambda path: (not path.name.endswith((".jsonl", ".log")), str(path))):
        name = path.name.lstrip(".")
        is_unfinished = path.name.startswith(".") and not name.endswith((".jsonl", ".log"))
        if name.startswith("_") or is_unfinished or not name.endswith(_SUFFIXES):
            continue
        if any(part.startswith(("_", ".")) for part in path.relative_to(directory).parts[:-1]):
            continue
        found.setdefault(stem(path), path)
    return found


def _whole_lines(path: Path, start: int) -> tuple[int, int]:
    """Return where the last whole line after `start` ends, and how many lines there are until there."""
    end, lines, position = start, 0, start
    with path.open("rb") as file:
        file.seek(start)
        while data := file.read(_CHUNK_BYTES):
            newline = data.rfind(b"\n")
            if newline >= 0:
                end = position + newline + 1
                lines += data.count(b"\n")
            position += len(data)
    return end, lines


def _decompressed(path: Path) -> Any:
    if path.name.endswith(".gz"):
        return gzip.open(path)
    import pyarrow as pa

    return pa.input_stream(str(path), compression="zstd")


class TailReader(DataSourceStreamReader):
    """Plans and reads; lives in a worker of its own for as long as the stream."""

    def __init__(self, directory: str, *, is_once: bool = False) -> None:
        self._directory = Path(directory)
        self._position: Offset = {}
        self._is_once = is_once
        self._end: Offset | None = None

    def initialOffset(self) -> Offset:
        """Begin with the first line of every file."""
        return {}

    def latestOffset(self, start: Offset | None = None, limit: Any = None) -> Offset:
        """Return how far whole lines go now. Spark 4.0 and 4.1 do not tell `start`: then it is where the last batch ended."""
        if self._is_once and self._end is not None:
            return self._end  # what is appended meanwhile is for the next time
        before = self._position if start is None else start
        self._end = offset = dict(before)
        for name, path in files(self._directory).items():
            try:
                after = self._after(path, before.get(name, [0, 0]))
            except FileNotFoundError:
                continue  # renamed just now: it is there under its other name the next time
            if after[1] != before.get(name, [0, 0])[1]:
                offset[name] = after
        return offset

    def _after(self, path: Path, before: list[int]) -> list[int]:
        if path.name.endswith((".jsonl", ".log")):
            if path.stat().st_size < before[0]:
                before = [0, 0]  # cut or written anew, as log4j does with the file it appends to
            end, lines = _whole_lines(path, before[0])
            return [end, before[1] + lines]
        if path.name.endswith(".parquet"):
            from pyarrow import parquet

            return [before[0], parquet.ParquetFile(path).metadata.num_rows]
        lines = size = 0
        with _decompressed(path) as file:
            while data := file.read(_CHUNK_BYTES):
                lines += data.count(b"\n")
                size += len(data)
        return [size, lines]

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Divide what was appended between two offsets among tasks."""
        self._position = end
        there = files(self._directory)
        pieces: list[InputPartition] = []
        for name, (last, lines) in sorted(end.items()):
            first, lines_before = start.get(name, [0, 0])
            if lines == lines_before:
                continue
            path = there.get(name)
            if path is None:
                raise RuntimeError(f"{name} was deleted before it was read to its end")
            if path.name.endswith((".jsonl", ".log")):
                if last < first:
                    first = 0
                pieces += [_Piece(str(path), at, min(at + _PIECE_BYTES, last), 0) for at in range(first, last, _PIECE_BYTES)]
            else:
                pieces.append(_Piece(str(path), lines_before, lines, 1))
        return pieces

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Give the lines of one piece in blocks."""
        assert isinstance(partition, _Piece)
        path = Path(partition.path)
        if not path.exists():
            found = files(self._directory).get(stem(path))
            if found is None:
                raise RuntimeError(f"{path} was deleted before it was read to its end")
            path = found
        if partition.lines:
            return _skipping(path, partition.start, partition.end)
        if not path.name.endswith((".jsonl", ".log")):
            return _bytes_of(path, partition.start, partition.end)
        return _lines_of(path, partition.start, partition.end)

    def commit(self, end: Offset) -> None:
        """Nothing to do: the offsets are in Spark's checkpoint."""


def _batch(data: bytes) -> pa.RecordBatch:
    """Return a block of whole lines as one row: Spark hands few large values on faster than many small ones."""
    import pyarrow as pa

    return pa.record_batch({"value": pa.array([data] if data else [], pa.binary())})


def _lines_of(path: Path, start: int, end: int) -> Iterator[pa.RecordBatch]:
    """Give the lines that begin in [start, end): the one before `start` belongs to the task before."""
    with path.open("rb") as file:
        if start:
            file.seek(start - 1)
            start += len(file.readline()) - 1
        yield from _until(file, start, end)


def _bytes_of(path: Path, start: int, end: int) -> Iterator[pa.RecordBatch]:
    """The same of a file that was compressed after the piece was planned."""
    with _decompressed(path) as file:
        skipped, last = 0, b"\n"
        while skipped < start and (data := file.read(min(_CHUNK_BYTES, start - skipped))):
            skipped += len(data)
            last = data[-1:]
        rest = file.read(end - start)
        begin = 0 if last == b"\n" else rest.find(b"\n") + 1 or len(rest)
        if begin == len(rest):
            return  # no line begins here
        while not rest.endswith(b"\n") and (more := file.read(_CHUNK_BYTES)):
            newline = more.find(b"\n")
            rest += more if newline < 0 else more[: newline + 1]
            if newline >= 0:
                break
    yield _batch(rest[begin:])


def _until(file: Any, start: int, end: int) -> Iterator[pa.RecordBatch]:
    position = start
    while position < end:
        data = file.read(min(_CHUNK_BYTES, end - position))
        if not data:
            return
        data += b"" if data.endswith(b"\n") else file.readline()
        position += len(data)
        yield _batch(data)


def _skipping(path: Path, first: int, last: int) -> Iterator[pa.RecordBatch]:
    """Give the lines of a compressed file, or the rows of a Parquet file as lines, from number `first` up to `last`."""
    import itertools
    import json

    if path.name.endswith(".parquet"):
        from pyarrow import parquet

        rows = (row for batch in parquet.ParquetFile(path).iter_batches(_BATCH_LINES) for row in batch.to_pylist())
        texts: Iterator[bytes] = (json.dumps(row).encode() for row in itertools.islice(rows, first, last))
    else:
        import io

        texts = (line.rstrip(b"\n") for line in itertools.islice(io.BufferedReader(_decompressed(path)), first, last))
    while lines := list(itertools.islice(texts, _BATCH_LINES)):
        yield _batch(b"\n".join(lines))


class TailSource(DataSource):
    """The data source; options `path`: a local directory; `once`: show no more than is there at first."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return NAME

    def schema(self) -> str:
        """One column, `value`: blocks of whole lines."""
        return "value binary"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        """The reader of a stream."""
        return TailReader(os.path.abspath(self.options["path"]), is_once=self.options.get("once") == "true")


def follow_files(spark: SparkSession, directory: str, *, is_once: bool = False) -> DataFrame:
    """Return blocks of the lines of the files below a directory as a stream, from the first line of each on.

    With `is_once` it has no more than is there when it starts.
    """
    spark.dataSource.register(TailSource)
    return spark.readStream.format(NAME).option("path", directory).option("once", str(is_once).lower()).load()
