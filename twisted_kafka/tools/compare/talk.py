"""Ask a broker one request after another and note its answers in a form that two brokers' answers can be compared in."""

import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from twisted_kafka.protocol.api import response_class
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.errors import ErrorCode, KafkaError
from twisted_kafka.protocol.headers import request_header_version, response_header_version
from twisted_kafka.protocol.messages.administration.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from twisted_kafka.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from twisted_kafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from twisted_kafka.tools.compare.answers import plain
from twisted_kafka.tools.compare.waits import now_s, pause

TIMEOUT_S: Final = 40
"""How long a scenario waits for an answer; some of them wait for a group's session to end."""
CLOSED: Final = "connection closed"
MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
LOCAL: Final = "127.0.0.1"
_PAUSE_S: Final = 0.02

T = TypeVar("T")


class StoppedError(Exception):
    """A broker does not go on with a scenario: it gives no answer in time, or one that cannot be read."""


class Talk:
    """One scenario's conversation with one broker; `answers` has its answers."""

    def __init__(
        self, port: int, name: str, client_id: bytes = b"oracle", *, host: str = LOCAL, timeout_s: float = TIMEOUT_S
    ) -> None:
        """``name`` begins the names of topics, groups and so on that the scenario makes."""
        self._address = (host, port)
        self._timeout_s = timeout_s
        self._client_id = client_id
        self._name = name
        self._connection: socket.socket | None = None
        self._others: list[Talk] = []
        self.answers: list[tuple[str, Any]] = []

    def another(self, client_id: bytes | None = None) -> "Talk":
        """Return a further connection of the same conversation, perhaps of another client."""
        host, port = self._address
        other = Talk(port, self._name, client_id or self._client_id, host=host, timeout_s=self._timeout_s)
        other.answers = self.answers
        self._others.append(other)
        return other

    def topic(self, name: str) -> str:
        """Return a name that no other scenario or version uses."""
        return f"{self._name}.{name}"

    def ask(self, request: Message, version: int, *, note: bool = True) -> Any:
        """Send a request, note and return the answer; None when the broker closed the connection instead."""
        return self.ask_bytes(type(request), version, request.encode(version), note=note)

    def ask_bytes(
        self, cls: type[Message], version: int, body: bytes, *, note: bool = True, answer_version: int | None = None
    ) -> Any:
        """Send these bytes as the body of a request."""
        return self._noted(cls, version, self.exchange(self._header(cls.KEY, version) + body), note, answer_version)

    def _header(self, key: int, version: int) -> bytes:
        start = struct.pack(">hhih", key, version, 7, len(self._client_id)) + self._client_id
        return start + (b"\0" if request_header_version(key, version) == 2 else b"")

    def _noted(self, cls: type[Message], version: int, frame: bytes | None, note: bool, answer_version: int | None = None) -> Any:
        key = cls.KEY
        answer: Any = None
        if frame is not None:
            offset = 5 if response_header_version(key, version) == 1 else 4
            try:
                answer = response_class(key).decode(frame, version if answer_version is None else answer_version, offset)
            except (ValueError, KafkaError) as error:
                raise StoppedError(f"the answer to {cls.__name__} v{version} cannot be decoded: {error}") from error
        if note:
            self.answers.append((f"{cls.__name__} v{version}", CLOSED if answer is None else plain(answer)))
        return answer

    def send(self, request: Message, version: int) -> None:
        """Send a request without receiving an answer: it has none, or the caller receives it later."""
        frame = self._header(request.KEY, version) + request.encode(version)
        self._connect().sendall(struct.pack(">i", len(frame)) + frame)

    def receive(self, cls: type[Message], version: int, *, note: bool = True) -> Any:
        """Note and return the answer to a request that was sent."""
        try:
            frame: bytes | None = self._read_frame()
        except ConnectionError:
            self.close()
            frame = None
        return self._noted(cls, version, frame, note)

    def exchange(self, frame: bytes) -> bytes | None:
        """Send a frame and return the answer's, or None when the connection was closed."""
        connection = self._connect()
        try:
            connection.sendall(struct.pack(">i", len(frame)) + frame)
            return self._read_frame()
        except ConnectionError:
            self.close()
            return None

    def close(self) -> None:
        """Close all connections of the conversation."""
        for other in self._others:
            other.close()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def create(self, name: str, partitions: int = 1, **configs: str) -> str:
        """Create a topic (not noted) and return its name."""
        topic = self.topic(name)
        settings = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
        made = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1, configs=settings)
        deadline = now_s() + self._timeout_s
        while True:
            answers = self.ask(CreateTopicsRequest(topics=[made], timeout_ms=30_000), 4, note=False)
            if answers is None:
                raise StoppedError("the connection was closed at CreateTopics v4")
            answer = answers.topics[0]
            if not answer.error_code:
                return topic
            # Apache Kafka goes on deleting a topic for a while after it has answered the deletion.
            if answer.error_code != ErrorCode.TOPIC_ALREADY_EXISTS or now_s() > deadline:
                raise StoppedError(f"topic {topic} cannot be created: {ErrorCode(answer.error_code).name}")
            pause(_PAUSE_S)

    def known(self, topic: str) -> None:
        """Wait until the broker leads all partitions of a topic that was created: with KRaft it hears of it after the answer."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)

        def told() -> Any:
            found = self.ask(request, 8, note=False).topics[0]
            return found if not found.error_code else None

        indexes = [each.partition_index for each in self.until(told, f"{topic} is not known").partitions]
        asked = [ListOffsetsPartition(partition_index=each, timestamp=-1) for each in indexes]
        ends = ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=asked)])

        def is_led() -> bool:
            return not any(each.error_code for each in self.ask(ends, 5, note=False).topics[0].partitions)

        self.until(is_led, f"{topic} has no leader")

    def until(self, look: Callable[[], T | None], why_not: str) -> T:
        """Look until there is something, which is returned. Raises StoppedError with ``why_not`` after the timeout."""
        deadline = now_s() + self._timeout_s
        while not (found := look()):
            if now_s() > deadline:
                raise StoppedError(why_not)
            pause(_PAUSE_S)
        return found

    def topic_id(self, topic: str) -> bytes:
        """Return the topic's id."""
        answer = self.ask(
            MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False), 12, note=False
        )
        topic_id: bytes = answer.topics[0].topic_id
        return topic_id

    def _connect(self) -> socket.socket:
        if self._connection is None:
            self._connection = socket.create_connection(self._address, self._timeout_s)
        return self._connection

    def _read_frame(self) -> bytes:
        size = int.from_bytes(self._read(4), "big", signed=True)
        if not 0 <= size <= MAX_ANSWER_BYTES:
            raise StoppedError(f"an answer claims {size} bytes")
        return self._read(size)

    def _read(self, count: int) -> bytes:
        assert self._connection is not None
        data = bytearray()
        while len(data) < count:
            try:
                chunk = self._connection.recv(count - len(data))
            except TimeoutError:
                raise StoppedError(f"no answer in {self._timeout_s:g} s") from None
            if not chunk:
                raise ConnectionResetError("closed")
            data += chunk
        return bytes(data)


@dataclass(frozen=True)
class Scenario:
    """What is said to a broker for one version of one API."""

    name: str
    request: type[Message]
    run: Callable[[Talk, int], None]
    versions: tuple[int, int]

    @property
    def api(self) -> str:
        """The API's name, such as ``Fetch``."""
        return self.request.__name__.removesuffix("Request")


SCENARIOS: list[Scenario] = []
SCENARIOS_OF_KAFKA_4: list[Scenario] = []
"""Scenarios of versions that Apache Kafka 3.9 does not have."""


def scenario(
    request: type[Message], since: int = 0, until: int = 99, *, registry: list[Scenario] = SCENARIOS
) -> Callable[[Callable[[Talk, int], None]], Callable[[Talk, int], None]]:
    """Add a function to ``registry`` as a scenario for each version of ``request`` from ``since`` to ``until``."""

    def register(run: Callable[[Talk, int], None]) -> Callable[[Talk, int], None]:
        registry.append(Scenario(run.__name__, request, run, (since, until)))
        return run

    return register
