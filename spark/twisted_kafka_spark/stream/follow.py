"""Follow a log: minutes are rolled up as they end, written once, and searched for findings."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twisted_kafka_spark.arguments import duration_s
from twisted_kafka_spark.findings.finding import Finding
from twisted_kafka_spark.report.words import evidence
from twisted_kafka_spark.runtime.spark_errors import first_line
from twisted_kafka_spark.stream.folder import folder
from twisted_kafka_spark.stream.rolling import Rolling
from twisted_kafka_spark.stream.watch import Watch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DELIVERY_TIMEOUT_S = 30.0
_STARTS = 5
"""How often a stream is started if its reader's Python process takes too long to start, as it may on a busy machine."""
_TOO_LONG = "Python worker failed to connect back"


def follow(
    spark: SparkSession, options: argparse.Namespace, trigger_s: int, on_finding: Callable[[Finding], None] | None = None
) -> None:
    """Follow until interrupted, or with `--once` to the end of the existing lines; raise RuntimeError when the stream fails.

    `on_finding` is called with each finding; by default, it is printed and sent to `--findings-topic`.
    """
    packed = _packed_cells(spark, options)
    out = options.out.rstrip("/")
    checkpoint = folder(spark, options.checkpoint or f"{out}/_checkpoint")
    rolling = Rolling(folder(spark, out), checkpoint, duration_s(options.late), Watch(on_finding or _reporter(options)))
    writer = packed.writeStream.outputMode("append").option("checkpointLocation", checkpoint.url).foreachBatch(rolling)
    for starts_left in reversed(range(_STARTS)):
        if _followed(writer, trigger_s, is_once=options.once, may_fail_to_start=starts_left > 0):
            return


def _followed(writer: Any, trigger_s: int, *, is_once: bool, may_fail_to_start: bool) -> bool:
    """Run the stream to its end; return False if it has to be restarted.

    With `is_once` the sources stop at the offsets that existed at the start. Spark's trigger availableNow is not used, because
    Python data sources support it only since Spark 4.2.
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
        if may_fail_to_start and _TOO_LONG in str(error):
            return False
        raise RuntimeError(first_line(error)) from None
    finally:
        query.stop()
    return True


def _packed_cells(spark: SparkSession, options: argparse.Namespace) -> DataFrame:
    if options.bootstrap_servers and not options.directory:
        from twisted_kafka_spark.topic_source import follow_topic

        return follow_topic(spark, options.bootstrap_servers, options.topic, is_once=options.once, utc_offset_s=options.utc_offset)
    if not Path(options.directory or "").is_dir() or not options.directory:
        raise ValueError("follow requires a directory or --bootstrap-servers")
    from twisted_kafka_spark.stream.tail_source import follow_files

    return follow_files(spark, options.directory, is_once=options.once, utc_offset_s=options.utc_offset)


def _reporter(options: argparse.Namespace) -> Callable[[Finding], None]:
    if not options.findings_topic:
        return _print
    if not options.bootstrap_servers:
        raise ValueError("--findings-topic requires --bootstrap-servers")
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": options.bootstrap_servers, "client.id": "twisted-kafka-spark"})

    def report(finding: Finding) -> None:
        _print(finding)
        producer.produce(options.findings_topic, json.dumps(finding.as_values(), default=str).encode(), finding.name.encode())
        if producer.flush(_DELIVERY_TIMEOUT_S):
            print(f"twisted_kafka_spark: failed to send a finding to {options.findings_topic}", file=sys.stderr)

    return report


def _print(finding: Finding) -> None:
    print(
        f"* {finding.name}: {finding.title}\n  {evidence(finding.evidence)}\n  {finding.advice}\n  filter: {finding.where}",
        flush=True,
    )
