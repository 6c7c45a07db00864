"""The findings of a page as cards: severity, place, person and time, impact, evidence, and the command for a closer look."""

from __future__ import annotations

import shlex
from html import escape
from typing import Any

from twisted_kafka_spark.report.words import number

Values = dict[str, Any]
_CHARTS = {
    "latency": ("slow-disk", "slow-follower", "busy-threads", "busy-network", "slow-readers"),
    "errors": ("error-burst", "failing-client"),
    "security": ("access-denied", "failed-logins"),
    "administration": ("cluster-change", "many-names"),
    "readers": ("unread-topic", "broad-reader", "bulk-read", "bulk-write", "strange-program", "new-topic", "late-reader"),
    "groups": ("rebalance-storm", "repeated-rebalances", "stalled-consumer", "mixed-group"),
    "share-groups": ("records-given-up", "never-acknowledged", "expired-locks"),
    "topics": ("hot-topic", "hot-partition", "unwritten-partition"),
    "clients": (
        *("throttled-client", "changed-client", "leaked-connections", "tiny-batches", "idle-poller", "silent-client"),
        *("changed-load", "weaker-acks", "unlike-itself", "unreached-broker"),
    ),
    "versions": ("old-client",),
    "transactions": ("hanging-transaction", "stuck-transaction", "mostly-aborts"),
    "lines": ("unreadable-lines",),
}
"""The section that shows more about a kind of finding; that of all others is the traffic."""


def card(found: Values, document: Values) -> str:
    """Return a finding as a card."""
    severity, state = found.get("severity", ""), found.get("state", "")
    owner = f'<span class="badge">owner: {escape(found["owner"])}</span>' if found.get("owner") else ""
    badges = f'<span class="badge {escape(severity)}">{escape(severity)}</span><span class="badge">{escape(state)}</span>{owner}'
    impact = f"<p><strong>{escape(found['impact'])}</strong></p>" if found.get("impact") else ""
    title = _without_times(found)
    return (
        f'<article class="finding {escape(severity)}"><p class="badges">{badges}'
        f'<span class="soft">{escape(found["name"])}</span> {when(found)}</p><h3>{escape(title)}</h3>{impact}'
        f"<p>{escape(found['advice'])}</p>{_evidence(found['evidence'])}"
        f'<p><a href="#{section_of(found["name"])}">See {section_of(found["name"])}</a></p>'
        f"{_command(found, document)}</article>"
    )


def section_of(name: str) -> str:
    """Return the section of the page that has more about a kind of finding."""
    return next((section for section, names in _CHARTS.items() if name in names), "traffic")


def _without_times(found: Values) -> str:
    """Return the title without the times at its end, which the card shows apart."""
    title = str(found["title"])
    if found.get("first"):
        title = title.split(f", {found['first']}")[0]
    return title


def when(found: Values) -> str:
    """Return the span of a finding: minutes of one day, or both dates; UTC, unless the reader chooses another zone."""
    first, last = found.get("first"), found.get("last")
    if not first:
        return ""
    same_day = last is not None and last[:10] == first[:10]
    begin = _time(first, first[11:16])
    if last is None or last == first:
        return f'<span class="when">{_date(first)} {begin}</span>'
    end = _time(last, last[11:16] if same_day else f"{last[:10]} {last[11:16]}")
    return f'<span class="when">{_date(first)} {begin}-{end}</span>'


def _date(moment: str) -> str:
    return f'<time datetime="{escape(moment)}" data-form="date">{escape(moment[:10])}</time>'


def _time(moment: str, text: str) -> str:
    return f'<time datetime="{escape(moment)}" data-form="time">{escape(text)}</time>'


def _evidence(evidence: Values) -> str:
    rows = "".join(
        f'<tr><th scope="row" class="text">{escape(name.replace("_", " "))}</th><td class="text">{escape(number(value))}</td></tr>'
        for name, value in evidence.items()
        if value is not None
    )
    return f'<table class="evidence"><tbody>{rows}</tbody></table>' if rows else ""


def _command(found: Values, document: Values) -> str:
    """Return the command that reports on the lines of a finding, if a condition selects them."""
    if not found["where"]:
        return ""
    command = ["twisted-kafka", "report", *str(document["source"]["from"]).split(", "), "--filter", found["where"]]
    command += ["--group-by", "client_id,api,error"]
    return f'<details><summary>A closer look</summary><pre tabindex="0"><code>{escape(shlex.join(command))}</code></pre></details>'
