"""All findings of a period, the most severe kinds first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted_kafka_spark.findings.anomalies import SLOW_PHASES, error_bursts, skew, slow_phases, unreadable_lines, unusual_traffic
from twisted_kafka_spark.findings.detectors import CLIENT_DETECTORS, idle_pollers, old_clients, throttled_clients, tiny_batches
from twisted_kafka_spark.findings.finding import Finding
from twisted_kafka_spark.findings.security import SECURITY_DETECTORS
from twisted_kafka_spark.findings.transactions import TRANSACTION_DETECTORS

if TYPE_CHECKING:
    from twisted_kafka_spark.views import Tables

NAMES: tuple[str, ...] = (
    "error-burst",
    *(slow.finding for slow in SLOW_PHASES),
    "hanging-transaction",
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
    "hot-broker",
    "traffic-peak",
    "tiny-batches",
    "idle-poller",
    "unreadable-lines",
)
"""The names of all findings, the most severe first; `--fail-on` accepts these."""


def find(tables: Tables) -> list[Finding]:
    """Return the findings in the order of NAMES, and within a name by descending weight."""
    found = [*error_bursts(tables), *slow_phases(tables)]
    for detector in (*CLIENT_DETECTORS, *TRANSACTION_DETECTORS, *SECURITY_DETECTORS):
        found += detector(tables)
    found += [*skew(tables), *unreadable_lines(tables)]
    found += unusual_traffic(tables, found)
    return sorted(found, key=lambda each: (NAMES.index(each.name), -each.weight))


def find_over_all(tables: Tables) -> list[Finding]:
    """Return the findings that do not depend on minutes, for a rollup whose minutes were merged into hours or days."""
    found: list[Finding] = []
    for detector in (throttled_clients, old_clients, tiny_batches, idle_pollers, *TRANSACTION_DETECTORS, *SECURITY_DETECTORS):
        found += detector(tables)
    found += [*skew(tables), *unreadable_lines(tables)]
    return sorted(found, key=lambda each: (NAMES.index(each.name), -each.weight))
