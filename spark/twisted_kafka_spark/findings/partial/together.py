"""Findings about clients of several services that are silent in the same minutes, as if they had lost a network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.findings.finding import Finding, Span, several, text
from twisted_kafka_spark.findings.names import service_of
from twisted_kafka_spark.findings.runs import minute_of, rolling

if TYPE_CHECKING:
    from twisted_kafka_spark.cells.grids import Grid
    from twisted_kafka_spark.findings.runs import Values
    from twisted_kafka_spark.views import Tables

_APIS = ("Produce", "Fetch")
_HOUR_SLOTS = 12
_MINUTE_US = 60e6
_SAME_US = 120e6
"""How much the begins, and the ends, of silences of one cause differ."""
_SURELY = 4.0
"""Requests of a client that are expected in its silence: with fewer it may be chance."""
_BEYOND = 1.5
"""How many times as long as a client's other gaps its silence is."""
_LEAST_SERVICES, _LEAST_CLIENTS = 2, 3
_NEARLY_ALL = 0.8
"""The share of all clients from which it is the broker, or the log, that is silent."""


@dataclass(frozen=True, slots=True)
class _Silence:
    client_id: Any
    principal: Any
    api: str
    first_us: float
    last_us: float
    missing: float


def silent_together(tables: Tables, known: Sequence[Finding]) -> Iterator[Finding]:
    """Find clients of several services without a request in the same five minutes or more.

    What one of the `known` findings says about silence in that time is left out.
    """
    grid = tables.grids.persons
    rows = [row for row, name in enumerate(grid.names) if name[2] in _APIS]
    if not rows or grid.axis.length < limits.LEAST_SLOTS:
        return
    found = sorted(_silences(grid, rows), key=lambda one: (one.first_us, str(one.client_id)))
    every = len({grid.names[row][:2] for row in rows})
    for together in _clusters(found):
        clients = {(one.client_id, one.principal) for one in together}
        services = {(service_of(one.client_id), one.principal) for one in together}
        missing = sum(one.missing for one in together)
        is_enough = len(services) >= _LEAST_SERVICES and len(clients) >= _LEAST_CLIENTS and missing >= limits.SILENT_REQUESTS
        span = _span(together)
        if is_enough and len(clients) < _NEARLY_ALL * every and not any(_is_told(each, span) for each in known):
            yield _finding(together, span, missing)


def _silences(grid: Grid, rows: list[int]) -> Iterator[_Silence]:
    counts, first_us, last_us = (grid[name][rows] for name in ("requests", "first_us", "last_us"))
    starts = np.where(counts > 0, first_us, np.inf)
    following = np.minimum.accumulate(starts[:, ::-1], axis=1)[:, ::-1]
    following = np.column_stack((following[:, 1:], np.full(len(rows), np.inf)))
    lengths = np.where((counts > 0) & np.isfinite(following), following - last_us, 0.0)
    around: Values = np.array([rolling(each, _HOUR_SLOTS) / (_HOUR_SLOTS * grid.axis.step_s * 1e6) for each in counts])
    # The hour around a silence has fewer requests because of it.
    missing = around * lengths / np.maximum(1 - lengths / (_HOUR_SLOTS * grid.axis.step_s * 1e6), 0.25)
    is_silent = (lengths >= limits.SILENT_TOGETHER_MINUTES * _MINUTE_US) & (missing >= _SURELY)
    others = np.sort(lengths, axis=1)[:, -2:-1]
    is_silent &= lengths >= _BEYOND * others  # a program that works in bursts has many
    for row, at in zip(*(each.tolist() for each in np.nonzero(is_silent)), strict=True):
        client_id, principal, api = grid.names[rows[row]]
        ends = float(last_us[row, at]), float(following[row, at])
        yield _Silence(client_id, principal, api, *ends, float(missing[row, at]))


def _clusters(found: list[_Silence]) -> list[list[_Silence]]:
    """Group silences that begin, and end, within two minutes of each other; they are in the order of their begins."""
    groups: list[list[_Silence]] = []
    for one in found:
        for group in reversed(groups):
            if one.first_us - group[0].first_us > _SAME_US:
                groups.append([one])
                break
            if abs(one.last_us - group[0].last_us) <= _SAME_US:
                group.append(one)
                break
        else:
            groups.append([one])
    return groups


def _span(together: list[_Silence]) -> Span:
    first, last = max(one.first_us for one in together), min(one.last_us for one in together)
    return Span(minute_of(first), minute_of(last))


def _is_told(finding: Finding, span: Span) -> bool:
    if finding.name not in ("silent-client", "absent-broker", "unreached-broker") or finding.first is None or finding.last is None:
        return False
    return finding.first <= text(span.last) and text(span.first) <= finding.last


def _finding(together: list[_Silence], span: Span, missing: float) -> Finding:
    amounts: dict[tuple[Any, Any], float] = {}
    for one in together:
        amounts[one.client_id, one.principal] = amounts.get((one.client_id, one.principal), 0) + one.missing
    clients = sorted(amounts, key=lambda who: (-amounts[who], str(who)))
    principals = sorted({str(who[1]) for who in clients})
    return Finding(
        "silent-client",
        f"{len(clients)} clients of {len(principals)} accounts sent nothing at once, {text(span.first)} to {text(span.last)}",
        {
            "clients": several([str(who[0]) for who in clients]),
            "principals": several(principals),
            "services": several(sorted({service_of(who[0]) for who in clients})),
            "apis": ", ".join(sorted({one.api for one in together})),
            "minutes": span.length_minutes,
            "requests missing": round(missing),
        },
        span.where,
        "Look for something that they share: a network, a zone, a cluster of containers, or a way to the brokers.",
        text(span.first),
        text(span.last),
        missing,
        impact=f"about {missing:,.0f} requests missing",
    )
