"""``twisted-kafka groups``: list and describe groups with their lag, reset and delete offsets, delete groups."""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from twisted_kafka.console.cluster.coordinators import GROUP, ask_coordinator, coordinator_of
from twisted_kafka.console.cluster.offsets import LATEST, POSITIONS, Position, by_topic, offsets_at, parse_position, resolved
from twisted_kafka.console.cluster.problems import CommandError, problem, unknown
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.cluster.texts import counted
from twisted_kafka.protocol.compiler.wire import MalformedMessageError
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.consumer_groups import ConsumerGroupDescribeRequest
from twisted_kafka.protocol.messages.consumer_protocol import ConsumerProtocolAssignment
from twisted_kafka.protocol.messages.groups import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from twisted_kafka.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.timing.clock import SystemClock
from twisted_kafka.tools.admin.arguments import action, several, with_preview
from twisted_kafka.tools.admin.output import JSON, Output

BY_NAME: Final = 9
"""The last version of OffsetFetch and OffsetCommit with topics' names; later ones have ids."""

_BATCHED: Final = 8
"""The first version of OffsetFetch that asks for several groups."""
_WITH_STATE: Final = 4
_WITH_TYPE: Final = 5
_VERSION_BYTES: Final = 2
_DEAD: Final = "Dead"
_CLASSIC: Final = "classic"
_CONSUMER: Final = "consumer"
_SETTLED: Final = ("Empty", "Dead")
_COLUMNS: Final = ("topic", "partition", "offset", "end_offset", "lag", "member", "host")


class Member(NamedTuple):
    """A member of a group, and its partitions."""

    member_id: str
    client_id: str
    host: str
    partitions: list[TopicPartition]


class Group(NamedTuple):
    """A group."""

    group_id: str
    state: str
    type: str
    assignor: str
    members: list[Member]


def add_command(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    commands = parser.add_subparsers(required=True, metavar="ACTION")
    one = action(commands, "list", "list groups", _list)
    one.add_argument("--state", action="append", default=[], metavar="STATE", help="only groups in this state; may be repeated")
    one.add_argument("--type", action="append", default=[], metavar="TYPE", help="only classic, consumer, share or streams groups")
    one = action(commands, "describe", "show committed offsets, lag and members of groups", _describe)
    several(one, "groups", "GROUP", "[default: all]")
    one.add_argument("--members", action="store_true", help="show members with their partitions, not offsets")
    one = action(commands, "reset", "set the offsets of a group without members", _reset)
    one.add_argument("group", metavar="GROUP")
    several(one, "topics", "TOPIC[:PARTITION,...]", "[default: all topics with offsets of the group]")
    where = one.add_mutually_exclusive_group(required=True)
    where.add_argument("--to", metavar="POSITION", help=POSITIONS)
    where.add_argument("--shift", type=int, metavar="N", help="add this number, which may be negative, to each offset")
    with_preview(one)
    one = action(commands, "delete-offsets", "delete the offsets of a group for topics", _delete_offsets)
    one.add_argument("group", metavar="GROUP")
    several(one, "topics", "TOPIC[:PARTITION,...]", least=1)
    with_preview(one)
    one = action(commands, "delete", "delete groups without members, with their offsets", _delete)
    several(one, "groups", "GROUP", least=1)
    with_preview(one)


def _list(options: argparse.Namespace, session: Session, output: Output) -> None:
    groups = _listed(session, options.state, options.type)
    rows = [
        {"group": each.group_id, "type": each.group_type or None, "state": each.group_state or None, "protocol": each.protocol_type}
        for each in groups
    ]
    output.rows(["group", "type", "state", "protocol"], rows)


def _listed(session: Session, states: Sequence[str], types: Sequence[str]) -> list[Any]:
    """Return the groups of all brokers, by id."""
    found = []
    version = session.version(ListGroupsRequest)
    if (states and version < _WITH_STATE) or (types and version < _WITH_TYPE):
        raise CommandError("the broker is too old to select groups by state or type: leave out --state and --type")
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))

    def ask(node: int) -> Any:
        response = session.ask(request, node)
        if response.error_code:
            raise problem("groups", response.error_code)
        return response

    session.metadata([])
    for node in sorted(session.brokers):
        found += session.retrying(lambda node=node: ask(node)).groups  # type: ignore[misc]
    return sorted(found, key=lambda group: group.group_id)


