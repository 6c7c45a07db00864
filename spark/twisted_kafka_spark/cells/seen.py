"""What a rollup has of a log, so that it takes each line once and never loses one. Nothing here needs Spark.

Each file of a rollup has, beside its cells, cells that say which lines those are of: the numbers of each broker's lines (kind
`runs`), and the bytes of each file of the log (kind `seen`), for lines without a number and for lines without a record. Both are
about one hour, like the cells beside them, so a write that was killed is whole for each hour or not there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from twisted_kafka_spark.cells.kinds import HOUR_S
from twisted_kafka_spark.records.frame import NO_SEQUENCE, Frame

if TYPE_CHECKING:
    Numbers = np.ndarray[Any, np.dtype[np.int64]]

Range = tuple[int, int]
"""The first and the last of consecutive numbers, or of consecutive bytes."""
Row = Mapping[str, Any]
Step = Literal["add", "replace", "keep", "refuse"]

RUNS, SEEN = "runs", "seen"
KINDS_OF_COVERAGE = (RUNS, SEEN)
REFUSED = "refused"
"""The `error` of a cell of kind `seen` that is about lines without a record."""
_HOUR_US = HOUR_S * 1_000_000


@dataclass(frozen=True, slots=True)
class Coverage:
    """The lines of an hour: how many requests, and by broker or file which lines."""

    requests: int = 0
    lines: Mapping[str, Sequence[Range]] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Iterable[Row], requests: int = 0) -> Coverage:
        """Return what cells of the kinds `runs` and `seen` say."""
        found: dict[str, list[Range]] = defaultdict(list)
        for row in rows:
            if row["kind"] == RUNS:
                found[f"node {row['node']}"].append((row["first_us"], row["last_us"]))
            elif row["last_us"] > row["first_us"]:
                name = row["note"].partition(":")[0]
                found[f"{row['error'] or 'file'} {name}"].append((row["first_us"], row["last_us"] - 1))
        return cls(requests, {name: joined(ranges) for name, ranges in found.items()})

    def has_all(self, other: Coverage) -> bool:
        """Return whether all lines of the other are among these."""
        return all(_has_all(self.lines.get(name, ()), ranges) for name, ranges in other.lines.items())

    def has_some(self, other: Coverage) -> bool:
        """Return whether a line of the other is among these."""
        return any(_has_some(self.lines.get(name, ()), ranges) for name, ranges in other.lines.items())


def decide(old: Coverage | None, new: Coverage) -> Step:
    """Return what becomes of an hour that has some lines, None if it has none, when other cells of it are written.

    Other lines are added. More lines replace the same ones. What overlaps cannot be taken apart any more, and is refused. Rollups
    of earlier releases do not say which lines they are of: at least as many requests replace theirs.
    """
    if old is None:
        return "add"
    if not new.lines and not new.requests:
        return "keep"
    if not old.lines or not new.lines:
        return "replace" if new.requests >= old.requests else "refuse"
    if old.has_all(new):
        return "keep"
    if new.has_all(old):
        return "replace"
    return "refuse" if old.has_some(new) else "add"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a file whose lines a rollup has, of one hour (its number since 1970), or None for lines without a record.

    `is_alone`: no line of the part is of another hour.
    """

    hour: int | None
    start: int
    stop: int
    is_alone: bool = True


