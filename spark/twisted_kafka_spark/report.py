"""The report: one self-contained HTML page, and the same figures as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from twisted_kafka_spark.charts import legend, share_bar, stacked_columns
from twisted_kafka_spark.rollup import PERCENTILES, Rollup, Values
from twisted_kafka_spark.schema import PHASES

TICKS_IN_CHART = 240
"""A longer run is drawn with several minutes to a column."""

_STYLE = """
:root{color-scheme:light dark}body{font:15px/1.45 system-ui,sans-serif;max-width:1080px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2.2rem}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .6rem;text-align:right;border-bottom:1px solid #8884}
th:first-child,td:first-child,.text{text-align:left}
td{white-space:nowrap}td.text{white-space:normal;overflow-wrap:anywhere;min-width:9em}svg{width:100%;height:auto}
svg text{font-size:11px;fill:currentColor}
.grid{stroke:#8886}.share{width:300px;height:12px}
.legend span{margin-right:1rem;white-space:nowrap}.legend i{display:inline-block;width:.8em;height:.8em;margin-right:.35em}
.facts{display:flex;flex-wrap:wrap;gap:1.5rem}.facts b{display:block;font-size:1.3rem}.scroll{overflow-x:auto}
"""


def as_document(rollup: Rollup, source: str) -> Values:
    """Return the report's figures as plain data; percentiles become objects such as ``{"p50": 210}``."""
    named = [f"p{share * 100:g}" for share in PERCENTILES]

    def plain(values: Values) -> Values:
        return {
            name: dict(zip(named, value, strict=True))
            if isinstance(value, list)
            else round(value, 1)
            if isinstance(value, float)
            else value
            for name, value in values.items()
        }

    return {
        "report": 1,
        "source": source,
        "unreadable_lines": rollup.unreadable_lines,
        "total": plain(rollup.total),
        **{kind: [plain(row) for row in rows] for kind, rows in rollup.rows.items()},
    }


def as_json(rollup: Rollup, source: str) -> str:
    """Return the report as indented JSON."""
    return json.dumps(as_document(rollup, source), indent=1) + "\n"


def as_html(rollup: Rollup, source: str) -> str:
    """Return the report as one page that needs nothing else."""
    document = as_document(rollup, source)
    sections = (_facts, _over_time, _latency, _phases, _versions, _clients, _topics, _errors)
    body = "".join(section(document) for section in sections)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Kafka access log</title><style>{_STYLE}</style></head><body><h1>Kafka access log</h1>{body}</body></html>\n"
    )


Column = tuple[str, Callable[[Values], Any]]


class _Figure(str):
    """A number in words, such as a size with its unit: it is set to the right as numbers are."""

    __slots__ = ()


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and not isinstance(value, _Figure)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool | str):
        return escape(str(value))
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"


def _table(rows: Sequence[Values], columns: Sequence[Column], raw: frozenset[str] = frozenset()) -> str:
    """Return a table; the columns named in ``raw`` are markup already."""
    if not rows:
        return "<p>None.</p>"
    kinds = {title: ' class="text"' if any(_is_text(value(row)) for row in rows) else "" for title, value in columns}
    head = "".join(f"<th{kinds[title]}>{escape(title)}</th>" for title, _ in columns)
    lines = []
    for row in rows:
        cells = []
        for title, value in columns:
            told = value(row)
            cells.append(f"<td{kinds[title]}>{told if title in raw else _cell(told)}</td>")
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


def _size(count: int | None) -> _Figure:
    size = float(count or 0)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return _Figure(f"{size:.3g} {unit}")
        size /= 1000
    return _Figure(f"{size:.3g} TB")


def _software(row: Values) -> str:
    names = [name for name in (row["software"], row["software_version"]) if name and name != "unknown"]
    return " ".join(names) or "unknown"


def _facts(document: Values) -> str:
    total = document["total"]
    facts = {
        "requests": f"{total['requests']:,}",
        "with an error": f"{total['failed']:,}",
        "received": _size(total["request_bytes"]),
        "sent": _size(total["response_bytes"]),
        "first": total["first_minute"] or "-",
        "last": total["last_minute"] or "-",
        "unreadable lines": f"{document['unreadable_lines']:,}",
    }
    told = "".join(f"<div><b>{escape(value)}</b>{escape(name)}</div>" for name, value in facts.items())
    return f'<p>From {escape(document["source"])}</p><div class="facts">{told}</div>'


