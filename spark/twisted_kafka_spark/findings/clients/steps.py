"""Findings about lasting steps: from some time on a client does far more, or sends far larger requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.findings.clients.persons import is_about, span_of_client, topics_of
from twisted_kafka_spark.findings.finding import MINUTE, Finding, Span, enclosing, equal, grouped, several, text, the_only
from twisted_kafka_spark.findings.names import name_of, owner_of, service_and_account
from twisted_kafka_spark.findings.runs import HARDLY, Run, has_its_hours, is_abrupt, median, most_apart, rolling, span_of, widened

if TYPE_CHECKING:
    from twisted_kafka_spark.cells.grids import Grid
    from twisted_kafka_spark.findings.runs import Marks, Values
    from twisted_kafka_spark.views import Tables

Who = tuple[Any, Any]
_INSIDE, _OUTSIDE = 0.85, 0.9
"""The shares of the slots inside and outside of a step that are on its side of the middle."""
_NEARLY = 0.7
"""The part of a step, on a logarithmic scale, that neighbouring slots must have before all is searched."""
_TOGETHER = 15 * MINUTE
"""How much the begins of steps of one service differ."""
_OTHERS_FOLLOW = 0.5
"""The part of a step, on a logarithmic scale, that the median of the other clients may have, too."""
_MOST_OF_IT = 0.5
"""The part of a step's time that a finding has if it is about the same."""
_FEW_OTHERS = 2
"""Other services that call an API, with fewer of which a step must be abrupt: it may be the time of day."""
_EDGE_SLOTS = 3
"""Slots at the ends of a part that may belong to the rest."""


@dataclass(slots=True)
class _Step:
    """A step of one client: its measure, its time and its size."""

    who: Who
    api: str
    measure: str
    span: Span
    before: float
    after: float
    weight: float

    @property
    def is_up(self) -> bool:
        return self.after > self.before

    @property
    def factor(self) -> float:
        return max(self.after, self.before) / max(min(self.after, self.before), 1e-9)


def lasting_steps(tables: Tables, known: Sequence[Finding]) -> Iterator[Finding]:
    """Find clients that from some time on send far more or fewer requests, or far larger or smaller ones, unlike the others.

    What one of the `known` findings says of the client at that time is left out.
    """
    grid = tables.grids.persons
    steps = [*_steps_in_size(grid), *_steps_in_rate(grid)]
    steps = [one for one in steps if not any(_is_told(each, one) for each in known)]
    for together in _of_services(steps):
        yield _changed_load(tables, together)


def without_parts(found: Sequence[Finding], steps: Sequence[Finding]) -> list[Finding]:
    """Return findings without the traffic peaks that are parts of lasting steps."""
    return [each for each in found if each.name != "traffic-peak" or not any(_is_part(each, step) for step in steps)]


def _is_part(peak: Finding, step: Finding) -> bool:
    evidence, inside = peak.evidence, (peak.first or "") >= (step.first or "~") and (peak.last or "~") <= (step.last or "")
    named = [step.evidence.get("client_id"), *str(step.evidence.get("clients") or "").split(": ")[-1].split(", ")]
    return inside and peak.explains <= step.explains and evidence.get("client_id") in named


def _steps_in_size(grid: Grid) -> Iterator[_Step]:
    rows = grid.rows(api="Produce")
    sizes = {row: _means(grid, row) for row in rows}
    for row in rows:
        means, active = sizes[row]
        places = np.flatnonzero(active)
        found = segment(np.log(means[places]), limits.CHANGED_SLOTS, limits.CHANGED_SIZE)
        if found is None:
            continue
        run = int(places[found[0]]), int(places[found[1]])
        inside = np.zeros(len(means), np.bool_)
        inside[run[0] : run[1] + 1] = True
        before, after = median(means[active & ~inside]), median(means[active & inside])
        others = [_ratio(*sizes[other], inside) for other in _of_others(grid, rows, row)]
        if _do_others_follow(after / before, others):
            continue
        span = _span(grid, row, run)
        yield _Step(grid.names[row][:2], "Produce", "bytes", span, before, after, float(grid["requests"][row][inside].sum()))


def _means(grid: Grid, row: int) -> tuple[Values, Marks]:
    """Return the mean bytes of a write in each slot, and where there are any."""
    requests, size = grid["requests"][row] - grid["failed"][row], grid["bytes"][row]
    active = (requests > 0) & (size > 0)
    return np.divide(size, requests, out=np.zeros_like(size), where=active), active


