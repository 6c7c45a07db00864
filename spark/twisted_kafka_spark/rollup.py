"""The one pass over a log: lines to cells in the tasks that read them, one shuffle that merges the cells."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from twisted_kafka_spark import bundles, cells
from twisted_kafka_spark.fold import Planned
from twisted_kafka_spark.pieces import local_path, tasks
from twisted_kafka_spark.read import Sources, is_remote, read_lines, read_parquet
from twisted_kafka_spark.schema import ddl

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from twisted_kafka_spark.fold import Folding

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


@dataclass(slots=True)
class Rollup:
    """Cells of a log, or of rollups that were kept: `rows` as packed cells, else `cells`, each of them once."""

    rows: DataFrame | None = None
    cells: DataFrame | None = None

    def table(self) -> pa.Table:
        """Return all cells."""
        if self.rows is None:
            assert self.cells is not None
            return self.cells.toArrow()
        return bundles.wide(bundles.merged(bundles.unpacked(self.rows.toArrow().to_batches())).items())

    def frame(self) -> DataFrame:
        """Return the cells as rows of Spark."""
        if self.rows is None:
            assert self.cells is not None
            return self.cells
        return self.rows.mapInArrow(bundles.wide_batches, cells.ddl())


def roll_up_files(spark: SparkSession, sources: Sources, folding: Folding, selection: Selection) -> Rollup:
    """Return the cells of the files."""
    parts = []
    local = [path for path in (*sources.lines, *sources.parquet) if not is_remote(path)]
    if local:
        parts.append(_local(spark, local, folding, selection))
    remote = [path for path in sources.lines if is_remote(path)]
    parts += [_lines(lines, folding, selection) for lines in read_lines(spark, remote)]
    remote = [path for path in sources.parquet if is_remote(path)]
    if remote:
        parts.append(_records(read_parquet(spark, remote), folding, selection))
    return _merged(spark, reduce(lambda a, b: a.unionByName(b), parts))


def roll_up_lines(spark: SparkSession, lines: DataFrame, folding: Folding, selection: Selection) -> Rollup:
    """Return the cells of a column of lines."""
    return _merged(spark, _lines(lines, folding, selection))


def _merged(spark: SparkSession, rows: DataFrame) -> Rollup:
    tasks = int(spark.conf.get("spark.sql.shuffle.partitions") or bundles.PARTS)
    return Rollup(rows=bundles.merge(rows, min(tasks, bundles.PARTS)))


def _local(spark: SparkSession, files: list[str], folding: Folding, selection: Selection) -> DataFrame:
    """Return packed cells of files that the tasks read by their paths."""
    paths = [local_path(path) for path in files]
    planned = tasks([(path, os.path.getsize(path)) for path in paths], spark.sparkContext.defaultParallelism)
    numbers = spark.range(0, len(planned), 1, len(planned))
    work = Planned(folding, planned)
    if selection.needs_records:
        return _records(numbers.mapInArrow(work.parsed, ddl()), folding, selection)
    return numbers.mapInArrow(work.packed, bundles.DDL)


def _lines(lines: DataFrame, folding: Folding, selection: Selection) -> DataFrame:
    if selection.needs_records:
        return _records(lines.mapInArrow(folding.parsed, ddl()), folding, selection)
    return lines.mapInArrow(folding.packed_lines, bundles.DDL)


def _records(records: DataFrame, folding: Folding, selection: Selection) -> DataFrame:
    from pyspark.sql import functions as sf

    if selection.condition:
        records = records.where(selection.condition)
    if selection.deduplicate:
        numbered = records.where(sf.col("sequence").isNotNull()).dropDuplicates(["node", "sequence"])
        records = numbered.unionByName(records.where(sf.col("sequence").isNull()))
    return records.mapInArrow(folding.packed_records, bundles.DDL)


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
