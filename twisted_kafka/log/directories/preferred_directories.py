"""Which log directory an administrator wants a partition's next log in (AlterReplicaLogDirs)."""

from typing import Final

from twisted_kafka.log.directories.log_directory import LogDirectory
from twisted_kafka.protocol.topic_partition import TopicPartition

MAX_PREFERRED_DIRECTORIES: Final = 10_000
"""So many partitions that do not exist yet may have a directory wished for them; the oldest wish is forgotten first."""


class PreferredDirectories:
    """Used under the lock of the log manager, who makes the logs."""

    def __init__(self) -> None:
        self._wished: dict[TopicPartition, LogDirectory] = {}

    def add(self, topic_partition: TopicPartition, directory: LogDirectory) -> None:
        """Note that the partition's next log shall be in ``directory``; nothing when it has one there already."""
        if topic_partition in directory.logs:
            return
        self.forget(topic_partition)
        while len(self._wished) >= MAX_PREFERRED_DIRECTORIES:
            del self._wished[next(iter(self._wished))]
        self._wished[topic_partition] = directory

    def get(self, topic_partition: TopicPartition) -> LogDirectory | None:
        """Return the directory that is wished for, or None."""
        return self._wished.get(topic_partition)

    def forget(self, topic_partition: TopicPartition) -> None:
        """Let the next log be made anywhere."""
        self._wished.pop(topic_partition, None)
