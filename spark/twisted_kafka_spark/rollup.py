"""Everything that the report shows, from one pass over the log.

A request is counted once in each of the grouping sets below; a request with several topics is several rows (one a topic), of which
only the first counts as a request. What comes back is small: at most ``TOP`` rows of each kind that has no natural bound.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from twisted_kafka_spark.schema import CORRUPT, PHASES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

TOP = 50
"""At most so many clients and topics are kept, the busiest first."""
PERCENTILES = (0.5, 0.95, 0.99, 0.999)
ACCURACY = 1000
"""percentile_approx's: a rank is off by at most 1/1000 of the rows."""
MINUTE = "yyyy-MM-dd'T'HH:mm'Z'"
"""How a minute is written; the session's time zone is UTC."""

SETS: dict[str, tuple[str, ...]] = {
    "total": (),
    "minute": ("minute", "api"),
    "api": ("api",),
    "version": ("api", "version"),
    "client": ("client_id", "software", "software_version", "principal"),
    "listener": ("listener", "protocol"),
    "error": ("api", "error"),
    "topic": ("topic",),
    "topic_error": ("topic", "topic_error"),
}
"""The kinds of row, each with the columns that it is grouped by."""

_COLUMNS = ("minute", "api", "version", "client_id", "software", "software_version", "principal", "listener", "protocol", "error")
_TOPIC_COLUMNS = ("topic", "topic_error")

Values = dict[str, Any]


@dataclass(slots=True)
class Rollup:
    """What was counted: one total, and lists of rows (plain dicts, busiest first) by kind of ``SETS``."""

    total: Values
    rows: dict[str, list[Values]] = field(default_factory=dict)
    unreadable_lines: int = 0


def roll_up(log: DataFrame) -> Rollup:
    """Summarize the rows of `read_access_log` in one Spark job."""
    from pyspark.sql import functions as sf

    columns = [*_COLUMNS, *_TOPIC_COLUMNS]
    bits = {name: 1 << (len(columns) - 1 - at) for at, name in enumerate(columns)}
    grouping = {sum(bit for name, bit in bits.items() if name not in group): kind for kind, group in SETS.items()}
    prepared = _prepare(log)
    sets = [[sf.col(name) for name in group] for group in SETS.values()]
    grouped = prepared.groupingSets(sets, *[sf.col(name) for name in columns]).agg(sf.grouping_id().alias("kind"), *_measures())
    rollup = Rollup(total={})
    for row in grouped.toLocalIterator():
        kind = grouping[row["kind"]]
        values = _values(row, SETS[kind])
        if kind == "total":
            rollup.total = values
            rollup.unreadable_lines = row["unreadable"]
        elif _counts(kind, row):
            rollup.rows.setdefault(kind, []).append(values)
    rollup.rows = {kind: _ordered(kind, rollup.rows.get(kind, [])) for kind in SETS if kind != "total"}
    return rollup


def _prepare(log: DataFrame) -> DataFrame:
    """One row per request and topic, with the minute and the marks that the measures need."""
    from pyspark.sql import functions as sf

    rows = log.select(
        *[sf.col(name) for name in log.columns if name != "topics"],
        sf.date_format(sf.try_to_timestamp(sf.col("time")), MINUTE).alias("minute"),
        sf.posexplode_outer("topics").alias("at", "entry"),
    )
    whole = sf.col(CORRUPT).isNull()
    return rows.select(
        *[sf.col(name) for name in _COLUMNS],
        sf.col("entry.topic").alias("topic"),
        sf.col("entry.error").alias("topic_error"),
        sf.col("entry.records").alias("topic_records"),
        sf.col("entry.bytes").alias("topic_bytes"),
        "request_bytes",
        "response_bytes",
        *PHASES,
        "total_us",
        (whole & sf.coalesce(sf.col("at") == 0, sf.lit(True))).alias("request"),
        (~whole).alias("unreadable"),
    )


def _measures() -> list[Column]:
    """What is computed for each group."""
    from pyspark.sql import functions as sf

    def once(value: Column) -> Column:
        return sf.when(sf.col("request"), value)

    percentiles = [sf.lit(share) for share in PERCENTILES]
    measures = [
        sf.count_if("request").alias("requests"),
        sf.count_if("unreadable").alias("unreadable"),
        sf.count_if(sf.col("request") & sf.col("error").isNotNull()).alias("failed"),
        sf.sum(once(sf.col("request_bytes"))).alias("request_bytes"),
        sf.sum(once(sf.col("response_bytes"))).alias("response_bytes"),
        sf.max(once(sf.col("total_us"))).alias("max_us"),
        sf.percentile_approx(once(sf.col("total_us")), sf.array(*percentiles), ACCURACY).alias("total_us"),
        sf.min(sf.when(sf.col("request"), sf.col("minute"))).alias("first_minute"),
        sf.max(sf.when(sf.col("request"), sf.col("minute"))).alias("last_minute"),
        sf.count("topic").alias("topic_requests"),
        sf.sum("topic_records").alias("topic_records"),
        sf.sum("topic_bytes").alias("topic_bytes"),
    ]
    for phase in PHASES:
        measures.append(sf.avg(once(sf.col(phase))).alias(f"mean_{phase}"))
        measures.append(sf.percentile_approx(once(sf.col(phase)), sf.array(*percentiles), ACCURACY).alias(phase))
    return measures


def _counts(kind: str, row: Row) -> bool:
    """Whether a group says something: the sets also make groups of requests without an error or a topic."""
    if kind == "topic":
        return row["topic"] is not None
    if kind == "topic_error":
        return row["topic_error"] is not None
    if kind == "error":
        return row["error"] is not None
    return bool(row["requests"])


def _values(row: Row, group: tuple[str, ...]) -> Values:
    told = row.asDict(recursive=True)
    hidden = {"kind", "unreadable", *(name for name in (*_COLUMNS, *_TOPIC_COLUMNS) if name not in group)}
    return {name: value for name, value in told.items() if name not in hidden}


def _ordered(kind: str, rows: list[Values]) -> list[Values]:
    if kind == "minute":
        return sorted(rows, key=lambda row: (row["minute"] is None, row["minute"], row["api"]))
    if kind in ("topic", "topic_error"):
        return sorted(rows, key=lambda row: (-(row["topic_bytes"] or 0), -row["topic_requests"], row["topic"]))[:TOP]
    rows = sorted(rows, key=lambda row: -row["requests"])
    return rows[:TOP] if kind == "client" else rows
