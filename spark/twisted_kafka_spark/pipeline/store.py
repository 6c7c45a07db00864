"""Rollups as Parquet: `<directory>/rollup=3/date=2026-11-21/hour=08/cells.<source>.<write>.parquet`, with one row per cell.

The first folder's name has the version of the schema. An hour of a source is one file, as bounded as its names are.
A write makes its files elsewhere, renames them into their hours, and then deletes the replaced files. It replaces an hour only
with at least as many requests: retention may have deleted a part of the log since. Only the newest file of an hour and a source
counts, so a reader during the write, or after a kill, gets either the old or the new state of an hour. Spark's dynamic overwrite
deletes an hour before it moves the new one there, so a kill in between loses it. A table format (Delta, Iceberg) would need a jar
in executors and readers. Two writes of one source at once do not see each other.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from twisted_kafka_spark.cells import kinds
from twisted_kafka_spark.cells.kinds import KEY_NAMES, KINDS, MEASURE_NAMES, TIME
from twisted_kafka_spark.pipeline.followed import FOLLOWED, Followed
from twisted_kafka_spark.records.read import NoAccessLogError
from twisted_kafka_spark.runtime.folder import Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VERSION = 3
"""The version of the schema; the first two were those of rollups by grain, which cannot be read any more."""
ROLLED_UP = f"rollup={VERSION}"
"""The folder of whole hours."""
SOURCE = "log"
"""The name of the lines that are rolled up, unless there are several logs for one directory."""
STALE_S = 86_400
"""The age at which the files of a write that was killed are deleted; nothing reads them."""
_FOLDER = re.compile(r"(rollup|followed|grain)=(\d+)")
_FILE = re.compile(r"(?:^|/)date=([^/]+)/hour=([^/]+)/(?:cells\.([\w-]+)\.(\d+)-[0-9a-f]+|part-[^/]+)\.parquet$")
_ASIDE = ("_writing-", ".spark-staging-")
"""How the folders of unfinished writes begin: ours, and those of Spark, which wrote the hours itself in earlier releases."""


def write(found: DataFrame, directory: str, source: str = SOURCE) -> list[str]:
    """Write cells that are bounded by hour, replacing the hours of this source that they are about and no others.

    Returns the hours (`2026-11-21T10`) that were kept, because they have more requests than the cells.
    """
    from pyspark.sql import functions as sf

    stored = found.where(sf.col("kind").isin([kind for kind, each in KINDS.items() if each.is_stored]))
    hours = stored.select(
        *KEY_NAMES,
        *MEASURE_NAMES,
        sf.date_format(TIME.name, "yyyy-MM-dd").alias("date"),
        sf.date_format(TIME.name, "HH").alias("hour"),
    )
    files = hours.repartition("date", "hour").sortWithinPartitions("date", "hour", "kind", TIME.name)
    folder = _Hours(found.sparkSession, f"{directory.rstrip('/')}/{ROLLED_UP}")
    aside = f"{_ASIDE[0]}{secrets.token_hex(8)}"
    try:
        writer = files.write.partitionBy("date", "hour").option("maxRecordsPerFile", 0)  # one file for each hour
        writer.option("compression", "zstd").parquet(f"{folder.url}/{aside}")
        kept = folder.take(aside, source)
    finally:
        folder.delete(aside)
    folder.delete_stale()
    return kept


class _Hours(Folder):
    """The folder of hours."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        super().__init__(spark, path)
        self._spark = spark

    def take(self, aside: str, source: str) -> list[str]:
        """Move the files of a write into their hours, and delete those of the same source that they replace.

        Returns the hours whose present file has more requests, and stays.
        """
        made = [(found, path) for path in self.files(aside) if (found := _FILE.search(path))]
        hours = {f"date={found[1]}/hour={found[2]}": path for found, path in made}
        if len(hours) < len(made):
            raise RuntimeError(f"Spark wrote several files for an hour below {self.url}/{aside}")
        before = {hour: self.files(hour) for hour in hours}
        present = {
            hour: max(mine, key=_order) for hour, paths in before.items() if (mine := [p for p in paths if _source(p) == source])
        }
        old, new = self._requests(list(present.values())), self._requests([hours[hour] for hour in present])
        kept = sorted(hour for hour in present if new.get(hour, 0) < old.get(hour, 0))
        for hour in kept:
            del hours[hour], before[hour]
        newest = max((_order(path) for paths in before.values() for path in paths), default=0)
        write = f"{max(time.time_ns() // 1_000_000, newest + 1):013}-{secrets.token_hex(4)}"
        for hour, path in hours.items():
            self.move(path, f"{hour}/cells.{source}.{write}.parquet")
        for paths in before.values():
            for path in paths:
                if _source(path) == source:
                    self.delete(path)
        return [hour.replace("date=", "").replace("/hour=", "T") for hour in kept]

    def _requests(self, files: Sequence[str]) -> dict[str, int]:
        """Return the requests in files by hour, as the hour's folder is named; a damaged file has none."""
        from pyspark.sql import functions as sf

        if not files:
            return {}
        reader = self._spark.read.schema(kinds.ddl()).option("ignoreCorruptFiles", "true")
        cells = reader.parquet(*(f"{self.url}/{path}" for path in files)).where("kind = 'traffic'")
        counts = cells.groupBy(sf.date_format(TIME.name, "'date='yyyy-MM-dd'/hour='HH").alias("hour")).agg(sf.sum("requests"))
        return dict(counts.collect())

    def delete_stale(self) -> None:
        """Delete what writes that were killed have left."""
        oldest_ms = (time.time() - STALE_S) * 1000
        for name in self.names():
            if name.startswith(_ASIDE) and self.modified_ms(name) < oldest_ms:
                self.delete(name)


