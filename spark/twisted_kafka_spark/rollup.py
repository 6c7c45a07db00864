"""The one pass over a log: lines to cells in the tasks that read them, and merging the cells."""

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
"""The cells of so many tasks (16 GB of lines) are merged by the driver, which holds them in any case; of more by tasks first."""
_RUN_SLACK = 0.02
"""Lines of several threads may be numbered and written in slightly different orders; runs overlapping by less are not suspect."""


@dataclass(slots=True)
class Selection:
    """Which records count: a condition in SQL over the fields, and whether repeated lines are to be looked for one by one."""

    condition: str = ""
    deduplicate: bool = False

    @property
    def needs_records(self) -> bool:
        """Whether Spark itself has to see the records, not only cells of them."""
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
    """Merge packed cells by Spark's tasks."""
    return bundles.unpacked(bundles.merge(rows, _merging_tasks(spark)).toArrow().to_batches())


def _merging_tasks(spark: SparkSession) -> int:
    return min(int(spark.conf.get("spark.sql.shuffle.partitions") or bundles.PARTS), bundles.PARTS)


def _planned(spark: SparkSession, files: list[str]) -> list[list[Piece]]:
    return tasks([file_size(local_path(path)) for path in files], spark.sparkContext.defaultParallelism)


def _folded(spark: SparkSession, planned: list[list[Piece]], folding: Folding) -> Iterator[tuple[str, pa.Table]]:
    """Fold files that the tasks read by their paths.

    There is nothing in it for Spark SQL to plan, and to load and start that takes longer than to read a million lines: an RDD does.
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
    """Lines read at a stretch: the numbers of the first and the last, and how many there were."""

    node: int
    first: int
    last: int
    lines: int


@dataclass(slots=True)
class Overlaps:
    """Whether lines seem to have been read twice."""

    suspect: list[tuple[Run, Run]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.suspect)


def overlaps(runs: list[Run]) -> Overlaps:
    """Find runs that overlap by more than threads that write at the same time explain, or that hold more lines than numbers."""
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
