"""The cells that `follow` writes: `<directory>/followed=4/batches=0-63/*.parquet`, the cells of these batches of a stream.

Cells of equal keys are added when they are read, so a batch is written as it comes, however late its lines are. A batch that is
repeated replaces its folder. Folders are compacted: those of 64 batches are merged into one, and 64 of those again. A folder counts
if it is complete, which Spark's `_SUCCESS` says, and if no other complete one has its batches, too: writing and compacting may be
interrupted at any moment.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from twisted_kafka_spark.cells import aggregate, kinds
from twisted_kafka_spark.cells.kinds import HOUR_S, KEY_NAMES, KINDS, MEASURE_NAMES, TIME
from twisted_kafka_spark.runtime.folder import Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FOLLOWED = "followed=4"
"""The folder of all batches; its number is the version of the layout."""
COMPACTED = (64, 4096)
"""How many batches are merged into one folder, and how many of those again."""
_COMPLETE = "_SUCCESS"
_BATCHES = re.compile(r"batches=(\d+)-(\d+)$")

Range = tuple[int, int]
"""The first and the last batch of a folder."""


class Followed:
    """The batches below a directory, in any of Hadoop's file systems."""

    def __init__(self, spark: SparkSession, directory: str) -> None:
        self._spark = spark
        self._folder = Folder(spark, f"{directory.rstrip('/')}/{FOLLOWED}")
        self.url = self._folder.url

    def add(self, cells: DataFrame, batch: int) -> None:
        """Write the cells of a batch, replace those of an earlier attempt, and compact the folders that are due."""
        self._write(_stored(cells), (batch, batch))
        due = [(batch + 1 - count, batch) for count in COMPACTED if (batch + 1) % count == 0]
        if due:
            self._delete_compacted()
        for whole in due:
            self._compact(whole)

    def ranges(self) -> list[Range]:
        """Return the batches of the folders that count, in order."""
        return _widest(self._found(), self._is_complete)

    def cells(self) -> DataFrame | None:
        """Return the cells of all batches, not merged; None if there are no batches."""
        ranges = self.ranges()
        if not ranges:
            return None
        paths = [f"{self.url}/{_name(each)}" for each in ranges]
        return self._spark.read.schema(kinds.ddl()).parquet(*paths).select(*KEY_NAMES, *MEASURE_NAMES)

    def _delete_compacted(self) -> None:
        """Delete the folders that were merged into others the last time; until then a report may be reading them."""
        found = self._found()
        kept = _widest(found, self._is_complete)
        for each in found:
            if each not in kept and any(_contains(other, each) for other in kept):
                self._folder.delete(_name(each))

    def _compact(self, whole: Range) -> None:
        """Merge folders into one."""
        from pyspark.sql import functions as sf

        parts = [each for each in self.ranges() if _contains(whole, each)]
        if parts == [whole]:
            return  # this batch is repeated
        cells = self._spark.read.schema(kinds.ddl()).parquet(*(f"{self.url}/{_name(each)}" for each in parts))
        hours = aggregate.merged(cells).repartition(sf.floor(sf.unix_seconds(TIME.name) / HOUR_S))
        self._write(hours.sortWithinPartitions("kind", TIME.name), whole)

    def _write(self, cells: DataFrame, batches: Range) -> None:
        writer = cells.select(*KEY_NAMES, *MEASURE_NAMES).write.mode("overwrite")
        writer.option("compression", "zstd").parquet(f"{self.url}/{_name(batches)}")

    def _found(self) -> list[Range]:
        names = map(_BATCHES.match, self._folder.names())
        return [(int(found[1]), int(found[2])) for found in names if found is not None]

    def _is_complete(self, batches: Range) -> bool:
        return self._folder.exists(f"{_name(batches)}/{_COMPLETE}")


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
