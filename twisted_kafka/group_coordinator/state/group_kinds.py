"""The kinds of groups that consist of several records: which record types belong to which kind, and their effect on a group.

An offset belongs to a group of any kind, and a classic group is one record: both are replayed by the ``GroupStore`` itself.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from twisted_kafka.coordinator.coordinator_record import CoordinatorRecord, RecordKinds
from twisted_kafka.group_coordinator.group_records import CLASSIC_RECORD_KINDS, group_tombstone
from twisted_kafka.group_coordinator.state.classic_group import ClassicGroup
from twisted_kafka.group_coordinator.state.consumer import consumer_group_records
from twisted_kafka.group_coordinator.state.consumer.consumer_group import ConsumerGroup
from twisted_kafka.group_coordinator.state.group import CLASSIC, CONSUMER, SHARE, STREAMS, Group
from twisted_kafka.group_coordinator.state.modern_records import RecordTypes
from twisted_kafka.group_coordinator.state.share import share_group_records
from twisted_kafka.group_coordinator.state.share.share_group import ShareGroup
from twisted_kafka.group_coordinator.state.streams import streams_group_records
from twisted_kafka.group_coordinator.state.streams.streams_group import StreamsGroup


class GroupKind(NamedTuple):
    """A kind of group. ``replay`` and ``removed`` take a group that ``make`` has made."""

    type: str
    """The type of its groups."""
    make: Callable[[str], Group]
    """Returns a new group with an id."""
    records: RecordKinds
    """The record types."""
    types: RecordTypes
    """Those that all modern groups have."""
    replay: Callable[..., None]
    """Applies a record's key and value to its group."""
    removed: Callable[..., list[CoordinatorRecord]]
    """Returns all tombstones of a group."""


_KINDS: Final = (
    GroupKind(
        CONSUMER,
        ConsumerGroup,
        consumer_group_records.KINDS,
        consumer_group_records.TYPES,
        consumer_group_records.replay,
        consumer_group_records.group_removed,
    ),
    GroupKind(
        SHARE,
        ShareGroup,
        share_group_records.KINDS,
        share_group_records.TYPES,
        share_group_records.replay,
        share_group_records.group_removed,
    ),
    GroupKind(
        STREAMS,
        StreamsGroup,
        streams_group_records.KINDS,
        streams_group_records.TYPES,
        streams_group_records.replay,
        streams_group_records.group_removed,
    ),
)

KIND_OF_RECORD: Final[Mapping[int, GroupKind]] = {record: kind for kind in _KINDS for record in kind.records}
"""By record type."""

GROUP_RECORD_KINDS: Final[RecordKinds] = {
    **CLASSIC_RECORD_KINDS,
    **{record: classes for kind in _KINDS for record, classes in kind.records.items()},
}
"""All record types of ``__consumer_offsets``."""


def _classic_group_removed(group: ClassicGroup) -> list[CoordinatorRecord]:
    return [group_tombstone(group.group_id)] if group.generation else []


_REMOVED: Final[Mapping[str, Callable[..., list[CoordinatorRecord]]]] = {
    CLASSIC: _classic_group_removed,
    **{kind.type: kind.removed for kind in _KINDS},
}


def tombstones(group: Group) -> list[CoordinatorRecord]:
    """Return all tombstones of a group, without those of its offsets; empty if it was never written."""
    return _REMOVED[group.type](group)
