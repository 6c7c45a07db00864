"""Groups of several members: joins that wait for each other, rebalances, static members, what becomes of their offsets."""

import struct

from twisted_kafka.protocol.messages.coordinators.groups import (
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from twisted_kafka.protocol.messages.coordinators.offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from twisted_kafka.tools.compare.scenarios.coordinators.groups import SESSION_MS, commit, join, joined
from twisted_kafka.tools.compare.talk import Talk, scenario


def joining(version: int, group: str, member: str, metadata: bytes, **fields: object) -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol(name="range", metadata=metadata)]
    request = JoinGroupRequest(
        group_id=group, session_timeout_ms=SESSION_MS, member_id=member, protocol_type="consumer", protocols=protocols
    )
    if version >= 1:
        request.rebalance_timeout_ms = SESSION_MS
    for name, value in fields.items():
        setattr(request, name, value)
    return request


def described(talk: Talk, group: str, state: str) -> None:
    """Wait until the group is in a state: a request on another connection has arrived then."""
    request = DescribeGroupsRequest(groups=[group])
    talk.until(lambda: talk.ask(request, 5, note=False).groups[0].group_state == state, f"{group} did not get {state}")


def new_id(talk: Talk, version: int, group: str, metadata: bytes) -> str:
    """Return the id that a member joins with: since version 4 it is to ask for one."""
    if version < 4:
        return ""
    member_id: str = talk.ask(joining(version, group, "", metadata), version).member_id
    return member_id


def syncing(version: int, group: str, member: JoinGroupResponse, **assignments: str) -> SyncGroupRequest:
    given = [SyncGroupRequestAssignment(member_id=to, assignment=name.encode()) for name, to in assignments.items()]
    request = SyncGroupRequest(group_id=group, generation_id=member.generation_id, member_id=member.member_id, assignments=given)
    if version >= 5:
        request.protocol_type, request.protocol_name = "consumer", "range"
    return request


def beating(group: str, member: JoinGroupResponse) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group, generation_id=member.generation_id, member_id=member.member_id)


@scenario(JoinGroupRequest)
def two_members(talk: Talk, version: int) -> None:
    group, topic = talk.topic("group"), talk.create("t")
    sync_version, beat_version = min(version, 5), min(version, 4)
    a = talk.ask(joining(version, group, new_id(talk, version, group, b"a"), b"a"), version)
    talk.ask(syncing(sync_version, group, a, all=a.member_id), sync_version)

    other = talk.another()
    b_id = new_id(other, version, group, b"b")
    other.send(joining(version, group, b_id, b"b"), version)
    described(talk, group, "PreparingRebalance")
    talk.ask(beating(group, a), beat_version)
    talk.ask(syncing(sync_version, group, a, all=a.member_id), sync_version)
    kept = commit(7, group, topic)
    kept.generation_id_or_member_epoch, kept.member_id = a.generation_id, a.member_id
    talk.ask(kept, 7)
    talk.ask(joining(version, group, "", b"c", protocol_type="connect"), version)
    talk.ask(joining(version, group, a.member_id, b"a"), version)
    b = other.receive(JoinGroupRequest, version)
    talk.answers.append(("generations", (a.generation_id, b.generation_id, b.leader == a.member_id)))

    a.generation_id = b.generation_id
    talk.ask(kept, 7)
    kept.generation_id_or_member_epoch = a.generation_id
    talk.ask(kept, 7)
    talk.ask(beating(group, a), beat_version)
    other.send(syncing(sync_version, group, b), sync_version)
    talk.ask(syncing(sync_version, group, a, first=a.member_id, second=b.member_id), sync_version)
    other.receive(SyncGroupRequest, sync_version)
    talk.ask(DescribeGroupsRequest(groups=[group], include_authorized_operations=True), 5)
    other.ask(joining(version, group, b.member_id, b"b"), version)  # a follower with the same metadata changes nothing
    leaving = LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=b.member_id)])
    talk.ask(leaving, 3)
    talk.ask(beating(group, a), beat_version)
    other.ask(beating(group, b), beat_version)
    alone = talk.ask(joining(version, group, a.member_id, b"a"), version)
    talk.answers.append(("generation", alone.generation_id))


@scenario(JoinGroupRequest)
def leader_rejoins(talk: Talk, version: int) -> None:
    """A leader that joins a stable group again makes it rebalance; one that goes leaves the lead to another."""
    group = talk.topic("group")
    sync_version = min(version, 5)
    a = talk.ask(joining(version, group, new_id(talk, version, group, b"a"), b"a"), version, note=False)
    other = talk.another()
    b_id = new_id(other, version, group, b"b")
    other.send(joining(version, group, b_id, b"b"), version)
    described(talk, group, "PreparingRebalance")
    talk.send(joining(version, group, a.member_id, b"a"), version)
    b = other.receive(JoinGroupRequest, version)
    a = talk.receive(JoinGroupRequest, version)
    talk.ask(syncing(sync_version, group, a, first=a.member_id, second=b.member_id), sync_version)
    other.ask(syncing(sync_version, group, b), sync_version)
    talk.send(joining(version, group, a.member_id, b"a2"), version)
    described(other, group, "PreparingRebalance")
    leaving = LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=a.member_id)])
    other.ask(leaving, 3)
    talk.receive(JoinGroupRequest, version)
    other.send(joining(version, group, b.member_id, b"b2"), version)
    again = other.receive(JoinGroupRequest, version)
    talk.answers.append(("new leader", (again.leader == b.member_id, again.generation_id)))


