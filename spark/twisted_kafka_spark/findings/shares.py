"""Findings about share groups: records that are given up, locks that expire, members that never acknowledge."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.cells.shares import Shared, by_member, by_topic
from twisted_kafka_spark.findings.finding import Finding, equal, from_us, several, the_only

if TYPE_CHECKING:
    from twisted_kafka_spark.views import Row, Tables


def share_groups(tables: Tables) -> Iterator[Finding]:
    """Find share groups (KIP-932) that lose records or time."""
    rows = tables["share"]
    if not rows:
        return
    yield from _given_up(rows)
    silent: set[tuple[Any, Any]] = set()
    for finding, member in _never_acknowledged(rows):
        silent.add(member)
        yield finding
    yield from _expired([row for row in rows if (row["group_id"], row["note"]) not in silent])


def _given_up(rows: Sequence[Row]) -> Iterator[Finding]:
    for found in by_topic(rows):
        count = found.counts["over_limit"]
        if not count:
            continue
        mine = [row for row in rows if (row["group_id"], row["topic"]) == (found.group_id, found.topic)]
        members = sorted(
            (each for each in by_member(mine) if each.counts["over_limit"]), key=lambda each: -each.counts["over_limit"]
        )
        first, last = map(from_us, found.ends["over_limit"])
        yield Finding(
            "records-given-up",
            f"Group {found.group_id} gave up {count:,} records of topic {found.topic}, {first} to {last}",
            {
                "group_id": found.group_id,
                "topic": found.topic,
                **_who(members),
                "records": count,
                "highest delivery count": found.delivery_count or None,
                "released": found.counts["release"],
                "expired": found.counts["expired"],
            },
            f"{equal(group_id=found.group_id)} AND exists(share, s -> s.over_limit > 0)",
            "Find out why its members release these records or let their locks expire: they are not delivered again. A member that "
            "cannot process a record should write it elsewhere and reject it. group.share.delivery.count.limit is the limit.",
            first,
            last,
            float(count),
            impact=f"{count:,} records were not processed",
        )


def _never_acknowledged(rows: Sequence[Row]) -> Iterator[tuple[Finding, tuple[Any, Any]]]:
    for found in by_member(rows):
        acquired = found.counts["acquired"]
        first_us, last_us = found.ends.get("acquired", (0, 0))
        if found.acknowledged or acquired < limits.UNACKNOWLEDGED_FLOOR or last_us - first_us < limits.UNACKNOWLEDGED_US:
            continue
        first, last = from_us(first_us), from_us(last_us)
        finding = Finding(
            "never-acknowledged",
            f"Member {found.member_id} of group {found.group_id} acquired {acquired:,} records and acknowledged none, "
            f"{first} to {last}",
            {
                "group_id": found.group_id,
                "member_id": found.member_id,
                "client_id": found.client_id,
                "principal": found.principal,
                "acquired": acquired,
                "expired": found.counts["expired"],
                "highest delivery count": found.delivery_count or None,
            },
            f"{equal(group_id=found.group_id)} AND member_id = '{found.member_id}'",
            "Let it acknowledge the records that it processes: with share.acknowledgement.mode=explicit a member has to call "
            "acknowledge and commit. Its records go to the others when its locks expire.",
            first,
            last,
            float(acquired),
            impact=f"{acquired:,} records were delivered in vain",
        )
        yield finding, (found.group_id, found.member_id)


def _expired(rows: Sequence[Row]) -> Iterator[Finding]:
    groups: dict[Any, list[Shared]] = defaultdict(list)
    for found in by_member(rows):
        count = found.counts["expired"]
        if count >= max(limits.EXPIRED_FLOOR, limits.EXPIRED_SHARE * found.counts["acquired"]):
            groups[found.group_id].append(found)
    for group, members in sorted(groups.items(), key=str):
        members.sort(key=lambda each: -each.counts["expired"])
        count, acquired = (sum(each.counts[name] for each in members) for name in ("expired", "acquired"))
        first = from_us(min(each.ends["expired"][0] for each in members))
        last = from_us(max(each.ends["expired"][1] for each in members))
        topics = sorted({str(row["topic"]) for row in rows if row["group_id"] == group and row["event"] == "expired"})
        yield Finding(
            "expired-locks",
            f"The locks of {count:,} records of group {group} expired, {first} to {last}",
            {
                "group_id": group,
                "topic": the_only(topics),
                "topics": several(topics),
                **_who(members),
                "expired": count,
                "acquired": acquired,
                "refused": sum(each.counts["refused"] for each in members),
            },
            f"{equal(group_id=group)} AND exists(share, s -> s.expired > 0)",
            "Its members take longer than group.share.record.lock.duration.ms: let them acquire fewer records (max.poll.records), "
            "renew their locks, or increase the duration. Others process these records, too.",
            first,
            last,
            float(count),
            impact=f"{count:,} records were delivered again",
        )


def _who(members: Sequence[Shared]) -> dict[str, Any]:
    """Return the evidence of who it was, the member with the most records first."""
    one = the_only(members)
    clients = list(dict.fromkeys(str(each.client_id) for each in members if each.client_id is not None))
    principals = list(dict.fromkeys(each.principal for each in members if each.principal is not None))
    return {
        "member_id": one.member_id if one is not None else None,
        "members": several([str(each.member_id) for each in members]),
        "client_id": the_only(clients),
        "clients": several(clients),
        "principal": the_only(principals),
    }
