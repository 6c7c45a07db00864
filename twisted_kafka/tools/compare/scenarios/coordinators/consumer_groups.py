"""The consumer group protocol, which Apache Kafka 3.9 serves in KRaft mode: members, offsets, both protocols in one group."""

from typing import Any

from twisted_kafka.protocol.messages.coordinators.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from twisted_kafka.protocol.messages.coordinators.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from twisted_kafka.protocol.messages.coordinators.offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from twisted_kafka.tools.compare.scenarios.coordinators.groups import SESSION_MS, commit, joined
from twisted_kafka.tools.compare.scenarios.coordinators.members import described, joining, subscription
from twisted_kafka.tools.compare.talk import Talk, scenario


class Member:
    """One that sends heartbeats."""

    def __init__(self, talk: Talk, group: str, topics: list[str], **fields: object) -> None:
        self.talk = talk
        self.group = group
        self.topics = topics
        self.fields = fields
        self.id = ""
        self.epoch = 0
        self.assigned: list[ConsumerGroupHeartbeatRequestTopicPartitions] = []

    def join(self, version: int = 0, *, note: bool = True, **fields: object) -> ConsumerGroupHeartbeatResponse:
        return self.beat(
            version,
            note=note,
            **{
                "member_epoch": 0,
                "rebalance_timeout_ms": SESSION_MS,
                "subscribed_topic_names": self.topics,
                "topic_partitions": [],
                **fields,
            },
        )

    def beat(self, version: int = 0, *, note: bool = True, **fields: object) -> ConsumerGroupHeartbeatResponse:
        request = ConsumerGroupHeartbeatRequest(group_id=self.group, member_id=self.id, member_epoch=self.epoch)
        for name, value in {**self.fields, **fields}.items():
            setattr(request, name, value)
        answer: ConsumerGroupHeartbeatResponse = self.talk.ask(request, version, note=note)
        if not answer.error_code:
            self.id, self.epoch = answer.member_id or self.id, answer.member_epoch
            self.talk.answers.append(("epoch", answer.member_epoch))
            if answer.assignment is not None:
                self.assigned = [
                    ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=each.topic_id, partitions=each.partitions)
                    for each in answer.assignment.topic_partitions
                ]
                self.talk.answers.append(("partitions", sorted(len(each.partitions) for each in self.assigned)))
        return answer

    def ack(self, version: int = 0) -> ConsumerGroupHeartbeatResponse:
        return self.beat(version, topic_partitions=self.assigned)


def topic(talk: Talk, name: str, partitions: int) -> str:
    """Create a topic and wait until the coordinator knows it: with KRaft it hears of it later than the rest of the broker."""
    made = talk.create(name, partitions)
    talk.known(made)
    group = talk.topic(f"probe-{name}")

    def assigned() -> Any:
        request = ConsumerGroupHeartbeatRequest(
            group_id=group, rebalance_timeout_ms=SESSION_MS, subscribed_topic_names=[made], topic_partitions=[]
        )
        answer = talk.ask(request, 0, note=False)
        talk.ask(ConsumerGroupHeartbeatRequest(group_id=group, member_id=answer.member_id, member_epoch=-1), 0, note=False)
        return answer.assignment.topic_partitions

    talk.until(assigned, f"{made} is not known to the coordinator")
    return made


def describe(talk: Talk, *groups: str) -> None:
    request = ConsumerGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=True)
    answer = talk.ask(request, 0, note=False)
    for group in answer.groups:
        members = sorted(
            (
                member.instance_id,
                member.member_epoch,
                member.client_id,
                bool(member.client_host),
                len(member.subscribed_topic_names),
                member.subscribed_topic_regex,
                [len(each.partitions) for each in member.assignment.topic_partitions],
                [len(each.partitions) for each in member.target_assignment.topic_partitions],
            )
            for member in group.members
        )
        seen = (
            group.error_code,
            group.group_state,
            group.group_epoch,
            group.assignment_epoch,
            group.assignor_name,
            group.authorized_operations,
            members,
        )
        talk.answers.append(("described", str(seen)))


@scenario(ConsumerGroupHeartbeatRequest)
def consumer_heartbeats(talk: Talk, version: int) -> None:
    name, group = topic(talk, "t", 4), talk.topic("group")
    a, b = Member(talk, group, [name]), Member(talk, group, [name])
    a.join()
    a.ack()
    a.beat()
    describe(talk, group)
    b.join()
    describe(talk, group)
    a.beat()
    a.beat()
    b.beat()
    describe(talk, group)
    a.ack()
    b.ack()
    b.ack()
    describe(talk, group)
    a.beat(subscribed_topic_names=[name], rebalance_timeout_ms=SESSION_MS, topic_partitions=a.assigned)
    b.beat(member_epoch=-1)
    a.beat()
    a.ack()
    describe(talk, group)
    a.beat(member_epoch=-1)
    a.beat(member_epoch=-1)
    describe(talk, group)


