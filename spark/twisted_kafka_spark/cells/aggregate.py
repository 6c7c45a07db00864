"""Merge cells, and bound their number, with Spark SQL: every step takes a DataFrame of cells and returns one.

The names that clients choose have no bound, so of a kind with such names only those with the most of a measure are kept by name, in
each hour (`MOST_NAMES`); the others are merged into cells whose `others` is 1, so sums stay exact. Names are ranked by their sums
over the whole hour, which Spark computes before anything is dropped, and equal sums by name: the same lines give the same cells,
however they are divided into files, tasks and rollups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import TYPE_CHECKING

from twisted_kafka_spark.cells.kinds import CLIENT, HOUR_S, KEY_NAMES, KEYS, KINDS, MEASURE_NAMES, MEASURES, TIME
from twisted_kafka_spark.thresholds import MINUTE_FLOOR, PARTITION_FLOOR, REBALANCE_APIS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

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
MOST_CELLS = 300_000
"""Cells that a driver takes as they are, without bounds for a whole report."""
MOST_CELLS_OF_A_KIND = 50_000
"""Cells of a kind with names in a report with more than that: the last resort, for names with many cells each."""
SAMPLED_NAMES = 1000
"""Topics that are kept whatever they moved: those with the smallest hashes, from which the number of topics is estimated."""
_SAMPLED = "topics"
BY_HOUR = "partitions"
"""The kind whose cells are dropped for what they count in an hour, also where their grain is finer."""

_SEPARATOR, _NULL = "\x1f", "\x1e"


def merged(cells: DataFrame) -> DataFrame:
    """Return cells whose keys are unique."""
    from pyspark.sql import functions as sf

    how = {"sum": sf.sum, "min": sf.min, "max": sf.max}
    measures = [how[each.merge](each.name).cast("bigint").alias(each.name) for each in MEASURES]
    return cells.groupBy(*KEY_NAMES).agg(*measures)


def relevant(cells: DataFrame) -> DataFrame:
    """Return merged cells without minutes of clients in which too little happened for a storm, and partitions that hardly move."""
    from pyspark.sql import functions as sf

    is_busy = (sf.col("requests") >= MINUTE_FLOOR) | (sf.col("throttled") > 0) | sf.col("api").isin(list(REBALANCE_APIS))
    busy = cells.where((sf.col("kind") != "client_minutes") | (is_busy & sf.col("others").isNull()))
    return busy.where((sf.col("kind") != BY_HOUR) | (sf.col("requests") >= PARTITION_FLOOR))


def named_topics(cells: DataFrame) -> DataFrame:
    """Return cells with names in place of the topic ids of newer fetch versions (KIP-516), where the log contains the names."""
    from pyspark.sql import functions as sf

    ids = cells.where("kind = 'topic_ids'").groupBy(sf.col("topic").alias("topic_id")).agg(sf.min("note").alias("topic_name"))
    is_named = sf.col("kind").isin("topics", "topic_errors", "partitions") & (sf.col("topic") == sf.col("topic_id"))
    joined = cells.join(sf.broadcast(ids), is_named, "left")
    return joined.withColumn("topic", sf.coalesce("topic_name", "topic")).drop("topic_id", "topic_name")


def bounded(cells: DataFrame, kinds: Iterable[str], most: int, interval_s: int = HOUR_S) -> DataFrame:
    """Return cells in which each of `kinds` has at most `most` names per rank and interval, the others together; not merged yet.

    The cells are read twice: once for the ranks, and once to be marked.
    """
    from pyspark.sql import functions as sf

    chosen = [kind for kind in kinds if KINDS[kind].name]
    if not chosen:
        return cells
    ranked = sf.col("kind").isin(chosen)
    # The other kinds match no name; they get different texts, so that a join does not send them all to one task.
    name = sf.when(ranked, name_of(chosen)).otherwise(sf.concat_ws(_SEPARATOR, TIME.name, "bucket"))
    named = cells.withColumn("name", name).withColumn("interval", _interval(interval_s))
    marked = named.join(_kept(named.where(ranked), most), ["kind", "interval", "name"], "left")
    marked = marked.withColumn("others", sf.when(ranked & sf.col("is_kept").isNull(), 1).otherwise(sf.col("others")))
    for key in _unnamed_keys(chosen):
        has_key = sf.col("kind").isin([kind for kind in chosen if key in (*KINDS[kind].name, *CLIENT)])
        marked = marked.withColumn(key, sf.when(sf.col("others").isNull() | ~has_key, sf.col(key)))
    return marked.select(*KEY_NAMES, *MEASURE_NAMES)


def _kept(named: DataFrame, most: int) -> DataFrame:
    """Return the names to keep, of each kind and interval: few, so that Spark sends them to all tasks."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    def added(measures: tuple[str, ...]) -> Column:
        return reduce(lambda a, b: a + b, (sf.coalesce(sf.sum(measure), sf.lit(0)) for measure in measures))

    ranks = [sf.struct(sf.lit(rank).alias("rank"), added(measures).alias("amount")) for rank, measures in RANKS.items()]
    by_name = named.where("others is null").groupBy("kind", "interval", "name")
    places = by_name.agg(sf.array(*ranks).alias("ranks")).select("kind", "interval", "name", sf.inline("ranks"))
    each = Window.partitionBy("kind", "interval", "rank").orderBy(sf.desc("amount"), "name")
    # Spark keeps the first of each task before it moves them (WindowGroupLimit), as `place` is compared with a number.
    kept = places.where("amount > 0").withColumn("place", sf.row_number().over(each)).where(sf.col("place") <= most)
    names = kept.select("kind", "interval", "name").unionByName(_sampled(named)).distinct()
    return names.withColumn("is_kept", sf.lit(True))


