"""Findings about whatever is unlike itself for some time: what changes together is one finding, the largest change first."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.findings.clients.persons import is_about
from twisted_kafka_spark.findings.finding import MINUTE, Finding, Span, apart, enclosing, equal, several, text, the_only
from twisted_kafka_spark.findings.general.breaks import SLOTS, Break, breaks
from twisted_kafka_spark.findings.general.series import (
    CONNECTIONS,
    EVERYBODY,
    MOST_PROCESSES,
    OPENED,
    RATE,
    Series,
    Subject,
    every_series,
    with_loads,
)
from twisted_kafka_spark.findings.names import name_of, service_and_account
from twisted_kafka_spark.findings.runs import HARDLY, median, span_of
from twisted_kafka_spark.records.kafka_names import OF_EACH_START

if TYPE_CHECKING:
    from twisted_kafka_spark.views import Tables

_SAME_TIME = 0.5
"""The part of the time of two changes that they have in common if they have one cause."""
_SAME_MINUTES = 25
"""Or how much both their begins and their ends differ, at most."""
_TOLD = 0.4
"""The part of the time of a change and of a finding that they have in common if the finding is about it."""
_ONCE = 1.5
"""How many connections a client that starts again opens to each broker, on average, at most."""
_FOLLOW, _MANY = 0.5, 0.6
"""The part of a change, as a logarithm, that the median of the others has if it is the time of day; the share of the clients that
change together if it is the broker."""
_MANY_MORE = 0.9
"""The share of the additional connections that the named clients have."""
_NEW_SLOTS, _LEAST_SLOTS, _COSTLY, _LONG_US = 12, 3, 0.4, 200_000.0
"""The intervals before a client comes and in which it is there, its share of the time that all requests take in the broker, and
the mean time of its own, if it is costly."""
_RANKS = ("failed", "aborted", "connections", "requests", "bytes read", "bytes of a write", "records of a write", "empty", "idle")
"""The measures, the one that says most first; times are after them."""
_OF_WORK = ("Produce", "Fetch", "ShareFetch", "OffsetCommit")
"""APIs whose end is never a change of protocol only."""
_CAUSES = (
    "silent-client",
    "absent-broker",
    "failing-client",
    "access-denied",
    "failed-logins",
    "error-burst",
    "bulk-read",
    "bulk-write",
)
"""Findings that say why a client's other requests change, too."""
_FAILURES = ("failing-client", "access-denied", "failed-logins", "error-burst")
"""Findings about errors: others may be about requests that are more, and not say that they fail."""


@dataclass(slots=True)
class _Change:
    series: Series
    found: Break

    @property
    def span(self) -> Span:
        return span_of(self.series.axis, (self.found.first, self.found.last))

    @property
    def kind(self) -> tuple[str, str, bool]:
        return *self.series.key, self.found.is_up

    @property
    def is_of_starts(self) -> bool:
        """Whether it is about what each start of a client causes."""
        return self.series.api in (CONNECTIONS, *OF_EACH_START) and self.series.measure in (RATE, OPENED)

    @property
    def rank(self) -> tuple[float, ...]:
        name = self.series.measure.name
        place = _RANKS.index(name) if name in _RANKS else len(_RANKS)
        return place, not self.series.subject.is_service, -abs(self.found.log_factor)


def unlike_themselves(tables: Tables, known: Sequence[Finding]) -> Iterator[Finding]:
    """Find services, clients and brokers of which any measure of any API is unlike itself for half an hour or longer.

    What one of the `known` findings says is left out.
    """
    every = with_loads(list(every_series(tables)))
    changes = [_Change(series, found) for series in every for found in breaks(series)]
    changes = _without_successors(_narrowed(tables, _without_daily(changes, every)), every)
    for changed in _of_one_cause(_of_services(changes)):
        together = _without_restarts(tables, changed)
        if together and not any(_is_told(each, together) for each in known):
            yield _finding(tables, together)


def _without_daily(changes: list[_Change], every: list[Series]) -> list[_Change]:
    """Return changes without those of numbers of requests and bytes that the other services have, too: it is the time of day."""
    peers: dict[tuple[str, str], list[Series]] = defaultdict(list)
    for series in every:
        if not series.measure.is_mean and series.api != CONNECTIONS and not series.subject.is_broker:
            peers[series.key].append(series)
    kept = []
    for change in changes:
        series, found = change.series, change.found
        if series.api == CONNECTIONS and _is_busier(change, every):
            continue
        if not series.measure.is_mean and series.api != CONNECTIONS and not found.is_relative:
            writers = peers["Produce", "requests"]
            if any(_is_followed(found, _of_others(each, series)) for each in (peers[series.key], writers)):
                continue
        kept.append(change)
    return kept


