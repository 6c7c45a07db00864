"""The cells of a log that is being written, as a stream: the same fold as for reports, whatever the source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from twisted_kafka_spark.cells import bundles, kinds
from twisted_kafka_spark.cells.fold import OUT_ROWS, Folding
from twisted_kafka_spark.cells.kinds import TIME
from twisted_kafka_spark.pipeline.rollup import Selection, cells_of_records
from twisted_kafka_spark.records.clocks import NOW
from twisted_kafka_spark.records.pieces import local_path
from twisted_kafka_spark.records.read import decompressed_lines, is_remote
from twisted_kafka_spark.records.schema import access_log_schema
from twisted_kafka_spark.records.topic import Topic, follow_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader

    from twisted_kafka_spark.records.frame import Frame
    from twisted_kafka_spark.records.lines import LineReader

_FILES_PER_BATCH = 100
_FILE_DDL = "path string, modificationTime timestamp, length bigint, content binary"
_TEXT, _ZSTD, _PARQUET = "*.{jsonl,log,jsonl.gz,jsonl.bz2}", "*.zst", "*.parquet"


@dataclass(frozen=True, slots=True)
class Source:
    """What to follow: a directory of this machine, the URL of a directory, or a topic.

    `utc_offset_s` is the UTC offset of Kafka's request log. With `trusts_clock`, the clock of the machine that reads bounds the
    times of lines.
    """

    directory: str = ""
    topic: Topic | None = None
    utc_offset_s: int = 0
    trusts_clock: bool = True

    @property
    def is_tail(self) -> bool:
        """Whether it is a directory of this machine, whose files are followed while they grow."""
        return bool(self.directory) and not is_remote(self.directory)

    def cells(self, spark: SparkSession, *, is_once: bool) -> DataFrame:
        """Return the cells as a stream; files of this machine end at their current sizes with `is_once`."""
        fold = StreamFold(Folding(utc_offset_s=self.utc_offset_s, latest_us=NOW if self.trusts_clock else 0))
        if self.topic is not None:
            return follow_topic(spark, self.topic).mapInArrow(fold.of_lines, kinds.ddl())
        if not self.is_tail:
            return _of_new_files(spark, self.directory, fold)
        from twisted_kafka_spark.stream.tail_source import follow_files

        pieces = follow_files(spark, local_path(self.directory), is_once=is_once)
        return pieces.mapInArrow(fold.of_pieces, kinds.ddl())


def _of_new_files(spark: SparkSession, url: str, fold: StreamFold) -> DataFrame:
    """Return the cells of the files that appear below a URL, each of which is complete by then, with Spark's file source."""

    def files(pattern: str) -> DataStreamReader:
        options = {"recursiveFileLookup": "true", "pathGlobFilter": pattern, "maxFilesPerTrigger": str(_FILES_PER_BATCH)}
        return spark.readStream.options(**options)

    packed = files(_ZSTD).schema(_FILE_DDL).format("binaryFile").load(url).select("content")
    lines = [files(_TEXT).text(url), packed.mapInArrow(decompressed_lines, "value binary")]
    records = files(_PARQUET).schema(access_log_schema()).parquet(url)
    parts = [each.mapInArrow(fold.of_lines, kinds.ddl()) for each in lines]
    return reduce(lambda a, b: a.unionByName(b), [*parts, cells_of_records(records, fold.folding, Selection())])


@dataclass(frozen=True, slots=True)
class StreamFold:
    """The fold of a task: cells of lines that could not be parsed get the time of the last ones that could."""

    folding: Folding

    def of_lines(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Fold batches with one column of lines, or of blocks of lines."""
        return _timed(pa.Table.from_batches(self.folding.of_lines(batches), kinds.arrow_schema()))

    def of_pieces(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Fold the lines of the pieces of local files that are the rows of batches."""
        from twisted_kafka_spark.stream.tail_source import pieces_of

        reader = self.folding.reader()
        frames = (frame for path, blocks in pieces_of(batches) for frame in _frames(reader, path, blocks))
        return _timed(bundles.wide(self.folding.folded(frames, reader)))


def _frames(reader: LineReader, path: str, blocks: Iterable[bytes]) -> Iterator[Frame]:
    reader.begin(path)
    for block in blocks:
        yield from reader.frames_of_block(block)


def _timed(cells: pa.Table) -> Iterator[pa.RecordBatch]:
    times = cells[TIME.name]
    if times.null_count:
        cells = cells.set_column(cells.column_names.index(TIME.name), TIME.name, pc.fill_null(times, pc.max(times)))
    yield from cells.to_batches(OUT_ROWS)
