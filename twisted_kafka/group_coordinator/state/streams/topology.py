"""The topology of a streams application, as the group stores it (StreamsGroupTopologyValue)."""

from collections.abc import Mapping
from functools import cached_property

from typing_extensions import override

from twisted_kafka.protocol.messages.streams.streams_group_records import StreamsGroupTopologyValue, Subtopology

NO_EPOCH = -1


class Topology:
    """Subtopologies in order of their ids. Never changed."""

    def __init__(self, value: StreamsGroupTopologyValue) -> None:
        self.epoch: int = value.epoch
        self.subtopologies: Mapping[str, Subtopology] = {
            each.subtopology_id: each for each in sorted(value.subtopologies, key=lambda each: each.subtopology_id)
        }

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Topology) and (self.epoch, self.subtopologies) == (other.epoch, other.subtopologies)

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def subtopology_of(self) -> Mapping[str, str]:
        """The id of the subtopology that reads a topic, by topic."""
        return {topic: subtopology_id for subtopology_id, each in self.subtopologies.items() for topic in source_topics(each)}

    @cached_property
    def topics(self) -> frozenset[str]:
        """All topics that have to exist."""
        return frozenset(self.subtopology_of).union(
            *((topic.name for topic in each.state_changelog_topics) for each in self.subtopologies.values())
        )


def source_topics(subtopology: Subtopology) -> list[str]:
    """Return the topics that a subtopology reads: the application's own, then repartition topics."""
    return [*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_source_topics)]
