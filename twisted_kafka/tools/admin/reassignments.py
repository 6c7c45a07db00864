"""``twisted-kafka topics reassign`` and ``reassignments``: moves the replicas of partitions to other brokers."""

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from twisted_kafka.console.cluster.offsets import by_topic
from twisted_kafka.console.cluster.problems import CommandError, problem
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.cluster.texts import counted
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.administration.partitions import (
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.tools.admin.arguments import action, several, whole, with_preview
from twisted_kafka.tools.admin.output import Output

LOOK_S: Final = 0.5
"""The pause between two looks at running reassignments."""

_COLUMNS: Final = ("topic", "partition", "replicas", "new_replicas")


def add_actions(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the actions to ``topics``."""
    one = action(commands, "reassign", "spread replicas evenly over brokers, with as few moves as possible", _reassign)
    several(one, "topics", "TOPIC", "a name or pattern [default: all, internal ones too]")
    one.add_argument("--brokers", required=True, metavar="ID,...", help="the brokers that get the replicas")
    one.add_argument("-r", "--replication-factor", type=whole(1), metavar="N", help="[default: as many replicas as now]")
    one.add_argument("--wait", action="store_true", help="wait until the replicas are in sync")
    with_preview(one)
    one = action(commands, "reassignments", "list the reassignments that are running, or cancel them", _list)
    several(one, "topics", "TOPIC", "a name or pattern [default: all]")
    one.add_argument("--cancel", action="store_true", help="go back to the old replicas")
    with_preview(one)


def planned(
    replicas: Mapping[TopicPartition, Sequence[int]], brokers: Sequence[int], factor: int | None
) -> dict[TopicPartition, list[int]]:
    """Return new replicas of each partition on these brokers, which get equal numbers of them, and move as few as possible.

    ``factor``: the number of replicas of each partition, None for as many as now.
    """
    plan: dict[TopicPartition, list[int]] = {}
    load = Counter(dict.fromkeys(brokers, 0))
    for each in sorted(replicas):
        wanted = len(replicas[each]) if factor is None else factor
        plan[each] = [broker for broker in replicas[each] if broker in load][:wanted]
        load.update(plan[each])
    for each, mine in plan.items():
        for _ in range((len(replicas[each]) if factor is None else factor) - len(mine)):
            mine.append(min((broker for broker in brokers if broker not in mine), key=lambda broker: (load[broker], broker)))
            load[mine[-1]] += 1
    while _moves_one(plan, load):
        pass
    return plan


def _moves_one(plan: dict[TopicPartition, list[int]], load: Counter[int]) -> bool:
    """Move a replica from a broker to one that has at least two fewer; return whether there was one."""
    by_load = sorted(load, key=lambda broker: (load[broker], broker))
    for least in by_load:
        for most in reversed(by_load):
            if load[most] - load[least] < 2:
                break
            for mine in plan.values():
                if most in mine and least not in mine:
                    mine[mine.index(most)] = least
                    load[most] -= 1
                    load[least] += 1
                    return True
    return False


def _brokers(session: Session, text: str) -> list[int]:
    try:
        brokers = sorted({int(each) for each in text.split(",")})
    except ValueError:
        raise ValueError(f"--brokers {text}: expected ids, as in --brokers 1,2,3") from None
    session.retrying(lambda: session.metadata([]))
    missing = [broker for broker in brokers if broker not in session.brokers]
    if missing:
        known = ", ".join(map(str, sorted(session.brokers)))
        raise CommandError(f"there is no broker {missing[0]}: the cluster has {known}")
    return brokers


def _reassign(options: argparse.Namespace, session: Session, output: Output) -> None:
    brokers = _brokers(session, options.brokers)
    topics = session.topics(options.topics)
    now = {
        TopicPartition(str(topic.name), each.partition_index): each.replica_nodes for topic in topics for each in topic.partitions
    }
    most = options.replication_factor or max((len(each) for each in now.values()), default=0)
    if most > len(brokers):
        raise CommandError(
            f"{counted(most, 'replica')} need as many brokers: name more in --brokers, or lower --replication-factor"
        )
    plan = planned(now, brokers, options.replication_factor)
    changed = [each for each in sorted(plan) if plan[each] != list(now[each])]
    if not changed:
        output.done("all replicas are on these brokers", action="none", partitions=0)
        return
    rows = [
        {"topic": each.topic, "partition": each.partition, "replicas": list(now[each]), "new_replicas": plan[each]}
        for each in changed
    ]
    if not output.confirm(f"move replicas of {counted(len(changed), 'partition')}", _COLUMNS, rows, only_shows=options.dry_run):
        return
    _alter(session, {each: plan[each] for each in changed})
    output.rows(_COLUMNS, rows)
    while options.wait and _running(session, set(changed)):
        session.pause(LOOK_S)


def _alter(session: Session, replicas: Mapping[TopicPartition, list[int] | None]) -> None:
    """Start reassignments; None for the replicas cancels one. Raises CommandError."""
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=session.timeout_ms,
        topics=[
            ReassignableTopic(
                name=name,
                partitions=[
                    ReassignablePartition(partition_index=index, replicas=replicas[TopicPartition(name, index)])
                    for index in indexes
                ],
            )
            for name, indexes in by_topic(replicas).items()
        ],
    )

    def step() -> None:
        response = session.ask_controller(request)
        if response.error_code:
            raise problem("the reassignment", response.error_code, response.error_message)
        for topic in response.responses:
            for each in topic.partitions:
                if each.error_code and each.error_code != ErrorCode.NO_REASSIGNMENT_IN_PROGRESS:
                    raise problem(f"{topic.name} partition {each.partition_index}", each.error_code, each.error_message)

    session.retrying(step)


def _running(session: Session, partitions: set[TopicPartition] | None) -> list[dict[str, Any]]:
    def step() -> Any:
        response = session.ask_controller(ListPartitionReassignmentsRequest(timeout_ms=session.timeout_ms, topics=None))
        if response.error_code:
            raise problem("reassignments", response.error_code, response.error_message)
        return response

    return [
        {
            "topic": topic.name,
            "partition": each.partition_index,
            "replicas": each.replicas,
            "adding": each.adding_replicas,
            "removing": each.removing_replicas,
        }
        for topic in session.retrying(step).topics
        for each in topic.partitions
        if partitions is None or TopicPartition(topic.name, each.partition_index) in partitions
    ]


def _list(options: argparse.Namespace, session: Session, output: Output) -> None:
    wanted = None
    if options.topics:
        topics = session.topics(options.topics)
        wanted = {TopicPartition(str(topic.name), each.partition_index) for topic in topics for each in topic.partitions}
    rows = _running(session, wanted)
    columns = ("topic", "partition", "replicas", "adding", "removing")
    if not options.cancel:
        output.rows(columns, rows)
        return
    if not rows:
        output.done("no reassignment is running", action="none", partitions=0)
        return
    if output.confirm(f"cancel {counted(len(rows), 'reassignment')}", columns, rows, only_shows=options.dry_run):
        _alter(session, {TopicPartition(row["topic"], row["partition"]): None for row in rows})
        output.done(f"canceled {counted(len(rows), 'reassignment')}", action="canceled", partitions=len(rows))
