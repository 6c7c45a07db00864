"""Findings about slow phases: when, on which broker, for which API and because of which client."""

from __future__ import annotations

import datetime
import statistics
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.findings.finding import MINUTE, Finding, Span, equal, spans, text, unusual
from twisted_kafka_spark.findings.runs import median, minute_of, rolling, runs, span_of, unusual_above
from twisted_kafka_spark.records.kafka_names import WAITS_BY_DESIGN

if TYPE_CHECKING:
    from twisted_kafka_spark.cells.grids import Grid, Grids
    from twisted_kafka_spark.views import Row, Tables

Minutes = dict[datetime.datetime, float]


class Slow(NamedTuple):
    """The meaning of a slow phase."""

    finding: str
    phase: str
    title: str
    advice: str
    impact: str


ALL = "all"
"""Stands for all APIs together."""

SLOW_PHASES: tuple[Slow, ...] = (
    Slow(
        "slow-disk",
        "local_us",
        "Local processing in {place} was slow",
        "Check the disks of log.dirs (iostat: await, util) and what else uses them: local time is spent on appends and reads.",
        "requests took longer in the broker itself",
    ),
    Slow(
        "slow-follower",
        "remote_us",
        "Requests to {place} waited for other replicas",
        "Check for a lagging follower (UnderReplicatedPartitions, its network and disk): acks=all waits for the followers.",
        "producers with acks=all waited",
    ),
    Slow(
        "busy-threads",
        "request_queue_us",
        "Requests to {place} waited for a request handler",
        "Increase num.io.threads if RequestHandlerAvgIdlePercent is low; if local time has also increased, that is the cause.",
        "requests of all clients waited in the queue",
    ),
    Slow(
        "busy-network",
        "response_queue_us",
        "Responses of {place} waited for a network thread",
        "Increase num.network.threads if NetworkProcessorAvgIdlePercent is low.",
        "responses to all clients waited in the queue",
    ),
    Slow(
        "slow-readers",
        "send_us",
        "Sending responses {place} was slow",
        "Check the network, and clients that read slowly: the broker cannot send faster than they read.",
        "responses left the broker late",
    ),
)
_ROUGH = 16
"""Requests of a broker whose mean time says something, if single requests differ much."""
_WIDTHS = (1, 2, 3, 5, 10)
_FACTOR_OF_STEADY = 4
_LEAST_OF_STEADY = 1000
"""A broker that is slow all the time takes this many times as long as the others, over this many requests."""
_SHARE = 0.6
"""The share of the additional time that names a broker or a client."""
_ALONE = 20.0
"""How many times as long as for other clients responses take to a client that is only there while they do."""
_ALONE_US = 50_000.0
_CLIENT_REQUESTS = 8
"""Requests of a client in a slow run."""
_IN_CLIENTS = ("local_us", "remote_us", "send_us")


class _Series(NamedTuple):
    """The mean of a phase in each minute, for one API or, named ALL, for all APIs; each relative to its API's usual mean."""

    api: str
    means: Minutes
    unknown: set[datetime.datetime]
    """Minutes with too few requests."""
    usual: float
    node: int | None = None
    client: tuple[Any, ...] | None = None


class _Slowness(NamedTuple):
    """Minutes in which a series was slow."""

    worst: float
    limit: float
    series: _Series
    span: Span

    @property
    def weight(self) -> float:
        return self.worst * self.span.minutes


def slow_phases(tables: Tables) -> Iterator[Finding]:
    """Find minutes in which a phase took far longer than usual, on one broker or all, for one API or all.

    What overlaps in time is one finding.
    """
    by_api: dict[str, list[Row]] = defaultdict(list)
    for row in tables["tick"]:
        by_api[row["api"]].append(row)
    for slow in SLOW_PHASES:
        considered = {api: rows for api, rows in by_api.items() if slow.phase != "remote_us" or api not in WAITS_BY_DESIGN}
        each = [_series(api, rows, slow.phase) for api, rows in considered.items()]
        found = [one for series in (*each, _of_all(considered, each, slow.phase)) for one in _slow_minutes(series)]
        nodes = _Nodes(tables.grids.nodes, slow.phase)
        found += nodes.slow()
        if slow.phase == "send_us":
            found += _slow_clients(tables.grids.persons, slow.phase)
        for together in _overlapping(found):
            yield _slowness(slow, together, nodes, tables.grids)
        yield from nodes.steadily_slow(slow)