@dataclass(frozen=True, slots=True)
class Seen:
    """The lines that a rollup has: by broker the first and the last numbers of ranges, in order, and by file its parts."""

    numbers: Mapping[int, tuple[Numbers, Numbers]] = field(default_factory=dict)
    files: Mapping[str, Sequence[Part]] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Seen:
        """Return what cells of the kinds `runs` and `seen` say."""
        runs: dict[int, list[Range]] = defaultdict(list)
        files: dict[str, list[Part]] = defaultdict(list)
        for row in rows:
            if row["kind"] == RUNS:
                runs[row["node"]].append((row["first_us"], row["last_us"]))
                continue
            hour = None if row["error"] == REFUSED else int(row["at"].timestamp()) // HOUR_S
            part = Part(hour, row["first_us"], row["last_us"], row["partitions"] == 1)
            files[row["note"].partition(":")[0]].append(part)
        numbers = {}
        for node, ranges in runs.items():
            whole = np.array(joined(ranges), np.int64)
            numbers[node] = whole[:, 0], whole[:, 1]
        return cls(numbers, dict(files))

    def __bool__(self) -> bool:
        return bool(self.numbers or self.files)

    def unseen(self, frame: Frame) -> Frame:
        """Return the lines of a frame without those whose numbers are there."""
        if not self.numbers or not len(frame):
            return frame
        nodes = np.array([node or 0 for node in frame.identities.column("node").to_pylist()], np.int64)[frame.identity]
        known = np.zeros(len(frame), np.bool_)
        for node in np.unique(nodes).tolist():
            if node in self.numbers:
                firsts, lasts = self.numbers[node]
                rows = np.flatnonzero((nodes == node) & (frame.sequence != NO_SEQUENCE))
                at = np.searchsorted(firsts, frame.sequence[rows], "right") - 1
                known[rows] = (at >= 0) & (frame.sequence[rows] <= lasts[at])
        return frame.chosen(~known)


@dataclass(frozen=True, slots=True)
class Origin:
    """A file of the log: its lasting name, the hour of its lines without a record (since 1970), and what a rollup has of it."""

    name: str
    hour: int
    parts: Sequence[Part] = ()

    def boundaries(self) -> list[int]:
        """Return the bytes at which parts begin or end."""
        return sorted({at for part in self.parts for at in (part.start, part.stop)} - {0})

    def is_whole(self, start: int, stop: int) -> bool:
        """Return whether a rollup has all lines that begin in a range, which no boundary divides."""
        mine = [part for part in self.parts if part.start <= start and stop <= part.stop]
        return any(part.hour is not None and part.is_alone for part in mine) and any(part.hour is None for part in mine)

    def hours(self, start: int, stop: int) -> set[int | None]:
        """Return the hours of which a rollup has all lines in a range without a boundary; None if it has those without a record."""
        return {part.hour for part in self.parts if part.start <= start and stop <= part.stop}

    def unseen(self, frame: Frame, hours: set[int | None]) -> Frame:
        """Return the lines of a frame, except lines of these hours without a number."""
        known = [hour for hour in hours if hour is not None]
        if not known or not (frame.sequence == NO_SEQUENCE).any():
            return frame
        return frame.chosen((frame.sequence != NO_SEQUENCE) | ~np.isin(frame.time_us // _HOUR_US, known))

    def rows(self, start: int, stop: int, hours: Set[int], wanted: Set[int]) -> list[dict[str, Any]]:
        """Return cells of kind `seen` for a range that was read, and that a rollup does not have.

        `hours`: the hours of its lines; `wanted`: the hours whose lines were folded.
        """
        known = self.hours(start, stop)
        row = {"note": f"{self.name}:{start}", "first_us": start, "last_us": stop, "requests": 0, "partitions": max(len(hours), 1)}
        found = [{**row, "hour": hour, "error": None} for hour in (wanted if hours else {self.hour}) if hour not in known]
        return found if None in known else [*found, {**row, "hour": self.hour, "error": REFUSED}]


def joined(ranges: Iterable[Range]) -> list[Range]:
    """Return the same numbers as ranges in order that neither overlap nor touch."""
    found: list[Range] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return found


def _has_all(have: Sequence[Range], wanted: Sequence[Range]) -> bool:
    return all(any(first <= one and other <= last for first, last in have) for one, other in wanted)


def _has_some(have: Sequence[Range], wanted: Sequence[Range]) -> bool:
    return any(first <= other and one <= last for first, last in have for one, other in wanted)
