"""End offsets: of partitions that this broker leads, that another one leads, and that nobody leads."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from tests.support.fake import Fake
from twisted_kafka.group_coordinator.shared.end_offsets import EndOffset, EndOffsets
from twisted_kafka.metadata.cache import Node
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.errors import ErrorCode, NotLeaderOrFollowerError
from twisted_kafka.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.waiting.futures import completed

OTHER = Node(2, "kafka-2", 9092, None)
LED, LOST, EMPTY, ELSEWHERE, FORGOTTEN, NOBODYS = (TopicPartition("t", index) for index in range(6))


class Replicas(Fake):
    """Broker 1, which leads three partitions, and knows of two that broker 2 leads."""

    def __init__(self) -> None:
        leaders = {LED: 1, LOST: 1, EMPTY: 1, ELSEWHERE: 2, FORGOTTEN: 2}
        states = {partition: SimpleNamespace(leader=leader) for partition, leader in leaders.items()}
        self.metadata = SimpleNamespace(broker_id=1, partition=states.get, node=lambda node_id, _: {2: OTHER}.get(node_id))
        self.offsets = self

    def list_offset(self, partition: TopicPartition, *_: object) -> object:
        if partition == LOST:
            raise NotLeaderOrFollowerError
        return SimpleNamespace(offset=7) if partition == LED else None


class Brokers(Fake):
    """Gives one answer to each request."""

    def __init__(self, answer: "Future[Any]") -> None:
        self.answer = answer
        self.sent: list[tuple[Node, Message]] = []

    def send(self, node: Node, request: Message) -> "Future[Any]":
        self.sent.append((node, request))
        return self.answer


def test_each_partition_has_an_offset_or_an_error() -> None:
    partition = ListOffsetsPartitionResponse(partition_index=ELSEWHERE.partition, error_code=0, offset=9)
    brokers = Brokers(completed(ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[partition])])))
    found = EndOffsets(Replicas(), brokers, "PLAINTEXT").find([LED, LOST, EMPTY, ELSEWHERE, FORGOTTEN, NOBODYS]).result(0)
    assert found == {
        LED: EndOffset(7),
        LOST: EndOffset(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        EMPTY: EndOffset(-1, ErrorCode.UNKNOWN_SERVER_ERROR),
        ELSEWHERE: EndOffset(9),
        FORGOTTEN: EndOffset(-1, ErrorCode.UNKNOWN_SERVER_ERROR),
        NOBODYS: EndOffset(-1, ErrorCode.LEADER_NOT_AVAILABLE),
    }
    ((node, request),) = brokers.sent
    assert node == OTHER
    assert [each.partition_index for topic in request.topics for each in topic.partitions] == [3, 4]  # type: ignore[attr-defined]


def test_a_leader_that_does_not_answer_is_an_error() -> None:
    lost: Future[Any] = Future()
    lost.set_exception(NotLeaderOrFollowerError())
    found = EndOffsets(Replicas(), Brokers(lost), "PLAINTEXT").find([ELSEWHERE]).result(0)
    assert found == {ELSEWHERE: EndOffset(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)}
