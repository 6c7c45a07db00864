"""The job that turns paths into the report's document: cells of lines or of rollups, and the tables and findings of a page."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from twisted_kafka_spark import thresholds, views
from twisted_kafka_spark.cells import aggregate
from twisted_kafka_spark.cells.fold import READ, Folding
from twisted_kafka_spark.cells.kinds import HOUR_S, MINUTE_S
from twisted_kafka_spark.choices import SOURCE
from twisted_kafka_spark.findings.find import compared, find, find_over_all, in_order
from twisted_kafka_spark.findings.rules import Rules
from twisted_kafka_spark.pipeline import comparison, exchange, page, store
from twisted_kafka_spark.pipeline.document import About, build, tick_length_s
from twisted_kafka_spark.pipeline.earlier import history
from twisted_kafka_spark.pipeline.few import FewCells
from twisted_kafka_spark.pipeline.origins import earliest_hour, identified, most_are_later, origins
from twisted_kafka_spark.pipeline.rollup import Selection, cells_of_files, cells_of_lines, cells_of_small_log, has_repeats, is_small
from twisted_kafka_spark.pipeline.tables import Tables, Target
from twisted_kafka_spark.records.clocks import NOW, latest_us
from twisted_kafka_spark.records.read import (
    NoAccessLogError,
    Sources,
    damaged_tables,
    find_sources,
    is_remote,
    is_same_file,
    qualified,
)
from twisted_kafka_spark.records.topic import Topic, read_topic
from twisted_kafka_spark.runtime.session import prepared
from twisted_kafka_spark.runtime.spark_errors import unread_file

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from twisted_kafka_spark.cells.seen import Origin
    from twisted_kafka_spark.findings.finding import Finding

Found = TypeVar("Found")
_MOST_LISTINGS = 10
_FORMAT = "%Y-%m-%dT%H:%M:%S"


@dataclass(slots=True)
class Job:
    """The sources and the options of a report."""

    paths: Sequence[str] = ()
    topic: Topic | None = None
    is_merge: bool = False
    rollup_out: str = ""
    rollup_source: str = SOURCE
    tables: Target | None = None
    """The tables that `roll_up` writes beside the rollup."""
    is_compared: bool = False
    """Whether the period, which then has a beginning and an end, is compared with the one before."""
    group_by: Sequence[str] = ()
    folding: Folding = field(default_factory=Folding)
    selection: Selection = field(default_factory=Selection)
    rules: Rules = field(default_factory=Rules)
    baseline: Sequence[str] = ()
    """Rollups of earlier days, with which this period is compared."""
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Parquet files that are known to be damaged, with the reasons."""

    @property
    def can_repeat_lines(self) -> bool:
        """Whether lines may be read twice: rollups and deduplicated records contain each line once."""
        return not self.is_merge and not self.selection.deduplicate


@dataclass(slots=True)
class RolledUp:
    """What a run added to a rollup: lines by what became of them, with a sample of those without a record, and hours."""

    lines: dict[str, int] = field(default_factory=dict)
    samples: dict[str, str] = field(default_factory=dict)
    written: store.Written = field(default_factory=store.Written)


def run(spark: SparkSession, job: Job) -> dict[str, Any]:
    """Return the report's document, and write the rollup if requested.

    Files that Spark reads itself may be replaced, archived or deleted after they were listed: then all is listed and read again.
    Raises NoAccessLogError when there is nothing to read, ValueError when a period to compare has no beginning or no end,
    RuntimeError for a session of Spark Connect.
    """
    with prepared(spark):
        return _document_of(spark, _with_clock(job))


def _with_clock(job: Job) -> Job:
    """Return a job whose lines' times are bounded by this machine's clock."""
    return replace(job, folding=replace(job.folding, latest_us=job.folding.latest_us or latest_us(NOW)))


def _document_of(spark: SparkSession, job: Job) -> dict[str, Any]:
    if job.rollup_out and not job.is_merge and store.exists(spark, job.rollup_out):
        return _with_rollup(spark, job)
    if not job.is_compared:
        return _of_present_files(spark, job, _run)
    begin, end = comparison.period_before(job.folding.since, job.folding.until)
    document = _of_present_files(spark, job, _run)
    earlier = replace(job, rollup_out="", group_by=(), baseline=(), folding=replace(job.folding, since=begin, until=end))
    try:
        before = _of_present_files(spark, earlier, _run)
    except NoAccessLogError:
        before = None
    document["before"] = comparison.compared(document, before, begin, end)
    return document


def _with_rollup(spark: SparkSession, job: Job) -> dict[str, Any]:
    """Add the lines that the rollup lacks, then return the document of all lines."""
    rolled = roll_up(spark, job)
    document = _document_of(spark, replace(job, rollup_out=""))
    document["source"]["kept_hours"] = rolled.written.kept
    return document


