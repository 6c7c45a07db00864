"""Findings about changes: of the cluster by an administrator, of a client's version, of a topic's readers."""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.findings.finding import Finding, equal, from_us, quoted, the_only
from twisted_kafka_spark.findings.names import ANONYMOUS, name_of
from twisted_kafka_spark.records.connections import address
from twisted_kafka_spark.records.kafka_names import ADMINISTRATION

if TYPE_CHECKING:
    from twisted_kafka_spark.views import Row, Tables

_AGAIN = 4
"""How many times as long as between two changes there is between the same change and the next: it did not help."""
_HARMLESS = ("CreateTopics", "CreateDelegationToken", "RenewDelegationToken", "ExpireDelegationToken")
"""Changes that take nothing from anybody. They are no findings, but are in the report's table."""
_HOUR_US = 3_600_000_000


def cluster_changes(tables: Tables) -> Iterator[Finding]:
    """Find who deleted topics or records, changed configs, ACLs, users, quotas or brokers, unless a principal does so all day.

    A topic that its own creator deletes is no finding: tests make some, and tidy up.
    """
    by_actor: dict[str, list[Row]] = defaultdict(list)
    created = {(row["principal"], row["note"]): row["first_us"] for row in tables["created"] if row["first_us"]}
    for row in tables["change"]:
        own = row["api"] == "DeleteTopics" and created.get((row["principal"], row["note"]), row["last_us"]) < row["first_us"]
        if row["api"] in ADMINISTRATION and row["first_us"] and row["api"] not in _HARMLESS and not own:
            by_actor[_actor(row)].append(row)
    for rows in (rows for _, rows in sorted(by_actor.items())):
        rows.sort(key=lambda row: row["first_us"])
        if len({row["first_us"] // _HOUR_US for row in rows}) >= limits.CHANGES_IN_HOURS:
            continue
        for session in _sessions(rows):
            if not _is_followed_up(tables, session) and not _is_provisioning(tables, session):
                yield _changed(session)
    yield from _fights([row for rows in by_actor.values() for row in rows])
    yield from _tokens_without_end(tables)


def _tokens_without_end(tables: Tables) -> Iterator[Finding]:
    """Find principals that begin to create delegation tokens again and again, as if they could not renew one."""
    begin = min((row["first_us"] for row in tables["principal_ends"] if row["first_us"]), default=0)
    by_principal: dict[Any, list[Row]] = defaultdict(list)
    for row in tables["change"]:
        if row["api"] == "CreateDelegationToken" and row["first_us"] and row["error"] is None:
            by_principal[row["principal"]].append(row)
    for _, rows in sorted(by_principal.items(), key=str):
        rows.sort(key=lambda row: row["first_us"])
        is_new = rows[0]["first_us"] >= begin + limits.ACCOUNT_KNOWN_US
        if is_new and sum(row["requests"] for row in rows) >= limits.MANY_NAMES:
            yield _changed(rows)


def _is_followed_up(tables: Tables, session: list[Row]) -> bool:
    """Return whether a tool moves partitions and asks how far it is until they are moved, as tools that limit the load do."""
    if {row["api"] for row in session} != {"AlterPartitionReassignments"} or any(row["error"] for row in session):
        return False
    names = {(row["client_id"], row["principal"]) for row in session}
    asked = [row["requests"] for row in tables["client_api"] if row["api"] == "ListPartitionReassignments" and _who(row) in names]
    return bool(sum(asked) >= limits.CHANGED_REQUESTS * len(session))


def _is_provisioning(tables: Tables, session: list[Row]) -> bool:
    """Return whether a tool sets configs of topics when it creates some, as it does from a file."""
    if not {row["api"] for row in session} <= {"AlterConfigs", "IncrementalAlterConfigs"}:
        return False
    names, first = {_who(row) for row in session}, session[0]["first_us"] - limits.SESSION_US / 3
    last = max(row["last_us"] for row in session) + limits.SESSION_US / 3
    created = [row for row in tables["created"] if row["first_us"] and _who(row) in names]
    return any(row["first_us"] <= last and row["last_us"] >= first for row in created)


def _who(row: Row) -> tuple[Any, Any]:
    return row["client_id"], row["principal"]


def _actor(row: Row) -> str:
    """Return the principal of a change; without accounts, with the address: only addresses differ between administrators, then."""
    where = address(row["connection"])
    is_known = row["principal"] not in (None, ANONYMOUS)
    return str(row["principal"]) if is_known or where is None else f"{row['principal']} at {where}"


def _fights(rows: list[Row]) -> Iterator[Finding]:
    """Find principals that change the same again and again, in turns: each takes back what the other does."""
    by_subject: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["first_us"]):
        if row["note"] and row["error"] is None:
            by_subject[row["note"], row["api"].removeprefix("Incremental")].append(row)
    for (subject, api), changes in sorted(by_subject.items()):
        turns = sum(_actor(one) != _actor(other) for one, other in pairwise(changes))
        if turns < limits.TURNS_OF_A_FIGHT:
            continue
        who = sorted({_actor(row) for row in changes})
        principals, clients = (sorted({str(row[key]) for row in changes}) for key in ("principal", "client_id"))
        first, last = from_us(changes[0]["first_us"]), from_us(max(row["last_us"] for row in changes))
        topic = subject.removeprefix("topic ") if subject.startswith("topic ") else None
        yield Finding(
            "cluster-change",
            f"{' and '.join(who[:3])} changed {subject} in turns, {turns + 1} times, {first} to {last}",
            {
                "principals": ", ".join(principals),
                "clients": ", ".join(clients[:3]),
                "apis": api,
                "topic": topic,
                "about": subject,
                "requests": sum(row["requests"] for row in changes),
            },
            f"principal IN ({', '.join(map(quoted, principals))}) AND api LIKE '%{api}'",
            "Let one of them own it: each sets back what the other has set.",
            first,
            last,
            float(turns),
        )


def _sessions(rows: Iterable[Row]) -> Iterator[list[Row]]:
    session: list[Row] = []
    for row in rows:
        again = any((each["api"], each["note"]) == (row["api"], row["note"]) for each in session)
        longest_us = limits.SESSION_US * (_AGAIN if again else 1)
        if session and row["first_us"] - max(each["last_us"] for each in session) > longest_us:
            yield session
            session = []
        session.append(row)
    if session:
        yield session


def _changed(session: list[Row]) -> Finding:
    principal = session[0]["principal"]
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
        f"{_actor(session[0])} sent {' and '.join(apis[:3])}{about}, {first}",
        {
            "principal": principal,
            "client_id": the_only(clients),
            "address": the_only(from_where),
            "addresses": ", ".join(from_where[:3]) if from_where[1:] else None,
            "apis": ", ".join(apis),
            "topic": the_only(topics),
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
            is_known = client_id is not None and not _is_upgrade(old, new)
            if is_after and is_known and min(old["requests"], new["requests"]) >= limits.CHANGED_REQUESTS:
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


def _is_upgrade(old: Row, new: Row) -> bool:
    """Return whether a client has a newer version of the same library, as after any deployment."""
    before, after = (tuple(int(part) for part in re.findall(r"\d+", row["software_version"] or "")) for row in (old, new))
    return old["software"] == new["software"] and bool(before) and after > before


def changed_groups(tables: Tables) -> Iterator[Finding]:
    """Find groups whose members are in another group from some time on: it starts without the offsets of the old one."""
    by_client: dict[tuple[Any, Any], dict[str, list[float]]] = defaultdict(dict)
    for row in tables["member"]:
        if row["group_id"] is not None and row["first_us"]:
            known = by_client[row["client_id"], row["principal"]].setdefault(row["group_id"], [row["first_us"], 0, 0])
            known[:] = min(known[0], row["first_us"]), max(known[1], row["last_us"]), known[2] + row["requests"]
    clients: dict[tuple[str, str], list[tuple[Any, Any, float]]] = defaultdict(list)
    for (client_id, principal), groups in sorted(by_client.items(), key=str):
        for (old, ends), (new, begins) in pairwise(sorted(groups.items(), key=lambda each: each[1][0])):
            is_after = begins[0] >= ends[1] - limits.CHANGE_OVERLAP_US
            if is_after and len(groups) == 2 and min(ends[2], begins[2]) >= limits.CHANGED_REQUESTS:
                clients[old, new].append((client_id, principal, begins[0]))
    for (old, new), changed in clients.items():
        first, last = min(each[2] for each in changed), max(by_client[each[:2]][new][1] for each in changed)
        who = name_of(changed[0][0]) if len(changed) == 1 else f"{len(changed)} clients"
        yield Finding(
            "changed-client",
            f"{who} changed from group {old} to group {new}, {from_us(int(first))}",
            {
                "group_id": new,
                "client_id": changed[0][0] if len(changed) == 1 else None,
                "clients": ", ".join(name_of(each[0]) for each in changed[:5]) if changed[1:] else None,
                "principal": changed[0][1] if len({each[1] for each in changed}) == 1 else None,
                "before": old,
                "after": new,
            },
            equal(group_id=new),
            "Check that it was meant: a new group begins where auto.offset.reset says, and the old one's lag is never read.",
            from_us(int(first)),
            from_us(int(last)),
            float(len(changed)),
        )


def _software(row: Row) -> str:
    return f"{row['software']} {row['software_version']}"


def broad_readers(tables: Tables) -> Iterator[Finding]:
    """Find clients that read many topics within a short time, and far more of them than any other: somebody copies all.

    A client is a client id of a principal: the thief of an account has a program of their own.
    """
    topics: dict[tuple[Any, Any], set[str]] = defaultdict(set)
    rows_of: dict[tuple[Any, Any], list[Row]] = defaultdict(list)
    for row in tables["lineage"]:
        if row["api"] in ("Fetch", "ShareFetch") and row["topic"] is not None and row["first_us"]:
            topics[row["principal"], row["client_id"]].add(row["topic"])
            rows_of[row["principal"], row["client_id"]].append(row)
    if not rows_of:
        return
    begin = min(row["first_us"] for rows in rows_of.values() for row in rows)
    end = max(row["last_us"] for rows in rows_of.values() for row in rows)
    every = set().union(*topics.values())
    for (principal, client_id), mine in sorted(topics.items(), key=str):
        others = [len(each) for other, each in topics.items() if other != (principal, client_id)]
        rows = rows_of[principal, client_id]
        first, last = min(row["first_us"] for row in rows), max(row["last_us"] for row in rows)
        least = min(limits.BROAD_TOPICS, max(limits.BROAD_LEAST, limits.BROAD_OF_ALL * len(every)))
        is_broad = len(mine) >= max(least, limits.BROAD_FACTOR * statistics.median(others or [0]))
        if not is_broad or last - first > (end - begin) * limits.BROAD_SHARE or end - begin < limits.BROAD_PERIOD_US:
            continue
        yield _broad_reader(tables, (principal, client_id), rows, mine, max(others, default=0))


def _broad_reader(tables: Tables, who: tuple[Any, Any], rows: list[Row], topics: set[str], of_others: int) -> Finding:
    principal, client_id = who
    first, last = min(row["first_us"] for row in rows), max(row["last_us"] for row in rows)
    from_where = [row for row in tables["address"] if row["principal"] == principal and row["note"] and row["first_us"]]
    new = sorted({row["note"] for row in from_where if first - _HOUR_US / 6 <= row["first_us"] <= last})
    size = sum(row["bytes"] or 0 for row in rows)
    return Finding(
        "broad-reader",
        f"{name_of(client_id)} of {principal} read {len(topics)} topics, {from_us(first)} to {from_us(last)}",
        {
            "principal": principal,
            "client_id": client_id,
            "address": the_only(new),
            "addresses": ", ".join(new[:3]) if new[1:] else None,
            "topics": f"{len(topics)}: {', '.join(sorted(topics)[:3])} ...",
            "topics that others read": of_others,
            "bytes": size,
        },
        f"{equal(principal=principal, client_id=client_id, api='Fetch')}",
        "Find out who uses this principal, and whether it may read all of them; revoke its rights or credentials otherwise.",
        from_us(first),
        from_us(last),
        float(len(topics)),
        {"Fetch"},
        impact=f"{size / 1e6:,.0f} MB read",
    )
