"""Records of share groups: types 10 to 15, as Kafka 4.4 writes them."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from twisted_kafka.coordinator.coordinator_record import CoordinatorRecord, RecordKinds
from twisted_kafka.group_coordinator.state.consumer.consumer_group_member import Partitions
from twisted_kafka.group_coordinator.state.modern_records import RecordTypes, record
from twisted_kafka.group_coordinator.state.share.share_group import ShareAssignment, ShareGroup, ShareProfile
from twisted_kafka.group_coordinator.state.share.share_partitions import SharePartitions
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.messages.share.share_group_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupCurrentMemberAssignmentValueTopicPartitions,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMemberValueTopicPartition,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    TopicInfo,
    TopicPartitionsInfo,
)

TYPES: Final = RecordTypes(
    current=ShareGroupCurrentMemberAssignmentKey,
    target=ShareGroupTargetAssignmentMemberKey,
    profile=ShareGroupMemberMetadataKey,
    target_epoch=ShareGroupTargetAssignmentMetadataKey,
    group_epoch=ShareGroupMetadataKey,
)

KINDS: Final[RecordKinds] = {
    key.KEY: (key, value)
    for key, value in (
        (ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue),
        (ShareGroupMetadataKey, ShareGroupMetadataValue),
        (ShareGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataValue),
        (ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue),
        (ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue),
        (ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue),
    )
}

_STABLE: Final = 0
"""The state of a member in its record: there is no other one."""
_UNKNOWN_NAME: Final = "<UNKNOWN>"


_Listed = (
    ShareGroupCurrentMemberAssignmentValueTopicPartitions
    | ShareGroupTargetAssignmentMemberValueTopicPartition
    | TopicPartitionsInfo
)
_L = TypeVar("_L")


def _listed(make: Callable[..., _L], partitions: Partitions) -> list[_L]:
    return [make(topic_id=topic_id, partitions=sorted(indexes)) for topic_id, indexes in sorted(partitions.items())]


def _partitions(listed: Iterable[_Listed]) -> Partitions:
    return {each.topic_id: frozenset(each.partitions) for each in listed if each.partitions}


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """Return the record of the group epoch."""
    return record(ShareGroupMetadataKey(group_id=group_id), ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash))


def member_profile(group_id: str, member_id: str, profile: ShareProfile | None) -> CoordinatorRecord:
    """Return the record of a member's profile, or with None its tombstone."""
    value = None
    if profile is not None:
        value = ShareGroupMemberMetadataValue(
            rack_id=profile.rack_id,
            client_id=profile.client_id,
            client_host=profile.client_host,
            subscribed_topic_names=sorted(profile.topics),
        )
    return record(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id), value)


