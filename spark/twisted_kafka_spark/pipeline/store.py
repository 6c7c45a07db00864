"""Rollups as Parquet: `<directory>/rollup=3/date=2026-11-21/hour=08/cells.<source>.<write>.parquet`, with one row per cell.

The first folder's name has the version of the layout, which changes by further columns and kinds only. An hour of a source is the
newest file `cells`, and the files `more` that were written after it; each says which lines it is of (`cells.seen`). A run takes
only lines that are not there. So runs, kills, retention and late files come in any order, and an hour never becomes less. After
`MOST_PARTS` files an hour is merged into one, as bounded as its names are.

A write makes its files elsewhere, renames them into their hours, and then deletes the replaced files. So a reader during the write,
or after a kill, gets either the old or the new state of an hour. Spark's dynamic overwrite deletes an hour before it moves the new
one there, so a kill in between loses it. Two writes of one source at once do not see each other.
"""

from __future__ import annotations

import datetime
import re
import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any

from twisted_kafka_spark.cells import kinds
from twisted_kafka_spark.cells.kinds import KEY_NAMES, KINDS, MEASURE_NAMES, TIME
from twisted_kafka_spark.cells.seen import KINDS_OF_COVERAGE, Coverage, Seen, decide
from twisted_kafka_spark.choices import SOURCE
from twisted_kafka_spark.pipeline import exchange, page
from twisted_kafka_spark.pipeline.followed import FOLLOWED, Followed
from twisted_kafka_spark.records.read import NoAccessLogError
from twisted_kafka_spark.runtime.folder import Folder

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

VERSION = 3
"""The version of the layout; the first two were those of rollups by grain, which cannot be read any more."""
ROLLED_UP = f"rollup={VERSION}"
"""The folder of whole hours."""
STALE_S = 86_400
"""The age at which the files of a write that was killed are deleted; nothing reads them."""
MOST_PARTS = 8
"""The files of an hour and a source that are kept before they are merged."""
_FOLDER = re.compile(r"(rollup|followed|grain)=(\d+)")
_FILE = re.compile(r"(?:^|/)date=([^/]+)/hour=([^/]+)/(?:(cells|more)\.([\w-]+)\.(\d+)-[0-9a-f]+|part-[^/]+)\.parquet$")
_ASIDE = ("_writing-", ".spark-staging-")
"""How the folders of unfinished writes begin: ours, and those of Spark, which wrote the hours itself in earlier releases."""
Announce = Callable[[Sequence[str]], None]
_TELLING = ("traffic", "lines", *KINDS_OF_COVERAGE)
"""The kinds of cells that say of which lines a file is; every file has one of them."""


@dataclass(slots=True)
class Written:
    """The hours (`2026-11-21T10`) that a write changed, and the hours that it kept, which have only some of its lines."""

    hours: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)


def write(found: DataFrame, directory: str, source: str = SOURCE, announce: Announce = lambda names: None) -> Written:
    """Write cells that are bounded by hour to the hours of this source; call `announce` with them before any of them changes."""
    hours = _Hours(found.sparkSession, f"{directory.rstrip('/')}/{ROLLED_UP}")
    written = hours.add(found, source, announce)
    hours.merge_parts(written.hours, source)
    hours.delete_stale()
    return written


def clean(spark: SparkSession, directory: str) -> None:
    """Delete what writes that were killed have left for a day."""
    _Hours(spark, f"{directory.rstrip('/')}/{ROLLED_UP}").delete_stale()


def exists(spark: SparkSession, directory: str) -> bool:
    """Return whether a directory has hours of a rollup."""
    return any(name.startswith("date=") for name in Folder(spark, f"{directory.rstrip('/')}/{ROLLED_UP}").names())


def hours(spark: SparkSession, directory: str) -> list[str]:
    """Return the hours (`2026-11-21T10`) of a rollup."""
    folder = Folder(spark, f"{directory.rstrip('/')}/{ROLLED_UP}")
    dates = sorted(name for name in folder.names() if name.startswith("date="))
    return [f"{date[5:]}T{hour[5:]}" for date in dates for hour in sorted(folder.names(date)) if hour.startswith("hour=")]


def seen(spark: SparkSession, directory: str, source: str, earliest: str = "") -> Seen:
    """Return which lines a rollup has of a source, in the hours from `earliest` on, in the format of the field `time`."""
    from pyspark.sql import functions as sf

    if not exists(spark, directory):
        return Seen()
    cells = _hours(spark, directory.rstrip("/"), {"ignoreCorruptFiles": "true"})
    mine = cells.where(sf.col("kind").isin(list(KINDS_OF_COVERAGE)) & _is_of(source))
    if earliest:
        mine = mine.where((sf.col("date") >= earliest[:10]) & (sf.concat_ws("T", "date", "hour") >= earliest[:13]))
    columns = ("kind", TIME.name, "node", "note", "error", "first_us", "last_us", "partitions")
    rows = mine.select(*columns, sf.col("_metadata.file_name").alias("file")).toArrow().to_pylist()
    healthy = {row["file"] for row in rows}
    files = [each for each in cells.inputFiles() if _source(each) == source]
    unread = {each.rpartition("/")[2] for each in files} - replaced(files) - healthy
    damaged = {each.rpartition("/")[0][-len("date=2026-11-21/hour=08") :] for each in files if each.rpartition("/")[2] in unread}
    for row in rows:
        if row[TIME.name].strftime("date=%Y-%m-%d/hour=%H") in damaged:
            row["partitions"] = None  # read the log's files of this hour again: lines may be missing
    return Seen.of(rows)


