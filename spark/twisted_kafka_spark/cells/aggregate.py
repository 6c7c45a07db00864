"""What of a log's cells is kept, and steps that Spark SQL does with a DataFrame of cells: merging, names for topic ids.

`bounds` merges and bounds cells, as part of `exchange`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted_kafka_spark.cells.kinds import KEY_NAMES, MEASURES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RANKS: dict[str, tuple[str, ...]] = {
    "requests": ("requests",),
    "failed": ("failed",),
    "total_us": ("total_us",),
    "throttle_us": ("throttle_us",),
    "moved": ("request_bytes", "response_bytes", "bytes"),
}
"""The measures by which names are ranked, each a sum of columns."""
MOST_NAMES = 1000
"""Names of a kind that are kept in an hour for each of `RANKS`."""
MOST_NAMES_SHOWN = 500
"""The same for a whole report."""
MOST_CELLS = 500_000
"""Cells that a driver takes as they are, without bounds for a whole report."""
MOST_CELLS_OF_A_KIND = 50_000
"""Cells of a kind with names in a report with more than that: the last resort, for names with many cells each."""
SAMPLED_NAMES = 1000
"""Topics that are kept whatever they moved: those with the smallest hashes, from which the number of topics is estimated."""
SAMPLED_KIND = "topics"
TOPIC_KINDS = ("topics", "topic_errors", "partitions", "failures", "lineage", "shares")
"""The kinds whose `topic` may be a topic id."""
BY_HOUR = "partitions"
"""The kind whose cells are dropped by their count in a whole hour, even if the cells are finer."""


def merged(cells: DataFrame) -> DataFrame:
    """Return cells whose keys are unique."""
    from pyspark.sql import functions as sf

    how = {"sum": sf.sum, "min": sf.min, "max": sf.max}
    measures = [how[each.merge](each.name).cast("bigint").alias(each.name) for each in MEASURES]
    return cells.groupBy(*KEY_NAMES).agg(*measures)


def named_topics(cells: DataFrame) -> DataFrame:
    """Return cells with names in place of the topic ids of newer fetch versions (KIP-516), where the log contains the names."""
    from pyspark.sql import functions as sf

    ids = cells.where("kind = 'topic_ids'").groupBy(sf.col("topic").alias("topic_id")).agg(sf.min("note").alias("topic_name"))
    is_named = sf.col("kind").isin(list(TOPIC_KINDS)) & (sf.col("topic") == sf.col("topic_id"))
    joined = cells.join(sf.broadcast(ids), is_named, "left")
    return joined.withColumn("topic", sf.coalesce("topic_name", "topic")).drop("topic_id", "topic_name")
