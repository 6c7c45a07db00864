"""Programs with a rhythm, such as a job that runs each quarter of an hour: they are missed when it is over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.findings.clients.persons import is_about, topics_of
from twisted_kafka_spark.findings.finding import MINUTE, Finding, Span, equal, several, text, the_only
from twisted_kafka_spark.findings.general.series import MOST_PROCESSES
from twisted_kafka_spark.findings.names import name_of, service_and_account, service_of
from twisted_kafka_spark.findings.runs import minute_of, runs

if TYPE_CHECKING:
    from twisted_kafka_spark.cells.grids import Grid
    from twisted_kafka_spark.findings.runs import Values
    from twisted_kafka_spark.views import Tables

_APIS = ("Produce", "Fetch")
_LATE, _EARLY = 1.35, 0.65
"""Which part of the usual time between two runs there is between any two of them, and by how many slots it may differ anyway."""
_MISSED = 3
"""Runs that are missed."""


def lost_rhythms(tables: Tables, known: Sequence[Finding]) -> Iterator[Finding]:
    """Find clients that read or write at regular intervals, most of the time nothing, and then miss several of their times."""
    grid = tables.grids.persons
    processes = Counter((*service_and_account(name), name[2]) for name in grid.names)
    for row, (client_id, principal, api) in enumerate(grid.names):
        if api not in _APIS or processes[service_of(client_id), principal, api] > MOST_PROCESSES:
            continue
        counts = grid["requests"][row][: grid.axis.length - 1]
        found = _lost(counts)
        if found is None:
            continue
        first, end, every = found
        begin, is_over = minute_of(grid["last_us"][row, first]) + MINUTE, end < len(counts)
        last = (minute_of(grid["first_us"][row, end]) if is_over else grid.axis.moment(grid.axis.length)) - MINUTE
        span = Span(begin, last)
        if any(is_about(each, (client_id, principal), span) for each in known):
            continue
        yield _finding(tables, grid, row, span, every * grid.axis.step_s / 60)


def _lost(counts: Values) -> tuple[int, int, float] | None:
    """Return the last slot of the last regular run, the first slot after the gap, and the usual slots between two runs."""
    times = runs(counts > 0)
    if len(times) <= limits.RHYTHM_RUNS or (counts > 0).mean() > 0.5:
        return None
    steps = np.diff([run[0] for run in times]).astype(np.float64)
    regular = int(np.argmax(steps >= _MISSED * np.median(steps))) if (steps >= _MISSED * np.median(steps)).any() else len(steps)
    if regular < limits.RHYTHM_RUNS:
        return None
    every = float(np.mean(steps[:regular]))
    is_regular = np.all((steps[:regular] >= _EARLY * every - 1) & (steps[:regular] <= _LATE * every + 1))
    end = times[regular + 1][0] if regular < len(steps) else len(counts)
    is_long = end - times[regular][1] >= max(_MISSED * every, limits.GONE_SLOTS)
    is_from_the_start = times[0][0] <= max(_MISSED * every / 2, limits.GONE_SLOTS)  # otherwise it has hours of its own
    return (times[regular][1], end, every) if is_regular and every >= 2 and is_long and is_from_the_start else None


def _finding(tables: Tables, grid: Grid, row: int, span: Span, every_minutes: float) -> Finding:
    client_id, principal, api = grid.names[row]
    begin, last = span.first, span.last
    is_over = last < grid.axis.moment(grid.axis.length) - 2 * MINUTE
    topics = topics_of(tables, (client_id, principal), api)
    missed = int((last - begin) / MINUTE / every_minutes)
    return Finding(
        "silent-client",
        f"{name_of(client_id)}, which sent {api} requests every {every_minutes:,.0f} minutes, sent none, {text(begin)}"
        + (f" to {text(last)}" if is_over else ", and has not come back"),
        {
            "client_id": client_id,
            "principal": principal,
            "apis": api,
            "topic": the_only(topics),
            "topics": several(topics),
            "minutes": (last - begin) // MINUTE + 1,
            "minutes between runs": round(every_minutes, 1),
            "runs missing": missed,
        },
        equal(client_id=client_id),
        "Look at the scheduler: the job was not started, or fails before it connects.",
        text(begin),
        text(last),
        float(missed),
        impact=f"about {missed:,} runs missing",
    )
