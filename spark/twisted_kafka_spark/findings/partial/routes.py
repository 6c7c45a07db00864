"""Findings about brokers that a client does not reach any more, while it reaches the others, and others reach them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.cells.kinds import HOUR_S
from twisted_kafka_spark.findings.clients.persons import topics_of
from twisted_kafka_spark.findings.finding import MINUTE, Finding, Span, apart, enclosing, equal, grouped, several, text, the_only
from twisted_kafka_spark.findings.names import name_of, service_of
from twisted_kafka_spark.findings.runs import minute_of

if TYPE_CHECKING:
    from twisted_kafka_spark.cells.grids import Grid
    from twisted_kafka_spark.findings.runs import Values
    from twisted_kafka_spark.views import Tables

_HOUR_US, _MINUTE_US = HOUR_S * 1e6, 60e6
_BEYOND = 3.0
"""How many times as long as any other gap the time without a request to a broker is."""
_STILL_THERE = 0.5
"""The part of their usual share that a broker's other clients still have: with less, it is the broker that has no leaders."""
_TOGETHER = 15 * MINUTE
"""How much the ends of gaps of one cause differ."""


@dataclass(slots=True)
class _Route:
    """The requests of a service, or of one of its clients, to a broker: by hour, with the first and the last time of each."""

    node: int
    principal: Any
    api: str
    clients: tuple[Any, ...]
    counts: Values
    first_us: Values
    last_us: Values


@dataclass(slots=True)
class _Gap:
    route: _Route
    first_us: float
    last_us: float
    is_over: bool
    missing: float
    """Requests that were expected."""

    @property
    def span(self) -> Span:
        return Span(minute_of(self.first_us) + MINUTE, minute_of(self.last_us) - MINUTE)


def unreached_brokers(tables: Tables, known: Sequence[Finding]) -> Iterator[Finding]:
    """Find clients that send requests to all of their brokers, and for some time to all but one, which the others still use.

    Brokers that are away or lead nothing, according to one of the `known` findings, are left out.
    """
    grid = tables.grids.routes
    if len({name[0] for name in grid.names}) < 2:
        return
    routes = _routes(grid)
    of_services: list[_Gap] = []
    for gap in _gaps(grid, routes):
        is_told = any(_includes(other, gap) for other in of_services) or any(_is_about(each, gap) for each in known)
        if not is_told:
            of_services.append(gap)
    for together in _of_one_cause(of_services):
        yield _unreached(tables, together)


def _routes(grid: Grid) -> list[_Route]:
    """Return the routes of services, and then those of the clients of services with several."""
    services: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for row, (node, client_id, principal, api) in enumerate(grid.names):
        services[node, service_of(client_id), principal, api].append(row)
    clients: dict[tuple[Any, ...], set[Any]] = defaultdict(set)
    for (_, service, principal, api), rows in services.items():
        clients[service, principal, api].update(grid.names[row][1] for row in rows)
    found = [
        _route(grid, (node, principal, api), tuple(sorted(clients[service, principal, api], key=str)), rows)
        for (node, service, principal, api), rows in services.items()
    ]
    single = [row for rows in services.values() for row in rows]
    for row in single:
        node, client_id, principal, api = grid.names[row]
        if len(clients[service_of(client_id), principal, api]) > 1:
            found.append(_route(grid, (node, principal, api), (client_id,), [row]))
    return found


def _route(grid: Grid, name: tuple[int, Any, str], clients: tuple[Any, ...], rows: list[int]) -> _Route:
    first_us = np.where(grid["first_us"][rows] > 0, grid["first_us"][rows], np.inf).min(0)
    node, principal, api = name
    return _Route(node, principal, api, clients, grid["requests"][rows].sum(0), first_us, grid["last_us"][rows].max(0))


def _gaps(grid: Grid, routes: list[_Route]) -> Iterator[_Gap]:
    """Yield the gaps that are far longer than others, with as many requests missing as are no chance."""
    counts = np.array([each.counts for each in routes])
    last_us = np.array([each.last_us for each in routes])
    end_us = float(last_us.max())
    following = np.minimum.accumulate(np.array([each.first_us for each in routes])[:, ::-1], axis=1)[:, ::-1]
    following = np.minimum(np.column_stack((following[:, 1:], np.full(len(routes), np.inf))), end_us)
    lengths = np.where(counts > 0, following - last_us, 0.0)
    longest = np.sort(lengths, axis=1)[:, -2:] if lengths.shape[1] > 1 else np.column_stack((lengths * 0, lengths))
    wanted = (longest[:, 1] >= limits.UNREACHED_MINUTES * _MINUTE_US) & (longest[:, 1] >= _BEYOND * longest[:, 0])
    nodes: dict[int, Values] = {}
    for row, name in enumerate(grid.names):
        nodes[name[0]] = nodes.get(name[0], 0) + grid["requests"][row]
    whole = sum(nodes.values())
    by_subject: dict[tuple[Any, ...], Values] = defaultdict(lambda: np.zeros(grid.axis.length))
    goes_on: dict[tuple[Any, ...], float] = defaultdict(float)
    for each in routes:
        subject = each.clients, each.principal, each.api
        by_subject[subject] += each.counts
        goes_on[subject] = max(goes_on[subject], float(each.last_us.max()))
    for place in np.flatnonzero(wanted).tolist():
        route, at = routes[place], int(np.argmax(lengths[place]))
        ends = float(last_us[place, at]), float(following[place, at])
        others = by_subject[route.clients, route.principal, route.api] - route.counts
        missing = _missing(grid, route.counts, others, ends)
        if goes_on[route.clients, route.principal, route.api] < ends[0] + limits.UNREACHED_MINUTES * _MINUTE_US:
            continue
        if missing < limits.UNREACHED_REQUESTS or route.counts[: at + 1].sum() < limits.UNREACHED_REQUESTS / 2:
            continue
        of_broker = nodes[route.node] - route.counts
        elsewhere = whole - nodes[route.node] - others
        usual = _missing(grid, of_broker, elsewhere, ends)
        inside = _inside(grid, ends)
        if usual > 0 and (of_broker * inside).sum() >= _STILL_THERE * usual:
            yield _Gap(route, *ends, ends[1] < end_us, missing)


