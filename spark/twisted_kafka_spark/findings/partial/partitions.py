"""Findings about partitions that nobody writes any more, while the others of their topic are written."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.findings.finding import MINUTE, Finding, Span, quoted, several, text, the_only
from twisted_kafka_spark.findings.runs import runs

if TYPE_CHECKING:
    from twisted_kafka_spark.cells.grids import Matrix
    from twisted_kafka_spark.findings.runs import Run
    from twisted_kafka_spark.views import Tables

_HOUR = datetime.timedelta(hours=1)
_OTHERWISE_IDLE = 0.2
"""How many writes, of those expected in a long gap, were expected in other gaps: with more, a partition is seldom written."""
_ENOUGH_AN_HOUR = 2.0
"""Writes that are expected in an hour of a gap, as a factor of the least number that cells count."""
_KNOWN = 0.5
"""Share of the other hours in which writes to other partitions were counted: with less, nothing can be expected of a gap."""


def unwritten_partitions(tables: Tables) -> Iterator[Finding]:
    """Find partitions that nobody writes for hours, while the others of their topic are written as before."""
    hours: dict[str, list[tuple[datetime.datetime, int, int]]] = defaultdict(list)
    for row in tables.get("produced_hour", ()):
        if row["topic"] is not None:
            hours[row["topic"]].append((row["at"], row["partition"], row["requests"]))
    if not hours:
        return
    begin = min(at for rows in hours.values() for at, _, _ in rows)
    count = max(int((at - begin) / _HOUR) for rows in hours.values() for at, _, _ in rows) + 1
    for topic, rows in sorted(hours.items()):
        partitions = sorted({partition for _, partition, _ in rows})
        if len(partitions) < 2 or count < 2 * limits.UNWRITTEN_HOURS:
            continue
        writes = np.zeros((len(partitions), count))
        for at, partition, requests in rows:
            writes[partitions.index(partition), int((at - begin) / _HOUR)] += requests
        found: dict[Run, list[tuple[int, float]]] = defaultdict(list)
        for place in np.flatnonzero((writes == 0).any(1)).tolist():
            gap = _unwritten(writes, place)
            if gap is not None:
                found[gap[0]].append((partitions[place], gap[1]))
        for run, some in sorted(found.items()):
            yield _left(
                tables, topic, some, Span(begin + run[0] * _HOUR, begin + (run[1] + 1) * _HOUR - MINUTE, ()), run[1] < count - 1
            )


def _unwritten(writes: Matrix, place: int) -> tuple[Run, float] | None:
    """Return the hours in which a partition was not written, and how many writes were expected then."""
    mine, others = writes[place], writes.sum(0) - writes[place]
    gaps = [gap for gap in runs(mine == 0) if gap[0] > 0]
    if not gaps:
        return None

    def expected(gap: Run) -> float:
        inside = others[gap[0] : gap[1] + 1].sum()
        return float(mine.sum() * inside / max(others.sum() - inside, 1))

    by_size = sorted(gaps, key=expected)
    run, missing = by_size[-1], expected(by_size[-1])
    length = run[1] - run[0] + 1
    is_enough = missing >= max(limits.UNWRITTEN_REQUESTS, _ENOUGH_AN_HOUR * limits.WRITTEN_FLOOR * length)
    is_the_only_one = sum(map(expected, by_size[:-1])) <= _OTHERWISE_IDLE * missing
    was_written = (mine[: run[0]] > 0).sum() >= limits.UNWRITTEN_HOURS
    is_known = np.delete(others > 0, slice(run[0], run[1] + 1)).mean() >= _KNOWN
    is_lost = length >= limits.UNWRITTEN_HOURS and is_enough and is_the_only_one and was_written and is_known
    return (run, missing) if is_lost else None


def _left(tables: Tables, topic: str, some: list[tuple[int, float]], span: Span, is_over: bool) -> Finding:
    partitions, missing = [each[0] for each in some], sum(each[1] for each in some)
    mine = [row for row in tables["lineage"] if row["topic"] == topic and row["api"] == "Produce"]
    writers = sorted({str(row["client_id"]) for row in mine})
    principals = sorted({str(row["principal"]) for row in mine})
    which = f"Partition {partitions[0]}" if len(partitions) == 1 else f"{len(partitions)} partitions"
    return Finding(
        "unwritten-partition",
        f"{which} of topic {topic} had no writes from {text(span.first)} "
        + (f"to {text(span.last)}" if is_over else "on")
        + ", though the others had",
        {
            "topic": topic,
            "partition": the_only(partitions),
            "partitions": several([str(each) for each in partitions]),
            "client_id": the_only(writers),
            "clients": several(writers),
            "principal": the_only(principals),
            "hours": round((span.last - span.first + MINUTE) / _HOUR),
            "writes missing": round(missing),
        },
        f"api = 'Produce' AND exists(topics, t -> t.topic = {quoted(topic)})",
        "Look at the partitioner and the keys of its producers: records for it go elsewhere, or nowhere. Its leader may be out of "
        "their reach.",
        text(span.first),
        text(span.last),
        missing,
        impact=f"about {missing:,.0f} writes missing",
    )
