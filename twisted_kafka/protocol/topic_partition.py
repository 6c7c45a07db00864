"""The name of one partition."""

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """A topic's name and the index of one of its partitions; its text is Kafka's directory name, ``topic-0``."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
