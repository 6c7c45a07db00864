"""The log directories that an administrator chose for new logs (AlterReplicaLogDirs; Kafka: preferredLogDirs)."""

from typing import Final

from twisted_kafka.log.directories.log_directory import LogDirectory
from twisted_kafka.protocol.topic_partition import TopicPartition

MAX_PREFERRED_DIRECTORIES: Final = 10_000
"""The most partitions with a preferred directory. Above it, the oldest entry is dropped."""


class PreferredDirectories:
    """The preferred directory of each partition. Used under the log manager's lock."""

    def __init__(self) -> None:
        self._preferred: dict[TopicPartition, LogDirectory] = {}

    def add(self, topic_partition: TopicPartition, directory: LogDirectory) -> None:
        """Set the directory for the partition's next log; does nothing if its log is there already."""
        if topic_partition in directory.logs:
            return
        self.remove(topic_partition)
        while len(self._preferred) >= MAX_PREFERRED_DIRECTORIES:
            del self._preferred[next(iter(self._preferred))]
        self._preferred[topic_partition] = directory

    def get(self, topic_partition: TopicPartition) -> LogDirectory | None:
        """Return the preferred directory, or None."""
        return self._preferred.get(topic_partition)

    def remove(self, topic_partition: TopicPartition) -> None:
        """Remove the partition's preferred directory."""
        self._preferred.pop(topic_partition, None)
