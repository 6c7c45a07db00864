"""Findings about absence: clients and brokers that fall silent, consumers that commit no more, topics that nobody reads."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.findings.clients.persons import topics_of
from twisted_kafka_spark.findings.finding import (
    MINUTE,
    Finding,
    Span,
    apart,
    enclosing,
    equal,
    from_us,
    grouped,
    several,
    text,
    the_only,
)
from twisted_kafka_spark.findings.names import name_of, service_of
from twisted_kafka_spark.findings.partial.leaders import moved_leaders
from twisted_kafka_spark.findings.runs import Run, has_its_hours, median, minute_of, runs, span_of
from twisted_kafka_spark.records.kafka_names import OF_EACH_START

if TYPE_CHECKING:
    from twisted_kafka_spark.cells.grids import Axis, Grid
    from twisted_kafka_spark.findings.runs import Values
    from twisted_kafka_spark.views import Tables

_STEADY_APIS = ("Produce", "Fetch", "OffsetCommit")
"""The APIs whose absence says something."""
_DENSE = 0.9
"""The share of the slots with requests of a client that sends them at random times, which a steady client has at least."""
_SOON = 6
"""Slots before and after the begin of a silence in which other instances do more if they replace the silent one."""
_TOGETHER = 10 * MINUTE
"""How much silences of one cause differ."""
_SURELY_AWAY = 10
"""Requests that are expected in the time in which a broker has none: with fewer it may be chance."""
_AROUND_MINUTES = 60
"""The minutes before and after an absence that say how many requests were expected."""
_AT_ONCE_MINUTES, _MOST_LISTED = 2, 8


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
    found = [one for one in found if not _is_replaced(tables, one) and not any(_prevents(each, one) for each in known)]
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
    was_there = len(counts) - int(active[0]) - length if has_ended else run[0] - int(active[0])
    is_of_hours = not has_ended and has_its_hours(int(active[0]), run, len(counts))
    is_steady = (
        not is_of_hours
        and len(before) >= limits.STEADY_SLOTS
        and (before > 0).mean() >= dense
        and before[-_SOON:].mean() >= usual / 2
        and sum(others) <= (1 - dense) * (len(counts) - active[0])
        and was_there >= (1.5 * length if has_ended else min(limits.GONE_AFTER_SLOTS, 0.6 * len(counts)))
        and (not others or length >= limits.SILENCE_BEYOND * others[-1])
    )
    if not is_steady or length < (limits.SILENT_SLOTS if has_ended else limits.GONE_SLOTS):
        return None
    first = minute_of(grid["last_us"][row, run[0] - 1]) + MINUTE
    last = minute_of(grid["first_us"][row, run[1] + 1]) - MINUTE if has_ended else grid.axis.moment(grid.axis.length) - MINUTE
    span, usual_a_minute = Span(first, last), usual * 60 / grid.axis.step_s
    missing = usual_a_minute * span.length_minutes
    if missing < limits.SILENT_REQUESTS:
        return None
    return _Silence(client_id, principal, api, span, has_ended, missing, usual_a_minute)


def _prevents(finding: Finding, one: _Silence) -> bool:
    """Return whether a finding about failing requests says why a client does nothing else."""
    if finding.name not in ("access-denied", "failing-client", "failed-logins") or finding.first is None or finding.last is None:
        return False
    evidence = finding.evidence
    is_same = evidence.get("client_id") == one.client_id or (
        finding.name == "access-denied" and evidence.get("principal") == one.principal
    )
    if finding.name == "failed-logins":
        named = str(evidence.get("clients") or "").partition(": ")[2].removesuffix(" ...").split(", ")
        is_same |= service_of(one.client_id) in {service_of(each) for each in named}
    begins_with_it = text(one.span.first - 15 * MINUTE) <= finding.first <= text(one.span.first + 15 * MINUTE)
    return is_same and begins_with_it and finding.last >= text(one.span.last - 15 * MINUTE)


def _is_replaced(tables: Tables, one: _Silence) -> bool:
    """Return whether others do more while one is silent: instances of its service, or newcomers of its account on its topics."""
    grid = tables.grids.persons
    first = grid.axis.place(one.span.first) + 1
    others = [row for row, name in enumerate(grid.names) if name[1:] == (one.principal, one.api) and name[0] != one.client_id]
    same = [row for row in others if service_of(grid.names[row][0]) == service_of(one.client_id)]
    came = [row for row in others if abs(int(np.argmax(grid["requests"][row] > 0)) - first) <= _SOON and row not in same]
    if came:
        topics = set(topics_of(tables, (one.client_id, one.principal), one.api))
        same += [row for row in came if topics & set(topics_of(tables, grid.names[row][:2], one.api))]
    if not same:
        return False
    counts = grid["requests"][same].sum(0)
    before, after = counts[max(0, first - 1 - _SOON) : max(first - 1, 1)], counts[first : first + _SOON]
    missing = one.usual * grid.axis.step_s / 60
    return bool(len(after) and after.mean() - before.mean() >= missing / 2)


def _at_once(found: list[_Silence]) -> list[list[_Silence]]:
    """Group silences that begin and end within minutes of each other: of one client's APIs, or of several clients."""

    def belongs(group: list[_Silence], one: _Silence) -> bool:
        return apart(group[0].span, one.span) <= _TOGETHER

    return grouped(sorted(found, key=lambda one: (one.span.first, str(one.client_id))), belongs)


