"""Findings about the broker as a whole: minutes that deviate from the median of the period, and uneven load."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.findings.finding import MINUTE, Finding, Span, equal, quoted, spans, text, unusual
from twisted_kafka_spark.kafka_names import WAITS_BY_DESIGN

if TYPE_CHECKING:
    from twisted_kafka_spark.views import Row, Tables

Minutes = dict[datetime.datetime, float]


class Slow(NamedTuple):
    """The meaning of a slow phase."""

    finding: str
    phase: str
    title: str
    advice: str


SLOW_PHASES: tuple[Slow, ...] = (
    Slow(
        "slow-disk",
        "local_us",
        "Local processing in the broker was slow",
        "Check the disks of log.dirs (iostat: await, util) and what else uses them: local time is spent on appends and reads.",
    ),
    Slow(
        "slow-follower",
        "remote_us",
        "Requests waited for other replicas",
        "Check for a lagging follower (UnderReplicatedPartitions, its network and disk): acks=all waits for the followers.",
    ),
    Slow(
        "busy-threads",
        "request_queue_us",
        "Requests waited for a request handler",
        "Increase num.io.threads if RequestHandlerAvgIdlePercent is low; if local time has also increased, that is the cause.",
    ),
    Slow(
        "busy-network",
        "response_queue_us",
        "Responses waited for a network thread",
        "Increase num.network.threads if NetworkProcessorAvgIdlePercent is low.",
    ),
    Slow(
        "slow-readers",
        "send_us",
        "Sending responses was slow",
        "Check the network, and clients that read slowly: the broker cannot send faster than they read.",
    ),
)


def _by_api(tables: Tables) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in tables["tick"]:
        found[row["api"]].append(row)
    return found


def slow_phases(tables: Tables) -> Iterator[Finding]:
    """Find minutes in which a phase of an API's requests took far longer than usual; only the worst API of a span is reported."""
    for slow in SLOW_PHASES:
        found: list[tuple[float, str, Span, float]] = []
        for api, rows in _by_api(tables).items():
            if slow.phase == "remote_us" and api in WAITS_BY_DESIGN:
                continue
            means = {
                row["at"]: row[slow.phase] / row["requests"] for row in rows if row["requests"] >= limits.SLOW_REQUESTS_A_MINUTE
            }
            limit = max(limits.SLOW_FLOOR_US, unusual(means.values(), limits.MAD_FACTOR))
            slow_minutes = {at: mean for at, mean in means.items() if mean > limit}
            found += [(max(span.values), api, span, limit) for span in spans(slow_minutes, limits.MINUTES_FLOOR)]
        for worst, api, span, limit in _without_overlaps(found):
            yield Finding(
                slow.finding,
                f"{slow.title}, {text(span.first)} to {text(span.last)}",
                {
                    "api": api,
                    "minutes": span.minutes,
                    "worst minute, mean ms": round(worst / 1000, 1),
                    "usual maximum, ms": round(limit / 1000, 1),
                },
                f"{equal(api=api)} AND {slow.phase} > {round(limit)} AND {span.where}",
                slow.advice,
                text(span.first),
                text(span.last),
                worst * span.minutes,
            )


def _without_overlaps(found: list[tuple[float, str, Span, float]]) -> list[tuple[float, str, Span, float]]:
    """Keep only the worst of spans that overlap in time."""
    kept: list[tuple[float, str, Span, float]] = []
    for each in sorted(found, key=lambda each: -each[0]):
        if all(each[2].last < other[2].first or each[2].first > other[2].last for other in kept):
            kept.append(each)
    return kept


def error_bursts(tables: Tables) -> Iterator[Finding]:
    """Find minutes with far more errors of a kind than usual."""
    requests = {(row["at"], row["api"]): row["requests"] for row in tables["tick"]}
    minutes: dict[tuple[str, str], Minutes] = defaultdict(dict)
    for row in tables["error_minute"]:
        minutes[row["api"], row["error"]][row["at"]] = row["requests"]
    length = len({at for at, _ in requests})
    for (api, error), counted in sorted(minutes.items()):
        if error in limits.EXPECTED_ERRORS:
            continue
        usual = unusual([*counted.values(), *[0.0] * (length - len(counted))], limits.MAD_FACTOR)
        limit = max(usual, limits.ERRORS_A_MINUTE_FLOOR)
        excess = {
            at: count
            for at, count in counted.items()
            if count >= limit and count >= limits.ERRORS_SHARE * requests.get((at, api), 0)
        }
        for span in spans(excess, limits.MINUTES_FLOOR):
            yield _error_burst(tables, api, error, span)


