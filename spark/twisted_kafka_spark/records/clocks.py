"""Bounds for the times of lines, and the hour in which a line counts whose clock was wrong.

A line is wrong if its time is before Kafka's first year, half a day later than the clock of the machine that reads, or half a day
later than the hour of its folder (`date=2026-11-21/hour=08`). It counts in the hour of its folder, or in that of the first lines of
its file, at the minute and second that it has. So what becomes of a line depends on the line and its file's name or beginning, and
not on how files are cut, ordered or stored. Otherwise it gets the hour `UNKNOWN`, which a page shows as its first.
"""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from twisted_kafka_spark.records.frame import Frame

AHEAD, BEHIND = "ahead", "behind"
NOW = -1
"""In place of the latest time that is possible: the clock of the task, when it reads."""
HOUR_US, MINUTE_US = 3_600_000_000, 60_000_000
EARLIEST_US = 1_293_840_000_000_000
"""The year 2011, in which Kafka was published."""
EARLIEST = "2011-01-01T00:00:00"
SLACK_US = 13 * HOUR_US
"""How much later than a bound a line may be: a log without time zones, or folders of local time, differ from UTC by so much."""
UNKNOWN = 0
"""The hour, as a number since 1970, of lines whose hour cannot be known."""
NOBODY = -1
"""The broker of lines that do not name it."""
_FOREVER = np.iinfo(np.int64).max
_FOLDER = re.compile(r"date=(\d{4})-(\d\d)-(\d\d)/hour=(\d\d)/[^/]*$")
_TIME = re.compile(rb"(?<!\d)(\d{4}-\d\d-\d\d[T ]\d\d):\d\d:\d\d")

WRITTEN = "written"
"""A column of records that Spark reads: the times of lines with a wrong time, as they are in the file; null for all others."""

SkewKey = tuple[int, str, int]
"""A broker, whether its clock was ahead or behind, and the minute in which its lines count, as a number since 1970."""


@dataclass(slots=True)
class Skew:
    """Lines with a wrong time: how many, the first and last time that they have, and how far off the most wrong one is."""

    lines: int = 0
    first_us: int = _FOREVER
    last_us: int = -_FOREVER
    most_us: int = 0

    def add(self, lines: int, first_us: int, last_us: int, most_us: int) -> None:
        """Count further lines."""
        self.lines += lines
        self.first_us, self.last_us = min(self.first_us, first_us), max(self.last_us, last_us)
        self.most_us = max(self.most_us, most_us)


Skews = dict[SkewKey, Skew]


def latest_us(bound: int) -> int:
    """Return the latest time that a line may have; `bound`: the same, `NOW`, or 0 for none."""
    if bound == NOW:
        return time.time_ns() // 1000 + SLACK_US
    return bound or _FOREVER


def hour_of_folder(path: str) -> int | None:
    """Return the hour of a file's folder, as a number since 1970; None if it is not in one."""
    found = _FOLDER.search(path)
    if found is None:
        return None
    try:
        return int(datetime.datetime(*map(int, found.groups()), tzinfo=datetime.UTC).timestamp()) // 3600  # type: ignore[arg-type, misc]
    except ValueError:
        return None


def first_hour(text: bytes, latest: int = _FOREVER, utc_offset_s: int = 0) -> int | None:
    """Return the first hour that a text names and that is possible, as a number since 1970; None if it names none."""
    for found in _TIME.finditer(text):
        try:
            at = datetime.datetime.strptime(found[1].decode().replace(" ", "T"), "%Y-%m-%dT%H").replace(tzinfo=datetime.UTC)
        except ValueError:
            continue
        seconds = int(at.timestamp()) - (utc_offset_s if b" " in found[1] else 0)
        if EARLIEST_US <= seconds * 1_000_000 <= latest:
            return seconds // 3600
    return None


def is_possible(hour: int | None, latest: int = _FOREVER) -> bool:
    """Return whether an hour (its number since 1970) is not itself of a wrong clock."""
    return hour is not None and EARLIEST_US <= hour * HOUR_US <= latest


