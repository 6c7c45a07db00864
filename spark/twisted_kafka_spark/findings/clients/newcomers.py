"""Findings about accounts that come during the period and write what belongs to others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.findings.finding import Finding, equal, from_us, quoted, several, the_only
from twisted_kafka_spark.findings.names import ANONYMOUS, name_of

if TYPE_CHECKING:
    from twisted_kafka_spark.views import Row, Tables

_INTERNAL = "__"
"""The begin of the names of the brokers' own topics."""


def new_writers(tables: Tables) -> Iterator[Finding]:
    """Find accounts that were not there before, and write a little to topics that only other accounts have written, for long.

    An account that writes much at its time is that of a job, as on other days.
    """
    writes: dict[str, dict[Any, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in tables["lineage"]:
        if row["api"] == "Produce" and row["topic"] is not None and row["principal"] is not None and row["first_us"]:
            writes[row["topic"]][row["principal"]].append(row)
    begins = {row["principal"]: row["first_us"] for row in tables["principal_ends"] if row["first_us"]}
    known_us = min(begins.values(), default=0) + limits.ACCOUNT_KNOWN_US
    found: dict[Any, list[tuple[str, list[Row], list[str]]]] = defaultdict(list)
    for topic, by_principal in sorted(writes.items()):
        owners = sorted(
            who
            for who, rows in by_principal.items()
            if min(row["first_us"] for row in rows) < known_us and sum(row["requests"] for row in rows) >= limits.STEADY_SLOTS
        )
        for principal, rows in by_principal.items():
            is_new = begins.get(principal, 0) >= known_us and principal != ANONYMOUS
            is_some = (
                limits.NEW_WRITES <= sum(row["requests"] - (row["failed"] or 0) for row in rows) <= limits.NEW_WRITES_OF_A_PERSON
            )
            if owners and is_new and is_some and not topic.startswith(_INTERNAL):
                found[principal].append((topic, rows, owners))
    for principal, written in sorted(found.items(), key=str):
        yield _new_writer(tables, principal, written)


def _new_writer(tables: Tables, principal: str, written: list[tuple[str, list[Row], list[str]]]) -> Finding:
    rows = [row for _, mine, _ in written for row in mine]
    first, last = from_us(min(row["first_us"] for row in rows)), from_us(max(row["last_us"] for row in rows))
    clients = sorted({row["client_id"] for row in rows}, key=str)
    topics, owners = [topic for topic, _, _ in written], sorted({who for _, _, each in written for who in each})
    addresses = sorted({row["note"] for row in tables["address"] if row["principal"] == principal and row["note"]})
    requests, records = (sum(row[key] or 0 for row in rows) for key in ("requests", "records"))
    who = name_of(clients[0]) if len(clients) == 1 else f"{len(clients)} clients"
    of_one = f"topic {topics[0]}, which only {' and '.join(owners[:2])} wrote"
    about = of_one if len(topics) == 1 else f"{len(topics)} topics of others"
    return Finding(
        "new-writer",
        f"{who} of {principal}, an account that was not there before, wrote to {about}, {first} to {last}",
        {
            "principal": principal,
            "client_id": the_only(clients),
            "clients": several([str(each) for each in clients]),
            "address": the_only(addresses),
            "addresses": several(addresses),
            "topic": the_only(topics),
            "topics": several(topics),
            "writers before": ", ".join(owners[:3]),
            "requests": requests,
            "records": records or None,
        },
        f"{equal(principal=principal, api='Produce')} AND exists(topics, t -> t.topic IN ({', '.join(map(quoted, topics))}))",
        "Find out who it is and what the records are: somebody who repairs something by hand, a test, or a second service. Give "
        "each topic to one account with ACLs.",
        first,
        last,
        float(requests),
        impact=f"{requests:,} writes among those of others",
    )
