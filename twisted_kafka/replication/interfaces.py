"""What the replica manager needs of parts that are handed in."""

from collections.abc import Callable, Iterable, Sequence

from zope.interface import Interface, implementer

from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.partition import Partition

LeadershipListener = Callable[[Sequence[TopicPartition], Sequence[TopicPartition]], None]
"""Told which partitions this broker leads since now and which it does not (any more: it follows, or has them no longer)."""


class IReplicaFetchers(Interface):
    """The threads that fetch from leaders what this broker follows."""

    def follow(partitions: Iterable[Partition]) -> None:  # noqa: N805
        """Fetch these from ``partition.leader_id``, from the log's end on; those that are fetched already from there now."""

    def stop_following(topic_partitions: Iterable[TopicPartition]) -> None:  # noqa: N805
        """Fetch these no more; returns when no fetched data of them will be appended any more."""

    def shutdown() -> None:
        """Stop all."""


@implementer(IReplicaFetchers)
class NoFetchers:
    """For a broker that is alone: there is nobody to fetch from."""

    def follow(self, partitions: Iterable[Partition]) -> None:
        """Do nothing."""

    def stop_following(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Do nothing."""

    def shutdown(self) -> None:
        """Do nothing."""