def _described(session: Session, group_id: str) -> Group:
    """Return a group. Raises CommandError if it does not exist."""
    if session.version(ConsumerGroupDescribeRequest) >= 0:
        (found,) = _ask(session, group_id, ConsumerGroupDescribeRequest(group_ids=[group_id])).groups
        if not found.error_code:
            members = [
                Member(
                    each.member_id,
                    each.client_id,
                    each.client_host,
                    [
                        TopicPartition(topic.topic_name, index)
                        for topic in each.assignment.topic_partitions
                        for index in topic.partitions
                    ],
                )
                for each in found.members
            ]
            return Group(group_id, found.group_state, _CONSUMER, found.assignor_name, members)
        if found.error_code not in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
            raise problem(f"group {group_id}", found.error_code, found.error_message)
    (found,) = _ask(session, group_id, DescribeGroupsRequest(groups=[group_id])).groups
    if found.error_code and found.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
        raise problem(f"group {group_id}", found.error_code, found.error_message)
    if found.group_state == _DEAD or found.error_code:
        known = [each.group_id for each in _listed(session, (), ())]
        raise unknown("group", group_id, known, "list the groups with twisted-kafka groups list")
    members = [
        Member(each.member_id, each.client_id, each.client_host, _assigned(each.member_assignment)) for each in found.members
    ]
    return Group(group_id, found.group_state, _CLASSIC, found.protocol_data, members)


def _assigned(data: bytes) -> list[TopicPartition]:
    """Return the partitions in a classic consumer's assignment, none if it has another form."""
    with suppress(MalformedMessageError, ValueError):
        if len(data) > _VERSION_BYTES:
            version = min(int.from_bytes(data[:_VERSION_BYTES], "big"), ConsumerProtocolAssignment.VERSIONS[1])
            assignment = ConsumerProtocolAssignment.decode(data, version, _VERSION_BYTES)
            return [TopicPartition(each.topic, index) for each in assignment.assigned_partitions for index in each.partitions]
    return []


def _ask(session: Session, group_id: str, request: Any) -> Any:
    """Ask the group's coordinator, until it has the group loaded."""

    def step() -> Any:
        response = ask_coordinator(session, group_id, GROUP, request)
        for each in getattr(response, "groups", ()):
            if each.error_code in _NOT_READY:
                raise problem(f"group {group_id}", each.error_code)
        return response

    return session.retrying(step)


_NOT_READY: Final = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)


def _committed(session: Session, group_id: str) -> dict[TopicPartition, int]:
    """Return the committed offsets of a group."""

    def step() -> Any:
        node = coordinator_of(session, group_id, GROUP)
        if session.version(OffsetFetchRequest, node) >= _BATCHED:
            asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)])
            (found,) = session.ask(asked, node, latest=BY_NAME).groups
        else:
            found = session.ask(OffsetFetchRequest(group_id=group_id, topics=None), node)
        if found.error_code:
            raise problem(f"group {group_id}", found.error_code)
        return found

    return {
        TopicPartition(topic.name, each.partition_index): each.committed_offset
        for topic in session.retrying(step).topics
        for each in topic.partitions
        if not each.error_code and each.committed_offset >= 0
    }


