"""When a committed offset has had its time (``offsets.retention.minutes``, KIP-211)."""

from twisted_kafka.coordinator.group.classic_group import ClassicGroup
from twisted_kafka.coordinator.group.offset_store import OffsetStore
from twisted_kafka.coordinator.group.states import EMPTY, STABLE
from twisted_kafka.protocol.messages.coordinator_records import OffsetCommitValue
from twisted_kafka.protocol.topic_partition import TopicPartition


def _committed_ms(value: OffsetCommitValue) -> int:
    return value.commit_timestamp


def expired_offsets(group: ClassicGroup, offsets: OffsetStore, now_ms: int, retention_ms: int) -> list[TopicPartition]:
    """Return the partitions whose offset may go.

    A group without members keeps its offsets for the retention since its last member left; a stable consumer group, the
    ones of topics that it no longer reads since their commit; one that never had members, since their commit.
    """
    since_ms = group.state_since_ms
    if group.protocol_type is None:
        return offsets.expired(group.group_id, now_ms, retention_ms, _committed_ms)
    if group.state is EMPTY:
        if since_ms is None:  # records of old brokers don't tell
            return offsets.expired(group.group_id, now_ms, retention_ms, _committed_ms)
        return offsets.expired(group.group_id, now_ms, retention_ms, lambda _: since_ms)
    if group.state is STABLE and group.is_consumer_group() and group.subscribed_topics is not None:
        return offsets.expired(group.group_id, now_ms, retention_ms, _committed_ms, group.subscribed_topics)
    return []
