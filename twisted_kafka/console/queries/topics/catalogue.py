"""The topics of a cluster as one list, which searches and sorts without asking for more."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from twisted_kafka.console.cluster.session import Session
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic

MOST_UNWELL: Final = 500
"""Most partitions that are not well that are listed."""


@dataclass(frozen=True, slots=True)
class TopicShape:
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
    topics = sorted(response.topics, key=lambda each: str(each.name))
    leaders, replicas, behind = Counter[int](), Counter[int](), Counter[int]()
    unwell: list[Unwell] = []
    count = 0
    for topic in topics:
        for each in topic.partitions:
            leaders[each.leader_id] += 1
            for replica in each.replica_nodes:
                replicas[replica] += 1
            if each.leader_id >= 0 and len(each.isr_nodes) >= len(each.replica_nodes):
                continue
            behind.update(set(each.replica_nodes) - set(each.isr_nodes))
            count += 1
            if len(unwell) < MOST_UNWELL:
                leader = each.leader_id if each.leader_id >= 0 else None
                place = str(topic.name), each.partition_index, leader
                unwell.append(Unwell(*place, tuple(each.replica_nodes), tuple(each.isr_nodes)))
    shapes = tuple(shape_of(each) for each in topics if not each.error_code or each.partitions)
    return Catalogue(shapes, leaders, replicas, behind, tuple(sorted(unwell, key=lambda each: (each.topic, each.partition))), count)


def shape_of(topic: MetadataResponseTopic) -> TopicShape:
    """Return the shape of a topic in a response."""
    partitions = topic.partitions
    return TopicShape(
        str(topic.name),
        len(partitions),
        max((len(each.replica_nodes) for each in partitions), default=0),
        topic.is_internal,
        sum(each.leader_id < 0 or each.error_code == ErrorCode.LEADER_NOT_AVAILABLE for each in partitions),
        sum(len(each.isr_nodes) < len(each.replica_nodes) for each in partitions),
    )


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
