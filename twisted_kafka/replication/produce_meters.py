"""The meters that every append counts in."""

from twisted_kafka.replication.topic_stats import TopicStats


class ProduceMeters:
    """The meters of a topic, and those of all topics, taken out of their names' places once."""

    __slots__ = ("_all_bytes", "_all_messages", "_all_requests", "_bytes", "_messages", "_requests")

    def __init__(self, topic: TopicStats, all_topics: TopicStats) -> None:
        self._requests = topic.produce_requests
        self._all_requests = all_topics.produce_requests
        self._bytes = topic.bytes_in
        self._all_bytes = all_topics.bytes_in
        self._messages = topic.messages_in
        self._all_messages = all_topics.messages_in

    def mark(self, size_bytes: int, records: int) -> None:
        """Count an append."""
        self._requests.mark(1)
        self._all_requests.mark(1)
        self._bytes.mark(size_bytes)
        self._all_bytes.mark(size_bytes)
        self._messages.mark(records)
        self._all_messages.mark(records)
