"""Ask a broker one request after another and note its answers in a form that two brokers' answers can be compared in."""

import re
import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from twisted_kafka.protocol.api import request_class, response_class
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.compiler.schema import Struct
from twisted_kafka.protocol.compiler.types import NO_UUID
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.headers import request_header_version, response_header_version
from twisted_kafka.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from twisted_kafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from twisted_kafka.protocol.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from twisted_kafka.protocol.records.batch import batches

TIMEOUT_S = 40
CLOSED = "connection closed"

CHANGING = {
    "host": lambda value: "<host>" if value else value,
    "port": lambda value: "<port>" if value > 0 else value,
    "cluster_id": lambda value: "<cluster>" if value else value,
    "topic_id": lambda value: "<none>" if value == NO_UUID else "<id>",
    "session_id": lambda value: "<session>" if value else 0,
    "producer_id": lambda value: "<producer>" if value >= 0 else value,
    "transaction_start_time_ms": lambda value: "<now>" if value > 0 else value,
    "log_append_time_ms": lambda value: "<now>" if value > 0 else value,
    "member_id": lambda value: "<member>" if value else value,
    "leader": lambda value: ("<member>" if value else value) if isinstance(value, str) else value,
    "documentation": lambda value: "<text>" if value else value,
}
"""Fields whose values differ between any two brokers, by what is compared instead."""

TERMS = (
    "already exists",
    "do(es)? not exist",
    "not found",
    "replication factor",
    "not authorized",
    "illegal",
    "invalid|not (a )?valid",
    "unknown",
    "larger than",
    "higher than",
    "duplicate",
    "collides",
    "not allowed",
    "not supported",
    "must be",
    "in progress",
    "not alive",
    "not available",
    "not enabled|disabled",
    "not the",
    "authorization failed",
    "timed out",
    "does not host",
    "in-sync replicas",
    "out of (order|range)",
    "empty",
    "null",
)
"""What people and programs search for in the messages of errors, as regular expressions: one in Kafka's message must be in ours."""


class ErrorText(NamedTuple):
    """The message of an error. The sentences are each broker's own, the terms are Kafka's."""

    text: str
    has_failed: bool
    """Whether there is an error; without one some fields have a text too."""

    def terms(self) -> set[str]:
        """Return the terms in it."""
        return {term for term in TERMS if re.search(term, self.text, re.IGNORECASE)}


UNORDERED = {
    ("MetadataResponseTopic", "partitions"): "partition_index",
    ("ProduceResponse", "responses"): "name",
    ("FetchableTopicResponse", "partitions"): "partition_index",
    ("TopicProduceResponse", "partition_responses"): "index",
    ("CreateTopicsResponse", "topics"): "name",
    ("CreatePartitionsResponse", "results"): "name",
    ("DeleteTopicsResponse", "responses"): "name",
    ("ListGroupsResponse", "groups"): "group_id",
    ("DescribedGroup", "members"): "member_assignment",
    ("ReplicaElectionResult", "partition_result"): "partition_id",
    ("ElectLeadersResponse", "replica_election_results"): "topic",
    ("OffsetDeleteResponseTopic", "partitions"): "partition_index",
    ("JoinGroupResponse", "members"): "metadata",
    ("OffsetFetchResponse", "topics"): "name",
    ("AlterClientQuotasResponseEntryData", "entity"): "entity_type",
    ("DescribeClientQuotasResponseEntryData", "entity"): "entity_type",
    ("DescribeClientQuotasResponseEntryData", "values"): "key",
    ("OffsetFetchResponseGroup", "topics"): "name",
    ("OffsetCommitResponseTopic", "partitions"): "partition_index",
    ("TxnOffsetCommitResponse", "topics"): "name",
    ("TxnOffsetCommitResponseTopic", "partitions"): "partition_index",
    ("WritableTxnMarkerResult", "topics"): "name",
    ("WritableTxnMarkerTopicResult", "partitions"): "partition_index",
    ("WriteTxnMarkersResponse", "markers"): "producer_id",
    ("ConsumerGroupDescribeResponse", "groups"): "group_id",
    ("AddPartitionsToTxnResponse", "results_by_topic_v3_and_below"): "name",
    ("AddPartitionsToTxnResponse", "results_by_transaction"): "transactional_id",
    ("AddPartitionsToTxnResult", "topic_results"): "name",
    ("AddPartitionsToTxnTopicResult", "results_by_partition"): "partition_index",
    ("DescribeTransactionsResponse", "transaction_states"): "transactional_id",
    ("AlterUserScramCredentialsResponse", "results"): "user",
    ("DescribeUserScramCredentialsResponse", "results"): "user",
    ("DescribeUserScramCredentialsResult", "credential_infos"): "mechanism",
}
"""Lists that Apache Kafka fills from a hash table, by what they are sorted by before they are compared."""

BY_NAME = {("CreatableTopicResult", "configs"), ("DescribeConfigsResult", "configs")}
"""Such lists whose items have names: compared name by name."""


def plain(value: Any, name: str = "") -> Any:
    """Return a message as dictionaries, lists and scalars, with what changes made equal."""
    if name == "records" and value is not None:
        return [_plain_batch(batch) for batch in batches(value)]
    if name in CHANGING:
        return CHANGING[name](value)  # type: ignore[no-untyped-call]
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, Struct):
        return _plain_struct(value)
    return value


def _sorted(values: list[Any], order: str) -> list[Any]:
    present = [each for each in values if getattr(each, order, None) is not None]
    absent = [each for each in values if getattr(each, order, None) is None]
    return absent + sorted(present, key=lambda each: getattr(each, order))


