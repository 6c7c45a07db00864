"""Follow a log: minutes are rolled up as they end, written once, and looked at for findings."""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twisted_kafka_spark import cells, views
from twisted_kafka_spark.arguments import duration_s
from twisted_kafka_spark.cells import MINUTE_S, TIME
from twisted_kafka_spark.findings.find import find
from twisted_kafka_spark.findings.finding import Finding
from twisted_kafka_spark.fold import Folding
from twisted_kafka_spark.report.words import evidence

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

WINDOW = datetime.timedelta(hours=3)
"""The minutes that findings are looked for in: an unusual one is unusual against these."""
_AGAIN = datetime.timedelta(minutes=30)
"""A finding that goes on is told again after this."""
_DELIVERY_TIMEOUT_S = 30.0
_STARTS = 3
"""How often a stream is started when its reader's Python process takes too long to begin, as it may on a busy machine."""
_TOO_LONG = "Python worker failed to connect back"


class Watch:
    """Keeps the cells of the last hours on the driver and tells each finding once."""

    def __init__(self, tell: Callable[[Finding], None]) -> None:
        self._tell = tell
        self._recent: list[pa.Table] = []
        self._told: dict[tuple[str, str], datetime.datetime] = {}

    def add(self, closed: pa.Table) -> None:
        """Look at the minutes that have just ended together with those before them."""
        import pyarrow as pa

        if not closed.num_rows:
            return
        whole = pa.concat_tables([*self._recent, closed])
        ends = views.period(whole)
        if ends is None:
            return
        _, last = ends
        whole = whole.filter(_since(whole, last - WINDOW))
        self._recent = [whole]
        for finding in find(views.compute(whole, MINUTE_S)):
            key = (finding.name, str(sorted((name, value) for name, value in finding.evidence.items() if isinstance(value, str))))
            before = self._told.get(key)
            if before is None or last - before >= _AGAIN:
                self._told[key] = last
                self._tell(finding)


def _since(table: pa.Table, first: datetime.datetime) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.greater_equal(table[TIME.name], pa.scalar(first, table.schema.field(TIME.name).type))


def rolled_minutes(lines: DataFrame, folding: Folding, late_s: int) -> DataFrame:
    """Return the merged cells of minutes that are over: those that lines `late_s` late can no longer change."""
    from pyspark.sql import functions as sf

    made = lines.mapInArrow(folding.lines, cells.ddl()).where(sf.col(TIME.name).isNotNull())
    # The watermark is compared with the minutes' starts, and the lines of a minute come until its end.
    return cells.merge(made.withWatermark(TIME.name, f"{late_s + MINUTE_S} seconds"))


def write_batch(directory: str, watch: Watch | None) -> Callable[[DataFrame, int], None]:
    """Return what is done with each batch of cells.

    A batch has a folder of its own, which is written anew when Spark runs the batch again after a crash: each cell is there once.
    """

    def write(batch: DataFrame, number: int) -> None:
        batch = batch.persist()
        batch.coalesce(1).write.mode("overwrite").parquet(f"{directory.rstrip('/')}/grain={MINUTE_S}/batch={number}")
        if watch is not None:
            watch.add(batch.toArrow())
        batch.unpersist()

    return write


def follow(spark: SparkSession, options: argparse.Namespace, trigger_s: int) -> None:
    """Follow until interrupted, or to the end of what is there with `--once`; raise RuntimeError when the stream fails."""
    lines = _lines(spark, options)
    watch = Watch(_teller(options))
    minutes = rolled_minutes(lines, Folding(grain_s=MINUTE_S, utc_offset_s=options.utc_offset), duration_s(options.late))
    writer = (
        minutes.writeStream.outputMode("append")
        .option("checkpointLocation", options.checkpoint or str(Path(options.out) / "_checkpoint"))
        .foreachBatch(write_batch(options.out, watch))
    )
    for starts_left in reversed(range(_STARTS)):
        if _followed(writer, trigger_s, is_once=options.once, may_fail_to_start=starts_left > 0):
            return


def _followed(writer: Any, trigger_s: int, *, is_once: bool, may_fail_to_start: bool) -> bool:
    """Run the stream to its end; return False when it is to be started again.

    With `is_once` the sources show no more than there was at first. Spark's own trigger for that, availableNow, ends before the
    batch in which the minutes that are over come out.
    """
    from pyspark.errors import StreamingQueryException

    query = writer.trigger(processingTime="0 seconds" if is_once else f"{trigger_s} seconds").start()
    try:
        if is_once:
            query.processAllAvailable()
        else:
            query.awaitTermination()
    except KeyboardInterrupt:
        return True
    except StreamingQueryException as error:
        told = str(error)
        if may_fail_to_start and _TOO_LONG in told:
            return False
        raise RuntimeError(told.splitlines()[0]) from None
    finally:
        query.stop()
    return True


def _lines(spark: SparkSession, options: argparse.Namespace) -> DataFrame:
    if options.bootstrap_servers and not options.directory:
        from twisted_kafka_spark.topic_source import follow_topic

        return follow_topic(spark, options.bootstrap_servers, options.topic, is_once=options.once)
    if not Path(options.directory or "").is_dir() or not options.directory:
        raise ValueError("follow needs a directory, or --bootstrap-servers")
    from twisted_kafka_spark.stream.tail_source import follow_files

    return follow_files(spark, options.directory, is_once=options.once)


def _teller(options: argparse.Namespace) -> Callable[[Finding], None]:
    if not options.findings_topic:
        return _print
    if not options.bootstrap_servers:
        raise ValueError("--findings-topic needs --bootstrap-servers")
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": options.bootstrap_servers, "client.id": "twisted-kafka-spark"})

    def tell(finding: Finding) -> None:
        _print(finding)
        producer.produce(options.findings_topic, json.dumps(finding.as_values(), default=str).encode(), finding.name.encode())
        if producer.flush(_DELIVERY_TIMEOUT_S):
            print(f"twisted_kafka_spark: {options.findings_topic} did not take a finding", file=sys.stderr)

    return tell


def _print(finding: Finding) -> None:
    print(
        f"* {finding.name}: {finding.title}\n  {evidence(finding.evidence)}\n  {finding.advice}\n  filter: {finding.where}",
        flush=True,
    )
