"""The cluster's topics as consumer groups see them."""

from collections.abc import Iterable
from typing import NamedTuple

from twisted_kafka.metadata.cache import MetadataSnapshot


class TopicInfo(NamedTuple):
    """The properties of a topic that assignments depend on; the group rebalances when they change."""

    topic_id: bytes
    partition_count: int


def known_topics(snapshot: MetadataSnapshot, names: Iterable[str]) -> dict[str, TopicInfo]:
    """Return the topics of ``names`` that exist."""
    topics, ids = snapshot.topics, snapshot.topic_ids
    return {name: TopicInfo(ids[name], len(topics[name])) for name in names if name in topics and name in ids}