def _ratio(means: Values, active: Marks, inside: Marks) -> float:
    """Return how many times as large the median is inside; 1 if that is not known."""
    within, without = means[active & inside], means[active & ~inside]
    return median(within) / median(without) if len(within) and len(without) else 1.0


def _of_others(grid: Grid, rows: Sequence[int], row: int) -> list[int]:
    """Return the rows of other services than that of a row."""
    mine = service_and_account(grid.names[row])
    return [each for each in rows if service_and_account(grid.names[each]) != mine]


def _do_others_follow(ratio: float, others: Sequence[float]) -> bool:
    """Return whether what the others do explains a good part of a step: it is the time of day, then."""
    known = [np.log(each) for each in others if each > 0]
    usual = median(np.array(known))
    return bool(usual * np.log(ratio) > 0 and abs(usual) >= _OTHERS_FOLLOW * abs(np.log(ratio)))


def _steps_in_rate(grid: Grid) -> Iterator[_Step]:
    writers = _by_service(grid, grid.rows(api="Produce"))
    for api in dict.fromkeys(name[2] for name in grid.names):
        rows = grid.rows(api=api)
        services = _by_service(grid, rows)
        for row in rows:
            counts = grid["requests"][row]
            run = _run_of_step(counts)
            if run is None:
                continue
            inside = np.zeros(len(counts), np.bool_)
            inside[run[0] : run[1] + 1] = True
            outside = ~inside
            begin = int(np.argmax(counts > 0))
            outside[:begin] = False
            before, after = float(counts[outside].mean()), float(counts[inside].mean())
            missing, mine = abs(after - before) * inside.sum(), service_and_account(grid.names[row])
            if max(before, after) < limits.CHANGED_FACTOR * min(before, after) or not min(before, after):
                continue
            if after <= HARDLY * before and has_its_hours(begin, run, len(counts)):
                continue
            others, of_writers = ([each for service, each in some.items() if service != mine] for some in (services, writers))
            if missing < limits.CHANGED_REQUESTS_FLOOR or _is_time_of_day(after / before, inside, others, of_writers):
                continue
            if len(others) < _FEW_OTHERS and not is_abrupt(np.log1p(counts), run, float(np.log(after / before))):
                continue
            span = _span(grid, row, run) if after > before else span_of(grid.axis, run)
            yield _Step(grid.names[row][:2], api, "requests", span, before, after, missing)


def _run_of_step(counts: Values) -> Run | None:
    """Return the slots in which there are far more requests than in the rest, or far fewer; None of a silence."""
    there = np.flatnonzero(counts)
    if len(there) < 2 * limits.CHANGED_SLOTS:
        return None
    begin, logs = int(there[0]), np.log1p(counts[:-1])
    found = segment(logs[begin:], limits.CHANGED_SLOTS, limits.CHANGED_FACTOR)
    if found is None:
        return None
    run = widened(logs, (found[0] + begin, found[1] + begin), begin)
    return run if counts[run[0] + _EDGE_SLOTS : run[1] + 1 - _EDGE_SLOTS].any() else None


def _is_time_of_day(ratio: float, inside: Marks, others: list[Values], writers: list[Values]) -> bool:
    """Return whether other services explain a step: the users of the same API, the writers, or all writes together."""
    together = [sum(writers[1:], writers[0])] if writers else []
    return any(_do_others_follow(ratio, [_rise(each, inside) for each in some]) for some in (others, writers, together))


def _by_service(grid: Grid, rows: Sequence[int]) -> dict[tuple[str, Any], Values]:
    """Return the requests of each service in each slot."""
    found: dict[tuple[str, Any], Values] = {}
    for row in rows:
        service = service_and_account(grid.names[row])
        found[service] = found.get(service, 0) + grid["requests"][row]
    return found


def _rise(counts: Values, inside: Marks) -> float:
    """Return how many times as many requests there are inside as outside; 1 if that is not known."""
    within, without = counts[inside], counts[~inside]
    return float(within.mean() / without.mean()) if within.any() and without.any() else 1.0


def _span(grid: Grid, row: int, run: Run) -> Span:
    there = np.flatnonzero(grid["requests"][row, run[0] : run[1] + 1]) + run[0]
    return span_of_client(grid, row, (int(there[0]), int(there[-1])))


