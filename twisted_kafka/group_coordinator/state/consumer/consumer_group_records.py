"""Records of consumer groups: types 3 to 8 of Kafka 3.9, and 16 for regular expressions, which Kafka 4 introduced."""

from collections.abc import Callable, Mapping
from typing import Final

from twisted_kafka.coordinator.coordinator_record import CoordinatorRecord, RecordKinds
from twisted_kafka.group_coordinator.state.classic_group_member import Protocols
from twisted_kafka.group_coordinator.state.consumer.consumer_group import ConsumerGroup, ResolvedRegex
from twisted_kafka.group_coordinator.state.consumer.consumer_group_member import (
    ClassicMetadata,
    CurrentAssignment,
    Partitions,
    Profile,
    partitions_of,
)
from twisted_kafka.group_coordinator.state.consumer.consumer_group_state import MemberState
from twisted_kafka.group_coordinator.state.modern_records import RecordTypes, record
from twisted_kafka.group_coordinator.state.topic_image import TopicInfo
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.messages.coordinators.consumer_group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupCurrentMemberAssignmentValueTopicPartitions,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMemberValueTopicPartition,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicMetadata,
)

TYPES: Final = RecordTypes(
    current=ConsumerGroupCurrentMemberAssignmentKey,
    target=ConsumerGroupTargetAssignmentMemberKey,
    profile=ConsumerGroupMemberMetadataKey,
    target_epoch=ConsumerGroupTargetAssignmentMetadataKey,
    group_epoch=ConsumerGroupMetadataKey,
)

