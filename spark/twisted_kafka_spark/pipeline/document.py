"""The report as plain data: the contents of the JSON file, from which the page and the terminal output are rendered."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from twisted_kafka_spark.cells.histogram import COARSE, quantile, quantiles
from twisted_kafka_spark.cells.kinds import CLIENT, MINUTE_S
from twisted_kafka_spark.cells.security import PLAIN_PROTOCOLS
from twisted_kafka_spark.cells.transactions import REFUSED
from twisted_kafka_spark.expected import is_expected
from twisted_kafka_spark.findings.clients.detectors import throttled_shares
from twisted_kafka_spark.pipeline import series, who
from twisted_kafka_spark.records.kafka_names import WAITS_BY_DESIGN
from twisted_kafka_spark.records.schema import OUTCOMES, PHASES
from twisted_kafka_spark.views import TOP

if TYPE_CHECKING:
    from twisted_kafka_spark.views import Row, Tables

Values = dict[str, Any]

TICK_LENGTHS_S = (60, 120, 300, 600, 900, 1800, 3600, 3 * 3600, 6 * 3600, 86_400)
MOST_TICKS = 150
"""The maximum number of columns in charts over time."""
CLIENT_ERRORS = 60
"""Rows of the table of errors by client and API."""
CLIENT_APIS, SLOW_CLIENT_APIS = 30, 15
"""Rows of the table of latency by client and API: the busiest, and the slowest of those with at least `SLOW_CLIENT_REQUESTS`."""
SLOW_CLIENT_REQUESTS = 100
_SUMS = ("requests", "failed", "throttled", "request_bytes", "response_bytes")
_NO_REASON = "other"
"""The reason of lines without a record whose reason a rollup of an earlier version dropped."""


@dataclass(slots=True)
class About:
    """The source of the report's numbers."""

    source: str
    files: int = 0
    size_bytes: int = 0
    repeated_files: list[str] = field(default_factory=list)
    repeated_lines: int = 0
    condition: str = ""
    group_by: Sequence[str] = ()
    muted: int = 0
    """Findings that the file of rules mutes."""
    kept_hours: Sequence[str] = ()
    """Hours of the rollup that have more requests than this log, and were not replaced."""
    first: datetime.datetime | None = None
    last: datetime.datetime | None = None
    """The first and the last minute with a request."""


