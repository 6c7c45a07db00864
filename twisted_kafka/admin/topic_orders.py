"""The topic changes that clients request, their results, and the line of the broker's log about them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from twisted.logger import Logger

from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.compiler.types import NO_UUID
from twisted_kafka.protocol.errors import ErrorCode, error_of

_log = Logger()

MOST_NAMES: Final = 20
"""Most topics that a line of the log names; one request may change thousands."""
_MOST_CHARACTERS: Final = 256

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
    """A request to increase a topic's partitions to ``count``; ``assignments`` has the replicas of each new partition."""

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


def log_topic_change(context: RequestContext, what: str, topics: Iterable[str]) -> None:
    """Log one line about the changed topics of a request, if there are any. ``what`` is a verb in the past tense.

    The log escapes what would forge a line (``PrintableEvents``).
    """
    names = list(topics)
    if not names:
        return
    shown, more = ", ".join(names[:MOST_NAMES]), len(names) - MOST_NAMES
    client = (context.client_id or "")[:_MOST_CHARACTERS]
    _log.info(
        "{what} {topics} for {principal}, {client} at {address}",
        what=what,
        topics=f"topic {shown}" if len(names) == 1 else f"topics {shown}" + (f" and {more} more" if more > 0 else ""),
        principal=str(context.principal)[:_MOST_CHARACTERS],
        client=f"client {client}" if client else "a client without a name",
        address=context.client_address,
    )