KINDS: Final[RecordKinds] = {
    key.KEY: (key, value)
    for key, value in (
        (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
        (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
        (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
        (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
        (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
        (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
        (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
    )
}


def group_epoch(group_id: str, epoch: int | None) -> CoordinatorRecord:
    """Return the record of the group epoch, or with None its tombstone."""
    return record(ConsumerGroupMetadataKey(group_id=group_id), None if epoch is None else ConsumerGroupMetadataValue(epoch=epoch))


def subscribed_topics(group_id: str, topics: Mapping[str, TopicInfo] | None) -> CoordinatorRecord:
    """Return the record of the group's subscribed topics, or with None its tombstone."""
    value = None
    if topics is not None:
        value = ConsumerGroupPartitionMetadataValue(
            topics=[
                TopicMetadata(topic_id=info.topic_id, topic_name=name, num_partitions=info.partition_count)
                for name, info in sorted(topics.items())
            ]
        )
    return record(ConsumerGroupPartitionMetadataKey(group_id=group_id), value)


def member_profile(group_id: str, member_id: str, profile: Profile | None) -> CoordinatorRecord:
    """Return the record of a member's profile, or with None its tombstone."""
    value = None
    if profile is not None:
        classic = profile.classic
        value = ConsumerGroupMemberMetadataValue(
            instance_id=profile.instance_id,
            rack_id=profile.rack_id,
            client_id=profile.client_id,
            client_host=profile.client_host,
            subscribed_topic_names=sorted(profile.topics),
            subscribed_topic_regex=profile.regex or "",
            rebalance_timeout_ms=profile.rebalance_timeout_ms,
            server_assignor=profile.assignor,
            classic_member_metadata=None
            if classic is None
            else ClassicMemberMetadata(
                session_timeout_ms=classic.session_timeout_ms,
                supported_protocols=[ClassicProtocol(name=name, metadata=metadata) for name, metadata in classic.protocols],
            ),
        )
    return record(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), value)


def target_epoch(group_id: str, epoch: int, assigned_ms: int) -> CoordinatorRecord:
    """Return the record of the target assignment's epoch, and of when it was computed; 0 without an interval."""
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=assigned_ms)
    return record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def member_target(group_id: str, member_id: str, partitions: Partitions | None) -> CoordinatorRecord:
    """Return the record of a member's target assignment, or with None its tombstone."""
    value = None
    if partitions is not None:
        value = ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                ConsumerGroupTargetAssignmentMemberValueTopicPartition(topic_id=topic_id, partitions=sorted(indexes))
                for topic_id, indexes in sorted(partitions.items())
            ]
        )
    return record(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def member_current(group_id: str, member_id: str, current: CurrentAssignment | None) -> CoordinatorRecord:
    """Return the record of a member's current assignment, or with None its tombstone."""
    value = None
    if current is not None:
        value = ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=current.epoch,
            previous_member_epoch=current.previous_epoch,
            state=current.state,
            assigned_partitions=_listed(current.assigned),
            partitions_pending_revocation=_listed(current.revoking),
        )
    return record(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), value)


def _listed(partitions: Partitions) -> list[ConsumerGroupCurrentMemberAssignmentValueTopicPartitions]:
    return [
        ConsumerGroupCurrentMemberAssignmentValueTopicPartitions(topic_id=topic_id, partitions=sorted(indexes))
        for topic_id, indexes in sorted(partitions.items())
    ]


def resolved_regex(group_id: str, regex: str, resolved: ResolvedRegex | None) -> CoordinatorRecord:
    """Return the record of the topics that a regular expression matched, or with None its tombstone."""
    value = None
    if resolved is not None:
        value = ConsumerGroupRegularExpressionValue(topics=sorted(resolved.topics), timestamp=resolved.resolved_ms)
    return record(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), value)


def group_removed(group: ConsumerGroup) -> list[CoordinatorRecord]:
    """Return all tombstones of a group, its members' first."""
    group_id = group.group_id
    regexes = (resolved_regex(group_id, regex, None) for regex in group.regexes)
    return TYPES.group_removed(group_id, group.members, (*regexes, subscribed_topics(group_id, None)))


def group_created(group: ConsumerGroup) -> list[CoordinatorRecord]:
    """Return all records of a group, for one that was converted."""
    group_id, members = group.group_id, group.members.values()
    return [
        *(member_profile(group_id, member.member_id, member.profile) for member in members),
        subscribed_topics(group_id, group.topics),
        group_epoch(group_id, group.epoch),
        *(member_target(group_id, member_id, partitions) for member_id, partitions in group.target.items()),
        target_epoch(group_id, group.target_epoch, group.assigned_ms),
        *(member_current(group_id, member.member_id, member.current) for member in members),
    ]


def replay(group: ConsumerGroup, key: Message, value: Message | None) -> None:
    """Apply a record to its group; the caller handles the group's own tombstone."""
    _REPLAYS[key.KEY](group, key, value)


def _replay_current(
    group: ConsumerGroup, key: ConsumerGroupCurrentMemberAssignmentKey, value: ConsumerGroupCurrentMemberAssignmentValue | None
) -> None:
    if value is None:
        group.forget_current(key.member_id)
    else:
        group.put_current(key.member_id, _current(value))


def _replay_target(
    group: ConsumerGroup, key: ConsumerGroupTargetAssignmentMemberKey, value: ConsumerGroupTargetAssignmentMemberValue | None
) -> None:
    group.put_target(key.member_id, None if value is None else partitions_of(value.topic_partitions))


def _replay_profile(
    group: ConsumerGroup, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue | None
) -> None:
    if value is None:
        group.remove(key.member_id)
    else:
        group.put_profile(key.member_id, _profile(value))


def _replay_epoch(group: ConsumerGroup, _: object, value: ConsumerGroupMetadataValue | None) -> None:
    group.put_epochs(epoch=0 if value is None else value.epoch)


def _replay_target_epoch(group: ConsumerGroup, _: object, value: ConsumerGroupTargetAssignmentMetadataValue | None) -> None:
    group.put_epochs(target_epoch=-1 if value is None else value.assignment_epoch)
    group.assigned_ms = 0 if value is None else value.assignment_timestamp


def _replay_topics(group: ConsumerGroup, _: object, value: ConsumerGroupPartitionMetadataValue | None) -> None:
    group.topics = {
        topic.topic_name: TopicInfo(topic.topic_id, topic.num_partitions) for topic in (() if value is None else value.topics)
    }


def _replay_regex(
    group: ConsumerGroup, key: ConsumerGroupRegularExpressionKey, value: ConsumerGroupRegularExpressionValue | None
) -> None:
    resolved = None if value is None else ResolvedRegex(frozenset(value.topics), value.timestamp)
    group.put_regex(key.regular_expression, resolved)


_REPLAYS: Final[Mapping[int, Callable[..., None]]] = {
    ConsumerGroupCurrentMemberAssignmentKey.KEY: _replay_current,
    ConsumerGroupTargetAssignmentMemberKey.KEY: _replay_target,
    ConsumerGroupMemberMetadataKey.KEY: _replay_profile,
    ConsumerGroupMetadataKey.KEY: _replay_epoch,
    ConsumerGroupTargetAssignmentMetadataKey.KEY: _replay_target_epoch,
    ConsumerGroupPartitionMetadataKey.KEY: _replay_topics,
    ConsumerGroupRegularExpressionKey.KEY: _replay_regex,
}


def _current(value: ConsumerGroupCurrentMemberAssignmentValue) -> CurrentAssignment:
    return CurrentAssignment(
        value.member_epoch,
        value.previous_member_epoch,
        MemberState.of(value.state),
        partitions_of(value.assigned_partitions),
        partitions_of(value.partitions_pending_revocation),
    )


def _profile(value: ConsumerGroupMemberMetadataValue) -> Profile:
    classic = value.classic_member_metadata
    protocols: Protocols = () if classic is None else tuple((each.name, each.metadata) for each in classic.supported_protocols)
    return Profile(
        value.instance_id,
        value.rack_id,
        value.client_id,
        value.client_host,
        frozenset(value.subscribed_topic_names),
        value.subscribed_topic_regex or None,
        value.rebalance_timeout_ms,
        value.server_assignor,
        None if classic is None else ClassicMetadata(classic.session_timeout_ms, protocols),
    )
