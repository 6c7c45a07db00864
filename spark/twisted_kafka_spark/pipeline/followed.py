"""The cells that `follow` writes: `<directory>/followed=4/batches=0-63/date=2026-11-21/hour=08/*.parquet`, those of some batches.

Cells of equal keys are added when they are read, so a batch is written as it comes, however late its lines are. A batch that is
repeated replaces its folder. Folders are compacted: those of 64 batches are merged into one, and 64 of those again. A folder counts
if it is complete, which Spark's `_SUCCESS` says, and if no other complete one has its batches, too: writing and compacting may be
interrupted at any moment. Folders of earlier releases are not divided into hours.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING

from twisted_kafka_spark.cells import aggregate, kinds
from twisted_kafka_spark.cells.kinds import KEY_NAMES, KINDS, MEASURE_NAMES, TIME
from twisted_kafka_spark.runtime.folder import Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FOLLOWED = "followed=4"
"""The folder of all batches; its number is the version of the layout."""
COMPACTED = (64, 4096)
"""How many batches are merged into one folder, and how many of those again."""
_COMPLETE = "_SUCCESS"
_AS_ONE = {"partitionOverwriteMode": "static", "mapreduce.fileoutputcommitter.marksuccessfuljobs": "true"}
"""A folder is replaced as a whole and then marked as complete, whatever the session's settings say of other writes."""
_BATCHES = re.compile(r"batches=(\d+)-(\d+)$")

Range = tuple[int, int]
"""The first and the last batch of a folder."""
Contents = dict[Range, list[str]]
"""The names in folders."""


class Followed:
    """The batches below a directory, in any of Hadoop's file systems."""

    def __init__(self, spark: SparkSession, directory: str) -> None:
        self._spark = spark
        self._folder = Folder(spark, f"{directory.rstrip('/')}/{FOLLOWED}")
        self.url = self._folder.url

    def add(self, cells: DataFrame, batch: int, keep_from: datetime.datetime | None = None) -> None:
        """Write the cells of a batch, replace those of an earlier attempt, and compact the folders that are due.

        Hours before `keep_from` are left out when folders are compacted, and folders with only such hours are deleted.
        """
        self._write(_stored(cells), (batch, batch))
        due = [(batch + 1 - count, batch) for count in COMPACTED if (batch + 1) % count == 0]
        if due:
            self._delete_compacted()
        for whole in due:
            self._compact(whole, keep_from)
        if due and keep_from is not None:
            self._expire(keep_from)

    def ranges(self) -> list[Range]:
        """Return the batches of the folders that count, in order."""
        return list(self._contents())

    def cells(self, since: datetime.datetime | None = None, until: datetime.datetime | None = None) -> DataFrame | None:
        """Return the cells of all batches from `since` to before `until`, not merged; None if there are no batches."""
        contents = self._contents()
        return self._cells(contents, since, until) if contents else None

    def _cells(
        self, contents: Contents, since: datetime.datetime | None = None, until: datetime.datetime | None = None
    ) -> DataFrame:
        from pyspark.sql import functions as sf

        columns = (*KEY_NAMES, *MEASURE_NAMES)
        divided = [self._path(each) for each, names in contents.items() if any(name.startswith("date=") for name in names)]
        whole = [path for path in map(self._path, contents) if path not in divided]
        found = []
        if divided:
            reader = self._spark.read.option("basePath", self.url)
            hours = reader.schema(f"{kinds.ddl()}, batches string, date string, hour string").parquet(*divided)
            hour = sf.concat_ws("T", "date", "hour")
            if since is not None:
                hours = hours.where((sf.col("date") >= f"{since:%Y-%m-%d}") & (hour >= f"{since:%Y-%m-%dT%H}"))
            if until is not None:
                hours = hours.where((sf.col("date") <= f"{until:%Y-%m-%d}") & (hour <= f"{until:%Y-%m-%dT%H}"))
            found.append(hours.select(*columns))
        if whole:
            found.append(self._spark.read.schema(kinds.ddl()).parquet(*whole).select(*columns))
        cells = reduce(lambda a, b: a.unionByName(b), found)
        if since is not None:
            cells = cells.where(sf.col(TIME.name) >= since)
        return cells if until is None else cells.where(sf.col(TIME.name) < until)

    def _delete_compacted(self) -> None:
        """Delete the folders that were merged into others the last time; until then a report may be reading them."""
        kept = self.ranges()
        for each in self._found():
            if each not in kept and any(_contains(other, each) for other in kept):
                self._folder.delete(_name(each))

    def _compact(self, whole: Range, keep_from: datetime.datetime | None) -> None:
        """Merge folders into one."""
        parts = {each: names for each, names in self._contents().items() if _contains(whole, each)}
        if list(parts) == [whole]:
            return  # this batch is repeated
        self._write(aggregate.merged(self._cells(parts, keep_from)), whole, is_sorted=True)

    def _expire(self, keep_from: datetime.datetime) -> None:
        """Delete the folders whose hours are all before a time."""
        first = f"date={keep_from:%Y-%m-%d}"
        for each, names in self._contents().items():
            dates = [name for name in names if name.startswith("date=")]
            if dates and max(dates) < first:
                self._folder.delete(_name(each))

    def _write(self, cells: DataFrame, batches: Range, *, is_sorted: bool = False) -> None:
        from pyspark.sql import functions as sf

        date, hour = sf.date_format(TIME.name, "yyyy-MM-dd").alias("date"), sf.date_format(TIME.name, "HH").alias("hour")
        hours = cells.select(*KEY_NAMES, *MEASURE_NAMES, date, hour)
        if is_sorted:
            hours = hours.repartition("date", "hour").sortWithinPartitions("date", "hour", "kind", TIME.name)
        writer = hours.write.mode("overwrite").partitionBy("date", "hour")
        writer.options(compression="zstd", **_AS_ONE).parquet(self._path(batches))

    def _found(self) -> list[Range]:
        names = map(_BATCHES.match, self._folder.names())
        return [(int(found[1]), int(found[2])) for found in names if found is not None]

    def _contents(self) -> Contents:
        """Return the names in each of the folders that count, in order."""
        contents: Contents = {}

        def is_complete(batches: Range) -> bool:
            contents[batches] = self._folder.names(_name(batches))
            return _COMPLETE in contents[batches]

        return {each: contents[each] for each in _widest(self._found(), is_complete)}

    def _path(self, batches: Range) -> str:
        return f"{self.url}/{_name(batches)}"


def _widest(found: list[Range], is_complete: Callable[[Range], bool]) -> list[Range]:
    """Return the complete folders that no other complete one contains."""
    kept: list[Range] = []
    for each in sorted(found, key=lambda batches: (batches[0], -batches[1])):
        # In this order only the last one that was kept can contain this one: ranges contain each other or are apart.
        if not (kept and _contains(kept[-1], each)) and is_complete(each):
            kept.append(each)
    return kept


def _contains(whole: Range, part: Range) -> bool:
    return whole[0] <= part[0] and part[1] <= whole[1]


def _stored(cells: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sf

    return cells.where(sf.col("kind").isin([kind for kind, each in KINDS.items() if each.is_stored]))


def _name(batches: Range) -> str:
    return f"batches={batches[0]}-{batches[1]}"