def _series(api: str, rows: list[Row], phase: str) -> _Series:
    every = {row["at"]: row[phase] / row["requests"] for row in rows}
    means = {row["at"]: every[row["at"]] for row in rows if row["requests"] >= limits.SLOW_REQUESTS_A_MINUTE}
    return _Series(api, means, set(every) - set(means), statistics.median((means or every).values()))


def _of_all(by_api: dict[str, list[Row]], each: list[_Series], phase: str) -> _Series:
    """Return the mean over all APIs as if each minute had the day's mixture of them: one with more of a slow API is not slow."""
    usual = {series.api: series.usual for series in each}
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
    means = {at: taken[at] / expected[at] * whole for at in enough}
    return _Series(ALL, means, set(requests) - set(means), whole)


def _slow_minutes(series: _Series) -> Iterator[_Slowness]:
    limit = max(_floor(series.usual), unusual(series.means.values(), limits.MAD_FACTOR))
    slow_minutes = {at: mean for at, mean in series.means.items() if mean > limit}
    for span in spans(slow_minutes, limits.SLOW_MINUTES, series.unknown):
        yield _Slowness(max(span.values), limit, series, span)


def _floor(usual: float) -> float:
    return min(limits.SLOW_FLOOR_US, max(limits.SLOW_RELATIVE_FLOOR_US, limits.SLOW_FACTOR * usual))


