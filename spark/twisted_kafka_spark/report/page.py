"""The report as a self-contained page, without scripts or external resources, and readable without its charts."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from twisted_kafka_spark.cells.histogram import QUANTILES, WORST_COARSE_ERROR, WORST_ERROR, quantile_name
from twisted_kafka_spark.records.schema import PHASES
from twisted_kafka_spark.report import charts
from twisted_kafka_spark.report.cards import card
from twisted_kafka_spark.report.kinds import MOST_SHOWN, by_kind
from twisted_kafka_spark.report.tables import Column, bar, bytes_of, count, folded, share, table, text, time_of
from twisted_kafka_spark.report.words import BYTES, TIMES, Units, number, period, phase, size

Values = dict[str, Any]

_QUANTILES = tuple(quantile_name(share) for share in QUANTILES)
_LINES = (0, 1, 3)
"""The colours of the lines of quantiles."""
_CLIENT = (text("client id", "client_id"), text("principal", "principal"))
_BUSY = (
    count("requests", "requests"),
    bytes_of("received", "request_bytes"),
    bytes_of("sent", "response_bytes"),
    count("with an error", "failed"),
    time_of("total time", "total_us"),
)
_THROTTLED = (
    count("requests", "requests"),
    count("throttled", "throttled"),
    time_of("throttled for", "throttle_us"),
    share("of its time", "throttled_share"),
    bytes_of("received", "request_bytes"),
    bytes_of("sent", "response_bytes"),
)


_ACKNOWLEDGED = (
    *(("accepted", "accept"), ("released", "release"), ("rejected", "reject"), ("refused", "refused")),
    *(("expired", "expired"), ("returned", "returned"), ("given up", "over_limit")),
)


def as_html(document: Values) -> str:
    """Return the HTML of the page."""
    style = _resource("style.css")
    parts = [(anchor, title, section(document)) for anchor, title, section in SECTIONS]
    shown = [(anchor, title, content) for anchor, title, content in parts if content]
    links = " ".join(f'<a href="#{anchor}">{escape(title)}</a>' for anchor, title, _ in shown)
    body = "".join(f'<section id="{anchor}"><h2>{escape(title)}</h2>{content}</section>' for anchor, title, content in shown)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Kafka requests, {escape(_period(document))}</title><style>{style}</style></head><body>"
        f'<header><h1>Kafka requests</h1><p class="soft">{escape(_period(document))}, UTC. {escape(_source(document))}</p>'
        f'<p><label>Time zone of findings and charts <select id="zone" disabled></select></label></p>'
        f'{_facts(document)}<nav aria-label="Sections">{links}</nav></header><main>{body}</main>{_footer(document)}'
        f"<script>{_resource('zones.js')}</script></body></html>\n"
    )


def _resource(name: str) -> str:
    return files("twisted_kafka_spark.report").joinpath(name).read_text(encoding="utf-8")


def _footer(document: Values) -> str:
    """Return the version of the tool and the command that made the report."""
    made = document.get("made_by") or {}
    command = f": <code>{escape(made['command'])}</code>" if made.get("command") else ""
    return f'<footer class="soft"><p>Made by twisted-kafka-spark {escape(made.get("version", ""))}{command}</p></footer>'


def _period(document: Values) -> str:
    begin, end = period(document)
    return f"{begin} to {end}".replace("T", " ") if begin else "no requests"


def _source(document: Values) -> str:
    source = document["source"]
    described = f"From {source['from']}: {source['files']:,} files, {size(source['size_bytes'])}."
    return f"{described} Filter: {source['condition']}." if source["condition"] else described


def _facts(document: Values) -> str:
    total = document["total"]
    failed = total["failed"] - total["expected"]
    percent = failed / total["requests"] if total["requests"] else 0
    facts = {
        "requests": f"{total['requests']:,}",
        "failed": f"{failed:,} ({percent:.2%})",
        "asked to retry or rejoin": f"{total['expected']:,}",
        "throttled": f"{total['throttled']:,}",
        "received": size(total["request_bytes"]),
        "sent": size(total["response_bytes"]),
        "findings": f"{len(document['findings'])}",
    }
    return f'<div class="facts">{"".join(f"<div><b>{escape(value)}</b>{name}</div>" for name, value in facts.items())}</div>'


def _findings(document: Values) -> str:
    muted = document.get("muted", 0)
    note = f'<p class="soft">{muted} findings are muted by the rules.</p>' if muted else ""
    if not document["findings"]:
        return f'<p class="finding none">There are no findings in this period.</p>{note}'
    parts = [note]
    for found in by_kind(document["findings"]):
        parts += [card(each, document) for each in found[:MOST_SHOWN]]
        more = "".join(f"<li>{escape(each['title'])}</li>" for each in found[MOST_SHOWN:])
        parts.append(folded(f"{len(found) - MOST_SHOWN} more of the kind {found[0]['name']}", f"<ul>{more}</ul>" if more else ""))
    return "".join(parts)


def _every(document: Values) -> str:
    seconds = document["period"]["tick_s"]
    for each, unit in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds % each == 0:
            return f"every {unit[:-1]}" if seconds == each else f"every {seconds // each} {unit}"
    return f"every {seconds} seconds"


def _cut(series: Mapping[str, Sequence[float | None]], units: Units | None) -> str:
    """Return a note if columns are cut."""
    form = units.text if units else charts.short
    totals = [sum(value or 0 for value in values) for values in zip(*series.values(), strict=True)]
    top = charts.scale(totals)
    cut = [total for total in totals if total > top]
    if not cut:
        return ""
    what = f"{len(cut)} columns are higher than the scale, up to" if len(cut) > 1 else "One column is higher than the scale:"
    return f'<p class="soft">{what} {form(max(cut))}.</p>'


def _marks(document: Values) -> Iterator[charts.Mark]:
    """Yield the findings that have a beginning and an end, by the ticks that they are in."""
    ticks = document["time"]["ticks"]
    for found in document["findings"]:
        first, last = (found.get(name) for name in ("first", "last"))
        if first and last and ticks and first[:16] <= document["period"].get("end", ticks[-1]) and last[:16] >= ticks[0]:
            at = [max(bisect_right(ticks, moment[:16]) - 1, 0) for moment in (first, last)]
            yield charts.Mark(at[0], at[1], f"{found['name']}: {found['title']}", found.get("severity", "critical"))


def _traffic(document: Values) -> str:
    time = document["time"]
    ticks = [tick.replace("T", " ") for tick in time["ticks"]]
    every = _every(document)
    marks = list(_marks(document))
    drawn: list[tuple[str, dict[str, list[float]], Units | None]] = [
        ("Requests by API", time["requests"], None),
        ("Time throttled", {"throttled": time["throttle_us"]}, TIMES),
        ("Bytes", {"received": time["request_bytes"], "sent": time["response_bytes"]}, BYTES),
    ]
    shown = "".join(
        f"<h3>{escape(title)}, {every}</h3>{charts.legend(list(series))}{charts.stacked_steps(ticks, series, title, units, marks)}"
        f"{_cut(series, units)}"
        for title, series, units in drawn
        if any(any(values) for values in series.values())
    )
    if marks:
        shown += (
            '<p class="soft">Bars above the charts are findings that have a beginning and an end: in the upper row critical ones, '
            "then warnings, then notices. A thin line lasts for most of the period.</p>"
        )
    rows = [
        {"tick": tick, **{name: values[at] for name, values in time["requests"].items()}, "with an error": time["failed"][at]}
        for at, tick in enumerate(ticks)
    ]
    columns = [text("from", "tick"), *[count(name, name) for name in (*time["requests"], "with an error")]]
    return shown + folded("As a table", table("Requests by API over time", rows, columns, most=len(rows)))


def _latency(document: Values) -> str:
    served = [time_of(name, "served_us", name) for name in _QUANTILES]
    total = [time_of(name, "total_us", name) for name in _QUANTILES]
    apis, who = document["apis"], document["client_apis"]
    by_api = [text("API", "api"), count("requests", "requests")]
    note = (
        "Served is the total time without throttling, and without the time that fetches and joins wait by design. "
        f"Quantiles come from histograms; their relative error is at most {WORST_ERROR:.1%}, "
        f"over time and by client {WORST_COARSE_ERROR:.0%}."
    )
    return (
        table("Time served by API", apis, [*by_api, *served], most=60)
        + f'<p class="soft">{note}</p>'
        + "".join(_latency_over_time(each, document) for each in document["latency"])
        + table("Time served by client and API", who, [*_CLIENT, *by_api, *served], most=len(who))
        + folded("Total times, with waits", table("Total time by API", apis, [*by_api, *total, time_of("max", "max_us")], most=60))
    )


def _latency_over_time(each: Values, document: Values) -> str:
    ticks = [tick.replace("T", " ") for tick in document["time"]["ticks"]]
    lines, title = each["quantiles_us"], f"{each['api']}: time served"
    highest = {"most": [max((value or 0 for value in values), default=0) for values in zip(*lines.values(), strict=True)]}
    return (
        f"<h3>{escape(title)}, {_every(document)}</h3>{charts.legend(list(lines), _LINES)}"
        + charts.quantile_lines(ticks, lines, title, _marks(document))
        + _cut(highest, TIMES)
    )


def _phases(document: Values) -> str:
    waiting = document["waiting"]["us"]
    shares = Column(
        "shares",
        lambda row: charts.share_bar({phase(name): row["phases"][name]["mean"] for name in PHASES}, "us"),
        is_markup=True,
    )
    means = [time_of(phase(name), "phases", name, "mean") for name in PHASES]
    tails = [time_of(phase(name), "phases", name, "p99") for name in PHASES]
    rows = document["apis"]
    return (
        charts.legend([phase(name) for name in PHASES])
        + "<p>All requests, without the time that fetches and joins wait by design: "
        + charts.share_bar({phase(name): value for name, value in waiting.items()}, "us")
        + "</p>"
        + table("Mean time of each phase by API", rows, [text("API", "api"), *means, shares], most=60)
        + folded("99th percentile of each phase", table("p99 of each phase by API", rows, [text("API", "api"), *tails], most=60))
    )


def _clients(document: Values) -> str:
    clients = document["clients"]
    software = Column(
        "software", lambda row: " ".join(filter(None, (row["software"], row["software_version"]))) or "-", is_text=True
    )
    columns = [*_CLIENT, software, *_BUSY, bar("relative", "requests", clients)]
    by_time = sorted(clients, key=lambda row: -(row["total_us"] or 0))
    held_back = sorted((row for row in clients if row["throttle_us"]), key=lambda row: -row["throttle_us"])
    return (
        table("Busiest clients", clients, columns)
        + folded("By time", table("Clients with the most total time", by_time, columns))
        + (table("Clients that a quota holds back most", held_back, [*_CLIENT, software, *_THROTTLED]) if held_back else "")
        + folded("Principals", table("Busiest principals", document["principals"], [text("principal", "principal"), *_BUSY]))
        + folded(
            "Connections",
            table(
                "Busiest connections",
                document["connections"],
                [text("connection", "connection"), *_CLIENT, *_BUSY, text("first", "first"), text("last", "last")],
            ),
        )
        + folded(
            "Listeners",
            table(
                "Brokers and listeners",
                document["listeners"],
                [text("broker", "node"), text("listener", "listener"), text("protocol", "protocol"), *_BUSY],
            ),
        )
    )


def _transactions(document: Values) -> str:
    found = document["transactions"]
    total, outcomes = found["total"], found["outcomes"]
    if not total["begun"] and not total["refused"]:
        return "<p>0 transactions.</p>"
    others = found["others"]
    rows = [*found["producers"], *([{**others, "transactional_id": _others(others["ids"])}] if others else [])]
    columns = [
        text("transactional id", "transactional_id"),
        *_CLIENT,
        *(count(name.replace("_", " "), name) for name in ("begun", "committed", "aborted", "fenced", "timed_out", "open")),
        count("refused", "refused"),
        time_of("p50", "duration_us", "p50"),
        time_of("p99", "duration_us", "p99"),
        time_of("max", "max_us"),
    ]
    ended = [text("outcome", "outcome"), count("transactions", "transactions")]
    ended += [time_of(name, "duration_us", name) for name in _QUANTILES]
    shares = {each["outcome"]: each["transactions"] for each in outcomes}
    return (
        charts.legend(list(shares))
        + f"<p>{total['begun']:,} transactions, {total['open']:,} of them open at the end: "
        + charts.share_bar(shares, "transactions")
        + "</p>"
        + table("Transactions by transactional id", rows, columns, most=len(rows))
        + table("Durations by outcome", [each for each in outcomes if each["transactions"]], ended)
        + '<p class="soft">Fenced: aborted because a new producer with the transactional id came. Refused: requests of earlier '
        "producers.</p>"
    )


def _others(ids: int) -> str:
    return f"{ids:,} others" if ids else "others"


def _security(document: Values) -> str:
    found = document["security"]
    requests = count("requests", "requests")
    tables = (
        ("Topics that clients were refused", "refused_topics", [*_CLIENT, text("topic", "topic"), text("API", "api"), requests]),
        ("Groups that clients were refused", "refused_groups", [*_CLIENT, text("group", "group_id"), text("API", "api"), requests]),
        ("All refusals of other things than topics", "refused", [*_CLIENT, text("error", "error"), text("API", "api"), requests]),
        (
            "Failed logins by address",
            "failed_logins",
            [
                text("address", "address"),
                text("listener", "listener"),
                text("error", "error"),
                count("attempts", "requests"),
                text("first", "first"),
                text("last", "last"),
            ],
        ),
        (
            "Clients that speak plain text",
            "plain_text",
            [*_CLIENT, text("listener", "listener"), text("protocol", "protocol"), requests],
        ),
    )
    counts = f"<p>{found['total']['refusals']:,} refusals, {found['total']['failed_logins']:,} failed logins.</p>"
    return counts + "".join(table(title, found[name], columns) for title, name, columns in tables if found[name])


def _topics(document: Values) -> str:
    topics = document["topics"]
    columns = [
        text("topic", "topic"),
        count("requests", "requests"),
        bytes_of("produced", "produced_bytes"),
        count("records produced", "produced_records"),
        bytes_of("fetched", "fetched_bytes"),
        bar("relative", "bytes", topics),
    ]
    whole = document["topic_total"].get("topics") or 0
    partitions = [
        text("topic", "topic"),
        count("partition", "partition"),
        count("of partitions", "partitions"),
        count("requests", "requests"),
        bytes_of("produced", "produced_bytes"),
        share("of its topic", "produced_share"),
        bytes_of("fetched", "fetched_bytes"),
    ]
    return table(f"Busiest of {whole:,} topics", topics, columns) + table("Busiest partitions", document["partitions"], partitions)


def _versions(document: Values) -> str:
    counts = Column(
        "version: requests",
        lambda row: ", ".join(f"v{version}: {requests:,}" for version, requests in row["versions"].items()),
        is_text=True,
    )
    software = [text("software", "software"), text("version", "software_version"), *_BUSY]
    return table("API versions in use", document["versions"], [text("API", "api"), counts], most=100) + folded(
        "Client libraries", table("Client libraries", document["software"], software, most=60)
    )


def _comparison(document: Values) -> str:
    found = document.get("before")
    if not found:
        return ""
    when = f"{found['begin']} to {found['end']}".replace("T", " ")
    if found["total"] is None:
        return f'<p class="soft">There are no requests from {escape(when)}.</p>'

    def both(heading: str, name: str, column: Callable[[str, str], Column]) -> list[Column]:
        return [column(heading, name), column("before", f"{name}_before")]

    def told(name: str) -> Column:
        return Column(name, lambda row: str(row[name]))

    now, before = document["total"], found["total"]
    totals = [
        {
            "what": what,
            "now": form(now[name]),
            "before": form(before[name]),
            "change": _change(now[name], before[name]),
        }
        for what, name, form in (
            ("requests", "requests", number),
            ("with an error", "failed", number),
            ("of these, no failures", "expected", number),
            ("throttled", "throttled", number),
            ("time throttled", "throttle_us", TIMES.text),
            ("received", "request_bytes", BYTES.text),
            ("sent", "response_bytes", BYTES.text),
        )
    ]
    requests, failed = both("requests", "requests", count), both("failed", "failed", count)
    change = [Column("change", lambda row: _change(row["requests"], row["requests_before"]))]
    times = [*both("p50 served", "p50_us", time_of), *both("p99 served", "p99_us", time_of)]
    moved = [*both("bytes", "bytes", bytes_of), Column("change", lambda row: _change(row["bytes"], row["bytes_before"]))]
    columns = [text("", "what"), *(told(name) for name in ("now", "before", "change"))]
    return (
        f'<p class="soft">Before: {escape(when)}. A dash: not among the busiest of that period.</p>'
        + table("All requests", totals, columns)
        + table("By API", found["apis"], [text("API", "api"), *requests, *change, *failed, *times])
        + table("By client", found["clients"], [*_CLIENT, *requests, *change, *failed])
        + table("By topic", found["topics"], [text("topic", "topic"), *moved])
    )


def _change(now: float | None, before: float | None) -> str:
    return f"{(now - before) / before:+.0%}" if now is not None and before else "-"


def _errors(document: Values) -> str:
    time = document["time"]
    ticks = [tick.replace("T", " ") for tick in time["ticks"]]
    series, title = time["errors"], "Failed requests by error"
    chart = ""
    if series:
        chart = f"<h3>{title}, {_every(document)}</h3>{charts.legend(list(series))}"
        chart += charts.stacked_steps(ticks, series, title, marks=_marks(document)) + _cut(series, None)
    what = [text("API", "api"), text("error", "error"), count("requests", "requests")]
    found = {}
    for name in ("errors", "client_errors", "topic_errors"):
        found[name] = [row for row in document[name] if not row["is_expected"]]
    expected = [row for row in document["errors"] if row["is_expected"]]
    failed = document["total"]["failed"] - document["total"]["expected"]
    return (
        f"<p>{failed:,} failed requests.</p>"
        + chart
        + table("Failed requests by API", found["errors"], what)
        + table("Failed requests by client", found["client_errors"], [*_CLIENT, *what])
        + table("Failed requests by topic", found["topic_errors"], [text("topic", "topic"), *what])
        + folded("Errors that are no failures", table("They direct clients to the next step, or to try again", expected, what))
    )


def _group_by(document: Values) -> str:
    keys, rows = document["group_by"]["keys"], document["group_by"]["rows"]
    return table(f"Requests by {', '.join(keys)}", rows, [*[text(key, key) for key in keys], *_BUSY], most=200) if keys else ""


def _lines(document: Values) -> str:
    source = document["source"]
    counts = "".join(f"<li>{escape(reason)}: {number(lines)}</li>" for reason, lines in sorted(source["lines"].items()))
    samples = "".join(
        f"<li>{escape(reason)}: <code>{escape(line)}</code></li>"
        for reason, lines in source["samples"].items()
        if reason != "other"
        for line in lines
    )
    repeated = source["repeated_files"]
    notes = f"<p>Skipped, because another file contains the same lines: {escape(', '.join(repeated))}</p>" if repeated else ""
    if source["repeated_lines"]:
        notes += f"<p>{source['repeated_lines']:,} duplicate lines were skipped.</p>"
    return f"<ul>{counts}</ul>{notes}" + (f"<p>Samples of lines without a record:</p><ul>{samples}</ul>" if samples else "")


_MOST_OF_MANY = 30
"""Rows of a table that the JSON has whole."""


def _administration(document: Values) -> str:
    changes = document["administration"]
    if not changes:
        return "<p>0 changes of the cluster.</p>"
    columns = [
        text("at", "at"),
        text("principal", "principal"),
        text("client id", "client_id"),
        text("address", "address"),
        text("API", "api"),
        text("about", "about"),
        text("result", "error", missing="done"),
        count("requests", "requests"),
    ]
    return table("Changes of the cluster", changes, columns, most=300)


def _readers(document: Values) -> str:
    rows = [{**row, "group": ", ".join(row["groups"]) or None} for row in document["lineage"]]
    if not rows:
        return "<p>0 readers and writers of topics.</p>"
    columns = [
        text("topic", "topic"),
        text("does", "does"),
        *_CLIENT,
        text("group", "group"),
        count("requests", "requests"),
        count("failed", "failed"),
        bytes_of("bytes", "bytes"),
        text("first", "first"),
        text("last", "last"),
    ]
    return table(f"Who writes and reads which topic, the first {_MOST_OF_MANY} by bytes", rows, columns, most=_MOST_OF_MANY)


def _groups(document: Values) -> str:
    rows = [{**row, "of": ", ".join(row["topics"][:3]) or None, "who": ", ".join(row["clients"][:3])} for row in document["groups"]]
    if not rows:
        return "<p>0 groups.</p>"
    columns = [
        text("group", "group_id"),
        text("kind", "kind"),
        text("clients", "who"),
        text("topics", "of"),
        *(count(name, name) for name in ("members", "joins", "leaves", "rebalances", "commits", "failed")),
        text("first", "first"),
        text("last", "last"),
    ]
    return table("Groups", rows, columns, most=_MOST_OF_MANY)


def _share_groups(document: Values) -> str:
    shared = document.get("share_groups") or {"topics": [], "members": []}
    if not shared["topics"]:
        return "<p>0 share groups.</p>"
    counts = [
        *(count(name, name) for name in ("acquired", "redelivered")),
        count("highest delivery count", "delivery_count"),
        *(count(heading, name) for heading, name in _ACKNOWLEDGED),
    ]
    group = text("group", "group_id")
    who = [group, text("member", "member_id"), *_CLIENT]
    return table(
        "Records by group and topic", shared["topics"], [group, text("topic", "topic"), *counts], most=_MOST_OF_MANY
    ) + table("Records by member", shared["members"], [*who, *counts], most=_MOST_OF_MANY)


SECTIONS: tuple[tuple[str, str, Callable[[Values], str]], ...] = (
    ("findings", "Findings", _findings),
    ("group-by", "Grouping", _group_by),
    ("traffic", "Traffic", _traffic),
    ("compared", "Compared", _comparison),
    ("errors", "Errors", _errors),
    ("latency", "Latency", _latency),
    ("phases", "Where the time goes", _phases),
    ("clients", "Clients", _clients),
    ("readers", "Readers and writers", _readers),
    ("groups", "Groups", _groups),
    ("share-groups", "Share groups", _share_groups),
    ("administration", "Administration", _administration),
    ("transactions", "Transactions", _transactions),
    ("security", "Security", _security),
    ("topics", "Topics", _topics),
    ("versions", "Versions", _versions),
    ("lines", "Lines read", _lines),
)
"""The sections of the page, from top to bottom; empty sections are omitted."""