def _ends(session: Session, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the end offsets of the partitions that exist and have a leader."""
    wanted = set(partitions)
    if not wanted:
        return {}
    names = {each.topic for each in wanted}
    led = [
        TopicPartition(str(topic.name), each.partition_index)
        for topic in session.retrying(lambda: session.metadata(sorted(names))).topics
        if not topic.error_code
        for each in topic.partitions
        if each.leader_id >= 0
    ]
    return offsets_at(session, wanted & set(led), LATEST)


def _describe(options: argparse.Namespace, session: Session, output: Output) -> None:
    names = options.groups or [each.group_id for each in _listed(session, (), ()) if each.group_type in ("", _CLASSIC, _CONSUMER)]
    for name in names:
        try:
            group = _described(session, name)
            offsets = {} if options.members else _committed(session, name)
            _print_group(group, offsets, {} if options.members else _ends(session, offsets), output, with_members=options.members)
        except CommandError as error:
            output.problem(error)


def _print_group(
    group: Group, offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], output: Output, *, with_members: bool
) -> None:
    rows = _rows(group, offsets, ends)
    lag = sum(row["lag"] or 0 for row in rows)
    members = [
        {
            "member": each.member_id,
            "client": each.client_id,
            "host": each.host,
            "partitions": [str(part) for part in each.partitions],
        }
        for each in group.members
    ]
    if output.form == JSON:
        described = {"group": group.group_id, "type": group.type, "state": group.state, "assignor": group.assignor or None}
        output.json(
            {**described, "members": members} if with_members else {**described, "lag": lag, "offsets": rows, "members": members}
        )
        return
    words = [group.state, f"{group.type} group", counted(len(group.members), "member")]
    if group.assignor:
        words.append(f"assignor {group.assignor}")
    output.done(f"{group.group_id}: {', '.join(words)}" + ("" if with_members else f", lag {lag:,}"))
    if with_members:
        output.rows(["member", "client", "host", "partitions"], members)
    else:
        output.rows(_COLUMNS, rows)


def _rows(group: Group, offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> list[dict[str, Any]]:
    owners = {partition: member for member in group.members for partition in member.partitions}
    rows = []
    for partition in sorted({*offsets, *owners}):
        offset, end, owner = offsets.get(partition), ends.get(partition), owners.get(partition)
        rows.append(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "offset": offset,
                "end_offset": end,
                "lag": None if offset is None or end is None else max(0, end - offset),
                "member": None if owner is None else owner.member_id,
                "host": None if owner is None else owner.host,
            }
        )
    return rows


def _chosen(session: Session, texts: Sequence[str]) -> list[TopicPartition]:
    """Return the partitions of ``topic`` or ``topic:0,2``."""
    chosen = []
    for text in texts:
        name, colon, numbers = text.partition(":")
        (topic,) = session.topics([name])
        if colon and not all(each.isdigit() for each in numbers.split(",")):
            raise ValueError(f"{text}: expected TOPIC or TOPIC:PARTITION,..., as in orders:0,2")
        indexes = [int(each) for each in numbers.split(",")] if colon else [each.partition_index for each in topic.partitions]
        chosen += [TopicPartition(name, index) for index in indexes]
    return sorted(set(chosen))


def _target(
    session: Session, options: argparse.Namespace, chosen: Sequence[TopicPartition], offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return the new offset of each partition."""
    if options.to is not None:
        return resolved(session, chosen, parse_position(options.to, SystemClock().wall_ms()))
    missing = [each for each in chosen if each not in offsets]
    if missing:
        where = f"{missing[0].topic} partition {missing[0].partition}"
        raise CommandError(f"the group has no offset of {where} to count from: use --to")
    found: dict[TopicPartition, int] = {}
    for each in chosen:
        found |= resolved(session, [each], Position(None, max(0, offsets[each] + options.shift)))
    return found


def _reset(options: argparse.Namespace, session: Session, output: Output) -> None:
    offsets = _committed(session, options.group)
    chosen = _chosen(session, options.topics) if options.topics else sorted(offsets)
    if not chosen:
        raise CommandError(f"group {options.group} has no offsets: name the topics to set offsets for")
    target = _target(session, options, chosen, offsets)
    with suppress(CommandError):  # a group that does not exist is made
        group = _described(session, options.group)
        if group.members:
            raise ValueError(
                f"group {options.group} is {group.state} with {counted(len(group.members), 'member')}: stop them first"
            )
    rows = [
        {"topic": each.topic, "partition": each.partition, "offset": offsets.get(each), "new_offset": target[each]}
        for each in chosen
    ]
    summary = f"set {counted(len(chosen), 'offset')} of group {options.group}"
    if not output.confirm(summary, ["topic", "partition", "offset", "new_offset"], rows, only_shows=options.dry_run):
        return
    topics = [
        OffsetCommitRequestTopic(
            name=name,
            partitions=[
                OffsetCommitRequestPartition(partition_index=index, committed_offset=target[TopicPartition(name, index)])
                for index in indexes
            ],
        )
        for name, indexes in by_topic(chosen).items()
    ]
    request = OffsetCommitRequest(group_id=options.group, topics=topics)
    _each_partition(session, options.group, request)
    output.rows(["topic", "partition", "offset", "new_offset"], rows)


def _each_partition(session: Session, group_id: str, request: Any) -> None:
    """Ask the coordinator; raise CommandError for the first partition with an error."""

    def step() -> None:
        response = ask_coordinator(session, group_id, GROUP, request, latest=BY_NAME)
        if getattr(response, "error_code", 0):
            raise problem(f"group {group_id}", response.error_code)
        for topic in response.topics:
            for each in topic.partitions:
                if each.error_code:
                    raise problem(f"group {group_id}, {topic.name} partition {each.partition_index}", each.error_code)

    session.retrying(step)


def _delete_offsets(options: argparse.Namespace, session: Session, output: Output) -> None:
    offsets = _committed(session, options.group)
    wanted = _chosen_of(options.topics, offsets)
    if not wanted:
        raise CommandError(
            f"group {options.group} has no offsets of {', '.join(options.topics)}: twisted-kafka groups describe lists them"
        )
    rows = [{"topic": each.topic, "partition": each.partition, "offset": offsets[each]} for each in wanted]
    summary = f"delete {counted(len(wanted), 'offset')} of group {options.group}"
    if not output.confirm(summary, ["topic", "partition", "offset"], rows, only_shows=options.dry_run):
        return
    topics = [
        OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes])
        for name, indexes in by_topic(wanted).items()
    ]
    _each_partition(session, options.group, OffsetDeleteRequest(group_id=options.group, topics=topics))
    output.done(
        f"deleted {counted(len(wanted), 'offset')} of group {options.group}",
        group=options.group,
        action="deleted",
        offsets=len(wanted),
    )