def _sampled(named: DataFrame) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    keys = "kind", "interval", "name"
    names = named.where((sf.col("kind") == _SAMPLED) & sf.col("others").isNull()).select(*keys).distinct()
    by_hash = Window.partitionBy("kind", "interval").orderBy(sf.sha2("name", 256))
    return names.withColumn("place", sf.row_number().over(by_hash)).where(sf.col("place") <= SAMPLED_NAMES).select(*keys)


def largest(cells: DataFrame, most: int) -> DataFrame:
    """Return merged cells without those with the fewest requests, of kinds with names of which there are more than `most`."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    is_named = sf.col("kind").isin([kind for kind, each in KINDS.items() if each.name])
    order = Window.partitionBy("kind").orderBy(sf.desc("requests"), *KEY_NAMES[1:])
    places = cells.where(is_named).withColumn("place", sf.row_number().over(order)).where(sf.col("place") <= most)
    return places.drop("place").unionByName(cells.where(~is_named))


def name_of(kinds: Iterable[str]) -> Column:
    """Return the text that ranks and joins use for a cell's name, of which null and an empty text differ."""
    from pyspark.sql import functions as sf

    found = sf.lit("")
    for kind in kinds:
        if not KINDS[kind].name:
            continue
        parts = [sf.coalesce(sf.col(key).cast("string"), sf.lit(_NULL)) for key in KINDS[kind].name]
        found = sf.when(sf.col("kind") == kind, sf.concat_ws(_SEPARATOR, *parts)).otherwise(found)
    return found


def _unnamed_keys(kinds: Iterable[str]) -> list[str]:
    """Return the keys that cells of others lack: the names, and what else has no bound."""
    wanted = {key for kind in kinds for key in (*KINDS[kind].name, *CLIENT)}
    return [key.name for key in KEYS if key.name in wanted]


def _interval(seconds: int) -> Column:
    from pyspark.sql import functions as sf

    if not seconds:
        return sf.lit(0).cast("bigint")
    return sf.floor(sf.unix_seconds(TIME.name) / seconds)


def regrained(cells: DataFrame, grains_s: Mapping[str, int]) -> DataFrame:
    """Return cells with the times of some kinds truncated to a number of seconds, or to 1970 for 0; not merged yet."""
    from pyspark.sql import functions as sf

    seconds = sf.unix_seconds(TIME.name)
    found = seconds
    for grain_s in set(grains_s.values()):
        mine = sf.col("kind").isin([kind for kind, wanted_s in grains_s.items() if wanted_s == grain_s])
        found = sf.when(mine, sf.floor(seconds / grain_s) * grain_s if grain_s else sf.lit(0)).otherwise(found)
    return cells.withColumn(TIME.name, sf.timestamp_seconds(found))
