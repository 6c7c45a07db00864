"""Findings in lines, and lines that a client sends in each minute."""

from collections.abc import Iterable
from typing import Any

from tests.spark.access_lines import line, topic
from tests.spark.folded import cells
from tests.spark.moments import at
from twisted_kafka_spark import views
from twisted_kafka_spark.cells.kinds import MINUTE_S
from twisted_kafka_spark.findings.find import find, in_order
from twisted_kafka_spark.findings.finding import Finding

HOURS = 6
_TIME = "the time"


def findings(lines: list[str]) -> list[Finding]:
    return in_order(find(views.compute(cells(lines), MINUTE_S)))


def named(lines: list[str], name: str) -> Finding:
    (found,) = [each for each in findings(lines) if each.name == name]
    return found


def steady(minutes: Iterable[int], api: str = "Produce", each: int = 2, **changes: Any) -> list[str]:
    """Return so many requests in each minute, with a topic."""
    fields = {"topics": [topic("orders", 10)]} | changes
    text = line(api, 0, time=_TIME, **fields)  # encoded once: a test has thousands that differ in their times
    return [text.replace(_TIME, at(minute, 5 + 40 * n // each)) for minute in minutes for n in range(each)]
