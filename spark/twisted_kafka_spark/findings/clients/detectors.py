"""Findings about clients: excessive or wasteful requests, throttling, and obsolete versions."""

from __future__ import annotations

import datetime
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.findings.finding import Finding, Span, apart, equal, grouped, several, spans, text, the_only
from twisted_kafka_spark.findings.names import name_of
from twisted_kafka_spark.records.kafka_names import OF_EACH_START, OLDEST_IN_KAFKA_4, WAITS_BY_DESIGN

if TYPE_CHECKING:
    from twisted_kafka_spark.views import Row, Tables

_SAME_TIME = datetime.timedelta(minutes=10)
"""How much the begins, and the ends, of the throttling of clients by one quota differ."""
Minutes = dict[datetime.datetime, float]
Who = tuple[Any, Any]


def _by_client(rows: list[Row], apis: tuple[str, ...], measure: str = "requests") -> dict[Who, Minutes]:
    """Sum a measure over some APIs by client and minute."""
    found: dict[Who, Minutes] = defaultdict(lambda: defaultdict(float))
    for row in rows:
        if row["api"] in apis:
            found[row["client_id"], row["principal"]][row["at"]] += row[measure]
    return found


def _storms(rows: list[Row], apis: tuple[str, ...], floor: float) -> Iterator[tuple[Who, Span]]:
    """Yield the clients, and the spans in which they sent at least `floor` of these requests per minute."""
    for who, minutes in sorted(_by_client(rows, apis).items(), key=str):
        busy = {at: count for at, count in minutes.items() if count >= floor}
        near = {at for at, count in minutes.items() if count >= limits.NEARLY * floor}
        for span in spans(busy, limits.MINUTES_FLOOR, near):
            yield who, span


def _spanned(name: str, title: str, span: Span, where: str, advice: str, **evidence: Any) -> Finding:
    return Finding(
        name,
        f"{title}, {text(span.first)} to {text(span.last)}",
        {"minutes": span.unusual_minutes, "maximum per minute": round(max(span.values)), **evidence},
        f"{where} AND {span.where}",
        advice,
        text(span.first),
        text(span.last),
        sum(span.values),
    )


def throttled_shares(rows: Iterable[Row]) -> dict[Who, float]:
    """Return the share of its time that each client was throttled, on its most throttled connection.

    A connection's time is the time from its first line to its last, plus the throttle time of the last line.
    """
    shares: dict[Who, float] = defaultdict(float)
    for row in rows:
        who = row["client_id"], row["principal"]
        throttle_us = row["throttle_us"]
        span_us = max(row["last_us"] - row["first_us"], 0) + throttle_us / row["requests"]
        shares[who] = max(shares[who], min(throttle_us / max(span_us, 1), 1.0))
    return shares


def _spent_us(rows: Iterable[Row]) -> int:
    """Return the time that all requests took, without what fetches and joins wait by design."""
    return sum(row["total_us"] - (row["remote_us"] if row["api"] in WAITS_BY_DESIGN else 0) for row in rows)


def _is_often_throttled(tables: Tables, row: Row, times: list[datetime.datetime]) -> bool:
    """Return whether many requests were throttled, of those in the slots with throttled ones."""
    throttled = row["throttled"]
    grid = tables.grids.persons
    rows = grid.rows(client_id=row["client_id"], principal=row["principal"])
    slots = sorted({grid.axis.place(at) for at in times})
    requests = sum(grid["requests"][each, slots].sum() for each in rows) if rows and slots else row["requests"]
    if throttled < limits.THROTTLED_REQUESTS_FLOOR or throttled < limits.THROTTLED_SHARE * requests:
        return False
    return bool(row["throttle_us"] / throttled >= limits.THROTTLED_MEAN_US)


def throttled_clients(tables: Tables) -> Iterator[Finding]:
    """Find clients that are throttled by a quota: in many of their requests, or most of the time of a connection.

    Many that are throttled in the same time are one finding: it is a quota of all of them, such as the default one.
    """
    found = list(_throttled(tables))
    in_order = sorted(found, key=lambda each: (each.first or "", str(each.evidence["client_id"])))
    groups = grouped(in_order, lambda group, one: _is_at_once(group[0], one))
    together = [group for group in groups if len(group) >= limits.THROTTLED_TOGETHER]
    yield from (one for one in found if not any(one in group for group in together))
    yield from map(_throttled_together, together)


def _is_at_once(one: Finding, other: Finding) -> bool:
    """Return whether two findings begin, and end, within some minutes of each other."""
    return one.span is not None and other.span is not None and apart(one.span, other.span) <= _SAME_TIME


