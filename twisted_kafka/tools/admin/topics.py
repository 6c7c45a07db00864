"""``twisted-kafka topics``: list, describe, create, alter and delete topics, and delete their records."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from twisted_kafka.console.actions.topics import deletion
from twisted_kafka.console.cluster.offsets import (
    EARLIEST,
    LATEST,
    POSITIONS,
    by_topic,
    offsets_at,
    parse_position,
    partition_answers,
    resolved,
)
from twisted_kafka.console.cluster.problems import CommandError, problem
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.cluster.texts import counted
from twisted_kafka.protocol.compiler.types import NO_UUID, uuid_text
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.administration.configs import DescribeConfigsRequest, DescribeConfigsResource
from twisted_kafka.protocol.messages.administration.partitions import ElectLeadersRequest, ElectLeadersRequestTopicPartitions
from twisted_kafka.protocol.messages.administration.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
)
from twisted_kafka.protocol.messages.list_offsets import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from twisted_kafka.protocol.messages.metadata import MetadataResponseTopic
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.system.numbers import INT16_MAX
from twisted_kafka.timing.clock import SystemClock
from twisted_kafka.tools.admin.arguments import action, pairs, several, whole, with_preview
from twisted_kafka.tools.admin.output import JSON, Output
from twisted_kafka.tools.admin.reassignments import add_actions

_TOPIC: Final = 2
"""The resource type."""
_SET_BY_ALTER: Final = 1
"""The source of a setting that a topic itself has."""
_PREFERRED: Final = 0
_UNCLEAN: Final = 1


def add_command(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    commands = parser.add_subparsers(required=True, metavar="ACTION")
    one = action(commands, "list", "list topics", _list)
    several(one, "topics", "TOPIC", "a name, or a pattern such as 'orders-*' [default: all]")
    one.add_argument("--internal", action="store_true", help="also list internal topics")
    one = action(commands, "describe", "show partitions, leaders, replicas, offsets and settings of topics", _describe)
    several(one, "topics", "TOPIC", "a name or pattern [default: all]")
    one.add_argument("--under-replicated", action="store_true", help="only partitions with replicas that are not in sync")
    one.add_argument("--no-leader", action="store_true", help="only partitions without a leader")
    one = action(commands, "create", "create topics", _create)
    several(one, "topics", "TOPIC", least=1)
    one.add_argument(
        "-p",
        "--partitions",
        type=whole(-1),
        default=-1,
        metavar="N",
        help="number of partitions [default: the broker's num.partitions]",
    )
    one.add_argument(
        "-r",
        "--replication-factor",
        type=whole(-1, INT16_MAX),
        default=-1,
        metavar="N",
        help="replicas of each partition [default: the broker's default.replication.factor]",
    )
    one.add_argument(
        "-c", "--config", action="append", default=[], metavar="KEY=VALUE", help="a setting of the topics; may be repeated"
    )
    one.add_argument("--if-not-exists", action="store_true", help="do nothing for topics that exist")
    one.add_argument("--dry-run", action="store_true", help="only check whether the topics could be created")
    one = action(commands, "alter", "increase the number of partitions (settings: twisted-kafka configs alter topic)", _alter)
    several(one, "topics", "TOPIC", least=1)
    one.add_argument("-p", "--partitions", type=whole(0), required=True, metavar="N")
    one.add_argument("--dry-run", action="store_true", help="only check whether it could be done")
    one = action(commands, "delete", "delete topics with their records", _delete)
    several(one, "topics", "TOPIC", "a name or pattern", least=1)
    with_preview(one)
    one = action(commands, "delete-records", "delete the oldest records of a topic", _delete_records)
    one.add_argument("topic", metavar="TOPIC")
    one.add_argument("--before", required=True, metavar="POSITION", help=POSITIONS)
    one.add_argument("--partition", type=int, action="append", metavar="N", help="only this partition; may be repeated")
    with_preview(one)
    one = action(commands, "elect-leaders", "give partitions their preferred leaders", _elect)
    several(one, "topics", "TOPIC", "a name or pattern [default: all]")
    one.add_argument("--unclean", action="store_true", help="elect replicas that are not in sync, which loses records")
    with_preview(one)
    add_actions(commands)


def _list(options: argparse.Namespace, session: Session, output: Output) -> None:
    topics = session.topics(options.topics, with_internal=options.internal)
    rows = [
        {
            "topic": topic.name,
            "partitions": len(topic.partitions),
            "replication_factor": max((len(each.replica_nodes) for each in topic.partitions), default=0),
            "internal": topic.is_internal,
        }
        for topic in topics
    ]
    output.rows(["topic", "partitions", "replication_factor"], rows)


def _describe(options: argparse.Namespace, session: Session, output: Output) -> None:
    topics = session.topics(options.topics)
    led = [
        TopicPartition(str(topic.name), each.partition_index)
        for topic in topics
        for each in topic.partitions
        if each.leader_id >= 0
    ]
    starts, ends = offsets_at(session, led, EARLIEST), offsets_at(session, led, LATEST)
    settings = _settings(session, [str(topic.name) for topic in topics])
    for topic in topics:
        rows = []
        for each in sorted(topic.partitions, key=lambda each: each.partition_index):
            if options.under_replicated and len(each.isr_nodes) >= len(each.replica_nodes):
                continue
            if options.no_leader and each.leader_id >= 0:
                continue
            partition = TopicPartition(str(topic.name), each.partition_index)
            rows.append(
                {
                    "topic": topic.name,
                    "partition": each.partition_index,
                    "leader": each.leader_id if each.leader_id >= 0 else None,
                    "replicas": each.replica_nodes,
                    "in_sync": each.isr_nodes,
                    "first_offset": starts.get(partition),
                    "end_offset": ends.get(partition),
                }
            )
        if rows or not (options.under_replicated or options.no_leader):
            _print_topic(topic, rows, settings.get(str(topic.name), {}), output)


def _print_topic(
    topic: MetadataResponseTopic, rows: Sequence[Mapping[str, Any]], settings: Mapping[str, str], output: Output
) -> None:
    if output.form == JSON:
        partitions = [{key: value for key, value in row.items() if key != "topic"} for row in rows]
        output.json({"topic": topic.name, "id": uuid_text(topic.topic_id), "settings": settings, "partitions": partitions})
        return
    words = [
        counted(len(topic.partitions), "partition"),
        *([f"id {uuid_text(topic.topic_id)}"] if topic.topic_id != NO_UUID else []),
        *(f"{key}={settings[key]}" for key in settings),
    ]
    output.done(f"{topic.name}: {', '.join(words)}")
    output.rows(["partition", "leader", "replicas", "in_sync", "first_offset", "end_offset"], rows)


def _settings(session: Session, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the settings that topics have themselves; nothing for topics whose settings the user may not see."""
    if not names:
        return {}
    asked = [DescribeConfigsResource(resource_type=_TOPIC, resource_name=name, configuration_keys=None) for name in names]
    response = session.retrying(lambda: session.ask(DescribeConfigsRequest(resources=asked)))
    return {
        result.resource_name: {each.name: each.value or "" for each in result.configs if each.config_source == _SET_BY_ALTER}
        for result in response.results
        if not result.error_code
    }


