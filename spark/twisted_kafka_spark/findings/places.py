"""Findings about slow phases: when, on which broker, for which API and because of which client."""

from __future__ import annotations

import datetime
import statistics
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.findings.clients.detectors import service_of
from twisted_kafka_spark.findings.finding import MINUTE, Finding, Span, equal, grouped, spans, text, unusual
from twisted_kafka_spark.findings.runs import median, minute_of, rolling, runs, span_of, unusual_above
from twisted_kafka_spark.records.kafka_names import WAITS_BY_DESIGN

if TYPE_CHECKING:
    from twisted_kafka_spark.cells.grids import Grid, Matrix
    from twisted_kafka_spark.findings.runs import Values
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
        "Local processing{whose} in {place} was slow",
        "Check the disks of log.dirs (iostat: await, util) and what else uses them: local time is spent on appends and reads.",
        "requests took longer in the broker itself",
    ),
    Slow(
        "slow-follower",
        "remote_us",
        "Requests{whose} to {place} waited for other replicas",
        "Check for a lagging follower (UnderReplicatedPartitions, its network and disk): acks=all waits for the followers.",
        "producers with acks=all waited",
    ),
    Slow(
        "busy-threads",
        "request_queue_us",
        "Requests{whose} to {place} waited for a request handler",
        "Increase num.io.threads if RequestHandlerAvgIdlePercent is low; if local time has also increased, that is the cause.",
        "requests of all clients waited in the queue",
    ),
    Slow(
        "busy-network",
        "response_queue_us",
        "Responses{whose} of {place} waited for a network thread",
        "Increase num.network.threads if NetworkProcessorAvgIdlePercent is low.",
        "responses to all clients waited in the queue",
    ),
    Slow(
        "slow-readers",
        "send_us",
        "Sending responses {place}{whose} was slow",
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
_CLIENT_SLOTS = 3
"""Slots of five minutes in which the broker or the replicas are slow for a client: one request that takes long is not enough."""
_OF_REQUESTS = 0.5
"""The share of the requests, in most minutes of a short run, of APIs that were slower: with less, single requests were."""
_SEVERAL_SERVICES = 3
"""Services that are slow at the same time if none of them is the cause."""
_OF_BROKERS = 0.5
"""The share of the brokers that are slower in most minutes of a short span in which no single one is."""
_LONG_SLOTS, _LONG_FLOOR_US = 6, 2_000.0
"""Slots in which what takes less than 10 ms is slow, too, and how long it takes then."""
_FEW_READERS = 2
"""More clients that read slowly at the same time are no cause, but suffer from one: the broker or its network."""
_ONE_MINUTE = 0.7
"""The share of the additional time that one minute of several may have: with more, a single request took long."""
_SAME_SPAN = 0.7
"""The share of the time of two spans that they have in common if they have one cause."""
_SLOWER, _NEARLY_ALL = 2.0, 0.75
"""How many times as long as usual requests take in this share of the minutes of a slow span."""
_LONG_MINUTES, _NOISE, _ABOVE_NOISE = 10, 0.98, 1.5
"""Half of the minutes of a shorter span are this many times as slow as all but a few of the minutes outside of longer spans."""
_OF_SEVERAL = 0.3
"""The share of the requests of a shorter span that are of clients whose requests took longer: with less, a few of them did."""
_LONGER, _OF_MIXTURE = 1.5, 0.25
"""How many times as long as at other times a client's requests take, and the part of all time that is beyond that, if a phase is
slow and not only asked for by others."""
_PAUSES, _PAUSE_FACTOR, _PAUSE_US, _PAUSE_GAP_MINUTES = 5, 20.0, 100_000.0, 20
"""Short pauses of a broker: how many there are, how many times as long as usual requests take then, at least, on average; and the
most minutes between them."""
_STOP_US = 5_000_000.0
"""How long nearly all requests of a minute have waited if the broker stood still: once is enough, then."""
_MOVING = ("Produce", "Fetch")
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
        if len(nodes.nodes) > 1:  # of one broker, the series of all APIs knows their mixture better
            found += nodes.slow()
        for api in _MOVING if slow.phase != "remote_us" else ():
            found += _Nodes(tables.grids.nodes, slow.phase, api).slow()
        if slow.phase in _IN_CLIENTS:
            found += _slow_clients(tables.grids.persons, slow.phase)
        persons = tables.grids.persons
        found = [one for one in found if one.series.client is not None or not _is_mixture(persons, slow.phase, one)]
        found = [one for one in found if not _is_of_few(persons, slow.phase, one) and not nodes.is_scattered(one)]
        found = [_without_place(one, nodes, persons, slow.phase, found) for one in found]
        for together in _of_one_cause(found, nodes):
            yield _slowness(slow, together, nodes, tables)
        yield from nodes.steadily_slow(slow)
        yield from _pauses(slow, nodes, tables.grids.persons, found)


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
    found = spans(slow_minutes, limits.SLOW_MINUTES, series.unknown)
    long = [span for span in found if span_minutes(span) >= _LONG_MINUTES]
    for span in found:
        outside = [mean for at, mean in series.means.items() if not any(each.first <= at <= each.last for each in (*long, span))]
        if span in long or statistics.median(span.values) > _noise(outside):
            yield _Slowness(max(span.values), limit, series, span)


def _noise(means: Any) -> float:
    """Return what half of the minutes of a short span must exceed, given the minutes outside of it."""
    return _ABOVE_NOISE * float(np.quantile(means, _NOISE)) if len(means) else 0.0


def _floor(usual: float) -> float:
    return min(limits.SLOW_FLOOR_US, max(limits.SLOW_RELATIVE_FLOOR_US, limits.SLOW_FACTOR * usual))


class _Nodes:
    """The times that a phase took on each broker, relative to the usual time of the same mixture of requests."""

    def __init__(self, grid: Grid, phase: str, api: str = ALL) -> None:
        wanted = "Produce" if phase == "remote_us" else api
        apis = [each for each in dict.fromkeys(name[1] for name in grid.names) if wanted in (ALL, each)]
        self.api = api
        self.axis = grid.axis
        self.nodes = sorted({name[0] for name in grid.names if name[0] is not None}) or list({name[0] for name in grid.names})
        """A log of Kafka does not say which broker it is of: None then."""
        shape = len(self.nodes), grid.axis.length
        self.requests, self.taken, self.expected, self._slower = (np.zeros(shape) for _ in range(4))
        for api in apis:
            rows = [row for row in grid.rows(api=api) if grid.names[row][0] in self.nodes]
            place = [self.nodes.index(grid.names[row][0]) for row in rows]
            requests, taken = grid["requests"][rows], grid[phase][rows]
            some = requests >= 1
            usual = median(taken[some] / requests[some]) if some.any() else 0.0
            self.requests[place] += requests
            self.taken[place] += taken
            self.expected[place] += usual * requests
            self._slower[place] += np.where(taken > _SLOWER * usual * requests, requests, 0)
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
        """Yield the spans in which a broker was slow: far slower than usual for minutes, or slower for longer."""
        for row, node in enumerate(self.nodes):
            if len(self.requests[row].nonzero()[0]) < limits.SLOW_MINUTES:
                continue
            width = self._width(row)
            means, known = self._means(row, width)
            long_means, _ = self._means(row, max(width, _LONG_MINUTES))
            usual = float(self.usual[row]) * self.mean_us
            limit = max(_floor(usual), unusual_above(means[known], limits.MAD_FACTOR))
            low = max(limits.SLOW_RELATIVE_FLOOR_US, limits.SLOW_LASTING_FACTOR * usual)
            low = min(limit, max(low, unusual_above(long_means[known], limits.MAD_FACTOR / 2)))
            expected = self.expected[row]
            own = np.divide(self.taken[row], expected, out=np.zeros_like(means), where=expected > 0) * self.mean_us
            found = self._spans(row, own, known & (means > limit), known & (long_means > low), usual)
            for begin, end in found:
                values = tuple(means[begin : end + 1].tolist())
                series = _Series(self.api, {}, set(), usual, node)
                yield _Slowness(max(values), limit, series, span_of(self.axis, (begin, end), values))

    def _means(self, row: int, width: int) -> tuple[Values, Any]:
        """Return the mean times around each minute, and where there are enough requests for one."""
        expected = rolling(self.expected[row], width)
        known = (expected > 0) & (rolling(self.requests[row], width) >= limits.SLOW_REQUESTS_A_MINUTE)
        return np.divide(rolling(self.taken[row], width), expected, out=np.zeros_like(expected), where=known) * self.mean_us, known

    def _spans(self, row: int, own: Values, slow: Any, lasting: Any, usual: float) -> list[tuple[int, int]]:
        """Return the runs of slow minutes in which nearly every minute is slower than usual: a few slow requests do not count."""
        there, slower = self.requests[row] > 0, own > _SLOWER * usual
        found = []
        for first, last in runs(slow | lasting, gap=1):
            inside = np.flatnonzero(slower[first : last + 1])
            is_lasting = lasting[first : last + 1].sum() >= limits.SLOW_LASTING_MINUTES
            if len(inside) < limits.SLOW_MINUTES or not (slow[first : last + 1].any() or is_lasting):
                continue
            run = first + int(inside[0]), first + int(inside[-1])
            if len(inside) >= _NEARLY_ALL * there[run[0] : run[1] + 1].sum():
                found.append(run)
        outside = there.copy()
        for begin, end in found:
            if end - begin + 1 >= _LONG_MINUTES:
                outside[begin : end + 1] = False
        return [run for run in found if run[1] - run[0] + 1 >= _LONG_MINUTES or self._is_clear(row, own, outside, run)]

    def _is_clear(self, row: int, own: Values, outside: Any, run: tuple[int, int]) -> bool:
        """Return whether a short run is far slower than the slowest minutes outside of it, for most of its requests."""
        inside = slice(run[0], run[1] + 1)
        elsewhere = outside.copy()
        elsewhere[inside] = False
        requests = self.requests[row, inside]
        if requests.sum() < _ROUGH or median(self._slower[row, inside] / np.maximum(requests, 1)) < _OF_REQUESTS:
            return False
        return median(own[inside]) > _noise(own[elsewhere])

    def is_scattered(self, one: _Slowness) -> bool:
        """Return whether in a short span, now one broker was slower, now another one: each time a single request took long."""
        series, own = one.series, np.divide(self.taken, self.expected, out=np.zeros_like(self.taken), where=self.expected > 0)
        if len(self.nodes) < 2 or span_minutes(one.span) >= _LONG_MINUTES or series.node is not None or series.client is not None:
            return False
        slower = (own > _SLOWER * self.usual[:, None])[:, self.axis.place(one.span.first) : self.axis.place(one.span.last) + 1]
        of_one = slower.sum(1).max(initial=0) >= max(limits.SLOW_MINUTES, slower.shape[1] / 2)
        return not of_one and median(slower.mean(0)) < _OF_BROKERS

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
                f"{slow.title.format(place=_place(slow, node, None), whose='')} all the time, "
                f"{usual / max(others, 1e-9):,.0f} times as slow as the others",
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
    clients = _by_client(grid, phase)
    requests, taken = clients["requests"], clients[phase]
    means = np.divide(taken, requests, out=np.zeros_like(taken), where=requests > 0)
    usual = np.array([median(means[row][requests[row] > 0]) for row in range(len(clients.names))])
    least = 1 if phase == "send_us" else _CLIENT_SLOTS
    for row, name in enumerate(clients.names):
        active = requests[row] > 0
        limit = max(limits.SLOW_FLOOR_US, limits.SLOW_FACTOR * usual[row], unusual_above(means[row][active], limits.MAD_FACTOR))
        slow = active & (means[row] > limit)
        slow |= _lasting(active, means[row], float(usual[row])) if phase != "send_us" else False
        if phase == "send_us" and (slow.sum() * 3 > active.sum() or usual[row] >= limits.SLOW_FLOOR_US):
            fleet = median(np.delete(usual, row)) if len(usual) > 1 else 0.0
            limit = max(_ALONE_US, _ALONE * fleet)
            slow = active & (means[row] > limit)
        for first, last in runs(slow, gap=1):
            inside = slice(first, last + 1)
            if requests[row, inside].sum() < _CLIENT_REQUESTS or slow[inside].sum() < least:
                continue
            if least > 1 and taken[row, inside].max() > _ONE_MINUTE * taken[row, inside].sum():
                continue
            span = _trimmed(grid, name, (first, last), tuple(means[row, inside].tolist()))
            yield _Slowness(max(span.values), limit, _Series(ALL, {}, set(), float(usual[row]), client=name), span)


def _lasting(active: Any, means: Values, usual: float) -> Any:
    """Return the slots of long runs in which a phase takes several times as long as usual, if not long by itself."""
    low = max(_LONG_FLOOR_US, limits.SLOW_FACTOR * usual, unusual_above(means[active], limits.MAD_FACTOR))
    marks, found = active & (means > low), np.zeros(len(means), np.bool_)
    for first, last in runs(marks, gap=1):
        inside = slice(first, last + 1)
        if last - first + 1 >= _LONG_SLOTS and marks[inside].sum() >= _NEARLY_ALL * active[inside].sum():
            found[inside] = marks[inside]
    return found


def _by_client(grid: Grid, phase: str) -> Grid:
    """Return the requests and times by client: of writes only, if other requests wait by design."""
    if phase == "remote_us":
        rows = grid.rows(api="Produce")
        names = [grid.names[row] for row in rows]
        grid = type(grid)(grid.keys, names, grid.axis, {measure: grid[measure][rows] for measure in ("requests", phase)})
    return grid.by("client_id", "principal", measures=("requests", phase))


def _trimmed(grid: Grid, name: tuple[Any, ...], run: tuple[int, int], values: tuple[float, ...]) -> Span:
    """Return the span from the first to the last request of a client in a run."""
    rows = grid.rows(client_id=name[0], principal=name[1])
    starts, ends = grid["first_us"][rows, run[0]], grid["last_us"][rows, run[1]]
    return Span(minute_of(starts[starts > 0].min()), minute_of(ends.max()), values)


def _without_place(one: _Slowness, nodes: _Nodes, persons: Grid, phase: str, found: list[_Slowness]) -> _Slowness:
    """Return a slowness of a broker as one of no broker, if it is that of slow clients, which are so elsewhere, too."""
    if one.series.node is None or len(nodes.nodes) < 2:
        return one
    around = [each for each in found if each.series.client is not None and _is_inside(one.span, each.span)]
    around = [each for each in around if nodes.place(each.span) != one.series.node]
    whose = _service_of_most(persons, phase, one.span) if around else None
    is_told = any(each.series.client is not None and _service(each.series.client) == whose for each in around)
    return one._replace(series=one.series._replace(node=None)) if is_told else one


def _is_inside(one: Span, other: Span) -> bool:
    both = (min(one.last, other.last) - max(one.first, other.first)) / MINUTE + 1
    return both >= _SAME_SPAN * ((one.last - one.first) / MINUTE + 1)


def _of_one_cause(found: list[_Slowness], nodes: _Nodes) -> list[list[_Slowness]]:
    """Group what overlaps in time. Different brokers, or clients, belong together only if their spans are much the same.

    Clients that are slow while a broker is, and nearly only then, suffer from it.
    """
    groups = grouped(
        sorted((one for one in found if one.series.node is not None), key=lambda one: one.span.first),
        lambda group, one: any(_overlap(one, other) for other in group) and all(_is_compatible(one, other) for other in group),
    )
    others = []
    for one in sorted(
        (one for one in found if one.series.node is None), key=lambda one: (one.series.client is None, one.span.first)
    ):
        suffers = next((group for group in groups if _suffers(one, group, nodes)), None)
        if suffers is None:
            others.append(one)
        else:
            suffers.append(one)

    def belongs(group: list[_Slowness], one: _Slowness) -> bool:
        return any(_overlap(one, other) for other in group) and all(_is_compatible(one, other) for other in group)

    return [*groups, *_without_parts(grouped(others, belongs))]


def _without_parts(groups: list[list[_Slowness]]) -> list[list[_Slowness]]:
    """Join the slowness of one service to that of several at the same time: it has the same cause."""
    of_many = [group for group in groups if len(_services(group)) >= _SEVERAL_SERVICES]
    kept = [*of_many]
    for group in groups:
        if group in of_many:
            continue
        span = _whole(group)
        whole = next((each for each in of_many if len(_services(group)) == 1 and _is_inside(span, _whole(each))), None)
        if whole is None:
            kept.append(group)
        else:
            whole.extend(group)
    return kept


def _services(group: list[_Slowness]) -> set[tuple[str, Any]]:
    return {_service(one.series.client) for one in group if one.series.client is not None}


def _whole(group: list[_Slowness]) -> Span:
    return Span(min(one.span.first for one in group), max(one.span.last for one in group), ())


def _suffers(one: _Slowness, group: list[_Slowness], nodes: _Nodes) -> bool:
    """Return whether a client, or all, are slow mostly while a broker is, and because of that broker."""
    on_nodes = [each for each in group if each.series.node is not None]
    first, last = min(each.span.first for each in on_nodes), max(each.span.last for each in on_nodes)
    if not _is_inside(one.span, Span(first, last, ())):
        return False
    return nodes.place(one.span) in {None, *(each.series.node for each in on_nodes)}


def _overlap(one: _Slowness, other: _Slowness) -> bool:
    return one.span.first <= other.span.last and other.span.first <= one.span.last


def _is_compatible(one: _Slowness, other: _Slowness) -> bool:
    mine, others = one.series, other.series
    of_nodes = mine.node is not None and others.node is not None and mine.node != others.node
    of_clients = mine.client is not None and others.client is not None and _service(mine.client) != _service(others.client)
    if not (of_nodes or of_clients):
        return True
    both = (min(one.span.last, other.span.last) - max(one.span.first, other.span.first)) / MINUTE + 1
    whole = (max(one.span.last, other.span.last) - min(one.span.first, other.span.first)) / MINUTE + 1
    return both >= _SAME_SPAN * whole or both >= whole - 10


def client_of(grid: Grid, phase: str, span: Span) -> tuple[Any, ...] | None:
    """Return the client that has most of the additional time that a phase took in a span; None if no client has."""
    more = _additional(grid, phase, span)
    worst = max(more, key=lambda name: more[name], default=None)
    if worst is None or len(more) < 2 or not more[worst]:
        return None
    return worst if more[worst] >= _SHARE * sum(more.values()) else None


def _service_of_most(grid: Grid, phase: str, span: Span) -> tuple[str, Any] | None:
    """Return the service that has most of the additional time that a phase took in a span; None if no service has."""
    services: dict[tuple[str, Any], float] = defaultdict(float)
    for name, more in _additional(grid, phase, span).items():
        services[_service(name)] += more
    worst = max(services, key=lambda name: services[name], default=None)
    return worst if worst is not None and services[worst] >= _SHARE * max(sum(services.values()), 1.0) else None


def _additional(grid: Grid, phase: str, span: Span) -> dict[tuple[Any, ...], float]:
    """Return by client how much longer than at other times a phase took in a span, in all; nothing if clients do not matter."""
    if phase not in _IN_CLIENTS or not grid.names:
        return {}
    clients = _by_client(grid, phase)
    first, last = grid.axis.place(span.first), grid.axis.place(span.last)
    requests, taken = clients["requests"], clients[phase]
    inside = slice(first, last + 1)
    outside_requests = requests.sum(1) - requests[:, inside].sum(1)
    outside = taken.sum(1) - taken[:, inside].sum(1)
    whole = outside.sum() / max(outside_requests.sum(), 1)
    usual = np.divide(outside, outside_requests, out=np.full(len(outside), whole), where=outside_requests > 0)
    more = np.maximum(taken[:, inside].sum(1) - usual * requests[:, inside].sum(1), 0)
    return dict(zip(clients.names, more.tolist(), strict=True))


def _is_mixture(grid: Grid, phase: str, one: _Slowness) -> bool:
    """Return whether a phase takes longer only since others send requests: each client's take as long as at other times.

    A client that has no other times is compared with the slowest of the others that call the same API.
    """
    if phase not in _IN_CLIENTS or not grid.names:
        return False
    rows = [row for row, name in enumerate(grid.names) if _is_counted(name[2], phase, one.series.api)]
    inside = slice(grid.axis.place(one.span.first), grid.axis.place(one.span.last) + 1)
    (within, without), (taken_within, taken_without) = (_parts(grid[each], inside, rows) for each in ("requests", phase))
    known = without >= _CLIENT_REQUESTS
    usual = np.divide(taken_without, without, out=np.zeros(len(rows)), where=known)
    apis = np.array([grid.names[row][2] for row in rows])
    for at in np.flatnonzero(~known & (within > 0)):
        same = known & (apis == apis[at])
        usual[at] = usual[same].max() if same.any() else taken_within[at] / within[at]
    more = np.maximum(taken_within - _LONGER * usual * within, 0).sum()
    return bool(more < _OF_MIXTURE * taken_within.sum())


def _parts(matrix: Matrix, inside: slice, rows: list[int]) -> tuple[Values, Values]:
    """Return the sums of rows inside and outside of some columns."""
    within = matrix[:, inside].sum(1)[rows]
    return within, matrix.sum(1)[rows] - within


def _is_of_few(grid: Grid, phase: str, one: _Slowness) -> bool:
    """Return whether in a short span, requests of a few clients alone took longer: some are always slow."""
    series = one.series
    if span_minutes(one.span) >= _LONG_MINUTES or series.client is not None or series.node is not None or phase not in _IN_CLIENTS:
        return False
    inside = slice(grid.axis.place(one.span.first), grid.axis.place(one.span.last) + 1)
    rows = [row for row, name in enumerate(grid.names) if _is_counted(name[2], phase, series.api)]
    (within, without), (taken_within, taken_without) = (_parts(grid[each], inside, rows) for each in ("requests", phase))
    usual = np.divide(taken_without, without, out=np.zeros(len(rows)), where=without > 0)
    slower = taken_within > _LONGER * usual * within
    return bool(within[slower].sum() < _OF_SEVERAL * within.sum())


def _is_counted(api: str, phase: str, wanted: str) -> bool:
    if phase == "remote_us":
        return api == "Produce" if wanted == ALL else api == wanted
    return wanted in (ALL, api)


def _place(slow: Slow, node: int | None, client: tuple[Any, ...] | None, brokers: int = 1) -> str:
    if slow.phase == "send_us":
        if client is not None:
            return "to a client without a client id" if client[0] is None else f"to client {client[0]}"
        return "" if node is None else f"from broker {node}"
    return f"broker {node}" if node is not None else "the broker" if brokers < 2 else "several brokers"


def _service(client: tuple[Any, ...]) -> tuple[str, Any]:
    return service_of(client[0]), client[1]


def _slowness(slow: Slow, together: list[_Slowness], nodes: _Nodes, tables: Tables) -> Finding:
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
    readers = {one.series.client for one in together if one.series.client is not None}
    client = client_of(tables.grids.persons, slow.phase, whole)
    if client is None and readers:
        client = max((one for one in together if one.series.client is not None), key=lambda one: one.weight).series.client
    several = len(readers) > (_FEW_READERS if slow.phase == "send_us" else 1)
    if several and slow.phase == "send_us":
        client = None
    whose = _whose(slow, None if several or not readers else client, len(readers))
    title = " ".join(slow.title.format(place=_place(slow, node, client, len(nodes.nodes)), whose=whose).split())
    usual = next((one.series.usual for one in on_nodes if one.series.node == node), worst.series.usual)
    conditions = [] if api == ALL else [equal(api=api)]
    conditions += [f"node = {node}"] if node is not None else []
    conditions += [equal(client_id=client[0])] if client is not None and not several else []
    return Finding(
        slow.finding,
        f"{title}, {text(first)} to {text(last)}",
        {
            "api": api if api != ALL or slow.phase != "remote_us" else "Produce",
            "also": ", ".join(others) or None,
            "node": node,
            "client_id": client[0] if client is not None and not several else None,
            "principal": client[1] if client is not None and len({each[1] for each in readers or {client}}) == 1 else None,
            "clients": f"{len(readers)}: {', '.join(sorted(str(each[0]) for each in readers)[:3])}" if several else None,
            "topic": _topic_of(tables, readers),
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


def _whose(slow: Slow, client: tuple[Any, ...] | None, count: int) -> str:
    if slow.phase == "send_us" or not count:
        return ""
    return f" of {count} clients" if client is None else f" of client {client[0]}"


def _topic_of(tables: Tables, clients: set[tuple[Any, ...]]) -> str | None:
    """Return the topic of these clients, None if there are several."""
    topics = {row["topic"] for row in tables["lineage"] if (row["client_id"], row["principal"]) in clients}
    return next(iter(topics)) if len(topics) == 1 else None


def _pauses(slow: Slow, nodes: _Nodes, persons: Grid, known: list[_Slowness]) -> Iterator[Finding]:
    """Yield brokers that stop again and again, or once for long, each time for less than the minutes of a slow phase."""
    stops: dict[Span, list[_Pauses]] = defaultdict(list)
    for row, node in enumerate(nodes.nodes or []):
        expected, taken = nodes.expected[row], nodes.taken[row]
        means = np.divide(taken, expected, out=np.zeros_like(taken), where=expected > 0) * nodes.mean_us
        usual = float(nodes.usual[row]) * nodes.mean_us
        short = [run for run in runs(means > max(_PAUSE_US, _PAUSE_FACTOR * usual)) if run[1] - run[0] + 1 < limits.SLOW_MINUTES]
        marks = np.zeros(len(means), np.bool_)
        for first, last in short:
            marks[first : last + 1] = True
        for run in runs(marks, gap=_PAUSE_GAP_MINUTES):
            inside = [each for each in short if run[0] <= each[0] <= run[1]]
            stop = _longest_stop(nodes, row, inside)
            if len(inside) < _PAUSES and stop is None:
                continue
            span = span_of(nodes.axis, run if stop is None else stop)
            is_told = any(
                one.series.node in (node, None) and _overlaps(one.span, span) for one in known if one.series.client is None
            )
            asked = _Slowness(0.0, 0.0, _Series(nodes.api, {}, set(), usual), span)
            if is_told or _is_mixture(persons, slow.phase, asked):
                continue
            worst = float(means[run[0] : run[1] + 1].max())
            stops[span].append(_Pauses(node, len(inside) if stop is None else 1, worst, usual, float(means[marks].sum())))
    for span, together in stops.items():
        yield from _paused(slow, nodes, span, together)


class _Pauses(NamedTuple):
    """Pauses of a broker: how many, and the mean time of requests in microseconds, in the worst minute and usually."""

    node: int | None
    times: int
    worst: float
    usual: float
    weight: float


def _longest_stop(nodes: _Nodes, row: int, short: list[tuple[int, int]]) -> tuple[int, int] | None:
    """Return the run in which the requests of a broker had waited for seconds, from when the first came; None without one."""
    for first, last in short:
        inside = slice(first, last + 1)
        requests = nodes.requests[row, inside].sum()
        mean_us = nodes.taken[row, inside].sum() / max(requests, 1)
        if requests >= _ROUGH and mean_us >= _STOP_US:
            return max(first - 1 - round(mean_us / 60e6), 0), last
    return None


def _paused(slow: Slow, nodes: _Nodes, span: Span, together: list[_Pauses]) -> Iterator[Finding]:
    """Yield the finding about pauses of brokers at the same time; if all of them paused, they are one finding."""
    several = len(nodes.nodes) > 1
    is_all = several and len(together) == len(nodes.nodes)
    for one in [max(together, key=lambda each: each.worst)] if is_all else together:
        place = "all brokers" if is_all else _place(slow, one.node if several else None, None)
        times = "once" if one.times == 1 else f"{one.times} times"
        where = f"node = {one.node} AND " if several and not is_all else ""
        yield Finding(
            slow.finding,
            f"{_PAUSED[slow.phase]} {place} {times}, {text(span.first)} to {text(span.last)}",
            {
                "node": None if is_all else one.node,
                "brokers": f"{len(together)}: all brokers" if is_all else None,
                "pauses": one.times,
                "minutes between them": round(span_minutes(span) / one.times, 1) if one.times > 1 else None,
                "worst minute, mean ms": round(one.worst / 1000, 1),
                "usual, ms": round(one.usual / 1000, 2),
            },
            f"{where}{slow.phase} > {round(_PAUSE_US)} AND {span.where}",
            "Look for what stops it at these moments: garbage collection, a virtual machine that waits, a disk that flushes.",
            text(span.first),
            text(span.last),
            one.weight,
            impact="all of its clients waited each time" if one.times > 1 else "all clients waited",
        )


_PAUSED = {
    "local_us": "Local processing paused in",
    "remote_us": "Requests paused for other replicas in",
    "request_queue_us": "Requests were not handled by",
    "response_queue_us": "Responses were not sent by",
    "send_us": "Sending responses paused",
}


def _overlaps(one: Span, other: Span) -> bool:
    both = (min(one.last, other.last) - max(one.first, other.first)) / MINUTE + 1
    return both > 0.5 * ((other.last - other.first) / MINUTE + 1)