def _silent(tables: Tables, together: list[_Silence]) -> Finding:
    whole = sum(each.missing for each in together)
    one = max(together, key=lambda each: (each.api != "OffsetCommit", each.missing))
    clients = list(dict.fromkeys((each.client_id, each.principal) for each in together))
    apis = sorted({each.api for each in together if (each.client_id, each.principal) == (one.client_id, one.principal)})
    span = enclosing(each.span for each in together)
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
            "clients": several([str(each[0]) for each in clients]),
            "principal": one.principal if len({each[1] for each in clients}) == 1 else None,
            "apis": ", ".join(apis),
            "topic": the_only(topics),
            "topics": several(topics),
            "group_id": _group_of(tables, clients),
            "minutes": span.length_minutes,
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
    """Find brokers without a single request for minutes, while the others have some; again and again; or without leaders."""
    nodes = tables.grids.nodes.by("node")
    gone: list[_Away] = []
    for row, (node,) in enumerate(nodes.names):
        active = np.flatnonzero(nodes["requests"][row] > 0)
        if node is not None and len(active):
            gone += _absences(nodes, row, int(active[0]))
    for together in _together(gone):
        yield _absent(tables, nodes.axis, together)
    for node in dict.fromkeys(one.node for one in gone):
        yield from _repeated(tables, nodes.axis, [one for one in gone if one.node == node and one.is_short])
    yield from moved_leaders(tables, [(one.node, one.run) for one in gone if not one.is_short])


@dataclass(slots=True)
class _Away:
    """Minutes without a request to a broker. `is_short`: fewer than are a finding."""

    node: int
    run: Run
    usual: float
    is_short: bool


def _absences(nodes: Grid, row: int, begin: int) -> Iterator[_Away]:
    counts, whole = nodes["requests"][row], nodes["requests"].sum(0)
    usual = median(counts[begin:])
    before: list[Run] = [(0, begin - 1)] if begin >= limits.ABSENT_MINUTES else []
    for run in [*before, *((first + begin, last + begin) for first, last in runs(counts[begin:] == 0))]:
        minutes = run[1] - run[0] + 1
        others = whole[run[0] : run[1] + 1] - counts[run[0] : run[1] + 1]
        is_alone = len(nodes.names) == 1
        if is_alone or others.sum():
            missing = min(usual, _usual_around(counts, run)) * minutes
            is_long = minutes >= limits.ABSENT_MINUTES and missing >= limits.SILENT_REQUESTS
            is_short = missing >= _SURELY_AWAY and minutes < limits.ABSENT_MINUTES
            if is_long or is_short:
                yield _Away(nodes.names[row][0], run, usual, is_short)


def _usual_around(counts: Values, run: Run) -> float:
    """Return the requests of a minute before a run, or after it if those are fewer: at night there are fewer."""
    before, after = counts[max(run[0] - _AROUND_MINUTES, 0) : run[0]], counts[run[1] + 1 : run[1] + 1 + _AROUND_MINUTES]
    return min((float(each.mean()) for each in (before, after) if len(each)), default=0.0)