def _create(options: argparse.Namespace, session: Session, output: Output) -> None:
    configs = [CreatableTopicConfig(name=key, value=value) for key, value in pairs(options.config, "--config").items()]
    topics = [
        CreatableTopic(name=name, num_partitions=options.partitions, replication_factor=options.replication_factor, configs=configs)
        for name in options.topics
    ]
    left = {topic.name: topic for topic in topics}

    def step() -> None:
        request = CreateTopicsRequest(topics=list(left.values()), timeout_ms=session.timeout_ms, validate_only=options.dry_run)
        again = None
        for result in session.ask_controller(request).topics:
            error = problem(f"topic {result.name}", result.error_code, result.error_message) if result.error_code else None
            if error is not None and type(error) is not CommandError:
                again = error
                continue
            del left[result.name]
            if result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS and options.if_not_exists:
                output.done(f"{result.name} exists already", topic=result.name, action="none")
            elif error is not None:
                if result.error_code == ErrorCode.INVALID_CONFIG:
                    error.args = (f"{error}{_similar_key(configs)}",)
                output.problem(error)
            else:
                _report_created(result, output, is_checked=options.dry_run)
        if again is not None:
            raise again

    session.retrying(step)


def _similar_key(configs: Iterable[CreatableTopicConfig]) -> str:
    """Return which of Kafka's keys the first unknown one looks like, or an empty text if none is unknown."""
    from difflib import get_close_matches

    from twisted_kafka.config.keys import TOPIC_KEYS

    for each in configs:
        if each.name not in TOPIC_KEYS:
            near = get_close_matches(each.name, TOPIC_KEYS, 1)
            return f": did you mean {near[0]!r}?" if near else "; twisted-kafka configs describe topic NAME --all lists the keys"
    return ""


