"""Slow phases of single brokers: each minute against the broker's others, and each broker against the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.findings.finding import Finding, Span, text
from twisted_kafka_spark.findings.runs import median, rolling, runs, span_of, unusual_above
from twisted_kafka_spark.findings.slow.phases import ALL, LONG_MINUTES, SHARE, Slow, Slowness, floor_us, noise_us, place_of

if TYPE_CHECKING:
    from twisted_kafka_spark.cells.grids import Grid
    from twisted_kafka_spark.findings.runs import Marks, Values

ROUGH_REQUESTS = 16
"""Requests of a broker whose mean time says something, if single requests differ much."""
_WIDTHS_MINUTES = (1, 2, 3, 5, 10)
"""The minutes around each one of which a mean is taken: as few as have enough requests."""
_FACTOR_OF_STEADY, _LEAST_BROKERS = 4, 3
_LEAST_OF_STEADY = 1000
"""A broker that is slow all the time takes this many times as long as the others, over this many requests."""
_OF_REQUESTS = 0.5
"""The share of the requests, in most minutes of a short run, of APIs that were slower: with less, single requests were."""
_OF_BROKERS = 0.5
"""The share of the brokers that are slower in most minutes of a short span in which no single one is."""
_SLOWER, _NEARLY_ALL = 2.0, 0.75
"""How many times as long as usual requests take in this share of the minutes of a slow span."""


class Brokers:
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
        for each in apis:
            rows = [row for row in grid.rows(api=each) if grid.names[row][0] in self.nodes]
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
        self.means_us = self.mean_us * np.divide(self.taken, self.expected, out=np.zeros(shape), where=self.expected > 0)
        """The mean time of a request to each broker in each minute, as if there were the usual mixture."""

    def _usual(self, row: int) -> float:
        width = self._width(row)
        expected = rolling(self.expected[row], width)
        return median(rolling(self.taken[row], width)[expected > 0] / expected[expected > 0])

    def _width(self, row: int) -> int:
        busy = median(self.requests[row][self.requests[row] > 0])
        return next((width for width in _WIDTHS_MINUTES if busy * width >= ROUGH_REQUESTS), _WIDTHS_MINUTES[-1])

    def usual_us(self, row: int) -> float:
        """Return the usual mean time of a request to a broker."""
        return float(self.usual[row]) * self.mean_us

    def slow(self) -> Iterator[Slowness]:
        """Yield the spans in which a broker was slow: far slower than usual for minutes, or slower for longer."""
        for row, node in enumerate(self.nodes):
            if len(self.requests[row].nonzero()[0]) < limits.SLOW_MINUTES:
                continue
            width, usual = self._width(row), self.usual_us(row)
            means, known = self._means(row, width)
            long_means, _ = self._means(row, max(width, LONG_MINUTES))
            limit = max(floor_us(usual), unusual_above(means[known], limits.MAD_FACTOR))
            low = max(limits.SLOW_RELATIVE_FLOOR_US, limits.SLOW_LASTING_FACTOR * usual)
            low = min(limit, max(low, unusual_above(long_means[known], limits.MAD_FACTOR / 2)))
            for begin, end in self._spans(row, known & (means > limit), known & (long_means > low)):
                values = tuple(means[begin : end + 1].tolist())
                yield Slowness(self.api, span_of(self.axis, (begin, end), values), max(values), limit, usual, node)

    def _means(self, row: int, width: int) -> tuple[Values, Marks]:
        """Return the mean times around each minute, and where there are enough requests for one."""
        expected = rolling(self.expected[row], width)
        known = (expected > 0) & (rolling(self.requests[row], width) >= limits.SLOW_REQUESTS_A_MINUTE)
        return np.divide(rolling(self.taken[row], width), expected, out=np.zeros_like(expected), where=known) * self.mean_us, known

    def _spans(self, row: int, slow: Marks, lasting: Marks) -> list[tuple[int, int]]:
        """Return the runs of slow minutes in which nearly every minute is slower than usual: a few slow requests do not count."""
        there, slower = self.requests[row] > 0, self.means_us[row] > _SLOWER * self.usual_us(row)
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
            if end - begin + 1 >= LONG_MINUTES:
                outside[begin : end + 1] = False
        return [run for run in found if run[1] - run[0] + 1 >= LONG_MINUTES or self._is_clear(row, outside, run)]

    def _is_clear(self, row: int, outside: Marks, run: tuple[int, int]) -> bool:
        """Return whether a short run is far slower than the slowest minutes outside of it, for most of its requests."""
        inside = slice(run[0], run[1] + 1)
        elsewhere = outside.copy()
        elsewhere[inside] = False
        requests, own = self.requests[row, inside], self.means_us[row]
        if requests.sum() < ROUGH_REQUESTS or median(self._slower[row, inside] / np.maximum(requests, 1)) < _OF_REQUESTS:
            return False
        return median(own[inside]) > noise_us(own[elsewhere])

    def is_scattered(self, one: Slowness) -> bool:
        """Return whether in a short span, now one broker was slower, now another one: each time a single request took long."""
        if len(self.nodes) < 2 or one.span.length_minutes >= LONG_MINUTES or one.node is not None or one.client is not None:
            return False
        inside = slice(self.axis.place(one.span.first), self.axis.place(one.span.last) + 1)
        slower = self.means_us[:, inside] > _SLOWER * self.usual[:, None] * self.mean_us
        of_one = slower.sum(1).max(initial=0) >= max(limits.SLOW_MINUTES, slower.shape[1] / 2)
        return not of_one and median(slower.mean(0)) < _OF_BROKERS

    def place(self, span: Span) -> int | None:
        """Return the broker that has most of the additional time of a span; None if no broker has, or if there is only one."""
        inside = slice(self.axis.place(span.first), self.axis.place(span.last) + 1)
        usual = self.expected[:, inside] * self.usual[:, None]
        more = np.maximum((self.taken[:, inside] - usual).sum(1), 0)
        if len(self.nodes) < 2 or not more.sum():
            return None
        worst = int(np.argmax(more))
        return self.nodes[worst] if more[worst] >= SHARE * more.sum() else None

    def steadily_slow(self, slow: Slow) -> Iterator[Finding]:
        """Yield brokers that take far longer than the others all the time."""
        if len(self.nodes) < _LEAST_BROKERS:
            return
        for row, node in enumerate(self.nodes):
            others = median(np.delete(self.usual, row))
            factor, usual = float(self.usual[row]), self.usual_us(row)
            is_slow = factor >= _FACTOR_OF_STEADY * others and usual >= limits.SLOW_RELATIVE_FLOOR_US
            if not is_slow or self.requests[row].sum() < _LEAST_OF_STEADY:
                continue
            busy = np.flatnonzero(self.requests[row])
            span = span_of(self.axis, (int(busy[0]), int(busy[-1])))
            yield Finding(
                slow.finding,
                f"{slow.title.format(place=place_of(slow, node), whose='')} all the time, "
                f"{factor / max(others, 1e-9):,.0f} times as slow as the others",
                {
                    "node": node,
                    "mean ms": round(usual / 1000, 2),
                    "other brokers, ms": round(others * self.mean_us / 1000, 2),
                    "brokers": len(self.nodes),
                },
                f"node = {node}",
                slow.advice,
                text(span.first),
                text(span.last),
                usual * span.length_minutes,
            )