def _is_of(source: str) -> Column:
    """Return the condition on files of a source."""
    from pyspark.sql import functions as sf

    name = sf.col("_metadata.file_name")
    ours = name.rlike(rf"^(cells|more)\.{source}\.")
    return ours | name.startswith("part-") if source == SOURCE else ours


class _Hours(Folder):
    """The folder of hours."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        super().__init__(spark, path)
        self._spark = spark

    def add(self, found: DataFrame, source: str, announce: Announce) -> Written:
        """Write cells, and take them into their hours."""
        aside = self._written(found)
        try:
            announce([_name(hour) for hour in self._files_by_hour(aside)])
            return self._take(aside, source)
        finally:
            self.delete(aside)

    def merge_parts(self, hours: Sequence[str], source: str) -> None:
        """Merge the files of those hours that have too many."""
        folders = (f"date={hour[:10]}/hour={hour[11:]}" for hour in hours)
        present = {folder: self._present(folder, source) for folder in folders}
        many = [path for paths in present.values() if len(paths) > MOST_PARTS for path in paths]
        if not many:
            return
        shards = exchange.as_shards(self._cells(many))
        aside = self._written(exchange.as_cells(page.by_hour(shards, page.sizes(shards))))
        try:
            for hour, path in self._files_by_hour(aside).items():
                self._replace(hour, path, source)
        finally:
            self.delete(aside)

    def _written(self, found: DataFrame) -> str:
        """Write cells to a file for each hour; return the folder, which the caller deletes."""
        from pyspark.sql import functions as sf

        stored = found.where(sf.col("kind").isin([kind for kind, each in KINDS.items() if each.is_stored]))
        hours = stored.select(
            *KEY_NAMES,
            *MEASURE_NAMES,
            sf.date_format(TIME.name, "yyyy-MM-dd").alias("date"),
            sf.date_format(TIME.name, "HH").alias("hour"),
        )
        files = hours.repartition("date", "hour").sortWithinPartitions("date", "hour", "kind", TIME.name)
        aside = f"{_ASIDE[0]}{secrets.token_hex(8)}"
        try:
            writer = files.write.partitionBy("date", "hour").option("maxRecordsPerFile", 0)  # one file for each hour
            writer.option("compression", "zstd").parquet(f"{self.url}/{aside}")
        except BaseException:
            self.delete(aside)
            raise
        return aside

    def _take(self, aside: str, source: str) -> Written:
        """Move the files of a write into their hours, as `seen.decide` says."""
        new = self._files_by_hour(aside)
        present = {hour: self._present(hour, source) for hour in new}
        touched = {hour: paths for hour, paths in present.items() if paths}
        old_lines, healthy = self._coverage([path for paths in touched.values() for path in paths])
        new_lines, _ = self._coverage([new[hour] for hour in touched])
        written = Written()
        for hour, path in new.items():
            old = old_lines.get(hour, Coverage()) if hour in touched else None
            step = decide(old, new_lines.get(hour, Coverage()))
            name = _name(hour)
            if step == "refuse":
                written.kept.append(name)
            elif step == "replace":
                self._replace(hour, path, source)
                written.hours.append(name)
            elif step == "add":
                whole = [each for each in present[hour] if each.rpartition("/")[2] in healthy]
                self.move(path, f"{hour}/{'more' if whole else 'cells'}.{source}.{self._number(hour)}.parquet")
                for damaged in set(present[hour]) - set(whole):
                    self.delete(damaged)
                written.hours.append(name)
        return written

    def _replace(self, hour: str, path: str, source: str) -> None:
        before = [each for each in self.files(hour) if _source(each) == source]
        self.move(path, f"{hour}/cells.{source}.{self._number(hour)}.parquet")
        for each in before:
            self.delete(each)

    def _number(self, hour: str) -> str:
        """Return the number of a write into an hour, higher than those of its files."""
        newest = max(map(_order, self.files(hour)), default=0)
        return f"{max(time.time_ns() // 1_000_000, newest + 1):013}-{secrets.token_hex(4)}"

    def _files_by_hour(self, aside: str) -> dict[str, str]:
        made = [(found, path) for path in self.files(aside) if (found := _FILE.search(path))]
        hours = {f"date={found[1]}/hour={found[2]}": path for found, path in made}
        if len(hours) < len(made):
            raise RuntimeError(f"Spark wrote several files for an hour below {self.url}/{aside}")
        return hours

    def _present(self, hour: str, source: str) -> list[str]:
        """Return the files of an hour and a source that count."""
        mine = [path for path in self.files(hour) if _source(path) == source]
        old = replaced(mine)
        return [path for path in mine if path.rpartition("/")[2] not in old]

    def _cells(self, files: Sequence[str]) -> DataFrame:
        reader = self._spark.read.schema(kinds.ddl()).option("ignoreCorruptFiles", "true")
        return reader.parquet(*(f"{self.url}/{path}" for path in files))

    def _coverage(self, files: Sequence[str]) -> tuple[dict[str, Coverage], set[str]]:
        """Return the lines of files by the name of their hour's folder, and the names of undamaged files."""
        from pyspark.sql import functions as sf

        if not files:
            return {}, set()
        name, hour = (
            sf.col("_metadata.file_name").alias("file"),
            sf.date_format(TIME.name, "'date='yyyy-MM-dd'/hour='HH").alias("hour"),
        )
        telling = self._cells(files).where(sf.col("kind").isin(list(_TELLING)))
        columns = ("kind", "node", "note", "error", "first_us", "last_us")
        rows = telling.groupBy(name, hour, *columns).agg(sf.sum("requests").alias("requests")).toArrow().to_pylist()
        by_hour: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in rows:
            by_hour[row["hour"]].append(row)
        found = {}
        for each, mine in by_hour.items():
            requests = sum(row["requests"] for row in mine if row["kind"] == "traffic")
            found[each] = Coverage.of((row for row in mine if row["kind"] in KINDS_OF_COVERAGE), requests)
        return found, {row["file"] for row in rows}

    def delete_stale(self) -> None:
        """Delete the files of writes that were killed."""
        oldest_ms = (time.time() - STALE_S) * 1000
        for name in self.names():
            if name.startswith(_ASIDE) and self.modified_ms(name) < oldest_ms:
                self.delete(name)