def _without_successors(changes: list[_Change], every: list[Series]) -> list[_Change]:
    """Return changes without requests that a subject begins for good instead of others: a new version that has another protocol."""
    rates: dict[Subject, list[Series]] = defaultdict(list)
    for series in every:
        if series.measure is RATE and series.api not in _OF_WORK:
            rates[series.subject].append(series)
    return [each for each in changes if not any(_is_succeeded(other, each) for other in rates[each.series.subject])]


def _is_succeeded(old: Series, change: _Change) -> bool:
    """Return whether requests ceased where others began, which are there to the end and about as many."""
    found, sums = change.found, old.sums
    if change.series.measure is not RATE or not found.is_up or old is change.series or found.last + 2 * SLOTS < len(sums):
        return False
    before, after = sums[old.begins : max(found.first - SLOTS, old.begins)], sums[found.first + SLOTS :]
    is_over = len(before) > 0 and len(after) > 0 and after.mean() <= HARDLY * before.mean()
    is_begun = change.series.sums[: max(found.first - SLOTS, 0)].mean() <= HARDLY * found.after if found.first > SLOTS else False
    return bool(is_over and is_begun and found.after <= limits.UNLIKE_ITSELF * before.mean())


def _narrowed(tables: Tables, changes: list[_Change]) -> list[_Change]:
    """Return changes in which those of everybody are of the clients that changed, unless one service has most of them."""
    kept = [each for each in changes if each.series.subject.service != EVERYBODY]
    grid = tables.grids.connections
    for change in changes:
        if change.series.subject.service != EVERYBODY:
            continue
        inside = slice(change.found.first, change.found.last + 1)
        usual = (grid["requests"].sum(1) - grid["requests"][:, inside].sum(1)) / max(
            grid.axis.length - inside.stop + inside.start, 1
        )
        more = np.maximum(grid["requests"][:, inside].sum(1) - usual * (inside.stop - inside.start), 0)
        of_services: dict[tuple[str, Any], float] = defaultdict(float)
        for name, count in zip(grid.names, more.tolist(), strict=True):
            of_services[service_and_account(name)] += count
        order = np.argsort(-more, kind="stable")
        some = order[: int(np.searchsorted(np.cumsum(more[order]), _MANY_MORE * more.sum())) + 1].tolist()
        if max(of_services.values()) < _MANY * more.sum():
            clients = tuple(sorted((grid.names[row][0] for row in some), key=str))
            principals = {grid.names[row][1] for row in some}
            subject = Subject(EVERYBODY, the_only(sorted(principals, key=str)), clients)
            kept.append(_Change(replace(change.series, subject=subject), change.found))
    return kept


def _is_followed(found: Break, others: list[Series]) -> bool:
    """Return whether the median of the others changes in the same way, by a good part of it."""
    usual = median(np.array([_factor(each, found) for each in others]))
    return usual * found.log_factor > 0 and abs(usual) >= _FOLLOW * abs(found.log_factor)


def _of_others(peers: list[Series], series: Series) -> list[Series]:
    """Return the series of the other services, each as a whole: a fleet of clients with few requests each is one of them."""
    whole: dict[tuple[Any, Any], Series] = {}
    for each in peers:
        service = each.subject.service, each.subject.principal
        if service not in whole or len(each.subject.clients) > len(whole[service].subject.clients):
            whole[service] = each
    whole.pop((series.subject.service, series.subject.principal), None)
    return [each for each in whole.values() if each.sums.any()]


def _is_busier(change: _Change, every: list[Series]) -> bool:
    """Return whether a subject opens more connections since it does more: its other requests are as many more."""
    mine = [each for each in every if each.subject == change.series.subject and each.measure is RATE]
    main = max(mine, key=lambda each: float(each.sums.sum()), default=None)
    if main is None:
        return False
    inside = np.zeros(len(main.sums), np.bool_)
    inside[change.found.first : change.found.last + 1] = True
    before, after = (max(float(main.sums[where].mean()), 1e-9) for where in (~inside, inside))
    return bool(np.log(after / before) >= _FOLLOW * change.found.log_factor > 0)


