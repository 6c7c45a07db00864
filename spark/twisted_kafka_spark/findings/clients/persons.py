"""Findings about clients that do far more than they usually do: requests, bytes, small batches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.findings.finding import MINUTE, Finding, Span, apart, equal, several, spans, text, the_only, unusual
from twisted_kafka_spark.findings.names import name_of, service_and_account, service_of
from twisted_kafka_spark.findings.runs import Run, median, minute_of, runs, unusual_above
from twisted_kafka_spark.records.kafka_names import OF_EACH_START

if TYPE_CHECKING:
    from twisted_kafka_spark.cells.grids import Grid, Matrix
    from twisted_kafka_spark.views import Row, Tables

Who = tuple[Any, Any]
_SHARE = 0.6
"""The share of the additional requests, or bytes, that names a client."""
_OF_A_START = (*OF_EACH_START, *limits.REBALANCE_APIS)
"""APIs that a client calls when it starts: many of them are another finding."""
_SAME_TIME, _AT_ONCE = 10 * MINUTE, 15 * MINUTE
"""How much the begins, and the ends, of what one client does differ, and of what the clients of a service do."""
_MOST_PEAKS = 2
"""Peaks of a client in a day; one with more does so habitually."""


class Moved(NamedTuple):
    """What a client moves by an API, and the finding about far more of it than usual."""

    finding: str
    api: str
    title: str
    advice: str


MOVED: tuple[Moved, ...] = (
    Moved(
        "bulk-read",
        "Fetch",
        "read far more than usual",
        "Find out whether it was meant to. A consumer that starts from the beginning (auto.offset.reset, a new group, reset "
        "offsets) reads old segments from disk. A consumer_byte_rate quota bounds it.",
    ),
    Moved(
        "bulk-write",
        "Produce",
        "wrote far more than usual",
        "Find out whether it was meant to. A loop, a replay or a backfill fills disks and delays the others. A "
        "producer_byte_rate quota bounds it.",
    ),
)


def excess(matrix: Matrix, inside: slice) -> Matrix:
    """Return by row how much more than usual is inside of a span; usual is the median of all intervals."""
    length = matrix[:, inside].shape[1]
    found: Matrix = np.maximum(matrix[:, inside].sum(1) - np.median(matrix, axis=1) * length, 0)
    return found


def client_behind(grid: Grid, api: str, measure: str, span: Span) -> Who | None:
    """Return the client that has most of the additional requests, or bytes, of an API in a span; None if no client has."""
    rows = grid.rows(api=api)
    if not rows:
        return None
    first, last = grid.axis.place(span.first), grid.axis.place(span.last)
    more = excess(grid[measure][rows], slice(first, last + 1))
    worst = int(np.argmax(more))
    if not more.sum() or more[worst] < _SHARE * more.sum():
        return None
    return grid.names[rows[worst]][0], grid.names[rows[worst]][1]


class _Behind(NamedTuple):
    """The senders of most of the additional requests of a peak: one client, or the clients of a service or an account."""

    clients: tuple[Any, ...]
    principal: Any

    @property
    def words(self) -> str:
        """Return who it is, after a noun."""
        if len(self.clients) == 1:
            return "from clients without a client id" if self.clients[0] is None else f"from {self.clients[0]}"
        return f"from {len(self.clients):,} clients of {self.principal}"

    @property
    def condition(self) -> str:
        """Return the condition that selects its lines."""
        return equal(client_id=self.clients[0]) if len(self.clients) == 1 else equal(principal=self.principal)


def _behind(grid: Grid, api: str, span: Span) -> _Behind | None:
    """Return the senders of most additional requests of an API in a span: a client, or else a service, or else an account."""
    who = client_behind(grid, api, "requests", span)
    if who is not None:
        return _Behind((who[0],), who[1])
    rows = grid.rows(api=api)
    more = excess(grid["requests"][rows], slice(grid.axis.place(span.first), grid.axis.place(span.last) + 1))
    for key in (service_and_account, lambda name: name[1]):
        parts: dict[Any, float] = defaultdict(float)
        for row, mine in zip(rows, more, strict=True):
            parts[key(grid.names[row])] += mine
        worst = max(parts, key=lambda each: parts[each], default=None)
        if worst is None or parts[worst] < _SHARE * max(more.sum(), 1):
            continue
        names = [grid.names[row] for row, mine in zip(rows, more, strict=True) if mine > 0 and key(grid.names[row]) == worst]
        if names[0][1] is not None and len({name[:2] for name in grid.names}) > len(names):
            return _Behind(tuple(sorted((name[0] for name in names), key=str)), names[0][1])
    return None


def unusual_traffic(tables: Tables, known: Sequence[Finding]) -> Iterator[Finding]:
    """Find minutes with far more requests of an API than usual, unless another finding explains them."""
    by_api: dict[str, list[Row]] = defaultdict(list)
    for row in tables["tick"]:
        by_api[row["api"]].append(row)
    minutes = len({row["at"] for row in tables["tick"]})
    told: list[tuple[_Behind | None, Span, Finding]] = []
    for api, rows in sorted(by_api.items(), key=lambda each: each[0] in _OF_A_START):
        counts = {row["at"]: float(row["requests"]) for row in rows}
        every = [*counts.values(), *[0.0] * (minutes - len(counts))]
        usual = sorted(every)[len(every) // 2]
        limit = max(unusual(every, limits.MAD_FACTOR), limits.TRAFFIC_FLOOR_A_MINUTE, limits.TRAFFIC_FACTOR * usual)
        near = {at for at, count in counts.items() if count > limits.NEARLY * limit}
        for span in spans({at: count for at, count in counts.items() if count > limit}, limits.MINUTES_FLOOR, near):
            if any(explains(finding, api, span) for finding in known):
                continue
            who = _behind(tables.grids.persons, api, span)
            if who is None or not _is_also(told, who, api, span):
                told.append((who, span, _peak(api, who, span, usual)))
    yield from (found for _, _, found in told)


def _is_also(told: Sequence[tuple[Any, Span, Finding]], who: Any, api: str, span: Span) -> bool:
    """Return whether a finding is about the same clients at the same time; it says then that this API was unusual, too."""
    same = next((each for mine, other, each in told if mine == who and _is_same(other, span)), None)
    if same is None:
        return False
    same.evidence["also"] = ", ".join(filter(None, (same.evidence.get("also"), api)))
    same.explains.add(api)
    return True


def _peak(api: str, who: _Behind | None, span: Span, usual: float) -> Finding:
    by_whom, conditions = ("", []) if who is None else (f" {who.words}", [who.condition])
    return Finding(
        "traffic-peak",
        f"{api} requests{by_whom} were far more frequent than usual, {text(span.first)} to {text(span.last)}",
        {
            "api": api,
            "client_id": the_only(who.clients) if who is not None else None,
            "clients": several([str(each) for each in who.clients]) if who is not None else None,
            "principal": who.principal if who is not None else None,
            "minutes": span.unusual_minutes,
            "maximum per minute": round(max(span.values)),
            "median per minute": round(usual),
        },
        " AND ".join([*conditions, equal(api=api), span.where]),
        "Check whether the load was intended. --filter with this condition and --group-by client_id shows who sent it.",
        text(span.first),
        text(span.last),
        sum(span.values),
        {api},
        impact=f"{max(span.values) / max(usual, 1):,.0f} times the usual requests",
    )


def explains(finding: Finding, api: str, span: Span) -> bool:
    """Return whether a finding explains more requests of an API in a span."""
    if api not in finding.explains:
        return False
    if finding.first is None or finding.last is None:
        return True
    return finding.first <= text(span.last + MINUTE) and text(span.first - MINUTE) <= finding.last


def is_about(finding: Finding, who: Who, span: Span) -> bool:
    """Return whether a finding is about this client in this span."""
    evidence = finding.evidence
    if evidence.get("client_id") != who[0] or (evidence.get("principal") or who[1]) != who[1]:
        return False
    if finding.first is None or finding.last is None:
        return True
    return finding.first <= text(span.last + 5 * MINUTE) and text(span.first - 5 * MINUTE) <= finding.last


def busier_clients(tables: Tables, known: Sequence[Finding]) -> Iterator[Finding]:
    """Find clients that send far more requests of an API than they usually do, unless another finding says so."""
    grid = tables.grids.persons
    totals = grid.by("api")
    told: list[tuple[Who, Span, Finding]] = []
    for row, (client_id, principal, api) in enumerate(grid.names):
        counts = grid["requests"][row]
        whole = totals["requests"][totals.rows(api=api)[0]]
        peaks = _peaks(counts, whole, limits.CLIENT_PEAK_FLOOR, limits.CLIENT_PEAK_FACTOR)
        if not peaks and api not in _OF_A_START:
            peaks = _newcomers_peaks(counts, whole, limits.NEWCOMERS_FLOOR, limits.NEWCOMERS_BEYOND)
            peaks = [] if peaks and _is_report(tables, (client_id, principal), api) else peaks
        for run in peaks:
            span = span_of_client(grid, row, run)
            who = client_id, principal
            if any(explains(each, api, span) or is_about(each, who, span) for each in known):
                continue
            if _is_also(told, who, api, span):
                continue
            usual, most = median(counts), counts[run[0] : run[1] + 1].max()
            found = Finding(
                "traffic-peak",
                f"{name_of(client_id)} sent {most / max(usual, 1):,.0f} times as many {api} requests as usual, "
                f"{text(span.first)} to {text(span.last)}",
                {
                    "api": api,
                    "client_id": client_id,
                    "principal": principal,
                    "minutes": span.length_minutes,
                    "maximum per minute": round(most / 5),
                    "median per minute": round(usual / 5, 1),
                },
                f"{equal(client_id=client_id, api=api)} AND {span.where}",
                "Check whether the load was intended: retries without a pause, a loop, or more work than usual.",
                text(span.first),
                text(span.last),
                float(counts[run[0] : run[1] + 1].sum()),
                {api},
            )
            told.append((who, span, found))
    yield from (found for _, _, found in told)


def one_for_each_service(found: Sequence[Finding]) -> list[Finding]:
    """Return findings in which several clients of a service that send more of an API at once are one finding."""
    kept: list[Finding] = []
    clients: dict[int, list[str]] = {}
    for one in found:
        same = next((each for each in kept if _is_of_same_service(each, one)), None)
        if same is None:
            kept.append(one)
            continue
        names = clients.setdefault(id(same), [str(same.evidence["client_id"])] if same.evidence["client_id"] else [])
        names.append(str(one.evidence["client_id"]))
        same.title = same.title.replace(_of_clients(same, names[:-1]), _of_clients(same, names), 1)
        same.evidence |= {"client_id": None, "clients": several(names)}
        same.where = same.where.replace(equal(client_id=names[0]), equal(principal=same.evidence["principal"]))
        same.first, same.last = min(same.first or "", one.first or ""), max(same.last or "", one.last or "")
        same.weight += one.weight
    return kept


def _of_clients(finding: Finding, names: list[str]) -> str:
    return name_of(names[0]) if len(names) == 1 else f"{len(names)} clients of {finding.evidence['principal']}"


def _is_of_same_service(one: Finding, other: Finding) -> bool:
    """Return whether two findings about one client each say the same about processes of one service."""
    if {one.name, other.name} - {"traffic-peak", "changed-load"} or one.span is None or other.span is None:
        return False
    mine, its = one.evidence, other.evidence
    known = mine.get("client_id") or str(mine.get("clients") or "").partition(": ")[2].split(", ")[0]
    if not known or not its.get("client_id") or mine.get("api") is None or mine["api"] != its.get("api"):
        return False
    if mine.get("principal") != its.get("principal") or service_of(known) != service_of(its["client_id"]):
        return False
    return apart(one.span, other.span) <= _AT_ONCE


def _is_same(one: Span, other: Span) -> bool:
    return apart(one, other) <= _SAME_TIME


def bulk(tables: Tables, known: Sequence[Finding]) -> Iterator[Finding]:
    """Find clients that read or write far more bytes than they usually do, or than all others do.

    Bytes that one of the `known` findings explains are left out.
    """
    grid = tables.grids.persons
    for moved in MOVED:
        rows = grid.rows(api=moved.api)
        whole = grid["bytes"][rows].sum(0) if rows else np.zeros(grid.axis.length)
        for row in rows:
            mine = grid["bytes"][row]
            client_id, principal, _ = grid.names[row]
            peaks = _peaks(mine, whole, limits.BULK_FLOOR_BYTES, limits.BULK_FACTOR)
            if not peaks:
                peaks = _newcomers_peaks(mine, whole, limits.BULK_FLOOR_BYTES, limits.NEWCOMERS_BULK)
                peaks = [] if peaks and _is_report(tables, (client_id, principal), moved.api) else peaks
            for run in peaks:
                span = span_of_client(grid, row, run)
                inside = mine[run[0] : run[1] + 1]
                if any(is_about(each, (client_id, principal), span) and moved.api in each.explains for each in known):
                    continue
                topics = topics_of(tables, (client_id, principal), moved.api)
                yield Finding(
                    moved.finding,
                    f"{name_of(client_id)} {moved.title}, {text(span.first)} to {text(span.last)}",
                    {
                        "client_id": client_id,
                        "principal": principal,
                        "topic": the_only(topics),
                        "topics": several(topics),
                        "bytes": int(inside.sum()),
                        "MB a minute": round(float(inside.max()) / 5 / 1e6, 2),
                        "usual MB a minute": round(median(mine) / 5 / 1e6, 3),
                        "share of all bytes": f"{inside.sum() / max(whole[run[0] : run[1] + 1].sum(), 1):.0%}",
                    },
                    f"{equal(client_id=client_id, api=moved.api)} AND {span.where}",
                    moved.advice,
                    text(span.first),
                    text(span.last),
                    float(inside.sum()),
                    {moved.api},
                    impact=f"{inside.sum() / 1e6:,.0f} MB",
                )


def _is_report(tables: Tables, who: Who, api: str) -> bool:
    """Return whether a client without a past reads one topic only, as a weekly report or a backup does."""
    return api == "Fetch" and len(topics_of(tables, who, api)) == 1


def topics_of(tables: Tables, who: Who, api: str) -> list[str]:
    """Return the topics that a client reads or writes, the one with the most bytes first."""
    mine = [row for row in tables["lineage"] if (row["client_id"], row["principal"], row["api"]) == (*who, api)]
    return [row["topic"] for row in sorted(mine, key=lambda row: -(row["bytes"] or 0)) if row["topic"] is not None]


def _peaks(mine: Any, whole: Any, floor: float, factor: float) -> list[Run]:
    """Return the runs in which a client that is there most of the time does far more than usual, if it seldom does."""
    if (mine > 0).sum() * 2 < len(mine) or len(mine) < limits.LEAST_SLOTS or mine.max() <= floor:
        return []
    usual = median(mine)
    limit = max(floor, factor * usual, unusual_above(mine, limits.MAD_FACTOR), 1.5 * float(np.quantile(mine, 0.85)))
    found = runs(mine > limit, gap=1)
    if len(found) > _MOST_PEAKS:
        return []
    return [run for run in found if _is_peak(mine, whole, run, usual, factor)]


def _is_peak(mine: Any, whole: Any, run: Run, usual: float, factor: float) -> bool:
    inside = slice(run[0], run[1] + 1)
    is_long = run[1] > run[0] or mine[inside].max() >= 2 * factor * usual
    others = whole - mine
    usual_of_others = median(others)
    rise = float(others[inside].mean()) / usual_of_others if usual_of_others else 1.0
    is_alone = mine[inside].mean() >= limits.RISES_BEYOND * max(rise, 1.0) * max(usual, 1.0)
    # The median of a whole day says little of a client with few requests, or with the hours of an office.
    of_others = others.sum() - others[inside].sum()
    expected = (mine.sum() - mine[inside].sum()) * others[inside].mean() / of_others if of_others else 0.0
    is_alone &= bool(mine[inside].mean() >= limits.RISES_BEYOND * expected)
    return bool(is_long and is_alone and mine[inside].sum() >= limits.PEAK_SHARE * whole[inside].sum())


def _newcomers_peaks(mine: Any, whole: Any, floor: float, beyond: float) -> list[Run]:
    """Return the runs in which a client without a past does several times as much as all others do, even when they do most."""
    if (mine > 0).sum() * 2 >= len(mine) or len(mine) < limits.LEAST_SLOTS or mine.max() <= floor:
        return []
    others = whole - mine
    most = float(np.quantile(others, 0.95))
    found = runs(mine > max(floor, limits.NEWCOMERS_FACTOR * median(others), beyond * most), gap=1)
    return [run for run in found if run[1] > run[0]] if len(found) <= _MOST_PEAKS else []


def span_of_client(grid: Grid, row: int, run: Run) -> Span:
    """Return the span from the first to the last request of a row in a run of slots."""
    first, last = grid["first_us"][row, run[0]], grid["last_us"][row, run[1]]
    return Span(minute_of(first), minute_of(last), tuple(grid["requests"][row, run[0] : run[1] + 1].tolist()))


def smaller_batches(tables: Tables, known: Sequence[Finding]) -> Iterator[Finding]:
    """Find producers whose batches become far smaller, and at least twice as many, as they usually are."""
    grid = tables.grids.persons
    for row in grid.rows(api="Produce"):
        requests, size = grid["requests"][row] - grid["failed"][row], grid["bytes"][row]
        active = (requests > 0) & (size > 0)
        if active.sum() < limits.LEAST_SLOTS:
            continue
        means = np.divide(size, requests, out=np.zeros_like(size), where=active)
        usual, often = median(means[active]), median(requests[active])
        small = (
            active & (means < usual / limits.SMALLER_BATCHES) & (requests >= limits.SMALL_BATCHES_FLOOR) & (requests >= 2 * often)
        )
        for run in runs(small, gap=1):
            client_id, principal, _ = grid.names[row]
            span = span_of_client(grid, row, run)
            if run[1] == run[0] or any(
                each.name == "tiny-batches" and is_about(each, (client_id, principal), span) for each in known
            ):
                continue
            inside = slice(run[0], run[1] + 1)
            mean = size[inside].sum() / requests[inside].sum()
            yield Finding(
                "tiny-batches",
                f"{name_of(client_id)} produced {mean:,.0f} instead of {usual:,.0f} bytes per request, "
                f"{text(span.first)} to {text(span.last)}",
                {
                    "client_id": client_id,
                    "principal": principal,
                    "requests": int(requests[inside].sum()),
                    "mean bytes": round(mean),
                    "usual bytes": round(usual),
                    "requests a minute": round(requests[inside].mean() / 5),
                    "usual requests a minute": round(often / 5),
                },
                f"{equal(client_id=client_id, api='Produce')} AND {span.where}",
                "Look for a change of linger.ms, batch.size or the partitioner: the broker's cost is per request and batch.",
                text(span.first),
                text(span.last),
                float(requests[inside].sum()),
                {"Produce"},
                impact=f"{requests[inside].mean() / max(often, 1):,.0f} times the requests",
            )
