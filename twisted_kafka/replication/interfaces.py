"""The interfaces of parts that are passed to the replica manager."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any

from zope.interface import Interface, implementer

from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.partition.partition import Partition

LeadershipListener = Callable[[Sequence[TopicPartition], Sequence[TopicPartition]], None]
"""Called with the partitions that this broker leads now, and the partitions that it follows now or no longer hosts."""


class IReplicaFetchers(Interface):
    """The threads that fetch from the leaders of partitions that this broker follows."""

    def follow(partitions: Iterable[Partition]) -> None:  # noqa: N805
        """Fetch these partitions from ``partition.leader_id``, from the log end offset on, in place of another leader."""

    def stop_following(topic_partitions: Iterable[TopicPartition]) -> None:  # noqa: N805
        """Stop fetching these partitions; return when none of their fetched data will be appended any more."""

    def shutdown() -> None:
        """Stop all."""


class IInSyncReplicas(Interface):
    """Has in-sync replicas of led partitions grow and shrink."""

    def watch(partition: Partition) -> None:  # noqa: N805
        """Take out followers of this partition that lag, from now on."""

    def maybe_expand(partition: Partition, replica_id: int) -> None:  # noqa: N805
        """Let a follower join that has fetched, if it has all that is committed. Called without the partition's lock."""


class IControllerChannel(Interface):
    """Sends this broker's requests to the controller, wherever it is (Kafka: ``NodeToControllerChannelManager``)."""

    def send(request: Message, latest_version: int | None = None) -> "Future[Any]":  # noqa: N805
        """Return a future of the controller's response, which is not NOT_CONTROLLER; may be called on any thread.

        A request may reach controllers twice: it is sent again until it is answered. ``latest_version`` is the newest version to
        use. The future fails with RequestTimedOutError if there is no answer within about ``request.timeout.ms``, with
        UnsupportedVersionError, or with another exception if the channel is stopped or too much waits.
        """


@implementer(IInSyncReplicas)
class FixedReplicas:
    """For a broker that is alone: the in-sync replicas stay what the controller says."""

    def watch(self, partition: Partition) -> None: ...

    def maybe_expand(self, partition: Partition, replica_id: int) -> None: ...


@implementer(IReplicaFetchers)
class NoFetchers:
    """For a broker that is alone, without leaders to fetch from."""

    def follow(self, partitions: Iterable[Partition]) -> None: ...

    def stop_following(self, topic_partitions: Iterable[TopicPartition]) -> None: ...

    def shutdown(self) -> None: ...
