"""Follow the local files of a log by offset: a Python data source for Spark, whose rows are the pieces of newly appended lines.

Spark's file source reads a path once and misses lines appended later. This source keeps track of how much of each file was read
(`followed_files`). Its rows only say what to read: the tasks that fold lines into cells open the files themselves, since passing
lines through Java would cost as much as folding them.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from twisted_kafka_spark.stream.followed_files import NOTHING, Offset, Scanner, files, is_plain, opened

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

NAME = "twisted_kafka_tail"
_BATCH_BYTES = 1 << 30
"""Approximately the bytes read in one batch; the rest waits for the next batch."""
_TASK_BYTES = 64 << 20
_CHUNK_BYTES = 2 << 20
_CHUNK_ROWS = 1 << 14
_PIECE_DDL = "directory string, name string, path string, start bigint, stop bigint, is_numbered boolean"


class Piece(NamedTuple):
    """A part of a file: the lines that begin in this range of bytes, or, for a compressed file, in this range of line numbers."""

    directory: str
    name: str
    path: str
    start: int
    stop: int
    is_numbered: bool


class _Task(InputPartition):
    def __init__(self, pieces: Sequence[Piece]) -> None:
        super().__init__(tuple(map(tuple, pieces)))
        self.pieces = pieces


class TailReader(DataSourceStreamReader):
    """Plans batches and reads them; lives in a separate worker process as long as the stream.

    With `is_once` it stops at the sizes that the files had at the start.
    """

    def __init__(self, directory: str, *, is_once: bool = False) -> None:
        self._directory = Path(directory)
        self._position: Offset | None = None
        self._is_once = is_once
        self._sizes: dict[str, int] | None = None
        self._scanner = Scanner(self._directory, _BATCH_BYTES)

    def initialOffset(self) -> Offset:
        """Start with the first line of every file."""
        return {}

    def latestOffset(self, start: Offset | None = None, limit: Any = None) -> Offset:
        """Return the end of the next batch. Spark 4.0 and 4.1 do not pass `start`; it is then the end of the last batch."""
        if self._is_once and self._sizes is None:
            self._sizes = self._scanner.sizes()
        before = self._position if start is None else start
        # With Spark 4.0 and 4.1, the end of the last run is unknown after a restart; the batch must not end before it.
        return self._scanner.beyond(before or {}, self._sizes, is_bounded=before is not None)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Divide the lines between two offsets into tasks."""
        self._position = end
        tasks: list[InputPartition] = []
        waiting: list[Piece] = []
        filled = 0
        for piece, weight in self._pieces(start, end):
            if waiting and filled + weight > _TASK_BYTES:
                tasks.append(_Task(waiting))
                waiting, filled = [], 0
            waiting.append(piece)
            filled += weight
        return [*tasks, _Task(waiting)] if waiting else tasks

    def _pieces(self, start: Offset, end: Offset) -> Iterator[tuple[Piece, int]]:
        there = files(self._directory)
        for name, (last, lines) in sorted(end.items()):
            first, lines_before = start.get(name, NOTHING)
            if lines == lines_before:
                continue
            path = there.get(name)
            if path is None:
                raise RuntimeError(f"{name} was deleted before it was completely read")
            if is_plain(path):
                for at in range(first if first <= last else 0, last, _TASK_BYTES):
                    stop = min(at + _TASK_BYTES, last)
                    yield Piece(str(self._directory), name, str(path), at, stop, False), stop - at
            else:
                yield Piece(str(self._directory), name, str(path), lines_before, lines, True), _TASK_BYTES

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the pieces of a task."""
        assert isinstance(partition, _Task)
        return map(tuple, partition.pieces)

    def commit(self, end: Offset) -> None:
        """Do nothing: the offsets are in Spark's checkpoint."""


def blocks(piece: Piece) -> Iterator[bytes]:
    """Yield the lines of a piece in blocks; raise RuntimeError when its file was deleted, not only renamed or compressed."""
    path = Path(piece.path)
    if not path.exists():
        found = files(Path(piece.directory)).get(piece.name)
        if found is None:
            raise RuntimeError(f"{path} was deleted before it was completely read")
        path = found
    if piece.is_numbered:
        return _numbered(path, piece.start, piece.stop)
    if not is_plain(path):
        return _bytes_of(path, piece.start, piece.stop)
    return _lines_of(path, piece.start, piece.stop)


def pieces_of(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield the path and the lines of each piece that is a row of batches."""
    for batch in batches:
        for row in batch.to_pylist():
            yield row["path"], blocks(Piece(**row))


def _lines_of(path: Path, start: int, end: int) -> Iterator[bytes]:
    """Yield the lines that begin in [start, end); a line that continues at `start` belongs to the previous task."""
    with path.open("rb") as file:
        if start:
            file.seek(start - 1)
            start += len(file.readline()) - 1
        yield from _until(file, start, end)


def _until(file: BinaryIO, start: int, end: int) -> Iterator[bytes]:
    position = start
    while position < end:
        data = file.read(min(_CHUNK_BYTES, end - position))
        if not data:
            return
        data += b"" if data.endswith(b"\n") else file.readline()
        position += len(data)
        yield data


def _bytes_of(path: Path, start: int, end: int) -> Iterator[bytes]:
    """Yield the lines that begin in [start, end) of a file that was compressed after the piece was planned."""
    with opened(path) as file:
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
    yield rest[begin:]


def _numbered(path: Path, first: int, last: int) -> Iterator[bytes]:
    """Yield the lines of a compressed file, or the rows of a Parquet file as lines, from number `first` up to `last`."""
    if path.name.endswith(".parquet"):
        from pyarrow import parquet

        rows = (row for batch in parquet.ParquetFile(path).iter_batches(_CHUNK_ROWS) for row in batch.to_pylist())
        texts: Iterator[bytes] = (json.dumps(row).encode() for row in itertools.islice(rows, first, last))
    else:
        import io

        texts = (line.rstrip(b"\n") for line in itertools.islice(io.BufferedReader(opened(path)), first, last))
    while lines := list(itertools.islice(texts, _CHUNK_ROWS)):
        yield b"\n".join(lines)


class TailSource(DataSource):
    """The data source, with the options `path` (a local directory) and `once` (stop at the initial sizes)."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return NAME

    def schema(self) -> str:
        """Return the schema of pieces."""
        return _PIECE_DDL

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        """Return the reader of a stream."""
        return TailReader(os.path.abspath(self.options["path"]), is_once=self.options.get("once") == "true")


def follow_files(spark: SparkSession, directory: str, *, is_once: bool = False) -> DataFrame:
    """Return the pieces of the files below a directory as a stream, from the first line of each file on.

    With `is_once` the stream ends at the sizes that the files had at its start.
    """
    spark.dataSource.register(TailSource)
    options = {"path": directory, "once": str(is_once).lower()}
    return spark.readStream.format(NAME).options(**options).load()