def _chosen_of(texts: Sequence[str], offsets: Mapping[TopicPartition, int]) -> list[TopicPartition]:
    """Return the partitions with offsets that are in ``topic`` or ``topic:0,2``; their topics may be deleted."""
    chosen = set()
    for text in texts:
        name, colon, numbers = text.partition(":")
        indexes = set(numbers.split(","))
        chosen |= {each for each in offsets if each.topic == name and (not colon or str(each.partition) in indexes)}
    return sorted(chosen)


def _delete(options: argparse.Namespace, session: Session, output: Output) -> None:
    rows = []
    for name in options.groups:
        group = _described(session, name)
        rows.append({"group": name, "state": group.state, "members": len(group.members), "offsets": len(_committed(session, name))})
    offsets = sum(int(str(row["offsets"])) for row in rows)
    summary = f"delete {counted(len(rows), 'group')} ({', '.join(options.groups)}) with {counted(offsets, 'offset')}"
    if not output.confirm(summary, ["group", "state", "members", "offsets"], rows, only_shows=options.dry_run):
        return
    for name in options.groups:
        try:
            session.retrying(_deletion(session, name))
            output.done(f"group {name} was deleted", group=name, action="deleted")
        except CommandError as error:
            output.problem(error)


def _deletion(session: Session, name: str) -> Callable[[], None]:
    def step() -> None:
        (result,) = ask_coordinator(session, name, GROUP, DeleteGroupsRequest(groups_names=[name])).results
        if result.error_code:
            raise problem(f"group {name}", result.error_code, result.error_message)

    return step
