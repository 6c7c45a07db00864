"""Checks that a partition is part of the producer's open transaction before the first append of that transaction (KIP-890).

A transaction that its coordinator does not know is never committed or aborted, and read_committed consumers would wait for it
forever. So the coordinator is asked first, unless ``transaction.partition.verification.enable`` is false. The transaction may end
before the answer arrives: the log issues a guard before the question and refuses the append if a marker was written since.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.log.producer_state.producer_state_manager import NO_SEQUENCE, VerificationGuard
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.replica_manager import ReplicaManager

AskCoordinator = Callable[[TopicPartition, str, Producer], ErrorCode]
"""Asks the coordinator of a transactional id: NONE if the partition is in its open transaction, otherwise the error."""


METRICS_TYPE: Final = "AddPartitionsToTxnManager"

UNVERIFIABLE: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Errors of the coordinator that pass. Producers do not expect them in the answers of other brokers: there they are replaced."""


class Verified(NamedTuple):
    """The result of a verification: an error, or NONE and the guard to pass to the append."""

    error: ErrorCode
    guard: VerificationGuard | None = None
    """None if the append needs none: the transaction is already open in the partition, or verification is off."""


class TransactionVerification:
    """Verifies producers' transactions (Kafka: ReplicaManager.maybeStartTransactionVerificationForPartitions)."""

    __slots__ = ("_ask", "_clock", "_failures", "_replicas", "_times_ms")

    def __init__(self, replicas: ReplicaManager, ask: AskCoordinator, metrics: MetricsRegistry) -> None:
        self._replicas = replicas
        self._ask = ask
        self._clock = metrics.clock
        self._failures = metrics.meter(METRICS_TYPE, "VerificationFailureRate")
        self._times_ms = metrics.histogram(METRICS_TYPE, "VerificationTimeMs")

    def verify(
        self,
        partition: TopicPartition,
        transactional_id: str,
        producer: Producer,
        sequence: int = NO_SEQUENCE,
        *,
        knows_abortable: bool = True,
    ) -> Verified:
        """Return whether the producer may append a batch that begins with ``sequence`` to the partition in its transaction.

        A producer with an open transaction in the partition may continue. For a partition that this broker does not have, the
        append reports the error. Without ``knows_abortable`` the producer is too old for TRANSACTION_ABORTABLE.
        """
        hosted = self._replicas.get_partition(partition)
        guard = None if hosted is None else hosted.log.start_verification(*producer, sequence)
        if guard is None:
            return Verified(ErrorCode.NONE)
        began_ns = self._clock.monotonic_ns()
        error = self._ask(partition, transactional_id, producer)
        self._times_ms.update((self._clock.monotonic_ns() - began_ns) / 1e6)
        if error:
            self._failures.mark()
        if error is ErrorCode.PRODUCER_FENCED:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        elif error is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
            error = ErrorCode.INVALID_TXN_STATE
        return Verified(error, guard)
