"""Slow phases of single clients, and whether a phase is slow because of what clients do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.findings.finding import Span
from twisted_kafka_spark.findings.names import service_and_account
from twisted_kafka_spark.findings.runs import Run, median, minute_of, runs, unusual_above
from twisted_kafka_spark.findings.slow.phases import ALL, LONG_MINUTES, OF_CLIENTS, SHARE, Slowness

if TYPE_CHECKING:
    from twisted_kafka_spark.cells.grids import Grid
    from twisted_kafka_spark.findings.runs import Marks, Values

_ALONE = 20.0
"""How many times as long as for other clients responses take to a client that is only there while they do."""
_ALONE_US = 50_000.0
_CLIENT_REQUESTS = 8
"""Requests of a client in a slow run."""
_CLIENT_SLOTS = 3
"""Slots of five minutes in which the broker or the replicas are slow for a client: one request that takes long is not enough."""
_LONG_SLOTS, _LONG_FLOOR_US = 6, 2_000.0
"""Slots in which what takes less than 10 ms is slow, too, and how long it takes then."""
_NEARLY_ALL = 0.75
"""The share of a client's slots in a long run that are slow."""
_ONE_SLOT = 0.7
"""The share of the additional time that one slot of several may have: with more, a single request took long."""
_OF_SEVERAL = 0.3
"""The share of the requests of a short span that are of clients whose requests took longer: with less, a few of them did."""
_LONGER, _OF_MIXTURE = 1.5, 0.25
"""How many times as long as at other times a client's requests take, and the part of all time that is beyond that, if a phase is
slow and not only asked for by others."""


class Clients:
    """The times that a phase took for each client, if it may be slow because of one: of writes only, if others wait by design."""

    def __init__(self, grid: Grid, phase: str) -> None:
        self._grid, self._phase = grid, phase
        self._are_concerned = phase in OF_CLIENTS and bool(grid.names)
        measures = ("requests", phase) if self._are_concerned else ()
        counted = grid.of_rows(grid.rows(api="Produce"), measures) if phase == "remote_us" else grid
        self._by_client = counted.by("client_id", "principal", measures=measures)

    def slow(self) -> Iterator[Slowness]:
        """Yield the spans in which the phase took far longer for a client than it usually does, or than for the other clients."""
        if not self._are_concerned:
            return
        requests, taken = self._by_client["requests"], self._by_client[self._phase]
        means = np.divide(taken, requests, out=np.zeros_like(taken), where=requests > 0)
        usual = np.array([median(means[row][requests[row] > 0]) for row in range(len(requests))])
        is_sending = self._phase == "send_us"
        for row, name in enumerate(self._by_client.names):
            fleet = median(np.delete(usual, row)) if is_sending and len(usual) > 1 else 0.0
            slow, limit = _slow_slots(requests[row] > 0, means[row], float(usual[row]), fleet if is_sending else None)
            for first, last in runs(slow, gap=1):
                inside = slice(first, last + 1)
                if requests[row, inside].sum() < _CLIENT_REQUESTS or slow[inside].sum() < (1 if is_sending else _CLIENT_SLOTS):
                    continue
                if not is_sending and taken[row, inside].max() > _ONE_SLOT * taken[row, inside].sum():
                    continue
                span = self._trimmed(name, (first, last), tuple(means[row, inside].tolist()))
                yield Slowness(ALL, span, max(span.values), limit, float(usual[row]), client=name)

    def _trimmed(self, name: tuple[Any, ...], run: Run, values: tuple[float, ...]) -> Span:
        """Return the span from the first to the last request of a client in a run."""
        rows = self._grid.rows(client_id=name[0], principal=name[1])
        starts, ends = self._grid["first_us"][rows, run[0]], self._grid["last_us"][rows, run[1]]
        return Span(minute_of(starts[starts > 0].min()), minute_of(ends.max()), values)

    def behind(self, span: Span) -> tuple[Any, ...] | None:
        """Return the client that has most of the additional time that the phase took in a span; None if no client has."""
        more = self._additional_us(span)
        worst = max(more, key=lambda name: more[name], default=None)
        if worst is None or len(more) < 2 or not more[worst]:
            return None
        return worst if more[worst] >= SHARE * sum(more.values()) else None

    def service_behind(self, span: Span) -> tuple[str, Any] | None:
        """Return the service that has most of the additional time that the phase took in a span; None if no service has."""
        services: dict[tuple[str, Any], float] = defaultdict(float)
        for name, more in self._additional_us(span).items():
            services[service_and_account(name)] += more
        worst = max(services, key=lambda name: services[name], default=None)
        return worst if worst is not None and services[worst] >= SHARE * max(sum(services.values()), 1.0) else None

    def _additional_us(self, span: Span) -> dict[tuple[Any, ...], float]:
        """Return by client how much longer than at other times the phase took in a span; nothing if clients do not matter."""
        if not self._are_concerned:
            return {}
        requests, taken = (_Parts.of(self._by_client, each, span) for each in ("requests", self._phase))
        whole = taken.outside.sum() / max(requests.outside.sum(), 1)
        usual = np.divide(taken.outside, requests.outside, out=np.full(len(taken.outside), whole), where=requests.outside > 0)
        more = np.maximum(taken.inside - usual * requests.inside, 0)
        return dict(zip(self._by_client.names, more.tolist(), strict=True))

    def are_mixed(self, one: Slowness) -> bool:
        """Return whether the phase takes longer only since others send requests: each client's take as long as at other times.

        A client that has no other times is compared with the slowest of the others that call the same API.
        """
        if one.client is not None or not self._are_concerned:
            return False
        rows = self._counted(one.api)
        requests, taken = (_Parts.of(self._grid, each, one.span, rows) for each in ("requests", self._phase))
        known = requests.outside >= _CLIENT_REQUESTS
        usual = np.divide(taken.outside, requests.outside, out=np.zeros(len(rows)), where=known)
        apis = np.array([self._grid.names[row][2] for row in rows])
        for at in np.flatnonzero(~known & (requests.inside > 0)):
            same = known & (apis == apis[at])
            usual[at] = usual[same].max() if same.any() else taken.inside[at] / requests.inside[at]
        more = np.maximum(taken.inside - _LONGER * usual * requests.inside, 0).sum()
        return bool(more < _OF_MIXTURE * taken.inside.sum())

    def are_few(self, one: Slowness) -> bool:
        """Return whether in a short span, requests of a few clients alone took longer: some are always slow."""
        if one.span.length_minutes >= LONG_MINUTES or one.client is not None or one.node is not None or not self._are_concerned:
            return False
        rows = self._counted(one.api)
        requests, taken = (_Parts.of(self._grid, each, one.span, rows) for each in ("requests", self._phase))
        usual = np.divide(taken.outside, requests.outside, out=np.zeros(len(rows)), where=requests.outside > 0)
        slower = taken.inside > _LONGER * usual * requests.inside
        return bool(requests.inside[slower].sum() < _OF_SEVERAL * requests.inside.sum())

    def _counted(self, wanted: str) -> list[int]:
        """Return the rows of an API; of writes, if all APIs are wanted and others wait by design."""
        api = "Produce" if self._phase == "remote_us" and wanted == ALL else wanted
        return [row for row, name in enumerate(self._grid.names) if api in (ALL, name[2])]


