"""Decides how many partitions the internal topics of a topology have, and which of them are missing.

The number of tasks of a subtopology is the largest partition count of the topics that it reads. A repartition topic without a
number of its own gets that of the subtopology which writes it, and co-partitioned topics get the same number. Changelogs have a
partition for each task (Kafka: InternalTopicManager, RepartitionTopics, CopartitionedTopicsEnforcer, ChangelogTopics).
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final

from twisted_kafka.group_coordinator.state.streams.configured_topology import (
    ConfiguredSubtopology,
    ConfiguredTopology,
    InternalTopic,
    Problem,
    Status,
)
from twisted_kafka.group_coordinator.state.streams.topology import Topology, source_topics
from twisted_kafka.metadata.cache import MetadataSnapshot
from twisted_kafka.protocol.errors import StreamsInvalidTopologyError
from twisted_kafka.protocol.messages.streams.streams_group_records import Subtopology, TopicInfo

_MOST_NAMES: Final = 3
"""Most topics that a status names."""

MOST_TASKS: Final = 100_000
"""Most tasks of a topology: as many as a heartbeat can report, which has no more elements than this."""

MOST_READ: Final = 1_000_000
"""Most partitions that the tasks of a topology read: the response to a heartbeat may list all of them, with their members."""

_Counts = dict[str, int]


class _UnfitError(Exception):
    """Topics do not have the partitions that the topology needs."""


def configure(topology: Topology, snapshot: MetadataSnapshot, metadata_hash: int) -> ConfiguredTopology:
    """Return the topology with what its topics are now. Raises StreamsInvalidTopologyError."""
    subtopologies = topology.subtopologies.values()
    missing = sorted({topic for each in subtopologies for topic in each.source_topics if topic not in snapshot.topics})
    if missing:
        detail = f"Source topics {summary(missing)} are missing."
        return ConfiguredTopology(None, (), Problem(Status.MISSING_SOURCE_TOPICS, detail), metadata_hash, snapshot)
    try:
        counts = _PartitionCounts(topology, snapshot)
        configured = {subtopology_id: counts.configured(each) for subtopology_id, each in topology.subtopologies.items()}
        _check_tasks(sum(each.task_count for each in configured.values()), counts.read)
        absent = _absent(configured.values(), snapshot)
    except _UnfitError as error:
        problem = Problem(Status.INCORRECTLY_PARTITIONED_TOPICS, str(error))
        return ConfiguredTopology(None, (), problem, metadata_hash, snapshot)
    lacking = None
    if absent:
        detail = f"Internal topics are missing: {summary([topic.name for topic in absent])}"
        lacking = Problem(Status.MISSING_INTERNAL_TOPICS, detail)
    return ConfiguredTopology(configured, absent, lacking, metadata_hash, snapshot)


def summary(names: list[str]) -> str:
    """Return some names, and how many others there are."""
    shown, more = ", ".join(names[:_MOST_NAMES]), len(names) - _MOST_NAMES
    return f"{shown} and {more} additional topics" if more > 0 else shown


def _check_tasks(count: int, read: int) -> None:
    """Raise _UnfitError for more tasks than a group may have, and for more partitions than these may read."""
    if count > MOST_TASKS:
        raise _UnfitError(f"The topics make {count} tasks of the topology, but at most {MOST_TASKS} are possible")
    if read > MOST_READ:
        raise _UnfitError(f"The tasks of the topology read {read} partitions, but at most {MOST_READ} are possible")


def _absent(configured: Iterable[ConfiguredSubtopology], snapshot: MetadataSnapshot) -> tuple[InternalTopic, ...]:
    """Return the internal topics that do not exist. Raises _UnfitError if one exists with other partitions."""
    wanted = {topic.name: topic for each in configured for topic in (*each.repartition_sources, *each.changelogs)}
    for name, topic in wanted.items():
        partitions = snapshot.topics.get(name)
        if partitions is not None and len(partitions) != topic.partition_count:
            raise _UnfitError(
                f"Existing topic {name} has different number of partitions: expected {topic.partition_count}, "
                f"found {len(partitions)}"
            )
    return tuple(topic for name, topic in sorted(wanted.items()) if name not in snapshot.topics)


class _PartitionCounts:
    """The partition counts of a topology's topics, which an internal topic may get only later."""

    def __init__(self, topology: Topology, snapshot: MetadataSnapshot) -> None:
        self._snapshot = snapshot
        self._subtopologies = list(topology.subtopologies.values())
        self._decided: _Counts = self._repartition_counts()
        self._copartition()
        self.read = 0
        """How many partitions the tasks read together; one that several subtopologies read counts for each."""
        for each in self._subtopologies:
            counts = self._read_counts(each)
            self.read += sum(counts)
            self._decided.update((topic.name, max(counts)) for topic in each.state_changelog_topics)

    def _of(self, topic: str) -> int:
        partitions = self._snapshot.topics.get(topic)
        return self._decided[topic] if partitions is None else len(partitions)

    def _read_counts(self, subtopology: Subtopology) -> list[int]:
        """Return the partition counts of the topics that a subtopology reads, one at least."""
        topics = set(source_topics(subtopology))
        if not topics:
            raise StreamsInvalidTopologyError(f"No source topics found for subtopology {subtopology.subtopology_id}")
        return [self._of(topic) for topic in topics]

    def configured(self, subtopology: Subtopology) -> ConfiguredSubtopology:
        """Return a subtopology with its number of tasks and its topics' partition counts."""
        return ConfiguredSubtopology(
            max(self._read_counts(subtopology)),
            frozenset(subtopology.source_topics),
            tuple(self._internal(topic) for topic in sorted(subtopology.repartition_source_topics, key=_name)),
            frozenset(subtopology.repartition_sink_topics),
            tuple(self._internal(topic) for topic in sorted(subtopology.state_changelog_topics, key=_name)),
        )

    def _internal(self, topic: TopicInfo) -> InternalTopic:
        count = topic.partitions or self._decided[topic.name]
        return InternalTopic(topic.name, count, topic.replication_factor, {each.key: each.value for each in topic.topic_configs})

    # repartition topics

    def _repartition_counts(self) -> _Counts:
        """Return the partition counts of repartition topics; each subtopology is looked at again when a topic it reads gets one."""
        counts = {topic.name: topic.partitions for each in self._subtopologies for topic in each.repartition_source_topics}
        counts = {name: count for name, count in counts.items() if count}
        readers: dict[str, list[Subtopology]] = {}
        for each in self._subtopologies:
            for topic in each.repartition_source_topics:
                readers.setdefault(topic.name, []).append(each)
        pending = deque(each for each in self._subtopologies if each.repartition_sink_topics)
        decided: set[str] = set()
        while pending:
            writer = pending.popleft()
            count = None if writer.subtopology_id in decided else self._input_count(writer, counts)
            if count is None:
                continue
            decided.add(writer.subtopology_id)
            for sink in writer.repartition_sink_topics:
                if sink not in counts:
                    counts[sink] = count
                    pending.extend(each for each in readers.get(sink, ()) if each.repartition_sink_topics)
        if any(sink not in counts for each in self._subtopologies for sink in each.repartition_sink_topics):
            raise StreamsInvalidTopologyError(
                "Failed to compute number of partitions for all repartition topics. There may be loops in the topology that cannot "
                "be resolved."
            )
        if any(name not in counts for name in readers):
            raise StreamsInvalidTopologyError(
                "Failed to compute number of partitions for all repartition topics, because a repartition source topic is never "
                "used as a sink topic."
            )
        return counts

    def _input_count(self, subtopology: Subtopology, counts: Mapping[str, int]) -> int | None:
        """Return the largest partition count among the topics that a subtopology reads, as far as these are known."""
        internal = (counts[topic.name] for topic in subtopology.repartition_source_topics if topic.name in counts)
        return max((*internal, *(len(self._snapshot.topics[topic]) for topic in subtopology.source_topics)), default=None)

    # co-partitioned topics

    def _copartition(self) -> None:
        """Give co-partitioned repartition topics the same number of partitions. Raises _UnfitError."""
        topics = [topic for each in self._subtopologies for topic in each.repartition_source_topics]
        fixed = {topic.name for topic in topics if topic.partitions}
        internal = {topic.name for topic in topics}
        fixed_counts = {self._of(name) for name in fixed}  # computed once: a topology may have thousands of groups
        for each in self._subtopologies:
            for group in each.copartition_groups:
                names = {each.source_topics[index] for index in group.source_topics}
                names.update(each.repartition_source_topics[index].name for index in group.repartition_source_topics)
                if names:
                    self._enforce(sorted(names), internal, fixed, fixed_counts)

    def _enforce(self, names: list[str], internal: set[str], fixed: set[str], fixed_counts: set[int]) -> None:
        given = {name: self._of(name) for name in names if name not in internal}
        adaptable = {name: self._of(name) for name in names if name in internal}
        if given:
            count = _common(set(given.values()), given)
        elif fixed:
            count = _common(fixed_counts, adaptable)  # as in Kafka: those of the whole topology
        else:
            count = max(adaptable.values())
        for name, own in adaptable.items():
            if name in fixed and own != count:
                raise _UnfitError(
                    f"Number of partitions [{own}] of repartition topic [{name}] doesn't match number of partitions [{count}] of "
                    "the source topic."
                )
            self._decided[name] = count


def _name(topic: TopicInfo) -> str:
    return topic.name


def _common(counts: set[int], shown: Mapping[str, int]) -> int:
    """Return the only number of partitions. Raises _UnfitError if there are several; it names the topics ``shown``."""
    if len(counts) > 1:
        listed = ", ".join(f"{name}={count}" for name, count in sorted(shown.items()))
        raise _UnfitError(f"Following topics do not have the same number of partitions: [{{{listed}}}]")
    return next(iter(counts))
