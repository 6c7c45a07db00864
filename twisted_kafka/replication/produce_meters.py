"""The meters that every append counts in."""

from threading import get_ident

from twisted_kafka.replication.topic_stats import TopicStats


class ProduceMeters:
    """The counts of a topic's appends, and those of all topics, taken out of their names' places once."""

    __slots__ = ("_all", "_topic")

    def __init__(self, topic: TopicStats, all_topics: TopicStats) -> None:
        self._topic = topic.append_tally()
        self._all = all_topics.append_tally()

    def mark(self, size_bytes: int, records: int) -> None:
        """Count an append."""
        thread = get_ident()
        cell = self._topic.cell(thread)
        cell[0] += 1
        cell[1] += size_bytes
        cell[2] += records
        cell = self._all.cell(thread)
        cell[0] += 1
        cell[1] += size_bytes
        cell[2] += records
