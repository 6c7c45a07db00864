"""Up to where nobody needs a partition of ``__share_group_state`` any more (Kafka: ShareCoordinatorOffsetsManager)."""

from collections.abc import Mapping


class NeededOffsets:
    """The offset of each share partition's last snapshot, kept in the order of the offsets.

    A snapshot replaces the older records of its share partition. So the records before the first of these offsets may be deleted.
    """

    __slots__ = ("_offsets",)

    def __init__(self) -> None:
        self._offsets: dict[str, int] = {}

    def snapshot_written(self, key: str, offset: int) -> None:
        """Take note of a key's snapshot: the last in the log, so the key moves to the end."""
        self._offsets.pop(key, None)
        self._offsets[key] = offset

    def removed(self, key: str) -> None:
        """Forget a key: nothing of it is needed."""
        self._offsets.pop(key, None)

    def first(self, end_offset: int) -> int:
        """Return the first offset that is needed; ``end_offset`` without share partitions."""
        return next(iter(self._offsets.values()), end_offset)

    def oldest(self) -> Mapping[str, int]:
        """Return the snapshots' offsets by key, the oldest first."""
        return self._offsets
