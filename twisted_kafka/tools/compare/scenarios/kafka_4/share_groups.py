"""ShareGroupHeartbeat and ShareGroupDescribe: members, epochs, and groups of other kinds (KIP-932)."""

from typing import Any

from twisted_kafka.group_coordinator.state.share.share_group_records import KINDS
from twisted_kafka.protocol.messages.coordinators.consumer_groups import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from twisted_kafka.protocol.messages.coordinators.groups import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from twisted_kafka.protocol.messages.share.share_groups import ShareGroupDescribeRequest, ShareGroupHeartbeatRequest
from twisted_kafka.protocol.topic_partition import GROUP_METADATA_TOPIC
from twisted_kafka.tools.compare.answers import plain
from twisted_kafka.tools.compare.scenarios.coordinators.groups import joined
from twisted_kafka.tools.compare.scenarios.kafka_4.share_members import LEAVE, ShareMember, groups_of_other_kinds, newer, topic_of
from twisted_kafka.tools.compare.scenarios.kafka_4.written_records import written_records
from twisted_kafka.tools.compare.talk import Talk


def described(talk: Talk, version: int, *groups: str, with_operations: bool = False) -> None:
    """Note the description of groups, the members by id."""
    request = ShareGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=with_operations)
    answer = talk.ask(request, version, note=False)
    for group in answer.groups:
        group.members.sort(key=lambda member: member.member_id)
        for member in group.members:
            member.subscribed_topic_names.sort()
            for topic in member.assignment.topic_partitions:
                topic.partitions.sort()
    talk.answers.append((f"ShareGroupDescribeRequest v{version}", plain(answer)))


def settled(member: ShareMember, **fields: Any) -> None:
    """Send a heartbeat and note its error only: whether the assignment comes now or later is each broker's own."""
    answer = member.beat(note=False, **fields)
    member.talk.answers.append(("heartbeat", {"error_code": answer.error_code, "interval_ms": answer.heartbeat_interval_ms}))


@newer(ShareGroupHeartbeatRequest, since=1)
def share_heartbeats(talk: Talk, version: int) -> None:
    """A member joins, keeps quiet, changes its subscription, leaves, and joins again."""
    topic_of(talk, "t", 2)
    topic_of(talk, "u")
    member = ShareMember(talk, talk.topic("group")).join()
    member.beat(version=version, note=True)
    settled(member, subscribed_topic_names=[talk.topic("t"), talk.topic("u")])
    described(talk, 1, member.group)
    settled(member, subscribed_topic_names=[talk.topic("missing")])
    settled(member, subscribed_topic_names=[])
    described(talk, 1, member.group)
    member.beat(LEAVE, version=version, note=True)
    member.beat(LEAVE, version=version, note=True)
    described(talk, 1, member.group)
    settled(member, epoch=0, subscribed_topic_names=[talk.topic("t")])


@newer(ShareGroupHeartbeatRequest, since=1)
def share_heartbeats_bad(talk: Talk, version: int) -> None:
    """Unknown members, epochs of the past and of the future, and requests that lack something."""
    topic_of(talk)
    topic = talk.topic("t")
    member = ShareMember(talk, talk.topic("group")).join()
    for epoch in (member.epoch + 1, member.epoch + 100, 2**31 - 1, -2, -3):
        member.beat(epoch, version=version, note=True)
    stranger = ShareMember(talk, member.group, member_id="s")
    for epoch in (1, 5, LEAVE, -2):
        stranger.beat(epoch, version=version, note=True)
    stranger.beat(0, version=version, note=True)
    for epoch in (0, 1, LEAVE):
        names = [topic] if epoch == 0 else None
        nobody = ShareMember(talk, talk.topic("none"), member_id="n")
        if epoch:
            nobody.beat(epoch, version=version, note=True, subscribed_topic_names=names)
        for fields in ({"group_id": ""}, {"group_id": "  "}, {"member_id": ""}, {"rack_id": ""}):
            nobody.beat(epoch, version=version, note=True, subscribed_topic_names=names, **fields)
    member.beat(version=version, note=True)


