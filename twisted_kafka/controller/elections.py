"""Who shall lead a partition: pure functions, one per reason (Kafka: ``Election`` and ``PartitionLeaderElectionAlgorithms``)."""

from collections.abc import Collection, Sequence
from typing import NamedTuple


class Elected(NamedTuple):
    """A partition's new leader and in-sync replicas; ``is_unclean`` when acknowledged records may be lost."""

    leader: int
    isr: Sequence[int]
    is_unclean: bool = False


def first_leader(assignment: Sequence[int], alive: Collection[int]) -> Elected | None:
    """Elect for a new partition: the first replica that is alive, and all alive ones are in sync, for there is nothing yet."""
    live = [broker for broker in assignment if broker in alive]
    return Elected(live[0], live) if live else None


def offline_leader(assignment: Sequence[int], isr: Sequence[int], alive: Collection[int], *, unclean: bool) -> Elected | None:
    """Elect when the leader died: the first in-sync replica that is alive, or with ``unclean`` any, which then is in sync alone."""
    for broker in assignment:
        if broker in alive and broker in isr:
            return Elected(broker, [each for each in isr if each in alive])
    if unclean:
        for broker in assignment:
            if broker in alive:
                return Elected(broker, [broker], is_unclean=True)
    return None


def preferred_leader(assignment: Sequence[int], isr: Sequence[int], alive: Collection[int]) -> Elected | None:
    """Elect the first of the assigned replicas, if it is alive and in sync."""
    first = assignment[0] if assignment else -1
    return Elected(first, isr) if first in alive and first in isr else None


def reassigned_leader(targets: Sequence[int], isr: Sequence[int], alive: Collection[int]) -> Elected | None:
    """Elect the first replica of a reassignment's target that is alive and in sync."""
    for broker in targets:
        if broker in alive and broker in isr:
            return Elected(broker, isr)
    return None
