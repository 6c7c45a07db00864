"""Follow a log with Structured Streaming: each batch is folded into cells, written once, and searched for findings.

Batches are exactly once: Spark repeats an interrupted one with the same lines and the same number, and the folder of that number is
replaced. Nothing else is kept from batch to batch, since cells are added when they are read (`pipeline.followed`).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twisted_kafka_spark.cells.kinds import TIME
from twisted_kafka_spark.cells.shards import EARLIEST_S
from twisted_kafka_spark.findings.rules import Rules
from twisted_kafka_spark.pipeline.followed import Followed
from twisted_kafka_spark.pipeline.origins import most_are_later
from twisted_kafka_spark.pipeline.page import moment
from twisted_kafka_spark.records.clocks import NOW, latest_us
from twisted_kafka_spark.records.pieces import local_path
from twisted_kafka_spark.records.read import NoAccessLogError, find_sources
from twisted_kafka_spark.records.topic import Topic, send
from twisted_kafka_spark.runtime.folder import Folder
from twisted_kafka_spark.runtime.spark_errors import first_line
from twisted_kafka_spark.stream.source import Source
from twisted_kafka_spark.stream.tell import Teller
from twisted_kafka_spark.stream.watch import NEVER_S, TIMED, Report, Watch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_STARTS = 5
"""How often a stream is started if its reader's Python process takes too long to start, as it may on a busy machine."""
_LOOK_S = 1
"""How often to look whether the reader of standard output has gone."""
_MOST_AHEAD = 3
"""Batches in a row with no line until now, after which this machine's clock ends minutes."""
_TOO_LONG = "Python worker failed to connect back"


@dataclass(frozen=True, slots=True)
class Following:
    """What to follow, where the cells go, and how.

    `checkpoint`: where the state is, `_checkpoint` in `out` unless given. `late_s`: how late lines may be for findings.
    `trigger_s`: the time between two batches. `keep_s`: the age at which hours are deleted, 0 for never. With `is_once` the stream
    ends with what exists at its start.
    """

    source: Source
    out: str
    checkpoint: str = ""
    late_s: int = 60
    trigger_s: int = 10
    keep_s: int = 0
    is_once: bool = False
    findings_topic: Topic | None = None
    as_json: bool = False
    webhook: str = ""
    rules: Rules = field(default_factory=Rules)


def follow(spark: SparkSession, following: Following, report: Report | None = None) -> None:
    """Follow until interrupted, or to the end of what exists; raise RuntimeError when the stream fails.

    `report` is called with new findings; by default, they are printed and sent to the topic of findings. For a report on the
    result, merge it like a rollup: `run(spark, Job(paths=[out], is_merge=True))`.
    """
    source = following.source
    if source.topic is None and not source.directory:
        raise ValueError("follow requires a directory or --bootstrap-servers")
    if source.is_tail and not Path(local_path(source.directory)).is_dir():
        raise ValueError(f"{source.directory} is not a directory")
    followed = Followed(spark, following.out)
    checkpoint = Folder(spark, following.checkpoint or f"{following.out.rstrip('/')}/_checkpoint")
    if followed.ranges() and not checkpoint.exists("offsets"):
        raise RuntimeError(f"{followed.url} contains batches of another checkpoint: use another --out")
    source = replace(source, trusts_clock=source.trusts_clock and not _is_later(spark, source))
    now = time.time if source.trusts_clock else _never
    send = partial(_send, spark, following.findings_topic) if following.findings_topic is not None else None
    teller = Teller(following.as_json, following.webhook, send)
    watch = Watch(followed, checkpoint, following.late_s, report or teller, following.rules, now)
    cells = source.cells(spark, is_once=following.is_once)
    writer = cells.writeStream.option("checkpointLocation", checkpoint.url).foreachBatch(Batches(followed, watch, following.keep_s))
    for starts_left in reversed(range(_STARTS)):
        if _followed(_triggered(writer, following), following, teller, may_fail_to_start=starts_left > 0):
            return


def _is_later(spark: SparkSession, source: Source) -> bool:
    """Return whether most files that exist are later than this machine's clock: then that clock is wrong, not those of lines."""
    if source.topic is not None:
        return False
    try:
        found = find_sources(None if source.is_tail else spark, [source.directory])
    except NoAccessLogError:
        return False
    return most_are_later(found, latest_us(NOW), source.utc_offset_s)


def _never() -> float:
    return NEVER_S


class Batches:
    """Processes the batches; passed to `foreachBatch`."""

    def __init__(self, followed: Followed, watch: Watch, keep_s: int = 0) -> None:
        self._followed, self._watch, self._keep_s = followed, watch, keep_s
        self._ahead = 0

    def __call__(self, cells: DataFrame, number: int) -> None:
        """Write the cells of batch `number`, and search the minutes that it ended."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as sf

        seconds, latest_s = sf.unix_seconds(TIME.name), self._watch.latest_s()
        seconds = sf.when(sf.col("kind").isin(list(TIMED)) & (seconds >= EARLIEST_S), seconds)
        until_now = sf.when(seconds <= latest_s, seconds)
        ends = sf.min(until_now), sf.max(until_now), sf.min(seconds)
        seen = Observation()
        names = "first", "last", "ahead"
        observed = cells.observe(seen, *(each.alias(name) for each, name in zip(ends, names, strict=True)))
        self._followed.add(observed, number, moment(int(time.time()) - self._keep_s) if self._keep_s else None)
        first, last, ahead = (seen.get[name] for name in names)
        self._ahead = self._ahead + 1 if first is None and ahead is not None else 0
        if first is not None:
            self._watch.saw(moment(first), moment(last))
        elif self._ahead >= _MOST_AHEAD:  # all lines are ahead, as in a log without time zones
            self._watch.saw(moment(latest_s), moment(latest_s))


def _triggered(writer: Any, following: Following) -> Any:
    """Set when batches begin."""
    if not following.is_once:
        return writer.trigger(processingTime=f"{following.trigger_s} seconds")
    if following.source.is_tail:  # Python data sources support availableNow since Spark 4.2 only
        return writer.trigger(processingTime="0 seconds")
    return writer.trigger(availableNow=True)


def _followed(writer: Any, following: Following, teller: Teller, *, may_fail_to_start: bool) -> bool:
    """Run the stream to its end; return False if it has to be restarted."""
    from pyspark.errors import StreamingQueryException

    query = writer.start()
    try:
        if following.is_once and following.source.is_tail:
            query.processAllAvailable()
        else:
            while not query.awaitTermination(_LOOK_S) and not teller.is_closed:
                pass
    except KeyboardInterrupt:
        return True
    except StreamingQueryException as error:
        if may_fail_to_start and _TOO_LONG in str(error):
            return False
        raise RuntimeError(first_line(error)) from None
    finally:
        query.stop()
    return True


def _send(spark: SparkSession, topic: Topic, findings: Sequence[dict[str, Any]]) -> None:
    from pyspark.errors import PySparkException

    try:
        send(spark, topic, [(each["name"], each) for each in findings])
    except (PySparkException, RuntimeError) as error:
        print(f"twisted_kafka_spark: failed to send findings to {topic.name}: {first_line(error)}", file=sys.stderr)
