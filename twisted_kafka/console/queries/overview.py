"""The cluster at a glance."""

from dataclasses import dataclass

from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.queries.topics.catalogue import catalogue, counts


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker of the cluster."""

    id: int
    host: str
    port: int
    rack: str | None
    is_controller: bool


@dataclass(frozen=True, slots=True)
class Overview:
    """The brokers, and how much there is."""

    cluster_id: str | None
    controller_id: int
    """-1 without a controller."""
    brokers: tuple[Broker, ...]
    topics: int
    internal_topics: int
    partitions: int
    offline: int
    """Partitions without a leader."""
    under_replicated: int
    """Partitions with replicas that are not in sync."""


def overview(session: Session) -> Overview:
    """Return the overview, of the topics that the user may describe. Raises CommandError."""
    cluster_id = session.retrying(lambda: session.metadata([])).cluster_id
    shapes = catalogue(session).topics
    return Overview(cluster_id, session.controller_id, brokers_of(session), *counts(shapes))


def brokers_of(session: Session) -> tuple[Broker, ...]:
    """Return the brokers of the session's last metadata."""
    return tuple(
        Broker(node, each.host, each.port, each.rack, node == session.controller_id)
        for node, each in sorted(session.brokers.items())
    )
