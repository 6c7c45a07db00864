"""The cluster's topics as consumer groups see them."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol


class TopicSnapshot(Protocol):
    """An immutable snapshot of the topics (implemented by MetadataSnapshot); every change makes a new object."""

    @property
    def topics(self) -> Mapping[str, Mapping[int, object]]:
        """Partitions by topic and index."""

    @property
    def topic_ids(self) -> Mapping[str, bytes]:
        """Topic ids by name."""

    @property
    def topic_names(self) -> Mapping[bytes, str]:
        """Topic names by id."""


class TopicSource(Protocol):
    """Provides the current snapshot (implemented by MetadataCache)."""

    @property
    def snapshot(self) -> TopicSnapshot: ...


class TopicInfo(NamedTuple):
    """The properties of a topic that assignments depend on; the group rebalances when they change."""

    topic_id: bytes
    partition_count: int


def known_topics(snapshot: TopicSnapshot, names: Iterable[str]) -> dict[str, TopicInfo]:
    """Return the topics of ``names`` that exist."""
    topics, ids = snapshot.topics, snapshot.topic_ids
    return {name: TopicInfo(ids[name], len(topics[name])) for name in names if name in topics and name in ids}
