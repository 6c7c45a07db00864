"""Records of share groups in ``__consumer_offsets``; ``KEY`` is the version number before the key."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import NO_UUID, Int8, Int32, Int64, String, Uuid


class ShareGroupCurrentMemberAssignmentKey(Message, key=14, versions=(0, 0)):
    """The key of the current assignment of a member of a share group."""

    group_id: String = ""
    member_id: String = ""


class ShareGroupCurrentMemberAssignmentValueTopicPartitions(Struct):
    topic_id: Uuid = NO_UUID
    partitions: list[Int32] = field(factory=list)


class ShareGroupCurrentMemberAssignmentValue(Message, key=14, versions=(0, 0), flexible=0):
    """The current assignment of a member of a share group."""

    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: list[ShareGroupCurrentMemberAssignmentValueTopicPartitions] = field(factory=list)


class ShareGroupMemberMetadataKey(Message, key=10, versions=(0, 0)):
    """The key of a member of a share group."""

    group_id: String = ""
    member_id: String = ""


class ShareGroupMemberMetadataValue(Message, key=10, versions=(0, 0), flexible=0):
    """A member of a share group: its identity and its subscription."""

    rack_id: String | None = ""
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: list[String] = field(factory=list)


class ShareGroupMetadataKey(Message, key=11, versions=(0, 0)):
    """The key of a share group."""

    group_id: String = ""


class ShareGroupMetadataValue(Message, key=11, versions=(0, 0), flexible=0):
    """The epoch of a share group."""

    epoch: Int32 = 0
    metadata_hash: Int64 = 0


class ShareGroupPartitionMetadataKey(Message, key=9, versions=(0, 0)):
    """The key of the topics that a share group subscribes to, in Apache Kafka 3.9."""

    group_id: String = ""


class TopicPartitionsInfo(Struct):
    topic_id: Uuid = NO_UUID
    topic_name: String = ""
    partitions: list[Int32] = field(factory=list)


class TopicInfo(Struct):
    topic_id: Uuid = NO_UUID
    topic_name: String = ""


class ShareGroupPartitionMetadataValue(Message, key=9, versions=(0, 0), flexible=0):
    """The topics that a share group subscribes to, in Apache Kafka 3.9."""

    initialized_topics: list[TopicPartitionsInfo] = field(factory=list)
    deleting_topics: list[TopicInfo] = field(factory=list)


class ShareGroupStatePartitionMetadataKey(Message, key=15, versions=(0, 0)):
    """The key of the partitions whose share state is kept."""

    group_id: String = ""


class ShareGroupStatePartitionMetadataValue(Message, key=15, versions=(0, 0), flexible=0):
    """The partitions whose share state is initialized, being initialized or being deleted."""

    initializing_topics: list[TopicPartitionsInfo] = field(factory=list)
    initialized_topics: list[TopicPartitionsInfo] = field(factory=list)
    deleting_topics: list[TopicInfo] = field(factory=list)


class ShareGroupTargetAssignmentMemberKey(Message, key=13, versions=(0, 0)):
    """The key of the target assignment of a member of a share group."""

    group_id: String = ""
    member_id: String = ""


class ShareGroupTargetAssignmentMemberValueTopicPartition(Struct):
    topic_id: Uuid = NO_UUID
    partitions: list[Int32] = field(factory=list)


class ShareGroupTargetAssignmentMemberValue(Message, key=13, versions=(0, 0), flexible=0):
    """The target assignment of a member of a share group."""

    topic_partitions: list[ShareGroupTargetAssignmentMemberValueTopicPartition] = field(factory=list)


class ShareGroupTargetAssignmentMetadataKey(Message, key=12, versions=(0, 0)):
    """The key of the metadata of a share group's target assignment."""

    group_id: String = ""


class ShareGroupTargetAssignmentMetadataValue(Message, key=12, versions=(0, 0), flexible=0):
    """The epoch of a share group's target assignment."""

    assignment_epoch: Int32 = 0
    assignment_timestamp: Int64 = field(default=0, tag=0)
