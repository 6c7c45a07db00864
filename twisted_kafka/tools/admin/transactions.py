"""``twisted-kafka transactions``: list and describe transactions and producers, find and abort hanging ones."""

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from twisted_kafka.console.actions.transactions import AbortTransaction
from twisted_kafka.console.cluster.offsets import time_text
from twisted_kafka.console.cluster.problems import CommandError
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.queries.transactions import OLD_MINUTES, ProducerState, hanging, listed, producers, transaction
from twisted_kafka.protocol.messages.coordinators.transaction_admin import (
    ListTransactionsRequest,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.system.numbers import INT64_MAX
from twisted_kafka.tools.admin.arguments import action, age, several, whole, with_preview
from twisted_kafka.tools.admin.output import JSON, Output

_WITH_DURATION: Final = 1
_PRODUCERS: Final = ("topic", "partition", "producer_id", "epoch", "last_sequence", "last_time", "start_offset")


def add_command(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    commands = parser.add_subparsers(required=True, metavar="ACTION")
    one = action(commands, "list", "list transactional ids with their states", _list)
    one.add_argument(
        "--state", action="append", default=[], metavar="STATE", help="only in this state, Ongoing for example; may be repeated"
    )
    one.add_argument(
        "--producer-id",
        type=whole(0, INT64_MAX),
        action="append",
        default=[],
        metavar="ID",
        help="only this one; may be repeated",
    )
    one.add_argument("--older-than", type=age, metavar="SECONDS", help="only open transactions that have taken longer")
    one = action(commands, "describe", "show the state and the partitions of transactions", _describe)
    several(one, "ids", "TRANSACTIONAL_ID", least=1)
    one = action(commands, "producers", "show the producers of topics, with the start of their open transactions", _producers)
    several(one, "topics", "TOPIC", "a name or pattern", least=1)
    one.add_argument("--open", action="store_true", help="only producers with an open transaction")
    one = action(commands, "find-hanging", "find open transactions that no coordinator will end", _find_hanging)
    several(one, "topics", "TOPIC", "a name or pattern [default: all]")
    one.add_argument(
        "--older-than",
        type=age,
        default=OLD_MINUTES,
        metavar="MINUTES",
        help="only transactions without a record for longer [default: %(default)g]",
    )
    one = action(commands, "abort", "abort a hanging transaction of a partition", _abort)
    one.add_argument("topic", metavar="TOPIC")
    one.add_argument("partition", type=int, metavar="PARTITION")
    one.add_argument(
        "--start-offset",
        type=int,
        required=True,
        metavar="N",
        help="the transaction's first offset, which find-hanging and producers show",
    )
    with_preview(one)


def _list(options: argparse.Namespace, session: Session, output: Output) -> None:
    request = ListTransactionsRequest(state_filters=options.state, producer_id_filters=options.producer_id)
    if options.older_than is not None:
        if session.version(ListTransactionsRequest) < _WITH_DURATION:
            raise CommandError("the broker cannot select transactions by age: leave out --older-than")
        request.duration_filter = int(options.older_than * 1000)
    rows = [asdict(each) for each in listed(session, request)]
    output.rows(["transactional_id", "state", "producer_id", "coordinator"], rows)


def _describe(options: argparse.Namespace, session: Session, output: Output) -> None:
    for name in options.ids:
        try:
            found = transaction(session, name)
        except CommandError as error:
            output.problem(error)
            continue
        partitions = [{"topic": each.topic, "partition": each.partition} for each in found.partitions]
        described = {
            "transactional_id": name,
            "state": found.state,
            "producer_id": found.producer_id,
            "producer_epoch": found.producer_epoch,
            "timeout_ms": found.timeout_ms,
            "started": time_text(found.started_ms),
        }
        if output.form == JSON:
            output.json({**described, "partitions": partitions})
            continue
        since = f", open since {described['started']}" if described["started"] else ""
        producer = f"producer {found.producer_id} epoch {found.producer_epoch}"
        output.done(f"{name}: {found.state}, {producer}, timeout {found.timeout_ms} ms{since}")
        if partitions:
            output.rows(["topic", "partition"], partitions)


def _row(state: ProducerState) -> dict[str, Any]:
    return {
        "topic": state.topic,
        "partition": state.partition,
        "producer_id": state.producer_id,
        "epoch": state.epoch,
        "last_sequence": state.last_sequence,
        "last_time": time_text(state.last_timestamp_ms),
        "last_timestamp": state.last_timestamp_ms,
        "coordinator_epoch": state.coordinator_epoch,
        "start_offset": state.start_offset,
    }


def _partitions(session: Session, names: Sequence[str]) -> list[TopicPartition]:
    return [TopicPartition(str(topic.name), each.partition_index) for topic in session.topics(names) for each in topic.partitions]


def _producers(options: argparse.Namespace, session: Session, output: Output) -> None:
    found = producers(session, _partitions(session, options.topics))
    output.rows(_PRODUCERS, [_row(each) for each in found if not options.open or each.start_offset is not None])


def _find_hanging(options: argparse.Namespace, session: Session, output: Output) -> None:
    before_ms = session.wall_ms() - options.older_than * 60_000
    found = hanging(session, options.topics, before_ms)
    if found.items or output.form == JSON:
        output.rows(_PRODUCERS, [_row(each) for each in found.items])
    else:
        output.done("no transaction hangs")
    if found.stopped:
        raise CommandError(f"the search ended {found.stopped}: name the topics")


def _abort(options: argparse.Namespace, session: Session, output: Output) -> None:
    action = AbortTransaction(options.topic, options.partition, options.start_offset)
    state = action.state(session)
    if output.confirm(action.summary(state), _PRODUCERS, [_row(state)], only_shows=options.dry_run):
        output.done(action.do(session), action="aborted", **_row(state))
