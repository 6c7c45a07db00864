"""Rollups as Parquet: `<directory>/rollup=3/date=2026-11-21/hour=08/*.parquet`, with one row per cell.

An hour's files replace those that were written for it before, so an hour that is rolled up twice is that hour. The first folder's
name has the version of the schema.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from twisted_kafka_spark.cells import kinds
from twisted_kafka_spark.cells.kinds import KEY_NAMES, KINDS, MEASURE_NAMES, TIME
from twisted_kafka_spark.pipeline.followed import Followed
from twisted_kafka_spark.records.read import NoAccessLogError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VERSION = 3
"""The version of the schema; the first two were those of rollups by grain, which cannot be read any more."""
ROLLED_UP = f"rollup={VERSION}"
"""The folder of whole hours."""


def write(found: DataFrame, directory: str) -> None:
    """Write cells that are bounded by hour, replacing the hours that they are about and no others."""
    from pyspark.sql import functions as sf

    stored = found.where(sf.col("kind").isin([kind for kind, each in KINDS.items() if each.is_stored]))
    hours = stored.select(
        *KEY_NAMES,
        *MEASURE_NAMES,
        sf.date_format(TIME.name, "yyyy-MM-dd").alias("date"),
        sf.date_format(TIME.name, "HH").alias("hour"),
    )
    files = hours.repartition("date", "hour").sortWithinPartitions("date", "hour", "kind", TIME.name)
    writer = files.write.mode("overwrite").option("partitionOverwriteMode", "dynamic").partitionBy("date", "hour")
    writer.option("compression", "zstd").parquet(f"{directory.rstrip('/')}/{ROLLED_UP}")


def read(spark: SparkSession, directories: Sequence[str], since: str = "", until: str = "") -> DataFrame:
    """Return the cells of rollups, not merged, of the hours from `since` to before `until`, in the format of the field `time`.

    Raises NoAccessLogError when a directory does not contain a rollup.
    """
    from pyspark.sql import functions as sf

    whole = reduce(lambda a, b: a.unionByName(b), (_read(spark, directory.rstrip("/")) for directory in directories))
    hour = sf.concat_ws("T", "date", "hour")
    if since:
        whole = whole.where((sf.col("date") >= since[:10]) & (hour >= since[:13]))
    if until:
        whole = whole.where((sf.col("date") <= until[:10]) & (hour < until[:13]))
    return whole.select(*KEY_NAMES, *MEASURE_NAMES)


def _read(spark: SparkSession, directory: str) -> DataFrame:
    """Return the cells in a directory with their date and hour: of whole hours, or of the batches that `follow` wrote."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as sf

    with contextlib.suppress(AnalysisException):
        return spark.read.schema(f"{kinds.ddl()}, date string, hour string").parquet(f"{directory}/{ROLLED_UP}")
    batches = Followed(spark, directory).cells()
    if batches is None:
        raise NoAccessLogError(f"{directory} is not a rollup (written with --rollup) of this version")
    date, hour = sf.date_format(TIME.name, "yyyy-MM-dd"), sf.date_format(TIME.name, "HH")
    return batches.withColumn("date", date).withColumn("hour", hour)
