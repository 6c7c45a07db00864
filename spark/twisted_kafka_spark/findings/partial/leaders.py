"""Findings about brokers that do far less than their usual part of the work, or one that does that of the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.findings.finding import Finding, Span, several, text
from twisted_kafka_spark.findings.names import service_of
from twisted_kafka_spark.findings.runs import Run, median, rolling, runs, span_of

if TYPE_CHECKING:
    from twisted_kafka_spark.cells.grids import Axis, Grid
    from twisted_kafka_spark.findings.runs import Values
    from twisted_kafka_spark.views import Tables

_MOVES, _ROLLING_MINUTES, _GAP_MINUTES = ("Produce", "Fetch"), 10, 4
_SURELY = 10
"""Requests that are expected in the time in which a broker has few: with fewer it may be chance."""
_MORE, _LESS, _AROUND_MINUTES = 1.7, 0.75, 60
"""How many times its usual part the broker has that does the others' work; the part of their requests before, or after, that the
others have meanwhile; and the minutes that are compared."""
_SERVICES, _OF_SERVICES, _RISES = 3, 0.6, 1.25
"""How many services there are, which share of them uses that broker more, and how many times as much: one service alone has another
reason to do so."""
_INSIDE = 0.5


@dataclass(slots=True)
class _Parts:
    """The part of all writes and fetches that each broker has around each minute."""

    axis: Axis
    nodes: list[int]
    counts: Values
    whole: Values
    """The requests of all of them around each minute."""
    shares: Values
    usual: Values
    width: int

    @classmethod
    def of(cls, grid: Grid) -> _Parts:
        some = [row for row, name in enumerate(grid.names) if name[0] is not None and name[1] in _MOVES]
        nodes = sorted({grid.names[row][0] for row in some})
        counts = np.zeros((len(nodes), grid.axis.length))
        for row in some:
            counts[nodes.index(grid.names[row][0])] += grid["requests"][row]
        width = max(_ROLLING_MINUTES, limits.FEWER_LEADERS_MINUTES // 4)
        rolled = np.array([rolling(each, width) for each in counts]).reshape(counts.shape)
        whole = rolled.sum(0)
        shares = np.divide(rolled, whole, out=np.zeros_like(rolled), where=whole > 0)
        usual = np.array([median(each[each > 0]) for each in shares])
        return cls(grid.axis, nodes, counts, whole, shares, usual, width)


def moved_leaders(tables: Tables, absences: Sequence[tuple[int, Run]]) -> Iterator[Finding]:
    """Find brokers that answer, but have far less than their usual part of writes and fetches, or far more: leaders were moved.

    `absences`: the brokers that were away, and when; others do their work.
    """
    parts = _Parts.of(tables.grids.nodes)
    if len(parts.nodes) < 3:
        return
    hot = list(_doing_all(tables, parts, absences))
    yield from (found for _, found in hot)
    for run, found in _without_leaders(parts, absences):
        if not any(_common(run, other) >= _INSIDE * (run[1] - run[0] + 1) for other, _ in hot):
            yield found


def _common(one: Run, other: Run) -> int:
    return min(one[1], other[1]) - max(one[0], other[0]) + 1


def _doing_all(tables: Tables, parts: _Parts, absences: Sequence[tuple[int, Run]]) -> Iterator[tuple[Run, Finding]]:
    for row, node in enumerate(parts.nodes):
        enough = parts.whole >= _SURELY * len(parts.nodes)
        for run in runs((parts.shares[row] >= _MORE * parts.usual[row]) & enough, gap=_GAP_MINUTES):
            minutes = run[1] - run[0] + 1
            if minutes < limits.FEWER_LEADERS_MINUTES or not _have_less(parts, row, run):
                continue
            if any(_common(run, other) >= _INSIDE * minutes for _, other in absences):
                continue
            if _services_move(tables.grids.routes, node, span_of(parts.axis, run)):
                yield run, _hot(parts, row, run)


def _have_less(parts: _Parts, row: int, run: Run) -> bool:
    """Return whether the others have less from when a broker has more, or more again when it has not: it is no load of its own."""
    others = parts.counts.sum(0) - parts.counts[row]
    first, stop = run[0] + parts.width // 2, run[1] + 1 - parts.width // 2
    before, begin = others[max(run[0] - _AROUND_MINUTES, 0) : run[0]], others[first : first + _AROUND_MINUTES]
    end, after = others[max(stop - _AROUND_MINUTES, 0) : stop], others[run[1] + 1 : run[1] + 1 + _AROUND_MINUTES]
    pairs = [(inside.mean(), outside.mean()) for inside, outside in ((begin, before), (end, after)) if len(outside) and len(inside)]
    return bool(pairs) and all(inside <= _LESS * outside for inside, outside in pairs)


def _services_move(routes: Grid, node: int, span: Span) -> bool:
    """Return whether most services use a broker more than at other times."""
    axis = routes.axis
    hours = np.zeros(axis.length, np.bool_)
    hours[max(axis.place(span.first), 0) : axis.place(span.last) + 1] = True
    to_it: dict[Any, Values] = defaultdict(lambda: np.zeros(axis.length))
    every: dict[Any, Values] = defaultdict(lambda: np.zeros(axis.length))
    for row, (at, client_id, principal, _) in enumerate(routes.names):
        service = service_of(client_id), principal
        every[service] += routes["requests"][row]
        if at == node:
            to_it[service] += routes["requests"][row]
    rises = [
        to_it[service][hours].sum() * counts[~hours].sum() >= _RISES * to_it[service][~hours].sum() * counts[hours].sum()
        for service, counts in every.items()
        if counts[hours].sum() >= _SURELY and counts[~hours].sum() >= _SURELY
    ]
    return len(rises) >= _SERVICES and sum(rises) >= _OF_SERVICES * len(rises)


def _hot(parts: _Parts, row: int, run: Run) -> Finding:
    span, inside = span_of(parts.axis, run), slice(run[0], run[1] + 1)
    node, share, usual = parts.nodes[row], float(parts.shares[row, inside].mean()), float(parts.usual[row])
    less = [each for at, each in enumerate(parts.nodes) if parts.shares[at, inside].mean() < _LESS * parts.usual[at]]
    surplus = float((parts.counts[row, inside] - usual * parts.counts[:, inside].sum(0)).sum())
    is_over = run[1] < parts.axis.length - 1
    return Finding(
        "hot-broker",
        f"Broker {node} did {share:.0%} instead of {usual:.0%} of all writes and fetches, and {len(less)} others did less, "
        f"{text(span.first)}" + (f" to {text(span.last)}" if is_over else ", and still does"),
        {
            "node": node,
            "brokers with less": several([str(each) for each in less]) or ", ".join(map(str, less)),
            "minutes": span.length_minutes,
            "usual share": f"{usual:.0%}",
            "share": f"{share:.0%}",
            "requests more": round(surplus),
        },
        f"node = {node} AND api IN ('Produce', 'Fetch') AND {span.where}",
        "It leads partitions of the others: let these lead again (kafka-leader-election --election-type preferred), and look for "
        "what moved the leaders: restarts, or a tool.",
        text(span.first),
        text(span.last),
        surplus,
        impact="one broker does the work of several",
    )


def _without_leaders(parts: _Parts, absences: Sequence[tuple[int, Run]]) -> Iterator[tuple[Run, Finding]]:
    for row, node in enumerate(parts.nodes):
        counts, usual = parts.counts[row], parts.usual[row]
        expected = usual * parts.whole / parts.width
        few = (parts.shares[row] < limits.FEWER_LEADERS * usual) & (expected * parts.width >= _SURELY)
        for run in runs(few, gap=2):
            inside = slice(run[0], run[1] + 1)
            away = any(other == node and _common(run, when) > 0 for other, when in absences)
            missing = float(expected[inside].sum() - counts[inside].sum())
            before = counts[: run[0]].sum()
            is_long = run[1] - run[0] + 1 >= limits.FEWER_LEADERS_MINUTES
            if is_long and not away and missing >= limits.SILENT_REQUESTS and before >= missing / 4:
                yield run, _few(parts, row, run, missing)


def _few(parts: _Parts, row: int, run: Run, missing: float) -> Finding:
    span, inside, node = span_of(parts.axis, run), slice(run[0], run[1] + 1), parts.nodes[row]
    there = float(parts.counts[row, inside].sum())
    part, when = there / max(there + missing, 1.0), f"{text(span.first)} to {text(span.last)}"
    return Finding(
        "fewer-leaders",
        f"Broker {node} had {part:.0%} of its usual part of writes and fetches, {when}",
        {
            "node": node,
            "minutes": run[1] - run[0] + 1,
            "usual share": f"{parts.usual[row]:.0%}",
            "share": f"{parts.shares[row, inside].mean():.0%}",
            "usual per minute": round((there + missing) / (run[1] - run[0] + 1), 1),
        },
        f"node = {node} AND api IN ('Produce', 'Fetch') AND {span.where}",
        "Let it lead its partitions again (kafka-leader-election --election-type preferred).",
        text(span.first),
        text(span.last),
        missing,
        {"Produce", "Fetch"},
        impact="the other brokers do its work",
    )
