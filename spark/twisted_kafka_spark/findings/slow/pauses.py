"""Brokers that stand still: again and again, each time for less than the minutes of a slow phase, or once for long."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.findings.finding import Finding, Span, text
from twisted_kafka_spark.findings.runs import Run, runs, span_of
from twisted_kafka_spark.findings.slow.brokers import ROUGH_REQUESTS
from twisted_kafka_spark.findings.slow.phases import Slow, Slowness, is_inside, place_of

if TYPE_CHECKING:
    from twisted_kafka_spark.findings.slow.brokers import Brokers
    from twisted_kafka_spark.findings.slow.clients import Clients

_PAUSES, _PAUSE_FACTOR, _PAUSE_US, _PAUSE_GAP_MINUTES = 5, 20.0, 100_000.0, 20
"""Short pauses of a broker: how many there are, how many times as long as usual requests take then, at least, on average; and the
most minutes between them."""
_STOP_US = 5_000_000.0
"""How long nearly all requests of a minute have waited if the broker stood still: once is enough, then."""


class _Pauses(NamedTuple):
    """Pauses of a broker: how many, and the mean time of requests in microseconds, in the worst minute and usually."""

    node: int | None
    times: int
    worst_us: float
    usual_us: float
    weight: float


def pauses(slow: Slow, brokers: Brokers, clients: Clients, known: list[Slowness]) -> Iterator[Finding]:
    """Yield brokers that paused, unless that is one of the `known` spans, or a mixture of other requests."""
    stops: dict[Span, list[_Pauses]] = defaultdict(list)
    for row, node in enumerate(brokers.nodes):
        means, usual = brokers.means_us[row], brokers.usual_us(row)
        short = [run for run in runs(means > max(_PAUSE_US, _PAUSE_FACTOR * usual)) if run[1] - run[0] + 1 < limits.SLOW_MINUTES]
        marks = np.zeros(len(means), np.bool_)
        for first, last in short:
            marks[first : last + 1] = True
        for run in runs(marks, gap=_PAUSE_GAP_MINUTES):
            inside = [each for each in short if run[0] <= each[0] <= run[1]]
            stop = _longest_stop(brokers, row, inside)
            if len(inside) < _PAUSES and stop is None:
                continue
            span = span_of(brokers.axis, run if stop is None else stop)
            is_told = any(one.client is None and one.node in (node, None) and is_inside(span, one.span, 0.5) for one in known)
            if is_told or clients.are_mixed(Slowness(brokers.api, span, 0.0, 0.0, usual)):
                continue
            worst = float(means[run[0] : run[1] + 1].max())
            stops[span].append(_Pauses(node, len(inside) if stop is None else 1, worst, usual, float(means[marks].sum())))
    for span, together in stops.items():
        yield from _paused(slow, len(brokers.nodes), span, together)


def _longest_stop(brokers: Brokers, row: int, short: list[Run]) -> Run | None:
    """Return the run in which the requests of a broker had waited for seconds, from when the first came; None without one."""
    for first, last in short:
        inside = slice(first, last + 1)
        requests = brokers.requests[row, inside].sum()
        mean_us = brokers.taken[row, inside].sum() / max(requests, 1)
        if requests >= ROUGH_REQUESTS and mean_us >= _STOP_US:
            return max(first - 1 - round(mean_us / 60e6), 0), last
    return None


def _paused(slow: Slow, brokers: int, span: Span, together: list[_Pauses]) -> Iterator[Finding]:
    """Yield the finding about pauses of brokers at the same time; if all of them paused, they are one finding."""
    is_all = brokers > 1 and len(together) == brokers
    for one in [max(together, key=lambda each: each.worst_us)] if is_all else together:
        place = "all brokers" if is_all else place_of(slow, one.node if brokers > 1 else None)
        times = "once" if one.times == 1 else f"{one.times} times"
        where = f"node = {one.node} AND " if brokers > 1 and not is_all else ""
        yield Finding(
            slow.finding,
            f"{slow.paused} {place} {times}, {text(span.first)} to {text(span.last)}",
            {
                "node": None if is_all else one.node,
                "brokers": f"{len(together)}: all brokers" if is_all else None,
                "pauses": one.times,
                "minutes between them": round(span.length_minutes / one.times, 1) if one.times > 1 else None,
                "worst minute, mean ms": round(one.worst_us / 1000, 1),
                "usual, ms": round(one.usual_us / 1000, 2),
            },
            f"{where}{slow.phase} > {round(_PAUSE_US)} AND {span.where}",
            "Look for what stops it at these moments: garbage collection, a virtual machine that waits, a disk that flushes.",
            text(span.first),
            text(span.last),
            one.weight,
            impact="all of its clients waited each time" if one.times > 1 else "all clients waited",
        )