class _Parts(NamedTuple):
    """The sums of a measure in some rows, inside and outside of a span."""

    inside: Values
    outside: Values

    @classmethod
    def of(cls, grid: Grid, measure: str, span: Span, rows: list[int] | None = None) -> _Parts:
        matrix = grid[measure] if rows is None else grid[measure][rows]
        inside = matrix[:, grid.axis.place(span.first) : grid.axis.place(span.last) + 1].sum(1)
        return cls(inside, matrix.sum(1) - inside)


def _slow_slots(active: Marks, means: Values, usual: float, fleet: float | None) -> tuple[Marks, float]:
    """Return the slots in which a phase is slow for a client, and the limit above which it is.

    `fleet`: what sending usually takes to the other clients, with which a client is compared that often reads slowly; None for
    other phases.
    """
    limit = max(limits.SLOW_FLOOR_US, limits.SLOW_FACTOR * usual, unusual_above(means[active], limits.MAD_FACTOR))
    slow = active & (means > limit)
    if fleet is None:
        return slow | _lasting(active, means, usual), limit
    if slow.sum() * 3 > active.sum() or usual >= limits.SLOW_FLOOR_US:
        limit = max(_ALONE_US, _ALONE * fleet)
        slow = active & (means > limit)
    return slow, limit


def _lasting(active: Marks, means: Values, usual: float) -> Marks:
    """Return the slots of long runs in which a phase takes several times as long as usual, if not long by itself."""
    low = max(_LONG_FLOOR_US, limits.SLOW_FACTOR * usual, unusual_above(means[active], limits.MAD_FACTOR))
    marks, found = active & (means > low), np.zeros(len(means), np.bool_)
    for first, last in runs(marks, gap=1):
        inside = slice(first, last + 1)
        if last - first + 1 >= _LONG_SLOTS and marks[inside].sum() >= _NEARLY_ALL * active[inside].sum():
            found[inside] = marks[inside]
    return found