def _source(path: str) -> str:
    found = _FILE.search(path)
    return (found[3] or SOURCE) if found else ""


def _order(path: str) -> int:
    """Return the number of the write that made a file; 0 for one that Spark named."""
    found = _FILE.search(path)
    return int(found[4] or 0) if found else 0


def replaced(paths: Iterable[str]) -> list[str]:
    """Return the names of those files in whose hour there is a newer one of the same source."""
    known = [(found, path) for path in paths if (found := _FILE.search(path))]
    newest: dict[tuple[str, ...], int] = {}
    for found, path in known:
        key = found[1], found[2], found[3] or SOURCE
        newest[key] = max(_order(path), newest.get(key, 0))
    return [path.rpartition("/")[2] for found, path in known if _order(path) < newest[found[1], found[2], found[3] or SOURCE]]


def read(spark: SparkSession, directories: Sequence[str], since: str = "", until: str = "") -> DataFrame:
    """Return the cells of rollups, not merged, of the hours from `since` to before `until`, in the format of the field `time`.

    Raises NoAccessLogError when a directory does not contain a rollup of this version.
    """
    from pyspark.sql import functions as sf

    whole = reduce(lambda a, b: a.unionByName(b), (_read(spark, directory.rstrip("/")) for directory in directories))
    hour = sf.concat_ws("T", "date", "hour")
    if since:
        whole = whole.where((sf.col("date") >= since[:10]) & (hour >= since[:13]))
    if until:
        whole = whole.where((sf.col("date") <= until[:10]) & (hour < until[:13]))
    return whole.select(*KEY_NAMES, *MEASURE_NAMES)


def _read(spark: SparkSession, directory: str) -> DataFrame:
    """Return the cells in a directory with their date and hour: of whole hours, or of the batches that `follow` wrote."""
    from pyspark.sql import functions as sf

    if _folder(spark, directory) == ROLLED_UP:
        reader = spark.read.option("ignoreMissingFiles", "false")
        hours = reader.schema(f"{kinds.ddl()}, date string, hour string").parquet(f"{directory}/{ROLLED_UP}")
        old = replaced(hours.inputFiles())
        return hours.where(~sf.col("_metadata.file_name").isin(old)) if old else hours
    batches = Followed(spark, directory).cells()
    if batches is None:
        raise NoAccessLogError(f"{directory} has no whole batch yet of what `follow` writes")
    date, hour = sf.date_format(TIME.name, "yyyy-MM-dd"), sf.date_format(TIME.name, "HH")
    return batches.withColumn("date", date).withColumn("hour", hour)


def _folder(spark: SparkSession, directory: str) -> str:
    """Return the name of the folder with rollups in a directory; raise NoAccessLogError unless there is one, of our version."""
    folder = Folder(spark, directory)
    if not folder.exists(""):
        raise NoAccessLogError(f"{directory} does not exist")
    ours = {name: int(number) for name, _, number in (each.partition("=") for each in (ROLLED_UP, FOLLOWED))}
    found = {name: (each[1], int(each[2])) for name in folder.names() if (each := _FOLDER.fullmatch(name))}
    for name, (what, version) in found.items():
        if name not in (ROLLED_UP, FOLLOWED):
            readable = ours.get(what, VERSION)
            is_newer = what in ours and version > readable
            advice = "a newer twisted-kafka-spark is required" if is_newer else "make it again from the log, in another directory"
            raise NoAccessLogError(f"{directory}/{name} has another version than what can be read ({readable}): {advice}")
    if len(found) > 1:
        raise NoAccessLogError(
            f"{directory} contains what `rollup` and what `follow` wrote, perhaps of the same lines: separate them"
        )
    if not found:
        raise NoAccessLogError(f"{directory} is not a rollup (written with --rollup)")
    return next(iter(found))