class _Nodes:
    """The times that a phase took on each broker, relative to the usual time of the same mixture of requests."""

    def __init__(self, grid: Grid, phase: str) -> None:
        apis = dict.fromkeys(name[1] for name in grid.names)
        if phase == "remote_us":
            apis = {api: None for api in apis if api == "Produce"}
        self.axis = grid.axis
        self.nodes = sorted({name[0] for name in grid.names if name[0] is not None})
        shape = len(self.nodes), grid.axis.length
        self.requests, self.taken, self.expected = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        for api in apis:
            rows = [row for row in grid.rows(api=api) if grid.names[row][0] is not None]
            place = [self.nodes.index(grid.names[row][0]) for row in rows]
            requests, taken = grid["requests"][rows], grid[phase][rows]
            some = requests >= 1
            usual = median(taken[some] / requests[some]) if some.any() else 0.0
            self.requests[place] += requests
            self.taken[place] += taken
            self.expected[place] += usual * requests
        self.mean_us = float(self.expected.sum() / max(self.requests.sum(), 1))
        whole = np.divide(self.taken.sum(1), self.expected.sum(1), out=np.zeros(len(self.nodes)), where=self.expected.sum(1) > 0)
        self.usual = np.minimum(whole, [self._usual(row) for row in range(len(self.nodes))] or whole)
        """How many times as long as usual the requests of each broker usually take."""

    def _usual(self, row: int) -> float:
        width = self._width(row)
        expected = rolling(self.expected[row], width)
        return median(rolling(self.taken[row], width)[expected > 0] / expected[expected > 0])

    def _width(self, row: int) -> int:
        busy = median(self.requests[row][self.requests[row] > 0])
        return next((width for width in _WIDTHS if busy * width >= _ROUGH), _WIDTHS[-1])

    def slow(self) -> Iterator[_Slowness]:
        """Yield the minutes in which a broker was slow, of several brokers."""
        if len(self.nodes) < 2:
            return
        for row, node in enumerate(self.nodes):
            width = self._width(row)
            expected = rolling(self.expected[row], width)
            known = (expected > 0) & (rolling(self.requests[row], width) >= limits.SLOW_REQUESTS_A_MINUTE)
            means = np.divide(rolling(self.taken[row], width), expected, out=np.zeros_like(expected), where=known) * self.mean_us
            usual = float(self.usual[row]) * self.mean_us
            limit = max(_floor(usual), unusual_above(means[known], limits.MAD_FACTOR))
            yield from self._spans(row, node, known & (means > limit), means, limit, usual)

    def _spans(self, row: int, node: int, slow: Any, means: Any, limit: float, usual: float) -> Iterator[_Slowness]:
        own = np.divide(self.taken[row], self.expected[row], out=np.zeros_like(means), where=self.expected[row] > 0) * self.mean_us
        for first, last in runs(slow, gap=1):
            inside = np.flatnonzero(own[first : last + 1] > max(limit / 3, usual * 2))
            if len(inside) < limits.SLOW_MINUTES:
                continue
            begin, end = first + int(inside[0]), first + int(inside[-1])
            values = tuple(means[begin : end + 1].tolist())
            yield _Slowness(max(values), limit, _Series(ALL, {}, set(), usual, node), span_of(self.axis, (begin, end), values))

    def place(self, span: Span) -> int | None:
        """Return the broker that has most of the additional time of a span; None if no broker has, or if there is only one."""
        first, last = self.axis.place(span.first), self.axis.place(span.last)
        usual = self.expected[:, first : last + 1] * self.usual[:, None]
        more = np.maximum((self.taken[:, first : last + 1] - usual).sum(1), 0)
        if len(self.nodes) < 2 or not more.sum():
            return None
        worst = int(np.argmax(more))
        return self.nodes[worst] if more[worst] >= _SHARE * more.sum() else None

    def steadily_slow(self, slow: Slow) -> Iterator[Finding]:
        """Yield brokers that take far longer than the others all the time."""
        if len(self.nodes) < 3:
            return
        for row, node in enumerate(self.nodes):
            others = median(np.delete(self.usual, row))
            usual = float(self.usual[row])
            is_slow = usual >= _FACTOR_OF_STEADY * others and usual * self.mean_us >= limits.SLOW_RELATIVE_FLOOR_US
            if not is_slow or self.requests[row].sum() < _LEAST_OF_STEADY:
                continue
            busy = np.flatnonzero(self.requests[row])
            span = span_of(self.axis, (int(busy[0]), int(busy[-1])))
            yield Finding(
                slow.finding,
                f"{slow.title.format(place=_place(slow, node, None))} all the time, {usual / max(others, 1e-9):,.0f} times as "
                "slow as the others",
                {
                    "node": node,
                    "mean ms": round(usual * self.mean_us / 1000, 2),
                    "other brokers, ms": round(others * self.mean_us / 1000, 2),
                    "brokers": len(self.nodes),
                },
                f"node = {node}",
                slow.advice,
                text(span.first),
                text(span.last),
                usual * self.mean_us * span_minutes(span),
            )


def span_minutes(span: Span) -> int:
    """Return the length of a span in minutes."""
    return (span.last - span.first) // MINUTE + 1


def _slow_clients(grid: Grid, phase: str) -> Iterator[_Slowness]:
    """Yield the spans in which a phase took far longer for a client than it usually does, or than for the other clients."""
    clients = grid.by("client_id", "principal")
    requests, taken = clients["requests"], clients[phase]
    means = np.divide(taken, requests, out=np.zeros_like(taken), where=requests > 0)
    usual = np.array([median(means[row][requests[row] > 0]) for row in range(len(clients.names))])
    for row, name in enumerate(clients.names):
        active = requests[row] > 0
        fleet = median(np.delete(usual, row)) if len(usual) > 1 else 0.0
        limit = max(limits.SLOW_FLOOR_US, limits.SLOW_FACTOR * usual[row], unusual_above(means[row][active], limits.MAD_FACTOR))
        if (slow := active & (means[row] > limit)).sum() * 3 > active.sum() or usual[row] >= limits.SLOW_FLOOR_US:
            limit = max(_ALONE_US, _ALONE * fleet)
            slow = active & (means[row] > limit)
        for first, last in runs(slow, gap=1):
            if requests[row, first : last + 1].sum() < _CLIENT_REQUESTS:
                continue
            span = _trimmed(grid, name, (first, last), tuple(means[row, first : last + 1].tolist()))
            yield _Slowness(max(span.values), limit, _Series(ALL, {}, set(), float(usual[row]), client=name), span)


