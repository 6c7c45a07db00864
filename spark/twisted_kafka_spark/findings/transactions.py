"""Findings about transactions that stay open or cannot end, and about producers that mostly abort."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.findings.finding import Finding, Span, equal, from_us, several, text, the_only
from twisted_kafka_spark.findings.names import owner_of
from twisted_kafka_spark.findings.runs import Run, minute_of, runs

if TYPE_CHECKING:
    from twisted_kafka_spark.cells.grids import Grid
    from twisted_kafka_spark.views import Row, Tables

_MICROSECOND = 1_000_000
_GAP_SLOTS = 2
"""The most slots between aborted transactions of one time."""


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
    """Find producers most of whose transactions are aborted, over all or for some time."""
    told = set()
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
        told.add((row["client_id"], row["principal"]))
    yield from _abort_for_some_time(tables, told)


def _abort_for_some_time(tables: Tables, told: set[tuple[str | None, str | None]]) -> Iterator[Finding]:
    grid = tables.grids.persons
    rows = [row for row in grid.rows(api="EndTxn") if grid.names[row][:2] not in told]
    for owner in dict.fromkeys(owner_of(grid.names[row]) for row in rows):
        mine = [row for row in rows if owner_of(grid.names[row]) == owner]
        principal = grid.names[mine[0]][1]
        aborted, ended = grid["aborted"][mine].sum(0), grid["requests"][mine].sum(0)
        for run in runs((aborted > 0) & (aborted >= limits.ABORTS_SHARE * ended), gap=_GAP_SLOTS):
            inside = slice(run[0], run[1] + 1)
            count, whole = int(aborted[inside].sum()), int(ended[inside].sum())
            if count < limits.ABORTS_FLOOR or count < limits.ABORTS_SHARE * whole:
                continue
            clients = [grid.names[row][0] for row in mine if grid["aborted"][row, inside].sum()]
            ids = [
                each["transactional_id"]
                for each in _named(tables)
                if (each["client_id"], each["principal"]) in _pairs(clients, principal)
            ]
            span = _from_first_to_last(grid, mine, run)
            yield Finding(
                "mostly-aborts",
                f"{count:,} of {whole:,} transactions of {_whose(clients, principal)} were aborted, "
                f"{text(span.first)} to {text(span.last)}",
                {
                    "transactional_id": the_only(ids),
                    "transactional ids": several(ids),
                    "client_id": the_only(clients),
                    "clients": ", ".join(map(str, clients[:3])) if clients[1:] else None,
                    "principal": principal,
                    "aborted": count,
                    "ended": whole,
                },
                f"{equal(principal=principal, api='EndTxn')} AND {span.where}",
                "Check its log for the exception that makes it abort, and what changed at that time.",
                text(span.first),
                text(span.last),
                float(count),
            )


def _pairs(clients: list[str | None], principal: str | None) -> list[tuple[str | None, str | None]]:
    return [(client, principal) for client in clients]


def _whose(clients: list[str | None], principal: str | None) -> str:
    return str(clients[0]) if len(clients) == 1 else f"{len(clients)} clients of {principal}"


def _from_first_to_last(grid: Grid, rows: list[int], run: Run) -> Span:
    starts, ends = grid["first_us"][rows, run[0]], grid["last_us"][rows, run[1]]
    return Span(minute_of(starts[starts > 0].min()), minute_of(ends.max()))


def _named(tables: Tables) -> list[Row]:
    return [row for row in tables["transaction"] if row["transactional_id"] is not None]


def _who(row: Row) -> dict[str, str | None]:
    return {name: row[name] for name in ("transactional_id", "client_id", "principal")}


TRANSACTION_DETECTORS = (hanging_transactions, stuck_transactions, mostly_aborts)
