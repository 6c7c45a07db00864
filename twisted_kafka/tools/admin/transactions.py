"""``twisted-kafka transactions``: list and describe transactions and producers, find and abort hanging ones."""

import argparse
from collections.abc import Sequence
from typing import Any, Final

from twisted_kafka.console.cluster.coordinators import TRANSACTION, ask_coordinator
from twisted_kafka.console.cluster.offsets import by_topic, partition_answers, time_text
from twisted_kafka.console.cluster.problems import CommandError, problem, unknown
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.transaction_admin import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
    TopicRequest,
)
from twisted_kafka.protocol.messages.transactions import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.timing.clock import SystemClock
from twisted_kafka.tools.admin.arguments import action, several, with_preview
from twisted_kafka.tools.admin.output import JSON, Output

OLD_MINUTES: Final = 20.0
"""Kafka's longest transaction (transaction.max.timeout.ms) is 15 minutes by default; brokers may abort 5 minutes later."""

_WITH_DURATION: Final = 1
_MARKER_VERSION: Final = 1
_PRODUCERS: Final = ("topic", "partition", "producer_id", "epoch", "last_sequence", "last_time", "start_offset")


def add_command(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    commands = parser.add_subparsers(required=True, metavar="ACTION")
    one = action(commands, "list", "list transactional ids with their states", _list)
    one.add_argument(
        "--state", action="append", default=[], metavar="STATE", help="only in this state, Ongoing for example; may be repeated"
    )
    one.add_argument(
        "--producer-id", type=int, action="append", default=[], metavar="ID", help="only this producer; may be repeated"
    )
    one.add_argument("--older-than", type=float, metavar="SECONDS", help="only open transactions that have taken longer")
    one = action(commands, "describe", "show the state and the partitions of transactions", _describe)
    several(one, "ids", "TRANSACTIONAL_ID", least=1)
    one = action(commands, "producers", "show the producers of topics, with the start of their open transactions", _producers)
    several(one, "topics", "TOPIC", "a name or pattern", least=1)
    one.add_argument("--open", action="store_true", help="only producers with an open transaction")
    one = action(commands, "find-hanging", "find open transactions that no coordinator will end", _find_hanging)
    several(one, "topics", "TOPIC", "a name or pattern [default: all]")
    one.add_argument(
        "--older-than",
        type=float,
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


def _listed(session: Session, request: ListTransactionsRequest) -> list[dict[str, Any]]:
    rows = []

    def ask(node: int) -> Any:
        response = session.ask(request, node)
        if response.error_code:
            raise problem("transactions", response.error_code)
        return response

    session.retrying(lambda: session.metadata([]))
    for node in sorted(session.brokers):
        response = session.retrying(lambda node=node: ask(node))  # type: ignore[misc]
        if response.unknown_state_filters:
            raise ValueError(f"unknown state {response.unknown_state_filters[0]!r}: Ongoing, PrepareCommit, CompleteAbort are some")
        rows += [
            {
                "transactional_id": each.transactional_id,
                "state": each.transaction_state,
                "producer_id": each.producer_id,
                "coordinator": node,
            }
            for each in response.transaction_states
        ]
    return sorted(rows, key=lambda row: str(row["transactional_id"]))


def _list(options: argparse.Namespace, session: Session, output: Output) -> None:
    request = ListTransactionsRequest(state_filters=options.state, producer_id_filters=options.producer_id)
    if options.older_than is not None:
        if session.version(ListTransactionsRequest) < _WITH_DURATION:
            raise CommandError("the broker cannot select transactions by age: leave out --older-than")
        request.duration_filter = int(options.older_than * 1000)
    output.rows(["transactional_id", "state", "producer_id", "coordinator"], _listed(session, request))


def _described(session: Session, name: str) -> Any:
    def step() -> Any:
        (found,) = ask_coordinator(
            session, name, TRANSACTION, DescribeTransactionsRequest(transactional_ids=[name])
        ).transaction_states
        if found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            known = [row["transactional_id"] for row in _listed(session, ListTransactionsRequest())]
            raise unknown("transactional id", name, known, "list them with twisted-kafka transactions list")
        if found.error_code:
            raise problem(f"transactional id {name}", found.error_code)
        return found

    return session.retrying(step)


def _describe(options: argparse.Namespace, session: Session, output: Output) -> None:
    for name in options.ids:
        try:
            found = _described(session, name)
        except CommandError as error:
            output.problem(error)
            continue
        partitions = [{"topic": topic.topic, "partition": index} for topic in found.topics for index in sorted(topic.partitions)]
        described = {
            "transactional_id": name,
            "state": found.transaction_state,
            "producer_id": found.producer_id,
            "producer_epoch": found.producer_epoch,
            "timeout_ms": found.transaction_timeout_ms,
            "started": time_text(found.transaction_start_time_ms),
        }
        if output.form == JSON:
            output.json({**described, "partitions": partitions})
            continue
        since = f", open since {described['started']}" if described["started"] else ""
        producer = f"producer {found.producer_id} epoch {found.producer_epoch}"
        output.done(f"{name}: {found.transaction_state}, {producer}, timeout {found.transaction_timeout_ms} ms{since}")
        if partitions:
            output.rows(["topic", "partition"], partitions)


def _all_producers(session: Session, partitions: Sequence[TopicPartition]) -> list[dict[str, Any]]:
    def make(mine: Sequence[TopicPartition]) -> DescribeProducersRequest:
        return DescribeProducersRequest(
            topics=[TopicRequest(name=name, partition_indexes=indexes) for name, indexes in by_topic(mine).items()]
        )

    found = session.ask_leaders(partitions, make, partition_answers("topics", "name", "partitions"))
    return [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "producer_id": each.producer_id,
            "epoch": each.producer_epoch,
            "last_sequence": each.last_sequence,
            "last_time": time_text(each.last_timestamp),
            "last_timestamp": each.last_timestamp,
            "coordinator_epoch": each.coordinator_epoch,
            "start_offset": each.current_txn_start_offset if each.current_txn_start_offset >= 0 else None,
        }
        for partition in sorted(found)
        for each in sorted(found[partition].active_producers, key=lambda each: each.producer_id)
    ]


def _partitions(session: Session, names: Sequence[str]) -> list[TopicPartition]:
    return [TopicPartition(str(topic.name), each.partition_index) for topic in session.topics(names) for each in topic.partitions]


def _producers(options: argparse.Namespace, session: Session, output: Output) -> None:
    rows = _all_producers(session, _partitions(session, options.topics))
    output.rows(_PRODUCERS, [row for row in rows if not options.open or row["start_offset"] is not None])


def _find_hanging(options: argparse.Namespace, session: Session, output: Output) -> None:
    before_ms = SystemClock().wall_ms() - options.older_than * 60_000
    open_ones = [
        row
        for row in _all_producers(session, _partitions(session, options.topics))
        if row["start_offset"] is not None and row["last_timestamp"] < before_ms
    ]
    ids = {row["producer_id"]: row["transactional_id"] for row in _listed(session, ListTransactionsRequest())} if open_ones else {}
    hanging = [row for row in open_ones if not _is_known(session, ids.get(row["producer_id"]), row)]
    if hanging or output.form == JSON:
        output.rows(_PRODUCERS, hanging)
    else:
        output.done("no transaction hangs")


def _is_known(session: Session, name: str | None, row: dict[str, Any]) -> bool:
    """Whether the coordinator has this transaction, and will end it."""
    if name is None:
        return False
    found = _described(session, name)
    return found.producer_epoch == row["epoch"] and any(
        topic.topic == row["topic"] and row["partition"] in topic.partitions for topic in found.topics
    )


def _abort(options: argparse.Namespace, session: Session, output: Output) -> None:
    partition = TopicPartition(options.topic, options.partition)
    rows = [row for row in _all_producers(session, [partition]) if row["start_offset"] == options.start_offset]
    if not rows:
        raise CommandError(
            f"no transaction of {partition} begins at {options.start_offset}: twisted-kafka transactions find-hanging lists them"
        )
    summary = f"abort the transaction of producer {rows[0]['producer_id']} from offset {options.start_offset} of {partition} on"
    if not output.confirm(summary, _PRODUCERS, rows, only_shows=options.dry_run):
        return
    marker = WritableTxnMarker(
        producer_id=rows[0]["producer_id"],
        producer_epoch=rows[0]["epoch"],
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])],
        coordinator_epoch=max(0, rows[0]["coordinator_epoch"]),
    )

    def step() -> None:
        (leader,) = session.by_leader([partition])
        response = session.ask(WriteTxnMarkersRequest(markers=[marker]), leader, latest=_MARKER_VERSION)
        for result in response.markers:
            for topic in result.topics:
                for each in topic.partitions:
                    if each.error_code:
                        raise problem(str(partition), each.error_code)

    session.retrying(step)
    output.done(f"aborted the transaction from offset {options.start_offset} of {partition} on", action="aborted", **rows[0])
