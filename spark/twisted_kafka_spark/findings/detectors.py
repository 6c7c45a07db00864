"""Findings about clients: excessive or wasteful requests, throttling, and obsolete versions."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.findings.finding import Finding, Span, equal, spans, text
from twisted_kafka_spark.records.kafka_names import OLDEST_IN_KAFKA_4, WAITS_BY_DESIGN

if TYPE_CHECKING:
    from twisted_kafka_spark.views import Row, Tables

Minutes = dict[datetime.datetime, float]
Who = tuple[Any, Any]


def name_of(client_id: str | None) -> str:
    """Return the name of a client at the beginning of a sentence."""
    return "A client without a client id" if client_id is None else f"Client {client_id}"


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
        for span in spans(busy, limits.MINUTES_FLOOR):
            yield who, span


def _spanned(name: str, title: str, span: Span, where: str, advice: str, **evidence: Any) -> Finding:
    return Finding(
        name,
        f"{title}, {text(span.first)} to {text(span.last)}",
        {"minutes": span.minutes, "maximum per minute": round(max(span.values)), **evidence},
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


def _is_often_throttled(row: Row) -> bool:
    throttled = row["throttled"]
    if throttled < limits.THROTTLED_REQUESTS_FLOOR or throttled < limits.THROTTLED_SHARE * row["requests"]:
        return False
    return bool(row["throttle_us"] / throttled >= limits.THROTTLED_MEAN_US)


def throttled_clients(tables: Tables) -> Iterator[Finding]:
    """Find clients that are throttled by a quota: in many of their requests, or most of the time of a connection."""
    shares = throttled_shares(tables["throttled_connection"])
    whole_us = _spent_us(tables["tick"])
    minutes = _by_client(tables["throttled_minute"], ("Produce", "Fetch", *{row["api"] for row in tables["throttled_minute"]}))
    for row in tables["client"]:
        throttled, requests = row["throttled"] or 0, row["requests"]
        share = shares.get((row["client_id"], row["principal"]), 0.0)
        of_all = row["throttle_us"] / max(whole_us, 1)
        is_long = row["throttle_us"] >= limits.THROTTLED_TIME_FLOOR_US and share >= limits.THROTTLED_TIME_SHARE
        is_much = row["throttle_us"] >= limits.THROTTLED_OF_ALL_FLOOR_US and of_all >= limits.THROTTLED_OF_ALL_TIME
        if not throttled or not (is_long or is_much or _is_often_throttled(row)):
            continue
        times = sorted(minutes.get((row["client_id"], row["principal"]), {}))
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
        )


def rebalance_storms(tables: Tables) -> Iterator[Finding]:
    """Find groups that rebalance continuously."""
    for (client_id, principal), span in _storms(tables["client_minute"], limits.REBALANCE_APIS, limits.REBALANCES_A_MINUTE):
        groups = _groups(tables["group"], (client_id, principal), span)
        found = _spanned(
            "rebalance-storm",
            f"{name_of(client_id)} caused continuous rebalances of {f'group {groups[0]}' if groups else 'its group'}",
            span,
            equal(client_id=client_id) + " AND api IN ('JoinGroup', 'SyncGroup', 'LeaveGroup', 'Heartbeat')",
            "Check for members that exceed max.poll.interval.ms or restart; static membership (group.instance.id) allows restarts.",
            client_id=client_id,
            principal=principal,
            group_id=groups[0] if groups else None,
            **{"other groups": len(groups) - 1 if groups[1:] else None},
        )
        found.explains = {*limits.REBALANCE_APIS, "Heartbeat", "FindCoordinator"}
        yield found


def _groups(rows: list[Row], who: Who, span: Span) -> list[str]:
    """Return the groups that a client joined, synchronized or left in a span, the one with the most such requests first."""
    found: dict[str, int] = defaultdict(int)
    for row in rows:
        if (
            (row["client_id"], row["principal"]) == who
            and row["api"] in limits.REBALANCE_APIS
            and span.first <= row["at"] <= span.last
        ):
            found[row["group_id"]] += row["requests"]
    return sorted(found, key=lambda group: (-found[group], group))


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


def commit_floods(tables: Tables) -> Iterator[Finding]:
    """Find consumers that commit after every batch."""
    counts = {(row["client_id"], row["principal"], row["api"]): row["requests"] for row in tables["client_api"]}
    for (client_id, principal), span in _storms(tables["client_minute"], ("OffsetCommit",), limits.COMMITS_A_MINUTE):
        commits = counts.get((client_id, principal, "OffsetCommit"), 0)
        fetches = counts.get((client_id, principal, "Fetch"), 0)
        if commits < limits.COMMITS_PER_FETCH * fetches:
            continue
        found = _spanned(
            "commit-flood",
            f"{name_of(client_id)} committed offsets as often as it fetched",
            span,
            equal(client_id=client_id, api="OffsetCommit"),
            "Commit every few seconds or once per poll, instead of after every record.",
            client_id=client_id,
            principal=principal,
            commits=commits,
            fetches=fetches,
        )
        found.explains = {"OffsetCommit"}
        yield found


def fetch_storms(tables: Tables) -> Iterator[Finding]:
    """Find consumers that fetch without waiting for data."""
    shares = {
        (row["client_id"], row["principal"]): row["empty"] / row["requests"]
        for row in tables["client_api"]
        if row["api"] == "Fetch"
    }
    for (client_id, principal), span in _storms(tables["client_minute"], ("Fetch",), limits.FETCHES_A_MINUTE):
        share = shares.get((client_id, principal), 0.0)
        if share < limits.FETCH_EMPTY_SHARE:
            continue
        found = _spanned(
            "fetch-storm",
            f"{name_of(client_id)} fetched without waiting for data",
            span,
            equal(client_id=client_id, api="Fetch"),
            "Increase its fetch.max.wait.ms and fetch.min.bytes, so that fetches wait for data.",
            client_id=client_id,
            principal=principal,
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
            found = _spanned(
                "reconnect-storm",
                f"{name_of(client_id)} opened new connections continuously",
                span,
                equal(client_id=client_id),
                "Check why its connections are closed (authentication, timeouts); increase reconnect.backoff.max.ms meanwhile.",
                client_id=client_id,
                principal=principal,
            )
            found.explains = {"ApiVersions", "Metadata", "SaslHandshake", "SaslAuthenticate"}
            yield found


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


def tiny_batches(tables: Tables) -> Iterator[Finding]:
    """Find producers that send many small requests."""
    for row in tables["client_api"]:
        if row["api"] != "Produce" or row["requests"] < limits.TINY_BATCHES_FLOOR or not row["bytes"]:
            continue
        mean = row["bytes"] / row["requests"]
        if mean >= limits.TINY_BATCH_BYTES:
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
        share = row["empty"] / row["requests"]
        if share < limits.IDLE_SHARE:
            continue
        yield Finding(
            "idle-poller",
            f"{name_of(row['client_id'])} fetched {row['requests']:,} times, and {share:.0%} of the fetches were empty",
            {"client_id": row["client_id"], "principal": row["principal"], "fetches": row["requests"], "empty": row["empty"]},
            equal(client_id=row["client_id"], api="Fetch"),
            "Stop it if it is not needed, or increase its fetch.max.wait.ms.",
            weight=row["requests"],
        )


MINUTE_DETECTORS = (rebalance_storms, metadata_storms, reconnect_storms, commit_floods, fetch_storms)
PERIOD_DETECTORS = (throttled_clients, old_clients, tiny_batches, idle_pollers)