def _throttled_together(group: list[Finding]) -> Finding:
    names = [str(one.evidence["client_id"]) for one in sorted(group, key=lambda each: -each.weight)]
    principals = sorted({str(one.evidence["principal"]) for one in group})
    first, last = min(one.first or "" for one in group), max(one.last or "" for one in group)
    whole = sum(one.weight for one in group)
    return Finding(
        "throttled-client",
        f"{len(names)} clients were throttled by a quota at the same time for {whole:,.0f} s in total, {first} to {last}",
        {
            "clients": several(names),
            "principal": the_only(principals),
            "principals": several(principals),
            "throttled requests": sum(one.evidence["throttled requests"] for one in group),
        },
        "throttle_us > 0",
        "Look for a change of quotas at that time, above all of the default ones (kafka-configs --entity-default).",
        first,
        last,
        whole,
        {"Produce", "Fetch"},
        impact=f"{whole:,.0f} s of waiting",
    )


def _throttled(tables: Tables) -> Iterator[Finding]:
    shares = throttled_shares(tables["throttled_connection"])
    whole_us = _spent_us(tables["tick"])
    minutes = _by_client(tables["throttled_minute"], ("Produce", "Fetch", *{row["api"] for row in tables["throttled_minute"]}))
    for row in tables["client"]:
        throttled, requests = row["throttled"] or 0, row["requests"]
        share = shares.get((row["client_id"], row["principal"]), 0.0)
        of_all = row["throttle_us"] / max(whole_us, 1)
        is_long = row["throttle_us"] >= limits.THROTTLED_TIME_FLOOR_US and share >= limits.THROTTLED_TIME_SHARE
        is_much = row["throttle_us"] >= limits.THROTTLED_OF_ALL_FLOOR_US and of_all >= limits.THROTTLED_OF_ALL_TIME
        times = sorted(minutes.get((row["client_id"], row["principal"]), {}))
        if not throttled or not (is_long or is_much or _is_often_throttled(tables, row, times)):
            continue
        yield Finding(
            "throttled-client",
            f"{name_of(row['client_id'])} was throttled by a quota for {row['throttle_us'] / 1e6:,.0f} s in total",
            {
                "client_id": row["client_id"],
                "principal": row["principal"],
                "throttled requests": throttled,
                "requests": requests,
                "mean throttle ms": round(row["throttle_us"] / throttled / 1000, 1),
                "share of its time": f"{share:.0%}",
                "share of the time of all requests": f"{of_all:.0%}",
            },
            equal(client_id=row["client_id"]) + " AND throttle_us > 0",
            "Increase its quota (kafka-configs --entity-type clients) if the load is intended; otherwise reduce its load.",
            text(times[0]) if times else None,
            text(times[-1]) if times else None,
            row["throttle_us"] / 1e6,
            {"Produce", "Fetch"},
            impact=f"{row['throttle_us'] / 1e6:,.0f} s of waiting",
        )


def rebalance_storms(tables: Tables) -> Iterator[Finding]:
    """Find groups that rebalance continuously, whichever of their members send the requests."""
    grid = tables.grids.groups
    rows = [row for row, name in enumerate(grid.names) if name[3] in limits.REBALANCE_APIS]
    for group in dict.fromkeys(grid.names[row][0] for row in rows):
        mine = [row for row in rows if grid.names[row][0] == group]
        counts = grid["requests"][mine]
        busy = {grid.axis.moment(int(at)): float(counts[:, at].sum()) for at in np.flatnonzero(counts.sum(0))}
        near = {at for at, count in busy.items() if count >= limits.NEARLY * limits.REBALANCES_A_MINUTE}
        above = {at: count for at, count in busy.items() if count >= limits.REBALANCES_A_MINUTE}
        for span in spans(above, limits.MINUTES_FLOOR, near):
            inside = slice(grid.axis.place(span.first), grid.axis.place(span.last) + 1)
            sums = {row: float(grid["requests"][row, inside].sum()) for row in mine}
            joins = [count for row, count in sums.items() if grid.names[row][3] == "JoinGroup" and count]
            if span.unusual_minutes < limits.STORM_MINUTES or sum(joins) < limits.STORM_ROUNDS * len(joins):
                continue
            yield _rebalance_storm(group, span, {grid.names[row]: count for row, count in sums.items() if count})
    known = {name[1:3] for name in grid.names}
    rest = [row for row in tables["client_minute"] if (row["client_id"], row["principal"]) not in known]
    for who, span in _storms(rest, limits.REBALANCE_APIS, limits.REBALANCES_A_MINUTE):  # lines that name no group
        yield _rebalance_storm(None, span, {(None, *who, ""): sum(span.values)})