def target_epoch(group_id: str, epoch: int, assigned_ms: int) -> CoordinatorRecord:
    """Return the record of the target assignment's epoch."""
    value = ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=assigned_ms)
    return record(ShareGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def member_target(group_id: str, member_id: str, partitions: Partitions | None) -> CoordinatorRecord:
    """Return the record of a member's target assignment, or with None its tombstone."""
    value = None
    if partitions is not None:
        listed = _listed(ShareGroupTargetAssignmentMemberValueTopicPartition, partitions)
        value = ShareGroupTargetAssignmentMemberValue(topic_partitions=listed)
    return record(ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def member_current(group_id: str, member_id: str, current: ShareAssignment | None) -> CoordinatorRecord:
    """Return the record of a member's assignment, or with None its tombstone."""
    value = None
    if current is not None:
        value = ShareGroupCurrentMemberAssignmentValue(
            member_epoch=current.epoch,
            previous_member_epoch=current.previous_epoch,
            state=_STABLE,
            assigned_partitions=_listed(ShareGroupCurrentMemberAssignmentValueTopicPartitions, current.assigned),
        )
    return record(ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), value)


def share_partitions(group_id: str, partitions: SharePartitions) -> CoordinatorRecord:
    """Return the record of the group's share partitions."""

    def name(topic_id: bytes) -> str:
        return partitions.names.get(topic_id, _UNKNOWN_NAME)

    def listed(part: Partitions) -> list[TopicPartitionsInfo]:
        return [
            TopicPartitionsInfo(topic_id=topic_id, topic_name=name(topic_id), partitions=sorted(indexes))
            for topic_id, indexes in sorted(part.items())
        ]

    value = ShareGroupStatePartitionMetadataValue(
        initializing_topics=listed(partitions.initializing),
        initialized_topics=listed(partitions.initialized),
        deleting_topics=[TopicInfo(topic_id=topic_id, topic_name=name(topic_id)) for topic_id in sorted(partitions.deleting)],
    )
    return record(ShareGroupStatePartitionMetadataKey(group_id=group_id), value)


def group_removed(group: ShareGroup) -> list[CoordinatorRecord]:
    """Return all tombstones of a group, its members' first."""
    group_id = group.group_id
    return TYPES.group_removed(group_id, group.members, [record(ShareGroupStatePartitionMetadataKey(group_id=group_id), None)])


def replay(group: ShareGroup, key: Message, value: Message | None) -> None:
    """Apply a record to its group; the caller handles the group's own tombstone."""
    _REPLAYS[key.KEY](group, key, value)


def _replay_profile(group: ShareGroup, key: ShareGroupMemberMetadataKey, value: ShareGroupMemberMetadataValue | None) -> None:
    if value is None:
        group.remove(key.member_id)
    else:
        topics = frozenset(value.subscribed_topic_names)
        group.put_profile(key.member_id, ShareProfile(value.rack_id, value.client_id, value.client_host, topics))


def _replay_epoch(group: ShareGroup, _: object, value: ShareGroupMetadataValue) -> None:
    group.put_epochs(epoch=value.epoch)
    group.metadata_hash = value.metadata_hash


def _replay_target_epoch(group: ShareGroup, _: object, value: ShareGroupTargetAssignmentMetadataValue | None) -> None:
    group.put_epochs(target_epoch=-1 if value is None else value.assignment_epoch)
    group.assigned_ms = 0 if value is None else value.assignment_timestamp


def _replay_target(
    group: ShareGroup, key: ShareGroupTargetAssignmentMemberKey, value: ShareGroupTargetAssignmentMemberValue | None
) -> None:
    group.put_target(key.member_id, None if value is None else _partitions(value.topic_partitions))


def _replay_current(
    group: ShareGroup, key: ShareGroupCurrentMemberAssignmentKey, value: ShareGroupCurrentMemberAssignmentValue | None
) -> None:
    if value is None:
        group.forget_current(key.member_id)
    else:
        assigned = _partitions(value.assigned_partitions)
        group.put_current(key.member_id, ShareAssignment(value.member_epoch, value.previous_member_epoch, assigned))


def _replay_partitions(group: ShareGroup, _: object, value: ShareGroupStatePartitionMetadataValue | None) -> None:
    if value is None:
        group.put_partitions(None)
        return
    topics: list[TopicPartitionsInfo | TopicInfo] = [
        *value.initializing_topics,
        *value.initialized_topics,
        *value.deleting_topics,
    ]
    group.put_partitions(
        SharePartitions(
            _partitions(value.initializing_topics),
            _partitions(value.initialized_topics),
            frozenset(each.topic_id for each in value.deleting_topics),
            {each.topic_id: each.topic_name for each in topics},
        )
    )


_REPLAYS: Final[Mapping[int, Callable[..., None]]] = {
    ShareGroupMemberMetadataKey.KEY: _replay_profile,
    ShareGroupMetadataKey.KEY: _replay_epoch,
    ShareGroupTargetAssignmentMetadataKey.KEY: _replay_target_epoch,
    ShareGroupTargetAssignmentMemberKey.KEY: _replay_target,
    ShareGroupCurrentMemberAssignmentKey.KEY: _replay_current,
    ShareGroupStatePartitionMetadataKey.KEY: _replay_partitions,
}
