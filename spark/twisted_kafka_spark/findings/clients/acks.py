"""Findings about writers that stop waiting for all replicas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from twisted_kafka_spark.findings.clients.persons import span_of_client, topics_of
from twisted_kafka_spark.findings.finding import MINUTE, Finding, Span, enclosing, equal, grouped, several, text, the_only
from twisted_kafka_spark.findings.names import name_of, owner_of
from twisted_kafka_spark.findings.runs import runs

if TYPE_CHECKING:
    from twisted_kafka_spark.views import Tables

_STRONG, _WEAK = 0.1, 0.9
"""Shares of writes with weak acks before and after a change of acks."""
_LEAST_WRITES, _LEAST_SLOTS = 5, 3
_TOGETHER = 30 * MINUTE
"""The time in which the clients of a service change, one after the other."""


class _Weaker(NamedTuple):
    """Since when a client asks for weaker acks, and with how many writes."""

    who: tuple[Any, Any]
    acks: int
    span: Span
    writes: float


def weaker_acks(tables: Tables) -> Iterator[Finding]:
    """Find clients that stop waiting for all replicas (acks=all), from some time on."""
    grid = tables.grids.persons
    found: list[_Weaker] = []
    for row in grid.rows(api="Produce"):
        weak, strong = grid["acks_0"][row] + grid["acks_1"][row], grid["acks_all"][row]
        if not weak.sum() or not strong.sum():
            continue
        known = weak + strong  # not that of older lines and rollups
        active = known > 0
        share = np.divide(weak, known, out=np.zeros_like(weak), where=active)
        places = np.flatnonzero(active)
        of_active = runs(share[places] > (_STRONG + _WEAK) / 2)
        if len(of_active) != 1:
            continue
        first, last = (int(places[at]) for at in of_active[0])
        before = slice(0, first)
        is_clear = share[places[places < first]].mean() <= _STRONG if (places < first).any() else False
        inside = slice(first, last + 1)
        if (
            not is_clear
            or active[before].sum() < _LEAST_SLOTS
            or active[inside].sum() < _LEAST_SLOTS
            or min(known[before].sum(), weak[inside].sum()) < _LEAST_WRITES
        ):
            continue
        acks = 0 if grid["acks_0"][row].sum() > grid["acks_1"][row].sum() else 1
        found.append(_Weaker(grid.names[row][:2], acks, span_of_client(grid, row, (first, last)), float(weak[inside].sum())))
    for together in _of_one_change(found):
        yield _finding(tables, together)


def _of_one_change(found: list[_Weaker]) -> list[list[_Weaker]]:
    def belongs(group: list[_Weaker], one: _Weaker) -> bool:
        is_same = owner_of(group[0].who) == owner_of(one.who) and group[0].acks == one.acks
        return is_same and one.span.first - group[0].span.first <= _TOGETHER

    return grouped(sorted(found, key=lambda one: (one.span.first, str(one.who))), belongs)


def _finding(tables: Tables, together: list[_Weaker]) -> Finding:
    who, acks, span = together[0].who, together[0].acks, enclosing(each.span for each in together)
    names = [each.who[0] for each in together]
    topics = sorted({topic for each in together for topic in topics_of(tables, each.who, "Produce")})
    whose = name_of(who[0]) if len(together) == 1 else f"{len(together)} clients of {who[1]}"
    writes = sum(each.writes for each in together)
    return Finding(
        "weaker-acks",
        f"{whose} changed from acks=all to acks={acks}, {text(span.first)}",
        {
            "client_id": who[0] if len(together) == 1 else None,
            "clients": several([str(each) for each in names]),
            "principal": who[1],
            "topic": the_only(topics),
            "topics": several(topics),
            "acks before": "all",
            "acks after": acks,
            "writes since": round(writes),
        },
        f"{equal(client_id=who[0], api='Produce')} AND acks = {acks}"
        if len(together) == 1
        else f"{equal(principal=who[1])} AND acks = {acks}",
        "Set acks=all again unless it was meant: a broker that fails loses records that no other replica has.",
        text(span.first),
        text(span.last),
        writes,
        impact=f"{writes:,.0f} writes that a failing broker may lose",
    )
