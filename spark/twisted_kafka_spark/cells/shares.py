"""What happened to the records of share groups (KIP-932), by group and topic, and by member."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from twisted_kafka_spark.records.frame import SHARE_COUNTS

DELIVERY_COUNT = "delivery_count"
"""The count of `SHARE_COUNTS` of which a cell has the highest."""
EVENTS = tuple(name for name in SHARE_COUNTS if name != DELIVERY_COUNT)
ACKNOWLEDGEMENTS = ("accept", "release", "reject", "renew", "gap", "refused")
"""What a member sends, in place of letting a lock expire."""
Row = dict[str, Any]
Ends = tuple[int, int]


@dataclass(slots=True)
class Shared:
    """Counts of records, of a group's topic or of a member. `ends`: the first and last time of each event, in us since 1970."""

    group_id: str | None
    topic: str | None = None
    member_id: str | None = None
    client_id: str | None = None
    principal: str | None = None
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(EVENTS, 0))
    delivery_count: int = 0
    ends: dict[str, Ends] = field(default_factory=dict)

    def add(self, row: Row) -> None:
        """Add the cells of one event."""
        event = row["event"]
        if event not in self.counts:
            return  # of a later version
        self.counts[event] += row["records"] or 0
        self.delivery_count = max(self.delivery_count, row["delivery_count"] or 0)
        first, last = self.ends.get(event, (row["first_us"], row["last_us"]))
        self.ends[event] = min(first, row["first_us"]), max(last, row["last_us"])
        if row["client_id"] is not None or row["principal"] is not None:
            self.client_id, self.principal = row["client_id"], row["principal"]

    @property
    def first_us(self) -> int:
        """The first time of any event, 0 without one."""
        return min((first for first, _ in self.ends.values()), default=0)

    @property
    def last_us(self) -> int:
        """The last time of any event, 0 without one."""
        return max((last for _, last in self.ends.values()), default=0)

    @property
    def acknowledged(self) -> int:
        """The records that were acknowledged, whether that took effect or not."""
        return sum(self.counts[name] for name in ACKNOWLEDGEMENTS)


def by_topic(rows: Iterable[Row]) -> list[Shared]:
    """Return what happened in each group to each topic, the group with the most records first."""
    return _grouped(rows, ("group_id", "topic"))


def by_member(rows: Iterable[Row]) -> list[Shared]:
    """Return what happened in each group to each member's records. A member's client is known if it sent a request."""
    return _grouped(rows, ("group_id", "note"))


def _grouped(rows: Iterable[Row], keys: tuple[str, str]) -> list[Shared]:
    found: dict[tuple[Any, ...], Shared] = {}
    for row in rows:
        name = tuple(row[key] for key in keys)
        known = found.get(name)
        if known is None:
            known = found[name] = Shared(row["group_id"], **{"member_id" if keys[1] == "note" else "topic": row[keys[1]]})
        known.add(row)
    return sorted(
        found.values(), key=lambda each: (-each.counts["acquired"], str(each.group_id), str(each.topic or each.member_id))
    )
