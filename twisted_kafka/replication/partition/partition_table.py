"""The partitions that this broker hosts."""

from collections.abc import Iterable, Iterator

from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.protocol.errors import ErrorCode, KafkaStorageError, NotLeaderOrFollowerError, UnknownTopicOrPartitionError
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.partition.partition import Partition


class PartitionTable:
    """The hosted partitions, and the partitions that are offline because their log directory failed.

    Lookups are safe on any thread. Changes happen under the lock of ``StateChanges``.
    """

    __slots__ = ("_metadata", "_offline", "_topics", "online")

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata
        self.online: dict[TopicPartition, Partition] = {}
        """The partitions that are hosted and online. Only this class changes it."""
        self._offline: set[TopicPartition] = set()
        self._topics: dict[str, int] = {}
        """The number of online partitions of each topic."""

    def get(self, topic_partition: TopicPartition) -> Partition | None:
        """Return the partition if it is hosted and online."""
        return self.online.get(topic_partition)

    def get_or_raise(self, topic_partition: TopicPartition) -> Partition:
        """Return the partition if it is hosted and online.

        Raises KafkaStorageError (offline), NotLeaderOrFollowerError (other brokers have it), UnknownTopicOrPartitionError.
        """
        partition = self.online.get(topic_partition)
        if partition is not None:
            return partition
        if topic_partition in self._offline:
            raise KafkaStorageError(f"the log directory of {topic_partition} is offline")
        if self._metadata.partition(topic_partition) is not None:
            raise NotLeaderOrFollowerError(f"this broker has no replica of {topic_partition}")
        raise UnknownTopicOrPartitionError(f"partition {topic_partition} does not exist")

    def absence(self, topic_partition: TopicPartition) -> ErrorCode:
        """Return the code of the error that ``get_or_raise`` raises, NONE if the partition is hosted and online."""
        if topic_partition in self.online:
            return ErrorCode.NONE
        if topic_partition in self._offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if self._metadata.partition(topic_partition) is not None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def ensure_known(self, topic_partition: TopicPartition) -> None:
        """Raise UnknownTopicOrPartitionError unless the partition exists, here or on another broker."""
        if topic_partition not in self.online and self._metadata.partition(topic_partition) is None:
            raise UnknownTopicOrPartitionError(f"partition {topic_partition} does not exist")

    def is_offline(self, topic_partition: TopicPartition) -> bool:
        """Return whether its log directory failed."""
        return topic_partition in self._offline

    def add(self, partition: Partition) -> None:
        """Add a partition."""
        topic_partition = partition.topic_partition
        self._offline.discard(topic_partition)
        if topic_partition not in self.online:
            self._topics[topic_partition.topic] = self._topics.get(topic_partition.topic, 0) + 1
        self.online[topic_partition] = partition

    def remove(self, topic_partition: TopicPartition) -> None:
        """Remove an online partition."""
        self._pop(topic_partition)

    def mark_offline(self, topic_partition: TopicPartition) -> None:
        """Take a partition offline: it answers KAFKA_STORAGE_ERROR."""
        self._offline.add(topic_partition)
        self._pop(topic_partition)

    def _pop(self, topic_partition: TopicPartition) -> None:
        if self.online.pop(topic_partition, None) is not None:
            self._topics[topic_partition.topic] -= 1
            if not self._topics[topic_partition.topic]:
                del self._topics[topic_partition.topic]

    def forget_offline(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Let the next request create these partitions again."""
        self._offline.difference_update(topic_partitions)

    @property
    def offline_count(self) -> int:
        """The number of offline partitions."""
        return len(self._offline)

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self.online.values()))

    def __len__(self) -> int:
        return len(self.online)

    def hosts_topic(self, topic: str) -> bool:
        """Return whether any partition of the topic is hosted and online."""
        return topic in self._topics
