"""Findings about partitions that nobody writes any more, while the others of their topic are written."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.findings.finding import MINUTE, Finding, Span, grouped, quoted, several, text, the_only
from twisted_kafka_spark.findings.runs import runs

if TYPE_CHECKING:
    from twisted_kafka_spark.cells.grids import Matrix
    from twisted_kafka_spark.findings.runs import Run
    from twisted_kafka_spark.views import Tables

_HOUR = datetime.timedelta(hours=1)
_OTHERWISE_IDLE = 0.2
"""How many writes, of those expected in a long gap, were expected in other gaps: with more, a partition is seldom written."""
_SURELY = 1.5
"""Writes that are expected in an hour that says something, as a factor of the least number that cells count."""
_WRITTEN_BEFORE = 0.5
"""The part of the writes expected before a gap that there were."""
_KNOWN = 0.5
"""Hours outside of a gap that say something, for each hour in it: with less, nothing can be expected of a gap."""
_SAME_HOURS = 0.5
"""The share of the hours of two gaps that they have in common if they have one cause."""


@dataclass(frozen=True, slots=True)
class _Gap:
    """Hours without a write to a partition, and the number of writes that were expected."""

    place: int
    run: Run
    missing: float


def unwritten_partitions(tables: Tables) -> Iterator[Finding]:
    """Find partitions that nobody writes for an hour or longer, while the others of their topic are written as before."""
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
        places = {partition: place for place, partition in enumerate(partitions)}
        writes = np.zeros((len(partitions), count))
        for at, partition, requests in rows:
            writes[places[partition], int((at - begin) / _HOUR)] += requests
        expected = _expected(writes)
        gaps = [gap for place in range(len(partitions)) if (gap := _gap(writes, expected, place)) is not None]
        for together in grouped(sorted(gaps, key=lambda gap: (gap.run, gap.place)), _belongs):
            span = _span(writes, expected, together)
            if span is not None:
                some = [partitions[gap.place] for gap in together]
                is_over = max(gap.run[1] for gap in together) < count - 1
                first, last = (begin + datetime.timedelta(minutes=round(at * 60)) for at in span)
                yield _left(tables, topic, some, Span(first, last - MINUTE), is_over, _missing(writes, together))


def _expected(writes: Matrix) -> Matrix:
    """Return the writes that each partition would have in an hour with its usual part of those to its topic."""
    whole = writes.sum(0)
    shares = [float(mine.sum() / max(whole[mine > 0].sum(), 1.0)) for mine in writes]
    found: Matrix = np.array(shares)[:, None] * whole[None, :]
    return found / max(sum(shares), 1.0)


def _gap(writes: Matrix, expected: Matrix, place: int) -> _Gap | None:
    """Return the hours in which a partition was not written, though that was expected; None if there are several such times."""
    known = np.flatnonzero(expected[place] >= _SURELY * limits.WRITTEN_FLOOR)
    found = [(int(known[first]), int(known[last])) for first, last in runs(writes[place, known] == 0)]
    missing = sorted((_sum(expected[place], run), run) for run in found)
    if not missing or sum(each[0] for each in missing[:-1]) > _OTHERWISE_IDLE * missing[-1][0]:
        return None
    return _Gap(place, missing[-1][1], missing[-1][0])


def _sum(values: Any, run: Run) -> float:
    return float(values[run[0] : run[1] + 1].sum())


def _belongs(together: list[_Gap], gap: _Gap) -> bool:
    mine, others = gap.run, together[0].run
    both = min(mine[1], others[1]) - max(mine[0], others[0]) + 1
    return both >= _SAME_HOURS * (max(mine[1], others[1]) - min(mine[0], others[0]) + 1)


def _hours(together: list[_Gap]) -> Run:
    return min(gap.run[0] for gap in together), max(gap.run[1] for gap in together)


def _missing(writes: Matrix, together: list[_Gap]) -> float:
    """Return the writes that are missing in a gap of some partitions, given those to the others there and at other times."""
    places, run = [gap.place for gap in together], _hours(together)
    mine, whole = writes[places].sum(0), writes.sum(0)
    outside = whole.sum() - mine.sum() - _sum(whole - mine, run)
    return float((mine.sum() - _sum(mine, run)) * _sum(whole - mine, run) / max(outside, 1.0))


def _span(writes: Matrix, expected: Matrix, together: list[_Gap]) -> tuple[float, float] | None:
    """Return the begin and the end of a gap of some partitions, in hours of the period; None if it may be chance.

    The hour before the first, and that after the last, have been a part of it according to how much is missing there.
    """
    places = [gap.place for gap in together]
    mine, wanted = writes[places].sum(0), expected[places].sum(0)
    run, missing = _hours(together), _missing(writes, together)
    length = run[1] - run[0] + 1
    of_each = _SURELY * limits.WRITTEN_FLOOR * len(places)
    known = np.count_nonzero(np.delete(mine, slice(run[0], run[1] + 1)))
    before = float(wanted[: run[0]].sum())
    is_enough = missing >= limits.UNWRITTEN_REQUESTS and known >= max(_KNOWN * length, limits.UNWRITTEN_HOURS)
    was_written = mine[: run[0]].sum() >= max(_WRITTEN_BEFORE * before, 2 * limits.WRITTEN_FLOOR)
    if not (is_enough and was_written) or len(places) == len(writes):
        return None

    whole = writes.sum(0)
    others = np.ones(len(mine), np.bool_)
    others[max(run[0] - 1, 0) : run[1] + 2] = False
    share = float(mine[others].sum() / max(whole[others].sum(), 1.0))

    def part(at: int) -> float:
        is_known = 0 <= at < len(mine) and share * whole[at] >= of_each
        return max(1 - float(mine[at] / (share * whole[at])), 0.0) if is_known else 0.0

    return run[0] - part(run[0] - 1), run[1] + 1 + part(run[1] + 1)


def _left(tables: Tables, topic: str, partitions: list[int], span: Span, is_over: bool, missing: float) -> Finding:
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
            "hours": round((span.last - span.first + MINUTE) / _HOUR, 1),
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
