"""The committed offsets of the groups of one partition of ``__consumer_offsets``, with those of open transactions."""

from collections.abc import Callable, Iterable

from twisted_kafka.protocol.messages.coordinator_records import OffsetCommitValue
from twisted_kafka.protocol.topic_partition import TopicPartition

Offsets = dict[TopicPartition, OffsetCommitValue]


class OffsetStore:
    """Offsets by group and partition; ``put`` and its like are called by replay only."""

    __slots__ = ("_committed", "_pending")

    def __init__(self) -> None:
        self._committed: dict[str, Offsets] = {}
        self._pending: dict[int, dict[str, Offsets]] = {}

    def put(self, group_id: str, partition: TopicPartition, value: OffsetCommitValue | None) -> None:
        """Keep an offset, or with None forget it."""
        if value is not None:
            offsets = self._committed.get(group_id)
            if offsets is None:
                offsets = self._committed[group_id] = {}
            offsets[partition] = value
            return
        offsets = self._committed.get(group_id)
        if offsets is not None and offsets.pop(partition, None) is not None and not offsets:
            del self._committed[group_id]

    def put_pending(self, producer_id: int, group_id: str, partition: TopicPartition, value: OffsetCommitValue | None) -> None:
        """Keep an offset of an open transaction; a tombstone takes it out again."""
        offsets = self._pending.setdefault(producer_id, {}).setdefault(group_id, {})
        if value is None:
            offsets.pop(partition, None)
        else:
            offsets[partition] = value

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """Make the offsets of a producer's transaction count, or drop them."""
        for group_id, offsets in self._pending.pop(producer_id, {}).items():
            if committed:
                for partition, value in offsets.items():
                    self.put(group_id, partition, value)

    def of(self, group_id: str) -> Offsets:
        """Return a group's committed offsets: not to be changed by the caller."""
        return self._committed.get(group_id) or {}

    def has_pending(self, group_id: str, partition: TopicPartition | None = None) -> bool:
        """Return whether an open transaction has an offset of the group (for the partition, if given)."""
        for groups in self._pending.values():
            offsets = groups.get(group_id)
            if offsets and (partition is None or partition in offsets):
                return True
        return False

    def group_ids(self) -> Iterable[str]:
        """Return the ids of all groups that have offsets, committed or pending."""
        return self._committed.keys() | {group_id for groups in self._pending.values() for group_id in groups}

    def expired(
        self,
        group_id: str,
        now_ms: int,
        retention_ms: int,
        base_ms: Callable[[OffsetCommitValue], int],
        subscribed: frozenset[str] = frozenset(),
    ) -> list[TopicPartition]:
        """Return the partitions whose offset has had its time.

        That is its own expiry if it has one, else ``retention_ms`` after ``base_ms`` of it; topics in ``subscribed`` stay.
        """
        expired = []
        for partition, value in self.of(group_id).items():
            if partition.topic in subscribed or self.has_pending(group_id, partition):
                continue
            own_ms = value.expire_timestamp
            if now_ms >= own_ms if own_ms != -1 else now_ms - base_ms(value) >= retention_ms:
                expired.append(partition)
        return expired