def segment(values: Values, least: int, factor: float) -> Run | None:
    """Return the first and the last place of the part of a series that differs most from the rest, by a factor at least.

    `values` are logarithms. Part and rest have at least `least` values each, and are apart: few values are on the other's side.
    The part does not begin with the series: the beginning is the standard.
    """
    count, wanted = len(values), float(np.log(factor))
    if count < 2 * least:
        return None
    smooth = rolling(values, least)[least // 2 : count - least // 2] / least
    if not len(smooth) or smooth.max() - smooth.min() < _NEARLY * wanted:
        return None
    found = most_apart(values, least, least, least)
    return found if found is not None and _is_apart(values, found, wanted) else None


def _is_apart(values: Values, run: Run, wanted: float) -> bool:
    marks = np.zeros(len(values), np.bool_)
    marks[run[0] : run[1] + 1] = True
    high, low = median(values[marks]), median(values[~marks])
    if abs(high - low) < wanted:
        return False
    above = values > (high + low) / 2
    beyond = above if high > low else ~above
    return bool(beyond[marks].mean() >= _INSIDE and 1 - beyond[~marks].mean() >= _OUTSIDE)


def _is_told(finding: Finding, one: _Step) -> bool:
    """Return whether a finding is about a client's requests of this API in most of this time, or says why they changed."""
    if not is_about(finding, one.who, one.span) or finding.span is None:
        return False
    if one.span.common_minutes(finding.span) < _MOST_OF_IT * one.span.length_minutes:
        return False
    explains = one.api in finding.explains or one.api in str(finding.evidence.get("apis") or "")
    return explains and one.measure == "requests"


def _of_services(steps: list[_Step]) -> list[list[_Step]]:
    """Group the steps that begin at the same time: of one client, or of one principal's clients."""

    def belongs(group: list[_Step], one: _Step) -> bool:
        is_same = group[0].who == one.who or (owner_of(group[0].who) == owner_of(one.who) and group[0].api == one.api)
        return is_same and abs(group[0].span.first - one.span.first) <= _TOGETHER

    return grouped(sorted(steps, key=lambda one: (one.span.first, str(one.who), one.api, one.measure)), belongs)


def _changed_load(tables: Tables, together: list[_Step]) -> Finding:
    main = max(together, key=lambda one: (one.measure == "bytes", one.factor))
    rate = next((one for one in together if one.measure == "requests" and one.api == main.api and one.is_up), None)
    is_split = main.measure == "bytes" and not main.is_up and rate is not None
    clients = list(dict.fromkeys(one.who for one in together))
    who = name_of(main.who[0]) if len(clients) == 1 else f"{len(clients)} clients of {main.who[1]}"
    span = enclosing(one.span for one in together)
    when = f"{text(span.first)} to {text(span.last)}"
    more = f"{main.factor:,.0f} times {'as many' if main.is_up else 'fewer'}"
    if main.measure == "bytes":
        size = f"{main.factor:,.1f} times {'larger' if main.is_up else 'smaller'} writes"
        title = f"{who} sent {size}{f', and {rate.factor:,.0f} times as many' if is_split and rate is not None else ''}, {when}"
    else:
        title = f"{who} sent {more} {main.api} requests, {when}"
    topics = topics_of(tables, main.who, main.api)
    unit = "bytes per request" if main.measure == "bytes" else "requests a minute"
    scale = 1.0 if main.measure == "bytes" else 60 / tables.grids.persons.axis.step_s
    return Finding(
        "tiny-batches" if is_split else "changed-load",
        title,
        {
            "api": main.api,
            "also": ", ".join(sorted({one.api for one in together} - {main.api})) or None,
            "client_id": main.who[0] if len(clients) == 1 else None,
            "clients": several([str(each[0]) for each in clients]),
            "principal": main.who[1],
            "topic": the_only(topics),
            f"{unit} before": round(main.before * scale, 1),
            f"{unit} after": round(main.after * scale, 1),
        },
        f"{equal(client_id=main.who[0], api=main.api)} AND {main.span.where}",
        "Look for a change of linger.ms, batch.size or the partitioner: the broker's cost is per request and batch."
        if is_split
        else "Look for a deployment at that time: a change of compression, of the records' format, of an interval, or of the work.",
        text(span.first),
        text(span.last),
        float(sum(one.weight for one in together)),
        {one.api for one in together},
        impact=f"{rate.factor:,.0f} times the requests" if is_split and rate is not None else "",
    )
