"""The name of one partition."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, cast


class TopicPartition(NamedTuple):
    """A topic's name and the index of one of its partitions; its text is Kafka's directory name, ``topic-0``."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


topic_partition_of = cast(Callable[[tuple[str, int]], TopicPartition], partial(tuple.__new__, TopicPartition))
"""Makes one of a plain pair, in half the time that the class takes: for hot paths."""
