"""Search for findings in the minutes that end while a log is followed, and report each finding once."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from twisted_kafka_spark import views
from twisted_kafka_spark.cells.kinds import MINUTE_S, TIME
from twisted_kafka_spark.findings.find import find, in_order
from twisted_kafka_spark.findings.finding import Finding

WINDOW = datetime.timedelta(hours=3)
"""The period in which findings are searched; unusual minutes are unusual compared to this period."""
_STEP = WINDOW
"""The maximum part of a backlog that is added between two searches."""
_AGAIN = datetime.timedelta(minutes=30)
"""A finding that persists is reported again after this time."""
_TIMED = ("traffic", "transactions")
"""The kinds of cells whose minutes are searched: in some, nothing happens but that a transaction times out."""

Reported = dict[str, str]
"""The time when a finding was last reported, in ISO 8601, by finding."""


class Watch:
    """Keeps the cells of the last hours on the driver, and searches them for findings.

    `reported`: the recently reported findings, which are not reported again yet; part of the stream's state.
    """

    def __init__(self, on_finding: Callable[[Finding], None]) -> None:
        self._on_finding = on_finding
        self._recent: list[pa.Table] = []
        self._last: datetime.datetime | None = None
        self.reported: Reported = {}

    def remember(self, tables: Iterable[pa.Table]) -> None:
        """Restore the cells from before a restart."""
        self._recent = [_needed(table) for table in tables]
        ends = views.period(pa.concat_tables(self._recent), _TIMED) if self._recent else None
        self._last = ends[1] if ends is not None else None

    def add(self, closed: pa.Table) -> None:
        """Search the minutes that have just ended, together with the previous ones."""
        closed = _needed(closed)
        ends = views.period(closed, _TIMED)
        if ends is None:
            return
        first, last = ends
        if self._last is not None and first <= self._last:  # late lines count in the next search
            first = self._last + datetime.timedelta(seconds=MINUTE_S)
            self._recent.append(closed.filter(_before(closed, first)))
        while first <= last:
            end = min(first + _STEP, last + datetime.timedelta(seconds=MINUTE_S))
            part = closed.filter(pc.and_(pc.invert(_before(closed, first)), _before(closed, end)))
            if part.num_rows:
                self._search(part, end)
            first = end

    def _search(self, closed: pa.Table, end: datetime.datetime) -> None:
        whole = pa.concat_tables([*self._recent, closed])
        whole = whole.filter(pc.invert(_before(whole, end - WINDOW)))
        self._recent, self._last = [whole], end - datetime.timedelta(seconds=MINUTE_S)
        for finding in in_order(find(views.compute_for_findings(whole))):
            who = sorted((name, value) for name, value in finding.evidence.items() if isinstance(value, str))
            key = f"{finding.name} {who}"
            before = self.reported.get(key)
            if before is None or end - datetime.datetime.fromisoformat(before) >= _AGAIN:
                self.reported[key] = end.isoformat()
                self._on_finding(finding)
        self.reported = {key: at for key, at in self.reported.items() if end - datetime.datetime.fromisoformat(at) < WINDOW}


def _needed(table: pa.Table) -> pa.Table:
    """Return the cells that findings need; they are few compared to the histograms."""
    return table.filter(pc.is_in(table["kind"], pa.array(views.KINDS_FOR_FINDINGS)))


def _before(table: pa.Table, end: datetime.datetime) -> Any:
    times = table[TIME.name]
    return pc.less(times, pa.scalar(end, times.type))
