"""The tables of the report: each is declared once, and computed by Arrow on the driver from the cells of a page.

Spark has merged and bounded those cells before, so their number does not depend on the log. A Spark job for each of these tables
would cost more than all of the computation with Arrow.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twisted_kafka_spark import without_pandas  # noqa: F401 - for the side effect of the import
from twisted_kafka_spark.cells import bounds, transactions
from twisted_kafka_spark.cells.aggregate import SAMPLED_NAMES
from twisted_kafka_spark.cells.grids import Grids
from twisted_kafka_spark.cells.history import History
from twisted_kafka_spark.cells.kinds import CLIENT, KINDS, LINEAGE, MEASURES, SERVED, SOFTWARE, TIME
from twisted_kafka_spark.cells.security import GROUP_REFUSAL, OTHER_REFUSALS, TOPIC_REFUSAL
from twisted_kafka_spark.expected import expected_rows
from twisted_kafka_spark.records.schema import PHASES
from twisted_kafka_spark.thresholds import (
    MINUTE_FLOOR,
    NEW_CONNECTIONS_FLOOR,
    REBALANCE_APIS,
    SKEWED_PARTITIONS,
)

Row = dict[str, Any]


class Tables(dict[str, list[Row]]):
    """The rows of each view, and the values over time as matrices."""

    grids: Grids
    history: History | None = None


Derived = Callable[[pa.Table], pa.Array]

MOST_CHANGES = 1000
"""Changes of the cluster that are listed."""
TOP = 30
"""The number of rows kept for each measure by which a table is ranked."""
_HASH_DIGITS = 13
"""Hexadecimal digits of a hash that a float represents exactly."""
_BUSY = ("requests", "failed", "total_us", "throttle_us", "sent_and_received")
_MICROSECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class View:
    """A table: cells of one kind, grouped by some of their keys; only the first `top` rows by each of `ranks` are kept."""

    kind: str
    keys: tuple[str, ...]
    where: pc.Expression | None = None
    with_others: bool = False
    """Whether cells without a name are included."""
    least: int = 0
    """Rows with fewer requests are omitted, except joins, syncs and leaves."""
    ranks: tuple[str, ...] = ()
    in_turn: tuple[str, ...] = ()
    """Keys whose combinations take turns in the ranking, so that one with many rows does not push the others out."""
    top: int = TOP
    derived: dict[str, Derived] = field(default_factory=dict)
    """Additional columns to sum, derived from the columns of the cells."""


def _moved(api: str, name: str) -> Derived:
    return lambda table: pc.if_else(pc.equal(table["api"], api), table[name], 0)


def _both(table: pa.Table) -> pa.Array:
    return pc.add(pc.fill_null(table["request_bytes"], 0), pc.fill_null(table["response_bytes"], 0))


def _one_of(key: str, values: Sequence[str]) -> pc.Expression:
    return pc.field(key).isin(list(values))


_MOVED_BYTES: dict[str, Derived] = {
    "produced_bytes": _moved("Produce", "bytes"),
    "fetched_bytes": _moved("Fetch", "bytes"),
}
_MOVED: dict[str, Derived] = {**_MOVED_BYTES, "produced_records": _moved("Produce", "records")}
_BOTH: dict[str, Derived] = {"sent_and_received": _both}
_FAILED = pc.field("error").is_valid()

VIEWS: dict[str, View] = {
    "total": View("traffic", ()),
    "tick": View("traffic", (TIME.name, "api")),
    "api": View("traffic", ("api",)),
    "error": View("traffic", ("api", "error"), where=_FAILED, ranks=("requests",), top=60),
    "error_minute": View("traffic", (TIME.name, "api", "error"), where=_FAILED),
    "version": View("versions", ("api", "version"), ranks=("requests",), top=300),
    "asked": View("node_versions", ("node", "api", "version")),
    "listener": View("listeners", ("node", "listener", "protocol"), ranks=("requests",), top=100),
    "node": View("listeners", ("node",)),
    "protocol": View("listeners", ("protocol",)),
    "client": View("clients", (*CLIENT, *SOFTWARE), ranks=_BUSY, derived=_BOTH),
    "client_api": View("clients", (*CLIENT, "api")),
    "principal": View("principals", ("principal",), ranks=_BUSY, derived=_BOTH),
    "software": View("software", SOFTWARE, ranks=("requests",), top=60),
    "old_version": View("old_versions", (*CLIENT, *SOFTWARE, "api", "version")),
    "expected_client": View("errors", CLIENT, where=expected_rows()),
    "error_client": View("errors", ("api", "error", *CLIENT), ranks=("requests",), top=500),
    "client_minute": View("client_minutes", (TIME.name, *CLIENT, "api"), least=MINUTE_FLOOR),
    "throttled_minute": View("client_minutes", (TIME.name, *CLIENT, "api"), where=pc.field("throttled") > 0),
    "new_connection": View("new_connections", (TIME.name, *CLIENT), least=NEW_CONNECTIONS_FLOOR),
    "connection": View("connections", ("connection", *CLIENT), ranks=("requests", "failed", "total_us"), top=15),
    "throttled_connection": View(
        "connections", ("connection", *CLIENT), where=pc.field("throttle_us") > 0, ranks=("throttle_us",), top=500
    ),
    "topic": View("topics", ("topic",), ranks=("bytes", "requests"), derived=_MOVED),
    "topic_total": View("topics", (), with_others=True, derived=_MOVED),
    "topic_api": View("topics", ("topic", "api"), ranks=("bytes", "requests"), top=100),
    "topic_error": View("topic_errors", ("topic", "api", "error"), ranks=("requests",), top=60),
    "latency": View("phases", ("api", "bucket"), where=_one_of("phase", ("total_us",))),
    "phase": View("phases", ("api", "phase", "bucket"), where=_one_of("phase", PHASES)),
    "client_latency": View("client_latency", (*CLIENT, "api", "bucket")),
    "served": View("phases", ("api", "bucket"), where=_one_of("phase", (SERVED,))),
    "partition": View("partitions", ("topic", "partition"), ranks=("bytes", "requests"), derived=_MOVED_BYTES),
    "produced_topic": View("topics", ("topic",), ranks=("produced_bytes",), top=SKEWED_PARTITIONS, derived=_MOVED_BYTES),
    "produced_partition": View(
        "partitions",
        ("topic", "partition"),
        where=_one_of("api", ("Produce",)),
        ranks=("bytes",),
        top=SKEWED_PARTITIONS,
    ),
    "group": View("groups", (TIME.name, "group_id", *CLIENT, "api", "error")),
    "refused": View("errors", ("api", "error", *CLIENT), where=_one_of("error", OTHER_REFUSALS), ranks=("requests",)),
    "refused_group": View("groups", ("group_id", "api", *CLIENT), where=_one_of("error", (GROUP_REFUSAL,)), ranks=("requests",)),
    "refused_topic": View("topic_errors", ("topic", "api", *CLIENT), where=_one_of("error", (TOPIC_REFUSAL,)), ranks=("requests",)),
    "refusals_of_topics": View("topic_errors", (), where=_one_of("error", (TOPIC_REFUSAL,)), with_others=True),
    "refusals": View("errors", (), where=_one_of("error", OTHER_REFUSALS), with_others=True),
    "failed_login": View("logins", ("note", "listener", "error"), ranks=("requests",)),
    "login": View("logins", ("note", "listener", "error"), with_others=True),
    "plain_text": View("plain_text", ("listener", "protocol", *CLIENT), ranks=("requests",)),
    "produced_hour": View("partitions", (TIME.name, "topic", "partition"), where=_one_of("api", ("Produce",))),
    "software_of": View("clients", (*CLIENT, *SOFTWARE)),
    "principal_ends": View("principals", ("principal",)),
    "lineage": View("lineage", (*LINEAGE, "api")),
    "member": View("members", ("group_id", *CLIENT, "note", "api")),
    "share": View("shares", ("group_id", "topic", *CLIENT, "note", "event")),
    "address": View("addresses", ("principal", "note")),
    "change": View(
        "administration",
        (TIME.name, "node", "connection", *CLIENT, "api", "error", "note"),
        ranks=("requests",),
        in_turn=("principal", "api", "error"),
        top=MOST_CHANGES,
    ),
    "created": View(
        "administration",
        ("note", *CLIENT),
        where=_one_of("api", ("CreateTopics",)) & ~_FAILED,
        ranks=("requests",),
        top=MOST_CHANGES,
    ),
    "clock": View("clocks", (TIME.name, "node", "note")),
    "line": View("lines", ("error",), with_others=True),
    "sample": View("lines", ("error", "note"), where=pc.is_valid(pc.field("note"))),
}

_FOR_FINDINGS = (
    *("tick", "node", "client", "client_api", "client_minute", "throttled_minute", "throttled_connection", "new_connection"),
    *("old_version", "error_minute", "error_client", "topic", "topic_total", "topic_error", "line", "login", "group"),
    *("software_of", "principal_ends", "lineage", "member", "share", "address", "change", "created", "clock"),
    "asked",
)
_OVER_TIME = ("nodes", "persons", "failures", "groups", "new_connections", "routes")
KINDS_FOR_FINDINGS = (*dict.fromkeys((*(VIEWS[name].kind for name in _FOR_FINDINGS), *_OVER_TIME)), "transactions")
"""The kinds of cells from which those views are computed."""


def compute(cells: pa.Table, tick_s: int, group_by: Sequence[str] = ()) -> Tables:
    """Compute all views; `tick_s`: the length of one column of the charts over time."""
    views = dict(VIEWS)
    if group_by:
        views["group_by"] = View("group_by", tuple(group_by), ranks=_BUSY, derived=_BOTH)
    kinds = _by_kind(cells, KINDS)
    tables = _tables(kinds, views)
    tables["heat"] = _heat(kinds["heat"], tick_s)
    return tables


def compute_for_findings(cells: pa.Table) -> Tables:
    """Compute the views that findings need, without those of partitions: their cells are too many to search again and again."""
    return _tables(_by_kind(cells, KINDS_FOR_FINDINGS), {name: VIEWS[name] for name in _FOR_FINDINGS})


def _by_kind(cells: pa.Table, kinds: Iterable[str]) -> dict[str, pa.Table]:
    return {kind: cells.filter(pc.equal(cells["kind"], kind)) for kind in kinds}


def _tables(kinds: dict[str, pa.Table], views: dict[str, View]) -> Tables:
    tables = Tables({name: _table(kinds[view.kind], view) for name, view in views.items()})
    tables.grids = Grids.of(kinds, _period_of(kinds["traffic"][TIME.name]))
    for row in tables["topic_total"]:
        row["topics"] = _topics(kinds["topics"])
    tables["transaction"] = transactions.rows(kinds["transactions"], _last_us(kinds))
    return tables


def _topics(cells: pa.Table) -> int:
    """Return the number of topics: an estimate if some of them are not there by name.

    The `SAMPLED_NAMES` topics with the smallest hashes always have their names. The highest of these hashes gives the estimate.
    """
    names: list[str | None] = pc.unique(cells.filter(pc.is_null(cells["others"]))["topic"]).to_pylist()
    if len(cells) == cells["others"].null_count or len(names) < SAMPLED_NAMES:
        return len(names)
    hashes = sorted(hashlib.sha256(str(name).encode()).hexdigest() for name in names)
    share = (int(hashes[SAMPLED_NAMES - 1][:_HASH_DIGITS], 16) + 1) / float(1 << 4 * _HASH_DIGITS)
    return round((SAMPLED_NAMES - 1) / share)


def period(cells: pa.Table, kinds: Sequence[str] = ("traffic",)) -> tuple[datetime.datetime, datetime.datetime] | None:
    """Return the first and the last minute of cells of these kinds, None without such cells."""
    return _period_of(cells.filter(pc.is_in(cells["kind"], pa.array(kinds)))[TIME.name])


def _period_of(times: pa.ChunkedArray) -> tuple[datetime.datetime, datetime.datetime] | None:
    if not len(times):
        return None
    ends = pc.min_max(times)
    return _moment(ends["min"].value), _moment(ends["max"].value)


def _table(cells: pa.Table, view: View) -> list[Row]:
    if not view.with_others:
        cells = cells.filter(pc.is_null(cells["others"]))
    if view.where is not None:
        cells = cells.filter(view.where)
    for name, make in view.derived.items():
        cells = cells.append_column(name, make(cells))
    table = _summed(cells, view)
    if view.least:
        enough = pc.field("requests") >= view.least
        # Several APIs make one storm: each alone may have few.
        table = table.filter(enough | pc.field("api").isin(list(REBALANCE_APIS)) if "api" in view.keys else enough)
    if view.ranks:
        table = _highest(table, view)
    elif view.keys:  # the same order, whatever that of the cells is
        by_time = sorted(view.keys, key=lambda key: key != TIME.name)
        table = table.sort_by([(key, "ascending") for key in by_time])
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
        order = _in_turn(table, order, view.in_turn) if view.in_turn else order
        kept.update(order.slice(0, view.top).to_pylist())
    chosen = table.take(pa.array(sorted(kept), pa.int64()))
    return chosen.take(pc.sort_indices(chosen, sort_keys=[(view.ranks[0], "descending"), *by_name]))


def _in_turn(table: pa.Table, order: pa.Array, keys: Sequence[str]) -> pa.Array:
    """Return places in an order in which the first of each combination of keys come first, then the second ones, and so on."""
    places = order.to_numpy()
    _, numbers = bounds.numbered(table, keys)
    mine = numbers[places]
    together = np.argsort(mine, kind="stable")
    begins = np.searchsorted(mine[together], mine[together])
    turns = np.empty(len(places), np.int64)
    turns[together] = np.arange(len(places)) - begins
    return pa.array(places[np.argsort(turns, kind="stable")], pa.int64())


def _seconds(times: pa.ChunkedArray, tick_s: int) -> pa.ChunkedArray:
    return pc.multiply(pc.divide(pc.divide(pc.cast(times, pa.int64()), _MICROSECOND), tick_s), tick_s)


def _heat(cells: pa.Table, tick_s: int) -> list[Row]:
    ticks = _seconds(cells[TIME.name], tick_s)
    table = pa.table({"api": cells["api"], "tick": ticks, "row": cells["bucket"], "n": cells["requests"]})
    grouped = table.group_by(["api", "tick", "row"], use_threads=False).aggregate([("n", "sum")])
    return [{**each, "requests": each.pop("n_sum")} for each in grouped.to_pylist()]


def _last_us(kinds: dict[str, pa.Table]) -> int:
    """Return the time of the last line in microseconds since 1970, 0 without a line."""
    return max(pc.max(kinds[kind]["last_us"]).as_py() or 0 for kind in ("connections", "transactions"))


def _moment(microseconds: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(microseconds // _MICROSECOND, datetime.UTC)
