"""Search for findings in the minutes that end while a log is followed, and report each finding once.

A minute is over when there is a line from a minute that began at least `late_s` after its end: the watermark of event time. Lines
that are later count in reports, but are not searched again. A line that is ahead of this machine's clock ends no minute after now.
"""

from __future__ import annotations

import datetime
import json
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from twisted_kafka_spark import views
from twisted_kafka_spark.cells import aggregate
from twisted_kafka_spark.cells.kinds import HOUR_S, KINDS, MINUTE_S, TIME
from twisted_kafka_spark.findings.find import find
from twisted_kafka_spark.findings.finding import Finding
from twisted_kafka_spark.findings.rules import Rules
from twisted_kafka_spark.pipeline import page
from twisted_kafka_spark.pipeline.few import FewCells
from twisted_kafka_spark.stream.memory import Memory
from twisted_kafka_spark.thresholds import changed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twisted_kafka_spark.pipeline.followed import Followed
    from twisted_kafka_spark.runtime.folder import Folder

WINDOW = datetime.timedelta(hours=3)
"""The period in which findings are searched; unusual minutes are unusual compared to this period."""
TIMED = ("traffic", "transactions")
"""The kinds of cells whose times are those of lines: in some, nothing happens but that a transaction times out."""
NEVER_S = 253_370_764_800.0
"""The year 9999: the clock of a machine that bounds nothing."""
_MOST_WINDOWS = 8
"""Windows that are searched without looking first whether they have lines."""
_STATE = "watch.json"

Window = tuple[datetime.datetime, datetime.datetime]
Report = Callable[[Sequence[dict[str, Any]]], None]
Now = Callable[[], float]


@dataclass(slots=True)
class State:
    """The minute up to which was searched (ISO 8601), and the reported findings (`memory.Memory`)."""

    searched: str = ""
    told: dict[str, Any] = field(default_factory=dict)


class Watch:
    """Searches the cells that were followed; its state is a small file.

    A crash between a report and the write of the state repeats the report.
    """

    def __init__(
        self,
        followed: Followed,
        checkpoint: Folder,
        late_s: int,
        report: Report,
        rules: Rules | None = None,
        now: Now = time.time,
    ) -> None:
        self._followed, self._checkpoint, self._rules = followed, checkpoint, rules or Rules()
        self._late = datetime.timedelta(seconds=late_s + MINUTE_S)
        self._report, self._now = report, now
        content = checkpoint.read(_STATE)
        stored = json.loads(content) if content is not None else {}
        self._state = State(**{name: stored[name] for name in State.__slots__ if name in stored})
        self._memory = Memory.of(self._state.told)

    def latest_s(self) -> int:
        """Return the latest minute that can be over by this machine's clock, in seconds since 1970."""
        return int(self._now())

    def saw(self, first: datetime.datetime, last: datetime.datetime) -> None:
        """Take note of the first and the last minute of a batch that was written, and search the minutes that it ended."""
        begin = datetime.datetime.fromisoformat(self._state.searched) if self._state.searched else first
        if begin > page.moment(self.latest_s()):
            begin, self._state.searched = first, ""  # this machine's clock was wrong, or an earlier release trusted a line's
        end = last - self._late + datetime.timedelta(seconds=MINUTE_S)
        if end <= begin and self._state.searched:
            return
        with changed(self._rules.thresholds):
            for window, findings in self._found(windows(begin, end)):
                self._tell(findings, window)
        self._state.told = self._memory.stored()
        self._state.searched = max(begin, end).isoformat()
        self._checkpoint.write(_STATE, json.dumps(asdict(self._state)).encode())

    def _found(self, searched: Sequence[Window]) -> Iterator[tuple[Window, list[Finding]]]:
        """Yield the findings of each window."""
        if not searched:
            return
        cells = self._followed.cells(_hour(searched[0][0]), searched[-1][1])
        if cells is None:
            return
        with page.kept(_between(cells, searched[0][0], searched[-1][1])) as found:
            if len(searched) > _MOST_WINDOWS:
                searched = _with_lines(found, searched)
            if found.count() <= aggregate.MOST_CELLS:
                few = FewCells.of(found)
                yield from ((each, _findings(_of_few(few.table, each))) for each in searched)
                return
            for each in searched:
                yield each, _findings(_of_many(found, each))

    def _tell(self, findings: Sequence[Finding], window: Window) -> None:
        begin, end = window
        news = self._memory.news(findings, begin, end - datetime.timedelta(seconds=MINUTE_S))
        heard, _ = self._rules.applied(news, end.date())
        if heard:
            self._report(heard)


def _with_lines(found: DataFrame, searched: Sequence[Window]) -> list[Window]:
    """Return the windows of the hours that have lines."""
    from pyspark.sql import functions as sf

    timed = found.where(sf.col("kind").isin(list(TIMED)))
    hours = timed.select(sf.floor(sf.unix_seconds(TIME.name) / HOUR_S).alias("hour")).distinct().collect()
    present = sorted(page.moment(row["hour"] * HOUR_S) for row in hours)
    return [each for each in searched if bisect_left(present, _hour(each[0])) < bisect_left(present, each[1])]


def windows(begin: datetime.datetime, end: datetime.datetime) -> list[Window]:
    """Return the periods to search so that each minute from `begin` to before `end` is in one, after earlier minutes."""
    ends = []
    while begin < end:
        begin = min(begin + WINDOW, end)
        ends.append(begin)
    return [(each - WINDOW, each) for each in ends]


def _between(cells: DataFrame, begin: datetime.datetime, end: datetime.datetime) -> DataFrame:
    """Return the cells that findings need of a period; cells of hours are about whole hours."""
    from pyspark.sql import functions as sf

    at = sf.col(TIME.name)
    return cells.where(sf.col("kind").isin(list(views.KINDS_FOR_FINDINGS)) & (at >= _hour(begin)) & (at < end))


def _of_few(cells: pa.Table, window: Window) -> pa.Table:
    times = cells[TIME.name]
    begin, hour, end = (pa.scalar(each, times.type) for each in (window[0], _hour(window[0]), window[1]))
    first = pc.if_else(pc.is_in(cells["kind"], pa.array(_OF_HOURS)), hour, begin)
    return cells.filter(pc.and_(pc.greater_equal(times, first), pc.less(times, end)))


def _of_many(cells: DataFrame, window: Window) -> pa.Table:
    """Return the cells of a window, of which the driver gets no more than those of a page."""
    from pyspark.sql import functions as sf

    at, (begin, end) = sf.col(TIME.name), window
    first = sf.when(sf.col("kind").isin(_OF_HOURS), sf.lit(_hour(begin))).otherwise(sf.lit(begin))
    found = cells.where((at >= first) & (at < end))
    sizes = page.sizes(found)
    if sizes.first is None:  # nothing but transactions that timed out
        return page.collected(found.limit(0))
    return page.of_page(page.by_hour(found, sizes), page.Sizes(), MINUTE_S)


def _findings(cells: pa.Table) -> list[Finding]:
    return find(views.compute_for_findings(cells))


_OF_HOURS = [kind for kind, each in KINDS.items() if each.grain_s == HOUR_S]


def _hour(at: datetime.datetime) -> datetime.datetime:
    return at.replace(minute=0, second=0, microsecond=0)
