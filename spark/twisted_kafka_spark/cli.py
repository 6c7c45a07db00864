"""The command line: ``python -m twisted_kafka_spark report DIR --out report.html``."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from twisted_kafka_spark.java_home import ensure_java
from twisted_kafka_spark.read import NoAccessLogError, log_files, read_access_log
from twisted_kafka_spark.report import as_html, as_json
from twisted_kafka_spark.rollup import roll_up

GROUPS_IN_MEMORY = 100_000
"""Spark sorts all rows once there are more groups than this (128 if not told); a minute times an API is a group."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="twisted_kafka_spark", description="Summarize the access log of a Kafka broker.")
    commands = parser.add_subparsers(dest="command", required=True)
    report = commands.add_parser("report", help="write a report of a log directory as HTML, and the same as JSON beside it")
    report.add_argument("directory", type=Path, help="the broker's access.log.dir (or any directory of *.jsonl files)")
    report.add_argument(
        "--out", type=Path, default=Path("report.html"), help="the page to write; the JSON gets its name with .json"
    )
    report.add_argument("--master", default="local[*]", help="Spark's master; default %(default)s")
    return parser


def _write(path: Path, text: str) -> None:
    """Replace ``path`` as a whole, so that nobody sees half of it."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", delete=False) as new:
        new.write(text)
    os.chmod(new.name, 0o644)
    os.replace(new.name, path)


def report(directory: Path, out: Path, master: str) -> None:
    """Write the report; raises NoAccessLogError, RuntimeError (no Java or Spark) or OSError."""
    log_files(directory)
    ensure_java()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise RuntimeError("pyspark is not installed: install the extra `spark`") from None
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
        "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": str(GROUPS_IN_MEMORY),
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.master(master).appName("twisted_kafka access log report")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        rollup = roll_up(read_access_log(spark, directory))
    finally:
        spark.stop()
    _write(out, as_html(rollup, str(directory)))
    _write(out.with_suffix(".json"), as_json(rollup, str(directory)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    options = _parser().parse_args(arguments)
    try:
        if not options.out.absolute().parent.is_dir():
            raise NotADirectoryError(f"{options.out.absolute().parent} is not a directory; --out needs an existing one")
        report(options.directory, options.out, options.master)
    except (NoAccessLogError, RuntimeError, OSError) as error:
        print(f"twisted_kafka_spark: {error}", file=sys.stderr)
        return 1
    print(f"{options.out} and {options.out.with_suffix('.json')}")
    return 0
