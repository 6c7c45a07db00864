"""``twisted-kafka produce``: send records from arguments or standard input."""

import argparse
import io
import sys
from collections.abc import Iterator
from typing import Final

from twisted_kafka.console.cluster.offsets import parse_time
from twisted_kafka.console.cluster.problems import CommandError
from twisted_kafka.console.cluster.producer import ALL, Producer
from twisted_kafka.console.cluster.record_forms import FORMS, TEXT, Written, parse_header, reader
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.cluster.texts import counted
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.timing.clock import SystemClock
from twisted_kafka.tools.admin.arguments import complete, several
from twisted_kafka.tools.admin.output import JSON, Output, Progress

MOST_RECORDS: Final = 10_000
MOST_BYTES: Final = 512 * 1024
"""A batch is sent when it has this many records or bytes, or when no more input has arrived."""

_READ_BYTES: Final = 64 * 1024
_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_ACKS: Final = {"all": ALL, "1": 1, "0": 0}


def add_command(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.description = (
        f"{parser.description} Each argument, or each line of standard input, is a record. A retry does not store a record twice. "
        "A JSON record has the fields key, value, headers, timestamp, partition, all optional: "
        '{"key":"k","value":"v","headers":{"h":"x"}}. '
        "key_hex and value_hex are for bytes. A value that is not a string becomes JSON text."
    )
    parser.add_argument("topic", metavar="TOPIC")
    several(parser, "values", "VALUE", "records [default: the lines of standard input]")
    parser.add_argument("-f", "--format", choices=FORMS, default=TEXT, help="the form of records [default: %(default)s]")
    parser.add_argument("-k", "--key", help="the key of all records that have none")
    parser.add_argument("-K", "--key-separator", metavar="TEXT", help="the text between key and value in a line, in text and hex")
    parser.add_argument(
        "-H", "--header", action="append", default=[], metavar="KEY=VALUE", help="a header of all records; may be repeated"
    )
    parser.add_argument(
        "-p", "--partition", type=int, metavar="N", help="the partition [default: chosen by the key, as in Kafka's clients]"
    )
    parser.add_argument(
        "-t", "--timestamp", metavar="TIME", help="a time (2026-11-27T06:00:00Z), or a time ago (15m, 2h, 1d) [default: now]"
    )
    parser.add_argument("--compression", choices=_CODECS, default=_CODECS[0], help="[default: %(default)s]")
    parser.add_argument(
        "--acks", choices=tuple(_ACKS), default="all", help="replicas that must have a record [default: %(default)s]"
    )
    parser.add_argument("--null-marker", metavar="TEXT", help="a value or key that means null, in text")
    complete(parser, _produce)


def _produce(options: argparse.Namespace, session: Session, output: Output) -> None:
    clock = SystemClock()
    headers = [parse_header(each) for each in options.header]
    timestamp_ms = None if options.timestamp is None else parse_time(options.timestamp, clock.wall_ms())
    if timestamp_ms is not None and timestamp_ms < 0:
        raise ValueError(f"--timestamp {options.timestamp}: a record has no time before 1970")
    read = reader(options.format, options.key_separator)
    (topic,) = session.topics([options.topic])
    producer = Producer(
        session, str(topic.name), len(topic.partitions), _ACKS[options.acks], Compression[options.compression.upper()]
    )
    progress = Progress(clock, "sent")
    null = None if options.null_marker is None else options.null_marker.encode()
    line_number = 0
    try:
        for lines in [[value.encode("utf-8", "surrogateescape") for value in options.values]] if options.values else _lines():
            for line in lines:
                line_number += 1
                try:
                    record = read(line)
                except ValueError as error:
                    raise CommandError(
                        f"record {line_number}: {error}; {counted(progress.records, 'record')} before it were sent"
                    ) from None
                record = _completed(record, options, null)
                if record.timestamp_ms < 0:
                    record = record._replace(timestamp_ms=clock.wall_ms() if timestamp_ms is None else timestamp_ms)
                producer.add(record._replace(headers=[*record.headers, *headers]))
                if producer.waiting >= MOST_RECORDS or producer.waiting_bytes >= MOST_BYTES:
                    progress.add(*producer.flush())
            progress.add(*producer.flush())
    finally:
        progress.end()
    _report(producer, output, progress.records)


def _completed(record: Written, options: argparse.Namespace, null: bytes | None) -> Written:
    key = options.key.encode() if record.key is None and options.key is not None else record.key
    partition = record.partition if options.partition is None else options.partition
    value = record.value
    return record._replace(
        key=None if key == null else key, value=None if null is not None and value == null else value, partition=partition
    )


def _lines() -> Iterator[list[bytes]]:
    """Return the lines of standard input as they arrive, so that a slow writer's records do not wait."""
    if sys.stdin.isatty():
        sys.stderr.write("Each line is a record. End with ctrl-D.\n")
    source = sys.stdin.buffer
    assert isinstance(source, io.BufferedReader)
    rest: list[bytes] = []  # the parts of a line that has not ended yet
    while data := source.read1(_READ_BYTES):
        first, *others = data.split(b"\n")
        rest.append(first)
        if others:
            lines = [b"".join(rest), *others[:-1]]
            rest = others[-1:]
            yield [line.removesuffix(b"\r") for line in lines]
    if last := b"".join(rest):
        yield [last]


def _report(producer: Producer, output: Output, count: int) -> None:
    ends = [
        {"partition": each, "first_offset": first, "last_offset": last} for each, (first, last) in sorted(producer.written.items())
    ]
    if output.form == JSON:
        output.json({"topic": producer.topic, "records": count, "partitions": ends})
        return
    where = ", ".join(f"partition {each['partition']} {_range(each['first_offset'], each['last_offset'])}" for each in ends[:3])
    more = f" and {counted(len(ends) - 3, 'more partition')}" if len(ends) > 3 else ""
    output.done(f"{counted(count, 'record')} sent to {producer.topic}{f': {where}{more}' if where else ''}")


def _range(first: int, last: int) -> str:
    if first < 0:
        return "without acknowledgement"
    return f"offset {first}" if first == last else f"offsets {first} to {last}"
