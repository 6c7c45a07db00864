"""Cells over time as matrices: a row for each name, a column for each interval.

Detectors compare a name with its own past and with the others. With a Python object for each cell that would take longer than the
rest of a report.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twisted_kafka_spark import without_pandas  # noqa: F401 - for the side effect of the import
from twisted_kafka_spark.cells import bounds
from twisted_kafka_spark.cells.kinds import CLIENT, HOUR_S, KINDS, MEASURES, MINUTE_S, SLOT_S, TIME

if TYPE_CHECKING:
    Numbers = np.ndarray[Any, np.dtype[np.int64]]
    Matrix = np.ndarray[Any, np.dtype[np.float64]]

Name = tuple[Any, ...]
MOST_ROWS = 4000
"""Names of a grid: those with the most requests."""
_MICROSECOND = 1_000_000
_ADDED = {measure.name: measure.merge for measure in MEASURES}
_FAILURE = (*CLIENT, "node", "api", "error", "topic", "group_id", "note")


@dataclass(frozen=True, slots=True)
class Axis:
    """The intervals of a grid."""

    first_s: int = 0
    step_s: int = MINUTE_S
    length: int = 0

    @classmethod
    def of(cls, period: tuple[datetime.datetime, datetime.datetime] | None, step_s: int) -> Axis:
        """Return the intervals from the first to the last minute of a period, with it."""
        if period is None:
            return cls(step_s=step_s)
        first, last = (int(end.timestamp()) // step_s for end in period)
        return cls(first * step_s, step_s, min(last - first + 1, _MOST_COLUMNS))

    def places(self, table: pa.Table) -> Numbers:
        """Return the interval of each cell: negative, or at least `length`, outside of the period."""
        seconds = pc.divide(pc.cast(table[TIME.name], pa.int64()), _MICROSECOND).to_numpy()
        found: Numbers = seconds // self.step_s - self.first_s // self.step_s
        return found

    def moment(self, place: int) -> datetime.datetime:
        """Return the beginning of an interval."""
        return datetime.datetime.fromtimestamp(self.first_s + place * self.step_s, datetime.UTC)

    def place(self, moment: datetime.datetime) -> int:
        """Return the interval of a time."""
        return (int(moment.timestamp()) - self.first_s) // self.step_s


_MOST_COLUMNS = 3 * 24 * 60


@dataclass(slots=True)
class Grid:
    """Measures by name and interval. Where a name did nothing, sums and maxima are 0, and so are minima."""

    keys: tuple[str, ...]
    names: list[Name]
    axis: Axis
    values: dict[str, Matrix] = field(default_factory=dict)
    _indexes: dict[tuple[str, ...], dict[Name, list[int]]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, kind: str, cells: pa.Table, keys: Sequence[str], axis: Axis) -> Grid:
        """Sum the cells of a kind by these keys; cells without a name are left out.

        Names are in order, whatever the order of the cells is: of equals, a finding is about the same one each time.
        """
        cells = cells.filter(pc.is_null(cells[bounds.OTHERS]))
        places = axis.places(cells)
        inside = (places >= 0) & (places < axis.length)
        if not inside.all():
            cells, places = cells.filter(pa.array(inside)), places[inside]
        if not len(cells):
            return cls(tuple(keys), [], axis, {name: np.zeros((0, axis.length)) for name in KINDS[kind].measures})
        first, row = bounds.numbered(cells, keys)
        found = cells.select(list(keys)).take(pa.array(first))
        order = pc.sort_indices(found, sort_keys=[(key, "ascending") for key in keys]).to_numpy()
        first, row = first[order], np.argsort(order)[row]
        names = list(zip(*(cells[key].take(pa.array(first)).to_pylist() for key in keys), strict=True))
        if len(names) > MOST_ROWS:
            names, row, cells, places = _busiest(names, row, cells, places)
        at, size = row * axis.length + places, len(names) * axis.length
        grid = cls(tuple(keys), names, axis)
        for name in KINDS[kind].measures:
            grid.values[name] = _merged(_ADDED[name], at, size, pc.fill_null(cells[name], 0).to_numpy()).reshape(-1, axis.length)
        return grid

    def __getitem__(self, measure: str) -> Matrix:
        return self.values[measure]

    def rows(self, **keys: Any) -> list[int]:
        """Return the rows whose names have these values."""
        if tuple(keys) not in self._indexes:
            places, index = [self.keys.index(key) for key in keys], dict[Name, list[int]]()
            for row, name in enumerate(self.names):
                index.setdefault(tuple(name[at] for at in places), []).append(row)
            self._indexes[tuple(keys)] = index
        return list(self._indexes[tuple(keys)].get(tuple(keys.values()), ()))

    def by(self, *keys: str, measures: Sequence[str] = ("requests",)) -> Grid:
        """Return the sums of some measures over the other keys."""
        places = [self.keys.index(key) for key in keys]
        numbers: dict[Name, int] = {}
        rows = [numbers.setdefault(tuple(name[at] for at in places), len(numbers)) for name in self.names]
        summed = Grid(keys, list(numbers), self.axis)
        for measure in measures:
            summed.values[measure] = np.zeros((len(numbers), self.axis.length))
            for row, values in zip(rows, self.values[measure], strict=True):
                summed.values[measure][row] += values
        return summed

    def of_rows(self, rows: Sequence[int], measures: Sequence[str]) -> Grid:
        """Return some rows with some measures."""
        return Grid(self.keys, [self.names[row] for row in rows], self.axis, {each: self.values[each][rows] for each in measures})


def _busiest(names: list[Name], row: Numbers, cells: pa.Table, places: Numbers) -> tuple[list[Name], Numbers, pa.Table, Numbers]:
    requests = np.bincount(row, weights=cells["requests"].to_numpy(), minlength=len(names))
    kept = np.sort(np.argsort(-requests, kind="stable")[:MOST_ROWS])
    new = np.full(len(names), -1, np.int64)
    new[kept] = np.arange(len(kept))
    wanted = new[row] >= 0
    return [names[at] for at in kept.tolist()], new[row][wanted], cells.filter(pa.array(wanted)), places[wanted]


def _merged(how: str, at: Numbers, size: int, values: Numbers) -> Matrix:
    if how == "sum":
        return np.bincount(at, weights=values, minlength=size).astype(np.float64)
    found = np.zeros(size)
    if how == "max":
        np.maximum.at(found, at, values)
        return found
    known = values > 0
    found[at[known]] = np.inf
    np.minimum.at(found, at[known], values[known])
    return found


@dataclass(slots=True)
class Failures:
    """Failed requests by minute, and by all that is known of them; columns of equal length."""

    axis: Axis
    minute: Numbers
    requests: Numbers
    codes: dict[str, Numbers]
    texts: dict[str, list[Any]]

    @classmethod
    def of(cls, cells: pa.Table, axis: Axis) -> Failures:
        """Take cells of kind `failures`."""
        places = axis.places(cells)
        inside = (places >= 0) & (places < axis.length)
        cells = cells.filter(pa.array(inside))
        codes, texts = {}, {}
        for key in _FAILURE:
            encoded = cells[key].combine_chunks().dictionary_encode(null_encoding="encode")
            codes[key], texts[key] = encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()
        return cls(axis, places[inside], pc.fill_null(cells["requests"], 0).to_numpy(), codes, texts)

    def chosen(self, wanted: np.ndarray[Any, np.dtype[np.bool_]]) -> Failures:
        """Return the selected rows."""
        codes = {key: each[wanted] for key, each in self.codes.items()}
        return Failures(self.axis, self.minute[wanted], self.requests[wanted], codes, self.texts)

    def where(self, key: str, *values: Any) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return in which rows a key has one of these values."""
        wanted = np.array([text in values for text in self.texts[key]], np.bool_)
        found: np.ndarray[Any, np.dtype[np.bool_]] = (
            wanted[self.codes[key]] if len(wanted) else np.zeros(len(self.minute), np.bool_)
        )
        return found

    def top(self, *keys: str) -> list[tuple[Name, int]]:
        """Return the values of keys with their numbers of requests, the most first."""
        counts: dict[Name, int] = {}
        columns = [[self.texts[key][code] for code in self.codes[key].tolist()] for key in keys]
        for name, count in zip(zip(*columns, strict=True), self.requests.tolist(), strict=True):
            counts[name] = counts.get(name, 0) + count
        return sorted(counts.items(), key=lambda each: (-each[1], str(each[0])))

    def per_minute(self) -> Matrix:
        """Return the number of failed requests in each minute."""
        return np.bincount(self.minute, weights=self.requests, minlength=self.axis.length).astype(np.float64)


