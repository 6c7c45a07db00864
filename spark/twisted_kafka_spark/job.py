"""The job that turns paths into the report's document: find the files, roll them up in one pass, compute tables and findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from twisted_kafka_spark import store, views
from twisted_kafka_spark.document import About, build, tick_length_s
from twisted_kafka_spark.fold import Folding
from twisted_kafka_spark.read import NoAccessLogError, Sources, find_sources
from twisted_kafka_spark.rollup import Run, Selection, overlaps, roll_up_files, roll_up_lines

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

TOPIC = "__access_log"
"""The topic to which the broker publishes its access log with access.log.topic.enable."""


@dataclass(slots=True)
class Job:
    """The sources and the options of a report."""

    paths: Sequence[str] = ()
    bootstrap_servers: str = ""
    topic: str = TOPIC
    is_merge: bool = False
    grain_s: int = 0
    rollup_out: str = ""
    group_by: Sequence[str] = ()
    folding: Folding = field(default_factory=Folding)
    selection: Selection = field(default_factory=Selection)


def run(spark: SparkSession, job: Job) -> dict[str, Any]:
    """Return the report's document, and write the rollup if requested.

    Raises NoAccessLogError when there is nothing to read.
    """
    if job.is_merge:
        rollup, about = _merged(spark, job)
    elif job.bootstrap_servers:
        rollup, about = _from_topic(spark, job)
    else:
        rollup, about = _from_files(spark, job)
    if job.rollup_out:
        store.write(spark, rollup, job.rollup_out, about.grain_s)
    period = views.period(rollup)
    if period is None:
        what = f"no requests in {about.source}"
        raise NoAccessLogError(what + (f" match {about.condition}" if about.condition else " in the period"))
    tick_s = tick_length_s(*period, about.grain_s)
    tables = views.compute(rollup, tick_s, job.group_by)
    found = overlaps([Run(row["node"] or 0, row["first_us"], row["last_us"], row["requests"]) for row in tables["run"]])
    if found and not job.selection.deduplicate and not job.is_merge:
        return _deduplicated(spark, job, _lines_read(tables))
    return build(tables, about, tick_s)


def _deduplicated(spark: SparkSession, job: Job, lines_before: int) -> dict[str, Any]:
    """Run the job again with lines deduplicated by number, because some files contain the same lines."""
    again = replace(job, selection=Selection(job.selection.condition, deduplicate=True))
    document = run(spark, again)
    document["source"]["repeated_lines"] = lines_before - document["source"]["lines"].get("read", 0)
    return document


def _lines_read(tables: views.Tables) -> int:
    return sum(int(row["requests"]) for row in tables["line"] if row["error"] == "read")


def _about(job: Job, source: str, sources: Sources | None = None) -> About:
    return About(
        source,
        files=len(sources) if sources is not None else 0,
        size_bytes=sources.size_bytes if sources is not None else 0,
        repeated_files=sources.repeated if sources is not None else [],
        condition=job.selection.condition,
        group_by=job.group_by,
    )


def _from_files(spark: SparkSession, job: Job) -> tuple[pa.Table, About]:
    # A rollup that is kept for later reports must not contain parts of open files, which would be counted again the next time.
    sources = find_sources(spark, job.paths, job.folding.since, job.folding.until, with_open=not job.rollup_out)
    return roll_up_files(spark, sources, job.folding, job.selection), _about(job, ", ".join(job.paths), sources)


def _from_topic(spark: SparkSession, job: Job) -> tuple[pa.Table, About]:
    from twisted_kafka_spark.topic_source import read_topic

    lines = read_topic(spark, job.bootstrap_servers, job.topic)
    rollup = roll_up_lines(spark, lines, job.folding, job.selection)
    return rollup, _about(job, f"topic {job.topic} of {job.bootstrap_servers}")


def _merged(spark: SparkSession, job: Job) -> tuple[pa.Table, About]:
    merged, grain_s = store.read(spark, job.paths, job.grain_s)
    about = _about(job, ", ".join(job.paths))
    about.grain_s = grain_s
    return merged.toArrow(), about