def _factor(series: Series, found: Break) -> float:
    """Return the logarithm of how many times as much a series has in a part as in the rest."""
    inside = np.zeros(len(series.sums), np.bool_)
    inside[found.first : found.last + 1] = True
    return float(np.log((series.sums[inside].mean() + 0.5) / (series.sums[~inside].mean() + 0.5)))


def _common(one: Span, other: Span) -> float:
    """Return the part of the time of two spans together that is in both."""
    return one.common_minutes(other) / enclosing((one, other)).length_minutes


def _is_at_once(one: Span, other: Span) -> bool:
    return _common(one, other) >= _SAME_TIME or apart(one, other) <= _SAME_MINUTES * MINUTE


def _of_services(changes: list[_Change]) -> list[_Change]:
    """Return changes without those of clients whose service changes as a whole, and of services in which one client changes."""
    whole = [each for each in changes if each.series.subject.is_service]
    single = [each for each in changes if not each.series.subject.is_service]

    def parts(one: _Change) -> list[_Change]:
        return [
            each
            for each in single
            if each.kind == one.kind and one.series.subject.includes(each.series.subject) and _is_at_once(each.span, one.span)
        ]

    dropped: set[int] = set()
    for one in whole:
        mine = parts(one)
        if len(mine) == 1 and 1 < len(one.series.subject.clients) <= MOST_PROCESSES:
            dropped.add(id(one))
        else:
            dropped.update(id(each) for each in mine)
    return [each for each in changes if id(each) not in dropped]


def _of_one_cause(changes: list[_Change]) -> list[list[_Change]]:
    """Join changes of one subject at one time, and of one measure and API at one time."""
    groups: list[list[_Change]] = []
    for one in sorted(changes, key=lambda each: each.rank):
        near = [group for group in groups if any(_is_one_cause(one, other) for other in group)]
        groups = [group for group in groups if not any(group is each for each in near)]
        groups.append([*(each for group in near for each in group), one])
    return groups


def _is_one_cause(one: _Change, other: _Change) -> bool:
    mine, others = one.series.subject, other.series.subject
    is_same = mine.includes(others) or others.includes(mine)
    return (is_same or one.kind == other.kind) and _is_at_once(one.span, other.span)


def _without_restarts(tables: Tables, together: list[_Change]) -> list[_Change]:
    """Return changes without connections of which each client has one to each broker, or a few, as after a restart."""
    main = min(together, key=lambda each: each.rank)
    if not main.is_of_starts:
        return together
    alike = [each for each in together if each.kind == main.kind]
    clients = {client for each in alike for client in each.series.subject.clients}
    once = _ONCE * len(clients) * len({name[0] for name in tables.grids.nodes.names})
    is_enough = sum(each.found.weight for each in alike) >= max(limits.CHANGED_REQUESTS_FLOOR, once)
    return together if is_enough else [each for each in together if not each.is_of_starts]


def _words(finding: Finding) -> str:
    return f"{finding.title} {finding.evidence} {' '.join(sorted(finding.explains))}"


def _has(words: str, name: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", words) is not None


def _is_about_errors(finding: Finding) -> bool:
    return any(key in finding.evidence for key in ("error", "errors")) or finding.name in _FAILURES


def _is_told(finding: Finding, together: list[_Change]) -> bool:
    """Return whether a finding is about the same subject, at the same time, and names the API or a cause."""
    main = min(together, key=lambda each: each.rank)
    if finding.span is None or _common(finding.span, main.span) < _TOLD:
        return False
    if main.series.measure.name == "failed" and not _is_about_errors(finding):
        return False
    if finding.name == "silent-client" and finding.evidence.get("clients") and main.series.measure is RATE and not main.found.is_up:
        return True  # it is about several clients, of which it names a few
    words = _words(finding)
    subjects = [each.series.subject for each in together]
    is_same = any(
        (subject.is_broker and finding.evidence.get("node") == subject.node)
        or (not subject.is_broker and subject.principal is not None and _has(words, subject.principal))
        or any(client is not None and _has(words, client) for client in subject.clients)
        for subject in subjects
    )
    return is_same and (finding.name in _CAUSES or any(each.series.api in words for each in together))


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:,.1f}"


