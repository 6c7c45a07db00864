"""Brokers whose clock was wrong: lines with times that cannot be, which count in the hours of their files."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from twisted_kafka_spark.findings.finding import Finding, from_us, text

if TYPE_CHECKING:
    from twisted_kafka_spark.views import Row, Tables

_UNITS_S = ((365 * 86_400, "years"), (2 * 86_400, "days"), (2 * 3600, "hours"), (60, "minutes"))
_MICROSECOND = 1_000_000
_LAST_MINUTE = datetime.datetime(9999, 12, 31, 23, 59, tzinfo=datetime.UTC)


def wrong_clocks(tables: Tables) -> Iterator[Finding]:
    """Report each broker with lines of a wrong time: how many, how far its clock was off, and since when."""
    found: dict[tuple[int | None, str], list[Row]] = defaultdict(list)
    for row in tables["clock"]:
        found[row["node"], row["note"]].append(row)
    for (node, which), rows in found.items():
        lines = sum(row["requests"] for row in rows)
        off = f"{_amount(max(row['max_us'] for row in rows) // _MICROSECOND)} {which}"
        broker = "a broker" if node is None else f"broker {node}"
        since: datetime.datetime = min(row["at"] for row in rows)
        yield Finding(
            "clock-skew",
            f"The clock of {broker} was {off} in {lines:,} of its lines",
            {
                "broker": "unknown" if node is None else node,
                "clock": off,
                "lines": lines,
                "since": text(since.replace(minute=0)),
                "first time": from_us(min(row["first_us"] for row in rows)),
                "last time": from_us(max(row["last_us"] for row in rows)),
            },
            _where(node, rows),
            "Set the clock by NTP before the broker starts. These lines count in the hours of their files.",
            weight=lines,
        )


def _where(node: int | None, rows: list[Row]) -> str:
    first, last = (datetime.datetime.fromtimestamp(end // _MICROSECOND, datetime.UTC) for end in _ends(rows))
    period = f"time >= '{first:%Y-%m-%dT%H:%M}'"
    if last < _LAST_MINUTE:  # no time is later than that
        period += f" AND time < '{last + datetime.timedelta(minutes=1):%Y-%m-%dT%H:%M}'"
    return period if node is None else f"node = {node} AND {period}"


def _ends(rows: list[Row]) -> tuple[int, int]:
    return min(row["first_us"] for row in rows), max(row["last_us"] for row in rows)


def _amount(seconds: int) -> str:
    length, unit = next((each for each in _UNITS_S if seconds >= each[0]), _UNITS_S[-1])
    one = {"days": 86_400, "hours": 3600}.get(unit, length)
    return f"{round(seconds / one):,} {unit}"
