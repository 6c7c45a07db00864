"""The topics of a cluster as one list, which searches and sorts without asking for more."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from twisted_kafka.console.cluster.session import Session
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic


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


def catalogue(session: Session) -> Sequence[TopicShape]:
    """Return the topics that the user may describe, by name."""
    session.retrying(lambda: session.metadata([]))
    return session.derived(_shapes)


def _shapes(response: MetadataResponse) -> tuple[TopicShape, ...]:
    topics = sorted(response.topics, key=lambda each: str(each.name))
    return tuple(shape_of(each) for each in topics if not each.error_code or each.partitions)


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
