"""Findings about the broker as a whole: minutes that deviate from the median of the period, and uneven load."""

from __future__ import annotations

import datetime
import statistics
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.findings.finding import MINUTE, Finding, Span, equal, quoted, spans, text, unusual
from twisted_kafka_spark.records.kafka_names import WAITS_BY_DESIGN

if TYPE_CHECKING:
    from twisted_kafka_spark.views import Row, Tables

Minutes = dict[datetime.datetime, float]


class Slow(NamedTuple):
    """The meaning of a slow phase."""

    finding: str
    phase: str
    title: str
    advice: str


ALL = "all"
"""Stands for all APIs together."""

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


class _Series(NamedTuple):
    """The mean of a phase in each minute, for one API or, named ALL, for all APIs; each relative to its API's usual mean."""

    api: str
    means: Minutes
    unknown: set[datetime.datetime]
    """Minutes with too few requests."""
    usual: float


class _Slowness(NamedTuple):
    """Minutes in which a series was slow."""

    worst: float
    limit: float
    series: _Series
    span: Span

    @property
    def weight(self) -> float:
        return self.worst * self.span.minutes


def slow_phases(tables: Tables) -> Iterator[Finding]:
    """Find minutes in which a phase took far longer than usual, for one API or for all; what overlaps in time is one finding."""
    by_api = _by_api(tables)
    for slow in SLOW_PHASES:
        considered = {api: rows for api, rows in by_api.items() if slow.phase != "remote_us" or api not in WAITS_BY_DESIGN}
        each = [_series(api, rows, slow.phase) for api, rows in considered.items()]
        found = [one for series in (*each, _of_all(considered, each, slow.phase)) for one in _slow_minutes(series)]
        for together in _overlapping(found):
            yield _slowness(slow, together)


def _series(api: str, rows: list[Row], phase: str) -> _Series:
    every = {row["at"]: row[phase] / row["requests"] for row in rows}
    means = {row["at"]: every[row["at"]] for row in rows if row["requests"] >= limits.SLOW_REQUESTS_A_MINUTE}
    return _Series(api, means, set(every) - set(means), statistics.median((means or every).values()))


def _of_all(by_api: dict[str, list[Row]], each: list[_Series], phase: str) -> _Series:
    """Return the mean over all APIs as if each minute had the day's mixture of them: one with more of a slow API is not slow."""
    usual = {series.api: series.usual for series in each}
    taken: Minutes = defaultdict(float)
    expected: Minutes = defaultdict(float)
    requests: Minutes = defaultdict(float)
    for api, rows in by_api.items():
        for row in rows:
            taken[row["at"]] += row[phase]
            expected[row["at"]] += usual[api] * row["requests"]
            requests[row["at"]] += row["requests"]
    whole = sum(expected.values()) / max(sum(requests.values()), 1)
    enough = [at for at, count in requests.items() if count >= limits.SLOW_REQUESTS_A_MINUTE and expected[at]]
    means = {at: taken[at] / expected[at] * whole for at in enough}
    return _Series(ALL, means, set(requests) - set(means), whole)


def _slow_minutes(series: _Series) -> Iterator[_Slowness]:
    floor = min(limits.SLOW_FLOOR_US, max(limits.SLOW_RELATIVE_FLOOR_US, limits.SLOW_FACTOR * series.usual))
    limit = max(floor, unusual(series.means.values(), limits.MAD_FACTOR))
    slow_minutes = {at: mean for at, mean in series.means.items() if mean > limit}
    for span in spans(slow_minutes, limits.MINUTES_FLOOR, series.unknown):
        yield _Slowness(max(span.values), limit, series, span)


def _overlapping(found: list[_Slowness]) -> list[list[_Slowness]]:
    """Group what overlaps in time."""
    groups: list[list[_Slowness]] = []
    for one in sorted(found, key=lambda one: one.span.first):
        if groups and one.span.first <= max(other.span.last for other in groups[-1]):
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups


