"""Rollups as Parquet: `<directory>/grain=<seconds>/*.parquet`, with one row per cell."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import TYPE_CHECKING

from twisted_kafka_spark import cells
from twisted_kafka_spark.read import NoAccessLogError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

MOST_MINUTES = 2 * 24 * 60
MOST_HOURS = 60 * 24
_GRAIN = "grain"


def write(spark: SparkSession, rollup: pa.Table, directory: str, grain_s: int) -> None:
    """Write a rollup, replacing an existing one."""
    cells_there = spark.createDataFrame(rollup, cells.ddl())
    cells_there.coalesce(1).write.mode("overwrite").parquet(f"{directory.rstrip('/')}/{_GRAIN}={grain_s}")


def read(spark: SparkSession, directories: Sequence[str], grain_s: int = 0) -> tuple[DataFrame, int]:
    """Return the merged cells of several rollups, and their grain.

    Without `grain_s`, the grain is a minute for up to two days, an hour for up to sixty days, and a day for longer periods.
    Raises NoAccessLogError when a directory does not contain a rollup.
    """
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as sf

    whole: DataFrame | None = None
    for directory in directories:
        try:
            part = spark.read.option("basePath", directory).schema(f"{cells.ddl()}, {_GRAIN} int").parquet(directory)
        except AnalysisException:
            raise NoAccessLogError(f"{directory} is not a rollup (written with --rollup)") from None
        whole = part if whole is None else whole.unionByName(part)
    assert whole is not None
    row = whole.where("kind = 'requests'").agg(sf.min("at").alias("a"), sf.max("at").alias("b"), sf.max(_GRAIN).alias("g")).first()
    if row is None or row["a"] is None:
        raise NoAccessLogError(f"{', '.join(directories)}: no rollup with requests (written with --rollup)")
    grain = max(grain_s or _fitting(row["b"] - row["a"]), row["g"])
    return cells.merge(_coarser(whole.drop(_GRAIN), grain)), grain


def _fitting(span: datetime.timedelta) -> int:
    minutes = span.total_seconds() / cells.MINUTE_S
    if minutes <= MOST_MINUTES:
        return cells.MINUTE_S
    return cells.HOUR_S if minutes <= MOST_HOURS * 60 else cells.DAY_S


def _coarser(rollup: DataFrame, grain_s: int) -> DataFrame:
    """Truncate times to `grain_s` for the kinds with a finer grain."""
    from pyspark.sql import functions as sf

    if grain_s <= cells.MINUTE_S:
        return rollup
    finer = [kind for kind, declared in cells.KINDS.items() if declared.grain_s < grain_s]
    changed = cells.regrain(rollup.where(sf.col("kind").isin(finer)), grain_s)
    return changed.unionByName(rollup.where(~sf.col("kind").isin(finer)))