def tick_length_s(first: datetime.datetime, last: datetime.datetime) -> int:
    """Return the length in seconds of one column of the charts over time, from the first to the last minute."""
    span_s = (last - first).total_seconds() + MINUTE_S
    fitting = [length for length in TICK_LENGTHS_S if span_s / length <= MOST_TICKS]
    return fitting[0] if fitting else TICK_LENGTHS_S[-1] * -(-int(span_s / TICK_LENGTHS_S[-1]) // MOST_TICKS)


def build(tables: Tables, about: About, tick_s: int, findings: Sequence[Values]) -> Values:
    """Return the whole report; `findings` as plain data."""
    ticks = sorted({series.floor(row["at"], tick_s) for row in tables["tick"]})
    every = _every(ticks, tick_s)
    return {
        "report": 2,
        "source": _source(tables, about),
        "period": {**_bounds(about), **_ends(every), "tick_s": tick_s},
        "total": _total(tables),
        "findings": list(findings),
        "muted": about.muted,
        "administration": who.administration(tables),
        "lineage": who.lineage(tables),
        "groups": who.groups(tables),
        "share_groups": who.share_groups(tables),
        "before": None,
        "time": series.over_time(tables, every, tick_s),
        "apis": _apis(tables),
        "waiting": _waiting(tables["api"]),
        "latency": series.latency(tables["heat"], tables["api"], every),
        "clients": _clients(tables),
        "client_apis": _client_apis(tables),
        "principals": [_busy(row, "principal") for row in tables["principal"]],
        "software": [_busy(row, "software", "software_version") for row in tables["software"]],
        "connections": [
            {
                **_busy(row, "connection", "client_id", "principal"),
                "first": _moment(row["first_us"]),
                "last": _moment(row["last_us"]),
            }
            for row in tables["connection"]
        ],
        "listeners": [_busy(row, "node", "listener", "protocol") for row in tables["listener"]],
        "transactions": _transactions(tables["transaction"]),
        "security": _security(tables),
        "topics": [_topic(row) for row in tables["topic"]],
        "topic_total": _topic(tables["topic_total"][0]) if tables["topic_total"] else {},
        "topic_apis": [{name: row[name] for name in ("topic", "api", "requests", "bytes")} for row in tables["topic_api"]],
        "versions": _versions(tables["version"]),
        "partitions": _partitions(tables),
        "errors": [_error(row, "api") for row in tables["error"]],
        "client_errors": [_error(row, "api", *CLIENT) for row in tables["error_client"][:CLIENT_ERRORS]],
        "topic_errors": [_error(row, "topic", "api") for row in tables["topic_error"]],
        "group_by": {
            "keys": list(about.group_by),
            "rows": [_busy(row, *about.group_by) for row in tables.get("group_by", ())],
        },
    }


def _source(tables: Tables, about: About) -> Values:
    lines = {row["error"] or _NO_REASON: row["requests"] for row in tables["line"]}
    samples: dict[str, list[str]] = {}
    for row in tables["sample"]:  # one of each, the first of all: how many there are depends on how lines are divided
        samples.setdefault(row["error"], [row["note"]])
    return {
        "from": about.source,
        "files": about.files,
        "size_bytes": about.size_bytes,
        "lines": lines,
        "samples": samples,
        "repeated_files": about.repeated_files,
        "repeated_lines": about.repeated_lines,
        "condition": about.condition,
        "kept_hours": list(about.kept_hours),
    }


def _total(tables: Tables) -> Values:
    row = tables["total"][0] if tables["total"] else {}
    sums = {name: row.get(name) or 0 for name in (*_SUMS, "bytes", "records", "total_us", "throttle_us")}
    return {**sums, "expected": sum(_expected(tables).values())}


def _expected(tables: Tables) -> dict[str, int]:
    """Return the numbers of requests of each API with an error that is not a failure."""
    found: dict[str, int] = defaultdict(int)
    for row in tables["error_minute"]:
        found[row["api"]] += row["requests"] if is_expected(row["api"], row["error"]) else 0
    return found


def _error(row: Row, *keys: str) -> Values:
    """Return a row of a table of errors; `is_expected`: whether they are no failures."""
    return {**{name: row[name] for name in (*keys, "error", "requests")}, "is_expected": is_expected(row["api"], row["error"])}


def _mean(row: Row, name: str) -> float:
    return round(row[name] / row["requests"], 1) if row["requests"] else 0.0


def _busy(row: Row, *keys: str) -> Values:
    """Return a row of a table of the busiest: its keys and the available sums."""
    sums = {name: row[name] for name in (*_SUMS, "total_us", "throttle_us") if name in row}
    return {**{key: row[key] for key in keys}, **sums}


def _apis(tables: Tables) -> list[Values]:
    totals = _histograms(tables["latency"], "api")
    phases = _histograms(tables["phase"], "api", "phase")
    served = _histograms(tables["served"], "api")
    expected = _expected(tables)
    return [
        {
            "api": row["api"],
            **{name: row[name] for name in _SUMS},
            "max_us": row["max_us"],
            "mean_us": _mean(row, "total_us"),
            "expected": expected[row["api"]],
            "total_us": quantiles(totals[row["api"],]),
            "served_us": quantiles(served[row["api"],]),
            "phases": {phase: {"mean": _mean(row, phase), **quantiles(phases[row["api"], phase])} for phase in PHASES},
        }
        for row in sorted(tables["api"], key=lambda row: (-row["requests"], row["api"]))
    ]


def _histograms(rows: Iterable[Row], *keys: str) -> dict[tuple[Any, ...], dict[int, int]]:
    found: dict[tuple[Any, ...], dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for row in rows:
        found[tuple(row[key] for key in keys)][row["bucket"]] += row["requests"]
    return found


def _waiting(rows: Sequence[Row]) -> Values:
    """Return where requests spent their time, without the time that fetches and joins wait by design."""
    sums = dict.fromkeys(PHASES, 0)
    for row in rows:
        for phase in PHASES:
            if not (phase == "remote_us" and row["api"] in WAITS_BY_DESIGN):
                sums[phase] += row[phase] or 0
    whole = sum(sums.values())
    return {"us": sums, "share": {phase: round(value / whole, 4) if whole else 0.0 for phase, value in sums.items()}}


def _clients(tables: Tables) -> list[Values]:
    expected = {(row["client_id"], row["principal"]): row["requests"] for row in tables["expected_client"]}
    shares = throttled_shares(tables["throttled_connection"])
    return [
        {
            **_busy(row, "client_id", "principal", "software", "software_version"),
            "expected": expected.get((row["client_id"], row["principal"]), 0),
            "throttled_share": round(shares.get((row["client_id"], row["principal"]), 0.0), 4),
        }
        for row in tables["client"]
    ]


def _client_apis(tables: Tables) -> list[Values]:
    """Return how long requests of a client and API were served: the busiest first, and some of the slowest."""
    times = _histograms(tables["client_latency"], *CLIENT, "api")
    counts = {who: sum(buckets.values()) for who, buckets in times.items()}
    order = sorted(times, key=lambda who: (-counts[who], tuple(map(str, who))))
    tails = {who: quantile(times[who], 0.99, COARSE) or 0.0 for who in order if counts[who] >= SLOW_CLIENT_REQUESTS}
    slowest = sorted(tails, key=lambda who: -tails[who])[:SLOW_CLIENT_APIS]
    kept = {*order[:CLIENT_APIS], *slowest}
    return [
        {
            **dict(zip((*CLIENT, "api"), who, strict=True)),
            "requests": counts[who],
            "waits_by_design": who[2] in WAITS_BY_DESIGN,
            "served_us": quantiles(times[who], COARSE),
        }
        for who in order
        if who in kept
    ]


def _partitions(tables: Tables) -> list[Values]:
    """Return the partitions with the most bytes or requests, and their shares of the bytes produced to their topics."""
    topics = {row["topic"]: row for row in tables["topic"]}
    return [
        {
            **{name: row[name] for name in ("topic", "partition", "requests", "produced_bytes", "fetched_bytes")},
            "partitions": topics[row["topic"]]["partitions"] if row["topic"] in topics else None,
            "produced_share": _share(row["produced_bytes"], topics.get(row["topic"], {}).get("produced_bytes")),
        }
        for row in tables["partition"]
    ]


def _share(part: int | None, whole: int | None) -> float | None:
    return round((part or 0) / whole, 4) if whole else None


def _transactions(rows: Sequence[Row]) -> Values:
    """Return the producers with the most transactions, all others together, all together, and the durations by outcome."""
    named = [row for row in rows if row["transactional_id"] is not None]
    rest = [*named[TOP:], *rows[len(named) :]]
    return {
        "total": _producer(_sum(rows)),
        "producers": [_producer(row) for row in named[:TOP]],
        "others": {**_producer(_sum(rest)), "ids": len(named[TOP:])} if rest else None,
        "outcomes": [_outcome(rows, outcome) for outcome in OUTCOMES],
    }


_COUNTS = ("begun", *(outcome.replace("-", "_") for outcome in OUTCOMES), REFUSED, "open")


def _sum(rows: Sequence[Row]) -> Row:
    found: Row = {name: sum(row[name] for row in rows) for name in (*_COUNTS, "total_us")}
    found["max_us"] = max((row["max_us"] for row in rows), default=0)
    found["buckets"] = {outcome: _added(row["buckets"][outcome] for row in rows) for outcome in OUTCOMES}
    return found


def _added(histograms: Iterable[dict[int, int]]) -> dict[int, int]:
    found: dict[int, int] = defaultdict(int)
    for histogram in histograms:
        for bucket, count in histogram.items():
            found[bucket] += count
    return found


def _producer(row: Row) -> Values:
    durations = _added(row["buckets"].values())
    timed = sum(durations.values())
    names = [name for name in ("transactional_id", "client_id", "principal", *_COUNTS) if name in row]
    return {
        **{name: row[name] for name in names},
        "mean_us": round(row["total_us"] / timed) if timed else None,
        "max_us": row["max_us"] if timed else None,
        "duration_us": quantiles(durations),
    }


def _outcome(rows: Sequence[Row], outcome: str) -> Values:
    durations = _added(row["buckets"][outcome] for row in rows)
    count = sum(row[outcome.replace("-", "_")] for row in rows)
    return {"outcome": outcome, "transactions": count, "duration_us": quantiles(durations)}


def _security(tables: Tables) -> Values:
    """Return who was refused what, failed logins by address, and, where a listener is encrypted, who uses another one."""
    is_encrypted = any(row["protocol"] not in PLAIN_PROTOCOLS for row in tables["protocol"] if row["protocol"])
    refusals = [*tables["refusals_of_topics"], *tables["refusals"]]
    return {
        "total": {
            "refusals": sum(row["requests"] or 0 for row in refusals),
            "failed_logins": sum(row["requests"] for row in tables["login"]),
            "addresses": len({row["note"] for row in tables["login"] if row["note"] is not None}),
        },
        "refused_topics": [
            {name: row[name] for name in ("topic", "api", "client_id", "principal", "requests")} for row in tables["refused_topic"]
        ],
        "refused": [
            {name: row[name] for name in ("api", "error", "client_id", "principal", "requests")} for row in tables["refused"]
        ],
        "refused_groups": [
            {name: row[name] for name in ("group_id", "api", "client_id", "principal", "requests")}
            for row in tables["refused_group"]
        ],
        "failed_logins": [
            {
                "address": row["note"],
                **{name: row[name] for name in ("listener", "error", "requests")},
                "first": _moment(row["first_us"]),
                "last": _moment(row["last_us"]),
            }
            for row in tables["failed_login"]
        ],
        "plain_text": [
            {name: row[name] for name in ("listener", "protocol", "client_id", "principal", "requests")}
            for row in tables["plain_text"]
            if is_encrypted
        ],
    }


def _topic(row: Row) -> Values:
    moved = ("records", "bytes", "produced_bytes", "fetched_bytes", "produced_records")
    return {name: row[name] for name in ("topic", "topics", "partitions", "requests", *moved) if name in row}


def _versions(rows: Sequence[Row]) -> list[Values]:
    used: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        used[row["api"]].append(row)
    return [
        {
            "api": api,
            "versions": {str(row["version"]): row["requests"] for row in sorted(mine, key=lambda row: row["version"] or 0)},
        }
        for api, mine in used.items()
    ]


def _every(ticks: Sequence[int], tick_s: int) -> list[int]:
    return list(range(ticks[0], ticks[-1] + tick_s, tick_s)) if ticks else []


def _ends(every: Sequence[int]) -> Values:
    return {"first": series.text(every[0]) if every else None, "last": series.text(every[-1]) if every else None}


def _bounds(about: About) -> Values:
    """Return when the first minute with a request begins, and when the last one is over."""
    if about.first is None or about.last is None:
        return {}
    return {"begin": series.text(int(about.first.timestamp())), "end": series.text(int(about.last.timestamp()) + MINUTE_S)}


def _moment(microseconds: int | None) -> str | None:
    return None if microseconds is None else series.text(microseconds // 1_000_000)
