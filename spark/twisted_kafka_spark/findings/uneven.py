"""Findings about uneven load, and lines that could not be read."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.findings.finding import MINUTE, Finding, Span, quoted, text

if TYPE_CHECKING:
    from twisted_kafka_spark.views import Row, Tables

_HOUR, _MICROSECOND = datetime.timedelta(hours=1), datetime.timedelta(microseconds=1)
_LONG = 2 / 3
"""The share of a topic's hours from which a skew is one of the whole period."""


def skew(tables: Tables) -> Iterator[Finding]:
    """Find a topic with nearly all bytes, partitions with most of their topic's, and a broker with nearly all requests."""
    whole = tables["topic_total"][0] if tables["topic_total"] else {}
    produced = whole.get("produced_bytes") or 0
    busiest = max(tables["topic"], key=lambda row: row["produced_bytes"] or 0, default=None)
    if busiest is not None and produced and whole["topics"] - _short_lived(tables) >= limits.SKEW_TOPICS_FLOOR:
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
    nodes: dict[int, int] = {row["node"]: row["requests"] for row in tables["node"] if row["node"] is not None}
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


def _short_lived(tables: Tables) -> int:
    """Return how many topics are written for less than an hour of several, as those of tests are."""
    ends: dict[str, list[int]] = defaultdict(list)
    for row in tables["lineage"]:
        if row["api"] == "Produce" and row["topic"] is not None and row["first_us"]:
            ends[row["topic"]] += [row["first_us"], row["last_us"]]
    every, hour_us = [at for each in ends.values() for at in each], _HOUR / _MICROSECOND
    if not every or max(every) - min(every) < 2 * hour_us:
        return 0
    return sum(max(each) - min(each) < hour_us for each in ends.values())


def _hot_partitions(tables: Tables, produced: int) -> Iterator[Finding]:
    """Find partitions with most of the bytes of their topics, if those have their part of all bytes."""
    counts = {row["topic"]: row["partitions"] or 1 for row in tables["topic"]}
    in_hours = set()
    for found in _hot_since(tables, produced, counts):
        in_hours.add((found.evidence["topic"], found.evidence["partition"]))
        yield found
    topics = {row["topic"]: row for row in tables.get("produced_topic", ())}
    for row in tables.get("produced_partition", ()):
        topic = topics.get(row["topic"])
        if topic is None or row["requests"] < limits.SKEW_PARTITION_REQUESTS_FLOOR or (row["topic"], row["partition"]) in in_hours:
            continue
        whole, count = topic["produced_bytes"] or 0, topic["partitions"] or 1
        if _is_hot(row["bytes"], whole, count) and whole >= limits.SKEW_PARTITION_OF_ALL * produced:
            yield _hot_partition(tables, row, whole, count, None)


def _is_hot(part: int, whole: int, count: int) -> bool:
    return part >= max(limits.SKEW_PARTITION_SHARE, limits.SKEW_PARTITION_FACTOR / count) * max(whole, 1)


def _hot_since(tables: Tables, produced: int, counts: dict[str, int]) -> Iterator[Finding]:
    """Find partitions that have most of the bytes of their topic in some hours, and did not in the others."""
    hours: dict[str, dict[datetime.datetime, dict[int, Row]]] = defaultdict(lambda: defaultdict(dict))
    for row in tables.get("produced_hour", ()):
        hours[row["topic"]][row["at"]][row["partition"]] = row
    for topic, by_hour in sorted(hours.items(), key=str):
        wholes = {at: sum(row["bytes"] for row in parts.values()) for at, parts in by_hour.items()}
        if sum(wholes.values()) < limits.SKEW_PARTITION_OF_ALL * produced or len(by_hour) < limits.SKEW_HOURS:
            continue
        count = max(counts.get(topic, 1), max(max(parts) for parts in by_hour.values()) + 1)
        busiest = {at: max(parts.values(), key=lambda row: row["bytes"]) for at, parts in sorted(by_hour.items())}
        for partition in sorted({row["partition"] for row in busiest.values()}):
            at_hours = [
                at for at, row in busiest.items() if row["partition"] == partition and _is_hot(row["bytes"], wholes[at], count)
            ]
            rows = [busiest[at] for at in at_hours]
            requests = sum(row["requests"] for row in rows)
            if requests < limits.SKEW_HOURS_REQUESTS or len(at_hours) >= _LONG * len(by_hour):
                continue
            if at_hours[-1] - at_hours[0] >= len(at_hours) * _HOUR:
                continue  # now and then, by chance
            row = rows[0] | {"bytes": sum(row["bytes"] for row in rows), "requests": requests}
            yield _hot_partition(tables, row, sum(wholes[at] for at in at_hours), count, (at_hours[0], at_hours[-1]))


def _hot_partition(
    tables: Tables, row: Row, whole: int, count: int, hours: tuple[datetime.datetime, datetime.datetime] | None
) -> Finding:
    share = row["bytes"] / max(whole, 1)
    writers = [each for each in tables["lineage"] if each["topic"] == row["topic"] and each["api"] == "Produce"]
    writers.sort(key=lambda each: -(each["bytes"] or 0))
    only = len({(each["client_id"], each["principal"]) for each in writers}) == 1
    span = Span(hours[0], hours[1] + _HOUR - MINUTE) if hours is not None else None
    return Finding(
        "hot-partition",
        f"Partition {row['partition']} of topic {row['topic']} received {share:.0%} of the bytes produced to its "
        f"{count:,} partitions" + (f", {text(span.first)} to {text(span.last)}" if span is not None else ""),
        {
            "topic": row["topic"],
            "partition": row["partition"],
            "partitions": count,
            "client_id": writers[0]["client_id"] if only else None,
            "principal": writers[0]["principal"] if only else None,
            "bytes": row["bytes"],
            "share": round(share, 3),
        },
        f"api = 'Produce' AND exists(topics, t -> t.topic = {quoted(row['topic'])} "
        f"AND array_contains(t.partition_ids, {row['partition']}))" + (f" AND {span.where}" if span is not None else ""),
        "Distribute its producers' keys: one broker writes a partition, and one member of a group reads it.",
        text(span.first) if span is not None else None,
        text(span.last) if span is not None else None,
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
