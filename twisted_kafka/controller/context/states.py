"""The states of partitions and replicas, and their valid transitions (Kafka: PartitionStateMachine, ReplicaStateMachine).

partition   NON_EXISTENT -> NEW -> ONLINE <-> OFFLINE -> NON_EXISTENT          (NEW may go OFFLINE, ONLINE may be elected again)
replica     NON_EXISTENT -> NEW -> ONLINE <-> OFFLINE -> DELETION_STARTED -> DELETION_SUCCESSFUL -> NON_EXISTENT
            a deletion that cannot go on makes it DELETION_INELIGIBLE, from where it goes ONLINE or OFFLINE again
"""

import enum
from typing import Final


class PartitionStatus(enum.Enum):
    """The state of a partition."""

    NON_EXISTENT = "non-existent"
    NEW = "new"
    """It has replicas, but no leader and no in-sync replicas yet."""
    ONLINE = "online"
    OFFLINE = "offline"
    """Its leader died."""


class ReplicaStatus(enum.Enum):
    """The state of a replica."""

    NON_EXISTENT = "non-existent"
    NEW = "new"
    ONLINE = "online"
    OFFLINE = "offline"
    DELETION_STARTED = "deletion started"
    DELETION_SUCCESSFUL = "deletion successful"
    DELETION_INELIGIBLE = "deletion ineligible"


_P = PartitionStatus
_R = ReplicaStatus

PARTITION_SOURCES: Final[dict[PartitionStatus, frozenset[PartitionStatus]]] = {
    _P.NEW: frozenset({_P.NON_EXISTENT}),
    _P.ONLINE: frozenset({_P.NEW, _P.ONLINE, _P.OFFLINE}),
    _P.OFFLINE: frozenset({_P.NEW, _P.ONLINE, _P.OFFLINE}),
    _P.NON_EXISTENT: frozenset({_P.OFFLINE}),
}
"""The states from which a partition may enter a state."""

REPLICA_SOURCES: Final[dict[ReplicaStatus, frozenset[ReplicaStatus]]] = {
    _R.NEW: frozenset({_R.NON_EXISTENT}),
    _R.ONLINE: frozenset({_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE}),
    _R.OFFLINE: frozenset({_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE}),
    _R.DELETION_STARTED: frozenset({_R.OFFLINE}),
    _R.DELETION_SUCCESSFUL: frozenset({_R.DELETION_STARTED}),
    _R.DELETION_INELIGIBLE: frozenset({_R.OFFLINE, _R.DELETION_STARTED}),
    _R.NON_EXISTENT: frozenset({_R.DELETION_SUCCESSFUL}),
}
"""The states from which a replica may enter a state."""
