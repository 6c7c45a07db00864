"""Findings about who uses what belongs to others: accounts, groups, and names of topics and groups without end."""

from __future__ import annotations

import ipaddress
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.findings.finding import Finding, equal, from_us, network_of, several, the_only
from twisted_kafka_spark.findings.names import ANONYMOUS, name_of, service_of
from twisted_kafka_spark.records.kafka_names import EPOCH_APIS, OF_EACH_START

if TYPE_CHECKING:
    from twisted_kafka_spark.views import Row, Tables

_MINUTE_US, _HOUR_US = 60_000_000, 3_600_000_000
_SHORT_US = 600_000_000
"""A client id that is there for so long at most is not that of a process."""
_MOSTLY_SHORT = 0.5
"""The share of the client ids of a service that are there for minutes only, if it makes one for each piece of work."""
_FAILS = 0.3
"""The share of the requests that fail of a client id that never gets in: its handshakes do not."""
_MOSTLY = 0.9
"""The share of the requests with an account from which one without is strange."""
_OF_LIBRARIES = re.compile(
    r"(rdkafka|sarama|kgo|franz-go|kafka-python|kafkajs|(console-)?(consumer|producer)|admin-?client)\b", re.IGNORECASE
)
"""Client ids that libraries and tools have if nobody gives them one."""
_PRIVATE = tuple(
    map(
        ipaddress.ip_network,
        (
            *("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
            *("fc00::/7", "fe80::/10", "::1/128"),
        ),
    )
)
"""Private networks. Networks for examples, which are not routed either, are not among them."""
_COMMITS = ("OffsetCommit",)


def strange_programs(tables: Tables) -> Iterator[Finding]:
    """Find accounts that another program uses, with another library and from another network than before."""
    by_principal: dict[str, list[Row]] = defaultdict(list)
    for row in tables["software_of"]:
        if row["principal"] not in (None, ANONYMOUS) and row["software"] not in (None, "unknown") and row["first_us"]:
            by_principal[row["principal"]].append(row)
    addresses: dict[str, list[Row]] = defaultdict(list)
    for row in tables["address"]:
        if row["note"] and row["first_us"]:
            addresses[row["principal"]].append(row)
    for principal, rows in sorted(by_principal.items()):
        begin = min(row["first_us"] for row in rows)
        old = [row for row in rows if row["first_us"] < begin + limits.ACCOUNT_KNOWN_US]
        libraries, services = {row["software"] for row in old}, {service_of(row["client_id"]) for row in old}
        known = {_network(row["note"]) for row in addresses[principal] if row["first_us"] < begin + limits.ACCOUNT_KNOWN_US}
        for row in rows:
            is_new = row["software"] not in libraries and service_of(row["client_id"]) not in services
            if row in old or not is_new or row["requests"] < limits.CHANGED_REQUESTS:
                continue
            since = row["first_us"]
            there = [
                each["note"]
                for each in addresses[principal]
                if abs(each["first_us"] - since) <= _MINUTE_US and _network(each["note"]) not in known
            ]
            if there:
                yield _strange(tables, row, sorted(there), sorted(libraries))


def _network(address: str | None) -> str | None:
    """Return the /16 or /48 of an address, and any other text as it is."""
    return network_of(address, (16, 48)) or address


def strange_addresses(tables: Tables) -> Iterator[Finding]:
    """Find accounts that are used from public addresses, and were from private ones only, and clients without an account."""
    addresses: dict[str, list[Row]] = defaultdict(list)
    for row in tables["address"]:
        if row["note"] and row["first_us"] and row["principal"] not in (None, ANONYMOUS):
            addresses[row["principal"]].append(row)
    for principal, rows in sorted(addresses.items()):
        begin = min(row["first_us"] for row in rows)
        known = [row["note"] for row in rows if row["first_us"] < begin + limits.ACCOUNT_KNOWN_US]
        new = [row for row in rows if row["note"] not in known and _is_public(row["note"])]
        if new and not any(_is_public(each) for each in known):
            yield _from_outside(principal, new, known)
    yield from _without_account(tables)


def _is_public(address: str) -> bool:
    try:
        found = ipaddress.ip_address(address.strip("[]"))
    except ValueError:
        return False
    return not any(found.version == each.version and found in each for each in _PRIVATE)


def _from_outside(principal: str, new: list[Row], known: list[str]) -> Finding:
    first, last = min(row["first_us"] for row in new), max(row["last_us"] for row in new)
    names = [row["note"] for row in sorted(new, key=lambda row: row["first_us"])]
    return Finding(
        "strange-program",
        f"Account {principal} was used from {f'address {names[0]}' if len(names) == 1 else f'{len(names)} addresses'} outside of "
        f"the private network, {from_us(first)} to {from_us(last)}",
        {
            "principal": principal,
            "address": the_only(names),
            "addresses": ", ".join(names[:3]) if names[1:] else None,
            "addresses before": ", ".join(sorted(known)[:3]),
            "requests": sum(row["requests"] for row in new),
            "failed": sum(row["failed"] or 0 for row in new),
        },
        equal(principal=principal),
        "Find out who it is. If nobody knows, change the account's credentials, and look at its requests from there.",
        from_us(first),
        from_us(last),
        float(sum(row["requests"] for row in new)),
    )


def _without_account(tables: Tables) -> Iterator[Finding]:
    """Yield clients that read or write without an account, from some time on, where nearly all others have one."""
    rows = [row for row in tables["lineage"] if row["first_us"] and row["topic"] is not None]
    known = sum(row["requests"] for row in rows if row["principal"] not in (None, ANONYMOUS))
    if not rows or known < _MOSTLY * sum(row["requests"] for row in rows):
        return
    begin, strangers = min(row["first_us"] for row in rows), defaultdict(list)
    for row in rows:
        if row["principal"] == ANONYMOUS:
            strangers[row["client_id"]].append(row)
    for client_id, mine in sorted(strangers.items(), key=str):
        first, last = min(row["first_us"] for row in mine), max(row["last_us"] for row in mine)
        if first < begin + limits.ACCOUNT_KNOWN_US:
            continue
        near = [row["note"] for row in tables["address"] if row["principal"] == ANONYMOUS and row["note"]]
        near = near if len(near) == 1 else []
        topics, does = sorted({row["topic"] for row in mine}), sorted({_does(row) for row in mine})
        yield Finding(
            "strange-program",
            f"{name_of(client_id)} {' and '.join(does)} {f'topic {topics[0]}' if len(topics) == 1 else f'{len(topics)} topics'} "
            f"without an account, {from_us(first)} to {from_us(last)}",
            {
                "principal": ANONYMOUS,
                "client_id": client_id,
                "address": the_only(near),
                "topic": the_only(topics),
                "topics": several(topics),
                "requests": sum(row["requests"] for row in mine),
            },
            equal(principal=ANONYMOUS, client_id=client_id),
            "Close the listener without authentication, or deny User:ANONYMOUS; nobody knows who this is.",
            from_us(first),
            from_us(last),
            float(sum(row["requests"] for row in mine)),
        )


def _does(row: Row) -> str:
    return "writes" if row["api"] == "Produce" else "reads"


def _strange(tables: Tables, row: Row, addresses: list[str], libraries: list[str]) -> Finding:
    who = row["client_id"], row["principal"]
    mine = [each for each in tables["lineage"] if (each["client_id"], each["principal"]) == who and each["topic"]]
    topics = sorted({each["topic"] for each in mine})
    does = sorted({_does(each) for each in mine})
    return Finding(
        "strange-program",
        f"Account {who[1]} was used from another address by {name_of(who[0])[:1].lower() + name_of(who[0])[1:]}, a new program, "
        f"{from_us(row['first_us'])} to {from_us(row['last_us'])}",
        {
            "principal": who[1],
            "client_id": who[0],
            "address": the_only(addresses),
            "addresses": ", ".join(addresses[:3]) if addresses[1:] else None,
            "software": f"{row['software']} {row['software_version']}",
            "software before": ", ".join(libraries),
            "does": ", ".join(does) or None,
            "topic": the_only(topics),
            "topics": several(topics),
            "requests": row["requests"],
        },
        equal(principal=who[1], client_id=who[0]),
        "Find out who it is. If nobody knows, change the account's credentials, and look at the records that it read and wrote.",
        from_us(row["first_us"]),
        from_us(row["last_us"]),
        float(row["requests"]),
    )


def copied_clients(tables: Tables) -> Iterator[Finding]:
    """Find accounts that come with the client id of another account's program, from another network, while that goes on.

    It is a copy of the program with its settings: a staging environment with production's addresses, or somebody who imitates it.
    """
    by_client: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in tables["software_of"]:
        if row["client_id"] and row["principal"] not in (None, ANONYMOUS) and row["first_us"]:
            by_client[row["client_id"]][row["principal"]].append(row)
    begin = min((row["first_us"] for each in by_client.values() for rows in each.values() for row in rows), default=0)
    networks: dict[Any, set[str | None]] = defaultdict(set)
    for row in tables["address"]:
        networks[row["principal"]].add(_network(row["note"]))
    for client_id, accounts in sorted(by_client.items()):
        if len(accounts) < 2 or _OF_LIBRARIES.match(client_id):
            continue
        ends = {who: (min(row["first_us"] for row in rows), max(row["last_us"] for row in rows)) for who, rows in accounts.items()}
        newest = max(ends, key=lambda who: (ends[who][0], who))
        others = [who for who in accounts if who != newest]
        requests = sum(row["requests"] for row in accounts[newest])
        is_new = ends[newest][0] >= begin + limits.ACCOUNT_KNOWN_US and requests >= limits.CHANGED_REQUESTS
        goes_on = any(ends[who][1] >= ends[newest][0] + limits.ACCOUNT_KNOWN_US / 4 for who in others)
        known = set().union(*(networks[who] for who in others))
        if is_new and goes_on and networks[newest] and not networks[newest] & known:
            yield _copied(tables, client_id, newest, others, ends[newest])


def _copied(tables: Tables, client_id: str, principal: str, others: list[str], ends: tuple[int, int]) -> Finding:
    mine = [row for row in tables["lineage"] if (row["client_id"], row["principal"]) == (client_id, principal) and row["topic"]]
    topics, does = sorted({row["topic"] for row in mine}), sorted({_does(row) for row in mine})
    addresses = sorted({str(row["note"]) for row in tables["address"] if row["principal"] == principal and row["note"]})
    requests = sum(
        row["requests"] for row in tables["software_of"] if (row["client_id"], row["principal"]) == (client_id, principal)
    )
    return Finding(
        "strange-program",
        f"{principal} uses the client id {client_id} of {' and '.join(sorted(others)[:2])} from another network, "
        f"{from_us(ends[0])} to {from_us(ends[1])}",
        {
            "principal": principal,
            "client_id": client_id,
            "address": the_only(addresses),
            "addresses": several(addresses),
            "other accounts": ", ".join(sorted(others)[:3]),
            "does": ", ".join(does) or None,
            "topic": the_only(topics),
            "topics": several(topics),
            "requests": requests,
        },
        equal(principal=principal, client_id=client_id),
        "Find out whether another environment, such as staging, has this cluster's addresses; its records are among the real ones.",
        from_us(ends[0]),
        from_us(ends[1]),
        float(requests),
        impact=f"{requests:,} requests",
    )


def mixed_groups(tables: Tables) -> Iterator[Finding]:
    """Find groups with members of several principals: two applications that share a group id share its records."""
    groups: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in tables["member"]:
        if row["api"] in EPOCH_APIS and row["group_id"] is not None and row["principal"] is not None and row["first_us"]:
            groups[row["group_id"]][row["principal"]].append(row)
    for group, by_principal in sorted(groups.items()):
        some = {who: rows for who, rows in by_principal.items() if sum(row["requests"] for row in rows) >= limits.CHANGED_REQUESTS}
        if len(some) < 2:
            continue
        newest = max(some, key=lambda who: (min(row["first_us"] for row in some[who]), who))
        rows = some[newest]
        first, last = min(row["first_us"] for row in rows), max(row["last_us"] for row in rows)
        others = [row for who in some if who != newest for row in some[who]]
        if max(row["last_us"] for row in others) < first:
            continue  # it has got another account
        clients = sorted({str(row["client_id"]) for row in rows})
        yield Finding(
            "mixed-group",
            f"{newest} joined group {group} of {_owners(some, newest)}, {from_us(first)} to {from_us(last)}",
            {
                "group_id": group,
                "principal": newest,
                "client_id": the_only(clients),
                "clients": several(clients),
                "other members": ", ".join(sorted({str(row["client_id"]) for row in others})[:3]),
                "requests": sum(row["requests"] for row in rows),
            },
            f"{equal(group_id=group, principal=newest)}",
            "Give each application a group.id of its own: each record goes to one member of a group only.",
            from_us(first),
            from_us(last),
            float(sum(row["requests"] for row in rows)),
            {"JoinGroup", "SyncGroup"},
            impact="each application gets a part of the records only",
        )


def _owners(principals: Iterable[str], newest: str) -> str:
    return " and ".join(sorted(set(principals) - {newest})[:2])


def offsets_set(tables: Tables) -> Iterator[Finding]:
    """Find principals that set the offsets of a group without being a member, as kafka-consumer-groups --reset-offsets does."""
    members: dict[str, set[Any]] = defaultdict(set)
    for row in tables["member"]:
        if row["note"] and row["api"] in EPOCH_APIS:
            members[row["group_id"]].add(row["client_id"])
    for row in tables["member"]:
        is_outsider = row["api"] in _COMMITS and not row["note"] and row["client_id"] not in members[row["group_id"]]
        if not is_outsider or not members[row["group_id"]] or not row["first_us"]:
            continue
        yield Finding(
            "cluster-change",
            f"{row['principal']} set the offsets of group {row['group_id']}, {from_us(row['first_us'])}",
            {
                "principal": row["principal"],
                "client_id": row["client_id"],
                "group_id": row["group_id"],
                "apis": row["api"],
                "requests": row["requests"],
                "failed": row["failed"],
            },
            equal(principal=row["principal"], api=row["api"], group_id=row["group_id"]),
            "Check that this was intended: the group reads records again, or skips some.",
            from_us(row["first_us"]),
            from_us(row["last_us"]),
            float(row["requests"]),
        )


def many_names(tables: Tables) -> Iterator[Finding]:
    """Find principals that create topics, or use groups or client ids that are there for minutes only, without end.

    Topics that they delete again do not count, nor do client ids of a program that works so all the time, such as a function.
    """
    created: dict[Any, list[Row]] = defaultdict(list)
    deleted: dict[Any, set[str]] = defaultdict(set)
    for row in tables["change"]:
        if row["api"] == "CreateTopics" and row["error"] is None and row["first_us"]:
            created[row["principal"]].append(row)
        elif row["api"] == "DeleteTopics" and row["error"] is None:
            deleted[row["principal"]].update((row["note"] or "").split(", "))
    for principal, rows in sorted(created.items(), key=str):
        names = {part for row in rows for part in (row["note"] or "").split(", ") if part.startswith("topic ")}
        if len(names & deleted[principal]) < _MOSTLY_SHORT * len(names):
            yield from _sprawl(principal, rows, sorted(names), ("created", "topics", "CreateTopics"))
    used: dict[Any, list[Row]] = defaultdict(list)
    for row in tables["member"]:
        if row["group_id"] is not None and row["api"] in EPOCH_APIS and row["first_us"]:
            used[row["principal"], service_of(row["client_id"])].append(row)
    for (principal, _), rows in sorted(used.items(), key=str):
        yield from _sprawl(principal, rows, sorted({row["group_id"] for row in rows}), ("used", "groups", "JoinGroup"))
    clients: dict[tuple[Any, Any], list[Row]] = defaultdict(list)
    for row in tables["software_of"]:
        if row["client_id"] is not None and row["first_us"]:
            clients[row["principal"], service_of(row["client_id"])].append(row)
    ends = {row["principal"]: (row["first_us"], row["last_us"]) for row in tables["principal_ends"]}
    begin, end = min((each[0] for each in ends.values()), default=0), max((each[1] for each in ends.values()), default=0)
    for (principal, _), every in sorted(clients.items(), key=str):
        rows = [row for row in every if row["last_us"] - row["first_us"] <= _SHORT_US and not _is_stranger(row)]
        if len(rows) < _MOSTLY_SHORT * len(every):
            continue  # a fleet, of which some are seldom there
        is_always = min(row["first_us"] for row in rows) <= begin + _HOUR_US
        is_always &= ends.get(principal, (0, 0))[1] >= end - _HOUR_US
        if not is_always:
            yield from _sprawl(principal, rows, sorted({row["client_id"] for row in rows}), ("used", "client ids", "ApiVersions"))


def _is_stranger(row: Row) -> bool:
    """Return whether a client id does little but fail, as those of somebody who guesses passwords."""
    return bool((row["failed"] or 0) >= _FAILS * row["requests"])


def _sprawl(principal: Any, rows: list[Row], names: list[str], what: tuple[str, str, str]) -> Iterator[Finding]:
    first, last = min(row["first_us"] for row in rows), max(row["last_us"] for row in rows)
    if len(names) < limits.MANY_NAMES or last - first < limits.MANY_NAMES_US:
        return
    did, kind, api = what
    clients = sorted({str(row["client_id"]) for row in rows})
    yield Finding(
        "many-names",
        f"{principal} {did} {len(names):,} {kind}, {from_us(first)} to {from_us(last)}",
        {
            "principal": principal,
            "client_id": the_only(clients),
            "clients": several(clients),
            "api": api,
            kind: f"{len(names):,}: {', '.join(name.removeprefix('topic ') for name in names[:3])} ...",
            "an hour": round(len(names) / max((last - first) / _HOUR_US, 1 / 60), 1),
        },
        equal(principal=principal) if kind == "client ids" else equal(principal=principal, api=api),
        "Make one client and keep it: each new one connects, logs in and asks for metadata, and quotas and metrics know its id."
        if kind == "client ids"
        else "Use a fixed number of topics, with the name in the record's key: each partition costs files and memory."
        if kind == "topics"
        else "Use one group.id: the offsets of each group are kept for offsets.retention.minutes.",
        from_us(first),
        from_us(last),
        float(len(names)),
        {api, *OF_EACH_START, "Metadata"} if kind == "client ids" else {api},
    )


def new_topics(tables: Tables) -> Iterator[Finding]:
    """Find clients that have written other topics for hours, and begin to write one that nobody has used before, or created."""
    used: dict[str, int] = {}
    created = {part.removeprefix("topic ") for row in tables["created"] for part in (row["note"] or "").split(", ")}
    by_client: dict[tuple[Any, Any], list[Row]] = defaultdict(list)
    for row in tables["lineage"]:
        if row["topic"] is None or not row["first_us"]:
            continue
        used[row["topic"]] = min(row["first_us"], used.get(row["topic"], row["first_us"]))
        if row["api"] == "Produce":
            by_client[row["client_id"], row["principal"]].append(row)
    begun: dict[tuple[str, Any], list[tuple[Any, Row, list[str]]]] = defaultdict(list)
    for (client_id, principal), rows in sorted(by_client.items(), key=str):
        begin = min(row["first_us"] for row in rows)
        for row in rows:
            is_new = row["first_us"] >= begin + limits.ACCOUNT_KNOWN_US and row["first_us"] <= used[row["topic"]] + _MINUTE_US
            before = [each for each in rows if each["first_us"] < begin + limits.ACCOUNT_KNOWN_US]
            if is_new and row["topic"] not in created and sum(each["requests"] for each in before) >= limits.STEADY_SLOTS:
                begun[row["topic"], principal].append((client_id, row, sorted({each["topic"] for each in before})))
    for (topic, principal), found in sorted(begun.items(), key=str):
        rows = [row for _, row, _ in found]
        first, last = min(row["first_us"] for row in rows), max(row["last_us"] for row in rows)
        clients, old = [each[0] for each in found], sorted({name for each in found for name in each[2]})
        who = name_of(clients[0]) if len(clients) == 1 else f"{len(clients)} clients of {principal}"
        yield Finding(
            "new-topic",
            f"{who} began to write topic {topic}, which nobody used before, {from_us(first)}",
            {
                "topic": topic,
                "client_id": the_only(clients),
                "clients": ", ".join(map(str, clients[:3])) if clients[1:] else None,
                "principal": principal,
                "topics before": ", ".join(old[:3]),
                "requests": sum(row["requests"] for row in rows),
            },
            f"api = 'Produce' AND exists(topics, t -> t.topic = '{topic}')",
            "Check the name: with auto.create.topics.enable a wrong one makes a topic that nobody reads.",
            from_us(first),
            from_us(last),
            float(sum(row["requests"] for row in rows)),
        )