def _name(folder: str) -> str:
    """Return the hour (`2026-11-21T10`) of a folder."""
    return folder.replace("date=", "").replace("/hour=", "T")


def _source(path: str) -> str:
    found = _FILE.search(path)
    return (found[4] or SOURCE) if found else ""


def _order(path: str) -> int:
    """Return the number of the write that made a file; 0 for one that Spark named."""
    found = _FILE.search(path)
    return int(found[5] or 0) if found else 0


def replaced(paths: Iterable[str]) -> set[str]:
    """Return the names of those files that a newer file `cells` of their hour and source replaces."""
    known = [(found, path) for path in paths if (found := _FILE.search(path))]
    newest: dict[tuple[str, ...], int] = {}
    for found, path in known:
        if found[3] != "more":
            key = found[1], found[2], found[4] or SOURCE
            newest[key] = max(_order(path), newest.get(key, 0))
    return {
        path.rpartition("/")[2] for found, path in known if _order(path) < newest.get((found[1], found[2], found[4] or SOURCE), 0)
    }


def read(spark: SparkSession, directories: Sequence[str], since: str = "", until: str = "") -> DataFrame:
    """Return the cells of rollups, not merged, of the hours from `since` to before `until`, in the format of the field `time`.

    Raises NoAccessLogError when a directory does not contain a rollup of this version.
    """
    from pyspark.sql import functions as sf

    parts = (_read(spark, directory.rstrip("/"), since, until) for directory in directories)
    whole = reduce(lambda a, b: a.unionByName(b), parts)
    hour = sf.concat_ws("T", "date", "hour")
    if since:
        whole = whole.where((sf.col("date") >= since[:10]) & (hour >= since[:13]))
    if until:
        whole = whole.where((sf.col("date") <= until[:10]) & (hour < until[:13]))
    return whole.select(*KEY_NAMES, *MEASURE_NAMES)


def _read(spark: SparkSession, directory: str, since: str, until: str) -> DataFrame:
    """Return the cells in a directory with their date and hour: of whole hours, or of the batches that `follow` wrote."""
    from pyspark.sql import functions as sf

    if _folder(spark, directory) == ROLLED_UP:
        return _hours(spark, directory, {"ignoreMissingFiles": "false"})
    begin, end = (datetime.datetime.fromisoformat(f"{each}+00:00") if each else None for each in (since, until))
    batches = Followed(spark, directory).cells(begin and begin.replace(minute=0, second=0), end)
    if batches is None:
        raise NoAccessLogError(f"{directory} has no whole batch yet of what `follow` writes")
    date, hour = sf.date_format(TIME.name, "yyyy-MM-dd"), sf.date_format(TIME.name, "HH")
    return batches.withColumn("date", date).withColumn("hour", hour)


def _hours(spark: SparkSession, directory: str, options: Mapping[str, str]) -> DataFrame:
    """Return the cells of whole hours in a directory, with their date and hour."""
    from pyspark.sql import functions as sf

    reader = spark.read.options(**options).schema(f"{kinds.ddl()}, date string, hour string")
    hours = reader.parquet(f"{directory}/{ROLLED_UP}")
    old = sorted(replaced(hours.inputFiles()))
    return hours.where(~sf.col("_metadata.file_name").isin(old)) if old else hours


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
