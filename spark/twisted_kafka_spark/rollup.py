"""The pass over a log: the tasks that read lines fold them into cells, and the cells are merged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from twisted_kafka_spark import bundles, cells
from twisted_kafka_spark.fold import Planned
from twisted_kafka_spark.pieces import Piece, file_size, local_path, tasks
from twisted_kafka_spark.read import Sources, is_remote, read_lines, read_parquet
from twisted_kafka_spark.schema import ddl

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from twisted_kafka_spark.fold import Folding

MOST_TASKS_MERGED_HERE = 256
"""The driver merges the cells of up to this many tasks (16 GB of lines), which it holds anyway; more are merged by tasks first."""
_RUN_SLACK = 0.02
"""Several threads may number and write lines in slightly different order; runs that overlap by less are not suspicious."""


@dataclass(slots=True)
class Selection:
    """The selection of records: a SQL condition on the fields, and whether duplicate lines are removed."""

    condition: str = ""
    deduplicate: bool = False

    @property
    def needs_records(self) -> bool:
        """Whether Spark SQL has to process the records themselves, not only their cells."""
        return bool(self.condition) or self.deduplicate


def roll_up_files(spark: SparkSession, sources: Sources, folding: Folding, selection: Selection) -> pa.Table:
    """Return the cells of the files."""
    tables: list[tuple[str, pa.Table]] = []
    parts = []
    local = [path for path in (*sources.lines, *sources.parquet) if not is_remote(path)]
    if local:
        planned = _planned(spark, local)
        if selection.needs_records:
            numbers = spark.range(0, len(planned), 1, len(planned))
            parts.append(_records(numbers.mapInArrow(Planned(folding, planned).parsed, ddl()), folding, selection))
        else:
            tables += _folded(spark, planned, folding)
    remote = [path for path in sources.lines if is_remote(path)]
    parts += [_lines(lines, folding, selection) for lines in read_lines(spark, remote)]
    remote = [path for path in sources.parquet if is_remote(path)]
    if remote:
        parts.append(_records(read_parquet(spark, remote), folding, selection))
    if parts:
        tables += _merged(spark, reduce(lambda a, b: a.unionByName(b), parts))
    return bundles.wide(bundles.joined(tables).items())


def roll_up_lines(spark: SparkSession, lines: DataFrame, folding: Folding, selection: Selection) -> pa.Table:
    """Return the cells of a column of lines."""
    return bundles.wide(bundles.joined(_merged(spark, _lines(lines, folding, selection))).items())


def _merged(spark: SparkSession, rows: DataFrame) -> Iterator[tuple[str, pa.Table]]:
    """Merge packed cells in Spark's tasks."""
    return bundles.unpacked(bundles.merge(rows, _merging_tasks(spark)).toArrow().to_batches())


def _merging_tasks(spark: SparkSession) -> int:
    return min(int(spark.conf.get("spark.sql.shuffle.partitions") or bundles.PARTS), bundles.PARTS)


def _planned(spark: SparkSession, files: list[str]) -> list[list[Piece]]:
    return tasks([file_size(local_path(path)) for path in files], spark.sparkContext.defaultParallelism)


def _folded(spark: SparkSession, planned: list[list[Piece]], folding: Folding) -> Iterator[tuple[str, pa.Table]]:
    """Fold files that the tasks read by their paths.

    An RDD suffices, because there is nothing to plan: loading and starting Spark SQL takes longer than reading a million lines.
    """
    pieces = spark.sparkContext.parallelize(planned, len(planned))
    if len(planned) <= MOST_TASKS_MERGED_HERE:
        return map(bundles.opened, pieces.flatMap(folding.streams_of_pieces).collect())
    parts = pieces.flatMap(folding.parts_of_pieces).partitionBy(_merging_tasks(spark), int)
    return map(bundles.opened, parts.mapPartitions(bundles.merged_parts).collect())


def _lines(lines: DataFrame, folding: Folding, selection: Selection) -> DataFrame:
    if selection.needs_records:
        return _records(lines.mapInArrow(folding.parsed, ddl()), folding, selection)
    return lines.mapInArrow(folding.packed_lines, cells.PACKED_DDL)


def _records(records: DataFrame, folding: Folding, selection: Selection) -> DataFrame:
    from pyspark.sql import functions as sf

    if selection.condition:
        records = records.where(selection.condition)
    if selection.deduplicate:
        numbered = records.where(sf.col("sequence").isNotNull()).dropDuplicates(["node", "sequence"])
        records = numbered.unionByName(records.where(sf.col("sequence").isNull()))
    return records.mapInArrow(folding.packed_records, cells.PACKED_DDL)


@dataclass(slots=True)
class Run:
    """A run of consecutively read lines: the numbers of the first and the last line, and the number of lines."""

    node: int
    first: int
    last: int
    lines: int


@dataclass(slots=True)
class Overlaps:
    """Pairs of runs that suggest that lines were read twice."""

    suspect: list[tuple[Run, Run]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.suspect)


def overlaps(runs: list[Run]) -> Overlaps:
    """Find runs that overlap by more than concurrent writers can explain, or that have more lines than numbers."""
    found = Overlaps()
    by_node: dict[int, list[Run]] = {}
    for run in runs:
        if run.lines > run.last - run.first + 1:
            found.suspect.append((run, run))
        by_node.setdefault(run.node, []).append(run)
    for group in by_node.values():
        group.sort(key=lambda run: (run.first, run.last))
        furthest = group[0]
        for run in group[1:]:
            if furthest.last - run.first > _RUN_SLACK * min(run.last - run.first, furthest.last - furthest.first):
                found.suspect.append((furthest, run))
            if run.last > furthest.last:
                furthest = run
    return found
