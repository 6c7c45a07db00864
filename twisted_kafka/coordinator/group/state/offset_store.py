"""Committed offsets of the groups in one partition of ``__consumer_offsets``, and pending ones of open transactions."""

from collections import Counter
from collections.abc import Iterable

from twisted_kafka.coordinator.group.state.group import OffsetRetention
from twisted_kafka.protocol.messages.coordinator_records import OffsetCommitValue
from twisted_kafka.protocol.topic_partition import TopicPartition

Offsets = dict[TopicPartition, OffsetCommitValue]

_Pending = dict[TopicPartition, tuple[int, OffsetCommitValue] | None]
"""Offsets of an open transaction, each with the offset of its record; None: superseded by a record after it."""


class OffsetStore:
    """Offsets by group and partition; only replay calls the methods that change them."""

    __slots__ = ("_committed", "_pending", "_unstable")

    def __init__(self) -> None:
        self._committed: dict[str, Offsets] = {}
        self._pending: dict[int, dict[str, _Pending]] = {}
        self._unstable: dict[str, Counter[TopicPartition]] = {}
        """By group and partition: the number of open transactions with an offset."""

    def put(self, group_id: str, partition: TopicPartition, value: OffsetCommitValue | None, offset: int) -> None:
        """Store an offset whose record is at ``offset`` in the log; None deletes it together with pending ones."""
        if self._unstable:
            self._supersede(group_id, partition, offset, value is None)
        if value is not None:
            offsets = self._committed.get(group_id)
            if offsets is None:
                offsets = self._committed[group_id] = {}
            offsets[partition] = value
            return
        offsets = self._committed.get(group_id)
        if offsets is not None and offsets.pop(partition, None) is not None and not offsets:
            del self._committed[group_id]

    def _supersede(self, group_id: str, partition: TopicPartition, offset: int, deletes: bool) -> None:
        if partition not in self._unstable.get(group_id, ()):
            return
        for producer_id, groups in list(self._pending.items()):
            pending = groups.get(group_id)
            if pending is None or partition not in pending:
                continue
            if deletes:
                self._drop(producer_id, group_id, partition)
                continue
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
            self._unstable.setdefault(group_id, Counter())[partition] += 1
        pending[partition] = (offset, value)

    def _drop(self, producer_id: int, group_id: str, partition: TopicPartition) -> None:
        groups = self._pending.get(producer_id, {})
        pending = groups.get(group_id, {})
        if partition not in pending:
            return
        del pending[partition]
        self._settle(group_id, partition)
        if not pending:
            del groups[group_id]
            if not groups:
                del self._pending[producer_id]

    def _settle(self, group_id: str, partition: TopicPartition) -> None:
        unstable = self._unstable[group_id]
        unstable[partition] -= 1
        if not unstable[partition]:
            del unstable[partition]
            if not unstable:
                del self._unstable[group_id]

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """Commit or discard the offsets of a producer's transaction; of two commits, the later record counts (as in Kafka)."""
        for group_id, pending in self._pending.pop(producer_id, {}).items():
            for partition, waiting in pending.items():
                self._settle(group_id, partition)
                if committed and waiting is not None:
                    self.put(group_id, partition, waiting[1], waiting[0])

    def groups_of_transaction(self, producer_id: int) -> list[str]:
        """Return the ids of the groups with pending offsets of a producer's transaction."""
        return list(self._pending.get(producer_id, ()))

    def of(self, group_id: str) -> Offsets:
        """Return a group's committed offsets; the caller must not change them."""
        return self._committed.get(group_id) or {}

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
        return sum(map(len, list(self._committed.values())))

    def expired(self, group_id: str, now_ms: int, retention_ms: int, retention: OffsetRetention) -> list[TopicPartition]:
        """Return the partitions whose offset has expired: at its expire timestamp, else ``retention_ms`` after its retention began.

        Offsets of subscribed topics, and those with a pending one, do not expire (``offsets.retention.minutes``, KIP-211).
        """
        since_ms, is_subscribed = retention
        expired = []
        for partition, value in self.of(group_id).items():
            own_ms = value.expire_timestamp
            base_ms = value.commit_timestamp if since_ms is None else since_ms
            if now_ms < own_ms if own_ms != -1 else now_ms - base_ms < retention_ms:
                continue
            if not is_subscribed(partition.topic) and not self.has_pending(group_id, partition):
                expired.append(partition)
        return expired
