"""Changes of the in-sync replicas, which a leader proposes and the controller decides (KIP-497)."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from twisted_kafka.protocol.errors import ErrorCode

NOT_APPLIED: Final = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
"""Errors that say that the change was not made, and will not be."""

APPLIED_ELSEWHERE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""Errors that say that the controller knows more than this leader, which will hear of it: asking again is of no use."""


class CommittedIsr(NamedTuple):
    """The controller's answer to a proposal: the current in-sync replicas."""

    isr: frozenset[int]
    leader_epoch: int
    partition_epoch: int


class IsrProposal:
    """A change of the in-sync replicas that this leader has proposed (Kafka: ``PendingExpandIsr``, ``PendingShrinkIsr``).

    Compared by identity.
    """

    __slots__ = ("broker_epochs", "isr", "leader_epoch", "maximal_isr", "partition_epoch")

    def __init__(
        self,
        committed: frozenset[int],
        isr: frozenset[int],
        broker_epochs: Mapping[int, int],
        leader_epoch: int,
        partition_epoch: int,
    ) -> None:
        """``broker_epochs`` has the epoch with which each member fetched, -1 where it is unknown (KIP-903)."""
        self.isr = isr
        self.maximal_isr = committed | isr
        self.broker_epochs = broker_epochs
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch

    @property
    def is_expansion(self) -> bool:
        """Whether a replica joins; otherwise some leave."""
        return self.isr == self.maximal_isr
