"""Find the files of a log, and let Spark read those in file systems that the tasks cannot access themselves."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from glob import glob
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from twisted_kafka_spark.records.pieces import PARQUET, ZSTD, closed_name, is_damaged, is_open, local_path, whole_lines

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

LINE_SUFFIX = ".jsonl"
COMPRESSED = ("", ".gz", ".bz2", ZSTD)
_NOT_FOR_READERS = (".", "_")
_OPEN = re.compile(r"/\.node-\d+-\d+\.jsonl$")
"""A file that a broker still writes; only its complete lines are read."""
KAFKA_LOG = re.compile(r"(?<!^\d{20})\.log([.-](\d{4}-\d\d-\d\d(-\d\d)?|\d{1,14}))?$")
"""The end of the name of Kafka's request log. log4j appends a date or a number when it rolls, logrotate a number or `-20261121`.
The name of a partition's segment (`00000000000000000000.log`) does not match."""
ROLLUP_FOLDER = re.compile(r"(^|/)((grain|rollup|followed)=\d+|tables/[a-z_]+/date=[\d-]+)/")
"""Rollups and their tables may be stored in the directory of a log; they are not part of it."""
_HOUR_FOLDERS = re.compile(r"date=(\d{4}-\d\d-\d\d)/hour=(\d\d)/")


class NoAccessLogError(Exception):
    """No access-log file was found."""


@dataclass(slots=True)
class Sources:
    """The files to read, and the files that are skipped because another file contains the same lines."""

    lines: list[str] = field(default_factory=list)
    parquet: list[str] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    """Lines that say of other files that they cannot be read."""
    size_bytes: int = 0

    def __len__(self) -> int:
        return len(self.lines) + len(self.parquet) + len(self.told)

    def set_aside(self, damaged: Mapping[str, str]) -> None:
        """Count each damaged Parquet file, given with its error, as a garbled line. The intact part of a local file is read."""
        mine = [path for path in self.parquet if path in damaged]
        self.parquet = [path for path in self.parquet if path not in damaged]
        self.lines += [path for path in mine if not is_remote(path)]
        self.told += [f"cannot read {path}: {damaged[path]}" for path in mine if is_remote(path)]


def is_remote(path: str) -> bool:
    """Return whether a path is in an object store or in HDFS."""
    return bool(urlsplit(path).scheme) and not path.startswith("file:")


def is_same_file(one: str, other: str) -> bool:
    """Return whether two paths, of which each may be a URL, name the same file."""
    return unquote(local_path(one)) == unquote(local_path(other))


def qualified(spark: SparkSession, paths: Sequence[str]) -> list[str]:
    """Return paths with a scheme where Hadoop's `fs.defaultFS` is not this machine's file system."""
    context: Any = spark.sparkContext
    configuration = context._jsc.hadoopConfiguration()
    if configuration.get("fs.defaultFS", "file:").startswith("file:"):
        return list(paths)
    located = [context._jvm.org.apache.hadoop.fs.Path(path) for path in paths]
    return [str(path.getFileSystem(configuration).makeQualified(path).toString()) for path in located]


def find_sources(
    spark: SparkSession | None, paths: Sequence[str], since: str = "", until: str = "", *, with_open: bool = True
) -> Sources:
    """Return the files at or below `paths`; `spark` is only needed for remote paths.

    Local files that a broker still writes are included unless `with_open` is false. Files of hours that end before `since`, or
    begin after `until` (in the format of the field `time`), are skipped. Raises NoAccessLogError when no file is found.
    """
    listed: list[tuple[str, int]] = []
    closed_to_us: list[str] = []
    for path in paths:
        if is_remote(path):
            assert spark is not None
            listed += _remote_files(spark, path)
        else:
            listed += _local_files(local_path(path), closed_to_us)
    named = {local_path(path) for path in paths if not is_remote(path)}  # these are read whatever their names are
    wanted = [(path, size) for path, size in listed if _is_wanted(path, named, with_open) and _in_period(path, since, until)]
    if not wanted and not closed_to_us:
        which = "access-log file" if with_open else "closed access-log file"
        raise NoAccessLogError(f"{', '.join(paths)}: no {which} (date=.../hour=.../node-*.jsonl) nor a Kafka request log")
    sources = _without_repeats(wanted)
    sources.lines += closed_to_us  # the task that opens them reports the error
    return sources


def read_lines(spark: SparkSession, files: Sequence[str]) -> list[DataFrame]:
    """Return the lines of files that Spark has to read in the column `value`; a row is a line or a block of lines."""
    zstd = [path for path in files if path.endswith(ZSTD)]
    others = [path for path in files if not path.endswith(ZSTD)]
    parts = [spark.read.text(others)] if others else []
    if zstd:
        # Hadoop's codec needs a native library that pyspark does not include before 4.3, so the tasks decompress with Arrow.
        whole = spark.read.format("binaryFile").load(zstd).select("content")
        parts.append(whole.mapInArrow(decompressed_lines, "value binary"))
    return parts


