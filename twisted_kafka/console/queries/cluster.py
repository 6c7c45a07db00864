"""The brokers, the partitions that are not well, and the moves of replicas that are running."""

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from twisted_kafka.console.cluster.problems import CommandError, problem
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.queries.overview import Broker, brokers_of
from twisted_kafka.protocol.messages.metadata import MetadataResponse
from twisted_kafka.protocol.messages.partitions import ListPartitionReassignmentsRequest

MOST_PARTITIONS: Final = 500
"""Most partitions of each kind that are listed."""


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """A broker, and the partitions on it."""

    broker: Broker
    leaders: int
    replicas: int
    out_of_sync: int
    """Replicas on it that are not in sync."""


@dataclass(frozen=True, slots=True)
class Unwell:
    """A partition without a leader, or with replicas that are not in sync."""

    topic: str
    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


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
    found = session.derived(_placed)
    brokers = brokers_of(session)
    loads = tuple(
        BrokerLoad(each, *(by.get(each.id, 0) for by in (found.leaders, found.replicas, found.out_of_sync))) for each in brokers
    )
    missing = tuple(sorted(set(found.replicas) - {each.id for each in brokers}))
    stopped = f"{MOST_PARTITIONS} of {found.unwell_count:,} partitions" if found.unwell_count > MOST_PARTITIONS else ""
    return Cluster(response.cluster_id, session.controller_id, loads, missing, found.unwell, _reassignments(session), stopped)


class _Placed(NamedTuple):
    """Numbers of partitions by broker, and the partitions that are not well."""

    leaders: Mapping[int, int]
    replicas: Mapping[int, int]
    out_of_sync: Mapping[int, int]
    unwell: tuple[Unwell, ...]
    unwell_count: int


def _placed(response: MetadataResponse) -> _Placed:
    leaders, replicas, behind = Counter[int](), Counter[int](), Counter[int]()
    unwell: list[Unwell] = []
    count = 0
    for topic in response.topics:
        for each in topic.partitions:
            leaders[each.leader_id] += 1
            replicas.update(each.replica_nodes)
            if each.leader_id >= 0 and len(each.isr_nodes) >= len(each.replica_nodes):
                continue
            behind.update(set(each.replica_nodes) - set(each.isr_nodes))
            count += 1
            if len(unwell) < MOST_PARTITIONS:
                leader = each.leader_id if each.leader_id >= 0 else None
                place = str(topic.name), each.partition_index, leader
                unwell.append(Unwell(*place, tuple(each.replica_nodes), tuple(each.isr_nodes)))
    return _Placed(leaders, replicas, behind, tuple(sorted(unwell, key=lambda each: (each.topic, each.partition))), count)


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
        return tuple(found[:MOST_PARTITIONS])
    return ()
