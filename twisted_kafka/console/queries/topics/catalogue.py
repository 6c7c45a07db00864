"""The topics of a cluster as one list, which searches and sorts without asking for more."""

import heapq
import operator
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from twisted_kafka.console.cluster.session import Session
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic

MOST_UNWELL: Final = 500
"""Most partitions that are not well that are listed."""


_NO_LEADER: Final = int(ErrorCode.LEADER_NOT_AVAILABLE)
_BY_NAME: Final = operator.attrgetter("name")


class TopicShape(NamedTuple):
    """A topic without its records."""

    name: str
    partitions: int
    replication_factor: int
    is_internal: bool
    offline: int
    """Partitions without a leader."""
    under_replicated: int
    """Partitions with replicas that are not in sync."""


@dataclass(frozen=True, slots=True)
class Unwell:
    """A partition without a leader, or with replicas that are not in sync."""

    topic: str
    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


class Catalogue(NamedTuple):
    """The topics that a user may describe."""

    topics: tuple[TopicShape, ...]
    """By name."""
    leaders: Mapping[int, int]
    """How many partitions each broker leads; -1 stands for none."""
    replicas: Mapping[int, int]
    """How many replicas each broker has."""
    out_of_sync: Mapping[int, int]
    """How many of them are not in sync."""
    unwell: tuple[Unwell, ...]
    """At most ``MOST_UNWELL`` of the partitions that are not well."""
    unwell_count: int


def catalogue(session: Session) -> Catalogue:
    """Return the topics that the user may describe. Raises CommandError."""
    session.retrying(lambda: session.metadata([]))
    return session.derived(_catalogue)


def _catalogue(response: MetadataResponse) -> Catalogue:
    topics = sorted(response.topics, key=_BY_NAME)
    leaders: list[int] = []
    replicas: list[int] = []
    behind = Counter[int]()
    shapes: list[TopicShape] = []
    unwell: list[Unwell] = []
    count = 0
    for topic in topics:
        if topic.error_code and not topic.partitions:
            continue
        shape = shape_of(topic)
        shapes.append(shape)
        for each in topic.partitions:
            leaders.append(each.leader_id)
            replicas += each.replica_nodes
        if not (shape.offline or shape.under_replicated):
            continue
        for each in topic.partitions:
            if each.leader_id >= 0 and len(each.isr_nodes) >= len(each.replica_nodes):
                continue
            behind.update(set(each.replica_nodes) - set(each.isr_nodes))
            count += 1
            unwell.append(_unwell(shape.name, each))
    unwell = heapq.nsmallest(MOST_UNWELL, unwell, key=lambda each: (each.topic, each.partition))
    return Catalogue(tuple(shapes), Counter(leaders), Counter(replicas), behind, tuple(unwell), count)


def _unwell(topic: str, each: MetadataResponsePartition) -> Unwell:
    leader = each.leader_id if each.leader_id >= 0 else None
    return Unwell(topic, each.partition_index, leader, tuple(each.replica_nodes), tuple(each.isr_nodes))


def shape_of(topic: MetadataResponseTopic) -> TopicShape:
    """Return the shape of a topic in a response."""
    factor = offline = behind = 0
    for each in topic.partitions:
        copies = len(each.replica_nodes)
        if copies > factor:
            factor = copies
        if each.leader_id < 0 or each.error_code == _NO_LEADER:
            offline += 1
        if len(each.isr_nodes) < copies:
            behind += 1
    return TopicShape(str(topic.name), len(topic.partitions), factor, topic.is_internal, offline, behind)


def counts(shapes: Iterable[TopicShape]) -> tuple[int, int, int, int, int]:
    """Return the numbers of topics, internal topics, partitions, offline and under-replicated ones."""
    topics = internal = partitions = offline = behind = 0
    for each in shapes:
        topics += 1
        internal += each.is_internal
        partitions += each.partitions
        offline += each.offline
        behind += each.under_replicated
    return topics, internal, partitions, offline, behind