def _rebalance_storm(group: str | None, span: Span, sums: dict[tuple[Any, ...], float]) -> Finding:
    by_client: dict[Who, float] = defaultdict(float)
    for (_, client_id, principal, _), count in sums.items():
        by_client[client_id, principal] += count
    clients = sorted(by_client, key=lambda who: (-by_client[who], str(who)))
    who = name_of(clients[0][0]) if len(clients) == 1 else f"{len(clients)} clients"
    found = _spanned(
        "rebalance-storm",
        f"{who} caused continuous rebalances of {'its group' if group is None else f'group {group}'}",
        span,
        (equal(client_id=clients[0][0]) if group is None else equal(group_id=group))
        + " AND api IN ('JoinGroup', 'SyncGroup', 'LeaveGroup', 'Heartbeat')",
        "Check for members that exceed max.poll.interval.ms or restart; static membership (group.instance.id) allows restarts.",
        client_id=clients[0][0] if len(clients) == 1 else None,
        clients=several([str(each[0]) for each in clients]),
        principal=clients[0][1] if len({each[1] for each in clients}) == 1 else None,
        group_id=group,
    )
    found.explains = {*limits.REBALANCE_APIS, "Heartbeat", "FindCoordinator"}
    found.impact = "the group's members stopped reading each time"
    return found


def metadata_storms(tables: Tables) -> Iterator[Finding]:
    """Find clients that request metadata continuously."""
    for (client_id, principal), span in _storms(tables["client_minute"], ("Metadata",), limits.METADATA_A_MINUTE):
        found = _spanned(
            "metadata-storm",
            f"{name_of(client_id)} requested metadata continuously",
            span,
            equal(client_id=client_id, api="Metadata"),
            "Reuse one client instead of opening one per operation, and check for topics that do not exist.",
            client_id=client_id,
            principal=principal,
        )
        found.explains = {"Metadata", "ApiVersions"}
        yield found


def _in_span(tables: Tables, who: Who, api: str, measure: str, span: Span) -> int:
    """Return the sum of a measure over the requests of a client and an API in the slots of a span."""
    grid = tables.grids.persons
    first, last = grid.axis.place(span.first), grid.axis.place(span.last)
    rows = grid.rows(client_id=who[0], principal=who[1], api=api)
    return int(sum(grid[measure][row, first : last + 1].sum() for row in rows))


def commit_floods(tables: Tables) -> Iterator[Finding]:
    """Find consumers that commit after every batch."""
    for who, span in _storms(tables["client_minute"], ("OffsetCommit",), limits.COMMITS_A_MINUTE):
        commits, fetches = (_in_span(tables, who, api, "requests", span) for api in ("OffsetCommit", "Fetch"))
        if commits < limits.COMMITS_PER_FETCH * fetches:
            continue
        found = _spanned(
            "commit-flood",
            f"{name_of(who[0])} committed offsets as often as it fetched",
            span,
            equal(client_id=who[0], api="OffsetCommit"),
            "Commit every few seconds or once per poll, instead of after every record.",
            client_id=who[0],
            principal=who[1],
            commits=commits,
            fetches=fetches,
        )
        found.explains = {"OffsetCommit"}
        yield found


def fetch_storms(tables: Tables) -> Iterator[Finding]:
    """Find consumers that fetch without waiting for data."""
    for who, span in _storms(tables["client_minute"], ("Fetch",), limits.FETCHES_A_MINUTE):
        share = _in_span(tables, who, "Fetch", "empty", span) / max(_in_span(tables, who, "Fetch", "requests", span), 1)
        if share < limits.FETCH_EMPTY_SHARE:
            continue
        found = _spanned(
            "fetch-storm",
            f"{name_of(who[0])} fetched without waiting for data",
            span,
            equal(client_id=who[0], api="Fetch"),
            "Increase its fetch.max.wait.ms and fetch.min.bytes, so that fetches wait for data.",
            client_id=who[0],
            principal=who[1],
            **{"share of empty fetches": round(share, 3)},
        )
        found.explains = {"Fetch"}
        yield found


def reconnect_storms(tables: Tables) -> Iterator[Finding]:
    """Find clients that reconnect continuously."""
    minutes: dict[Who, Minutes] = defaultdict(dict)
    for row in tables["new_connection"]:
        minutes[row["client_id"], row["principal"]][row["at"]] = row["requests"]
    for (client_id, principal), counted in sorted(minutes.items(), key=str):
        for span in spans(counted, limits.MINUTES_FLOOR):
            if _are_logins(tables, (client_id, principal), span):
                continue
            found = _spanned(
                "reconnect-storm",
                f"{name_of(client_id)} opened new connections continuously",
                span,
                equal(client_id=client_id),
                "Check why its connections are closed (authentication, timeouts); increase reconnect.backoff.max.ms meanwhile.",
                client_id=client_id,
                principal=principal,
            )
            found.explains = {*OF_EACH_START, "Metadata"}
            yield found


