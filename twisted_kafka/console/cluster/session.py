"""Questions to a Kafka cluster: routing to the right broker, and retries."""

import fnmatch
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol, Self, TypeVar

from twisted_kafka.console.cluster.problems import CommandError, NotNowError, TryAgainError, problem, unknown
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock

FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 1.0
"""The pause before a retry doubles from the first to the longest."""

_NULL_TOPICS: Final = 1
"""The first version of Metadata in which null means all topics."""
_WILD: Final = "*?["

_T = TypeVar("_T")


PartitionAnswer = tuple[TopicPartition, int, str | None, Any]
"""A partition, its error code and message, and its part of the response."""


class IBrokers(Protocol):
    """The brokers of one cluster: ``Connections`` to any Kafka, or ``InProcess`` this broker.

    Calls block, for one thread at a time. ``node`` is a broker's id, or None for any one. ``left_s`` limits a call. Calls raise
    TryAgainError if there is no answer, and CommandError if no answer can be expected.
    """

    @property
    def handled_ns(self) -> int:
        """The time that other threads of this process have spent on the questions."""

    def close(self) -> None:
        """Close all connections."""

    def know(self, brokers: Mapping[int, MetadataResponseBroker]) -> None:
        """Take the addresses of the cluster's brokers, by id."""

    def forget(self, node: int | None) -> None:
        """Drop the connection to a broker, which did not answer."""

    def version(self, kind: type[Message], node: int | None, left_s: float) -> int:
        """Return the version in which a broker is asked; -1 if it does not support this API."""

    def ask(self, request: Message, node: int | None, latest: int | None, left_s: float) -> Any:
        """Return a broker's response. ``latest`` limits the version."""

    def ask_each(self, requests: Mapping[int, Message], latest: int | None, left_s: float) -> dict[int, Any]:
        """Return each broker's response, or its CommandError. Brokers may work at the same time."""

    def derived(self, request: Message, convert: Callable[[Any], _T], left_s: float) -> _T:
        """Return ``convert`` of any broker's response."""

    def send(self, request: Message, node: int, latest: int | None, left_s: float) -> None:
        """Send a request that has no response."""


