"""What brokers ask each other about leaders and replicas: nearly nothing, in a cluster that is well."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.findings.finding import Finding, equal, several, text, the_only
from twisted_kafka_spark.findings.runs import runs, span_of

if TYPE_CHECKING:
    from twisted_kafka_spark.cells.grids import Grid
    from twisted_kafka_spark.findings.runs import Run
    from twisted_kafka_spark.views import Tables

_GAP_SLOTS = 3
"""Slots of five minutes without such a request that do not end a span."""
_SETTLED_SHARE = 0.5
"""The share of the period in which a cluster that changes all the time does so: that is its way of life."""


class _Control(NamedTuple):
    """Requests of brokers that say the same."""

    apis: tuple[str, ...]
    who: str
    title: str
    advice: str
    impact: str


_CONTROLS = (
    _Control(
        ("AlterPartition", "AlterIsr"),
        "broker",
        "{who} changed the replicas in sync {count:,} times",
        "Look for a follower of its partitions that is slow now and then: its disk, its network, or its garbage collections. With "
        "fewer replicas than min.insync.replicas, writes fail.",
        "fewer replicas in sync, again and again",
    ),
    _Control(
        ("LeaderAndIsr", "StopReplica", "UpdateMetadata"),
        "controller",
        "{who} named new leaders to the brokers {rounds} times",
        "Look at the controller's log: it lost its session, or brokers come and go. Each time, clients look for new leaders.",
        "clients looked for leaders again",
    ),
)


def restless_clusters(tables: Tables) -> Iterator[Finding]:
    """Find spans in which brokers change replicas in sync, or a controller changes leaders, again and again."""
    grid = tables.grids.persons
    for control in _CONTROLS:
        rows = [row for row, name in enumerate(grid.names) if name[2] in control.apis]
        if not rows:
            continue
        counts = grid["requests"][rows].sum(0)
        found = runs(counts > 0, _GAP_SLOTS)
        if sum(run[1] - run[0] + 1 for run in found) >= _SETTLED_SHARE * grid.axis.length:
            continue
        for run in found:
            inside = slice(run[0], run[1] + 1)
            rounds = int((counts[inside] > 0).sum())
            if rounds >= limits.RESTLESS_ROUNDS and run[1] - run[0] + 1 >= limits.RESTLESS_SLOTS:
                yield _finding(grid, control, [row for row in rows if grid["requests"][row, inside].any()], run, rounds)


def _finding(grid: Grid, control: _Control, rows: list[int], run: Run, rounds: int) -> Finding:
    inside = slice(run[0], run[1] + 1)
    whole = {row: float(grid["requests"][row, inside].sum()) for row in rows}
    rows.sort(key=lambda row: (-whole[row], str(grid.names[row])))
    clients = list(dict.fromkeys(str(grid.names[row][0]) for row in rows))
    principals = sorted({str(grid.names[row][1]) for row in rows})
    apis = list(dict.fromkeys(grid.names[row][2] for row in rows))
    span, count = span_of(grid.axis, run), int(sum(whole.values()))
    who = f"The {control.who} {clients[0]}" if len(clients) == 1 else f"{len(clients)} {control.who}s"
    return Finding(
        "restless-cluster",
        f"{control.title.format(who=who, count=count, rounds=rounds)}, {text(span.first)} to {text(span.last)}",
        {
            "sent by": control.who,
            "client_id": the_only(clients),
            "clients": several(clients),
            "principal": the_only(principals),
            "apis": ", ".join(apis),
            "requests": count,
            "minutes": span.length_minutes,
            "slots of five minutes with some": int(np.count_nonzero(grid["requests"][rows][:, inside].sum(0))),
        },
        (equal(client_id=clients[0]) + " AND " if len(clients) == 1 else "")
        + "api IN ('"
        + "', '".join(apis)
        + f"') AND {span.where}",
        control.advice,
        text(span.first),
        text(span.last),
        float(count),
        set(apis),
        impact=control.impact,
    )
