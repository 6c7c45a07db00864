"""Building the group coordinator's records, in the versions that Kafka 3.9 writes."""

from twisted_kafka.coordinator.records import (
    GROUP_METADATA_KIND,
    GROUP_METADATA_VALUE_VERSION,
    OFFSET_COMMIT_KIND,
    OFFSET_COMMIT_VALUE_VERSION,
    CoordinatorRecord,
)
from twisted_kafka.protocol.messages.coordinator_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from twisted_kafka.protocol.schema import maker

_offset_commit_key = maker(OffsetCommitKey)

_EXPIRING_VALUE_VERSION = 1
"""The only version of OffsetCommitValue that has room for an expiry of its own (it has none for the leader epoch)."""


def offset_commit(group_id: str, topic: str, partition: int, value: OffsetCommitValue) -> CoordinatorRecord:
    """Return the record of one committed offset."""
    return CoordinatorRecord(
        _offset_commit_key(group=group_id, topic=topic, partition=partition),
        OFFSET_COMMIT_KIND,
        value,
        OFFSET_COMMIT_VALUE_VERSION if value.expire_timestamp == -1 else _EXPIRING_VALUE_VERSION,
    )


def offset_tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    """Return the record that removes one committed offset."""
    return CoordinatorRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), OFFSET_COMMIT_KIND, None)


def group_metadata(group_id: str, value: GroupMetadataValue) -> CoordinatorRecord:
    """Return the record of a group's generation, its members and their assignments."""
    return CoordinatorRecord(GroupMetadataKey(group=group_id), GROUP_METADATA_KIND, value, GROUP_METADATA_VALUE_VERSION)


def group_tombstone(group_id: str) -> CoordinatorRecord:
    """Return the record that removes a group."""
    return CoordinatorRecord(GroupMetadataKey(group=group_id), GROUP_METADATA_KIND, None)
