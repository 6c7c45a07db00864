"""The stored groups and offsets of one partition of ``__consumer_offsets``; only ``replay`` changes them."""

from typing import Final

from twisted_kafka.coordinator.coordinator_record import CoordinatorRecord
from twisted_kafka.group_coordinator.state.classic_group import ClassicGroup
from twisted_kafka.group_coordinator.state.consumer.consumer_group import ConsumerGroup
from twisted_kafka.group_coordinator.state.group import Group
from twisted_kafka.group_coordinator.state.group_kinds import KIND_OF_RECORD, GroupKind
from twisted_kafka.group_coordinator.state.group_table import GroupTable
from twisted_kafka.group_coordinator.state.offset_store import OffsetStore
from twisted_kafka.group_coordinator.state.share.share_group import ShareGroup
from twisted_kafka.group_coordinator.state.streams.streams_group import StreamsGroup
from twisted_kafka.protocol.messages.coordinators.coordinator_records import (
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from twisted_kafka.protocol.topic_partition import TopicPartition

LAST_OFFSET_RECORD: Final = 1
"""Records of these types are offsets, of the next one classic groups."""
CLASSIC_RECORD: Final = 2
"""Records of the types so far name their group ``group``, later ones ``group_id``."""


class GroupStore:
    """Groups by id, and their offsets. A group has one type at a time, that of its latest records."""

    __slots__ = ("_loading", "_retention_ms", "groups", "offsets")

    def __init__(self, retention_ms: int, check_interval_ms: int) -> None:
        """Each ``check_interval_ms`` offsets are checked whether they are older than ``retention_ms``."""
        self._retention_ms = retention_ms
        self.groups = GroupTable(check_interval_ms)
        self.offsets = OffsetStore()
        self._loading: dict[str, GroupMetadataValue] | None = {}

    def classic(self, group_id: str) -> ClassicGroup | None:
        """Return the group if it is a classic group."""
        return self.groups.classic.get(group_id)

    def consumer(self, group_id: str) -> ConsumerGroup | None:
        """Return the group if it is a consumer group."""
        return self.groups.consumer.get(group_id)

    def share(self, group_id: str) -> ShareGroup | None:
        """Return the group if it is a share group."""
        return self.groups.share.get(group_id)

    def streams(self, group_id: str) -> StreamsGroup | None:
        """Return the group if it is a streams group."""
        return self.groups.streams.get(group_id)

    def classic_groups(self) -> list[ClassicGroup]:
        """Return the classic groups."""
        return list(self.groups.classic.values())

    def consumer_groups(self) -> list[ConsumerGroup]:
        """Return the consumer groups."""
        return list(self.groups.consumer.values())

    def share_groups(self) -> list[ShareGroup]:
        """Return the share groups."""
        return list(self.groups.share.values())

    def streams_groups(self) -> list[StreamsGroup]:
        """Return the streams groups."""
        return list(self.groups.streams.values())

    @staticmethod
    def group_id_of(record: CoordinatorRecord) -> str:
        """Return the id of the group that a record belongs to."""
        return record.key.group if record.kind <= CLASSIC_RECORD else record.key.group_id  # type: ignore[no-any-return]

    def find(self, group_id: str) -> Group | None:
        """Return the group; while the records are being loaded, a group as it would be if there were no more of them."""
        group = self.groups.get(group_id)
        if group is not None or self._loading is None:
            return group
        value = self._loading.get(group_id)
        if value is not None:
            return ClassicGroup.from_value(group_id, value)
        return ClassicGroup(group_id) if self.offsets.has_any(group_id) else None

    def replay(self, record: CoordinatorRecord, producer_id: int, offset: int) -> None:
        """Apply a record that is at ``offset`` in the log; ``producer_id`` is -1 outside a transaction."""
        kind = record.kind
        if kind <= LAST_OFFSET_RECORD:
            self._replay_offset(record.key, record.value, producer_id, offset)
        elif kind == CLASSIC_RECORD:
            self._replay_classic(record.key.group, record.value)
        else:
            self._replay_modern(KIND_OF_RECORD[kind], record)

    def _replay_offset(
        self, key: OffsetCommitKey | LegacyOffsetCommitKey, value: OffsetCommitValue | None, producer_id: int, offset: int
    ) -> None:
        partition = TopicPartition(key.topic, key.partition)
        if producer_id != -1:
            self.offsets.put_pending(producer_id, key.group, partition, value, offset)
        else:
            self.offsets.put(key.group, partition, value, offset)
        if self._loading is not None:
            return
        if value is None:
            self.drop_if_unused(key.group)
        elif key.group not in self.groups:
            self._add_for_offsets(key.group)
        elif value.expire_timestamp != -1:
            self.groups.check_next(key.group)

    def _add_for_offsets(self, group_id: str) -> None:
        """Add a group that consists of its offsets: nothing has to be checked before the first of them may have expired."""
        self.groups[group_id] = ClassicGroup(group_id)
        due_ms = self.offsets.first_due_ms(group_id, self._retention_ms)
        if due_ms is not None:
            self.groups.check_at(group_id, due_ms)

    def drop_if_unused(self, group_id: str) -> None:
        """Remove a group that has no record of its own, no offsets, and no member that is about to join."""
        group = self.classic(group_id)
        if group is not None and not group.generation and group.is_over() and not self.offsets.has_any(group_id):
            del self.groups[group_id]
        else:
            self.groups.check_next(group_id)

    def _replay_classic(self, group_id: str, value: GroupMetadataValue | None) -> None:
        if self._loading is not None:
            if value is None:
                self._loading.pop(group_id, None)
            else:
                self._loading[group_id] = value
                if group_id in self.groups:
                    del self.groups[group_id]
            return
        group = self.groups.classic.get(group_id)
        if value is None:
            if group is not None:
                group.close()
                self._end(group_id)
        elif group is None or group.generation == 0:  # 0: the group had only offsets
            self.groups[group_id] = ClassicGroup.from_value(group_id, value)
        elif group.generation == value.generation:
            for described in value.members:
                member = group.members.get(described.member_id)
                if member is not None:
                    member.assignment = described.assignment

    def _replay_modern(self, kind: GroupKind, record: CoordinatorRecord) -> None:
        group_id = record.key.group_id
        group = self.groups.get(group_id)
        if group is None or group.type != kind.type:
            if record.value is None:
                return
            if group is not None:
                group.close()
            if self._loading is not None:
                self._loading.pop(group_id, None)
            group = self.groups[group_id] = kind.make(group_id)
        if kind.types.removes_group(record):
            self._end(group_id)
        else:
            kind.replay(group, record.key, record.value)

    def _end(self, group_id: str) -> None:
        """Remove a group; if it has offsets left, they belong to an empty classic group from now on."""
        del self.groups[group_id]
        if self._loading is None and self.offsets.partitions_of(group_id):
            self.groups[group_id] = ClassicGroup(group_id)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """Commit or discard the offsets of a producer's transaction."""
        self.offsets.end_transaction(producer_id, committed)

    def loaded(self) -> None:
        """Build each classic group from its latest record, once all records have been replayed."""
        values, self._loading = self._loading or {}, None
        for group_id, value in values.items():
            self.groups[group_id] = ClassicGroup.from_value(group_id, value)
        for group_id in self.offsets.group_ids():
            if group_id not in self.groups:
                self._add_for_offsets(group_id)
