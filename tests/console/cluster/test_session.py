"""Answers of brokers that leave something out."""

import threading
from collections.abc import Mapping
from typing import Any

import pytest
from typing_extensions import override

from tests.support.fake import Fake
from twisted_kafka.console.cluster.coordinators import GROUP, ask_coordinators, coordinator_of
from twisted_kafka.console.cluster.offsets import LATEST, offsets_at
from twisted_kafka.console.cluster.problems import NotNowError, TryAgainError
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.messages.coordinators.groups import (
    Coordinator,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from twisted_kafka.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from twisted_kafka.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.timing.clock import ManualClock

PARTITIONS = [TopicPartition("t", index) for index in range(3)]


class PassingClock(ManualClock):
    @override
    def wait_until(self, condition: threading.Condition, due_ns: int) -> None:
        self.advance_ms((due_ns - self.monotonic_ns()) / 1e6)


class Broker(Fake):
    """Leads all partitions, and answers for some of those that it is asked for."""

    def __init__(self, answered: int, topics: int = 1) -> None:
        self._answered = answered
        self._topics = topics
        self.asked: list[list[int]] = []

    def know(self, brokers: Mapping[int, MetadataResponseBroker]) -> None: ...

    def forget(self, node: int | None) -> None: ...

    def ask(self, request: Message, node: int | None, latest: int | None, left_s: float) -> MetadataResponse:
        topic = MetadataResponseTopic(
            name="t", partitions=[MetadataResponsePartition(partition_index=each.partition, leader_id=1) for each in PARTITIONS]
        )
        return MetadataResponse(brokers=[MetadataResponseBroker(node_id=1)], controller_id=1, topics=[topic] * self._topics)

    def ask_each(self, requests: Mapping[int, Any], latest: int | None, left_s: float) -> dict[int, Any]:
        request: ListOffsetsRequest = requests[1]
        indexes = [each.partition_index for topic in request.topics for each in topic.partitions]
        self.asked.append(indexes)
        answers = [ListOffsetsPartitionResponse(partition_index=index, offset=7) for index in [99, *indexes[: self._answered]]]
        return {1: ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=answers)])}


def test_partitions_that_an_answer_lacks_are_asked_for_again() -> None:
    broker = Broker(answered=2)
    assert offsets_at(Session(broker, PassingClock(), 5), PARTITIONS, LATEST) == dict.fromkeys(PARTITIONS, 7)
    assert broker.asked == [[0, 1, 2], [2]]


def test_partitions_that_no_answer_has_are_an_error() -> None:
    with pytest.raises(NotNowError, match="broker 1 did not answer for t partition 0"):
        offsets_at(Session(Broker(answered=0), PassingClock(), 5), PARTITIONS, LATEST)


def test_a_topic_that_an_answer_lacks_is_an_error() -> None:
    with pytest.raises(NotNowError, match="topic t"):
        Session(Broker(answered=0, topics=0), PassingClock(), 5).topics(["t"])


class WithoutCoordinators(Broker):
    """Knows no coordinators, or one that does not answer for every group."""

    def __init__(self, coordinators: int) -> None:
        super().__init__(answered=0)
        self._coordinators = coordinators

    def version(self, kind: type[Message], node: int | None, left_s: float) -> int:
        return kind.VERSIONS[1]

    @override
    def ask(self, request: Message, node: int | None, latest: int | None, left_s: float) -> Any:
        if isinstance(request, FindCoordinatorRequest):
            found = [Coordinator(key=key, node_id=1) for key in request.coordinator_keys[: self._coordinators]]
            return FindCoordinatorResponse(coordinators=found)
        return super().ask(request, node, latest, left_s)

    @override
    def ask_each(self, requests: Mapping[int, Any], latest: int | None, left_s: float) -> dict[int, Any]:
        groups = [DescribedGroup(group_id=each) for each in ["other", *requests[1].groups[:1]]] if requests else []
        return {node: DescribeGroupsResponse(groups=groups) for node in requests}


def described(session: Session, groups: list[str]) -> dict[str, Any]:
    def read(response: DescribeGroupsResponse) -> Any:
        return [(each.group_id, each.error_code, None, each) for each in response.groups]

    return ask_coordinators(session, groups, GROUP, lambda mine: DescribeGroupsRequest(groups=mine), read)


def test_a_group_without_an_answer_is_an_error() -> None:
    session = Session(WithoutCoordinators(0), PassingClock(), 5)
    with pytest.raises(TryAgainError, match="no broker answered for group g"):
        coordinator_of(session, "g", GROUP)
    assert isinstance(described(session, ["g"])["g"], TryAgainError)


def test_groups_that_an_answer_lacks_are_asked_for_again() -> None:
    found = described(Session(WithoutCoordinators(2), PassingClock(), 5), ["a", "b"])
    assert [(key, each.group_id) for key, each in found.items()] == [("a", "a"), ("b", "b")]
