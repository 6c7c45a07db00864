"""What somebody has to do with for the first time: other topics, other processes of an account, other versions of a broker's APIs.

A subject that finds something new now and then, all day, does so habitually: it is a finding only if the subject had the same links
for long before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.findings.finding import Finding, equal, from_us, quoted, several, the_only
from twisted_kafka_spark.findings.names import ANONYMOUS, name_of, service_of
from twisted_kafka_spark.findings.runs import minute_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from twisted_kafka_spark.findings.runs import Values
    from twisted_kafka_spark.views import Row, Tables

_SAME_US = 1_800_000_000
"""The most time between the first requests of links that are new at once."""
_MOST_TIMES = 2
"""How often a subject that does not do so habitually finds something new."""
_TOLD = 0.5
"""The part of the time of new links that a finding about the same has in common with them."""
_READS, _DOES = ("Fetch", "ShareFetch"), {"Produce": "write"}
_AS_MUCH, _AS_BEFORE = 0.6, 0.75
"""How much new processes write, compared to the old ones; the part of their earlier writes that the old ones still send."""
_MOST_SERVICES = 3
"""The services of an account that is that of one program: those of another have nothing in common."""
_AROUND_SLOTS = 12
"""The intervals before and after new processes come in which the old ones are compared."""
_LEFT_BEHIND, _ASKED = 0.2, 0.25
"""The share of brokers that are asked with other versions than the rest, at least and without it at most; how often that is,
compared to an older version."""


@dataclass(slots=True)
class _Link:
    """What a subject has to do with: since when, until when, and how often."""

    what: Any
    first_us: int
    last_us: int
    requests: int
    rows: list[Row] = field(default_factory=list)

    def add(self, row: Row) -> None:
        """Add a row of a table with the times of the first and the last request."""
        self.first_us, self.last_us = min(self.first_us, row["first_us"]), max(self.last_us, row["last_us"])
        self.requests += row["requests"]
        self.rows.append(row)


@dataclass(slots=True)
class _New:
    """Links that a subject gets at one time, and its links before."""

    subject: Any
    links: list[_Link]
    before: list[_Link]

    @property
    def first_us(self) -> int:
        return min(each.first_us for each in self.links)

    @property
    def last_us(self) -> int:
        return max(each.last_us for each in self.links)

    @property
    def requests(self) -> int:
        return sum(each.requests for each in self.links)

    @property
    def rows(self) -> list[Row]:
        return [row for each in self.links for row in each.rows]


def _new_links(rows: Iterable[Row], subject: Callable[[Row], Hashable], what: Callable[[Row], Hashable]) -> Iterator[_New]:
    """Yield the new links of subjects that have had all others for long."""
    found: dict[Any, dict[Any, _Link]] = defaultdict(dict)
    for row in rows:
        if row["first_us"]:
            links, key = found[subject(row)], what(row)
            links.setdefault(key, _Link(key, row["first_us"], row["last_us"], 0)).add(row)
    for who, links in sorted(found.items(), key=lambda each: str(each[0])):
        in_time = sorted(links.values(), key=lambda each: each.first_us)
        known_us = in_time[0].first_us + limits.ACCOUNT_KNOWN_US
        before = [each for each in in_time if each.first_us < known_us]
        times: list[list[_Link]] = []
        for each in in_time[len(before) :]:
            if times and each.first_us - times[-1][-1].first_us <= _SAME_US:
                times[-1].append(each)
            else:
                times.append([each])
        if len(times) <= _MOST_TIMES:
            yield from (_New(who, some, before) for some in times)


def new_links(tables: Tables, known: Sequence[Finding]) -> Iterator[Finding]:
    """Find services that use topics they never used, accounts with other processes beside the old, and brokers of two versions."""
    told = [*known]
    for found in (*_other_topics(tables), *_beside_each_other(tables), *_halfway(tables)):
        if not any(_is_told(each, found) for each in told):
            told.append(found)
            yield found


def _is_told(finding: Finding, new: Finding) -> bool:
    """Return whether a finding names the new link of the same client or account, at the same time."""
    mine, its = new.evidence, finding.evidence
    names = [mine[key] for key in ("client_id", "principal") if mine.get(key) is not None]
    is_same = any(its.get(key) in names for key in ("client_id", "principal")) if names else False
    if not is_same or finding.first is None or finding.last is None or new.first is None or new.last is None:
        return False
    topics = str(its.get("topic") or its.get("topics") or "")
    about = finding.name in ("broad-reader", "new-topic", "strange-program", "new-reader", "new-writer") or (
        finding.name in ("bulk-read", "bulk-write") and any(each in topics for each in str(mine.get("topic")).split(", "))
    )
    return about and finding.first <= new.last and new.first <= finding.last


def _other_topics(tables: Tables) -> Iterator[Finding]:
    """Yield services that read, or write, several topics that they have never used before, or one for some time."""
    created = {part.removeprefix("topic ") for row in tables["created"] for part in (row["note"] or "").split(", ")}
    used: dict[str, int] = {}
    for row in tables["lineage"]:
        if row["topic"] is not None and row["first_us"]:
            used[row["topic"]] = min(row["first_us"], used.get(row["topic"], row["first_us"]))
    rows = [row for row in tables["lineage"] if row["topic"] is not None and row["api"] in (*_READS, *_DOES)]
    for new in _new_links(rows, lambda row: (service_of(row["client_id"]), row["principal"], row["api"]), lambda row: row["topic"]):
        end = max(each.last_us for each in (*new.before, *new.links))
        links = [each for each in new.links if each.what not in created and used[each.what] < each.first_us - _SAME_US]
        is_over = new.last_us < end - limits.ACCOUNT_KNOWN_US
        requests = sum(each.requests for each in links)
        is_enough = requests >= limits.FAILURES_FLOOR and (len(links) > 1 or is_over)
        if is_enough and sum(each.requests for each in new.before) >= limits.STEADY_SLOTS:
            yield _finding_of_topics(tables, _New(new.subject, links, new.before))


def _finding_of_topics(tables: Tables, new: _New) -> Finding:
    (_, principal, api), topics = new.subject, sorted(str(each.what) for each in new.links)
    clients = sorted({row["client_id"] for row in new.rows}, key=str)
    who = name_of(clients[0]) if len(clients) == 1 else f"{len(clients)} clients of {principal}"
    does = _DOES.get(api, "read")
    first, last = from_us(new.first_us), from_us(new.last_us)
    what = f"topic {topics[0]}, which it" if len(topics) == 1 else f"{len(topics)} topics that it"
    size = sum(row["bytes"] or 0 for row in new.rows)
    return Finding(
        "unlike-itself",
        f"{who} began to {does} {what} had never {'written' if does == 'write' else 'read'}, {first} to {last}",
        {
            "api": api,
            "measure": "topics",
            "client_id": the_only(clients),
            "clients": several([str(each) for each in clients]),
            "principal": principal,
            "topic": the_only(topics),
            "topics": several(topics),
            "topics before": several(sorted(str(each.what) for each in new.before)) or new.before[0].what,
            "requests": new.requests,
            "bytes": size or None,
        },
        f"{equal(principal=principal, api=api)} AND exists(topics, t -> t.topic IN ({', '.join(map(quoted, topics))}))",
        "Find out whether it was meant to: a new version, a mistake in its settings, or somebody who uses its account.",
        first,
        last,
        float(new.requests),
        {api},
        impact=f"{new.requests:,} requests",
    )


def _beside_each_other(tables: Tables) -> Iterator[Finding]:
    """Yield accounts with new processes that write as much as the old ones, which go on: everything is written twice."""
    rows = [row for row in tables["lineage"] if row["topic"] is not None and row["api"] == "Produce"]
    services: dict[Any, set[str]] = defaultdict(set)
    for row in rows:
        services[row["principal"]].add(service_of(row["client_id"]))
    for new in _new_links(rows, lambda row: (row["principal"], row["topic"]), lambda row: service_of(row["client_id"])):
        if new.subject[0] in (None, ANONYMOUS) or len(new.links) != 1 or len(services[new.subject[0]]) > _MOST_SERVICES:
            continue
        clients = {row["client_id"] for row in new.rows}
        old = {row["client_id"] for each in new.before for row in each.rows}
        mine, others = (_writes(tables, each, new.subject[0]) for each in (clients, old))
        first, last = (tables.grids.persons.axis.place(minute_of(at)) for at in (new.first_us, new.last_us))
        inside, before = slice(first + 1, last), slice(max(first - _AROUND_SLOTS, 0), first)
        after = slice(first + 1, min(first + 1 + _AROUND_SLOTS, last))
        is_enough = mine[inside].sum() >= max(_AS_MUCH * others[inside].sum(), limits.FAILURES_FLOOR)
        if is_enough and others[before].any() and others[after].mean() >= _AS_BEFORE * others[before].mean():
            yield _finding_of_processes(new, sorted(clients, key=str), sorted(old, key=str))


def _writes(tables: Tables, clients: set[Any], principal: Any) -> Values:
    grid = tables.grids.persons
    rows = [row for row in grid.rows(api="Produce", principal=principal) if grid.names[row][0] in clients]
    found: Values = grid["requests"][rows].sum(0)
    return found


def _finding_of_processes(new: _New, clients: list[Any], old: list[Any]) -> Finding:
    (principal, topic), first, last = new.subject, from_us(new.first_us), from_us(new.last_us)
    who = name_of(clients[0]) if len(clients) == 1 else f"{len(clients)} clients"
    return Finding(
        "unlike-itself",
        f"{who} of {principal} came and wrote topic {topic} as much as {several([str(each) for each in old]) or old[0]}, "
        f"which went on, {first} to {last}",
        {
            "api": "Produce",
            "measure": "processes",
            "client_id": the_only(clients),
            "clients": several([str(each) for each in clients]),
            "clients before": several([str(each) for each in old]) or old[0],
            "principal": principal,
            "topic": topic,
            "requests": new.requests,
        },
        f"{equal(principal=principal, api='Produce')} AND exists(topics, t -> t.topic = {quoted(topic)})",
        "Stop the old processes if the new ones were to replace them: everything is written twice.",
        first,
        last,
        float(new.requests),
        {"Produce"},
        impact=f"{new.requests:,} writes more",
    )


def _halfway(tables: Tables) -> Iterator[Finding]:
    """Yield brokers that are asked with other versions of several APIs than the rest, from some time on."""
    rows = [row for row in tables["asked"] if row["node"] is not None and row["version"] is not None]
    brokers = {row["node"] for row in rows}
    end_us = max((row["last_us"] for row in rows), default=0)
    alike: dict[Any, list[_New]] = defaultdict(list)
    for new in _new_links(rows, lambda row: row["node"], lambda row: (row["api"], row["version"])):
        links = [each for each in new.links if _is_instead(new.before, each, end_us)]
        if len({each.what[0] for each in links}) > 1:
            alike[min(each.what for each in links)].append(_New(new.subject, links, new.before))
    for what, some in alike.items():
        nodes = sorted(each.subject for each in some)
        others = {row["node"] for row in rows if (row["api"], row["version"]) == what} - set(nodes)
        if not others and _LEFT_BEHIND * len(brokers) <= len(nodes) <= (1 - _LEFT_BEHIND) * len(brokers):
            yield _finding_of_versions(some, nodes, len(brokers))


def _is_instead(before: list[_Link], link: _Link, end_us: int) -> bool:
    """Return whether a broker is asked with a version as often as with an older one until then, or a good part of it."""
    old = [each for each in before if each.what[0] == link.what[0]]
    begin_us = min((each.first_us for each in old), default=0)
    until_then = (link.first_us - begin_us) / max(end_us - begin_us, 1)
    often = link.requests / max(end_us - link.first_us, 1)
    return any(
        each.what[1] < link.what[1] and often >= _ASKED * each.requests * until_then / max(link.first_us - begin_us, 1)
        for each in old
        if link.requests >= limits.FAILURES_FLOOR
    )


def _finding_of_versions(some: list[_New], nodes: list[int], count: int) -> Finding:
    first, last = from_us(min(each.first_us for each in some)), from_us(max(each.last_us for each in some))
    versions = sorted({each.what for new in some for each in new.links})
    begin = min(some, key=lambda each: each.first_us).subject
    whom = f"Broker {nodes[0]} is" if len(nodes) == 1 else f"{len(nodes)} of {count} brokers, first broker {begin}, are"
    listed = ", ".join(map(str, nodes[:12])) + (" ..." if nodes[12:] else "")
    requests = sum(each.requests for each in some)
    return Finding(
        "unlike-itself",
        f"{whom} asked with other API versions than the others, {first} to {last}",
        {
            "measure": "versions",
            "node": the_only(nodes),
            "brokers": listed if nodes[1:] else None,
            "versions": ", ".join(f"{api} v{version}" for api, version in versions[:6]),
            "requests": requests,
        },
        f"node IN ({', '.join(map(str, nodes))})",
        "An upgrade has stopped halfway: go on with the other brokers, or go back.",
        first,
        last,
        float(requests),
        impact=f"{len(nodes)} of {count} brokers differ",
    )