@scenario(JoinGroupRequest, since=5)
def static_members(talk: Talk, version: int) -> None:
    group = talk.topic("group")
    sync_version = min(version, 5)
    first = talk.ask(joining(version, group, "", b"a", group_instance_id="one"), version)
    request = syncing(sync_version, group, first, all=first.member_id)
    request.group_instance_id = "one"
    talk.ask(request, sync_version)
    second = talk.ask(joining(version, group, "", b"a", group_instance_id="one"), version)  # restarted
    talk.answers.append(("same generation", second.generation_id - first.generation_id))
    talk.answers.append(("new id", (second.member_id != first.member_id, second.leader == first.member_id)))
    for member_id in (first.member_id, second.member_id, "stranger"):
        beat = HeartbeatRequest(group_id=group, generation_id=second.generation_id, member_id=member_id, group_instance_id="one")
        talk.ask(beat, 4)
    request = syncing(sync_version, group, first, all=first.member_id)
    request.group_instance_id = "one"
    talk.ask(request, sync_version)
    kept = commit(7, group, talk.create("t"))
    kept.generation_id_or_member_epoch, kept.member_id = second.generation_id, first.member_id
    kept.topics[0].partitions[0].committed_offset = 3
    kept.group_instance_id = "one"
    talk.ask(kept, 7)
    talk.ask(DescribeGroupsRequest(groups=[group]), 4)
    for instance, member_id in (("nobody", ""), ("one", "stranger"), ("one", ""), ("one", "")):
        identity = MemberIdentity(member_id=member_id, group_instance_id=instance)
        talk.ask(LeaveGroupRequest(group_id=group, members=[identity]), 4)
    talk.ask(DescribeGroupsRequest(groups=[group]), 4)


@scenario(JoinGroupRequest)
def protocols_in_common(talk: Talk, version: int) -> None:
    """The group takes what all members know; who knows none of it stays outside."""
    group = talk.topic("group")
    first = join(talk, version, group)
    if first.error_code:
        first = join(talk, version, group, first.member_id)
    other = talk.another()
    for names in (["none"], []):
        protocols = [JoinGroupRequestProtocol(name=name, metadata=b"m") for name in names]
        other.ask(joining(version, group, "", b"", protocols=protocols), version)
    other.ask(joining(version, group, "", b"", protocol_type=""), version)
    protocols = [JoinGroupRequestProtocol(name=name, metadata=b"m") for name in ("sticky", "roundrobin")]
    b_id = "" if version < 4 else other.ask(joining(version, group, "", b"", protocols=protocols), version).member_id
    other.send(joining(version, group, b_id, b"", protocols=protocols), version)
    described(talk, group, "PreparingRebalance")
    join(talk, version, group, first.member_id)
    other.receive(JoinGroupRequest, version)


def subscription(*topics: str) -> bytes:
    """What a consumer says in its metadata: version 0 of ConsumerProtocolSubscription."""
    names = b"".join(struct.pack(">h", len(name)) + name.encode() for name in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


@scenario(OffsetDeleteRequest)
def offset_delete(talk: Talk, version: int) -> None:
    used, unused = talk.create("used", 2), talk.create("unused", 2)
    group, simple = talk.topic("group"), talk.topic("simple")

    def ask(group_id: str, *topics: tuple[str, list[int]]) -> None:
        wanted = [
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
            )
            for name, indexes in topics
        ]
        talk.ask(OffsetDeleteRequest(group_id=group_id, topics=wanted), version)

    ask(talk.topic("none"), (used, [0]))
    ask("", (used, [0]))
    for name in (used, unused):
        talk.ask(commit(2, simple, name), 2, note=False)
        talk.ask(commit(2, group, name), 2, note=False)
    ask(simple, (used, [0, 1, 9]), ("no." + used, [0]))
    ask(simple, (used, [0]))
    ask(simple)
    first = talk.ask(joining(5, group, "", subscription(used)), 5, note=False)
    member = talk.ask(joining(5, group, first.member_id, subscription(used)), 5, note=False)
    ask(group, (used, [0]), (unused, [0]))
    talk.ask(syncing(3, group, member, all=member.member_id), 3, note=False)
    ask(group, (used, [0]), (unused, [0]))
    ask(joined_group(talk), (used, [0]))


def joined_group(talk: Talk) -> str:
    """A group whose members' metadata says nothing that can be read."""
    group = talk.topic("unreadable")
    joined(talk, group)
    return group
