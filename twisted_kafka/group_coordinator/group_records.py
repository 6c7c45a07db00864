"""Records of classic groups and of offsets, in the versions that Kafka 3.9 writes (Kafka: GroupCoordinatorRecordHelpers)."""

from typing import Final

from twisted_kafka.coordinator.coordinator_record import CoordinatorRecord, RecordKinds
from twisted_kafka.protocol.compiler.schema import maker
from twisted_kafka.protocol.messages.coordinators.coordinator_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)

_OFFSET_COMMIT_KIND: Final = 1
_GROUP_METADATA_KIND: Final = 2
_OFFSET_COMMIT_VALUE_VERSION: Final = 3
_GROUP_METADATA_VALUE_VERSION: Final = 3

CLASSIC_RECORD_KINDS: Final[RecordKinds] = {
    0: (LegacyOffsetCommitKey, OffsetCommitValue),
    _OFFSET_COMMIT_KIND: (OffsetCommitKey, OffsetCommitValue),
    _GROUP_METADATA_KIND: (GroupMetadataKey, GroupMetadataValue),
}
"""The record types of offsets and of classic groups."""

_offset_commit_key = maker(OffsetCommitKey)

_EXPIRING_VALUE_VERSION = 1
"""The only version of OffsetCommitValue with an expire timestamp (and without a leader epoch)."""


def offset_commit(group_id: str, topic: str, partition: int, value: OffsetCommitValue) -> CoordinatorRecord:
    """Return the record of a committed offset."""
    return CoordinatorRecord(
        _offset_commit_key(group=group_id, topic=topic, partition=partition),
        _OFFSET_COMMIT_KIND,
        value,
        _OFFSET_COMMIT_VALUE_VERSION if value.expire_timestamp == -1 else _EXPIRING_VALUE_VERSION,
    )


def offset_tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    """Return the tombstone of a committed offset."""
    return CoordinatorRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), _OFFSET_COMMIT_KIND, None)


def group_metadata(group_id: str, value: GroupMetadataValue) -> CoordinatorRecord:
    """Return the record of a classic group's generation with its members and their assignments."""
    return CoordinatorRecord(GroupMetadataKey(group=group_id), _GROUP_METADATA_KIND, value, _GROUP_METADATA_VALUE_VERSION)


def group_tombstone(group_id: str) -> CoordinatorRecord:
    """Return the tombstone of a classic group."""
    return CoordinatorRecord(GroupMetadataKey(group=group_id), _GROUP_METADATA_KIND, None)