def decompressed_lines(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield blocks of the lines of files compressed with zstd; each row contains a whole file."""
    import pyarrow as pa

    for batch in batches:
        for content in batch.column(0):
            with pa.CompressedInputStream(pa.BufferReader(content.as_buffer()), "zstd") as stream:
                for block in whole_lines(stream, "zstd"):
                    yield pa.record_batch({"value": pa.array([block], pa.binary())})


def read_parquet(spark: SparkSession, files: Sequence[str]) -> DataFrame:
    """Return the records of Parquet files; raise NoAccessLogError when the first is not an access log."""
    from twisted_kafka_spark.records.schema import access_log_schema

    if "time" not in spark.read.parquet(files[0]).columns:
        raise NoAccessLogError(f"{files[0]} is not an access log: it has no column `time`")
    return spark.read.schema(access_log_schema()).parquet(*files)


def damaged_tables(spark: SparkSession, sources: Sources) -> set[str]:
    """Return the local Parquet files that cannot be read to their ends; tasks read all of them."""
    local = [path for path in sources.parquet if not is_remote(path)]
    if not local:
        return set()
    names = spark.sparkContext.parallelize(local, min(len(local), spark.sparkContext.defaultParallelism * 4))
    return set(names.filter(lambda path: is_damaged(local_path(path))).collect())


def _local_files(path: str, closed_to_us: list[str]) -> list[tuple[str, int]]:
    """List a file, a directory, or what a pattern names; directories that may not be listed are appended to `closed_to_us`."""
    if not os.path.exists(path) and (matching := sorted(glob(path))):
        return [each for match in matching for each in _local_files(match, closed_to_us)]
    if os.path.isfile(path):
        return [(path, os.path.getsize(path))]
    if not os.path.isdir(path):
        raise NoAccessLogError(f"{path} is not a file or directory; expected the broker's access.log.dir or a Kafka request log")

    def refused(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            closed_to_us.append(str(error.filename))

    names = [os.path.join(folder, name) for folder, _, files in os.walk(path, onerror=refused) for name in files]
    return [(name, size) for name, size in dict.fromkeys(map(_still_there, sorted(names))) if size >= 0]


def _still_there(path: str) -> tuple[str, int]:
    """Return the path and size of a file, which may have been closed since it was listed; the size is -1 if it is not a file."""
    for name in (path, closed_name(path)):
        try:
            found = os.stat(name)
        except FileNotFoundError:
            continue
        except OSError:
            return name, 0  # the task that opens it reports the error
        return name, found.st_size if stat.S_ISREG(found.st_mode) else -1
    return path, -1


def _remote_files(spark: SparkSession, path: str) -> list[tuple[str, int]]:
    """List a directory in any file system that Spark supports, with the Hadoop classes that Spark uses."""
    jvm: Any = spark._jvm
    where = jvm.org.apache.hadoop.fs.Path(path)
    system = where.getFileSystem(spark._jsc.hadoopConfiguration())
    matching = [where] if system.exists(where) else [status.getPath() for status in system.globStatus(where) or ()]
    if not matching:
        raise NoAccessLogError(f"{path} does not exist")
    found = []
    for each in matching:
        files = system.listFiles(each, True)
        while files.hasNext():
            status = files.next()
            found.append((status.getPath().toString(), status.getLen()))
    return sorted(found)


def _is_wanted(path: str, named: set[str], with_open: bool) -> bool:
    return _is_log(path, with_open) or (path in named and not is_open(path))


def _is_log(path: str, with_open: bool) -> bool:
    if with_open and _OPEN.search(path) and not is_remote(path):
        return True
    name = path.rpartition("/")[2]
    if name.startswith(_NOT_FOR_READERS) or ROLLUP_FOLDER.search(path):
        return False
    plain = name
    for suffix in COMPRESSED[1:]:
        plain = plain.removesuffix(suffix)
    return name.endswith(PARQUET) or plain.endswith(LINE_SUFFIX) or KAFKA_LOG.search(plain) is not None


def _in_period(path: str, since: str, until: str) -> bool:
    found = _HOUR_FOLDERS.search(path)
    if found is None:
        return True
    hour = f"{found[1]}T{found[2]}"
    return (not since or hour >= since[:13]) and (not until or hour <= until[:13])


def _without_repeats(files: Iterable[tuple[str, int]]) -> Sources:
    """Keep one of the files with the same lines: a crash during compression leaves both `a.jsonl` and `a.jsonl.zst`."""
    sources = Sources()
    taken: set[str] = set()
    for path, size in sorted(files, key=lambda each: _rank(each[0])):
        stem = _stem(path)
        if stem in taken:
            sources.repeated.append(path)
            continue
        taken.add(stem)
        sources.size_bytes += size
        # Spark skips a table without content silently; a task that reads it as lines reports the error.
        is_table = path.endswith(PARQUET) and (size or is_remote(path))
        (sources.parquet if is_table else sources.lines).append(path)
    sources.lines.sort()
    sources.parquet.sort()
    return sources


def _rank(path: str) -> tuple[int, bool, str]:
    """Return the sort key that puts the original lines first: a converted file may be incomplete after a crash."""
    return (0 if path.endswith((LINE_SUFFIX, ".log")) else 1, is_open(path), path)


def _stem(path: str) -> str:
    stem = closed_name(path)
    for suffix in (*COMPRESSED[1:], PARQUET):
        stem = stem.removesuffix(suffix)
    return stem.removesuffix(LINE_SUFFIX)