@dataclass(slots=True)
class Grids:
    """All matrices of a period that is short enough to be searched by minute; empty otherwise."""

    nodes: Grid
    persons: Grid
    groups: Grid
    connections: Grid
    routes: Grid
    failures: Failures

    @classmethod
    def of(cls, kinds: dict[str, pa.Table], period: tuple[datetime.datetime, datetime.datetime] | None) -> Grids:
        """Make the matrices from cells by kind."""
        minutes, slots, hours = (Axis.of(period, step_s) for step_s in (MINUTE_S, SLOT_S, HOUR_S))
        persons = Grid.of("persons", kinds["persons"], (*CLIENT, "api"), slots)
        return cls(
            nodes=Grid.of("nodes", kinds["nodes"], ("node", "api"), minutes),
            persons=persons,
            groups=Grid.of("groups", kinds["groups"], ("group_id", *CLIENT, "api"), minutes),
            connections=_without_logins(Grid.of("new_connections", kinds["new_connections"], CLIENT, slots), persons),
            routes=Grid.of("routes", kinds["routes"], ("node", *CLIENT, "api"), hours),
            failures=Failures.of(kinds["failures"], minutes),
        )


def _without_logins(connections: Grid, persons: Grid) -> Grid:
    """Return connections without logins on open ones (KIP-368), which look the same, but do not ask for versions."""
    asked = {name[:2]: row for row, name in enumerate(persons.names) if name[2] == "ApiVersions"}
    for row, name in enumerate(connections.names):
        if name in asked:
            np.minimum(connections["requests"][row], persons["requests"][asked[name]], out=connections["requests"][row])
    return connections
