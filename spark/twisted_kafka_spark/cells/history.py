"""What is known of earlier days: the usual requests of each client by hour of the week, and everybody who was there."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

HOURS_OF_WEEK = 7 * 24
Who = tuple[Any, Any]


class Usual(NamedTuple):
    """The requests of an hour of the week on earlier days: fewest, mean, most, and the number of days."""

    least: float
    mean: float
    most: float
    days: int


@dataclass(slots=True)
class History:
    """Earlier days. `counts`: requests by client, principal, API and hour; `dates`: the days that are known."""

    dates: list[datetime.date] = field(default_factory=list)
    principals: set[str] = field(default_factory=set)
    software: dict[Who, str] = field(default_factory=dict)
    """The library and version that a client had last."""
    readers: dict[str, set[str]] = field(default_factory=dict)
    """The principals that read a topic."""
    counts: dict[tuple[Any, Any, str], dict[tuple[datetime.date, int], float]] = field(default_factory=dict)

    def usual(self, name: tuple[Any, Any, str], at: datetime.datetime) -> Usual:
        """Return the usual requests of an hour: of the same hour of the week, or of the day with less than two weeks of history."""
        same = [date for date in self.dates if date.weekday() == at.weekday()]
        dates = same if len(same) > 1 else self.dates
        mine = self.counts.get(name, {})
        found = [mine.get((date, at.hour), 0.0) for date in dates]
        return Usual(min(found), sum(found) / len(found), max(found), len(found)) if found else Usual(0.0, 0.0, 0.0, 0)


def of_rows(
    principals: Iterable[str | None],
    software: Iterable[tuple[Any, Any, str, int]],
    readers: Iterable[tuple[str, str | None]],
    counts: Iterable[tuple[Any, Any, str, datetime.datetime, float]],
    dates: Iterable[datetime.date],
) -> History:
    """Return a history; `software`: client, principal, library and version, and the last time that it was there."""
    found = History(sorted(set(dates)), {each for each in principals if each is not None})
    last: dict[Who, int] = {}
    for client_id, principal, text, at in software:
        if at >= last.get((client_id, principal), 0):
            last[client_id, principal] = at
            found.software[client_id, principal] = text
    for topic, principal in readers:
        if principal is not None:
            found.readers.setdefault(topic, set()).add(principal)
    for client_id, principal, api, hour, requests in counts:
        mine = found.counts.setdefault((client_id, principal, api), {})
        mine[hour.date(), hour.hour] = mine.get((hour.date(), hour.hour), 0.0) + requests
    return found
