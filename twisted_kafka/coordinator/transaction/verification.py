"""Has a partition in the producer's open transaction before the first append of that transaction (KIP-890).

A transaction that its coordinator does not know is never committed or aborted, and read_committed consumers would wait for it
forever. So the coordinator is asked first, unless ``transaction.partition.verification.enable`` is false. The transaction may end
before the answer arrives: the log issues a guard before the question and refuses the append if a marker was written since.

A producer whose transactions have an epoch each adds no partitions itself: they are added here, before the first append to each.
"""

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from typing import Final, NamedTuple

from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.coordinator.transaction.transaction_metadata import BUMPED_SINCE
from twisted_kafka.log.producer_state.producer_state_manager import NO_SEQUENCE, VerificationGuard
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.errors import ErrorCode, InvalidProducerEpochError
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.replica_manager import ReplicaManager
from twisted_kafka.waiting.futures import when_done

AskCoordinator = Callable[[TopicPartition, str, Producer], ErrorCode]
"""Asks the coordinator of a transactional id: NONE if the partition is in its open transaction, otherwise the error."""

AddToTransaction = Callable[[str, Producer, Collection[TopicPartition], int], "ErrorCode | Future[ErrorCode]"]
"""Has the coordinator add partitions to the open transaction, or begin it, for a ``transaction.version``; all or none."""

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


class Added(NamedTuple):
    """The result of adding partitions: errors, and the guards to pass to the appends; neither if the append needs none."""

    errors: Mapping[TopicPartition, ErrorCode]
    guards: Mapping[TopicPartition, VerificationGuard]


class TransactionVerification:
    """Verifies producers' transactions, or adds to them (Kafka: ReplicaManager.maybeSendPartitionsToTransactionCoordinator)."""

    __slots__ = ("_add", "_ask", "_clock", "_failures", "_replicas", "_times_ms")

    def __init__(self, replicas: ReplicaManager, ask: AskCoordinator, add: AddToTransaction, metrics: MetricsRegistry) -> None:
        self._replicas = replicas
        self._ask = ask
        self._add = add
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

    def add(self, sequences: Mapping[TopicPartition, int], transactional_id: str, producer: Producer) -> "Added | Future[Added]":
        """Have the partitions in the producer's transaction, whether transactions are verified or not.

        ``sequences`` has the first sequence number of what is to be appended to each, NO_SEQUENCE for a coordinator. A partition
        that has an open transaction of the producer is in it already. For one that this broker does not lead, the append reports
        the error.
        """
        errors: dict[TopicPartition, ErrorCode] = {}
        guards: dict[TopicPartition, VerificationGuard] = {}
        for partition, sequence in sequences.items():
            hosted = self._replicas.get_partition(partition)
            if hosted is None or not hosted.is_leader:
                continue
            try:
                guard = hosted.log.start_verification(*producer, sequence, bumps_epoch=True)
            except InvalidProducerEpochError as error:
                errors[partition] = error.code
                continue
            if guard is not None:
                guards[partition] = guard
        if not guards:
            return Added(errors, guards)
        began_ns = self._clock.monotonic_ns()

        def added(error: ErrorCode) -> Added:
            self._times_ms.update((self._clock.monotonic_ns() - began_ns) / 1e6)
            if not error:
                return Added(errors, guards)
            self._failures.mark(len(guards))
            if error is ErrorCode.PRODUCER_FENCED:
                error = ErrorCode.INVALID_PRODUCER_EPOCH
            return Added(errors | dict.fromkeys(guards, error), {})

        return when_done(self._add(transactional_id, producer, guards.keys(), BUMPED_SINCE), added)
