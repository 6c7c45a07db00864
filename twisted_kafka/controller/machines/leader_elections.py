"""Leader elections of partitions: the algorithms, and the elections that clients ask for (KIP-183, KIP-460).

(Kafka: ``Election``, ``PartitionLeaderElectionAlgorithms`` and ``KafkaController.onReplicaElection``.)
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

from twisted_kafka.controller.context.context import ControllerContext, Leadership
from twisted_kafka.metadata.cache import NO_LEADER
from twisted_kafka.protocol.errors import (
    ElectionNotNeededError,
    EligibleLeadersNotAvailableError,
    InvalidTopicError,
    KafkaError,
    PreferredLeaderNotAvailableError,
    UnknownTopicOrPartitionError,
)
from twisted_kafka.protocol.topic_partition import TopicPartition


class Elected(NamedTuple):
    """A partition's new leader and in-sync replicas; with ``is_unclean`` acknowledged records may be lost."""

    leader: int
    isr: Sequence[int]
    is_unclean: bool = False


Elect = Callable[[TopicPartition, Leadership, Sequence[int]], Elected | None]
"""Chooses a partition's leader among the live replicas, the last argument; None if it finds none."""


def first_leader(assignment: Sequence[int], alive: Collection[int]) -> Elected | None:
    """Elect for a new partition: the first live replica leads, and all live ones are in sync, as nothing is written yet."""
    live = [broker for broker in assignment if broker in alive]
    return Elected(live[0], live) if live else None


def offline_leader(assignment: Sequence[int], isr: Sequence[int], alive: Collection[int], *, unclean: bool) -> Elected | None:
    """Elect for a dead leader: the first live in-sync replica; with ``unclean`` the first live one, then alone in sync."""
    for broker in assignment:
        if broker in alive and broker in isr:
            return Elected(broker, [each for each in isr if each in alive])
    if unclean:
        for broker in assignment:
            if broker in alive:
                return Elected(broker, [broker], is_unclean=True)
    return None


def leader_after_restarts(
    assignment: Sequence[int], leadership: Leadership, alive: Collection[int], restarted: Collection[int]
) -> Elected | None:
    """Elect after restarts that no controller has noticed: restarted brokers, which may have lost records, leave the ISR.

    They stay if no other in-sync replica lives. A leader that stays in sync stays leader.
    """
    in_sync = [broker for broker in leadership.isr if broker in alive]
    kept = [broker for broker in in_sync if broker not in restarted] or in_sync
    if leadership.leader in kept:
        return Elected(leadership.leader, kept)
    return offline_leader(assignment, kept, alive, unclean=False)


def preferred_leader(assignment: Sequence[int], isr: Sequence[int], alive: Collection[int]) -> Elected | None:
    """Elect the preferred replica, the first of the assignment, if it is alive and in sync."""
    first = assignment[0] if assignment else -1
    return Elected(first, isr) if first in alive and first in isr else None


def reassigned_leader(targets: Sequence[int], isr: Sequence[int], alive: Collection[int]) -> Elected | None:
    """Elect the first target replica of a reassignment that is alive and in sync."""
    for broker in targets:
        if broker in alive and broker in isr:
            return Elected(broker, isr)
    return None


class ElectionType(IntEnum):
    """The kind of election, by the codes of ElectLeaders."""

    PREFERRED = 0
    UNCLEAN = 1


class LeaderElections:
    """Elects leaders on request (ElectLeaders). Used on the controller's event thread only."""

    def __init__(self, context: ControllerContext, elect_online: Callable[[Collection[TopicPartition], Elect], None]) -> None:
        """``elect_online`` is the partition state machine's: it moves partitions to ONLINE with a given election."""
        self._context = context
        self._elect_online = elect_online

    def elect(self, wanted: Iterable[TopicPartition], election: ElectionType) -> dict[TopicPartition, KafkaError | None]:
        """Elect leaders where that is needed and possible; the result of a partition with a new leader is None."""
        results: dict[TopicPartition, KafkaError | None] = {}
        epochs: dict[TopicPartition, int] = {}
        for partition in wanted:
            refusal = self._refusal(partition, election)
            if refusal is not None:
                results[partition] = refusal
            else:
                epochs[partition] = self._context.leaderships[partition].leader_epoch
        self._elect_online(epochs, self._preferred if election is ElectionType.PREFERRED else self._any)
        for partition, epoch in epochs.items():
            elected = self._context.leaderships[partition].leader_epoch != epoch
            results[partition] = None if elected else self._failure(partition, election)
        return results

    def _refusal(self, partition: TopicPartition, election: ElectionType) -> KafkaError | None:
        context = self._context
        leadership = context.leaderships.get(partition)
        if leadership is None:
            return UnknownTopicOrPartitionError("The partition does not exist.")
        if context.is_to_be_deleted(partition.topic):
            return InvalidTopicError("The topic is invalid: it is being deleted")
        if election is ElectionType.PREFERRED:
            is_needed = leadership.leader != context.assignment(partition).replicas[0]
        else:
            is_needed = leadership.leader == NO_LEADER or leadership.leader not in context.brokers
        return (
            None
            if is_needed
            else ElectionNotNeededError("Leader election is not needed: the partition has the leader that it would get")
        )

    def _failure(self, partition: TopicPartition, election: ElectionType) -> KafkaError:
        if election is ElectionType.PREFERRED:
            preferred = self._context.assignment(partition).replicas[0]
            return PreferredLeaderNotAvailableError(
                f"The preferred leader is not available: broker {preferred} is not alive or not in sync"
            )
        return EligibleLeadersNotAvailableError("Eligible leaders are not available: no replica of the partition is alive")

    def _preferred(self, partition: TopicPartition, leadership: Leadership, alive: Sequence[int]) -> Elected | None:
        return preferred_leader(self._context.assignment(partition).replicas, leadership.isr, alive)

    def _any(self, partition: TopicPartition, leadership: Leadership, alive: Sequence[int]) -> Elected | None:
        return offline_leader(self._context.assignment(partition).replicas, leadership.isr, alive, unclean=True)
