"""Findings about transactions that stay open or cannot end, and about producers that mostly abort."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.findings.finding import Finding, equal, from_us

if TYPE_CHECKING:
    from twisted_kafka_spark.views import Row, Tables

_MICROSECOND = 1_000_000


def hanging_transactions(tables: Tables) -> Iterator[Finding]:
    """Find producers that leave transactions open: until they time out, or until now."""
    for row in _named(tables):
        left = _is_left(row)
        if row["timed_out"] < limits.TIMED_OUT_FLOOR and not left:
            continue
        title = f"{row['transactional_id']} left {row['timed_out']:,} of {row['begun']:,} transactions open until they timed out"
        yield Finding(
            "hanging-transaction",
            f"{row['transactional_id']} has a transaction open for longer than its timeout" if left else title,
            {
                **_who(row),
                "timed out": row["timed_out"],
                "transactions": row["begun"],
                "open and not used for s": round(row["idle_us"] / _MICROSECOND) if left else None,
                "timeout s": row["timeout_us"] / _MICROSECOND if row["timeout_us"] else None,
            },
            equal(**{"transaction.id": row["transactional_id"]}),
            "Find out why its producer stops between begin and commit: until then, read_committed consumers of the same partitions "
            "wait. kafka-transactions.sh find-hanging and abort end a transaction that the coordinator does not.",
            first=from_us(row["active_us"] if left else row["first_timed_out_us"]),
            last=None if left else from_us(row["last_timed_out_us"]),
            weight=row["timed_out"] + int(left),
        )


def stuck_transactions(tables: Tables) -> Iterator[Finding]:
    """Find transactions that are decided and cannot end, as a partition refuses their markers."""
    for row in _named(tables):
        if row["last_stuck_us"] is None:
            continue
        yield Finding(
            "stuck-transaction",
            f"{row['transactional_id']} has a decided transaction that cannot end",
            _who(row),
            equal(**{"transaction.id": row["transactional_id"]}),
            "A partition refuses its marker as superseded: its producer waits, and so do read_committed consumers. The broker "
            "tries again each minute and names the partition in its log. kafka-transactions.sh describe-producers shows the open "
            "transactions there, and abort ends them.",
            first=from_us(row["first_stuck_us"]),
            last=from_us(row["last_stuck_us"]),
            weight=1,
        )


def _is_left(row: Row) -> bool:
    timeout_us = row["timeout_us"] or limits.UNKNOWN_TIMEOUT_US
    return bool(row["open"]) and row["last_stuck_us"] is None and row["idle_us"] > timeout_us + limits.HANGING_SLACK_US


def mostly_aborts(tables: Tables) -> Iterator[Finding]:
    """Find producers most of whose transactions are aborted."""
    for row in _named(tables):
        ended, aborted = row["begun"] - row["open"], row["aborted"] + row["fenced"]
        if ended < limits.ABORTS_FLOOR or aborted < limits.ABORTS_SHARE * ended:
            continue
        yield Finding(
            "mostly-aborts",
            f"{aborted:,} of {ended:,} transactions of {row['transactional_id']} were aborted",
            {**_who(row), "aborted": row["aborted"], "fenced": row["fenced"], "committed": row["committed"], "ended": ended},
            equal(**{"transaction.id": row["transactional_id"]}),
            "Check its log for the exception that makes it abort; if most are fenced, two instances use one transactional.id.",
            weight=aborted,
        )


def _named(tables: Tables) -> list[Row]:
    return [row for row in tables["transaction"] if row["transactional_id"] is not None]


def _who(row: Row) -> dict[str, str | None]:
    return {name: row[name] for name in ("transactional_id", "client_id", "principal")}


TRANSACTION_DETECTORS = (hanging_transactions, stuck_transactions, mostly_aborts)
