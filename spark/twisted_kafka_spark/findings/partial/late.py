"""Findings about readers that come late in the period and catch up: they were away before it began."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.findings.clients.persons import topics_of
from twisted_kafka_spark.findings.finding import MINUTE, Finding, Span, equal, several, text, the_only
from twisted_kafka_spark.findings.names import name_of, service_and_account
from twisted_kafka_spark.findings.runs import median, minute_of, runs

if TYPE_CHECKING:
    from twisted_kafka_spark.cells.grids import Grid
    from twisted_kafka_spark.findings.runs import Values
    from twisted_kafka_spark.views import Tables

_STEADY = 0.8
"""The share of the slots after the first request in which a reader is there."""
_FACTOR = 2.0
"""How many times as many bytes as later a reader that catches up gets."""
_LEAST_SLOTS = 3


def late_readers(tables: Tables, known: Sequence[Finding]) -> Iterator[Finding]:
    """Find services that begin to read late in the period, first far more than later, and then go on."""
    grid = tables.grids.persons
    services: dict[tuple[str, Any], list[int]] = defaultdict(list)
    for row in grid.rows(api="Fetch"):
        services[service_and_account(grid.names[row])].append(row)
    for (_, principal), rows in sorted(services.items(), key=str):
        caught_up = _caught_up(grid["requests"][rows].sum(0), grid["bytes"][rows].sum(0))
        if caught_up is None:
            continue
        first = caught_up[0]
        starts = grid["first_us"][rows, first]
        came = minute_of(starts[starts > 0].min())
        span = Span(grid.axis.moment(0), came - MINUTE)
        clients = sorted({grid.names[row][0] for row in rows}, key=str)
        if any(each.name == "silent-client" and each.evidence.get("client_id") in clients for each in known):
            continue
        yield _finding(tables, grid, rows, (principal, clients), span, caught_up)


def _caught_up(requests: Values, size: Values) -> tuple[int, int, float] | None:
    """Return the slots in which a reader that came late got far more than afterwards, and how many times as much."""
    active = np.flatnonzero(requests > 0)
    if not len(active) or active[0] < limits.LEAST_SLOTS or len(requests) - active[0] < 1.5 * limits.LEAST_SLOTS:
        return None
    first = int(active[0])
    later = size[first + limits.LEAST_SLOTS : len(size) - 1]
    usual = median(later)
    if (requests[first : len(requests) - 1] > 0).mean() < _STEADY or not usual:
        return None
    more = [run for run in runs(size[first:] > _FACTOR * usual, gap=1) if run[0] <= 1]
    if not more or more[0][1] - more[0][0] + 1 < _LEAST_SLOTS:
        return None
    last = first + more[0][1]
    factor = float(size[first : last + 1].mean()) / usual
    others = size[last + 1 : len(size) - 1]
    is_once = len(others) > 0 and (others > _FACTOR * usual).mean() < 0.1
    return (first, last, factor) if factor >= limits.CAUGHT_UP_FACTOR and is_once else None


def _finding(
    tables: Tables, grid: Grid, rows: list[int], who: tuple[Any, list[Any]], span: Span, caught_up: tuple[int, int, float]
) -> Finding:
    principal, clients = who
    first, last, factor = caught_up
    minutes = (last - first + 1) * grid.axis.step_s // 60
    size = grid["bytes"][rows][:, first : last + 1].sum()
    topics = sorted({topic for client in clients for topic in topics_of(tables, (client, principal), "Fetch")})
    name = name_of(clients[0]) if len(clients) == 1 else f"{len(clients)} clients of {principal}"
    groups = {row["group_id"] for row in tables["lineage"] if row["client_id"] in clients and row["principal"] == principal} - {
        None
    }
    return Finding(
        "late-reader",
        f"{name} came at {text(span.last + MINUTE)} and read {factor:,.0f} times as much as later for {minutes} minutes",
        {
            "client_id": the_only(clients),
            "clients": several([str(each) for each in clients]),
            "principal": principal,
            "group_id": the_only(sorted(groups)),
            "topic": the_only(topics),
            "topics": several(topics),
            "minutes away": span.length_minutes,
            "minutes of catching up": minutes,
            "bytes": int(size),
        },
        equal(client_id=clients[0], api="Fetch") if len(clients) == 1 else equal(principal=principal, api="Fetch"),
        "If it is not new, find out why it was away, and whether retention has deleted records that it had not read.",
        text(span.first),
        text(span.last),
        float(size),
        {"Fetch"},
        impact=f"{size / 1e6:,.0f} MB read late",
    )