def _slowness(slow: Slow, together: list[_Slowness]) -> Finding:
    """Return the finding about the worst of what overlaps: from the first to the last minute of any of it."""
    named = [one for one in together if one.series.api != ALL] or together
    worst = max(named, key=lambda one: one.weight)
    first, last = min(one.span.first for one in together), max(one.span.last for one in together)
    whole = Span(first, last, worst.span.values)
    others = sorted({one.series.api for one in together} - {worst.series.api, ALL})
    api = worst.series.api
    return Finding(
        slow.finding,
        f"{slow.title}, {text(first)} to {text(last)}",
        {
            "api": api,
            "also": ", ".join(others) or None,
            "minutes": (last - first) // MINUTE + 1,
            "worst minute, mean ms": round(worst.worst / 1000, 1),
            "usual, ms": round(worst.series.usual / 1000, 2),
        },
        ("" if api == ALL else f"{equal(api=api)} AND ") + f"{slow.phase} > {round(worst.limit)} AND {whole.where}",
        slow.advice,
        text(first),
        text(last),
        worst.weight,
    )


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
    """Find a topic with nearly all bytes, partitions with most of their topic's, and a broker with nearly all requests."""
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
    yield from _hot_partitions(tables, produced)
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


def _hot_partitions(tables: Tables, produced: int) -> Iterator[Finding]:
    """Find partitions with most of the bytes of their topics, if those have their part of all bytes."""
    topics = {row["topic"]: row for row in tables.get("produced_topic", ())}
    for row in tables.get("produced_partition", ()):
        topic = topics.get(row["topic"])
        if topic is None or row["requests"] < limits.SKEW_PARTITION_REQUESTS_FLOOR:
            continue
        whole, count = topic["produced_bytes"] or 0, topic["partitions"] or 1
        share = row["bytes"] / max(whole, 1)
        is_hot = share >= max(limits.SKEW_PARTITION_SHARE, limits.SKEW_PARTITION_FACTOR / count)
        if is_hot and whole >= limits.SKEW_PARTITION_OF_ALL * produced:
            yield Finding(
                "hot-partition",
                f"Partition {row['partition']} of topic {row['topic']} received {share:.0%} of the bytes produced to its "
                f"{count:,} partitions",
                {
                    "topic": row["topic"],
                    "partition": row["partition"],
                    "partitions": count,
                    "bytes": row["bytes"],
                    "share": round(share, 3),
                },
                f"api = 'Produce' AND exists(topics, t -> t.topic = {quoted(row['topic'])} "
                f"AND array_contains(t.partition_ids, {row['partition']}))",
                "Distribute its producers' keys: one broker writes a partition, and one member of a group reads it.",
                weight=share,
            )


def unreadable_lines(tables: Tables) -> Iterator[Finding]:
    """Report requests of a Kafka that is too old, and lines that could not be parsed, if there are many."""
    counts: dict[str, int] = defaultdict(int)
    for row in tables["line"]:
        counts[row["error"]] += row["requests"]
    bad, whole = counts["garbled"] + counts["foreign"], sum(counts.values())
    if old := counts["before-2.8"]:
        yield Finding(
            "unreadable-lines",
            f"{old:,} of {whole:,} lines are requests of a Kafka before 2.8 and were not read",
            {"before 2.8": old, "lines": whole},
            "",
            "This report lacks them: only Kafka 2.8 and later logs requests as JSON.",
            weight=old,
        )
    if bad and bad >= limits.UNREADABLE_SHARE * whole:
        yield Finding(
            "unreadable-lines",
            f"{bad:,} of {whole:,} lines could not be parsed",
            {"garbled": counts["garbled"], "foreign": counts["foreign"], "lines": whole},
            "",
            "See the samples at the end of the report; the files may contain another program's output, or the disk was full.",
            weight=bad,
        )
