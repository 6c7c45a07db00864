"""Offsets of OffsetCommit v0, which is older than the group coordinator.

They are nodes of the metadata store, as written by Kafka's first consumers: ``/consumers/<group>/offsets/<topic>/<partition>``
holds the offset as text. They are independent of group membership and of ``__consumer_offsets``, and never expire.
"""

from typing import Final

from twisted_kafka.metadata.store import IMetadataStore, NodeExistsError, NoNodeError, StoreError
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.topic_partition import TopicPartition

_CONSUMERS: Final = "/consumers"


class LegacyOffsets:
    """Stores and reads offsets in the metadata store."""

    def __init__(self, store: IMetadataStore) -> None:
        self._store = store

    def commit(self, group_id: str, partition: TopicPartition, offset: int) -> ErrorCode:
        """Store an offset; return UNKNOWN_SERVER_ERROR if the store refuses it, as it does for an empty group id."""
        path, data = _path(group_id, partition), str(offset).encode()
        try:
            try:
                self._store.set(path, data)
            except NoNodeError:
                self._create(path, data)
        except StoreError:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        return ErrorCode.NONE

    def _create(self, path: str, data: bytes) -> None:
        try:
            self._store.create(path, data, make_parents=True)
        except NodeExistsError:  # another request created it in the meantime
            self._store.set(path, data)

    def fetch(self, group_id: str, partition: TopicPartition) -> int | None:
        """Return the stored offset; None if it is missing or cannot be read."""
        try:
            found = self._store.get(_path(group_id, partition))
            return None if found is None else int(found[0])
        except (StoreError, ValueError):
            return None


def _path(group_id: str, partition: TopicPartition) -> str:
    return f"{_CONSUMERS}/{group_id}/offsets/{partition.topic}/{partition.partition}"
