"""Read the history of earlier days from rollups."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import TYPE_CHECKING

from twisted_kafka_spark.cells.history import History, of_rows
from twisted_kafka_spark.cells.kinds import TIME
from twisted_kafka_spark.pipeline import store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_ROWS = 500_000
"""Rows of each table of the history: the clients with the most requests, and so on."""
WEEKS = 5
"""The weeks before a report that count."""
_APIS = ("Produce", "Fetch")


def history(spark: SparkSession, directories: Sequence[str], before: datetime.datetime) -> History:
    """Return the history that rollups have of the weeks before a time; raise NoAccessLogError if a directory is no rollup."""
    from pyspark.sql import functions as sf

    form = "%Y-%m-%dT%H:%M:%S"
    since = before - datetime.timedelta(weeks=WEEKS)
    cells = store.read(spark, directories, since.strftime(form), before.strftime(form)).where("others is null")

    def of(kind: str) -> DataFrame:
        return cells.where(sf.col("kind") == kind)

    hour = sf.date_trunc("hour", TIME.name).alias("hour")
    by_hour = of("persons").where(sf.col("api").isin(*_APIS)).groupBy("client_id", "principal", "api", hour)
    counts = by_hour.agg(sf.sum("requests").alias("requests")).orderBy(sf.desc("requests")).limit(MOST_ROWS)
    names = of("clients").where("software != 'unknown'")
    text = sf.concat_ws(" ", "software", "software_version").alias("text")
    software = names.groupBy("client_id", "principal", text).agg(sf.max("last_us").alias("last_us")).limit(MOST_ROWS)
    readers = of("lineage").where("api = 'Fetch' and topic is not null").select("topic", "principal").distinct().limit(MOST_ROWS)
    days = of("traffic").select(sf.to_date(TIME.name).alias("day")).distinct()
    return of_rows(
        (row["principal"] for row in of("principals").select("principal").distinct().limit(MOST_ROWS).collect()),
        ((row["client_id"], row["principal"], row["text"], row["last_us"] or 0) for row in software.collect()),
        ((row["topic"], row["principal"]) for row in readers.collect()),
        ((*row[:3], row["hour"], float(row["requests"])) for row in counts.collect()),
        (row["day"] for row in days.collect()),
    )
