"""Slow phases of an API, or of all, whichever the broker and the client: each minute against the others of the period."""

from __future__ import annotations

import datetime
import statistics
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.findings.finding import spans, unusual
from twisted_kafka_spark.findings.slow.phases import ALL, LONG_MINUTES, Slowness, floor_us, noise_us
from twisted_kafka_spark.records.kafka_names import WAITS_BY_DESIGN

if TYPE_CHECKING:
    from twisted_kafka_spark.views import Row, Tables

Minutes = dict[datetime.datetime, float]


class _Means(NamedTuple):
    """The mean time of a phase in each minute, in microseconds."""

    api: str
    by_minute: Minutes
    unknown: set[datetime.datetime]
    """Minutes with too few requests."""
    usual_us: float


def slow_minutes(tables: Tables, phase: str) -> Iterator[Slowness]:
    """Yield the spans in which a phase took far longer than usual, for an API or for all of them together."""
    by_api: dict[str, list[Row]] = defaultdict(list)
    for row in tables["tick"]:
        if phase != "remote_us" or row["api"] not in WAITS_BY_DESIGN:
            by_api[row["api"]].append(row)
    each = [_means(api, rows, phase) for api, rows in by_api.items()]
    for means in (*each, _of_all(by_api, each, phase)):
        yield from _slow(means)


def _means(api: str, rows: list[Row], phase: str) -> _Means:
    every = {row["at"]: row[phase] / row["requests"] for row in rows}
    known = {row["at"]: every[row["at"]] for row in rows if row["requests"] >= limits.SLOW_REQUESTS_A_MINUTE}
    return _Means(api, known, set(every) - set(known), statistics.median((known or every).values()))


def _of_all(by_api: dict[str, list[Row]], each: list[_Means], phase: str) -> _Means:
    """Return the mean over all APIs as if each minute had the day's mixture of them: one with more of a slow API is not slow."""
    usual = {means.api: means.usual_us for means in each}
    taken: Minutes = defaultdict(float)
    expected: Minutes = defaultdict(float)
    requests: Minutes = defaultdict(float)
    for api, rows in by_api.items():
        for row in rows:
            taken[row["at"]] += row[phase]
            expected[row["at"]] += usual[api] * row["requests"]
            requests[row["at"]] += row["requests"]
    whole = sum(expected.values()) / max(sum(requests.values()), 1)
    enough = [at for at, count in requests.items() if count >= limits.SLOW_REQUESTS_A_MINUTE and expected[at]]
    known = {at: taken[at] / expected[at] * whole for at in enough}
    return _Means(ALL, known, set(requests) - set(known), whole)


def _slow(means: _Means) -> Iterator[Slowness]:
    limit = max(floor_us(means.usual_us), unusual(means.by_minute.values(), limits.MAD_FACTOR))
    above = {at: mean for at, mean in means.by_minute.items() if mean > limit}
    found = spans(above, limits.SLOW_MINUTES, means.unknown)
    long = [span for span in found if span.length_minutes >= LONG_MINUTES]
    for span in found:
        outside = [mean for at, mean in means.by_minute.items() if not any(each.first <= at <= each.last for each in (*long, span))]
        if span in long or statistics.median(span.values) > noise_us(outside):
            yield Slowness(means.api, span, max(span.values), limit, means.usual_us)
