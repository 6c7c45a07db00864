"""Move shards of cells to the tasks that merge them: `repartition` by kind, hour and share of the names, then Arrow.

Spark partitions, sorts, spills and keeps shards like any other rows; `shards.Merging` merges the cells in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from twisted_kafka_spark.cells import kinds, shards
from twisted_kafka_spark.cells.kinds import KINDS
from twisted_kafka_spark.cells.shards import SHARD_COLUMNS, SHARD_DDL, SHARD_KEYS, Division, Merging

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_CELLS_OF_A_TASK = 4_000_000
"""Cells of a kind and an hour that one task merges; of more, the names are divided among tasks."""


def merged(found: DataFrame, merging: Merging, sizes: Mapping[str, int]) -> DataFrame:
    """Return shards of merged cells, one for each kind and hour; `sizes`: the most cells of an hour by kind.

    Shares of the names of a kind are bounded apart, and then together: the first of all are among the first of their share.
    """
    shares = {
        kind: -(-size // MOST_CELLS_OF_A_TASK) for kind, size in sizes.items() if KINDS[kind].name and size > MOST_CELLS_OF_A_TASK
    }
    found = _whole(found)
    if not shares:
        return _exchanged(found, merging)
    parts = _exchanged(found.mapInArrow(Division(shares), SHARD_DDL), replace(merging, most_cells=0))
    return _exchanged(_whole(parts), replace(merging, grains_s={})) if merging.most else parts


def as_cells(found: DataFrame) -> DataFrame:
    """Return the cells in shards as rows."""
    return found.mapInArrow(shards.cells, kinds.ddl())


def as_shards(cells: DataFrame) -> DataFrame:
    """Return rows of cells as shards; shards stay as they are."""
    if set(SHARD_COLUMNS) <= set(cells.columns):
        return cells
    return cells.select(*kinds.arrow_schema().names).mapInArrow(shards.of_cells, SHARD_DDL)


def _exchanged(found: DataFrame, merging: Merging) -> DataFrame:
    return found.repartition(*SHARD_KEYS).sortWithinPartitions(*SHARD_KEYS).mapInArrow(merging, SHARD_DDL)


def _whole(found: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sf

    return found.withColumn("share", sf.lit(0).cast("int"))