def _inside(grid: Grid, ends: tuple[float, float]) -> Values:
    """Return the part of each hour that is in a gap."""
    starts = (grid.axis.first_s + np.arange(grid.axis.length) * grid.axis.step_s) * 1e6
    found: Values = np.clip(np.minimum(ends[1], starts + _HOUR_US) - np.maximum(ends[0], starts), 0, None) / _HOUR_US
    return found


def _missing(grid: Grid, mine: Values, others: Values, ends: tuple[float, float]) -> float:
    """Return how many requests were expected in a gap, given those to other brokers and the ratio of the two at other times."""
    inside = _inside(grid, ends)
    without = float((others * (1 - inside)).sum())
    return float(mine.sum() * (others * inside).sum() / without) if without else 0.0


def _includes(one: _Gap, other: _Gap) -> bool:
    mine, its = one.route, other.route
    is_same = (mine.node, mine.principal, mine.api) == (its.node, its.principal, its.api)
    return is_same and set(its.clients) <= set(mine.clients) and _is_near(one, other)


def _is_near(one: _Gap, other: _Gap) -> bool:
    return apart(one.span, other.span) <= _TOGETHER


def _is_about(finding: Finding, gap: _Gap) -> bool:
    """Return whether a finding says why a broker has no requests of a client in most of a gap."""
    if finding.span is None:
        return False
    evidence = finding.evidence
    if finding.name == "hot-broker" and evidence.get("node") == gap.route.node:
        return abs(finding.span.last - gap.span.first) <= _TOGETHER  # it led more only until then
    if finding.span.common_minutes(gap.span) < gap.span.length_minutes / 2:
        return False
    if finding.name == "hot-broker":
        return True
    if finding.name in ("absent-broker", "fewer-leaders"):
        return bool(evidence.get("node") == gap.route.node or str(gap.route.node) in str(evidence.get("brokers") or "").split(", "))
    return finding.name == "silent-client" and evidence.get("client_id") in gap.route.clients


def _of_one_cause(found: list[_Gap]) -> list[list[_Gap]]:
    return grouped(
        sorted(found, key=lambda one: (one.first_us, str(one.route.clients))),
        lambda group, one: _is_same(group[0].route, one.route) and _is_near(group[0], one),
    )


def _left_over(grid: Grid, together: list[_Gap]) -> list[int]:
    """Return the brokers to which the clients of gaps do send requests then."""
    clients = {(client, each.route.principal, each.route.api) for each in together for client in each.route.clients}
    inside = _inside(grid, (max(each.first_us for each in together), min(each.last_us for each in together))) >= 1
    rows = [row for row, name in enumerate(grid.names) if name[1:] in clients and grid["requests"][row, inside].any()]
    return sorted({grid.names[row][0] for row in rows})


def _is_same(one: _Route, other: _Route) -> bool:
    """Return whether two are about the same broker, or about the same clients."""
    return one.node == other.node or (one.clients, one.principal, one.api) == (other.clients, other.principal, other.api)


def _unreached(tables: Tables, together: list[_Gap]) -> Finding:
    clients = list(dict.fromkeys(client for each in together for client in each.route.clients))
    principals = sorted({str(each.route.principal) for each in together})
    apis = sorted({each.route.api for each in together})
    nodes, missing = sorted({each.route.node for each in together}), sum(each.missing for each in together)
    span = enclosing(each.span for each in together)
    is_over = all(each.is_over for each in together)
    who = name_of(clients[0]) if len(clients) == 1 else f"{len(clients)} clients"
    topics = sorted(
        {
            topic
            for each in together
            for client in each.route.clients
            for topic in topics_of(tables, (client, each.route.principal), each.route.api)
        }
    )
    left = _left_over(tables.grids.routes, together) if nodes[1:] else []
    conditions = [f"node = {nodes[0]}" if len(nodes) == 1 else f"node IN ({', '.join(map(str, nodes))})"]
    conditions += [equal(client_id=clients[0])] if len(clients) == 1 else []
    conditions += [equal(principal=principals[0])] if len(clients) > 1 and len(principals) == 1 else []
    return Finding(
        "unreached-broker",
        f"{who} sent no {' or '.join(apis)} requests to "
        + (f"broker {nodes[0]}, but to the others" if len(nodes) == 1 else f"{len(nodes)} of their brokers")
        + (f", but to broker {left[0]} only" if len(left) == 1 else "")
        + f", {text(span.first)}"
        + (f" to {text(span.last)}" if is_over else ", and has not come back" if len(clients) == 1 else ", and have not come back"),
        {
            "node": the_only(nodes),
            "brokers": several([str(each) for each in nodes]),
            "broker left": the_only(left),
            "client_id": the_only(clients),
            "clients": several([str(each) for each in clients]),
            "principal": the_only(principals),
            "principals": several(principals),
            "apis": ", ".join(apis),
            "topic": the_only(topics),
            "topics": several(topics),
            "minutes": span.length_minutes,
            "requests missing": round(missing),
        },
        " AND ".join(conditions),
        "Look for a firewall rule, a name or a route that its network lacks, unless leaders were moved away on purpose: its "
        "writes to the broker's partitions wait or are lost, and it does not read them.",
        text(span.first),
        text(span.last),
        missing,
        impact=f"about {missing:,.0f} requests missing",
    )
