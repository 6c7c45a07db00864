"""Whether a partition is part of its producer's open transaction, before the first records of one are appended to it (KIP-890).

A record of a transaction that nobody knows of would never be decided, and readers of committed data would wait for it
forever. So the transaction coordinator is asked, unless ``transaction.partition.verification.enable`` is false. By the time of its
answer the transaction may have ended: the log gives out a guard before the question, and refuses the append if a marker came since.
"""

from collections.abc import Callable
from typing import NamedTuple

from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.log.producer_state.producer_state_manager import NO_SEQUENCE, VerificationGuard
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.replica_manager import ReplicaManager

AskCoordinator = Callable[[TopicPartition, str, Producer], ErrorCode]
"""Asks the coordinator of a transactional id: NONE when the partition is in its open transaction, or why it is not."""


def unknown_to_coordinator(partition: TopicPartition, transactional_id: str, producer: Producer) -> ErrorCode:
    """Answer as a coordinator does that never gave a producer id to this transactional id: none was given out here."""
    return ErrorCode.INVALID_PRODUCER_ID_MAPPING


class Verified(NamedTuple):
    """What came of it: an error, or NONE and what the append has to show."""

    error: ErrorCode
    guard: VerificationGuard | None = None
    """None when none is needed: the transaction goes on, or is not verified."""


class TransactionVerification:
    """Verifies producers' transactions (Kafka: ReplicaManager.maybeStartTransactionVerificationForPartitions)."""

    __slots__ = ("_ask", "_replicas")

    def __init__(self, replicas: ReplicaManager, ask: AskCoordinator = unknown_to_coordinator) -> None:
        self._replicas = replicas
        self._ask = ask

    def verify(self, partition: TopicPartition, transactional_id: str, producer: Producer, sequence: int = NO_SEQUENCE) -> Verified:
        """Tell whether the producer may append to the partition in its transaction, a batch that begins with ``sequence``.

        One that has a transaction open there may go on. A partition that is not here is left to the append to complain of.
        """
        hosted = self._replicas.get_partition(partition)
        guard = None if hosted is None else hosted.log.start_verification(*producer, sequence)
        if guard is None:
            return Verified(ErrorCode.NONE)
        return Verified(self._ask(partition, transactional_id, producer), guard)
