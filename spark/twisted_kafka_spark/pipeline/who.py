"""The parts of the report's document by principal: changes of the cluster, readers and writers of each topic, and groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from twisted_kafka_spark.cells import shares
from twisted_kafka_spark.pipeline import series
from twisted_kafka_spark.records.connections import address
from twisted_kafka_spark.records.kafka_names import LINEAGE_APIS
from twisted_kafka_spark.thresholds import REBALANCE_APIS

if TYPE_CHECKING:
    from twisted_kafka_spark.views import Row, Tables

Values = dict[str, Any]
MOST_LINEAGE, MOST_GROUPS, MOST_SHARED = 300, 200, 200
"""Rows of readers and writers, groups, and share groups' topics and members: those with the most bytes, requests or records."""
_KINDS = {
    "ShareGroupHeartbeat": "share",
    "ShareFetch": "share",
    "StreamsGroupHeartbeat": "streams",
    "ConsumerGroupHeartbeat": "consumer",
    "JoinGroup": "classic",
    "Heartbeat": "classic",
}
"""The kinds of groups by an API that only their members use."""
_NAMED = ("topic", "client_id", "principal", "api", "group_id")
_COMMITS = ("OffsetCommit", "TxnOffsetCommit")


def administration(tables: Tables) -> list[Values]:
    """Return every change of the cluster in the order of time: when, who, from where, on what, with what result."""
    return [
        {
            "at": _moment(row["first_us"]),
            **{name: row[name] for name in ("principal", "client_id", "api")},
            "address": address(row["connection"]),
            "node": row["node"],
            "about": row["note"],
            "error": row["error"],
            "requests": row["requests"],
        }
        for row in sorted(tables["change"], key=lambda row: (row["first_us"] or 0, str(row["api"]), str(row["note"])))
    ]


def lineage(tables: Tables) -> list[Values]:
    """Return who writes and reads each topic, with the group of a reader if it commits, by topic and then by bytes."""
    groups: dict[tuple[Any, ...], set[str]] = defaultdict(set)
    for row in tables["lineage"]:
        if row["group_id"] is not None:
            groups[row["topic"], row["client_id"], row["principal"]].add(row["group_id"])
    rows = [row for row in tables["lineage"] if row["api"] not in _COMMITS]
    rows.sort(key=lambda row: (-(row["bytes"] or 0), -row["requests"], *(str(row[key]) for key in _NAMED)))
    return [
        {
            "topic": row["topic"],
            "does": "writes" if row["api"] == LINEAGE_APIS[0] else "reads",
            **{name: row[name] for name in ("principal", "client_id")},
            "groups": sorted(groups[row["topic"], row["client_id"], row["principal"]]),
            **{name: row[name] or 0 for name in ("requests", "failed", "bytes", "records")},
            **_ends(row),
        }
        for row in rows[:MOST_LINEAGE]
    ]


def groups(tables: Tables) -> list[Values]:
    """Return the groups with the most requests: members, joins, commits, failures and topics."""
    by_group: dict[str, list[Row]] = defaultdict(list)
    for row in tables["member"]:
        by_group[row["group_id"]].append(row)
    topics: dict[str, set[str]] = defaultdict(set)
    for row in tables["lineage"]:
        if row["group_id"] is not None and row["topic"] is not None:
            topics[row["group_id"]].add(row["topic"])
    found = [_group(group, rows, sorted(topics[group])) for group, rows in by_group.items()]
    return sorted(found, key=lambda each: (-each["requests"], each["group_id"]))[:MOST_GROUPS]


def share_groups(tables: Tables) -> Values:
    """Return what happened to the records of share groups: by group and topic, and by member."""
    return {
        "topics": [{"topic": each.topic, **_shared(each)} for each in shares.by_topic(tables["share"])[:MOST_SHARED]],
        "members": [
            {"member_id": each.member_id, "client_id": each.client_id, "principal": each.principal, **_shared(each)}
            for each in shares.by_member(tables["share"])[:MOST_SHARED]
        ],
    }


def _shared(found: shares.Shared) -> Values:
    return {
        "group_id": found.group_id,
        **found.counts,
        "delivery_count": found.delivery_count,
        "first": _moment(found.first_us),
        "last": _moment(found.last_us),
    }


def _group(group: str, rows: list[Row], topics: list[str]) -> Values:
    epochs = [row for row in rows if row["last_epoch"]]
    return {
        "group_id": group,
        "kind": next((kind for api, kind in _KINDS.items() if any(row["api"] == api for row in rows)), None),
        "members": len({row["note"] for row in rows} - {None, ""}),
        "clients": sorted({str(row["client_id"]) for row in rows})[:10],
        "principals": sorted({str(row["principal"]) for row in rows})[:10],
        "topics": topics[:50],
        "requests": _sum(rows),
        "joins": _sum(row for row in rows if row["api"] == REBALANCE_APIS[0]),
        "leaves": _sum(row for row in rows if row["api"] == REBALANCE_APIS[2]),
        "rebalances": max(row["last_epoch"] for row in epochs) - min(row["first_epoch"] for row in epochs) if epochs else None,
        "commits": _sum(row for row in rows if row["api"] in _COMMITS),
        "failed": sum(row["failed"] or 0 for row in rows),
        "first": _moment(min((row["first_us"] for row in rows if row["first_us"]), default=None)),
        "last": _moment(max((row["last_us"] for row in rows if row["last_us"]), default=None)),
    }


def _sum(rows: Iterable[Row]) -> int:
    return sum(row["requests"] for row in rows)


def _ends(row: Row) -> Values:
    return {"first": _moment(row["first_us"]), "last": _moment(row["last_us"])}


def _moment(microseconds: int | None) -> str | None:
    return series.text(microseconds // 1_000_000) if microseconds else None
