"""All findings of a period, the most severe kinds first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from twisted_kafka_spark.findings.anomalies import SLOW_PHASES, error_bursts, skew, slow_phases, unreadable_lines, unusual_traffic
from twisted_kafka_spark.findings.detectors import MINUTE_DETECTORS, PERIOD_DETECTORS
from twisted_kafka_spark.findings.finding import SEVERITIES, Finding, severity
from twisted_kafka_spark.findings.security import SECURITY_DETECTORS
from twisted_kafka_spark.findings.transactions import TRANSACTION_DETECTORS

if TYPE_CHECKING:
    from twisted_kafka_spark.views import Tables

NAMES: tuple[str, ...] = (
    "error-burst",
    *(slow.finding for slow in SLOW_PHASES),
    "hanging-transaction",
    "stuck-transaction",
    "rebalance-storm",
    "throttled-client",
    "metadata-storm",
    "reconnect-storm",
    "fetch-storm",
    "commit-flood",
    "mostly-aborts",
    "failed-logins",
    "old-client",
    "hot-topic",
    "hot-partition",
    "hot-broker",
    "traffic-peak",
    "tiny-batches",
    "idle-poller",
    "unreadable-lines",
)
"""The names of all findings, in the order in which those of one severity are reported; `--fail-on` accepts these."""


MOST_FINDINGS = 500
"""Findings of a report: the most severe ones, if there are more."""


def find(tables: Tables) -> list[Finding]:
    """Return the findings in the order of the report."""
    return in_order([*find_by_minute(tables, over_all := find_over_all(tables)), *over_all])


def find_by_minute(tables: Tables, over_all: Sequence[Finding] = ()) -> list[Finding]:
    """Return the findings about spans of minutes that are unusual compared to the other minutes of the tables.

    Traffic that one of the findings `over_all` explains is left out.
    """
    found = [*error_bursts(tables), *slow_phases(tables)]
    for detector in MINUTE_DETECTORS:
        found += detector(tables)
    return [*found, *unusual_traffic(tables, [*found, *over_all])]


def find_over_all(tables: Tables) -> list[Finding]:
    """Return the findings that do not depend on minutes."""
    found: list[Finding] = []
    for detector in (*PERIOD_DETECTORS, *TRANSACTION_DETECTORS, *SECURITY_DETECTORS):
        found += detector(tables)
    return [*found, *skew(tables), *unreadable_lines(tables)]


def in_order(found: Iterable[Finding]) -> list[Finding]:
    """Return findings as they are reported: by severity, name, weight and title."""

    def place(each: Finding) -> tuple[object, ...]:
        return SEVERITIES.index(severity(each.name)), NAMES.index(each.name), -each.weight, each.first or "", each.title

    return sorted(found, key=place)[:MOST_FINDINGS]