def _plain_struct(struct: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    has_failed = bool(getattr(struct, "error_code", True))
    for field in struct.FIELDS:
        name = field.name
        value = getattr(struct, name)
        order = UNORDERED.get((type(struct).__name__, name))
        if order is not None and value:
            value = _sorted(value, order)
        if (type(struct).__name__, name) in BY_NAME and value:
            fields[name] = {each.name: plain(each) for each in value}
        elif name in ("error_message", "batch_index_error_message"):
            fields[name] = ErrorText(value or "", has_failed)
        elif name != "throttle_time_ms":
            fields[name] = plain(value, name)
    return fields


def _plain_batch(batch: Any) -> Any:
    return {
        "magic": batch.magic,
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "compression": int(batch.compression),
        "records": [
            (record.offset, record.timestamp_ms, record.key, record.value, list(record.headers)) for record in batch.records()
        ],
    }


def differences(expected: Any, found: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield where two plain values differ, as (path, expected, found)."""
    if isinstance(expected, ErrorText) and isinstance(found, ErrorText):
        if not expected.has_failed and bool(expected.text) != bool(found.text):
            yield path, expected.text, found.text
        # Kafka often says nothing of an error.
        missing = expected.terms() - found.terms()
        if missing:
            yield f"{path} without {', '.join(sorted(missing))}", expected.text, found.text
    elif isinstance(expected, dict) and isinstance(found, dict):
        for name in expected.keys() | found.keys():
            yield from differences(expected.get(name, "<absent>"), found.get(name, "<absent>"), f"{path}.{name}")
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for at, (one, other) in enumerate(zip(expected, found, strict=True)):
            yield from differences(one, other, f"{path}[{at}]")
    elif expected != found:
        yield path, expected, found


class Talk:
    """One scenario's conversation with one broker; `answers` has what it said."""

    def __init__(self, port: int, name: str, client_id: bytes = b"oracle") -> None:
        self._port = port
        self._client_id = client_id
        self._name = name
        self._connection: socket.socket | None = None
        self._others: list[Talk] = []
        self.answers: list[tuple[str, Any]] = []

    def another(self, client_id: bytes | None = None) -> "Talk":
        """Return a further connection of the same conversation, perhaps of another client."""
        other = Talk(self._port, self._name, client_id or self._client_id)
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
            answer = response_class(key).decode(frame, version if answer_version is None else answer_version, offset)
        if note:
            self.answers.append((f"{cls.__name__} v{version}", CLOSED if answer is None else plain(answer)))
        return answer

    def send(self, request: Message, version: int) -> None:
        """Send a request that has no answer, or whose answer is to be received later."""
        frame = self._header(request.KEY, version) + request.encode(version)
        self._connect().sendall(struct.pack(">i", len(frame)) + frame)

    def receive(self, cls: type[Message], version: int, *, note: bool = True) -> Any:
        """Note and return the answer to a request that was sent."""
        try:
            frame: bytes | None = self._read(struct.unpack(">i", self._read(4))[0])
        except ConnectionError:
            self.close()
            frame = None
        return self._noted(cls, version, frame, note)

    def exchange(self, frame: bytes) -> bytes | None:
        """Send a frame and return the answer's, or None when the connection was closed."""
        connection = self._connect()
        try:
            connection.sendall(struct.pack(">i", len(frame)) + frame)
            size = struct.unpack(">i", self._read(4))[0]
            return self._read(size)
        except ConnectionError:
            self.close()
            return None

    def close(self) -> None:
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
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            answer = self.ask(CreateTopicsRequest(topics=[made], timeout_ms=30_000), 4, note=False).topics[0]
            if not answer.error_code:
                return topic
            # Apache Kafka goes on deleting a topic for a while after it has answered the deletion.
            assert answer.error_code == ErrorCode.TOPIC_ALREADY_EXISTS, answer
            assert time.monotonic() < deadline, answer
            time.sleep(0.02)

    def known(self, topic: str) -> None:
        """Wait until the broker knows and leads a topic that was created: with KRaft it hears later of it than is answered."""
        deadline = time.monotonic() + TIMEOUT_S
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        while self.ask(request, 8, note=False).topics[0].error_code:
            assert time.monotonic() < deadline, f"{topic} is not known"
            time.sleep(0.02)
        end = ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(timestamp=-1)])])
        while self.ask(end, 5, note=False).topics[0].partitions[0].error_code:
            assert time.monotonic() < deadline, f"{topic} is not led"
            time.sleep(0.02)

    def topic_id(self, topic: str) -> bytes:
        answer = self.ask(
            MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False), 12, note=False
        )
        topic_id: bytes = answer.topics[0].topic_id
        return topic_id

    def _connect(self) -> socket.socket:
        if self._connection is None:
            self._connection = socket.create_connection(("127.0.0.1", self._port), TIMEOUT_S)
        return self._connection

    def _read(self, count: int) -> bytes:
        assert self._connection is not None
        data = b""
        while len(data) < count:
            chunk = self._connection.recv(count - len(data))
            if not chunk:
                raise ConnectionResetError("closed")
            data += chunk
        return data


@dataclass(frozen=True)
class Scenario:
    """What is said to a broker for one version of one API."""

    name: str
    request: type[Message]
    run: Callable[[Talk, int], None]
    versions: tuple[int, int]


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


def said(scenario: Scenario, version: int, port: int) -> list[tuple[str, Any]]:
    """Return the answers of a broker in a scenario."""
    talk = Talk(port, f"{scenario.name}.{version}")
    try:
        scenario.run(talk, version)
    finally:
        talk.close()
    return talk.answers


def known(key: int) -> bool:
    try:
        request_class(key)
    except ValueError:
        return False
    return True
