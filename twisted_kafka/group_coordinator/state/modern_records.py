"""The record types that all modern groups have, and the tombstones of a member and of a group."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from twisted_kafka.coordinator.coordinator_record import CoordinatorRecord
from twisted_kafka.protocol.compiler.codec import Message


class _Members(Protocol):
    @property
    def group_id(self) -> str: ...

    @property
    def members(self) -> Mapping[str, object]: ...


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

    def group_removed(self, group: _Members, own: Iterable[CoordinatorRecord] = ()) -> list[CoordinatorRecord]:
        """Return all tombstones of a group, its members' first; ``own`` are those of record types that only its kind has."""
        return [
            *self._of_members(self.current, group),
            *self._of_members(self.target, group),
            record(self.target_epoch(group_id=group.group_id), None),
            *self._of_members(self.profile, group),
            *own,
            record(self.group_epoch(group_id=group.group_id), None),
        ]

    def _of_members(self, key: _Key, group: _Members) -> Iterable[CoordinatorRecord]:
        return (record(key(group_id=group.group_id, member_id=member_id), None) for member_id in group.members)
