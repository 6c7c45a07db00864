"""One topic: its partitions, sizes and settings, and the groups that read it."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from twisted_kafka.console.cluster.groups import CLASSIC, CONSUMER, STREAMS, all_committed, listed
from twisted_kafka.console.cluster.problems import CommandError
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.queries.groups import lag_of
from twisted_kafka.console.queries.settings import Setting, settings
from twisted_kafka.console.queries.topics.catalogue import TopicShape, shape_of
from twisted_kafka.console.queries.topics.sizes import extent, sizes
from twisted_kafka.protocol.compiler.types import NO_UUID, uuid_text
from twisted_kafka.protocol.topic_partition import TopicPartition

MOST_PARTITIONS: Final = 2_000
"""Most partitions that are listed."""
MOST_GROUPS: Final = 500
"""Most groups whose offsets are asked for, to find the readers of the topic."""

_WITH_OFFSETS: Final = ("", CLASSIC, CONSUMER, STREAMS)


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """A partition."""

    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    offline: tuple[int, ...]
    """Replicas whose broker or disk is down."""
    first: int | None
    end: int | None
    records: int | None
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class TopicGroup:
    """A group that has committed offsets of the topic."""

    group_id: str
    partitions: int
    lag: int | None


@dataclass(frozen=True, slots=True)
class TopicDetail:
    """One topic."""

    shape: TopicShape
    topic_id: str | None
    partitions: tuple[PartitionRow, ...]
    records: int | None
    size_bytes: int | None
    settings: tuple[Setting, ...]
    """Empty if the user may not see them."""
    groups: tuple[TopicGroup, ...]
    stopped: str = ""


def topic(session: Session, name: str, group_ids: Sequence[str] | None = None) -> TopicDetail:
    """Return a topic. ``group_ids`` are readers that are known; without them, or with several brokers, more groups are asked.

    Raises CommandError.
    """
    (found,) = session.topics([name])
    listed_partitions = sorted(found.partitions, key=lambda each: each.partition_index)[:MOST_PARTITIONS]
    partitions = [TopicPartition(name, each.partition_index) for each in listed_partitions]
    led = [where for where, each in zip(partitions, listed_partitions, strict=True) if each.leader_id >= 0]
    silent: list[CommandError] = []
    offsets, size_bytes = extent(session, led, silent), sizes(session, partitions, silent)
    rows = tuple(
        PartitionRow(
            each.partition_index,
            each.leader_id if each.leader_id >= 0 else None,
            tuple(each.replica_nodes),
            tuple(each.isr_nodes),
            tuple(each.offline_replicas),
            offsets.first.get(where),
            offsets.end.get(where),
            offsets.records(where),
            size_bytes.get(where),
        )
        for where, each in zip(partitions, listed_partitions, strict=True)
    )
    stopped = f"after {MOST_PARTITIONS:,} partitions" if len(found.partitions) > MOST_PARTITIONS else ""
    its_settings: tuple[Setting, ...] = ()
    with suppress(CommandError):
        its_settings = settings(session, "topic", name)
    groups, left = _groups(session, name, group_ids, offsets.end, silent)
    if silent:
        stopped = f"because {silent[0]}"
    known = [each.records for each in rows if each.records is not None]
    return TopicDetail(
        shape_of(found),
        None if found.topic_id == NO_UUID else uuid_text(found.topic_id),
        rows,
        sum(known) if known else None,
        sum(size_bytes.values()) if size_bytes else None,
        its_settings,
        groups,
        stopped or left,
    )


def _groups(
    session: Session,
    name: str,
    group_ids: Sequence[str] | None,
    ends: Mapping[TopicPartition, int],
    silent: list[CommandError],
) -> tuple[tuple[TopicGroup, ...], str]:
    with suppress(CommandError):
        wanted = list(group_ids or ())
        if group_ids is None or len(session.brokers) > 1:  # groups that other brokers coordinate may read it, too
            known = set(wanted)
            others = [each for each in listed(session, silent=silent) if each.group_type.lower() in _WITH_OFFSETS]
            wanted += (each.group_id for each in others if each.group_id not in known)
        stopped = f"groups after {MOST_GROUPS} of {len(wanted):,}" if len(wanted) > MOST_GROUPS else ""
        rows = []
        for group_id, offsets in all_committed(session, wanted[:MOST_GROUPS]).items():
            if isinstance(offsets, CommandError):
                continue
            mine = {each: offset for each, offset in offsets.items() if each.topic == name}
            if mine:
                lags = [lag for each, offset in mine.items() if (lag := lag_of(offset, ends.get(each))) is not None]
                rows.append(TopicGroup(group_id, len(mine), sum(lags) if lags else None))
        return tuple(sorted(rows, key=lambda each: (-(each.lag or 0), each.group_id))), stopped
    return (), ""