def _shown(change: _Change, value: float) -> float:
    """Return a value in the unit of the evidence."""
    measure = change.series.measure
    if measure.is_share:
        return round(value, 3)
    if measure.unit == "ms":
        return round(value / 1000, 2)
    return round(value if measure.is_mean else value * 60 / change.series.axis.step_s, 2)


def _did(change: _Change) -> str:
    """Return what a change is, as the predicate of a sentence."""
    measure, found = change.series.measure, change.found
    high, low = max(found.before, found.after), min(found.before, found.after)
    factor = _number(high / low) if low > high / 1000 else "more than a thousand"
    if measure.name == "requests" and low <= high / 1000:
        return f"{'began' if found.is_up else 'ceased'} to send {change.series.api} requests"
    pattern = measure.up if found.is_up else measure.down
    return pattern.format(factor=factor, api=change.series.api, share=f"{found.after:.0%}")


def _who(together: list[_Change], main: _Change) -> str:
    subjects = list(dict.fromkeys(each.series.subject for each in together if each.kind == main.kind))
    if main.series.subject.is_broker:
        nodes = sorted({each.node for each in subjects if each.node is not None})
        where = "the broker" if not nodes else f"broker {nodes[0]}" if len(nodes) == 1 else f"{len(nodes)} brokers"
        return f"{main.series.api} requests to {where}"
    clients = sorted({str(client) for each in subjects for client in each.clients})
    if len(clients) == 1:
        return name_of(main.series.subject.clients[0])
    principals = sorted({str(each.principal) for each in subjects})
    return f"{len(clients)} clients" + (f" of {principals[0]}" if len(principals) == 1 else "")


def _finding(tables: Tables, together: list[_Change]) -> Finding:
    main = min(together, key=lambda each: each.rank)
    series, found = main.series, main.found
    alike = [each for each in together if each.kind == main.kind]
    span = enclosing(each.span for each in alike)
    subjects = list(dict.fromkeys(each.series.subject for each in alike))
    clients = sorted({client for each in subjects for client in each.clients}, key=str)
    principals = sorted({each.principal for each in subjects if each.principal is not None})
    nodes = sorted({each.node for each in subjects if each.node is not None})
    others = sorted({_also(each) for each in together if each.kind != main.kind} - {_also(main)})
    unit = "share" if series.measure.is_share else "ms" if series.measure.unit == "ms" else _per(main)
    errors, at = _errors(tables, clients, nodes, series.api, span) if series.measure.name == "failed" else ([], [])
    nodes = nodes or at
    because = f" with {errors[0]}" if errors else ""
    if series.measure.name == "failed" and not series.subject.is_broker:
        because += _where(tables, at, series.api, clients)
    conditions = [equal(api=series.api)] if series.api != CONNECTIONS else []
    conditions += (
        [equal(client_id=clients[0])] if len(clients) == 1 else [equal(principal=principals[0])] if len(principals) == 1 else []
    )
    conditions += [f"node = {nodes[0]}"] if len(nodes) == 1 else []
    topics = _topics(tables, clients, principals, series.api)
    return Finding(
        "unlike-itself",
        f"{_who(together, main)} {_did(main)}{because}, {text(span.first)} to {text(span.last)}",
        {
            "api": series.api if series.api != CONNECTIONS else None,
            "measure": series.measure.name,
            "also": ", ".join(others[:6]) or None,
            "error": the_only(errors),
            "errors": several(errors),
            "client_id": the_only(clients),
            "clients": several([str(each) for each in clients]),
            "principal": the_only(principals),
            "principals": several(principals),
            "node": the_only(nodes),
            "brokers": several([str(each) for each in nodes]),
            "group_id": _group(tables, clients, principals),
            "topic": the_only(topics),
            "topics": several(topics),
            f"{unit} before": _shown(main, found.before),
            f"{unit} after": _shown(main, found.after),
            "minutes": span.length_minutes,
        },
        " AND ".join([*conditions, span.where]),
        "Ask what changed then: a deployment, a setting, the data, a service behind it, or the network. --compare shows the rest.",
        text(span.first),
        text(span.last),
        float(sum(each.found.weight for each in alike)),
        {each for one in together for each in ((one.series.api,) if one.series.api != CONNECTIONS else OF_EACH_START)},
        impact=f"{found.weight:,.0f} requests",
    )


