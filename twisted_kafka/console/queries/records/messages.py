"""Records of a topic: a page of them, from a position on or back from the end, with conditions."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from twisted_kafka.console.cluster.offsets import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    offsets_at,
    parse_position,
    resolved,
)
from twisted_kafka.console.cluster.problems import CommandError
from twisted_kafka.console.cluster.reader import Limits, Reader
from twisted_kafka.console.cluster.record_forms import Seen
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.queries.bounds import DEFAULT, Bounds, Budget
from twisted_kafka.console.queries.records.conditions import Condition, parse_conditions
from twisted_kafka.console.queries.records.schemas import Values
from twisted_kafka.console.queries.records.values import AUTO, SHOWN_CHARACTERS, WHOLE_CHARACTERS, Shown, shown
from twisted_kafka.protocol.records.record import TimestampType
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.timing.clock import IClock

MOST_MESSAGES: Final = 500
"""Most records of a page."""
MOST_HEADERS: Final = 50
"""Most headers of a record that are shown."""
NEWEST: Final = "newest"
"""The position from which a page goes back in time."""

_LIMITS: Final = Limits(1024 * 1024, 256 * 1024, 0, 32 * 1024 * 1024)
_FIRST_WINDOW: Final = 16
_WINDOW_GROWTH: Final = 4
_WINDOW_SHRINKAGE: Final = 8


@dataclass(frozen=True, slots=True)
class MessagesAsked:
    """Which records a caller asks for. The form of an address: texts and numbers."""

    topic: str
    partitions: tuple[int, ...] = ()
    """Empty: all."""
    start: str = NEWEST
    """``newest``, or a position: earliest, latest, an offset, -N, a time. Without it the page goes back from the end."""
    cursor: str = ""
    """Continues a page: its ``next`` or ``older``."""
    count: int = 50
    key: str | None = None
    """Records with exactly this key; ``0x`` begins a key in hexadecimal."""
    search: str = ""
    """Records with this text in key, value or headers; letters' case does not count."""
    where: tuple[str, ...] = ()
    """Conditions (``conditions.FORM``)."""
    form: str = AUTO
    schema: str = ""
    """The text of a schema of Avro or Protobuf, for values that no registry has (``schemas.decoder_of``)."""
    is_committed: bool = True
    """Whether to leave out records of open and aborted transactions."""

    def __post_init__(self) -> None:
        """Raise ValueError for a count that cannot be."""
        if not 1 <= self.count <= MOST_MESSAGES:
            raise ValueError(f"{self.count} records: a page has 1 to {MOST_MESSAGES}")


