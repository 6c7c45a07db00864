"""``twisted-kafka consume``: print the records of a topic."""

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from twisted_kafka.protocol.records.batch import batches
from twisted_kafka.protocol.records.record import ControlRecordType, Record, RecordBatch, control_record_type
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.timing.clock import SystemClock
from twisted_kafka.tools.admin.arguments import complete
from twisted_kafka.tools.admin.offsets import (
    EARLIEST,
    LATEST,
    POSITIONS,
    READ_COMMITTED,
    by_topic,
    offsets_at,
    parse_position,
    resolved,
)
from twisted_kafka.tools.admin.output import JSON, Output, Progress, counted
from twisted_kafka.tools.admin.problems import CommandError, TryAgainError, problem
from twisted_kafka.tools.admin.record_forms import FIELDS, FORMS, TEXT, Seen, writer
from twisted_kafka.tools.admin.session import Session

BY_NAME: Final = 12
"""The last version of Fetch with topics' names; later ones have ids."""

MAX_WAIT_MS: Final = 500
MAX_BYTES: Final = 16 * 1024 * 1024
PARTITION_BYTES: Final = 1024 * 1024
_CONSUMER: Final = -1
_NO_SESSION: Final = -1
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
    parser.add_argument("-n", "--max-records", type=int, metavar="N", help="end after this number of records")
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


class Reader:
    """Fetches from the leaders of partitions, from their positions to their ends."""

    def __init__(
        self,
        session: Session,
        positions: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int] | None,
        isolation_level: int,
    ) -> None:
        """``ends`` are the offsets at which to stop, each excluded; None to read on without end."""
        self._session = session
        self._ends = ends
        self._isolation_level = isolation_level
        self._aborted: dict[TopicPartition, set[int]] = {}
        """The producers whose open transaction at the position is aborted."""
        self.positions = {each: offset for each, offset in positions.items() if ends is None or offset < ends[each]}
        """The next offset of each partition that is not at its end."""

    def fetch(self) -> Iterator[Seen]:
        """Return the next records, without those of aborted transactions; waits half a second for some."""
        found = self._session.retrying(self._fetch)
        for partition, answer in found:
            yield from self._records(partition, answer)

    def _fetch(self) -> list[tuple[TopicPartition, Any]]:
        found: list[tuple[TopicPartition, Any]] = []
        leaders = self._session.by_leader(self.positions)
        for leader, mine in leaders.items():
            response = self._session.ask(self._request(mine, is_only=len(leaders) == 1), leader, latest=BY_NAME)
            if response.error_code:
                raise problem("the fetch", response.error_code)
            for topic in response.responses:
                for each in topic.partitions:
                    partition = TopicPartition(topic.topic, each.partition_index)
                    if each.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                        self._to_start(partition)
                    elif each.error_code:
                        error = problem(f"{partition.topic} partition {partition.partition}", each.error_code)
                        if not isinstance(error, TryAgainError) or not found:
                            raise error
                    else:
                        found.append((partition, (each, response.throttle_time_ms)))
        return found

    def _request(self, mine: Sequence[TopicPartition], *, is_only: bool) -> FetchRequest:
        topics = [
            FetchTopic(
                topic=name,
                partitions=[
                    FetchPartition(
                        partition=index,
                        fetch_offset=self.positions[TopicPartition(name, index)],
                        partition_max_bytes=PARTITION_BYTES,
                    )
                    for index in indexes
                ],
            )
            for name, indexes in by_topic(mine).items()
        ]
        return FetchRequest(
            replica_id=_CONSUMER,
            max_wait_ms=MAX_WAIT_MS if is_only else MAX_WAIT_MS // 10,
            min_bytes=1,
            max_bytes=MAX_BYTES,
            isolation_level=self._isolation_level,
            session_epoch=_NO_SESSION,
            topics=topics,
        )

    def _to_start(self, partition: TopicPartition) -> None:
        """Skip records that were deleted meanwhile."""
        start = offsets_at(self._session, [partition], EARLIEST)[partition]
        end = offsets_at(self._session, [partition], LATEST)[partition]
        if start <= self.positions[partition] <= end:
            return
        self.positions[partition] = start
        self._end_if_done(partition)

    def _records(self, partition: TopicPartition, found: tuple[Any, int]) -> Iterator[Seen]:
        answer, throttle_time_ms = found
        data = _joined(answer.records)
        aborted = sorted((each.first_offset, each.producer_id) for each in answer.aborted_transactions or ())
        mine = self._aborted.setdefault(partition, set())
        has_batch = False
        for batch in batches(data):
            has_batch = True
            if not batch.is_valid():
                raise CommandError(
                    f"{partition} has a damaged batch at offset {batch.base_offset}: run twisted-kafka verify on the leader"
                )
            while self._isolation_level and aborted and aborted[0][0] <= batch.last_offset:
                mine.add(aborted.pop(0)[1])
            yield from self._of_batch(partition, batch, mine)
            self.positions[partition] = max(self.positions[partition], batch.next_offset)
        if not has_batch and data:
            raise CommandError(f"{partition} has a batch of more than {PARTITION_BYTES} bytes that the broker does not send whole")
        if not has_batch and not throttle_time_ms and self._ends is not None:
            del self.positions[partition]  # the log ends before the end that was asked for
            return
        self._end_if_done(partition)

    def _of_batch(self, partition: TopicPartition, batch: RecordBatch, aborted: set[int]) -> Iterator[Seen]:
        if batch.is_control:
            for record in batch.records():
                if control_record_type(record.key) == ControlRecordType.ABORT:
                    aborted.discard(batch.producer_id)
            return
        if batch.is_transactional and batch.producer_id in aborted:
            return
        for record in self._wanted(partition, batch.records()):
            self.positions[partition] = record.offset + 1
            yield Seen(
                partition.topic, partition.partition, record.offset, record.timestamp_ms, record.key, record.value, record.headers
            )

    def _wanted(self, partition: TopicPartition, records: Iterable[Record]) -> Iterator[Record]:
        first = self.positions[partition]
        end = None if self._ends is None else self._ends[partition]
        return (record for record in records if record.offset >= first and (end is None or record.offset < end))

    def _end_if_done(self, partition: TopicPartition) -> None:
        if self._ends is not None and self.positions[partition] >= self._ends[partition]:
            del self.positions[partition]


def _joined(records: Any) -> bytes:
    if records is None:
        return b""
    return b"".join(bytes(each) for each in records) if isinstance(records, list) else bytes(records)
