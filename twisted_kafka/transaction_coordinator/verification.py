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
from twisted_kafka.log.producer_state.producer_state_manager import BUMPED_SINCE, VerificationGuard
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.errors import ErrorCode, InvalidProducerEpochError
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.replica_manager import ReplicaManager
from twisted_kafka.waiting.futures import when_done

Answers = Mapping[TopicPartition, ErrorCode]

AskCoordinator = Callable[[str, Producer, Collection[TopicPartition]], "Answers | Future[Answers]"]
"""Asks the coordinator of a transactional id for each partition: NONE if it is in its open transaction, otherwise the error."""

AddToTransaction = Callable[[str, Producer, Collection[TopicPartition], int], "Answers | Future[Answers]"]
"""Has the coordinator add partitions to the open transaction, or begin it, for a ``transaction.version``; all or none."""

METRICS_TYPE: Final = "AddPartitionsToTxnManager"

UNVERIFIABLE: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
    }
)
"""Errors of the coordinator that pass. Producers do not expect them in the answers of other brokers: there they are replaced."""


class Verified(NamedTuple):
    """Errors, and the guards to pass to the appends of the other partitions; neither for an append that needs none.

    It needs none if the producer's transaction is open in the partition already, or verification is off.
    """

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
        sequences: Mapping[TopicPartition, int],
        transactional_id: str,
        producer: Producer,
        *,
        knows_abortable: bool = True,
    ) -> "Verified | Future[Verified]":
        """Return which partitions the producer may append to in its transaction.

        ``sequences`` has the first sequence number of each partition's new records, NO_SEQUENCE for a coordinator. For a
        partition that this broker does not lead, the append reports the error. Without ``knows_abortable`` the producer is too
        old for TRANSACTION_ABORTABLE.
        """
        errors, guards = self._start(sequences, producer, False)
        if not guards:
            return Verified(errors, guards)
        answered = self._when_answered(errors, guards, knows_abortable)
        return when_done(self._ask(transactional_id, producer, list(guards)), answered)

    def add(
        self, sequences: Mapping[TopicPartition, int], transactional_id: str, producer: Producer
    ) -> "Verified | Future[Verified]":
        """Add the partitions to the producer's transaction, whether transactions are verified or not; see ``verify``."""
        errors, guards = self._start(sequences, producer, True)
        if not guards:
            return Verified(errors, guards)
        answered = self._when_answered(errors, guards, True)
        return when_done(self._add(transactional_id, producer, list(guards), BUMPED_SINCE), answered)

    def _when_answered(
        self, errors: dict[TopicPartition, ErrorCode], guards: dict[TopicPartition, VerificationGuard], knows_abortable: bool
    ) -> Callable[[Answers], Verified]:
        """Return the function that takes the coordinator's answers; it also records how long they took."""
        began_ns = self._clock.monotonic_ns()

        def answered(answers: Answers) -> Verified:
            self._times_ms.update((self._clock.monotonic_ns() - began_ns) / 1e6)
            failed = {partition: error for partition, error in answers.items() if error}
            for partition, error in failed.items():
                del guards[partition]
                errors[partition] = _for_producer(error, knows_abortable)
            if failed:
                self._failures.mark(len(failed))
            return Verified(errors, guards)

        return answered

    def _start(
        self, sequences: Mapping[TopicPartition, int], producer: Producer, bumps_epoch: bool
    ) -> tuple[dict[TopicPartition, ErrorCode], dict[TopicPartition, VerificationGuard]]:
        errors: dict[TopicPartition, ErrorCode] = {}
        guards: dict[TopicPartition, VerificationGuard] = {}
        for partition, sequence in sequences.items():
            hosted = self._replicas.get_partition(partition)
            if hosted is None or not hosted.is_leader:
                continue
            try:
                guard = hosted.log.start_verification(*producer, sequence, bumps_epoch=bumps_epoch)
            except InvalidProducerEpochError as error:
                errors[partition] = error.code
                continue
            if guard is not None:
                guards[partition] = guard
        return errors, guards


def _for_producer(error: ErrorCode, knows_abortable: bool = True) -> ErrorCode:
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return error
