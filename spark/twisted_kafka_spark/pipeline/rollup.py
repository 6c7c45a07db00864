"""From files or lines to cells: one DataFrame, whatever the source.

Tasks parse the lines and fold them into cells (`fold`); Spark merges those (`aggregate`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from twisted_kafka_spark.cells import bundles, kinds
from twisted_kafka_spark.cells.fold import Planned
from twisted_kafka_spark.cells.shards import SHARD_DDL
from twisted_kafka_spark.records.clocks import EARLIEST, WRITTEN, with_times
from twisted_kafka_spark.records.frame import AMOUNTS, IDENTITY
from twisted_kafka_spark.records.pieces import PACKED, Piece, file_size, lines_bytes, lines_end, local_path, tasks
from twisted_kafka_spark.records.read import Sources, is_remote, read_lines, read_parquet
from twisted_kafka_spark.records.schema import ddl

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from twisted_kafka_spark.cells.fold import Folding
    from twisted_kafka_spark.cells.seen import Origin

SMALL_LOG_BYTES = 256 << 20
"""The size of a log, not compressed, up to which its cells go to the driver before they are merged: two million at worst."""
GROWING = ".log"
"""How the name of a file ends to which Apache Kafka still appends; its last line may be incomplete."""
ENDLESS = 1 << 62
RUN_SLACK = 0.02
"""Several threads may number and write lines in slightly different order; runs that overlap by less are not suspicious."""
_FOLDED = (
    *("time", *IDENTITY, "error", *AMOUNTS),
    *("topics", "acks", "group_id", "member_id", "generation", "share", "resources", "transaction", "sequence", "weight"),
)
"""The fields of a record from which cells are made."""


@dataclass(slots=True)
class Selection:
    """The selection of records: a SQL condition on the fields, and whether duplicate lines are removed."""

    condition: str = ""
    deduplicate: bool = False

    @property
    def needs_records(self) -> bool:
        """Whether Spark SQL has to process the records themselves, not only their cells."""
        return bool(self.condition) or self.deduplicate


def cells_of_files(
    spark: SparkSession, sources: Sources, folding: Folding, selection: Selection, origins: Mapping[str, Origin] | None = None
) -> DataFrame:
    """Return the shards of the cells of files, not merged.

    With `origins`, which are the local files of lines that are rolled up, the cells say which lines they are of.
    """
    from pyspark.sql import functions as sf

    parts = []
    local = [path for path in sources.lines if not is_remote(path)]
    planned = _planned(spark, local, origins or {})
    if planned:
        numbers = spark.range(0, len(planned), 1, len(planned))
        plan = Planned(folding, planned, {} if selection.needs_records else origins or {})
        if selection.needs_records:
            parts.append(_shards_of_parsed(numbers.mapInArrow(plan.parsed, ddl()), folding, selection))
        else:
            parts.append(numbers.mapInArrow(plan.folded, SHARD_DDL))
    remote = [path for path in sources.lines if is_remote(path)]
    parts += [cells_of_lines(lines, folding, selection) for lines in read_lines(spark, remote)]
    if sources.told:
        told = spark.createDataFrame([(text,) for text in sources.told], "value string")
        parts.append(cells_of_lines(told, folding, selection))
    if sources.parquet:
        records = read_parquet(spark, sources.parquet)
        if folding.since:  # Parquet's own statistics serve this; the times of wrong clocks change
            records = records.where((sf.col("time") >= folding.since) | (sf.col("time") < EARLIEST))
        parts.append(_shards_of_records(with_times(records, folding.latest_us), folding, selection))
    if not parts:
        return spark.createDataFrame([], SHARD_DDL)
    return reduce(lambda a, b: a.unionByName(b), parts)


def is_small(sources: Sources) -> bool:
    """Return whether the cells of files certainly fit on the driver: local lines of at most `SMALL_LOG_BYTES`."""
    if sources.parquet or sources.told or sources.size_bytes > SMALL_LOG_BYTES or any(map(is_remote, sources.lines)):
        return False
    return sum(lines_bytes(*file_size(local_path(path))) for path in sources.lines) <= SMALL_LOG_BYTES


def cells_of_small_log(spark: SparkSession, sources: Sources, folding: Folding) -> Iterator[tuple[str, pa.Table]]:
    """Return the cells of the tasks of a small log, by kind.

    This needs no Spark SQL, whose start alone takes longer than reading a million lines.
    """
    planned = _planned(spark, sources.lines, {})
    return map(bundles.opened, spark.sparkContext.parallelize(planned, len(planned)).flatMap(folding.streams).collect())


def cells_of_lines(lines: DataFrame, folding: Folding, selection: Selection) -> DataFrame:
    """Return the shards of the cells of a column of lines, not merged."""
    if selection.needs_records:
        return _shards_of_parsed(lines.mapInArrow(folding.parsed, ddl()), folding, selection)
    return lines.mapInArrow(folding.shards_of_lines, SHARD_DDL)


def cells_of_records(records: DataFrame, folding: Folding, selection: Selection) -> DataFrame:
    """Return the cells of records as rows, not merged."""
    return _selected(records, folding, selection).mapInArrow(folding.of_records, kinds.ddl())


def _shards_of_parsed(parsed: DataFrame, folding: Folding, selection: Selection) -> DataFrame:
    """Return the shards of records and of unreadable lines. A condition matches no unreadable line."""
    from pyspark.sql import functions as sf

    found = parsed.where(sf.col("time").isNull())
    found = found.where(sf.col("error").isNull()) if selection.condition else found
    records = _selected(parsed, folding, selection).unionByName(found.select(*_FOLDED))
    return records.mapInArrow(folding.shards_of_records, SHARD_DDL)


def _shards_of_records(records: DataFrame, folding: Folding, selection: Selection) -> DataFrame:
    return _selected(records, folding, selection).mapInArrow(folding.shards_of_records, SHARD_DDL)


def _selected(records: DataFrame, folding: Folding, selection: Selection) -> DataFrame:
    """Return the selected records; Spark reads only the columns and the time that are needed."""
    from pyspark.sql import functions as sf

    records = records.where(sf.col("time").isNotNull())
    if folding.since:
        records = records.where(sf.col("time") >= folding.since)
    if folding.until:
        records = records.where(sf.col("time") < folding.until)
    if selection.condition:
        records = records.where(selection.condition)
    if selection.deduplicate:
        numbered = records.where(sf.col("sequence").isNotNull()).dropDuplicates(["node", "sequence"])
        records = numbered.unionByName(records.where(sf.col("sequence").isNull()))
    return records.select(*_FOLDED, *({WRITTEN} & set(records.columns)))


def _planned(spark: SparkSession, paths: list[str], origins: Mapping[str, Origin]) -> list[list[Piece]]:
    sizes = (file_size(local_path(path)) for path in paths)
    if origins:
        sizes = ((path, lines_end(path, size) if path.endswith(GROWING) else size) for path, size in sizes)
    return tasks(sizes, spark.sparkContext.defaultParallelism, lambda piece: unread(piece, origins.get(piece.path)))


def unread(piece: Piece, origin: Origin | None) -> Iterable[Piece]:
    """Return the parts of a piece of which a rollup lacks lines, divided where the parts begin and end that it has."""
    if origin is None or not origin.parts:
        return [piece]
    is_packed = piece.path.endswith(PACKED)
    stop = ENDLESS if is_packed else piece.stop
    ends = [piece.start, *(at for at in origin.boundaries() if piece.start < at < stop), stop]
    return [Piece(piece.path, start, end, is_packed) for start, end in itertools.pairwise(ends) if not origin.is_whole(start, end)]


def has_repeats(found: DataFrame) -> bool:
    """Return whether lines were read twice: whether runs of consecutively read lines overlap or have more lines than numbers.

    Overlaps that concurrent writers can explain do not count.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    keys = sf.col("first_us").alias("first"), sf.col("last_us").alias("last")
    # A file that is there twice gives the same run twice, in one or in two parts of the cells.
    runs = found.where("kind = 'runs'").groupBy("node", *keys).agg(sf.sum("requests").alias("requests"))
    before = Window.partitionBy("node").orderBy("first", "last").rowsBetween(Window.unboundedPreceding, -1)
    furthest = sf.max(sf.struct("last", "first")).over(before)
    overlap = sf.col("furthest.last") - sf.col("first")
    shorter = sf.least(sf.col("last") - sf.col("first"), sf.col("furthest.last") - sf.col("furthest.first"))
    is_full = sf.col("requests") > sf.col("last") - sf.col("first") + 1
    suspect = runs.withColumn("furthest", furthest).where(is_full | (overlap > RUN_SLACK * shorter))
    return not suspect.isEmpty()
