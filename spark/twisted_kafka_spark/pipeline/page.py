"""From the cells of a log to those of a page: merged and bounded by Spark, then small enough for the driver, whatever the log.

A report is made from the cells of hours with at most `aggregate.MOST_NAMES` names each, whether they come from lines or from a
rollup, so that both say the same.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from twisted_kafka_spark.cells import aggregate, bundles, shards
from twisted_kafka_spark.cells.kinds import DAY_S, HOUR_S, KINDS
from twisted_kafka_spark.cells.shards import EARLIEST_S, SHARD_COLUMNS, Merging
from twisted_kafka_spark.pipeline import exchange
from twisted_kafka_spark.thresholds import changed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from twisted_kafka_spark.findings.finding import Finding

LONGEST_BY_MINUTE = datetime.timedelta(days=2)
"""Of longer periods the driver gets no minutes: each day is searched for unusual ones by a task."""
MINUTES_OF_CLIENTS = ("client_minutes", "new_connections", "nodes", "persons", "failures", "routes")
"""The kinds over time that only findings need."""
_FINDING_DDL = "finding string, weight double, day_s bigint"


@dataclass(slots=True)
class Sizes:
    """What shards contain: the first and the last minute with a request, and the cells of each kind, all and at most in an hour."""

    first: datetime.datetime | None = None
    last: datetime.datetime | None = None
    cells: dict[str, int] = field(default_factory=dict)
    of_hour: dict[str, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """The number of cells, not merged."""
        return sum(self.cells.values())

    @property
    def is_long(self) -> bool:
        """Whether the period is too long to be searched by minute in one place."""
        return self.first is not None and self.last is not None and self.last - self.first >= LONGEST_BY_MINUTE


@contextmanager
def kept(found: DataFrame) -> Iterator[DataFrame]:
    """Keep what a plan computes on disk: Spark would compute it for every use.

    Not in memory, where arrays as large as shards fill twice as much of Java's heap as Spark believes (humongous objects of G1).
    """
    from pyspark import StorageLevel

    kept_there = found.persist(StorageLevel.DISK_ONLY)
    try:
        yield kept_there
    finally:
        kept_there.unpersist()


def sizes(found: DataFrame) -> Sizes:
    """Return the sizes of cells, in rows or shards, merged or not."""
    from pyspark.sql import functions as sf

    known = sf.when(sf.col("first_s") >= EARLIEST_S, sf.col("first_s"))
    sums = sf.sum("size").alias("size"), sf.min("first_s").alias("first_s"), sf.max("last_s").alias("last_s")
    of_hours = exchange.as_shards(found).groupBy("kind", "hour").agg(*sums, sf.min(known).alias("known_s"))
    first = sf.coalesce(sf.min("known_s"), sf.min("first_s")).alias("first_s")
    sized = Sizes()
    for row in of_hours.groupBy("kind").agg(sums[0], first, sums[2], sf.max("size").alias("of_hour")).collect():
        sized.cells[row["kind"]], sized.of_hour[row["kind"]] = row["size"], row["of_hour"]
        if row["kind"] == "traffic":
            sized.first, sized.last = moment(row["first_s"]), moment(row["last_s"])
    return sized


def by_hour(found: DataFrame, sized: Sizes) -> DataFrame:
    """Return shards of merged cells of which every hour is bounded; cells without a time count in the first minute."""
    from pyspark.sql import functions as sf

    assert sized.first is not None
    found = exchange.as_shards(found)
    first_s = int(sized.first.timestamp())
    if "topic_ids" in sized.cells:
        found = _with_names_of_topics(found)
    is_known = sf.col("hour") >= EARLIEST_S // HOUR_S if first_s >= EARLIEST_S else sf.col("hour").isNotNull()
    timed = found.withColumn("hour", sf.when(is_known, sf.col("hour")).otherwise(first_s // HOUR_S))
    return exchange.merged(
        timed, Merging(most=aggregate.MOST_NAMES, first_s=first_s, grains_s={aggregate.BY_HOUR: HOUR_S}), sized.of_hour
    )


def of_page(hourly: DataFrame, sized: Sizes, tick_s: int) -> pa.Table:
    """Return the cells of a page: minutes if the period is short enough, and of all other kinds the sums over the period."""
    from pyspark.sql import functions as sf

    if sized.is_long:
        hourly = hourly.where(~_is_one_of(MINUTES_OF_CLIENTS))
    whole = hourly.withColumn("hour", sf.lit(0).cast("bigint"))
    coarse = Merging(grains_s=grains_s(sized, tick_s))
    with kept(exchange.merged(whole, coarse, sizes(whole).of_hour)) as shown:
        shown_sizes = sizes(shown)
        if shown_sizes.count > aggregate.MOST_CELLS:
            few = Merging(most=aggregate.MOST_NAMES_SHOWN, most_cells=aggregate.MOST_CELLS_OF_A_KIND)
            return collected(exchange.merged(shown, few, shown_sizes.of_hour))
        return collected(shown)


def collected(found: DataFrame) -> pa.Table:
    """Take cells, which the caller knows to be few, to the driver."""
    return bundles.wide(shards.opened(exchange.as_shards(found).toArrow().to_batches()))


def grains_s(sized: Sizes, tick_s: int) -> dict[str, int]:
    """Return the grain of each kind on a page that differs from the one that the cells have, 0 for the whole period."""
    grains = {kind: 0 for kind, each in KINDS.items() if each.grain_s == HOUR_S}
    if not sized.is_long:
        del grains[aggregate.BY_HOUR], grains["routes"]  # whose hours are searched for the beginning of a change
    grains["heat"] = tick_s
    if sized.is_long:
        grains["traffic"] = grains["groups"] = tick_s
    return grains


def _with_names_of_topics(found: DataFrame) -> DataFrame:
    about_topics = _is_one_of((*aggregate.TOPIC_KINDS, "topic_ids"))
    named = aggregate.named_topics(exchange.as_cells(found.where(about_topics)))
    return exchange.as_shards(named).unionByName(found.where(~about_topics))


def _is_one_of(kinds: tuple[str, ...]) -> Column:
    from pyspark.sql import functions as sf

    return sf.col("kind").isin(list(kinds))


def findings_by_day(hourly: DataFrame, changes: Mapping[str, float]) -> list[Finding]:
    """Return the findings about minutes, searched in each day apart with these thresholds changed."""
    return [finding for _, finding in findings_of_days(hourly, changes)]


def findings_of_days(hourly: DataFrame, changes: Mapping[str, float]) -> list[tuple[str, Finding]]:
    """Return the same findings, each with its day (`2026-11-21`)."""
    from pyspark.sql import functions as sf

    from twisted_kafka_spark.findings.find import MOST_FINDINGS
    from twisted_kafka_spark.findings.finding import Finding
    from twisted_kafka_spark.views import KINDS_FOR_FINDINGS

    day = sf.floor(sf.col("hour") * HOUR_S / DAY_S).alias("day")
    some, of_day = hourly.where(_is_one_of(KINDS_FOR_FINDINGS)), dict(changes)
    # Not a partial: pyspark reads the annotations of its argument, and fails for one.
    days = some.groupBy(day).applyInArrow(lambda cells: _found_in_day(of_day, cells), _FINDING_DDL)
    rows = days.orderBy(sf.desc("weight"), "finding").limit(MOST_FINDINGS).collect()
    return [(f"{moment(row['day_s']):%Y-%m-%d}", Finding(**json.loads(row["finding"]))) for row in rows]


def _found_in_day(changes: Mapping[str, float], day: pa.Table) -> pa.Table:
    import pyarrow as pa

    day_s = (pc.min(day["hour"]).as_py() or 0) * HOUR_S // DAY_S * DAY_S
    with changed(changes):
        found = found_in(bundles.wide(shards.opened(day.select(SHARD_COLUMNS).to_batches())))
    texts = [json.dumps({**asdict(each), "explains": sorted(each.explains)}, default=str) for each in found]
    weights = pa.array([each.weight for each in found], pa.float64())
    days = pa.repeat(pa.scalar(day_s, pa.int64()), len(found))
    return pa.table({"finding": pa.array(texts, pa.string()), "weight": weights, "day_s": days})


def found_in(day: pa.Table) -> list[Finding]:
    """Return the findings about minutes in cells of a day."""
    from twisted_kafka_spark.findings.find import find_by_minute, find_over_all
    from twisted_kafka_spark.views import compute_for_findings

    tables = compute_for_findings(day)
    return find_by_minute(tables, find_over_all(tables))


def moment(seconds: int) -> datetime.datetime:
    """Return the time of seconds since 1970."""
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)
