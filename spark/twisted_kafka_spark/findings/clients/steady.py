"""Findings about slow but steady conditions: connections that are opened and left, groups that rebalance again and again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.cells.security import LOGIN_ERRORS
from twisted_kafka_spark.findings.clients.persons import is_about
from twisted_kafka_spark.findings.finding import Finding, Span, equal, several, text
from twisted_kafka_spark.findings.names import name_of
from twisted_kafka_spark.findings.runs import median, runs, span_of
from twisted_kafka_spark.records.kafka_names import OF_EACH_START

if TYPE_CHECKING:
    from twisted_kafka_spark.views import Tables

_ALL_DAY = 0.95
"""The share of the period that a habit of the whole day lasts."""


def leaked_connections(tables: Tables, known: Sequence[Finding]) -> Iterator[Finding]:
    """Find clients that open connections all the time, far more than they usually do, each for few requests."""
    grid, persons = tables.grids.connections, tables.grids.persons.by("client_id", "principal")
    for row, (client_id, principal) in enumerate(grid.names):
        counts = grid["requests"][row]
        limit = max(limits.OPENED_A_SLOT, 4 * median(counts)) if median(counts) < limits.OPENED_ALWAYS else limits.OPENED_ALWAYS
        for first, last in runs(counts >= limit, gap=2):
            opened = int(counts[first : last + 1].sum())
            if last - first + 1 < limits.OPENED_SLOTS or opened < limits.OPENED_FLOOR:
                continue
            span = span_of(grid.axis, (first, last))
            mine = persons.rows(client_id=client_id, principal=principal)
            requests = int(sum(persons["requests"][each, first : last + 1].sum() for each in mine))
            if any(each.name == "reconnect-storm" and is_about(each, (client_id, principal), span) for each in known):
                continue
            if requests > limits.REQUESTS_OF_LEAKED * opened or _are_failed_logins(tables, (client_id, principal), span, opened):
                continue
            if last - first + 1 >= _ALL_DAY * grid.axis.length and _only_probes(tables, client_id, principal):
                continue
            yield Finding(
                "leaked-connections",
                f"{name_of(client_id)} opened {opened:,} connections, {text(span.first)} to {text(span.last)}",
                {
                    "client_id": client_id,
                    "principal": principal,
                    "connections": opened,
                    "a minute": round(opened / span.length_minutes, 1),
                    "requests per connection": round(requests / opened, 1),
                    "minutes": span.length_minutes,
                },
                f"{equal(client_id=client_id)} AND {span.where}",
                "Reuse one client and close those that are not needed: each connection takes memory and a file descriptor until "
                "connections.max.idle.ms. max.connections.per.ip bounds them.",
                text(span.first),
                text(span.last),
                float(opened),
                {*OF_EACH_START, "Metadata"},
                impact=f"{opened:,} connections",
            )


def _are_failed_logins(tables: Tables, who: tuple[Any, Any], span: Span, opened: int) -> bool:
    """Return whether most of a client's connections are there to log in, in vain."""
    rows = tables.grids.failures
    first, last = rows.axis.place(span.first), rows.axis.place(span.last)
    mine = (rows.minute >= first) & (rows.minute <= last) & rows.where("error", *LOGIN_ERRORS)
    return bool(rows.chosen(mine & rows.where("client_id", who[0]) & rows.where("principal", who[1])).requests.sum() * 2 >= opened)


def _only_probes(tables: Tables, client_id: str | None, principal: str | None) -> bool:
    """Return whether a client asks for nothing but versions, as a probe does that is there each day."""
    persons = tables.grids.persons
    return {persons.names[row][2] for row in persons.rows(client_id=client_id, principal=principal)} == {"ApiVersions"}


def repeated_rebalances(tables: Tables, known: Sequence[Finding]) -> Iterator[Finding]:
    """Find groups that rebalance again and again, too slowly for a storm: members that are thrown out, or restart."""
    grid = tables.grids.groups
    joins = grid.rows(api="JoinGroup")
    for group in dict.fromkeys(grid.names[row][0] for row in joins):
        rows = [row for row in joins if grid.names[row][0] == group]
        counts = grid["requests"][rows].sum(0)
        members = max(len(rows), 1)
        for first, last in runs(counts > 0, gap=limits.REBALANCE_GAP_MINUTES):
            inside = counts[first : last + 1]
            rebalances = max(len(runs(inside > 0, gap=1)), round(float(inside.sum()) / members / 2))
            if rebalances < limits.REBALANCES_FLOOR or last - first + 1 < limits.REBALANCING_MINUTES:
                continue
            span = span_of(grid.axis, (first, last))
            if any(each.name == "rebalance-storm" and each.evidence.get("group_id") == group for each in known):
                continue
            who = [grid.names[row][1:3] for row in sorted(rows, key=lambda row: -grid["requests"][row, first : last + 1].sum())]
            yield Finding(
                "repeated-rebalances",
                f"Group {group} rebalanced about {rebalances} times, {text(span.first)} to {text(span.last)}",
                {
                    "group_id": group,
                    "client_id": who[0][0] if len({each[0] for each in who}) == 1 else None,
                    "clients": several([str(each[0]) for each in who]),
                    "principal": who[0][1] if len({each[1] for each in who}) == 1 else None,
                    "rebalances": rebalances,
                    "joins": int(inside.sum()),
                    "minutes between them": round((last - first + 1) / rebalances, 1),
                },
                f"{equal(group_id=group)} AND api IN ('JoinGroup', 'SyncGroup', 'LeaveGroup') AND {span.where}",
                "Check for a member that exceeds max.poll.interval.ms or session.timeout.ms, or that restarts: its log says why.",
                text(span.first),
                text(span.last),
                float(np.sum(inside)),
                {*limits.REBALANCE_APIS, "Heartbeat", "FindCoordinator"},
                impact=f"its members stopped {rebalances} times",
            )
