"""All findings of a period, the most severe kinds first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from twisted_kafka_spark.findings.against import against_earlier
from twisted_kafka_spark.findings.changes import broad_readers, changed_clients, changed_groups, cluster_changes
from twisted_kafka_spark.findings.clients.acks import weaker_acks
from twisted_kafka_spark.findings.clients.detectors import MINUTE_DETECTORS, PERIOD_DETECTORS
from twisted_kafka_spark.findings.clients.newcomers import new_writers
from twisted_kafka_spark.findings.clients.persons import (
    bulk,
    busier_clients,
    one_for_each_service,
    smaller_batches,
    unusual_traffic,
)
from twisted_kafka_spark.findings.clients.steady import leaked_connections, repeated_rebalances
from twisted_kafka_spark.findings.clients.steps import lasting_steps, without_parts
from twisted_kafka_spark.findings.clients.strangers import (
    copied_clients,
    many_names,
    mixed_groups,
    new_topics,
    offsets_set,
    strange_addresses,
    strange_programs,
)
from twisted_kafka_spark.findings.clocks import wrong_clocks
from twisted_kafka_spark.findings.failures import failing_requests
from twisted_kafka_spark.findings.finding import SEVERITIES, Finding, severity
from twisted_kafka_spark.findings.general.control import restless_clusters
from twisted_kafka_spark.findings.general.links import new_links
from twisted_kafka_spark.findings.general.rhythm import lost_rhythms
from twisted_kafka_spark.findings.general.unlike import costly, unlike_themselves
from twisted_kafka_spark.findings.logins import failed_logins
from twisted_kafka_spark.findings.partial.absent import absent_brokers, silent_clients, unread_topics
from twisted_kafka_spark.findings.partial.late import late_readers
from twisted_kafka_spark.findings.partial.partitions import unwritten_partitions
from twisted_kafka_spark.findings.partial.routes import unreached_brokers
from twisted_kafka_spark.findings.partial.together import silent_together
from twisted_kafka_spark.findings.shares import share_groups
from twisted_kafka_spark.findings.slow.find import slow_phases
from twisted_kafka_spark.findings.slow.phases import SLOW_PHASES
from twisted_kafka_spark.findings.transactions import TRANSACTION_DETECTORS
from twisted_kafka_spark.findings.uneven import skew, unreadable_lines

if TYPE_CHECKING:
    from twisted_kafka_spark.views import Tables

NAMES: tuple[str, ...] = (
    "error-burst",
    "absent-broker",
    "fewer-leaders",
    "restless-cluster",
    *(slow.finding for slow in SLOW_PHASES),
    "hanging-transaction",
    "stuck-transaction",
    "rebalance-storm",
    "silent-client",
    "unreached-broker",
    "unwritten-partition",
    "stalled-consumer",
    "failing-client",
    "access-denied",
    "repeated-rebalances",
    "leaked-connections",
    "broad-reader",
    "strange-program",
    "new-writer",
    "mixed-group",
    "weaker-acks",
    "records-given-up",
    "never-acknowledged",
    "expired-locks",
    "cluster-change",
    "changed-client",
    "unread-topic",
    "late-reader",
    "unusual-hours",
    "new-principal",
    "new-reader",
    "bulk-read",
    "bulk-write",
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
    "changed-load",
    "many-names",
    "new-topic",
    "unlike-itself",
    "tiny-batches",
    "idle-poller",
    "clock-skew",
    "unreadable-lines",
)
"""The names of all findings, in the order in which those of one severity are reported; `--fail-on` accepts these."""


MOST_FINDINGS = 500
"""Findings of a report: the most severe ones, if there are more."""


CHANGES = (
    changed_clients,
    changed_groups,
    broad_readers,
    strange_programs,
    strange_addresses,
    copied_clients,
    new_writers,
    mixed_groups,
    offsets_set,
    many_names,
    new_topics,
    share_groups,
)


def find(tables: Tables) -> list[Finding]:
    """Return the findings in the order of the report."""
    found = [*find_by_minute(tables, over_all := find_over_all(tables)), *over_all]
    return in_order(found + compared(tables, found))


def compared(tables: Tables, known: Sequence[Finding]) -> list[Finding]:
    """Return the findings against earlier days, if there is a history."""
    return [] if tables.history is None else list(against_earlier(tables, tables.history, known))


def find_by_minute(tables: Tables, over_all: Sequence[Finding] = ()) -> list[Finding]:
    """Return the findings about spans of minutes that are unusual compared to the other minutes of the tables.

    Traffic that one of the findings `over_all` explains is left out.
    """
    found = [*failing_requests(tables), *slow_phases(tables), *absent_brokers(tables), *restless_clusters(tables)]
    found += silent_clients(tables, [*found, *over_all])
    for detector in MINUTE_DETECTORS:
        found += detector(tables)
    found += [*leaked_connections(tables, found), *repeated_rebalances(tables, found), *bulk(tables, [*found, *over_all])]
    found += smaller_batches(tables, over_all)
    found += unusual_traffic(tables, [*found, *over_all])
    found += unreached_brokers(tables, [*found, *over_all])
    found += [*silent_together(tables, found), *late_readers(tables, found)]
    found += [*busier_clients(tables, [*found, *over_all]), *unread_topics(tables, found), *weaker_acks(tables)]
    steps = list(lasting_steps(tables, [*found, *over_all]))
    found = [*without_parts(found, steps), *steps]
    found += lost_rhythms(tables, [*found, *over_all])
    found = one_for_each_service(found)
    others = [*unlike_themselves(tables, [*found, *over_all]), *costly(tables, [*found, *over_all])]
    others += new_links(tables, [*found, *over_all, *others])
    return [*without_explained([*found, *others]), *others]


def without_explained(found: Sequence[Finding]) -> list[Finding]:
    """Return the findings by name without peaks of an API, of nobody in particular, that another finding explains."""
    rest = [each for each in found if each.name != "unlike-itself"]
    return [each for each in rest if not _is_anybodys(each) or not any(_is_inside(each, other) for other in found)]


def _is_anybodys(finding: Finding) -> bool:
    return (
        finding.name == "traffic-peak" and finding.evidence.get("client_id") is None and finding.evidence.get("principal") is None
    )


def _is_inside(peak: Finding, other: Finding) -> bool:
    is_other = other.name != "traffic-peak" and bool(peak.explains & other.explains)
    return is_other and (other.first or "~") <= (peak.last or "") and (peak.first or "~") <= (other.last or "")


def find_over_all(tables: Tables) -> list[Finding]:
    """Return the findings that do not depend on minutes."""
    found: list[Finding] = []
    for detector in (*PERIOD_DETECTORS, *TRANSACTION_DETECTORS, failed_logins, cluster_changes, *CHANGES):
        found += detector(tables)
    return [*found, *skew(tables), *unwritten_partitions(tables), *wrong_clocks(tables), *unreadable_lines(tables)]


def in_order(found: Iterable[Finding]) -> list[Finding]:
    """Return findings as they are reported: by severity, name, weight and title."""

    def place(each: Finding) -> tuple[object, ...]:
        return SEVERITIES.index(severity(each.name)), NAMES.index(each.name), -each.weight, each.first or "", each.title

    return sorted(found, key=place)[:MOST_FINDINGS]
