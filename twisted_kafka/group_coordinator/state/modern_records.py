"""The record types that all modern groups have, and the tombstones of a member and of a group."""

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from twisted_kafka.coordinator.coordinator_record import CoordinatorRecord
from twisted_kafka.protocol.compiler.codec import Message


def record(key: Message, value: Message | None) -> CoordinatorRecord:
    """Return the record of a key; value None is a tombstone."""
    return CoordinatorRecord(key, key.KEY, value)


_Key = Callable[..., Message]
"""A message class with the field ``group_id``, and those of members' keys with ``member_id``."""


class RecordTypes(NamedTuple):
    """The key classes of one kind of group; the first three have a record for each member."""

    current: _Key
    target: _Key
    profile: _Key
    target_epoch: _Key
    group_epoch: _Key
    """Its tombstone removes the group."""

    def removes_group(self, record: CoordinatorRecord) -> bool:
        """Return whether a record is the tombstone that removes its group."""
        return record.value is None and type(record.key) is self.group_epoch

    def member_removed(self, group_id: str, member_id: str) -> list[CoordinatorRecord]:
        """Return all tombstones of a member."""
        return [record(key(group_id=group_id, member_id=member_id), None) for key in (self.current, self.target, self.profile)]

    def group_removed(
        self, group_id: str, members: Collection[str], own: Iterable[CoordinatorRecord] = ()
    ) -> list[CoordinatorRecord]:
        """Return all tombstones of a group, its members' first; ``own`` are those of record types that only its kind has."""
        return [
            *_of_members(self.current, group_id, members),
            *_of_members(self.target, group_id, members),
            record(self.target_epoch(group_id=group_id), None),
            *_of_members(self.profile, group_id, members),
            *own,
            record(self.group_epoch(group_id=group_id), None),
        ]


def _of_members(key: _Key, group_id: str, members: Iterable[str]) -> Iterable[CoordinatorRecord]:
    return (record(key(group_id=group_id, member_id=member_id), None) for member_id in members)