@scenario(ConsumerGroupHeartbeatRequest)
def consumer_heartbeats_bad(talk: Talk, version: int) -> None:
    name, group = topic(talk, "t", 2), talk.topic("group")
    Member(talk, talk.topic("none"), [name]).beat(member_id="x", member_epoch=3)
    Member(talk, talk.topic("none"), [name]).beat(member_id="x", member_epoch=-1)
    Member(talk, "", [name]).join()
    new = Member(talk, group, [name])
    new.join(instance_id="")
    new.join(rack_id="")
    new.join(rebalance_timeout_ms=-1)
    new.join(topic_partitions=None)
    new.join(topic_partitions=[ConsumerGroupHeartbeatRequestTopicPartitions(partitions=[0])])
    new.join(subscribed_topic_names=None)
    new.join(subscribed_topic_names=[])
    new.join(server_assignor="mine")
    new.beat(member_epoch=5)
    new.beat(member_epoch=-1)
    new.beat(member_id="x", member_epoch=-2)
    new.beat(member_id="x", member_epoch=-3)
    describe(talk, group)
    a = Member(talk, group, [name])
    a.join(server_assignor="range")
    a.beat(member_epoch=7)
    a.beat(member_id="stranger")
    a.beat(server_assignor="mine")
    a.beat(member_epoch=-2)
    a.beat(instance_id="nobody")
    describe(talk, group)
    joined(talk, talk.topic("classic"))
    Member(talk, talk.topic("classic"), [name]).join()
    describe(talk, talk.topic("classic"))
    describe(talk, talk.topic("nothing"))
    describe(talk, "")


@scenario(ConsumerGroupHeartbeatRequest)
def consumer_static_members(talk: Talk, version: int) -> None:
    name, group = topic(talk, "t", 4), talk.topic("group")
    a, b = Member(talk, group, [name], instance_id="one"), Member(talk, group, [name], instance_id="two")
    a.join()
    b.join()
    a.ack()
    a.ack()
    b.ack()
    thief = Member(talk, group, [name], instance_id="one")
    thief.join()
    thief.beat(member_id="thief", member_epoch=1)
    old = a.id
    a.beat(member_epoch=-2)
    describe(talk, group)
    again = Member(talk, group, [name], instance_id="one")
    again.join()
    again.ack()
    again.beat(member_id=old)
    b.ack()
    describe(talk, group)
    again.beat(member_epoch=-1)
    describe(talk, group)


@scenario(ConsumerGroupHeartbeatRequest)
def consumer_subscriptions(talk: Talk, version: int) -> None:
    one, two = topic(talk, "one", 2), topic(talk, "two", 3)
    group = talk.topic("group")
    a, b = Member(talk, group, [one, "no." + one]), Member(talk, group, [one, two])
    a.join()
    b.join()
    a.ack()
    a.ack()
    b.ack()
    describe(talk, group)
    b.beat(subscribed_topic_names=[two])
    b.ack()
    a.beat()
    a.ack()
    describe(talk, group)
    b.beat(server_assignor="range")
    describe(talk, group)


@scenario(ConsumerGroupHeartbeatRequest)
def consumer_offsets(talk: Talk, version: int) -> None:
    name, group = topic(talk, "t", 2), talk.topic("group")
    a = Member(talk, group, [name])
    a.join()

    def kept(version: int, epoch: int, member_id: str) -> None:
        request = commit(version, group, name)
        request.generation_id_or_member_epoch, request.member_id = epoch, member_id
        talk.ask(request, version)

    def fetch(epoch: int, member_id: str | None) -> None:
        topics = [OffsetFetchRequestTopics(name=name, partition_indexes=[0, 1])]
        entry = OffsetFetchRequestGroup(group_id=group, topics=topics, member_id=member_id, member_epoch=epoch)
        talk.ask(OffsetFetchRequest(groups=[entry]), 9)

    kept(9, a.epoch, a.id)
    kept(8, a.epoch, a.id)
    kept(9, a.epoch - 1, a.id)
    kept(9, a.epoch + 1, a.id)
    kept(9, a.epoch, "stranger")
    kept(9, -1, "")
    fetch(a.epoch, a.id)
    fetch(a.epoch + 1, a.id)
    fetch(a.epoch, "stranger")
    fetch(-1, None)
    talk.ask(DescribeGroupsRequest(groups=[group]), 5)
    wanted = [OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)])]
    talk.ask(OffsetDeleteRequest(group_id=group, topics=wanted), 0)
    talk.ask(DeleteGroupsRequest(groups_names=[group]), 2)
    for fields in ({}, {"types_filter": ["consumer"]}, {"types_filter": ["Classic"]}, {"states_filter": ["stable"]}):
        listed = talk.ask(ListGroupsRequest(**fields), 5, note=False)  # type: ignore[arg-type]
        ours = [(each.protocol_type, each.group_state, each.group_type) for each in listed.groups if each.group_id == group]
        talk.answers.append(("listed", str(ours)))
    a.beat(member_epoch=-1)
    kept(9, -1, "")
    fetch(-1, None)
    fetch(1, a.id)
    talk.ask(OffsetDeleteRequest(group_id=group, topics=wanted), 0)
    kept(9, -1, "")
    talk.ask(DeleteGroupsRequest(groups_names=[group]), 2)
    fetch(-1, None)
    describe(talk, group)