def _report_created(result: Any, output: Output, *, is_checked: bool) -> None:
    known = result.num_partitions >= 0
    shape = f" with {counted(result.num_partitions, 'partition')}, replication factor {result.replication_factor}" if known else ""
    output.done(
        f"{result.name} {'could be' if is_checked else 'was'} created{shape}",
        topic=result.name,
        action="checked" if is_checked else "created",
        partitions=result.num_partitions if known else None,
        replication_factor=result.replication_factor if known else None,
    )


def _alter(options: argparse.Namespace, session: Session, output: Output) -> None:
    found = session.topics(options.topics)
    topics = [CreatePartitionsTopic(name=str(topic.name), count=options.partitions, assignments=None) for topic in found]
    request = CreatePartitionsRequest(topics=topics, timeout_ms=session.timeout_ms, validate_only=options.dry_run)

    def step() -> list[Any]:
        results: list[Any] = session.ask_controller(request).results
        for result in results:
            if result.error_code == ErrorCode.NOT_CONTROLLER:
                raise problem(f"topic {result.name}", result.error_code, result.error_message)
        return results

    for result in session.retrying(step):
        if result.error_code:
            output.problem(problem(f"topic {result.name}", result.error_code, result.error_message))
        else:
            output.done(
                f"{result.name} {'could have' if options.dry_run else 'has'} {counted(options.partitions, 'partition')}",
                topic=result.name,
                action="checked" if options.dry_run else "altered",
                partitions=options.partitions,
            )


def _delete(options: argparse.Namespace, session: Session, output: Output) -> None:
    topics = session.topics(options.topics)
    partitions = [TopicPartition(str(topic.name), each.partition_index) for topic in topics for each in topic.partitions]
    led = [
        TopicPartition(str(topic.name), each.partition_index)
        for topic in topics
        for each in topic.partitions
        if each.leader_id >= 0
    ]
    starts, ends = offsets_at(session, led, EARLIEST), offsets_at(session, led, LATEST)
    rows: list[dict[str, Any]] = []
    for topic in topics:
        mine = [each for each in partitions if each.topic == topic.name]
        offsets = sum(ends.get(each, 0) - starts.get(each, 0) for each in mine)
        rows.append({"topic": topic.name, "partitions": len(mine), "offsets": offsets, "internal": topic.is_internal})
    names = ", ".join(str(topic.name) for topic in topics)
    summary = f"delete {counted(len(topics), 'topic')} ({names}) with {counted(sum(row['offsets'] for row in rows), 'record')}"
    if not output.confirm(summary, ["topic", "partitions", "offsets"], rows, only_shows=options.dry_run):
        return
    left = {str(topic.name) for topic in topics}

    def step() -> None:
        again = None
        for result in session.ask_controller(deletion(session, sorted(left))).responses:
            error = problem(f"topic {result.name}", result.error_code, result.error_message) if result.error_code else None
            if result.error_code == ErrorCode.NOT_CONTROLLER:
                again = error
                continue
            left.discard(result.name)
            if error is not None:
                output.problem(error)
            else:
                output.done(f"{result.name} was deleted", topic=result.name, action="deleted")
        if again is not None:
            raise again

    session.retrying(step)