def roll_up(spark: SparkSession, job: Job) -> RolledUp:
    """Add the lines that a rollup lacks; return their number and the hours.

    Raises NoAccessLogError when there is nothing to read, or the rollup is new and there are no requests.
    """
    with prepared(spark):
        tables = Tables(spark, job.rollup_out, job.tables) if job.tables is not None else None
        if tables is not None:
            tables.check()
        rolled = _of_present_files(spark, replace(_with_clock(job), group_by=()), partial(_rolled_up, tables=tables))
        if tables is not None:
            tables.write()
        return rolled


def _rolled_up(spark: SparkSession, job: Job, tables: Tables | None) -> RolledUp:
    sources = _sources(spark, job)
    folding, files = _for_rollup(spark, job, sources, _bounded(job.folding, sources))
    with page.kept(_cells(spark, job, sources, folding, files)) as found:
        sizes = page.sizes(found)
        if not folding.seen:
            _check(job, sizes, _about(job, sources))
        if job.can_repeat_lines and has_repeats(_few_cells(found, "runs")):
            again = replace(job, selection=Selection(job.selection.condition, deduplicate=True))
            return _rolled_up(spark, again, tables)
        rolled = RolledUp()
        for row in _few_cells(found, "lines").groupBy("error").agg({"requests": "sum", "note": "min"}).collect():
            rolled.lines[row["error"]] = row["sum(requests)"]
            if row["min(note)"] is not None:
                rolled.samples[row["error"]] = row["min(note)"]
        if sizes.first is not None:
            hourly = exchange.as_cells(page.by_hour(found, sizes))
            announce = tables.announce if tables is not None else _unannounced
            rolled.written = store.write(hourly, job.rollup_out, job.rollup_source, announce)
        else:
            store.clean(spark, job.rollup_out)
        return rolled


def _unannounced(_: Sequence[str]) -> None:
    """Do nothing: there are no tables."""


def _bounded(folding: Folding, sources: Sources | None) -> Folding:
    """Return a fold without a bound by this machine's clock, if most files are later: then that clock is wrong."""
    is_later = sources is not None and most_are_later(sources, folding.latest_us, folding.utc_offset_s)
    return replace(folding, latest_us=latest_us(0)) if is_later else folding


def _for_rollup(
    spark: SparkSession, job: Job, sources: Sources | None, folding: Folding
) -> tuple[Folding, Mapping[str, Origin] | None]:
    """Return the fold of the lines that a rollup lacks, and the log's files with the parts that it has."""
    if sources is None:
        return replace(folding, seen=store.seen(spark, job.rollup_out, job.rollup_source)), None
    known = identified(sources, folding)
    earliest = earliest_hour(sources, (hour for _, hour in known.values()))
    since = "" if earliest is None else page.moment(earliest * HOUR_S).strftime(_FORMAT)
    seen = store.seen(spark, job.rollup_out, job.rollup_source, since)
    return replace(folding, seen=seen), origins(known, seen)