@dataclass(frozen=True, slots=True)
class Message:
    """A record as a page shows it."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    """-1 if the record has none."""
    is_append_time: bool
    """Whether the broker set the time."""
    key: Shown
    value: Shown
    headers: tuple[tuple[str, Shown], ...]
    more_headers: int
    """How many headers are left out."""
    compression: str
    producer_id: int
    """-1 without an idempotent producer."""
    is_transactional: bool


@dataclass(frozen=True, slots=True)
class Messages:
    """A page of records, the newest first if it goes back from the end."""

    items: tuple[Message, ...]
    scanned: int
    """Records that were read."""
    scanned_bytes: int
    following: str
    """The ``cursor`` of the next page in the same direction; empty at the end."""
    stopped: str
    """Why the search ended before the page was full; empty if it is full, or the end was reached."""
    missing: str = ""
    """Why the records of some partitions are not among them: their leader does not answer, or they have none."""


@dataclass(frozen=True, slots=True)
class _Filter:
    key: bytes | None
    search: bytes
    conditions: tuple[Condition, ...]
    values: Values

    @classmethod
    def of(cls, session: Session, asked: MessagesAsked) -> "_Filter":
        key = asked.key
        wanted = None if key is None else bytes.fromhex(key[2:]) if key.startswith("0x") else key.encode("utf-8", "surrogateescape")
        return cls(
            wanted,
            asked.search.casefold().encode("utf-8", "surrogateescape"),
            parse_conditions(asked.where),
            Values(session, asked.schema),
        )

    def takes(self, record: Seen) -> bool:
        if self.key is not None and record.key != self.key:
            return False
        if self.search and not any(self.search in _folded(each) for each in _texts(record)):
            return False
        if not self.conditions:
            return True
        value = self.values.content(record.value)
        return all(each.holds(record, value) for each in self.conditions)


def _folded(data: bytes) -> bytes:
    return data.decode("utf-8", "surrogateescape").casefold().encode("utf-8", "surrogateescape")


def _texts(record: Seen) -> Iterator[bytes]:
    yield record.key or b""
    yield record.value or b""
    for name, value in record.headers:
        yield name.encode("utf-8", "surrogateescape")
        yield value or b""


def messages(session: Session, clock: IClock, asked: MessagesAsked, bounds: Bounds = DEFAULT) -> Messages:
    """Return a page of records. Raises CommandError; ValueError for a position, key or condition that cannot be read."""
    wanted = _Filter.of(session, asked)
    budget = Budget(bounds, clock)
    (topic,) = session.topics([asked.topic])
    known = sorted(each.partition_index for each in topic.partitions)
    unknown = sorted(set(asked.partitions) - set(known))
    if unknown:
        raise CommandError(f"{asked.topic} has no partition {unknown[0]}: it has {len(known)}, from 0")
    partitions = [TopicPartition(asked.topic, index) for index in asked.partitions or known]
    level = READ_COMMITTED if asked.is_committed else 0
    silent: list[CommandError] = []
    ends = offsets_at(session, partitions, LATEST, isolation_level=level, silent=silent)
    if silent and not ends:
        raise silent[0]
    found = _read(session, clock, asked, (wanted, budget), ends, level)
    return replace(found, missing=str(silent[0])) if silent else found


def _read(
    session: Session,
    clock: IClock,
    asked: MessagesAsked,
    rules: tuple[_Filter, Budget],
    ends: Mapping[TopicPartition, int],
    level: int,
) -> Messages:
    """Read the partitions whose ends are known."""
    (wanted, budget), partitions = rules, list(ends)
    positions = None
    if asked.cursor:  # anybody's text: an offset may be beyond the end, or no offset at all
        positions = {each: min(offset, ends[each]) for each, offset in cursor_positions(asked.cursor, partitions).items()}
    if asked.start == NEWEST:
        return _back(session, asked, wanted, budget, (offsets_at(session, partitions, EARLIEST), positions or ends), level)
    if positions is None:
        positions = resolved(session, partitions, parse_position(asked.start, clock.wall_ms()), isolation_level=level)
    return _forward(session, asked, wanted, budget, (positions, ends), level)


def message(session: Session, topic: str, partition: int, offset: int, form: str = AUTO, schema: str = "") -> Message:
    """Return one record with its whole value, up to a million characters; ``schema`` as in ``MessagesAsked``.

    Raises CommandError; ValueError for a schema that cannot be read.
    """
    values = Values(session, schema)
    where = TopicPartition(topic, partition)
    reader = Reader(session, {where: offset}, {where: offset + 1}, 0, _LIMITS)
    for record in reader.fetch():
        return _message(record, form, values, WHOLE_CHARACTERS)
    raise CommandError(f"{topic} partition {partition} has no record with offset {offset}: retention or compaction removed it")


def _forward(
    session: Session,
    asked: MessagesAsked,
    wanted: _Filter,
    budget: Budget,
    window: tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, int]],
    level: int,
) -> Messages:
    positions, ends = window
    reader = Reader(session, positions, ends, level, _LIMITS)
    reached = dict(positions)
    found: list[Message] = []
    stopped = ""
    while reader.positions and len(found) < asked.count and not stopped:
        for record in reader.fetch():
            budget.spend(_size(record))
            reached[TopicPartition(record.topic, record.partition)] = record.offset + 1
            if wanted.takes(record):
                found.append(_message(record, asked.form, wanted.values))
            stopped = budget.stopped
            if stopped or len(found) == asked.count:
                break
        else:
            # All records of the answers were taken: the reader knows where it is, markers and gaps included.
            reached |= reader.positions
            reached |= {each: ends[each] for each in reached if each not in reader.positions}
            stopped = budget.stopped
    left = {each: offset for each, offset in reached.items() if offset < ends[each]}
    full = len(found) == asked.count
    return Messages(tuple(found), budget.records, budget.size_bytes, cursor_of(reached) if left else "", "" if full else stopped)


def _back(
    session: Session,
    asked: MessagesAsked,
    wanted: _Filter,
    budget: Budget,
    window: tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, int]],
    level: int,
) -> Messages:
    """Read windows of growing size before the ends, until enough records are found.

    A window that is too large for the budget counts only for the partitions that were read whole. Without one, it is read
    again with fewer records, so that each page makes progress.
    """
    starts, ends = window
    lowest = dict(ends)
    found: list[Seen] = []
    size, stopped = max(_FIRST_WINDOW, asked.count), ""
    while len(found) < asked.count and not stopped and any(lowest[each] > starts[each] for each in lowest):
        size = max(1, min(size, budget.left_records // len(lowest)))
        read, unread, stopped = _window(session, (starts, lowest), size, (wanted, budget), level)
        found += [each for each in read if TopicPartition(each.topic, each.partition) not in unread]
        has_progress = lowest != ends or len(unread) < len(lowest)
        lowest = {each: top if each in unread else max(starts[each], top - size) for each, top in lowest.items()}
        if stopped and not has_progress and size > 1 and not budget.is_time_over:
            size, stopped = max(1, size // _WINDOW_SHRINKAGE), ""
            budget.allow_bytes_again()
        else:
            size *= _WINDOW_GROWTH
    found = _newest_first(found)
    taken = found[: asked.count]
    following = dict(lowest)
    for each in found[len(taken) :]:
        where = TopicPartition(each.topic, each.partition)
        following[where] = max(following[where], each.offset + 1)
    is_end = all(following[each] <= starts[each] for each in following)
    items = tuple(_message(each, asked.form, wanted.values) for each in taken)
    full = len(items) == asked.count
    return Messages(items, budget.records, budget.size_bytes, "" if is_end else cursor_of(following), "" if full else stopped)


def _window(
    session: Session,
    window: tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, int]],
    size: int,
    rules: tuple[_Filter, Budget],
    level: int,
) -> tuple[list[Seen], set[TopicPartition], str]:
    """Read ``size`` offsets below the tops; return the records wanted, the partitions not read whole, and why it stopped."""
    (starts, tops), (wanted, budget) = window, rules
    reader = Reader(session, {each: max(starts[each], top - size) for each, top in tops.items()}, tops, level, _LIMITS)
    found: list[Seen] = []
    while reader.positions:
        for record in reader.fetch():
            budget.spend(_size(record))
            if wanted.takes(record):
                found.append(record)
            if budget.stopped:
                break
        if budget.stopped:  # also without a record: those of aborted transactions are left out
            return found, {each for each, offset in reader.positions.items() if offset < tops[each]}, budget.stopped
    return found, set(), ""


def _newest_first(found: Sequence[Seen]) -> list[Seen]:
    """Sort by time, so that the order within a partition is that of its offsets."""
    times: list[tuple[int, int, int, Seen]] = []
    latest: dict[int, int] = {}
    for each in sorted(found, key=lambda each: -each.offset):
        time_ms = latest[each.partition] = min(each.timestamp_ms, latest.get(each.partition, each.timestamp_ms))
        times.append((-time_ms, each.partition, -each.offset, each))
    return [each for *_, each in sorted(times, key=lambda each: each[:3])]


def _message(record: Seen, form: str, values: Values, most_characters: int = SHOWN_CHARACTERS) -> Message:
    batch = record.batch
    headers = tuple(
        (key.encode("utf-8", "surrogateescape").decode("utf-8", "replace")[:most_characters], shown(value, AUTO, most_characters))
        for key, value in record.headers[:MOST_HEADERS]
    )
    return Message(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp_ms,
        batch is not None and batch.timestamp_type == TimestampType.LOG_APPEND_TIME,
        values.shown(record.key, AUTO, most_characters, is_key=True),
        values.shown(record.value, form, most_characters),
        headers,
        max(0, len(record.headers) - MOST_HEADERS),
        "none" if batch is None else batch.compression.name.lower(),
        -1 if batch is None else batch.producer_id,
        batch is not None and batch.is_transactional,
    )


def _size(record: Seen) -> int:
    headers = sum(len(key) + len(value or b"") for key, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers


def cursor_of(positions: Mapping[TopicPartition, int]) -> str:
    """Return positions as the text of an address."""
    return ",".join(f"{each.partition}:{offset}" for each, offset in sorted(positions.items()))


def cursor_positions(text: str, partitions: Sequence[TopicPartition], default: int | None = None) -> dict[TopicPartition, int]:
    """Return the positions of a text, ``default`` for partitions that it lacks. Raises ValueError."""
    try:
        pairs = {int(number): max(0, int(offset)) for number, offset in (each.split(":") for each in text.split(","))}
        return {each: pairs[each.partition] if default is None else pairs.get(each.partition, default) for each in partitions}
    except (ValueError, KeyError):
        raise ValueError(
            f"the cursor {text[:80]!r} is not one of this topic and these partitions: begin again without it"
        ) from None