def _delete_records(options: argparse.Namespace, session: Session, output: Output) -> None:
    position = parse_position(options.before, SystemClock().wall_ms())
    (topic,) = session.topics([options.topic])
    indexes = options.partition or [each.partition_index for each in topic.partitions]
    partitions = [TopicPartition(str(topic.name), index) for index in sorted(indexes)]
    starts, before = offsets_at(session, partitions, EARLIEST), resolved(session, partitions, position)
    changed = [each for each in partitions if before[each] > starts[each]]
    rows = [{"partition": each.partition, "first_offset": starts[each], "new_first_offset": before[each]} for each in changed]
    count = sum(before[each] - starts[each] for each in changed)
    if not changed:
        output.done(f"{topic.name} has no records before {options.before}", topic=topic.name, action="none")
        return
    summary = f"delete {counted(count, 'record')} of {topic.name}"
    if not output.confirm(summary, ["partition", "first_offset", "new_first_offset"], rows, only_shows=options.dry_run):
        return

    def make(mine: Sequence[TopicPartition]) -> DeleteRecordsRequest:
        topics = [
            DeleteRecordsTopic(
                name=name,
                partitions=[
                    DeleteRecordsPartition(partition_index=each, offset=before[TopicPartition(name, each)]) for each in indexes
                ],
            )
            for name, indexes in by_topic(mine).items()
        ]
        return DeleteRecordsRequest(topics=topics, timeout_ms=session.timeout_ms)

    session.ask_leaders(changed, make, partition_answers("topics", "name", "partitions"))
    output.done(f"deleted {counted(count, 'record')} of {topic.name}", topic=topic.name, action="deleted", records=count)


def _elect(options: argparse.Namespace, session: Session, output: Output) -> None:
    partitions = [
        TopicPartition(str(topic.name), each.partition_index)
        for topic in session.topics(options.topics)
        for each in topic.partitions
        if (each.leader_id < 0 if options.unclean else each.replica_nodes[:1] != [each.leader_id])
    ]
    kind = "unclean" if options.unclean else "preferred"
    if not partitions:
        output.done("no partition needs an election", action="none", partitions=0)
        return
    rows = [{"topic": each.topic, "partition": each.partition} for each in partitions]
    summary = f"elect {kind} leaders of {counted(len(partitions), 'partition')}"
    if not output.confirm(summary, ["topic", "partition"], rows, only_shows=options.dry_run):
        return
    asked = [ElectLeadersRequestTopicPartitions(topic=name, partitions=indexes) for name, indexes in by_topic(partitions).items()]
    request = ElectLeadersRequest(
        election_type=_UNCLEAN if options.unclean else _PREFERRED, topic_partitions=asked, timeout_ms=session.timeout_ms
    )
    response = session.retrying(lambda: session.ask_controller(request))
    if response.error_code:
        raise problem("the election", response.error_code)
    for topic in response.replica_election_results:
        for each in topic.partition_result:
            if each.error_code:
                output.problem(problem(f"{topic.topic} partition {each.partition_id}", each.error_code, each.error_message))
            else:
                output.done(
                    f"{topic.topic} partition {each.partition_id} has its {kind} leader",
                    topic=topic.topic,
                    partition=each.partition_id,
                    action="elected",
                )
