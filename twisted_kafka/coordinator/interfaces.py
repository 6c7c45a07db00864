"""Interfaces between the coordinators and the rest of the broker."""

from concurrent.futures import Future
from typing import Any, NamedTuple, Protocol, TypeVar

from twisted_kafka.coordinator.coordinator_record import RecordKinds
from twisted_kafka.coordinator.effects import Effects
from twisted_kafka.coordinator.shard import CoordinatorShard
from twisted_kafka.metadata.cache import Node
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.errors import ErrorCode

S_co = TypeVar("S_co", bound=CoordinatorShard, covariant=True)


class Appended(NamedTuple):
    """A batch in the local log, and the future outcome of its replication; None if it is committed already."""

    base_offset: int
    committed: "Future[ErrorCode] | None" = None


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
