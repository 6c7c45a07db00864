"""Where the coordinators meet the rest of the broker."""

# ruff: noqa: N805 - the methods of a zope interface have no self

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any, Protocol

from zope.interface import Interface

from twisted_kafka.coordinator.coordinator_record import CoordinatorRecord, RecordKinds
from twisted_kafka.coordinator.effects import Effects
from twisted_kafka.log.producer_state.producer_state_manager import VerificationGuard
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.regions import Buffer
from twisted_kafka.protocol.topic_partition import TopicPartition


class IPartitionWriter(Interface):
    """Appends to partitions of an internal topic."""

    def append(partition: TopicPartition, batch: Buffer, guard: VerificationGuard | None) -> ErrorCode | Future[ErrorCode]:
        """Append a batch, committed when the answer is NONE; ``guard`` is that of a transaction which begins with it.

        An answer at once says that it's committed or that nothing was appended; a future, that it's in the local log and
        awaits its replicas.
        """


class IPartitionReader(Interface):
    """Reads partitions of an internal topic from their local log."""

    def read_all(partition: TopicPartition, buffer_size: int) -> Iterator[Buffer]:
        """Yield the log's batches from its start to its present end, about ``buffer_size`` bytes at a time.

        Raises KafkaError when this broker has no such log.
        """


class ICoordinatorShard(Interface):
    """The state machine of one partition: operations read its state and return what to write, ``replay`` changes it."""

    def replay(record: CoordinatorRecord, producer_id: int) -> None:
        """Apply one record; ``producer_id`` is -1 outside of a transaction."""

    def replay_end_transaction(producer_id: int, committed: bool) -> None:
        """A transaction that wrote to this partition ended."""

    def loaded() -> None:
        """All records were replayed: from now on the shard is in charge."""

    def unloaded() -> None:
        """Another broker is in charge, or none: answer what is parked, stop the timers."""


class IShardFactory(Interface):
    """Makes the shards of one kind of coordinator."""

    def kinds() -> RecordKinds:
        """Return the kinds of record that the shards understand."""

    def shard(partition: int, effects: Effects) -> Any:
        """Return a new, empty ICoordinatorShard."""


class ITopicCreator(Protocol):
    """Creates internal topics when they are first needed (the controller's TopicManager)."""

    def create_internal_topic(self, topic: str) -> object:
        """Begin to create it, with the settings that the configuration gives for it; returns at once, no harm when it exists."""
