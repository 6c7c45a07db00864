"""Committed offsets of the groups in one partition of ``__consumer_offsets``, and pending ones of open transactions."""

from collections.abc import Iterable, Iterator

from twisted_kafka.group_coordinator.state.group import OffsetRetention
from twisted_kafka.protocol.messages.coordinators.coordinator_records import OffsetCommitValue
from twisted_kafka.protocol.topic_partition import TopicPartition

Offsets = dict[TopicPartition, OffsetCommitValue]

_Pending = dict[TopicPartition, tuple[int, OffsetCommitValue] | None]
"""Offsets of an open transaction, each with the offset of its record; None if a later record superseded it."""


class OffsetStore:
    """Offsets by group and partition; only replay calls the methods that change them."""

    __slots__ = ("_committed", "_groups_by_topic", "_pending", "_size", "_unstable")

    def __init__(self) -> None:
        self._committed: dict[str, Offsets] = {}
        self._pending: dict[int, dict[str, _Pending]] = {}
        self._unstable: dict[str, dict[TopicPartition, set[int]]] = {}
        """By group and partition: the producers whose open transactions have an offset."""
        self._groups_by_topic: dict[str, dict[str, int]] = {}
        """The number of offsets, committed and pending, of each group that has any of the topic."""
        self._size = 0

    def put(self, group_id: str, partition: TopicPartition, value: OffsetCommitValue | None, offset: int) -> None:
        """Store an offset whose record is at ``offset`` in the log; None deletes it together with pending ones."""
        if self._unstable:
            self._supersede(group_id, partition, offset, value is None)
        if value is not None:
            offsets = self._committed.get(group_id)
            if offsets is None:
                offsets = self._committed[group_id] = {}
            count = len(offsets)
            offsets[partition] = value
            if len(offsets) != count:
                self._size += 1
                self._refer(partition.topic, group_id)
            return
        offsets = self._committed.get(group_id)
        if offsets is not None and offsets.pop(partition, None) is not None:
            self._size -= 1
            self._release(partition.topic, group_id)
            if not offsets:
                del self._committed[group_id]

    def _refer(self, topic: str, group_id: str) -> None:
        groups = self._groups_by_topic.get(topic)
        if groups is None:
            groups = self._groups_by_topic[topic] = {}
        groups[group_id] = groups.get(group_id, 0) + 1

    def _release(self, topic: str, group_id: str) -> None:
        groups = self._groups_by_topic[topic]
        if groups[group_id] > 1:
            groups[group_id] -= 1
            return
        del groups[group_id]
        if not groups:
            del self._groups_by_topic[topic]

    def _supersede(self, group_id: str, partition: TopicPartition, offset: int, deletes: bool) -> None:
        for producer_id in list(self._unstable.get(group_id, {}).get(partition, ())):
            if deletes:
                self._drop(producer_id, group_id, partition)
                continue
            pending = self._pending[producer_id][group_id]
            waiting = pending[partition]
            if waiting is not None and waiting[0] < offset:
                pending[partition] = None

    def put_pending(
        self, producer_id: int, group_id: str, partition: TopicPartition, value: OffsetCommitValue | None, offset: int
    ) -> None:
        """Store an offset of an open transaction; None (a tombstone) deletes it."""
        if value is None:
            self._drop(producer_id, group_id, partition)
            return
        pending = self._pending.setdefault(producer_id, {}).setdefault(group_id, {})
        if partition not in pending:
            self._unstable.setdefault(group_id, {}).setdefault(partition, set()).add(producer_id)
            self._refer(partition.topic, group_id)
        pending[partition] = (offset, value)

    def _drop(self, producer_id: int, group_id: str, partition: TopicPartition) -> None:
        groups = self._pending.get(producer_id, {})
        pending = groups.get(group_id, {})
        if partition not in pending:
            return
        del pending[partition]
        self._settle(producer_id, group_id, partition)
        if not pending:
            del groups[group_id]
            if not groups:
                del self._pending[producer_id]

    def _settle(self, producer_id: int, group_id: str, partition: TopicPartition) -> None:
        self._release(partition.topic, group_id)
        unstable = self._unstable[group_id]
        unstable[partition].discard(producer_id)
        if not unstable[partition]:
            del unstable[partition]
            if not unstable:
                del self._unstable[group_id]

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """Commit or discard the offsets of a producer's transaction; of two commits, the later record counts (as in Kafka)."""
        for group_id, pending in self._pending.pop(producer_id, {}).items():
            for partition, waiting in pending.items():
                self._settle(producer_id, group_id, partition)
                if committed and waiting is not None:
                    self.put(group_id, partition, waiting[1], waiting[0])

    def groups_of_transaction(self, producer_id: int) -> list[str]:
        """Return the ids of the groups with pending offsets of a producer's transaction."""
        return list(self._pending.get(producer_id, ()))

    def of(self, group_id: str) -> Offsets:
        """Return a group's committed offsets; the caller must not change them."""
        return self._committed.get(group_id) or {}

    def committed(self) -> Iterator[tuple[str, TopicPartition, int]]:
        """Yield group, partition and offset of all committed offsets, also while another thread changes them."""
        for group_id, offsets in list(self._committed.items()):
            for partition, value in list(offsets.items()):
                yield group_id, partition, value.offset

    def partitions_of(self, group_id: str) -> list[TopicPartition]:
        """Return the partitions for which a group has an offset, committed or pending, in order."""
        return list(dict.fromkeys((*self.of(group_id), *self._unstable.get(group_id, ()))))

    def has_any(self, group_id: str) -> bool:
        """Return whether the group has an offset, committed or pending."""
        return group_id in self._committed or group_id in self._unstable

    def has_pending(self, group_id: str, partition: TopicPartition) -> bool:
        """Return whether the group has a pending offset for the partition."""
        return partition in self._unstable.get(group_id, ())

    def group_ids(self) -> Iterable[str]:
        """Return the ids of all groups with committed or pending offsets."""
        return self._committed.keys() | self._unstable.keys()

    def __len__(self) -> int:
        """Number of committed offsets."""
        return self._size

    def groups_with(self, topic: str) -> list[str]:
        """Return the ids of the groups with an offset of the topic, committed or pending."""
        return list(self._groups_by_topic.get(topic, ()))

    def has(self, group_id: str, partition: TopicPartition) -> bool:
        """Return whether the group has an offset for the partition, committed or pending."""
        return partition in self._committed.get(group_id, ()) or self.has_pending(group_id, partition)

    def first_due_ms(self, group_id: str, retention_ms: int) -> int | None:
        """Return when the first committed offset may expire; None if the group has no committed offsets."""
        return min((_due_ms(value, None, retention_ms) for value in self.of(group_id).values()), default=None)

    def expired(
        self, group_id: str, now_ms: int, retention_ms: int, retention: OffsetRetention
    ) -> tuple[list[TopicPartition], int | None]:
        """Return the partitions whose offset has expired, and when the next offset may expire (None if no offset remains).

        An offset expires at its expire timestamp, else ``retention_ms`` after its retention began.

        Offsets of subscribed topics and of partitions with a pending offset do not expire (``offsets.retention.minutes``, KIP-211).
        """
        since_ms, is_subscribed = retention
        expired = []
        next_ms: int | None = None
        for partition, value in self.of(group_id).items():
            due_ms = _due_ms(value, since_ms, retention_ms)
            if due_ms <= now_ms and not is_subscribed(partition.topic) and not self.has_pending(group_id, partition):
                expired.append(partition)
            elif next_ms is None or due_ms < next_ms:
                next_ms = due_ms
        return expired, next_ms


def _due_ms(value: OffsetCommitValue, since_ms: int | None, retention_ms: int) -> int:
    if value.expire_timestamp != -1:
        return value.expire_timestamp
    return (value.commit_timestamp if since_ms is None else since_ms) + retention_ms
