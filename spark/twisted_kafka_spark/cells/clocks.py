"""Correct the times of lines that a wrong clock wrote, before they are folded.

A broker numbers its lines, so its times grow with the numbers. A line that is far from the lines before and after it gets a time
between theirs; consecutive ones keep their distances. So does a line from before Kafka existed, or from more than a day after the
reader's clock. Lines without numbers are ordered within a block of a file, where several files may follow each other: there only a
line between two others is corrected.

If more than a tenth of a broker's lines would be wrong, or half with impossible times, the numbers or the reader's clock are wrong
instead, and nothing changes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from twisted_kafka_spark.records.frame import NO_SEQUENCE, Frame

if TYPE_CHECKING:
    Numbers = np.ndarray[Any, np.dtype[np.int64]]
    Marks = np.ndarray[Any, np.dtype[np.bool_]]

SKEWED = "skewed"
"""The `error` of a cell of kind `lines` that counts records with a corrected time; `note` has a `Skew`."""
_SECOND = 1_000_000
EARLIEST_US = 1_293_840_000 * _SECOND
"""The year 2011, in which Kafka was published."""
MOST_AHEAD_US = 86_400 * _SECOND
"""How far a line may be ahead of the reader's clock."""
SLACK_US = 600 * _SECOND
"""How far a line may be from the lines beside it: a clock that is set by less does no harm."""
_SLACK_WITHOUT_NUMBERS_US = 7200 * _SECOND
"""The local time of Kafka's log goes back by an hour each autumn."""
_MOST_WRONG, _MOST_IMPOSSIBLE = 0.1, 0.5
_NOBODY = -1
_FOREVER = np.iinfo(np.int64).max


class Skew(NamedTuple):
    """How wrong a broker's clock was: seconds ahead, negative behind, since a second (1970); -1 for a broker without a name."""

    node: int
    ahead_s: int
    since_s: int

    @classmethod
    def of_note(cls, note: str) -> Skew:
        """Return what a cell's `note` says."""
        return cls(*map(int, note.split()))

    @property
    def note(self) -> str:
        """The text for a cell."""
        return " ".join(map(str, self))


class Corrected(NamedTuple):
    """A frame with corrected times, and how many lines each skew has."""

    frame: Frame
    skews: dict[Skew, int]


def corrected(frame: Frame, now_us: int = 0) -> Corrected:
    """Return a frame of numbered lines with corrected times; `now_us` is the reader's clock, 0 if there is none to trust."""
    latest = now_us + MOST_AHEAD_US if now_us else _FOREVER
    skews: dict[Skew, int] = {}
    times = frame.time_us
    for node, order in _ordered(frame):
        new = _straight(times[order], latest, is_numbered=node is not None)
        if new is None:
            continue
        if times is frame.time_us:
            times = times.copy()
        for skew, count in _skews(_NOBODY if node is None else node, times[order], new):
            skews[skew] = skews.get(skew, 0) + count
        times[order] = new
    return Corrected(frame if times is frame.time_us else replace(frame, time_us=times), skews)


def _ordered(frame: Frame) -> Iterator[tuple[int | None, Numbers]]:
    """Yield the rows of each broker in the order of their numbers; None for the rows without numbers, in their order."""
    numbered = np.flatnonzero(frame.sequence != NO_SEQUENCE)
    if len(numbered) < len(frame):
        yield None, np.flatnonzero(frame.sequence == NO_SEQUENCE)
    if not len(numbered):
        return
    names = np.array([_NOBODY if node is None else node for node in frame.identities.column("node").to_pylist()], np.int64)
    nodes = names[frame.identity[numbered]]
    order = np.lexsort((frame.sequence[numbered], nodes))
    rows, nodes = numbered[order], nodes[order]
    starts = np.flatnonzero(np.diff(nodes, prepend=nodes[0] - 1))
    for start, part in zip(starts.tolist(), np.split(rows, starts[1:]), strict=True):
        yield int(nodes[start]), part


def _straight(times: Numbers, latest: int, *, is_numbered: bool) -> Numbers | None:
    """Return the times of one broker's lines in order, corrected; None if they are right."""
    slack = SLACK_US if is_numbered else _SLACK_WITHOUT_NUMBERS_US
    possible = (times >= EARLIEST_US) & (times <= latest)
    if possible.all() and (np.maximum.accumulate(times) - times <= slack).all():
        return None
    if not possible.any():
        return None
    kept = np.flatnonzero(possible)
    kept = kept[_longest_rise(times[kept])]
    place = np.searchsorted(kept, np.arange(len(times)), "right")
    before, after = np.append(np.int64(-1), kept)[place], np.append(kept, np.int64(-1))[place]
    low = np.where(before >= 0, times[before], times[kept[0]])
    high = np.where(after >= 0, times[after], times[kept[-1]])
    wrong = (times < low - slack) | (times > high + slack)
    if not is_numbered:
        wrong &= ~possible | ((before >= 0) & (after >= 0))
    elif before_all := int((before < 0).sum()):
        # Before the first line that is kept there is no bound but what is possible.
        wrong[:before_all] &= ~possible[:before_all] | (times[:before_all] > high[:before_all] + slack)
    if (
        (wrong & possible).sum() > max(1, _MOST_WRONG * len(times))
        or wrong.sum() > _MOST_IMPOSSIBLE * len(times)
        or not wrong.any()
    ):
        return None
    rows = np.flatnonzero(wrong)
    first = rows[np.maximum.accumulate(np.where(np.diff(rows, prepend=-2) > 1, np.arange(len(rows)), 0))]
    new = times.copy()
    new[rows] = np.clip(low[rows] + times[rows] - times[first], low[rows], np.maximum(low[rows], high[rows]))
    return new


def _longest_rise(times: Numbers) -> Numbers:
    """Return the places of the longest series of times that never falls."""
    ends: list[int] = []
    last: list[int] = []
    previous = np.full(len(times), -1, np.int64)
    for at, time in enumerate(times.tolist()):
        length = bisect_right(ends, time)
        if length == len(ends):
            ends.append(time)
            last.append(at)
        else:
            ends[length], last[length] = time, at
        if length:
            previous[at] = last[length - 1]
    found = np.empty(len(last), np.int64)
    at = last[-1]
    for place in reversed(range(len(last))):
        found[place] = at
        at = int(previous[at])
    return found


def _skews(node: int, old: Numbers, new: Numbers) -> Iterator[tuple[Skew, int]]:
    """Yield each stretch of lines with a wrong time, and how many there are."""
    rows = np.flatnonzero(old != new)
    starts = np.flatnonzero(np.diff(rows, prepend=-2) > 1)
    for start, count in zip(starts.tolist(), np.diff(starts, append=len(rows)).tolist(), strict=True):
        first = rows[start]
        ahead_s = round((int(old[first]) - int(new[first])) / _SECOND)
        yield Skew(node, ahead_s, int(new[first]) // _SECOND), count
