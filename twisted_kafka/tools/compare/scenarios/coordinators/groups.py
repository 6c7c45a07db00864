"""Finding coordinators, the classic group protocol and offsets: good input and bad."""

from twisted_kafka.protocol.messages.coordinators.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    ListGroupsRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from twisted_kafka.protocol.messages.coordinators.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from twisted_kafka.tools.compare.talk import Talk, scenario

SESSION_MS = 30_000


@scenario(FindCoordinatorRequest)
def find_coordinator(talk: Talk, version: int) -> None:
    def ask(kind: int, *keys: str) -> None:
        request = FindCoordinatorRequest()
        if version >= 1:
            request.key_type = kind
        if version >= 4:
            request.coordinator_keys = list(keys)
        else:
            request.key = keys[0]
        talk.ask(request, version)

    ask(0, talk.topic("group"))
    ask(0, "")
    if version >= 1:
        ask(7, "x")
        ask(1, talk.topic("transaction"))
    if version >= 4:
        ask(0, "a", "b")
        ask(0)


def join(talk: Talk, version: int, group: str, member: str = "", *, note: bool = True, **fields: object) -> JoinGroupResponse:
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=SESSION_MS,
        member_id=member,
        protocol_type="consumer",
        protocols=[
            JoinGroupRequestProtocol(name="range", metadata=b"meta"),
            JoinGroupRequestProtocol(name="roundrobin", metadata=b"m2"),
        ],
    )
    if version >= 1:
        request.rebalance_timeout_ms = SESSION_MS
    for name, value in fields.items():
        setattr(request, name, value)
    answer: JoinGroupResponse = talk.ask(request, version, note=note)
    return answer


def joined(talk: Talk, group: str) -> JoinGroupResponse:
    """Make a stable group with one member, without noting the answers."""
    first = join(talk, 5, group, note=False)
    member = join(talk, 5, group, first.member_id, note=False)
    assignments = [SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"given")]
    request = SyncGroupRequest(
        group_id=group, generation_id=member.generation_id, member_id=member.member_id, assignments=assignments
    )
    assert talk.ask(request, 3, note=False).error_code == 0
    return member


@scenario(JoinGroupRequest)
def join_group(talk: Talk, version: int) -> None:
    group = talk.topic("group")
    first = join(talk, version, group)
    if first.member_id and first.error_code:
        first = join(talk, version, group, first.member_id)
    talk.answers.append(("generation", first.generation_id))
    again = join(talk, version, group, first.member_id)
    talk.answers.append(("generation", again.generation_id))
    join(talk, version, group, "stranger")
    join(talk, version, "")
    join(talk, version, group, first.member_id, session_timeout_ms=1)
    join(talk, version, group, first.member_id, session_timeout_ms=100_000_000)
    join(talk, version, talk.topic("other"), protocol_type="", protocols=[])
    talk.ask(DescribeGroupsRequest(groups=[talk.topic("other")]), 5)
    join(talk, version, talk.topic("third"), "unknown-member")
    if version >= 5:
        static = join(talk, version, talk.topic("static"), group_instance_id="one")
        join(talk, version, talk.topic("static"), static.member_id, group_instance_id="one")
        join(talk, version, talk.topic("static"), "wrong", group_instance_id="one")


@scenario(SyncGroupRequest)
def sync_group(talk: Talk, version: int) -> None:
    group = talk.topic("group")
    first = join(talk, 5, group, note=False)
    member = join(talk, 5, group, first.member_id, note=False)

    def sync(group_id: str, generation: int, member_id: str, **fields: object) -> None:
        assignments = [SyncGroupRequestAssignment(member_id=member_id, assignment=b"given")]
        request = SyncGroupRequest(group_id=group_id, generation_id=generation, member_id=member_id, assignments=assignments)
        if version >= 5:
            request.protocol_type, request.protocol_name = "consumer", "range"
        for name, value in fields.items():
            setattr(request, name, value)
        talk.ask(request, version)

    sync(group, member.generation_id + 1, member.member_id)
    sync(group, member.generation_id, "stranger")
    sync(talk.topic("none"), 1, "x")
    sync("", 1, "x")
    sync(group, member.generation_id, member.member_id)
    sync(group, member.generation_id, member.member_id)
    if version >= 5:
        sync(group, member.generation_id, member.member_id, protocol_name="roundrobin")
        sync(group, member.generation_id, member.member_id, protocol_type="connect")
    if version >= 3:
        sync(group, member.generation_id, member.member_id, group_instance_id="nobody")


@scenario(HeartbeatRequest)
def heartbeat(talk: Talk, version: int) -> None:
    group = talk.topic("group")
    member = joined(talk, group)
    for group_id, generation, member_id in (
        (group, member.generation_id, member.member_id),
        (group, member.generation_id + 1, member.member_id),
        (group, member.generation_id, "stranger"),
        (talk.topic("none"), 1, "x"),
        ("", 1, "x"),
    ):
        talk.ask(HeartbeatRequest(group_id=group_id, generation_id=generation, member_id=member_id), version)


