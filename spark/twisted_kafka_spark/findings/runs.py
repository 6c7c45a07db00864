"""Runs of unusual intervals in a series of numbers."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from twisted_kafka_spark.findings.finding import MINUTE, Span

if TYPE_CHECKING:
    from twisted_kafka_spark.cells.grids import Axis

    Values = np.ndarray[Any, np.dtype[np.float64]]
    Marks = np.ndarray[Any, np.dtype[np.bool_]]

_WINDOW, _MOST_OF_THE_TIME, _BEYOND, _LEAST_BEYOND = 6, 0.75, 2.0, 0.08
"""The intervals of a window, and how much they are beyond others: as a factor of how far these are from the usual most of the
time, and as a part of the change."""
_EDGE, _ABRUPT = 6, 0.4
"""Intervals before and after an end of a part, and the part of the change that takes place between them."""
_AS_LONG, _LAST_INTERVALS = 0.75, 3
"""What part of its absence at the end a subject with hours of its own was away at the beginning; the last intervals, in which it
may come back."""
HARDLY = 0.1
"""What part of its usual number a subject does, at most, if it is hardly there."""
Run = tuple[int, int]
"""The first and the last interval."""


def runs(marks: Marks, gap: int = 0) -> list[Run]:
    """Return the runs of marked intervals; runs with at most `gap` unmarked ones between them are one."""
    found: list[Run] = []
    for at in np.flatnonzero(marks).tolist():
        if found and at - found[-1][1] <= gap + 1:
            found[-1] = (found[-1][0], at)
        else:
            found.append((at, at))
    return found


def median(values: Values) -> float:
    """Return the median, 0 of nothing: for the short series here five times as fast as that of numpy."""
    ordered, count = np.sort(values), len(values)
    return float(ordered[(count - 1) // 2] + ordered[count // 2]) / 2 if count else 0.0


def most_apart(values: Values, least: int, rest: int, begin: int, only_more: bool = False) -> Run | None:
    """Return the first and the last place of the part whose mean differs most from that of the rest, measured by their noise.

    The part has at least `least` values, begins at `begin` or later, and leaves at least `rest` values. None if there is no such
    part: all values are equal, or no part has more, if `only_more` is wanted.
    """
    count = len(values)
    if count < max(least + rest, 1):
        return None
    sums = np.concatenate(([0.0], np.cumsum(values - values.mean())))
    sizes = np.arange(-count, count + 1)
    is_part = (sizes >= least) & (count - sizes >= rest)
    weights = np.zeros(len(sizes))
    weights[is_part] = 1 / np.sqrt(sizes[is_part] * (count - sizes[is_part]))
    # A row for each place where a part may begin, a column for each where it may end; the weights of a diagonal are the same.
    of_sizes = np.lib.stride_tricks.sliding_window_view(weights, count + 1)[count - begin :: -1]
    apart = sums[None, :] - sums[begin:, None]
    apart = (apart if only_more else np.abs(apart)) * of_sizes
    best = int(np.argmax(apart))
    first, stop = divmod(best, count + 1)
    return (first + begin, stop - 1) if apart[first, stop] > 0 else None


def unusual_above(values: Values, factor: float) -> float:
    """Return the median plus `factor` median absolute deviations, each of which counts as at least a twentieth of the median."""
    middle = median(values)
    return middle + factor * max(median(np.abs(values - middle)), middle / 20)


def rolling(values: Values, width: int) -> Values:
    """Return the sum of the `width` intervals around each one."""
    if width == 1 or not len(values):
        return values
    before = (width - 1) // 2
    padded = np.concatenate((np.zeros(before + 1), values, np.zeros(width - 1 - before)))
    sums = np.cumsum(padded)
    found: Values = sums[width:] - sums[:-width]
    return found


def widened(values: Values, run: Run, least: int = 0) -> Run:
    """Return a run with the intervals around it in which values, on average over a window, are still beyond all others.

    What changes slowly is unlike itself long before it is so by much. The intervals before `least` are left out.
    """
    inside = np.zeros(len(values), np.bool_)
    inside[run[0] : run[1] + 1] = True
    outside = np.flatnonzero(~inside)
    outside = outside[outside >= least]
    if len(outside) < 2 * _WINDOW:
        return run
    base, middle = median(values[outside]), median(values[inside])
    steady = rolling(values, _WINDOW) / _WINDOW
    noise = float(np.quantile(np.abs(steady[outside] - base), _MOST_OF_THE_TIME))
    limit = max(_BEYOND * noise, _LEAST_BEYOND * abs(middle - base))
    up = 1.0 if middle > base else -1.0
    first, last = run
    while first - _WINDOW >= least and up * (values[first - _WINDOW : first].mean() - base) > limit:
        first -= 1
    while last + _WINDOW < len(values) and up * (values[last + 1 : last + 1 + _WINDOW].mean() - base) > limit:
        last += 1
    return first, last


def has_its_hours(begin: int, away: Run, count: int) -> bool:
    """Return whether a subject that came at an interval is away until the end, for about as long as it was before it came."""
    return away[1] + _LAST_INTERVALS >= count and begin >= _AS_LONG * (away[1] - away[0])


def is_abrupt(values: Values, part: Run, change: float) -> bool:
    """Return whether a good part of a change takes place within an hour, at an end of a part: the time of day changes slowly."""

    def step(at: int) -> float:
        before, after = values[max(at - _EDGE, 0) : at], values[at : at + _EDGE]
        return float(abs(after.mean() - before.mean())) if len(before) and len(after) else 0.0

    return max(step(part[0]), step(part[1] + 1)) >= _ABRUPT * abs(change)


def span_of(axis: Axis, run: Run, values: tuple[float, ...] = ()) -> Span:
    """Return a run of intervals as a span of minutes."""
    last = axis.moment(run[1] + 1) - MINUTE
    return Span(axis.moment(run[0]), last, values)


def minute_of(microseconds: float) -> datetime.datetime:
    """Return the minute of a time in microseconds since 1970."""
    return datetime.datetime.fromtimestamp(int(microseconds) // 60_000_000 * 60, datetime.UTC)
