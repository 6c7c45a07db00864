"""What the replica manager needs of parts that are handed in."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

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


class IReplicaMoves(Interface):
    """The moves of replicas to other log directories."""

    def resume(partitions: Iterable[Partition]) -> None:  # noqa: N805
        """Go on with the moves of these that were begun, before a restart for instance."""

    def stop(topic_partitions: Iterable[TopicPartition]) -> None:  # noqa: N805
        """Move these no more, for now; returns when nothing of them will be copied any more."""

    def directory_failed(directory: Path) -> None:  # noqa: N805
        """Give up the moves into a directory that went offline, and those out of it."""

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
