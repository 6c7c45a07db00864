"""Coordinators of other brokers that are asked to verify partitions."""

from collections.abc import Collection, Mapping
from concurrent.futures import Future

from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.topic_partition import TRANSACTION_TOPIC, TopicPartition

NONE, NETWORK = ErrorCode.NONE, ErrorCode.NETWORK_EXCEPTION
COORDINATORS = {"here": 0, "there": 1, "far": 2, "nowhere": 3, "gone": 4}
"""Partitions of ``__transaction_state`` by transactional id."""
LEADERS = {TopicPartition(TRANSACTION_TOPIC, index): leader for index, leader in enumerate((1, 2, 3, 4))}


class Coordinator:
    """Broker 1's: it has those that it leads."""

    def __init__(self) -> None:
        self.later: Future[ErrorCode] | None = None
        self.has_resigned = False

    def partition_for(self, transactional_id: str) -> int:
        return COORDINATORS.get(transactional_id, 1)

    def _error(self, transactional_id: str) -> ErrorCode:
        return NONE if transactional_id == "here" and not self.has_resigned else ErrorCode.NOT_COORDINATOR

    def verify_partitions(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        return dict.fromkeys(partitions, self._error(transactional_id))

    def add_partitions(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition], client_version: int = 0
    ) -> ErrorCode | Future[ErrorCode]:
        assert client_version == 2
        return self.later or self._error(transactional_id)
