"""A transaction's marker, and the interface of its writers."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import NamedTuple, Protocol

from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.topic_partition import TopicPartition

MarkerErrors = dict[TopicPartition, ErrorCode]

NO_LOG_PARTITION = -1
"""The ``log_partition`` of markers that this broker's coordinator does not send."""


class TransactionMarker(NamedTuple):
    """The end of a producer's transaction, and the partitions that have to know."""

    producer: Producer
    coordinator_epoch: int
    """The leader epoch of the transactional id's partition of ``__transaction_state``."""
    committed: bool
    partitions: frozenset[TopicPartition]
    transaction_version: int = 0
    """From 2 on, the marker has the epoch after that of the transaction's records."""
    log_partition: int = NO_LOG_PARTITION
    """The transactional id's partition of ``__transaction_state``."""


class IMarkerWriter(Protocol):
    """Makes the leaders of partitions write transactions' markers."""

    def write(self, markers: Sequence[TransactionMarker]) -> "list[MarkerErrors | Future[MarkerErrors]]":
        """Return each marker's errors, or a future of them: NONE once it is committed in a partition, or the partition is deleted.

        A future must be done at some time. A marker may be written twice: that has no further effect.
        """

    def drop(self, log_partition: int, coordinator_epoch: int) -> None:
        """Forget the markers that have not been sent yet, and are of a coordinator that has resigned, in this epoch or before."""
