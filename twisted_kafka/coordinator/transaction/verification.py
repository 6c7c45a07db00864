"""Whether a partition is part of its producer's open transaction, before the first records of one are appended to it (KIP-890).

A record of a transaction that nobody knows of would never be decided, and readers of committed data would wait for it
forever. So the transaction coordinator is asked, unless ``transaction.partition.verification.enable`` is false.
"""

from collections.abc import Callable
from typing import Final

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.replica_manager import ReplicaManager

ENABLE_KEY: Final = "transaction.partition.verification.enable"

AskCoordinator = Callable[[TopicPartition, str, Producer], ErrorCode]
"""Asks the coordinator of a transactional id: NONE when the partition is in its open transaction, or why it is not."""


def unknown_to_coordinator(partition: TopicPartition, transactional_id: str, producer: Producer) -> ErrorCode:
    """Answer as a coordinator does that never gave a producer id to this transactional id: none was given out here."""
    return ErrorCode.INVALID_PRODUCER_ID_MAPPING


class TransactionVerification:
    """Verifies producers' transactions (Kafka: ReplicaManager.maybeStartTransactionVerificationForPartitions)."""

    __slots__ = ("_ask", "_config", "_replicas")

    def __init__(self, config: KafkaConfig, replicas: ReplicaManager, ask: AskCoordinator = unknown_to_coordinator) -> None:
        self._config = config
        self._replicas = replicas
        self._ask = ask

    def error(self, partition: TopicPartition, transactional_id: str, producer: Producer) -> ErrorCode:
        """Return NONE when the producer may append to the partition in its transaction, or why it may not.

        One that has a transaction open there may go on. A partition that is not here is left to the append to complain of.
        """
        if not self._config.boolean(ENABLE_KEY):
            return ErrorCode.NONE
        hosted = self._replicas.get_partition(partition)
        if hosted is None or hosted.log.has_open_transaction(*producer):
            return ErrorCode.NONE
        return self._ask(partition, transactional_id, producer)
