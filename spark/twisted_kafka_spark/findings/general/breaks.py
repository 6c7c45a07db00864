"""Where a series is unlike itself: the part of it that differs most from the rest, if it does so clearly and matters."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.findings.runs import HARDLY, has_its_hours, is_abrupt, median, most_apart, runs, widened

if TYPE_CHECKING:
    from twisted_kafka_spark.findings.general.series import Series
    from twisted_kafka_spark.findings.runs import Marks, Values

SLOTS = 3
"""Intervals of a block: parts are looked for in blocks, and then made exact."""
_LONG_SLOTS = 12
"""Intervals of a block for rare events."""
_LEAST_BLOCKS, _STANDARD_BLOCKS = 2, 4
"""The blocks of a part in which a mean is unlike itself, and of the rest of the series, at least. A number needs one block, if it
changes twice as much."""
_INSIDE, _OUTSIDE = 0.75, 0.9
"""The shares of the blocks inside and outside of a part that are on its side of the middle."""
_BEYOND_NOISE, _BEYOND_CHANCE = 4.0, 5.0
"""How many deviations of the other blocks, and of requests at random times, a change has at least."""
_SLOWER, _SLOW_INTERVALS, _ONE_INTERVAL, _LEAST_US = 2.0, 4, 0.6, 2_000_000.0
"""How many times as long as usual requests take in most intervals of a part that is slow, and in how many; the share of the
additional time that one of them may have, and that time in all."""
_LEAST_IDLE = 18
"""The intervals in which something comes in bursts."""
_OF_JOBS = ("Fetch", "ShareFetch")
"""APIs that a program may begin to call at its time, as a job does that reads what came during the day."""
_KNOWN_SLOTS = 12
"""Intervals after which something else that a client does is new."""
_ALIVE = 0.25
"""The share of the intervals in which a process that does less than the others does anything."""
_SELDOM = 0.3
"""The share of the intervals in which somebody is there that comes and goes, such as a developer's program."""
_FOLLOWS = 0.8
"""How much less a series varies, compared to the load of the others, if it follows that."""
_LEAST_REQUESTS = 3
"""Requests of a block whose mean says something."""
_OF_A_MEAN = 1 / 3
"""The part of `CHANGED_REQUESTS_FLOOR` that a part has at least if its mean, or its number of bytes, is unlike the others."""


class Break(NamedTuple):
    """A part of a series, in intervals, and the values outside and inside of it: a mean, a share, or a number for an interval."""

    first: int
    last: int
    before: float
    after: float
    weight: float
    """How many requests are concerned."""
    is_relative: bool = False
    """Whether `before` is what the load of the others lets expect inside."""

    @property
    def is_up(self) -> bool:
        """Whether there is more inside."""
        return self.after > self.before

    @property
    def log_factor(self) -> float:
        """The logarithm of the factor of the change, negative if it is a fall."""
        return float(np.log(max(self.after, 1e-9) / max(self.before, 1e-9)))


def breaks(series: Series) -> list[Break]:
    """Return the part of a series in which it is unlike itself, and another one outside of it."""
    if not _may_matter(series):
        return []
    found = _found_in(_Blocks(series, SLOTS))
    # Rare events, such as everybody's connections each hour, are in few of the short blocks.
    return found if found or series.measure.name != "connections" else _found_in(_Blocks(series, _LONG_SLOTS))


def _found_in(blocks: _Blocks) -> list[Break]:
    found: list[Break] = []
    for _ in range(2):
        part = blocks.part()
        if part is None:
            break
        one = blocks.made_exact(part)
        if one is not None:
            found.append(one)
        blocks.leave_out(part)
    return found


