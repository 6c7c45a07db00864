"""The offsets of OffsetCommit v0, which come from before there was a group coordinator.

They are nodes of the metadata store, in the layout of Kafka's consumers of old: ``/consumers/<group>/offsets/<topic>/<partition>``
holds the offset as text. Neither group membership nor ``__consumer_offsets`` has to do with them, and they never expire.
"""

from typing import Final

from twisted_kafka.metadata.store import IMetadataStore, NodeExistsError, NoNodeError, StoreError
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.topic_partition import TopicPartition

_CONSUMERS: Final = "/consumers"


class LegacyOffsets:
    """Keeps them and finds them again."""

    def __init__(self, store: IMetadataStore) -> None:
        self._store = store

    def commit(self, group_id: str, partition: TopicPartition, offset: int) -> ErrorCode:
        """Keep an offset; UNKNOWN_SERVER_ERROR when the store refuses, as it does an empty group id."""
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
        except NodeExistsError:  # another request was faster
            self._store.set(path, data)

    def fetch(self, group_id: str, partition: TopicPartition) -> int | None:
        """Return the offset, or None when there is none."""
        try:
            found = self._store.get(_path(group_id, partition))
            return None if found is None else int(found[0])
        except (StoreError, ValueError):
            return None


def _path(group_id: str, partition: TopicPartition) -> str:
    return f"{_CONSUMERS}/{group_id}/offsets/{partition.topic}/{partition.partition}"
