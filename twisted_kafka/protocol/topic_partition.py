"""The identity of a partition, the rule for names of topics, and the names of the internal topics."""

import re
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, cast

from typing_extensions import override

GROUP_METADATA_TOPIC: Final = "__consumer_offsets"
TRANSACTION_TOPIC: Final = "__transaction_state"
SHARE_TOPIC: Final = "__share_group_state"

INTERNAL_TOPICS: Final = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_TOPIC, SHARE_TOPIC})
"""Topics that only brokers write: internal in metadata, rejected in clients' produce requests (Kafka: Topic.isInternal)."""


MAX_TOPIC_LENGTH: Final = 249
MAX_PARTITION: Final = 2**31 - 1

LEGAL_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]+")
"""The characters of a topic's name (Kafka: Topic.LEGAL_CHARS)."""


def is_legal_topic(name: str) -> bool:
    """Return whether a topic may have this name. (Kafka: Topic.isValid.)"""
    return LEGAL_TOPIC.fullmatch(name) is not None and len(name) <= MAX_TOPIC_LENGTH and name not in (".", "..")


class TopicPartition(NamedTuple):
    """A topic's name and the index of one of its partitions; ``str()`` gives Kafka's directory name, ``topic-0``."""

    topic: str
    partition: int

    @override
    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


topic_partition_of = cast(Callable[[tuple[str, int]], TopicPartition], partial(tuple.__new__, TopicPartition))
"""Make a TopicPartition of a plain pair in half the time that the class takes: for hot paths."""