def _error_burst(tables: Tables, api: str, error: str, span: Span) -> Finding:
    whose = [row for row in tables["error_client"] if (row["api"], row["error"]) == (api, error)]
    topics = [row["topic"] for row in tables["topic_error"] if (row["api"], row["error"]) == (api, error)]
    return Finding(
        "error-burst",
        f"{api} failed with {error}, {text(span.first)} to {text(span.last)}",
        {
            "errors": round(sum(span.values)),
            "minutes": span.minutes,
            "maximum per minute": round(max(span.values)),
            "top client": whose[0]["client_id"] if whose else None,
            "topic": topics[0] if topics else None,
        },
        f"{equal(api=api, error=error)} AND {span.where}",
        "Check the broker's log for this error, and whether leaders moved, a disk failed or a topic was deleted at that time.",
        text(span.first),
        text(span.last),
        sum(span.values),
        {api},
    )


def unusual_traffic(tables: Tables, known: list[Finding]) -> Iterator[Finding]:
    """Find minutes with far more requests of an API than usual, unless another finding explains them."""
    for api, rows in _by_api(tables).items():
        counts = {row["at"]: float(row["requests"]) for row in rows}
        every = _filled(counts, tables)
        median = sorted(every)[len(every) // 2]
        limit = max(unusual(every, limits.MAD_FACTOR), limits.TRAFFIC_FLOOR_A_MINUTE, limits.TRAFFIC_FACTOR * median)
        for span in spans({at: count for at, count in counts.items() if count > limit}, limits.MINUTES_FLOOR):
            if any(_explains(finding, api, span) for finding in known):
                continue
            yield Finding(
                "traffic-peak",
                f"{api} requests were far more frequent than usual, {text(span.first)} to {text(span.last)}",
                {
                    "api": api,
                    "minutes": span.minutes,
                    "maximum per minute": round(max(span.values)),
                    "median per minute": round(median),
                },
                f"{equal(api=api)} AND {span.where}",
                "Find the client (--filter with this condition, --group-by client_id), and check whether the load was intended.",
                text(span.first),
                text(span.last),
                sum(span.values),
            )


def _filled(counts: Minutes, tables: Tables) -> list[float]:
    minutes = {row["at"] for row in tables["tick"]}
    return [*counts.values(), *[0.0] * (len(minutes) - len(counts))]


def _explains(finding: Finding, api: str, span: Span) -> bool:
    if api not in finding.explains:
        return False
    if finding.first is None or finding.last is None:
        return True
    return finding.first <= text(span.last + MINUTE) and text(span.first - MINUTE) <= finding.last


def skew(tables: Tables) -> Iterator[Finding]:
    """Find a topic with nearly all of the bytes, and a broker with nearly all of the requests."""
    whole = tables["topic_total"][0] if tables["topic_total"] else {}
    produced = whole.get("produced_bytes") or 0
    busiest = max(tables["topic"], key=lambda row: row["produced_bytes"] or 0, default=None)
    if busiest is not None and produced and whole["topics"] >= limits.SKEW_TOPICS_FLOOR:
        share = (busiest["produced_bytes"] or 0) / produced
        if share >= limits.SKEW_SHARE:
            yield Finding(
                "hot-topic",
                f"Topic {busiest['topic']} received {share:.0%} of the bytes produced to {whole['topics']:,} topics",
                {"topic": busiest["topic"], "bytes": busiest["produced_bytes"], "share": round(share, 3)},
                f"api = 'Produce' AND exists(topics, t -> t.topic = {quoted(busiest['topic'])})",
                "Make sure that it has enough partitions on different brokers and disks, and that keys are evenly distributed.",
                weight=share,
            )
    nodes: dict[int, int] = defaultdict(int)
    for row in tables["listener"]:
        if row["node"] is not None:
            nodes[row["node"]] += row["requests"]
    requests = sum(nodes.values())
    if len(nodes) > 1 and requests >= limits.SKEW_REQUESTS_FLOOR:
        node = max(nodes, key=lambda each: nodes[each])
        share = nodes[node] / requests
        if share >= max(limits.SKEW_NODES_SHARE, 1.5 / len(nodes)):
            yield Finding(
                "hot-broker",
                f"Broker {node} handled {share:.0%} of the requests to {len(nodes)} brokers",
                {"node": node, "requests": nodes[node], "share": round(share, 3)},
                f"node = {node}",
                "Move leaders to the other brokers (kafka-leader-election --election-type preferred, or a reassignment).",
                weight=share,
            )


def unreadable_lines(tables: Tables) -> Iterator[Finding]:
    """Report lines that could not be parsed, if there are many."""
    counts: dict[str, int] = defaultdict(int)
    for row in tables["line"]:
        counts[row["error"]] += row["requests"]
    bad, whole = counts["garbled"] + counts["foreign"], sum(counts.values())
    if bad and bad >= limits.UNREADABLE_SHARE * whole:
        yield Finding(
            "unreadable-lines",
            f"{bad:,} of {whole:,} lines could not be parsed",
            {"garbled": counts["garbled"], "foreign": counts["foreign"], "lines": whole},
            "",
            "See the samples at the end of the report; the files may contain another program's output, or the disk was full.",
            weight=bad,
        )
