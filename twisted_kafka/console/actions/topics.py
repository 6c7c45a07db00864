"""Creating, changing and deleting topics."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from twisted_kafka.console.actions.preview import Preview
from twisted_kafka.console.cluster.problems import problem
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.cluster.texts import counted, size_text
from twisted_kafka.console.queries.topics.topic import topic
from twisted_kafka.protocol.messages.administration.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)

DEFAULT: Final = -1
"""As a number of partitions or replicas: the broker's default."""

_BY_STATE: Final = 6
"""The first version of DeleteTopics with a struct for each topic."""
_KEYS_MOVE: Final = "records with a key may be in another partition than earlier records with this key"
_NO_FEWER: Final = "the number of partitions cannot be lowered later"


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """Creates a topic."""

    name: str
    partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    settings: tuple[tuple[str, str], ...] = ()

    def preview(self, session: Session) -> Preview:
        """Let the controller check it. Raises CommandError."""
        result = self._ask(session, validate_only=True)
        rows = [("partitions", str(result.num_partitions)), ("replication factor", str(result.replication_factor))]
        known = [] if result.num_partitions < 0 else rows
        return Preview(f"create topic {self.name}", ("", "value"), (*known, *self.settings))

    def do(self, session: Session) -> str:
        """Create it; return a sentence. Raises CommandError."""
        result = self._ask(session, validate_only=False)
        shape = f" with {counted(result.num_partitions, 'partition')}" if result.num_partitions >= 0 else ""
        return f"topic {self.name} was created{shape}"

    def _ask(self, session: Session, *, validate_only: bool) -> Any:
        configs = [CreatableTopicConfig(name=key, value=value) for key, value in self.settings]
        asked = CreatableTopic(
            name=self.name, num_partitions=self.partitions, replication_factor=self.replication_factor, configs=configs
        )
        request = CreateTopicsRequest(topics=[asked], timeout_ms=session.timeout_ms, validate_only=validate_only)

        def step() -> Any:
            (result,) = session.ask_controller(request).topics
            if result.error_code:
                raise problem(f"topic {self.name}", result.error_code, result.error_message)
            return result

        return session.retrying(step)


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Gives a topic more partitions."""

    name: str
    count: int
    """The new number of partitions."""

    def preview(self, session: Session) -> Preview:
        """Let the controller check it. Raises CommandError."""
        (found,) = session.topics([self.name])
        self._ask(session, validate_only=True)
        rows = (("partitions", str(len(found.partitions)), str(self.count)),)
        summary = f"give topic {self.name} {counted(self.count, 'partition')} instead of {len(found.partitions)}"
        return Preview(summary, ("", "now", "then"), rows, (_KEYS_MOVE, _NO_FEWER))

    def do(self, session: Session) -> str:
        """Add them; return a sentence. Raises CommandError."""
        self._ask(session, validate_only=False)
        return f"topic {self.name} has {counted(self.count, 'partition')}"

    def _ask(self, session: Session, *, validate_only: bool) -> None:
        topics = [CreatePartitionsTopic(name=self.name, count=self.count, assignments=None)]
        request = CreatePartitionsRequest(topics=topics, timeout_ms=session.timeout_ms, validate_only=validate_only)

        def step() -> None:
            (result,) = session.ask_controller(request).results
            if result.error_code:
                raise problem(f"topic {self.name}", result.error_code, result.error_message)

        session.retrying(step)


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """Deletes a topic with its records."""

    name: str

    def preview(self, session: Session) -> Preview:
        """Return the topic's size and readers. Raises CommandError."""
        found = topic(session, self.name)
        records = 0 if found.records is None else found.records
        size = "" if found.size_bytes is None else f" ({size_text(found.size_bytes)})"
        warnings = [f"group {each.group_id} has committed offsets of it" for each in found.groups]
        if found.shape.is_internal:
            warnings.insert(0, f"{self.name} is internal: brokers need it")
        return Preview(
            f"delete topic {self.name} with {counted(found.shape.partitions, 'partition')} and {counted(records, 'record')}{size}",
            warnings=(*warnings, "the records cannot be restored"),
        )

    def do(self, session: Session) -> str:
        """Delete it; return a sentence. Raises CommandError."""

        def step() -> None:
            (result,) = session.ask_controller(deletion(session, [self.name])).responses
            if result.error_code:
                raise problem(f"topic {self.name}", result.error_code, result.error_message)

        session.retrying(step)
        return f"topic {self.name} was deleted"


def deletion(session: Session, names: Sequence[str]) -> DeleteTopicsRequest:
    """Return the request that deletes these topics, in the form that the broker knows."""
    if session.version(DeleteTopicsRequest) >= _BY_STATE:
        return DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names], timeout_ms=session.timeout_ms)
    return DeleteTopicsRequest(topic_names=list(names), timeout_ms=session.timeout_ms)
