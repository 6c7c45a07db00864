"""Findings about absence: clients and brokers that fall silent, consumers that commit no more, topics that nobody reads."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.findings.detectors import name_of
from twisted_kafka_spark.findings.finding import MINUTE, Finding, Span, equal, from_us, text
from twisted_kafka_spark.findings.runs import Run, median, minute_of, runs, span_of

if TYPE_CHECKING:
    from twisted_kafka_spark.cells.grids import Axis, Grid
    from twisted_kafka_spark.views import Tables

_STEADY_APIS = ("Produce", "Fetch", "OffsetCommit")
"""The APIs whose absence says something."""
_DENSE = 0.9
"""The share of the slots with requests of a client that sends them at random times, which a steady client has at least."""
_SOON = 6
"""Slots before and after the begin of a silence in which other instances do more if they replace the silent one."""
_TOGETHER = 10 * MINUTE
"""How much silences of one cause differ."""
_CHANGING = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d+")
"""Parts of client ids that differ between instances."""


@dataclass(slots=True)
class _Silence:
    client_id: str | None
    principal: str | None
    api: str
    span: Span
    has_ended: bool
    missing: float
    """Requests that were expected."""
    usual: float
    """The same in a minute."""


def silent_clients(tables: Tables, known: Sequence[Finding]) -> Iterator[Finding]:
    """Find clients that send requests steadily and stop suddenly, and consumers that fetch on but commit no more.

    Clients whose requests fail, according to one of the `known` findings, are left out.
    """
    grid = tables.grids.persons
    found = [one for row in range(len(grid.names)) if (one := _silence(grid, row)) is not None]
    found = [one for one in found if not _is_replaced(grid, one) and not any(_prevents(each, one) for each in known)]
    for together in _at_once(found):
        yield _silent(tables, together)


def _silence(grid: Grid, row: int) -> _Silence | None:
    """Return the one silence of a name that otherwise is there nearly always."""
    client_id, principal, api = grid.names[row]
    if api not in _STEADY_APIS:
        return None
    counts = grid["requests"][row][: grid.axis.length - 1]  # the last slot may not be over
    active = np.flatnonzero(counts > 0)
    if len(active) < limits.STEADY_SLOTS:
        return None
    gaps = runs(counts[active[0] :] == 0)
    if not gaps:
        return None
    run = max(gaps, key=lambda gap: gap[1] - gap[0])
    run = run[0] + int(active[0]), run[1] + int(active[0])
    length, has_ended = run[1] - run[0] + 1, run[1] < len(counts) - 1
    others = sorted(gap[1] - gap[0] + 1 for gap in gaps)[:-1]
    before = counts[max(int(active[0]), run[0] - limits.STEADY_SLOTS) : run[0]]
    usual = float(before.mean()) if len(before) else 0.0
    dense = _DENSE * (1 - math.exp(-usual))  # the share of slots in which requests at random times would be
    was_there = run[0] - int(active[0])
    is_steady = (
        len(before) >= limits.STEADY_SLOTS
        and (before > 0).mean() >= dense
        and before[-_SOON:].mean() >= usual / 2
        and sum(others) <= (1 - dense) * (len(counts) - active[0])
        and was_there >= (length if has_ended else min(limits.GONE_AFTER_SLOTS, 0.6 * len(counts)))
        and (not others or length >= limits.SILENCE_BEYOND * others[-1])
    )
    if (
        not is_steady
        or length < (limits.SILENT_SLOTS if has_ended else limits.GONE_SLOTS)
        or usual * length < limits.SILENT_REQUESTS
    ):
        return None
    first = minute_of(grid["last_us"][row, run[0] - 1]) + MINUTE
    last = minute_of(grid["first_us"][row, run[1] + 1]) - MINUTE if has_ended else grid.axis.moment(grid.axis.length) - MINUTE
    return _Silence(client_id, principal, api, Span(first, last, ()), has_ended, usual * length, usual * 60 / grid.axis.step_s)


def _prevents(finding: Finding, one: _Silence) -> bool:
    """Return whether a finding about failing requests says why a client does nothing else."""
    if finding.name not in ("access-denied", "failing-client", "failed-logins") or finding.first is None or finding.last is None:
        return False
    evidence = finding.evidence
    is_same = evidence.get("client_id") == one.client_id or (
        finding.name == "access-denied" and evidence.get("principal") == one.principal
    )
    begins_with_it = text(one.span.first - 15 * MINUTE) <= finding.first <= text(one.span.first + 15 * MINUTE)
    return is_same and begins_with_it and finding.last >= text(one.span.last - 15 * MINUTE)


def _service(client_id: str | None) -> str:
    return _CHANGING.sub("#", client_id or "")


def _is_replaced(grid: Grid, one: _Silence) -> bool:
    """Return whether other instances of the same service do more while one is silent: it was replaced."""
    first = grid.axis.place(one.span.first) + 1
    same = [
        row
        for row, (client_id, principal, api) in enumerate(grid.names)
        if api == one.api
        and principal == one.principal
        and client_id != one.client_id
        and _service(client_id) == _service(one.client_id)
    ]
    if not same:
        return False
    counts = grid["requests"][same].sum(0)
    before, after = counts[max(0, first - 1 - _SOON) : max(first - 1, 1)], counts[first : first + _SOON]
    missing = one.usual * grid.axis.step_s / 60
    return bool(len(after) and after.mean() - before.mean() >= missing / 2)


def _at_once(found: list[_Silence]) -> list[list[_Silence]]:
    """Group silences that begin and end within minutes of each other: of one client's APIs, or of several clients."""
    groups: list[list[_Silence]] = []
    for one in sorted(found, key=lambda one: (one.span.first, str(one.client_id))):
        for group in groups:
            begins, ends = group[0].span.first - one.span.first, group[0].span.last - one.span.last
            if max(abs(begins), abs(ends)) <= _TOGETHER:
                group.append(one)
                break
        else:
            groups.append([one])
    return groups


