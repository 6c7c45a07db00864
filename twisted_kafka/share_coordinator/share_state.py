"""The stored state of a share partition as a value, and its records in ``__share_group_state`` (Kafka: ShareGroupOffset)."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from twisted_kafka.coordinator.coordinator_record import CoordinatorRecord, RecordKinds
from twisted_kafka.protocol.messages.share import share_state_records as records
from twisted_kafka.share.share_partition_key import SharePartitionKey
from twisted_kafka.share_coordinator.state_batches import StateBatch, combine

SNAPSHOT: Final = 0
UPDATE: Final = 1
SHARE_RECORD_KINDS: Final[RecordKinds] = {
    SNAPSHOT: (records.ShareSnapshotKey, records.ShareSnapshotValue),
    UPDATE: (records.ShareUpdateKey, records.ShareUpdateValue),
}

UNCHANGED: Final = -1
"""In an update: the field keeps its value."""
NO_START_OFFSET: Final = -1
UNKNOWN_COUNT: Final = -1


class ShareChange(NamedTuple):
    """A change of a share partition; an epoch or offset of -1 leaves it as it is."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: Sequence[StateBatch]


class ShareState(NamedTuple):
    """The state of a share partition, as of the last record."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    create_ms: int
    write_ms: int
    batches: tuple[StateBatch, ...]
    updates: int = 0
    """Update records since the last snapshot."""

    def in_order(self, change: ShareChange) -> ShareChange:
        """Return a change that moves neither the start offset nor, at the same one, the complete count back.

        A write that was sent again may come after its successor. A start offset or a count of -1 is the least one.
        """
        start_offset, count = max(
            (self.start_offset, self.delivery_complete_count), (change.start_offset, change.delivery_complete_count)
        )
        return change._replace(start_offset=start_offset, delivery_complete_count=count)

    def changed(self, change: ShareChange) -> "ShareState":
        """Return the state after a change."""
        start_offset = self.start_offset if change.start_offset == UNCHANGED else change.start_offset
        return self._replace(
            state_epoch=self.state_epoch if change.state_epoch == UNCHANGED else change.state_epoch,
            leader_epoch=self.leader_epoch if change.leader_epoch == UNCHANGED else change.leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=change.delivery_complete_count,
            batches=combine(self.batches, change.batches, start_offset),
        )

    def next_snapshot(self, create_ms: int, now_ms: int) -> "ShareState":
        """Return the state as the snapshot after the last one has it."""
        return self._replace(snapshot_epoch=self.snapshot_epoch + 1, create_ms=create_ms, write_ms=now_ms, updates=0)


def snapshot_record(key: SharePartitionKey, state: ShareState) -> CoordinatorRecord:
    """Return the record of the whole state."""
    value = records.ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        create_timestamp=state.create_ms,
        write_timestamp=state.write_ms,
        state_batches=_encoded(state.batches),
    )
    return CoordinatorRecord(_key(records.ShareSnapshotKey, key), SNAPSHOT, value)


def update_record(key: SharePartitionKey, snapshot_epoch: int, change: ShareChange) -> CoordinatorRecord:
    """Return the record of a change since the snapshot."""
    value = records.ShareUpdateValue(
        snapshot_epoch=snapshot_epoch,
        leader_epoch=change.leader_epoch,
        start_offset=change.start_offset,
        delivery_complete_count=change.delivery_complete_count,
        state_batches=_encoded(combine((), change.batches, change.start_offset)),
    )
    return CoordinatorRecord(_key(records.ShareUpdateKey, key), UPDATE, value)


def tombstone(key: SharePartitionKey) -> CoordinatorRecord:
    """Return the record that removes the state."""
    return CoordinatorRecord(_key(records.ShareSnapshotKey, key), SNAPSHOT, None)


def key_of(record: CoordinatorRecord) -> SharePartitionKey:
    """Return the share partition of a record."""
    return SharePartitionKey(record.key.group_id, record.key.topic_id, record.key.partition)


def replayed(before: ShareState | None, record: CoordinatorRecord) -> ShareState | None:
    """Return the state after a record; None if it has none.

    An update without a snapshot before it is ignored: its snapshot was deleted.
    """
    value = record.value
    if value is None:
        return None
    if record.kind == SNAPSHOT:
        return ShareState(
            value.snapshot_epoch,
            value.state_epoch,
            value.leader_epoch,
            value.start_offset,
            value.delivery_complete_count,
            value.create_timestamp,
            value.write_timestamp,
            tuple(_decoded(value.state_batches)),
        )
    if before is None:
        return None
    change = ShareChange(
        UNCHANGED, value.leader_epoch, value.start_offset, value.delivery_complete_count, list(_decoded(value.state_batches))
    )
    return before.changed(change)._replace(updates=before.updates + 1)


def _key(made: Any, key: SharePartitionKey) -> Any:
    return made(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)


def _encoded(batches: Iterable[StateBatch]) -> list[records.StateBatch]:
    return [
        records.StateBatch(
            first_offset=each.first_offset,
            last_offset=each.last_offset,
            delivery_state=each.delivery_state,
            delivery_count=each.delivery_count,
        )
        for each in batches
    ]


def _decoded(batches: Iterable[Any]) -> Iterable[StateBatch]:
    return (StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count) for each in batches)