class _Blocks:
    """A series in blocks of intervals, as logarithms or as shares."""

    def __init__(self, series: Series, slots: int) -> None:
        self._series, self._slots = series, slots
        self._floor = series.measure.floor if series.measure.is_mean else series.measure.floor * SLOTS / slots
        self._load = np.ones(len(series.sums))
        count = len(series.sums) // slots  # the last block may not be over
        self._requests = series.requests[: count * slots].reshape(-1, slots).sum(1)
        self._sums = series.sums[: count * slots].reshape(-1, slots).sum(1)
        places = np.arange(count)
        there = places * slots >= series.begins
        self._known = there if not series.measure.is_mean else there & (self._requests >= _LEAST_REQUESTS)
        self._values = self._of(self._sums, self._requests, self._slots)
        if series.load is not None:
            self._follow(series.load)

    def _follow(self, load: Values) -> None:
        """Compare with the load of the others if the series follows it: the rest varies less, then."""
        blocks = load[: len(self._sums) * self._slots].reshape(-1, self._slots).mean(1)
        relative = self._of(self._sums / blocks, self._requests, self._slots)
        if _spread(relative[self._known]) < _FOLLOWS * _spread(self._values[self._known]):
            self._values, self._load = relative, load

    def _of(self, sums: Values, requests: Values, slots: int) -> Values:
        """Return the values that are compared: shares as they are, everything else as a logarithm that a floor makes steady."""
        measure = self._series.measure
        if not measure.is_mean:
            return np.log(sums / slots + self._floor / 2)
        means = np.divide(sums, requests, out=np.zeros_like(sums), where=requests > 0)
        return means if measure.is_share else np.log(means + measure.floor / 10)

    def leave_out(self, part: tuple[int, int]) -> None:
        """Leave a part and its neighbours out of the search."""
        self._known = self._known.copy()
        self._known[max(part[0] - 1, 0) : part[1] + 2] = False

    def part(self) -> tuple[int, int] | None:
        """Return the first and the last block of the part that differs most, if it does so enough."""
        places = np.flatnonzero(self._known)
        values = self._values[places]
        wanted = self._wanted()
        if len(values) < _LEAST_BLOCKS + _STANDARD_BLOCKS or np.ptp(values) < wanted:
            return None
        measure = self._series.measure
        least, begin = _LEAST_BLOCKS if measure.is_mean else 1, 0 if measure.may_begin else _LEAST_BLOCKS
        run = most_apart(values, least, _STANDARD_BLOCKS, begin, only_more=measure.may_begin)
        if run is None:
            return None
        first, last = run
        marks = np.zeros(len(values), np.bool_)
        marks[first : last + 1] = True
        return (int(places[first]), int(places[last])) if _is_clear(values, marks, wanted * (1 if last > first else 2)) else None

    def _wanted(self) -> float:
        measure = self._series.measure
        if measure.is_share:
            return measure.floor
        is_size = measure.is_mean and measure.unit != "ms"
        return float(np.log(limits.CHANGED_SIZE if is_size else limits.UNLIKE_ITSELF))

    def made_exact(self, part: tuple[int, int]) -> Break | None:
        """Return a part with its begin and end to the interval; None if it does not matter."""
        series, sums = self._series, self._series.sums
        first, last = part[0] * self._slots, min((part[1] + 1) * self._slots, len(sums)) - 1
        within, without = median(self._values[part[0] : part[1] + 1]), self._outside(part)
        values = self._of(sums / self._load, series.requests, 1)
        above = values > (within + without) / 2
        if self._slots == SLOTS:
            first, last = _moved(above if within > without else ~above, first, last)
        elif within > without:
            active = np.flatnonzero(sums[first : last + 1])
            first, last = first + int(active[0]), first + int(active[-1])
        if not series.measure.is_mean and series.measure.name != "connections":
            if not is_abrupt(self._of(sums, series.requests, 1), (first, last), within - without):
                return None
            first, last = widened(values, (first, last), series.begins)
        inside = np.zeros(len(sums), np.bool_)
        inside[first : last + 1] = True
        outside = ~inside
        outside[: series.begins] = False
        is_relative = series.load is not None and self._load is series.load
        before = _mean(series, outside) if not is_relative else _expected(series.sums, self._load, inside, outside)
        found = Break(first, last, before, _mean(series, inside), float(series.requests[inside].sum()), is_relative)
        return found if _matters(series, found, self._floor, inside, outside) and not _comes_or_goes(series, found) else None

    def _outside(self, part: tuple[int, int]) -> float:
        known = self._known.copy()
        known[part[0] : part[1] + 1] = False
        return median(self._values[known])


def _spread(values: Values) -> float:
    return median(np.abs(values - median(values)))


def _expected(sums: Values, load: Values, inside: Marks, outside: Marks) -> float:
    """Return what an interval inside has on average if the series has as much of the load as outside."""
    return float((sums[outside] / load[outside]).mean() * load[inside].mean()) if outside.any() else 0.0


def _moved(beyond: Marks, first: int, last: int) -> tuple[int, int]:
    """Move the ends of a part by a block at most, to where the values cross the middle."""
    low, high = max(first - SLOTS, 0), min(last + SLOTS, len(beyond) - 1)
    begins = [at for at in range(low, min(first + SLOTS, last) + 1) if beyond[at] and beyond[at : at + SLOTS].mean() > 0.5]
    ends = [
        at for at in range(high, max(last - SLOTS, first) - 1, -1) if beyond[at] and beyond[at - SLOTS + 1 : at + 1].mean() > 0.5
    ]
    if begins and ends and begins[0] <= ends[0]:
        return begins[0], ends[0]
    inside = np.flatnonzero(beyond[low : high + 1])
    return (low + int(inside[0]), low + int(inside[-1])) if len(inside) else (first, last)


def _is_clear(values: Values, marks: Marks, wanted: float) -> bool:
    within, without = median(values[marks]), median(values[~marks])
    noise = 1.5 * median(np.abs(values[~marks] - without))
    if abs(within - without) < max(wanted, _BEYOND_NOISE * noise):
        return False
    above = values > (within + without) / 2
    beyond = above if within > without else ~above
    return bool(beyond[marks].mean() >= _INSIDE and 1 - beyond[~marks].mean() >= _OUTSIDE)