def _silent(tables: Tables, together: list[_Silence]) -> Finding:
    whole = sum(each.missing for each in together)
    one = max(together, key=lambda each: (each.api != "OffsetCommit", each.missing))
    clients = list(dict.fromkeys((each.client_id, each.principal) for each in together))
    apis = sorted({each.api for each in together if (each.client_id, each.principal) == (one.client_id, one.principal)})
    span = Span(min(each.span.first for each in together), max(each.span.last for each in together), ())
    stalled = apis == ["OffsetCommit"] and len(clients) == 1 and _fetches(tables, one)
    who = name_of(one.client_id) if len(clients) == 1 else f"{len(clients)} clients"
    what = "committed nothing, but went on fetching" if stalled else f"sent no {' or '.join(apis)} requests"
    until = f" to {text(span.last)}" if one.has_ended else ", and has not come back"
    topics = sorted(
        {
            row["topic"]
            for row in tables["lineage"]
            if (row["client_id"], row["principal"]) in clients and row["api"] in apis and row["topic"] is not None
        }
    )
    return Finding(
        "stalled-consumer" if stalled else "silent-client",
        f"{who} {what}, {text(span.first)}{until}",
        {
            "client_id": one.client_id if len(clients) == 1 else None,
            "clients": f"{len(clients)}: {', '.join(str(each[0]) for each in clients[:3])}" if clients[1:] else None,
            "principal": one.principal if len({each[1] for each in clients}) == 1 else None,
            "apis": ", ".join(apis),
            "topic": topics[0] if len(topics) == 1 else None,
            "topics": f"{len(topics)}: {', '.join(topics[:3])}" if topics[1:] else None,
            "group_id": _group_of(tables, clients),
            "minutes": (span.last - span.first) // MINUTE + 1,
            "usual per minute": round(one.usual, 1),
            "requests missing": round(whole),
        },
        equal(client_id=one.client_id) if len(clients) == 1 else "",
        "Look at the records that it reads: one that it cannot process holds up its partition. Check its log for the exception."
        if stalled
        else "Check whether it was stopped on purpose; otherwise look at its log: it crashed, hangs, or cannot reach the brokers.",
        text(span.first),
        text(span.last),
        whole,
        impact=f"about {whole:,.0f} requests missing",
    )


def _fetches(tables: Tables, one: _Silence) -> bool:
    grid = tables.grids.persons
    first, last = grid.axis.place(one.span.first) + 1, grid.axis.place(one.span.last)
    rows = grid.rows(client_id=one.client_id, principal=one.principal, api="Fetch")
    inside = slice(first, max(last, first + 1))
    return any((grid["requests"][row, inside] - grid["failed"][row, inside]).sum() > 0 for row in rows)


