"""Findings about changes: of the cluster by an administrator, of a client's version, of a topic's readers."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.findings.detectors import name_of
from twisted_kafka_spark.findings.finding import Finding, equal, from_us
from twisted_kafka_spark.records.connections import address
from twisted_kafka_spark.records.kafka_names import ADMINISTRATION

if TYPE_CHECKING:
    from twisted_kafka_spark.views import Row, Tables

_HARMLESS = ("CreateTopics", "CreatePartitions", "CreateDelegationToken", "RenewDelegationToken", "ExpireDelegationToken")
"""Changes that take nothing from anybody. They are no findings, but are in the report's table."""
_CONFIGS = ("AlterConfigs", "IncrementalAlterConfigs")
_HOUR_US = 3_600_000_000


def cluster_changes(tables: Tables) -> Iterator[Finding]:
    """Find who deleted topics or records, changed ACLs, users, quotas or brokers, unless a principal does so all day."""
    by_principal: dict[Any, list[Row]] = defaultdict(list)
    for row in tables["change"]:
        if row["api"] in ADMINISTRATION and row["first_us"] and not _is_harmless(row):
            by_principal[row["principal"]].append(row)
    for principal, rows in sorted(by_principal.items(), key=str):
        rows.sort(key=lambda row: row["first_us"])
        if len({row["first_us"] // _HOUR_US for row in rows}) >= limits.CHANGES_IN_HOURS:
            continue
        for session in _sessions(rows):
            yield _changed(principal, session)


def _is_harmless(row: Row) -> bool:
    """Return whether a change is one of topics' configs, or adds something."""
    return row["api"] in _HARMLESS or (row["api"] in _CONFIGS and "broker" not in (row["note"] or ""))


def _sessions(rows: Iterable[Row]) -> Iterator[list[Row]]:
    session: list[Row] = []
    for row in rows:
        if session and row["first_us"] - max(each["last_us"] for each in session) > limits.SESSION_US:
            yield session
            session = []
        session.append(row)
    if session:
        yield session


def _changed(principal: str | None, session: list[Row]) -> Finding:
    first, last = from_us(session[0]["first_us"]), from_us(max(row["last_us"] for row in session))
    apis = list(dict.fromkeys(row["api"] for row in session))
    subjects = list(dict.fromkeys(part for row in session for part in (row["note"] or "").split(", ") if part))
    topics = [subject.removeprefix("topic ") for subject in subjects if subject.startswith("topic ")]
    refused = sum(row["requests"] for row in session if row["error"] is not None)
    from_where = sorted({where for row in session if (where := address(row["connection"])) is not None})
    clients = list(dict.fromkeys(row["client_id"] for row in session))
    about = f": {', '.join(subjects[:2])}{' ...' if subjects[2:] else ''}" if subjects else ""
    return Finding(
        "cluster-change",
        f"{principal} sent {' and '.join(apis[:3])}{about}, {first}",
        {
            "principal": principal,
            "client_id": clients[0] if len(clients) == 1 else None,
            "address": from_where[0] if len(from_where) == 1 else None,
            "addresses": ", ".join(from_where[:3]) if from_where[1:] else None,
            "apis": ", ".join(apis),
            "topic": topics[0] if len(topics) == 1 else None,
            "about": ", ".join(subjects[:8]) or None,
            "requests": sum(row["requests"] for row in session),
            "failed": refused,
            "errors": ", ".join(sorted({row["error"] for row in session if row["error"] is not None})) or None,
        },
        f"{equal(principal=principal)} AND api IN ('" + "', '".join(apis) + "')",
        "Check that this was intended. The report's section about administration has every change.",
        first,
        last,
        float(sum(row["requests"] for row in session)),
    )


def changed_clients(tables: Tables) -> Iterator[Finding]:
    """Find clients whose library or version is another one from some time on."""
    by_client: dict[tuple[Any, Any], list[Row]] = defaultdict(list)
    for row in tables["software_of"]:
        if row["first_us"] and row["software"] not in (None, "unknown"):
            by_client[row["client_id"], row["principal"]].append(row)
    changes: dict[tuple[str, str], list[tuple[Any, Any, Row, Row]]] = defaultdict(list)
    for (client_id, principal), rows in sorted(by_client.items(), key=str):
        rows.sort(key=lambda row: row["first_us"])
        for old, new in pairwise(rows):
            is_after = new["first_us"] >= old["last_us"] - limits.CHANGE_OVERLAP_US
            if is_after and min(old["requests"], new["requests"]) >= limits.CHANGED_REQUESTS and client_id is not None:
                changes[_software(old), _software(new)].append((client_id, principal, old, new))
    for (before, after), clients in sorted(changes.items()):
        for client_id, principal, old, new in clients[:1] if len(clients) > limits.CHANGED_TOGETHER else clients:
            several = len(clients) > limits.CHANGED_TOGETHER
            whole = [name_of(each[0]) for each in clients]
            yield Finding(
                "changed-client",
                f"{f'{len(clients)} clients' if several else name_of(client_id)} changed from {before} to {after}, "
                f"{from_us(min(each[3]['first_us'] for each in clients) if several else new['first_us'])}",
                {
                    "client_id": None if several else client_id,
                    "clients": ", ".join(whole[:5]) if several else None,
                    "principal": principal if len({each[1] for each in clients}) == 1 or not several else None,
                    "before": before,
                    "after": after,
                    "requests before": old["requests"],
                    "requests after": new["requests"],
                },
                equal(client_id=client_id, software_version=new["software_version"]),
                "Compare its latency and errors before and after with --compare, if the change was not planned.",
                from_us(new["first_us"]),
                from_us(new["last_us"]),
                float(new["requests"]),
            )


def _software(row: Row) -> str:
    return f"{row['software']} {row['software_version']}"


def broad_readers(tables: Tables) -> Iterator[Finding]:
    """Find principals that read many topics within a short time, and far more of them than any other: somebody copies all."""
    topics: dict[Any, set[str]] = defaultdict(set)
    rows_of: dict[Any, list[Row]] = defaultdict(list)
    for row in tables["lineage"]:
        if row["api"] in ("Fetch", "ShareFetch") and row["topic"] is not None and row["first_us"]:
            topics[row["principal"]].add(row["topic"])
            rows_of[row["principal"]].append(row)
    if not rows_of:
        return
    begin = min(row["first_us"] for rows in rows_of.values() for row in rows)
    end = max(row["last_us"] for rows in rows_of.values() for row in rows)
    for principal, mine in sorted(topics.items(), key=str):
        others = [len(each) for other, each in topics.items() if other != principal]
        rows = rows_of[principal]
        first, last = min(row["first_us"] for row in rows), max(row["last_us"] for row in rows)
        is_broad = len(mine) >= max(limits.BROAD_TOPICS, limits.BROAD_FACTOR * statistics.median(others or [0]))
        if not is_broad or last - first > (end - begin) * limits.BROAD_SHARE:
            continue
        clients = sorted({str(row["client_id"]) for row in rows})
        from_where = sorted({row["note"] for row in tables["address"] if row["principal"] == principal and row["note"]})
        yield Finding(
            "broad-reader",
            f"{principal} read {len(mine)} topics, {from_us(first)} to {from_us(last)}",
            {
                "principal": principal,
                "client_id": clients[0] if len(clients) == 1 else None,
                "address": from_where[0] if len(from_where) == 1 else None,
                "topics": f"{len(mine)}: {', '.join(sorted(mine)[:3])} ...",
                "topics that others read": max(others, default=0),
                "bytes": sum(row["bytes"] or 0 for row in rows),
            },
            f"{equal(principal=principal, api='Fetch')}",
            "Find out who uses this principal, and whether it may read all of them; revoke its rights or credentials otherwise.",
            from_us(first),
            from_us(last),
            float(len(mine)),
            impact=f"{sum(row['bytes'] or 0 for row in rows) / 1e6:,.0f} MB read",
        )
