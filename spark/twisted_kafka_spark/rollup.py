"""The one pass over a log: lines to cells in the tasks that read them, one shuffle that merges the cells."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from twisted_kafka_spark import cells
from twisted_kafka_spark.read import Sources, read_lines, read_parquet
from twisted_kafka_spark.schema import ddl

if TYPE_CHECKING:
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


def roll_up_files(spark: SparkSession, sources: Sources, folding: Folding, selection: Selection) -> DataFrame:
    """Return the merged cells of the files."""
    parts = []
    if sources.lines:
        parts.append(cells_of_lines(read_lines(spark, sources.lines), folding, selection))
    if sources.parquet:
        parts.append(cells_of_records(read_parquet(spark, sources.parquet), folding, selection))
    return cells.merge(_union(parts))


def cells_of_lines(lines: DataFrame, folding: Folding, selection: Selection | None = None) -> DataFrame:
    """Return cells, not yet merged, of a column of lines (batch or stream)."""
    if selection is not None and selection.needs_records:
        return cells_of_records(lines.mapInArrow(folding.parsed, ddl()), folding, selection)
    return lines.mapInArrow(folding.lines, cells.ddl())


def cells_of_records(records: DataFrame, folding: Folding, selection: Selection) -> DataFrame:
    """Return cells, not yet merged, of records."""
    from pyspark.sql import functions as sf

    if selection.condition:
        records = records.where(selection.condition)
    if selection.deduplicate:
        numbered = records.where(sf.col("sequence").isNotNull()).dropDuplicates(["node", "sequence"])
        records = numbered.unionByName(records.where(sf.col("sequence").isNull()))
    return records.mapInArrow(folding.records, cells.ddl())


def _union(parts: list[DataFrame]) -> DataFrame:
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionByName(part)
    return whole


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
