"""``twisted-kafka produce``: send records from arguments or standard input."""

import argparse
import io
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from twisted_kafka.protocol.messages.transactions import InitProducerIdRequest
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.protocol.records.record import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, SimpleRecord, increment_sequence
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.timing.clock import SystemClock
from twisted_kafka.tools.admin.arguments import complete, several
from twisted_kafka.tools.admin.murmur2 import partition_for
from twisted_kafka.tools.admin.offsets import parse_time
from twisted_kafka.tools.admin.output import JSON, Output, Progress, counted
from twisted_kafka.tools.admin.problems import CommandError, problem
from twisted_kafka.tools.admin.record_forms import FORMS, TEXT, Written, parse_header, reader
from twisted_kafka.tools.admin.session import PartitionAnswer, Session

MOST_RECORDS: Final = 10_000
MOST_BYTES: Final = 512 * 1024
"""A batch is sent when it has this many records or bytes, or when no more input has arrived."""

BY_NAME: Final = 12
"""The last version of Produce with topics' names; later ones have ids."""

_READ_BYTES: Final = 64 * 1024
_ALL: Final = -1
_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_ACKS: Final = {"all": _ALL, "1": 1, "0": 0}
_NO_RIGHT: Final = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


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
                producer.add(
                    record._replace(
                        headers=[*record.headers, *headers],
                        timestamp_ms=record.timestamp_ms if record.timestamp_ms >= 0 else (timestamp_ms or clock.wall_ms()),
                    )
                )
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
    rest = b""
    while data := source.read1(_READ_BYTES):
        *lines, rest = (rest + data).split(b"\n")
        yield [line.removesuffix(b"\r") for line in lines]
    if rest:
        yield [rest]


def _report(producer: "Producer", output: Output, count: int) -> None:
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


class Producer:
    """An idempotent producer for one topic (KIP-98); without the right to be one, a plain producer."""

    def __init__(self, session: Session, topic: str, partitions: int, acks: int, compression: Compression) -> None:
        self.topic = topic
        self._session = session
        self._partitions = partitions
        self._acks = acks
        self._compression = compression
        self._batches: dict[int, list[Written]] = {}
        self._sequences: dict[int, int] = {}
        self._sticky = random.randrange(partitions)
        self._producer_id, self._producer_epoch = self._begin() if acks == _ALL else (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        self.waiting = 0
        self.waiting_bytes = 0
        self.written: dict[int, tuple[int, int]] = {}
        """The first and the last offset in each partition."""

    def _begin(self) -> tuple[int, int]:
        def step() -> tuple[int, int]:
            if self._session.version(InitProducerIdRequest) < 0:
                return NO_PRODUCER_ID, NO_PRODUCER_EPOCH
            response = self._session.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000))
            if response.error_code in _NO_RIGHT:
                return NO_PRODUCER_ID, NO_PRODUCER_EPOCH
            if response.error_code:
                raise problem("the producer", response.error_code)
            return response.producer_id, response.producer_epoch

        return self._session.retrying(step)

    def add(self, record: Written) -> None:
        """Add a record to the next batch of its partition. Raises CommandError if the topic does not have the partition."""
        partition = record.partition
        if partition is None:
            partition = self._sticky if record.key is None else partition_for(record.key, self._partitions)
        elif not 0 <= partition < self._partitions:
            raise CommandError(
                f"{self.topic} has no partition {partition}: it has {counted(self._partitions, 'partition')}, from 0 on"
            )
        self._batches.setdefault(partition, []).append(record)
        self.waiting += 1
        self.waiting_bytes += len(record.key or b"") + len(record.value or b"")

    def flush(self) -> tuple[int, int]:
        """Send all batches; return the numbers of records and bytes. Raises CommandError."""
        sent = self.waiting, self.waiting_bytes
        batches = {
            TopicPartition(self.topic, partition): self._build(partition, self._batches[partition]) for partition in self._batches
        }
        if self._acks:
            found = self._session.ask_leaders(batches, lambda mine: self._request(mine, batches), _answers, latest=BY_NAME)
            for (_, partition), answer in found.items():
                self._note(partition, answer.base_offset)
        else:
            for leader, mine in self._session.retrying(lambda: self._session.by_leader(batches)).items():
                self._session.send(self._request(mine, batches), leader, latest=BY_NAME)
                for each in mine:
                    self._note(each.partition, -1)
        self._batches.clear()
        self.waiting = self.waiting_bytes = 0
        self._sticky = random.randrange(self._partitions)
        return sent

    def _note(self, partition: int, base_offset: int) -> None:
        last = base_offset + len(self._batches[partition]) - 1 if base_offset >= 0 else -1
        self.written[partition] = self.written.get(partition, (base_offset, last))[0], last
        if self._producer_id >= 0:
            self._sequences[partition] = increment_sequence(self._sequences.get(partition, 0), len(self._batches[partition]))

    def _build(self, partition: int, records: Sequence[Written]) -> bytes:
        return build_batch(
            [SimpleRecord(each.timestamp_ms, each.key, each.value, each.headers) for each in records],
            compression=self._compression,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=self._sequences.get(partition, 0) if self._producer_id >= 0 else NO_SEQUENCE,
        )

    def _request(self, mine: Sequence[TopicPartition], batches: Mapping[TopicPartition, bytes]) -> ProduceRequest:
        data = [PartitionProduceData(index=each.partition, records=batches[each]) for each in mine]
        topics = [TopicProduceData(name=self.topic, partition_data=data)]
        return ProduceRequest(acks=self._acks, timeout_ms=self._session.timeout_ms, topic_data=topics)


def _answers(response: Any) -> Iterator[PartitionAnswer]:
    for topic in response.responses:
        for each in topic.partition_responses:
            # A duplicate is a batch whose first response was lost.
            code = ErrorCode.NONE if each.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER else each.error_code
            yield TopicPartition(topic.name, each.index), code, each.error_message, each
