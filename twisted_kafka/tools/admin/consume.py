"""``twisted-kafka consume``: print the records of a topic."""

import argparse
import sys
from contextlib import suppress
from typing import Final

from twisted_kafka.console.cluster.offsets import (
    POSITIONS,
    READ_COMMITTED,
    parse_position,
    resolved,
)
from twisted_kafka.console.cluster.reader import Reader
from twisted_kafka.console.cluster.record_forms import FIELDS, FORMS, TEXT, writer
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.cluster.texts import counted
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.system.numbers import INT64_MAX
from twisted_kafka.timing.clock import SystemClock
from twisted_kafka.tools.admin.arguments import complete, whole
from twisted_kafka.tools.admin.output import JSON, Output, Progress

_COMMITTED: Final = "read_committed"
_UNCOMMITTED: Final = "read_uncommitted"


def add_command(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.description = (
        f"{parser.description} It ends at the end of the topic, or with --follow on ctrl-C. A record is a line: the fields of "
        "--show in text and hex, all fields in JSON, which twisted-kafka produce --format json reads."
    )
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("-f", "--format", choices=FORMS, help="the form of records [default: text; json with --output json]")
    parser.add_argument(
        "-s", "--show", metavar="FIELDS", default="value", help=f"{', '.join(FIELDS)}, by comma [default: %(default)s]"
    )
    parser.add_argument("--separator", metavar="TEXT", default="\t", help="the text between fields [default: a tab]")
    parser.add_argument("-p", "--partition", type=int, action="append", metavar="N", help="only this partition; may be repeated")
    parser.add_argument("--from", dest="start", metavar="POSITION", help=f"{POSITIONS} [default: earliest, with --follow latest]")
    parser.add_argument("--until", metavar="POSITION", help="where to end, before this position [default: latest]")
    parser.add_argument("-n", "--max-records", type=whole(0, INT64_MAX), metavar="N", help="end after this number of records")
    parser.add_argument("-F", "--follow", action="store_true", help="wait for further records, until ctrl-C")
    parser.add_argument(
        "--isolation-level",
        choices=(_COMMITTED, _UNCOMMITTED),
        default=_COMMITTED,
        help="read_uncommitted also prints records of open and aborted transactions [default: %(default)s]",
    )
    complete(parser, _consume)


def _consume(options: argparse.Namespace, session: Session, output: Output) -> None:
    fields = options.show.split(",")
    wrong = sorted(set(fields) - set(FIELDS))
    if wrong:
        raise ValueError(f"--show {wrong[0]}: expected {', '.join(FIELDS)}")
    if options.follow and options.until:
        raise ValueError("--follow has no end: remove it, or --until")
    clock = SystemClock()
    start = parse_position(options.start or ("latest" if options.follow else "earliest"), clock.wall_ms())
    end = parse_position(options.until or "latest", clock.wall_ms())
    write = writer(options.format or (JSON if output.form == JSON else TEXT), fields, options.separator)
    (topic,) = session.topics([options.topic])
    partitions = [
        TopicPartition(str(topic.name), index)
        for index in options.partition or sorted(each.partition_index for each in topic.partitions)
    ]
    level = READ_COMMITTED if options.isolation_level == _COMMITTED else 0
    positions = resolved(session, partitions, start, isolation_level=level)
    ends = None if options.follow else resolved(session, partitions, end, isolation_level=level)
    total = None if ends is None else max(0, sum(ends[each] - positions[each] for each in partitions))
    progress = Progress(clock, "received", total)
    reader = Reader(session, positions, ends, level)
    left = options.max_records
    out = sys.stdout.buffer
    try:
        with suppress(KeyboardInterrupt):
            while reader.positions and left != 0:
                for record in reader.fetch():
                    out.write(write(record) + b"\n")
                    progress.add(1, len(record.key or b"") + len(record.value or b""))
                    left = None if left is None else left - 1
                    if left == 0:
                        break
                out.flush()
    finally:
        progress.end()
    if sys.stderr.isatty():
        sys.stderr.write(f"{counted(progress.records, 'record')} of {topic.name}\n")