def _group_of(tables: Tables, clients: list[tuple[Any, Any]]) -> str | None:
    groups = {row["group_id"] for row in tables["lineage"] if (row["client_id"], row["principal"]) in clients} - {None}
    return next(iter(groups)) if len(groups) == 1 else None


def absent_brokers(tables: Tables) -> Iterator[Finding]:
    """Find brokers without a single request for minutes, while the others have some."""
    nodes = tables.grids.nodes.by("node")
    whole = nodes["requests"].sum(0)
    for row, (node,) in enumerate(nodes.names):
        if node is None:
            continue
        counts = nodes["requests"][row]
        active = np.flatnonzero(counts > 0)
        if not len(active):
            continue
        inside = counts[active[0] :]
        usual = median(inside)
        for first, last in runs(inside == 0):
            run: Run = first + int(active[0]), last + int(active[0])
            minutes = run[1] - run[0] + 1
            others = whole[run[0] : run[1] + 1] - counts[run[0] : run[1] + 1]
            is_alone = len(nodes.names) == 1
            if minutes < limits.ABSENT_MINUTES or usual * minutes < limits.SILENT_REQUESTS or (not is_alone and not others.sum()):
                continue
            yield _absent(tables, nodes.axis, run, node, usual)


def _absent(tables: Tables, axis: Axis, run: Run, node: int, usual: float) -> Finding:
    span, minutes = span_of(axis, run), run[1] - run[0] + 1
    is_over = run[1] < axis.length - 1
    return Finding(
        "absent-broker",
        f"Broker {node} answered no request for {minutes} minutes, {text(span.first)} to {text(span.last)}"
        + ("" if is_over else ", and is not back"),
        {"node": node, "minutes": minutes, "usual per minute": round(usual)},
        f"node = {node}",
        "Look at its own log: it was restarted, crashed, or was cut off from the network. A wrong clock moves its lines, too.",
        text(span.first),
        text(span.last),
        usual * minutes,
        {"Metadata", "FindCoordinator", "ApiVersions", "JoinGroup"},
        impact="its partitions had other leaders, or none",
    )


def unread_topics(tables: Tables, known: list[Finding]) -> Iterator[Finding]:
    """Find topics that were read for most of the period, and are written but not read any more."""
    axis = tables.grids.persons.axis
    end_us = axis.moment(axis.length).timestamp() * 1e6
    length_us = axis.length * axis.step_s * 1e6
    ends: dict[str, dict[str, list[float]]] = defaultdict(dict)
    readers: dict[str, set[tuple[Any, Any]]] = defaultdict(set)
    for row in tables["lineage"]:
        if row["topic"] is None or not row["first_us"]:
            continue
        old = ends[row["topic"]].get(row["api"], [row["first_us"], row["last_us"], 0])
        ends[row["topic"]][row["api"]] = [min(old[0], row["first_us"]), max(old[1], row["last_us"]), old[2] + row["requests"]]
        if row["api"] == "Fetch":
            readers[row["topic"]].add((row["client_id"], row["principal"]))
    silent = {(each.evidence.get("client_id"), each.evidence.get("principal")) for each in known if each.name == "silent-client"}
    for topic, by_api in sorted(ends.items()):
        if "Fetch" not in by_api or "Produce" not in by_api or readers[topic] & silent:
            continue
        first, last, requests = by_api["Fetch"]
        is_written = by_api["Produce"][1] >= end_us - limits.UNREAD_US / 4
        missing = requests / max(last - first, 1.0) * (end_us - last)
        if not is_written or end_us - last < limits.UNREAD_US or last - first < length_us / 3 or missing < limits.UNREAD_FETCHES:
            continue
        who = sorted(str(name[0]) for name in readers[topic])
        yield Finding(
            "unread-topic",
            f"Nobody reads topic {topic} any more since {from_us(int(last))}; it is still written",
            {
                "topic": topic,
                "client_id": who[0] if len(who) == 1 else None,
                "last readers": ", ".join(who[:3]),
                "fetches before": int(requests),
            },
            f"exists(topics, t -> t.topic = '{topic}')",
            "Start its consumer again, or stop writing it: records are deleted by retention unread.",
            from_us(int(last)),
            text(axis.moment(axis.length) - MINUTE),
            requests,
        )
