"""The interfaces of parts that are passed to the replica manager."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.partition.partition import Partition

LeadershipListener = Callable[[Sequence[TopicPartition], Sequence[TopicPartition]], None]
"""Called with the partitions that this broker leads now, and the partitions that it follows now or no longer hosts."""


class IReplicaFetchers(Protocol):
    """The threads that fetch from the leaders of partitions that this broker follows."""

    def follow(self, partitions: Iterable[Partition]) -> None:
        """Fetch these partitions from ``partition.leader_id``, from the log end offset on, in place of another leader."""

    def stop_following(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching these partitions; return when none of their fetched data will be appended any more."""

    def shutdown(self) -> None:
        """Stop all."""


class IInSyncReplicas(Protocol):
    """Has in-sync replicas of led partitions grow and shrink."""

    def watch(self, partition: Partition) -> None:
        """Take out followers of this partition that lag, from now on."""

    def maybe_expand(self, partition: Partition, replica_id: int) -> None:
        """Let a follower join that has fetched, if it has all that is committed. Called without the partition's lock."""


class IControllerChannel(Protocol):
    """Sends this broker's requests to the controller, wherever it is (Kafka: ``NodeToControllerChannelManager``)."""

    def send(self, request: Message, latest_version: int | None = None) -> "Future[Any]":
        """Return a future of the controller's response, which is not NOT_CONTROLLER; may be called on any thread.

        A request may reach controllers twice: it is sent again until it is answered. ``latest_version`` is the newest version to
        use. The future fails with RequestTimedOutError if there is no answer within about ``request.timeout.ms``, with
        UnsupportedVersionError, or with another exception if the channel is stopped or too much waits.
        """


class FixedReplicas:
    """For a broker without others: only the controller changes in-sync replicas."""

    def watch(self, partition: Partition) -> None: ...

    def maybe_expand(self, partition: Partition, replica_id: int) -> None: ...


class NoFetchers:
    """For a broker that is alone, without leaders to fetch from."""

    def follow(self, partitions: Iterable[Partition]) -> None: ...

    def stop_following(self, topic_partitions: Iterable[TopicPartition]) -> None: ...

    def shutdown(self) -> None: ...