@newer(ShareGroupHeartbeatRequest, since=1)
def share_heartbeats_with_past_epochs(talk: Talk, version: int) -> None:
    """A member that repeats its last epoch is answered, an older one is fenced."""
    topic_of(talk)
    topic_of(talk, "u")
    member = ShareMember(talk, talk.topic("group")).join()
    first = member.epoch
    for names in (["t", "u"], ["u"], ["t"]):
        settled(member, subscribed_topic_names=[talk.topic(name) for name in names])
    for epoch in (first, member.epoch - 1):
        answer = member.beat(epoch)
        talk.answers.append(("past epoch", answer.error_code))


@newer(ShareGroupHeartbeatRequest, since=1)
def share_heartbeats_in_groups_of_other_kinds(talk: Talk, version: int) -> None:
    """Members of share groups in classic and consumer groups, and members of those in a share group."""
    topic_of(talk)
    for kind, group in groups_of_other_kinds(talk).items():
        if kind in ("classic", "consumer"):
            for epoch in (0, 1, LEAVE):
                names = [talk.topic("t")] if epoch == 0 else None
                ShareMember(talk, group).beat(epoch, version=version, note=True, subscribed_topic_names=names)
    member = ShareMember(talk, talk.topic("group")).join()
    for epoch in (0, 1):
        request = ConsumerGroupHeartbeatRequest(
            group_id=member.group,
            member_id="m" * 22,
            member_epoch=epoch,
            rebalance_timeout_ms=60_000 if epoch == 0 else -1,
            subscribed_topic_names=[talk.topic("t")],
            topic_partitions=[] if epoch == 0 else None,
        )
        talk.ask(request, 1)
    talk.ask(ConsumerGroupDescribeRequest(group_ids=[member.group]), 1)
    talk.ask(DescribeGroupsRequest(groups=[member.group]), 6)
    talk.ask(DeleteGroupsRequest(groups_names=[member.group]), 2)
    member.leave()
    listed(talk, member.group)
    talk.ask(DeleteGroupsRequest(groups_names=[member.group]), 2)
    listed(talk, member.group)
    joined(talk, member.group)
    described(talk, 1, member.group)


def listed(talk: Talk, group: str) -> None:
    """Note how ListGroups shows a group, by type and by state."""
    choices: tuple[dict[str, Any], ...] = (
        {},
        {"types_filter": ["share"]},
        {"types_filter": ["consumer"]},
        {"states_filter": ["Empty"]},
    )
    for filters in choices:
        answer = talk.ask(ListGroupsRequest(**filters), 5, note=False)
        found = [plain(each) for each in answer.groups if each.group_id == group]
        talk.answers.append(("ListGroupsRequest v5", {"error_code": answer.error_code, "found": found}))


@newer(ShareGroupDescribeRequest, since=1)
def share_group_describe(talk: Talk, version: int) -> None:
    """Groups with members, without members, of other kinds, and none."""
    topic_of(talk, "t", 3)
    one = ShareMember(talk, talk.topic("group")).join()
    described(talk, version, one.group)
    for group in groups_of_other_kinds(talk).values():
        described(talk, version, group)
    described(talk, version)
    described(talk, version, talk.topic("missing"), with_operations=True)
    one.leave()
    described(talk, version, one.group)


@newer(ShareGroupHeartbeatRequest, since=1)
def share_group_records(talk: Talk, version: int) -> None:
    """The different records of a group with two members, without members, and after it is deleted."""
    topic_of(talk, "t")
    one = ShareMember(talk, talk.topic("group")).join()
    two = ShareMember(talk, one.group, member_id="b").join()
    one.beat(version=version)
    _stored(talk, one.group)
    for member in (two, one):
        member.leave()
    _stored(talk, one.group)
    talk.ask(DeleteGroupsRequest(groups_names=[one.group]), 2)
    _stored(talk, one.group)


def _stored(talk: Talk, group: str) -> None:
    """Note the different records, without epochs: how many an assignment takes is each broker's own."""
    found = [
        (kind, key, None if value is None else {field: each for field, each in value.items() if "epoch" not in field})
        for kind, key, value in written_records(talk, GROUP_METADATA_TOPIC, KINDS, group)
    ]
    talk.answers.extend(("record", each) for _, each in sorted({repr(each): each for each in found}.items()))