def _of_present_files(spark: SparkSession, job: Job, once: Callable[[SparkSession, Job], Found]) -> Found:
    """Return what `once` finds. If Spark cannot read a file, list the files again: it is gone, or set aside as damaged."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    for _ in range(_MOST_LISTINGS - 1):
        try:
            return once(spark, job)
        except (PySparkException, Py4JJavaError) as error:
            refused = unread_file(error)
            if refused is None:
                raise
            job = replace(job, unreadable={**job.unreadable, **_damaged(spark, job, *refused)})
    return once(spark, job)


def _damaged(spark: SparkSession, job: Job, path: str, reason: str) -> dict[str, str]:
    """Return this file, and others of this machine that cannot be read either, if they are damaged and not only gone."""
    sources = _sources(spark, job)
    if sources is None:
        return {}
    found = {each: reason for each in sources.parquet if is_same_file(each, path)}
    if found and not is_remote(next(iter(found))):
        found |= dict.fromkeys(damaged_tables(spark, sources), "")
    return found


def _run(spark: SparkSession, job: Job) -> dict[str, Any]:
    sources = _sources(spark, job)
    about = _about(job, sources)
    folding = replace(_bounded(job.folding, sources), group_by=tuple(job.group_by))
    files = None
    if job.rollup_out and not job.is_merge:
        folding, files = _for_rollup(spark, job, sources, folding)
    if sources is not None and not job.rollup_out and not job.selection.needs_records and is_small(sources):
        few = FewCells.of_tables(cells_of_small_log(spark, sources, folding))
        if few is not None:
            return _of_few(spark, job, few, about)
    with page.kept(_cells(spark, job, sources, folding, files)) as found:
        sizes = page.sizes(found)
        if sizes.count <= aggregate.MOST_CELLS:
            return _of_few(spark, job, FewCells.of(found), about, found)
        return _of_many(spark, job, found, sizes, about)


def _of_few(spark: SparkSession, job: Job, few: FewCells, about: About, found: DataFrame | None = None) -> dict[str, Any]:
    _check(job, few.sizes, about)
    if job.can_repeat_lines and few.has_repeats():
        return _deduplicated(spark, job, few.lines_read())
    if job.rollup_out and found is not None:
        written = store.write(exchange.as_cells(page.by_hour(found, page.sizes(found))), job.rollup_out, job.rollup_source)
        about.kept_hours = written.kept
    return _document(spark, job, about, few.sizes, few.of_page, few.findings_by_day)


def _of_many(spark: SparkSession, job: Job, found: DataFrame, sizes: page.Sizes, about: About) -> dict[str, Any]:
    _check(job, sizes, about)
    if job.can_repeat_lines and has_repeats(_few_cells(found, "runs")):
        return _deduplicated(spark, job, _lines_read(found))
    with page.kept(page.by_hour(found, sizes)) as hourly:
        if job.rollup_out:
            about.kept_hours = store.write(exchange.as_cells(hourly), job.rollup_out, job.rollup_source).kept
        by_day = partial(page.findings_by_day, hourly, job.rules.thresholds)
        return _document(spark, job, about, sizes, partial(page.of_page, hourly, sizes), by_day)


def _check(job: Job, sizes: page.Sizes, about: About) -> None:
    """Put the period into the report; raise NoAccessLogError if it has no requests, unless the whole log has no requests."""
    is_part = about.condition or job.folding.since or job.folding.until
    if (sizes.first is None or sizes.last is None) and (is_part or job.rollup_out or job.is_merge):
        what = f"no requests in {about.source}"
        raise NoAccessLogError(what + (f" match {about.condition}" if about.condition else " in the period" if is_part else ""))
    about.first, about.last = sizes.first, sizes.last


def _document(
    spark: SparkSession,
    job: Job,
    about: About,
    sizes: page.Sizes,
    of_page: Callable[[int], pa.Table],
    findings_by_day: Callable[[], list[Finding]],
) -> dict[str, Any]:
    with thresholds.changed(job.rules.thresholds):
        return _built(spark, job, about, sizes, of_page, findings_by_day)


def _built(
    spark: SparkSession,
    job: Job,
    about: About,
    sizes: page.Sizes,
    of_page: Callable[[int], pa.Table],
    findings_by_day: Callable[[], list[Finding]],
) -> dict[str, Any]:
    tick_s = tick_length_s(about.first, about.last) if about.first is not None and about.last is not None else MINUTE_S
    tables = views.compute(of_page(tick_s), tick_s, job.group_by)
    if job.baseline and about.first is not None:
        tables.history = history(spark, job.baseline, about.first)
    findings = [*findings_by_day(), *find_over_all(tables)] if sizes.is_long else find(tables)
    if sizes.is_long:
        findings += compared(tables, findings)
    found = [finding.as_values(about.first, about.last) for finding in in_order(findings)]
    shown, about.muted = job.rules.applied(found, datetime.datetime.now(datetime.UTC).date())
    return build(tables, about, tick_s, shown)


def _deduplicated(spark: SparkSession, job: Job, lines_before: int) -> dict[str, Any]:
    """Run the job again with lines deduplicated by number, because some files contain the same lines."""
    again = replace(job, selection=Selection(job.selection.condition, deduplicate=True))
    document = _of_present_files(spark, again, _run)
    document["source"]["repeated_lines"] = lines_before - document["source"]["lines"].get("read", 0)
    return document


def _lines_read(found: DataFrame) -> int:
    (row,) = _few_cells(found, "lines").where(f"error = '{READ}'").groupBy().sum("requests").collect()
    return int(row[0])


def _few_cells(found: DataFrame, kind: str) -> DataFrame:
    """Return the cells of a kind of which a partition has few, by as many tasks as run at a time: each starts Python's part."""
    few = found.where(f"kind = '{kind}'").coalesce(found.sparkSession.sparkContext.defaultParallelism)
    return exchange.as_cells(few)


def _sources(spark: SparkSession, job: Job) -> Sources | None:
    """Return the files of a log; None if the job is not about files of lines."""
    if job.is_merge or job.topic is not None:
        return None
    # A rollup that is kept for later reports must not contain parts of open files, which would be counted again the next time.
    found = find_sources(spark, qualified(spark, job.paths), job.folding.since, job.folding.until, with_open=not job.rollup_out)
    found.set_aside(job.unreadable)
    return found


def _cells(
    spark: SparkSession, job: Job, sources: Sources | None, folding: Folding, files: Mapping[str, Origin] | None = None
) -> DataFrame:
    """Return the shards of all cells; `files`: those of a log that is rolled up."""
    if sources is not None:
        return cells_of_files(spark, sources, folding, job.selection, files)
    if job.is_merge:
        if job.group_by:
            raise ValueError("--group-by requires the log: a rollup does not contain it")
        return exchange.as_shards(store.read(spark, job.paths, folding.since, folding.until))
    assert job.topic is not None
    return cells_of_lines(read_topic(spark, job.topic), folding, job.selection)


def _about(job: Job, sources: Sources | None) -> About:
    return About(
        f"topic {job.topic.name} of {job.topic.bootstrap_servers}"
        if job.topic is not None and not job.is_merge
        else ", ".join(job.paths),
        files=len(sources) if sources is not None else 0,
        size_bytes=sources.size_bytes if sources is not None else 0,
        repeated_files=sources.repeated if sources is not None else [],
        condition=job.selection.condition,
        group_by=job.group_by,
    )