def _where(tables: Tables, at: list[int], api: str, clients: list[Any]) -> str:
    """Return which broker it was, if it was one, or all of them if most clients have the same."""
    brokers, every = (
        {name[0] for name in tables.grids.nodes.names},
        {name[0] for name in tables.grids.persons.names if name[2] == api},
    )
    if len(brokers) > 1 and at:
        return f" in broker {at[0]}"
    if len(clients) < _MANY * len(every):
        return ""
    return " in all brokers" if len(brokers) > 1 else " in the broker"


def _also(change: _Change) -> str:
    return f"{change.series.api} {change.series.measure.name} {'up' if change.found.is_up else 'down'}"


def _per(change: _Change) -> str:
    measure = change.series.measure
    return measure.name if measure.is_mean else f"{measure.unit} a minute"


def _errors(tables: Tables, clients: list[Any], nodes: list[int], api: str, span: Span) -> tuple[list[str], list[int]]:
    """Return the errors of these clients' requests in a span, the most frequent first, and the broker of nearly all."""
    rows = tables.grids.failures
    first, last = rows.axis.place(span.first), rows.axis.place(span.last)
    wanted = (rows.minute >= first) & (rows.minute <= last)
    wanted &= rows.where("client_id", *clients) if clients else rows.where("node", *nodes)
    mine = rows.chosen(wanted & rows.where("api", api))

    def main(key: str, least: float) -> list[Any]:
        top = mine.top(key)
        return [name[0] for name, count in top if name[0] is not None and count >= least * sum(each[1] for each in top)]

    return main("error", 0.1), main("node", 0.8)


def _topics(tables: Tables, clients: list[Any], principals: list[str], api: str) -> list[str]:
    names = set(clients)
    mine = [row for row in tables["lineage"] if row["client_id"] in names and row["principal"] in principals and row["topic"]]
    mine = [row for row in mine if row["api"] == api] or mine
    return sorted({row["topic"] for row in mine})


def _group(tables: Tables, clients: list[Any], principals: list[str]) -> str | None:
    names = set(clients)
    groups = {row["group_id"] for row in tables["member"] if row["client_id"] in names and row["principal"] in principals}
    groups |= {row["group_id"] for row in tables["lineage"] if row["client_id"] in names and row["principal"] in principals}
    groups -= {None}
    return next(iter(groups)) if len(groups) == 1 else None


def costly(tables: Tables, known: Sequence[Finding]) -> Iterator[Finding]:
    """Find clients that come and take most of the handlers' time with few requests, each of which takes long."""
    grid = tables.grids.persons
    whole = grid["local_us"].sum(0) if grid.names else np.zeros(0)
    for row, (client_id, principal, api) in enumerate(grid.names):
        taken, requests = grid["local_us"][row], grid["requests"][row]
        places = np.flatnonzero(requests)
        inside = slice(int(places[0]), int(places[-1]) + 1) if len(places) else slice(0, 0)
        is_new = len(places) and inside.start >= _NEW_SLOTS and inside.stop - inside.start >= _LEAST_SLOTS
        count, mine = requests[inside].sum(), taken[inside].sum()
        if not is_new or count < limits.FAILURES_FLOOR or mine < max(_COSTLY * whole[inside].sum(), _LONG_US * count):
            continue
        span = span_of(grid.axis, (inside.start, inside.stop - 1))
        if any(is_about(each, (client_id, principal), span) and api in _words(each) for each in known):
            continue
        share = mine / max(whole[inside].sum(), 1)
        yield Finding(
            "unlike-itself",
            f"{name_of(client_id)} came and took {share:.0%} of the time of all requests with {api} requests of "
            f"{mine / count / 1e6:,.1f} s each, {text(span.first)} to {text(span.last)}",
            {
                "api": api,
                "measure": "local time",
                "client_id": client_id,
                "principal": principal,
                "requests": int(count),
                "mean ms": round(mine / count / 1000),
                "share of the time": round(share, 3),
                "minutes": span.length_minutes,
            },
            f"{equal(client_id=client_id, api=api)} AND {span.where}",
            "Let it ask less often, or for less: each of these requests keeps a handler busy for as long.",
            text(span.first),
            text(span.last),
            float(mine / 1e6),
            {api},
            impact=f"{mine / 1e6:,.0f} s of the handlers' time",
        )
