"""Positions in partitions: the words for them, and ListOffsets."""

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from twisted_kafka.console.cluster.problems import CommandError
from twisted_kafka.console.cluster.session import PartitionAnswer, Session
from twisted_kafka.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from twisted_kafka.protocol.topic_partition import TopicPartition

LATEST: Final = -1
EARLIEST: Final = -2
"""Timestamps of ListOffsets that mean the end and the start."""

READ_COMMITTED: Final = 1
_CONSUMER: Final = -1
_OFFSET: Final = re.compile("[0-9]{1,19}")
_AGO: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
POSITIONS: Final = (
    "earliest, latest, an offset, -N (N records before the end), a time (2026-11-27T06:00:00Z), or a time ago (15m, 2h, 1d)"
)
"""For help texts."""


class Position(NamedTuple):
    """A place in a partition: at a timestamp of ListOffsets, plus a number of records, or at an offset."""

    timestamp_ms: int | None
    records: int


def parse_position(text: str, now_ms: int) -> Position:
    """Return a position; raise ValueError that lists the forms."""
    if text in ("earliest", "latest"):
        return Position(EARLIEST if text == "earliest" else LATEST, 0)
    if _OFFSET.fullmatch(text):
        return Position(None, int(text))
    if text.startswith("-") and _OFFSET.fullmatch(text[1:]):
        return Position(LATEST, int(text))
    return Position(max(parse_time(text, now_ms), 0), 0)  # as a timestamp, -1 and -2 are ends of the partition


def parse_time(text: str, now_ms: int) -> int:
    """Return milliseconds since the epoch of a time, or of a time ago; raise ValueError that lists the forms."""
    ago = _AGO.fullmatch(text)
    try:
        if ago:
            return now_ms - int(float(ago[1]) * _UNITS_MS[ago[2]])
        moment = datetime.fromisoformat(text)
        return int((moment if moment.tzinfo else moment.astimezone()).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not a position: expected {POSITIONS}") from None


def time_text(timestamp_ms: int) -> str | None:
    """Return a timestamp in ISO 8601, UTC, None if it is not set."""
    if timestamp_ms < 0:
        return None
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)


def offsets_at(
    session: Session,
    partitions: Iterable[TopicPartition],
    timestamp_ms: int,
    *,
    isolation_level: int = 0,
    silent: list[CommandError] | None = None,
) -> dict[TopicPartition, int]:
    """Return the first offset of each partition at a time, or EARLIEST or LATEST; -1 if all records are older.

    ``silent`` is as in ``Session.ask_leaders``.
    """

    def make(mine: Sequence[TopicPartition]) -> ListOffsetsRequest:
        topics = [
            ListOffsetsTopic(
                name=name, partitions=[ListOffsetsPartition(partition_index=index, timestamp=timestamp_ms) for index in indexes]
            )
            for name, indexes in by_topic(mine).items()
        ]
        return ListOffsetsRequest(
            replica_id=_CONSUMER, isolation_level=isolation_level, topics=topics, timeout_ms=session.timeout_ms
        )

    found = session.ask_leaders(partitions, make, _answers, silent=silent)
    return {partition: answer.offset for partition, answer in found.items()}


def resolved(
    session: Session, partitions: Sequence[TopicPartition], position: Position, *, isolation_level: int = 0
) -> dict[TopicPartition, int]:
    """Return the position's offset in each partition, within the records that it has."""
    ends = offsets_at(session, partitions, LATEST, isolation_level=isolation_level)
    if position == Position(LATEST, 0):
        return ends
    starts = offsets_at(session, partitions, EARLIEST)
    if position.timestamp_ms is None:
        wanted = dict.fromkeys(partitions, position.records)
    elif position.timestamp_ms == LATEST:
        wanted = {partition: ends[partition] + position.records for partition in partitions}
    else:
        found = offsets_at(session, partitions, position.timestamp_ms, isolation_level=isolation_level)
        wanted = {partition: found[partition] if found[partition] >= 0 else ends[partition] for partition in partitions}
    return {partition: min(max(wanted[partition], starts[partition]), ends[partition]) for partition in partitions}


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the indexes of partitions by topic."""
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return topics


def _answers(response: Any) -> Iterable[PartitionAnswer]:
    for topic in response.topics:
        for each in topic.partitions:
            yield TopicPartition(topic.name, each.partition_index), each.error_code, None, each


def partition_answers(topics: str, name: str, partitions: str) -> Callable[[Any], Iterable[PartitionAnswer]]:
    """Return a reader of responses with partitions in topics, by the names of the fields."""

    def answers(response: Any) -> Iterable[PartitionAnswer]:
        for topic in getattr(response, topics):
            for each in getattr(topic, partitions):
                yield (
                    TopicPartition(getattr(topic, name), each.partition_index),
                    each.error_code,
                    getattr(each, "error_message", None),
                    each,
                )

    return answers
