"""A finding: what was seen, the numbers, a filter that shows the lines, and what to do."""

from __future__ import annotations

import datetime
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

MINUTE = datetime.timedelta(minutes=1)
_GAP = 2 * MINUTE
"""Unusual minutes with at most one usual one between them are one span."""


@dataclass(slots=True)
class Finding:
    """One thing that somebody should know. `name` is what `--fail-on` takes; `where` is a condition for `--filter`."""

    name: str
    title: str
    evidence: dict[str, Any]
    where: str
    advice: str
    first: str | None = None
    last: str | None = None
    weight: float = 0.0
    explains: set[str] = field(default_factory=set)
    """APIs whose unusual traffic in this span this finding accounts for."""

    def as_values(self) -> dict[str, Any]:
        """Return what the report shows of it, as plain data."""
        values = asdict(self)
        del values["explains"], values["weight"]
        return values


@dataclass(frozen=True, slots=True)
class Span:
    """Minutes that belong together, the first and the last included, with what was measured in each."""

    first: datetime.datetime
    last: datetime.datetime
    values: tuple[float, ...]

    @property
    def minutes(self) -> int:
        """How many minutes were unusual."""
        return len(self.values)

    @property
    def where(self) -> str:
        """The condition for the lines of this span."""
        return f"time >= '{_prefix(self.first)}' AND time < '{_prefix(self.last + MINUTE)}'"


def _prefix(moment: datetime.datetime) -> str:
    """What the field `time` of all lines of a minute begins with: as text it is less than they are."""
    return moment.strftime("%Y-%m-%dT%H:%M")


def text(moment: datetime.datetime) -> str:
    """Return a minute for readers."""
    return _prefix(moment) + "Z"


def quoted(value: str | None) -> str:
    """Return a text for SQL."""
    return "NULL" if value is None else "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def equal(**values: str | None) -> str:
    """Return the condition that columns have these values."""
    return " AND ".join(f"{name} IS NULL" if value is None else f"{name} = {quoted(value)}" for name, value in values.items())


def spans(minutes: Mapping[datetime.datetime, float], least: int) -> list[Span]:
    """Join minutes that are close to each other; spans of fewer than `least` minutes are left out."""
    found: list[list[datetime.datetime]] = []
    for minute in sorted(minutes):
        if found and minute - found[-1][-1] <= _GAP:
            found[-1].append(minute)
        else:
            found.append([minute])
    return [Span(run[0], run[-1], tuple(minutes[at] for at in run)) for run in found if len(run) >= least]


def unusual(values: Iterable[float], factor: float) -> float:
    """Return the value beyond which one is unusual: the median and `factor` median absolute deviations.

    Values that hardly vary would make every one unusual, so a deviation counts as a twentieth of the median at least.
    """
    known: Sequence[float] = list(values)
    if not known:
        return 0.0
    median = statistics.median(known)
    deviation = statistics.median(abs(value - median) for value in known)
    return median + factor * max(deviation, median / 20)
