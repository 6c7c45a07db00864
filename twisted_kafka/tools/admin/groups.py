"""``twisted-kafka groups``: list and describe groups with their lag, reset and delete offsets, delete groups."""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, Final

from twisted_kafka.console.actions.offsets import ResetOffsets, delete_group, each_partition
from twisted_kafka.console.cluster.groups import CLASSIC, CONSUMER, Group, committed, described, ends, listed
from twisted_kafka.console.cluster.offsets import POSITIONS, by_topic
from twisted_kafka.console.cluster.problems import CommandError
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.cluster.texts import counted
from twisted_kafka.protocol.messages.coordinators.offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.tools.admin.arguments import action, several, with_preview
from twisted_kafka.tools.admin.output import JSON, Output

_SETTLED: Final = ("Empty", "Dead")
_COLUMNS: Final = ("topic", "partition", "offset", "end_offset", "lag", "member", "host")


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
    groups = listed(session, options.state, options.type)
    rows = [
        {"group": each.group_id, "type": each.group_type or None, "state": each.group_state or None, "protocol": each.protocol_type}
        for each in groups
    ]
    output.rows(["group", "type", "state", "protocol"], rows)


def _describe(options: argparse.Namespace, session: Session, output: Output) -> None:
    names = options.groups or [each.group_id for each in listed(session, (), ()) if each.group_type in ("", CLASSIC, CONSUMER)]
    for name in names:
        try:
            group = described(session, name)
            offsets = {} if options.members else committed(session, name)
            _print_group(group, offsets, {} if options.members else ends(session, offsets), output, with_members=options.members)
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


def _reset(options: argparse.Namespace, session: Session, output: Output) -> None:
    action = ResetOffsets(options.group, tuple(options.topics), options.to or "", options.shift)
    changes = action.changes(session)
    rows = [
        {
            "topic": each.partition.topic,
            "partition": each.partition.partition,
            "offset": each.offset,
            "new_offset": each.new_offset,
        }
        for each in changes
    ]
    summary = f"set {counted(len(rows), 'offset')} of group {options.group}"
    if not output.confirm(summary, ["topic", "partition", "offset", "new_offset"], rows, only_shows=options.dry_run):
        return
    action.set(session, changes)
    output.rows(["topic", "partition", "offset", "new_offset"], rows)


def _delete_offsets(options: argparse.Namespace, session: Session, output: Output) -> None:
    offsets = committed(session, options.group)
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
    each_partition(session, options.group, OffsetDeleteRequest(group_id=options.group, topics=topics))
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
        group = described(session, name)
        rows.append({"group": name, "state": group.state, "members": len(group.members), "offsets": len(committed(session, name))})
    offsets = sum(int(str(row["offsets"])) for row in rows)
    summary = f"delete {counted(len(rows), 'group')} ({', '.join(options.groups)}) with {counted(offsets, 'offset')}"
    if not output.confirm(summary, ["group", "state", "members", "offsets"], rows, only_shows=options.dry_run):
        return
    for name in options.groups:
        try:
            delete_group(session, name)
            output.done(f"group {name} was deleted", group=name, action="deleted")
        except CommandError as error:
            output.problem(error)