def _are_logins(tables: Tables, who: Who, span: Span) -> bool:
    """Return whether most of what looks like new connections are logins on open ones."""
    grid = tables.grids.connections
    inside = slice(grid.axis.place(span.first), grid.axis.place(span.last) + 1)
    rows = grid.rows(client_id=who[0], principal=who[1])
    return bool(rows) and float(grid["requests"][rows, inside].sum()) < sum(span.values) / 2


def old_clients(tables: Tables) -> Iterator[Finding]:
    """Find clients that do not work with Kafka 4."""
    used: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in tables["old_version"]:
        if row["api"] not in OLDEST_IN_KAFKA_4:  # a SASL token without a header has version -1
            continue
        used[row["client_id"], row["principal"], row["software"], row["software_version"]].append(row)
    for (client_id, principal, software, version), rows in used.items():
        count = sum(row["requests"] for row in rows)
        if count < limits.OLD_VERSION_FLOOR:
            continue
        rows.sort(key=lambda row: (-row["requests"], row["api"], str(row["version"])))
        versions = ", ".join(f"{row['api']} v{row['version']}" for row in rows)
        conditions = " OR ".join(
            f"(api = '{api}' AND version < {OLDEST_IN_KAFKA_4[api]})" for api in sorted({row["api"] for row in rows})
        )
        yield Finding(
            "old-client",
            f"{name_of(client_id)} uses API versions that Kafka 4 no longer supports: {versions}",
            {
                "client_id": client_id,
                "principal": principal,
                "software": f"{software} {version}",
                "requests": count,
                **{f"{row['api']} v{row['version']}": row["requests"] for row in rows},
            },
            f"{equal(client_id=client_id)} AND ({conditions})",
            "Upgrade its library (Java clients to 2.1, librdkafka to 1.8, or newer) before upgrading the brokers to 4.0 (KIP-896).",
            weight=count,
        )


def _busiest_minutes(tables: Tables, row: Row) -> float:
    """Return the requests a minute of a client and an API in the slots in which there are some, the median of them."""
    grid = tables.grids.persons
    rows = grid.rows(client_id=row["client_id"], principal=row["principal"], api=row["api"])
    if not rows:
        return math.inf
    counts = grid["requests"][rows].sum(0)
    return float(np.median(counts[counts > 0])) / (grid.axis.step_s / 60)


def _waits(tables: Tables, row: Row) -> bool:
    """Return whether a consumer's fetches wait for records for a while, as they do by default where nothing is written."""
    grid = tables.grids.persons
    rows = grid.rows(client_id=row["client_id"], principal=row["principal"], api="Fetch")
    requests, waited = (float(grid[measure][rows].sum()) if rows else 0.0 for measure in ("requests", "remote_us"))
    return requests > 0 and waited / requests >= limits.IDLE_WAITS_US


def tiny_batches(tables: Tables) -> Iterator[Finding]:
    """Find producers that send many small requests."""
    for row in tables["client_api"]:
        if row["api"] != "Produce" or row["requests"] < limits.TINY_BATCHES_FLOOR or not row["bytes"]:
            continue
        mean = row["bytes"] / row["requests"]
        if mean >= limits.TINY_BATCH_BYTES or _busiest_minutes(tables, row) < limits.TINY_BATCHES_A_MINUTE:
            continue
        yield Finding(
            "tiny-batches",
            f"{name_of(row['client_id'])} produces {mean:,.0f} bytes per request",
            {"client_id": row["client_id"], "principal": row["principal"], "requests": row["requests"], "mean bytes": round(mean)},
            equal(client_id=row["client_id"], api="Produce"),
            "Increase its linger.ms to 5 or more: the broker's cost is per request and batch, not per record.",
            weight=row["requests"],
        )


def idle_pollers(tables: Tables) -> Iterator[Finding]:
    """Find consumers that poll topics without new records."""
    for row in tables["client_api"]:
        if row["api"] != "Fetch" or row["requests"] < limits.IDLE_FETCHES_FLOOR:
            continue
        empty = max(row["empty"] - (row["failed"] or 0), 0)  # a failed fetch returns nothing, but for another reason
        share = empty / row["requests"]
        if share < limits.IDLE_SHARE or _waits(tables, row):
            continue
        yield Finding(
            "idle-poller",
            f"{name_of(row['client_id'])} fetched {row['requests']:,} times, and {share:.0%} of the fetches were empty",
            {"client_id": row["client_id"], "principal": row["principal"], "fetches": row["requests"], "empty": empty},
            equal(client_id=row["client_id"], api="Fetch"),
            "Stop it if it is not needed, or increase its fetch.max.wait.ms.",
            weight=row["requests"],
        )


MINUTE_DETECTORS = (rebalance_storms, metadata_storms, reconnect_storms, commit_floods, fetch_storms)
PERIOD_DETECTORS = (throttled_clients, old_clients, tiny_batches, idle_pollers)
