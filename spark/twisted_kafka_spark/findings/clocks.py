"""Brokers whose clock was wrong: their lines have corrected times."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from twisted_kafka_spark.cells.clocks import SKEWED, Skew
from twisted_kafka_spark.findings.finding import Finding, text

if TYPE_CHECKING:
    from twisted_kafka_spark.views import Tables

_UNITS = ((365 * 86_400, "years"), (86_400, "days"), (3600, "hours"), (60, "minutes"))


def wrong_clocks(tables: Tables) -> Iterator[Finding]:
    """Report each broker with lines whose times were corrected: how many, how far its clock was off, and since when."""
    found: dict[int, list[tuple[int, Skew]]] = defaultdict(list)
    for row in tables["line"]:
        if row["error"] == SKEWED and row["note"] is not None:
            skew = Skew.of_note(row["note"])
            found[skew.node].append((row["requests"], skew))
    for node, skews in found.items():
        lines = sum(count for count, _ in skews)
        _, most = max(skews, key=lambda each: (each[0], abs(each[1].ahead_s)))
        broker = f"broker {node}" if node >= 0 else "a broker"
        off = f"{_amount(abs(most.ahead_s))} {'ahead' if most.ahead_s > 0 else 'behind'}"
        since = min(skew.since_s for _, skew in skews)
        yield Finding(
            "clock-skew",
            f"The clock of {broker} was {off} in {lines:,} of its lines",
            {
                "broker": node if node >= 0 else None,
                "clock": off,
                "lines": lines,
                "since": text(datetime.datetime.fromtimestamp(since, datetime.UTC)),
            },
            "",
            "Set the clock by NTP before the broker starts. These lines count at the times of the lines beside them.",
            weight=lines,
        )


def _amount(seconds: int) -> str:
    length, unit = next((each for each in _UNITS if seconds >= 2 * each[0]), _UNITS[-1])
    return f"{round(seconds / length):,} {unit}"