def _together(gone: list[_Away]) -> list[list[_Away]]:
    """Group the absences of brokers that begin and end within a minute or two of each other."""

    def belongs(group: list[_Away], one: _Away) -> bool:
        begins, ends = group[0].run[0] - one.run[0], group[0].run[1] - one.run[1]
        return max(abs(begins), abs(ends)) <= _AT_ONCE_MINUTES and all(each.node != one.node for each in group)

    return grouped(sorted((each for each in gone if not each.is_short), key=lambda each: (each.run, each.node)), belongs)


def _absent(tables: Tables, axis: Axis, together: list[_Away]) -> Finding:
    run = min(each.run[0] for each in together), max(each.run[1] for each in together)
    span, minutes = span_of(axis, run), run[1] - run[0] + 1
    is_over, is_since_before = run[1] < axis.length - 1, run[0] == 0
    nodes = sorted(each.node for each in together)
    listed = ", ".join(map(str, nodes[:_MOST_LISTED])) + (" ..." if nodes[_MOST_LISTED:] else "")
    who = f"Broker {nodes[0]}" if len(nodes) == 1 else f"{len(nodes)} brokers ({listed})"
    usual = sum(each.usual for each in together)
    return Finding(
        "absent-broker",
        f"{who} answered no request {'before' if is_since_before else f'for {minutes} minutes, {text(span.first)} to'} "
        + text(span.last)
        + ("" if is_over else ", and is not back" if len(nodes) == 1 else ", and are not back"),
        {
            "node": the_only(nodes),
            "brokers": listed if nodes[1:] else None,
            "minutes": minutes,
            "usual per minute": round(usual),
        },
        f"node = {nodes[0]}" if len(nodes) == 1 else f"node IN ({', '.join(map(str, nodes))})",
        "If its access log was there before, it was down, or cut off from the network: look at its own log."
        if is_since_before
        else "Look at its own log: it was restarted, crashed, or was cut off from the network. A wrong clock moves its lines, too."
        if len(nodes) == 1
        else "Look for what they have in common: a rack, a zone, a switch, or a change that reached them all.",
        text(span.first),
        text(span.last),
        usual * minutes,
        {"Metadata", "FindCoordinator", "ApiVersions", "JoinGroup"},
        impact="its partitions had other leaders, or none" if len(nodes) == 1 else "their partitions had other leaders, or none",
    )


def _repeated(tables: Tables, axis: Axis, short: list[_Away]) -> Iterator[Finding]:
    """Find a broker that is away again and again, each time for less than a planned restart may take."""
    marks = np.zeros(axis.length, np.bool_)
    for one in short:
        marks[one.run[0] : one.run[1] + 1] = True
    for run in runs(marks, gap=limits.SHORT_ABSENCE_GAP_MINUTES):
        inside = [one for one in short if run[0] <= one.run[0] <= run[1]]
        if len(inside) < limits.SHORT_ABSENCES:
            continue
        span, node = span_of(axis, run), inside[0].node
        yield Finding(
            "absent-broker",
            f"Broker {node} was away {len(inside)} times, {text(span.first)} to {text(span.last)}",
            {
                "node": node,
                "absences": len(inside),
                "minutes away": int(marks[run[0] : run[1] + 1].sum()),
                "usual per minute": round(inside[0].usual),
            },
            f"node = {node} AND {span.where}",
            "Look at its own log: it crashes and starts again, or is cut off from the network again and again.",
            text(span.first),
            text(span.last),
            inside[0].usual * len(inside),
            {*OF_EACH_START, "Metadata", "FindCoordinator", "JoinGroup"},
            impact=f"its clients reconnected {len(inside)} times",
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
                "client_id": the_only(who),
                "last readers": ", ".join(who[:3]),
                "fetches before": int(requests),
            },
            f"exists(topics, t -> t.topic = '{topic}')",
            "Start its consumer again, or stop writing it: records are deleted by retention unread.",
            from_us(int(last)),
            text(axis.moment(axis.length) - MINUTE),
            requests,
        )
