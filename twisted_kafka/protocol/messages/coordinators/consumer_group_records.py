"""Records of consumer groups in ``__consumer_offsets``; ``KEY`` is the version number before the key."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import NO_UUID, Bytes, Int8, Int32, Int64, String, Uuid


class ConsumerGroupCurrentMemberAssignmentKey(Message, key=8, versions=(0, 0)):
    """The key of the current assignment of a member of a consumer group."""

    group_id: String = ""
    member_id: String = ""


class ConsumerGroupCurrentMemberAssignmentValueTopicPartitions(Struct):
    topic_id: Uuid = NO_UUID
    partitions: list[Int32] = field(factory=list)
    assignment_epochs: list[Int32] | None = field(factory=list, tag=0)


class ConsumerGroupCurrentMemberAssignmentValue(Message, key=8, versions=(0, 0), flexible=0):
    """The partitions that a member of a consumer group owns and has to revoke."""

    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: list[ConsumerGroupCurrentMemberAssignmentValueTopicPartitions] = field(factory=list)
    partitions_pending_revocation: list[ConsumerGroupCurrentMemberAssignmentValueTopicPartitions] = field(factory=list)


class ConsumerGroupMemberMetadataKey(Message, key=5, versions=(0, 0)):
    """The key of a member of a consumer group."""

    group_id: String = ""
    member_id: String = ""


class ClassicProtocol(Struct):
    name: String = ""
    metadata: Bytes = b""


class ClassicMemberMetadata(Struct):
    session_timeout_ms: Int32 = 0
    supported_protocols: list[ClassicProtocol] = field(factory=list)


class ConsumerGroupMemberMetadataValue(Message, key=5, versions=(0, 0), flexible=0):
    """A member of a consumer group: its identity and its subscription."""

    instance_id: String | None = ""
    rack_id: String | None = ""
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: list[String] = field(factory=list)
    subscribed_topic_regex: String | None = ""
    rebalance_timeout_ms: Int32 = -1
    server_assignor: String | None = ""
    classic_member_metadata: ClassicMemberMetadata | None = field(factory=ClassicMemberMetadata, nullable=True, tag=0)


class ConsumerGroupMetadataKey(Message, key=3, versions=(0, 0)):
    """The key of a consumer group."""

    group_id: String = ""


class ConsumerGroupMetadataValue(Message, key=3, versions=(0, 0), flexible=0):
    """The epoch of a consumer group."""

    epoch: Int32 = 0
    metadata_hash: Int64 = field(default=0, tag=0)


class ConsumerGroupPartitionMetadataKey(Message, key=4, versions=(0, 0)):
    """The key of the topics that a consumer group subscribes to."""

    group_id: String = ""


class PartitionMetadata(Struct):
    partition: Int32 = 0
    racks: list[String] = field(factory=list)


class TopicMetadata(Struct):
    topic_id: Uuid = NO_UUID
    topic_name: String = ""
    num_partitions: Int32 = 0
    partition_metadata: list[PartitionMetadata] = field(factory=list)


class ConsumerGroupPartitionMetadataValue(Message, key=4, versions=(0, 0), flexible=0):
    """The topics that a consumer group subscribes to, with their partition counts."""

    topics: list[TopicMetadata] = field(factory=list)


class ConsumerGroupRegularExpressionKey(Message, key=16, versions=(0, 0)):
    """The key of a regular expression that a consumer group subscribes with."""

    group_id: String = ""
    regular_expression: String = ""


class ConsumerGroupRegularExpressionValue(Message, key=16, versions=(0, 0), flexible=0):
    """The topics that a regular expression matched."""

    topics: list[String] = field(factory=list)
    version: Int64 = 0
    timestamp: Int64 = 0


class ConsumerGroupTargetAssignmentMemberKey(Message, key=7, versions=(0, 0)):
    """The key of the target assignment of a member of a consumer group."""

    group_id: String = ""
    member_id: String = ""


class ConsumerGroupTargetAssignmentMemberValueTopicPartition(Struct):
    topic_id: Uuid = NO_UUID
    partitions: list[Int32] = field(factory=list)


class ConsumerGroupTargetAssignmentMemberValue(Message, key=7, versions=(0, 0), flexible=0):
    """The target assignment of a member of a consumer group."""

    topic_partitions: list[ConsumerGroupTargetAssignmentMemberValueTopicPartition] = field(factory=list)


class ConsumerGroupTargetAssignmentMetadataKey(Message, key=6, versions=(0, 0)):
    """The key of the metadata of a consumer group's target assignment."""

    group_id: String = ""


class ConsumerGroupTargetAssignmentMetadataValue(Message, key=6, versions=(0, 0), flexible=0):
    """The epoch of a consumer group's target assignment."""

    assignment_epoch: Int32 = 0
    assignment_timestamp: Int64 = field(default=0, tag=0)
