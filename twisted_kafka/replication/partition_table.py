"""Which partitions this broker hosts."""

from collections.abc import Iterable, Iterator

from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.protocol.errors import KafkaStorageError, NotLeaderOrFollowerError, UnknownTopicOrPartitionError
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.partition import Partition


class PartitionTable:
    """The hosted partitions, and those that are offline because their directory failed.

    Looking up is safe on any thread; the replica manager changes it under its lock for state changes.
    """

    __slots__ = ("_metadata", "_offline", "_online")

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata
        self._online: dict[TopicPartition, Partition] = {}
        self._offline: set[TopicPartition] = set()

    def get(self, topic_partition: TopicPartition | None) -> Partition | None:
        """Return the partition if it is hosted and online."""
        return self._online.get(topic_partition)  # type: ignore[arg-type]  # None is never a key

    def get_or_raise(self, topic_partition: TopicPartition) -> Partition:
        """Return the partition if it is hosted and online.

        Raises KafkaStorageError (offline), NotLeaderOrFollowerError (other brokers have it), UnknownTopicOrPartitionError.
        """
        partition = self._online.get(topic_partition)
        if partition is not None:
            return partition
        if topic_partition in self._offline:
            raise KafkaStorageError(f"the log directory of {topic_partition} is offline")
        if self._metadata.partition(topic_partition) is not None:
            raise NotLeaderOrFollowerError(f"this broker has no replica of {topic_partition}")
        raise UnknownTopicOrPartitionError(f"there is no partition {topic_partition}")

    def ensure_known(self, topic_partition: TopicPartition) -> None:
        """Raise UnknownTopicOrPartitionError unless there is such a partition, here or elsewhere."""
        if topic_partition not in self._online and self._metadata.partition(topic_partition) is None:
            raise UnknownTopicOrPartitionError(f"there is no partition {topic_partition}")

    def is_offline(self, topic_partition: TopicPartition) -> bool:
        """Tell whether its log directory failed."""
        return topic_partition in self._offline

    def add(self, partition: Partition) -> None:
        """Host a partition."""
        self._offline.discard(partition.topic_partition)
        self._online[partition.topic_partition] = partition

    def remove(self, topic_partition: TopicPartition) -> Partition | None:
        """Host it no longer."""
        self._offline.discard(topic_partition)
        return self._online.pop(topic_partition, None)

    def mark_offline(self, topic_partition: TopicPartition) -> None:
        """Answer KAFKA_STORAGE_ERROR for it from now on."""
        self._offline.add(topic_partition)
        self._online.pop(topic_partition, None)

    def forget_offline(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Let the next order make these anew."""
        self._offline.difference_update(topic_partitions)

    @property
    def offline_count(self) -> int:
        """How many partitions are offline."""
        return len(self._offline)

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self._online.values()))

    def __len__(self) -> int:
        return len(self._online)

    def hosts_topic(self, topic: str) -> bool:
        """Tell whether any partition of the topic is hosted."""
        return any(topic_partition.topic == topic for topic_partition in list(self._online))