def _mean(series: Series, where: Marks) -> float:
    if not series.measure.is_mean:
        return float(series.sums[where].mean()) if where.any() else 0.0
    return float(series.sums[where].sum() / max(series.requests[where].sum(), 1))


def _may_matter(series: Series) -> bool:
    """Return False of a series of which no part can matter, whichever it is: most series of a day have too few requests."""
    measure, whole = series.measure, series.sums.sum()
    if measure.is_share:
        return bool(whole >= (measure.floor * _LEAST_IDLE if measure.name == "idle" else limits.FAILURES_FLOOR))
    if not measure.is_mean:
        return True
    return bool(
        series.requests.sum() >= _OF_A_MEAN * limits.CHANGED_REQUESTS_FLOOR and (measure.unit != "ms" or whole >= _LEAST_US)
    )


def _matters(series: Series, found: Break, floor: float, inside: Marks, outside: Marks) -> bool:
    """Return whether a change is large enough, and no chance of few requests."""
    measure, high, low = series.measure, max(found.before, found.after), min(found.before, found.after)
    if measure.is_mean and not measure.is_share and not found.is_up and measure.unit == "ms":
        return False  # it became faster
    if measure.is_share:
        if measure.name == "idle":
            return found.is_up and found.after - found.before >= measure.floor and bool(inside.sum() >= _LEAST_IDLE)
        concerned = abs(found.after - found.before) * series.requests[inside].sum()
        return found.is_up and found.after - found.before >= measure.floor and concerned >= limits.FAILURES_FLOOR
    if high - low < floor or not (measure.up if found.is_up else measure.down):
        return False
    if measure.unit == "ms" and not _are_mostly_slow(series, found, inside):
        return False
    if measure.is_mean:
        is_alive = (series.sums[inside] > 0).mean() >= _ALIVE  # a silence is another finding
        is_there = measure.unit != "part" or (low <= high / limits.CHANGED_SIZE and bool(is_alive))
        return bool(series.requests[inside].sum() >= _OF_A_MEAN * limits.CHANGED_REQUESTS_FLOOR) and is_there
    if found.is_up and _is_seldom_there(series, found, outside):
        return False
    expected, there = series.requests[outside].mean() * inside.sum(), series.requests[inside].sum()
    if measure.name == "requests":
        expected = found.before * inside.sum()
    if measure.name not in ("requests", "connections"):
        return bool(max(expected, there) >= _OF_A_MEAN * limits.CHANGED_REQUESTS_FLOOR)
    missing, least = abs(there - expected), limits.CHANGED_REQUESTS_FLOOR
    return bool(
        missing >= (least if measure.name == "requests" else least / 5)
        and missing >= _BEYOND_CHANCE * np.sqrt(max(expected, there))
    )


def _is_seldom_there(series: Series, found: Break, outside: Marks) -> bool:
    """Return whether a subject that comes and goes does no more in a part than whenever it is there."""
    active = outside & (series.there if series.measure.name == "connections" else series.sums > 0)
    is_seldom = active.sum() < _SELDOM * outside.sum() and len(runs(active)) > 1
    return bool(is_seldom and found.after < limits.UNLIKE_ITSELF * series.sums[active].mean())


def _are_mostly_slow(series: Series, found: Break, inside: Marks) -> bool:
    """Return whether most intervals of a part are slow, and no few requests alone."""
    sums, requests = series.sums[inside], series.requests[inside]
    active = requests > 0
    more = np.maximum(sums - found.before * requests, 0)
    slow = sums[active] > _SLOWER * found.before * requests[active]
    is_spread = more.max(initial=0) <= _ONE_INTERVAL * more.sum()
    return bool(slow.sum() >= _SLOW_INTERVALS and slow.mean() >= _INSIDE and is_spread and more.sum() >= _LEAST_US)


def _was_there(series: Series, found: Break) -> bool:
    """Return whether a subject was there for long before a part, and most of that time."""
    before = series.there[series.begins : found.first]
    return bool(len(before) >= _KNOWN_SLOTS and before.mean() > 0.5)


def _comes_or_goes(series: Series, found: Break) -> bool:
    """Return whether something came, or came and went, or ended: that is a program with an hour of its own, or a silence.

    If the subject was there before with other requests, these are new ones, and no program of its own.
    """
    if series.measure.is_mean:
        return False
    before, after = series.sums[: max(found.first - SLOTS, 0)], series.sums[found.last + 1 + SLOTS :]
    if found.is_up:
        is_known = series.api not in _OF_JOBS and series.measure.name in ("requests", "connections") and _was_there(series, found)
        return not before.sum() and not is_known
    if has_its_hours(series.begins, (found.first, found.last), len(series.sums)):
        return found.after <= HARDLY * found.before
    if series.api == "OffsetCommit" and series.there[found.first : found.last + 1].mean() > 0.5:
        return False  # a reader goes on without a commit
    return not series.sums[found.first + SLOTS : found.last + 1].sum() and not after.sum()