def _over_time(document: Values) -> str:
    minutes = sorted({row["minute"] for row in document["minute"] if row["minute"]})
    width = -(-len(minutes) // TICKS_IN_CHART) or 1
    ticks = minutes[::width]
    column = {minute: at // width for at, minute in enumerate(minutes)}
    series: dict[str, list[float]] = {row["api"]: [0.0] * len(ticks) for row in document["api"]}
    for row in document["minute"]:
        if row["minute"]:
            series[row["api"]][column[row["minute"]]] += row["requests"]
    per = "minute" if width == 1 else f"{width} minutes"
    return f"<h2>Requests per {per}</h2>{stacked_columns(ticks, series)}{legend(list(series))}"


def _latency(document: Values) -> str:
    columns: list[Column] = [
        ("API", lambda row: row["api"]),
        ("requests", lambda row: row["requests"]),
        ("with an error", lambda row: row["failed"]),
        *[(f"p{share * 100:g}", lambda row, key=f"p{share * 100:g}": (row["total_us"] or {}).get(key)) for share in PERCENTILES],
        ("max", lambda row: row["max_us"]),
        ("received", lambda row: _size(row["request_bytes"])),
        ("sent", lambda row: _size(row["response_bytes"])),
    ]
    return f"<h2>Latency by API, microseconds</h2>{_table(document['api'], columns)}"


def _phases(document: Values) -> str:
    def bar(row: Values) -> str:
        return share_bar({phase: row[f"mean_{phase}"] or 0 for phase in PHASES})

    columns: list[Column] = [
        ("API", lambda row: row["api"]),
        *[(phase.removesuffix("_us").replace("_", " "), lambda row, key=f"mean_{phase}": row[key]) for phase in PHASES],
        ("shares", bar),
    ]
    keys = legend([phase.removesuffix("_us").replace("_", " ") for phase in PHASES])
    return (
        f"<h2>Where the time goes: mean microseconds by phase</h2>{keys}{_table(document['api'], columns, frozenset({'shares'}))}"
    )


def _versions(document: Values) -> str:
    used: dict[str, list[Values]] = {}
    for row in document["version"]:
        used.setdefault(row["api"], []).append(row)
    rows: list[Values] = [{"api": api, "used": sorted(versions, key=lambda row: row["version"])} for api, versions in used.items()]
    columns: list[Column] = [
        ("API", lambda row: row["api"]),
        ("version: requests", lambda row: ", ".join(f"v{each['version']}: {each['requests']:,}" for each in row["used"])),
    ]
    return f"<h2>API versions in use</h2>{_table(rows, columns)}"


def _clients(document: Values) -> str:
    columns: list[Column] = [
        ("client id", lambda row: row["client_id"] or "-"),
        ("software", _software),
        ("principal", lambda row: row["principal"] or "-"),
        ("requests", lambda row: row["requests"]),
        ("received", lambda row: _size(row["request_bytes"])),
        ("sent", lambda row: _size(row["response_bytes"])),
        ("with an error", lambda row: row["failed"]),
    ]
    return f"<h2>Busiest clients</h2>{_table(document['client'], columns)}"


def _topics(document: Values) -> str:
    columns: list[Column] = [
        ("topic", lambda row: row["topic"]),
        ("requests", lambda row: row["topic_requests"]),
        ("records produced", lambda row: row["topic_records"]),
        ("bytes in and out", lambda row: _size(row["topic_bytes"])),
    ]
    return f"<h2>Busiest topics</h2>{_table(document['topic'], columns)}"


def _errors(document: Values) -> str:
    by_api: list[Column] = [
        ("API", lambda row: row["api"]),
        ("error", lambda row: row["error"]),
        ("requests", lambda row: row["requests"]),
    ]
    by_topic: list[Column] = [
        ("topic", lambda row: row["topic"]),
        ("error", lambda row: row["topic_error"]),
        ("requests", lambda row: row["topic_requests"]),
    ]
    return f"<h2>Errors</h2>{_table(document['error'], by_api)}<h2>Errors by topic</h2>{_table(document['topic_error'], by_topic)}"
