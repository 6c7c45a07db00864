"""An index of a group's target assignment: members by number of partitions, and unassigned partitions.

It is updated with each change, so the cost of one joining or leaving member depends on the partitions that move, not on the
size of the group.
"""

from collections.abc import Mapping

from twisted_kafka.group_coordinator.state.consumer.consumer_group_member import NO_PARTITIONS, Partitions

PartitionId = tuple[bytes, int]


class TargetIndex:
    """An index of the target assignment of a group in which all members have the same subscription."""

    __slots__ = ("_owners", "_sizes", "by_size", "counts", "free", "target", "total")

    def __init__(self, counts: Mapping[bytes, int], target: Mapping[str, Partitions]) -> None:
        """``counts`` are the partition counts of the subscribed topics; partitions of other topics in ``target`` are ignored.

        ``target`` is the group's own mapping, which steps read; every change of it must be passed to ``put``.
        """
        self.counts = counts
        self.target = target
        self.total = sum(counts.values())
        self.free: dict[PartitionId, None] = {
            (topic_id, index): None for topic_id, count in counts.items() for index in range(count)
        }
        self.by_size: dict[int, dict[str, None]] = {}
        """Members by number of partitions, in the order in which they reached that number."""
        self._owners: dict[PartitionId, str] = {}
        self._sizes: dict[str, int] = {}
        for member_id, partitions in target.items():
            self.put(member_id, NO_PARTITIONS, partitions)

    def fits(self, counts: Mapping[bytes, int], member_count: int) -> bool:
        """Return whether the index has these topics and ``member_count`` members, and every partition is owned once or free."""
        return (
            self.counts == counts
            and len(self._sizes) == member_count
            and sum(size * len(members) for size, members in self.by_size.items()) + len(self.free) == self.total
        )

    def put(self, member_id: str, old: Partitions, new: Partitions | None) -> None:
        """Change a member's target from ``old`` to ``new``; None if the member was removed.

        If a partition moves, its new owner may be put before the old one.
        """
        self._resize(member_id, None if new is None else sum(map(len, new.values())))
        gained = NO_PARTITIONS if new is None else new
        owners, free = self._owners, self.free
        for topic_id, indexes in old.items():
            for index in indexes - gained.get(topic_id, frozenset()):
                if owners.get((topic_id, index)) == member_id:
                    del owners[topic_id, index]
                    if index < self.counts.get(topic_id, 0):
                        free[topic_id, index] = None
        for topic_id, indexes in gained.items():
            for index in indexes - old.get(topic_id, frozenset()):
                owners[topic_id, index] = member_id
                free.pop((topic_id, index), None)

    def _resize(self, member_id: str, size: int | None) -> None:
        before = self._sizes.get(member_id)
        if before == size:
            return
        if before is not None:
            members = self.by_size[before]
            del members[member_id]
            if not members:
                del self.by_size[before]
        if size is None:
            self._sizes.pop(member_id, None)
        else:
            self._sizes[member_id] = size
            self.by_size.setdefault(size, {})[member_id] = None
