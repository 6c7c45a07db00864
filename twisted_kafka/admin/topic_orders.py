"""What clients order of topics, and what became of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from twisted_kafka.protocol.errors import ErrorCode, error_of
from twisted_kafka.protocol.types import NO_UUID

DEFAULT_COUNT = -1
"""A number of partitions or replicas that the broker's defaults supply."""


@dataclass(slots=True)
class NewTopic:
    """A topic to make; with ``assignments`` both numbers must be -1."""

    name: str
    num_partitions: int = DEFAULT_COUNT
    replication_factor: int = DEFAULT_COUNT
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(slots=True)
class NewPartitions:
    """A topic to grow to ``count`` partitions; ``assignments`` are those of the new ones, in order."""

    name: str
    count: int
    assignments: Sequence[Sequence[int]] | None = None


@dataclass(slots=True)
class TopicResult:
    """What became of one topic; the numbers are known when it is, or could be, made."""

    name: str
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    topic_id: bytes = NO_UUID
    num_partitions: int = -1
    replication_factor: int = -1
    configs: dict[str, str] = field(default_factory=dict)

    def refuse(self, error: BaseException) -> None:
        """Note the error."""
        self.error = error_of(error)
        self.message = str(error) or None