def _trimmed(grid: Grid, name: tuple[Any, ...], run: tuple[int, int], values: tuple[float, ...]) -> Span:
    """Return the span from the first to the last request of a client in a run."""
    rows = grid.rows(client_id=name[0], principal=name[1])
    starts, ends = grid["first_us"][rows, run[0]], grid["last_us"][rows, run[1]]
    return Span(minute_of(starts[starts > 0].min()), minute_of(ends.max()), values)


def _overlapping(found: list[_Slowness]) -> list[list[_Slowness]]:
    """Group the findings that overlap in time."""
    groups: list[list[_Slowness]] = []
    for one in sorted(found, key=lambda one: one.span.first):
        if groups and one.span.first <= max(other.span.last for other in groups[-1]):
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups


def client_of(grid: Grid, phase: str, span: Span) -> tuple[Any, ...] | None:
    """Return the client that has most of the additional time that a phase took in a span; None if no client has."""
    if phase not in _IN_CLIENTS or not grid.names:
        return None
    clients = grid.by("client_id", "principal")
    first, last = grid.axis.place(span.first), grid.axis.place(span.last)
    requests, taken = clients["requests"], clients[phase]
    inside = slice(first, last + 1)
    outside_requests = requests.sum(1) - requests[:, inside].sum(1)
    outside = taken.sum(1) - taken[:, inside].sum(1)
    whole = outside.sum() / max(outside_requests.sum(), 1)
    usual = np.divide(outside, outside_requests, out=np.full(len(outside), whole), where=outside_requests > 0)
    more = np.maximum(taken[:, inside].sum(1) - usual * requests[:, inside].sum(1), 0)
    if len(clients.names) < 2 or not more.sum():
        return None
    worst = int(np.argmax(more))
    return clients.names[worst] if more[worst] >= _SHARE * more.sum() else None


def _place(slow: Slow, node: int | None, client: tuple[Any, ...] | None) -> str:
    if slow.phase == "send_us":
        if client is not None:
            return "to a client without a client id" if client[0] is None else f"to client {client[0]}"
        return "" if node is None else f"from broker {node}"
    return "the broker" if node is None else f"broker {node}"


def _slowness(slow: Slow, together: list[_Slowness], nodes: _Nodes, grids: Grids) -> Finding:
    """Return the finding about the worst of what overlaps: from the first to the last minute of any of it."""
    named = [one for one in together if one.series.api != ALL] or together
    worst = max(named, key=lambda one: one.weight)
    precise = [one for one in together if one.series.client is None] or together
    first, last = min(one.span.first for one in precise), max(one.span.last for one in precise)
    whole = Span(first, last, worst.span.values)
    others = sorted({one.series.api for one in together} - {worst.series.api, ALL})
    api = worst.series.api
    on_nodes = [one for one in together if one.series.node is not None]
    node = nodes.place(whole)
    if node is None and len({one.series.node for one in on_nodes}) == 1:
        node = on_nodes[0].series.node
    client = client_of(grids.persons, slow.phase, whole)
    if client is None and (readers := [one for one in together if one.series.client is not None]):
        client = max(readers, key=lambda one: one.weight).series.client
    title = " ".join(slow.title.format(place=_place(slow, node, client)).split())
    usual = next((one.series.usual for one in on_nodes if one.series.node == node), worst.series.usual)
    conditions = [] if api == ALL else [equal(api=api)]
    conditions += [f"node = {node}"] if node is not None else []
    conditions += [equal(client_id=client[0])] if client is not None else []
    return Finding(
        slow.finding,
        f"{title}, {text(first)} to {text(last)}",
        {
            "api": api,
            "also": ", ".join(others) or None,
            "node": node,
            "client_id": client[0] if client is not None else None,
            "principal": client[1] if client is not None else None,
            "minutes": (last - first) // MINUTE + 1,
            "worst minute, mean ms": round(worst.worst / 1000, 1),
            "usual, ms": round(usual / 1000, 2),
        },
        " AND ".join([*conditions, f"{slow.phase} > {round(worst.limit)}", whole.where]),
        slow.advice,
        text(first),
        text(last),
        worst.weight,
        impact=slow.impact,
    )
