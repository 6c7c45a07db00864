"""``twisted-kafka logs``: show brokers' log directories and the replicas in them, and move replicas between them."""

import argparse
from typing import Any, Final

from twisted_kafka.console.cluster.problems import CommandError, problem
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.cluster.texts import counted, size_text
from twisted_kafka.protocol.messages.administration.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from twisted_kafka.tools.admin.arguments import action, several, with_preview
from twisted_kafka.tools.admin.output import JSON, Output

_FUTURE: Final = "future"


def add_command(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    commands = parser.add_subparsers(required=True, metavar="ACTION")
    one = action(commands, "list", "list log directories with their sizes", _list)
    _add_broker(one)
    one = action(commands, "describe", "show the replicas in log directories, with size and lag", _describe)
    several(one, "topics", "TOPIC", "a name or pattern [default: all]")
    _add_broker(one)
    one = action(commands, "move", "move replicas of a topic to another log directory of the same broker", _move)
    one.add_argument("topic", metavar="TOPIC")
    one.add_argument("--to", required=True, metavar="DIR", help="the other directory")
    one.add_argument("--broker", type=int, required=True, metavar="ID")
    one.add_argument("-p", "--partition", type=int, action="append", metavar="N", help="only this partition; may be repeated")
    with_preview(one)


def _add_broker(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--broker", type=int, action="append", metavar="ID", help="only this broker; may be repeated")


def _found(session: Session, options: argparse.Namespace, topics: list[DescribableLogDirTopic] | None) -> dict[int, list[Any]]:
    """Return the directories by broker."""
    session.retrying(lambda: session.metadata([]))
    brokers = options.broker or sorted(session.brokers)
    found = {}
    for node in [brokers] if isinstance(brokers, int) else brokers:
        response = session.retrying(lambda node=node: session.ask(DescribeLogDirsRequest(topics=topics), node))  # type: ignore[misc]
        if response.error_code:
            raise problem(f"broker {node}", response.error_code)
        found[node] = response.results
    return found


def _list(options: argparse.Namespace, session: Session, output: Output) -> None:
    rows: list[dict[str, Any]] = []
    for node, directories in _found(session, options, None).items():
        for each in directories:
            replicas = [partition for topic in each.topics for partition in topic.partitions]
            rows.append(
                {
                    "broker": node,
                    "directory": each.log_dir,
                    "replicas": len(replicas),
                    "bytes": sum(partition.partition_size for partition in replicas),
                    "total_bytes": each.total_bytes if each.total_bytes >= 0 else None,
                    "usable_bytes": each.usable_bytes if each.usable_bytes >= 0 else None,
                    "error": str(problem("", each.error_code)).lstrip(": ") if each.error_code else None,
                }
            )
    if output.form != JSON:
        for row in rows:
            row |= {
                column: None if row[f"{name}bytes"] is None else size_text(row[f"{name}bytes"])
                for column, name in (("size", ""), ("disk", "total_"), ("free", "usable_"))
            }
    output.rows(["broker", "directory", "replicas", "size", "disk", "free", "error"], rows)


def _describe(options: argparse.Namespace, session: Session, output: Output) -> None:
    topics = None
    if options.topics:
        topics = [
            DescribableLogDirTopic(topic=str(topic.name), partitions=[each.partition_index for each in topic.partitions])
            for topic in session.topics(options.topics)
        ]
    rows = [
        {
            "broker": node,
            "directory": directory.log_dir,
            "topic": topic.name,
            "partition": each.partition_index,
            "bytes": each.partition_size,
            "lag": each.offset_lag,
            _FUTURE: each.is_future_key,
        }
        for node, directories in _found(session, options, topics).items()
        for directory in directories
        for topic in directory.topics
        for each in topic.partitions
    ]
    rows.sort(key=lambda row: (row["topic"], row["partition"], row["broker"]))
    output.rows(["topic", "partition", "broker", "directory", "bytes", "lag", _FUTURE], rows)


def _move(options: argparse.Namespace, session: Session, output: Output) -> None:
    (topic,) = session.topics([options.topic])
    indexes = options.partition or [each.partition_index for each in topic.partitions]
    asked = [DescribableLogDirTopic(topic=options.topic, partitions=indexes)]
    directories = _found(session, options, asked)[options.broker]
    if options.to not in [each.log_dir for each in directories]:
        known = ", ".join(each.log_dir for each in directories)
        raise CommandError(f"broker {options.broker} has no log directory {options.to!r}: it has {known}")
    rows = [
        {
            "topic": options.topic,
            "partition": each.partition_index,
            "from": directory.log_dir,
            "to": options.to,
            "bytes": each.partition_size,
        }
        for directory in directories
        if directory.log_dir != options.to
        for found in directory.topics
        for each in found.partitions
    ]
    if not rows:
        output.done(
            f"{options.topic} has no replica on broker {options.broker} that is elsewhere", action="none", topic=options.topic
        )
        return
    summary = (
        f"move {counted(len(rows), 'replica')} of {options.topic} ({size_text(sum(row['bytes'] for row in rows))}) to {options.to}"
    )
    if not output.confirm(summary, ["topic", "partition", "from", "to", "bytes"], rows, only_shows=options.dry_run):
        return
    moved = AlterReplicaLogDirTopic(name=options.topic, partitions=[row["partition"] for row in rows])
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=options.to, topics=[moved])])
    for result in session.retrying(lambda: session.ask(request, options.broker)).results:
        for each in result.partitions:
            if each.error_code:
                output.problem(problem(f"{options.topic} partition {each.partition_index}", each.error_code))
            else:
                output.done(
                    f"{options.topic} partition {each.partition_index} moves to {options.to}: see logs describe",
                    topic=options.topic,
                    partition=each.partition_index,
                    action="moving",
                    to=options.to,
                )
