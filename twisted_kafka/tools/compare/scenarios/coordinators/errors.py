"""Errors that take more than a bad field: groups that are full, times that are over, records that are too large."""

from twisted_kafka.protocol.messages.administration.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from twisted_kafka.protocol.messages.coordinators.consumer_groups import ConsumerGroupHeartbeatRequest
from twisted_kafka.protocol.messages.coordinators.groups import (
    DescribeGroupsRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from twisted_kafka.protocol.messages.coordinators.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from twisted_kafka.protocol.messages.coordinators.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from twisted_kafka.protocol.messages.list_offsets import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from twisted_kafka.tools.compare.preparation import LARGEST_GROUP
from twisted_kafka.tools.compare.scenarios.coordinators.consumer_groups import Member
from twisted_kafka.tools.compare.scenarios.coordinators.groups import SESSION_MS, join, joined
from twisted_kafka.tools.compare.scenarios.coordinators.transactions import producer_of
from twisted_kafka.tools.compare.talk import Talk, scenario

OLD_JOIN = 3
"""The last version in which a member without an id gets in at once."""
MANY_PARTITIONS = 300
LONG_METADATA = "x" * 4000
"""The limit is 4,096; the offsets of ``MANY_PARTITIONS`` with it do not fit into a batch of ``max.message.bytes``."""


@scenario(JoinGroupRequest)
def a_full_group(talk: Talk, version: int) -> None:
    group = talk.topic("group")
    first, *others = [talk.another() for _ in range(LARGEST_GROUP)]
    member_id = join(first, OLD_JOIN, group, note=False).member_id
    for other in others:
        protocols = [JoinGroupRequestProtocol(name="range", metadata=b"meta")]
        request = JoinGroupRequest(group_id=group, session_timeout_ms=SESSION_MS, protocol_type="consumer", protocols=protocols)
        request.rebalance_timeout_ms = SESSION_MS
        other.send(request, OLD_JOIN)
    described = DescribeGroupsRequest(groups=[group])
    talk.until(
        lambda: len(talk.ask(described, 4, note=False).groups[0].members) >= LARGEST_GROUP, f"{group} does not get its members"
    )
    join(first, OLD_JOIN, group, member_id, note=False)
    for other in others:
        assert not other.receive(JoinGroupRequest, OLD_JOIN, note=False).error_code
    join(talk, version, group)
    if version >= 5:
        join(talk, version, group, group_instance_id="one more")


@scenario(ConsumerGroupHeartbeatRequest)
def a_full_consumer_group(talk: Talk, version: int) -> None:
    for number in range(LARGEST_GROUP + 1):
        answer = Member(talk, talk.topic("group"), ["no topic"]).join(version, note=False)
        talk.answers.append((f"ConsumerGroupHeartbeatRequest v{version}", {"number": number, "error_code": answer.error_code}))


@scenario(OffsetCommitRequest, since=8)
def a_commit_that_is_too_large(talk: Talk, version: int) -> None:
    topic = talk.create("t", MANY_PARTITIONS)
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=1, committed_metadata=LONG_METADATA)
        for index in range(MANY_PARTITIONS)
    ]
    talk.ask(
        OffsetCommitRequest(group_id=talk.topic("group"), topics=[OffsetCommitRequestTopic(name=topic, partitions=partitions)]),
        version,
    )


@scenario(TxnOffsetCommitRequest, since=4)
def a_transactional_commit_that_is_too_large(talk: Talk, version: int) -> None:
    topic = talk.create("t", MANY_PARTITIONS)
    partitions = [
        TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=1, committed_metadata=LONG_METADATA)
        for index in range(MANY_PARTITIONS)
    ]
    talk.ask(
        TxnOffsetCommitRequest(
            transactional_id="tx",
            group_id=talk.topic("group"),
            producer_id=producer_of(talk.topic("large")),
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=partitions)],
        ),
        version,
    )


@scenario(OffsetDeleteRequest)
def offsets_of_a_group_that_is_not_of_consumers(talk: Talk, version: int) -> None:
    topic, group = talk.create("t"), talk.topic("group")
    connect = {"protocol_type": "connect", "protocols": [JoinGroupRequestProtocol(name="default", metadata=b"")]}
    first = join(talk, 5, group, note=False, **connect)  # type: ignore[arg-type]
    member = join(talk, 5, group, first.member_id, note=False, **connect)
    assignment = SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"")
    sync = SyncGroupRequest(
        group_id=group, generation_id=member.generation_id, member_id=member.member_id, assignments=[assignment]
    )
    talk.ask(sync, 3)
    one = OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
    talk.ask(OffsetDeleteRequest(group_id=group, topics=[one]), version)
    consumers = talk.topic("consumers")
    joined(talk, consumers)  # with a subscription that cannot be read
    talk.ask(OffsetDeleteRequest(group_id=consumers, topics=[one]), version)


@scenario(DeleteRecordsRequest)
def records_that_may_not_be_deleted(talk: Talk, version: int) -> None:
    topic = talk.create("t", cleanup_policy="compact")
    one = DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=-1)])
    talk.ask(DeleteRecordsRequest(topics=[one], timeout_ms=5000), version)


@scenario(CreateTopicsRequest)
def topics_without_the_time_to_make_them(talk: Talk, version: int) -> None:
    made = CreatableTopic(name=talk.topic("made"), num_partitions=1, replication_factor=1)
    for timeout_ms in (0, -1):
        made.name = talk.topic(f"made{timeout_ms}")
        talk.ask(CreateTopicsRequest(topics=[made], timeout_ms=timeout_ms), version)


@scenario(CreatePartitionsRequest)
def partitions_without_the_time_to_make_them(talk: Talk, version: int) -> None:
    topic = talk.create("t")
    for timeout_ms in (0, -1):
        more = CreatePartitionsTopic(name=topic, count=3 - timeout_ms, assignments=None)
        talk.ask(CreatePartitionsRequest(topics=[more], timeout_ms=timeout_ms), version)


@scenario(DeleteTopicsRequest)
def topics_without_the_time_to_delete_them(talk: Talk, version: int) -> None:
    for timeout_ms in (0, -1):
        topic = talk.create(f"t{timeout_ms}")
        if version >= 6:
            request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=timeout_ms)
        else:
            request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=timeout_ms)
        talk.ask(request, version)
