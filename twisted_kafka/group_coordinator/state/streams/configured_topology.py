"""A topology as its topics let it be: the numbers of tasks, and the internal topics that are missing."""

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple


class Status(IntEnum):
    """What a heartbeat's response reports besides errors; the value is the code (Kafka: StreamsGroupHeartbeatResponse.Status)."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6


class InternalTopic(NamedTuple):
    """A changelog or repartition topic, which the coordinator creates for the application."""

    name: str
    partition_count: int
    replication_factor: int
    """0: the broker's default."""
    configs: Mapping[str, str]


class ConfiguredSubtopology(NamedTuple):
    """A subtopology whose number of tasks is known."""

    task_count: int
    source_topics: frozenset[str]
    repartition_sources: tuple[InternalTopic, ...]
    repartition_sinks: frozenset[str]
    changelogs: tuple[InternalTopic, ...]

    @property
    def is_stateful(self) -> bool:
        """Whether its tasks have state to restore."""
        return bool(self.changelogs)


class Problem(NamedTuple):
    """Why no tasks can be assigned."""

    status: Status
    detail: str


class ConfiguredTopology(NamedTuple):
    """A topology as the topics of one metadata snapshot let it be."""

    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    """By id, in order; None if source topics are missing or partitions do not fit."""
    missing: tuple[InternalTopic, ...]
    """Internal topics that do not exist yet."""
    problem: Problem | None
    metadata_hash: int
    snapshot: object
    """The metadata snapshot."""

    @property
    def ready(self) -> Mapping[str, ConfiguredSubtopology]:
        """The subtopologies, none while there is a problem."""
        return {} if self.problem is not None or self.subtopologies is None else self.subtopologies
