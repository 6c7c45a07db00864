"""Interfaces between the coordinators and the rest of the broker."""

# ruff: noqa: N805 - the methods of a zope interface have no self

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any, NamedTuple, Protocol, TypeVar

from zope.interface import Interface

from twisted_kafka.coordinator.coordinator_record import RecordKinds
from twisted_kafka.coordinator.effects import Effects
from twisted_kafka.coordinator.shard import CoordinatorShard
from twisted_kafka.log.producer_state.producer_state_manager import VerificationGuard
from twisted_kafka.metadata.cache import Node
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.regions import Buffer
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.quota.controller_mutation_quota_manager import ControllerMutationQuota

S_co = TypeVar("S_co", bound=CoordinatorShard, covariant=True)


class Appended(NamedTuple):
    """A batch in the local log, and the future outcome of its replication; None if it is committed already."""

    base_offset: int
    committed: "Future[ErrorCode] | None" = None


class IPartitionWriter(Interface):
    """Appends to partitions of an internal topic."""

    def append(partition: TopicPartition, batch: Buffer, guard: VerificationGuard | None) -> Appended | ErrorCode:
        """Append a batch; return the error if nothing was appended. ``guard`` is required if it starts a verified transaction."""

    def is_committed(partition: TopicPartition, offset: int) -> bool:
        """Return whether this broker leads the partition and its high watermark is above ``offset``."""


class IPartitionReader(Interface):
    """Reads partitions of an internal topic from their local log."""

    def read_all(partition: TopicPartition, buffer_size: int) -> Iterator[Buffer]:
        """Yield the log's batches from its start to its current end, about ``buffer_size`` bytes at a time.

        Raises KafkaError if this broker does not have the log.
        """


class ShardFactory(Protocol[S_co]):
    """Creates the shards of one type of coordinator."""

    def kinds(self) -> RecordKinds:
        """Return the record types that the shards can replay."""

    def shard(self, partition: int, leader_epoch: int, effects: Effects) -> S_co:
        """Return a new, empty shard for the time that this broker leads the partition, from ``leader_epoch`` on."""


class IBrokerClient(Protocol):
    """Sends requests to other brokers. Methods may be called on any thread, and do not block."""

    def send(self, node: Node, request: Message) -> "Future[Any]":
        """Return a future of the response, which is done after ``request.timeout.ms`` at the latest; nothing is sent twice.

        If there will be no response, it fails.
        """

    def disconnect(self, broker_id: int) -> None:
        """Close the connection to a broker, and fail the requests to it."""


class ITopicCreator(Protocol):
    """Creates internal topics when they are first needed (implemented by admin.topics.TopicManager)."""

    def create_internal_topic(self, topic: str, mutations: ControllerMutationQuota) -> object:
        """Start creating the topic with its configured settings, without waiting for it; does nothing if it exists."""
