"""What ``top`` knows of a cluster at one moment, and the rates between two moments. It asks with Kafka's requests only."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from twisted_kafka.console.cluster.groups import CLASSIC, CONSUMER, STREAMS, all_committed, listed
from twisted_kafka.console.cluster.offsets import LATEST, offsets_at
from twisted_kafka.console.cluster.problems import CommandError
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.queries.groups import lag_of
from twisted_kafka.console.queries.overview import Broker, brokers_of
from twisted_kafka.console.queries.topics.catalogue import TopicShape, counts, shape_of
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.timing.clock import IClock

_WITH_OFFSETS: Final = ("", CLASSIC, CONSUMER, STREAMS)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The cluster at one moment."""

    at_ns: int
    """Monotonic."""
    cluster_id: str | None
    brokers: tuple[Broker, ...]
    leaders: Mapping[int, int]
    """Partitions that each broker leads."""
    totals: tuple[int, int, int, int, int]
    """Topics, internal topics, partitions, partitions without a leader, under-replicated ones."""
    ends: Mapping[str, int]
    """The sum of the end offsets of each topic that was looked at."""
    groups: Mapping[str, tuple[str, int | None]]
    """State and lag of each group that was looked at."""
    group_count: int
    notes: tuple[str, ...] = field(default=())
    """What is missing, and why."""


@dataclass(frozen=True, slots=True)
class TopicRate:
    """A topic with its new records per second."""

    name: str
    records: int
    per_s: float | None


def take(session: Session, clock: IClock, *, most_topics: int, most_groups: int) -> Snapshot:
    """Return the cluster as it is. Raises CommandError if it does not answer."""
    response = session.retrying(lambda: session.metadata(None))
    shapes: list[TopicShape] = [shape_of(each) for each in response.topics]
    leaders: dict[int, int] = {}
    partitions: list[TopicPartition] = []
    names = sorted(each.name for each in shapes if not each.is_internal)
    looked_at = set(names[:most_topics])
    for topic in response.topics:
        for each in topic.partitions:
            leaders[each.leader_id] = leaders.get(each.leader_id, 0) + 1
            if topic.name in looked_at and each.leader_id >= 0:
                partitions.append(TopicPartition(str(topic.name), each.partition_index))
    notes = [f"rates of {most_topics:,} of {len(names):,} topics (--topics)"] if len(names) > most_topics else []
    end_offsets: dict[TopicPartition, int] = {}
    try:
        end_offsets = offsets_at(session, partitions, LATEST)
    except CommandError as error:
        notes.append(str(error))
    at_ns = clock.monotonic_ns()
    ends: dict[str, int] = {}
    for partition, end in end_offsets.items():
        ends[partition.topic] = ends.get(partition.topic, 0) + end
    groups, group_count = _groups(session, end_offsets, most_groups, notes)
    totals = counts(shapes)
    return Snapshot(at_ns, response.cluster_id, brokers_of(session), leaders, totals, ends, groups, group_count, tuple(notes))


def _groups(
    session: Session, ends: Mapping[TopicPartition, int], most: int, notes: list[str]
) -> tuple[dict[str, tuple[str, int | None]], int]:
    try:
        found = [each for each in listed(session) if each.group_type.lower() in _WITH_OFFSETS]
    except CommandError as error:
        notes.append(str(error))
        return {}, 0
    if len(found) > most:
        notes.append(f"lag of {most:,} of {len(found):,} groups (--groups)")
    states = {each.group_id: each.group_state for each in found[:most]}
    rows: dict[str, tuple[str, int | None]] = dict.fromkeys(states, ("", None))
    with suppress(CommandError):
        for group_id, offsets in all_committed(session, list(states)).items() if states else ():
            lags = [] if isinstance(offsets, CommandError) else [lag_of(offset, ends.get(each)) for each, offset in offsets.items()]
            known = [each for each in lags if each is not None]
            rows[group_id] = states[group_id], sum(known) if known else None
    return rows, len(found)


def rates(now: Snapshot, before: Snapshot | None) -> list[TopicRate]:
    """Return the topics, the busiest first."""
    found = []
    for name, end in now.ends.items():
        per_s = None
        if before is not None and name in before.ends and now.at_ns > before.at_ns:
            per_s = max(0, end - before.ends[name]) * 1e9 / (now.at_ns - before.at_ns)
        found.append(TopicRate(name, end, per_s))
    return sorted(found, key=lambda each: (-(each.per_s or 0), -each.records, each.name))


def total_rate(topics: Sequence[TopicRate]) -> float:
    """Return the records per second of all topics."""
    return sum(each.per_s or 0 for each in topics)
