"""The report as text for the terminal: the findings, and the busiest APIs, clients and topics with bars."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from typing import Any

from twisted_kafka_spark.report.kinds import MOST_SHOWN, by_kind
from twisted_kafka_spark.report.words import duration, evidence, period, phase, size

Values = dict[str, Any]

_ROWS = 8
_BAR_WIDTH = 24
_SPARKS = " .:-=+*#%@"
_UNICODE_SPARKS = " ▁▂▃▄▅▆▇█"


def as_text(document: Values, *, is_unicode: bool = True, width: int | None = None) -> str:
    """Return the summary; without `is_unicode`, it contains ASCII only."""
    columns = width or shutil.get_terminal_size((100, 40)).columns
    return "\n".join(line[:columns] if not line.startswith("  filter:") else line for line in _lines(document, is_unicode)) + "\n"


def _lines(document: Values, is_unicode: bool) -> Iterator[str]:
    total = document["total"]
    begin, end = period(document)
    when = f"{begin} to {end} UTC" if begin else "no requests"
    yield f"{when}: {total['requests']:,} requests, {total['failed'] - total['expected']:,} failed, " + (
        f"{size(total['request_bytes'])} received, {size(total['response_bytes'])} sent"
    )
    counts = list(map(sum, zip(*document["time"]["requests"].values(), strict=True)))
    if counts:
        yield f"requests  {_spark(counts, is_unicode)}"
        failed = [all_ - expected for all_, expected in zip(document["time"]["failed"], document["time"]["expected"], strict=True)]
        yield f"failed    {_spark(failed, is_unicode)}"
    before = (document.get("before") or {}).get("total")
    if before:
        yield f"before    {before['requests']:,} requests, {before['failed'] - before['expected']:,} failed"
    yield ""
    yield from _findings(document["findings"])
    yield from _bars("API", [(row["api"], row["requests"], _times(row)) for row in document["apis"]], is_unicode)
    yield from _bars(
        "client",
        [(row["client_id"] or "-", row["requests"], _of_client(row, document["client_apis"])) for row in document["clients"]],
        is_unicode,
    )
    yield from _bars("topic", [(row["topic"], row["bytes"] or 0, size(row["bytes"])) for row in document["topics"]], is_unicode)
    yield from _transactions(document["transactions"])
    yield from _security(document["security"])
    shares = document["waiting"]["share"]
    yield "where the time goes: " + ", ".join(f"{phase(name)} {share:.0%}" for name, share in shares.items())


def _findings(findings: Sequence[Values]) -> Iterator[str]:
    yield f"{len(findings)} finding{'s' if len(findings) > 1 else ''}" if findings else "no findings"
    for of_kind in by_kind(findings):
        for found in of_kind[:MOST_SHOWN]:
            yield f"* {found['name']}: {found['title']}"
            yield f"  {evidence(found['evidence'])}"
            yield f"  {found['advice']}"
            if found["where"]:
                yield f"  filter: {found['where']}"
        if len(of_kind) > MOST_SHOWN:
            yield f"* {of_kind[0]['name']}: {len(of_kind) - MOST_SHOWN} more"
    yield ""


def _transactions(found: Values) -> Iterator[str]:
    total = found["total"]
    if total["begun"]:
        ends = ", ".join(f"{each['transactions']:,} {each['outcome']}" for each in found["outcomes"])
        yield f"transactions: {total['begun']:,}, {ends}, {total['open']:,} open; p99 {duration(total['duration_us']['p99'])}"
        yield ""


def _security(found: Values) -> Iterator[str]:
    refusals, logins, addresses = (found["total"][name] for name in ("refusals", "failed_logins", "addresses"))
    if logins or refusals:
        yield f"security: {refusals:,} refusals, {logins:,} failed logins from {addresses:,} addresses"
        yield ""


def _of_client(row: Values, apis: Sequence[Values]) -> str:
    """Return a client's errors, and how long the requests of its most frequent API were served."""
    mine = [each for each in apis if (each["client_id"], each["principal"]) == (row["client_id"], row["principal"])]
    times = f", {mine[0]['api']} p99 {duration(mine[0]['served_us']['p99'])}" if mine else ""
    return f"{row['failed'] - row['expected']:,} failed{times}"


def _times(row: Values) -> str:
    return f"served p50 {duration(row['served_us']['p50'])}, p99 {duration(row['served_us']['p99'])}"


def _bars(title: str, rows: Sequence[tuple[str, float, str]], is_unicode: bool) -> Iterator[str]:
    shown = list(rows)[:_ROWS]
    most = max((value for _, value, _ in shown), default=0) or 1
    for name, value, details in shown:
        bar = ("█" if is_unicode else "#") * max(1, round(value / most * _BAR_WIDTH))
        yield f"{title:7}{name[:28]:29}{value:>14,} {bar:{_BAR_WIDTH}} {details}"
    if shown:
        yield ""


def _spark(values: Sequence[float], is_unicode: bool) -> str:
    marks = _UNICODE_SPARKS if is_unicode else _SPARKS
    most = max(values) or 1
    return "".join(marks[0 if not value else 1 + int(value / most * (len(marks) - 2))] for value in values)