@scenario(LeaveGroupRequest)
def leave_group(talk: Talk, version: int) -> None:
    group = talk.topic("group")
    member = joined(talk, group)
    for group_id, member_id in (
        (group, "stranger"),
        (talk.topic("none"), "x"),
        ("", "x"),
        (group, member.member_id),
        (group, member.member_id),
    ):
        request = LeaveGroupRequest(group_id=group_id)
        if version >= 3:
            request.members = [MemberIdentity(member_id=member_id)]
        else:
            request.member_id = member_id
        talk.ask(request, version)


@scenario(DescribeGroupsRequest)
def describe_groups(talk: Talk, version: int) -> None:
    group = talk.topic("group")
    joined(talk, group)
    for groups in ([group], [talk.topic("none")], [""], [], [group, group]):
        talk.ask(DescribeGroupsRequest(groups=groups), version)


@scenario(ListGroupsRequest)
def list_groups(talk: Talk, version: int) -> None:
    group = talk.topic("group")
    joined(talk, group)
    filters: list[dict[str, list[str]]] = [{}]
    if version >= 4:
        filters += [{"states_filter": ["Stable"]}, {"states_filter": ["Empty"]}, {"states_filter": ["nonsense"]}]
    if version >= 5:
        filters += [{"types_filter": ["classic"]}, {"types_filter": ["consumer"]}]
    for fields in filters:
        request = ListGroupsRequest()
        for name, value in fields.items():
            setattr(request, name, value)
        answer = talk.ask(request, version, note=False)
        ours = [
            (each.group_id, each.protocol_type, each.group_state, each.group_type)
            for each in answer.groups
            if each.group_id == group
        ]
        talk.answers.append((str(fields), (answer.error_code, ours)))


@scenario(DeleteGroupsRequest)
def delete_groups(talk: Talk, version: int) -> None:
    stable, empty = talk.topic("stable"), talk.topic("empty")
    joined(talk, stable)
    topic = talk.create("t")
    talk.ask(commit(2, empty, topic), 2, note=False)
    for groups in ([stable], [talk.topic("none")], [""], [empty], [empty]):
        talk.ask(DeleteGroupsRequest(groups_names=groups), version)


def commit(
    version: int, group: str, topic: str, offset: int = 5, partition: int = 0, metadata: str | None = ""
) -> OffsetCommitRequest:
    entry = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata=metadata)
    return OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=[entry])])


@scenario(OffsetCommitRequest)
def offset_commit(talk: Talk, version: int) -> None:
    topic, group = talk.create("t", 2), talk.topic("group")
    member = joined(talk, group)

    def ask(request: OffsetCommitRequest, generation: int | None = None, member_id: str = "") -> None:
        if version >= 1 and generation is not None:
            request.generation_id_or_member_epoch, request.member_id = generation, member_id
        talk.ask(request, version)

    ask(commit(version, talk.topic("simple"), topic))
    ask(commit(version, talk.topic("simple"), "no." + topic))
    ask(commit(version, talk.topic("simple"), topic, partition=9))
    ask(commit(version, talk.topic("simple"), topic, metadata="x" * 5000))
    ask(commit(version, talk.topic("simple"), topic, metadata=None))
    ask(commit(version, "", topic))
    ask(commit(version, group, topic))
    ask(commit(version, group, topic), member.generation_id, member.member_id)
    ask(commit(version, group, topic), member.generation_id + 1, member.member_id)
    ask(commit(version, group, topic), member.generation_id, "stranger")
    ask(commit(version, talk.topic("none"), topic), 3, "x")
    ask(OffsetCommitRequest(group_id=talk.topic("simple"), topics=[]))


@scenario(OffsetFetchRequest)
def offset_fetch(talk: Talk, version: int) -> None:
    topic, group = talk.create("t", 2), talk.topic("group")
    talk.ask(commit(2, group, topic, 7, metadata="meta"), 2, note=False)

    def ask(group_id: str, wanted: dict[str, list[int]] | None) -> None:
        request = OffsetFetchRequest()
        if version >= 8:
            entry = OffsetFetchRequestGroup(group_id=group_id)
            entry.topics = (
                None
                if wanted is None
                else [OffsetFetchRequestTopics(name=name, partition_indexes=at) for name, at in wanted.items()]
            )
            request.groups = [entry]
        else:
            request.group_id = group_id
            request.topics = (
                None
                if wanted is None
                else [OffsetFetchRequestTopic(name=name, partition_indexes=at) for name, at in wanted.items()]
            )
        talk.ask(request, version)

    ask(group, {topic: [0, 1, 9]})
    ask(group, {"no." + topic: [0]})
    ask(talk.topic("none"), {topic: [0]})
    ask("", {topic: [0]})
    ask(group, {})
    if version >= 2:
        ask(group, None)
        ask(talk.topic("none"), None)
