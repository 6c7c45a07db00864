"""The APIs of share groups: rights, errors, and while share groups are not enabled."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from tests.server.apis.group_handlers import ask
from tests.server.apis.rights import Rights
from tests.support.coordinator_fakes import Bench
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.compiler.types import NO_UUID
from twisted_kafka.protocol.errors import (
    ErrorCode,
    GroupAuthorizationError,
    KafkaError,
    TopicAuthorizationError,
    UnsupportedVersionError,
)
from twisted_kafka.protocol.messages.share.share_groups import ShareGroupDescribeRequest, ShareGroupHeartbeatRequest
from twisted_kafka.protocol.messages.share.share_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from twisted_kafka.security.authorizer.acl_types import AclOperation, ResourceType
from twisted_kafka.server.apis.groups.share_groups import ShareGroupApis
from twisted_kafka.server.apis.groups.share_offsets import ShareOffsetApis
from twisted_kafka.server.authorization import ALLOW_ALL, Authorization

G = "g"
READ_GROUP = (AclOperation.READ, ResourceType.GROUP, G)
DESCRIBE_GROUP = (AclOperation.DESCRIBE, ResourceType.GROUP, G)
DELETE_GROUP = (AclOperation.DELETE, ResourceType.GROUP, G)
READ_T = (AclOperation.READ, ResourceType.TOPIC, "t")
DESCRIBE_T = (AclOperation.DESCRIBE, ResourceType.TOPIC, "t")
DENIED_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b".")


class Served:
    """The two families over one coordinator, with topics t (2 partitions) and u (1)."""

    def __init__(self, *, enabled: bool = True) -> None:
        self.bench = Bench()
        self.bench.topics.change({"t": 2, "u": 1})
        self.enabled = enabled

    def ask(self, request: Message, version: int, rights: Rights | None = None) -> Any:
        authorization: Any = ALLOW_ALL if rights is None else Authorization(rights)
        is_enabled: Callable[[], bool] = lambda: self.enabled  # noqa: E731
        metadata: Any = self.bench.topics
        family: Any = ShareGroupApis(self.bench.groups, is_enabled, authorization)
        if "Offsets" in type(request).__name__:
            family = ShareOffsetApis(self.bench.groups, metadata, is_enabled, authorization)
        answer, _ = ask(family, request, version)
        return answer.result(0) if isinstance(answer, Future) else answer

    def joined(self) -> "Served":
        for epoch in (0, 2):
            topics = ["t"] if epoch == 0 else None
            assert self.ask(heartbeat(epoch, topics), 1).error_code == ErrorCode.NONE
            self.bench.advance(1_000)
        return self

    def altered(self) -> "Served":
        assert codes(self.ask(altering(t={0: 5, 1: 6}), 0)) == {("t", 0): ErrorCode.NONE, ("t", 1): ErrorCode.NONE}
        return self


def heartbeat(epoch: int, topics: list[str] | None) -> ShareGroupHeartbeatRequest:
    return ShareGroupHeartbeatRequest(group_id=G, member_id="m", member_epoch=epoch, subscribed_topic_names=topics)


def describing(*topics: str) -> DescribeShareGroupOffsetsRequest:
    """Name the first two partitions of each topic; without topics, ask for all."""
    named = [DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=[0, 1]) for name in topics]
    return DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id=G, topics=named if topics else None)]
    )


def altering(**topics: dict[int, int]) -> AlterShareGroupOffsetsRequest:
    wanted = []
    for name, offsets in topics.items():
        partitions = [
            AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset) for index, offset in offsets.items()
        ]
        wanted.append(AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=partitions))
    return AlterShareGroupOffsetsRequest(group_id=G, topics=wanted)


def deleting(*topics: str) -> DeleteShareGroupOffsetsRequest:
    return DeleteShareGroupOffsetsRequest(
        group_id=G, topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics]
    )


def codes(answer: Any) -> dict[tuple[str, int], int]:
    return {(topic.topic_name, each.partition_index): each.error_code for topic in answer.responses for each in topic.partitions}


def offsets(answer: Any) -> dict[tuple[str, int], tuple[int, int]]:
    """Start offset and error by partition."""
    assert [group.error_code for group in answer.groups] == [ErrorCode.NONE]
    return {
        (topic.topic_name, each.partition_index): (each.start_offset, each.error_code)
        for topic in answer.groups[0].topics
        for each in topic.partitions
    }


ALL = [
    (heartbeat(0, ["t"]), 1),
    (ShareGroupDescribeRequest(group_ids=[G]), 1),
    (describing(), 0),
    (altering(t={0: 1}), 0),
    (deleting("t"), 0),
]


@pytest.mark.parametrize(("request_", "version"), ALL, ids=lambda value: type(value).__name__)
def test_requests_are_refused_while_share_groups_are_not_enabled(request_: Message, version: int) -> None:
    with pytest.raises(UnsupportedVersionError):
        Served(enabled=False).ask(request_, version)


def error_of_heartbeat(served: Served, rights: Rights) -> type[KafkaError] | None:
    try:
        assert served.ask(heartbeat(0, ["t"]), 1, rights).error_code == ErrorCode.NONE
    except KafkaError as error:
        return type(error)
    return None


def test_a_member_may_read_the_group_and_describe_its_topics() -> None:
    assert error_of_heartbeat(Served(), Rights(DESCRIBE_T)) is GroupAuthorizationError
    assert error_of_heartbeat(Served(), Rights(READ_GROUP)) is TopicAuthorizationError
    assert error_of_heartbeat(Served(), Rights(READ_GROUP, DESCRIBE_T)) is None


def test_a_group_is_described_to_clients_that_may_describe_it_and_its_topics() -> None:
    served = Served().joined()
    request = ShareGroupDescribeRequest(group_ids=[G, "", "other", G], include_authorized_operations=True)
    group, nameless, other = served.ask(request, 1).groups
    assert (group.group_state, [member.member_id for member in group.members]) == ("Stable", ["m"])
    assert group.authorized_operations != -(2**31)
    assert (nameless.error_code, other.error_code) == (ErrorCode.INVALID_GROUP_ID, ErrorCode.GROUP_ID_NOT_FOUND)
    request = ShareGroupDescribeRequest(group_ids=[G])
    assert served.ask(request, 1, Rights()).groups[0].error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    hidden = served.ask(request, 1, Rights(DESCRIBE_GROUP)).groups[0]
    assert (hidden.error_code, hidden.members) == (DENIED_TOPIC, [])
    assert served.ask(request, 1, Rights(DESCRIBE_GROUP, DESCRIBE_T)).groups[0].error_code == ErrorCode.NONE


def test_offsets_are_described() -> None:
    served = Served().altered()
    assert offsets(served.ask(describing(), 1)) == {("t", 0): (5, 0), ("t", 1): (6, 0)}
    twice = describing()
    twice.groups *= 2
    assert len(served.ask(twice, 1).groups) == 1, "it may have many offsets"
    unknown = {("none", 0): (-1, 0), ("none", 1): (-1, 0)}
    assert offsets(served.ask(describing("t", "none"), 0)) == {("t", 0): (5, 0), ("t", 1): (6, 0), **unknown}


def test_only_partitions_that_exist_are_asked_for_and_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served().altered()
    persister = served.bench.persister
    asked, read = [], persister.read_state_summary
    monkeypatch.setattr(persister, "read_state_summary", lambda request: asked.append(request) or read(request))
    request = describing("t")
    request.groups[0].topics[0].partitions = [7, 1, 1, 2, -1, 2**31 - 1, 1]
    nothing = (-1, 0)
    assert offsets(served.ask(request, 1)) == {("t", 7): nothing, ("t", 1): (6, 0)} | {
        ("t", index): nothing for index in (2, -1, 2**31 - 1)
    }
    assert [each.partition for summary in asked for topic in summary.topics for each in topic.partitions] == [1]
    request.groups[0].topics[0].partitions = [9]
    assert offsets(served.ask(request, 1)) == {("t", 9): nothing}
    assert len(asked) == 1


def test_offsets_are_described_to_clients_that_may_describe_the_group_and_the_topic() -> None:
    served = Served().altered()
    refused = served.ask(describing(), 0, Rights(DESCRIBE_T)).groups[0]
    assert (refused.error_code, refused.topics) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, [])
    assert offsets(served.ask(describing(), 0, Rights(DESCRIBE_GROUP))) == {}
    denied = {("t", 0): (-1, DENIED_TOPIC), ("t", 1): (-1, DENIED_TOPIC)}
    assert offsets(served.ask(describing("t"), 0, Rights(DESCRIBE_GROUP))) == denied
    assert offsets(served.ask(describing(), 0, Rights(DESCRIBE_GROUP, DESCRIBE_T))) == {("t", 0): (5, 0), ("t", 1): (6, 0)}


def test_a_group_that_does_not_exist_has_no_offsets() -> None:
    assert offsets(Served().ask(describing(), 0)) == {}


def test_each_partition_that_cannot_be_altered_has_its_error() -> None:
    served = Served()
    answer = served.ask(altering(t={0: 5, 9: 5, 1: -2}, none={0: 1}), 0)
    expected = {("t", 0): 0, ("t", 9): UNKNOWN, ("t", 1): ErrorCode.INVALID_REQUEST, ("none", 0): UNKNOWN}
    assert codes(answer) == expected
    assert [topic.topic_id for topic in answer.responses] == [topic_id("t"), NO_UUID]
    assert offsets(served.ask(describing(), 0)) == {("t", 0): (5, 0)}


def test_a_topic_that_is_named_twice_is_in_the_answer_once() -> None:
    served = Served()
    asked = altering(t={0: 5})
    asked.topics += altering(t={1: 6}).topics
    assert [[each.partition_index for each in topic.partitions] for topic in served.ask(asked, 0).responses] == [[0, 1]]
    assert offsets(served.ask(describing(), 0)) == {("t", 0): (5, 0), ("t", 1): (6, 0)}
    assert [each.topic_name for each in served.ask(deleting("t", "t"), 0).responses] == ["t"]


def test_offsets_are_altered_by_clients_that_may_read_the_group_and_the_topic() -> None:
    served = Served()
    with pytest.raises(GroupAuthorizationError):
        served.ask(altering(t={0: 5}), 0, Rights(READ_T))
    answer = served.ask(altering(t={0: 5}, u={0: 5}), 0, Rights(READ_GROUP, READ_T))
    assert codes(answer) == {("t", 0): ErrorCode.NONE, ("u", 0): DENIED_TOPIC}


def test_offsets_are_deleted_by_clients_that_may_delete_the_group_and_read_the_topic() -> None:
    served = Served().altered()
    with pytest.raises(GroupAuthorizationError):
        served.ask(deleting("t"), 0, Rights(READ_GROUP, READ_T))
    results = served.ask(deleting("t", "u", "none"), 0, Rights(DELETE_GROUP, READ_T)).responses
    assert [(each.topic_name, each.error_code) for each in results] == [("t", 0), ("u", DENIED_TOPIC), ("none", DENIED_TOPIC)]
    results = served.ask(deleting("t", "u", "none"), 0).responses
    assert [(each.topic_name, each.error_code) for each in results] == [("t", UNKNOWN), ("u", UNKNOWN), ("none", UNKNOWN)]
    assert offsets(served.ask(describing(), 0)) == {}
