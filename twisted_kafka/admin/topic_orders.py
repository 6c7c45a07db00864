"""The topic changes that clients request, and their results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from twisted_kafka.protocol.compiler.types import NO_UUID
from twisted_kafka.protocol.errors import ErrorCode, error_of

DEFAULT_COUNT = -1
"""Stands for the broker's default number of partitions or replicas."""


@dataclass(slots=True)
class NewTopic:
    """A topic to create; with ``assignments`` both numbers must be -1."""

    name: str
    num_partitions: int = DEFAULT_COUNT
    replication_factor: int = DEFAULT_COUNT
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(slots=True)
class NewPartitions:
    """A topic whose partitions are to be increased to ``count``; ``assignments`` are those of the new ones, in order."""

    name: str
    count: int
    assignments: Sequence[Sequence[int]] | None = None


@dataclass(slots=True)
class TopicResult:
    """The result for one topic; the numbers are set if it was created, or could be."""

    name: str
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    topic_id: bytes = NO_UUID
    num_partitions: int = -1
    replication_factor: int = -1
    configs: dict[str, str] = field(default_factory=dict)

    def refuse(self, error: BaseException) -> None:
        """Set the error."""
        self.error = error_of(error)
        self.message = str(error) or None
