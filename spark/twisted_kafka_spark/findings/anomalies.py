"""Findings about the broker as a whole: minutes that stand out from the period's own median, and what is spread unevenly."""

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
    """What it means when a phase of these APIs is slow."""

    finding: str
    phase: str
    title: str
    advice: str


SLOW_PHASES: tuple[Slow, ...] = (
    Slow(
        "slow-disk",
        "local_us",
        "The broker's own work took long",
        "Look at the disks of log.dirs (iostat: await, util) and at what else writes there: local time is appending and reading.",
    ),
    Slow(
        "slow-follower",
        "remote_us",
        "Requests waited for other replicas",
        "Look for a follower that lags (UnderReplicatedPartitions, its network and disk): remote time of acks=all is its fetching.",
    ),
    Slow(
        "busy-threads",
        "request_queue_us",
        "Requests waited for a request handler",
        "Raise num.io.threads when RequestHandlerAvgIdlePercent is low; when local time grew as well, that is the cause.",
    ),
    Slow(
        "busy-network",
        "response_queue_us",
        "Responses waited for a network thread",
        "Raise num.network.threads when NetworkProcessorAvgIdlePercent is low.",
    ),
    Slow(
        "slow-readers",
        "send_us",
        "Responses were slow to leave",
        "Look at the network and at clients that read slowly; a network thread sends no faster than they take.",
    ),
)


def _by_api(tables: Tables) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in tables["tick"]:
        found[row["api"]].append(row)
    return found


def slow_phases(tables: Tables) -> Iterator[Finding]:
    """Minutes in which a phase of an API's requests took far longer than usual; the worst API tells for all of a span."""
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
        for worst, api, span, limit in _apart(found):
            yield Finding(
                slow.finding,
                f"{slow.title}, {text(span.first)} to {text(span.last)}",
                {
                    "api": api,
                    "minutes": span.minutes,
                    "worst minute, mean ms": round(worst / 1000, 1),
                    "usual at most, ms": round(limit / 1000, 1),
                },
                f"{equal(api=api)} AND {slow.phase} > {round(limit)} AND {span.where}",
                slow.advice,
                text(span.first),
                text(span.last),
                worst * span.minutes,
            )


def _apart(found: list[tuple[float, str, Span, float]]) -> list[tuple[float, str, Span, float]]:
    """Keep the worst of those that overlap in time."""
    kept: list[tuple[float, str, Span, float]] = []
    for each in sorted(found, key=lambda each: -each[0]):
        if all(each[2].last < other[2].first or each[2].first > other[2].last for other in kept):
            kept.append(each)
    return kept


def error_bursts(tables: Tables) -> Iterator[Finding]:
    """Minutes with far more errors of a kind than usual, and enough of them."""
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
        much = {
            at: count
            for at, count in counted.items()
            if count >= limit and count >= limits.ERRORS_SHARE * requests.get((at, api), 0)
        }
        for span in spans(much, limits.MINUTES_FLOOR):
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
            "most a minute": round(max(span.values)),
            "most from": whose[0]["client_id"] if whose else None,
            "topic": topics[0] if topics else None,
        },
        f"{equal(api=api, error=error)} AND {span.where}",
        "See the broker's log of these minutes for this error, and whether leaders moved, a disk failed or a topic was deleted.",
        text(span.first),
        text(span.last),
        sum(span.values),
        {api},
    )


def unusual_traffic(tables: Tables, known: list[Finding]) -> Iterator[Finding]:
    """Minutes with far more requests of an API than usual, unless another finding says why already."""
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
                f"{api} came far more often than usual, {text(span.first)} to {text(span.last)}",
                {"api": api, "minutes": span.minutes, "most a minute": round(max(span.values)), "median a minute": round(median)},
                f"{equal(api=api)} AND {span.where}",
                "See which client it was (--filter with this condition, --group-by client_id) and whether that load was meant.",
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
    """One topic with nearly all of the bytes, or one broker with nearly all of the requests."""
    whole = tables["topic_total"][0] if tables["topic_total"] else {}
    produced = whole.get("produced_bytes") or 0
    busiest = max(tables["topic"], key=lambda row: row["produced_bytes"] or 0, default=None)
    if busiest is not None and produced and whole["topics"] >= limits.SKEW_TOPICS_FLOOR:
        share = (busiest["produced_bytes"] or 0) / produced
        if share >= limits.SKEW_SHARE:
            yield Finding(
                "hot-topic",
                f"{share:.0%} of all produced bytes go to topic {busiest['topic']}, of {whole['topics']:,} topics",
                {"topic": busiest["topic"], "bytes": busiest["produced_bytes"], "share": round(share, 3)},
                f"api = 'Produce' AND exists(topics, t -> t.topic = {quoted(busiest['topic'])})",
                "See that it has enough partitions, on different brokers and disks, and that its keys spread over them.",
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
                f"Broker {node} answers {share:.0%} of the requests of {len(nodes)} brokers",
                {"node": node, "requests": nodes[node], "share": round(share, 3)},
                f"node = {node}",
                "Move leaders (kafka-leader-election --election-type preferred, or a reassignment) to the other brokers.",
                weight=share,
            )


def unreadable_lines(tables: Tables) -> Iterator[Finding]:
    """Lines that gave no record, when they are many."""
    counts: dict[str, int] = defaultdict(int)
    for row in tables["line"]:
        counts[row["error"]] += row["requests"]
    bad, whole = counts["garbled"] + counts["foreign"], sum(counts.values())
    if bad and bad >= limits.UNREADABLE_SHARE * whole:
        yield Finding(
            "unreadable-lines",
            f"{bad:,} of {whole:,} lines could not be read",
            {"garbled": counts["garbled"], "foreign": counts["foreign"], "lines": whole},
            "",
            "See the samples at the end of the report: is another program's output among the files, or was a disk full?",
            weight=bad,
        )