class Classic:
    """A classic member of a group of both protocols."""

    def __init__(self, talk: Talk, group: str, topics: list[str]) -> None:
        self.talk = talk
        self.group = group
        self.metadata = subscription(*topics)
        self.id = ""
        self.generation = -1

    def join(self, **fields: object) -> None:
        request = joining(6, self.group, self.id, self.metadata)
        for name, value in fields.items():
            setattr(request, name, value)
        answer = self.talk.ask(request, 6)
        self.id, self.generation = answer.member_id or self.id, answer.generation_id
        self.talk.answers.append(("generation", answer.generation_id))

    def sync(self, assignment: bytes = b"", **fields: object) -> None:
        assignments = [SyncGroupRequestAssignment(member_id=self.id, assignment=assignment)] if assignment else []
        request = SyncGroupRequest(group_id=self.group, generation_id=self.generation, member_id=self.id, assignments=assignments)
        for name, value in fields.items():
            setattr(request, name, value)
        self.talk.ask(request, 4)

    def beat(self, **fields: object) -> None:
        request = HeartbeatRequest(group_id=self.group, generation_id=self.generation, member_id=self.id)
        for name, value in fields.items():
            setattr(request, name, value)
        self.talk.ask(request, 4)


@scenario(ConsumerGroupHeartbeatRequest)
def consumer_group_from_classic(talk: Talk, version: int) -> None:
    """A classic group becomes a consumer group, and a classic one again."""
    name, group = topic(talk, "t", 2), talk.topic("group")
    c = Classic(talk, group, [name])
    c.join()
    c.join()
    both = (
        b"\0\1\0\0\0\1"
        + len(name).to_bytes(2, "big")
        + name.encode()
        + b"\0\0\0\2"
        + b"\0\0\0\0"
        + b"\0\0\0\1"
        + b"\xff\xff\xff\xff"
    )
    c.sync(both)
    a = Member(talk, group, [name])
    a.join()
    describe(talk, group)
    c.beat()
    c.join()  # it has given up everything before
    c.sync()
    a.ack()
    c.beat()
    describe(talk, group)
    c.beat(generation_id=77)
    c.beat(member_id="stranger")
    c.beat(member_id=a.id, generation_id=a.epoch)
    c.sync(generation_id=77)
    c.join(protocol_type="connect")
    kept = commit(8, group, name)
    kept.generation_id_or_member_epoch, kept.member_id = c.generation, c.id
    talk.ask(kept, 8)
    kept.generation_id_or_member_epoch = 99
    talk.ask(kept, 8)
    a.beat(member_epoch=-1)
    c.beat()
    describe(talk, group)
    described(talk, group, "PreparingRebalance")
    c.join()
    c.sync(both)
    talk.ask(LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=c.id)]), 4)
    a = Member(talk, group, [name])
    a.join()
    describe(talk, group)
    a.beat(member_epoch=-1)
    d = Classic(talk, group, [name])
    d.join(member_id="stranger")
    d.id = ""
    d.join()
    d.join()
    d.sync(both)
    talk.ask(DescribeGroupsRequest(groups=[group]), 5)
    describe(talk, group)


@scenario(ConsumerGroupDescribeRequest)
def consumer_group_describe(talk: Talk, version: int) -> None:
    group = talk.topic("group")
    a = Member(talk, group, [topic(talk, "t", 1)])
    a.join()
    for groups in ([], [group], [group, talk.topic("none")], [""]):
        talk.ask(ConsumerGroupDescribeRequest(group_ids=groups), version)
    talk.ask(ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=True), version)
