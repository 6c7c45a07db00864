"""What the consumer groups see of the cluster's topics."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol


class TopicSnapshot(Protocol):
    """The topics at one moment (MetadataSnapshot): another object when anything changed."""

    @property
    def topics(self) -> Mapping[str, Mapping[int, Any]]:
        """The partitions by topic and index."""

    @property
    def topic_ids(self) -> Mapping[str, bytes]:
        """The id of each topic."""

    @property
    def topic_names(self) -> Mapping[bytes, str]:
        """The name of each id."""


class TopicSource(Protocol):
    """Where the present snapshot is to be had (MetadataCache)."""

    @property
    def snapshot(self) -> Any:
        """The present TopicSnapshot."""


class TopicInfo(NamedTuple):
    """What an assignment depends on: when it changes, the group rebalances."""

    topic_id: bytes
    partition_count: int


def known_topics(snapshot: TopicSnapshot, names: Iterable[str]) -> dict[str, TopicInfo]:
    """Return those of the topics that exist."""
    topics, ids = snapshot.topics, snapshot.topic_ids
    return {name: TopicInfo(ids[name], len(topics[name])) for name in names if name in topics and name in ids}