@dataclass(slots=True)
class Clock:
    """The bounds of the lines of one file after another.

    `latest`: the latest time that is possible, in microseconds since 1970. `folder`: the hour of the file's folder, if it is
    possible. `first`: returns the hour of the file's first lines. `skews`: the lines with a wrong time so far.
    """

    latest: int = _FOREVER
    folder: int | None = None
    first: Callable[[], int | None] | None = None
    skews: Skews = field(default_factory=dict)

    def begin(self, path: str, head: Callable[[], bytes], utc_offset_s: int = 0) -> None:
        """Take the lines that follow as those of a file; `head` reads its beginning."""
        hour = hour_of_folder(path)
        self.folder = hour if is_possible(hour, self.latest) else None
        self.first = lambda: first_hour(head(), self.latest, utc_offset_s)

    def corrected(self, frame: Frame) -> Frame:
        """Return the lines of a frame, with other times for those of a wrong clock."""
        times = frame.time_us
        if not len(times):
            return frame
        high = self._latest()
        if times.min() >= EARLIEST_US and times.max() <= high:
            return frame
        wrong = (times < EARLIEST_US) | (times > high)
        hour = self._hour()
        nodes = [NOBODY if node is None else node for node in frame.identities.column("node").to_pylist()]
        self._count(np.array(nodes, np.int64)[frame.identity[wrong]], times[wrong], hour, frame.weight[wrong])
        return replace(frame, time_us=np.where(wrong, hour * HOUR_US + times % HOUR_US, times))

    def corrected_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Do the same with a batch of records."""
        import pyarrow.compute as pc

        at = batch.schema.get_field_index("time")
        times = batch.column(at)
        low, high = _text(EARLIEST_US), _text(min(self._latest(), _LAST_US))
        wrong = pc.fill_null(pc.or_(pc.less(times, low), pc.greater(times, high)), False)
        if not pc.any(wrong).as_py():
            return batch
        hour = self._hour()
        some = batch.filter(wrong)
        self._count(_filled(some.column("node"), NOBODY), _times(some.column(at)), hour, _filled(some.column("weight"), 1))
        fixed = pc.binary_join_element_wise(_text(hour * HOUR_US)[:13], pc.utf8_slice_codeunits(times, 13), "")
        return batch.set_column(at, batch.schema.field(at), pc.if_else(wrong, fixed, times))

    def _latest(self) -> int:
        return self.latest if self.folder is None else min(self.latest, (self.folder + 1) * HOUR_US + SLACK_US)

    def _hour(self) -> int:
        if self.folder is not None:
            return self.folder
        found = self.first() if self.first is not None else None
        return UNKNOWN if found is None else found

    def _count(self, nodes: Any, times: Any, hour: int, weights: Any) -> None:
        for node, at_us, weight in zip(nodes.tolist(), times.tolist(), weights.tolist(), strict=True):
            at = hour * HOUR_US + at_us % HOUR_US
            which = BEHIND if at_us < EARLIEST_US else AHEAD
            self.skews.setdefault((node, which, at // MINUTE_US), Skew()).add(weight, at_us, at_us, abs(at - at_us))


def note_skews(batch: pa.RecordBatch, skews: Skews) -> None:
    """Count the records whose times Spark has corrected (`with_times`)."""
    import pyarrow.compute as pc

    wrong = batch.filter(pc.is_valid(batch.column(WRITTEN)))
    if not wrong.num_rows:
        return
    clock = Clock(skews=skews)
    nodes, weights = _filled(wrong.column("node"), NOBODY), _filled(wrong.column("weight"), 1)
    for at in range(wrong.num_rows):
        hour = int(_times(wrong.column("time").slice(at, 1))[0]) // HOUR_US
        clock._count(nodes[at : at + 1], _times(wrong.column(WRITTEN).slice(at, 1)), hour, weights[at : at + 1])


def with_times(records: DataFrame, latest: int) -> DataFrame:
    """Return records that Spark reads from files with corrected times; the column `WRITTEN` has a wrong time as it was."""
    from pyspark.sql import functions as sf

    time, folder = sf.col("time"), sf.substring_index("_metadata.file_path", "/", -3)
    date, hour = (sf.regexp_extract(folder, r"^date=(\d{4}-\d\d-\d\d)/hour=(\d\d)/", group) for group in (1, 2))
    start = sf.try_to_timestamp(sf.concat(date, sf.lit("T"), hour), sf.lit("yyyy-MM-dd'T'HH"))
    low, high = _text(EARLIEST_US), _text(min(latest_us(latest), _LAST_US))
    possible = sf.date_format(start, _FORMAT).between(low, high)
    later = sf.date_format(start + sf.expr(f"INTERVAL {SLACK_US // HOUR_US + 1} HOURS"), _FORMAT)
    is_later = time > sf.when(possible, sf.least(later, sf.lit(high))).otherwise(high)
    # Few lines are later than the day of their folder: the rest is not computed for the others.
    is_suspect = (time > high) | (sf.substring(time, 1, 10) > sf.substring(folder, 6, 10))
    wrong = (time < low) | (is_suspect & is_later)
    place = sf.when(possible, sf.concat(date, sf.lit("T"), hour)).otherwise(_text(UNKNOWN * HOUR_US)[:13])
    fixed = sf.when(wrong, sf.concat(place, sf.substring(time, 14, 100))).otherwise(time).alias("time")
    columns = [fixed if name == "time" else sf.col(name) for name in records.columns]
    return records.select(*columns, sf.when(wrong, time).alias(WRITTEN))


_FORMAT = "yyyy-MM-dd'T'HH:mm:ss"
_LAST_US = int(datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC).timestamp()) * 1_000_000


def _text(at_us: int) -> str:
    return datetime.datetime.fromtimestamp(at_us // 1_000_000, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _times(column: pa.Array) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.cast(pc.cast(column, pa.timestamp("us", "UTC")), pa.int64()).to_numpy(zero_copy_only=False)


def _filled(column: pa.Array, default: int) -> Any:
    import pyarrow.compute as pc

    return pc.fill_null(column, default).to_numpy(zero_copy_only=False)
