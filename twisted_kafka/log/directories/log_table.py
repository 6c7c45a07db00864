"""The logs of a log manager, by partition and by topic."""

from typing_extensions import override

from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.protocol.topic_partition import TopicPartition


class LogTable(dict[TopicPartition, UnifiedLog]):
    """Logs by partition, which also finds those of a topic without looking at all others. Changed under the log manager's lock."""

    def __init__(self) -> None:
        super().__init__()
        self._topics: dict[str, dict[TopicPartition, UnifiedLog]] = {}

    def of_topic(self, topic: str) -> list[UnifiedLog]:
        """Return the logs of a topic."""
        return list(self._topics.get(topic, {}).values())

    @override
    def __setitem__(self, topic_partition: TopicPartition, log: UnifiedLog) -> None:
        super().__setitem__(topic_partition, log)
        self._topics.setdefault(topic_partition.topic, {})[topic_partition] = log

    @override
    def __delitem__(self, topic_partition: TopicPartition) -> None:
        super().__delitem__(topic_partition)
        logs = self._topics[topic_partition.topic]
        del logs[topic_partition]
        if not logs:
            del self._topics[topic_partition.topic]

    def take(self, topic_partition: TopicPartition) -> UnifiedLog | None:
        """Remove the log of a partition and return it, or None."""
        log = self.get(topic_partition)
        if log is not None:
            del self[topic_partition]
        return log