class Session:
    """Asks the brokers of one cluster, over connections or in process. It blocks, and belongs to one thread at a time."""

    def __init__(self, brokers: IBrokers, clock: IClock, timeout_s: float) -> None:
        """``timeout_s`` limits each operation with its retries."""
        self.patience_s = timeout_s
        """How long errors that may be gone soon are waited for, at most ``timeout_s``."""
        self._asked = brokers
        self._clock = clock
        self._timeout_s = timeout_s
        self._brokers: dict[int, MetadataResponseBroker] = {}
        self._controller_id = -1
        self._deadline_ns: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._asked.close()

    @property
    def handled_ns(self) -> int:
        """The time that other threads of this process have spent on its questions, in nanoseconds."""
        return self._asked.handled_ns

    @property
    def timeout_ms(self) -> int:
        """The time that a request gives a broker for its work."""
        return int(self._timeout_s * 1000)

    def wall_ms(self) -> int:
        """The time, in milliseconds since the epoch."""
        return self._clock.wall_ms()

    # Requests

    def retrying(self, step: Callable[[], _T]) -> _T:
        """Call ``step`` until it raises no TryAgainError. Raises NotNowError when the time is over."""
        now_ns = self._clock.monotonic_ns()
        self._deadline_ns = now_ns + int(self._timeout_s * 1e9)
        end_ns = now_ns + int(self.patience_s * 1e9)
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                return step()
            except TryAgainError as error:
                if self._clock.monotonic_ns() + pause_s * 1e9 > end_ns:
                    last = NotNowError(f"{error} (tried for {self.patience_s:g} s, see --timeout)")
                    last.code = error.code
                    raise last from None
                self._asked.forget(None)
                self.pause(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def pause(self, seconds: float) -> None:
        """Wait."""
        condition = machine.Condition()
        due_ns = self._clock.monotonic_ns() + int(seconds * 1e9)
        with condition:
            while self._clock.monotonic_ns() < due_ns:
                self._clock.wait_until(condition, due_ns)

    def ask(self, request: Message, node: int | None = None, *, latest: int | None = None) -> Any:
        """Ask a broker, any one if ``node`` is None; return its response. ``latest`` limits the version.

        Raises TryAgainError if there is no answer, CommandError if no answer can be expected.
        """
        return self._asked.ask(request, node, latest, self._left_s())

    def send(self, request: Message, node: int, *, latest: int | None = None) -> None:
        """Send a broker a request that has no response; raises like ``ask``."""
        self._asked.send(request, node, latest, self._left_s())

    def version(self, kind: type[Message], node: int | None = None) -> int:
        """Return the version in which a broker is asked; -1 if it does not support this API. Raises like ``ask``."""
        return self._asked.version(kind, node, self._left_s())

    def ask_controller(self, request: Message, *, latest: int | None = None) -> Any:
        """Ask the controller; raises like ``ask``. With KRaft any broker passes the request on."""
        self.metadata([])
        return self.ask(request, self._controller_id if self._controller_id in self._brokers else None, latest=latest)

    def ask_each(self, requests: Mapping[int, Message], *, latest: int | None = None) -> dict[int, Any]:
        """Ask brokers, at the same time if possible; return each one's response, or its CommandError."""
        return self._asked.ask_each(requests, latest, self._left_s())

    def ask_brokers(self, request: Message, silent: list[CommandError] | None = None) -> dict[int, Any]:
        """Ask the brokers of the last metadata; return the responses by broker id. Responses have an ``error_code``.

        ``silent`` gets the errors of brokers without one. Raises CommandError; with ``silent`` only if no broker answers.
        """
        left, found, errors = set(self._brokers), dict[int, Any](), dict[int, CommandError]()

        def step() -> None:
            again = None
            for node, answer in self.ask_each(dict.fromkeys(sorted(left), request)).items():
                error = answer if isinstance(answer, CommandError) else None
                if error is None and answer.error_code:
                    error = problem(f"broker {node}", answer.error_code)
                if isinstance(error, TryAgainError):
                    errors[node] = again = error
                    continue
                left.discard(node)
                if error is None:
                    found[node] = answer
                    errors.pop(node, None)
                else:
                    errors[node] = error
            if again is not None:
                raise again

        with suppress(NotNowError):
            self.retrying(step)
        if errors and (silent is None or not found):
            raise errors[min(errors)]
        if silent is not None:
            silent += (errors[node] for node in sorted(errors))
        return dict(sorted(found.items()))

    def ask_leaders(
        self,
        partitions: Iterable[TopicPartition],
        make: Callable[[Sequence[TopicPartition]], Message],
        answers: Callable[[Any], Iterable[PartitionAnswer]],
        *,
        latest: int | None = None,
        silent: list[CommandError] | None = None,
    ) -> dict[TopicPartition, Any]:
        """Ask the leaders of partitions; return each partition's part of a response. Raises CommandError for the first error.

        With ``silent`` it gets the errors of leaders that do not answer, and partitions without a leader; theirs are left out.
        """
        left, found = set(partitions), dict[TopicPartition, Any]()
        leaderless: set[TopicPartition] | None = None if silent is None else set()

        def step() -> None:
            again = None
            leaders = self.by_leader(left, leaderless)
            for leader, response in self.ask_each({each: make(mine) for each, mine in leaders.items()}, latest=latest).items():
                if isinstance(response, TryAgainError):
                    again = response
                    continue
                if isinstance(response, CommandError):
                    if silent is None or not isinstance(response, NotNowError):
                        raise response
                    silent.append(response)
                    left.difference_update(leaders[leader])
                    continue
                missing = set(leaders[leader])
                for partition, code, message, answer in answers(response):
                    if partition not in missing:
                        continue  # nobody asked for it
                    missing.discard(partition)
                    if code:
                        error = problem(named_partition(partition), code, message)
                        if not isinstance(error, TryAgainError):
                            raise error
                        again = error
                    else:
                        found[partition] = answer
                        left.discard(partition)
                if missing:
                    again = TryAgainError(f"broker {leader} did not answer for {named_partition(min(missing))}")
            if again is not None:
                raise again

        try:
            if left:
                self.retrying(step)
        except NotNowError as error:
            if silent is None:
                raise
            silent.append(error)
        if silent is not None and leaderless:
            silent.append(_without_leader(min(leaderless)))
        return found

    # The cluster

    @property
    def brokers(self) -> dict[int, MetadataResponseBroker]:
        """The brokers of the last metadata, by id."""
        return self._brokers

    @property
    def controller_id(self) -> int:
        """The controller of the last metadata, -1 without one."""
        return self._controller_id

    def metadata(self, topics: Sequence[str] | None) -> MetadataResponse:
        """Ask for the brokers and these topics, or all; creates none. Raises like ``ask``."""
        asked = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        response: MetadataResponse = self.ask(MetadataRequest(topics=asked, allow_auto_topic_creation=False))
        self._brokers = {broker.node_id: broker for broker in response.brokers}
        self._asked.know(self._brokers)
        self._controller_id = response.controller_id
        return response

    def derived(self, convert: Callable[[MetadataResponse], _T]) -> _T:
        """Return ``convert`` of the metadata of all topics; in process an earlier result, while it holds. Raises like ``ask``.

        The result is shared: callers must not change it. ``convert`` is a function of a module.
        """
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        return self.retrying(lambda: self._asked.derived(request, convert, self._left_s()))

    def topics(self, names: Sequence[str], *, with_internal: bool = True) -> list[MetadataResponseTopic]:
        """Return the topics with these names or patterns, all if there are no names, sorted.

        Raises CommandError for an unknown one.
        """
        if names and not any(set(name) & set(_WILD) for name in names):
            found = self.retrying(lambda: self._named(names))
        else:
            topics = self.retrying(lambda: self.metadata(None)).topics
            if not with_internal:
                topics = [topic for topic in topics if not topic.is_internal]
            if names:
                topics = _matching(topics, names)
            found = {str(topic.name): topic for topic in topics}
        return [found[name] for name in sorted(found)]

    def _named(self, names: Sequence[str]) -> dict[str, MetadataResponseTopic]:
        found = {}
        for topic in self.metadata(names).topics:
            name = str(topic.name)
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                known = [str(each.name) for each in self.metadata(None).topics]
                raise unknown("topic", name, known, "list the topics with twisted-kafka topics list")
            if topic.error_code and topic.error_code != ErrorCode.LEADER_NOT_AVAILABLE:
                raise problem(f"topic {name}", topic.error_code)
            found[name] = topic
        for name in names:
            if name not in found:
                raise TryAgainError(f"no broker said anything about topic {name}")
        return found

    def by_leader(
        self, partitions: Iterable[TopicPartition], leaderless: set[TopicPartition] | None = None
    ) -> dict[int, list[TopicPartition]]:
        """Return the partitions by leader, from fresh metadata. ``leaderless`` gets those without one.

        Raises TryAgainError if a partition has no leader and there is no ``leaderless``.
        """
        wanted = set(partitions)
        by_leader: dict[int, list[TopicPartition]] = {}
        for topic in self._named(sorted({each.topic for each in wanted})).values():
            for each in topic.partitions:
                partition = TopicPartition(str(topic.name), each.partition_index)
                if partition not in wanted:
                    continue
                wanted.discard(partition)
                if each.leader_id in self._brokers:
                    by_leader.setdefault(each.leader_id, []).append(partition)
                elif leaderless is None:
                    raise _without_leader(partition)
                else:
                    leaderless.add(partition)
        if wanted:
            first = min(wanted)
            raise CommandError(
                f"{first.topic} has no partition {first.partition}: twisted-kafka topics describe {first.topic} lists them"
            )
        return by_leader

    def _left_s(self) -> float:
        if self._deadline_ns is None:
            return self._timeout_s
        return max(1.0, (self._deadline_ns - self._clock.monotonic_ns()) / 1e9)


def named_partition(partition: TopicPartition) -> str:
    """Return the partition as messages name it."""
    return f"{partition.topic} partition {partition.partition}"


def _without_leader(partition: TopicPartition) -> CommandError:
    return problem(named_partition(partition), ErrorCode.LEADER_NOT_AVAILABLE)


def _matching(topics: Sequence[MetadataResponseTopic], names: Sequence[str]) -> list[MetadataResponseTopic]:
    found: dict[str, MetadataResponseTopic] = {}
    for name in names:
        matching = [topic for topic in topics if fnmatch.fnmatchcase(str(topic.name), name)]
        if not matching:
            raise unknown("topic", name, (str(topic.name) for topic in topics), "list the topics with twisted-kafka topics list")
        found |= {str(topic.name): topic for topic in matching}
    return list(found.values())
