"""The list of groups of all kinds, and one group with its members and its lag."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

from twisted_kafka.console.cluster.groups import (
    SHARE,
    Group,
    Member,
    ShareOffset,
    all_committed,
    all_described,
    committed,
    described,
    ends,
    listed,
    share_offsets,
)
from twisted_kafka.console.cluster.problems import CommandError
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.queries.paging import Asked, Page, paged
from twisted_kafka.protocol.messages.coordinators.groups import ListedGroup
from twisted_kafka.protocol.topic_partition import TopicPartition

MOST_PARTITIONS: Final = 2_000
"""Most partitions of a page whose lag is computed, and most of one group that are listed."""

_ORDERS: Final[Mapping[str, Callable[[ListedGroup], Any]]] = {
    "name": attrgetter("group_id"),
    "kind": lambda each: (each.group_type, each.group_id),
    "state": lambda each: (each.group_state, each.group_id),
}


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group in the list."""

    group_id: str
    kind: str
    state: str
    protocol: str
    members: int | None
    lag: int | None
    """The records that it has not committed, of the partitions whose end is known. None if it has no offsets."""
    problem: str = ""
    """Why the rest is not known."""


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """A partition of a group."""

    topic: str
    partition: int
    offset: int | None
    """The committed offset; for a share group the first record that is not done. None without one."""
    end: int | None
    lag: int | None
    member_id: str | None
    client_id: str | None
    host: str | None


@dataclass(frozen=True, slots=True)
class GroupDetail:
    """One group."""

    group_id: str
    kind: str
    state: str
    assignor: str
    members: tuple[Member, ...]
    partitions: tuple[PartitionLag, ...]
    lag: int | None
    """Of all its partitions whose end is known."""
    stopped: str = ""


def groups(session: Session, asked: Asked, *, kinds: Sequence[str] = (), states: Sequence[str] = ()) -> Page[GroupRow]:
    """Return a page of groups, sorted by ``name``, ``kind`` or ``state``. Members and lag are those of the page's groups alone.

    Raises CommandError, and ValueError for another order.
    """
    silent: list[CommandError] = []
    found = [
        each
        for each in listed(session, silent=silent)
        if asked.finds(each.group_id)
        and (not kinds or each.group_type.lower() in kinds)
        and (not states or each.group_state in states)
    ]
    page = paged(found, asked, _ORDERS)
    rows, stopped = _rows(session, page.items, silent)
    return page.of(rows, f"because {silent[0]}" if silent else stopped)


def group(session: Session, group_id: str) -> GroupDetail:
    """Return a group. Raises CommandError."""
    found = described(session, group_id)
    silent: list[CommandError] = []
    if found.type == SHARE:
        shared = share_offsets(session, [group_id]).get(group_id, {})
        if isinstance(shared, CommandError):
            raise shared
        rows = _lags(found, {each: state.start for each, state in shared.items()}, shared, {})
    else:
        offsets = committed(session, group_id)
        rows = _lags(found, offsets, {}, ends(session, {*offsets, *_owned(found)}, silent))
    stopped = f"after {MOST_PARTITIONS:,} of {len(rows):,} partitions" if len(rows) > MOST_PARTITIONS else ""
    if silent:
        stopped = f"because {silent[0]}"
    lag = _sum(each.lag for each in rows)
    members = tuple(sorted(found.members, key=lambda each: (each.client_id, each.member_id)))
    return GroupDetail(group_id, found.type, found.state, found.assignor, members, tuple(rows[:MOST_PARTITIONS]), lag, stopped)


def _owned(found: Group) -> dict[TopicPartition, Member]:
    return {partition: member for member in found.members for partition in member.partitions}


def _lags(
    found: Group,
    offsets: Mapping[TopicPartition, int],
    shared: Mapping[TopicPartition, ShareOffset],
    end_offsets: Mapping[TopicPartition, int],
) -> list[PartitionLag]:
    owners = _owned(found)
    rows = []
    for partition in sorted({*offsets, *owners}):
        offset, end, owner = offsets.get(partition), end_offsets.get(partition), owners.get(partition)
        lag = shared[partition].lag if partition in shared else lag_of(offset, end)
        rows.append(
            PartitionLag(
                partition.topic,
                partition.partition,
                offset,
                end,
                lag,
                None if owner is None else owner.member_id,
                None if owner is None else owner.client_id,
                None if owner is None else owner.host,
            )
        )
    return rows


def lag_of(offset: int | None, end: int | None) -> int | None:
    """Return how many records are behind a committed offset, None if one of the two is not known."""
    return None if offset is None or end is None else max(0, end - offset)


def _rows(session: Session, names: Sequence[ListedGroup], silent: list[CommandError]) -> tuple[list[GroupRow], str]:
    if not names:
        return [], ""
    details = all_described(session, [each.group_id for each in names], {each.group_id: each.group_type.lower() for each in names})
    kinds = {each.group_id: found.type for each in names if isinstance(found := details[each.group_id], Group)}
    with_offsets = [each.group_id for each in names if kinds.get(each.group_id) not in (None, SHARE)]
    offsets = all_committed(session, with_offsets) if with_offsets else {}
    shared = share_offsets(session, [each for each, kind in kinds.items() if kind == SHARE])
    wanted: set[TopicPartition] = set()
    stopped = ""
    for mine in offsets.values():
        if isinstance(mine, dict):
            wanted |= mine.keys()
        if len(wanted) > MOST_PARTITIONS:
            stopped = f"lag after {MOST_PARTITIONS:,} partitions"
            wanted = set(sorted(wanted)[:MOST_PARTITIONS])
            break
    end_offsets = ends(session, wanted, silent)
    return [_row(each, details[each.group_id], offsets, shared, end_offsets) for each in names], stopped


def _row(
    name: ListedGroup,
    found: Group | CommandError | None,
    offsets: Mapping[str, dict[TopicPartition, int] | CommandError],
    shared: Mapping[str, dict[TopicPartition, ShareOffset] | CommandError],
    end_offsets: Mapping[TopicPartition, int],
) -> GroupRow:
    if not isinstance(found, Group):
        why = "the group is gone" if found is None else str(found)
        return GroupRow(name.group_id, name.group_type.lower(), name.group_state, name.protocol_type, None, None, why)
    mine, its = offsets.get(name.group_id, {}), shared.get(name.group_id, {})
    why = str(mine) if isinstance(mine, CommandError) else str(its) if isinstance(its, CommandError) else ""
    lags = [] if isinstance(mine, CommandError) else [lag_of(offset, end_offsets.get(each)) for each, offset in mine.items()]
    lags += [] if isinstance(its, CommandError) else [each.lag for each in its.values()]
    return GroupRow(name.group_id, found.type, found.state, name.protocol_type, len(found.members), _sum(lags), why)


def _sum(lags: Iterable[int | None]) -> int | None:
    known = [each for each in lags if each is not None]
    return sum(known) if known else None
