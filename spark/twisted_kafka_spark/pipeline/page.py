"""From the cells of a log to those of a page: merged and bounded by Spark, then small enough for the driver, whatever the log.

A report is made from the cells of hours with at most `aggregate.MOST_NAMES` names each, whether they come from lines or from a
rollup, so that both say the same.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from twisted_kafka_spark.cells import aggregate, kinds
from twisted_kafka_spark.cells.kinds import DAY_S, HOUR_S, KINDS, TIME

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from twisted_kafka_spark.findings.finding import Finding

LONGEST_BY_MINUTE = datetime.timedelta(days=2)
"""Of longer periods the driver gets no minutes: each day is searched for unusual ones by a task."""
MINUTES_OF_CLIENTS = ("client_minutes", "new_connections")
"""The kinds with minutes that only findings need."""
_COUNT_ERROR, _ROOM = 0.02, 0.9
_FINDING_DDL = "finding string, weight double"


@dataclass(slots=True)
class Sizes:
    """What cells contain: kinds with too many names for an hour, and the first and the last minute with a request."""

    crowded: list[str] = field(default_factory=list)
    first: datetime.datetime | None = None
    last: datetime.datetime | None = None
    has_topic_ids: bool = False

    @property
    def is_long(self) -> bool:
        """Whether the period is too long to be searched by minute in one place."""
        return self.first is not None and self.last is not None and self.last - self.first >= LONGEST_BY_MINUTE


@contextmanager
def kept(found: DataFrame) -> Iterator[DataFrame]:
    """Keep what a plan computes, in memory or on disk: Spark would compute it for every use."""
    from pyspark import StorageLevel

    kept_there = found.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield kept_there
    finally:
        kept_there.unpersist()


def sizes(found: DataFrame) -> Sizes:
    """Return the sizes of cells, merged or not; the numbers of names are estimates, for whose error the limits leave room."""
    from pyspark.sql import functions as sf

    seconds = sf.unix_seconds(TIME.name)
    hour = sf.floor(seconds / HOUR_S).alias("hour")
    named = found.select("kind", hour, seconds.alias("second"), aggregate.name_of(KINDS).alias("name"))
    of_hours = named.groupBy("kind", "hour").agg(
        sf.approx_count_distinct("name", _COUNT_ERROR).alias("names"),
        sf.min("second").alias("first"),
        sf.max("second").alias("last"),
    )
    most = of_hours.groupBy("kind").agg(
        sf.max("names").alias("names"), sf.min("first").alias("first"), sf.max("last").alias("last")
    )
    sized = Sizes()
    for row in most.collect():
        sized.has_topic_ids |= row["kind"] == "topic_ids"
        if KINDS[row["kind"]].name and row["names"] > aggregate.MOST_NAMES * KINDS[row["kind"]].room * _ROOM:
            sized.crowded.append(row["kind"])
        if row["kind"] == "traffic":
            sized.first, sized.last = moment(row["first"]), moment(row["last"])
    return sized


def by_hour(found: DataFrame, sized: Sizes) -> DataFrame:
    """Return merged cells of which every hour is bounded."""
    return aggregate.relevant(aggregate.merged(aggregate.bounded(_timed(found, sized), sized.crowded, aggregate.MOST_NAMES)))


def of_page(hourly: DataFrame, sized: Sizes, tick_s: int) -> pa.Table:
    """Return the cells of a page: minutes if the period is short enough, and of all other kinds the sums over the period."""
    if sized.is_long:
        hourly = hourly.where(~_is_one_of(MINUTES_OF_CLIENTS))
    with kept(aggregate.merged(aggregate.regrained(hourly, grains_s(sized, tick_s)))) as whole:
        shown = whole
        if whole.count() > aggregate.MOST_CELLS:
            shown = aggregate.merged(aggregate.bounded(whole, KINDS, aggregate.MOST_NAMES_SHOWN, 0))
            shown = aggregate.largest(aggregate.relevant(shown), aggregate.MOST_CELLS_OF_A_KIND)
        schema = kinds.arrow_schema()
        return shown.select(*schema.names).toArrow().cast(schema)


def grains_s(sized: Sizes, tick_s: int) -> dict[str, int]:
    """Return the grain of each kind on a page that differs from the one that the cells have, 0 for the whole period."""
    grains = {kind: 0 for kind, each in KINDS.items() if each.grain_s == HOUR_S}
    grains["heat"] = tick_s
    if sized.is_long:
        grains["traffic"] = grains["groups"] = tick_s
    return grains


def _timed(found: DataFrame, sized: Sizes) -> DataFrame:
    """Return cells with names of topics, not ids; those without a time, such as of unreadable lines, count in the first minute."""
    from pyspark.sql import functions as sf

    hour = sf.when(sf.col("kind") == aggregate.BY_HOUR, sf.date_trunc("hour", TIME.name))
    timed = found.withColumn(TIME.name, sf.coalesce(hour, TIME.name, sf.lit(sized.first)))
    return aggregate.named_topics(timed) if sized.has_topic_ids else timed


def _is_one_of(kinds: tuple[str, ...]) -> Column:
    from pyspark.sql import functions as sf

    return sf.col("kind").isin(list(kinds))


def findings_by_day(hourly: DataFrame) -> list[Finding]:
    """Return the findings about minutes, searched in each day apart."""
    from pyspark.sql import functions as sf

    from twisted_kafka_spark.findings.find import MOST_FINDINGS
    from twisted_kafka_spark.findings.finding import Finding
    from twisted_kafka_spark.views import KINDS_FOR_FINDINGS

    day = sf.floor(sf.unix_seconds(TIME.name) / DAY_S).alias("day")
    days = hourly.where(_is_one_of(KINDS_FOR_FINDINGS)).groupBy(day).applyInArrow(_found_in_day, _FINDING_DDL)
    rows = days.orderBy(sf.desc("weight"), "finding").limit(MOST_FINDINGS).collect()
    return [Finding(**json.loads(row["finding"])) for row in rows]


def _found_in_day(day: pa.Table) -> pa.Table:
    import pyarrow as pa

    found = found_in(day.select(kinds.arrow_schema().names))
    texts = [json.dumps({**asdict(each), "explains": sorted(each.explains)}, default=str) for each in found]
    return pa.table({"finding": pa.array(texts, pa.string()), "weight": pa.array([each.weight for each in found], pa.float64())})


def found_in(day: pa.Table) -> list[Finding]:
    """Return the findings about minutes in cells of a day."""
    from twisted_kafka_spark.findings.find import find_by_minute, find_over_all
    from twisted_kafka_spark.views import compute_for_findings

    tables = compute_for_findings(day)
    return find_by_minute(tables, find_over_all(tables))


def moment(seconds: int) -> datetime.datetime:
    """Return the time of seconds since 1970."""
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)
