"""Findings about slow phases: what overlaps in time and has one cause is one finding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from twisted_kafka_spark.findings.finding import Finding, Span, enclosing, equal, several, text
from twisted_kafka_spark.findings.slow.apis import slow_minutes
from twisted_kafka_spark.findings.slow.brokers import Brokers
from twisted_kafka_spark.findings.slow.causes import of_one_cause, without_place
from twisted_kafka_spark.findings.slow.clients import Clients
from twisted_kafka_spark.findings.slow.pauses import pauses
from twisted_kafka_spark.findings.slow.phases import ALL, SLOW_PHASES, Slow, Slowness, place_of

if TYPE_CHECKING:
    from twisted_kafka_spark.views import Tables

_MOVING = ("Produce", "Fetch")
"""APIs that may be slow on a broker that is not slow over all."""
_FEW_READERS = 2
"""More clients that read slowly at the same time are no cause, but suffer from one: the broker or its network."""


def slow_phases(tables: Tables) -> Iterator[Finding]:
    """Find minutes in which a phase took far longer than usual, on one broker or all, for one API or all, for one client or all."""
    for slow in SLOW_PHASES:
        brokers, clients = Brokers(tables.grids.nodes, slow.phase), Clients(tables.grids.persons, slow.phase)
        found = list(slow_minutes(tables, slow.phase))
        if len(brokers.nodes) > 1:  # of one broker, the series of all APIs knows their mixture better
            found += brokers.slow()
        for api in _MOVING if slow.phase != "remote_us" else ():
            found += Brokers(tables.grids.nodes, slow.phase, api).slow()
        found += clients.slow()
        found = [one for one in found if not clients.are_mixed(one)]
        found = [one for one in found if not clients.are_few(one) and not brokers.is_scattered(one)]
        found = [without_place(one, brokers, clients, found) for one in found]
        for together in of_one_cause(found, brokers):
            yield _slowness(slow, together, brokers, clients, tables)
        yield from brokers.steadily_slow(slow)
        yield from pauses(slow, brokers, clients, found)


def _slowness(slow: Slow, together: list[Slowness], brokers: Brokers, clients: Clients, tables: Tables) -> Finding:
    """Return the finding about the worst of what overlaps: from the first to the last minute of any of it."""
    worst = max([one for one in together if one.api != ALL] or together, key=lambda one: one.weight)
    whole = enclosing(one.span for one in [one for one in together if one.client is None] or together)
    api, others = worst.api, sorted({one.api for one in together} - {worst.api, ALL})
    node = _node(together, whole, brokers)
    readers = {one.client for one in together if one.client is not None}
    client = _client(together, whole, clients)
    is_of_several = len(readers) > (_FEW_READERS if slow.phase == "send_us" else 1)
    if is_of_several and slow.phase == "send_us":
        client = None
    named = None if is_of_several else client
    whose = _whose(slow, named if readers else None, len(readers))
    title = " ".join(slow.title.format(place=place_of(slow, node, client, len(brokers.nodes)), whose=whose).split())
    usual_us = next((one.usual_us for one in together if one.node is not None and one.node == node), worst.usual_us)
    conditions = [] if api == ALL else [equal(api=api)]
    conditions += [f"node = {node}"] if node is not None else []
    conditions += [equal(client_id=named[0])] if named is not None else []
    return Finding(
        slow.finding,
        f"{title}, {text(whole.first)} to {text(whole.last)}",
        {
            "api": api if api != ALL or slow.phase != "remote_us" else "Produce",
            "also": ", ".join(others) or None,
            "node": node,
            "client_id": named[0] if named is not None else None,
            "principal": client[1] if client is not None and len({each[1] for each in readers or {client}}) == 1 else None,
            "clients": several(sorted(str(each[0]) for each in readers)) if is_of_several else None,
            "topic": _topic_of(tables, readers),
            "minutes": whole.length_minutes,
            "worst minute, mean ms": round(worst.worst_us / 1000, 1),
            "usual, ms": round(usual_us / 1000, 2),
        },
        " AND ".join([*conditions, f"{slow.phase} > {round(worst.limit_us)}", whole.where]),
        slow.advice,
        text(whole.first),
        text(whole.last),
        worst.weight,
        impact=slow.impact,
    )


def _node(together: list[Slowness], whole: Span, brokers: Brokers) -> int | None:
    """Return the broker of what overlaps: the one with most of the additional time, or the only one that was slow."""
    nodes = {one.node for one in together if one.node is not None}
    node = brokers.place(whole)
    return next(iter(nodes)) if node is None and len(nodes) == 1 else node


def _client(together: list[Slowness], whole: Span, clients: Clients) -> tuple[Any, ...] | None:
    """Return the client of what overlaps: the one with most of the additional time, or the worst that was slow."""
    client = clients.behind(whole)
    of_clients = [one for one in together if one.client is not None]
    return max(of_clients, key=lambda one: one.weight).client if client is None and of_clients else client


def _whose(slow: Slow, client: tuple[Any, ...] | None, count: int) -> str:
    if slow.phase == "send_us" or not count:
        return ""
    return f" of {count} clients" if client is None else f" of client {client[0]}"


def _topic_of(tables: Tables, clients: set[tuple[Any, ...]]) -> str | None:
    """Return the topic of these clients, None if there are several."""
    topics = {row["topic"] for row in tables["lineage"] if (row["client_id"], row["principal"]) in clients}
    return next(iter(topics)) if len(topics) == 1 else None
