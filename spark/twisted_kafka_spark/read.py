"""Read the closed files of an access log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from twisted_kafka_spark.schema import CORRUPT, access_log_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.bz2", ".jsonl.zst")


class NoAccessLogError(Exception):
    """The directory holds no closed access-log file."""


def log_files(directory: Path) -> list[Path]:
    """Return the closed files below ``directory``, sorted; one that the broker still writes has a leading dot and is left out.

    Raises NoAccessLogError when there is none.
    """
    if not directory.is_dir():
        raise NoAccessLogError(f"{directory} is not a directory; expected the broker's access.log.dir")
    found = sorted(path for path in directory.rglob("*") if path.name.endswith(SUFFIXES) and not path.name.startswith("."))
    if not found:
        raise NoAccessLogError(
            f"{directory} holds no closed access-log file (date=.../hour=.../*.jsonl); stop the broker or wait for it to roll"
        )
    return found


def read_access_log(spark: SparkSession, directory: Path) -> DataFrame:
    """Return one row per line of the log below ``directory``; a line that cannot be read has only the corrupt-line column."""
    log_files(directory)
    return (
        spark.read.schema(access_log_schema())
        .option("mode", "PERMISSIVE")
        .option("columnNameOfCorruptRecord", CORRUPT)
        .option("recursiveFileLookup", "true")
        .option("pathGlobFilter", "*.jsonl*")
        .json(str(directory))
    )
