"""The brokers, the partitions that are not well, and the moves of replicas that are running."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from twisted_kafka.console.cluster.problems import CommandError, problem
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.queries.overview import Broker, brokers_of
from twisted_kafka.console.queries.topics.catalogue import MOST_UNWELL, Unwell, catalogue
from twisted_kafka.protocol.messages.administration.partitions import ListPartitionReassignmentsRequest

MOST_REASSIGNMENTS: Final = 500
"""Most running moves that are listed."""


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """A broker, and the partitions on it."""

    broker: Broker
    leaders: int
    replicas: int
    out_of_sync: int
    """Replicas on it that are not in sync."""


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A running move of replicas."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Cluster:
    """The state of the cluster."""

    cluster_id: str | None
    controller_id: int
    brokers: tuple[BrokerLoad, ...]
    missing: tuple[int, ...]
    """Brokers that have replicas, and are not there."""
    unwell: tuple[Unwell, ...]
    reassignments: tuple[Reassignment, ...]
    stopped: str = ""


def cluster(session: Session) -> Cluster:
    """Return the state, of the topics that the user may describe. Raises CommandError."""
    response = session.retrying(lambda: session.metadata([]))
    found = catalogue(session)
    brokers = brokers_of(session)
    loads = tuple(
        BrokerLoad(each, *(by.get(each.id, 0) for by in (found.leaders, found.replicas, found.out_of_sync))) for each in brokers
    )
    missing = tuple(sorted(set(found.replicas) - {each.id for each in brokers}))
    stopped = f"{MOST_UNWELL} of {found.unwell_count:,} partitions" if found.unwell_count > MOST_UNWELL else ""
    return Cluster(response.cluster_id, session.controller_id, loads, missing, found.unwell, _reassignments(session), stopped)


def _reassignments(session: Session) -> tuple[Reassignment, ...]:
    """Return the running moves; none if the user may not see them, or if only another broker can answer."""
    with suppress(CommandError):
        response = session.ask_controller(ListPartitionReassignmentsRequest(topics=None, timeout_ms=session.timeout_ms))
        if response.error_code:
            raise problem("reassignments", response.error_code, response.error_message)
        found = [
            Reassignment(
                topic.name, each.partition_index, *map(tuple, (each.replicas, each.adding_replicas, each.removing_replicas))
            )
            for topic in response.topics
            for each in topic.partitions
        ]
        return tuple(found[:MOST_REASSIGNMENTS])
    return ()
