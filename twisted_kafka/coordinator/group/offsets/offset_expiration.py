"""Which committed offsets have expired (``offsets.retention.minutes``, KIP-211; Kafka: OffsetExpirationCondition)."""

from twisted_kafka.coordinator.group.state.classic_group import ClassicGroup
from twisted_kafka.coordinator.group.state.classic_group_state import EMPTY, STABLE
from twisted_kafka.coordinator.group.state.consumer_group import ConsumerGroup
from twisted_kafka.coordinator.group.state.offset_store import OffsetStore
from twisted_kafka.protocol.messages.coordinator_records import OffsetCommitValue
from twisted_kafka.protocol.topic_partition import TopicPartition


def _committed_ms(value: OffsetCommitValue) -> int:
    return value.commit_timestamp


def _nothing_subscribed(_: str) -> bool:
    return False


def expired_offsets(
    group: ClassicGroup | ConsumerGroup, offsets: OffsetStore, now_ms: int, retention_ms: int
) -> list[TopicPartition]:
    """Return the partitions whose offsets have expired.

    The retention of a classic group without members starts when its last member left; if it never had members, when each offset
    was committed. In a stable classic group of consumers and in a consumer group, only offsets of topics without subscription
    expire, counted from the commit.
    """
    group_id = group.group_id
    if isinstance(group, ConsumerGroup):
        return offsets.expired(group_id, now_ms, retention_ms, _committed_ms, group.is_subscribed)
    since_ms = group.state_since_ms
    if group.state is EMPTY and group.protocol_type is not None and since_ms is not None:
        emptied_ms: int = since_ms
        return offsets.expired(group_id, now_ms, retention_ms, lambda _: emptied_ms, _nothing_subscribed)
    if group.state is EMPTY:  # it never had members, or its record is by an old broker and has no timestamp
        return offsets.expired(group_id, now_ms, retention_ms, _committed_ms, _nothing_subscribed)
    if group.state is STABLE and group.subscribed_topics is not None:
        return offsets.expired(group_id, now_ms, retention_ms, _committed_ms, group.subscribed_topics.__contains__)
    return []
