"""The tables of the report: each is declared once, computed from the rollup's cells by Arrow on the driver, and fits on a page.

A day has some hundred thousand cells: a Spark job per table would cost more than all of the computation with Arrow.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from twisted_kafka_spark import transactions, without_pandas  # noqa: F401 - for the side effect of the import
from twisted_kafka_spark.cells import CLIENT, KINDS, MEASURES, TIME
from twisted_kafka_spark.kafka_names import OLDEST_IN_KAFKA_4
from twisted_kafka_spark.security import OTHER_REFUSALS, PLAIN_PROTOCOLS, TOPIC_REFUSAL
from twisted_kafka_spark.thresholds import MINUTE_FLOOR, NEW_CONNECTIONS_FLOOR, REBALANCE_APIS

Row = dict[str, Any]
Tables = dict[str, list[Row]]
Derived = Callable[[pa.Table], pa.Array]

SOFTWARE = ("software", "software_version")
TOP = 30
"""The number of rows kept for each measure by which a table is ranked."""
HEAT_BUCKETS = 5
"""The number of histogram buckets in a row of a heat map."""
_BUSY = ("requests", "failed", "total_us", "throttle_us", "sent_and_received")
_MICROSECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class View:
    """A table: cells of one kind, grouped by some of their keys; only the first `top` rows by each of `ranks` are kept."""

    kind: str
    keys: tuple[str, ...]
    where: pc.Expression | None = None
    least: int = 0
    """Rows with fewer requests are omitted, except joins, syncs and leaves."""
    ranks: tuple[str, ...] = ()
    top: int = TOP
    derived: dict[str, Derived] = field(default_factory=dict)
    """Additional columns to sum, derived from the columns of the cells."""


def _old_versions() -> pc.Expression:
    conditions = ((pc.field("api") == api) & (pc.field("version") < oldest) for api, oldest in OLDEST_IN_KAFKA_4.items())
    return reduce(lambda a, b: a | b, conditions)


def _moved(api: str, name: str) -> Derived:
    return lambda table: pc.if_else(pc.equal(table["api"], api), table[name], 0)


def _both(table: pa.Table) -> pa.Array:
    return pc.add(pc.fill_null(table["request_bytes"], 0), pc.fill_null(table["response_bytes"], 0))


def _one_of(key: str, values: Sequence[str]) -> pc.Expression:
    return pc.field(key).isin(list(values))


_MOVED: dict[str, Derived] = {
    "produced_bytes": _moved("Produce", "bytes"),
    "fetched_bytes": _moved("Fetch", "bytes"),
    "produced_records": _moved("Produce", "records"),
}
_BOTH: dict[str, Derived] = {"sent_and_received": _both}
_FAILED = pc.field("error").is_valid()

VIEWS: dict[str, View] = {
    "total": View("requests", ()),
    "tick": View("requests", (TIME.name, "api")),
    "api": View("requests", ("api",)),
    "version": View("requests", ("api", "version"), ranks=("requests",), top=300),
    "listener": View("requests", ("node", "listener", "protocol"), ranks=("requests",), top=100),
    "client": View("requests", (*CLIENT, *SOFTWARE), ranks=_BUSY, derived=_BOTH),
    "principal": View("requests", ("principal",), ranks=_BUSY, derived=_BOTH),
    "software": View("requests", SOFTWARE, ranks=("requests",), top=60),
    "client_api": View("requests", (*CLIENT, "api")),
    "old_version": View("requests", (*CLIENT, *SOFTWARE, "api", "version"), where=_old_versions()),
    "error": View("requests", ("api", "error"), where=_FAILED, ranks=("requests",), top=60),
    "error_minute": View("requests", (TIME.name, "api", "error"), where=_FAILED),
    "error_client": View("requests", ("api", "error", *CLIENT), where=_FAILED, ranks=("requests",), top=500),
    "client_minute": View("requests", (TIME.name, *CLIENT, "api"), least=MINUTE_FLOOR),
    "throttled_minute": View("requests", (TIME.name, *CLIENT, "api"), where=pc.field("throttled") > 0),
    "connection": View("connections", ("connection", *CLIENT), ranks=("requests", "failed", "total_us"), top=15),
    "throttled_connection": View(
        "connections", ("connection", *CLIENT), where=pc.field("throttle_us") > 0, ranks=("throttle_us",), top=500
    ),
    "topic": View("topics", ("topic",), ranks=("bytes", "requests"), derived=_MOVED),
    "topic_total": View("topics", (), derived=_MOVED),
    "topic_api": View("topics", ("topic", "api"), ranks=("bytes", "requests"), top=100),
    "topic_error": View("topics", ("topic", "api", "error"), where=_FAILED, ranks=("requests",), top=60),
    "latency": View("latency", ("api", "bucket")),
    "phase": View("phases", ("api", "phase", "bucket")),
    "client_latency": View("clients", (*CLIENT, "bucket")),
    "refused": View("requests", ("api", "error", *CLIENT), where=_one_of("error", OTHER_REFUSALS), ranks=("requests",)),
    "refused_topic": View("topics", ("topic", "api", *CLIENT), where=_one_of("error", (TOPIC_REFUSAL,)), ranks=("requests",)),
    "failed_login": View("logins", ("note", "listener", "error"), ranks=("requests",)),
    "plain_text": View(
        "requests", ("listener", "protocol", *CLIENT), where=_one_of("protocol", PLAIN_PROTOCOLS), ranks=("requests",)
    ),
    "run": View("runs", ("node", "note")),
    "line": View("lines", ("error", "note"), ranks=("requests",), top=100),
}

_FOR_FINDINGS = (
    *("tick", "listener", "client", "client_api", "client_minute", "throttled_minute", "throttled_connection"),
    *("old_version", "error_minute", "error_client", "topic", "topic_total", "topic_error", "line", "failed_login"),
)
KINDS_FOR_FINDINGS = ("requests", "connections", "topics", "topic_ids", "lines", "transactions", "logins")
"""The kinds of cells from which those views and the new connections are computed."""


def compute(cells: pa.Table, tick_s: int, group_by: Sequence[str] = ()) -> Tables:
    """Compute all views; `tick_s`: the length of one column of the charts over time."""
    views = dict(VIEWS)
    if group_by:
        views["group_by"] = View("requests", tuple(group_by), ranks=_BUSY, derived=_BOTH)
    kinds = _by_kind(cells, KINDS)
    tables = _tables(kinds, views)
    tables["heat"] = _heat(kinds["latency"], tick_s)
    return tables


def compute_for_findings(cells: pa.Table) -> Tables:
    """Compute the views that findings need."""
    return _tables(_by_kind(cells, KINDS_FOR_FINDINGS), {name: VIEWS[name] for name in _FOR_FINDINGS})


def _by_kind(cells: pa.Table, kinds: Iterable[str]) -> dict[str, pa.Table]:
    found = {kind: cells.filter(pc.equal(cells["kind"], kind)) for kind in kinds}
    found["topics"] = _named_topics(found["topics"], found["topic_ids"])
    return found


def _tables(kinds: dict[str, pa.Table], views: dict[str, View]) -> Tables:
    tables = {name: _table(kinds[view.kind], view) for name, view in views.items()}
    for row in tables["topic_total"]:
        row["topics"] = pc.count_distinct(kinds["topics"]["topic"]).as_py()
    tables["new_connection"] = _new_connections(kinds["connections"])
    tables["transaction"] = transactions.rows(kinds["transactions"], _last_us(kinds))
    return tables


def period(cells: pa.Table, kinds: Sequence[str] = ("requests",)) -> tuple[datetime.datetime, datetime.datetime] | None:
    """Return the first and the last minute (hour, day) of cells of these kinds, None if there are none."""
    times = cells.filter(pc.is_in(cells["kind"], pa.array(kinds)))[TIME.name]
    if not len(times):
        return None
    ends = pc.min_max(times)
    return _moment(ends["min"].value), _moment(ends["max"].value)


def _table(cells: pa.Table, view: View) -> list[Row]:
    if view.where is not None:
        cells = cells.filter(view.where)
    for name, make in view.derived.items():
        cells = cells.append_column(name, make(cells))
    table = _summed(cells, view)
    if view.least:
        # Several APIs make one storm: each alone may have few.
        table = table.filter((pc.field("requests") >= view.least) | pc.field("api").isin(list(REBALANCE_APIS)))
    if view.ranks:
        table = _highest(table, view)
    rows: list[Row] = table.to_pylist()
    for row in rows:
        if TIME.name in row:
            row[TIME.name] = row[TIME.name].astimezone(datetime.UTC)
    return rows


def _summed(cells: pa.Table, view: View) -> pa.Table:
    declared = KINDS[view.kind].measures
    how = {measure.name: measure.merge for measure in MEASURES if measure.name in declared} | dict.fromkeys(view.derived, "sum")
    grouped = cells.group_by(list(view.keys), use_threads=False).aggregate(list(how.items()))
    return grouped.rename_columns([*view.keys, *how] if _keys_first(grouped, view) else [*how, *view.keys])


def _keys_first(grouped: pa.Table, view: View) -> bool:
    """Return whether Arrow puts the keys before the measures, as it does since version 14, or after them."""
    return not view.keys or grouped.column_names[0] == view.keys[0]


def _highest(table: pa.Table, view: View) -> pa.Table:
    by_name = [(key, "ascending") for key in view.keys]
    kept: set[int] = set()
    for rank in view.ranks:
        order = pc.sort_indices(table, sort_keys=[(rank, "descending"), *by_name])
        kept.update(order.slice(0, view.top).to_pylist())
    chosen = table.take(pa.array(sorted(kept), pa.int64()))
    return chosen.take(pc.sort_indices(chosen, sort_keys=[(view.ranks[0], "descending"), *by_name]))


def _named_topics(topics: pa.Table, ids: pa.Table) -> pa.Table:
    """Replace the topic ids of newer fetch versions (KIP-516) with names, where the log contains them."""
    names = dict(zip(ids["topic"].to_pylist(), ids["note"].to_pylist(), strict=True))
    if not names:
        return topics
    column = pa.array([names.get(topic, topic) for topic in topics["topic"].to_pylist()], pa.string())
    return topics.set_column(topics.column_names.index("topic"), "topic", column)


def _seconds(times: pa.ChunkedArray, tick_s: int) -> pa.ChunkedArray:
    return pc.multiply(pc.divide(pc.divide(pc.cast(times, pa.int64()), _MICROSECOND), tick_s), tick_s)


def _heat(latency: pa.Table, tick_s: int) -> list[Row]:
    row = pc.cast(pc.floor(pc.divide(pc.cast(latency["bucket"], pa.float64()), HEAT_BUCKETS)), pa.int32())
    table = pa.table({"api": latency["api"], "tick": _seconds(latency[TIME.name], tick_s), "row": row, "n": latency["requests"]})
    grouped = table.group_by(["api", "tick", "row"], use_threads=False).aggregate([("n", "sum")])
    return [{**each, "requests": each.pop("n_sum")} for each in grouped.to_pylist()]


def _new_connections(connections: pa.Table) -> list[Row]:
    """Return the number of new connections by client and minute, where there are many."""
    first = connections.group_by(["connection", *CLIENT], use_threads=False).aggregate([("first_us", "min")])
    minute = pc.divide(first["first_us_min"], 60 * _MICROSECOND)
    counted = first.append_column("minute", minute).group_by(["minute", *CLIENT], use_threads=False).aggregate([([], "count_all")])
    return [
        {TIME.name: _moment(row["minute"] * 60 * _MICROSECOND), **row, "requests": row["count_all"]}
        for row in counted.to_pylist()
        if row["count_all"] >= NEW_CONNECTIONS_FLOOR
    ]


def _last_us(kinds: dict[str, pa.Table]) -> int:
    """Return the time of the last line in microseconds since 1970, 0 if there is none."""
    return max(pc.max(kinds[kind]["last_us"]).as_py() or 0 for kind in ("connections", "transactions"))


def _moment(microseconds: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(microseconds // _MICROSECOND, datetime.UTC)
