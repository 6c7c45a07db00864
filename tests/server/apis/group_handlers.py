"""The group families over a coordinator in memory: requests and responses go through their bytes in the version asked for."""

from concurrent.futures import Future
from typing import Any

from tests.support.coordinator_fakes import Bench
from tests.support.replication_harness import topic_id
from twisted_kafka.group_coordinator.offsets.legacy_offsets import LegacyOffsets
from twisted_kafka.metadata.cache import Node
from twisted_kafka.metadata.embedded import SqliteStore
from twisted_kafka.network.requests.kafka_principal import ANONYMOUS, KafkaPrincipal
from twisted_kafka.network.requests.request_context import ConnectionInfo, RequestContext
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.compiler.types import NO_UUID
from twisted_kafka.protocol.messages.coordinators.groups import HeartbeatRequest
from twisted_kafka.protocol.messages.coordinators.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.server.apis.groups.classic_groups import GroupApis
from twisted_kafka.server.apis.groups.group_offsets import GroupOffsetApis
from twisted_kafka.server.authorization import ALLOW_ALL
from twisted_kafka.server.dispatch import ApiRegistry


class FakeMetadata:
    """Topics with a number of partitions each, led by broker 1."""

    def __init__(self, **topics: Any) -> None:
        self.topics = topics

    def contains(self, topic: str) -> bool:
        return topic in self.topics

    def topic_id(self, topic: str) -> bytes:
        return topic_id(topic) if topic in self.topics else NO_UUID

    def topic_name(self, topic_id: bytes) -> str | None:
        return next((topic for topic in self.topics if self.topic_id(topic) == topic_id), None)

    def partition(self, key: TopicPartition) -> "FakeMetadata | None":
        topic, index = key
        return self if 0 <= index < self.topics.get(topic, 0) else None

    leader = 1

    def node(self, broker_id: int, listener_name: str) -> Node | None:
        return Node(broker_id, "broker.example", 9092, None) if listener_name == "PLAINTEXT" and broker_id == 1 else None


def ask(
    family: Any,
    request: Message,
    version: int,
    client_id: str = "client",
    listener: str = "PLAINTEXT",
    principal: KafkaPrincipal = ANONYMOUS,
) -> Any:
    """Return the response, or a future of it, and the context. The listener is named as its security protocol."""
    api = ApiRegistry([family]).apis[type(request).KEY]
    assert api.serves(version), f"{api.name} v{version}"
    decoded = type(request).decode(request.encode(version), version)
    context = RequestContext(api.key, version, 1, client_id, ConnectionInfo("c", listener, listener, "10.0.0.1"))
    context.connection.principal = principal

    def through_bytes(response: Any) -> Any:
        return type(response).decode(response.encode(version), version)

    result = api.handler(context, decoded)
    if isinstance(result, Future):
        answer: Future[Any] = Future()
        result.add_done_callback(lambda done: answer.set_result(through_bytes(done.result())))
        return answer, context
    return through_bytes(result), context


class Handlers:
    """The two families and short ways to ask them."""

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("initial_rebalance_delay_ms", 0)
        authorization = settings.pop("authorization", ALLOW_ALL)
        self.bench = Bench(**settings)
        self.metadata = FakeMetadata(orders=4)
        self.groups = GroupApis(self.bench.groups, authorization)
        self.store = SqliteStore(":memory:", threaded=False)
        legacy = LegacyOffsets(self.store)
        metadata: Any = self.metadata
        self.offsets = GroupOffsetApis(self.bench.groups, metadata, self.bench.clock, legacy, authorization)

    def ask(self, request: Message, version: int, **options: Any) -> Any:
        family = self.offsets if type(request).__name__.startswith("Offset") else self.groups
        return ask(family, request, version, **options)[0]

    def context_of(self, request: HeartbeatRequest, version: int) -> RequestContext:
        family = self.offsets if type(request).__name__.startswith("Offset") else self.groups
        return ask(family, request, version)[1]


def commit_request(offsets: Any, topic: str = "orders", metadata: str = "", **fields: Any) -> Any:
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata=metadata)
        for index, offset in offsets.items()
    ]
    fields.setdefault("group_id", "g")
    return OffsetCommitRequest(
        topics=[OffsetCommitRequestTopic(name=topic, topic_id=topic_id(topic), partitions=partitions)], **fields
    )


def codes(response: Any) -> Any:
    return {partition.partition_index: partition.error_code for topic in response.topics for partition in topic.partitions}
