"""Look for findings in the minutes that end while a log is followed, and tell each once."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from twisted_kafka_spark import views
from twisted_kafka_spark.cells import MINUTE_S, TIME
from twisted_kafka_spark.findings.find import find
from twisted_kafka_spark.findings.finding import Finding

WINDOW = datetime.timedelta(hours=3)
"""The minutes that findings are looked for in: an unusual one is unusual against these."""
_STEP = WINDOW
"""Of a backlog at most so much is added before one looks again."""
_AGAIN = datetime.timedelta(minutes=30)
"""A finding that goes on is told again after this."""

Told = dict[str, str]
"""By finding: the minute in which it was told last, as ISO 8601 has it."""


class Watch:
    """Keeps the cells of the last hours on the driver.

    `told`: the findings that need not be told again, and when each was told; kept with the stream's state.
    """

    def __init__(self, tell: Callable[[Finding], None]) -> None:
        self._tell = tell
        self._recent: list[pa.Table] = []
        self._last: datetime.datetime | None = None
        self.told: Told = {}

    def remember(self, tables: Iterable[pa.Table]) -> None:
        """Take what was looked at before a restart."""
        self._recent = [_needed(table) for table in tables]
        ends = views.period(pa.concat_tables(self._recent)) if self._recent else None
        self._last = ends[1] if ends is not None else None

    def add(self, closed: pa.Table) -> None:
        """Look at the minutes that have just ended together with those before them."""
        closed = _needed(closed)
        ends = views.period(closed)
        if ends is None:
            return
        first, last = ends
        if self._last is not None and first <= self._last:  # late lines: they count when one looks the next time
            first = self._last + datetime.timedelta(seconds=MINUTE_S)
            self._recent.append(closed.filter(_before(closed, first)))
        while first <= last:
            end = min(first + _STEP, last + datetime.timedelta(seconds=MINUTE_S))
            part = closed.filter(pc.and_(pc.invert(_before(closed, first)), _before(closed, end)))
            if part.num_rows:
                self._look(part, end)
            first = end

    def _look(self, closed: pa.Table, end: datetime.datetime) -> None:
        whole = pa.concat_tables([*self._recent, closed])
        whole = whole.filter(pc.invert(_before(whole, end - WINDOW)))
        self._recent, self._last = [whole], end - datetime.timedelta(seconds=MINUTE_S)
        for finding in find(views.compute_for_findings(whole)):
            who = sorted((name, value) for name, value in finding.evidence.items() if isinstance(value, str))
            key = f"{finding.name} {who}"
            before = self.told.get(key)
            if before is None or end - datetime.datetime.fromisoformat(before) >= _AGAIN:
                self.told[key] = end.isoformat()
                self._tell(finding)
        self.told = {key: at for key, at in self.told.items() if end - datetime.datetime.fromisoformat(at) < WINDOW}


def _needed(table: pa.Table) -> pa.Table:
    """Return the cells that findings are made of; they are few beside the histograms."""
    return table.filter(pc.is_in(table["kind"], pa.array(views.KINDS_FOR_FINDINGS)))


def _before(table: pa.Table, end: datetime.datetime) -> Any:
    times = table[TIME.name]
    return pc.less(times, pa.scalar(end, times.type))
