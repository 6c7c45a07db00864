"""Findings against earlier days, of which rollups have a history: newcomers, changes, and hours unlike those of other weeks."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.findings.finding import Finding, Span, equal, from_us, several, text, the_only
from twisted_kafka_spark.findings.names import name_of
from twisted_kafka_spark.findings.runs import runs

if TYPE_CHECKING:
    from twisted_kafka_spark.cells.history import History, Usual
    from twisted_kafka_spark.views import Row, Tables

_HOUR = datetime.timedelta(hours=1)
_MINUTE = datetime.timedelta(minutes=1)
_APIS = ("Produce", "Fetch")


def against_earlier(tables: Tables, history: History, known: Sequence[Finding]) -> Iterator[Finding]:
    """Find differences from earlier days; a history of less than `HISTORY_DAYS` says nothing."""
    if len(history.dates) < limits.HISTORY_DAYS:
        return
    yield from _new_principals(tables, history)
    yield from _new_readers(tables, history)
    yield from _changed_since(tables, history, known)
    yield from _unusual_hours(tables, history, known)


def _new_principals(tables: Tables, history: History) -> Iterator[Finding]:
    for row in tables["principal_ends"]:
        if row["principal"] is None or row["principal"] in history.principals or not row["first_us"]:
            continue
        from_where = sorted({each["note"] for each in tables["address"] if each["principal"] == row["principal"] and each["note"]})
        topics = sorted({each["topic"] for each in tables["lineage"] if each["principal"] == row["principal"] and each["topic"]})
        yield Finding(
            "new-principal",
            f"{row['principal']} was not seen in the {len(history.dates)} days before",
            {
                "principal": row["principal"],
                "address": the_only(from_where),
                "addresses": ", ".join(from_where[:3]) if from_where[1:] else None,
                "requests": row["requests"],
                "topics": f"{len(topics)}: {', '.join(topics[:3])}" if topics else None,
            },
            equal(principal=row["principal"]),
            "Check that it was added on purpose.",
            from_us(row["first_us"]),
            from_us(row["last_us"]),
            float(row["requests"]),
        )


def _new_readers(tables: Tables, history: History) -> Iterator[Finding]:
    new: dict[str, list[Row]] = defaultdict(list)
    for row in tables["lineage"]:
        before = history.readers.get(row["topic"])
        if row["api"] == "Fetch" and before and row["principal"] in history.principals and row["principal"] not in before:
            new[row["principal"]].append(row)
    for principal, rows in sorted(new.items()):
        topics = sorted({row["topic"] for row in rows})
        clients = sorted({str(row["client_id"]) for row in rows})
        yield Finding(
            "new-reader",
            f"{principal} reads {f'topic {topics[0]}' if len(topics) == 1 else f'{len(topics)} topics'} for the first time in "
            f"{len(history.dates)} days",
            {
                "principal": principal,
                "client_id": the_only(clients),
                "topic": the_only(topics),
                "topics": several(topics),
                "readers before": ", ".join(sorted(history.readers[topics[0]])[:3]),
            },
            equal(principal=principal, api="Fetch"),
            "Check that it may read this.",
            from_us(min(row["first_us"] for row in rows)),
            from_us(max(row["last_us"] for row in rows)),
            float(len(topics)),
        )


def _changed_since(tables: Tables, history: History, known: Sequence[Finding]) -> Iterator[Finding]:
    told = {each.evidence.get("client_id") for each in known if each.name == "changed-client"}
    now: dict[tuple[Any, Any], list[Row]] = defaultdict(list)
    for row in tables["software_of"]:
        if row["software"] not in (None, "unknown") and row["client_id"] is not None and row["first_us"]:
            now[row["client_id"], row["principal"]].append(row)
    for who, rows in sorted(now.items(), key=str):
        before = history.software.get(who)
        names = {f"{row['software']} {row['software_version']}" for row in rows}
        if before is None or before in names or who[0] in told or len(names) > 1:
            continue
        yield Finding(
            "changed-client",
            f"{name_of(who[0])} changed from {before} to {next(iter(names))} since the days before",
            {"client_id": who[0], "principal": who[1], "before": before, "after": next(iter(names))},
            equal(client_id=who[0]),
            "Compare its latency and errors before and after with --compare, if the change was not planned.",
            from_us(rows[0]["first_us"]),
            from_us(rows[0]["last_us"]),
            float(rows[0]["requests"]),
        )


def _unusual_hours(tables: Tables, history: History, known: Sequence[Finding]) -> Iterator[Finding]:
    """Find hours in which a client sent far less, or far more, than in the same hour of each earlier week."""
    grid = tables.grids.persons
    if not grid.axis.length:
        return
    begin, end = grid.axis.moment(0), grid.axis.moment(grid.axis.length)
    first = begin.replace(minute=0, second=0) + (_HOUR if begin.minute else 0 * _HOUR)
    hours = [first + at * _HOUR for at in range(max((end - first) // _HOUR, 0))]
    rows = {(name[0], name[1], name[2]): row for row, name in enumerate(grid.names)}
    told = {each.evidence.get("client_id") for each in known if each.name in ("silent-client", "stalled-consumer", "traffic-peak")}
    for name in dict.fromkeys([*history.counts, *(each for each in rows if each[2] in _APIS)]):
        if name not in history.counts or name[0] in told or not hours:
            continue
        usual = [history.usual(name, hour) for hour in hours]
        sent = [
            grid["requests"][rows[name], grid.axis.place(hour) : grid.axis.place(hour + _HOUR)].sum() if name in rows else 0.0
            for hour in hours
        ]
        for is_less in (True, False):
            unlike = np.array([_is_unlike(each, count, is_less=is_less) for each, count in zip(usual, sent, strict=True)])
            for run in runs(unlike):
                if run[1] - run[0] + 1 >= limits.UNLIKE_HOURS:
                    yield _unlike(name, hours[run[0]], hours[run[1]], usual[run[0] : run[1] + 1], sent[run[0] : run[1] + 1])


def _is_unlike(usual: Usual, count: float, *, is_less: bool) -> bool:
    if usual.days < limits.HISTORY_DAYS and usual.days < 2:
        return False
    if is_less:
        return usual.least >= limits.UNLIKE_FLOOR and count < usual.least / limits.UNLIKE_FACTOR
    return count >= limits.UNLIKE_FLOOR and usual.most > 0 and count > usual.most * limits.UNLIKE_FACTOR


def _unlike(
    name: tuple[Any, Any, str], first: datetime.datetime, last: datetime.datetime, usual: list[Usual], sent: list[float]
) -> Finding:
    client_id, principal, api = name
    expected, count = sum(each.mean for each in usual), sum(sent)
    span = Span(first, last + _HOUR - _MINUTE)
    how = "far less" if count < expected else "far more"
    return Finding(
        "unusual-hours",
        f"{name_of(client_id)} sent {how} {api} requests than in these hours of other weeks, "
        f"{text(span.first)} to {text(span.last)}",
        {
            "client_id": client_id,
            "principal": principal,
            "api": api,
            "requests": round(count),
            "usual": round(expected),
            "days compared": usual[0].days,
        },
        f"{equal(client_id=client_id, api=api)} AND {span.where}",
        "Check whether it was stopped, changed or moved, or has more work than usual.",
        text(span.first),
        text(span.last),
        abs(expected - count),
        impact=f"{abs(expected - count):,.0f} requests {'less' if count < expected else 'more'} than usual",
    )
